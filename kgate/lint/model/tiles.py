"""Tiles of a device function: along which axes a value varies, at which position, and what its masks bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.source.uses import chain_of, integer

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.model.flow import Binding

Axes = frozenset[ast.Call]
"""``tl.arange`` calls: each is the axis that it counts along."""
NONE: Axes = frozenset()


@dataclass(frozen=True)
class Tile:
    """What is known of a value's shape."""

    axes: Axes
    """All axes that it varies along."""
    dims: tuple[Axes, ...] | None
    """The same by position; ``()`` of a scalar, None where the positions are not known."""


SCALAR = Tile(NONE, ())
_OPAQUE = frozenset(
    [
        "view",
        "reshape",
        "ravel",
        "cat",
        "join",
        "split",
        "interleave",
        "permute",
        "gather",
        "histogram",
        "sort",
        "topk",
        "flip",
    ]
)
_SCALARS = frozenset({"program_id", "num_programs", "range", "static_range", "cdiv"})
_UPPER = (ast.Lt, ast.LtE)
_LOWER = (ast.Gt, ast.GtE)
_MAX_DEPTH = 60


@dataclass(frozen=True)
class Bound:
    """One comparison of a mask: ``index < limit``."""

    axes: Axes
    """Axes of the index."""
    index: ast.expr
    limit: ast.expr


