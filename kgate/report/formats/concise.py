"""One line per finding, then a summary."""

from __future__ import annotations

from typing import IO

from kgate.report.formats.common import LintReport, headline, safe, summary


def render(report: LintReport, stream: IO[str]) -> None:
    """Write ``path:line:column: severity code name: message`` for each finding."""
    for item in report.result.findings:
        stream.write(headline(item) + "\n")
    close(report, stream)


def close(report: LintReport, stream: IO[str]) -> None:
    """Write the notes and the summary."""
    if report.quiet:
        return
    for note in report.result.notes:
        stream.write(f"note: {safe(note)}\n")
    stream.write("\n".join(summary(report.result)) + "\n")
