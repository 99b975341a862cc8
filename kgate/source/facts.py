"""Per-file facts: what a Python file defines, imports and does when it is imported. One file, nothing resolved."""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from kgate.source.normalise import digest, hash_of, is_bare_string
from kgate.source.scopes import bound_names, stops, word_lines, yields
from kgate.source.text import UnreadableText, decode
from kgate.source.uses import EMPTY, Import, Uses, chain_of, integer, merge, root_of
from kgate.source.visitor import imports_of, uses_of

VERSION = "12"
"""Part of every cache key: raise it whenever facts change for the same content."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_QUIET = ("print", "warnings.", "logging.", "logger.", "log.", "sys.path.")
_CONFLICT = re.compile(r"^<<<<<<<(?: |\r?$)", re.MULTILINE)
_CONFLICT_END = re.compile(r"^>>>>>>>(?: |\r?$)", re.MULTILINE)
_TOO_DEEP = ("an expression is nested too deeply to be read", 1, 1)
_IMPORT_LINE = re.compile(r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import\b|import[ \t]+([\w.]+))", re.MULTILINE)


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """An expression as it stands in the file."""

    text: str
    line: int
    column: int
    """Offset in its line, in UTF-8 bytes, as ``ast`` counts."""
    character: int
    """The same in characters."""

    def parse(self) -> ast.expr:
        """The expression, with the positions that it has in its file."""
        tree = ast.parse(f"({self.text}\n)", mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, (ast.expr, ast.keyword)):
                for line, column in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
                    if getattr(node, line) == 1:
                        setattr(node, column, getattr(node, column) - 1 + self.column)
                    setattr(node, line, getattr(node, line) + self.line - 1)
        return tree


class Decorator(msgspec.Struct, frozen=True, array_like=True):
    """A decorator, or the inner call of ``name = decorator(...)(function)``."""

    chain: str
    """The name of it, without its call; empty for any other expression."""
    called: bool
    hash: str
    uses: Uses
    segment: Segment


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """One definition of a name: function, class, class member or constant. A name may have several."""

    name: str
    """Qualified name in the module."""
    kind: str
    """``function``, ``class``, ``constant``, ``augmented`` (``+=``) or ``bound`` (by a loop, a ``with``, unpacking)."""
    line: int
    column: int
    end_line: int
    hash: str
    """Of the definition alone: without name, decorators, docstrings, positions."""
    uses: Uses
    decorators: tuple[Decorator, ...] = ()
    value: Segment | None = None
    """A constant's value."""
    conditional: bool = False
    """Whether it stands under an ``if``, a ``try`` or a loop."""
    bases: tuple[str, ...] = ()
    """A class's bases; an empty name for an expression."""
    parameters: tuple[tuple[str, bool], ...] = ()
    """A function's parameters, each with whether it has a default; ``*args`` and ``**kwargs`` keep their stars."""
    alias: str = ""
    """The chain, where a constant is another name for something."""
    stops: bool = False
    """Whether a function raises, asserts or exits by its own statements."""
    runs: str = ""
    """``coroutine`` or ``generator``, where calling a function does not run it."""


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """A statement at module level that defines nothing, and acts."""

    line: int
    hash: str
    uses: Uses
    stops: bool = False
    """Whether it can end the import on purpose: it raises, asserts or exits."""


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one file says."""

    hash: str
    """Of the whole file, normalised; of its bytes where it does not parse."""
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    """Imports at module level, with an empty name for ``import *``."""
    effects: tuple[Effect, ...] = ()
    exports: tuple[str, ...] | None = None
    """``__all__``; None where there is none, or where it cannot be read."""
    error: tuple[str, int, int] | None = None
    """Why the file cannot be read: message, line, column."""


class Parsed(NamedTuple):
    """A Python file as read and parsed; trees are not changed afterwards."""

    text: str
    """Its text, with ``\\n`` line endings; decoded byte by byte where its encoding cannot be told."""
    tree: ast.Module | None
    """None where it cannot be parsed."""
    error: tuple[str, int, int] | None
    """Why it cannot: message, line, column."""


def parse_source(raw: bytes) -> Parsed:
    """Parse one Python file. Never raises: a file that cannot be read gives an ``error`` and no tree."""
    try:
        text = decode(raw)
    except UnreadableText as error:
        return Parsed(raw.decode("latin-1"), None, (error.message, error.line, 1))
    try:
        with warnings.catch_warnings(), _without_collection():
            warnings.simplefilter("ignore")
            return Parsed(text, ast.parse(text), None)
    except SyntaxError as error:
        conflict = _CONFLICT.search(text)
        if conflict is not None and _CONFLICT_END.search(text, conflict.end()):
            line = text.count("\n", 0, conflict.start()) + 1
            return Parsed(text, None, ("it holds conflict markers (<<<<<<<): a merge was not finished", line, 1))
        return Parsed(text, None, (error.msg, error.lineno or 1, error.offset or 1))
    except (RecursionError, MemoryError):
        return Parsed(text, None, _TOO_DEEP)
    except ValueError as error:
        return Parsed(text, None, (str(error), 1, 1))


def facts_of(raw: bytes, parsed: Parsed | None = None) -> FileFacts:
    """Read one Python file. Never raises: a file that cannot be read gives facts with an ``error``.

    ``parsed``: the same bytes as :func:`parse_source` gives them, where that has been done already.
    """
    parsed = parsed or parse_source(raw)
    if parsed.tree is None:
        return _unreadable(raw, parsed.text, *(parsed.error or ("it cannot be parsed", 1, 1)))
    try:
        with _without_collection():
            return _Reader(parsed.text).read(parsed.tree)
    except (RecursionError, MemoryError):
        return _unreadable(raw, parsed.text, *_TOO_DEEP)
    except ValueError as error:
        # a number with too many digits to be written out
        return _unreadable(raw, parsed.text, str(error), 1, 1)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection: it would go through every node again and again, and none of them is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _unreadable(raw: bytes, text: str, message: str, line: int, column: int) -> FileFacts:
    """What can be said of a file that does not parse: the lines that look like imports."""
    imports = []
    for found in _IMPORT_LINE.finditer(text):
        dots, source, plain = found.groups()
        number = text.count("\n", 0, found.start()) + 1
        if plain:
            imports.append(Import(plain, plain, "", 0, number))
        else:
            imports.append(Import("", source, "*", len(dots), number))
    return FileFacts(
        hash=digest(raw.decode("latin-1")), imports=tuple(imports), error=(message, max(line, 1), max(column, 1))
    )


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.encode("utf-8", "surrogatepass").split(b"\n")
        self.words = word_lines(text)
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self.effects: list[Effect] = []
        self.exports: tuple[str, ...] | None = None
        self.exports_known = True

    def read(self, tree: ast.Module) -> FileFacts:
        self.body(tree.body, EMPTY, "")
        everything = hash_of(tree)
        return FileFacts(
            hash=everything,
            definitions=tuple(self.definitions),
            imports=tuple(self.imports),
            effects=tuple(self.effects),
            exports=self.exports if self.exports_known else None,
        )

    def segment(self, node: ast.expr) -> Segment:
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        lines = self.lines[first : last + 1]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        before = self.lines[first][: node.col_offset].decode("utf-8", "surrogatepass")
        return Segment(b"\n".join(lines).decode("utf-8", "surrogatepass"), node.lineno, node.col_offset, len(before))

    def uses_of(self, *nodes: ast.AST, owner: bool = False, names: frozenset[str] = frozenset()) -> Uses:
        return uses_of(*nodes, owner=owner, names=names, words=self.words)

    # Statements at module level

    def body(self, statements: list[ast.stmt], condition: Uses, mark: str) -> None:
        """Read statements that run under a condition (``mark`` is its hash, empty without one)."""
        for node in statements:
            self.statement(node, condition, mark)

    def statement(self, node: ast.stmt, condition: Uses, mark: str) -> None:
        if isinstance(node, _FUNCTIONS):
            self.function(node, "", condition, mark)
        elif isinstance(node, ast.ClassDef):
            self.class_(node, "", condition, mark)
        elif isinstance(node, _IMPORTS):
            self.imports += imports_of(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self.assignment(node, "", condition, mark)
        elif isinstance(node, ast.If):
            if not _is_main(node.test):
                test, name = merge(condition, self.uses_of(node.test)), hash_of(node.test)
                before = len(self.imports)
                self.body(node.body, test, digest(mark, "if", name))
                if chain_of(node.test).rpartition(".")[2] == "TYPE_CHECKING":
                    self.imports[before:] = [msgspec.structs.replace(i, run=False) for i in self.imports[before:]]
                self.body(node.orelse, test, digest(mark, "else", name))
        elif isinstance(node, _TRIES):
            self.try_(node, condition, mark)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self.with_(node, condition, mark)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Match)):
            self.compound(node, condition, mark)
        elif (
            isinstance(node, ast.Pass)
            or is_bare_string(node)
            or (isinstance(node, ast.Expr) and self._extends_exports(node.value))
        ):
            pass
        else:
            self.effect(node, condition, mark)
            self.walruses(node)

    def try_(self, node: ast.stmt, condition: Uses, mark: str) -> None:
        inner = digest(mark, "try")
        for part in (node.body, node.orelse, node.finalbody):  # type: ignore[attr-defined]
            self.body(part, condition, inner)
        for handler in node.handlers:  # type: ignore[attr-defined]
            kind = hash_of(handler.type) if handler.type is not None else ""
            self.body(handler.body, condition, digest(mark, "except", kind))

    def with_(self, node: ast.With | ast.AsyncWith, condition: Uses, mark: str) -> None:
        contexts = [item.context_expr for item in node.items]
        self.bind(node, contexts, condition, mark, [item.optional_vars for item in node.items if item.optional_vars])
        self.body(node.body, merge(condition, self.uses_of(*contexts)), digest(mark, "with", hash_of(*contexts)))

    def compound(self, node: ast.stmt, condition: Uses, mark: str) -> None:
        """A loop or a match: every name it binds depends on all of it, and it acts on what it mentions."""
        bound = bound_names(node)
        uses = self.uses_of(node, names=frozenset(bound))
        writes = list(uses.writes)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            # what is changed through the loop's variable is what the loop runs over
            writes += [chain for chain, _ in self.uses_of(node.iter).refs if self._through(node)]
        uses = msgspec.structs.replace(uses, writes=tuple(dict.fromkeys(writes)))
        content = digest(mark, hash_of(node))
        for name in sorted(bound):
            self.define(name, "bound", node, content, merge(condition, uses), conditional=True)
        self.imports += [item for child in ast.walk(node) if isinstance(child, _IMPORTS) for item in imports_of(child)]
        self.effects.append(Effect(node.lineno, content, merge(condition, uses), stops(node, self.words.within(node))))

    @staticmethod
    def _through(node: ast.For | ast.AsyncFor) -> bool:
        names = bound_names(node)
        for child in ast.walk(node):
            if isinstance(child, (ast.Attribute, ast.Subscript)) and not isinstance(child.ctx, ast.Load):
                if root_of(child).partition(".")[0] in names:
                    return True
            elif isinstance(child, ast.Call):
                return True
        return False

    def bind(self, node: ast.stmt, values: list[ast.expr], condition: Uses, mark: str, targets: list[ast.expr]) -> None:
        for name in sorted(bound_names(*targets)):
            self.define(
                name,
                "bound",
                node,
                digest(mark, hash_of(*values)),
                merge(condition, self.uses_of(*values)),
                conditional=True,
            )

    def effect(self, node: ast.stmt, condition: Uses, mark: str) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = chain_of(node.value.func)
            if name == "print" or name.startswith(_QUIET[1:]):
                return
        content = digest(mark, hash_of(node))
        self.effects.append(
            Effect(node.lineno, content, merge(condition, self.uses_of(node)), stops(node, self.words.within(node)))
        )

    def walruses(self, node: ast.stmt) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.define(child.target.id, "bound", node, hash_of(child.value), self.uses_of(child.value))

    # Definitions

    def define(
        self,
        name: str,
        kind: str,
        node: ast.stmt,
        content: str,
        uses: Uses,
        *,
        decorators: tuple[Decorator, ...] = (),
        value: ast.expr | None = None,
        conditional: bool = False,
        bases: tuple[str, ...] = (),
        parameters: tuple[tuple[str, bool], ...] = (),
        alias: str = "",
        stops: bool = False,
        runs: str = "",
    ) -> None:
        self.definitions.append(
            Definition(
                name,
                kind,
                node.lineno,
                node.col_offset,
                node.end_lineno or node.lineno,
                content,
                uses,
                decorators,
                self.segment(value) if value is not None else None,
                conditional,
                bases,
                parameters,
                alias,
                stops,
                runs,
            )
        )

    def decorators(self, nodes: list[ast.expr]) -> tuple[Decorator, ...]:
        return tuple(self.decorator(node) for node in nodes)

    def decorator(self, node: ast.expr) -> Decorator:
        function = node.func if isinstance(node, ast.Call) else node
        return Decorator(
            chain_of(function), isinstance(node, ast.Call), hash_of(node), self.uses_of(node), self.segment(node)
        )

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str, condition: Uses, mark: str) -> None:
        words = self.words.within(node)
        plain = any(chain_of(decorator) == "staticmethod" for decorator in node.decorator_list)
        self.define(
            prefix + node.name,
            "function",
            node,
            digest(mark, hash_of(node)) if mark else hash_of(node),
            merge(condition, self.uses_of(node, owner=bool(prefix) and not plain)),
            decorators=self.decorators(node.decorator_list),
            conditional=bool(mark),
            parameters=_parameters(node.args),
            stops=any(stops(statement, words) for statement in node.body),
            runs="coroutine" if isinstance(node, ast.AsyncFunctionDef) else "generator" if yields(node, words) else "",
        )

    def class_(self, node: ast.ClassDef, prefix: str, condition: Uses, mark: str) -> None:
        """A class is its header (bases, keywords, statements that define nothing) and its members."""
        inner = f"{prefix}{node.name}."
        others: list[ast.stmt] = []
        for statement in node.body:
            if isinstance(statement, _FUNCTIONS):
                self.function(statement, inner, EMPTY, "")
            elif isinstance(statement, ast.ClassDef):
                self.class_(statement, inner, EMPTY, "")
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and self._names_only(statement):
                self.assignment(statement, inner, EMPTY, "")
            elif not isinstance(statement, ast.Pass) and not is_bare_string(statement):
                others.append(statement)
                for name in sorted(bound_names(statement)):
                    self.define(
                        inner + name, "bound", statement, hash_of(statement), self.uses_of(statement), conditional=True
                    )
        header = [*node.bases, *(keyword.value for keyword in node.keywords), *others]
        content = digest(mark, *(keyword.arg or "**" for keyword in node.keywords), hash_of(*header))
        self.define(
            prefix + node.name,
            "class",
            node,
            content,
            merge(condition, self.uses_of(*header)),
            decorators=self.decorators(node.decorator_list),
            conditional=bool(mark),
            bases=tuple(chain_of(base) for base in node.bases),
        )

    @staticmethod
    def _names_only(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(target, ast.Name) for target in targets)

    def assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, prefix: str, condition: Uses, mark: str
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not prefix and self._assigns_exports(node, targets):
            return
        for target in targets:
            if isinstance(target, ast.Name):
                self.constant(target.id, node, node.value, prefix, condition, mark)
            elif isinstance(target, (ast.Tuple, ast.List)):
                self.unpack(node, target, condition, mark)
            elif not prefix:
                self.effect(node, condition, mark)

    def unpack(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, target: ast.Tuple | ast.List, condition: Uses, mark: str
    ) -> None:
        value = node.value
        pairs: Iterator[tuple[ast.expr, ast.expr]] = iter(())
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            if all(isinstance(part, ast.Name) for part in target.elts) and not _starred(value):
                for part, item in pairs:
                    self.constant(part.id, node, item, "", condition, mark)  # type: ignore[attr-defined]
                return
        if value is not None:
            self.bind(node, [value], condition, mark, [target])

    def constant(
        self, name: str, node: ast.stmt, value: ast.expr | None, prefix: str, condition: Uses, mark: str
    ) -> None:
        if value is None:
            return
        extra = [node.annotation] if isinstance(node, ast.AnnAssign) else []
        kind = "augmented" if isinstance(node, ast.AugAssign) else "constant"
        operator = type(node.op).__name__ if isinstance(node, ast.AugAssign) else ""
        inner: ast.expr | None = None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Call):
            inner = value.func
        parts: list[ast.AST] = [*value.args, *value.keywords] if inner is not None else [value]  # type: ignore[attr-defined]
        uses = merge(condition, self.uses_of(*parts, *extra))
        if inner is None and _plain_numbers(value):
            uses = msgspec.structs.replace(uses, sizes=tuple(sorted({*uses.sizes, *_numbers(value)})))
        self.define(
            prefix + name,
            kind,
            node,
            digest(mark, operator, hash_of(*parts, *extra)),
            uses,
            decorators=(self.decorator(inner),) if inner is not None else (),
            value=value,
            conditional=bool(mark),
            alias=chain_of(value),
        )

    # __all__

    def _assigns_exports(self, node: ast.stmt, targets: Sequence[ast.expr]) -> bool:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return False
        self._export(getattr(node, "value", None))
        return True

    def _extends_exports(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or chain_of(node.func) not in ("__all__.extend", "__all__.append"):
            return False
        value = node.args[0] if node.args else None
        self._export(ast.List([value], ast.Load()) if chain_of(node.func).endswith("append") and value else value)
        return True

    def _export(self, value: ast.expr | None) -> None:
        if not isinstance(value, (ast.List, ast.Tuple)):
            self.exports_known = False
            return
        names = [part.value for part in value.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(names) != len(value.elts):
            self.exports_known = False
        self.exports = (*(self.exports or ()), *names)


_TRIES: tuple[type[ast.AST], ...] = (ast.Try,) + ((ast.TryStar,) if hasattr(ast, "TryStar") else ())


def _parameters(arguments: ast.arguments) -> tuple[tuple[str, bool], ...]:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    found = [(argument.arg, position >= required) for position, argument in enumerate(positional)]
    if arguments.vararg is not None:
        found.append((f"*{arguments.vararg.arg}", False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((argument.arg, default is not None))
    if arguments.kwarg is not None:
        found.append((f"**{arguments.kwarg.arg}", False))
    return tuple(found)


def _is_main(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


def _starred(value: ast.Tuple | ast.List) -> bool:
    return any(isinstance(part, ast.Starred) for part in value.elts)


def _numbers(node: ast.AST) -> Iterator[int]:
    """The integers that a literal is made of, as far as they may be sizes."""
    value = integer(node)
    if value is None:
        for child in ast.iter_child_nodes(node):
            yield from _numbers(child)
    elif 2 <= value <= 2**20:
        yield value


def _plain_numbers(value: ast.expr) -> bool:
    """Whether a value is made of numbers alone: ``1024``, ``[64, 128]``, ``{"BLOCK": 2 * 64}``."""
    plain = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.operator, ast.expr_context)
    return all(isinstance(child, plain) for child in ast.walk(value))
