"""What only a preprocessor understands is blanked before parsing: unbalanced conditionals, macros as attributes."""

from __future__ import annotations

import itertools
import re

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(?:\\\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    rb"(?P<macro>\b[A-Z][A-Z0-9_]*(?:\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?)\s*(?:(?:static|inline)\s+)*$"
)
_BOUNDS = re.compile(rb"\b[A-Z0-9_]{0,40}LAUNCH_BOUNDS[A-Z0-9_]{0,20}\s*\((?:[^();]|\([^();]*\)){0,200}\)")
_NOT_NEWLINE = re.compile(rb"[^\n]")
_ENDS = re.compile(rb"[;{}]")
_MOST_ANGLES = 1000
_DEEPEST = 32
_LONGEST_LINE = 400
_BEFORE = 160
"""Bytes before ``__global__`` that are searched for a macro."""


def readable(raw: bytes) -> bytes:
    """The same text, as long, in a form that a parser without a preprocessor understands."""
    return settle(without_attributes(_without_thickets(raw)))


def _without_thickets(raw: bytes) -> bytes:
    """The same text, as long, without statements of more ``<`` than anybody writes, which a parser takes for more
    template arguments than memory holds."""
    if raw.count(b"<") <= _MOST_ANGLES:
        return raw
    text = bytearray(raw)
    start = 0
    for end in [*(found.start() for found in _ENDS.finditer(raw)), len(raw)]:
        if raw.count(b"<", start, end) > _MOST_ANGLES:
            _blank(text, start, end)
        start = end
    return bytes(text)


def without_attributes(raw: bytes) -> bytes:
    """The same text, as long, without macros that qualify a kernel: ``C10_LAUNCH_BOUNDS_1(256) __global__``."""
    if b"__global__" not in raw:
        return raw
    text = bytearray(raw)
    for found in re.finditer(rb"__global__", raw):
        start = max(found.start() - _BEFORE, 0)
        macro = _ATTRIBUTE.search(raw[start : found.start()])
        if macro is None:
            continue
        first = start + macro.start("macro")
        if not _directive(raw, first):
            _blank(text, first, start + macro.end("macro"))
    for found in _BOUNDS.finditer(raw) if b"LAUNCH_BOUNDS" in raw else ():
        if not _directive(raw, found.start()):
            _blank(text, *found.span())
    return bytes(text)


def settle(raw: bytes) -> bytes:
    """The same text, as long, with one branch of each unbalanced conditional and without its directives.

    ``#ifdef A / if (a) { / #else / if (b) { / #endif`` opens two blocks and closes one for who reads all of it.
    Conditionals whose branches balance stay as they are.
    """
    if b"#" not in raw:
        return raw
    text = bytearray(raw)
    open_groups: list[list[tuple[int, int]]] = []
    for found in _DIRECTIVE.finditer(raw):
        kind = found.group(1)
        if kind.startswith(b"if"):
            open_groups.append([found.span()])
            if len(open_groups) > _DEEPEST:
                return raw
        elif open_groups:
            open_groups[-1].append(found.span())
            if kind == b"endif":
                _settle_group(text, open_groups.pop())
    return bytes(text)


def _directive(raw: bytes, offset: int) -> bool:
    """Whether a place lies in the line of a directive."""
    before = raw[max(offset - _LONGEST_LINE, 0) : offset].rpartition(b"\n")[2]
    return before.lstrip().startswith(b"#")


def _settle_group(text: bytearray, marks: list[tuple[int, int]]) -> None:
    branches = [(left[1], right[0]) for left, right in itertools.pairwise(marks)]
    if all(_balance(text, *branch) == (0, 0) for branch in branches):
        return
    never = re.match(rb"\s*#\s*if\s+0\b", text[marks[0][0] : marks[0][1]]) is not None
    kept = 1 if never and len(branches) > 1 else 0
    for start, end in marks:
        _blank(text, start, end)
    for index, (start, end) in enumerate(branches):
        if index != kept:
            _blank(text, start, end)


def _balance(text: bytearray, start: int, end: int) -> tuple[int, int]:
    return (
        text.count(b"{", start, end) - text.count(b"}", start, end),
        text.count(b"(", start, end) - text.count(b")", start, end),
    )


def _blank(text: bytearray, start: int, end: int) -> None:
    text[start:end] = _NOT_NEWLINE.sub(b" ", bytes(text[start:end]))
