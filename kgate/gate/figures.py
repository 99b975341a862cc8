"""Judging figures: against the committed line, or, where another toolchain measured that, base against head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kgate.baselines.records import OK, SKIPPED, Line, Measurement
from kgate.baselines.store import Key, toolchain_text
from kgate.gate.judge import compare, judge_figures, unmeasurable
from kgate.gate.lines import Lines
from kgate.gate.measure import Measured
from kgate.gate.plan import Due
from kgate.gate.records import Verdict
from kgate.gate.select import Selection
from kgate.source.records import Declaration

MeasureBase = Callable[[Sequence[Due]], Measured]
"""Measures cases of base, in base's tree, with the toolchain at hand."""


class Figures:
    """The figures of one run beside the lines that they are compared with."""

    def __init__(self, selection: Selection, lines: Lines, declared: Mapping[str, Declaration]) -> None:
        self.selection, self.lines, self.declared = selection, lines, declared
        self.notes: list[str] = []

    def verdicts(self, results: Sequence[tuple[Due, Measurement]], measure_base: MeasureBase) -> list[Verdict]:
        """A verdict for every figure that a line is due for."""
        figured = [(one, found) for one, found in results if one.has_line and found.status == OK]
        bases = self._base(figured, measure_base)
        verdicts = [self._judge(one, found, bases) for one, found in figured]
        lost = [(one, found) for one, found in results if one.has_line and found.status == SKIPPED]
        verdicts += [
            unmeasurable(self.declared[one.declaration.identity], one.case, found)
            for one, found in lost
            if self.lines.line(one.key) is not None
        ]
        return [verdict for verdict in verdicts if verdict is not None]

    def _judge(self, due: Due, found: Measurement, bases: Mapping[Key, Measurement]) -> Verdict | None:
        line = self.lines.line(due.key)
        if line is None and self.lines.has_problem(due.key):
            return None  # the line is there and cannot be used: that is said once, as a problem of its file
        if line is not None and _other_toolchain(line, found) and due.key not in bases:
            return None  # nothing in the code differs, so that what moved is the toolchain's
        declaration = self.declared[due.declaration.identity]
        return judge_figures(declaration, due.case, compare(found, line, bases.get(due.key)))

    def _base(self, figured: Sequence[tuple[Due, Measurement]], measure_base: MeasureBase) -> dict[Key, Measurement]:
        """Base measured with the toolchain at hand, for the lines that another toolchain measured."""
        drifted: list[tuple[Due, Line, Measurement]] = []
        for one, found in figured:
            line = self.lines.line(one.key)
            if line is not None and _other_toolchain(line, found):
                drifted.append((one, line, found))
        if not drifted:
            return {}
        self._tell_drift(drifted)
        wanted = {_key(old): one.key for one, _, _ in drifted for old in [self._at_base(one)] if old is not None}
        due = [old for one, _, _ in drifted for old in [self._at_base(one)] if old is not None]
        measured = measure_base(due) if due else Measured()
        return {wanted[_key(one)]: found for one, found in measured.results if found.status == OK}

    def _tell_drift(self, drifted: Sequence[tuple[Due, Line, Measurement]]) -> None:
        _, line, found = drifted[0]
        self.notes.append(
            f"{len(drifted)} baseline lines were measured with {line.toolchain}, and here is "
            f"{toolchain_text(found.toolchain)}: base and head are compared instead, both with what is here"
        )
        moved = sum(1 for _, line, found in drifted if line.figures != found.figures)
        if moved:
            self.notes.append(f"{moved} of them have other figures here; the toolchain alone is no failure")

    def _at_base(self, due: Due) -> Due | None:
        """The same case of the kernel as base has it; None where base has none, or the same code."""
        index = self.selection.base
        if index is None:
            return None
        identity = self.selection.renamed.get(due.declaration.identity, due.declaration.identity)
        declaration = next((item for item in index.declarations if item.identity == identity), None)
        if declaration is None:
            return None
        prints = index.closure(identity).fingerprint
        if prints.code == due.code:
            return None
        case = replace(due.case, kernel=identity)
        oracle = prints.oracle if due.oracle else ""
        return replace(due, declaration=declaration, case=case, code=prints.code, oracle=oracle)


def _other_toolchain(line: Line, found: Measurement) -> bool:
    return bool(line.toolchain) and line.toolchain != toolchain_text(found.toolchain)


def _key(due: Due) -> tuple[str, str, str, str]:
    return (due.declaration.identity, due.case.id, due.probe, due.target)
