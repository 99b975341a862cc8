"""Each finding with the source that it is about, what to do, further places and the fix that is at hand."""

from __future__ import annotations

import unicodedata
from typing import IO

from kgate.report.formats.common import LintReport, best_fix, headline, safe
from kgate.report.formats.concise import close
from kgate.source.records import Finding

WIDTH = 120
"""Characters of a source line that are shown."""
LEAD = 50
"""Characters of a long line that are shown before the range."""
SHOWN_LINES = 6
"""Lines of a long range that are shown."""
_PAINT = {"error": "1;31", "warning": "1;33", "note": "1;36", "gutter": "34", "fix": "32"}


def render(report: LintReport, stream: IO[str]) -> None:
    """Write every finding, then the notes and the summary."""
    for item in report.result.findings:
        stream.write("\n".join(_finding(report, item)) + "\n\n")
    close(report, stream)


def _finding(report: LintReport, item: Finding) -> list[str]:
    head = headline(item)
    if report.colour:
        head = head.replace(f": {item.severity} ", f": {_paint(report, item.severity, item.severity)} ", 1)
    lines = [head]
    pad = " " * len(str(item.end_line))
    mark = _paint(report, f"{pad} =", "gutter")
    lines += excerpt(report, item)
    if item.remedy:
        lines.append(f"{mark} {safe(item.remedy)}")
    for place in item.related:
        lines.append(f"{mark} {safe(place.path)}:{place.line}:{place.column}: {safe(place.message)}")
    fix = best_fix(item)
    if fix is not None:
        how = "" if fix.safe else " (unsafe)"
        lines.append(f"{mark} {_paint(report, 'fix available', 'fix')}: {safe(fix.title)}{how}")
    return lines


def _paint(report: LintReport, text: str, what: str) -> str:
    return f"\x1b[{_PAINT[what]}m{text}\x1b[0m" if report.colour and what in _PAINT else text


def excerpt(report: LintReport, item: Finding) -> list[str]:
    """The lines of a finding with their numbers, carets under its range, and a line around it on either side."""
    lines = report.lines(item.path)
    if not 0 < item.line <= len(lines):
        return []
    last = min(max(item.end_line, item.line), len(lines))
    pad = len(str(item.end_line))
    shown = []
    for number in range(max(1, item.line - 1), min(last + 1, len(lines)) + 1):
        around = not item.line <= number <= last
        if around and not lines[number - 1].strip():
            continue
        if last - item.line >= SHOWN_LINES and item.line + SHOWN_LINES - 2 <= number < last:
            if number == item.line + SHOWN_LINES - 2:
                shown.append(_paint(report, f"{'.' * pad} |", "gutter"))
            continue
        start, end = (0, 0) if around else _columns(item, number, last, lines[number - 1])
        text, carets = window(lines[number - 1], start, end)
        shown.append(f"{_paint(report, f'{number:>{pad}} |', 'gutter')} {text}".rstrip())
        if carets.strip():
            under = _paint(report, carets.lstrip(), item.severity)
            blanks = carets[: len(carets) - len(carets.lstrip())]
            shown.append(f"{_paint(report, ' ' * pad + ' |', 'gutter')} {blanks}{under}")
    return shown


def _columns(item: Finding, number: int, last: int, line: str) -> tuple[int, int]:
    """First column, from 0, and end column of the range in one of its lines."""
    indent = len(line) - len(line.lstrip())
    start = item.column - 1 if number == item.line else indent
    end = item.end_column - 1 if number == last and item.end_line == last else len(line)
    start = min(max(start, 0), len(line))
    return start, max(min(end, len(line)), start + 1)


def window(line: str, start: int, end: int) -> tuple[str, str]:
    """A line as it can be shown, and carets below the characters from ``start`` to ``end``.

    Of a long line only the part around ``start``; tabs are four blanks; what cannot be shown is a replacement sign.
    """
    first = start - LEAD if len(line) > WIDTH and start > LEAD else 0
    part = line[first : first + WIDTH]
    text, carets = ("…", " ") if first else ("", "")
    for place, character in enumerate(part, start=first):
        drawn = "    " if character == "\t" else character if character.isprintable() else "\ufffd"
        text += drawn
        carets += ("^" if start <= place < end else " ") * _width(drawn)
    if start >= first + len(part) and end > start:
        carets += "^"  # the range begins where the line ends
    return text + ("…" if first + len(part) < len(line) else ""), carets.rstrip()


def _width(drawn: str) -> int:
    """Columns of a terminal that a character takes."""
    if drawn.isascii():
        return len(drawn)
    if unicodedata.combining(drawn):
        return 0
    return 2 if unicodedata.east_asian_width(drawn) in "WF" else 1
