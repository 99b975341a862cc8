"""The linked project: device functions, who launches them with which arguments, and the kernels that reach them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kgate.lint.records import Argument, Candidate, DeviceSummary, HostSummary, Launch, LintFacts, Range
from kgate.lint.rule import Rule
from kgate.source.config import Config
from kgate.source.index import Index
from kgate.source.records import Declaration, DeviceFunction, Finding, Fix, Related

if TYPE_CHECKING:
    from kgate.lint.model.envelope import Scope, Sizes, Term, Value

HostKey = tuple[str, str]
"""File and qualified name of a host function."""

DEPTH = 5
"""Calls between a declared launcher and the launch that are followed."""
MOST_CONSTANTS = 50
"""Constants behind a tuner's configurations that are looked at."""
MOST_WAYS = 4
"""Ways from one launcher to one host function that are looked at."""


class LinkedLaunch:
    """One launch of a device function."""

    def __init__(self, path: str, launch: Launch, host: HostSummary | None, device: DeviceSummary) -> None:
        self.path = path
        """File of the launch."""
        self.launch = launch
        self.host = host
        """The launching function; None at module level."""
        self.device = device

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        """Parameter of the device function to the argument given for it."""
        names = [item.name for item in self.device.parameters]
        found = {}
        for argument in self.launch.arguments:
            if argument.name.isdecimal():
                position = int(argument.name)
                if position < len(names):
                    found[names[position]] = argument
            else:
                found[argument.name] = argument
        return found


class Setting:
    """One way in which a declared launcher comes to launch a device function, and what its arguments are there."""

    def __init__(self, declaration: Declaration, device: LinkedDevice, launch: LinkedLaunch, scope: Scope) -> None:
        self.declaration = declaration
        self.device = device
        self.launch = launch
        self.scope = scope
        self._values: dict[str, Value | None] = {}

    def value(self, parameter: str) -> Value | None:
        """The value of a device function's parameter; None where it is not known."""
        if parameter not in self._values:
            argument = self.launch.arguments.get(parameter)
            self._values[parameter] = None if argument is None else self.scope.value(argument.form)
        return self._values[parameter]

    def term(self, parameter: str) -> Term | None:
        """The same, where it is an integer."""
        from kgate.lint.model.envelope import as_term

        return as_term(self.value(parameter))

    def values_of(self, parameter: str) -> tuple[int, ...]:
        """The integers that a constant may be: as given at the launch, by configurations, or as its default."""
        given = self.term(parameter)
        if given is not None:
            return () if given.number is None else (given.number,)
        return self.device.configured(parameter) if parameter not in self.launch.arguments else ()

    def constants(self, trials: tuple[int, ...]) -> list[dict[str, Term | None]]:
        """Values for the compile-time constants that are not known: configured ones, else each trial in turn.

        What holds with each of them holds whatever the tuner or the launcher chooses.
        """
        from kgate.lint.model.envelope import number

        open_ones = {
            item.name: sorted(self.values_of(item.name)) or list(trials)
            for item in self.device.summary.parameters
            if (item.constexpr or item.name.isupper()) and self.term(item.name) is None
        }
        turns = len(trials) if open_ones else 1
        return [
            {name: number(values[min(turn, len(values) - 1)]) for name, values in open_ones.items()}
            for turn in range(turns)
        ]

    def read(self, form: str, further: Mapping[str, Term | None] = {}) -> Value | None:
        """A form over the device function's parameters; ``further`` goes before them."""
        from kgate.lint.model.envelope import read

        return read(form, lambda name: further[name] if name in further else self.value(name))

    def axis(self, axis: int, constants: Mapping[str, Term | None] = {}) -> Term | None:
        """The extent of a grid axis, with the launch's compile-time constants given; None where it is not known."""
        from kgate.lint.model.envelope import as_term, number, read

        grid = self.launch.launch.grid
        if not grid:
            return None
        if axis >= len(grid):
            return number(1)

        def lookup(name: str) -> Value | None:
            if name.startswith("meta:"):
                constant = name.removeprefix("meta:")
                return constants[constant] if constant in constants else self.value(constant)
            return self.scope.parameter(name)

        return as_term(read(grid[axis], lookup))


