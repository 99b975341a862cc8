"""KG310: floats added atomically, in whatever order the programs arrive."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.model.device import Device
from kgate.lint.records import Candidate
from kgate.lint.rule import NOTE, Example, Hit, Rule
from kgate.source.records import Finding

_BODY = """
    import triton
    import triton.language as tl

    @triton.jit
    def column_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
        {store}

    def launch(x, y):
        column_sum[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
"""

RULE = Rule(
    code="KG310",
    name="float-atomics",
    severity=NOTE,
    summary="A kernel adds floats atomically, so that the result differs from run to run.",
    why=(
        "Programs finish in no particular order, and floating-point addition is not associative. Training runs cannot "
        "be repeated, a result depends on the batch it was computed in, and a difference between two versions cannot "
        "be told from noise."
    ),
    remedy="Let each program write its part, and reduce the parts in a fixed order.",
    quiet="Integers; maxima and minima, whose result does not depend on the order.",
    default=False,
    off_because=(
        "Where atomics are used they are mostly meant, and the declaration has no word yet for a kernel that promises "
        "to be deterministic."
    ),
    sources=("Dao-AILab/flash-attention#429", "state-spaces/mamba#827"),
    invalid=(
        Example(
            _BODY.format(
                store="tl.atomic_add(y_ptr + offs, x.to(tl.float32), mask=offs < n)\n"
                "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
            ),
            note="flash-attention#429 and mamba#827, before: sums over all programs in no order.",
        ),
    ),
    valid=(
        Example(
            _BODY.format(store="tl.store(y_ptr + tl.program_id(0) * n + offs, x, mask=offs < n)"),
            note="flash-attention#429 and mamba#827, after: each program writes its part.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """The first atomic addition of a float."""
    for call in device.called("atomic_add"):
        value = call.argument("val")
        kind = device.type_of(value) if value is not None else ""
        if kind.startswith(("float", "bfloat", "elem:")):
            names = sorted(device.pointers(call.first)) if call.first is not None else []
            where = names[0] if names else "memory"
            yield Hit(
                call.node,
                f"floats are added to {where} atomically, in no particular order",
                "let each program write its part, and reduce the parts in a fixed order",
                data={"kind": kind},
            )
            return


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Values of a loaded type count where a declaration makes that type a float."""
    kind = candidate.data["kind"]
    device = project.device(candidate.path, candidate.symbol)
    if not kind.startswith("elem:") or (device is not None and _floats(device.kernels)):
        yield project.confirm(RULE, candidate)


def _floats(kernels: tuple[object, ...]) -> bool:
    return any(
        dtype.startswith(("float", "bfloat"))
        for kernel in kernels
        for dtypes in kernel.envelope.dtypes.values()  # type: ignore[attr-defined]
        for dtype in dtypes
    )
