"""What a name refers to: attribute chains followed through imports, re-exports, aliases, stars and class members.

A symbol's id is ``path.py::qualname``; ``path.py::*`` is everything in a file. What is not in the tree is external, and
is named by its dotted path (``triton.language.load``).
"""

from __future__ import annotations

import builtins
import posixpath
from collections.abc import Sequence

from kgate.source.cache import FactsStore
from kgate.source.facts import Definition, FileFacts
from kgate.source.modules import Modules
from kgate.source.uses import Import

OWN_PACKAGE = "kgate"
HEADER = "<class>"
"""``path.py::Class.<class>`` is a class without its members: bases, keywords, decorators."""
_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__package__", "__spec__", "__doc__", "__path__"}
_PLAIN_BASES = frozenset({"object", "builtins.object"})


class Found:
    """Where a chain leads: symbols of the tree, external names, and what could not be followed."""

    __slots__ = ("externals", "symbols", "through", "unresolved")

    def __init__(self) -> None:
        self.symbols: dict[str, None] = {}
        self.externals: dict[str, None] = {}
        self.unresolved: dict[str, None] = {}
        self.through: dict[str, None] = {}
        """Files in whose names it was looked up."""


class Names:
    """Looks names up across the files of one tree."""

    def __init__(self, store: FactsStore, modules: Modules) -> None:
        self.store = store
        self.modules = modules
        self._tables: dict[str, _Table] = {}
        self._cache: dict[tuple[str, str], Found] = {}
        self._plain_classes: dict[tuple[str, str], bool] = {}

    def table(self, path: str) -> _Table:
        """The names that a file binds."""
        table = self._tables.get(path)
        if table is None:
            table = self._tables[path] = _Table(self.store.facts(path))
        return table

    def definitions(self, symbol: str) -> tuple[Definition, ...]:
        """All definitions of a symbol; empty for ``*`` and for what does not exist."""
        path, _, name = symbol.partition("::")
        return self.table(path).definitions.get(name, ()) if path in self.modules.files else ()

    def resolve(self, path: str, chain: str, local: Sequence[Import] = (), owner: str = "") -> Found:
        """Where a chain written in a file leads.

        ``local`` are the imports of the function that it stands in, ``owner`` the class whose method that is.
        """
        root = chain.partition(".")[0]
        if root.startswith("@"):
            return self._own(path, chain, owner)
        here = [item for item in local if item.name == root or chain == item.name or chain.startswith(item.name + ".")]
        if not here and not any(not item.name for item in local):
            key = (path, chain)
            known = self._cache.get(key)
            if known is None:
                known = self._cache[key] = Found()
                self._name(path, chain.split("."), known, set())
            return known
        found = Found()
        for item in here:
            self._import(path, item, chain, found, set())
        for item in local:
            if not item.name:
                self._import(path, item, chain, found, set())
        if not here or root in self.table(path).definitions:
            self._name(path, chain.split("."), found, set())
        return found

    def in_module(self, path: str, qualname: str) -> list[str]:
        """Symbols that a qualified name means in a file; empty where the file does not have it."""
        parts = qualname.split(".")
        found = Found()
        known = self.modules.child(path, parts[0]) is not None or self._binds(path, parts[0], set())
        if not known and "__getattr__" not in self.table(path).definitions:
            return []
        self._member(path, self.modules.name_of(path), parts, found, set())
        return list(found.symbols) or list(found.externals)

    def dotted(self, path: str, chain: str) -> str:
        """A chain with its first name replaced by what the file imports under it, nothing else followed."""
        best, rest = "", chain
        for item in self.table(path).imports.get(chain.partition(".")[0], ()):
            base = self._module_name(path, item)
            best = f"{base}.{item.attribute}" if item.attribute else base
            rest = chain.partition(".")[2]
        return f"{best}.{rest}" if best and rest else best or chain

    def _module_name(self, path: str, item: Import) -> str:
        if not item.level:
            return item.module
        place = self.modules.relative(item.module, item.level, path)
        return self.modules.name_of(place.rstrip("/")) if place else "." * item.level + item.module

    def module(self, path: str, item: Import) -> str | None:
        """The file (or namespace folder) that an import is from; None for one outside the tree."""
        if item.level:
            return self.modules.relative(item.module, item.level, path)
        if item.module == OWN_PACKAGE or item.module.startswith(OWN_PACKAGE + "."):
            return None
        return self.modules.absolute(item.module, path)

    # Following

    def _name(self, path: str, parts: list[str], found: Found, seen: set[tuple[str, str]]) -> bool:
        """Follow names in a file; whether the first one is bound there."""
        name = parts[0]
        found.through[path] = None
        if (path, ".".join(parts)) in seen:
            return True
        seen.add((path, ".".join(parts)))
        table = self.table(path)
        if table.facts.error is not None:
            found.symbols[f"{path}::*"] = None
            found.unresolved[f"{path} cannot be read; all of it counts"] = None
            return True
        bound = False
        if name in table.definitions:
            bound = True
            self._definition(path, parts, found, seen)
        chain = ".".join(parts)
        for item in table.imports.get(name, ()):
            bound = True
            self._import(path, item, chain, found, seen)
        for item in table.dotted_imports:
            if bound and (chain == item.name or chain.startswith(item.name + ".")):
                self._import(path, item, chain, found, seen)
        first = min((d.line for d in table.definitions.get(name, ())), default=0)
        for star in table.stars:
            if not bound or star.line > first > 0:
                bound = self._star(path, star, parts, found, seen) or bound
        if not bound and name not in _BUILTINS:
            if "__getattr__" in table.definitions:
                self._lazy(path, found)
                return True
            found.externals[chain] = None
        elif not bound:
            found.externals[f"builtins.{chain}"] = None
        return bound

    def _definition(self, path: str, parts: list[str], found: Found, seen: set[tuple[str, str]]) -> None:
        table = self.table(path)
        name, rest = parts[0], parts[1:]
        definitions = table.definitions[name]
        while rest and definitions[-1].kind == "class":
            member = f"{name}.{rest[0]}"
            if member not in table.definitions or not self._plain(path, name):
                if self._inherited(path, name, rest, found, seen):
                    return
                break
            name, rest, definitions = member, rest[1:], table.definitions[member]
        found.symbols[f"{path}::{name}"] = None
        # once each: `device = device.name`, after an import of device, makes the chain longer and never ends
        followed = (path, f"{name}=")
        if rest and len(definitions) == 1 and definitions[0].alias and followed not in seen:
            seen.add(followed)
            self._name(path, [*definitions[0].alias.split("."), *rest], found, seen)

    def _plain(self, path: str, name: str) -> bool:
        """Whether taking one member of a class needs nothing but that member and the class's header."""
        known = self._plain_classes.get((path, name))
        if known is None:
            self._plain_classes[path, name] = True  # for a class that is its own base
            known = self._plain_classes[path, name] = self._is_plain(path, name)
        return known

    def _is_plain(self, path: str, name: str) -> bool:
        for definition in self.table(path).definitions[name]:
            if definition.kind != "class" or definition.decorators or "" in definition.bases:
                return False
            for base in definition.bases:
                where = self.resolve(path, base)
                if set(where.externals) - _PLAIN_BASES:
                    return False
                if not all(not symbol.endswith("::*") and self._plain_symbol(symbol) for symbol in where.symbols):
                    return False
        return True

    def _plain_symbol(self, symbol: str) -> bool:
        path, _, name = symbol.partition("::")
        return self._plain(path, name)

    def _inherited(self, path: str, name: str, rest: list[str], found: Found, seen: set[tuple[str, str]]) -> bool:
        """Follow a member that a plain class takes from a base; whether a base has it."""
        if f"{name}.{rest[0]}" in self.table(path).definitions or not self._plain(path, name):
            return False
        for definition in self.table(path).definitions[name]:
            for base in definition.bases:
                for symbol in self.resolve(path, base).symbols:
                    base_path, _, base_name = symbol.partition("::")
                    member = f"{base_name}.{rest[0]}"
                    if member in self.table(base_path).definitions:
                        self._name(base_path, [*base_name.split("."), *rest], found, seen)
                        found.symbols[f"{path}::{name}.{HEADER}"] = None
                        return True
        return False

    def _own(self, path: str, chain: str, owner: str) -> Found:
        """``self.x`` and ``super().x`` in a method of the class ``owner``."""
        found = Found()
        head, _, rest = chain.partition(".")
        if not owner:
            return found
        if rest and head == "@":
            member = rest.partition(".")[0]
            if f"{owner}.{member}" in self.table(path).definitions:
                found.symbols[f"{path}::{owner}.{member}"] = None
                return found
            if self._inherited(path, owner, rest.split("."), found, set()):
                return found
        found.symbols[f"{path}::{owner}"] = None
        return found

    def _import(self, path: str, item: Import, chain: str, found: Found, seen: set[tuple[str, str]]) -> None:
        if not item.name:
            self._star(path, item, chain.split("."), found, seen)
            return
        rest = chain[len(item.name) :].strip(".")
        parts = [part for part in (item.attribute, *rest.split(".")) if part]
        module = self.module(path, item)
        if module is None:
            dotted = ".".join([self._module_name(path, item), *parts])
            found.externals[dotted] = None
            return
        self._member(module, self._module_name(path, item), parts, found, seen)

    def _member(self, module: str, name: str, parts: list[str], found: Found, seen: set[tuple[str, str]]) -> None:
        """Follow attributes of a module of the tree."""
        while True:
            if not parts:
                self._whole(module, found)
                return
            if module.endswith("/"):
                child = self.modules.child(module, parts[0])
                if child is None:
                    found.externals[".".join([name, *parts])] = None
                    return
            elif self._binds(module, parts[0], set()):
                self._name(module, parts, found, seen)
                return
            else:
                child = self.modules.child(module, parts[0])
                if child is None:
                    self._missing(module, name, parts, found)
                    return
            module, name, parts = child, f"{name}.{parts[0]}", parts[1:]

    def _missing(self, module: str, name: str, parts: list[str], found: Found) -> None:
        table = self.table(module)
        found.through[module] = None
        if table.facts.error is not None:
            found.symbols[f"{module}::*"] = None
            found.unresolved[f"{module} cannot be read; all of it counts"] = None
        elif "__getattr__" in table.definitions:
            self._lazy(module, found)
        elif parts[0] in ("__file__", "__name__", "__path__", "__dict__", "__all__"):
            found.symbols[f"{module}::*"] = None
        else:
            found.symbols[f"{module}::*"] = None
            found.externals[".".join([name, *parts])] = None
            found.unresolved[f"{module} has no {parts[0]!r}; all of it counts"] = None

    def _lazy(self, module: str, found: Found) -> None:
        """A module with ``__getattr__``: the name may be anything below it."""
        folder = posixpath.dirname(module)
        package = posixpath.basename(module) == "__init__.py"
        reached = self.modules.below(f"{folder}/" if folder else "") if package else [module]
        found.symbols.update(dict.fromkeys(f"{path}::*" for path in reached))
        found.unresolved[f"{module} looks names up with __getattr__; all files below it count"] = None

    def _whole(self, module: str, found: Found) -> None:
        if not module.endswith("/"):
            found.symbols[f"{module}::*"] = None

    def binds(self, path: str, name: str) -> bool:
        """Whether a file binds a name, or cannot be read."""
        return self._binds(path, name, set())

    def _binds(self, path: str, name: str, seen: set[str]) -> bool:
        """Whether a file binds a name itself, or takes it from a star import that can be read."""
        if path in seen:
            return False
        seen.add(path)
        table = self.table(path)
        if table.facts.error is not None or name in table.definitions or name in table.imports:
            return True
        return any(self._star_has(path, star, name, seen) for star in table.stars)

    def _star_has(self, path: str, star: Import, name: str, seen: set[str]) -> bool:
        module = self.module(path, star)
        if module is None:
            # an external star may bind any name; a submodule of the same name is the likelier one
            return self.modules.child(path, name) is None
        if module.endswith("/"):
            return False
        exports = self.table(module).facts.exports
        if exports is not None and self.table(module).facts.error is None:
            return name in exports and (self._binds(module, name, seen) or self.modules.child(module, name) is not None)
        return not name.startswith("_") and self._binds(module, name, seen)

    def _star(self, path: str, star: Import, parts: list[str], found: Found, seen: set[tuple[str, str]]) -> bool:
        module = self.module(path, star)
        if module is None:
            if parts[0] not in _BUILTINS:
                found.externals[".".join([self._module_name(path, star), *parts])] = None
            return False
        if module.endswith("/") or not self._star_has(path, star, parts[0], {path}):
            return False
        self._member(module, self._module_name(path, star), parts, found, seen)
        return True


class _Table:
    """The names that one file binds."""

    def __init__(self, facts: FileFacts) -> None:
        self.facts = facts
        definitions: dict[str, list[Definition]] = {}
        for definition in facts.definitions:
            definitions.setdefault(definition.name, []).append(definition)
        self.definitions = {name: tuple(items) for name, items in definitions.items()}
        imports: dict[str, list[Import]] = {}
        for item in facts.imports:
            if item.name and (item.attribute or "." not in item.name):
                imports.setdefault(item.name, []).append(item)
        self.imports = imports
        self.dotted_imports = [item for item in facts.imports if "." in item.name and not item.attribute]
        self.stars = [item for item in facts.imports if not item.name]
        self.members: dict[str, list[str]] = {}
        for name in self.definitions:
            owner = name.rpartition(".")[0]
            if owner:
                self.members.setdefault(owner, []).append(name)
