"""Facts by content: read once per blob, remembered in the process and on disk."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kgate.source.disk import Disk
from kgate.source.facts import VERSION, FileFacts, facts_of

_TOKENS = (b"kgate", b"triton", b"kernel", b"numba", b"tilelang", b"pallas", b"__global__")
"""One of these is in every file with kernels; the last one is CUDA C++ in a string. Changed with ``VERSION``."""
_MEMORY: dict[str, FileFacts] = {}
_MEMORY_LIMIT = 50_000


class Tree(Protocol):
    """The part of a git snapshot that reading code needs."""

    def files(self) -> Any:
        """Path to blob id of every file."""

    def gitlinks(self) -> Any:
        """Path to commit id of every submodule."""

    def read(self, path: str) -> bytes:
        """The bytes of one file."""

    def read_many(self, paths: Iterable[str]) -> Any:
        """Path to bytes of several files."""


class FactsStore:
    """The facts of one tree's files, read when they are first asked for.

    On disk they lie by content and version of the facts; what does not match its checksum is read again.
    """

    def __init__(self, tree: Tree, cache_dir: str | os.PathLike[str] | None = None) -> None:
        self.tree = tree
        self.oids: dict[str, str] = dict(tree.files())
        version = f"facts-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
        self.disk = Disk(Path(cache_dir) / version if cache_dir is not None else None)
        self.parsed = 0
        """Files that were parsed, not remembered."""
        self._mentions: dict[str, bool] | None = None

    def facts(self, path: str) -> FileFacts:
        """The facts of one file of the tree."""
        oid = self.oids[path]
        known = _MEMORY.get(oid)
        if known is None:
            known = self._load(oid)
            if known is None:
                known = facts_of(self.tree.read(path))
                self.put(path, known)
            else:
                _remember(oid, known)
        return known

    def put(self, path: str, facts: FileFacts, encoded: bytes = b"", *, alone: bool = True) -> None:
        """Remember the facts of a file of the tree that was parsed just now, in the process and on disk.

        ``encoded``: the same as bytes, where they are at hand. ``alone`` is for the disk.
        """
        oid = self.oids[path]
        self.parsed += 1
        _remember(oid, facts)
        with contextlib.suppress(UnicodeEncodeError):  # a literal may hold half of a surrogate pair, which no file can
            self.disk.save(oid, encoded or msgspec.msgpack.encode(facts), alone=alone)

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths whose facts are remembered neither in the process nor on disk.

        What is on disk is read on the way. Of several files with the same content, the first one is named.
        """
        found: dict[str, str] = {}
        for path in paths:
            oid = self.oids[path]
            if oid not in _MEMORY and oid not in found:
                known = self._load(oid)
                if known is None:
                    found[oid] = path
                else:
                    _remember(oid, known)
        return list(found.values())

    def mentioning(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths whose bytes mention kernels at all: kgate, a framework, CUDA C++, or the word itself."""
        paths = list(paths)
        if self._mentions is None:
            self._mentions = self._interest()
        known = self._mentions
        missing = [path for path in paths if self.oids[path] not in known]
        if missing:
            contents = self.tree.read_many(missing)
            fresh = {self.oids[path]: any(token in contents[path] for token in _TOKENS) for path in missing}
            known = self._mentions = {**self._interest(), **fresh}  # read anew: another process may have added some
            self.disk.save("mentioning", msgspec.msgpack.encode(known))
        return [path for path in paths if known[self.oids[path]]]

    def containing(self, paths: Iterable[str], token: bytes) -> list[str]:
        """Those of the paths whose bytes contain a token."""
        contents = self.tree.read_many(list(paths))
        return [path for path, raw in contents.items() if token in raw]

    def pack(self) -> None:
        """Put the facts of the tree's files together on disk, where many were read one by one."""
        self.disk.pack(self.oids.values())

    def _interest(self) -> dict[str, bool]:
        raw = self.disk.load("mentioning")
        if raw is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.msgpack.decode(raw, type=dict[str, bool])
        return {}

    def _load(self, oid: str) -> FileFacts | None:
        raw = self.disk.load(oid)
        if raw is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.msgpack.decode(raw, type=FileFacts)
        return None


def _remember(oid: str, facts: FileFacts) -> None:
    if len(_MEMORY) > _MEMORY_LIMIT:
        _MEMORY.clear()
    _MEMORY[oid] = facts
