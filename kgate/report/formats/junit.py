"""JUnit XML: a suite per file, a case per finding; errors are failures, the rest passes with the finding as output."""

from __future__ import annotations

import re
from itertools import groupby
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from kgate.report.formats.common import LintReport, headline, safe, title
from kgate.source.records import Finding

_INVALID = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: LintReport, stream: IO[str]) -> None:
    """Write the document."""
    found = report.result.findings
    stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
    stream.write(f'<testsuites name="kgate lint" tests="{len(found) or 1}" failures="{_failures(found)}" errors="0">\n')
    for path, group in groupby(found, key=lambda item: item.path):
        _suite(path, tuple(group), stream)
    if not found:
        stream.write('  <testsuite name="kgate lint" tests="1" failures="0" errors="0">\n')
        stream.write('    <testcase name="no findings" classname="kgate"/>\n  </testsuite>\n')
    stream.write("</testsuites>\n")


def _failures(found: tuple[Finding, ...]) -> int:
    return sum(item.severity == "error" for item in found)


def _suite(path: str, found: tuple[Finding, ...], stream: IO[str]) -> None:
    counts = f'tests="{len(found)}" failures="{_failures(found)}" errors="0"'
    stream.write(f"  <testsuite name={_attribute(path)} {counts}>\n")
    for item in found:
        name = f"{title(item)} {item.line}:{item.column}"
        place = f'name={_attribute(name)} classname={_attribute(path)} file={_attribute(path)} line="{item.line}"'
        stream.write(f"    <testcase {place}>\n      {_outcome(item)}\n    </testcase>\n")
    stream.write("  </testsuite>\n")


def _outcome(item: Finding) -> str:
    text = escape(_legal("\n".join(part for part in (headline(item), safe(item.remedy)) if part)))
    if item.severity != "error":
        return f"<system-out>{text}</system-out>"
    return f"<failure type={_attribute(item.code)} message={_attribute(item.message)}>{text}</failure>"


def _attribute(text: str) -> str:
    return quoteattr(_legal(safe(text)))


def _legal(text: str) -> str:
    """A text without characters that XML does not have."""
    return _INVALID.sub("\ufffd", text)
