"""KG203 masked-load-without-other: undefined lanes of a masked load are reduced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.calls import SCANS
from kgate.lint.rule import ASCEND, EITHER, ERROR, WARNING, Example, Hit, Rule
from kgate.lint.rules.memory._shared import ADDITIONS, Reach, reaches, runs_over
from kgate.source.records import Edit, Fix

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device

RULE = Rule(
    code="KG203",
    name="masked-load-without-other",
    severity=ERROR,
    lowered="a warning where the other side of a product is filled with zeros",
    except_in=ASCEND,
    summary="A masked load without `other` feeds a reduction, a reversed scan or a dot along the masked axis.",
    why=(
        "Without `other` the lanes that the mask turns off hold undefined values. Often they happen to be zero, until "
        "another backend, a fused load or the interpreter fills them with something else: then every sum, maximum and "
        "dot over them is wrong, and only for sizes that are no multiple of the block."
    ),
    remedy="Give the load the identity of the operation as `other`, or choose with `tl.where` before reducing.",
    quiet=(
        "Values that pass `tl.where` first, reductions along an axis that the mask does not bound, forward scans, "
        "loads "
        "that only reach stores under the same mask, masks that are true for the whole block, and block pointers "
        "(`boundary_check` without `padding_option` is not looked at)."
    ),
    sources=(
        "flagos-ai/FlagGems#3716",
        "vllm-project/vllm#9014",
        "pytorch/pytorch#126535",
        "triton-lang/triton#10448",
    ),
    fix=EITHER,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def largest(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr, tl.max(x, axis=0))
            """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def largest(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
                tl.store(y_ptr, tl.max(x, axis=0))
            """,
            note="FlagGems#3716, before: the maximum sees whatever the masked lanes hold.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_dot(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr):
                m = tl.arange(0, M)
                n = tl.arange(0, N)
                k = tl.arange(0, BLOCK_K)
                a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < K)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
                tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))
            """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def row_dot(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr):
                m = tl.arange(0, M)
                n = tl.arange(0, N)
                k = tl.arange(0, BLOCK_K)
                a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
                b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
                tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))
            """,
            note="vllm#9014, before: zeros in the other operand do not help, because 0 times NaN is NaN.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
                m = tl.program_id(0) * BM + tl.arange(0, BM)
                n = tl.program_id(1) * BN + tl.arange(0, BN)
                k = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for start in range(0, K, BK):
                    inside = start + k < K
                    am = (m < M)[:, None] & inside[None, :]
                    bm = inside[:, None] & (n < N)[None, :]
                    a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :], mask=am)
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                    b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :], mask=bm)
                    acc = tl.dot(a, b, acc, input_precision="ieee")
                tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
            """,
            note="triton#630 on the way: masked now, and what the masks turn off goes into the product.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def largest(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n)
                tl.store(y_ptr, tl.max(tl.where(offs < n, x, -float("inf")), axis=0))
            """,
            note="FlagGems#3716, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_sums(x_ptr, y_ptr, rows, M: tl.constexpr, N: tl.constexpr):
                m = tl.program_id(0) * M + tl.arange(0, M)
                n = tl.arange(0, N)
                x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m < rows)[:, None])
                tl.store(y_ptr + m, tl.sum(x, axis=1), mask=m < rows)
            """,
            note="Whole rows are masked, and the sum runs along the row; undefined sums are not stored.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def select(x_ptr, index_ptr, y_ptr, n, K: tl.constexpr):
                k = tl.arange(0, K)
                keep = k < n
                index = tl.load(index_ptr + k, mask=keep)
                x = tl.load(x_ptr + index, mask=keep)
                tl.store(y_ptr + k, tl.exp(x), mask=keep)
            """,
            note="triton#10448: undefined values that go nowhere but to stores under the same mask do no harm.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_dot(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr):
                m = tl.arange(0, M)
                n = tl.arange(0, N)
                k = tl.arange(0, BLOCK_K)
                a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
                b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)
                tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b))
            """,
            note="vllm#9014, after.",
        ),
    ),
)

_KEEPS_ZERO = frozenset({"*", "/", "+=", "square", "negated"})


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Masked loads without ``other`` whose masked axis is reduced, those that meet in one reduction together."""
    groups: dict[ast.Call, list[tuple[Call, list[Reach]]]] = {}
    for call in device.called("load"):
        mask = call.argument("mask")
        if mask is None or call.spread or call.argument("other") is not None:
            continue
        masked = device.tiles.bounded(mask)
        if not masked:
            continue
        found = [
            reach
            for reach in reaches(device, call.node)
            if runs_over(device, reach) & masked and not _is_prefix(reach) and not _is_total_of_a_scan(device, reach)
        ]
        if found:
            first = min((reach.sink.node for reach in found), key=lambda node: (node.lineno, node.col_offset))
            groups.setdefault(first, []).append((call, found))
    for sink, loads in groups.items():
        yield _hit(device, sink, loads)


def _is_prefix(reach: Reach) -> bool:
    """Whether it is a scan from the front: what comes after the last valid lane changes none before it."""
    return reach.sink.name in SCANS and reach.sink.argument("reverse") is None


def _is_total_of_a_scan(device: Device, reach: Reach) -> bool:
    """Whether it is a block's total that a file which scans only stores: that of the last block is never read."""
    if reach.sink.name != "sum" or not any(name in other.calls for other in device.module.devices for name in SCANS):
        return False
    return bool(reach.sink.node in device.parents) and _only_stored(device, reach.sink.node)


