"""Follows a launcher statement by statement, without running it, down to its launches, and notes what it insists on.

Parameters stand for inputs; sizes, dtypes and strides read from them keep saying which input they are of. Where a
branch cannot be decided, both are followed, and what differs afterwards is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kgate.lint.init.calls import Calls
from kgate.lint.init.frames import Frame, join
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Count,
    Evidence,
    Facts,
    Items,
    Known,
    Local,
    Rows,
    Shape,
    Size,
    Value,
)

STEPS = 6000
"""Statements that one trace may follow."""


class Tracer(Calls):
    """One trace of one launcher; ``given`` says what its parameters are."""

    def run(self, symbol: str) -> Facts:
        """Follow the launcher and give what was found."""
        node = self.project.function(symbol)
        if node is not None:
            self._guards(symbol, list(self.given.values()))
            frame = self.frame(symbol, dict(self.given), 0)
            self.block(node.body, frame)
            self.facts.returns = frame.returns
        return self.facts

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


def _raises(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)
