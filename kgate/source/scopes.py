"""What statements bind and do in their own scope: the names of it, whether it can stop, whether it is a generator."""

from __future__ import annotations

import ast
import bisect
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from kgate.source.uses import chain_of

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OTHER_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})


class Words(NamedTuple):
    """Which constructs a piece of code can hold, by its text: most hold few, and are not searched for the others."""

    walrus: bool = True
    yields: bool = True
    exits: bool = True
    raises: bool = True
    globals: bool = True


class WordLines(NamedTuple):
    """The lines of a file in which the words of some constructs stand."""

    walrus: tuple[int, ...]
    yields: tuple[int, ...]
    exits: tuple[int, ...]
    raises: tuple[int, ...]
    globals: tuple[int, ...]

    def within(self, node: ast.stmt | ast.expr) -> Words:
        """What a node can hold, decorators apart."""
        first, last = node.lineno, node.end_lineno or node.lineno
        return Words(*[bool(lines) and _any_between(lines, first, last) for lines in self])


_ANY = Words()


def word_lines(text: str) -> WordLines:
    """Where a file's text has the words."""
    if not text.isascii():
        # names mean the same in any compatible letters
        text = unicodedata.normalize("NFKC", text)
    return WordLines(
        walrus=_lines(text, ":="),
        yields=_lines(text, "yield"),
        exits=_lines(text, "exit", "quit"),
        raises=_lines(text, "raise", "assert", statement=True),
        globals=_lines(text, "global", "nonlocal", statement=True),
    )


def _lines(text: str, *words: str, statement: bool = False) -> tuple[int, ...]:
    places = sorted(place for word in words for place in _places(text, word, statement))
    found: list[int] = []
    line, last = 1, 0
    for place in places:
        line += text.count("\n", last, place)
        last = place
        found.append(line)
    return tuple(found)


def _places(text: str, word: str, statement: bool) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        # a statement stands at the start of a line, after a semicolon, or after the colon of ``if x: raise``
        before = text[text.rfind("\n", 0, place) + 1 : place].rstrip(" \t\f") if statement else ""
        if not before or before[-1] in ";:":
            yield place
        place = text.find(word, place + len(word))


def _any_between(lines: tuple[int, ...], first: int, last: int) -> bool:
    at = bisect.bisect_left(lines, first)
    return at < len(lines) and lines[at] <= last


# Fields that can bind a name where no expression does (there is no ``:=``), and fields that hold statements; node types
# that are not listed are searched in all of their fields.
_BLOCKS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Expr: (), ast.Return: (), ast.Assign: (), ast.AugAssign: (), ast.AnnAssign: (), ast.Delete: (),
    ast.Import: (), ast.ImportFrom: (), ast.Pass: (), ast.Break: (), ast.Continue: (),
    ast.Global: (), ast.Nonlocal: (), ast.If: ("body", "orelse"), ast.While: ("body", "orelse"),
    ast.For: ("body", "orelse"), ast.AsyncFor: ("body", "orelse"), ast.With: ("body",), ast.AsyncWith: ("body",),
    ast.ExceptHandler: ("body",),
}  # fmt: skip
_BINDING: dict[type[ast.AST], tuple[str, ...]] = {
    **{kind: fields for kind, fields in _BLOCKS.items() if kind not in (ast.Global, ast.Nonlocal, ast.ExceptHandler)},
    ast.Assign: ("targets",), ast.AugAssign: ("target",), ast.AnnAssign: ("target",), ast.Delete: ("targets",),
    ast.Raise: (), ast.Assert: (), ast.For: ("target", "body", "orelse"), ast.AsyncFor: ("target", "body", "orelse"),
    ast.With: ("items", "body"), ast.AsyncWith: ("items", "body"), ast.withitem: ("optional_vars",),
    ast.Tuple: ("elts",), ast.List: ("elts",), ast.Starred: ("value",),
    # ``a.b = v`` and ``a[0] = v`` bind nothing
    ast.Attribute: (), ast.Subscript: (),
}  # fmt: skip


