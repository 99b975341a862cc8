"""Extents of the tiles of a device function: the compile-time shape of a value, axis by axis, as it is written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.model.device import Device

Shape = tuple["str | None", ...]
"""Per axis a compile-time parameter's name, a number in decimal digits, or None where it is not known; ``1`` too."""

_UNARY = """
    to cast multiple_of max_contiguous max_constancy exp exp2 log log2 sqrt rsqrt abs sigmoid sin cos floor ceil erf
    tanh cumsum cumprod zeros_like softmax flip load advance
"""
_FIRST = frozenset(_UNARY.split())
_BROADCAST = frozenset(("where", "maximum", "minimum", "fma", "div_rn", "fdiv", "pow", "clamp"))


class Extents:
    """Shapes of the values of one device function."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._known: dict[ast.expr, Shape | None] = {}

    @classmethod
    def of_device(cls, device: Device) -> Extents:
        """The extents of a device function, made once."""
        known: Extents | None = getattr(device, "_extents", None)
        if known is None:
            known = cls(device)
            device._extents = known  # type: ignore[attr-defined]
        return known

    def of(self, node: ast.expr | None, depth: int = 0) -> Shape | None:
        """The shape of a value; None where its number of axes is not known."""
        if node is None or depth > 60:
            return None
        if node not in self._known:
            self._known[node] = ()  # what a loop carries adds nothing to where it began
            self._known[node] = self._made(node, depth + 1)
        return self._known[node]

    def _made(self, node: ast.expr, depth: int) -> Shape | None:
        if isinstance(node, ast.Constant):
            return ()
        if isinstance(node, ast.Name):
            return self._named(node, depth)
        if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp)):
            return self._broadcast(
                [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)], depth
            )
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand, depth)
        if isinstance(node, ast.Attribute):
            inner = self.of(node.value, depth) if node.attr == "T" else ()
            return None if inner is None else inner[::-1]
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        return None

    def _named(self, node: ast.Name, depth: int) -> Shape | None:
        if not self.device.reached.get(node):
            return ()
        best: Shape | None = None
        for binding in self.device.origins_of(node)[0]:
            if binding.kind in ("parameter", "loop"):
                return ()
            if binding.kind == "assign" and binding.value is not None:
                found = self.of(binding.value, depth)
                if found:
                    return found
                best = found
        return best

    def _broadcast(self, nodes: list[ast.expr], depth: int) -> Shape | None:
        result: Shape = ()
        for shape in (self.of(item, depth) for item in nodes):
            if shape is None:
                return None
            long, short = (result, shape) if len(result) >= len(shape) else (shape, result)
            short = ("1",) * (len(long) - len(short)) + short
            result = tuple(
                one if other == "1" else other if one in ("1", None) else one
                for one, other in zip(long, short, strict=True)
            )
        return result

    def _subscript(self, node: ast.Subscript, depth: int) -> Shape | None:
        inner = self.of(node.value, depth)
        if inner is None:
            return None
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        result: list[str | None] = []
        rest = list(inner)
        for item in index:
            if isinstance(item, ast.Constant) and item.value is None:
                result.append("1")
            elif isinstance(item, ast.Slice) and rest:
                result.append(rest.pop(0))
            else:
                return None
        return (*result, *rest)

    def _called(self, node: ast.Call, depth: int) -> Shape | None:
        call = self.device.call_of.get(node)
        if call is None:
            return None
        if call.name == "arange":
            return (self._length(call.argument("start"), call.argument("end")),)
        if call.name in ("program_id", "num_programs", "cdiv"):
            return ()
        if call.name in _FIRST:
            return self.of(call.first, depth)
        if call.name in _BROADCAST:
            return self._broadcast(list(node.args), depth)
        if call.name in ("zeros", "full"):
            return self._listed(call.argument("shape"))
        if call.name in ("make_block_ptr", "make_tensor_descriptor"):
            return self._listed(call.argument("block_shape"))
        if call.name == "descriptor_load":
            return self.of(call.first, depth)
        if call.name == "trans" and len(node.args) == 1 - call.method:
            inner = self.of(call.first, depth)
            return None if inner is None else inner[::-1]
        if call.name == "dot":
            left, right = self.of(call.argument("input"), depth), self.of(call.argument("other"), depth)
            return None if not left or not right else (*left[:-1], right[-1])
        return None

    def _length(self, start: ast.expr | None, end: ast.expr | None) -> str | None:
        if end is None or start is None or integer(self.device.value_of(start)) != 0:
            return None
        return self.extent(end)

    def _listed(self, node: ast.expr | None) -> Shape | None:
        if node is None:
            return None
        node = self.device.value_of(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.extent(item) for item in node.elts)
        return None

    def extent(self, node: ast.expr) -> str | None:
        """One extent: a compile-time parameter's name or a number."""
        value = self.device.value_of(node)
        whole = integer(value)
        if whole is not None:
            return str(whole)
        if isinstance(value, ast.Name):
            if value.id in self.device.constexprs:
                return value.id
            constants = self.device.module.constants.get(value.id, ())
            if value.id not in self.device.bindings and len(constants) == 1 and constants[0] is not None:
                inner = constants[0]
                if isinstance(inner, ast.Call) and len(inner.args) == 1:  # tl.constexpr(16)
                    inner = inner.args[0]
                whole = integer(inner)
                return None if whole is None else str(whole)
        return None
