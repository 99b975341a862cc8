"""``kgate bless``: measure workloads in the working folder and accept the figures as the baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.baselines import bless as store
from kgate.baselines import journal
from kgate.baselines.bless import BlessChange, BlessPlan, BlessRefused
from kgate.baselines.measurements import read_pending
from kgate.baselines.memory import Memory
from kgate.baselines.records import Change, Line, Measurement
from kgate.baselines.store import Key, Problem, load
from kgate.gate import records
from kgate.gate.errors import UsageError
from kgate.gate.judge import compare
from kgate.gate.measure import Bench, Measured, measure
from kgate.gate.plan import Due, due_for
from kgate.gate.progress import Progress
from kgate.gate.select import Selection, baseline_layout, find, select
from kgate.source.config import Root
from kgate.source.git import Repository, export, in_ci


@dataclass(frozen=True)
class BlessOptions:
    """What the user asked of a bless."""

    kernels: tuple[str, ...] = ()
    everything: bool = False
    case: str | None = None
    targets: tuple[str, ...] = ()
    reason: str | None = None
    pending: Path | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class BlessOutcome:
    """What a bless did, or would do."""

    changes: tuple[BlessChange, ...]
    """Lines that change, old against new."""
    dropped: tuple[Problem, ...]
    """Lines that nobody could read, which go."""
    written: tuple[str, ...]
    """Files written, relative to the repository's root; none where it was refused or a dry run."""
    refusals: tuple[str, ...]
    """Why nothing was written; empty where it was."""
    unchanged: int
    """Lines measured that already say so."""
    exit_code: int
    dry_run: bool = False
    schema: str = "kgate.bless/1"


def bless(folder: Path, options: BlessOptions, progress: Progress) -> BlessOutcome:
    """Measure what is chosen, plan, and write all of the chosen lines or none.

    Raises UsageError for a kernel, case or target that does not exist; whatever stands against blessing is in
    the outcome's ``refusals``.
    """
    if in_ci(os.environ) and not options.dry_run:
        refusal = "this is CI, where nobody looks at a baseline; run kgate check --pending DIR here, bless at home"
        return BlessOutcome((), (), (), (refusal,), 0, records.EXIT_USAGE)
    if not options.dry_run:
        journal.recover(Repository(folder).toplevel)  # what a killed bless had decided is finished first
    selection = select(folder, everything=True)
    if selection.comparison.head.kind != "worktree":
        # A hook's or CI's tree is not what the user has before him; bless works on the folder alone.
        selection = select(folder, everything=True, env=_by_hand(os.environ))
    due = _due(selection, options)
    measurements, refusals = _measurements(selection, options, due, progress)
    outcome: list[tuple[BlessPlan, list[str]]] = []
    for root in selection.config.roots:
        chosen = _plan(selection, options, root, due, measurements)
        outcome.append((chosen, [*refusals, *chosen.refusals]))
    return _carry_out(selection, options, outcome, len(measurements))


def _by_hand(env: object) -> dict[str, str]:
    assert isinstance(env, os._Environ)
    return {name: value for name, value in env.items() if not name.startswith(("PRE_COMMIT", "GIT_INDEX"))}


def _due(selection: Selection, options: BlessOptions) -> list[Due]:
    """The workloads to measure: of the kernels named, or of those touched or without lines."""
    names = options.kernels
    if names:
        wanted = {item.identity for name in names for item in find(selection.head, name)}
    elif options.everything:
        wanted = {item.identity for item in selection.head.declarations}
    else:
        wanted = _touched(selection) | _without_lines(selection)
    due = [
        one
        for declaration in selection.head.declarations
        if declaration.identity in wanted
        for one in due_for(declaration, selection.head, selection.config)
        if one.has_line
    ]
    if options.case is not None:
        known = sorted({one.case.id for one in due})
        due = [one for one in due if one.case.id == options.case]
        if not due:
            raise UsageError(
                f"{options.case!r} is no workload of {', '.join(names) or 'these kernels'}",
                f"workloads have lines: {'; '.join(known[:8]) or 'none are declared'}",
            )
    if options.targets:
        due = [one for one in due if one.key.target in options.targets]
        if not due:
            raise UsageError(f"no workload runs on {', '.join(options.targets)}", "see probe-targets in [tool.kgate]")
    return due


