"""KG209 store-then-load-without-barrier: lanes read what other lanes of the program have just written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.calls import ATOMICS
from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device

RULE = Rule(
    code="KG209",
    name="store-then-load-without-barrier",
    severity=WARNING,
    summary="A program loads with another access pattern what it has just stored, with no barrier between.",
    why=(
        "The threads of a program are not ordered by a store: a lane that loads an element which another lane stored "
        "may "
        "still see the old value. Whether it does depends on warps and layouts, and so on the configuration that "
        "tuning picks."
    ),
    remedy="Put `tl.debug_barrier()` between, or keep the values in registers and rearrange them there.",
    quiet="Loads at the very addresses of the store, a barrier or an atomic between, branches that exclude each other.",
    sources=("triton-lang/triton#10924",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def transpose_in_scratch(x_ptr, scratch_ptr, y_ptr, N: tl.constexpr):
                base = tl.program_id(0) * N * N
                i = tl.arange(0, N)[:, None]
                j = tl.arange(0, N)[None, :]
                x = tl.load(x_ptr + base + i * N + j)
                tl.store(scratch_ptr + base + i * N + j, x)
                t = tl.load(scratch_ptr + base + j * N + i)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + base + i * N + j, t)
            """,
            note="triton#10924, before.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def butterfly(x_ptr, scratch_ptr, y_ptr, ROW: tl.constexpr):
                base = tl.program_id(0) * ROW
                offs = tl.arange(0, ROW)
                tl.store(scratch_ptr + base + offs, tl.load(x_ptr + base + offs))
                tl.store(y_ptr + base + offs, tl.load(scratch_ptr + base + (offs ^ 1)))
                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="Each lane reads its neighbour's element.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def transpose_in_scratch(x_ptr, scratch_ptr, y_ptr, N: tl.constexpr):
                base = tl.program_id(0) * N * N
                i = tl.arange(0, N)[:, None]
                j = tl.arange(0, N)[None, :]
                x = tl.load(x_ptr + base + i * N + j)
                tl.store(scratch_ptr + base + i * N + j, x)
                tl.debug_barrier()
                t = tl.load(scratch_ptr + base + j * N + i)
                tl.store(y_ptr + base + i * N + j, t)
            """,
            note="triton#10924, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def exchange(scratch_ptr, y_ptr, ROW: tl.constexpr):
                base = tl.program_id(0) * ROW
                offs = tl.arange(0, ROW)
                if tl.program_id(1) == 0:
                    tl.store(scratch_ptr + base + offs, offs)
                else:
                    tl.store(y_ptr + base + offs, tl.load(scratch_ptr + base + (offs ^ 1)))
            """,
            note="No program does both.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def twice(y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                tl.store(y_ptr + offs, offs, mask=offs < n)
                y = tl.load(y_ptr + offs, mask=offs < n)
                tl.store(y_ptr + offs, y + y, mask=offs < n)
            """,
            note="Each lane loads what it stored itself.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Loads after a store through the same pointer, from the same region and in another order."""
    stores = device.called("store")
    loads = device.called("load")
    if not stores or not loads:
        return
    barriers = device.called("debug_barrier", *sorted(ATOMICS))
    lines = sorted(item.node.lineno for item in barriers)
    lines += [call.node.lineno for call in device.calls.get("", ()) if "barrier" in ast.unparse(call.node.func)]
    for load in loads:
        for store in stores:
            if store.node.lineno < load.node.lineno and _races(device, store, load, lines):
                pointer = next(iter(device.pointers(load.first)))  # type: ignore[arg-type]
                yield Hit(
                    load.node,
                    f"the load of {pointer} reads what the store in line {store.node.lineno} wrote through other "
                    "lanes, with no barrier between",
                    "put tl.debug_barrier() before it",
                    related=((store.node, "stored here"),),
                )
                break


def _races(device: Device, store: Call, load: Call, barriers: list[int]) -> bool:
    if store.first is None or load.first is None or store.spread or load.spread:
        return False
    pointers = device.pointers(store.first)
    if len(pointers) != 1 or pointers != device.pointers(load.first):
        return False
    if any(store.node.lineno <= line <= load.node.lineno for line in barriers):
        return False
    if _excluded(device, store, load):
        return False
    before, after = _shape(device, store.first), _shape(device, load.first)
    if before is None or after is None or before[0] != after[0]:
        return False
    return _order(device, store.first) != _order(device, load.first)


def _shape(device: Device, address: ast.expr) -> tuple[frozenset[int], bool] | None:
    """Numbers of the scalar terms: where the region begins. None for an address that a loop moves."""
    base: set[int] = set()
    along = False
    for term in device.tiles.terms(address):
        if any(isinstance(node, ast.Name) and _moved(device, node) for node in ast.walk(term)):
            return None
        if device.tiles.axes(term):
            along = True
        else:
            base.add(device.tiles.number(term))
    return (frozenset(base), along) if along else None


def _moved(device: Device, name: ast.Name) -> bool:
    found = device.reached.get(name, ())
    return len(found) > 1 or any(item.kind == "augmented" for item in found)


def _order(device: Device, address: ast.expr) -> frozenset[tuple[int, int]]:
    """Each term along an axis with the axis of the tile that it counts along: the arrangement over the lanes."""
    found = set()
    for term in device.tiles.terms(address):
        axes = device.tiles.axes(term)
        if axes:
            dims = device.tiles.dims(address)
            at = next((index for index, item in enumerate(dims) if axes & item), -1) if dims else -1
            found.add((device.tiles.number(term), at))
    return frozenset(found)


def _excluded(device: Device, store: Call, load: Call) -> bool:
    """Whether the two are in branches of one ``if`` that exclude each other."""
    mine = _branches(device, store.node)
    return any(outer in mine and mine[outer] != body for outer, body in _branches(device, load.node).items())


def _branches(device: Device, node: ast.AST) -> dict[ast.AST, bool]:
    found: dict[ast.AST, bool] = {}
    inner = node
    for outer in device.ancestors(node):
        if isinstance(outer, ast.If):
            found[outer] = inner in outer.body
        inner = outer
    return found
