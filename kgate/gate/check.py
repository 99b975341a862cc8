"""``kgate check``: lint, affected, plan, measure, compare, verdict."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgate.baselines.measurements import write_pending
from kgate.baselines.memory import Memory
from kgate.baselines.records import OK, SKIPPED, Line, Measurement
from kgate.baselines.store import Baselines, Key, Problem, load, toolchain_text
from kgate.gate import records
from kgate.gate.judge import compare, exit_code, judge_cases, judge_figures
from kgate.gate.measure import Bench, Measured, measure
from kgate.gate.plan import Due, due_for, plan
from kgate.gate.progress import Progress
from kgate.gate.records import Report, Verdict
from kgate.gate.select import Selection, baseline_layout, find, select
from kgate.lint.run import findings_of
from kgate.source.git import export
from kgate.source.records import Declaration

SCHEMA = "kgate.report/1"


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
    selection = select(
        folder, base=options.base, head=options.head, staged=options.staged, kernels=options.kernels,
        everything=options.everything or bool(options.kernels),
    )  # fmt: skip
    _check_names(selection, options)
    run = _Run(selection, options, progress, deadline)
    return run.report(began)


def _check_names(selection: Selection, options: Options) -> None:
    from kgate.gate.errors import UsageError

    for target in options.targets:
        if target not in selection.config.probe_targets:
            known = ", ".join(selection.config.probe_targets)
            raise UsageError(f"{target!r} is not among the targets to compile for", f"configured: {known}")
    for name in options.kernels:
        find(selection.head, name)


class _Run:
    """One check, from a selection to a report."""

    def __init__(self, selection: Selection, options: Options, progress: Progress, deadline: float | None) -> None:
        self.selection, self.options, self.progress, self.deadline = selection, options, progress, deadline
        self.notes: list[str] = []
        self.declared = {item.identity: item for item in selection.head.declarations}

    def report(self, began: float) -> Report:
        selection = self.selection
        findings, notes = findings_of(selection.head, selection.config)
        self.notes += notes
        baselines = self._baselines()
        due = plan(
            selection.affected, selection.head, selection.base, selection.config,
            probes=self.options.probes, targets=self.options.targets,
        )  # fmt: skip
        measured = self._measure(due)
        self._leave_pending(measured)
        verdicts, problems = self._judge(due, measured, baselines)
        verdicts += self._problem_verdicts(problems)
        results = [found for _, found in measured.results]
        nothing_ran = bool(due) and measured.ran == 0
        code = exit_code(
            verdicts,
            static_errors=any(item.severity == "error" for item in findings),
            baseline_errors=bool(problems),
            infrastructure=bool(measured.infrastructure) or nothing_ran,
            undecided=self._undecided(due, measured),
        )
        if measured.infrastructure:
            self.notes.append(measured.infrastructure)
        elif nothing_ran:
            self.notes.append(f"{len(due)} cases were due and none ran: nothing was proved")
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
            not_run_why="" if not measured.not_run else measured.not_run_why,
            skipped=dict(skipped),
            notes=tuple(self._notes_of_head() + self.notes),
            seconds=round(time.monotonic() - began, 3),
            exit_code=130 if measured.interrupted and code != records.EXIT_FINDING else code,
        )

    def _notes_of_head(self) -> list[str]:
        head = self.selection.comparison.head
        notes = []
        if head.untracked:
            names = ", ".join(head.untracked[:3]) + (" ..." if len(head.untracked) > 3 else "")
            python = [path for path in head.untracked if path.endswith((".py", ".cu", ".cuh", ".h", ".json", ".jsonl"))]
            if python:
                notes.append(
                    f"{len(head.untracked)} untracked files were judged too, and no commit has them yet: {names}"
                )
        notes.extend(f"left out of the tree under test: {path}" for path in head.left_out[:3])
        notes.extend(f"{item.name} ({item.path}) is no longer declared" for item in self.selection.removed)
        return notes

    # Measuring --------------------------------------------------------------------------------------------

    def _bench(self, snapshot: object) -> Bench:
        selection = self.selection
        carry = [root.join(path) for root in selection.config.roots for path in root.carry]
        tree = export(snapshot, selection.state / "trees", carry)  # type: ignore[arg-type]
        top = selection.state.parent
        memory = None if self.options.no_memory else Memory(top)
        return Bench(selection.repository, selection.config, tree, selection.state, memory)

    def _measure(self, due: Sequence[Due]) -> Measured:
        if not due:
            return Measured()
        return measure(due, self._bench(self.selection.comparison.head), self.progress, deadline=self.deadline)

    def _leave_pending(self, measured: Measured) -> None:
        if self.options.pending is None:
            return
        head = self.selection.comparison.head
        found = [measurement for due, measurement in measured.results if due.has_line]
        write_pending(self.options.pending, found, {"tree": head.tree, "head": head.label})

    # Judging ----------------------------------------------------------------------------------------------

    def _judge(self, due: Sequence[Due], measured: Measured, baselines: Lines) -> tuple[list[Verdict], list[Problem]]:
        by_kernel: dict[tuple[str, str, str], list[tuple[Due, Measurement]]] = defaultdict(list)
        for one, found in measured.results:
            if found.status != SKIPPED:
                by_kernel[(one.declaration.identity, one.probe, found.target)].append((one, found))
        verdicts: list[Verdict] = []
        for (identity, probe, _), group in sorted(by_kernel.items()):
            sizes = self.selection.head.closure(identity).block_sizes
            pairs = [(one.case, found) for one, found in group]
            verdicts += judge_cases(self.declared[identity], probe, pairs, sizes)
        figured = [(one, found) for one, found in measured.results if found.status == OK and one.has_line]
        bases = self._base_figures(figured, baselines)
        for one, found in figured:
            verdict = self._judge_figures(one, found, baselines, bases)
            if verdict is not None:
                verdicts.append(verdict)
        problems = baselines.problems_of([one for one in due if one.has_line], self.declared, self.selection)
        return verdicts, problems

    def _judge_figures(
        self, due: Due, found: Measurement, baselines: Lines, bases: dict[Key, Measurement]
    ) -> Verdict | None:
        line = baselines.line(due.key)
        if line is None and baselines.has_problem(due.key):
            return None  # the line is there and cannot be used: that is said once, as a problem of its file
        if line is not None and self._other_toolchain(line, found) and due.key not in bases:
            return None  # nothing in the code differs, so that what moved is the toolchain's
        return judge_figures(due.declaration, due.case, compare(found, line, bases.get(due.key)))

    def _other_toolchain(self, line: Line, found: Measurement) -> bool:
        return bool(line.toolchain) and line.toolchain != toolchain_text(found.toolchain)

    def _base_figures(self, figured: Sequence[tuple[Due, Measurement]], baselines: Lines) -> dict[Key, Measurement]:
        """Base measured with the toolchain at hand, for the lines that another toolchain measured."""
        drifted: list[tuple[Due, Line, Measurement]] = []
        for one, found in figured:
            line = baselines.line(one.key)
            if line is not None and self._other_toolchain(line, found):
                drifted.append((one, line, found))
        if not drifted:
            return {}
        first = drifted[0]
        self.notes.append(
            f"{len(drifted)} baseline lines were measured with {first[1].toolchain}, and here is "
            f"{toolchain_text(first[2].toolchain)}: base and head are compared instead, both with what is here"
        )
        moved = sum(1 for _, line, found in drifted if line.figures != found.figures)
        if moved:
            self.notes.append(f"{moved} of them have other figures here; the toolchain alone is no failure")
        return self._measure_base([one for one, _, _ in drifted])

    def _measure_base(self, due: Sequence[Due]) -> dict[Key, Measurement]:
        base, index = self.selection.comparison.base, self.selection.base
        if base is None or index is None:
            return {}
        before = {item.identity: item for item in index.declarations}
        wanted: dict[tuple[str, str, str, str], Due] = {}
        for one in due:
            identity = self._was(one.declaration.identity)
            declaration = before.get(identity)
            if declaration is None or index.closure(identity).fingerprint.code == one.code:
                continue
            prints = index.closure(identity).fingerprint
            wanted[(identity, one.case.id, one.probe, one.target)] = replace(
                one, declaration=declaration, case=replace(one.case, kernel=identity), code=prints.code,
                oracle=prints.oracle if one.oracle else "",
            )  # fmt: skip
        found = measure(
            list(wanted.values()),
            self._bench(base),
            self.progress,
            deadline=self.deadline,
            phase="measuring base",
        )
        keys = {(self._was(one.declaration.identity), one.case.id, one.probe, one.target): one.key for one in due}
        return {
            keys[(one.declaration.identity, one.case.id, one.probe, one.target)]: measurement
            for one, measurement in found.results
            if measurement.status == OK
        }

    def _was(self, identity: str) -> str:
        return self.selection.renamed.get(identity, identity)

    def _baselines(self) -> Lines:
        return Lines(self.selection, narrowed=bool(self.options.kernels))

    def _problem_verdicts(self, problems: Sequence[Problem]) -> list[Verdict]:
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


class Lines:
    """The baseline lines of a selection, root by root; renamed kernels are followed to their old file."""

    def __init__(self, selection: Selection, *, narrowed: bool = False) -> None:
        self.renamed = selection.renamed
        kernels = {item.kernel for item in selection.affected}
        kernels |= set() if narrowed else {item.kernel for item in selection.removed}
        renamed = {new: old for new, old in self.renamed.items() if not narrowed or new in kernels}
        kernels |= set(renamed) | set(renamed.values())
        self.loaded: list[Baselines] = []
        whole = bool(selection.everything) and not narrowed
        if not kernels and not whole:
            return
        head = selection.comparison.head
        for root in selection.config.roots:
            wanted = None if whole else kernels
            self.loaded.append(load(head, baseline_layout(root), kernels=wanted))

    def line(self, key: Key) -> Line | None:
        """The usable line for a key, under the kernel's own or its former name."""
        for candidate in self._keys(key):
            for baselines in self.loaded:
                found = baselines.line(candidate)
                if found is not None:
                    return found
        return None

    def has_problem(self, key: Key) -> bool:
        """Whether a line for a key is there and cannot be used, or its whole file cannot."""
        return any(
            problem.key == key or (problem.key is None and (problem.kernel, problem.target) == (key.kernel, key.target))
            for baselines in self.loaded
            for problem in baselines.problems
        )

    def _keys(self, key: Key) -> Iterable[Key]:
        yield key
        if key.kernel in self.renamed:
            yield key._replace(kernel=self.renamed[key.kernel])

    def problems_of(self, due: Sequence[Due], declared: dict[str, Declaration], selection: Selection) -> list[Problem]:
        """What is wrong with the files of the affected kernels, and lines that no declaration asks for any more."""
        kernels = {item.kernel for item in selection.affected}
        found: list[Problem] = []
        for baselines in self.loaded:
            found += baselines.problems_of(kernels)
            found += _obsolete(baselines, declared, selection)
        return list(dict.fromkeys(found))


