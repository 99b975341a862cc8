"""KG205 unbounded-gather-index: a loaded value is an index, and nothing bounds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import NOTE, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.model.device import Device

RULE = Rule(
    code="KG205",
    name="unbounded-gather-index",
    severity=NOTE,
    default=False,
    off_because="Most kernels rightly trust indices that another kernel has made; what a tensor holds is no part of an "
    "envelope, so that nothing could discharge it.",
    summary="A value that was loaded is part of an address, and no comparison, remainder or minimum bounds it.",
    why="One index out of range, from a label such as -100 or a vocabulary that has grown, reads or writes anywhere.",
    remedy="Compare the index with the size of what it goes into, in the mask or before.",
    quiet="Indices that some comparison is about; `%`, `tl.minimum`, `tl.where`; offsets of packed sequences.",
    sources=("pytorch/pytorch#93538", "apple/ml-cross-entropy#59"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def gather(table_ptr, label_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                label = tl.load(label_ptr + row).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(table_ptr + label * stride + cols, mask=cols < n_cols)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + row * stride + cols, x, mask=cols < n_cols)
            """,
            note="ml-cross-entropy#59 and pytorch#93538, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def gather(table_ptr, label_ptr, y_ptr, n_rows, n_cols, stride, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                label = tl.load(label_ptr + row).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                known = (label >= 0) & (label < n_rows)
                x = tl.load(table_ptr + label * stride + cols, mask=known & (cols < n_cols), other=0.0)
                tl.store(y_ptr + row * stride + cols, x, mask=cols < n_cols)
            """,
            note="ml-cross-entropy#59 and pytorch#93538, after.",
        ),
    ),
)

_TRUSTED = re.compile(r"cu_?seq|offs|start|end|indptr|chunk_ind|len|split|count|num|ptrs|scale", re.IGNORECASE)
_BOUNDING = ("minimum", "where", "clamp", "device_assert")


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Accesses whose address is made of a loaded value that no comparison in the function is about."""
    bounded: frozenset[str] | None = None
    for call in device.accesses:
        address = call.first
        if address is None:
            continue
        loads = {item for item in device.sources(address) if item.startswith("load:") and not _TRUSTED.search(item[5:])}
        if not loads:
            continue
        if bounded is None:
            bounded = _bounded(device)
        free = sorted(loads - bounded)
        if free:
            yield Hit(
                call.node,
                f"the address of this {call.name.replace('_', ' ')} is made of what was loaded from {free[0][5:]}, and "
                "nothing bounds that",
                "compare the index with the size of what it goes into",
            )


def _bounded(device: Device) -> frozenset[str]:
    """What comparisons, remainders and minima are about."""
    found: frozenset[str] = frozenset()
    for compare in device.compare_nodes:
        found = found.union(*(device.sources(item) for item in (compare.left, *compare.comparators)))
    for node in device.nodes(ast.BinOp):
        if isinstance(node.op, (ast.Mod, ast.BitAnd)):
            found |= device.sources(node.left)
    for call in device.called(*_BOUNDING):
        found = found.union(*(device.sources(item) for item in call.node.args))
    return found
