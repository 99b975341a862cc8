"""KG308: a result cast to a literal half type on the store."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.model.device import Device
from kgate.lint.records import Candidate
from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.numerics._dtypes import dtypes_of
from kgate.source.records import Finding

RULE = Rule(
    code="KG308",
    name="hard-coded-store-dtype",
    severity=WARNING,
    summary="A stored value is cast to a literal half type, and the output may have another type.",
    why=(
        "A kernel that was written for one dtype rounds to it whatever the output's type is: float32 inputs come back "
        "with three digits, and large bfloat16 values as infinities of float16."
    ),
    remedy="Cast to the output's own type, `y_ptr.dtype.element_ty`, or leave the cast to the store.",
    quiet="Outputs whose declared dtype is just the literal; kernels without a declaration.",
    sources=("LMCache/LMCache#3092",),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
                tl.store(y_ptr + offs, (x * 2).to(tl.float16), mask=offs < n)
                                       ^^^^^^^^^^^^^^^^^^^^^^

            def double_eager(x):
                return x * 2

            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "bfloat16")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.shape[0], BLOCK=1024)
                return y
        """,
            note="LMCache#3092, before.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
                tl.store(y_ptr + offs, (x * 2).to(y_ptr.dtype.element_ty), mask=offs < n)

            def double_eager(x):
                return x * 2

            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "bfloat16")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.shape[0], BLOCK=1024)
                return y
        """,
            note="LMCache#3092, after.",
        ),
    ),
)


_HALF = ("float16", "bfloat16")


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Stores of values that were cast to a literal half type."""
    for call in device.called("store"):
        value, address = call.argument("value"), call.first
        if value is None or address is None:
            continue
        kind = device.type_of(value)
        pointers = device.pointers(address)
        if kind in _HALF and len(pointers) == 1:
            pointer = next(iter(pointers))
            yield Hit(
                value,
                f"what is stored to {pointer} is cast to {kind}",
                f"cast to {pointer}.dtype.element_ty",
                data={"pointer": pointer, "dtype": kind},
            )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """A finding where a declaration lets the output have another type."""
    device = project.device(candidate.path, candidate.symbol)
    for kernel in device.kernels if device is not None else ():
        allowed = dtypes_of(kernel, device, candidate.data["pointer"]) if device is not None else frozenset()
        others = sorted(allowed - {candidate.data["dtype"]})
        if others:
            told = f"{candidate.message}, and {kernel.name} promises {' and '.join(others)} too"
            yield project.confirm(RULE, candidate, told)
            return
