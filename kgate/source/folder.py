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

    def files(self) -> dict[str, str]:
        """Path to a digest of its content."""
        if self._files is None:
            found = {}
            for place, folders, names in os.walk(self.folder):
                folders[:] = sorted(name for name in folders if name not in SKIPPED)
                for name in sorted(names):
                    path = Path(place) / name
                    if path.is_file():
                        found[path.relative_to(self.folder).as_posix()] = self._digest(path)
            self._files = found
        return dict(self._files)

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