class LinkedDevice:
    """A device function with its launches and the kernels that reach it."""

    def __init__(
        self, function: DeviceFunction, summary: DeviceSummary, kernels: tuple[Declaration, ...], index: Index
    ) -> None:
        self._index = index
        self.function = function
        self.identity = function.identity
        self.path = function.path
        self.summary = summary
        self.kernels = kernels
        """Declarations whose code reaches it."""
        self.launches: list[LinkedLaunch] = []

    def configured(self, parameter: str) -> tuple[int, ...]:
        """The integers that configurations give a parameter, or its default."""
        tuned = self.summary.autotune
        if tuned is not None and parameter in tuned.values:
            return tuned.values[parameter]
        if tuned is not None and parameter in self._imported:
            return self._imported[parameter]
        if (tuned is not None and parameter in tuned.configured) or parameter in self.summary.heuristics:
            return ()
        for item in self.summary.parameters:
            if item.name == parameter and item.default is not None and item.default.isdecimal():
                return (int(item.default),)
        return ()

    @cached_property
    def _imported(self) -> dict[str, tuple[int, ...]]:
        """Integers in configurations that a declared kernel's decorators take from other files."""
        from kgate.source.uses import integer

        values: dict[str, dict[int, None]] = {}
        for node in self._imported_nodes() if self.kernels else ():
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Dict):
                for key, value in zip(node.args[0].keys, node.args[0].values, strict=True):
                    number = integer(value)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str) and number is not None:
                        values.setdefault(key.value, {})[number] = None
        return {name: tuple(numbers) for name, numbers in values.items()}

    def _imported_nodes(self) -> Iterator[ast.AST]:
        """Nodes of the constants that the decorators name, and that those name in turn."""
        names = self._index.names
        waiting = [
            (self.path, chain)
            for definition in names.definitions(self.identity)
            for decorator in definition.decorators
            for chain, _ in decorator.uses.refs
        ]
        seen: set[str] = set()
        while waiting and len(seen) < MOST_CONSTANTS:
            path, chain = waiting.pop()
            for symbol in names.resolve(path, chain).symbols:
                for definition in names.definitions(symbol) if symbol not in seen else ():
                    if definition.kind == "constant" and definition.value is not None:
                        yield from ast.walk(definition.value.parse())
                        waiting += [(_key(symbol)[0], inner) for inner, _ in definition.uses.refs]
                seen.add(symbol)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Concrete targets of all kernels that reach it; empty where none declares any."""
        from kgate.contract.targets import expand

        declared = [kernel.envelope.targets for kernel in self.kernels if kernel.envelope.targets]
        return tuple(dict.fromkeys(target for targets in declared for target in expand(targets)))


class Project:
    """Everything that a decision may look at."""

    def __init__(self, index: Index, config: Config, files: Mapping[str, LintFacts]) -> None:
        self.index = index
        self.config = config
        self.files = files
        """Lint facts of every file that mentions kernels, by path."""
        self._scopes: dict[str, dict[HostKey, list[Scope]]] = {}
        self._settings: dict[str, list[Setting]] = {}
        self._sizes: dict[str, Sizes] = {}
        self._notes: dict[tuple[str, str], dict[HostKey, dict[str, Any]]] = {}
        self.memory: dict[str, Any] = {}
        """What a rule works out once for the project, by a name of its own."""

    @cached_property
    def declarations(self) -> dict[str, Declaration]:
        """Declarations without a mistake, by identity."""
        return {item.identity: item for item in self.index.declarations}

    @cached_property
    def devices(self) -> dict[str, LinkedDevice]:
        """Device functions by identity, launches linked."""
        summaries = {f"{path}::{item.name}": item for path, facts in self.files.items() for item in facts.devices}
        found: dict[str, LinkedDevice] = {}
        launched: dict[tuple[str, int], list[LinkedDevice]] = {}
        for function in self.index.device_functions:
            summary = summaries.get(function.identity)
            if summary is None:
                continue
            kernels = tuple(self.declarations[name] for name in function.declared_by if name in self.declarations)
            device = found[function.identity] = LinkedDevice(function, summary, kernels, self.index)
            for place in function.launches:
                launched.setdefault((place.path, place.line), []).append(device)
        for path in sorted({path for path, _ in launched}):
            facts = self.files.get(path)
            if facts is None:
                continue
            hosts = {item.name: item for item in facts.hosts}
            for launch in facts.launches:
                if launch.grid is not None:
                    for device in launched.get((path, launch.place[0]), ()):
                        host = hosts.get(launch.by)
                        device.launches.append(LinkedLaunch(path, launch, host, device.summary))
        return found

    def device(self, path: str, name: str) -> LinkedDevice | None:
        """The device function of a file by its qualified name."""
        return self.devices.get(f"{path}::{name}")

    @cached_property
    def launches_by(self) -> dict[tuple[str, str], list[tuple[LinkedDevice, LinkedLaunch]]]:
        """File and host function to what it launches."""
        found: dict[tuple[str, str], list[tuple[LinkedDevice, LinkedLaunch]]] = {}
        for device in self.devices.values():
            for launch in device.launches:
                found.setdefault((launch.path, launch.launch.by), []).append((device, launch))
        return found

    # Arguments in terms of envelopes

    def settings(self, device: LinkedDevice) -> list[Setting]:
        """Every way in which a declared launcher comes to launch a device function."""
        known = self._settings.get(device.identity)
        if known is None:
            known = self._settings[device.identity] = []
            for declaration in device.kernels:
                scopes = self.scopes(declaration)
                for launch in device.launches:
                    for scope in scopes.get((launch.path, launch.launch.by), ()):
                        known.append(Setting(declaration, device, launch, scope))
        return known

    def argument_terms(
        self, device: LinkedDevice, parameter: str
    ) -> list[tuple[Declaration, LinkedLaunch, Term | None]]:
        """A parameter of a device function in terms of each envelope that reaches it; None where it is not known."""
        return [(item.declaration, item.launch, item.term(parameter)) for item in self.settings(device)]

    def sizes(self, declaration: Declaration) -> Sizes:
        """What a declaration's envelope allows."""
        from kgate.lint.model.envelope import Sizes

        known = self._sizes.get(declaration.identity)
        if known is None:
            known = self._sizes[declaration.identity] = Sizes(declaration.envelope)
        return known

    def scopes(self, declaration: Declaration) -> dict[HostKey, list[Scope]]:
        """The host functions that a declared launcher comes to call, with what their parameters are."""
        known = self._scopes.get(declaration.identity)
        if known is None:
            known = self._scopes[declaration.identity] = self._reached(declaration)
        return known

    def _reached(self, declaration: Declaration) -> dict[HostKey, list[Scope]]:
        from kgate.lint.model.envelope import Scope

        found: dict[HostKey, list[Scope]] = {}
        waiting: list[tuple[HostKey, Scope, tuple[HostKey, ...]]] = [
            (key, Scope.of_envelope(declaration.envelope, key, self._constants(key[0])), (key,))
            for key in self._launchers(declaration)
        ]
        while waiting:
            key, scope, chain = waiting.pop(0)
            ways = found.setdefault(key, [])
            if len(ways) >= MOST_WAYS:
                continue
            ways.append(scope)
            if len(chain) > DEPTH:
                continue
            for callee, forms in self.calls_of(key):
                if callee not in chain:
                    waiting.append(
                        (callee, Scope({}, forms, scope, callee, self._constants(callee[0])), (*chain, callee))
                    )
        return found

    def _constants(self, path: str) -> Callable[[str], Term | None]:
        return lambda name: self.constant(path, name)

    def constant(self, path: str, name: str) -> Term | None:
        """An integer that a file binds once at module level, or imports; None for anything else."""
        from kgate.lint.model.envelope import number
        from kgate.source.uses import integer

        symbols = list(self.index.names.resolve(path, name).symbols)
        definitions = self.index.names.definitions(symbols[0]) if len(symbols) == 1 else ()
        if len(definitions) != 1 or definitions[0].kind != "constant" or definitions[0].value is None:
            return None
        value = integer(definitions[0].value.parse())
        return None if value is None else number(value)

    def _launchers(self, declaration: Declaration) -> list[HostKey]:
        """The launcher; of a declaration from outside, the function that was handed to it."""
        path, _, name = declaration.identity.partition("::")
        for _ in range(DEPTH):
            if (path, name) in self.hosts:
                return [(path, name)]
            for definition in self.index.names.definitions(f"{path}::{name}"):
                chains = [definition.alias] if definition.alias else [chain for chain, _ in definition.uses.refs]
                symbols = [symbol for chain in chains for symbol in self.index.names.resolve(path, chain).symbols]
                own = {declaration.reference, declaration.fallback}
                hosts = [_key(symbol) for symbol in symbols if _key(symbol) in self.hosts]
                if definition.kind != "function" and hosts:
                    named = [key for key in hosts if f"{self.index.modules.name_of(key[0])}:{key[1]}" not in own]
                    return named[:1] or hosts[:1]
                if definition.kind != "function" and len(symbols) == 1:
                    path, name = _key(symbols[0])
                    break
            else:
                return []
        return []

    def calls_of(self, key: HostKey) -> list[tuple[HostKey, dict[str, str]]]:
        """Host functions that a host function calls, each with the forms of its parameters in terms of the caller's."""
        found = []
        for call in self._plain_calls.get(key, ()):
            for chain in call.callees:
                for callee in self._callees(key, chain):
                    found.append((callee, self._bound(call, callee, chain)))
        return found

    def notes(self, code: str, key: str = "host") -> dict[HostKey, dict[str, Any]]:
        """What a rule's local checks noted for its decisions, by file and the function that they name under ``key``."""
        known = self._notes.get((code, key))
        if known is None:
            known = self._notes[code, key] = {
                (path, item.data[key]): item.data
                for path, facts in self.files.items()
                for item in facts.candidates
                if item.code == code and key in item.data
            }
        return known

    @cached_property
    def callers(self) -> dict[HostKey, list[tuple[HostKey, dict[str, str]]]]:
        """Host function to the host functions that call it, with the forms of what they give for its parameters."""
        found: dict[HostKey, list[tuple[HostKey, dict[str, str]]]] = {}
        for key in self.hosts:
            for callee, forms in self.calls_of(key):
                found.setdefault(callee, []).append((key, forms))
        return found

    @cached_property
    def _plain_calls(self) -> dict[HostKey, list[Launch]]:
        found: dict[HostKey, list[Launch]] = {}
        for path, facts in self.files.items():
            for launch in facts.launches:
                if launch.grid is None:
                    found.setdefault((path, launch.by), []).append(launch)
        return found

    def _callees(self, key: HostKey, chain: str) -> list[HostKey]:
        """Host functions that a chain means in a function: methods of its class, and of ``F.apply`` the forward."""
        path, by = key
        owner = by.rpartition(".")[0]
        first, _, rest = chain.partition(".")
        if first in ("self", "cls"):
            return [(path, f"{owner}.{rest}")] if (path, f"{owner}.{rest}") in self.hosts else []
        applied = chain.removesuffix(".apply")
        symbols = self.index.names.resolve(path, applied).symbols
        suffix = ".forward" if applied != chain else ""
        return [key for symbol in symbols if (key := _key(symbol + suffix)) in self.hosts]

    def _bound(self, call: Launch, callee: HostKey, chain: str) -> dict[str, str]:
        """Parameter of the callee to the form of what is given for it, or of its default."""
        host = self.hosts[callee]
        names = [item.name for item in host.parameters]
        if "." in host.name and names:
            bound = host.autograd == "forward" or names[0] in ("self", "cls")
            through = chain.startswith(("self.", "cls.")) and "staticmethod" not in host.decorators
            names = names[1:] if bound or through else names
        forms = {item.name: _literal(item.default) for item in host.parameters if item.default is not None}
        if call.spread:
            forms = {}
        for argument in call.arguments:
            if argument.name.isdecimal():
                if int(argument.name) < len(names):
                    forms[names[int(argument.name)]] = argument.form
            else:
                forms[argument.name] = argument.form
        return forms

    @cached_property
    def hosts(self) -> dict[tuple[str, str], HostSummary]:
        """Host functions that launch or call, by file and qualified name."""
        return {(path, item.name): item for path, facts in self.files.items() for item in facts.hosts}

    def finding(
        self,
        rule: Rule,
        path: str,
        place: Range,
        message: str,
        remedy: str = "",
        *,
        severity: str = "",
        symbol: str = "",
        related: tuple[Related, ...] = (),
        fixes: tuple[Fix, ...] = (),
    ) -> Finding:
        """A finding of a rule at a place."""
        return Finding(
            rule.code,
            severity or rule.severity,
            path,
            *place,
            message,
            remedy,
            f"{path}::{symbol}" if symbol else "",
            rule.name,
            related,
            fixes,
        )

    def at_declaration(
        self, rule: Rule, declaration: Declaration, message: str, remedy: str, severity: str = ""
    ) -> Finding:
        """A finding of a rule about a declaration as a whole."""
        line, column = declaration.line, declaration.column
        place = (line, column, line, column + len("kernel("))
        return self.finding(
            rule, declaration.path, place, message, remedy, symbol=declaration.qualname, severity=severity
        )

    def confirm(
        self, rule: Rule, candidate: Candidate, message: str = "", remedy: str = "", severity: str = ""
    ) -> Finding:
        """A candidate as a finding, with what its decision knows better."""
        return self.finding(
            rule,
            candidate.path,
            candidate.place,
            message or candidate.message,
            remedy or candidate.remedy,
            severity=severity or candidate.severity,
            symbol=candidate.symbol,
            related=tuple(Related(candidate.path, place[0], place[1], text) for place, text in candidate.related),
            fixes=candidate.fixes,
        )

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate, its path filled in."""
        import msgspec

        for path, facts in self.files.items():
            for candidate in facts.candidates:
                yield msgspec.structs.replace(candidate, path=path)


def _key(symbol: str) -> HostKey:
    path, _, name = symbol.partition("::")
    return path, name


def _literal(text: str) -> str:
    """A default as a form: a literal, or not known."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return "?"
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else "?"
