"""KG210 same-address-store: several programs store different values to one address."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.model.flow import Binding
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG210",
    name="same-address-store",
    severity=WARNING,
    summary="Programs along a grid axis store different values to the same address.",
    why=(
        "Programs run in no order, so the last store wins by chance. Results change from run to run, and agree on a "
        "small grid where the programs happen to run one after the other."
    ),
    remedy="Add the program's index to the address, guard the store with `if pid == 0`, or use an atomic.",
    quiet=(
        "Stores that a branch, a mask or an early return ties to the program, values that are the same for all "
        "programs, branches such as `if SPLIT_K == 1:`, and launches whose grid has one program along the axis."
    ),
    sources=("triton-lang/triton#9887",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.store(y_ptr, tl.sum(x, axis=0))
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            def total(x):
                y = x.new_zeros(())
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="triton#9887, before: each block overwrites the sum of the others.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _rows(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
                row, block = tl.program_id(0), tl.program_id(1)
                offs = block * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * N + offs, mask=offs < N, other=0.0)
                tl.store(y_ptr + row, tl.sum(x, axis=0))
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            def rows(x):
                y = x.new_zeros(x.shape[0])
                _rows[(x.shape[0], triton.cdiv(x.shape[1], 1024))](x, y, x.shape[0], x.shape[1], BLOCK=1024)
                return y
            """,
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.atomic_add(y_ptr, tl.sum(x, axis=0))

            def total(x):
                y = x.new_zeros(())
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _first(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                pid = tl.program_id(0)
                offs = pid * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                if pid == 0:
                    tl.store(y_ptr, tl.sum(x, axis=0))

            def first(x):
                y = x.new_zeros(())
                _first[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="triton#9887, after: one program stores.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Stores whose value depends on a program id that their address does not depend on."""
    stores = device.called("store")
    ids = device.called("program_id")
    if not ids or not stores:
        return
    programs = Programs(device)
    everywhere = frozenset().union(*(programs.of(call.node) for call in ids))
    for call in stores:
        address, value = call.first, call.argument("value")
        if address is None or value is None or call.spread:
            continue
        there = programs.of(address)
        if None in there or everywhere <= there or not device.pointers(address):
            continue
        missing = programs.of(value) - there
        if not missing or programs.guards(call) & (missing | {None}) or _split_in_one(device, call):
            continue
        axes = sorted(axis for axis in missing if axis is not None)
        if axes:
            pointer = "/".join(sorted(device.pointers(address)))
            yield Hit(
                call.node,
                f"every program along grid axis {axes[0]} stores to the same address of {pointer}, each its own value",
                f"add tl.program_id({axes[0]}) to the address, guard the store, or use an atomic",
                data={"axes": axes},
            )


def _split_in_one(device: Device, call: Call) -> bool:
    """Whether the store is where a compile-time constant is 1: the number of splits along the axis."""
    return any(
        isinstance(outer, ast.If)
        and any(
            isinstance(test, ast.Compare)
            and any(isinstance(item, ast.Constant) and item.value == 1 for item in test.comparators)
            for test in ast.walk(outer.test)
        )
        for outer in device.ancestors(call.node)
    )


NOWHERE: frozenset[int | None] = frozenset()


class Programs:
    """On which grid axes the values of a device function depend; None among them for a dependence that is not known."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._known: dict[ast.AST, frozenset[int | None]] = {}
        self._bindings: dict[Binding, frozenset[int | None]] = {}
        self._tests: dict[ast.AST, frozenset[int | None]] = {}

    def of(self, node: ast.expr) -> frozenset[int | None]:
        """The axes that a value depends on, through loads and the branches that assign it too."""
        if node.__class__ is ast.Constant:
            return NOWHERE
        known = self._known.get(node)
        if known is None:
            self._known[node] = NOWHERE
            known = self._known[node] = self._of(node)
        return known

    def _binding(self, binding: Binding) -> frozenset[int | None]:
        if binding.kind == "parameter":
            return NOWHERE
        known = self._bindings.get(binding)
        if known is None:
            self._bindings[binding] = NOWHERE
            known = self.around(binding.statement)
            if binding.value is not None:
                known |= self.of(binding.value)
            for before in binding.previous:
                known |= self._binding(before)
            if binding.kind in ("other", "with"):
                known |= {None}
            self._bindings[binding] = known
        return known

    def _of(self, node: ast.expr) -> frozenset[int | None]:
        if isinstance(node, ast.Name):
            found = self.device.reached.get(node, ())
            return self._binding(found[0]) if len(found) == 1 else NOWHERE.union(*map(self._binding, found))
        if isinstance(node, ast.BinOp):
            return self.of(node.left) | self.of(node.right)
        if isinstance(node, ast.Call):
            call = self.device.call_of.get(node)
            if call is not None and call.name == "program_id":
                axis = call.argument("axis")
                known = isinstance(axis, ast.Constant) and type(axis.value) is int
                return frozenset({axis.value if known else None})  # type: ignore[union-attr]
            if call is None or not call.name or call.name.startswith("atomic_"):
                return frozenset({None}).union(*(self.of(item) for item in node.args))
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.expr, ast.keyword))]
        return frozenset().union(*(self.of(part.value if isinstance(part, ast.keyword) else part) for part in parts))

    def around(self, node: ast.AST) -> frozenset[int | None]:
        """The axes that the branches and loops around a statement depend on."""
        outer = self.device.parents.get(node)
        if outer is None or outer is self.device.node:
            return NOWHERE
        known = self._tests.get(outer)
        if known is None:
            self._tests[outer] = NOWHERE
            known = self.around(outer)
            if isinstance(outer, (ast.If, ast.While)):
                known |= self.of(outer.test)
            elif isinstance(outer, ast.For):
                known |= self.of(outer.iter)
            self._tests[outer] = known
        return known

    def guards(self, call: Call) -> frozenset[int | None]:
        """The axes that decide whether a store is made: branches, its mask, and returns before it."""
        found = self.around(self.device.statement_of(call.node))
        mask = call.argument("mask")
        if mask is not None:
            found |= self.of(mask)
        for leave in self.device.returns:
            if leave.lineno < call.node.lineno:
                found |= self.around(leave)
        return found


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where a launch has a grid of several programs along one of the axes."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    for launch in device.launches:
        grid = launch.launch.grid
        for axis in candidate.data["axes"]:
            if grid and axis < len(grid) and grid[axis] not in ("1", "?"):
                yield project.confirm(RULE, candidate)
                return
