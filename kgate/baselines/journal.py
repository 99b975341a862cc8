"""Replacing several files at once: all of them or none, whenever the process is killed.

The new contents of every file are first written to a journal in the ignored ``.kgate`` folder, then put in
place one by one. From the first one on the change has happened: where a process was killed after it, readers
see the journal's contents in place of the files', and whoever writes next carries the change through first.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kgate.baselines.workspace import NAME, locked, sync_folder, workspace, write_through

SCHEMA = "kgate.journal/1"

_FOLDER, _JOURNAL, _LOCK = "bless", "journal.json", "lock"


class FilesChanged(Exception):
    """Files that were to be replaced are not what the caller read; ``paths`` names them."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(f"changed in the meantime: {', '.join(paths)}")
        self.paths = paths


def replace_files(top: Path, new: Mapping[str, bytes | None], *, read: Mapping[str, bytes | None]) -> list[str]:
    """Give files new contents, all at once; None deletes one. Paths are relative to ``top``.

    ``read`` is what the caller saw in each, None where there was none. Raises :class:`FilesChanged`, with
    nothing written, where that is not so any more. Gives the paths written.
    """
    changes = {path: content for path, content in new.items() if read.get(path) != content}
    if not changes:
        return []
    folder = _folder(top)
    with locked(folder / _LOCK, exclusive=True):
        _carry_through(top)
        moved = [path for path in changes if _content(top / path) != read.get(path)]
        if moved:
            raise FilesChanged(moved)
        _put_all(top, _write_journal(top, changes, read))
        _journal(top).unlink(missing_ok=True)
    return sorted(changes)


def recover(top: Path) -> list[str]:
    """Finish a replacement that was killed half-way; gives its paths, none where there was none."""
    if not _journal(top).exists():
        return []
    with locked(_folder(top) / _LOCK, exclusive=True):
        return _carry_through(top)


def pending(top: Path) -> dict[str, bytes | None]:
    """Contents that a killed replacement was about to write: what a reader has to see."""
    entries = _read_journal(top)
    if entries is None or not _under_way(top, entries):
        return {}
    return {path: _decoded(entry["new"]) for path, entry in entries.items()}


@contextlib.contextmanager
def reading(top: Path) -> Iterator[dict[str, bytes | None]]:
    """A block in which no replacement begins or goes on; gives what :func:`pending` gives."""
    lock = top / NAME / _FOLDER / _LOCK
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # never written here, or not for us to write
            stack.enter_context(locked(lock, exclusive=False))
        yield pending(top)


def _folder(top: Path) -> Path:
    folder = workspace(top) / _FOLDER
    folder.mkdir(exist_ok=True)
    return folder


def _journal(top: Path) -> Path:
    return top / NAME / _FOLDER / _JOURNAL


def _write_journal(top: Path, changes: Mapping[str, bytes | None], read: Mapping[str, bytes | None]) -> dict[str, Any]:
    files: dict[str, Any] = {
        path: {"old": _digest(read.get(path)), "new": _encoded(content)} for path, content in sorted(changes.items())
    }
    text = json.dumps({"schema": SCHEMA, "files": files})
    document = json.dumps({"sum": hashlib.sha256(text.encode()).hexdigest(), "text": text})
    scratch = _journal(top).with_suffix(".new")
    write_through(scratch, document.encode())
    os.replace(scratch, _journal(top))
    sync_folder(scratch.parent)
    return files


def _read_journal(top: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(_journal(top).read_bytes())
        text = document["text"]
        if hashlib.sha256(text.encode()).hexdigest() != document["sum"]:
            return None
        journal = json.loads(text)
        return dict(journal["files"]) if journal["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _under_way(top: Path, entries: Mapping[str, Any]) -> bool:
    """Whether a killed replacement had begun: some files are new already, the others are still old.

    Where all are old it never happened, or was taken back; where one is neither, somebody has moved on since.
    """
    found = {path: _digest(_content(top / path)) for path in entries}
    new = [path for path, entry in entries.items() if found[path] == _digest(_decoded(entry["new"]))]
    old = [path for path, entry in entries.items() if found[path] == entry["old"]]
    return bool(new) and len(new) + len(old) == len(entries)


def _carry_through(top: Path) -> list[str]:
    """Under the lock: bring about what a killed replacement had begun, then forget it."""
    entries = _read_journal(top)
    done = _put_all(top, entries) if entries is not None and _under_way(top, entries) else []
    _journal(top).unlink(missing_ok=True)
    return done


def _put_all(top: Path, entries: Mapping[str, Any]) -> list[str]:
    for path, entry in entries.items():
        _put(top, path, _decoded(entry["new"]))
    for folder in sorted({(top / path).parent for path in entries}):
        if folder.is_dir():
            sync_folder(folder)
    return sorted(entries)


def _put(top: Path, path: str, content: bytes | None) -> None:
    place = top / path
    if content is None:
        place.unlink(missing_ok=True)
        _drop_empty_folders(top, place.parent)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = top / NAME / _FOLDER / "file.new"
    write_through(scratch, content)
    os.replace(scratch, place)


def _drop_empty_folders(top: Path, folder: Path) -> None:
    while folder != top:
        try:
            folder.rmdir()
        except OSError:
            return  # something else lies there
        folder = folder.parent


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
