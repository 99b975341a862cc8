"""Device functions: what is compiled for the device, who launches it, and which kernels reach it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kgate.source.facts import Definition, FileFacts
from kgate.source.frameworks import BUILDER, Frameworks
from kgate.source.graph import Graph
from kgate.source.names import Names
from kgate.source.records import DeviceFunction, Launch
from kgate.source.uses import Import, LaunchSite, Uses

_VALUES = ("constant", "bound", "augmented")


class DeviceFunctions:
    """Finds the device functions of a tree."""

    def __init__(self, names: Names, graph: Graph, aliases: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.graph = graph
        self.frameworks = Frameworks(names, aliases)
        self.found: dict[str, tuple[Definition, str]] = {}
        """Definition and framework, by identity."""
        self.launches: dict[str, dict[Launch, None]] = {}
        self.filled: dict[str, dict[str, None]] = {}
        """Tables to the device functions that statements at module level put in."""
        self._leading: _Leading | None = None
        self._helpers: set[str] | None = None

    def read(self, paths: Sequence[str], kernels: Iterable[str]) -> tuple[DeviceFunction, ...]:
        """Every device function in the files, in the order of path and line."""
        for path in paths:
            self._find(path)
        for path in paths:
            self._find_handed(path)
        self._leading = _Leading(self.found, [self.names.table(path).facts for path in paths])
        for path in paths:
            self._fill(path)
        for path in paths:
            self._launches(path)
        reached: dict[str, list[str]] = {}
        for kernel in kernels:
            for symbol in self.graph.reach([kernel]):
                if symbol in self.found:
                    reached.setdefault(symbol, []).append(kernel)
        result = []
        for identity, (definition, framework) in self.found.items():
            result.append(
                DeviceFunction(
                    identity,
                    identity.partition("::")[0],
                    definition.line,
                    definition.column + 1,
                    definition.end_line,
                    tuple(self.launches.get(identity, ())),
                    tuple(sorted(reached.get(identity, ()))),
                    framework,
                )
            )
        return tuple(sorted(result, key=lambda function: (function.path, function.line, function.identity)))

    # What is a device function

    def _find(self, path: str) -> None:
        facts = self.names.table(path).facts
        for definition in facts.definitions:
            if definition.kind == "function":
                framework = self._compiled(path, definition)
                if framework:
                    self.found[f"{path}::{definition.name}"] = (definition, framework)
            elif definition.kind in _VALUES:
                self._find_called(path, definition.uses)
                for decorator in definition.decorators:
                    # name = triton.jit(option=...)(function)
                    framework = self.frameworks.compiles(path, decorator.chain)
                    if framework and definition.uses.refs:
                        self._make(path, definition.uses.refs[0][0], (), framework)
        for effect in facts.effects:
            self._find_called(path, effect.uses)

    def _compiled(self, path: str, definition: Definition) -> str:
        """The framework of a function; the decorator nearest to it decides."""
        for decorator in reversed(definition.decorators):
            framework = self.frameworks.compiles(path, decorator.chain)
            if framework:
                return framework
        for chain, _ in definition.uses.refs:
            if chain.endswith(BUILDER) and self.frameworks.compiles(path, chain):
                return "tilelang"  # it compiles a function inside itself
        return ""

    def _find_called(self, path: str, uses: Uses) -> None:
        """``name = triton.jit(function)``, at any depth of calls."""
        for callee, given in uses.calls:
            framework = self.frameworks.compiles(path, callee) if given else ""
            if framework:
                self._make(path, given[0], uses.imports, framework)

    def _find_handed(self, path: str) -> None:
        """Functions that are handed to a call that compiles and launches them."""
        for uses in _all_uses(self.names.table(path).facts):
            for site in uses.launches:
                if site.via and self.frameworks.launches(path, site.via) == "pallas":
                    self._make(path, site.chain, uses.imports, "pallas")

    def _make(self, path: str, chain: str, local: Sequence[Import], framework: str) -> None:
        """Note the functions that a chain means, through aliases and partials, as device functions."""
        for symbol in self._through_values(path, chain, local, ""):
            for definition in self.names.definitions(symbol):
                if definition.kind == "function" and not self.frameworks.wraps(symbol):
                    self.found.setdefault(symbol, (definition, framework))

    # Who launches them

    def _fill(self, path: str) -> None:
        for effect in self.names.table(path).facts.effects:
            if effect.uses.writes:
                devices = [
                    device
                    for chain, _ in effect.uses.refs
                    if self._leads(chain)
                    for device in self._devices(path, chain, effect.uses, "")
                ]
                for chain in effect.uses.writes if devices else ():
                    for symbol in self.names.resolve(path, chain, effect.uses.imports).symbols:
                        self.filled.setdefault(symbol, {}).update(dict.fromkeys(devices))

    def _launches(self, path: str) -> None:
        for definition in self.names.table(path).facts.definitions:
            identity = f"{path}::{definition.name}"
            if definition.kind == "function" and identity not in self.found:
                self._launched_by(path, identity, definition.uses, definition.name.rpartition(".")[0])

    def _launched_by(self, path: str, identity: str, uses: Uses, owner: str) -> None:
        explicit: set[str] = set()
        for site in uses.launches:
            if site.chain and self._is_launch(path, site):
                for device in self._devices(path, site.chain, uses, owner, site=site):
                    explicit.add(device)
                    self._note(device, Launch(path, site.line, site.column + 1, identity))
        # a device function that host code names without subscripting it is launched under another name
        known = self._leading.known if self._leading is not None else {}
        for chain, line in uses.refs:
            leads = known.get(chain)
            if leads or (leads is None and self._leads(chain)):
                for device in self._devices(path, chain, uses, owner):
                    if device not in explicit:
                        self._note(device, Launch(path, line, 1, identity))

    def _is_launch(self, path: str, site: LaunchSite) -> bool:
        # a plain ``table[key]`` is common, and looked up only where it can lead somewhere; what is called is looked up
        # in any case, since it may go by a name of a file that does not mention kernels
        if not site.via:
            return site.called or self._leads(site.chain)
        return site.via == ".launch" or bool(self.frameworks.launches(path, site.via))

    def _note(self, device: str, launch: Launch) -> None:
        places = self.launches.setdefault(device, {})
        if not any((known.path, known.line) == (launch.path, launch.line) for known in places):
            places[launch] = None

    def _leads(self, chain: str) -> bool:
        return self._leading is not None and self._leading.may(chain)

    def _devices(
        self, path: str, chain: str, uses: Uses, owner: str, *, site: LaunchSite | None = None
    ) -> Iterator[str]:
        """Device functions that a chain means, through tables, aliases and partials too."""
        for symbol in self._through_values(path, chain, uses.imports, owner):
            if symbol in self.found:
                yield symbol
            elif site is not None and symbol.endswith("::*") and _by_name(uses, site.chain):
                # getattr(module, name)[grid](...): any that the module does not keep for its other device functions
                yield from (
                    device
                    for device in self.found
                    if device.startswith(symbol[:-1]) and device not in self._called_on_device()
                )

    def _through_values(self, path: str, chain: str, local: Sequence[Import], owner: str) -> Iterator[str]:
        """The symbols that a chain means, and those that the values of its constants mention."""
        seen: set[str] = set()
        queue = list(self.names.resolve(path, chain, local, owner).symbols)
        for symbol in queue:
            if symbol in seen:
                continue
            seen.add(symbol)
            yield symbol
            if symbol in self.found:
                continue
            queue.extend(self.filled.get(symbol, ()))
            target = symbol.partition("::")[0]
            for definition in self.names.definitions(symbol):
                if definition.kind in _VALUES:
                    for inner, _ in definition.uses.refs:
                        queue.extend(self.names.resolve(target, inner).symbols)

    def _called_on_device(self) -> set[str]:
        """Device functions that another one mentions."""
        if self._helpers is None:
            self._helpers = set()
            for identity, (definition, _) in self.found.items():
                path, _, name = identity.partition("::")
                for chain, _ in definition.uses.refs:
                    if self._leads(chain):
                        reached = self._devices(path, chain, definition.uses, name.rpartition(".")[0])
                        self._helpers.update(device for device in reached if device != identity)
        return self._helpers


class _Leading:
    """Which names can lead to a device function at all: most names of a tree cannot, and are not looked up.

    These are the device functions' own names, and the names that imports, constants and tables give them.
    """

    def __init__(self, found: Iterable[str], files: Sequence[FileFacts]) -> None:
        self.names = {_last(identity.partition("::")[2]) for identity in found}
        self.known: dict[str, bool] = {}
        """Chains that were asked for before."""
        links = [link for facts in files for link in self._links(facts)]
        while links:
            waiting = []
            grown = False
            for name, sources in links:
                if name in self.names:
                    continue
                if sources.isdisjoint(self.names):
                    waiting.append((name, sources))
                else:
                    self.names.add(name)
                    grown = True
            links = waiting if grown else []

    @staticmethod
    def _links(facts: FileFacts) -> Iterator[tuple[str, frozenset[str]]]:
        """Names that a file gives, each with the names that it gives them to."""
        for definition in facts.definitions:
            if definition.kind in _VALUES:
                yield _last(definition.name), _parts(definition.uses)
            for item in definition.uses.imports:
                if item.attribute and item.name != item.attribute:
                    yield item.name, frozenset((item.attribute,))
        for item in facts.imports:
            if item.attribute and item.name != item.attribute:
                yield item.name, frozenset((item.attribute,))
        for effect in facts.effects:
            for chain in effect.uses.writes:
                yield _last(chain), _parts(effect.uses)

    def may(self, chain: str) -> bool:
        """Whether a chain can lead to a device function."""
        known = self.known.get(chain)
        if known is None:
            known = self.known[chain] = not self.names.isdisjoint(chain.split("."))
        return known


def _parts(uses: Uses) -> frozenset[str]:
    return frozenset(part for chain, _ in uses.refs for part in chain.split("."))


def _last(chain: str) -> str:
    return chain[chain.rfind(".") + 1 :]


def _all_uses(facts: FileFacts) -> Iterator[Uses]:
    for definition in facts.definitions:
        yield definition.uses
    for effect in facts.effects:
        yield effect.uses


def _by_name(uses: Uses, chain: str) -> bool:
    """Whether code takes an attribute of something by a computed name."""
    return any(item.kind == "attribute" and item.what == chain for item in uses.dynamics)
