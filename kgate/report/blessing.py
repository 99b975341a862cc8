"""What a bless changed: old against new, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from kgate.baselines.bless import NEW, OBSOLETE, SAME_FIGURES, BlessChange
from kgate.gate.bless import BlessOutcome
from kgate.gate.judge import describe
from kgate.report.text import plural

SHOWN = 40


def render_bless(outcome: BlessOutcome, stream: IO[str], *, as_json: bool) -> None:
    """Write every line's old and new figures, then what was written or why nothing was."""
    if as_json:
        import msgspec

        stream.write(msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode() + "\n")
        return
    for (kernel, target), group in _groups(outcome.changes).items():
        stream.write(f"{kernel}  {target}\n")
        for change in group[:SHOWN]:
            for line in _lines(change):
                stream.write(f"    {line}\n")
        if len(group) > SHOWN:
            stream.write(f"    ... and {len(group) - SHOWN} more lines\n")
    for problem in outcome.dropped if not outcome.refusals else ():
        stream.write(f"{problem.path}:{problem.line}  dropped: {problem.message}\n")
    for refusal in outcome.refusals:
        stream.write(f"refused: {refusal}\n")
    stream.write(_closing(outcome) + "\n")


def _groups(changes: Sequence[BlessChange]) -> dict[tuple[str, str], list[BlessChange]]:
    groups: dict[tuple[str, str], list[BlessChange]] = {}
    for change in changes:
        groups.setdefault((change.key.kernel, change.key.target), []).append(change)
    return groups


def _lines(change: BlessChange) -> list[str]:
    title = f"{change.key.probe}  {change.key.case}"
    if change.kind == OBSOLETE:
        return [f"{title}  removed: no workload asks for it"]
    if change.kind == NEW:
        assert change.new is not None
        return [f"{title}  new: {_summary(change.new.figures)}"]
    if change.kind == SAME_FIGURES:
        return [f"{title}  same figures; code or toolchain changed"]
    mark = "worse" if change.worse else "changed"
    told = [item for item in change.changes if item.old != item.new]
    lines = [f"{title}  {mark}"]
    for item in told[:12]:
        lines.append(
            f"    {item.label}: {describe(item)}" + ("" if item.severity == "neutral" else f"  [{item.severity}]")
        )
    if len(told) > 12:
        lines.append(f"    ... and {len(told) - 12} more figures")
    return lines


_TOLD = ("registers", "vgprs", "spill_bytes", "occupancy", "err_over_floor")


def _summary(figures: Any) -> str:
    parts = []
    for label, group in list(figures.items())[:2]:
        told = ", ".join(f"{name.replace('_', ' ')} {group[name]:.4g}" for name in _TOLD if name in group)
        parts.append(f"{label} {told}".strip())
    more = f" and {len(figures) - 2} more" if len(figures) > 2 else ""
    return "; ".join(parts) + more


def _closing(outcome: BlessOutcome) -> str:
    lines = plural(len(outcome.changes), "line")
    if outcome.refusals:
        return f"nothing was written; {lines} would change, {outcome.unchanged} already say so"
    if outcome.dry_run:
        return f"dry run: {lines} would change, {outcome.unchanged} already say so"
    if not outcome.written:
        return f"nothing to bless: {plural(outcome.unchanged, 'line')} already say what was measured"
    files = plural(len(outcome.written), "file")
    return f"blessed {lines} in {files}; {outcome.unchanged} already said so. Commit them with the change."