class Tiles:
    """Tiles of the values of one device function."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._tiles: dict[ast.expr, Tile] = {}
        self._bindings: dict[Binding, Tile] = {}
        self._numbers: dict[ast.expr, int] = {}
        self._table: dict[tuple[object, ...], int] = {}
        self._parts: dict[ast.expr, frozenset[int]] = {}
        self._bounds: dict[ast.expr, list[Bound]] = {}
        self._depth = 0

    # Shapes

    def axes(self, node: ast.expr) -> Axes:
        """All axes that a value varies along, the axes of addresses that it was loaded from among them."""
        return self.of(node).axes

    def dims(self, node: ast.expr) -> tuple[Axes, ...] | None:
        """The axes of a value by position; None where they are not known."""
        return self.of(node).dims

    def of(self, node: ast.expr) -> Tile:
        """The tile that a value is."""
        if node.__class__ is ast.Constant:
            return SCALAR
        known = self._tiles.get(node)
        if known is None:
            if self._depth > _MAX_DEPTH:
                return Tile(NONE, None)
            self._tiles[node] = SCALAR  # what a loop carries adds nothing to where it began
            self._depth += 1
            known = self._tiles[node] = self._tile(node)
            self._depth -= 1
        return known

    def _tile(self, node: ast.expr) -> Tile:
        if isinstance(node, ast.Name):
            found = self.device.reached.get(node, ())
            tiles = [self.of_binding(item) for item in found]
            return tiles[0] if len(tiles) == 1 else _broadcast(tiles)
        if isinstance(node, ast.BinOp):
            return _broadcast([self.of(node.left), self.of(node.right)])
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, ast.Compare):
            return _broadcast([self.of(item) for item in (node.left, *node.comparators)])
        if isinstance(node, ast.BoolOp):
            return _broadcast([self.of(item) for item in node.values])
        if isinstance(node, ast.IfExp):
            return _broadcast([self.of(node.body), self.of(node.orelse)])
        if isinstance(node, ast.Subscript):
            return _subscript(self.of(node.value), node.slice)
        if isinstance(node, ast.Attribute):
            base = self.of(node.value) if node.attr == "T" else SCALAR
            return Tile(base.axes, base.dims[::-1] if base.dims else base.dims)
        if isinstance(node, ast.Call):
            call = self.device.call_of.get(node)
            return self._call(call) if call is not None else Tile(NONE, None)
        if isinstance(node, (ast.Tuple, ast.List)):
            return Tile(NONE.union(*map(self.axes, node.elts)), None)
        return Tile(NONE, None)

    def of_binding(self, binding: Binding) -> Tile:
        """The tile that one assignment gives a name."""
        known = self._bindings.get(binding)
        if known is not None:
            return known
        self._bindings[binding] = SCALAR
        if binding.kind == "parameter":
            known = SCALAR
        elif binding.kind in ("assign", "loop") and binding.value is not None:
            known = self.of(binding.value)
        elif binding.kind == "augmented" and binding.value is not None:
            known = _broadcast([self.of(binding.value), *map(self.of_binding, binding.previous)])
        else:
            known = Tile(self.axes(binding.value) if binding.value is not None else NONE, None)
        self._bindings[binding] = known
        return known

    def _call(self, call: Call) -> Tile:
        name = call.name
        if name == "arange":
            here: Axes = frozenset({call.node})
            return Tile(here, (here,))
        if name in _SCALARS:
            return SCALAR
        if name in ("zeros", "full"):
            shape = call.argument("shape")
            return Tile(NONE, (NONE,) * len(shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else None)
        if name == "load":
            given = [call.first, call.argument("mask")]
            return _broadcast([self.of(item) for item in given if item is not None])
        parts = [self.of(item) for item in self._arguments(call)]
        axes = NONE.union(*(part.axes for part in parts))
        if not name or name in _OPAQUE:
            return Tile(axes, None)
        first = self.of(call.first) if call.first is not None else SCALAR
        if name in ("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce"):
            return self._reduced(call, first)
        if name in ("to", "cast", "multiple_of", "max_contiguous", "cumsum", "cumprod", "associative_scan", "softmax"):
            return first
        if name == "broadcast_to":
            return first if first.dims else Tile(axes, None)
        if name == "trans":
            plain = len(call.node.args) + call.method == 1
            return Tile(axes, first.dims[::-1] if first.dims and plain else None)
        if name == "expand_dims":
            at = position(call.argument("axis"))
            if first.dims is None or at is None or not -len(first.dims) - 1 <= at <= len(first.dims):
                return Tile(axes, None)
            at += len(first.dims) + 1 if at < 0 else 0
            return Tile(axes, (*first.dims[:at], NONE, *first.dims[at:]))
        if name == "dot":
            return self._dot(call)
        return _broadcast(parts)

    @staticmethod
    def _arguments(call: Call) -> list[ast.expr]:
        found = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
        return [call.node.func.value, *found] if call.method else found  # type: ignore[attr-defined]

    def reduced(self, call: Call) -> Axes | None:
        """Axes that a reduction or a scan runs over; None where that is not known."""
        tile = self.of(call.first) if call.first is not None else Tile(NONE, None)
        given = call.argument("axis") or call.argument("dim")
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            one_axis = tile.dims is not None and len(tile.dims) == 1
            return tile.axes if call.name not in ("cumsum", "cumprod") or one_axis else None
        at = position(given)
        if tile.dims is None or at is None or not -len(tile.dims) <= at < len(tile.dims):
            return None
        return tile.dims[at]

    def _reduced(self, call: Call, tile: Tile) -> Tile:
        given = call.argument("axis")
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            return SCALAR
        at = position(given)
        if tile.dims is None or at is None or not -len(tile.dims) <= at < len(tile.dims):
            return Tile(tile.axes, None)
        at %= len(tile.dims)
        rest = (*tile.dims[:at], *tile.dims[at + 1 :])
        if call.argument("keep_dims") is not None:
            rest = (*tile.dims[:at], NONE, *tile.dims[at + 1 :])
        return Tile(NONE.union(*rest), rest)

    def _dot(self, call: Call) -> Tile:
        left, right = (self.of(item) if item is not None else SCALAR for item in _operands(call))
        if not left.dims or not right.dims or len(left.dims) < 2 or len(right.dims) < 2:
            return Tile(left.axes | right.axes, None)
        dims = (*left.dims[:-1], right.dims[-1])
        return Tile(NONE.union(*dims), dims)

    def contracted(self, call: Call) -> tuple[Axes | None, Axes | None]:
        """Axes that a dot runs over, of its left and of its right operand; None where that is not known."""
        left, right = (self.dims(item) if item is not None else None for item in _operands(call))
        return (left[-1] if left and len(left) > 1 else None), (right[-2] if right and len(right) > 1 else None)

    # Masks

    def conjuncts(self, mask: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The conditions that a mask joins by ``and``, names followed."""
        mask = self.device.value_of(mask)
        if depth > 20:
            return
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, (ast.BitAnd, ast.Mult)):
            yield from self.conjuncts(mask.left, depth + 1)
            yield from self.conjuncts(mask.right, depth + 1)
        elif isinstance(mask, ast.BoolOp) and isinstance(mask.op, ast.And):
            for value in mask.values:
                yield from self.conjuncts(value, depth + 1)
        elif isinstance(mask, ast.Subscript):
            yield from self.conjuncts(mask.value, depth + 1)
        elif isinstance(mask, ast.Name):
            yield from self._joined(mask, depth)
        elif isinstance(mask, ast.Call):
            call = self.device.call_of.get(mask)
            name = call.name if call is not None else ""
            if call is not None and call.first is not None and name in ("to", "broadcast_to", "expand_dims", "view"):
                yield from self.conjuncts(call.first, depth + 1)
            elif name in ("logical_and",):
                for value in mask.args:
                    yield from self.conjuncts(value, depth + 1)
            else:
                yield mask
        else:
            yield mask

    def _joined(self, mask: ast.Name, depth: int) -> Iterator[ast.expr]:
        """The conditions of a mask that ``&=`` adds to."""
        plain, augmented = self.device.origins_of(mask)
        statements = [item.statement for item in augmented]
        grown = all(isinstance(item, ast.AugAssign) and isinstance(item.op, ast.BitAnd) for item in statements)
        if not grown or len(plain) != 1 or plain[0].kind != "assign":
            yield mask
            return
        for item in (plain[0], *augmented):
            if item.value is not None:
                yield from self.conjuncts(item.value, depth + 1)

    def bounds(self, mask: ast.expr) -> list[Bound]:
        """The upper bounds that a mask sets on indices that vary along an axis."""
        mask = self.device.value_of(mask)
        known = self._bounds.get(mask)
        if known is None:
            known = self._bounds[mask] = self._bounds_of(mask)
        return known

    def _bounds_of(self, mask: ast.expr) -> list[Bound]:
        found = []
        for condition in self.conjuncts(mask):
            if not isinstance(condition, ast.Compare):
                continue
            values = [condition.left, *condition.comparators]
            for left, operator, right in zip(values, condition.ops, values[1:], strict=False):
                if isinstance(operator, _LOWER):
                    left, right = right, left
                elif not isinstance(operator, _UPPER):
                    continue
                axes = self.axes(left)
                if axes and not self.axes(right):
                    found.append(Bound(axes, left, right))
        return found

    def bounded(self, mask: ast.expr) -> Axes:
        """Axes that a mask bounds from above, bounds that hold for the whole axis apart."""
        return NONE.union(*(bound.axes for bound in self.bounds(mask) if not self.whole(bound)))

    def whole(self, bound: Bound) -> bool:
        """Whether a bound is the end of the ``arange`` itself, and so masks nothing."""
        index = self.device.value_of(bound.index)
        if isinstance(index, ast.Call) and index in bound.axes and index.args:
            return self.number(index.args[-1]) == self.number(bound.limit)
        return False

    # Equal values

    def number(self, node: ast.expr) -> int:
        """A number that values computed in the same way share: names followed, casts and ``[:, None]`` left away."""
        known = self._numbers.get(node)
        if known is None:
            self._numbers[node] = self._intern(("open", id(node)))
            known = self._numbers[node] = self._number(node)
        return known

    def _number(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return self._intern(("constant", repr(node.value)))
        if isinstance(node, ast.Name):
            found = self.device.reached.get(node, ())
            if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None:
                return self.number(found[0].value)
            return self._intern(("name", node.id, *sorted(id(item) for item in found)))
        if isinstance(node, ast.BinOp):
            pair = (self.number(node.left), self.number(node.right))
            if isinstance(node.op, (ast.Add, ast.Mult)):
                pair = (min(pair), max(pair))
            return self._intern((type(node.op).__name__, *pair))
        if isinstance(node, ast.UnaryOp):
            return self._intern((type(node.op).__name__, self.number(node.operand)))
        if isinstance(node, ast.Subscript) and _only_places(node.slice):
            return self.number(node.value)
        if isinstance(node, ast.Call):
            call = self.device.call_of.get(node)
            if call is not None and call.first is not None and call.name in _SAME_VALUE:
                return self.number(call.first)
            named = [(keyword.arg, self.number(keyword.value)) for keyword in node.keywords]
            return self._intern(
                ("call", chain_of(node.func) or ast.dump(node.func), *map(self.number, node.args), *named)
            )
        return self._intern((type(node).__name__, ast.unparse(node)))

    def _intern(self, key: tuple[object, ...]) -> int:
        return self._table.setdefault(key, len(self._table))

    def parts(self, node: ast.expr) -> frozenset[int]:
        """Numbers of all values that an address is a sum or product of, names followed. What is under ``%``,
        ``minimum``, ``where`` or a load counts for nothing there: it is kept in range, or another value."""
        known = self._parts.get(node)
        if known is None:
            self._parts[node] = frozenset()
            known = self._parts[node] = self._parts_of(node) | {self.number(node)}
        return known

    def _parts_of(self, node: ast.expr) -> frozenset[int]:
        if isinstance(node, ast.Name):
            plain, augmented = self.device.origins_of(node)
            values = [item.value for item in (*plain, *augmented) if item.value is not None and item.kind in _FOLLOWED]
            return frozenset().union(*map(self.parts, values))
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Mod):
                return frozenset()
            return self.parts(node.left) | self.parts(node.right)
        if isinstance(node, ast.UnaryOp):
            return self.parts(node.operand)
        if isinstance(node, ast.Subscript):
            return self.parts(node.value)
        if isinstance(node, ast.Call):
            call = self.device.call_of.get(node)
            if call is not None and call.first is not None and call.name in _SAME_VALUE:
                return self.parts(call.first)
        return frozenset()

    def terms(self, node: ast.expr, depth: int = 0) -> list[ast.expr]:
        """The terms of a sum, names with one plain assignment followed."""
        node = self.device.value_of(node)
        if depth < 30:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                return [*self.terms(node.left, depth + 1), *self.terms(node.right, depth + 1)]
            if isinstance(node, ast.Subscript) and _only_places(node.slice):
                return self.terms(node.value, depth + 1)
            if isinstance(node, ast.Call):
                call = self.device.call_of.get(node)
                if call is not None and call.first is not None and call.name in _SAME_VALUE:
                    return self.terms(call.first, depth + 1)
        return [node]


