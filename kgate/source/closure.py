"""The closure of a kernel: every symbol and file that it rests on, by role, and the three hashes over them."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import Any

from kgate.source.config import matches
from kgate.source.declarations import Declared
from kgate.source.graph import EVERYTHING, LOADS, STATEMENTS, Graph, Node
from kgate.source.normalise import digest
from kgate.source.records import CODE, DISPATCH, ORACLE, Closure, Fingerprint

_ROOTS = {CODE: ("code",), ORACLE: ("reference", "generator", "check"), DISPATCH: ("fallback",)}
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+["<]([^">\n]+)[">]', re.MULTILINE)
_C_FAMILY = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hh", ".inl", ".hip", ".inc")
_IDENTIFIER = re.compile(r"\W+")


@dataclass(frozen=True)
class Rests:
    """A closure with what is needed to explain it."""

    closure: Closure
    nodes: dict[str, dict[str, Node]]
    """Role to the nodes that it reaches."""
    roots: dict[str, dict[str, str]]
    """Role to its starting symbols, each with the part of the declaration that names it."""
    parts: dict[str, dict[str, str]]
    """Role to the parts of the declaration that belong to it, hashed."""
    imports: dict[str, dict[str, str]]
    """Role to how its files are imported: node to hash. No symbols, and so no part of the closure's."""
    bare: str
    """The *code* fingerprint without the imports, by which a kernel that was moved is found again."""


def rests_on(graph: Graph, declared: Declared) -> Rests:
    """Work out what a kernel rests on."""
    roots: dict[str, dict[str, str]] = {}
    nodes: dict[str, dict[str, Node]] = {}
    hashes: dict[str, list[str]] = {}
    for role, names in _ROOTS.items():
        roots[role], hashes[role] = {}, []
        for name in names:
            targets = declared.roots.get(name, ())
            symbols = [target for target in targets if "::" in target]
            if any(graph.by_name.parameters(symbol) for symbol in symbols):
                # its caller, who is not in the tree, names the module to import
                symbols.append(EVERYTHING)
                hashes[role].append(graph.deep(EVERYTHING))
            roots[role].update(dict.fromkeys(symbols, name))
            hashes[role].append(digest(name, *(graph.deep(t) if "::" in t else t for t in targets)))
        nodes[role] = graph.reach(roots[role])
    files = DeclaredFiles(graph, declared, nodes[CODE]).found()
    parts = _parts(declared)
    hashes[CODE] += sorted(digest(posixpath.basename(path), oid) for path, oid in files.items())
    for role, items in parts.items():
        hashes[role] += [digest(name, text) for name, text in sorted(items.items())]
    bare = digest(*hashes[CODE])
    imports: dict[str, dict[str, str]] = {}
    taken: set[str] = set()
    for role in _ROOTS:
        files_of_role = _paths(nodes[role]) - taken
        taken |= files_of_role
        extra = _importing(declared.declaration.path, role, files_of_role)
        hashes[role].append(digest("imports", *sorted(map(graph.deep, extra))))
        fresh = {symbol: node for symbol, node in graph.reach(extra).items() if symbol not in nodes[role]}
        imports[role] = {symbol: node.hash for symbol, node in fresh.items()}
    reached = {role: {symbol: node.hash for symbol, node in sorted(items.items())} for role, items in nodes.items()}
    for symbol in declared.used:
        reached[DISPATCH].setdefault(symbol, graph.node(symbol).hash)
    closure = Closure(
        identity=declared.declaration.identity,
        symbols=reached,
        files=dict(sorted(files.items())),
        fingerprint=Fingerprint(*(digest(*hashes[role]) for role in (CODE, ORACLE, DISPATCH))),
        block_sizes=tuple(sorted({size for node in nodes[CODE].values() for size in node.sizes})),
        unresolved=tuple(
            sorted({note for items in nodes.values() for node in items.values() for note in node.unresolved})
        ),
    )
    return Rests(closure, nodes, roots, parts, imports, bare)


def _paths(nodes: dict[str, Node]) -> set[str]:
    return {symbol.partition("::")[0] for symbol in nodes if "::" in symbol}


def _importing(path: str, role: str, files: set[str]) -> list[str]:
    """Nodes for how the files of a role are imported; each file counts in the first role that reaches it.

    What importing the kernel's own module runs counts as code.
    """
    extra = [f"{file}::{STATEMENTS}" for file in sorted(files)]
    return [*extra, f"{path}::{LOADS}"] if role == CODE else extra


def _parts(declared: Declared) -> dict[str, dict[str, str]]:
    """The declaration split by role: what it says, in canonical form."""
    declaration = declared.declaration
    envelope, numerics = _split(declaration.envelope.to_dict())
    return {
        CODE: {},
        ORACLE: {"numerics": _canonical(numerics), "grad": _canonical(declaration.grad)},
        DISPATCH: {
            "envelope": _canonical(envelope),
            "workloads": _canonical([_workload(workload) for workload in declaration.workloads]),
        },
    }


