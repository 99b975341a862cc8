"""What running a file does beside defining names: statements and decorators that change symbols, or things outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.source.dynamic import UNKNOWN, ImportsByName
from kgate.source.facts import Definition, Effect
from kgate.source.names import Names
from kgate.source.uses import MUTATORS, Dynamic, Uses

if TYPE_CHECKING:
    from kgate.source.graph import Graph

_QUIET_CALLEES = (
    "warnings.", "logging.", "builtins.", "sys.path", "torch.library.", "torch.fx.", "importlib.", "pkgutil.",
    "transformers.",
)  # fmt: skip
"""Calls that change nothing that a kernel's result or code depends on."""


def is_object(names: Names, symbol: str) -> bool:
    """Whether a symbol is bound to a value, is no function or class, and no logger either."""
    path = symbol.partition("::")[0]
    definitions = names.definitions(symbol)
    if not definitions or any(definition.kind in ("function", "class") for definition in definitions):
        return False
    chains = [chain for definition in definitions for chain, _ in definition.uses.refs]
    made_by = [name for chain in chains for name in names.resolve(path, chain).externals]
    return not made_by or not all(name.startswith(_QUIET_CALLEES) for name in made_by)


@dataclass(frozen=True)
class Attached:
    """An effect that belongs to a symbol; ``full``: what it refers to belongs to the symbol too."""

    path: str
    effect: Effect
    full: bool


