"""What formats share: the report, source lines, words for places, fingerprints, text that no format breaks on."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgate.lint.rule import Rule
from kgate.source.records import Finding, Fix
from kgate.source.text import UnreadableText, decode

if TYPE_CHECKING:
    from kgate.lint.run import LintResult

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
LEVELS = ("error", "warning", "note")
"""Severities, the gravest first."""


@dataclass
class LintReport:
    """What a format writes: a result, and where to look up what it speaks of."""

    result: LintResult
    source: Callable[[str], bytes | None] = lambda path: None
    """Bytes of a file, None where it cannot be read."""
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """Rules by code."""
    quiet: bool = False
    """Whether findings alone are shown."""
    colour: bool = False
    """Whether to use a terminal's colours."""
    _lines: dict[str, list[str]] = field(default_factory=dict, repr=False)

    def lines(self, path: str) -> list[str]:
        """Lines of a file without their endings, whatever it holds; empty where it cannot be read."""
        if path not in self._lines:
            raw = self.source(path)
            self._lines[path] = [] if raw is None else _text(raw, path).split("\n")
        return self._lines[path]

    def line(self, path: str, number: int) -> str:
        """One line, from 1; empty where there is none."""
        lines = self.lines(path)
        return lines[number - 1] if 0 < number <= len(lines) else ""


def _text(raw: bytes, path: str) -> str:
    if path.endswith((".py", ".pyi")):
        try:
            return decode(raw)
        except (UnreadableText, UnicodeError, LookupError):
            pass
    return raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def safe(text: str) -> str:
    """A text in one line that is valid in every encoding: control characters, surrogates and the like as escapes."""
    return _CONTROL.sub(_escape, text) if not text.isascii() or not text.isprintable() else text


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


def title(finding: Finding) -> str:
    """``KG203 masked-load-without-other``; the code alone where that is a name."""
    return safe(f"{finding.code} {finding.name}" if finding.name and finding.name != finding.code else finding.code)


def headline(finding: Finding) -> str:
    """``path:line:column: severity code name: message``, in one line."""
    place = f"{safe(finding.path)}:{finding.line}:{finding.column}"
    return f"{place}: {finding.severity} {title(finding)}: {safe(finding.message)}"


def best_fix(finding: Finding) -> Fix | None:
    """The fix to offer: the first safe one, else the first."""
    return next((fix for fix in finding.fixes if fix.safe), finding.fixes[0] if finding.fixes else None)


def summary(result: LintResult) -> list[str]:
    """What a run did and found, a line for each."""
    found = Counter(item.severity for item in result.findings)
    parts = [plural(found[level], level) for level in LEVELS if found[level]]
    looked = f"{plural(result.kernels, 'kernel')} declared, {plural(result.device_functions, 'device function')}"
    lines = []
    if result.fixed:
        lines.append(f"{'would fix' if result.diff else 'fixed'} {plural(result.fixed, 'finding')}")
    if result.ignored:
        lines.append(f"wrote ignores for {plural(result.ignored, 'finding')}")
    if result.suppressed:
        looked += f", {result.suppressed} ignored by comments"
    lines.append(f"{', '.join(parts) or 'no findings'} ({looked})")
    offers = [fix for fix in map(best_fix, result.findings) if fix is not None]
    certain = sum(fix.safe for fix in offers)
    if certain:
        lines.append(f"{certain} fixable with --fix")
    if len(offers) > certain:
        lines.append(f"{len(offers) - certain} {'more ' if certain else ''}fixable with --fix --unsafe-fixes")
    return lines


def plural(count: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def fingerprints(report: LintReport) -> list[tuple[str, int]]:
    """For each finding a hash that moved lines leave as it is, and its number among those with the same hash.

    It covers the rule, the file, the symbol and the text of the first line; not its number, nor the message, which
    may name other lines.
    """
    seen: Counter[str] = Counter()
    marks = []
    for item in report.result.findings:
        text = " ".join(report.line(item.path, item.line).split()) or re.sub(r"\d+", "#", item.message)
        parts = "\0".join((item.code, item.path, item.symbol, text))
        mark = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        marks.append((mark, seen[mark]))
        seen[mark] += 1
    return marks
