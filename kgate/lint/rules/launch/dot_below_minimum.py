"""KG409 dot-below-minimum: a ``tl.dot`` whose inner dimension is shorter than the target's instructions take."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.extents import Extents
from kgate.lint.rule import ERROR, FORKS, Example, Hit, Rule
from kgate.lint.rules.launch.arange_not_power_of_two import asserted

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG409",
    name="dot-below-minimum",
    severity=ERROR,
    except_in=FORKS,
    summary="The inner dimension of a `tl.dot` is below 16 for a configuration, a launch or a size that the envelope "
    "allows.",
    why=(
        "On CUDA the operands of `tl.dot` need at least 16 elements along the dimension that is summed (32 of 8 bits), "
        "and Triton refuses to compile less. Rows and columns may be short, they are padded. AMD's backend takes any "
        "size, so that the same kernel compiles there."
    ),
    remedy="Take a block of at least 16, as in `max(16, triton.next_power_of_2(d))`, and mask what is beyond the size.",
    quiet="Kernels whose targets are all AMD's; dots in a branch that tests the block; a `tl.static_assert` about it.",
    sources=(
        "triton-lang/triton#4197",
        "triton-lang/triton#2266",
        "fla-org/flash-linear-attention#556",
    ),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(q, k):
                return q @ k.mT

            @triton.jit
            def _scores(q, k, s, T, D, BT: tl.constexpr, BD: tl.constexpr):
                p_q = tl.make_block_ptr(q, (T, D), (D, 1), (tl.program_id(0) * BT, 0), (BT, BD), (1, 0))
                p_k = tl.make_block_ptr(k, (D, T), (1, D), (0, tl.program_id(1) * BT), (BD, BT), (0, 1))
                i_t, i_s = tl.program_id(0), tl.program_id(1)
                p_s = tl.make_block_ptr(s, (T, T), (T, 1), (i_t * BT, i_s * BT), (BT, BT), (1, 0))
                b_q = tl.load(p_q, boundary_check=(0, 1), padding_option="zero")
                b_k = tl.load(p_k, boundary_check=(0, 1), padding_option="zero")
                tl.store(p_s, tl.dot(b_q, b_k, input_precision="ieee"), boundary_check=(0, 1))
                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"q": Tensor("T D", "float16", layout="contiguous"),
                        "k": Tensor("T D", "float16", layout="contiguous")},
                outputs={"s": Tensor("T T", "float32")},
                dims={"T": Dim(1, 4096), "D": Dim(1, 256)},
                targets=("cuda:sm_80+",),
            ))
            def scores(q, k):
                T, D = q.shape
                s = q.new_empty((T, T))
                n = triton.cdiv(T, 64)
                _scores[(n, n)](q, k, s, T, D, BT=64, BD=triton.next_power_of_2(D))
                return s
            """,
            note="As flash-linear-attention#556 and triton#4197, before: a small head is its own block.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _outer(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
                rows = tl.arange(0, N)
                inner = tl.arange(0, 8)
                x = tl.load(x_ptr + rows[:, None] * 8 + inner[None, :])
                y = tl.load(y_ptr + inner[:, None] * N + rows[None, :])
                tl.store(z_ptr + rows[:, None] * N + rows[None, :], tl.dot(x, y))
                                                                    ^^^^^^^^^^^^
            """,
            note="As triton#2266, before.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(q, k):
                return q @ k.mT

            @triton.jit
            def _scores(q, k, s, T, D, BT: tl.constexpr, BD: tl.constexpr):
                p_q = tl.make_block_ptr(q, (T, D), (D, 1), (tl.program_id(0) * BT, 0), (BT, BD), (1, 0))
                p_k = tl.make_block_ptr(k, (D, T), (1, D), (0, tl.program_id(1) * BT), (BD, BT), (0, 1))
                i_t, i_s = tl.program_id(0), tl.program_id(1)
                p_s = tl.make_block_ptr(s, (T, T), (T, 1), (i_t * BT, i_s * BT), (BT, BT), (1, 0))
                b_q = tl.load(p_q, boundary_check=(0, 1), padding_option="zero")
                b_k = tl.load(p_k, boundary_check=(0, 1), padding_option="zero")
                tl.store(p_s, tl.dot(b_q, b_k, input_precision="ieee"), boundary_check=(0, 1))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"q": Tensor("T D", "float16", layout="contiguous"),
                        "k": Tensor("T D", "float16", layout="contiguous")},
                outputs={"s": Tensor("T T", "float32")},
                dims={"T": Dim(1, 4096), "D": Dim(1, 256)},
                targets=("cuda:sm_80+",),
            ))
            def scores(q, k):
                T, D = q.shape
                s = q.new_empty((T, T))
                n = triton.cdiv(T, 64)
                _scores[(n, n)](q, k, s, T, D, BT=64, BD=max(16, triton.next_power_of_2(D)))
                return s
            """,
            note="As flash-linear-attention#556 and triton#4197, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _outer(x_ptr, y_ptr, z_ptr, M: tl.constexpr, N: tl.constexpr):
                rows = tl.arange(0, 4)
                inner = tl.arange(0, 16)
                cols = tl.arange(0, N)
                x = tl.load(x_ptr + rows[:, None] * 16 + inner[None, :])
                y = tl.load(y_ptr + inner[:, None] * N + cols[None, :])
                tl.store(z_ptr + rows[:, None] * N + cols[None, :], tl.dot(x, y))
            """,
            note="Four rows are padded.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _outer(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
                rows = tl.arange(0, N)
                inner = tl.arange(0, 16)
                x = tl.load(x_ptr + rows[:, None] * 8 + inner[None, :], mask=(inner < 8)[None, :], other=0.0)
                y = tl.load(y_ptr + inner[:, None] * N + rows[None, :], mask=(inner < 8)[:, None], other=0.0)
                tl.store(z_ptr + rows[:, None] * N + rows[None, :], tl.dot(x, y))
            """,
            note="As triton#2266, after: zeros fill the block up.",
        ),
    ),
)