class Effects:
    """Statements at module level, and decorators that register: which symbols they change."""

    def __init__(self, graph: Graph, live: list[str]) -> None:
        self.graph = graph
        self.names = graph.names
        self.attached: dict[str, list[Attached]] = {}
        self.registered: dict[str, list[tuple[str, int]]] = {}
        self.unattached: dict[str, list[tuple[Effect, tuple[str, ...]]]] = {}
        self.checked: dict[str, list[tuple[Effect, tuple[str, ...]]]] = {}
        """What may stop the import of a file although it is no statement of its own: values that are made by functions
        which raise, and imports by name."""
        self.filling: dict[str, list[tuple[str, Effect]]] = {}
        self._imported: dict[str, list[tuple[str, int]]] = {}
        for path in live:
            for effect in self.names.table(path).facts.effects:
                self._attach(path, effect)
            self._registrations(path)
            self._checks(path)
        self.outward: frozenset[str] = frozenset(self._follow_calls())
        """Files that act on things outside the tree when they are run."""
        self._outward_of: dict[str, tuple[str, ...]] = {}

    def imported(self, path: str) -> list[tuple[str, int]]:
        """Files that importing a file imports, with lines: its imports, and the packages on the way."""
        known = self._imported.get(path)
        if known is None:
            found = dict(imported_by(self.names, path))
            for effect in self.names.table(path).facts.effects:
                for item in self.graph.by_name.direct(path, effect.uses):
                    if item.what != UNKNOWN:
                        for module in self.graph.by_name.files(item.what):
                            places = (module, *self.names.modules.packages_of(module))
                            found.update(dict.fromkeys(places, item.line))
            found.pop(path, None)
            known = self._imported[path] = list(found.items())
        return known

    def _follow_calls(self) -> set[str]:
        """Find what import effects do through the functions that they call.

        Files whose own globals are written, or looked up by computed names, go to ``filling``; the result is the files
        that act on things outside the tree.
        """
        outward: set[str] = set()
        for path, effects in self.unattached.items():
            for effect, chains in effects:
                if self._acts(path, effect.uses, ""):
                    outward.add(path)
                for target, called, owner in self._called(path, chains):
                    if self._acts(target, called.uses, owner):
                        outward.add(path)
                    if any(item.kind in ("fill", "code") for item in called.uses.dynamics):
                        self.filling.setdefault(target, []).append((path, effect))
                if any(item.kind in ("fill", "code") for item in effect.uses.dynamics):
                    self.filling.setdefault(path, []).append((path, effect))
        return outward

    def _checks(self, path: str) -> None:
        facts = self.names.table(path).facts
        for definition in facts.definitions:
            if definition.kind in ("function", "class") or "." in definition.name or not definition.uses.calls:
                continue
            chains = tuple(callee for callee, _ in definition.uses.calls if callee)
            if any(called.stops for _, called, _ in self._called(path, chains)):
                made = Effect(definition.line, definition.hash, definition.uses)
                self.checked.setdefault(path, []).append((made, chains))
        for effect in facts.effects:
            if any(item.kind in ("import", "run") for item in effect.uses.dynamics):
                self.checked.setdefault(path, []).append((effect, ()))

    def _called(self, path: str, chains: tuple[str, ...]) -> Iterable[tuple[str, Definition, str]]:
        """Every piece of code that chains lead to by name: file, definition, and the class it stands in."""
        queue = [symbol for chain in chains for symbol in self._symbols(path, chain)]
        seen: set[str] = set()
        for symbol in queue:
            if symbol in seen:
                continue
            seen.add(symbol)
            target, _, name = symbol.partition("::")
            for definition in self.names.definitions(symbol):
                owner = name.rpartition(".")[0]
                if definition.kind == "class":
                    queue += [f"{target}::{member}" for member in self.names.table(target).members.get(name, ())]
                yield target, definition, owner
                for chain, _ in definition.uses.refs:
                    found = self.names.resolve(target, chain, definition.uses.imports, owner).symbols
                    queue += [item for item in found if not item.endswith("::*")]

    def _acts(self, path: str, uses: Uses, owner: str) -> bool:
        """Whether code changes something outside the tree: an assignment, or a call for its own sake."""
        for chain in (*uses.writes, *uses.commands):
            if chain.startswith("@"):
                continue
            found = self.names.resolve(path, chain, uses.imports, owner)
            if any(not name.startswith(_QUIET_CALLEES) for name in found.externals):
                return True
        return False

    def _attach(self, path: str, effect: Effect) -> None:
        targets: dict[str, bool] = {}
        follow: dict[str, None] = {}
        for chain in effect.uses.writes:
            targets.update(dict.fromkeys(self._symbols(path, chain), True))
            found = self.names.resolve(path, chain)
            if found.unresolved:  # a name that a module of the tree is given from outside
                targets.update(dict.fromkeys(found.symbols, True))
        for position, (callee, arguments) in enumerate(effect.uses.calls):
            self._call(path, callee, arguments, targets, follow, outermost=position == 0)
        for target, full in targets.items():
            self.attached.setdefault(target, []).append(Attached(path, effect, full))
        if effect.stops or (not any(targets.values()) and not (follow.keys() and self._quiet(path, follow))):
            chains = tuple(follow) or tuple(chain for chain, _ in effect.uses.refs)
            self.unattached.setdefault(path, []).append((effect, chains))

    def _symbols(self, path: str, chain: str) -> list[str]:
        return [symbol for symbol in self.names.resolve(path, chain).symbols if not symbol.endswith("::*")]

    def _call(
        self,
        path: str,
        callee: str,
        arguments: tuple[str, ...],
        targets: dict[str, bool],
        follow: dict[str, None],
        *,
        outermost: bool,
    ) -> None:
        owner, _, method = callee.rpartition(".")
        given = [symbol for chain in arguments for symbol in self._symbols(path, chain)]
        functions = self._symbols(path, callee) if callee else []
        for function in functions:
            if is_object(self.names, function) and owner and method not in MUTATORS:
                targets[function] = True  # a method of an object made at module level
            written = self.graph.written_by(function)
            targets.update(dict.fromkeys(written - {"@param"}, True))
            if "@param" in written:
                targets.update(dict.fromkeys(given, True))
        if outermost and callee and method not in MUTATORS:
            follow[callee] = None
            if not functions:
                for symbol in given:
                    targets.setdefault(symbol, False)
                follow.update(dict.fromkeys(arguments))

    def _quiet(self, path: str, follow: Iterable[str]) -> bool:
        first = next(iter(follow))
        found = self.names.resolve(path, first)
        return bool(found.externals) and all(name.startswith(_QUIET_CALLEES) for name in found.externals)

    def _registrations(self, path: str) -> None:
        """``@TABLE.register("x")``: what the decorator changes depends on what it decorates."""
        for definition in self.names.table(path).facts.definitions:
            for decorator in definition.decorators:
                if not decorator.chain or self.graph.declares(path, decorator):
                    continue
                owner = decorator.chain.rpartition(".")[0]
                for symbol in self._symbols(path, decorator.chain):
                    changed = set(self.graph.written_by(symbol) - {"@param"})
                    if is_object(self.names, symbol) and owner:
                        changed.add(symbol)
                    for target in changed - {f"{path}::{definition.name}"}:
                        entry = (f"{path}::{definition.name}", definition.line)
                        self.registered.setdefault(target, []).append(entry)

    def outward_of(self, path: str) -> tuple[str, ...]:
        """Files that act on things outside the tree, among those that importing a file runs, itself included."""
        known = self._outward_of.get(path)
        if known is None:
            found = dict.fromkeys([path] if self.outward else [])
            queue = list(found)
            for place in queue:
                fresh = [module for module, _ in self.imported(place) if module not in found]
                found.update(dict.fromkeys(fresh))
                queue += fresh
            known = self._outward_of[path] = tuple(sorted(place for place in found if place in self.outward))
        return known


