"""Device functions: what is compiled for the device, who launches it, and which kernels reach it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgate.source.facts import Definition
from kgate.source.graph import Graph
from kgate.source.names import Names
from kgate.source.records import DeviceFunction, Launch
from kgate.source.uses import Uses

JIT_NAMES = frozenset({"triton_jit", "libentry", "gluon_jit"})
"""Decorators, by their last name, that make a device function wherever they come from."""


class DeviceFunctions:
    """Finds the device functions of a tree."""

    def __init__(self, names: Names, graph: Graph, aliases: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.graph = graph
        self.aliases = JIT_NAMES | aliases
        self.found: dict[str, Definition] = {}
        self.launches: dict[str, dict[Launch, None]] = {}

    def read(self, paths: Sequence[str], kernels: Iterable[str]) -> tuple[DeviceFunction, ...]:
        """Every device function in the files, in the order of path and line."""
        for path in paths:
            self._find(path)
        for path in paths:
            self._launches(path)
        reached: dict[str, list[str]] = {}
        for kernel in kernels:
            for symbol in self.graph.reach([kernel]):
                if symbol in self.found:
                    reached.setdefault(symbol, []).append(kernel)
        result = []
        for identity, definition in self.found.items():
            result.append(
                DeviceFunction(
                    identity,
                    identity.partition("::")[0],
                    definition.line,
                    definition.column + 1,
                    definition.end_line,
                    tuple(self.launches.get(identity, ())),
                    tuple(sorted(reached.get(identity, ()))),
                )
            )
        return tuple(sorted(result, key=lambda function: (function.path, function.line, function.identity)))

    def is_jit(self, path: str, chain: str) -> bool:
        """Whether a chain means a decorator that compiles for the device."""
        if not chain:
            return False
        if chain.rpartition(".")[2] in self.aliases or _is_triton_jit(self.names.dotted(path, chain)):
            return True
        found = self.names.resolve(path, chain)
        return any(map(_is_triton_jit, found.externals)) or any(self._wraps(symbol) for symbol in found.symbols)

    def _wraps(self, symbol: str) -> bool:
        """Whether a name of the tree stands for ``triton.jit``: an alias, a partial, a function named after it."""
        target, _, name = symbol.partition("::")
        return "jit" in name.rpartition(".")[2].lower() and any(
            _is_triton_jit(self.names.dotted(target, chain))
            for definition in self.names.definitions(symbol)
            for chain, _ in definition.uses.refs
        )

    def _find(self, path: str) -> None:
        for definition in self.names.table(path).facts.definitions:
            if definition.kind == "function":
                if any(self.is_jit(path, decorator.chain) for decorator in definition.decorators):
                    self.found[f"{path}::{definition.name}"] = definition
            elif definition.kind == "constant" and any(self.is_jit(path, c) for c, _ in definition.uses.refs):
                # name = triton.jit(function)
                for chain, _ in definition.uses.refs:
                    for symbol in self.names.resolve(path, chain).symbols:
                        for target in self.names.definitions(symbol):
                            if target.kind == "function" and not self._wraps(symbol):
                                self.found.setdefault(symbol, target)

    def _launches(self, path: str) -> None:
        for definition in self.names.table(path).facts.definitions:
            identity = f"{path}::{definition.name}"
            if definition.kind == "function" and identity not in self.found:
                self._launched_by(path, identity, definition.uses, definition.name.rpartition(".")[0])

    def _launched_by(self, path: str, identity: str, uses: Uses, owner: str) -> None:
        explicit: set[str] = set()
        for site in uses.launches:
            if site.chain:
                for device in self._devices(path, site.chain, uses, owner):
                    explicit.add(device)
                    self._note(device, Launch(path, site.line, site.column + 1, identity))
        # a device function that host code names without subscripting it is launched under another name
        for chain, line in uses.refs:
            for device in self._devices(path, chain, uses, owner):
                if device not in explicit:
                    self._note(device, Launch(path, line, 1, identity))

    def _note(self, device: str, launch: Launch) -> None:
        places = self.launches.setdefault(device, {})
        if not any((known.path, known.line) == (launch.path, launch.line) for known in places):
            places[launch] = None

    def _devices(self, path: str, chain: str, uses: Uses, owner: str) -> list[str]:
        """Device functions that a chain means, through tables, aliases and partials too."""
        found: list[str] = []
        seen: set[str] = set()
        queue = list(self.names.resolve(path, chain, uses.imports, owner).symbols)
        for symbol in queue:
            if symbol in seen:
                continue
            seen.add(symbol)
            if symbol in self.found:
                found.append(symbol)
                continue
            target = symbol.partition("::")[0]
            for definition in self.names.definitions(symbol):
                if definition.kind in ("constant", "bound", "augmented"):
                    for inner, _ in definition.uses.refs:
                        queue.extend(self.names.resolve(target, inner).symbols)
        return found


def _is_triton_jit(dotted: str) -> bool:
    return dotted.startswith("triton.") and dotted.endswith(".jit")
