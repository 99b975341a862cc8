"""``kgate bless``: measure workloads in the working folder and accept the figures as the baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.baselines import bless as store
from kgate.baselines import journal
from kgate.baselines.bless import BlessChange, BlessPlan, BlessRefused
from kgate.baselines.measurements import read_pending
from kgate.baselines.records import OK, SKIPPED, Change, Line, Measurement
from kgate.baselines.store import Baselines, Key, Problem, load
from kgate.cases.ids import parse_case
from kgate.gate import records
from kgate.gate.errors import UsageError
from kgate.gate.judge import compare
from kgate.gate.measure import bench_for, measure
from kgate.gate.plan import ACCURACY, Due, due_for
from kgate.gate.progress import Progress
from kgate.gate.select import Selection, baseline_layout, declarations_of, find, select
from kgate.source.config import Root
from kgate.source.git import Repository, commit_snapshot, in_ci


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
    progress.phase("reading code")
    # A hook's or CI's tree is not what the user has before him; bless works on the folder alone.
    selection = select(folder, everything=True, env=_by_hand(os.environ))
    due = _due(selection, options)
    measured = _measured(selection, options, due, progress)
    refusals = [*_unreadable(selection, options), *measured.refusals, *_wrong(selection, due, measured.found)]
    plans = [_plan(selection, options, root, due, measured.found) for root in selection.config.roots]
    return _carry_out(selection, options, plans, refusals, measured)


_SURROUNDINGS = ("PRE_COMMIT", "GIT_INDEX", "GITHUB_", "GITLAB_", "CI_", "BUILDKITE", "JENKINS", "TF_BUILD")


def _by_hand(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what a hook or CI set."""
    return {name: value for name, value in env.items() if name != "CI" and not name.startswith(_SURROUNDINGS)}


def _unreadable(selection: Selection, options: BlessOptions) -> list[str]:
    """Declarations that do not hold: their kernels would be passed over, and their lines be dropped as obsolete."""
    if options.kernels:
        return []
    return [f"{item.path}:{item.line}: {item.message}; {item.remedy}" for item in selection.unreadable]


def _due(selection: Selection, options: BlessOptions) -> list[Due]:
    """The workloads to measure: of the kernels named, or of those touched or without lines."""
    names = options.kernels
    if names:
        wanted = {item.identity for name in names for item in find(selection, name)}
    elif options.everything:
        wanted = {item.identity for item in selection.head.declarations}
    else:
        wanted = _touched(selection) | _without_lines(selection)
    declared = declarations_of(selection.head)
    due = [
        one
        for identity in sorted(wanted)
        for one in due_for(declared[identity], selection.head, selection.config)
        if one.has_line
    ]
    if options.case is not None:
        known = sorted({one.case.id for one in due})
        named = {options.case} | {parse_case(declared[identity], options.case).id for identity in wanted}
        due = [one for one in due if one.case.id in named]
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


@dataclass(frozen=True)
class _Found:
    """Measurements, and why they are not all there."""

    found: list[Measurement]
    refusals: list[str]
    interrupted: bool = False


def _measured(selection: Selection, options: BlessOptions, due: Sequence[Due], progress: Progress) -> _Found:
    if options.pending is not None:
        found, problems = read_pending(options.pending)
        return _Found(found, [str(problem) for problem in problems])
    if not due:
        return _Found([], [])
    bench = bench_for(selection, selection.comparison.head)
    outcome = measure([*due, *_proof(selection, due)], bench, progress, phase="measuring workloads")
    refusals = [outcome.infrastructure] if outcome.infrastructure else []
    if outcome.interrupted:
        refusals = ["interrupted: nothing was written"]
    return _Found([found for _, found in outcome.results], refusals, outcome.interrupted)


def _proof(selection: Selection, due: Sequence[Due]) -> list[Due]:
    """Every accuracy case of the kernels that are blessed: a wrong kernel's figures are no yardstick.

    After a check these are remembered passes, and cost nothing.
    """
    chosen = {one.key for one in due}
    declared = declarations_of(selection.head)
    return [
        one
        for identity in sorted({one.declaration.identity for one in due})
        for one in due_for(declared[identity], selection.head, selection.config)
        if one.probe == ACCURACY and one.key not in chosen
    ]


def _wrong(selection: Selection, due: Sequence[Due], found: Sequence[Measurement]) -> list[str]:
    """Kernels among the chosen ones of which a case outside the chosen lines failed."""
    chosen = {one.key for one in due}
    names = {one.declaration.identity: one.declaration.name for one in due}
    failed: dict[str, list[Measurement]] = {}
    for item in found:
        if item.kernel in names and item.status not in (OK, SKIPPED) and store.key_of(item) not in chosen:
            failed.setdefault(item.kernel, []).append(item)
    return [
        f"{names[kernel]}: {len(items)} of its cases fail ({items[0].status}: {items[0].case}), and the figures of "
        f"a wrong kernel are no yardstick; run: kgate run {names[kernel]}"
        for kernel, items in sorted(failed.items())
    ]


def _plan(
    selection: Selection, options: BlessOptions, root: Root, due: Sequence[Due], measurements: Sequence[Measurement]
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

    current = load(selection.repository.toplevel, baseline_layout(root))
    usable = [item for item in measurements if store.key_of(item) in keys and item.status != SKIPPED]
    found = {store.key_of(item) for item in usable}
    never = {key for key in map(store.key_of, measurements) if current.line(key) is None} - found
    return store.plan(
        current,
        usable,
        compare=_compare,
        selection=chosen,
        declared=lambda key: key in declared,
        expected=sorted(keys - found - never),
        codes={one.declaration.identity: one.code for one in mine},
        committed=_committed(selection, root),
    )


def _committed(selection: Selection, root: Root) -> Baselines | None:
    """The lines of the last commit: what a line that is damaged or gone in the folder is compared with."""
    commit = selection.repository.commit("HEAD")
    if commit is None:
        return None
    return load(commit_snapshot(selection.repository, commit, "HEAD"), baseline_layout(root))


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
    selection: Selection,
    options: BlessOptions,
    plans: Sequence[BlessPlan],
    refusals: list[str],
    measured: _Found,
) -> BlessOutcome:
    changes = tuple(change for chosen in plans for change in chosen.changes)
    dropped = tuple(problem for chosen in plans for problem in chosen.dropped)
    refusals = list(dict.fromkeys([*refusals, *(text for chosen in plans for text in chosen.refusals)]))
    real = [chosen for chosen in plans if chosen.changes or chosen.dropped]
    written: list[str] = []
    if real and not refusals and not options.dry_run:
        try:
            written = store.apply(real, selection.repository.toplevel, reason=options.reason or "")
        except BlessRefused as refused:
            refusals += refused.reasons
    unchanged = sum(chosen.unchanged for chosen in plans)
    code = records.EXIT_USAGE if refusals else records.EXIT_OK
    if measured.interrupted:
        code = 130
    return BlessOutcome(changes, dropped, tuple(written), tuple(refusals), unchanged, code, options.dry_run)
