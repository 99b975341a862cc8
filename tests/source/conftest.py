"""A tree of files in memory, and an index over it."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable

import pytest

from kgate.source.affected import affected
from kgate.source.index import Index, build_index
from kgate.source.records import Reason


class MemoryTree:
    """What reading code needs of a git snapshot, from a dict of path to text or bytes."""

    def __init__(self, files: dict[str, str | bytes], gitlinks: dict[str, str] | None = None) -> None:
        self.contents = {
            path: body if isinstance(body, bytes) else textwrap.dedent(body).encode() for path, body in files.items()
        }
        self._gitlinks = gitlinks or {}
        self.reads: list[str] = []

    def files(self) -> dict[str, str]:
        return {path: hashlib.sha1(raw).hexdigest() for path, raw in self.contents.items()}

    def gitlinks(self) -> dict[str, str]:
        return dict(self._gitlinks)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return self.contents[path]

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        return {path: self.read(path) for path in paths}


HEADER = """\
import torch
import triton
import triton.language as tl
from kgate import Choice, Dim, Envelope, Numerics, Tensor, Workload, kernel
"""

ENVELOPE = """\
Envelope(
    inputs={"x": Tensor("N", "T")},
    outputs={"y": Tensor("N", "T")},
    dtypes={"T": ("float16", "float32")},
    dims={"N": Dim(0, 4096)},
)"""


def declared(name: str, body: str = "return x", *, more: str = "", envelope: str = ENVELOPE, arg: str = "x") -> str:
    """Source of a declared launcher with a reference and a fallback of its own."""
    inner = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return (
        f"def {name}_reference({arg}):\n    return {arg} * 2\n\n"
        f"def {name}_eager({arg}):\n    return {arg} + {arg}\n\n"
        f"@kernel(reference={name}_reference, fallback={name}_eager, envelope={envelope}{more})\n"
        f"def {name}({arg}):\n{inner}\n"
    )


def index_of(files: dict[str, str | bytes], gitlinks: dict[str, str] | None = None, **options: object) -> Index:
    return build_index(MemoryTree(files, gitlinks), **options)  # type: ignore[arg-type]


def changed(
    files: dict[str, str | bytes], edits: dict[str, str | bytes | tuple[str, str] | None]
) -> dict[str, str | bytes]:
    """The files after edits: new text, None (deleted), or (old, new) text inside the file."""
    result = dict(files)
    for path, edit in edits.items():
        if edit is None:
            del result[path]
        elif isinstance(edit, tuple):
            before = result[path]
            assert isinstance(before, str)
            assert edit[0] in before, f"{edit[0]!r} is not in {path}"
            result[path] = before.replace(*edit)
        else:
            result[path] = edit
    return result


class Trees:
    """What the tests of this folder make trees with; a fixture, because test folders are no packages."""

    HEADER = HEADER
    ENVELOPE = ENVELOPE
    MemoryTree = MemoryTree
    declared = staticmethod(declared)
    index = staticmethod(index_of)
    changed = staticmethod(changed)

    @staticmethod
    def selected(
        files: dict[str, str | bytes], edits: dict[str, object], **options: object
    ) -> dict[str, tuple[str, ...]]:
        """Kernel to what moved, for an edit of a tree."""
        base, head = index_of(files, **options), index_of(changed(files, edits), **options)  # type: ignore[arg-type]
        assert base.declarations, base.findings
        return {item.name: item.moved for item in affected(base, head)}

    @staticmethod
    def why(files: dict[str, str | bytes], edits: dict[str, object], name: str) -> tuple[Reason, ...]:
        """Why an edit of a tree selects a kernel."""
        base, head = index_of(files), index_of(changed(files, edits))  # type: ignore[arg-type]
        return next(item.reasons for item in affected(base, head) if item.name == name)


@pytest.fixture
def trees() -> type[Trees]:
    return Trees