def _workload(workload: Any) -> dict[str, Any]:
    """What a workload asks for; where it is from changes nothing."""
    return {"values": workload.values, "layouts": workload.layouts, "absent": workload.absent}


def _split(document: Any, path: str = "") -> tuple[Any, dict[str, Any]]:
    """An envelope's document without its numerics, and these by themselves."""
    if isinstance(document, list):
        pairs = [_split(item, f"{path}/{at}") for at, item in enumerate(document)]
        return [rest for rest, _ in pairs], {key: value for _, found in pairs for key, value in found.items()}
    if not isinstance(document, dict):
        return document, {}
    rest: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for key, value in document.items():
        if key == "numerics":
            found[f"{path}/{key}"] = value
        else:
            rest[key], inner = _split(value, f"{path}/{key}")
            found.update(inner)
    return rest, {key: value for key, value in found.items() if value is not None}


def _canonical(value: Any) -> str:
    # the order of inputs and outputs is the order of arguments and results: keys are not sorted
    return json.dumps(value, separators=(",", ":"), default=str)


class DeclaredFiles:
    """Files that count as code beside Python symbols: ``depends``, ``sources``, what these include, submodules."""

    def __init__(self, graph: Graph, declared: Declared, nodes: dict[str, Node]) -> None:
        self.store = graph.names.store
        self.modules = graph.names.modules
        self.declaration = declared.declaration
        self.nodes = nodes
        self.gitlinks: dict[str, str] = dict(self.store.tree.gitlinks())

    def found(self) -> dict[str, str]:
        """Path to blob id, or commit id of a submodule."""
        paths: dict[str, str] = {}
        patterns = [*self.declaration.depends, *self.declaration.sources]
        for pattern in patterns:
            paths.update(dict.fromkeys(self.matching(pattern), ""))
        for path in self._included(list(paths)):
            paths[path] = ""
        files = {path: self.store.oids[path] for path in paths}
        if self.gitlinks:
            files.update(self._submodules(patterns))
        if EVERYTHING in self.nodes:
            files.update(self.gitlinks)
        return files

    def matching(self, pattern: str) -> list[str]:
        """Files that a glob means, from the repository's top, the root's folder, or beside the declaration."""
        folders = {"", posixpath.dirname(self.declaration.path)}
        if self.declaration.root != ".":
            folders.add(self.declaration.root)
        globs = [posixpath.normpath(posixpath.join(folder, pattern)) for folder in sorted(folders)]
        return [path for path in self.store.oids if any(matches(path, glob) for glob in globs)]

    def _included(self, paths: list[str]) -> list[str]:
        """What C-family files include, as far as it lies in the tree."""
        seen = set(paths)
        queue = [path for path in paths if path.endswith(_C_FAMILY)]
        for path in queue:
            for raw in _INCLUDE.findall(self.store.tree.read(path)):
                name = raw.decode("utf-8", "replace")
                beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
                targets = [beside] if beside in self.store.oids else self._anywhere(name)
                for target in targets:
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
        return queue

    def _anywhere(self, name: str) -> list[str]:
        """Files whose path ends so: the include path is not known."""
        tail = "/" + posixpath.normpath(name).lstrip("./")
        return [path for path in self.store.oids if ("/" + path).endswith(tail)]

    def _submodules(self, patterns: list[str]) -> dict[str, str]:
        """Submodules that a pattern, or an import that is not in the tree, can lead into."""
        tops = {
            name.partition(" = ")[2].removeprefix("import ").partition(".")[0]
            for node in self.nodes.values()
            for name in node.externals
        }
        found = {}
        for path, oid in self.gitlinks.items():
            last = _IDENTIFIER.sub("_", posixpath.basename(path))
            holds = any(self.holds(path, pattern) for pattern in patterns)
            if holds or last in tops or any(self._under(path, top) for top in tops):
                found[path] = oid
        return found

    def holds(self, gitlink: str, pattern: str) -> bool:
        """Whether a submodule may hold files that a glob means."""
        for folder in ("", posixpath.dirname(self.declaration.path), self.declaration.root):
            full = posixpath.normpath(posixpath.join(folder, pattern)).split("/")
            parts = gitlink.split("/")
            if matches(gitlink, "/".join(full[: len(parts)])) or full[0] == "**":
                return True
        return False

    def _under(self, gitlink: str, top: str) -> bool:
        """Whether ``import top`` would look inside a submodule."""
        places = {source for sources in self.modules.sources.values() for source in sources}
        return any(
            gitlink == candidate or candidate.startswith(gitlink + "/")
            for source in places
            for candidate in (f"{source}/{top}" if source else top,)
        )
