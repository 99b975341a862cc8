"""Fixing in rounds: the findings of a tree are fixed and looked for again until nothing more can be fixed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kgate.lint.fixes.apply import apply
from kgate.lint.fixes.writing import ChangedSince
from kgate.source.records import Edit, Finding, Fix

LIMIT = 10
"""Rounds after which fixing ends."""


@dataclass(frozen=True)
class Change:
    """A file that fixes changed."""

    path: str
    before: bytes
    """As it was at the start."""
    after: bytes


@dataclass(frozen=True)
class Fixing:
    """What fixing did."""

    fixed: tuple[Finding, ...]
    """Findings whose fix was made, as they were when it was."""
    remaining: tuple[Finding, ...]
    """Findings of the last look."""
    refused: tuple[tuple[Finding, str], ...]
    """Findings of the last look whose fix could not be made, each with the reason."""
    left: tuple[tuple[str, str], ...]
    """Files that were left alone, each with the reason."""
    changes: tuple[Change, ...]
    """Files that are different now, sorted by path."""
    rounds: int
    """Rounds in which something was fixed."""


@dataclass
class _State:
    """What is remembered from round to round."""

    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    seen: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Contents that a file has had."""
    stopped: dict[tuple[str, str], str] = field(default_factory=dict)
    """File and code of fixes that are made no more, with the reason."""
    shut: dict[str, str] = field(default_factory=dict)
    """Files that are touched no more, with the reason."""
    fixed: list[Finding] = field(default_factory=list)


def fix_all(
    findings_of: Callable[[], list[Finding]],
    read: Callable[[str], bytes],
    write: Callable[[str, bytes, bytes], None],
    unsafe: bool = False,
    limit: int = LIMIT,
) -> Fixing:
    """Apply the best fix of each finding, look again, and go on until nothing more applies.

    ``findings_of`` lints and gives every finding; ``read`` gives a file as these findings were computed on it;
    ``write`` puts the last argument into a file that still holds the one before, and raises :class:`ChangedSince` where
    it does not. Fixes that are not safe are made only where ``unsafe``. Each file is written as a whole, so that an
    interruption leaves every file as it was before or after a round.
    """
    state = _State()
    findings = findings_of()
    rounds = 0
    while True:
        refused, left, done = _round(state, findings, read, write, unsafe)
        if not done:
            break
        rounds += 1
        again = findings_of()
        _judge(state, findings, done, again)
        findings = again
        if rounds == limit:
            refused, left = [], []
            if any(_best(item, unsafe) is not None for item in findings):
                left = [(path, f"there is more to fix after {limit} rounds") for path in _fixable(findings, unsafe)]
            break
    changes = tuple(
        Change(path, state.before[path], state.after[path])
        for path in sorted(state.after)
        if state.before[path] != state.after[path]
    )
    return Fixing(tuple(state.fixed), tuple(findings), tuple(refused), tuple(left), changes, rounds)


def _round(
    state: _State,
    findings: list[Finding],
    read: Callable[[str], bytes],
    write: Callable[[str, bytes, bytes], None],
    unsafe: bool,
) -> tuple[list[tuple[Finding, str]], list[tuple[str, str]], list[Finding]]:
    """One round: what was refused, which files were left alone, and the findings that were fixed."""
    refused: list[tuple[Finding, str]] = []
    left: list[tuple[str, str]] = []
    done: list[Finding] = []
    for path, wanted in sorted(_by_path(findings, unsafe).items()):
        if path in state.shut:
            left.append((path, state.shut[path]))
            continue
        refused += [(it, why) for it, _ in wanted if (why := state.stopped.get((path, it.code))) is not None]
        wanted = [(it, fix) for it, fix in wanted if (path, it.code) not in state.stopped]
        if not wanted:
            continue
        try:
            before = read(path)
        except OSError as error:
            left.append((path, f"it cannot be read: {error.strerror or error}"))
            continue
        applied = apply(before, _different(fix for _, fix in wanted), path=path)
        reasons = {fix.edits: why for fix, why in applied.refused}
        refused += [(item, reasons[fix.edits]) for item, fix in wanted if fix.edits in reasons]
        made = [item for item, fix in wanted if fix.edits not in reasons]
        if not made:
            continue
        if applied.source in state.seen[path]:
            state.shut[path] = f"the fixes of {_codes(made)} undo each other"
            left.append((path, state.shut[path]))
            continue
        try:
            write(path, before, applied.source)
        except ChangedSince as reason:
            left.append((path, str(reason)))
            continue
        state.before.setdefault(path, before)
        state.after[path] = applied.source
        state.seen[path] |= {before, applied.source}
        state.fixed += made
        done += made
    return refused, left, done


def _judge(state: _State, before: list[Finding], done: list[Finding], after: list[Finding]) -> None:
    """Stop the fixes of a rule in a file where a finding that was fixed is still there, and they are not fewer."""
    had = Counter((item.path, item.code) for item in before)
    have = Counter((item.path, item.code) for item in after)
    still = {_identity(item) for item in after}
    for item in done:
        key = item.path, item.code
        if have[key] >= had[key] and _identity(item) in still:
            state.stopped[key] = f"the fix of {item.code} did not end its finding"


def _identity(finding: Finding) -> tuple[str, str, str, str]:
    """What a finding keeps when lines move."""
    return finding.path, finding.code, finding.symbol, finding.message


def _by_path(findings: list[Finding], unsafe: bool) -> dict[str, list[tuple[Finding, Fix]]]:
    found: dict[str, list[tuple[Finding, Fix]]] = defaultdict(list)
    for item in sorted(findings, key=lambda item: (item.path, item.line, item.column, item.code)):
        fix = _best(item, unsafe)
        if fix is not None:
            found[item.path].append((item, fix))
    return found


def _best(finding: Finding, unsafe: bool) -> Fix | None:
    return next((fix for fix in finding.fixes if fix.safe or unsafe), None)


def _fixable(findings: list[Finding], unsafe: bool) -> list[str]:
    return sorted({item.path for item in findings if _best(item, unsafe) is not None})


def _different(fixes: Iterable[Fix]) -> list[Fix]:
    """Fixes without those that make the same edits as an earlier one: two findings may share one."""
    found: dict[tuple[Edit, ...], Fix] = {}
    for fix in fixes:
        found.setdefault(fix.edits, fix)
    return list(found.values())


def _codes(findings: list[Finding]) -> str:
    return " and ".join(sorted({item.code for item in findings}))
