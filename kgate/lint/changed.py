"""Changed lines: what a diff touched, line by line, for ``kgate lint --changed``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.lint.suppress import UNREADABLE
from kgate.source.records import Finding

if TYPE_CHECKING:
    from kgate.source.git import Comparison, Repository

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class ChangedLines:
    """Lines that a diff added or rewrote, and places where it took lines out."""

    files: Mapping[str, tuple[tuple[int, int], ...]] | None
    """Path at head to ranges of lines, first and last. An empty range ``(n + 1, n)`` is a removal after line n. None:
    there is nothing to compare with, so everything is new."""
    explanation: str
    """What was compared with what."""

    def touch(self, finding: Finding) -> bool:
        """Whether a finding's lines hold a changed one, or span a removal; about a whole file, any will do."""
        if self.files is None:
            return True
        ranges = self.files.get(finding.path, ())
        if finding.code == UNREADABLE:
            return bool(ranges)  # a bracket is missed where it was opened, and taken out anywhere
        last = max(finding.line, finding.end_line)
        return any(
            start <= last and finding.line <= end if start <= end else finding.line < start <= last
            for start, end in ranges
        )

    def narrow(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that stand on changed lines."""
        return [item for item in findings if self.touch(item)]


def changed_lines(
    repository: Repository, base: str | None = None, env: Mapping[str, str] | None = None
) -> ChangedLines:
    """What differs between the tree that is judged and its base, both found as ``kgate check`` finds them.

    ``base`` names the commit to compare with. Raises GitError where there is none to be found.
    """
    from kgate.source.git import resolve

    return lines_of(resolve(repository, base, None, os.environ if env is None else env))


def lines_of(comparison: Comparison) -> ChangedLines:
    """The changed lines of a comparison."""
    if comparison.base is None:
        return ChangedLines(None, comparison.explanation)
    diff = comparison.head.repository.git(
        "diff-tree", "-r", "-p", "-U0", "-M", "--text", "--no-color", "--no-ext-diff", "--no-textconv",
        "--no-relative", "--src-prefix=a/", "--dst-prefix=b/", comparison.base.tree, comparison.head.tree,
    )  # fmt: skip
    return ChangedLines({path: tuple(ranges) for path, ranges in _read(diff)}, comparison.explanation)


def _read(diff: bytes) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    lines = iter(diff.split(b"\n"))
    path = ""
    ranges: list[tuple[int, int]] = []
    for line in lines:
        hunk = _HUNK.match(line)
        if line.startswith(b"diff --git "):
            if path and ranges:
                yield path, ranges
            path, ranges = "", []
        elif line.startswith(b"+++ "):
            path = _name(line[4:])
        elif hunk is not None:
            removed, start, added = (int(group) if group else 1 for group in (hunk[1], hunk[2], hunk[3]))
            ranges.append((start, start + added - 1) if added else (start + 1, start))
            _skip(lines, removed + added)
    if path and ranges:
        yield path, ranges


def _skip(lines: Iterator[bytes], count: int) -> None:
    """Pass over the content of a hunk, which may look like anything."""
    while count > 0:
        line = next(lines, None)
        if line is None:
            return
        count -= not line.startswith(b"\\")  # `\ No newline at end of file` counts for none


def _name(field: bytes) -> str:
    """Path after ``+++``; empty for a file that is gone."""
    field = field.removesuffix(b"\t")
    if field.startswith(b'"') and field.endswith(b'"'):
        field = re.sub(rb"\\([0-7]{3}|.)", _unescaped, field[1:-1])
    return os.fsdecode(field[2:]) if field.startswith(b"b/") else ""


_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)
