"""Comments replaced and taken out, of Python and of CUDA C++."""

from __future__ import annotations

from kgate.lint.fixes.text import Refusal, SourceText, Splice


def check_comment(source: SourceText, span: tuple[int, int], known: frozenset[tuple[int, int]] | None) -> None:
    """Refuse a range that is no comment; ``known`` are those of a Python file."""
    text = source.text[span[0] : span[1]]
    if known is not None:
        if span not in known:
            raise Refusal("no comment spans exactly the range")
    elif not _is_c_comment(text) or (text.startswith("//") and span[1] != source.line_end(span[1])):
        raise Refusal("no comment spans exactly the range")


def replace(source: SourceText, span: tuple[int, int], text: str) -> list[Splice]:
    """Put another comment where one stands."""
    fits = text.startswith("#") if source.python else _is_c_comment(text)
    if not fits or "\n" in text or "\r" in text:
        raise Refusal(f"{text!r} is no comment")
    if text.startswith("//") and source.after(span[1]).strip():
        raise Refusal("the new comment would swallow what follows")
    return [Splice(*span, text)]


def remove(source: SourceText, span: tuple[int, int]) -> list[Splice]:
    """Take a comment out, with the blanks before it, and with its line where nothing else is in it."""
    start, end = span
    before = source.before(start)
    if source.after(end).strip():
        return [Splice(start, end, "")]
    if before.strip():
        return [Splice(start - (len(before) - len(before.rstrip(" \t"))), source.line_end(end), "")]
    return [Splice(source.line_start(start), source.next_line(end), "")]


def _is_c_comment(text: str) -> bool:
    if text.startswith("//"):
        return "\n" not in text and "\r" not in text
    return text.startswith("/*") and text.find("*/", 2) == len(text) - 2 and len(text) >= 4
