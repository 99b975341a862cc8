"""Accepting measurements as the baseline: what would change, what stands against it, and doing it at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgate.baselines import journal
from kgate.baselines.records import OK, Change, Line, Measurement
from kgate.baselines.store import (
    CONFLICT,
    SCHEMA_UNKNOWN,
    UNREADABLE,
    Baselines,
    File,
    Key,
    Layout,
    Problem,
    normal_figures,
    toolchain_text,
    write_file,
    write_line,
)
from kgate.source.git import in_ci

Compare = Callable[[Line, Measurement], Sequence[Change]]
"""Says how a measurement differs from a line, figure by figure, and whether that is worse."""

NEW, CHANGED, SAME_FIGURES, OBSOLETE = "new", "changed", "same-figures", "obsolete"

ATTRIBUTES = ".gitattributes"
_ATTRIBUTES_TEXT = b"""\
# Lines say by themselves what they are for: where two branches add one at the same place, both are kept.
*.jsonl text eol=lf merge=union
"""


class BlessRefused(Exception):
    """Nothing was written; ``reasons`` says why, each with its remedy."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True)
class BlessChange:
    """One line, old against new."""

    key: Key
    """What the line is for."""
    old: Line | None
    """The line as it is; None where there is none that can be used."""
    new: Line | None
    """The line as it would be; None where it would be removed."""
    changes: tuple[Change, ...] = ()
    """Figures that differ."""
    worse: bool = False
    """Whether any of them got worse, so that a reason is needed."""

    @property
    def kind(self) -> str:
        """``new``, ``changed``, ``same-figures`` (other code or toolchain), or ``obsolete``."""
        if self.new is None:
            return OBSOLETE
        if self.old is None:
            return NEW
        return SAME_FIGURES if self.old.figures == self.new.figures else CHANGED


@dataclass(frozen=True)
class BlessPlan:
    """What a bless would do."""

    changes: tuple[BlessChange, ...]
    """Lines that would change, sorted."""
    dropped: tuple[Problem, ...]
    """Lines that nobody can read any more, which would go."""
    refusals: tuple[str, ...]
    """What stands against it; with any of these, :func:`apply` writes nothing."""
    layout: Layout
    """Where the baselines lie."""
    files: Mapping[str, File | None]
    """Files that would be written, as they were read; None for one that is not there."""
    unchanged: int = 0
    """Lines that were measured and already say so."""

    @property
    def worse(self) -> tuple[BlessChange, ...]:
        """Changes that need a reason."""
        return tuple(change for change in self.changes if change.worse)


def plan(
    current: Baselines,
    measurements: Sequence[Measurement],
    *,
    compare: Compare,
    selection: Callable[[Key], bool] = lambda key: True,
    declared: Callable[[Key], bool] = lambda key: True,
    expected: Collection[Key] = (),
    codes: Mapping[str, str] | None = None,
    committed: Baselines | None = None,
) -> BlessPlan:
    """Work out what blessing some measurements would change. Writes nothing.

    ``selection`` says which lines the user chose, ``declared`` which ones a declaration still asks for:
    others are obsolete and go, whoever measured them, while declared lines of executors that measured
    nothing now stay. ``expected`` are lines that must have been measured. ``codes`` gives each kernel's
    *code* fingerprint as it is now: a measurement of other code is refused. ``committed`` are the lines of the
    last commit: with them a measurement is compared where the line in the folder is damaged or gone, so that losing
    a line does not spare its reason.
    """
    chosen = {}
    for measurement in measurements:
        key = key_of(measurement)
        if selection(key) and declared(key):
            chosen[key] = measurement
    obsolete = [key for key in _known(current) if selection(key) and not declared(key)]
    files = _files(current, [*chosen, *obsolete])
    refusals = _refusals(current, files, chosen, codes or {})
    refusals += [
        f"{key.kernel} {key.probe} {key.target} {key.case}: not measured; run kgate check on it first"
        for key in expected
        if selection(key) and key not in chosen
    ]
    fit = [key for key in sorted(chosen) if not _unfit(chosen[key], (codes or {}).get(key.kernel))]
    changes = [_change(current, committed, key, chosen[key], compare) for key in fit]
    changes += [BlessChange(key, current.line(key), None) for key in sorted(obsolete)]
    real = [change for change in changes if _differs(change) or _unusable(current, change.key)]
    dropped = [problem for file in files.values() if file for problem in file.problems if problem.key is None]
    unchanged = len(fit) - sum(1 for change in real if change.new is not None)
    return BlessPlan(tuple(real), tuple(dropped), tuple(refusals), current.layout, files, unchanged)


