"""The functions that people call: from each function that launches device code outwards, to what is exported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kgate.lint.init.project import Project
from kgate.lint.judging import is_for
from kgate.lint.rule import FORKS
from kgate.source.facts import Definition
from kgate.source.records import DeviceFunction

ASIDE = frozenset(
    [
        "test",
        "tests",
        "testing",
        "benchmark",
        "benchmarks",
        "bench",
        "benches",
        "example",
        "examples",
        "tutorials",
        "docs",
        "scripts",
        "evals",
    ]
)
"""Folders whose functions are no part of a library: they call kernels, they are none."""
WIDELY = 6
"""A function with more callers than this is a tool in its own right."""


@dataclass
class Launcher:
    """A function to declare, and what it launches."""

    symbol: str
    """``path.py::name``; a class where it is declared through ``Class.apply``."""
    kind: str
    """``function``, ``apply`` (an ``autograd.Function`` that no function calls) or ``wrapped`` (an object that is
    called like a function, which a function around it declares)."""
    devices: dict[str, DeviceFunction] = field(default_factory=dict)
    launching: set[str] = field(default_factory=set)
    """The functions in whose bodies the launches stand."""
    through: set[str] = field(default_factory=set)
    """The autograd functions that it applies on the way to them."""
    distance: int = 0
    """Calls between it and the nearest launch."""


@dataclass
class Skipped:
    """A launching function that gets no stub, with the reason."""

    symbol: str
    line: int
    reason: str


@dataclass(frozen=True)
class _Way:
    """How a launch is reached from a function."""

    symbol: str
    kind: str = "function"
    distance: int = 0
    """Calls on the way."""
    through: frozenset[str] = frozenset()
    """Autograd functions on the way."""

    def to(self, caller: str, through: str = "") -> _Way:
        """The way from a caller."""
        return _Way(caller, self.kind, self.distance + 1, self.through | ({through} if through else set()))


class Launchers:
    """Finds the functions to declare."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.names = project.names
        self._mentions: dict[str, list[tuple[str, Definition, str]]] | None = None
        self._exported: set[str] | None = None
        self.skipped: dict[str, Skipped] = {}

    def find(self, devices: Iterable[DeviceFunction]) -> list[Launcher]:
        """One launcher for each function that people call, in the order of path and line."""
        found: dict[str, Launcher] = {}
        for device in devices:
            definition = self.project.definition(device.identity)
            decorating = self._decorating(definition, device.path) if definition is not None else set()
            for launch in device.launches:
                if launch.by in decorating:
                    continue
                for symbol, way in self._outwards(launch.by, launch.line).items():
                    launcher = found.setdefault(symbol, Launcher(symbol, way.kind, distance=way.distance))
                    launcher.distance = min(launcher.distance, way.distance)
                    launcher.through |= way.through
                    launcher.devices[device.identity] = device
                    launcher.launching.add(launch.by)
        reached = {by for launcher in found.values() for by in launcher.launching}
        for symbol in reached:
            self.skipped.pop(symbol, None)
        self._leave_out_forks(found)
        self._leave_out_wrappers(found)
        return sorted(found.values(), key=lambda item: (item.symbol.partition("::")[0], self._line(item.symbol)))

    def _leave_out_forks(self, found: dict[str, Launcher]) -> None:
        """Nothing here tells which devices a fork of Triton serves."""
        for symbol, launcher in list(found.items()):
            if any(is_for(item.partition("::")[0], FORKS) for item in (symbol, *launcher.launching)):
                del found[symbol]
                reason = "it is for a vendor's own compiler, whose targets the code does not tell"
                self.skipped[symbol] = Skipped(symbol, self._line(symbol), reason)

    def _leave_out_wrappers(self, found: dict[str, Launcher]) -> None:
        """One function for each ``autograd.Function`` and what it launches: the nearest to the launch."""
        groups: dict[tuple[frozenset[str], frozenset[str]], list[Launcher]] = {}
        for launcher in found.values():
            if launcher.through and launcher.kind != "apply":
                key = (frozenset(launcher.devices), frozenset(launcher.through))
                groups.setdefault(key, []).append(launcher)
        for (_, through), launchers in groups.items():
            places = {symbol.partition("::")[0] for symbol in through}
            nearest = min(launchers, key=lambda item: self._nearness(item, places))
            for launcher in launchers:
                if launcher is not nearest:
                    del found[launcher.symbol]
                    names = ", ".join(sorted(symbol.rpartition("::")[2] for symbol in through))
                    reason = f"it applies {names} as {nearest.symbol} does, which is drafted: declare it if it differs"
                    self.skipped[launcher.symbol] = Skipped(launcher.symbol, self._line(launcher.symbol), reason)

    def _nearness(self, launcher: Launcher, places: set[str]) -> tuple[int, bool, str, int]:
        path = launcher.symbol.partition("::")[0]
        return launcher.distance, path not in places, path, self._line(launcher.symbol)

    def _decorating(self, definition: Definition, path: str) -> set[str]:
        """Functions that a device function's decorators name, such as its launch metadata: they launch nothing."""
        chains = [chain for decorator in definition.decorators for chain, _ in decorator.uses.refs]
        return {symbol for chain in chains for symbol in self.names.resolve(path, chain).symbols}

    def _line(self, symbol: str) -> int:
        definition = self.project.definition(symbol)
        return definition.line if definition is not None else 0

    def _outwards(self, start: str, line: int) -> dict[str, _Way]:
        """The functions that people call to get to a launching function, with the way to each."""
        result: dict[str, _Way] = {}
        seen: set[str] = set()
        queue = [_Way(start)]
        for way in queue:
            symbol = way.symbol
            if symbol in seen or way.distance > 6:
                continue
            seen.add(symbol)
            path, _, name = symbol.partition("::")
            if aside(path):
                continue
            owner, _, method = name.rpartition(".")
            if owner:
                self._method(f"{path}::{owner}", method, way, queue, result)
                continue
            callers = self.callers(symbol)
            if self.exported(symbol) and not self._inner(callers):
                callers = []
            if not callers or len(callers) > WIDELY:
                self._take(way, result)
            else:
                queue += [way.to(caller) for caller in callers]
        if not result:
            definition = self.project.definition(start)
            place = definition.line if definition is not None else line
            self.skipped.setdefault(start, Skipped(start, place, self._why_not(start)))
        return result

    def _inner(self, callers: list[str]) -> bool:
        """Whether only autograd functions call something: it is a part of theirs."""
        return bool(callers) and all("." in caller.rpartition("::")[2] for caller in callers)

    def _method(self, owner: str, method: str, way: _Way, queue: list[_Way], result: dict[str, _Way]) -> None:
        """Through ``Class.apply`` to its callers; other methods are not declared."""
        if method not in ("forward", "backward") or not self._is_autograd(owner):
            return
        callers = self.callers(owner)
        if callers:
            queue += [way.to(caller, through=owner) for caller in callers]
        elif self.project.function(f"{owner}.forward") is not None:
            result[owner] = replace(way, symbol=owner, kind="apply")

    def _is_autograd(self, symbol: str) -> bool:
        definition = self.project.definition(symbol)
        return definition is not None and any(base.rpartition(".")[2] == "Function" for base in definition.bases)

    def _take(self, way: _Way, result: dict[str, _Way]) -> None:
        definition = self.project.definition(way.symbol)
        if definition is None or definition.kind != "function" or definition.runs:
            return
        if any(name.startswith("*") and not name.startswith("**") for name, _ in definition.parameters):
            return
        chains = [decorator.chain for decorator in definition.decorators]
        wrapped = any(chain.rpartition(".")[2] in ("custom_op", "triton_op") for chain in chains)
        result[way.symbol] = replace(way, kind="wrapped") if wrapped else way

    def _why_not(self, symbol: str) -> str:
        path, _, name = symbol.partition("::")
        definition = self.project.definition(symbol)
        if aside(path):
            return "it is not part of the library (tests, benchmarks, examples)"
        if "." in name:
            return "it is a method: declare a function that calls it"
        if definition is not None and any(item.startswith("*") for item, _ in definition.parameters):
            return "it takes *args: declare a function around it that names its inputs"
        return "no function leads to it"

    def callers(self, symbol: str) -> list[str]:
        """Functions, and methods of autograd functions, that refer to a symbol; tests and the like apart."""
        _path, _, name = symbol.partition("::")
        last = name.rpartition(".")[2]
        found: dict[str, None] = {}
        for place, definition, chain in self.mentions.get(last, ()):
            caller = f"{place}::{definition.name}"
            if caller == symbol or caller in found:
                continue
            owner = definition.name.rpartition(".")[0]
            if owner and not self._is_autograd(f"{place}::{owner}"):
                continue
            resolved = self.project.resolve(place, chain, definition.uses.imports, owner)
            if symbol in resolved.symbols:
                found[caller] = None
        return list(found)

    @property
    def mentions(self) -> dict[str, list[tuple[str, Definition, str]]]:
        """A chain's parts to the functions that use it."""
        if self._mentions is None:
            self._mentions = {}
            for path in sorted(self.names.modules.files):
                if aside(path):
                    continue
                for definition in self.names.table(path).facts.definitions:
                    if definition.kind != "function" or f"{path}::{definition.name}" in self.project.devices:
                        continue
                    for chain, _ in definition.uses.refs:
                        for part in chain.split("."):
                            if part != "apply":
                                self._mentions.setdefault(part, []).append((path, definition, chain))
        return self._mentions

    def exported(self, symbol: str) -> bool:
        """Whether a package's ``__init__`` or its own ``__all__`` offers a function, or a decorator registers it."""
        path, _, name = symbol.partition("::")
        if name.startswith("_"):
            return False
        if name in (self.names.table(path).facts.exports or ()):
            return True
        if self._exported is None:
            self._exported = set()
            for place in sorted(self.names.modules.files):
                if place.endswith("__init__.py") and not aside(place):
                    for item in self.names.table(place).facts.imports:
                        if item.name and item.attribute:
                            self._exported.update(self.names.resolve(place, item.name).symbols)
        definition = self.project.definition(symbol)
        registered = definition is not None and any(
            decorator.chain.rpartition(".")[2] in ("custom_op", "triton_op", "register", "impl", "register_op")
            for decorator in definition.decorators
        )
        return symbol in self._exported or registered


def aside(path: str) -> bool:
    """Whether a file holds tests, benchmarks or examples."""
    *folders, name = path.split("/")
    return name.startswith(("test_", "bench_", "conftest", "testing.")) or not ASIDE.isdisjoint(folders)
