"""GitHub workflow commands: annotations, the gravest first, one per kernel and finding; then the closing line."""

from __future__ import annotations

from typing import IO

from kgate.gate.records import BASELINE, ERROR, FAIL, INCONCLUSIVE, NEW, WARN, Report, Verdict
from kgate.report import text

# GitHub shows ten annotations of a kind per step and drops the rest without a word.
SHOWN = 10
ORDER = {FAIL: 0, ERROR: 1, INCONCLUSIVE: 2, BASELINE: 3, NEW: 4, WARN: 5}
LEVEL = {FAIL: "error", ERROR: "error", INCONCLUSIVE: "error", BASELINE: "error", NEW: "error", WARN: "warning"}


def render(report: Report, stream: IO[str]) -> None:
    """Write annotations and, below them, everything as plain text for the log."""
    told = [(item.severity != "error", _finding_level(item.severity), item.path, item.line, item.code,
             item.message + (f"\n{item.remedy}" if item.remedy else "")) for item in report.findings]  # fmt: skip
    affected = text.by_kernel(report.affected)
    aggregated: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.verdict in ORDER:
            aggregated.setdefault((verdict.verdict, verdict.kernel, verdict.probe), []).append(verdict)
    for (kind, _, _), group in sorted(aggregated.items(), key=lambda item: (ORDER[item[0][0]], item[0])):
        message: list[str] = []
        for verdict in group[:5]:
            message.extend(
                [
                    text.headline(verdict),
                    *("  " + line for line in text.body(verdict, affected.get(verdict.kernel))),
                ]
            )
        if len(group) > 5:
            message.append(f"... and {len(group) - 5} more like it")
        first = group[0]
        told.append(
            (
                kind == WARN,
                LEVEL[kind],
                first.path,
                first.line,
                f"{first.name} {first.probe}",
                "\n".join(message),
            )
        )
    counts: dict[str, int] = {}
    for _, level, path, line, title, message_text in sorted(told, key=lambda item: item[0]):
        counts[level] = counts.get(level, 0) + 1
        if counts[level] <= SHOWN:
            where = f"file={escaped_property(path)},line={line},title={escaped_property('kgate: ' + title)}"
            stream.write(f"::{level} {where}::{escaped(message_text)}\n")
    for level, count in counts.items():
        if count > SHOWN:
            stream.write(f"{count - SHOWN} more of level {level} are in `kgate check --format json`\n")
    stream.write(f"{report.explanation}\n{text.closing(report)}\n")


def _finding_level(severity: str) -> str:
    return {"error": "error", "warning": "warning"}.get(severity, "notice")


def escaped(value: str) -> str:
    """The text of a command, in one line."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(value: str) -> str:
    """The value of a command's property."""
    return escaped(value).replace(":", "%3A").replace(",", "%2C")
