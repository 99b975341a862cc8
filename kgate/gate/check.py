"""``kgate check``: lint, affected, plan, measure, compare, verdict."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.baselines.measurements import write_pending
from kgate.baselines.records import OK, SKIPPED, Measurement
from kgate.baselines.store import Problem
from kgate.cases.deriving import unreached
from kgate.cases.records import KERNEL
from kgate.gate import records
from kgate.gate.errors import UsageError
from kgate.gate.figures import Figures
from kgate.gate.judge import exit_code, judge_cases
from kgate.gate.lines import Lines
from kgate.gate.measure import Bench, Measured, bench_for, measure
from kgate.gate.plan import ACCURACY, Due, cases_of, compile_targets, due_for, plan
from kgate.gate.progress import Progress
from kgate.gate.records import Report, Verdict
from kgate.gate.select import Selection, declarations_of, find, select
from kgate.lint.run import contract_findings
from kgate.source.git import Snapshot
from kgate.source.records import Finding

SCHEMA = "kgate.report/1"
SOURCES = (".py", ".cu", ".cuh", ".h", ".json", ".jsonl", ".toml")


@dataclass(frozen=True)
class Options:
    """What the user asked of a check."""

    base: str | None = None
    head: str | None = None
    staged: bool = False
    kernels: tuple[str, ...] = ()
    everything: bool = False
    budget: float | None = None
    """Seconds; None for no limit."""
    probes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    no_memory: bool = False
    pending: Path | None = None


def check(folder: Path, options: Options, progress: Progress) -> Report:
    """Judge the kernels that a diff can have changed.

    Raises what :func:`~kgate.gate.select.select` raises; everything that goes wrong with a kernel is in the report.
    """
    began = time.monotonic()
    deadline = None if options.budget is None else began + options.budget
    progress.phase("reading code")
    selection = select(
        folder, base=options.base, head=options.head, staged=options.staged, kernels=options.kernels,
        everything=options.everything or bool(options.kernels),
    )  # fmt: skip
    _check_names(selection, options)
    return _Run(selection, options, progress, deadline).report(began)


def _check_names(selection: Selection, options: Options) -> None:
    for target in options.targets:
        if target not in selection.config.probe_targets:
            known = ", ".join(selection.config.probe_targets)
            raise UsageError(f"{target!r} is not among the targets to compile for", f"configured: {known}")
    for name in options.kernels:
        find(selection, name)


class _Run:
    """One check, from a selection to a report."""

    def __init__(self, selection: Selection, options: Options, progress: Progress, deadline: float | None) -> None:
        self.selection, self.options, self.progress, self.deadline = selection, options, progress, deadline
        self.declared = declarations_of(selection.head)
        self.notes = self._notes_of_head()

    def report(self, began: float) -> Report:
        selection = self.selection
        findings, notes = contract_findings(selection.head, selection.config, changed=selection.changed)
        self.notes += notes
        due = plan(
            selection.affected, selection.head, selection.base, selection.config,
            probes=self.options.probes, targets=self.options.targets,
        )  # fmt: skip
        findings += self._unsatisfiable(due)
        measured = self._measure(due)
        self._leave_pending(measured)
        lines = Lines(selection, narrowed=bool(self.options.kernels))
        problems = lines.problems(self.declared)
        verdicts = [*self._judge(measured), *self._figures(measured, lines), *self._of_problems(problems)]
        nothing_ran = self._ran_nothing(due, measured)
        code = exit_code(
            verdicts,
            static_errors=any(item.severity == "error" for item in findings),
            baseline_errors=bool(problems),
            infrastructure=bool(measured.infrastructure) or nothing_ran,
            undecided=self._undecided(due, measured),
        )
        return self._assemble(findings, verdicts, measured, code, time.monotonic() - began)

    def _assemble(
        self, findings: Sequence[Finding], verdicts: Sequence[Verdict], measured: Measured, code: int, seconds: float
    ) -> Report:
        selection = self.selection
        results = [found for _, found in measured.results]
        skipped: dict[str, int] = defaultdict(int)
        for found in results:
            if found.status == SKIPPED:
                skipped[found.message or "cannot be judged here"] += 1
        failed = _failed(verdicts, results)
        base = selection.comparison.base
        return Report(
            schema=SCHEMA,
            base=base.label if base else "nothing",
            head=selection.comparison.head.label,
            explanation=selection.comparison.explanation,
            findings=tuple(findings),
            affected=selection.affected,
            verdicts=tuple(verdicts),
            kernels=len(selection.head.declarations),
            passed=sum(1 for found in results if found.status != SKIPPED) - len(failed),
            failed=len(failed),
            remembered=measured.remembered,
            not_run=len(measured.not_run),
            not_run_why=measured.not_run_why if measured.not_run else "",
            skipped=dict(skipped),
            notes=tuple(self.notes),
            seconds=round(seconds, 3),
            exit_code=130 if measured.interrupted and code != records.EXIT_FINDING else code,
        )

    def _notes_of_head(self) -> list[str]:
        head = self.selection.comparison.head
        notes = []
        untracked = [path for path in head.untracked if path.endswith(SOURCES)]
        if untracked:
            names = ", ".join(untracked[:3]) + (" ..." if len(untracked) > 3 else "")
            were = "untracked file was" if len(untracked) == 1 else "untracked files were"
            notes.append(f"{len(untracked)} {were} judged too, and no commit has them yet: {names}")
        notes.extend(f"left out of the tree under test: {path}" for path in head.left_out[:3])
        notes.extend(f"{item.name} ({item.path}) is no longer declared" for item in self.selection.removed)
        notes.extend(self._never_compiled())
        notes.extend(self._never_reached())
        return notes

    def _never_reached(self) -> list[str]:
        """Tensors so large in the envelope that no case goes there: what is not proved is said."""
        notes = []
        for item in self.selection.affected:
            declaration = self.declared[item.kernel]
            if {"code", "new"} & set(item.moved):
                names = unreached(declaration, cases_of(declaration, self.selection.head))
                if names:
                    what = f"{' and '.join(names)} may hold more than 2^31 elements, and no case goes there"
                    notes.append(f"{declaration.name}: {what}: int32 offsets are unproven")
        return notes

    def _never_compiled(self) -> list[str]:
        """Kernels whose compiled code nothing looks at: the reader must not take silence for proof."""
        notes = []
        for item in self.selection.affected:
            declaration = self.declared[item.kernel]
            if not declaration.workloads:
                notes.append(f"{declaration.name} declares no workloads: its compiled code is not judged")
            elif not compile_targets(declaration, self.selection.config):
                why = "none of its targets is in probe-targets"
                notes.append(f"{declaration.name}: {why}: its compiled code is not judged")
        return notes

    # Measuring --------------------------------------------------------------------------------------------

    def _bench(self, snapshot: Snapshot) -> Bench:
        return bench_for(self.selection, snapshot, remember=not self.options.no_memory)

    def _measure(self, due: Sequence[Due]) -> Measured:
        if not due:
            return Measured()
        return measure(due, self._bench(self.selection.comparison.head), self.progress, deadline=self.deadline)

    def _measure_base(self, due: Sequence[Due]) -> Measured:
        base = self.selection.comparison.base
        assert base is not None  # a case of base is due only where there is a base
        return measure(due, self._bench(base), self.progress, deadline=self.deadline, phase="measuring base")

    def _leave_pending(self, measured: Measured) -> None:
        if self.options.pending is not None:
            head = self.selection.comparison.head
            found = [measurement for _, measurement in measured.results]
            write_pending(self.options.pending, found, {"tree": head.tree, "head": head.label})

    # Judging ----------------------------------------------------------------------------------------------

    def _judge(self, measured: Measured) -> list[Verdict]:
        groups: dict[tuple[str, str, str], list[tuple[Due, Measurement]]] = defaultdict(list)
        for one, found in measured.results:
            if found.status != SKIPPED:
                groups[(one.declaration.identity, one.probe, found.target)].append((one, found))
        verdicts: list[Verdict] = []
        for (identity, probe, _), group in sorted(groups.items()):
            sizes = self.selection.head.closure(identity).block_sizes
            verdicts += judge_cases(self.declared[identity], probe, [(one.case, found) for one, found in group], sizes)
        return verdicts

    def _figures(self, measured: Measured, lines: Lines) -> list[Verdict]:
        figures = Figures(self.selection, lines, self.declared)
        verdicts = figures.verdicts(measured.results, self._measure_base)
        self.notes += figures.notes
        return verdicts

    def _of_problems(self, problems: Sequence[Problem]) -> list[Verdict]:
        verdicts = []
        for problem in problems:
            declaration = self.declared.get(problem.kernel)
            name = declaration.name if declaration else problem.kernel.rpartition("::")[2]
            verdicts.append(
                Verdict(
                    kernel=problem.kernel, name=name, path=problem.path, line=max(problem.line, 1), probe="baseline",
                    target=problem.target, verdict=records.BASELINE, headline=problem.message, notes=(problem.remedy,),
                )
            )  # fmt: skip
        return verdicts

    def _unsatisfiable(self, due: Sequence[Due]) -> list[Finding]:
        """Kernels for which no case could be made that they would serve: their envelope admits nothing."""
        served = {one.declaration.identity for one in due if one.case.expect == KERNEL}
        tried = {one.declaration.identity for one in due if one.probe == ACCURACY} - served
        moved = {item.kernel for item in self.selection.affected if set(item.moved) & {"code", "new"}}
        message = "no case could be made that the kernel would serve: its envelope admits nothing"
        remedy = "look at its ranges and where-conditions together; `kgate cases` lists what was tried"
        return [
            Finding(
                "KG111", "error", found.path, found.line, found.column, found.line, found.column,
                f"{found.name}: {message}", remedy, found.identity, "empty-envelope",
            )
            for found in (self.declared[identity] for identity in sorted(tried & moved))
        ]  # fmt: skip

    def _ran_nothing(self, due: Sequence[Due], measured: Measured) -> bool:
        """Whether something should have been proved and nothing was; says so."""
        everything = self.options.everything and not self.declared
        asked = bool(self.options.probes) and bool(self.selection.affected) and not due and not self._any_case()
        if everything:
            self.notes.append("no kernel is declared in this tree: nothing was proved")
        elif asked:
            probes = " and ".join(self.options.probes)
            self.notes.append(f"the affected kernels have no case for {probes}: nothing was proved")
        elif due and measured.ran == 0 and not measured.infrastructure:
            self.notes.append(f"{len(due)} cases were due and none ran: nothing was proved")
        elif measured.infrastructure:
            self.notes.append(measured.infrastructure)
        return everything or asked or (bool(due) and measured.ran == 0)

    def _any_case(self) -> bool:
        """Whether an affected kernel has a case for the probes asked for, due or not."""
        selection, probes = self.selection, self.options.probes
        return any(
            one.probe in probes
            for item in selection.affected
            for one in due_for(self.declared[item.kernel], selection.head, selection.config, self.options.targets)
        )

    def _undecided(self, due: Sequence[Due], measured: Measured) -> bool:
        """Whether the budget left a kernel without a single result."""
        judged = {one.declaration.identity for one, _ in measured.results}
        return any(one.declaration.identity not in judged for one in due)


def _failed(verdicts: Sequence[Verdict], results: Sequence[Measurement]) -> set[tuple[str, str, str, str]]:
    """The cases that failed, whether by what happened or by their figures."""
    failed = {
        (found.kernel, found.probe, found.target, found.case) for found in results if found.status not in (OK, SKIPPED)
    }
    for verdict in verdicts:
        if verdict.verdict == records.FAIL and verdict.case:
            failed.add((verdict.kernel, verdict.probe, verdict.target or "interpreter", verdict.case))
    return failed