def _only_stored(device: Device, node: ast.expr) -> bool:
    parent = device.parents[node]
    if isinstance(parent, ast.Assign):
        uses = [use for item in device.bound_to.get(node, ()) for use in item.uses]
        return bool(uses) and all(_only_stored(device, use) for use in uses)
    if isinstance(parent, ast.AugAssign):
        return device.loops.get(parent) is not None  # the running total, which the last block's is added to as well
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add):
        other = parent.right if parent.left is node else parent.left
        statement = device.parents[parent]
        return (
            isinstance(statement, ast.Assign)
            and isinstance(other, ast.Name)
            and any(isinstance(target, ast.Name) and target.id == other.id for target in statement.targets)
        )
    call = device.call_of.get(parent) if isinstance(parent, ast.Call) else None
    return call is not None and call.name == "store" and call.argument("value") is node


def _hit(device: Device, sink: ast.Call, loads: list[tuple[Call, list[Reach]]]) -> Hit:
    reached = [reach for _, found in loads for reach in found]
    shielded = all(
        any(_filled(device, item) for item in reach.factors) or _other_filled(device, reach) for reach in reached
    )
    names = "/".join(dict.fromkeys(f"tl.{reach.sink.name}" for reach in reached))
    pointers = list(dict.fromkeys(name for call, _ in loads for name in _pointers(device, call)))
    fix, text = _fix(device, loads)
    shown = f"loads of {', '.join(pointers)}" if len(loads) > 1 else f"load of {'/'.join(pointers) or 'a tile'}"
    return Hit(
        loads[0][0].node,
        f"the masked lanes of the {shown} are undefined and reach {names} in line {sink.lineno}"
        + (", where zeros on the other side do not clear a NaN" if shielded else ""),
        f"add other={text}" if text else f"choose with tl.where(mask, ..., identity) before {names}",
        severity=WARNING if shielded else "",
        fixes=(fix,) if fix is not None else (),
        related=(*((call.node, "this load too") for call, _ in loads[1:]), (sink, "reduced here")),
    )


def _pointers(device: Device, call: Call) -> list[str]:
    return sorted(device.pointers(call.first)) if call.first is not None else []


def _filled(device: Device, factor: ast.expr) -> bool:
    """Whether a factor is made from a load whose masked lanes are filled, in ways that keep a zero."""
    factor = device.value_of(factor)
    if isinstance(factor, ast.Name):
        plain, augmented = device.origins_of(factor)
        kept = all(isinstance(getattr(item.statement, "op", None), (ast.Mult, ast.Div)) for item in augmented)
        values = [item.value for item in plain if item.kind == "assign" and item.value is not None]
        starts = bool(values) and len(values) == len(plain) and bool(augmented)
        return kept and starts and all(_filled(device, value) for value in values)
    if isinstance(factor, ast.BinOp):
        sides = (factor.left, factor.right) if isinstance(factor.op, ast.Mult) else (factor.left,)
        return isinstance(factor.op, (ast.Mult, ast.Div)) and any(_filled(device, side) for side in sides)
    if isinstance(factor, ast.Subscript):
        return _filled(device, factor.value)
    call = device.call_of.get(factor) if isinstance(factor, ast.Call) else None
    if call is None or call.first is None:
        return False
    if call.name == "load":
        return call.argument("other") is not None
    return call.name in ("to", "cast", "trans", "reshape", "broadcast_to", "expand_dims") and _filled(
        device, call.first
    )


def _other_filled(device: Device, reach: Reach) -> bool:
    """Whether the other operand of a dot is a load whose masked lanes are filled."""
    if reach.sink.name != "dot":
        return False
    left, right = reach.sink.argument("input"), reach.sink.argument("other")
    other = right if reach.argument is left else left
    return other is not None and _filled(device, other)


def _fix(device: Device, loads: list[tuple[Call, list[Reach]]]) -> tuple[Fix | None, str]:
    """``other=`` with the identity of everything that the values reach, where there is one, and that identity."""
    reached = [reach for _, found in loads for reach in found]
    sinks = {item.sink.name for item in reached}
    through = frozenset().union(*(item.through for item in reached))
    if sinks <= ADDITIONS and through <= _KEEPS_ZERO:
        text, safe = "0.0", True
    elif sinks <= {"max", "argmax"} and not through:
        text, safe = '-float("inf")', False
    elif sinks <= {"min", "argmin"} and not through:
        text, safe = 'float("inf")', False
    else:
        return None, ""
    edits = tuple(Edit("set-argument", *device.module.place(call.node), text, "other") for call, _ in loads)
    return Fix(f"Fill the masked lanes with {text}", safe, edits), text
