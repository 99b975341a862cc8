"""The hash of a piece of code: what it says, not how it is laid out or commented."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable

_POSITIONAL = frozenset({"ctx", "type_comment", "kind"})
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def digest(*parts: str) -> str:
    """16 hexadecimal digits over the parts; where one part ends and the next begins counts."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(raw))
        state.update(raw)
    return state.hexdigest()


def hash_of(*nodes: ast.AST) -> str:
    """Hash of syntax trees: no positions, comments or docstrings, nor an outermost definition's name and decorators."""
    out: list[str] = []
    for node in nodes:
        if isinstance(node, _NAMED):
            _dump(node, out, skip=("name", "decorator_list"))
        else:
            _dump(node, out)
    return digest("".join(out))


def _dump(node: ast.AST, out: list[str], skip: tuple[str, ...] = ()) -> None:
    # Empty and absent fields are left out, so that versions of Python that add fields agree with those that lack them.
    out.append(type(node).__name__)
    if isinstance(node, ast.Constant):
        out.append(f"({type(node.value).__name__} {node.value!r})")
        return
    out.append("(")
    for name in node._fields:
        if name in _POSITIONAL or name in skip:
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            out.append(name + "=")
            _dump(value, out)
        elif isinstance(value, list):
            if value:
                out.append(name + "=[")
                _dump_list(value, out)
                out.append("]")
        elif value is not None:
            out.append(f"{name}={value!r},")
    out.append(")")


def _dump_list(items: Iterable[object], out: list[str]) -> None:
    for item in items:
        if isinstance(item, ast.AST):
            if not is_bare_string(item):
                _dump(item, out)
        else:
            out.append(f"{item!r},")


def is_bare_string(node: ast.AST) -> bool:
    """Whether a statement is a docstring or another string that nothing uses."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
