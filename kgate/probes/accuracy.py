"""The accuracy rule: how far an output may be from the reference in float64, element by element.

Runs in the worker (needs torch). Per element there is a noise floor

    u(out) |ref| + m u(in) |ref| + c sqrt(K) u(acc) A + tiny(out)

where u is the unit roundoff, m the declared intermediate roundings, K the reduction length and A the sum of
the magnitudes of the terms (by default the largest |ref| in the row). A case passes when the largest
|error| / floor is at most 2 (4 for gradients) and its root mean square at most 1. Where the inputs are random and the
output is narrower than the accumulator, what an output has beyond the rounded reference must have no trend either: no
bias, and no scale of a whole row, which is how sums in too narrow a dtype and truncation show far below the noise of a
single element. (Not the error itself: the rounding of a row times a factor near one is a trend, and right.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

ELEMENT_BOUND = 2.0
GRADIENT_BOUND = 4.0
RMS_BOUND = 1.0
BIAS_BOUND = 0.15
TREND_BOUND = 6.0
"""Standard errors from which a trend is one."""

_SCALE_BOUND = 0.1
"""Unit roundoffs of the output by which a whole row may be off."""
_FEWEST_ELEMENTS, _FEWEST_IN_ROW, _FEWEST_VALUES = 1024, 256, 100
"""What a trend needs to be told from the grid of the dtype: elements, elements in a row, different ones."""

_TF32 = 2.0**-11
_ROUNDOFF: dict[str, float] = {"tf32": 2.0**-24, "float64": 2.0**-53}


@dataclass(frozen=True)
class Budget:
    """What an output's ``Numerics`` come to for one case."""

    reduction: int = 1
    """K, the length of the reduction."""
    accumulator: str = "float32"
    """Dtype name that sums are kept in; ``tf32`` for float32 sums whose float32 factors are rounded to tf32."""
    roundings: int = 0
    """m, roundings to the input dtype on the way."""
    chain: float = 1.0
    """c, 1, or 2 through chains of exp."""
    inputs: tuple[str, ...] = ()
    """Names of the floating-point input dtypes."""
    magnitude: Any = None
    """A, as a float64 tensor that broadcasts against the output; None for the row's largest |ref|."""
    nan: str = "propagate"
    """``propagate``, ``ignore`` or ``unspecified``."""
    signed_zero: bool = False
    """Whether the sign of zero is part of the promise."""
    spread: bool = False
    """Whether intermediate roundings act on terms that cancel (gradients), so that m u(in) multiplies A, not |ref|."""


@dataclass(frozen=True)
class Judgement:
    """Whether one output is right, and the figures behind it."""

    right: bool
    figures: dict[str, float | int] = field(default_factory=dict)
    """``err_over_floor``, ``rms_over_floor``, ``wrong`` and ``elements``."""
    message: str = ""
    """What is wrong, in one sentence."""
    worst: dict[str, Any] = field(default_factory=dict)
    """``index``, ``got``, ``want`` and ``allowed`` at the worst element."""


def unit_roundoff(dtype: str) -> float:
    """Unit roundoff of a dtype by name; 0 for integers and bool."""
    if dtype in _ROUNDOFF:
        return _ROUNDOFF[dtype]
    kind = getattr(torch, dtype)
    if not (kind.is_floating_point or kind.is_complex):
        return 0.0
    return float(torch.finfo(kind).eps) / 2


def _accumulation(budget: Budget) -> float:
    noise = budget.chain * math.sqrt(max(budget.reduction, 1)) * unit_roundoff(budget.accumulator)
    rounded = budget.accumulator == "tf32" and "float32" in budget.inputs
    return noise + (2 * _TF32 if rounded else 0.0)


def floor(want: Any, dtype: str, budget: Budget) -> Any:
    """The noise floor of every element, float64, of the shape of ``want`` (float64)."""
    size = torch.nan_to_num(want, nan=0.0, posinf=0.0, neginf=0.0).abs()
    inputs = max((unit_roundoff(name) for name in budget.inputs), default=0.0)
    rounding = budget.roundings * inputs
    magnitude = budget.magnitude if budget.magnitude is not None else _row_magnitude(size)
    smallest = float(torch.finfo(getattr(torch, dtype)).tiny)
    noise = unit_roundoff(dtype) * size + _accumulation(budget) * magnitude + smallest
    return noise + rounding * (magnitude if budget.spread else size)