def _obsolete(baselines: Baselines, declared: dict[str, Declaration], selection: Selection) -> list[Problem]:
    problems = []
    expected: dict[str, set[tuple[str, str]]] = {}
    for path, file in sorted(baselines.files.items()):
        if file.kernel not in declared:
            now = next((new for new, old in selection.renamed.items() if old == file.kernel), "")
            if now:
                remedy = f"run: kgate bless {declared[now].name}"
                message = f"stands under the kernel's former name; it is {now} now"
            else:
                message, remedy = f"is obsolete: {file.kernel} is not declared", "run: kgate bless"
            problems.append(Problem("baseline-obsolete", path, 0, message, remedy, file.kernel, file.target))
            continue
        if file.kernel not in expected:
            expected[file.kernel] = {(key.case, key.probe) for key in line_keys(declared[file.kernel], selection)}
        for record in file.records:
            if record.key and (record.key.case, record.key.probe) not in expected[file.kernel]:
                problems.append(
                    Problem(
                        "baseline-obsolete", path, record.number,
                        f"{record.key.probe} line for {record.key.case} is obsolete: no workload asks for it",
                        f"run: kgate bless {declared[file.kernel].name}", file.kernel, file.target, record.key,
                    )
                )  # fmt: skip
    return problems


def line_keys(declaration: Declaration, selection: Selection) -> set[Key]:
    """The lines that a declaration asks for: its workloads, on every configured target."""
    due = due_for(declaration, selection.head, selection.config)
    return {one.key for one in due if one.has_line}
