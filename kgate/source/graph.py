"""The graph of symbols: what each one says by itself, and what it refers to.

Beside the symbols proper there are more kinds of node: ``path.py::*`` (everything in a file, where a name in it cannot
be told), ``path.py::<module>`` (what importing a file does to things outside it: ``os.environ``, torch's flags),
``path.py::<names>`` (names that a file gets from code that runs when it is imported), ``path.py::Class.<class>`` (a
class without its members) and ``*`` (every Python file).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kgate.source.dynamic import UNKNOWN, ImportsByName
from kgate.source.facts import Decorator, Definition, Effect
from kgate.source.names import HEADER, Names
from kgate.source.normalise import digest
from kgate.source.records import Edge
from kgate.source.uses import MUTATORS, Dynamic, Uses

EVERYTHING = "*"
MODULE, NAMES = "<module>", "<names>"
_IMPORTING = (f"::{MODULE}", f"::{NAMES}")
_QUIET_CALLEES = (
    "warnings.", "logging.", "builtins.", "sys.path", "torch.library.", "torch.fx.", "importlib.", "pkgutil.",
    "transformers.",
)  # fmt: skip
"""Calls that change nothing that a kernel's result or code depends on."""


@dataclass(frozen=True)
class Node:
    """One symbol: its own hash, and its references."""

    hash: str
    edges: tuple[Edge, ...]
    """What it refers to by name, and what belongs to it."""
    loose: tuple[Edge, ...]
    """What it can reach by a computed name."""
    sizes: tuple[int, ...]
    unresolved: tuple[str, ...]
    externals: tuple[str, ...]
    line: int

    @property
    def all(self) -> tuple[Edge, ...]:
        """Both kinds of references."""
        return self.edges + self.loose


class Graph:
    """Nodes of one tree, made when they are first asked for.

    ``declares`` tells whether a decorator declares a kernel or registers its generator: these are no part of the code.
    ``live`` gives the files whose import effects count: those that importing a file with a declaration runs.
    """

    def __init__(
        self, names: Names, declares: Callable[[str, Decorator], bool], live: Callable[[], Iterable[str]]
    ) -> None:
        self.names = names
        self.declares = declares
        self.by_name = ImportsByName(names)
        self._live = live
        self._nodes: dict[str, Node] = {}
        self._deep: dict[str, str] = {}
        self._effects: _Effects | None = None
        self._writes: dict[str, frozenset[str]] = {}

    @property
    def effects(self) -> _Effects:
        """What statements at module level add to symbols."""
        if self._effects is None:
            self._effects = _Effects(self, sorted(set(self._live())))
        return self._effects

    def node(self, symbol: str) -> Node:
        """The node of a symbol id."""
        node = self._nodes.get(symbol)
        if node is None:
            node = self._nodes[symbol] = _Maker(self, symbol).make()
        return node

    def reach(self, roots: Iterable[str]) -> dict[str, Node]:
        """Every node that can be reached, the roots included, nearest first."""
        found: dict[str, Node] = {}
        queue = list(dict.fromkeys(roots))
        for symbol in queue:
            if symbol in found:
                continue
            found[symbol] = node = self.node(symbol)
            queue.extend(edge.target for edge in node.all if edge.target not in found)
        return found

    def deep(self, symbol: str) -> str:
        """Hash over a symbol and everything that it reaches; no path takes part in it."""
        if symbol not in self._deep:
            for component in _components(self, symbol):
                self._hash(component)
        return self._deep[symbol]

    def _hash(self, component: list[str]) -> None:
        inside = set(component)

        def linked(symbol: str) -> str:
            node = self.node(symbol)
            links = [
                digest(edge.chain, "own", self.node(edge.target).hash)
                if edge.target in inside
                else digest(edge.chain, "deep", self._deep[edge.target])
                for edge in node.all
            ]
            return digest(node.hash, *sorted(links))

        together = digest(*sorted(linked(symbol) for symbol in component))
        for symbol in component:
            self._deep[symbol] = digest(together, linked(symbol))

    def static_hash(self, symbols: Iterable[str]) -> str:
        """Hash over what can be reached by name alone, import effects left out."""
        found: dict[str, None] = {}
        queue = list(symbols)
        for symbol in queue:
            if symbol not in found:
                found[symbol] = None
                queue.extend(edge.target for edge in self.node(symbol).edges if not edge.target.endswith(_IMPORTING))
        hashes = []
        for symbol in found:
            node = self.node(symbol)
            links = sorted(digest(e.chain, self.node(e.target).hash) for e in node.edges if e.target in found)
            hashes.append(digest(node.hash, *links))
        return digest(*sorted(hashes))

    def written_by(self, symbol: str) -> frozenset[str]:
        """Symbols that calling a function changes, through the functions that it calls too.

        ``@param`` stands for its arguments.
        """
        known = self._writes.get(symbol)
        if known is None:
            self._writes[symbol] = frozenset()
            known = self._writes[symbol] = frozenset(self._written(symbol))
        return known

    def _written(self, symbol: str) -> set[str]:
        found: set[str] = set()
        seen: set[str] = set()
        queue = [symbol]
        while queue:
            current = queue.pop()
            if current in seen:
                continue
            seen.add(current)
            path, _, name = current.partition("::")
            for definition in self.names.definitions(current):
                if definition.kind == "class":
                    members = self.names.table(path).members.get(name, [])
                    queue.extend(f"{path}::{member}" for member in members)
                if definition.kind != "function":
                    continue
                owner = name.rpartition(".")[0]
                for chain in definition.uses.writes:
                    if chain == "@param":
                        found.add(chain)
                    else:
                        changed = self.names.resolve(path, chain, definition.uses.imports, owner).symbols
                        # an attribute that the class does not have is an instance's own state
                        found.update(s for s in changed if not (chain.startswith("@.") and s == f"{path}::{owner}"))
                for chain in definition.uses.commands:
                    # a method that is called for its effect, on an object made at module level
                    for target in self.names.resolve(path, chain, definition.uses.imports, owner).symbols:
                        if "." in chain and _is_object(self.names, target):
                            found.add(target)
                for chain, _ in definition.uses.refs:
                    queue.extend(self.names.resolve(path, chain, definition.uses.imports, owner).symbols)
        return found


