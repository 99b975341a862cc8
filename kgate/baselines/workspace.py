"""The ``.kgate`` folder at a repository's root: what kgate keeps there, ignored by git and safe to delete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NAME = ".kgate"


def workspace(top: Path) -> Path:
    """The folder, made where it is not there yet; git ignores it whatever the project's own settings."""
    folder = top / NAME
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, b"*\n")
    return folder


def write_atomically(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Give a file new contents that other processes see whole or not at all.

    ``durable`` also makes them survive a loss of power.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write_through(scratch, content, durable=durable)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_through(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file, and with ``durable`` wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold a lock between processes for a block; where ``exclusive``, the file is made and written."""
    import fcntl

    flags = os.O_RDWR | os.O_CREAT if exclusive else os.O_RDONLY
    descriptor = os.open(path, flags, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
