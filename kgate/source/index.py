"""The index of a tree: its declared kernels, its device functions, and what each kernel rests on."""

from __future__ import annotations

import ast
import fnmatch
import os
from collections.abc import Iterable, Sequence
from functools import cached_property

from kgate.source.cache import FactsStore, Tree
from kgate.source.closure import DeclaredFiles, Rests, rests_on
from kgate.source.config import Root, matches
from kgate.source.declarations import Declarations, Declared
from kgate.source.device import DeviceFunctions
from kgate.source.effects import import_closure
from kgate.source.evaluate import Findings
from kgate.source.facts import FileFacts
from kgate.source.graph import Graph
from kgate.source.modules import Modules
from kgate.source.names import Names
from kgate.source.records import Closure, Declaration, DeviceFunction, Finding


class Index:
    """What is known of one tree without executing any of it. Made by :func:`build_index`."""

    def __init__(
        self, store: FactsStore, roots: Sequence[Root], exclude: Sequence[str] = (), jit_aliases: Iterable[str] = ()
    ) -> None:
        self.store = store
        self.modules = Modules(store.oids, roots)
        self.names = Names(store, self.modules)
        self.graph = Graph(self.names, self._declares, self._live)
        self._found = Findings(store)
        self._reader = Declarations(self.names, self._found)
        self._jit_aliases = frozenset(jit_aliases)
        candidates = sorted(path for path in self.modules.files if not _excluded(path, exclude))
        self.paths: list[str] = store.mentioning(candidates)
        """Files that mention kernels at all; their declarations and device functions are in the index."""
        self._reader.read(self.paths)
        self._read_through_aliases(candidates)
        self._unreadable_files()
        self._missing_files()
        self._rests: dict[str, Rests] = {}

    def _declares(self, path: str, decorator: object) -> bool:
        return self._reader.declares(path, decorator)  # type: ignore[arg-type]

    def _live(self) -> list[str]:
        return import_closure(self.names, sorted({identity.partition("::")[0] for identity in self._reader.sites}))

    def _read_through_aliases(self, candidates: list[str]) -> None:
        """Read files that declare kernels under a name of the project's own, and mention no word of kgate's."""
        aliases = {
            item.name
            for path in self.paths
            for item in self.names.table(path).facts.imports
            if item.name
            and item.attribute == "kernel"
            and item.name != "kernel"
            and self._reader.is_kernel(path, item.name)
        }
        aliases |= {
            definition.name
            for path in self.paths
            for definition in self.names.table(path).facts.definitions
            if definition.alias and self._reader.is_kernel(path, definition.alias)
        }
        known = set(self.paths)
        others = [path for path in candidates if path not in known]
        for alias in sorted(aliases):
            more = self.store.containing(others, alias.encode("utf-8", "surrogatepass")) if others else []
            others = [path for path in others if path not in more]
            self.paths += more
            if more:
                self._reader.read(more)
        self.paths.sort()

    def _unreadable_files(self) -> None:
        for path in self.paths:
            error = self.names.table(path).facts.error
            if error is not None:
                message, line, column = error
                declares = b"kgate" in self.store.tree.read(path)
                remedy = "resolve the conflict" if "conflict markers" in message else "repair it"
                self._found.items[
                    Finding(
                        "unreadable-file",
                        "error" if declares else "warning",
                        path,
                        line,
                        column,
                        line,
                        column + 1,
                        f"the file cannot be read as Python: {message}",
                        f"{remedy}; until then, every kernel that reaches it counts as changed",
                    )
                ] = None

    def _missing_files(self) -> None:
        for identity, declared in self._reader.found.items():
            declaration = declared.declaration
            for what in ("depends", "sources"):
                for at, pattern in enumerate(getattr(declaration, what)):
                    files = DeclaredFiles(self.graph, declared, {})
                    if files.matching(pattern) or any(files.holds(link, pattern) for link in files.gitlinks):
                        continue
                    self._found.add(
                        f"{what}-missing",
                        self._reader.place_of(identity, what, str(at)),
                        f"{what}: no file matches {pattern!r}",
                        "name files that are in the repository, or drop it",
                        identity,
                    )

    @cached_property
    def declarations(self) -> tuple[Declaration, ...]:
        """Every declaration without a mistake, in the order of path and line."""
        found = (declared.declaration for declared in self._reader.found.values())
        return tuple(sorted(found, key=lambda declaration: (declaration.path, declaration.line, declaration.qualname)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Mistakes in declarations, and files that cannot be read; in the order of path and line."""
        return tuple(sorted(self._found.items, key=lambda f: (f.path, f.line, f.column, f.code, f.message)))

    @property
    def unreadable(self) -> tuple[Finding, ...]:
        """Why a kernel that is meant to be here may be missing from ``declarations``, in the order of path and line.

        Files that mention kgate and cannot be read, and the mistakes of declarations that do not hold because of them.
        The ``symbol`` of the latter is the identity of what is declared; a file has none.
        """
        held = self._reader.found
        broken = set(self._reader.sites) - set(held)
        return tuple(
            item
            for item in self.findings
            if item.severity == "error" and (item.code == "unreadable-file" or item.symbol in broken)
        )

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Identities of everything that is declared, with or without mistakes."""
        return tuple(sorted(self._reader.sites))

    def site(self, identity: str) -> ast.expr:
        """The expression that declares something, with or without mistakes. Raises KeyError where nothing does."""
        return self._reader.sites[identity][2].segment.parse()

    @cached_property
    def device_functions(self) -> tuple[DeviceFunction, ...]:
        """Every device function in files that mention kernels, with its launches and the kernels that reach it."""
        return DeviceFunctions(self.names, self.graph, self._jit_aliases).read(self.paths, self.sites)

    @property
    def undeclared(self) -> tuple[DeviceFunction, ...]:
        """Device functions that are launched and that no declared kernel reaches."""
        return tuple(function for function in self.device_functions if function.launched and not function.declared_by)

    def facts(self, path: str) -> FileFacts:
        """The facts of one Python file of the tree. Raises KeyError where there is no such file."""
        return self.store.facts(path)

    def declaration(self, identity: str) -> Declaration:
        """The declaration with an identity. Raises KeyError where there is none without a mistake."""
        return self._reader.found[identity].declaration

    def declared(self, identity: str) -> Declared:
        """The declaration with the symbols that it starts from. Raises KeyError as :meth:`declaration`."""
        return self._reader.found[identity]

    def closure(self, identity: str) -> Closure:
        """What a kernel rests on. Raises KeyError where there is no such declaration."""
        return self.rests(identity).closure

    def rests(self, identity: str) -> Rests:
        """The closure with what is needed to explain it. Raises KeyError as :meth:`closure`."""
        if identity not in self._rests:
            self._rests[identity] = rests_on(self.graph, self._reader.found[identity])
        return self._rests[identity]

    def find(self, pattern: str) -> list[Declaration]:
        """Declarations by short name, qualified name, identity, file, or a glob over any of these."""
        exact = [d for d in self.declarations if pattern in (d.identity, d.name)]
        if exact:
            return exact
        if "::" not in pattern:
            by_path = [d for d in self.declarations if pattern in (d.qualname, d.path) or matches(d.path, pattern)]
            if by_path and pattern not in ("", ".", "**"):
                return by_path
        return [
            d
            for d in self.declarations
            if any(fnmatch.fnmatchcase(text, pattern) for text in (d.identity, d.name, d.qualname, d.path))
        ]


def _excluded(path: str, exclude: Sequence[str]) -> bool:
    return any(matches(path, pattern) for pattern in exclude)


def build_index(
    snapshot: Tree | FactsStore,
    roots: Sequence[Root | str] = (),
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    exclude: Sequence[str] = (),
    jit_aliases: Iterable[str] = (),
) -> Index:
    """Index a tree, or one whose facts are read already.

    ``roots``: projects inside the repository, as configured or as bare folders; the repository itself where empty.
    ``cache_dir``: where facts are remembered by content; nowhere where None. ``exclude``: globs of files whose
    declarations and device functions are not looked at (code that is reached in them still counts).
    ``jit_aliases``: further decorators, by their last name, that make a device function.
    """
    full = tuple(Root(path=root) if isinstance(root, str) else root for root in roots) or (Root(),)
    store = snapshot if isinstance(snapshot, FactsStore) else FactsStore(snapshot, cache_dir)
    return Index(store, full, exclude, jit_aliases)