def _touched(selection: Selection) -> set[str]:
    why = selection.everything
    touched = {item.kernel for item in selection.affected if any(r.sentence != why for r in item.reasons)}
    return touched | set(selection.renamed)


def _without_lines(selection: Selection) -> set[str]:
    found = set()
    for root in selection.config.roots:
        baselines = load(selection.repository.toplevel, baseline_layout(root))
        for declaration in selection.head.declarations:
            if selection.config.root_of(declaration.path) == root:
                due = due_for(declaration, selection.head, selection.config)
                if any(one.has_line and baselines.line(one.key) is None for one in due):
                    found.add(declaration.identity)
    return found


def _measurements(
    selection: Selection, options: BlessOptions, due: Sequence[Due], progress: Progress
) -> tuple[list[Measurement], list[str]]:
    if options.pending is not None:
        found, problems = read_pending(options.pending)
        return found, [str(problem) for problem in problems]
    if not due:
        return [], []
    carry = [root.join(path) for root in selection.config.roots for path in root.carry]
    tree = export(selection.comparison.head, selection.state / "trees", carry)
    memory = Memory(selection.repository.toplevel)
    bench = Bench(selection.repository, selection.config, tree, selection.state, memory)
    measured = measure(due, bench, progress, phase="measuring workloads")
    return [found for _, found in measured.results if found.status != "skipped"], _unfinished(measured)


def _unfinished(measured: Measured) -> list[str]:
    if measured.infrastructure:
        return [measured.infrastructure]
    return ["interrupted: nothing was written"] if measured.interrupted else []


def _plan(
    selection: Selection,
    options: BlessOptions,
    root: Root,
    due: Sequence[Due],
    measurements: Sequence[Measurement],
) -> BlessPlan:
    mine = [one for one in due if selection.config.root_of(one.declaration.path) == root]
    declared = _declared(selection, root)
    kernels = {one.declaration.identity for one in mine}
    keys = {one.key for one in mine}
    former = {old for new, old in selection.renamed.items() if new in kernels}
    gone = not options.kernels and options.case is None

    def chosen(key: Key) -> bool:
        if key in keys:
            return True
        if key in declared or options.case is not None:
            return False
        if options.targets and key.target not in options.targets:
            return False
        return key.kernel in kernels or key.kernel in former or gone

    skipped = {one.key for one in mine} - {store.key_of(item) for item in measurements}
    pending = options.pending is not None
    return store.plan(
        load(selection.repository.toplevel, baseline_layout(root)),
        [item for item in measurements if store.key_of(item) in keys],
        compare=_compare,
        selection=chosen,
        declared=lambda key: key in declared,
        expected=sorted(skipped) if pending else (),
        codes={
            item.identity: selection.head.closure(item.identity).fingerprint.code
            for item in selection.head.declarations
        },
    )


def _declared(selection: Selection, root: Root) -> set[Key]:
    return {
        one.key
        for declaration in selection.head.declarations
        if selection.config.root_of(declaration.path) == root
        for one in due_for(declaration, selection.head, selection.config)
        if one.has_line
    }


def _compare(line: Line, measurement: Measurement) -> Sequence[Change]:
    return compare(measurement, line, None).changes


def _carry_out(
    selection: Selection, options: BlessOptions, plans: Sequence[tuple[BlessPlan, list[str]]], measured: int
) -> BlessOutcome:
    changes = tuple(change for chosen, _ in plans for change in chosen.changes)
    dropped = tuple(problem for chosen, _ in plans for problem in chosen.dropped)
    refusals = list(dict.fromkeys(text for _, found in plans for text in found))
    written: list[str] = []
    unchanged = max(measured - sum(1 for change in changes if change.new is not None), 0)
    real = [chosen for chosen, _ in plans if chosen.changes or chosen.dropped]
    if real and not refusals and not options.dry_run:
        try:
            written = store.apply(real, selection.repository.toplevel, reason=options.reason or "")
        except BlessRefused as refused:
            refusals += refused.reasons
    code = records.EXIT_USAGE if refusals else records.EXIT_OK
    return BlessOutcome(changes, dropped, tuple(written), tuple(refusals), unchanged, code, options.dry_run)
