"""From measurements and baseline lines to verdicts and an exit code."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence

from kgate.baselines.accuracy_rules import compare_accuracy
from kgate.baselines.codegen_rules import compare_codegen
from kgate.baselines.records import OK, Change, Comparison, Line, Measurement
from kgate.cases.records import FALLBACK, KERNEL, Case
from kgate.gate import records
from kgate.gate.explain import shared_by
from kgate.gate.records import Failing, Verdict
from kgate.source.records import Declaration

SAYS = {
    "wrong": ("is wrong", "are wrong"),
    "out-of-bounds": ("accesses memory out of bounds", "access memory out of bounds"),
    "unwritten": ("leaves part of an output unwritten", "leave part of an output unwritten"),
    "overflow": ("overflows int32", "overflow int32"),
    "crash": ("crashes", "crash"),
    "hang": ("hangs", "hang"),
    "error": ("raises", "raise"),
    "dispatch": ("reaches the wrong path", "reach the wrong path"),
    "refused": ("is refused by the compiler", "are refused by the compiler"),
    "cannot-launch": ("cannot launch", "cannot launch"),
}
"""How a status is said of one case, and of several."""


def compare(measurement: Measurement, line: Line | None, base: Measurement | None) -> Comparison:
    """Put a measurement beside its line, or, where the line is another toolchain's, beside base's measurement."""
    if base is not None:
        old, against = base.figures, "base"
    elif line is not None:
        old, against = line.figures, "baseline"
    else:
        return Comparison(measurement, None)
    rules = compare_codegen if measurement.probe == "codegen" else compare_accuracy
    return Comparison(measurement, line, tuple(rules(old, measurement.figures)), against)


def judge_cases(
    declaration: Declaration,
    probe: str,
    measured: Sequence[tuple[Case, Measurement]],
    block_sizes: Iterable[int],
) -> list[Verdict]:
    """One verdict per way of failing of one kernel under one probe, on one target, or one pass.

    ``measured`` are the cases with what was found, skipped ones left out. Cases that the kernel serves and cases that
    the fallback serves are judged apart: what one of them has in common says nothing of the other.
    """
    sizes = tuple(block_sizes)
    verdicts = [
        verdict
        for expect in (KERNEL, FALLBACK)
        for verdict in _failing_of(declaration, probe, [pair for pair in measured if pair[0].expect == expect], sizes)
    ]
    if verdicts or not measured:
        return verdicts
    target = measured[0][1].target if probe == "codegen" else ""
    return [_verdict(declaration, probe, target, records.PASS, _passed(len(measured)), cases=len(measured))]


def _passed(count: int) -> str:
    return "1 case passes" if count == 1 else f"{count} cases pass"


def _failing_of(
    declaration: Declaration, probe: str, measured: Sequence[tuple[Case, Measurement]], sizes: tuple[int, ...]
) -> list[Verdict]:
    failing: dict[str, list[tuple[Case, Measurement]]] = defaultdict(list)
    for case, measurement in measured:
        if measurement.status != OK:
            failing[measurement.status].append((case, measurement))
    passing = [case for case, measurement in measured if measurement.status == OK]
    verdicts = []
    for status, group in sorted(failing.items()):
        group.sort(key=lambda pair: _size(pair[0]))
        smallest = group[0][0]
        target = group[0][1].target if probe == "codegen" else ""
        shared = shared_by([case for case, _ in group], passing, sizes)
        verdicts.append(
            _verdict(
                declaration, probe, target, records.FAIL, _told(status, group, measured),
                cases=len(measured),
                failing=tuple(_failing(case, measurement) for case, measurement in group),
                shared=str(shared) if shared else _all_of(group, measured),
                reproduce=_run(declaration, smallest.id, target),
            )
        )  # fmt: skip
    return verdicts


def _told(status: str, group: Sequence[tuple[Case, Measurement]], measured: Sequence[object]) -> str:
    """``6 of 48 cases are wrong``; of cases that the fallback serves it says so."""
    verb = SAYS.get(status, (status, status))[len(group) > 1]
    outside = group[0][0].expect == FALLBACK
    return f"{len(group)} of {len(measured)} cases {'that the fallback serves ' if outside else ''}{verb}"


def _all_of(group: Sequence[tuple[Case, Measurement]], measured: Sequence[object]) -> str:
    if len(group) < len(measured) or len(group) == 1:
        return ""
    return f"every case that the {group[0][0].expect} serves"


def unmeasurable(declaration: Declaration, case: Case, measurement: Measurement) -> Verdict:
    """The verdict on a case that has a committed line and can no longer be measured."""
    target = measurement.target if measurement.probe == "codegen" else ""
    return _verdict(
        declaration, measurement.probe, target, records.INCONCLUSIVE,
        f"it has a baseline line, and can no longer be measured: {measurement.message}",
        cases=1, case=case.id, reproduce=_run(declaration, case.id, target),
    )  # fmt: skip


def judge_figures(
    declaration: Declaration, case: Case, comparison: Comparison, notes: tuple[str, ...] = ()
) -> Verdict | None:
    """The verdict on one case's figures: fail, warn, new, or pass; None where there is nothing to compare."""
    measurement = comparison.measurement
    target = measurement.target if measurement.probe == "codegen" else ""
    accept = _bless(declaration, case.id, reason=True)
    if comparison.line is None and comparison.against == "baseline":
        return _verdict(
            declaration, measurement.probe, target, records.NEW, "no baseline line yet",
            cases=1, case=case.id, accept=_bless(declaration, case.id, reason=False),
        )  # fmt: skip
    severities = {change.severity for change in comparison.changes}
    verdict, accept = records.PASS, accept
    if "regression" in severities:
        verdict = records.FAIL
    elif "warning" in severities:
        verdict = records.WARN
    else:
        accept = _bless(declaration, case.id, reason=False) if "improvement" in severities else ""
    told = [change for change in comparison.changes if change.severity != "neutral"]
    told.sort(key=lambda change: ("regression", "warning", "improvement").index(change.severity))
    return _verdict(
        declaration, measurement.probe, target, verdict, summarise(told) if told else "unchanged",
        cases=1, case=case.id, changes=tuple(told), against=comparison.against, notes=notes, accept=accept,
        reproduce=_run(declaration, case.id, target) if verdict == records.FAIL else "",
    )  # fmt: skip