def apply(
    chosen: BlessPlan | Sequence[BlessPlan],
    top: Path,
    *,
    reason: str = "",
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Write a plan, or the plans of several roots: every file or, at whatever moment the process ends, none.

    ``top`` is the repository's root, ``reason`` the note that lines which got worse are to carry, ``env`` the
    environment that tells whether this is CI (os.environ where None). Gives the paths written, relative to
    ``top``.

    Raises :class:`BlessRefused` in CI, without a reason for what got worse, for whatever the plan names,
    and where the files have changed since they were read.
    """
    plans = [chosen] if isinstance(chosen, BlessPlan) else list(chosen)
    reason = reason.strip()
    against = [why for one in plans for why in (*one.refusals, *_without_reason(one, reason))]
    reasons = [*_where_not(env), *against]
    if reasons:
        raise BlessRefused(reasons)
    journal.recover(top)
    new: dict[str, bytes | None] = {}
    read: dict[str, bytes | None] = {}
    for one in plans:
        for path, file in one.files.items():
            new[path] = _rewritten(path, file, one, reason)
            read[path] = file.content if file else None
        if any(new[path] is not None for path in one.files):
            _add_attributes(top, one.layout, new, read)
    try:
        return journal.replace_files(top, new, read=read)
    except journal.FilesChanged as changed:
        remedy = "look at them, then run kgate bless again"
        raise BlessRefused([f"{', '.join(changed.paths)} changed in the meantime; {remedy}"]) from None


def key_of(measurement: Measurement) -> Key:
    """The line that a measurement would become."""
    return Key(measurement.kernel, measurement.target, measurement.case, measurement.probe, measurement.executor)


# What stands against it -----------------------------------------------------------------------------------


def _where_not(env: Mapping[str, str] | None) -> list[str]:
    import os

    if in_ci(os.environ if env is None else env):
        return ["this is CI, where nobody looks at a baseline; run kgate check --pending DIR here, bless at home"]
    return []


def _without_reason(chosen: BlessPlan, reason: str) -> list[str]:
    if reason or not chosen.worse:
        return []
    count = len(chosen.worse)
    first = chosen.worse[0].key
    what = f"{first.kernel} {first.target} {first.case}" + (f" and {count - 1} more" if count > 1 else "")
    return [f"{what} got worse; say why it is worth it: --reason '...'"]


def _refusals(
    current: Baselines,
    files: Mapping[str, File | None],
    chosen: Mapping[Key, Measurement],
    codes: Mapping[str, str],
) -> list[str]:
    said = []
    for file in files.values():
        said += [str(problem) for problem in file.problems if _stops(problem)] if file else []
    for key, measurement in sorted(chosen.items()):
        why = _unfit(measurement, codes.get(key.kernel))
        if why:
            said.append(f"{key.kernel} {key.probe} {key.target} {key.case}: {why}")
    return said


def _stops(problem: Problem) -> bool:
    whole_file = problem.code in (CONFLICT, UNREADABLE) and (problem.line == 0 or problem.code == CONFLICT)
    return whole_file or problem.code == SCHEMA_UNKNOWN


def _unfit(measurement: Measurement, code: str | None) -> str:
    if measurement.status != OK:
        said = f" ({measurement.message})" if measurement.message else ""
        return f"{measurement.status}{said}; only what was measured and is right can be a yardstick"
    if not measurement.figures:
        return "measured without a figure; run kgate check on it again"
    if code is not None and measurement.code and measurement.code != code:
        return "measured on code that has changed since; run kgate check on it again"
    try:
        normal_figures(measurement.figures)
    except ValueError as error:
        return f"{error}, which no later figure can be compared with"
    return ""


# What would change ----------------------------------------------------------------------------------------


def _known(current: Baselines) -> list[Key]:
    return sorted({r.key for file in current.files.values() for r in file.records if r.key is not None})


def _files(current: Baselines, keys: Sequence[Key]) -> dict[str, File | None]:
    paths = sorted({current.layout.path(key.kernel, key.target) for key in keys})
    return {path: current.files.get(path) for path in paths}


def _change(
    current: Baselines, committed: Baselines | None, key: Key, measurement: Measurement, compare: Compare
) -> BlessChange:
    old = current.line(key) or (committed.line(key) if committed else None)
    changes = tuple(compare(old, measurement)) if old else ()
    worse = any(change.severity in ("regression", "warning") for change in changes)
    new = Line(
        case=key.case,
        probe=key.probe,
        code=measurement.code,
        toolchain=toolchain_text(measurement.toolchain),
        executor=key.executor,
        figures=normal_figures(measurement.figures),
        note=old.note if old else "",
    )
    return BlessChange(key, old, new, changes, worse)


def _differs(change: BlessChange) -> bool:
    return change.old != change.new or change.new is None


def _unusable(current: Baselines, key: Key) -> bool:
    return current.line(key) is None or any(problem.key == key for problem in current.problems)


def _rewritten(path: str, file: File | None, chosen: BlessPlan, reason: str) -> bytes | None:
    here = {
        change.key: change
        for change in chosen.changes
        if chosen.layout.path(change.key.kernel, change.key.target) == path
    }
    records: list[tuple[Key | None, str]] = []
    for record in file.records if file else ():
        if record.key is not None and record.key not in here:
            records.append((record.key, record.text))
    for key, change in here.items():
        if change.new is not None:
            line = replace(change.new, note=reason) if change.worse else change.new
            records.append((key, write_line(line, key.target)))
    return write_file(records) if records else None


def _add_attributes(top: Path, layout: Layout, new: dict[str, bytes | None], read: dict[str, bytes | None]) -> None:
    path = f"{layout.folder}/{ATTRIBUTES}"
    if not (top / path).exists():
        new[path], read[path] = _ATTRIBUTES_TEXT, None
