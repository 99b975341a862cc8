"""What importing a module takes: its import statements, and what the modules behind them need to be there."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgate.source.evaluate import VOCABULARY
from kgate.source.names import OWN_PACKAGE, Names
from kgate.source.uses import Import

if TYPE_CHECKING:
    from kgate.source.effects import Effects

_OWN_WORDS = frozenset({*VOCABULARY, "kernel"})
_NO_MATTER = frozenset({("typing", ""), ("typing", "TYPE_CHECKING")})
"""Imports that nothing can go wrong with: module and attribute."""


class Importing:
    """The import statements of the files of one tree, in a form that depends on no order and on no path in the tree."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._statements: dict[str, tuple[str, ...]] = {}
        self._needs: dict[str, frozenset[str]] = {}
        self._targets: dict[str, frozenset[str]] = {}

    def statements(self, path: str) -> tuple[str, ...]:
        """What the statements that are run when a file is imported bind, each once and sorted."""
        known = self._statements.get(path)
        if known is None:
            found = {self._statement(path, item) for item in self._run(path)}
            known = self._statements[path] = tuple(sorted(found))
        return known

    def needs(self, path: str, effects: Effects) -> frozenset[str]:
        """What has to be there for a file to be imported, the files behind it included.

        Other people's modules (the standard library apart), names that modules of the tree do not have, files that
        cannot be read, and imports that come back to the file itself.
        """
        found: set[str] = set()
        for place in self.behind(path, effects):
            found |= self._own_needs(place)
        queue = [path]
        seen = {path}
        for place in queue:
            fresh = self.targets(place) - seen
            seen |= fresh
            queue += sorted(fresh)
            if place != path and path in self.targets(place):
                found.add("back")
        return frozenset(found)

    def behind(self, path: str, effects: Effects) -> list[str]:
        """Files that importing a file runs, itself first."""
        queue = [path]
        seen = {path}
        for place in queue:
            for module, _ in effects.imported(place):
                if module not in seen:
                    seen.add(module)
                    queue.append(module)
        return queue

    def targets(self, path: str) -> frozenset[str]:
        """Files that a file's import statements name."""
        known = self._targets.get(path)
        if known is None:
            found = set()
            for item in self._run(path):
                module = self.names.module(path, item)
                child = self.names.modules.child(module, item.attribute) if module and item.attribute else None
                found |= {place for place in (module, child) if place and not place.endswith("/") and place != path}
            known = self._targets[path] = frozenset(found)
        return known

    def _run(self, path: str) -> Iterable[Import]:
        for item in self.names.table(path).facts.imports:
            plain = not item.level and (item.module, item.attribute) in _NO_MATTER
            own = not item.level and item.module == OWN_PACKAGE and item.attribute in _OWN_WORDS
            if item.run and not plain and not own:
                yield item

    def _statement(self, path: str, item: Import) -> str:
        module = self.names.module(path, item)
        if module is None:
            return f"outside {'.' * item.level}{item.module} {item.attribute} {item.name}"
        missing = "" if self._has(module, item.attribute) else "missing "
        return f"inside {missing}{item.attribute or item.module.rpartition('.')[2]} {item.name}"

    def _own_needs(self, path: str) -> frozenset[str]:
        known = self._needs.get(path)
        if known is None:
            known = self._needs[path] = frozenset(self._needed(path))
        return known

    def _needed(self, path: str) -> Iterable[str]:
        facts = self.names.table(path).facts
        if facts.error is not None:
            yield f"unreadable {facts.hash}"
            return
        for item in self._run(path):
            module = self.names.module(path, item)
            if module is not None:
                if not self._has(module, item.attribute):
                    yield f"missing {posixpath.basename(module.rstrip('/'))} {item.attribute}"
            elif item.level or item.module.partition(".")[0] not in sys.stdlib_module_names:
                yield f"outside {'.' * item.level}{item.module}"

    def _has(self, module: str, attribute: str) -> bool:
        if attribute in ("", "*") or self.names.modules.child(module, attribute) is not None:
            return True
        if module.endswith("/"):
            return False
        return "__getattr__" in self.names.table(module).definitions or self.names.binds(module, attribute)
