"""What a piece of code uses: names, local imports, writes, launches, sizes, and what it looks up dynamically.

Names follow Python's scoping rules; only those that are not local are kept. In a method, ``self`` (or ``cls``) is
written ``@``, and ``super()`` is written ``@super``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator

import msgspec

MUTATORS = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse",
        "setdefault", "sort", "update",
    }
)  # fmt: skip
"""Methods that change a container; their arguments stay as they are."""
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


class Import(msgspec.Struct, frozen=True, array_like=True):
    """One name bound by an import."""

    name: str
    """The name bound; empty for ``import *``."""
    module: str
    """The module as written, without leading dots."""
    attribute: str
    """What is taken from it; empty for the module itself."""
    level: int
    """Number of leading dots."""
    line: int
    run: bool = True
    """Whether importing the file runs it; an import under ``if TYPE_CHECKING:`` is for checkers alone."""


class LaunchSite(msgspec.Struct, frozen=True, array_like=True):
    """``name[grid]``, with or without the call; or a call that launches the function that it is given."""

    chain: str
    """What is launched, as written; of a local name, what it is assigned; empty where neither can be told."""
    line: int
    column: int
    called: bool
    via: str = ""
    """The chain of the call that launches (``ct.launch``, ``pl.pallas_call``), ``.launch`` for ``name(...).launch()``;
    empty for ``name[grid]``."""


class Dynamic(msgspec.Struct, frozen=True, array_like=True):
    """A lookup by a computed name."""

    kind: str
    """``module`` (own globals), ``fill`` (own globals, which may be written), ``attribute`` (of ``what``), ``import``
    (a module that is then used), ``run`` (a module that is imported and not used) or ``code`` (eval, exec)."""
    what: str
    """Of an import: the module's name, with ``*`` for parts that are computed, ``{name}`` and ``{package}`` for the
    file's own, ``$parameter`` for what the function is given, ``=chain`` for a constant."""
    line: int


class Given(msgspec.Struct, frozen=True, array_like=True):
    """A call, and the literal strings that it is given; None for anything else."""

    chain: str
    positional: tuple[str | None, ...]
    keywords: tuple[tuple[str, str | None], ...]

    def argument(self, position: int, name: str) -> str | None:
        """The literal given for a parameter; None where it is not known."""
        if position < len(self.positional):
            return self.positional[position]
        return dict(self.keywords).get(name)


class Uses(msgspec.Struct, frozen=True, array_like=True):
    """What one piece of code uses."""

    refs: tuple[tuple[str, int], ...] = ()
    """Attribute chains that start at a name that is not local, each with the line of its first use."""
    imports: tuple[Import, ...] = ()
    """Imports inside functions."""
    writes: tuple[str, ...] = ()
    """Chains that it assigns to or mutates; ``@param`` where it changes an argument."""
    launches: tuple[LaunchSite, ...] = ()
    sizes: tuple[int, ...] = ()
    """Integers that look like block sizes, caps or thresholds."""
    dynamics: tuple[Dynamic, ...] = ()
    calls: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Calls at module level: callee, and the chains given to it."""
    given: tuple[Given, ...] = ()
    """Calls that are given literal strings, of names that are used in no other way."""
    commands: tuple[str, ...] = ()
    """Chains that are called for what the call does: its result is not used."""


EMPTY = Uses()


def merge(*parts: Uses) -> Uses:
    """All of several pieces together."""
    full = [part for part in parts if part is not EMPTY]
    if len(full) < 2:
        return full[0] if full else EMPTY
    refs: dict[str, int] = {}
    for part in full:
        for chain, line in part.refs:
            refs.setdefault(chain, line)
    return Uses(
        tuple(refs.items()),
        _unique(item for part in full for item in part.imports),
        _unique(item for part in full for item in part.writes),
        _unique(item for part in full for item in part.launches),
        tuple(sorted({item for part in full for item in part.sizes})),
        _unique(item for part in full for item in part.dynamics),
        _unique(item for part in full for item in part.calls),
        _unique(item for part in full for item in part.given if all(_always_given(item.chain, p) for p in full)),
        _unique(item for part in full for item in part.commands),
    )


def _always_given(chain: str, part: Uses) -> bool:
    return any(item.chain == chain for item in part.given) or all(chain != other for other, _ in part.refs)


def chain_of(node: ast.AST) -> str:
    """``a.b.c`` for a name or an attribute of one; empty for anything else."""
    if type(node) is ast.Name:
        return node.id
    if type(node) is not ast.Attribute:
        return ""
    inner, rest = node.value, node.attr
    while type(inner) is ast.Attribute:
        rest = f"{inner.attr}.{rest}"
        inner = inner.value
    return f"{inner.id}.{rest}" if type(inner) is ast.Name else ""


def root_of(node: ast.AST) -> str:
    """The chain that an expression such as ``a.b[0].c`` starts from (``a.b``)."""
    chain = chain_of(node)
    while not chain:
        if not isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            return ""
        node = node.value
        chain = chain_of(node)
    return chain


def integer(node: ast.AST) -> int | None:
    """The value of integer arithmetic on literals; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = integer(node.left), integer(node.right)
        if left is None or right is None or not (0 <= right < 64 or isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))):
            return None
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except (ArithmeticError, ValueError):
            return None
    return None


def _unique(items: Iterator[object]) -> tuple:  # type: ignore[type-arg]
    return tuple(dict.fromkeys(items))
