"""Which kernels a diff can have changed: closures at base and at head, compared symbol by symbol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgate.source.closure import Rests
from kgate.source.graph import IMPORTS, LOADS, MODULE, NAMES, STATEMENTS
from kgate.source.index import Index
from kgate.source.records import CODE, NEW, ROLES, Affected, Edge, Reason, Removed, Step

MOST_REASONS = 20
"""Reasons given for one kernel and role, nearest first."""
_CHANGES = ("deleted", "changed", "added", "renamed")


def affected(base: Index | None, head: Index) -> list[Affected]:
    """Kernels of head that the diff from base can have changed, in the order of path and line.

    ``base`` None: everything is new. A kernel that was only moved or renamed is not among them
    (:func:`renamed_kernels` tells these); one that was moved and changed has ``was``.
    """
    if base is not None and _same_trees(base, head):
        return []
    origins = _origins(base, head) if base is not None else {}
    found = []
    for declaration in head.declarations:
        before = origins.get(declaration.identity)
        if base is None or before is None:
            step = Step(declaration.identity, declaration.path, declaration.line, "added")
            reason = Reason(CODE, (step,), f"{declaration.name} ({declaration.path}:{declaration.line}) is new")
            found.append(Affected(declaration.identity, declaration.name, declaration.path, (NEW,), (reason,)))
            continue
        comparison = _Comparison(base, head, before, declaration.identity)
        moved = comparison.moved()
        if moved:
            reasons = tuple(reason for role in moved for reason in comparison.reasons(role))
            was = before if before != declaration.identity else ""
            found.append(Affected(declaration.identity, declaration.name, declaration.path, moved, reasons, was))
    return found


def removed_kernels(base: Index | None, head: Index) -> list[Removed]:
    """Kernels that base declares and head does not: neither renamed, nor declared with a mistake, nor in a file that
    cannot be read."""
    if base is None:
        return []
    kept = set(_origins(base, head).values()) | set(head.sites)
    return [
        Removed(declaration.identity, declaration.name, declaration.path)
        for declaration in base.declarations
        if declaration.identity not in kept and not _unreadable(head, declaration.path)
    ]


def renamed_kernels(base: Index | None, head: Index) -> dict[str, str]:
    """Identity at head to identity at base, for kernels that were moved or renamed."""
    if base is None:
        return {}
    return {new: old for new, old in _origins(base, head).items() if new != old}


def _unreadable(index: Index, path: str) -> bool:
    return path in index.store.oids and index.facts(path).error is not None


def _same_trees(base: Index, head: Index) -> bool:
    same = base.store.oids == head.store.oids and base.modules.roots == head.modules.roots
    return same and dict(base.store.tree.gitlinks()) == dict(head.store.tree.gitlinks())


def _origins(base: Index, head: Index) -> dict[str, str]:
    """Identity at head to identity at base: the same one, else the same code, else the only one of the same name."""
    before = {declaration.identity: declaration for declaration in base.declarations}
    origins = {d.identity: d.identity for d in head.declarations if d.identity in before}
    fresh = [d for d in head.declarations if d.identity not in before]
    gone = [d for d in base.declarations if d.identity not in origins and d.identity not in head.sites]
    if not fresh or not gone:
        return origins
    codes: dict[str, list[str]] = {}
    for old in gone:
        codes.setdefault(base.rests(old.identity).bare, []).append(old.identity)
    for new in fresh:
        twins = codes.get(head.rests(new.identity).bare, [])
        twins = [twin for twin in twins if before[twin].name == new.name] or twins
        if twins:
            origins[new.identity] = twins[0]
            for others in codes.values():
                if twins[0] in others:
                    others.remove(twins[0])
    taken = set(origins.values())
    for new in fresh:
        if new.identity in origins:
            continue
        named = [d for d in gone if d.name == new.name and d.identity not in taken]
        rivals = [d for d in fresh if d.name == new.name and d.identity not in origins]
        if len(named) == 1 and len(rivals) == 1:
            origins[new.identity] = named[0].identity
            taken.add(named[0].identity)
    return origins


@dataclass(frozen=True)
class _Change:
    symbol: str
    """Id at head; at base where it was deleted."""
    kind: str
    was: str = ""


class _Comparison:
    """One kernel at base and at head."""

    def __init__(self, base: Index, head: Index, before: str, after: str) -> None:
        self.base, self.head = base, head
        self.before, self.after = before, after
        self.old: Rests = base.rests(before)
        self.new: Rests = head.rests(after)

    def moved(self) -> tuple[str, ...]:
        old, new = self.old.closure.fingerprint, self.new.closure.fingerprint
        return tuple(role for role in ROLES if getattr(old, role) != getattr(new, role))

    def reasons(self, role: str) -> list[Reason]:
        """The paths from what changed to the kernel, nearest first."""
        reasons = [*self._parts(role), *(self._files() if role == CODE else ())]
        ways_new = _Ways(self.head, self.new, role, self.after)
        ways_old = _Ways(self.base, self.old, role, self.before)
        changes = self._symbols(role)
        ordered = sorted(
            changes,
            key=lambda change: (
                _CHANGES.index(change.kind),
                (ways_old if change.kind == "deleted" else ways_new).distance(change.symbol),
                change.symbol,
            ),
        )
        causes = [change for change in ordered if change.kind in ("changed", "deleted")]
        for change in (causes or ordered)[:MOST_REASONS]:
            ways = ways_old if change.kind == "deleted" else ways_new
            reasons.append(Reason(role, ways.steps(change), ways.sentence(change)))
        reasons += self._imports(role)
        return reasons or [self._gone(role) or self._rewired(role, ways_new)]

    def _symbols(self, role: str) -> list[_Change]:
        old, new = self.old.closure.symbols[role], self.new.closure.symbols[role]
        changes = [_Change(symbol, "changed") for symbol in new if symbol in old and new[symbol] != old[symbol]]
        gone = {symbol: value for symbol, value in old.items() if symbol not in new}
        for symbol in new:
            if symbol in old:
                continue
            twins = [twin for twin, value in gone.items() if value == new[symbol]]
            same = [twin for twin in twins if _name(twin) == _name(symbol)]
            twin = (same or twins or [""])[0]
            if twin:
                del gone[twin]
                changes.append(_Change(symbol, "renamed", twin))
            elif symbol == self.after:
                changes.append(_Change(symbol, "changed"))
                gone.pop(self.before, None)
            else:
                namesakes = [other for other in gone if _name(other) == _name(symbol)]
                if len(namesakes) == 1:
                    del gone[namesakes[0]]
                    changes.append(_Change(symbol, "changed", namesakes[0]))
                else:
                    changes.append(_Change(symbol, "added"))
        return changes + [_Change(symbol, "deleted") for symbol in gone]

    def _parts(self, role: str) -> list[Reason]:
        """Parts of the declaration itself that changed."""
        old, new = self.old.parts[role], self.new.parts[role]
        declaration = self.head.declaration(self.after)
        reasons = []
        for part in new:
            if new[part] != old.get(part):
                step = Step(self.after, declaration.path, declaration.line, "changed")
                sentence = f"the {part} of {declaration.name} ({declaration.path}:{declaration.line}) changed"
                reasons.append(Reason(role, (step,), sentence))
        for root in ("reference", "generator", "check", "fallback"):
            before, after = self.base.declared(self.before).roots, self.head.declared(self.after).roots
            belongs = (role == "dispatch") == (root == "fallback") and role != CODE
            if belongs and before.get(root, ()) != after.get(root, ()):
                names = [
                    ", ".join(_name(item) for item in items.get(root, ())) or "nothing" for items in (before, after)
                ]
                if names[0] != names[1]:
                    step = Step(self.after, declaration.path, declaration.line, "changed")
                    sentence = (
                        f"the {root} of {declaration.name} ({declaration.path}:{declaration.line}) is now {names[1]}, "
                        f"not {names[0]}"
                    )
                    reasons.append(Reason(role, (step,), sentence))
        return reasons

    def _files(self) -> list[Reason]:
        old, new = self.old.closure.files, self.new.closure.files
        declaration = self.head.declaration(self.after)
        reasons = []
        for path in sorted({*old, *new}):
            kind = "added" if path not in old else "deleted" if path not in new else "changed"
            if old.get(path) != new.get(path):
                steps = (Step(path, path, 0, kind), Step(self.after, declaration.path, declaration.line))
                what = "submodule " if path in self._gitlinks() else ""
                reasons.append(Reason(CODE, steps, f"{what}{path} {_PAST[kind]}"))
        return reasons

    def _imports(self, role: str) -> list[Reason]:
        """Import statements that changed, and what running the imports does."""
        old, new = dict(self.old.imports[role]), dict(self.new.imports[role])
        paths = {_path(self.before): _path(self.after)}
        declaration = self.head.declaration(self.after)
        reasons = []
        for symbol, value in new.items():
            before = next((s for s in old if paths.get(_path(s), _path(s)) + s[len(_path(s)) :] == symbol), None)
            if before is None and symbol.endswith(f"::{STATEMENTS}"):
                continue  # the file is in the closure for a symbol of it, which is a reason by itself
            if before is None or old[before] != value:
                kind = "added" if before is None else "changed"
                steps = (
                    Step(symbol, _path(symbol), 0, kind),
                    Step(self.after, declaration.path, declaration.line),
                )
                reasons.append(Reason(role, steps, self._import_in_words(symbol, kind)))
        return reasons

    def _gone(self, role: str) -> Reason | None:
        """What importing the kernel's module no longer runs, where that is all that changed."""
        gone = [s for s in self.old.imports[role] if s not in self.new.imports[role] and s.endswith(f"::{MODULE}")]
        if not gone:
            return None
        declaration = self.head.declaration(self.after)
        steps = (Step(gone[0], _path(gone[0]), 0, "deleted"), Step(self.after, declaration.path, declaration.line))
        return Reason(
            role, steps, f"{_path(gone[0])} is no longer run when {declaration.path} is imported, or does less"
        )

    def _import_in_words(self, symbol: str, kind: str) -> str:
        path, _, name = symbol.partition("::")
        if name == STATEMENTS:
            return f"the import statements of {path} changed"
        if name == LOADS:
            return f"what has to be there for {path} to be imported changed"
        return f"{path} now acts when it is imported" if kind == "added" else f"what importing {path} does changed"

    def _gitlinks(self) -> set[str]:
        return {*self.base.store.tree.gitlinks(), *self.head.store.tree.gitlinks()}

    def _rewired(self, role: str, ways: _Ways) -> Reason:
        """Every symbol is as it was, and some name now means another of them."""
        for symbol, node in self.new.nodes[role].items():
            other = self.old.nodes[role].get(symbol)
            if other is None:
                continue
            before = {(edge.chain, edge.target) for edge in other.all}
            for edge in node.all:
                if (edge.chain, edge.target) not in before:
                    change = _Change(symbol, "changed")
                    sentence = f"{edge.chain} in {ways.describe(symbol)} now means {ways.describe(edge.target)}"
                    return Reason(role, ways.steps(change), sentence)
        step = Step(
            self.after, self.head.declaration(self.after).path, self.head.declaration(self.after).line, "changed"
        )
        return Reason(role, (step,), f"what {_name(self.after)} rests on is put together differently")


