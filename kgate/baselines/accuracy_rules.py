"""When a baseline's error figures have got worse: growth beyond 1.5 times that ends above half the noise floor."""

from __future__ import annotations

from kgate.baselines.records import Change, Figure, Figures

GROWTH = 1.5
HALF_FLOOR = 0.5


def compare_accuracy(old: Figures, new: Figures) -> tuple[Change, ...]:
    """Compare error figures, output by output.

    Figures are errors in units of the noise floor (dimensionless). Growth beyond 1.5x is a regression where it ends
    above half the floor; below that, two right tilings differ by as much. An output that is gone or new is told too.
    """
    changes: list[Change] = []
    for label in sorted(old.keys() | new.keys()):
        if label not in new:
            changes.append(Change(label, "output", "present", "absent", "regression"))
        elif label not in old:
            changes.append(Change(label, "output", "absent", "present", "neutral"))
        else:
            changes.extend(_figure(label, name, old[label], new[label]) for name in sorted(new[label]))
    return tuple(change for change in changes if change.old != change.new)


def _figure(label: str, name: str, old: dict[str, Figure], new: dict[str, Figure]) -> Change:
    before, after = old.get(name), new[name]
    severity = "neutral"
    if _is_error(name) and isinstance(before, (int, float)) and isinstance(after, (int, float)):
        if after > GROWTH * before and after > HALF_FLOOR:
            severity = "regression"
        elif before > GROWTH * after and before > HALF_FLOOR:
            severity = "improvement"
    return Change(label, name, before, after, severity)


def _is_error(name: str) -> bool:
    return name.endswith("over_floor")
