"""Offsets taken apart: the products that addresses are made of, their width in bits, and what bounds them.

What is added to a pointer is widened term by term, so that sums of two offsets seldom overflow; products do. A bound is
a form over the device function's parameters, with ``pid0`` and ``grid0`` for the program's index and the number of
programs along an axis: ``((n_rows - 1) * x_stride)``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from kgate.lint.model.calls import Call
from kgate.lint.model.device import INT64, Device

MOST_LETTERS = 300
"""Longest bound; what needs more is not looked at."""
_SAME = ("to", "cast", "multiple_of", "max_contiguous", "max_constancy")
_THROUGH = frozenset((*_SAME, "broadcast_to", "expand_dims", "view", "reshape", "trans", "ravel"))
_OPERATORS = {ast.Mult: "*", ast.FloorDiv: "//", ast.LShift: "<<", ast.RShift: ">>"}
_VARYING = frozenset(("pid", "arange", "loop"))


@dataclass(frozen=True)
class Product:
    """A product in an address."""

    node: ast.BinOp
    access: Call
    """The first access that it is for."""
    wide: bool
    """Whether it is computed in 64 bits."""
    bound: str
    """The largest value that it can have; empty where nothing bounds it."""
    loads: tuple[str, ...]
    """Pointers whose loaded elements decide whether it is computed in 64 bits."""
    sources: frozenset[str]
    """What it is made of, as :meth:`kgate.lint.model.device.Device.sources`."""

    @property
    def runtime(self) -> tuple[str, ...]:
        """Parameters that are no compile-time constants; a value beyond 32 bits makes them 64-bit."""
        return tuple(sorted(item[6:] for item in self.sources if item.startswith("param:")))


def products_of(device: Device) -> list[Product]:
    """Products of what differs between programs, lanes or turns of a loop with a size, in the order of accesses."""
    known: list[Product] | None = getattr(device, "_products", None)
    if known is None:
        known = _Reader(device).read()
        device._products = known  # type: ignore[attr-defined]
    return known


class _Reader:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.found: list[Product] = []
        self.seen: set[ast.AST] = set()
        self._bounds: dict[ast.expr, str | None] = {}
        self._below: dict[Any, str] | None = None

    def read(self) -> list[Product]:
        device = self.device
        for call in device.accesses:
            self._pointer(call.first, call)
        for call in device.called("make_block_ptr", "make_tensor_descriptor"):
            self._pointer(call.argument("base"), call)
        return self.found

    def _pointer(self, node: ast.expr | None, access: Call) -> None:
        stack = [node]
        while stack:
            node = stack.pop()
            if node is None or node in self.seen:
                continue
            self.seen.add(node)
            kind = node.__class__
            if kind is ast.Name:
                self._named_pointer(node, stack)  # type: ignore[arg-type]
            elif kind is ast.BinOp:
                operator = node.op.__class__  # type: ignore[attr-defined]
                if operator is ast.Add or operator is ast.Sub:
                    stack += [node.right, node.left]  # type: ignore[attr-defined]
                elif operator is ast.Mult:
                    stack += self._product(node, access)  # type: ignore[arg-type]
            elif kind is ast.Subscript:
                stack.append(node.value)  # type: ignore[attr-defined]
            elif kind is ast.IfExp:
                stack += [node.orelse, node.body]  # type: ignore[attr-defined]
            elif kind is ast.Call:
                call = self.device.call_of.get(node)  # type: ignore[call-overload]
                if call is not None and (call.name in _THROUGH or call.name == "advance"):
                    stack.append(call.first)

    def _named_pointer(self, node: ast.Name, stack: list[ast.expr | None]) -> None:
        reached = self.device.reached.get(node, ())
        if len(reached) == 1 and reached[0].kind != "augmented":
            if reached[0].kind == "assign":
                stack.append(reached[0].value)
            return
        plain, augmented = self.device.origins_of(node)
        for binding in (*plain, *augmented):
            if binding.kind in ("assign", "augmented"):
                stack.append(binding.value)

    def _product(self, node: ast.BinOp, access: Call) -> list[ast.expr | None]:
        """Note a product, and give what in it is to be looked at in turn."""
        device = self.device
        sources = device.sources(node)
        if _VARYING.isdisjoint(sources) and not any(item.startswith("load:") for item in sources):
            return []
        wide, loads = self._wide(node)
        if wide is not None:
            bound = "" if wide else self._bound(node) or ""
            self.found.append(Product(node, access, wide, bound, loads, sources))
        return [node.right, node.left] if wide else []

    def _wide(self, node: ast.BinOp) -> tuple[bool | None, tuple[str, ...]]:
        """Whether a product is computed in 64 bits, by its factors; None where that cannot be known."""
        loads: dict[str, None] = {}
        unknown = False
        for factor in _factors(node):
            wide = self.device.wide(factor)
            if wide:
                return True, ()
            if wide is None:
                kinds = self._types(factor)
                if kinds is None:
                    unknown = True
                elif INT64 & kinds:
                    return True, ()
                else:
                    loads.update(dict.fromkeys(sorted(kind[5:] for kind in kinds if kind.startswith("elem:"))))
        return (None, ()) if unknown else (False, tuple(loads))

    def _types(self, node: ast.expr) -> set[str] | None:
        """Types of the leaves of an integer expression; None where one is not known."""
        stack, found, seen = [node], set(), set()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            kind = self.device.type_of(item)
            if kind.startswith("param:"):
                parameter = self.device.parameters.get(kind[6:])
                found.add("int64" if parameter is not None and "64" in parameter.annotation else "int32")
            elif kind:
                found.add(kind)
            elif isinstance(item, ast.BinOp):
                stack += [item.left, item.right]
            elif isinstance(item, ast.IfExp):
                stack += [item.body, item.orelse]
            elif isinstance(item, ast.Subscript):
                stack.append(item.value)
            elif isinstance(item, ast.Name) and self.device.reached.get(item):
                plain, augmented = self.device.origins_of(item)
                if any(binding.kind not in ("assign", "parameter", "loop", "unpack") for binding in plain):
                    return None
                stack += [binding.value for binding in (*plain, *augmented) if binding.kind != "loop" and binding.value]
            elif isinstance(item, ast.Call) and (call := self.device.call_of.get(item)) is not None:
                if call.name == "cdiv" or call.name in ("maximum", "minimum", "where"):
                    stack += item.args[call.name == "where" :]
                elif not call.name and self._narrow_helper(item):
                    found.add("int32")
                    stack += item.args
                else:
                    return None
            else:
                return None
        return found

    def _narrow_helper(self, node: ast.Call) -> bool:
        """Whether a call is of a function in this file that speaks of no 64 bits."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = self.device.module.functions.get(name)
        return function is not None and not node.keywords and "64" not in self.device.module.segment(function)

    # Bounds

    def _bound(self, node: ast.expr, depth: int = 0) -> str | None:
        """The largest value of an integer that is not negative, as a form; None where nothing bounds it."""
        if node in self._bounds:
            return self._bounds[node]
        self._bounds[node] = None  # for one that is made of itself
        below = self._comparisons().get(self._key(node))
        found = f"({below} - 1)" if below is not None else self._made(node, depth) if depth < 40 else None
        if found is not None and len(found) > MOST_LETTERS:
            found = None
        self._bounds[node] = found
        return found

    def _made(self, node: ast.expr, depth: int) -> str | None:
        if isinstance(node, ast.Constant):
            return str(node.value) if type(node.value) is int else None
        if isinstance(node, ast.Name):
            return self._named(node, depth)
        if isinstance(node, ast.BinOp):
            return self._computed(node, depth)
        if isinstance(node, ast.Subscript):
            return self._bound(node.value, depth + 1)
        if isinstance(node, ast.IfExp):
            return _largest([self._bound(node.body, depth + 1), self._bound(node.orelse, depth + 1)])
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        return None

    def _named(self, node: ast.Name, depth: int) -> str | None:
        reached = self.device.reached.get(node, ())
        if not reached:
            return None
        bounds: list[str | None] = []
        for binding in reached:
            if binding.kind == "parameter":
                bounds.append(binding.name)
            elif binding.kind == "assign" and binding.value is not None:
                bounds.append(self._bound(binding.value, depth + 1))
            elif binding.kind == "loop" and binding.value is not None:
                bounds.append(self._looped(binding.value, depth))
            else:
                return None
        return _largest(bounds)

    def _looped(self, node: ast.expr, depth: int) -> str | None:
        """The largest value of a variable that goes over a range."""
        if not isinstance(node, ast.Call) or len(node.args) not in (1, 2, 3):
            return None
        call = self.device.call_of.get(node)
        if call is None or call.name not in ("range", "static_range"):
            return None
        end = self._bound(node.args[0] if len(node.args) == 1 else node.args[1], depth + 1)
        return None if end is None else f"({end} - 1)"

    def _computed(self, node: ast.BinOp, depth: int) -> str | None:
        left = self._bound(node.left, depth + 1)
        if isinstance(node.op, ast.Sub):
            return left
        right = self._bound(node.right, depth + 1)
        if isinstance(node.op, ast.Mod):
            rest = None if right is None else f"({right} - 1)"
            return rest if left is None else left if rest is None else f"min({left}, {rest})"
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return f"({left} + {right})"
        operator = _OPERATORS.get(type(node.op))
        return None if operator is None else f"({left} {operator} {right})"

    def _called(self, node: ast.Call, depth: int) -> str | None:
        call = self.device.call_of.get(node)
        if call is None:
            return None
        if call.name in ("program_id", "num_programs"):
            axis = call.argument("axis")
            if isinstance(axis, ast.Constant) and axis.value in (0, 1, 2):
                return f"pid{axis.value}" if call.name == "program_id" else f"grid{axis.value}"
            return None
        if call.name == "arange":
            end = call.argument("end")
            inner = None if end is None else self._bound(end, depth + 1)
            return None if inner is None else f"({inner} - 1)"
        if call.name in _THROUGH:
            return None if call.first is None else self._bound(call.first, depth + 1)
        parts = [self._bound(item, depth + 1) for item in node.args]
        if call.name == "cdiv" and len(parts) == 2 and None not in parts:
            return f"cdiv({parts[0]}, {parts[1]})"
        if call.name == "minimum":
            known = [part for part in parts if part is not None]
            return f"min({', '.join(known)})" if known else None
        if call.name == "maximum":
            return _largest(parts)
        if call.name == "where":
            return _largest(parts[1:])
        return None

    def _key(self, node: ast.expr) -> Any:
        """The same for expressions that have the same value but for shape and type."""
        for _ in range(40):
            if isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Name):
                found = self.device.reached.get(node, ())
                if len(found) != 1 or found[0].kind != "assign" or found[0].value is None:
                    return (node.id, found)
                node = found[0].value
            elif isinstance(node, ast.Call):
                call = self.device.call_of.get(node)
                if call is None or call.name not in _THROUGH or call.first is None:
                    return node
                node = call.first
            else:
                return node
        return node

    def _comparisons(self) -> dict[Any, str]:
        """What the function compares with what, as masks do: the key of an index to the form that it is below."""
        if self._below is None:
            limits: dict[Any, dict[str, None]] = {}
            for node in self.device.compare_nodes:
                if len(node.ops) == 1:
                    self._compared(node.ops[0], node.left, node.comparators[0], limits)
            self._below = {
                key: next(iter(found)) if len(found) == 1 else f"min({', '.join(found)})"
                for key, found in limits.items()
            }
        return self._below

    def _compared(
        self, operator: ast.cmpop, left: ast.expr, right: ast.expr, below: dict[Any, dict[str, None]]
    ) -> None:
        if isinstance(operator, (ast.Gt, ast.GtE)):
            if not (isinstance(operator, ast.GtE) and self._leaves(left)):  # `if index >= n: return`
                left, right = right, left
        elif not isinstance(operator, (ast.Lt, ast.LtE)):
            return
        if isinstance(left, ast.Constant):
            return
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Sub) and self._limit(right) is None:
            left, right = right.right, right.left  # `cols < n - first` leaves nothing unless first is below n
        limit = self._limit(right)
        if limit is not None:
            more = f"({limit} + 1)" if isinstance(operator, (ast.LtE, ast.Gt)) else limit
            below.setdefault(self._key(left), {})[more] = None

    def _leaves(self, node: ast.expr) -> bool:
        """Whether a comparison is the condition for ending the program or the turn."""
        around = self.device.parents.get(self.device.parents.get(node, node))
        return isinstance(around, ast.If) and isinstance(around.body[-1], (ast.Return, ast.Continue))

    def _limit(self, node: ast.expr) -> str | None:
        """What an index is compared with, where that is made of parameters and constants alone."""
        sources = self.device.sources(node)
        if not sources or any(not item.startswith(("param:", "constexpr:")) for item in sources):
            return None
        return self._made(node, 0)


def _largest(bounds: list[str | None]) -> str | None:
    known = list(dict.fromkeys(bound for bound in bounds if bound is not None))
    if not known or None in bounds:
        return None
    return known[0] if len(known) == 1 else f"max({', '.join(known)})"


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]