_SAME_VALUE = frozenset({"to", "cast", "multiple_of", "max_contiguous", "max_constancy", "broadcast_to", "expand_dims"})
_FOLLOWED = ("assign", "augmented")


def position(node: ast.expr | None) -> int | None:
    """A literal axis, negative ones too; None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = integer(node.operand)
        return None if inner is None else -inner
    return integer(node) if node is not None else None


def _operands(call: Call) -> tuple[ast.expr | None, ast.expr | None]:
    return call.argument("input"), call.argument("other")


def _broadcast(parts: list[Tile]) -> Tile:
    """The tile of an operation element by element."""
    wide = [part for part in parts if part.dims != ()]
    if not wide:
        return SCALAR
    if len(wide) == 1 or all(part is wide[0] for part in wide):
        return wide[0]
    axes = NONE.union(*(part.axes for part in parts))
    length = 0
    for part in parts:
        if part.dims is None:
            return Tile(axes, None)
        length = max(length, len(part.dims))
    dims = [NONE] * length
    for part in parts:
        for at, item in enumerate(part.dims or (), length - len(part.dims or ())):
            dims[at] |= item
    return Tile(axes, tuple(dims))


def _only_places(index: ast.expr) -> bool:
    """Whether an index only adds axes: ``[:, None]``."""
    return all(
        isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value is None)
        for item in (index.elts if isinstance(index, ast.Tuple) else [index])
    )


def _subscript(tile: Tile, index: ast.expr) -> Tile:
    if tile.dims is None or not _only_places(index):
        return Tile(tile.axes, None)
    dims: list[Axes] = []
    rest = list(tile.dims)
    for item in index.elts if isinstance(index, ast.Tuple) else [index]:
        dims.append((rest.pop(0) if rest else NONE) if isinstance(item, ast.Slice) else NONE)
    return Tile(tile.axes, (*dims, *rest))
