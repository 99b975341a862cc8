"""What is known of an expression of a launcher."""

from __future__ import annotations

import ast
from typing import Any

from kgate.lint.init.frames import DEPTH, DTYPES, Frame, Tracing, dtype_called, join
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Ask,
    Count,
    Device,
    Dtype,
    Evidence,
    Formula,
    Items,
    Known,
    Local,
    Named,
    Parameter,
    Rank,
    Rows,
    Shape,
    Size,
    Stride,
    Value,
)
from kgate.source.uses import EMPTY, chain_of


class Expressions(Tracing):
    """Gives the value of an expression, and whether a condition holds."""

    def value(self, node: ast.expr | None, frame: Frame) -> Value:
        """What is known of an expression."""
        if node is None:
            return UNKNOWN
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        return method(node, frame) if method is not None else self._other(node, frame)

    def _other(self, node: ast.expr, frame: Frame) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, frame)
        return UNKNOWN

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        return Known(node.value)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        if node.id in frame.env:
            return frame.env[node.id]
        return self.named(node.id, frame)

    def named(self, chain: str, frame: Frame) -> Value:
        """A name of the module: a constant, a function, something imported."""
        last = chain.rpartition(".")[2]
        if isinstance(dtype_called(chain), Dtype):
            return dtype_called(chain)
        found = self.project.resolve(frame.path, chain, frame.uses.imports, frame.owner)
        if found.symbols:
            constant = self._module_constant(list(found.symbols))
            return constant if constant is not None else Named(tuple(found.symbols))
        external = next(iter(found.externals), "")
        if external.startswith("torch.") and external.count(".") == 1 and last in DTYPES:
            return Dtype(last)
        return Named((), external)

    def _module_constant(self, symbols: list[str]) -> Value | None:
        if len(symbols) != 1:
            return None
        definition = self.project.definition(symbols[0])
        several = len(self.project.names.definitions(symbols[0])) != 1
        if definition is None or definition.kind != "constant" or definition.value is None or several:
            return None
        node = definition.value.parse()
        try:
            return Known(ast.literal_eval(node))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        from kgate.source.uses import integer

        number = integer(node)
        if number is not None:
            return Known(number)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            frame = Frame(symbols[0].partition("::")[0], 0, EMPTY, "", [], {}, DEPTH)
            return self.value(node, frame)
        return None

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        chain = chain_of(node)
        if chain and chain.partition(".")[0] not in frame.env:
            return self.named(chain, frame)
        owner = self.value(node.value, frame)
        if isinstance(owner, Parameter) and node.attr in _TENSOR_ATTRIBUTES:
            owner = self.as_tensor(owner, frame, node)
        if isinstance(owner, Array):
            return self._array_attribute(owner, node, frame)
        if isinstance(owner, Device) and node.attr == "type":
            return Device(owner.root, kind=True)
        if isinstance(owner, Dtype) and node.attr == "is_floating_point" and owner.root:
            return Ask(owner.root, "floating")
        return UNKNOWN

    def _array_attribute(self, array: Array, node: ast.Attribute, frame: Frame) -> Value:
        if array.root and array.root in self.given:
            self.facts.tensors.setdefault(array.root, self.evidence(frame, node))
        name = node.attr
        if name == "shape":
            return Shape(array)
        if name == "dtype":
            return array.dtype
        if name == "device":
            return Device(array.root)
        if name == "ndim":
            return Rank(array.shape) if isinstance(array.shape, str) else self._known_rank(array)
        if name == "is_cuda":
            return Ask(array.root, "cuda")
        if name in ("data", "detach"):
            return array
        if name in ("T", "mT", "H"):
            return self.swapped(array, -1, -2)
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        owner = self.value(node.value, frame)
        if isinstance(owner, (Named, Local)):
            self.value(node.slice, frame)
            return UNKNOWN
        if isinstance(owner, Shape):
            return self._shape_item(owner, node.slice, frame)
        if isinstance(owner, (Items, Known)):
            return self._item(owner, node.slice, frame)
        if isinstance(owner, Stride) and owner.axis is None:
            at = self.value(node.slice, frame)
            return Stride(owner.root, at.value) if isinstance(at, Known) and isinstance(at.value, int) else UNKNOWN
        if isinstance(owner, Array):
            return Array(owner.root, None, owner.dtype)
        self.value(node.slice, frame)
        return UNKNOWN

    def _shape_item(self, shape: Shape, index: ast.expr, frame: Frame) -> Value:
        if isinstance(index, ast.Slice):
            start, stop = (self._bound(part, frame) for part in (index.lower, index.upper))
            if index.step is not None or start is False or stop is False or shape.start or shape.stop is not None:
                return UNKNOWN
            return Shape(shape.array, start or None, stop if index.upper is not None else None)
        at = self.value(index, frame)
        if isinstance(at, Parameter):
            self.facts.axes.setdefault(at.name, self.evidence(frame, index))
        if isinstance(at, Known) and isinstance(at.value, int):
            if shape.start in (None, 0) and shape.stop is None:
                return self.axis(shape.array, at.value)
            if at.value >= 0 and (shape.start or 0) >= 0:
                return self.axis(shape.array, at.value + (shape.start or 0))
        return UNKNOWN

    def _bound(self, node: ast.expr | None, frame: Frame) -> Any:
        """A whole number, None where there is none, False where it is not known."""
        if node is None:
            return None
        value = self.value(node, frame)
        return value.value if isinstance(value, Known) and isinstance(value.value, int) else False

    def _item(self, owner: Items | Known, index: ast.expr, frame: Frame) -> Value:
        at = self.value(index, frame)
        if not isinstance(at, Known):
            return UNKNOWN
        if isinstance(owner, Items):
            if owner.spread or not isinstance(at.value, int) or not -len(owner.items) <= at.value < len(owner.items):
                return UNKNOWN
            return owner.items[at.value]
        try:
            return Known(owner.value[at.value])
        except (TypeError, KeyError, IndexError):
            return UNKNOWN

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set, frame: Frame) -> Value:
        items: list[Value] = []
        spread: list[int] = []
        for part in node.elts:
            if isinstance(part, ast.Starred):
                spread.append(len(items))
                items.append(self.value(part.value, frame))
            else:
                items.append(self.value(part, frame))
        return Items(tuple(items), tuple(spread))

    _list = _tuple

    _set = _tuple

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Local(node)

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        decided = self.truth(node.test, frame)
        if decided is not None:
            return self.value(node.body if decided else node.orelse, frame)
        return join(self.value(node.body, frame), self.value(node.orelse, frame))

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        values = [self.value(part, frame) for part in node.values]
        first = values[0]
        if isinstance(first, (Dtype, Array)) and isinstance(node.op, ast.Or):
            return first
        if isinstance(first, Known) and len(values) == 2:
            return values[1] if bool(first.value) == isinstance(node.op, ast.And) else first
        return UNKNOWN

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        self.value(node.left, frame)
        for part in node.comparators:
            self.value(part, frame)
        decided = self._compared(node, frame) if len(node.ops) == 1 else None
        return UNKNOWN if decided is None else Known(decided)

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.value(node.operand, frame)
        if isinstance(value, Known) and isinstance(node.op, ast.USub) and isinstance(value.value, (int, float)):
            return Known(-value.value)
        if isinstance(value, Known) and isinstance(node.op, ast.Not):
            return Known(not value.value)
        return UNKNOWN

    def _binop(self, node: ast.BinOp, frame: Frame) -> Value:
        return self.arithmetic(type(node.op), self.value(node.left, frame), self.value(node.right, frame))

    def arithmetic(self, kind: type[ast.operator], left: Value, right: Value) -> Value:
        """The value of a binary operation."""
        if isinstance(left, Known) and isinstance(right, Known):
            try:
                return Known(_OPERATE[kind](left.value, right.value)) if kind in _OPERATE else UNKNOWN
            except (TypeError, ValueError, ArithmeticError):
                return UNKNOWN
        sequences = (Items, Shape)
        if kind is ast.Add and isinstance(left, sequences) and isinstance(right, sequences):
            return Items((left, right), (0, 1))
        for side in (left, right):
            if isinstance(side, Array):
                return Array("", side.shape if not isinstance(left, Array) or not isinstance(right, Array) else None)
        if kind is ast.FloorDiv and isinstance(left, Count) and right == Size(left.root, -1):
            return Rows(left.root)
        if kind is ast.Mod and isinstance(right, Rank):
            return self._wrapped_axis(left, right)
        symbol = _SYMBOLS.get(kind)
        sizes = (Size, Rows, Count, Formula, Known, Parameter)
        if symbol is None or not isinstance(left, sizes) or not isinstance(right, sizes):
            return UNKNOWN
        return Formula(symbol, left, right)

    def count(self, array: Array) -> Value:
        """The number of elements of an array."""
        if isinstance(array.shape, str) and array.shape:
            return Count(array.shape)
        if isinstance(array.shape, tuple) and array.shape:
            total = array.shape[0]
            for size in array.shape[1:]:
                total = self.arithmetic(ast.Mult, total, size)
            return total
        return UNKNOWN

    def _wrapped_axis(self, left: Value, right: Rank) -> Value:
        """``dim % x.ndim``: an axis that may be counted from the end, of a tensor of any number of axes."""
        if isinstance(left, Parameter):
            self.facts.axes.setdefault(left.name, self.here)
        self.facts.soft_ranks.setdefault(right.root, []).append((2, self.here))
        return left

    def truth(self, test: ast.expr, frame: Frame) -> bool | None:
        """Whether a condition holds; None where that depends on the inputs."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, frame)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            found = [self.truth(part, frame) for part in test.values]
            if decisive in found:
                return decisive
            return None if None in found else not decisive
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test, frame)
        if isinstance(test, ast.Call):
            return self._predicate(test, frame)
        value = self.value(test, frame)
        if isinstance(value, Known):
            if value.parameter:
                self.facts.flags.setdefault(value.parameter, self.evidence(frame, test))
            return bool(value.value)
        if isinstance(value, Parameter):
            self.facts.flags.setdefault(value.name, self.evidence(frame, test))
        return None

    def _predicate(self, test: ast.Call, frame: Frame) -> bool | None:
        if chain_of(test.func) in ("torch.compiler.is_compiling", "torch.jit.is_scripting", "torch.jit.is_tracing"):
            return False
        if chain_of(test.func) == "isinstance" and len(test.args) == 2:
            value, kind = self.value(test.args[0], frame), chain_of(test.args[1])
            if isinstance(value, Parameter) and kind in ("torch.Tensor", "Tensor"):
                self.facts.tensors.setdefault(value.name, self.evidence(frame, test))
                return True
            if isinstance(value, Parameter) and kind.endswith("Tensor"):  # a kind of tensor that few have
                return False
            if isinstance(value, Array):
                return True if kind in ("torch.Tensor", "Tensor") else False if kind else None
            if isinstance(value, Known) and kind in ("str", "int", "float", "bool"):
                return type(value.value).__name__ == kind
        return None

    def _compared(self, test: ast.Compare, frame: Frame) -> bool | None:
        left, right = self.value(test.left, frame), self.value(test.comparators[0], frame)
        kind = test.ops[0]
        if isinstance(kind, (ast.Is, ast.IsNot)) and isinstance(right, Known) and right.value is None:
            if isinstance(left, Known):
                return (left.value is None) == isinstance(kind, ast.Is)
            if isinstance(left, (Array, Size, Rows, Count, Formula, Items, Shape, Dtype)):
                return isinstance(kind, ast.IsNot)
            if isinstance(left, Parameter):  # a value was given, as far as this trace goes
                return isinstance(kind, ast.IsNot)
            return None
        if isinstance(left, Known) and isinstance(right, Known):
            try:
                return _holds(kind, left.value, right.value)
            except TypeError:
                return None
        if isinstance(left, Known) and isinstance(right, Items) and isinstance(kind, (ast.In, ast.NotIn)):
            known = [item.value for item in right.items if isinstance(item, Known)]
            return (left.value in known) == isinstance(kind, ast.In) if len(known) == len(right.items) else None
        if isinstance(left, Rank) and isinstance(right, Known):
            return self._rank_compared(left.root, kind, right.value, self.evidence(frame, test))
        zero = isinstance(right, Known) and type(right.value) is int and right.value == 0
        if zero and isinstance(left, (Size, Rows, Count)):  # a draft speaks of tensors that have elements
            return isinstance(kind, (ast.NotEq, ast.Gt, ast.GtE))
        return None

    def _rank_compared(self, root: str, kind: ast.cmpop, value: Any, evidence: Evidence) -> bool | None:
        """Decide by the number of axes; where it is open, the first number that the code asks for is taken."""
        rank = self.rank_of_input(root)
        if rank is None and type(value) is int and isinstance(kind, (ast.Eq, ast.NotEq)):
            rank = value
            self.facts.ranks.setdefault(root, []).append((value, evidence))
        if rank is None:
            return None
        try:
            return _holds(kind, rank, value)
        except TypeError:
            return None


def _holds(kind: ast.cmpop, left: Any, right: Any) -> bool | None:
    operation = _COMPARE.get(type(kind))
    return bool(operation(left, right)) if operation is not None else None


_TENSOR_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "T", "mT", "data", "requires_grad"})
_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_OPERATE: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b if isinstance(a, (int, float)) and isinstance(b, (int, float)) else None,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Div: lambda a, b: a / b,
}
_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b or (a == b and isinstance(a, bool)),
    ast.IsNot: lambda a, b: not (a is b or (a == b and isinstance(a, bool))),
}
