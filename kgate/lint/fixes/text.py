"""A source file as text that can be cut and joined without touching a byte that no edit names."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from dataclasses import dataclass

from kgate.source.records import Edit
from kgate.source.text import UnreadableText, decode

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"(?:[ \t\f\r\n]|\\(?:\r\n|\r|\n)|#[^\r\n]*)*")

CLOSING, ADDED, LINES, OPENING = range(4)
"""Order of what is put in at one and the same place."""


class Refusal(Exception):
    """An edit cannot be made; the message says why."""


@dataclass(frozen=True)
class Splice:
    """Characters from ``start`` to ``end`` give way to ``text``."""

    start: int
    end: int
    text: str
    order: int = ADDED
    rank: int = 0
    """Among those of one order at one place: the lower one comes first."""


class SourceText:
    """The text of a file with its own line endings; lines and columns of edits become offsets in it."""

    def __init__(self, raw: bytes, *, python: bool = True) -> None:
        self.python = python
        self.encoding = _encoding(raw) if python else "utf-8"
        self._errors = "strict" if python else "surrogateescape"
        self.text = raw.decode(self.encoding, self._errors)
        if self.encode(self.text) != raw:
            raise Refusal(f"{self.encoding} text of this file cannot be written back byte for byte")
        breaks = list(_NEWLINE.finditer(self.text))
        self._starts = [0, *(found.end() for found in breaks)]
        self._ends = [*(found.start() for found in breaks), len(self.text)]
        self.newline = breaks[0].group() if breaks else "\n"

    def encode(self, text: str) -> bytes:
        """The bytes of a text in the file's encoding, byte order mark included where it has one."""
        try:
            return text.encode(self.encoding, self._errors)
        except UnicodeEncodeError as error:
            raise Refusal(f"{text[error.start]!r} cannot be written in {self.encoding}") from None

    def offset(self, line: int, column: int) -> int:
        """Where a line and a column, both from 1, lie in the text."""
        if not 1 <= line <= len(self._starts) or column < 1:
            raise Refusal(f"there is no {line}:{column} in the file")
        found = self._starts[line - 1] + column - 1
        if found > self._ends[line - 1]:
            raise Refusal(f"there is no {line}:{column} in the file")
        return found

    def span(self, edit: Edit) -> tuple[int, int]:
        """The characters that an edit's range holds."""
        start, end = self.offset(edit.line, edit.column), self.offset(edit.end_line, edit.end_column)
        if end < start:
            raise Refusal("the range ends before it starts")
        return start, end

    def line_start(self, offset: int) -> int:
        """Where the line that holds an offset starts."""
        return self._starts[bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Where the line that holds an offset ends, before its line ending."""
        return self._ends[bisect_right(self._starts, offset) - 1]

    def next_line(self, offset: int) -> int:
        """Where the line after the one that holds an offset starts; the end of the text after the last one."""
        number = bisect_right(self._starts, offset)
        return self._starts[number] if number < len(self._starts) else len(self.text)

    def before(self, offset: int) -> str:
        """What precedes an offset in its line."""
        return self.text[self.line_start(offset) : offset]

    def after(self, offset: int) -> str:
        """What follows an offset in its line."""
        return self.text[offset : self.line_end(offset)]

    def skip(self, offset: int) -> int:
        """The first character from an offset on that is no blank, line ending, or part of a comment."""
        found = _BLANK.match(self.text, offset)
        return found.end() if found else offset

    def with_newlines(self, text: str) -> str:
        """A text of an edit with the line endings of the file."""
        return text.replace("\n", self.newline) if self.newline != "\n" else text

    def spliced(self, splices: list[Splice]) -> str:
        """The text with all splices made. Raises Refusal where two of them overlap."""
        parts, at = [], 0
        for item in sorted(splices, key=lambda item: (item.start, item.end > item.start, item.order, item.rank)):
            if item.start < at:
                raise Refusal("its edits overlap")
            parts += [self.text[at : item.start], self.with_newlines(item.text)]
            at = item.end
        return "".join([*parts, self.text[at:]])


def _encoding(raw: bytes) -> str:
    try:
        decode(raw)
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    except UnreadableText as error:
        raise Refusal(f"the file cannot be read: {error.message}") from None
    except SyntaxError as error:
        raise Refusal(f"the file cannot be read: {error.msg}") from None
