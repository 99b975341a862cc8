"""Reaching definitions: which assignments a use of a name may see. One pass over a function, in order."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Environment = dict[str, "tuple[Binding, ...]"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Binding:
    """One place that gives a name its value."""

    __slots__ = ("index", "kind", "loop", "name", "previous", "statement", "uses", "value")

    def __init__(
        self, name: str, kind: str, value: ast.expr | None, statement: ast.AST, index: int | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        """``parameter``, ``assign``, ``augmented`` (``+=``), ``loop`` (a ``for`` target), ``unpack`` (one of several
        names on the left of ``=``), ``with`` or ``other``."""
        self.value = value
        """What is assigned; of ``unpack`` the whole right side, of ``loop`` what is looped over; or None."""
        self.statement = statement
        """The statement (the ``arg`` of a parameter)."""
        self.index = index
        """Position on the left side, of ``unpack``."""
        self.previous: tuple[Binding, ...] = ()
        """Of ``augmented``: what the name was before."""
        self.uses: list[ast.Name] = []
        """Where it may be read."""
        self.loop: ast.AST | None = None
        """The innermost loop that the statement is in."""

    def __repr__(self) -> str:
        return f"Binding({self.name}, {self.kind}, line {getattr(self.statement, 'lineno', 0)})"


class Nodes:
    """Nodes by class, in the order in which they were met; walked once for all rules."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        found: defaultdict[type, list[Any]] = defaultdict(list)
        for node in nodes:
            found[node.__class__].append(node)
        self._found = dict(found)

    def __call__(self, kind: type[Node]) -> list[Node]:
        """Those of one class."""
        return self._found.get(kind, [])


