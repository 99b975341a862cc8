"""Modules that are imported by name: which files of the tree a pattern can mean."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable

from kgate.source.names import Names
from kgate.source.uses import Dynamic, Uses

UNKNOWN = "*"


class ImportsByName:
    """Resolves ``importlib.import_module`` and ``sys.modules`` look-ups of one tree."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._parameters: dict[str, dict[str, str]] = {}

    def pattern(self, path: str, what: str) -> str:
        """A pattern with the file's own names and constants filled in."""
        modules = self.names.modules
        name = modules.name_of(path)
        package = name if posixpath.basename(path) == "__init__.py" else name.rpartition(".")[0]
        if what.startswith("="):
            return self._constant(path, what[1:])
        if what.startswith("$"):
            return UNKNOWN
        what = what.replace("{name}", name).replace("{package}", package)
        if what.startswith("."):
            level = len(what) - len(what.lstrip("."))
            parts = package.split(".")
            kept = parts[: len(parts) - level + 1]
            what = ".".join([*kept, what.lstrip(".")]).rstrip(".")
        return what

    def _constant(self, path: str, chain: str) -> str:
        symbols = list(self.names.resolve(path, chain).symbols)
        definitions = self.names.definitions(symbols[0]) if len(symbols) == 1 else ()
        if len(definitions) == 1 and definitions[0].kind == "constant" and definitions[0].value is not None:
            value = definitions[0].value.parse()
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                return value.value
        return UNKNOWN

    def files(self, pattern: str) -> list[str]:
        """Files that a pattern can mean."""
        return self.names.modules.matching(pattern)

    def parameters(self, symbol: str) -> dict[str, str]:
        """Parameters of a function that name a module to import, with the kind of the import.

        Methods have none: who calls them cannot be told, so that such an import of theirs is an unknown one.
        """
        known = self._parameters.get(symbol)
        if known is None:
            known = self._parameters[symbol] = self._find_parameters(symbol)
        return known

    def _find_parameters(self, symbol: str) -> dict[str, str]:
        if "." in symbol.partition("::")[2]:
            return {}
        return {
            item.what[1:]: item.kind
            for definition in self.names.definitions(symbol)
            for item in definition.uses.dynamics
            if item.kind in ("import", "run") and item.what.startswith("$")
        }

    def through_call(self, path: str, chain: str, line: int, symbol: str, uses: Uses) -> list[Dynamic]:
        """What calling a function imports, as far as its arguments decide that."""
        found: list[Dynamic] = []
        for parameter, kind in self.parameters(symbol).items():
            calls = [item for item in uses.given if item.chain == chain]
            for definition in self.names.definitions(symbol):
                names = [name for name, _ in definition.parameters]
                position = names.index(parameter) if parameter in names else -1
                literals = [item.argument(position, parameter) if position >= 0 else None for item in calls]
                if not literals or None in literals:
                    found.append(Dynamic(kind, UNKNOWN, line))
                found += [Dynamic(kind, literal, line) for literal in literals if literal is not None]
        return found

    def direct(self, path: str, uses: Uses, *, method: bool = False) -> Iterable[Dynamic]:
        """Imports by name that a piece of code makes itself, with their patterns filled in."""
        for item in uses.dynamics:
            if item.kind in ("import", "run") and (method or not item.what.startswith("$")):
                yield Dynamic(item.kind, self.pattern(path, item.what), item.line)

    def through(self, path: str, uses: Uses, owner: str, functions: frozenset[str]) -> Iterable[Dynamic]:
        """Imports by name that code makes through ``functions`` (last names) that import what they are given."""
        if not functions:
            return
        renamed = {item.name for item in self.names.table(path).facts.imports if item.attribute in functions}
        for chain, line in uses.refs:
            if chain.rpartition(".")[2] in functions or chain in renamed:
                for symbol in self.names.resolve(path, chain, uses.imports, owner).symbols:
                    yield from self.through_call(path, chain, line, symbol, uses)

    def importers(self, path: str) -> set[str]:
        """Last names of the functions of a file that import what a parameter names."""
        return {
            definition.name
            for definition in self.names.table(path).facts.definitions
            if "." not in definition.name and self.parameters(f"{path}::{definition.name}")
        }
