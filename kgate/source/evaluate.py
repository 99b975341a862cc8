"""Reading values from source without running it: literals, names bound once, and kgate's own vocabulary.

An expression that cannot be read this way is a finding at its place, never a guess.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

from kgate.source.cache import FactsStore
from kgate.source.names import OWN_PACKAGE, Names
from kgate.source.records import Finding
from kgate.source.text import UnreadableText, decode
from kgate.source.uses import chain_of

Place = tuple[str, ast.expr]
"""A file, and an expression in it."""

VOCABULARY = ("Envelope", "Tensor", "Scalar", "Choice", "ListOf", "Offsets", "Ignore", "Dim", "Numerics", "Workload")
_BUILTINS: dict[str, Callable[..., Any]] = {
    "dict": dict, "tuple": tuple, "list": list, "min": min, "max": max, "len": len, "int": int, "str": str,
    "abs": abs, "float": float, "sorted": sorted, "set": set, "frozenset": frozenset,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {-1: lambda value: value, 115: str, 114: repr, 97: ascii}
_BITS = 4096
_LENGTH = 10_000


class Unreadable(Exception):
    """An expression could not be read; the findings say why."""


class Findings:
    """Collects findings, with positions as a reader counts them."""

    def __init__(self, store: FactsStore) -> None:
        self.store = store
        self.items: dict[Finding, None] = {}
        self._lines: dict[str, list[str]] = {}

    def add(
        self, code: str, place: Place, message: str, remedy: str, symbol: str = "", *, severity: str = "error"
    ) -> None:
        """Add a finding over an expression."""
        path, node = place
        end = node.end_lineno or node.lineno
        self.items[
            Finding(
                code,
                severity,
                path,
                node.lineno,
                self.column(path, node.lineno, node.col_offset),
                end,
                self.column(path, end, node.end_col_offset or node.col_offset),
                message,
                remedy,
                symbol,
            )
        ] = None

    def column(self, path: str, line: int, offset: int) -> int:
        """Column in characters, from 1, for an offset in UTF-8 bytes."""
        lines = self._lines.get(path)
        if lines is None:
            try:
                lines = decode(self.store.tree.read(path)).split("\n")
            except UnreadableText:
                lines = []
            self._lines[path] = lines
        if not 0 < line <= len(lines) or lines[line - 1].isascii():
            return offset + 1
        return len(lines[line - 1].encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1


class Evaluator:
    """Evaluates expressions of one tree; ``used`` are the symbols whose values it looked at."""

    def __init__(self, names: Names, findings: Findings, symbol: str) -> None:
        self.names = names
        self.findings = findings
        self.symbol = symbol
        self.used: dict[str, int] = {}
        self._open: set[str] = set()

    def fail(self, place: Place, message: str, remedy: str = "", code: str = "unreadable-declaration") -> Unreadable:
        """Note why an expression cannot be read; to be raised."""
        self.findings.add(code, place, message, remedy, self.symbol)
        return Unreadable()

    def value(self, place: Place) -> Any:
        """The value of an expression. Raises :class:`Unreadable` after noting every reason why it has none."""
        path, node = place
        if isinstance(node, ast.Constant):
            return node.value
        if chain_of(node):
            return self._name(place)
        reader = _READERS.get(type(node))
        if reader is None:
            raise self.fail(place, f"{_describe(node)} cannot be read without running the code", _WRITE_OUT)
        return reader(self, path, node)

    def constant(self, place: Place) -> Place | None:
        """The expression that a name stands for; None where the expression is no name of the tree.

        Raises :class:`Unreadable` where the name has no single value.
        """
        path, node = place
        chain = chain_of(node)
        if not chain:
            return None
        found = self.names.resolve(path, chain)
        if not found.symbols or found.externals:
            return None
        symbols = list(found.symbols)
        if len(symbols) > 1:
            raise self.fail(place, f"{chain} is bound more than once", "bind the name once, without conditions")
        target, _, name = symbols[0].partition("::")
        definitions = self.names.definitions(symbols[0])
        if name == "*" or not definitions:
            return None
        self.used.setdefault(symbols[0], node.lineno)
        if any(definition.kind in ("function", "class") for definition in definitions):
            return None
        if len(definitions) > 1 or definitions[0].conditional or definitions[0].kind != "constant":
            raise self.fail(
                place,
                f"{chain} is bound more than once, in a loop or under a condition ({target}:{definitions[-1].line})",
                "bind the name once, without conditions",
            )
        for effect in self.names.table(target).facts.effects:
            if name in effect.uses.writes:
                raise self.fail(
                    place,
                    f"{chain} is changed after it was bound ({target}:{effect.line})",
                    "write the final value where the name is bound",
                )
        segment = definitions[0].value
        return (target, segment.parse()) if segment is not None else None

    def _name(self, place: Place) -> Any:
        chain = chain_of(place[1])
        meant = self.constant(place)
        if meant is None:
            raise self.fail(place, f"{chain} has no value that can be read without running the code", _WRITE_OUT)
        key = f"{meant[0]}:{meant[1].lineno}:{meant[1].col_offset}:{chain}"
        if key in self._open:
            raise self.fail(place, f"{chain} is defined by itself", _WRITE_OUT)
        self._open.add(key)
        try:
            return self.value(meant)
        finally:
            self._open.discard(key)

    def _all(self, places: Iterator[Place]) -> list[Any]:
        """Values of several expressions; every one is tried before giving up."""
        values, failed = [], False
        for place in places:
            try:
                values.append(self.value(place))
            except Unreadable:
                failed = True
        if failed:
            raise Unreadable
        return values

    def _sequence(self, path: str, node: ast.Tuple | ast.List | ast.Set) -> Any:
        return {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)](self._items(path, node.elts))

    def _items(self, path: str, nodes: list[ast.expr]) -> list[Any]:
        values: list[Any] = []
        failed = False
        for node in nodes:
            try:
                if isinstance(node, ast.Starred):
                    spread = self.value((path, node.value))
                    if not isinstance(spread, (tuple, list, set, dict)):
                        raise self.fail((path, node), "only a tuple, list or dict can be spread here", _WRITE_OUT)
                    values.extend(spread)
                else:
                    values.append(self.value((path, node)))
            except Unreadable:
                failed = True
        if failed:
            raise Unreadable
        return values

    def _dict(self, path: str, node: ast.Dict) -> Any:
        result: dict[Any, Any] = {}
        failed = False
        for key, item in zip(node.keys, node.values, strict=True):
            try:
                value = self.value((path, item))
                if key is None:
                    if not isinstance(value, dict):
                        raise self.fail((path, item), "only a dict can be spread here", _WRITE_OUT)
                    result.update(value)
                else:
                    name = self.value((path, key))
                    if name in result and key is not None:
                        self.findings.add(
                            "duplicate-name", (path, key), f"{name!r} is there twice", "keep one of them", self.symbol
                        )
                        failed = True
                    result[name] = value
            except Unreadable:
                failed = True
            except TypeError:
                self.findings.add(
                    "unreadable-declaration",
                    (path, item),
                    "a key of this dict cannot be a key",
                    _WRITE_OUT,
                    self.symbol,
                )
                failed = True
        if failed:
            raise Unreadable
        return result

    def _binary(self, path: str, node: ast.BinOp) -> Any:
        left, right = self._all(iter([(path, node.left), (path, node.right)]))
        self._affordable((path, node), node.op, left, right)
        return self._apply((path, node), _BINARY.get(type(node.op)), left, right)

    def _affordable(self, place: Place, op: ast.operator, left: Any, right: Any) -> None:
        """Refuse arithmetic whose result nobody could mean to write."""
        too_big = False
        if isinstance(op, ast.Pow):
            too_big = isinstance(right, int) and isinstance(left, int) and abs(right) * left.bit_length() > _BITS
        elif isinstance(op, ast.LShift):
            too_big = isinstance(right, int) and right > _BITS
        elif isinstance(op, ast.Mult):
            for many, times in ((left, right), (right, left)):
                if isinstance(many, (str, bytes, tuple, list)) and isinstance(times, int):
                    too_big = too_big or len(many) * times > _LENGTH
        if too_big:
            raise self.fail(place, "the result of this is too large", _WRITE_OUT)

    def _apply(self, place: Place, function: Callable[..., Any] | None, *values: Any) -> Any:
        if function is None:
            raise self.fail(place, f"{_describe(place[1])} cannot be read without running the code", _WRITE_OUT)
        try:
            return function(*values)
        except Unreadable:
            raise
        except Exception as error:
            raise self.fail(place, f"this cannot be computed: {error}", _WRITE_OUT) from None

    def _unary(self, path: str, node: ast.UnaryOp) -> Any:
        return self._apply((path, node), _UNARY[type(node.op)], self.value((path, node.operand)))

    def _boolean(self, path: str, node: ast.BoolOp) -> Any:
        result: Any = None
        for part in node.values:
            result = self.value((path, part))
            if bool(result) is isinstance(node.op, ast.Or):
                break
        return result

    def _comparison(self, path: str, node: ast.Compare) -> Any:
        left = self.value((path, node.left))
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.value((path, part))
            if not self._apply((path, node), _COMPARE.get(type(op)), left, right):
                return False
            left = right
        return True

    def _choice(self, path: str, node: ast.IfExp) -> Any:
        return self.value((path, node.body if self.value((path, node.test)) else node.orelse))

    def _text(self, path: str, node: ast.JoinedStr) -> Any:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                convert = _CONVERSIONS[part.conversion]
                layout = self.value((path, part.format_spec)) if part.format_spec is not None else ""
                parts.append(self._apply((path, node), format, convert(self.value((path, part.value))), layout))
            else:
                parts.append(str(self.value((path, part))))
        return "".join(parts)

    def _item(self, path: str, node: ast.Subscript) -> Any:
        base = self.value((path, node.value))
        if isinstance(node.slice, ast.Slice):
            ends = [node.slice.lower, node.slice.upper, node.slice.step]
            key: Any = slice(*(None if end is None else self.value((path, end)) for end in ends))
        else:
            key = self.value((path, node.slice))
        return self._apply((path, node), operator.getitem, base, key)

    # Calls

    def vocabulary(self, path: str, node: ast.expr) -> str:
        """The word of kgate's vocabulary that an expression names; empty for anything else."""
        chain = chain_of(node)
        if not chain:
            return ""
        found = self.names.resolve(path, chain)
        for external in found.externals:
            if external.startswith(OWN_PACKAGE + "."):
                return external.rpartition(".")[2]
        return ""

    def _call(self, path: str, node: ast.Call) -> Any:
        word = self.vocabulary(path, node.func)
        if word in VOCABULARY:
            import kgate.contract

            return self._build(path, node, getattr(kgate.contract, word), word)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            from kgate.contract.records import Record

            base = self.value((path, node.func.value))
            if isinstance(base, Record):
                return self._build(path, node, base.replace, f"{type(base).__name__}.replace")
        chain = chain_of(node.func)
        if chain in _BUILTINS and f"builtins.{chain}" in self.names.resolve(path, chain).externals:
            args, keywords = self._arguments(path, node)
            return (
                self._apply((path, node), _BUILTINS[chain], *args)
                if not keywords or chain != "dict"
                else dict(*args, **keywords)
            )
        what = f"a call of {chain}" if chain else "this call"
        raise self.fail((path, node), f"{what} cannot be read without running the code", _WRITE_OUT)

    def _arguments(self, path: str, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        failed = False
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        try:
            args = self._items(path, node.args)
        except Unreadable:
            failed = True
        for keyword in node.keywords:
            try:
                value = self.value((path, keyword.value))
            except Unreadable:
                failed = True
                continue
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
                keywords.update(value)
            else:
                self.fail((path, keyword.value), "only a dict with names as keys can be spread here", _WRITE_OUT)
                failed = True
        if failed:
            raise Unreadable
        return args, keywords

    def _build(self, path: str, node: ast.Call, build: Callable[..., Any], word: str) -> Any:
        from kgate.contract import DeclarationError

        args, keywords = self._arguments(path, node)
        try:
            return build(*args, **keywords)
        except DeclarationError as error:
            self.mistakes(error, (path, node))
        except TypeError as error:
            message = str(error).replace("__init__() ", "").replace(f"{word}.", "")
            self.fail((path, node), f"{word}: {message}", f"write {_signature(build, word)}", "bad-arguments")
        raise Unreadable

    def mistakes(self, error: Any, place: Place) -> None:
        """Turn a DeclarationError, and the ones it carries, into findings at the expressions that they are about."""
        for mistake in error.all():
            where = _within(self.locate(place, mistake.where), mistake.column)
            self.findings.add(mistake.code, where, mistake.message, mistake.remedy, self.symbol)

    def argument(self, place: Place, name: str) -> Place:
        """The expression that is given for a parameter of a call, as it stands there; the call without one."""
        path, node = place
        found = self._argument(path, node, name) if isinstance(node, ast.Call) else None
        return found or place

    def locate(self, place: Place, where: tuple[str, ...]) -> Place:
        """The expression at a path inside a declaration (``("dims", "M")``), or the nearest one around it."""
        for name in where:
            inner = self._inside(place, name)
            if inner is None:
                break
            place = inner
        return place

    def _inside(self, place: Place, name: str) -> Place | None:
        try:
            while (meant := self.constant(place)) is not None:
                place = meant
        except Unreadable:
            return None
        path, node = place
        if isinstance(node, ast.Call):
            return self._argument(path, node, name)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    return path, value
            spread = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
            return next((found for value in spread if (found := self._inside((path, value), name))), None)
        if isinstance(node, (ast.Tuple, ast.List)) and name.isdigit() and not _spreads(node.elts):
            return (path, node.elts[int(name)]) if int(name) < len(node.elts) else None
        return None

    def _argument(self, path: str, node: ast.Call, name: str) -> Place | None:
        for keyword in node.keywords:
            if keyword.arg == name:
                return path, keyword.value
        for keyword in node.keywords:
            if keyword.arg is None and (found := self._inside((path, keyword.value), name)):
                return found
        word = self.vocabulary(path, node.func)
        if word in VOCABULARY and not _spreads(node.args):
            import kgate.contract

            fields = getattr(kgate.contract, word).fields()
            if word == "Choice" and name.isdigit() and int(name) < len(node.args):
                return path, node.args[int(name)]
            if name in fields and fields.index(name) < len(node.args) and word != "Choice":
                return path, node.args[fields.index(name)]
        return None


def _signature(build: Callable[..., Any], word: str) -> str:
    """``Dim(lo, hi)``: how a word of the vocabulary is written."""
    import inspect

    parameters = inspect.signature(build).parameters.values()
    star = any(p.kind is p.KEYWORD_ONLY for p in parameters) and not any(p.kind is p.VAR_POSITIONAL for p in parameters)
    shown: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and star:
            shown.append("*")
            star = False
        if parameter.name != "unknown":
            shown.append(str(parameter.replace(annotation=parameter.empty)))
    return f"{word}({', '.join(shown)})"


def _within(place: Place, column: int | None) -> Place:
    """A column inside a string that is written plainly; the expression as a whole for any other."""
    path, node = place
    if column is None or not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return place
    width = (node.end_col_offset or 0) - node.col_offset
    if node.lineno != node.end_lineno or width != len(node.value.encode()) + 2:
        return place
    before = node.value[: column - 1]
    start = node.col_offset + 1 + len(before.encode())
    inner = ast.Constant(node.value, lineno=node.lineno, col_offset=start)
    inner.end_lineno, inner.end_col_offset = node.end_lineno, node.end_col_offset
    return path, inner


def _spreads(nodes: list[ast.expr]) -> bool:
    return any(isinstance(node, ast.Starred) for node in nodes)


def _describe(node: ast.AST) -> str:
    names: dict[type[ast.AST], str] = {
        ast.Lambda: "a lambda", ast.ListComp: "a comprehension", ast.SetComp: "a comprehension",
        ast.DictComp: "a comprehension", ast.GeneratorExp: "a generator", ast.Attribute: "this attribute",
        ast.Await: "an await", ast.NamedExpr: "an assignment expression",
    }  # fmt: skip
    return names.get(type(node), "this expression")


_WRITE_OUT = "write the value out, or bind it once at module level"
_READERS: dict[type[ast.AST], Callable[[Evaluator, str, Any], Any]] = {
    ast.Tuple: Evaluator._sequence,
    ast.List: Evaluator._sequence,
    ast.Set: Evaluator._sequence,
    ast.Dict: Evaluator._dict,
    ast.BinOp: Evaluator._binary,
    ast.UnaryOp: Evaluator._unary,
    ast.BoolOp: Evaluator._boolean,
    ast.Compare: Evaluator._comparison,
    ast.IfExp: Evaluator._choice,
    ast.JoinedStr: Evaluator._text,
    ast.Subscript: Evaluator._item,
    ast.Call: Evaluator._call,
}
