"""The findings of ``kgate lint``, in any format, and how many there are of each rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import IO

from kgate.report.formats import render
from kgate.report.formats.common import LEVELS, LintReport, best_fix, plural
from kgate.report.formats.document import write


def render_findings(report: LintReport, stream: IO[str], style: str) -> None:
    """Write a report in one of :data:`kgate.report.formats.FORMATS`."""
    render(report, style, stream)


@dataclass(frozen=True)
class Statistic:
    """How often a rule was broken."""

    code: str
    """Code of the rule."""
    name: str
    """Its name; empty where the code is the name."""
    severity: str
    """The gravest among its findings."""
    count: int
    """Findings."""
    safe: int
    """Of these, how many a safe fix mends."""
    unsafe: int
    """Of these, how many only an unsafe fix mends."""


def statistics(report: LintReport) -> list[Statistic]:
    """The rules that were broken, most often first."""
    counts = Counter(item.code for item in report.result.findings)
    found = []
    for code, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        items = [item for item in report.result.findings if item.code == code]
        offers = [fix.safe for fix in map(best_fix, items) if fix is not None]
        gravest = min((item.severity for item in items), key=LEVELS.index)
        found.append(Statistic(code, items[0].name, gravest, count, sum(offers), len(offers) - sum(offers)))
    return found


def render_statistics(report: LintReport, stream: IO[str], style: str) -> None:
    """Write how often each rule was broken: a table, or with ``json`` a document ``kgate.lint-statistics/1``."""
    rows = statistics(report)
    if style == "json":
        import msgspec

        write({"schema": "kgate.lint-statistics/1", "statistics": msgspec.to_builtins(rows)}, stream)
        return
    width = max((len(str(row.count)) for row in rows), default=1)
    mendable = any(row.safe or row.unsafe for row in rows)
    for row in rows:
        mark = ("[*]  " if row.safe else "[+]  " if row.unsafe else "     ") if mendable else ""
        stream.write(f"{row.count:>{width}}  {row.severity:<7}  {mark}{row.code} {row.name}".rstrip() + "\n")
    if report.quiet:
        return
    if mendable:
        stream.write("[*] fixable with --fix, [+] with --fix --unsafe-fixes\n")
    stream.write(f"{plural(len(report.result.findings), 'finding')} of {plural(len(rows), 'rule')}\n")
