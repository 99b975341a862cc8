"""Import names and files: which file a module name means, and what a file's module is called."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Sequence

from kgate.source.config import Root


class Modules:
    """The Python files of a tree by import name, over all roots.

    An absolute name is looked up in the source folders of the importing file's own root, then in those of the other
    roots, beside the importing file (as a script would find it), and last in every folder that holds a package.
    """

    def __init__(self, paths: Iterable[str], roots: Sequence[Root]) -> None:
        self.files = {path for path in paths if path.endswith(".py")}
        self.folders = _folders(self.files)
        self.roots = tuple(roots) or (Root(),)
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}
        self.sources = {root.path: self._sources(root) for root in self.roots}
        self.fallbacks = sorted(
            {
                posixpath.dirname(folder)
                for folder in self.folders
                if f"{folder}/__init__.py" in self.files
                and _join(posixpath.dirname(folder), "__init__.py") not in self.files
            }
        )

    def _sources(self, root: Root) -> tuple[str, ...]:
        """Source folders of a root, the deepest first; the repository's own top is the empty string."""
        names = root.src or tuple(name for name in (".", "src") if name == "." or root.join(name) in self.folders)
        folders = {_clean(root.join(name)) for name in names}
        return tuple(sorted(folders, key=lambda folder: (-len(folder), folder)))

    def root_of(self, path: str) -> Root:
        """The innermost root that holds a file; the first where none does."""
        owners = [root for root in self.roots if root.owns(path)]
        return max(owners, key=lambda root: len(root.path)) if owners else self.roots[0]

    def name_of(self, path: str) -> str:
        """Import name of a file, in the innermost source folder that holds it."""
        for source in self.sources[self.root_of(path).path]:
            if not source or path.startswith(source + "/"):
                path = path[len(source) + 1 :] if source else path
                break
        stem = path.removesuffix(".py")
        return stem.removesuffix("/__init__").replace("/", ".")

    def absolute(self, name: str, importer: str, *, itself: bool = False) -> str | None:
        """The file that an absolute module name means, or the folder (ending in ``/``) of a namespace package.

        ``itself``: whether it may be the importing file. A script called ``triton.py`` that imports triton does not
        mean itself, and a string that names the module it stands in does.
        """
        namespace: str | None = None
        for found in self._candidates(name, importer):
            if not found.endswith("/"):
                if itself or found != importer:
                    return found
            else:
                namespace = namespace or found
        return namespace

    def _candidates(self, name: str, importer: str) -> tuple[str, ...]:
        """What a module name can mean, in the order of the places; the same for all files of a folder."""
        key = (name, posixpath.dirname(importer))
        known = self._known.get(key)
        if known is None:
            relative = name.replace(".", "/")
            places = (self.at(_join(source, relative)) for source in self._places(importer))
            known = self._known[key] = tuple(dict.fromkeys(place for place in places if place is not None))
        return known

    def matching(self, pattern: str) -> list[str]:
        """Files whose import name, in any source folder, fits a glob whose ``*`` spans dots too."""
        if "*" not in pattern:
            places = [self.absolute(pattern, f"{root.path}/_" if root.path != "." else "_") for root in self.roots]
            return sorted({place for place in places if place is not None and not place.endswith("/")})
        folders = {source for sources in self.sources.values() for source in sources} | {*self.fallbacks}
        found = set()
        for folder in folders:
            for path in self.files:
                if not folder or path.startswith(folder + "/"):
                    name = (path[len(folder) + 1 :] if folder else path).removesuffix(".py")
                    if fnmatch.fnmatchcase(name.removesuffix("/__init__").replace("/", "."), pattern):
                        found.add(path)
        return sorted(found)

    def knows(self, name: str, importer: str) -> bool:
        """Whether the first part of a module name is a module or a regular package of this tree."""
        found = self.absolute(name.partition(".")[0], importer)
        return found is not None and (not found.endswith("/") or f"{found}__init__.py" in self.files)

    def _places(self, importer: str) -> Iterable[str]:
        own = self.root_of(importer).path
        yield from self.sources[own]
        for root, sources in self.sources.items():
            if root != own:
                yield from sources
        folder = posixpath.dirname(importer)
        if _join(folder, "__init__.py") not in self.files:
            yield folder
        yield from self.fallbacks

    def relative(self, name: str, level: int, importer: str) -> str | None:
        """The file (or namespace folder) that a relative module name means."""
        folder = posixpath.dirname(importer)
        for _ in range(level - 1):
            if not folder:
                return None
            folder = posixpath.dirname(folder)
        return self.at(_join(folder, name.replace(".", "/")) if name else folder)

    def at(self, place: str) -> str | None:
        """The module at a path without suffix: a package, a file, or a namespace folder (ending in ``/``)."""
        if not place:
            return "__init__.py" if "__init__.py" in self.files else "/"
        package = _join(place, "__init__.py")
        if package in self.files:
            return package
        if f"{place}.py" in self.files:
            return f"{place}.py"
        return f"{place}/" if place in self.folders else None

    def child(self, module: str, name: str) -> str | None:
        """A submodule of a package (its file or namespace folder)."""
        if module.endswith("/"):
            return self.at(_join(module[:-1], name))
        if posixpath.basename(module) == "__init__.py":
            return self.at(_join(posixpath.dirname(module), name))
        return None

    def below(self, folder: str) -> list[str]:
        """Every file under a folder that ends in ``/``; all files for the empty string."""
        return sorted(path for path in self.files if path.startswith(folder))

    def packages_of(self, path: str) -> list[str]:
        """The ``__init__.py`` files that are run before a file is imported, itself excluded."""
        found = []
        folder = posixpath.dirname(path)
        while True:
            package = _join(folder, "__init__.py")
            if package not in self.files:
                break
            if package != path:
                found.append(package)
            if not folder:
                break
            folder = posixpath.dirname(folder)
        return found


def _folders(files: set[str]) -> set[str]:
    found: set[str] = set()
    for path in files:
        folder = posixpath.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return found


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _clean(folder: str) -> str:
    folder = posixpath.normpath(folder)
    return "" if folder == "." else folder
