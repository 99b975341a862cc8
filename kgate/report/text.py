"""The message of a verdict, in plain lines; every renderer carries these same facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kgate.gate.records import BASELINE, ERROR, FAIL, NEW, WARN, Failing, Report, Verdict
from kgate.source.records import Affected, Finding

SHOWN_CHANGES = 12
OUTCOMES = {
    0: "pass",
    1: "FAIL",
    2: "baselines or configuration",
    3: "undecided",
    4: "proved nothing",
    130: "interrupted",
}
"""What an exit code means, in a word."""


def headline(verdict: Verdict) -> str:
    """``path:line  kernel  probe  [target]  [case]  what``."""
    parts = [f"{verdict.path}:{verdict.line}", verdict.name, verdict.probe, verdict.target, verdict.case]
    return "  ".join(part for part in [*parts, "" if verdict.changes else verdict.headline] if part)


def body(verdict: Verdict, affected: Affected | None = None) -> list[str]:
    """The lines below the headline: what cases share, the smallest, figures, why selected, the commands."""
    lines: list[str] = []
    if verdict.changes:
        lines.append(verdict.headline)
    if verdict.shared:
        lines.append(f"they share: {verdict.shared}")
    if verdict.failing:
        lines.extend(_smallest(verdict.failing[0]))
    lines.extend(_changes(verdict))
    lines.extend(verdict.notes)
    if affected is not None and verdict.verdict in (FAIL, WARN, ERROR):
        lines.extend(f"selected because: {reason}" for reason in reasons(affected)[:1])
    if verdict.reproduce:
        lines.append(f"reproduce: {verdict.reproduce}")
    if verdict.accept and verdict.verdict in (FAIL, WARN, NEW, BASELINE):
        lines.append(f"accept: {verdict.accept}")
    return lines


def _smallest(failing: Failing) -> list[str]:
    lines = [f"smallest: {failing.case}   {worst(failing.details) or failing.message}".rstrip()]
    place = device_place(failing.details)
    if place:
        lines.append(f"at: {place}")
    return lines


def worst(details: dict[str, Any]) -> str:
    """``worst at y[0, 128]: got 0.0, want 0.0322, allowed 2.0e-3``; empty where there is no such evidence."""
    found = details.get("worst")
    if not isinstance(found, dict):
        return ""
    index = ", ".join(str(i) for i in found.get("index", ()))
    digits = _digits(found.get("got"), found.get("want"))
    numbers = [
        f"{name} {_number(found[name], digits if name != 'allowed' else 4)}"
        for name in ("got", "want", "allowed")
        if found.get(name) is not None
    ]
    return f"worst at {found.get('output', 'output')}[{index}]: {', '.join(numbers)}"


def _digits(got: Any, want: Any) -> int:
    """As many digits as it takes to see that two numbers differ."""
    if isinstance(got, float) and isinstance(want, float):
        return next((digits for digits in (4, 6, 9) if f"{got:.{digits}g}" != f"{want:.{digits}g}"), 17)
    return 4


def device_place(details: dict[str, Any]) -> str:
    """``path:line`` of the device code, where the evidence has it."""
    place = details.get("line")
    return place if isinstance(place, str) else ""


def _number(value: Any, digits: int = 4) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _changes(verdict: Verdict) -> list[str]:
    """Each launch that moved on its own line, where more than one did."""
    from kgate.gate.judge import summarise

    by_label: dict[str, list[Any]] = {}
    for change in verdict.changes:
        by_label.setdefault(change.label, []).append(change)
    lines = []
    if len(by_label) > 1:
        for label, changes in list(by_label.items())[:SHOWN_CHANGES]:
            lines.append(f"{label}: {summarise(changes)}")
        if len(by_label) > SHOWN_CHANGES:
            lines.append(f"... and {len(by_label) - SHOWN_CHANGES} more launches")
    lines.extend(dict.fromkeys(change.note for change in verdict.changes if change.note))
    return lines


def reasons(affected: Affected) -> list[str]:
    """Why a kernel was selected, a sentence per path from the diff to it."""
    return [reason.sentence for reason in affected.reasons]


def finding(item: Finding) -> list[str]:
    """A static finding: its place and message, then the remedy."""
    lines = [f"{item.path}:{item.line}:{item.column}  {item.code}  {item.message}"]
    if item.remedy:
        lines.append(f"    {item.remedy}")
    return lines


def closing(report: Report) -> str:
    """One line: how many cases passed, failed, were remembered, did not run."""
    if not report.affected and not report.findings and not report.verdicts:
        return f"no kernel affected ({report.kernels} declared, {report.explanation})"
    parts = [f"{report.passed} passed", f"{report.failed} failed"]
    kinds = Counter(verdict.verdict for verdict in report.verdicts)
    for kind, words in ((WARN, "warning"), (NEW, "missing baseline line"), (BASELINE, "baseline problem")):
        if kinds[kind]:
            parts.append(plural(kinds[kind], words))
    errors = sum(1 for item in report.findings if item.severity == "error")
    if errors:
        parts.append(plural(errors, "error") + " in declarations")
    if report.remembered:
        parts.append(f"{report.remembered} of them remembered")
    if report.not_run:
        parts.append(f"{report.not_run} not run ({report.not_run_why})")
    parts.extend(f"{count} skipped ({why})" for why, count in sorted(report.skipped.items()))
    word = OUTCOMES.get(report.exit_code, "failed")
    return f"{word}: {', '.join(parts)}; {plural(len(report.affected), 'kernel')}, {report.seconds:.1f} s"


def plural(count: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def by_kernel(affected: Sequence[Affected]) -> dict[str, Affected]:
    """Affected kernels by identity."""
    return {item.kernel: item for item in affected}