def _row_magnitude(size: Any) -> Any:
    return size.amax(dim=-1, keepdim=True) if size.dim() and size.numel() else size


def judge(
    got: Any, want: Any, dtype: str, budget: Budget, *, bound: float = ELEMENT_BOUND, random: bool = False
) -> Judgement:
    """Judge values alone: ``got`` as the kernel gave it, ``want`` the reference (float64 where it can be).

    ``random`` says that the inputs are, so that errors without a trend can be expected. Shape, dtype and strides are
    :func:`structure`'s.
    """
    if not got.numel():
        return Judgement(True, {"err_over_floor": 0.0, "rms_over_floor": 0.0, "wrong": 0, "elements": 0})
    if not (got.is_floating_point() or got.is_complex()):
        return _exact(got, want)
    if got.is_complex():
        got, want = torch.view_as_real(got), torch.view_as_real(want.to(torch.complex128))
        dtype = str(got.dtype).removeprefix("torch.")
    got, want = got.to(torch.float64), want.to(torch.float64)
    odd = _misplaced(got, want, dtype, budget)
    if bool(odd.any()):
        return _special(got, want, odd)
    verdict = _measured(got, want, dtype, budget, bound)
    if random and verdict.right and unit_roundoff(dtype) > 4 * unit_roundoff(budget.accumulator):
        error = got - want.to(getattr(torch, dtype)).to(torch.float64)
        trend = bias(error, want, dtype, budget) or row_scale(error, want, dtype, budget)
        if trend:
            return Judgement(False, verdict.figures, trend, verdict.worst)
    return verdict


def _exact(got: Any, want: Any) -> Judgement:
    differs = got != want.to(got.dtype) if got.dtype != want.dtype else got != want
    wrong = int(differs.sum())
    figures: dict[str, float | int] = {"wrong": wrong, "elements": got.numel()}
    if not wrong:
        return Judgement(True, {"err_over_floor": 0.0, "rms_over_floor": 0.0, **figures})
    return Judgement(False, figures, f"{wrong} of {got.numel()} integers differ", _at(got, want, _first(differs), 0.0))


def _misplaced(got: Any, want: Any, dtype: str, budget: Budget) -> Any:
    """Where NaN, infinity or a promised signed zero is in one and not in the other."""
    largest = float(torch.finfo(getattr(torch, dtype)).max)
    rounded = want.to(getattr(torch, dtype)).to(torch.float64)
    infinite = torch.where(torch.isinf(rounded), rounded, torch.zeros_like(rounded))
    found = torch.where(torch.isinf(got), got, torch.zeros_like(got))
    close = torch.isfinite(want) & (want.abs() > largest * (1 - 2 * unit_roundoff(dtype)))
    odd = (found != infinite) & ~close
    if budget.nan == "propagate":
        odd |= torch.isnan(got) != torch.isnan(rounded)
    elif budget.nan == "ignore":
        odd |= torch.isnan(got) & ~torch.isnan(rounded)
    if budget.nan != "propagate":
        odd &= ~torch.isnan(want)
    if budget.signed_zero:
        odd |= (got == 0) & (want == 0) & (torch.signbit(got) != torch.signbit(want))
    return odd


def _special(got: Any, want: Any, odd: Any) -> Judgement:
    wrong = int(odd.sum())
    index = _first(odd)
    figures: dict[str, float | int] = {"wrong": wrong, "elements": got.numel()}
    message = f"{wrong} of {got.numel()} elements are NaN, infinite or a signed zero in one of the two only"
    return Judgement(False, figures, message, _at(got, want, index, 0.0))


def _measured(got: Any, want: Any, dtype: str, budget: Budget, bound: float) -> Judgement:
    usable = torch.isfinite(got) & torch.isfinite(want)
    noise = floor(want, dtype, budget)
    ratio = torch.where(usable, (got - want).abs() / noise, torch.zeros_like(noise))
    worst = float(ratio.max())
    rms = float(torch.sqrt((ratio[usable] ** 2).mean())) if bool(usable.any()) else 0.0
    wrong = int((ratio > bound).sum())
    figures: dict[str, float | int] = {
        "err_over_floor": _short(worst),
        "rms_over_floor": _short(rms),
        "wrong": wrong,
        "elements": got.numel(),
    }
    index = _unravel(int(ratio.argmax()), ratio.shape)
    evidence = _at(got, want, index, bound * float(noise[index]))
    if wrong:
        message = (
            f"{wrong} of {got.numel()} elements are off by more than {bound:g} x the noise floor (worst {worst:.3g} x)"
        )
        return Judgement(False, figures, message, evidence)
    if rms > RMS_BOUND:
        message = f"the root mean square of the error is {rms:.3g} x the noise floor, allowed is {RMS_BOUND:g} x"
        return Judgement(False, figures, message, evidence)
    return Judgement(True, figures, "", evidence)