MINIMUM = 16
"""Least inner dimension on CUDA. Operands of 8 bits need 32; their type is seldom known here."""


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Dots whose inner dimension is a small number, or a parameter that no branch and no assertion is about."""
    seen: set[str] = set()
    for call in device.called("dot"):
        inner = _inner(device, call)
        if inner is None or inner in seen:
            continue
        if inner.isdecimal():
            if int(inner) < MINIMUM:
                yield Hit(call.node, _message(inner), data={"inner": inner})
        elif not asserted(device, inner) and not _tested(device, call, inner):
            seen.add(inner)
            yield Hit(call.node, _message(inner), data={"inner": inner})


def _message(inner: str) -> str:
    return f"the inner dimension of a tl.dot is {inner}, and CUDA needs {MINIMUM}"


def _inner(device: Device, call: Call) -> str | None:
    """The extent that is summed over; None where it is not known, or the operands disagree."""
    extents = Extents.of_device(device)
    left, right = extents.of(call.argument("input")), extents.of(call.argument("other"))
    one = left[-1] if left and len(left) > 1 else None
    other = right[-2] if right and len(right) > 1 else None
    if one is not None and other is not None and one != other:
        return None
    return one or other


def _tested(device: Device, call: Call, name: str) -> bool:
    """Whether the call stands in a branch that depends on the parameter."""
    return any(
        isinstance(around, (ast.If, ast.IfExp))
        and any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(around.test))
        for around in device.ancestors(call.node)
    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """What configurations, launches and envelopes make of the inner dimension."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None or (device.targets and not any(item.startswith("cuda") for item in device.targets)):
        return
    inner = candidate.data["inner"]
    if inner.isdecimal():
        yield project.confirm(RULE, candidate)
        return
    small = [value for value in (*device.configured(inner), *_given(device, inner)) if 0 < value < MINIMUM]
    if small:
        message = f"the inner dimension of a tl.dot is {inner}, which may be {small[0]}, and CUDA needs {MINIMUM}"
        yield project.confirm(RULE, candidate, message, f"take at least {MINIMUM} for {inner}")
        return
    for setting in project.settings(device):
        term = setting.term(inner)
        if term is None or term.number is not None:
            continue
        witness = project.sizes(setting.declaration).example(term, lambda value: 0 < value < MINIMUM)
        if witness is not None:
            message = (
                f"the inner dimension of a tl.dot is {inner}, which is {witness.value} at {witness} as "
                f"{setting.declaration.name} allows, and CUDA needs {MINIMUM}"
            )
            yield project.confirm(
                RULE, candidate, message, f"take at least {MINIMUM} for {inner}, or declare larger dims"
            )
            return


def _given(device: LinkedDevice, name: str) -> list[int]:
    """Numbers that launches give for a parameter."""
    forms = [launch.arguments[name].form for launch in device.launches if name in launch.arguments]
    return [int(form) for form in forms if form.isdecimal()]