class Function:
    """A function's nodes, collected in one walk: parents, calls, and what each use of a name may see."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.node = node
        self.parents: dict[ast.AST, ast.AST] = {}
        """Every node of the body to the node that holds it."""
        self.call_nodes: list[ast.Call] = []
        """Calls, in source order of their statements."""
        self.compare_nodes: list[ast.Compare] = []
        """Comparisons, in no order."""
        self.statements: list[ast.stmt] = []
        """Statements, outer before inner."""
        self.returns: list[ast.Return] = []
        self.loops: dict[ast.AST, ast.AST | None] = {}
        """Statement to the innermost loop that holds it."""
        self.reached: dict[ast.Name, tuple[Binding, ...]] = {}
        """Each read of a name to the bindings that it may see; names that the function does not bind are absent."""
        self.bindings: dict[str, list[Binding]] = {}
        """Name to all its bindings."""
        self._made: dict[tuple[ast.AST, str], Binding] = {}
        self._loop: ast.AST | None = None
        environment: Environment = {}
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            environment[argument.arg] = (self._bind(argument.arg, "parameter", None, argument),)
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                environment[star.arg] = (self._bind(star.arg, "other", None, star),)
        self._block(node.body, environment, node)

    # What rules ask

    @cached_property
    def nodes(self) -> Nodes:
        """Every node of the body, by class."""
        return Nodes(self.parents)

    def bindings_of(self, name: ast.Name) -> tuple[Binding, ...]:
        """The bindings that a read of a name may see; empty for a global."""
        return self.reached.get(name, ())

    def origins_of(self, name: ast.Name) -> tuple[list[Binding], list[Binding]]:
        """What a read of a name may see with ``+=`` taken apart: the bindings it began as, and the augmentations."""
        plain: dict[Binding, None] = {}
        augmented: dict[Binding, None] = {}
        waiting = list(self.reached.get(name, ()))
        while waiting:
            binding = waiting.pop()
            if binding.kind != "augmented":
                plain[binding] = None
            elif binding not in augmented:
                augmented[binding] = None
                waiting += binding.previous
        return list(plain), list(augmented)

    def value_of(self, node: ast.expr) -> ast.expr:
        """The expression behind a name with one plain assignment, followed as far as that goes; else the node."""
        for _ in range(20):
            if not isinstance(node, ast.Name):
                return node
            found = self.reached.get(node, ())
            if len(found) != 1 or found[0].kind != "assign" or found[0].value is None:
                return node
            node = found[0].value
        return node

    def parameter_of(self, node: ast.expr) -> str:
        """The parameter that a name stands for, through plain renaming; empty for anything else."""
        node = self.value_of(node)
        if isinstance(node, ast.Name):
            found = self.reached.get(node, ())
            if len(found) == 1 and found[0].kind == "parameter":
                return found[0].name
        return ""

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that an expression stands in."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def ancestors(self, node: ast.AST) -> Iterable[ast.AST]:
        """The nodes around a node, innermost first, without the function itself."""
        while True:
            parent = self.parents.get(node)
            if parent is None or parent is self.node:
                return
            yield parent
            node = parent

    @cached_property
    def bound_to(self) -> dict[ast.expr, list[Binding]]:
        """An assigned expression to the bindings that it gives their value."""
        found: dict[ast.expr, list[Binding]] = {}
        for bindings in self.bindings.values():
            for binding in bindings:
                if binding.value is not None:
                    found.setdefault(binding.value, []).append(binding)
        return found

    # The pass

    def _bind(
        self, name: str, kind: str, value: ast.expr | None, statement: ast.AST, index: int | None = None
    ) -> Binding:
        key = (statement, name)
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = Binding(name, kind, value, statement, index)
            known.loop = self._loop
            self.bindings.setdefault(name, []).append(known)
        return known

    def _block(self, body: Sequence[ast.stmt], environment: Environment, parent: ast.AST) -> bool:
        """Go through statements; whether control can leave at the end."""
        for statement in body:
            self.parents[statement] = parent
            self.statements.append(statement)
            self.loops[statement] = self._loop
            handler = _STATEMENTS.get(type(statement))
            if handler is None:
                self._expressions(statement, environment)
            elif handler(self, statement, environment) is False:
                return False
        return True

    def _expressions(self, root: ast.AST, environment: Environment) -> None:
        """Note parents, calls and reads below a node."""
        parents, reached, calls = self.parents, self.reached, self.call_nodes
        stack = [root]
        while stack:
            node = stack.pop()
            for field in node._fields:
                value = getattr(node, field, None)
                if value.__class__ is list:
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            stack.append(item)
                elif isinstance(value, ast.expr):
                    parents[value] = node
                    if value.__class__ is ast.Name:
                        self._read(value, environment, reached)
                    elif value.__class__ is not ast.Constant:
                        stack.append(value)
                elif isinstance(value, (ast.keyword, ast.arguments, ast.comprehension, ast.withitem)):
                    parents[value] = node
                    stack.append(value)
            kind = node.__class__
            if kind is ast.Name:
                self._read(node, environment, reached)  # type: ignore[arg-type]
            elif kind is ast.Call:
                calls.append(node)  # type: ignore[arg-type]
            elif kind is ast.Compare:
                self.compare_nodes.append(node)  # type: ignore[arg-type]
            elif kind is ast.NamedExpr:
                environment[node.target.id] = (  # type: ignore[attr-defined]
                    self._bind(node.target.id, "assign", node.value, node),  # type: ignore[attr-defined]
                )

    @staticmethod
    def _read(node: ast.Name, environment: Environment, reached: dict[ast.Name, tuple[Binding, ...]]) -> None:
        if node.ctx.__class__ is ast.Load:
            found = environment.get(node.id)
            if found:
                reached[node] = found
                for binding in found:
                    binding.uses.append(node)

    def _expression(self, node: ast.expr | None, parent: ast.AST, environment: Environment) -> None:
        if node is None:
            return
        self.parents[node] = parent
        if node.__class__ is ast.Constant:
            return
        self._expressions(node, environment)

    def _assign(self, statement: ast.Assign, environment: Environment) -> None:
        self._expression(statement.value, statement, environment)
        for target in statement.targets:
            self._target(target, statement.value, statement, environment, statement)

    def _annotated(self, statement: ast.AnnAssign, environment: Environment) -> None:
        self._expression(statement.annotation, statement, environment)
        if statement.value is not None:
            self._expression(statement.value, statement, environment)
            self._target(statement.target, statement.value, statement, environment, statement)

    def _target(
        self, target: ast.expr, value: ast.expr | None, statement: ast.stmt, environment: Environment, parent: ast.AST
    ) -> None:
        self.parents[target] = parent
        if isinstance(target, ast.Name):
            environment[target.id] = (self._bind(target.id, "assign", value, statement),)
        elif isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for index, item in enumerate(target.elts):
                self.parents[item] = target
                if same and not isinstance(item, ast.Starred):
                    self._target(item, value.elts[index], statement, environment, target)  # type: ignore[union-attr]
                elif isinstance(item, ast.Name):
                    environment[item.id] = (self._bind(item.id, "unpack", value, statement, index),)
                else:
                    self._other_target(item, statement, environment)
        else:
            self._other_target(target, statement, environment)

    def _other_target(self, target: ast.expr, statement: ast.AST, environment: Environment) -> None:
        """A target that binds names in no simple way, or none (``a[i]``, ``a.b``)."""
        self._expressions(target, environment)
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                environment[node.id] = (self._bind(node.id, "other", None, statement),)

    def _augmented(self, statement: ast.AugAssign, environment: Environment) -> None:
        self._expression(statement.value, statement, environment)
        target = statement.target
        self.parents[target] = statement
        if isinstance(target, ast.Name):
            binding = self._bind(target.id, "augmented", statement.value, statement)
            before = environment.get(target.id, ())
            binding.previous = tuple(dict.fromkeys((*binding.previous, *before)))
            environment[target.id] = (binding,)
        else:
            self._expressions(target, environment)

    def _if(self, statement: ast.If, environment: Environment) -> bool:
        self._expression(statement.test, statement, environment)
        other = dict(environment)
        through = self._block(statement.body, environment, statement)
        around = self._block(statement.orelse, other, statement)
        if not through:
            environment.clear()
            environment.update(other)
        elif around:
            _join(environment, other)
        return through or around

    def _loop_statement(self, statement: ast.For | ast.While, environment: Environment) -> bool:
        outer = self._loop
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self._expression(statement.iter, statement, environment)
        self._loop = statement
        before = dict(environment)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self.parents[statement.target] = statement
            if isinstance(statement.target, ast.Name):
                name = statement.target.id
                environment[name] = (self._bind(name, "loop", statement.iter, statement),)
            else:
                self._other_target(statement.target, statement, environment)
        self._carried(statement.body, environment)
        if isinstance(statement, ast.While):
            self._expression(statement.test, statement, environment)
        self._block(statement.body, environment, statement)
        self._loop = outer
        _join(environment, before)
        self._block(statement.orelse, environment, statement)
        return True

    def _carried(self, body: Sequence[ast.stmt], environment: Environment) -> None:
        """Add what an earlier turn of a loop may have assigned."""
        for statement in _statements(body):
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._carry(target, statement.value, statement, environment)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._carry(statement.target, statement.value, statement, environment)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                binding = self._bind(name, "augmented", statement.value, statement)
                environment[name] = _union(environment.get(name, ()), (binding,))
            elif isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                binding = self._bind(name, "loop", statement.iter, statement)
                environment[name] = _union(environment.get(name, ()), (binding,))

    def _carry(self, target: ast.expr, value: ast.expr, statement: ast.stmt, environment: Environment) -> None:
        if isinstance(target, ast.Name):
            if target.id in environment:  # a name that is new in the loop is assigned before it is read
                binding = self._bind(target.id, "assign", value, statement)
                environment[target.id] = _union(environment[target.id], (binding,))
        elif isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for index, item in enumerate(target.elts):
                if same:
                    self._carry(item, value.elts[index], statement, environment)  # type: ignore[attr-defined]
                elif isinstance(item, ast.Name) and item.id in environment:
                    binding = self._bind(item.id, "unpack", value, statement, index)
                    environment[item.id] = _union(environment[item.id], (binding,))

    def _with(self, statement: ast.With, environment: Environment) -> bool:
        for item in statement.items:
            self.parents[item] = statement
            self._expression(item.context_expr, item, environment)
            if isinstance(item.optional_vars, ast.Name):
                name = item.optional_vars.id
                environment[name] = (self._bind(name, "with", item.context_expr, statement),)
        return self._block(statement.body, environment, statement)

    def _try(self, statement: Any, environment: Environment) -> bool:
        before = dict(environment)
        through = self._block(statement.body, environment, statement)
        after = environment if through else before
        joined = dict(after)
        for handler in statement.handlers:
            self.parents[handler] = statement
            inner = dict(before)
            _join(inner, environment)
            if handler.type is not None:
                self._expression(handler.type, handler, inner)
            if self._block(handler.body, inner, handler):
                through = True
                _join(joined, inner)
        self._block(statement.orelse, joined, statement)
        environment.clear()
        environment.update(joined)
        return self._block(statement.finalbody, environment, statement) and through

    def _return(self, statement: ast.Return, environment: Environment) -> bool:
        self._expression(statement.value, statement, environment)
        self.returns.append(statement)
        return False

    def _raise(self, statement: ast.Raise, environment: Environment) -> bool:
        self._expressions(statement, environment)
        return False

    def _nested(self, statement: ast.FunctionDef, environment: Environment) -> None:
        """A function inside: its own names are not ours; reads of ours count."""
        environment[statement.name] = (self._bind(statement.name, "other", None, statement),)
        inner = dict(environment)
        arguments = statement.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            inner.pop(argument.arg, None)
        for child in statement.body:
            self.parents[child] = statement
            self._expressions(child, inner)
            for node in ast.walk(child):
                if isinstance(node, ast.Return):
                    self.parents.setdefault(node, statement)

    def _class(self, statement: ast.ClassDef, environment: Environment) -> None:
        environment[statement.name] = (self._bind(statement.name, "other", None, statement),)


def _join(environment: Environment, other: Environment) -> None:
    for name, bindings in other.items():
        mine = environment.get(name)
        if mine is None:
            environment[name] = bindings
        elif mine is not bindings:
            environment[name] = _union(mine, bindings)


def _union(one: tuple[Binding, ...], other: tuple[Binding, ...]) -> tuple[Binding, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _statements(body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements of a body and of the blocks in it, functions and classes apart."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        for field in ("finalbody", "orelse", "handlers", "body"):
            inner = getattr(statement, field, None)
            if inner:
                for child in reversed(inner):
                    stack.append(child)


_STATEMENTS: dict[type, Any] = {
    ast.Assign: Function._assign,
    ast.AnnAssign: Function._annotated,
    ast.AugAssign: Function._augmented,
    ast.If: Function._if,
    ast.For: Function._loop_statement,
    ast.AsyncFor: Function._loop_statement,
    ast.While: Function._loop_statement,
    ast.With: Function._with,
    ast.AsyncWith: Function._with,
    ast.Try: Function._try,
    ast.Return: Function._return,
    ast.Raise: Function._raise,
    ast.FunctionDef: Function._nested,
    ast.AsyncFunctionDef: Function._nested,
    ast.ClassDef: Function._class,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Function._try
