"""KG204 wrong-other-identity: masked lanes are filled with something that changes the reduction."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.memory._shared import ADDITIONS, Reach, number_of, reaches, runs_over
from kgate.lint.rules.numerics._dtypes import dtypes_of

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG204",
    name="wrong-other-identity",
    severity=WARNING,
    summary="Masked lanes are filled with a value that is not the identity of the reduction they go into.",
    why=(
        "Zeros in a maximum win over a row of negative numbers, zeros in a minimum over positive ones, and an infinity "
        "in a sum makes the sum infinite. Only blocks with masked lanes are wrong, so that tests with round sizes pass."
    ),
    remedy=(
        "Fill with `-inf` for a maximum, `inf` for a minimum, 0 for a sum and 1 for a product; of integers, with the "
        "smallest or largest value of the type. Where one block goes into several reductions that want different "
        "values, choose with `tl.where(mask, x, identity)` before each of them."
    ),
    quiet=(
        "Data that cannot be negative (an absolute value, a square, an exponential, lengths and counts), reductions "
        "along an axis that is not masked, and values that pass another `tl.where` first."
    ),
    sources=("kakaobrain/trident#143", "flagos-ai/FlagGems#494"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_max(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                                                               ^^^
                tl.store(y_ptr, tl.max(x, axis=0))
            """,
            note="trident#143, before: the maximum of a row of negative numbers is 0.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                keep = offs < n
                x = tl.load(x_ptr + offs, mask=keep, other=-float("inf"))
                                                           ^^^^^^^^^^^^^
                tl.store(y_ptr, tl.sum(x, axis=0))
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def smoothed(x_ptr, y_ptr, w, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
                                                               ^^^^^^^^^^^^^
                m = tl.max(x, axis=0)
                tl.store(y_ptr, m + tl.log(tl.sum(tl.exp(x - m), axis=0)))
                tl.store(y_ptr + 1, tl.sum(x * w, axis=0))
            """,
            note="The maximum wants the infinity and the last sum zeros: `tl.where` before that sum serves both.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def first_small(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                keep = offs < n
                x = tl.load(x_ptr + offs, mask=keep)
                tl.store(y_ptr, tl.argmin(tl.where(keep, x, 0.0), axis=0))
                                                            ^^^
            """,
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.amax(dim=-1)

            @triton.jit
            def _largest(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
                                                                         ^^^^^^^^^^^^^
                tl.store(y_ptr + row, tl.max(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "T", layout="contiguous")},
                outputs={"y": Tensor("M", "T")},
                dtypes={"T": ("float32", "int32")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 4096)},
            ))
            def largest(x):
                M, N = x.shape
                y = torch.empty((M,), device=x.device, dtype=x.dtype)
                _largest[(M,)](x, y, N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="FlagGems#494, before: the envelope has int32, which holds no infinity.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_max(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
                tl.store(y_ptr, tl.max(x, axis=0))
            """,
            note="trident#143, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.store(y_ptr, tl.max(tl.abs(x), axis=0) / 448.0)
            """,
            note="An absolute value is at least 0, and 0 is the identity of its maximum.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.amax(dim=-1)

            @triton.jit
            def _largest(x_ptr, y_ptr, N, LEAST: tl.constexpr, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=LEAST)
                tl.store(y_ptr + row, tl.max(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "T", layout="contiguous")},
                outputs={"y": Tensor("M", "T")},
                dtypes={"T": ("float32", "int32")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 4096)},
            ))
            def largest(x):
                M, N = x.shape
                y = torch.empty((M,), device=x.device, dtype=x.dtype)
                least = torch.iinfo(x.dtype).min if x.dtype == torch.int32 else -float("inf")
                _largest[(M,)](x, y, N, LEAST=least, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="FlagGems#494, after.",
        ),
    ),
)

