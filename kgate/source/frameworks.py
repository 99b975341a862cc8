"""Which names make device functions, and of which framework: by where a name comes from, not by how it is spelled."""

from __future__ import annotations

from kgate.source.names import Names

JIT_NAMES = frozenset({"triton_jit", "libentry", "gluon_jit"})
"""Decorators, by their last name, that make a device function wherever they come from."""
DEFAULT = "triton"

# Package, last names in it, framework; the first that fits counts.
_DECORATORS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("triton.experimental.gluon", frozenset({"jit"}), "gluon"),
    ("triton", frozenset({"jit"}), "triton"),
    ("cutlass.cute", frozenset({"kernel"}), "cute"),
    ("cuda.tile", frozenset({"kernel"}), "cutile"),
    ("tilelang", frozenset({"jit", "lazy_jit", "prim_func"}), "tilelang"),
    ("helion", frozenset({"kernel", "aot_kernel"}), "helion"),
    ("numba.cuda", frozenset({"jit"}), "numba"),
)
# Calls that launch a function that they are given; the first of them makes it a device function, too.
_CALLS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("jax.experimental.pallas", frozenset({"pallas_call"}), "pallas"),
    ("cuda.tile", frozenset({"launch"}), "cutile"),
)
_ORIGINS = {"numba": "numba", "cutlass": "cute", "tilelang": "tilelang", "helion": "helion", "jax": "pallas"}
BUILDER = "prim_func"
"""Last name of the decorator of what a function compiles inside itself."""


def framework_of(dotted: str, table: tuple[tuple[str, frozenset[str], str], ...] = _DECORATORS) -> str:
    """The framework whose compiling decorator a dotted name is; empty for any other name."""
    owner, _, last = dotted.rpartition(".")
    for package, names, framework in table:
        if last in names and (owner == package or owner.startswith(f"{package}.")):
            return framework
    return ""


class Frameworks:
    """Tells what the names in the files of one tree compile."""

    def __init__(self, names: Names, aliases: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.aliases = JIT_NAMES | aliases
        self._known: dict[tuple[str, str], str] = {}

    def compiles(self, path: str, chain: str) -> str:
        """The framework that a decorator written in a file compiles for; empty where it does not compile."""
        if not chain:
            return ""
        key = (path, chain)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compiles(path, chain)
        return known

    def launches(self, path: str, via: str) -> str:
        """The framework whose launching call a chain means; empty for any other call."""
        return self._external(path, via, _CALLS)

    def wraps(self, symbol: str) -> str:
        """The framework that a name of the tree stands for: an alias, a partial, a function named after ``jit``."""
        target, _, name = symbol.partition("::")
        if "jit" not in name.rpartition(".")[2].lower():
            return ""
        chains = (chain for definition in self.names.definitions(symbol) for chain, _ in definition.uses.refs)
        return next(filter(None, (framework_of(self.names.dotted(target, chain)) for chain in chains)), "")

    def _compiles(self, path: str, chain: str) -> str:
        found = self._external(path, chain, _DECORATORS)
        if not found:
            symbols = self.names.resolve(path, chain).symbols
            found = next(filter(None, map(self.wraps, symbols)), "")
        last = chain.rpartition(".")[2]
        if not found and last in self.aliases:
            origin = self.names.dotted(path, chain).partition(".")[0]
            found = "gluon" if last == "gluon_jit" else _ORIGINS.get(origin, DEFAULT)
        return found

    def _external(self, path: str, chain: str, table: tuple[tuple[str, frozenset[str], str], ...]) -> str:
        found = framework_of(self.names.dotted(path, chain), table)
        if not found:
            externals = self.names.resolve(path, chain).externals
            found = next(filter(None, (framework_of(name, table) for name in externals)), "")
        return found