def summarise(changes: Sequence[Change]) -> str:
    """``spills 0 -> 48 B, registers 168 -> 255``: each figure once, the worst launch's numbers."""
    seen: dict[str, Change] = {}
    for change in changes:
        seen.setdefault(change.figure, change)
    return ", ".join(describe(change) for change in seen.values())


_UNITS = {
    "spill_bytes": " B",
    "stack_bytes": " B",
    "shared_bytes": " B",
    "scratch_bytes": " B",
    "lds_bytes": " B",
}
_LABELS = {"spill_bytes": "spills", "stack_bytes": "stack", "shared_bytes": "shared memory"}


def describe(change: Change) -> str:
    """One figure, old and new, in words."""
    name = _LABELS.get(change.figure, change.figure.replace("_", " "))
    unit = _UNITS.get(change.figure, "")
    return f"{name} {_value(change.old, change.figure)} -> {_value(change.new, change.figure)}{unit}"


def _value(value: object, figure: str) -> str:
    if value is None:
        return "none"
    if figure == "occupancy" and isinstance(value, (int, float)):
        return f"{100 * value:g}%"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def exit_code(
    verdicts: Iterable[Verdict],
    *,
    static_errors: bool,
    baseline_errors: bool,
    infrastructure: bool,
    undecided: bool,
) -> int:
    """Exit code of a run; where several hold: 1, then 4, 2, 3."""
    kinds = {verdict.verdict for verdict in verdicts}
    if static_errors or records.FAIL in kinds:
        return records.EXIT_FINDING
    if infrastructure or records.ERROR in kinds:
        return records.EXIT_INFRASTRUCTURE
    if baseline_errors or records.NEW in kinds or records.BASELINE in kinds:
        return records.EXIT_USAGE
    if undecided or records.INCONCLUSIVE in kinds:
        return records.EXIT_UNDECIDED
    return records.EXIT_OK


def _failing(case: Case, measurement: Measurement) -> Failing:
    return Failing(case.id, measurement.status, measurement.message, dict(measurement.details))


def _size(case: Case) -> tuple[int, int, int, str]:
    """Order by how small a case is: fewer deviations from plain first, then fewer elements."""
    elements = 1
    for size in case.dims.values():
        elements *= max(size, 1)
    plain = len(case.layouts) + len(case.absent) + (case.values != "normal")
    return (min(plain, 1), elements, plain, case.id)


def _verdict(declaration: Declaration, probe: str, target: str, verdict: str, headline: str, **more: object) -> Verdict:
    return Verdict(
        kernel=declaration.identity,
        name=declaration.name,
        path=declaration.path,
        line=declaration.line,
        probe=probe,
        target=target,
        verdict=verdict,
        headline=headline,
        **more,  # type: ignore[arg-type]
    )


def _run(declaration: Declaration, case: str, target: str) -> str:
    suffix = f" --target {target}" if target else ""
    return f"kgate run {shlex.quote(declaration.name)} -k {shlex.quote(case)}{suffix}"


def _bless(declaration: Declaration, case: str, *, reason: bool) -> str:
    suffix = " --reason '...'" if reason else ""
    return f"kgate bless {shlex.quote(declaration.name)} -k {shlex.quote(case)}{suffix}"
