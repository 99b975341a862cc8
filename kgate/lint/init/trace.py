"""Follows a launcher statement by statement, without running it, down to its launches, and notes what it insists on.

Parameters stand for inputs; sizes, dtypes and strides read from them keep saying which input they are of. Where a
branch cannot be decided, both are followed, and what differs afterwards is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgate.contract.dtypes import DTYPES as KNOWN_DTYPES
from kgate.lint.init.project import Project
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Ask,
    Count,
    Device,
    Dtype,
    Evidence,
    Facts,
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
from kgate.source.uses import EMPTY, Uses, chain_of

STEPS = 6000
"""Statements that one trace may follow."""
DEPTH = 8
GUARDS = frozenset({"input_guard", "ensure_contiguous", "contiguous", "make_contiguous"})
"""Decorators, by their last name, that make every tensor contiguous before the function runs."""
DTYPES = frozenset(KNOWN_DTYPES)
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}
_CHECKS = frozenset({"torch._check", "torch._assert", "torch._check_value", "torch._check_type"})


@dataclass
class Frame:
    """One run of one function."""

    path: str
    number: int
    uses: Uses
    owner: str
    lines: list[str]
    env: dict[str, Value]
    depth: int
    returns: list[tuple[Value, Evidence]] = field(default_factory=list)
    ended: bool = False


class Tracer:
    """One trace of one launcher; ``given`` says what its parameters are."""

    def __init__(self, project: Project, given: Mapping[str, Value], documented: Mapping[str, int] = {}) -> None:
        self.project = project
        self.documented = dict(documented)
        self.given = dict(given)
        self.facts = Facts()
        self.steps = 0
        self.frames = 0
        self.active: list[str] = []
        self.here = Evidence("", 0, "")

    def run(self, symbol: str) -> Facts:
        """Follow the launcher and give what was found."""
        node = self.project.function(symbol)
        if node is not None:
            self._guards(symbol, list(self.given.values()))
            frame = self.frame(symbol, dict(self.given), 0)
            self.block(node.body, frame)
            self.facts.returns = frame.returns
        return self.facts

    def frame(self, symbol: str, env: dict[str, Value], depth: int) -> Frame:
        path, _, name = symbol.partition("::")
        self.frames += 1
        uses = self.project.uses(symbol)
        return Frame(path, self.frames, uses, name.rpartition(".")[0], self.project.file(path)[1], env, depth)

    def evidence(self, frame: Frame, node: ast.AST) -> Evidence:
        line = getattr(node, "lineno", 1)
        text = frame.lines[line - 1].strip() if line <= len(frame.lines) else ""
        return Evidence(frame.path, line, text)

    # Statements

    def block(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            if frame.ended:
                return
            self.steps += 1
            if self.steps > STEPS:
                self.facts.truncated = True
                return
            self.statement(statement, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> None:
        self.here = self.evidence(frame, node)
        if isinstance(node, ast.Assign):
            value = self.value(node.value, frame)
            for target in node.targets:
                self.bind(target, value, frame, node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind(node.target, self.value(node.value, frame), frame, node)
        elif isinstance(node, ast.AugAssign):
            self.augment(node, frame)
        elif isinstance(node, ast.If):
            self.branch(node, frame)
        elif isinstance(node, (ast.For, ast.While)):
            self.loop(node, frame)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.value(item.context_expr, frame)
            self.block(node.body, frame)
        elif isinstance(node, ast.Try):
            self.block(node.body, frame)
            self.block(node.finalbody, frame)
        elif isinstance(node, ast.Return):
            value = self.value(node.value, frame) if node.value is not None else Known(None)
            frame.returns.append((value, self.evidence(frame, node)))
            frame.ended = True
        elif isinstance(node, ast.Raise):
            frame.ended = True
        elif isinstance(node, ast.Assert):
            from kgate.lint.init.checks import insist

            insist(self, frame, node.test, True, self.evidence(frame, node))
        elif isinstance(node, ast.Expr):
            self.value(node.value, frame)
        elif isinstance(node, ast.FunctionDef):
            frame.env[node.name] = Local(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                frame.env.pop(alias.asname or alias.name.partition(".")[0], None)

    def augment(self, node: ast.AugAssign, frame: Frame) -> None:
        right = self.value(node.value, frame)
        if isinstance(node.target, ast.Name):
            left = frame.env.get(node.target.id, UNKNOWN)
            if isinstance(left, Array):
                if left.root:
                    self.facts.mutated.setdefault(left.root, self.evidence(frame, node))
                return
            frame.env[node.target.id] = self.arithmetic(type(node.op), left, right)
        else:
            self.store(node.target, frame, node)

    def bind(self, target: ast.expr, value: Value, frame: Frame, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            frame.env[target.id] = value
            if isinstance(value, (Size, Rows, Count)):
                self.facts.names.append((value, target.id, frame.number))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part, item in zip(target.elts, self.unpack(target.elts, value, frame, node), strict=True):
                self.bind(part.value if isinstance(part, ast.Starred) else part, item, frame, node)
        elif isinstance(target, ast.Subscript):
            self.store(target, frame, node)

    def store(self, target: ast.expr, frame: Frame, node: ast.AST) -> None:
        """``x[...] = value`` writes to x."""
        if isinstance(target, ast.Subscript):
            array = self.value(target.value, frame)
            if isinstance(array, Array) and array.root:
                self.facts.mutated.setdefault(array.root, self.evidence(frame, node))

    def unpack(self, targets: list[ast.expr], value: Value, frame: Frame, node: ast.AST) -> list[Value]:
        """The parts of a value, one for each target."""
        count = len(targets)
        starred = next((at for at, part in enumerate(targets) if isinstance(part, ast.Starred)), None)
        if isinstance(value, Shape):
            return self._unpack_shape(value, count, starred, self.evidence(frame, node))
        if isinstance(value, Items):
            items = self._spread(value, count if starred is None else None, self.evidence(frame, node))
            if items is not None and starred is None and len(items) == count:
                return items
            if items is not None and starred is not None and len(items) >= count - 1:
                tail = count - 1 - starred
                middle = Items(tuple(items[starred : len(items) - tail]))
                return [*items[:starred], middle, *items[len(items) - tail :]]
        if isinstance(value, Array) and isinstance(value.shape, str) and value.root and starred is None:
            return [UNKNOWN] * count
        return [UNKNOWN] * count

    def _unpack_shape(self, value: Shape, count: int, starred: int | None, evidence: Evidence) -> list[Value]:
        whole = value.start in (None, 0) and value.stop is None
        if starred is not None:
            before = [self.axis(value.array, at) for at in range(starred)]
            after = [self.axis(value.array, at - count) for at in range(starred + 1, count)]
            middle = Shape(value.array, starred or None, -len(after) or None)
            return [*before, middle, *after] if whole else [UNKNOWN] * count
        if whole:
            self.insist_rank(value.array, count, evidence)
            return [self.axis(value.array, at) for at in range(count)]
        start = value.start or 0
        return [self.axis(value.array, start + at) for at in range(count)]

    def _spread(self, value: Items, count: int | None, evidence: Evidence) -> list[Value] | None:
        """The items of a tuple with starred parts opened; None where their number is not known."""
        if not value.spread:
            return list(value.items)
        opened: list[Value] = []
        for at, item in enumerate(value.items):
            if at not in value.spread:
                opened.append(item)
            elif isinstance(item, Items) and not item.spread:
                opened += item.items
            elif isinstance(item, Shape):
                length = self._length(item)
                if length is None and count is not None and len(value.spread) == 1:
                    length = count - len(value.items) + 1
                    if item.start in (None, 0) and item.stop is None:
                        self.insist_rank(item.array, length, evidence)
                if length is None:
                    return None
                start = item.start or 0
                opened += [self.axis(item.array, start + step) for step in range(length)]
            else:
                return None
        return opened

    def _length(self, shape: Shape) -> int | None:
        start = shape.start or 0
        rank = self.rank_of(shape.array)
        if shape.stop is not None and shape.stop >= 0 and start >= 0:
            return shape.stop - start
        if rank is None or start < 0:
            return -start if start < 0 and shape.stop is None else None
        return (rank if shape.stop is None else rank + shape.stop) - start

    def insist_rank(self, array: Array, rank: int, evidence: Evidence) -> None:
        if isinstance(array.shape, str) and array.shape:
            self.facts.ranks.setdefault(array.shape, []).append((rank, evidence))

    def rank_of(self, array: Array) -> int | None:
        if isinstance(array.shape, tuple):
            return len(array.shape)
        return self.rank_of_input(array.shape) if isinstance(array.shape, str) else None

    def rank_of_input(self, root: str) -> int | None:
        """The number of axes of an input, by what was found so far, or by its documentation."""
        group, queue = {root}, [root]
        for name in queue:
            if name in self.facts.ranks:
                return self.facts.ranks[name][0][0]
            for one, other, _ in self.facts.same_shape:
                for here, there in ((one, other), (other, one)):
                    if here == name and there not in group:
                        group.add(there)
                        queue.append(there)
        return next((self.documented[name] for name in queue if name in self.documented), None)

    def axis(self, array: Array, at: int) -> Value:
        """The size of one axis of an array."""
        if isinstance(array.shape, tuple):
            return array.shape[at] if -len(array.shape) <= at < len(array.shape) else UNKNOWN
        if isinstance(array.shape, Items):
            after = len(array.shape.items) - max(array.shape.spread) - 1
            return array.shape.items[at] if -after <= at < 0 else UNKNOWN
        return Size(array.shape, at) if array.shape else UNKNOWN

    # Branches

    def branch(self, node: ast.If, frame: Frame) -> None:
        decided = self.truth(node.test, frame)
        if decided is not None:
            self.block(node.body if decided else node.orelse, frame)
            return
        self.value(node.test, frame)
        if not node.orelse and node.body and _raises(node.body):
            from kgate.lint.init.checks import insist

            insist(self, frame, node.test, False, self.evidence(frame, node))
            return
        before = dict(frame.env)
        self.block(node.body, frame)
        first, first_ended = frame.env, frame.ended
        frame.env, frame.ended = before, False
        self.block(node.orelse, frame)
        second, second_ended = frame.env, frame.ended
        frame.ended = first_ended and second_ended
        if first_ended or second_ended:
            frame.env = second if first_ended else first
        else:
            frame.env = {name: join(first.get(name), second.get(name)) for name in {**first, **second}}

    def loop(self, node: ast.For | ast.While, frame: Frame) -> None:
        before = dict(frame.env)
        if isinstance(node, ast.For):
            self.value(node.iter, frame)
            for child in ast.walk(node.target):
                if isinstance(child, ast.Name):
                    frame.env[child.id] = UNKNOWN
        for child in ast.walk(node):  # what the body changes is not known from its second round on
            if isinstance(child, (ast.Assign, ast.AugAssign)):
                for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                    if isinstance(target, ast.Name) and not isinstance(frame.env.get(target.id), Array):
                        frame.env[target.id] = UNKNOWN
        self.block(node.body, frame)
        ended, frame.ended = frame.ended, False
        after = frame.env
        if ended:
            frame.env = before
        else:
            frame.env = {name: join(before.get(name, value), value) for name, value in after.items()}
        self.block(node.orelse, frame)

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

    # Expressions

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

    def as_tensor(self, parameter: Parameter, frame: Frame, node: ast.AST) -> Array:
        self.facts.tensors.setdefault(parameter.name, self.evidence(frame, node))
        return tensor(parameter.name)

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

    def _known_rank(self, array: Array) -> Value:
        return Known(len(array.shape)) if isinstance(array.shape, tuple) else UNKNOWN

    def swapped(self, array: Array, first: int, second: int) -> Array:
        """A transposed view: what is known of its shape moves along, its layout is another."""
        rank = self.rank_of(array)
        if rank is None or not -rank <= first < rank or not -rank <= second < rank:
            return replace(array, shape=None, dense=False)
        sizes = [self.axis(array, at) for at in range(rank)]
        sizes[first], sizes[second] = sizes[second], sizes[first]
        return replace(array, shape=tuple(sizes), dense=False)

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

    def _wrapped_axis(self, left: Value, right: Rank) -> Value:
        """``dim % x.ndim``: an axis that may be counted from the end, of a tensor of any number of axes."""
        if isinstance(left, Parameter):
            self.facts.axes.setdefault(left.name, self.here)
        self.facts.soft_ranks.setdefault(right.root, []).append((2, self.here))
        return left

    # Calls

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Subscript):
            launched = self._launch(node, frame)
            if launched:
                return UNKNOWN
        if isinstance(node.func, ast.Attribute):
            chain = chain_of(node.func)
            if not chain or chain.partition(".")[0] in frame.env:
                return self._method(node, node.func, frame)
        function = self.value(node.func, frame)
        positional, keywords, certain = self._arguments(node, frame)
        if isinstance(function, Named):
            return self.call(function, node, positional, keywords, certain, frame)
        if isinstance(function, Local) and isinstance(function.node, ast.FunctionDef) and frame.depth < DEPTH:
            return self._local(function.node, positional, keywords, frame)
        return UNKNOWN

    def _arguments(self, node: ast.Call, frame: Frame) -> tuple[list[Value], dict[str, Value], bool]:
        """Positional and keyword arguments, and whether these are all."""
        positional: list[Value] = []
        certain = True
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = self.value(argument.value, frame)
                if isinstance(value, Items) and not value.spread:
                    positional += value.items
                else:
                    opened = self._spread(Items((value,), (0,)), None, self.evidence(frame, node))
                    if opened is None:
                        certain = False
                        positional.append(value)
                    else:
                        positional += opened
            else:
                positional.append(self.value(argument, frame))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            if keyword.arg is None:
                certain = False
            else:
                keywords[keyword.arg] = value
        return positional, keywords, certain

    def call(
        self,
        function: Named,
        node: ast.Call,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
    ) -> Value:
        """The value of a call of something named."""
        if function.symbols:
            return self._own(function.symbols, node, positional, keywords, certain, frame)
        from kgate.lint.init.library import library_call

        chain = function.external or chain_of(node.func)
        if chain in _CHECKS and node.args:
            from kgate.lint.init.checks import insist

            insist(self, frame, node.args[0], True, self.evidence(frame, node))
            return UNKNOWN
        return library_call(self, frame, node, chain, positional, keywords)

    def _own(
        self,
        symbols: Sequence[str],
        node: ast.Call,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
    ) -> Value:
        """A call of a function of the tree, or of ``Function.apply``."""
        symbol = symbols[0]
        last = symbol.rpartition("::")[2]
        if self.project.device(list(symbols)):
            return self._called_device(symbol, node, positional, keywords, frame)
        if len(symbols) != 1 or symbol.endswith("::*"):
            return UNKNOWN
        definition = self.project.definition(symbol)
        if definition is None:
            return UNKNOWN
        if definition.kind == "class" and chain_of(node.func).endswith(".apply"):
            return self._apply(symbol, positional, keywords, certain, frame)
        if definition.kind != "function" or definition.runs or "." in last:
            return self._helper(last, positional)
        return self.follow(symbol, positional, keywords, certain, frame, 0)

    def _apply(
        self, symbol: str, positional: list[Value], keywords: dict[str, Value], certain: bool, frame: Frame
    ) -> Value:
        forward = self.project.function(f"{symbol}.forward")
        if forward is None:
            return UNKNOWN
        if self.project.function(f"{symbol}.backward") is not None:
            path, _, name = symbol.partition("::")
            backward = self.project.function(f"{symbol}.backward")
            line = backward.lineno if backward is not None else 1
            self.facts.backward = self.facts.backward or Evidence(path, line, f"{name}.backward")
        skip = 1 if (forward.args.args and forward.args.args[0].arg == "ctx") or len(forward.args.args) else 0
        return self.follow(f"{symbol}.forward", positional, keywords, certain, frame, skip)

    def _helper(self, name: str, positional: list[Value]) -> Value:
        return pow2(positional[0]) if "next_power_of_2" in name and positional else UNKNOWN

    def follow(
        self,
        symbol: str,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
        skip: int,
    ) -> Value:
        """Go into a function of the tree with what it is given."""
        node = self.project.function(symbol)
        if node is None or frame.depth >= DEPTH or symbol in self.active:
            return self._helper(symbol.rpartition("::")[2], positional)
        if "next_power_of_2" in node.name and positional:
            return pow2(positional[0])
        env = self._bound_arguments(node, positional, keywords, certain, skip)
        if self._guards(symbol, list(env.values())):
            env = {name: _dense(value) for name, value in env.items()}
        inner = self.frame(symbol, env, frame.depth + 1)
        self.active.append(symbol)
        self.block(node.body, inner)
        self.active.pop()
        return returned(inner)

    def _bound_arguments(
        self, node: ast.FunctionDef, positional: list[Value], keywords: dict[str, Value], certain: bool, skip: int
    ) -> dict[str, Value]:
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][skip:]
        env: dict[str, Value] = {}
        defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        for name in names:
            if name in defaults:
                env[name] = _literal(defaults[name]) if certain else UNKNOWN
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            env[argument.arg] = _literal(default) if default is not None and certain else UNKNOWN
        for name in names:
            env.setdefault(name, UNKNOWN)
        env |= dict(zip(names, positional, strict=False))
        env |= {name: value for name, value in keywords.items() if name in env}
        if arguments.vararg is not None:
            env[arguments.vararg.arg] = Items(tuple(positional[len(names) :]))
        if arguments.kwarg is not None:
            env[arguments.kwarg.arg] = UNKNOWN
        if skip:
            env[next(a.arg for a in arguments.args)] = UNKNOWN
        return env

    def _guards(self, symbol: str, values: list[Value]) -> bool:
        """Whether a decorator makes every tensor contiguous; noted for each input among the values."""
        definition = self.project.definition(symbol)
        for decorator in definition.decorators if definition is not None else ():
            if decorator.chain.rpartition(".")[2] in GUARDS:
                path = symbol.partition("::")[0]
                evidence = Evidence(path, decorator.segment.line, f"@{decorator.chain}")
                for value in values:
                    if isinstance(value, Array) and value.root:
                        self.facts.dense.setdefault(value.root, evidence)
                if symbol.rpartition("::")[2] and not self.active:
                    for name, value in self.given.items():
                        self.given[name] = _dense(value)
                return True
        return False

    def _local(self, node: ast.FunctionDef, positional: list[Value], keywords: dict[str, Value], frame: Frame) -> Value:
        key = f"{frame.path}::<local>{node.lineno}"
        if key in self.active:
            return UNKNOWN
        env = {**frame.env, **self._bound_arguments(node, positional, keywords, True, 0)}
        self.frames += 1
        inner = Frame(frame.path, self.frames, frame.uses, frame.owner, frame.lines, env, frame.depth + 1)
        self.active.append(key)
        self.block(node.body, inner)
        self.active.pop()
        return returned(inner)

    def _method(self, node: ast.Call, func: ast.Attribute, frame: Frame) -> Value:
        owner = self.value(func.value, frame)
        positional, keywords, _ = self._arguments(node, frame)
        if isinstance(owner, Parameter) and func.attr in _TENSOR_METHODS:
            owner = self.as_tensor(owner, frame, node)
        if isinstance(owner, Array):
            from kgate.lint.init.library import array_method

            if owner.root and owner.root in self.given:
                self.facts.tensors.setdefault(owner.root, self.evidence(frame, node))
            return array_method(self, frame, node, func.attr, owner, positional, keywords)
        if isinstance(owner, Shape) and func.attr == "numel":
            return self.count(owner.array)
        return UNKNOWN

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

    # Launches

    def _launch(self, node: ast.Call, frame: Frame) -> bool:
        """``kernel[grid](...)``: note what the device function does with what it is given."""
        assert isinstance(node.func, ast.Subscript)
        named = self.value(node.func.value, frame)
        if not isinstance(named, Named) or not named.symbols:
            return False
        device = self.project.device(named.symbols)
        if not device:
            return False
        from kgate.lint.init.launches import note_launch

        positional, keywords, certain = self._arguments(node, frame)
        grid = self._grid(node.func.slice, frame)
        note_launch(self, device, grid, positional, keywords, certain, self.evidence(frame, node))
        return True

    def _grid(self, node: ast.expr, frame: Frame) -> list[Value]:
        value = self.value(node, frame)
        if isinstance(value, Local):
            body = value.node.body
            if isinstance(value.node, ast.FunctionDef):
                last = body[-1]
                names = {a.arg for a in value.node.args.args}
                body = last.value if isinstance(last, ast.Return) else None
            else:
                names = {a.arg for a in value.node.args.args}
            hidden = {name: frame.env.pop(name) for name in names if name in frame.env}
            frame.env |= dict.fromkeys(names, UNKNOWN)
            value = self.value(body, frame)
            for name in names:
                frame.env.pop(name, None)
            frame.env |= hidden
        return list(value.items) if isinstance(value, Items) else [value]

    def _called_device(
        self, symbol: str, node: ast.Call, positional: list[Value], keywords: dict[str, Value], frame: Frame
    ) -> Value:
        """A device function that is called like a host function: a wrapper turns it into an elementwise operation."""
        definition = self.project.definition(symbol)
        chains = [d.chain.rpartition(".")[2] for d in definition.decorators] if definition is not None else []
        if "pointwise_dynamic" not in chains:
            return UNKNOWN
        from kgate.lint.init.launches import note_elementwise

        return note_elementwise(self, positional, keywords, self.evidence(frame, node), symbol)


def returned(frame: Frame) -> Value:
    """What a function returns, where all its returns agree as far as they are known."""
    values = [value for value, _ in frame.returns]
    if not values:
        return Known(None)
    result = values[-1]
    for value in values[:-1]:
        result = join(value, result)
    return result


def join(first: Value | None, second: Value | None) -> Value:
    """What is known where it may be one or the other."""
    if first == second and first is not None:
        return first
    if isinstance(first, Items) and isinstance(second, Items) and not first.spread and not second.spread:
        if len(first.items) == len(second.items):
            return Items(tuple(map(join, first.items, second.items)))
        return UNKNOWN
    if isinstance(first, Array) and isinstance(second, Array):
        return Array(
            first.root or second.root if first.root == second.root or not (first.root and second.root) else "",
            first.shape if first.shape == second.shape else None,
            first.dtype if first.dtype == second.dtype else UNKNOWN,
            first.dense and second.dense,
            first.evidence,
        )
    return UNKNOWN


def tensor(name: str) -> Array:
    """An input as a tensor of which nothing is known yet."""
    return Array(name, name, Dtype(root=name))


def pow2(value: Value) -> Value:
    """The next power of two."""
    return Formula("pow2", value, Known(0))


def dtype_called(chain: str) -> Value:
    """``torch.float16``, ``torch.float``: a dtype; anything else is unknown."""
    last = chain.rpartition(".")[2]
    if chain.startswith("torch.") and chain.count(".") == 1 and (last in DTYPES or last in _ALIASES):
        return Dtype(_ALIASES.get(last, last))
    return UNKNOWN


def _dense(value: Value) -> Value:
    return replace(value, dense=True) if isinstance(value, Array) else value


def _literal(node: ast.expr) -> Value:
    try:
        return Known(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError):
        return dtype_called(chain_of(node))


def _raises(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)


def _holds(kind: ast.cmpop, left: Any, right: Any) -> bool | None:
    operation = _COMPARE.get(type(kind))
    return bool(operation(left, right)) if operation is not None else None


_TENSOR_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "T", "mT", "data", "requires_grad"})
_TENSOR_METHODS = frozenset(
    (
        *("size", "dim", "numel", "nelement", "stride", "contiguous", "is_contiguous", "is_floating_point", "data_ptr"),
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "expand", "clone", "detach"),
        *("to", "float", "half", "bfloat16", "new_empty", "new_zeros", "element_size", "copy_", "zero_", "fill_"),
    )
)
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