class Binder:
    """The names that one scope binds, without looking into the scopes nested in it."""

    def __init__(self, words: Words = _ANY) -> None:
        self.names: set[str] = set()
        self.globals: set[str] = set()
        self.words = words
        self.fields = _BINDING if not words.walrus else {}

    def visit(self, node: ast.AST) -> None:
        """Note what a node binds, and what is inside it."""
        kind = type(node)
        fields = self.fields.get(kind)
        if fields is not None:
            self._inside(node, fields)
            return
        if kind is ast.Name:
            if type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                self.names.add(node.id)  # type: ignore[attr-defined]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.names.add(node.name)
            if self.words.walrus:
                self.visit_all(node.decorator_list)
        elif kind is ast.Lambda or (isinstance(node, ast.expr) and not self.words.walrus):
            pass
        elif isinstance(node, COMPREHENSIONS):
            self._walrus(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.globals.update(node.names)
        else:
            if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                self.names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                self.names.add(node.rest)
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def visit_all(self, nodes: list[ast.AST] | list[ast.stmt] | list[ast.expr]) -> None:
        """Note what several nodes bind."""
        for node in nodes:
            if type(node) is ast.Name and type(node.ctx) is not ast.Load:
                self.names.add(node.id)
            else:
                self.visit(node)

    def _inside(self, node: ast.AST, fields: tuple[str, ...]) -> None:
        for field in fields:
            value = getattr(node, field)
            if type(value) is list:
                self.visit_all(value)
            elif value is not None:
                self.visit(value)

    def _walrus(self, node: ast.AST) -> None:
        if self.words.walrus:
            self.names.update(child.target.id for child in ast.walk(node) if isinstance(child, ast.NamedExpr))


def bound_names(*nodes: ast.AST) -> set[str]:
    """Names that statements bind in their own scope, imports apart."""
    binder = Binder()
    for node in nodes:
        binder.visit(node)
    return binder.names - binder.globals


def assigned(body: list[ast.stmt], name: str) -> list[ast.expr]:
    """The values that plain assignments of a scope give to a name alone, in the order of the lines."""
    return [
        node.value
        for node in _statements(body)
        if type(node) is ast.Assign and [chain_of(target) for target in node.targets] == [name]
    ]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if not isinstance(node, _OTHER_SCOPES):
            for field in ("body", "handlers", "cases", "orelse", "finalbody"):
                for inner in getattr(node, field, ()):
                    # a handler and a case hold statements, and are none
                    yield from _statements([inner] if isinstance(inner, ast.stmt) else inner.body)


def global_names(node: ast.AST, words: Words = _ANY) -> set[str]:
    """Names that a function, or one inside it, declares global."""
    if not words.globals:
        return set()
    return {name for child in ast.walk(node) if isinstance(child, ast.Global) for name in child.names}


def yields(function: ast.FunctionDef | ast.AsyncFunctionDef, words: Words = _ANY) -> bool:
    """Whether a function is a generator, by its own body."""
    if not words.yields:
        return False
    queue: list[ast.AST] = list(function.body)
    for node in queue:
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, _OTHER_SCOPES):
            queue.extend(ast.iter_child_nodes(node))
    return False


def stops(node: ast.AST, words: Words = _ANY) -> bool:
    """Whether a statement raises, asserts or exits, functions and classes inside it apart."""
    if not words.exits and not words.raises:
        return False
    if isinstance(node, _OTHER_SCOPES):
        return False
    if isinstance(node, (ast.Raise, ast.Assert)):
        return True
    if words.exits:
        if isinstance(node, ast.Call) and chain_of(node.func) in _EXITS:
            return True
        return any(stops(child, words) for child in ast.iter_child_nodes(node))
    fields = _BLOCKS.get(type(node))
    if fields is None:
        return any(stops(child, words) for child in ast.iter_child_nodes(node))
    return any(stops(child, words) for field in fields for child in getattr(node, field))