def imported_by(names: Names, path: str) -> list[tuple[str, int]]:
    """Files that importing a file runs: what it imports at module level, and the packages on the way."""
    found = dict.fromkeys(names.modules.packages_of(path), 1)
    for item in names.table(path).facts.imports:
        module = names.module(path, item)
        if module is None or not item.run:
            continue
        child = names.modules.child(module, item.attribute) if item.attribute and item.attribute != "*" else None
        for place in (module, child):
            if place is not None and not place.endswith("/") and place != path:
                found.setdefault(place, item.line)
                for package in names.modules.packages_of(place):
                    if package != path:
                        found.setdefault(package, item.line)
    return list(found.items())


def import_closure(names: Names, paths: Iterable[str]) -> list[str]:
    """The given files, and every file of the tree that importing them can run, modules imported by name included."""
    return _Reached(names).closure(paths)


class _Reached:
    """Works out :func:`import_closure`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.by_name = ImportsByName(names)
        self.found: dict[str, None] = {}
        self.importers: set[str] = set()

    def closure(self, paths: Iterable[str]) -> list[str]:
        self._follow(paths)
        before = -1
        # a function that imports what it is given makes its callers import it, wherever they are
        while self.importers and len(self.found) != before:
            before = len(self.found)
            functions = frozenset(self.importers)
            for path in list(self.found):
                for uses, owner in self._uses(path):
                    for item in self.by_name.through(path, uses, owner, functions):
                        self._follow(self._files(item))
        return list(self.found)

    def _follow(self, paths: Iterable[str]) -> None:
        queue = [path for path in paths if path not in self.found]
        self.found.update(dict.fromkeys(queue))
        for path in queue:
            self.importers |= self.by_name.importers(path)
            reached = dict.fromkeys(module for module, _ in imported_by(self.names, path))
            for uses, owner in self._uses(path):
                for item in self.by_name.direct(path, uses, method=bool(owner)) if uses.dynamics else ():
                    reached.update(dict.fromkeys(self._files(item)))
            for module in reached:
                if module not in self.found:
                    self.found[module] = None
                    queue.append(module)

    def _uses(self, path: str) -> Iterable[tuple[Uses, str]]:
        facts = self.names.table(path).facts
        for definition in facts.definitions:
            yield definition.uses, definition.name.rpartition(".")[0]
            for decorator in definition.decorators:
                yield decorator.uses, ""
        for effect in facts.effects:
            yield effect.uses, ""

    def _files(self, item: Dynamic) -> list[str]:
        if item.what == UNKNOWN:
            return sorted(self.names.modules.files)
        return self.by_name.files(item.what)
