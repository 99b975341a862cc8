"""Statements, decorators and imports put in, and statements taken out."""

from __future__ import annotations

import ast
import re
import textwrap

from kgate.lint.fixes.nodes import Nodes, Statement, flat, parse
from kgate.lint.fixes.text import LINES, Refusal, SourceText, Splice

_REST = re.compile(r"[ \t\f]*;?[ \t\f]*(?:#.*)?")
"""What may follow the last statement of a line."""


def insert(nodes: Nodes, statement: Statement, text: str, *, after: bool) -> list[Splice]:
    """Put statements before or after one, with its indentation."""
    source = nodes.source
    if statement.continued:
        raise Refusal("nothing can stand before or after an elif")
    if not _first(source, statement) or (after and not _last(source, statement)):
        raise Refusal("the statement shares its line with another")
    if parse(textwrap.dedent(text)) is None:
        raise Refusal(f"{text!r} is no statement")
    indentation = source.before(statement.top)
    written = _indented(text, indentation, nodes.indent)
    return _lines_after(source, statement.end, written) if after else _lines_before(source, statement.top, written)


def decorate(nodes: Nodes, statement: Statement, text: str, *, top: bool) -> list[Splice]:
    """Put a decorator on a function or a class."""
    import libcst as cst

    if not isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)):
        raise Refusal("the statement of the range is no definition")
    source = nodes.source
    place = statement.top if top else statement.start
    indentation = source.before(place)
    if indentation.strip():
        raise Refusal("the definition shares its line with something else")
    decorator = textwrap.dedent(text).strip()
    decorator = decorator if decorator.startswith("@") else f"@{decorator}"
    if parse(f"{decorator}\ndef f(): ...") is None:
        raise Refusal(f"{text!r} is no decorator")
    return _lines_before(source, place, _indented(decorator, indentation, nodes.indent))


def replace(nodes: Nodes, statement: Statement, text: str) -> list[Splice]:
    """Put other statements where one stands; its decorators stay."""
    source = nodes.source
    new = textwrap.dedent(text).strip("\n")
    tree = parse(new)
    if tree is None or not tree.body:
        raise Refusal(f"{text!r} is no statement")
    lost = [item for item in nodes.comments_in(statement.start, statement.end) if item not in new]
    if lost:
        raise Refusal(f"it would lose the comment {lost[0]!r}")
    if statement.continued:
        raise Refusal("an elif cannot be replaced alone")
    first, last = _first(source, statement), _last(source, statement)
    simple = len(tree.body) == 1 and not hasattr(tree.body[0], "body")
    if not (simple and not statement.compound) and not (first and last):
        raise Refusal("the statement shares its line with another")
    indentation = source.before(statement.start) if first else ""
    written = _indented(new, indentation, nodes.indent)[len(indentation) :]
    return [Splice(statement.start, statement.end, written)]


def remove(nodes: Nodes, statements: list[Statement]) -> list[Splice]:
    """Take statements out; ``pass`` stays where nothing else would be left of a body."""
    gone = {id(item.node) for item in statements}
    splices = []
    for item in statements:
        emptied = not item.top_level and all(id(node) in gone for node in item.body)
        if emptied and item.body[-1] is item.node:
            splices.append(Splice(item.top, item.end, "pass"))
        else:
            splices.append(_without(nodes, item))
    return splices


def check_removal(statement: Statement) -> None:
    """Refuse to take out what is part of another statement."""
    if statement.continued:
        raise Refusal("an elif cannot be removed alone")


def _without(nodes: Nodes, item: Statement) -> Splice:
    source = nodes.source
    if _first(source, item) and _last(source, item):
        return Splice(source.line_start(item.top), source.next_line(item.end), "")
    spans = sorted(nodes.span_of(node) for node in item.body)
    index = spans.index((item.start, item.end))
    line = source.line_end(item.end)
    if index + 1 < len(spans) and spans[index + 1][0] <= line:
        return Splice(item.start, spans[index + 1][0], "")
    if index > 0 and source.line_end(spans[index - 1][1]) == line:
        return Splice(spans[index - 1][1], item.end, "")
    raise Refusal("the statement shares its line with another")


