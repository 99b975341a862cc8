"""Cases, and what running them by hand found."""

from __future__ import annotations

from typing import IO, Any

from kgate.baselines.records import OK, SKIPPED, Measurement
from kgate.gate.run import CaseList, RunOutcome
from kgate.report.text import device_place, plural, worst


def render_cases(found: CaseList, stream: IO[str], *, as_json: bool) -> None:
    """One line per case: id, the path that must serve it, what it is there to try."""
    if as_json:
        _write_json(found, stream)
        return
    width = min(max((len(case.id) for case in found.cases), default=0), 60)
    for case in found.cases:
        path = f"  -> {case.expect} ({case.reason})" if case.reason else ""
        stream.write(f"{case.id:<{width}}  {case.origin:<8}  {case.purpose}{path}\n")
    stream.write(f"{plural(len(found.cases), 'case')} of {found.kernel}\n")


def render_measurements(outcome: RunOutcome, stream: IO[str], *, as_json: bool) -> None:
    """Each case with what was found; a failing one with got, want and allowed at its worst element."""
    if as_json:
        _write_json(outcome, stream)
        return
    for item in outcome.measurements:
        mark = "ok" if item.status == OK else item.status
        stream.write(f"{mark:<14} {item.case}\n")
        for line in _details(item, outcome, alone=len(outcome.measurements) == 1):
            stream.write(f"    {line}\n")
    if outcome.shared:
        stream.write(f"failing cases share: {outcome.shared}\n")
    if outcome.problem:
        stream.write(f"not all of it ran: {outcome.problem}\n")
    passed = sum(1 for item in outcome.measurements if item.status == OK)
    skipped = sum(1 for item in outcome.measurements if item.status == SKIPPED)
    failed = len(outcome.measurements) - passed - skipped
    stream.write(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "") + "\n")


def _details(item: Measurement, outcome: RunOutcome, *, alone: bool) -> list[str]:
    lines = []
    if alone and item.case in outcome.outside:
        lines.append(f"outside the envelope ({outcome.outside[item.case]}): the fallback serves it")
    if alone and outcome.purposes.get(item.case):
        lines.append(f"tries: {outcome.purposes[item.case]}")
    if item.message and (item.status != OK or alone):
        lines.append(item.message)
    found = worst(item.details)
    if found and (item.status != OK or alone):
        lines.append(found)
    place = device_place(item.details)
    if place:
        lines.append(f"at: {place}")
    if item.status not in (OK, SKIPPED) and alone and item.details.get("log"):
        lines.extend("| " + line for line in str(item.details["log"]).splitlines()[-20:])
    if alone:
        for label, figures in item.figures.items():
            kept = {name: value for name, value in figures.items() if value or name == "spill_bytes"}
            told = ", ".join(f"{name.replace('_', ' ')} {_figure(value)}" for name, value in kept.items())
            lines.append(f"{label}: {told}")
    return lines


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _write_json(found: Any, stream: IO[str]) -> None:
    import msgspec

    stream.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