_NO_LINE = tuple(f"::{kind}" for kind in (MODULE, IMPORTS, NAMES))
_PAST = {"changed": "changed", "added": "was added", "deleted": "was deleted", "renamed": "was renamed"}


class _Ways:
    """Shortest ways from a kernel to the symbols of one role."""

    def __init__(self, index: Index, rests: Rests, role: str, kernel: str) -> None:
        self.index, self.kernel = index, kernel
        self.nodes = rests.nodes[role]
        declaration = index.declaration(kernel)
        self.parents: dict[str, tuple[str, int]] = {}
        self.depth: dict[str, int] = {}
        start: Iterable[tuple[str, int]] = [(symbol, declaration.line) for symbol in rests.roots[role]]
        queue: list[str] = []
        for symbol, line in start:
            if symbol != kernel:
                self.parents[symbol] = (kernel, line)
            self.depth[symbol] = 0 if symbol == kernel else 1
            queue.append(symbol)
        for symbol in queue:
            for edge in self._edges(symbol):
                if edge.target not in self.depth:
                    self.depth[edge.target] = self.depth[symbol] + 1
                    self.parents[edge.target] = (symbol, edge.line)
                    queue.append(edge.target)
        if role == "dispatch":
            for symbol in index.declared(kernel).used:
                self.parents.setdefault(symbol, (kernel, declaration.line))
                self.depth.setdefault(symbol, 1)

    def _edges(self, symbol: str) -> tuple[Edge, ...]:
        node = self.nodes.get(symbol)
        return node.all if node is not None else ()

    def distance(self, symbol: str) -> int:
        """Number of references between the kernel and a symbol."""
        return self.depth.get(symbol, 1 << 30)

    def steps(self, change: _Change) -> tuple[Step, ...]:
        """From what changed to the kernel."""
        steps = [Step(change.symbol, _path(change.symbol), self.line(change.symbol), change.kind)]
        symbol = change.symbol
        while symbol in self.parents and symbol != self.kernel:
            symbol, line = self.parents[symbol]
            steps.append(Step(symbol, _path(symbol), line))
        return tuple(steps)

    def line(self, symbol: str) -> int:
        """Line of a symbol's definition; 0 for a whole file."""
        if symbol.endswith(("::*", *_NO_LINE)) or "::" not in symbol:
            return 0
        return self.index.graph.node(symbol).line

    def describe(self, symbol: str) -> str:
        """``name (path:line)``."""
        path, _, name = symbol.partition("::")
        if "::" not in symbol:
            return "some Python file"
        if name == "*":
            return path
        if name in (MODULE, IMPORTS):
            return f"what importing {path} does"
        if name == NAMES:
            return f"the names that {path} gets from code when it is imported"
        return f"{name.rpartition('.')[2] if '.' not in name else name} ({path}:{self.line(symbol)})"

    def sentence(self, change: _Change) -> str:
        """The change in words."""
        if change.kind == "renamed":
            return f"{self.describe(change.symbol)} was {change.was.replace('::', ', ')}"
        return f"{self.describe(change.symbol)} {_PAST[change.kind]}"


def _name(symbol: str) -> str:
    return symbol.partition("::")[2] or symbol


def _path(symbol: str) -> str:
    return symbol.partition("::")[0] if "::" in symbol else ""
