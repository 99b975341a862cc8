"""The hash of a piece of code: what it says, not how it is laid out or commented.

A node is written as its type and its fields, in the order of ``_fields``. Empty and absent fields are left out, so that
versions of Python that add fields agree with those that lack them. ``_any`` says so for every node; the functions after
it say the same of the types that make up most of a file, without looking at the node's description.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

_POSITIONAL = frozenset({"ctx", "type_comment", "kind"})
_UNNAMED = ("name", "decorator_list")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def digest(*parts: str) -> str:
    """16 hexadecimal digits over the parts; where one part ends and the next begins counts."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(raw))
        state.update(raw)
    return state.hexdigest()


def hash_of(*nodes: ast.AST) -> str:
    """Hash of syntax trees: no positions, comments or docstrings, nor an outermost definition's name and decorators.

    The text of a function is kept with its node, for the hash of what it is part of: trees stay as they were parsed.
    """
    return digest("".join(map(_outermost, nodes)))


def is_bare_string(node: ast.AST) -> bool:
    """Whether a statement is a docstring or another string that nothing uses."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _outermost(node: ast.AST) -> str:
    if isinstance(node, _Function):
        inside, behind = _function_parts(node)
        return f"{type(node).__name__}({inside}{behind})"
    return _any(node, skip=_UNNAMED) if isinstance(node, ast.ClassDef) else _text(node)


def _text(node: ast.AST) -> str:
    return _WRITERS[type(node)](node)


def _any(node: ast.AST, skip: tuple[str, ...] = ()) -> str:
    out = []
    for name in node._fields:
        if name in _POSITIONAL or name in skip:
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            out.append(f"{name}={_text(value)}")
        elif isinstance(value, list):
            out.append(_list(name, value))
        elif value is not None:
            out.append(f"{name}={value!r},")
    return f"{type(node).__name__}({''.join(out)})"


def _list(name: str, items: list[Any]) -> str:
    if not items:
        return ""
    text = ""
    for item in items:
        if type(item) is not ast.Expr or not is_bare_string(item):
            text += _WRITERS[type(item)](item) if isinstance(item, ast.AST) else f"{item!r},"
    return f"{name}=[{text}]"


def _expressions(nodes: Iterable[ast.AST]) -> str:
    # names are most of them: not a call for each; nor a comprehension, whose frame counts as one more level of nesting
    text = ""
    for node in nodes:
        text += _NAMES[node.id] if type(node) is ast.Name else _WRITERS[type(node)](node)
    return text


def _function(node: _Function) -> str:
    inside, behind = _function_parts(node)
    decorators = _list("decorator_list", node.decorator_list)
    return f"{type(node).__name__}(name={node.name!r},{inside}{decorators}{behind})"


def _function_parts(node: _Function) -> tuple[str, str]:
    """What stands before the decorators, the name apart, and what stands behind them."""
    known: tuple[str, str] | None = node.__dict__.get("_kgate_text")
    if known is None:
        returns = f"returns={_text(node.returns)}" if node.returns is not None else ""
        behind = returns + _list("type_params", getattr(node, "type_params", []))
        known = f"args={_arguments(node.args)}{_list('body', node.body)}", behind
        node._kgate_text = known  # type: ignore[union-attr]
    return known


def _arguments(node: ast.arguments) -> str:
    starred = f"vararg={_text(node.vararg)}" if node.vararg is not None else ""
    doubly = f"kwarg={_text(node.kwarg)}" if node.kwarg is not None else ""
    before = _list("posonlyargs", node.posonlyargs) + _list("args", node.args)
    between = _list("kwonlyargs", node.kwonlyargs) + _list("kw_defaults", node.kw_defaults)
    return f"arguments({before}{starred}{between}{doubly}{_list('defaults', node.defaults)})"


def _argument(node: ast.arg) -> str:
    annotation = f"annotation={_text(node.annotation)}" if node.annotation is not None else ""
    return f"arg(arg={node.arg!r},{annotation})"


def _name(node: ast.Name) -> str:
    return _NAMES[node.id]


def _attribute(node: ast.Attribute) -> str:
    value = node.value
    owner = _NAMES[value.id] if type(value) is ast.Name else _WRITERS[type(value)](value)
    return f"Attribute(value={owner}attr={node.attr!r},)"


def _constant(node: ast.Constant) -> str:
    value = node.value
    return f"Constant({type(value).__name__} {value!r})"


def _binary(node: ast.BinOp) -> str:
    left, right = node.left, node.right
    first = _NAMES[left.id] if type(left) is ast.Name else _WRITERS[type(left)](left)
    second = _NAMES[right.id] if type(right) is ast.Name else _WRITERS[type(right)](right)
    return f"BinOp(left={first}op={_OPERATORS[type(node.op)]}right={second})"


def _unary(node: ast.UnaryOp) -> str:
    return f"UnaryOp(op={_OPERATORS[type(node.op)]}operand={_WRITERS[type(node.operand)](node.operand)})"


def _compare(node: ast.Compare) -> str:
    operators = "".join([_OPERATORS[type(each)] for each in node.ops])
    return f"Compare(left={_text(node.left)}ops=[{operators}]comparators=[{_expressions(node.comparators)}])"


def _call(node: ast.Call) -> str:
    function = node.func
    args = f"args=[{_expressions(node.args)}]" if node.args else ""
    keywords = f"keywords=[{_expressions(node.keywords)}]" if node.keywords else ""
    return f"Call(func={_WRITERS[type(function)](function)}{args}{keywords})"


def _keyword(node: ast.keyword) -> str:
    value = node.value
    name = f"arg={node.arg!r}," if node.arg is not None else ""
    return f"keyword({name}value={_WRITERS[type(value)](value)})"


def _tuple(node: ast.Tuple | ast.List) -> str:
    elements = f"elts=[{_expressions(node.elts)}]" if node.elts else ""
    return f"{type(node).__name__}({elements})"


def _subscript(node: ast.Subscript) -> str:
    value, key = node.value, node.slice
    return f"Subscript(value={_WRITERS[type(value)](value)}slice={_WRITERS[type(key)](key)})"


def _slice(node: ast.Slice) -> str:
    lower, upper, step = node.lower, node.upper, node.step
    if lower is upper is step is None:
        return "Slice()"
    first = f"lower={_text(lower)}" if lower is not None else ""
    last = f"upper={_text(upper)}" if upper is not None else ""
    return f"Slice({first}{last}{f'step={_text(step)}' if step is not None else ''})"


def _choice(node: ast.IfExp) -> str:
    other = node.orelse
    return f"IfExp(test={_text(node.test)}body={_text(node.body)}orelse={_WRITERS[type(other)](other)})"


def _assign(node: ast.Assign) -> str:
    value = node.value
    return f"Assign(targets=[{_expressions(node.targets)}]value={_WRITERS[type(value)](value)})"


def _augmented(node: ast.AugAssign) -> str:
    return f"AugAssign(target={_text(node.target)}op={_OPERATORS[type(node.op)]}value={_text(node.value)})"


def _expression(node: ast.Expr) -> str:
    return f"Expr(value={_text(node.value)})"


def _return(node: ast.Return) -> str:
    return f"Return(value={_text(node.value)})" if node.value is not None else "Return()"


def _if(node: ast.If) -> str:
    return f"If(test={_text(node.test)}{_list('body', node.body)}{_list('orelse', node.orelse)})"


def _types(base: type[ast.AST]) -> list[type[ast.AST]]:
    return [base, *(each for child in base.__subclasses__() for each in _types(child))]


class _Names(dict[str, str]):
    """Text of the names met so far."""

    def __missing__(self, name: str) -> str:
        if len(self) > _NAMES_LIMIT:
            self.clear()
        text = self[name] = f"Name(id={name!r},)"
        return text


_NAMES_LIMIT = 100_000
_NAMES = _Names()
_OPERATORS: dict[type[ast.AST], str] = {
    each: f"{each.__name__}()"
    for base in (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    for each in base.__subclasses__()
}
_WRITERS: dict[type[ast.AST], Callable[[Any], str]] = {
    **dict.fromkeys(_types(ast.AST), _any),
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.arguments: _arguments,
    ast.arg: _argument,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.keyword: _keyword,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.IfExp: _choice,
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.If: _if,
}
