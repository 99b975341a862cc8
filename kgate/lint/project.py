"""Where the linted project lies, and its files as they lie there: for excerpts and for watching."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

WATCHED = (".py", ".pyi", ".cu", ".cuh", ".hip", ".h", ".hpp", ".cpp", ".cc", ".toml", ".json", ".jsonl")
"""Endings of files that can change what the linter says."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})


def top_of(folder: Path) -> Path:
    """Root of the repository that a folder lies in; the folder itself where there is none."""
    from kgate.source.git import GitError, Repository

    try:
        return Repository(folder).toplevel
    except GitError:
        return folder


def reader(folder: Path) -> Callable[[str], bytes | None]:
    """A function that reads a file of the project that a folder lies in; None for what cannot be read."""
    top: list[Path] = []

    def read(path: str) -> bytes | None:
        if not top:
            top.append(top_of(folder))
        place = top[0] / path
        try:
            return place.read_bytes() if place.is_file() else None
        except (OSError, ValueError):
            return None

    return read


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Path to time of change and size of every file below a folder that can change what the linter says.

    Hidden folders, virtual environments and caches are passed over.
    """
    return dict(_files(str(folder)))


def _files(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _PASSED_OVER:
                        waiting.append(entry.path)
                elif entry.name.endswith(WATCHED):
                    found = entry.stat()
                    yield entry.path, (found.st_mtime_ns, found.st_size)
            except OSError:
                continue


def watch(
    folder: Path,
    run: Callable[[], object],
    wait: Callable[[], None],
    *,
    settle: Callable[[], None] | None = None,
) -> None:
    """Run once, and again whenever a file of the project has changed; ends with KeyboardInterrupt.

    ``wait`` passes the time between two looks. After a change, ``settle`` passes the time until what writes several
    files is likely to be done with them.
    """
    top = top_of(folder)
    before = state(top)
    run()
    while True:
        wait()
        now = state(top)
        if now != before:
            if settle is not None:
                settle()
            before = state(top)
            run()