def _is_object(names: Names, symbol: str) -> bool:
    """Whether a symbol is bound to a value, is no function or class, and no logger either."""
    path = symbol.partition("::")[0]
    definitions = names.definitions(symbol)
    if not definitions or any(definition.kind in ("function", "class") for definition in definitions):
        return False
    chains = [chain for definition in definitions for chain, _ in definition.uses.refs]
    made_by = [name for chain in chains for name in names.resolve(path, chain).externals]
    return not made_by or not all(name.startswith(_QUIET_CALLEES) for name in made_by)


def _components(graph: Graph, start: str) -> list[list[str]]:
    """Strongly connected components that are not hashed yet, those referred to before those that refer (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result: list[list[str]] = []
    work: list[tuple[str, int]] = [(start, 0)]
    while work:
        symbol, position = work.pop()
        if position == 0:
            order[symbol] = low[symbol] = len(order)
            stack.append(symbol)
            on_stack.add(symbol)
        targets = [edge.target for edge in graph.node(symbol).all if edge.target not in graph._deep]
        if position:
            low[symbol] = min(low[symbol], low[targets[position - 1]])
        for index in range(position, len(targets)):
            target = targets[index]
            if target not in order:
                work.append((symbol, index + 1))
                work.append((target, 0))
                break
            if target in on_stack:
                low[symbol] = min(low[symbol], order[target])
        else:
            if low[symbol] == order[symbol]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == symbol:
                        break
                result.append(component)
    return result


class _Maker:
    """Makes one node."""

    def __init__(self, graph: Graph, symbol: str) -> None:
        self.graph = graph
        self.names = graph.names
        self.symbol = symbol
        self.path, _, self.name = symbol.partition("::")
        self.edges: dict[tuple[str, str], Edge] = {}
        self.loose: dict[tuple[str, str], Edge] = {}
        self.externals: dict[str, None] = {}
        self.unresolved: dict[str, None] = {}
        self.sizes: set[int] = set()
        self.parts: list[str] = []

    def make(self) -> Node:
        line = 1
        if self.symbol == EVERYTHING:
            self._everything()
        elif self.name == "*":
            self._file()
        elif self.name == MODULE:
            self._module()
        elif self.name == NAMES:
            self._names()
        else:
            line = self._symbol()
        externals = sorted(self.externals)
        return Node(
            digest(*self.parts, *externals),
            tuple(self.edges.values()),
            tuple(edge for key, edge in self.loose.items() if key not in self.edges),
            tuple(sorted(self.sizes)),
            tuple(self.unresolved),
            tuple(externals),
            line,
        )

    def edge(self, target: str, line: int, chain: str) -> None:
        if target != self.symbol:
            self.edges.setdefault((target, chain), Edge(target, line, chain))

    def loosely(self, target: str, line: int, chain: str) -> None:
        if target != self.symbol:
            self.loose.setdefault((target, chain), Edge(target, line, chain))

    def _everything(self) -> None:
        store = self.names.store
        self.parts = [digest(path, store.oids[path]) for path in sorted(self.names.modules.files)]

    def _file(self) -> None:
        table = self.names.table(self.path)
        tops = [name for name in table.definitions if "." not in name]
        self.parts = ["file", *sorted(tops)]
        if table.facts.error is not None:
            self.parts.append(table.facts.hash)
            self.unresolved[f"{self.path} cannot be read; all of it counts"] = None
        for name in tops:
            self.edge(f"{self.path}::{name}", table.definitions[name][0].line, name)
        for item in table.facts.imports:
            module = self.names.module(self.path, item)
            if table.facts.error is not None or not item.name:
                if module is not None and not module.endswith("/"):
                    self.edge(f"{module}::*", item.line, item.module)
            else:
                self.refer(item.name, item.line, Uses(), "")
        for effect in table.facts.effects:
            self.parts.append(effect.hash)
            self.use(effect.uses, "")
        self._attached()
        self._imports_act()

    def _module(self) -> None:
        """What importing the file does: its effects, and those of the files that it imports."""
        effects = self.graph.effects
        self.parts.append("module")
        for effect, chains in effects.unattached.get(self.path, ()):
            self.parts.append(effect.hash)
            symbols: dict[str, None] = {}
            for chain in chains:
                found = self.names.resolve(self.path, chain, effect.uses.imports)
                symbols.update(dict.fromkeys(s for s in found.symbols if not s.endswith("::*")))
                self.externals.update(dict.fromkeys(f"{chain} = {name}" for name in found.externals))
            self.parts.append(self.graph.static_hash(symbols))
        for module, line in effects.imported(self.path):
            if module in effects.acting:
                self.edge(f"{module}::{MODULE}", line, "import")

    def _names(self) -> None:
        """Names that the file gets from code that runs when it is imported."""
        self.parts.append("names")
        for path, effect in self.graph.effects.filling.get(self.path, ()):
            self.parts.append(effect.hash)
            if path == self.path:
                self.use(effect.uses, "")
            else:
                self.edge(f"{path}::{NAMES}", effect.line, "import")

    def _symbol(self) -> int:
        owner, _, last = self.name.rpartition(".")
        if last == HEADER:
            return self._header(owner)
        definitions = self.names.definitions(self.symbol)
        if not definitions:
            self.parts.append("missing")
            self.unresolved[f"{self.symbol} does not exist"] = None
            return 0
        for definition in definitions:
            self._definition(definition, owner)
        if owner:
            self._header(owner)
        if definitions[-1].kind == "class":
            self._members()
        self._attached()
        for target, line in self.graph.effects.registered.get(self.symbol, ()):
            self.edge(target, line, "<registered>")
        self._imports_act()
        return definitions[-1].line

    def _attached(self) -> None:
        for item in self.graph.effects.attached.get(self.symbol, ()):
            self.parts.append(item.effect.hash)
            if item.full:
                # the effect may stand in another file than the symbol
                maker = self if item.path == self.path else _Maker(self.graph, f"{item.path}::{NAMES}")
                maker.use(item.effect.uses, "")
                if maker is not self:
                    self._take(maker)

    def _take(self, other: _Maker) -> None:
        for edge in other.edges.values():
            self.edge(edge.target, 0, edge.chain)
        for edge in other.loose.values():
            self.loosely(edge.target, 0, edge.chain)
        self.externals.update(other.externals)
        self.unresolved.update(other.unresolved)
        self.sizes |= other.sizes

    def _imports_act(self) -> None:
        if self.path in self.graph.effects.acting or self.path in self.graph.effects.unattached:
            self.edge(f"{self.path}::{MODULE}", 1, MODULE)
        if not self.name.startswith("__"):
            self._filled(self.path, 1)

    def _filled(self, path: str, line: int) -> None:
        if path in self.graph.effects.filling:
            self.edge(f"{path}::{NAMES}", line, NAMES)

    def _definition(self, definition: Definition, owner: str) -> None:
        self.parts.append(definition.hash)
        self.use(definition.uses, owner)
        for decorator in definition.decorators:
            if not self.graph.declares(self.path, decorator):
                self.parts.append(decorator.hash)
                self.use(decorator.uses, owner)

    def _header(self, owner: str) -> int:
        """A member depends on its class's header; the line of that."""
        line = 0
        for definition in self.names.table(self.path).definitions.get(owner, ()):
            if definition.kind != "class":
                continue
            line = definition.line
            self.parts.append(definition.hash)
            uses, outer = definition.uses, owner.rpartition(".")[0]
            for chain, where in uses.refs:
                found = self.names.resolve(self.path, chain, uses.imports, outer)
                if chain in definition.bases and not found.unresolved:
                    for target in found.symbols:
                        self.edge(f"{target}.{HEADER}" if self._is_class(target) else target, where, chain)
                    self.externals.update(dict.fromkeys(f"{chain} = {name}" for name in found.externals))
                else:
                    self.refer(chain, where, uses, outer)
            for decorator in definition.decorators:
                self.parts.append(decorator.hash)
                self.use(decorator.uses, outer)
        return line

    def _is_class(self, symbol: str) -> bool:
        return {definition.kind for definition in self.names.definitions(symbol)} == {"class"}

    def _members(self) -> None:
        table = self.names.table(self.path)
        members = table.members.get(self.name, [])
        self.parts += sorted(member.rpartition(".")[2] for member in members)
        for member in members:
            self.edge(f"{self.path}::{member}", table.definitions[member][0].line, member)

    def use(self, uses: Uses, owner: str) -> None:
        for chain, line in uses.refs:
            self.refer(chain, line, uses, owner)
        self.sizes.update(uses.sizes)
        self.look(uses.dynamics, owner)

    def refer(self, chain: str, line: int, uses: Uses, owner: str) -> None:
        root, _, _ = chain.partition(".")
        # statements of a class body see the class's own names first
        inner = f"{owner}.{root}"
        if owner and inner in self.names.table(self.path).definitions and "." in self.name:
            self.edge(f"{self.path}::{inner}", line, chain)
        found = self.names.resolve(self.path, chain, uses.imports, owner)
        for target in found.symbols:
            self.edge(target, line, chain)
            for item in self.graph.by_name.through_call(self.path, chain, line, target, uses):
                self._import_by_name(item)
        for external in found.externals:
            if not external.startswith("builtins."):
                self.externals[f"{chain} = {external}"] = None
        if not chain.rpartition(".")[2].startswith("__"):
            for path in found.through:
                if path != self.path:
                    self._filled(path, line)
        self.unresolved.update(found.unresolved)

    def look(self, dynamics: Iterable[Dynamic], owner: str = "") -> None:
        for item in dynamics:
            place = f"{self.path}:{item.line}"
            if item.kind in ("module", "fill", "code"):
                what = "runs code from a string" if item.kind == "code" else "looks names up in its own module"
                self.unresolved[f"{place} {what}; all of {self.path} counts"] = None
                self.loosely(f"{self.path}::*", item.line, "globals()")
            elif item.kind == "attribute":
                if self.names.resolve(self.path, item.what, (), owner).symbols:
                    what = owner if item.what == "@" else item.what
                    note = f"{place} takes an attribute of {what} by a computed name; all of it counts"
                    self.unresolved[note] = None
            elif not item.what.startswith("$") or owner:
                self._import_by_name(Dynamic(item.kind, self.graph.by_name.pattern(self.path, item.what), item.line))

    def _import_by_name(self, item: Dynamic) -> None:
        """Link what importing a module by name can mean: all of it where it is used, else what its import does."""
        pattern, line = item.what, item.line
        place = f"{self.path}:{line}"
        if item.kind == "run":
            effects = self.graph.effects
            reached = effects.acting if pattern == UNKNOWN else self.graph.by_name.files(pattern)
            for path in sorted(reached):
                if path in effects.acting and path != self.path:
                    self.loosely(f"{path}::{MODULE}", line, "import_module")
        elif pattern == UNKNOWN:
            self.unresolved[f"{place} uses a module by a computed name; every Python file counts"] = None
            self.loosely(EVERYTHING, line, "import_module")
        else:
            files = self.graph.by_name.files(pattern)
            if "*" in pattern:
                self.unresolved[f"{place} uses modules by the name {pattern!r}; all of them count"] = None
            elif not files:
                self.externals[f"import {pattern}"] = None
            for path in files:
                self.loosely(f"{path}::*", line, pattern)


