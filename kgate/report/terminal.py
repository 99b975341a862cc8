"""The report in a terminal, with rich: failures as the design has them, one closing line."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from typing import IO

from kgate.gate.records import BASELINE, ERROR, FAIL, INCONCLUSIVE, NEW, PASS, SKIPPED, WARN, Report, Verdict
from kgate.report import text

STYLES = {FAIL: "bold red", ERROR: "bold red", WARN: "yellow", NEW: "cyan", PASS: "green"}
MARKS = {
    FAIL: "FAIL",
    ERROR: "ERROR",
    INCONCLUSIVE: "UNDECIDED",
    BASELINE: "BASELINE",
    WARN: "warn",
    NEW: "new",
    SKIPPED: "skipped",
}

IN_FULL = 2
"""Verdicts on figures that are shown in full per kernel and probe; more of them are a line each."""


def render(report: Report, stream: IO[str], *, verbose: bool = False) -> None:
    """Write the report; passes are told only when ``verbose``."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for item in report.findings:
        first, *rest = text.finding(item)
        console.print(Text(first, style="red" if item.severity == "error" else "yellow"))
        for line in rest:
            console.print(Text(line))
    affected = text.by_kernel(report.affected)
    shown: Counter[tuple[str, str, str]] = Counter()
    broken = {verdict.kernel for verdict in report.verdicts if verdict.verdict == FAIL and verdict.failing}
    for verdict in _ordered(report.verdicts, broken):
        moved = [change for change in verdict.changes if change.severity == "improvement"]
        if verdict.verdict == PASS and not verbose and (not moved or verdict.kernel in broken):
            continue  # that a broken kernel compiles to less says nothing
        mark = MARKS.get(verdict.verdict, "improved" if moved else "pass")
        style = STYLES.get(verdict.verdict, "")
        shown[(verdict.kernel, verdict.probe, mark)] += 1
        if verdict.changes and shown[(verdict.kernel, verdict.probe, mark)] > IN_FULL and not verbose:
            console.print(Text(f"{mark}  ", style=style) + Text(f"  also {_short(verdict)}"))
            continue
        console.print(Text(f"{mark}  ", style=style) + Text(text.headline(verdict), style="bold"))
        for line in text.body(verdict, affected.get(verdict.kernel)):
            console.print(Text("    " + line))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="dim"))
    style = "green" if report.exit_code == 0 else "bold red"
    if report.affected or report.verdicts:
        console.print(Text(report.explanation, style="dim"))
    console.print(Text(text.closing(report), style=style))


def _short(verdict: Verdict) -> str:
    """One line for a verdict like others of the kernel that stand above in full."""
    return f"{verdict.name}  {verdict.target or verdict.probe}  {verdict.case}  {verdict.headline}"


ORDER = (PASS, WARN, SKIPPED, NEW, BASELINE, INCONCLUSIVE, ERROR, FAIL)
"""What matters most comes last, just above the closing line."""


def _ordered(verdicts: Sequence[Verdict], broken: Collection[str]) -> list[Verdict]:
    """Verdicts with what many of them say alike said once, the gravest last."""
    grouped = [verdict for verdict in verdicts if verdict.verdict not in (NEW, BASELINE)]
    alike: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.verdict == NEW:
            alike.setdefault((NEW, verdict.kernel), []).append(verdict)
        elif verdict.verdict == BASELINE:
            alike.setdefault((BASELINE, verdict.kernel, verdict.headline, *verdict.notes), []).append(verdict)
    for key, group in alike.items():
        grouped.append(_missing(group, broken) if key[0] == NEW else _several_files(group))
    return sorted(grouped, key=lambda verdict: ORDER.index(verdict.verdict))


def _missing(group: Sequence[Verdict], broken: Collection[str]) -> Verdict:
    """Missing baselines of one kernel as one verdict: forty new lines say no more than one."""
    targets = sorted({verdict.target or verdict.probe for verdict in group})
    headline = f"no baseline line yet for {text.plural(len(group), 'case')} on {', '.join(targets)}"
    accept = "" if group[0].kernel in broken else f"kgate bless {shlex.quote(group[0].name)}"
    return dataclasses.replace(group[0], headline=headline, case="", target="", probe="", accept=accept)


def _several_files(group: Sequence[Verdict]) -> Verdict:
    """The same problem in several files of a kernel, as one verdict."""
    if len(group) == 1:
        return group[0]
    return dataclasses.replace(group[0], headline=f"{group[0].headline} ({len(group)} files)", target="")