def add_imports(nodes: Nodes, texts: list[str]) -> list[Splice]:
    """Put import statements behind the first imports of the file, those that it does not have yet."""
    missing: list[str] = []
    for text in texts:
        missing += [item for item in _missing(nodes, text) if item not in missing]
    if not missing:
        return []
    source = nodes.source
    anchor, blank = _last_import(nodes)
    written = "\n".join(missing)
    if anchor is not None:
        return _lines_after(source, anchor, f"\n{written}" if blank else written)
    if not nodes.module.body:
        end = len(source.text)
        return _lines_after(source, end, written) if source.before(end) else [Splice(end, end, f"{written}\n", LINES)]
    return _lines_before(source, _first_code(nodes), f"{written}\n")


def check_import(text: str) -> None:
    """Refuse what is no single import statement."""
    tree = parse(text.strip())
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], (ast.Import, ast.ImportFrom)):
        raise Refusal(f"{text!r} is no import statement")


def _missing(nodes: Nodes, text: str) -> list[str]:
    """The import statements for those names of one that the file does not import yet at its top level."""
    tree = parse(text.strip())
    file = parse(nodes.source.encode(nodes.source.text))
    assert tree is not None
    assert file is not None
    known = {_bound(item, alias) for item in file.body for alias in getattr(item, "names", ()) if _imports(item)}
    found = []
    for item in tree.body:
        assert isinstance(item, (ast.Import, ast.ImportFrom))
        item.names = [alias for alias in item.names if _bound(item, alias) not in known]
        if item.names:
            found.append(ast.unparse(item))
    return found


def _imports(item: ast.stmt) -> bool:
    return isinstance(item, (ast.Import, ast.ImportFrom))


def _bound(item: ast.stmt, alias: ast.alias) -> tuple[str | None, int, str, str]:
    """What an import binds: from where, what, and under which name."""
    if isinstance(item, ast.ImportFrom):
        return item.module, item.level, alias.name, alias.asname or alias.name
    return None, 0, alias.name, alias.asname or ""


def _last_import(nodes: Nodes) -> tuple[int | None, bool]:
    """Where the imports at the head of the file end, or its docstring, after which a blank line is due."""
    import libcst as cst

    found, blank = None, False
    for number, node in enumerate(flat(nodes.module.body)):
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            found, blank = nodes.span_of(node)[1], False
        elif (
            number == 0
            and isinstance(node, cst.Expr)
            and isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))
        ):
            found, blank = nodes.span_of(node)[1], True
        else:
            break
    return found, blank


def _first_code(nodes: Nodes) -> int:
    """Where the first statement starts, with the comment directly above it unless that heads the file."""
    source = nodes.source
    first = min(item.top for item in nodes.statements.values())
    place = source.line_start(first)
    above = place
    while above > 0:
        line = source.line_start(above - 1)
        if not source.text[line:above].strip().startswith("#"):
            return above
        above = line
    return place


def _first(source: SourceText, statement: Statement) -> bool:
    return not source.before(statement.top).strip()


def _last(source: SourceText, statement: Statement) -> bool:
    return _REST.fullmatch(source.after(statement.end)) is not None


def _lines_before(source: SourceText, offset: int, written: str) -> list[Splice]:
    at = source.line_start(offset)
    return [Splice(at, at, f"{written}\n", LINES)]


def _lines_after(source: SourceText, offset: int, written: str) -> list[Splice]:
    at = source.line_end(offset)
    return [Splice(at, at, f"\n{written}", LINES)]


def _indented(text: str, indentation: str, unit: str) -> str:
    """Statements with the indentation of their new place; lines inside of strings stay as they are."""
    text = textwrap.dedent(text).strip("\n")
    tree = parse(text if not text.startswith("@") else f"{text}\ndef f(): ...")
    inside = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno is not None:
            whole = isinstance(node, ast.JoinedStr) or isinstance(node.value, (str, bytes))
            inside |= set(range(node.lineno + 1, node.end_lineno + 1)) if whole else set()
    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.lstrip(" ")
        levels, spaces = divmod(len(line) - len(bare), 4)
        if number in inside or not bare:
            lines.append(line if number in inside else "")
        else:
            lines.append(indentation + unit * levels + " " * spaces + bare)
    return "\n".join(lines)