def bias(error: Any, want: Any, dtype: str, budget: Budget) -> str:
    """What is wrong where errors lean to one side, away from zero or towards it; empty where they do not.

    ``error`` is what the output has beyond the rounded reference, ``want`` the reference, both float64.
    """
    usable = torch.isfinite(error) & torch.isfinite(want)
    count = int(usable.sum())
    if count < _FEWEST_ELEMENTS or want[usable].unique().numel() < _FEWEST_VALUES:
        return ""
    lean = float((torch.sign(want) * error / floor(want, dtype, budget))[usable].mean())
    allowed = max(BIAS_BOUND, TREND_BOUND / math.sqrt(count))
    if abs(lean) <= allowed:
        return ""
    side = "away from zero" if lean > 0 else "towards zero"
    return f"errors lean {side}: {lean:.2g} x the noise floor on average, allowed is {allowed:.2g} x (truncation?)"


def row_scale(error: Any, want: Any, dtype: str, budget: Budget) -> str:
    """What is wrong where a whole row is off by one factor; empty where none is.

    The slope of ``error`` (what the output has beyond the rounded reference) on the reference in a row, against its
    standard error and against what the accumulator and the declared roundings may do to a whole row.
    """
    if want.dim() == 0 or want.shape[-1] < _FEWEST_IN_ROW:
        return ""
    inputs = max((unit_roundoff(name) for name in budget.inputs), default=0.0)
    least = _SCALE_BOUND * unit_roundoff(dtype) + 2 * budget.roundings * inputs
    worst, found = 0.0, ""
    rows = zip(error.reshape(-1, want.shape[-1]), want.reshape(-1, want.shape[-1]), strict=True)
    for number, (off, ref) in enumerate(rows):
        if not _tellable(off, ref):
            continue
        energy = float((ref * ref).sum())
        slope = float((off * ref).sum()) / energy
        uncertain = float((((off - slope * ref) * ref) ** 2).sum()) ** 0.5 / energy
        size = float(ref.abs().max()) / math.sqrt(energy / ref.numel())
        allowed = max(least + 2 * _accumulation(budget) * size, TREND_BOUND * uncertain)
        if abs(slope) > max(allowed, worst):
            worst = abs(slope)
            found = f"row {number} is off by a factor of {1 + slope:.6g}, allowed is 1 +- {allowed:.2g}"
    return f"{found} (a sum in too narrow a dtype, or a wrong divisor?)" if found else ""


def _tellable(off: Any, ref: Any) -> bool:
    """Whether a row has enough different elements, none of them dominant, to tell a factor from rounding."""
    if not bool(torch.isfinite(off).all() & torch.isfinite(ref).all()) or ref.unique().numel() < _FEWEST_VALUES:
        return False
    squares = ref * ref
    fourth = float((squares * squares).sum())
    return fourth > 0 and float(squares.sum()) ** 2 / fourth >= _FEWEST_VALUES


def structure(got: Any, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None) -> str:
    """What is wrong with an output before any value is looked at; empty where nothing is.

    ``strides`` are those promised, None where the declaration promises none.
    """
    if not isinstance(got, torch.Tensor):
        return f"is {type(got).__name__}, a tensor was promised"
    if tuple(got.shape) != tuple(shape):
        return f"has shape {tuple(got.shape)}, {tuple(shape)} was promised"
    if str(got.dtype) != f"torch.{dtype}":
        return f"is {str(got.dtype).removeprefix('torch.')}, {dtype} was promised"
    if strides is not None and tuple(got.stride()) != tuple(strides):
        return f"has strides {tuple(got.stride())}, {tuple(strides)} was promised"
    return ""


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _unravel(flat: int, shape: Any) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(tuple(shape)):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def _first(mask: Any) -> tuple[int, ...]:
    return _unravel(int(mask.reshape(-1).to(torch.uint8).argmax()), mask.shape)


def _at(got: Any, want: Any, index: tuple[int, ...], allowed: float) -> dict[str, Any]:
    return {
        "index": list(index),
        "got": _plain(got[index].item()),
        "want": _plain(want[index].item()),
        "allowed": _plain(allowed),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value
