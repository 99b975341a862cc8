"""What is remembered on disk by content: one file per key, and one pack that holds many, each with a checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

_CHECKSUM = 16
_PACK = "pack"
WORTH_PACKING = 64
"""Entries read one by one after which packing them is worth the writing."""


class Disk:
    """Bytes by key below a folder, or nothing where there is no folder.

    Files appear atomically, so that several processes may share a folder; what does not match its checksum counts as
    absent, and a folder that cannot be written is ignored.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._pack: dict[str, msgspec.Raw] | None = None
        self._single: dict[str, bytes] = {}
        """Entries that this process read from files of their own, wrote, or is to pack."""

    def load(self, key: str) -> bytes | memoryview | None:
        """What is remembered under a key."""
        if self.folder is None:
            return None
        if self._pack is None:
            self._pack = self._read_pack()
        packed = self._pack.get(key)
        if packed is not None:
            return memoryview(packed)
        body = self._read(key)
        if body is not None:
            self._single[key] = body
        return body

    def save(self, key: str, body: bytes, *, alone: bool = True) -> None:
        """Remember something; it is kept in a file of its own until a pack takes it in.

        Not ``alone``: only in the pack that is made next, which has to be worth packing.
        """
        if self.folder is not None:
            self._single[key] = body
            if alone:
                self._write(key, body)

    def pack(self, keys: Iterable[str]) -> None:
        """Put the entries of a tree into one file, where many of them were read one by one."""
        if self.folder is None or len(self._single) < WORTH_PACKING:
            return
        wanted = set(keys)
        entries = {key: body for key, body in (self._pack or {}).items() if key in wanted}
        entries.update((key, msgspec.Raw(body)) for key, body in self._single.items() if key in wanted)
        self._write(_PACK, msgspec.msgpack.encode(entries))
        self._pack = entries
        self._single.clear()

    def _read_pack(self) -> dict[str, msgspec.Raw]:
        body = self._read(_PACK)
        if body is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])
        return {}

    def _place(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key if key == _PACK else self.folder / key[:2] / key[2:]

    def _read(self, key: str) -> bytes | None:
        try:
            raw = self._place(key).read_bytes()
        except OSError:
            return None
        body = raw[_CHECKSUM:]
        return body if _checksum(body) == raw[:_CHECKSUM] else None

    def _write(self, key: str, body: bytes) -> None:
        place = self._place(key)
        temporary = ""
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=place.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(_checksum(body) + body)
            os.replace(temporary, place)
        except OSError:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM).digest()
