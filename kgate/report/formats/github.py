"""GitHub workflow commands: annotations, the gravest first; what exceeds GitHub's ten of a kind follows as text."""

from __future__ import annotations

from typing import IO

from kgate.report.formats.common import LEVELS, LintReport, headline, safe, summary, title
from kgate.report.github import SHOWN, escaped, escaped_property
from kgate.source.records import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: LintReport, stream: IO[str]) -> None:
    """Write annotations, and what follows them in the log."""
    rest: list[Finding] = []
    for level in LEVELS:
        found = [item for item in report.result.findings if item.severity == level]
        for item in found[:SHOWN]:
            stream.write(annotation(item) + "\n")
        rest += found[SHOWN:]
    if rest:
        stream.write(f"GitHub shows {SHOWN} annotations of a kind; the others:\n")
    for item in rest:
        stream.write(headline(item) + "\n")
    if report.quiet:
        return
    for note in report.result.notes:
        stream.write(f"::notice title=kgate::{escaped(safe(note))}\n")
    stream.write("\n".join(summary(report.result)) + "\n")


def annotation(item: Finding) -> str:
    """The workflow command of one finding."""
    text = f"{safe(item.message)}\n{safe(item.remedy)}" if item.remedy else safe(item.message)
    where = f"file={escaped_property(safe(item.path))},line={item.line},endLine={item.end_line}"
    if item.line == item.end_line:
        where += f",col={item.column},endColumn={item.end_column}"  # GitHub takes columns of one line only
    return f"::{_COMMANDS[item.severity]} {where},title={escaped_property(f'kgate: {title(item)}')}::{escaped(text)}"
