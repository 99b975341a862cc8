"""A folder read as a tree of files, for a project that is in no git repository."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

SKIPPED = {
    ".git",
    ".hg",
    ".svn",
    ".kgate",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    ".tox",
    ".mypy_cache",
}


class FolderSnapshot:
    """The files below a folder; paths are relative to it, with forward slashes."""

    kind = "folder"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.label = str(folder)
        self._files: dict[str, str] | None = None
        self._linked: dict[str, str] = {}
        """Link to where it leads in the end."""

    def files(self) -> dict[str, str]:
        """Path to a digest of its content."""
        if self._files is None:
            found = {}
            for place, folders, names in os.walk(self.folder):
                folders[:] = sorted(name for name in folders if name not in SKIPPED)
                for name in sorted(names):
                    path = Path(place) / name
                    if path.is_file():
                        relative = path.relative_to(self.folder).as_posix()
                        found[relative] = self._digest(path)
                        if path.is_symlink():
                            self._linked[relative] = os.path.realpath(path)
            self._files = found
        return dict(self._files)

    def links(self) -> dict[str, str]:
        """Path to the file that it stands for, of every symlink to one of the folder; or to the first link to it."""
        files, top = self.files(), os.path.realpath(self.folder)
        if not self._linked:
            return {}
        own = {os.path.join(top, path): path for path in files if path not in self._linked}
        found = {path: own.setdefault(place, path) for path, place in self._linked.items()}
        return {path: file for path, file in found.items() if file != path}

    def gitlinks(self) -> dict[str, str]:
        """None: a folder has no submodules."""
        return {}

    def read(self, path: str) -> bytes:
        """Contents of a file."""
        return (self.folder / path).read_bytes()

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Contents of several files."""
        return {path: self.read(path) for path in paths}

    @staticmethod
    def _digest(path: Path) -> str:
        try:
            return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
        except OSError:
            return "unreadable"