_LINEAR = frozenset({"*", "/", "+=", "negated"})
_ZERO_AT_ZERO = frozenset({"square", "abs", "sqrt", "sin", "erf", "tanh", "floor", "ceil"})
_NOT_NEGATIVE = re.compile(
    r"len|count|idx|ind(ex|ices)|ids?($|_)|mask|size|offset|prob|num|cu_|var|amax|scale|absmax|cumsum|prefix"
)
_HUGE = 1e30
_ORDERING = ("max", "argmax", "min", "argmin", "cumprod")
"""What zeros may change."""


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Fillings of masked loads and of ``tl.where``."""
    ordering = any(device.calls.get(name) for name in _ORDERING)
    if not ordering and not any(device.calls.get(name) for name in ADDITIONS):
        return
    for call in device.called("load", "where"):
        if call.name == "load":
            mask, other = call.argument("mask"), call.argument("other")
        else:
            mask, other = call.argument("condition"), call.argument("y")
        if mask is None or other is None or call.spread:
            continue
        filling = number_of(device, other)
        if filling is not None and abs(filling) == math.inf and call.name == "load":
            kind = device.type_of(call.node)
            if kind.startswith("elem:"):
                yield Hit(
                    other,
                    f"masked lanes are filled with {device.module.segment(other)}, which no integer holds",
                    "fill with the smallest or largest value of the type",
                    data={"pointer": kind[5:]},
                )
        if filling is None or not (ordering or abs(filling) >= _HUGE):
            continue
        masked = device.tiles.bounded(mask)
        if not masked:
            continue
        found = list(reaches(device, call.node))
        for reach in found:
            wanted = _identity(device, call.node, filling, reach)
            if wanted and runs_over(device, reach) & masked:
                shown = device.module.segment(other)
                yield Hit(
                    other,
                    f"masked lanes are filled with {shown}, which is not the identity of tl.{reach.sink.name} in line "
                    f"{reach.sink.node.lineno}",
                    _remedy(wanted, reach, found),
                    related=((reach.sink.node, "reduced here"),),
                )
                break


def _identity(device: Device, value: ast.Call, filling: float, reach: Reach) -> str:
    """What the lanes should hold; empty where the filling does no harm."""
    name, through = reach.sink.name, reach.through
    if name in ("max", "argmax"):
        if filling == 0 and through <= _LINEAR and not _cannot_be_negative(device, value, reach):
            return '-float("inf"), or the least value of an integer type'
        if filling >= _HUGE and not through:
            return '-float("inf")'
    elif name in ("min", "argmin"):
        if filling == 0 and not through - _LINEAR - {"abs", "square", "sqrt"}:
            return 'float("inf"), or the largest value of an integer type'
        if filling <= -_HUGE and not through:
            return 'float("inf")'
    elif name in ("sum", "dot", "cumsum"):
        if abs(filling) >= _HUGE and through <= _LINEAR | {"+", "-", "square"}:
            return "0"
    elif name == "cumprod" and filling == 0 and through <= {"*"}:
        return "1"
    return ""


def _remedy(wanted: str, reach: Reach, found: list[Reach]) -> str:
    """Another filling, where all that the block reaches can have it; else a choice before the one reduction."""
    if all(_takes(other, wanted) for other in found):
        return f"fill with {wanted}"
    return f"choose with tl.where(mask, ..., {wanted.partition(',')[0]}) before tl.{reach.sink.name}"


def _takes(reach: Reach, wanted: str) -> bool:
    """Whether lanes filled with an identity leave a reduction right."""
    name, through = reach.sink.name, reach.through
    if wanted == "0":
        return name in ADDITIONS and through <= _LINEAR | _ZERO_AT_ZERO
    if wanted == "1":
        return name == "cumprod"
    if wanted.startswith("-"):
        vanishes = bool(through & {"exp", "exp2"}) and "negated" not in through
        return name in ("max", "argmax", "softmax") or (name == "sum" and vanishes)
    return name in ("min", "argmin")


def _cannot_be_negative(device: Device, value: ast.Call, reach: Reach) -> bool:
    """Whether what was loaded or chosen is a count, an index, a probability or an absolute value."""
    call = device.call_of[value]
    filled = call.argument("other" if call.name == "load" else "y")
    integral = isinstance(filled, ast.Constant) and isinstance(filled.value, int)
    if integral and not device.type_of(reach.argument).startswith(("float", "bfloat")):
        return True  # of integers, counts and indices are the rule
    if call.name == "where":
        chosen = call.argument("x")
        return chosen is None or _computed_not_negative(device, chosen)
    return any(_NOT_NEGATIVE.search(name.lower()) for name in device.pointers(call.first)) if call.first else True


def _computed_not_negative(device: Device, node: ast.expr, depth: int = 0) -> bool:
    node = device.value_of(node)
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, (int, float)) or node.value >= 0
    if isinstance(node, ast.BinOp) and depth < 10:
        same = isinstance(node.op, ast.Mult) and device.tiles.number(node.left) == device.tiles.number(node.right)
        both = isinstance(node.op, (ast.Add, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod))
        return same or (
            both
            and _computed_not_negative(device, node.left, depth + 1)
            and _computed_not_negative(device, node.right, depth + 1)
        )
    if isinstance(node, ast.Call):
        call = device.call_of.get(node)
        name = call.name if call is not None else ""
        if name in ("abs", "exp", "exp2", "sigmoid", "sqrt", "rsqrt", "arange", "program_id", "softmax", ""):
            return True
        if name in ("to", "cast") and call is not None and call.first is not None:
            return device.type_of(call.first) == "int1" or _computed_not_negative(device, call.first, depth + 1)
        if name == "load" and call is not None and call.first is not None:
            return any(_NOT_NEGATIVE.search(item.lower()) for item in device.pointers(call.first))
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.Name):
        return bool(_NOT_NEGATIVE.search(node.id.lower()))
    return False


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """An infinity into what a declaration lets be integers."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    for kernel in device.kernels:
        held = dtypes_of(kernel, device, candidate.data["pointer"])
        integers = sorted(name for name in held if name.startswith(("int", "uint")))
        if integers:
            told = f"{candidate.message}, and {kernel.name} declares {' and '.join(integers)}"
            yield project.confirm(RULE, candidate, told)
            return
