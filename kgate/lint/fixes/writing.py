"""Fixed files written back: whole or not at all, and never over what changed meanwhile."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


class ChangedSince(Exception):
    """A file is not what was linted any more, or cannot be written; the message says which."""


class Folder:
    """The files below a folder, for :func:`kgate.lint.fixes.fix_all`."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def read(self, path: str) -> bytes:
        """What a file holds now."""
        return (self.top / path).read_bytes()

    def write(self, path: str, before: bytes, after: bytes) -> None:
        """Put ``after`` into a file that holds ``before``.

        Line endings that git converts on checkout do not count as a difference; they are kept. Raises
        :class:`ChangedSince` for a file that holds something else, or that cannot be written.
        """
        place = Path(os.path.realpath(self.top / path))
        try:
            found = place.read_bytes()
            if found != before:
                if b"\r" in before or _unix(found) != before or b"\n" in found.replace(b"\r\n", b""):
                    raise ChangedSince("it was changed on disk since it was linted")
                after = after.replace(b"\n", b"\r\n")
            write_whole(place, after)
        except OSError as error:
            raise ChangedSince(f"it cannot be written: {error.strerror or error}") from None


def write_new(place: Path, content: bytes) -> None:
    """Write a file that does not exist yet; an interruption leaves none. Raises FileExistsError."""
    with open(place, "xb") as stream:
        try:
            stream.write(content)
        except BaseException:
            os.unlink(place)
            raise


def write_whole(place: Path, content: bytes) -> None:
    """Replace what a file holds in one step, keeping its permissions; an interruption leaves the old content."""
    mode = stat.S_IMODE(place.stat().st_mode)
    handle, name = tempfile.mkstemp(prefix=f".{place.name[:100]}.", suffix=".tmp", dir=place.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _unix(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n")