@dataclass(frozen=True)
class _Attached:
    """An effect that belongs to a symbol; ``full``: what it refers to belongs to the symbol too."""

    path: str
    effect: Effect
    full: bool


class _Effects:
    """Statements at module level, and decorators that register: which symbols they change."""

    def __init__(self, graph: Graph, live: list[str]) -> None:
        self.graph = graph
        self.names = graph.names
        self.attached: dict[str, list[_Attached]] = {}
        self.registered: dict[str, list[tuple[str, int]]] = {}
        self.unattached: dict[str, list[tuple[Effect, tuple[str, ...]]]] = {}
        self.filling: dict[str, list[tuple[str, Effect]]] = {}
        self._imported: dict[str, list[tuple[str, int]]] = {}
        for path in live:
            for effect in self.names.table(path).facts.effects:
                self._attach(path, effect)
            self._registrations(path)
        self.acting: frozenset[str] = frozenset(self._acting(live, self._follow_calls()))

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
                for target, uses, owner in self._called(path, chains):
                    if self._acts(target, uses, owner):
                        outward.add(path)
                    if any(item.kind in ("fill", "code") for item in uses.dynamics):
                        self.filling.setdefault(target, []).append((path, effect))
                if any(item.kind in ("fill", "code") for item in effect.uses.dynamics):
                    self.filling.setdefault(path, []).append((path, effect))
        return outward

    def _called(self, path: str, chains: tuple[str, ...]) -> Iterable[tuple[str, Uses, str]]:
        """Every piece of code that chains lead to by name: file, uses, and the class it stands in."""
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
                yield target, definition.uses, owner
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
            self.attached.setdefault(target, []).append(_Attached(path, effect, full))
        if not any(targets.values()) and not (follow.keys() and self._quiet(path, follow)):
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
            if _is_object(self.names, function) and owner and method not in MUTATORS:
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
                    if _is_object(self.names, symbol) and owner:
                        changed.add(symbol)
                    for target in changed - {f"{path}::{definition.name}"}:
                        entry = (f"{path}::{definition.name}", definition.line)
                        self.registered.setdefault(target, []).append(entry)

    def _acting(self, live: list[str], outward: set[str]) -> set[str]:
        """Files that act on things outside the tree when imported, by themselves or through what they import."""
        importers: dict[str, list[str]] = {}
        for path in live:
            for module, _ in self.imported(path):
                importers.setdefault(module, []).append(path)
        found = set(outward)
        queue = list(found)
        for path in queue:
            for importer in importers.get(path, ()):
                if importer not in found:
                    found.add(importer)
                    queue.append(importer)
        return found


def imported_by(names: Names, path: str) -> list[tuple[str, int]]:
    """Files that importing a file runs: what it imports at module level, and the packages on the way."""
    found = dict.fromkeys(names.modules.packages_of(path), 1)
    for item in names.table(path).facts.imports:
        module = names.module(path, item)
        if module is None:
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
