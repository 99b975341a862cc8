"""Expressions replaced and wrapped, with parentheses where the result would be read differently without them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from kgate.lint.fixes.nodes import Nodes, Spot, parse
from kgate.lint.fixes.text import CLOSING, OPENING, Refusal, SourceText, Splice

_LOOSE = (ast.Tuple, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Starred)
"""Expressions that a statement can take for something else where they stand without parentheses."""


def replace(nodes: Nodes, spot: Spot, text: str) -> list[Splice]:
    """Put another expression where one stands."""
    start, end = spot.own
    lost = [item for item in nodes.comments_in(start, end) if item not in text]
    if lost:
        raise Refusal(f"it would lose the comment {lost[0]!r}")
    new = _expression(text)
    slot = _Slot(nodes, spot)
    for written in (text, f"({text})"):
        if slot.reads_as(new, [Splice(start, end, written)], bare=written == text and not _parenthesised(text, new)):
            return [Splice(start, end, written)]
    raise Refusal("the new expression does not fit where the old one stands")


def wrap(nodes: Nodes, spot: Spot, opening: str, closing: str) -> list[Splice]:
    """Put text before and after an expression, which becomes a part of a larger one."""
    new = _expression(f"{opening}({nodes.source.text[spot.start : spot.end]}){closing}")
    slot = _Slot(nodes, spot)
    for splices, bare in _wrappings(spot, opening, closing):
        if slot.reads_as(new, splices, bare=bare):
            return splices
    raise Refusal("the wrapped expression does not fit where it stands")


def _wrappings(spot: Spot, opening: str, closing: str) -> Iterator[tuple[list[Splice], bool]]:
    start, end = spot.own
    yield _around(start, end, opening, closing), True
    if spot.outer < start:
        yield _around(spot.outer, spot.outer_end, opening, closing), True
        yield _around(spot.outer, spot.outer_end, f"({opening}", f"{closing})"), False
    yield _around(start, end, f"{opening}(", f"){closing}"), True
    yield _around(start, end, f"({opening}", f"{closing})"), False
    yield _around(start, end, f"({opening}(", f"){closing})"), False


def _around(start: int, end: int, opening: str, closing: str) -> list[Splice]:
    length = end - start
    return [Splice(start, start, opening, OPENING, -length), Splice(end, end, closing, CLOSING, length)]


class _Slot:
    """The place of an expression in the outermost expression around it, which is read before and after."""

    def __init__(self, nodes: Nodes, spot: Spot) -> None:
        source = nodes.source
        if any(
            item.start <= spot.start and spot.end <= item.end for item in nodes.strings if item.node is not spot.node
        ):
            raise Refusal("it lies inside a formatted string")
        if any(start <= spot.start and spot.end <= end for start, end in nodes.patterns):
            raise Refusal("it lies inside a pattern, where a name means something else")
        self._source, self._spot = source, spot
        root = nodes.root_of(spot)
        self._start, self._end = root.outer, root.outer_end
        if spot.start < root.outer:  # a generator that is the only argument has its call around it
            self._start, self._end = spot.start, spot.end
        self._alone = root is spot and root.outer == root.start
        self._before = source.text[self._start : self._end]
        tree, self._loose = _read(self._before, loose=False), False
        if tree is None:
            tree, self._loose = _read(self._before, loose=True), True
        if tree is None:
            raise Refusal("the expression around it cannot be read alone")
        self._tree = tree

    def reads_as(self, new: ast.expr, splices: list[Splice], *, bare: bool) -> bool:
        """Whether the text with the splices is the same expression with only the one node exchanged for ``new``."""
        old = self._find()
        if bare and self._alone and isinstance(new, _LOOSE):
            stood_bare = self._source.text[self._spot.start] != "("
            if type(new) is not type(old) or not stood_bare:
                return False
        moved = [Splice(s.start - self._start, s.end - self._start, s.text, s.order, s.rank) for s in splices]
        after = _read(SourceText(self._before.encode("utf-8"), python=False).spliced(moved), loose=self._loose)
        return after is not None and _same(_exchanged(self._tree, old, new), after)

    def _find(self) -> ast.AST:
        """The node of the spot, among those of the expression read alone."""
        prefix = len(_prefix(self._loose))
        wanted = (
            *_line_and_bytes(self._before, self._spot.start - self._start, prefix),
            *_line_and_bytes(self._before, self._spot.end - self._start, prefix),
        )
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr) and wanted == (
                node.lineno,
                node.col_offset,
                node.end_lineno,
                node.end_col_offset,
            ):
                return node
        raise Refusal("no expression spans exactly the range")


def _expression(text: str) -> ast.expr:
    """The one expression that a text is."""
    module = parse(f"({text}\n)")
    listed = parse(f"[{text}\n]")
    if module is None or listed is None or len(module.body) != 1 or len(listed.body) != 1 or not text.strip():
        raise Refusal(f"{text!r} is no expression")
    statement = module.body[0]
    if not isinstance(statement, ast.Expr):
        raise Refusal(f"{text!r} is no expression")
    return statement.value


def _parenthesised(text: str, new: ast.expr) -> bool:
    """Whether the text of an expression stands in parentheses of its own."""
    bare = text.strip()
    inner = parse(f"({bare[1:-1]}\n)") if bare.startswith("(") and bare.endswith(")") else None
    if inner is None or len(inner.body) != 1 or not isinstance(inner.body[0], ast.Expr):
        return False
    return _same(inner.body[0].value, new)


def _prefix(loose: bool) -> str:
    return "(" if loose else "_ = "


def _read(text: str, *, loose: bool) -> ast.expr | None:
    """The tree of an expression on the right of an assignment, or in parentheses where it can stand only there."""
    module = parse(f"_ = {text}\n" if not loose else f"({text}\n)")
    if module is None or len(module.body) != 1:
        return None
    statement = module.body[0]
    if loose:
        return statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.value
    return None


def _line_and_bytes(text: str, offset: int, prefix: int) -> tuple[int, int]:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    line = before.count("\n")
    column = len(before[before.rfind("\n") + 1 :].encode("utf-8", "surrogatepass"))
    return line + 1, column + (prefix if line == 0 else 0)


def _exchanged(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """A copy of a tree, down to one node, with that node exchanged."""
    if tree is old:
        return new
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(tree):
        if isinstance(value, list):
            fields[name] = [_exchanged(item, old, new) if isinstance(item, ast.AST) else item for item in value]
        else:
            fields[name] = _exchanged(value, old, new) if isinstance(value, ast.AST) else value
    return type(tree)(**fields)


def _same(first: ast.AST, second: ast.AST) -> bool:
    return ast.dump(first) == ast.dump(second)
