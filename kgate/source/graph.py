"""The graph of symbols: what each one says by itself, and what it refers to.

Beside the symbols proper there are more kinds of node: ``path.py::*`` (everything in a file, where a name in it cannot
be told), ``path.py::<module>`` (what running a file does to things outside the tree: ``os.environ``, torch's flags),
``path.py::<imports>`` (the same of all files that importing it runs),
``path.py::<names>`` (names that a file gets from code that runs when it is imported), ``path.py::Class.<class>`` (a
class without its members), ``path.py::<statements>`` (the import statements of a file), ``path.py::<loads>`` (what the
files that importing it runs need to be there, and do) and ``*`` (every Python file).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kgate.source.dynamic import UNKNOWN, ImportsByName
from kgate.source.effects import Effects, is_object
from kgate.source.facts import Decorator, Definition
from kgate.source.importing import Importing
from kgate.source.names import HEADER, Names
from kgate.source.normalise import digest
from kgate.source.records import Edge
from kgate.source.uses import Dynamic, Uses

EVERYTHING = "*"
MODULE, IMPORTS, NAMES = "<module>", "<imports>", "<names>"
STATEMENTS, LOADS = "<statements>", "<loads>"
_IMPORTING = (f"::{MODULE}", f"::{IMPORTS}", f"::{NAMES}")


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
        self.importing = Importing(names)
        self._live = live
        self._nodes: dict[str, Node] = {}
        self._deep: dict[str, str] = {}
        self._effects: Effects | None = None
        self._writes: dict[str, frozenset[str]] = {}

    @property
    def effects(self) -> Effects:
        """What statements at module level add to symbols."""
        if self._effects is None:
            self._effects = Effects(self, sorted(set(self._live())))
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
                        if "." in chain and is_object(self.names, target):
                            found.add(target)
                for chain, _ in definition.uses.refs:
                    queue.extend(self.names.resolve(path, chain, definition.uses.imports, owner).symbols)
        return found


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
        elif self.name == IMPORTS:
            self._imports()
        elif self.name == NAMES:
            self._names()
        elif self.name == STATEMENTS:
            self.parts = ["statements", *self.graph.importing.statements(self.path)]
        elif self.name == LOADS:
            self._loads()
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
        """What running the file does to things outside the tree, and the checks that it makes."""
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

    def _imports(self) -> None:
        """What importing the file runs: its own effects, and those outward of every file that it imports."""
        effects = self.graph.effects
        self.parts.append("imports")
        own = (self.path,) if self.path in effects.unattached else ()
        for path in (*own, *effects.outward_of(self.path)):
            self.edge(f"{path}::{MODULE}", 1, "import")

    def _loads(self) -> None:
        """What has to be there for the file to be imported, and every statement that is run on the way."""
        effects, importing = self.graph.effects, self.graph.importing
        self.parts = ["loads", *sorted(importing.needs(self.path, effects))]
        for path in importing.behind(self.path, effects):
            if path in effects.unattached:
                self.edge(f"{path}::{MODULE}", 1, "import")
            for effect, chains in effects.checked.get(path, ()):
                symbols = [symbol for chain in chains for symbol in self.names.resolve(path, chain).symbols]
                self.parts += [effect.hash, self.graph.static_hash(s for s in symbols if not s.endswith("::*"))]

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
        if self.path in self.graph.effects.unattached or self.graph.effects.outward_of(self.path):
            self.edge(f"{self.path}::{IMPORTS}", 1, IMPORTS)
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
            files = self.graph.by_name.files(pattern) if pattern != UNKNOWN else []
            reached = {place for path in files for place in effects.outward_of(path)}
            for path in sorted(reached if pattern != UNKNOWN else effects.outward):
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
