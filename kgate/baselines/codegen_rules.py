"""When compiled code has got worse: which figures fail, which warn, and which movements mean nothing.

In order of weight: cannot be launched, spills, narrower memory accesses, tensor cores lost, a barrier or an
atomic more in a loop (regressions); then occupancy, registers and instructions (warnings). Spills outrank
registers and occupancy, which look better while a kernel spills. Edits that mean nothing were seen to move at
most 5 registers (8 on AMD) and 1.8 % of the instructions, and never spills, access widths, barriers or
tensor-core counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kgate.baselines.records import Change, Figure, Figures

REGRESSION, WARNING, IMPROVEMENT, NEUTRAL = "regression", "warning", "improvement", "neutral"

REGISTERS_ABSOLUTE = 8
REGISTERS_NOISE = 5
RELATIVE = 0.05
INSTRUCTIONS_NOISE = 4
SAME_WORK = 0.5
"""Narrower accesses replace wider ones where they carry at least this share of the bits that those lost."""

_WIDTHS = (256, 128, 96, 64, 32, 16, 8)
_TENSOR_CORES = ("mma", "wmma", "mfma", "wgmma", "tcgen05")
_SEVERITIES = (REGRESSION, WARNING, IMPROVEMENT, NEUTRAL)

_Values = dict[str, Figure]


def compare_codegen(old: Figures, new: Figures) -> tuple[Change, ...]:
    """Compare the figures of each launch (label to figure to value); the weightiest change comes first.

    Movements within the noise are left out. An autotune configuration that was edited is compared with what
    it was before; one that is gone or new, like a launch that is gone or new, is a change of its own.
    """
    changes: list[Change] = []
    pairs, gone, added = _pair(old, new)
    for before, after in pairs:
        note = f"was {before}" if _function(before) == _function(after) and before != after else ""
        changes.extend(_launch(after, old[before], new[after], note))
    changes.extend(_gone(label, new) for label in gone)
    changes.extend(_added(label, new[label], old) for label in added)
    return tuple(sorted(changes, key=lambda change: _SEVERITIES.index(change.severity)))


def _launch(label: str, old: _Values, new: _Values, note: str) -> Iterator[Change]:
    """Changes of one launch, the weightiest first."""
    before, after = old.get("status", "ok"), new.get("status", "ok")
    if before != after:
        severity = IMPROVEMENT if after == "ok" else REGRESSION
        yield Change(label, "status", before, after, severity, note)
    if after != "ok" or before != "ok":
        return  # what cannot run has no speed to compare
    spills = _spills(old, new)
    for rule in _RULES:
        for figure, severity, why in rule(old, new):
            outranked = (spills > 0 and severity == IMPROVEMENT) or (spills < 0 and severity == WARNING)
            if not (outranked and figure in ("registers", "occupancy")):
                told = "; ".join(part for part in (why, note) if part)
                yield Change(label, figure, old.get(figure, 0), new.get(figure, 0), severity, told)


_Found = Iterator[tuple[str, str, str]]


def _spill_rule(old: _Values, new: _Values) -> _Found:
    moved = _spills(old, new)
    if moved:
        yield "spill_bytes", REGRESSION if moved > 0 else IMPROVEMENT, ""
    if _number(new, "sgpr_spills") > 0 == _number(old, "sgpr_spills"):
        yield "sgpr_spills", WARNING, "scalar registers spill into vector registers"


def _access_rule(old: _Values, new: _Values) -> _Found:
    for direction in ("load", "store"):
        moved = {width: _moved(old, new, f"{direction}_{width}") for width in _WIDTHS}
        widest = next((width for width in _WIDTHS if moved[width]), None)
        if widest is None:
            continue
        narrower = {width: count for width, count in moved.items() if width < widest and count * moved[widest] < 0}
        bits = sum(width * abs(count) for width, count in narrower.items())
        if bits < SAME_WORK * widest * abs(moved[widest]):
            continue  # fewer or more accesses, not narrower or wider ones
        figure = f"{direction}_{widest}"
        if moved[widest] < 0:
            gained = ", ".join(
                f"{width}-bit {direction}s {_number(old, f'{direction}_{width}'):g} -> "
                f"{_number(new, f'{direction}_{width}'):g}"
                for width in narrower
            )
            yield figure, REGRESSION, f"{gained} instead: alignment or contiguity was lost"
        else:
            yield figure, IMPROVEMENT, ""


def _tensor_core_rule(old: _Values, new: _Values) -> _Found:
    before, after = _number(old, "mma"), _number(new, "mma")
    if before and not after:
        yield "mma", REGRESSION, "tensor cores are no longer used"
    elif after and not before:
        yield "mma", IMPROVEMENT, ""
    elif _generation(new) < _generation(old):
        yield "mma_kind", WARNING, "an older kind of tensor-core instruction"
    elif _generation(new) > _generation(old):
        yield "mma_kind", IMPROVEMENT, ""


def _loop_rule(old: _Values, new: _Values) -> _Found:
    for name in ("barriers", "atomics"):
        inside, total = _moved(old, new, f"{name}_in_loop"), _moved(old, new, name)
        if inside > 0:
            yield f"{name}_in_loop", REGRESSION, ""
        elif inside < 0 and total <= 0:
            yield f"{name}_in_loop", IMPROVEMENT, ""
        elif _number(new, name) > 0 == _number(old, name):
            yield name, WARNING, ""
        elif _number(old, name) > 0 == _number(new, name):
            yield name, IMPROVEMENT, ""


def _occupancy_rule(old: _Values, new: _Values) -> _Found:
    moved = _moved(old, new, "occupancy")
    if moved:
        limiter = new.get("occupancy_limiter", "")
        why = f"limited by {limiter}" if moved < 0 and limiter else ""
        yield "occupancy", WARNING if moved < 0 else IMPROVEMENT, why


def _register_rule(old: _Values, new: _Values) -> _Found:
    before, moved = _number(old, "registers"), _moved(old, new, "registers")
    noise = REGISTERS_ABSOLUTE if "vgprs" in new else REGISTERS_NOISE
    size = abs(moved)
    if size > REGISTERS_ABSOLUTE or (size > noise and size > RELATIVE * before):
        yield "registers", WARNING if moved > 0 else IMPROVEMENT, ""


def _instruction_rule(old: _Values, new: _Values) -> _Found:
    for name in ("loop_instructions", "instructions"):
        before, moved = _number(old, name), _moved(old, new, name)
        if before and abs(moved) > INSTRUCTIONS_NOISE and abs(moved) > RELATIVE * before:
            yield name, WARNING if moved > 0 else IMPROVEMENT, ""


def _copy_rule(old: _Values, new: _Values) -> _Found:
    for name, what in (("cp_async", "asynchronous copies"), ("tma", "TMA copies")):
        if _number(old, name) > 0 == _number(new, name):
            yield name, WARNING, f"{what} are no longer used"
        elif _number(new, name) > 0 == _number(old, name):
            yield name, IMPROVEMENT, ""


def _count_rule(old: _Values, new: _Values) -> _Found:
    moved = _number(new, "launches", 1) - _number(old, "launches", 1)
    if moved:
        yield "launches", WARNING if moved > 0 else IMPROVEMENT, ""


_RULES: tuple[Callable[[_Values, _Values], _Found], ...] = (
    _spill_rule,
    _access_rule,
    _tensor_core_rule,
    _loop_rule,
    _copy_rule,
    _occupancy_rule,
    _register_rule,
    _instruction_rule,
    _count_rule,
)


def _gone(label: str, new: Figures) -> Change:
    if not new:
        return Change(label, "launch", "present", None, REGRESSION, "nothing is launched any more")
    if any(_function(other) == _function(label) for other in new):
        why = "is no longer tried by autotuning" if "[" in label else "is launched in another form now"
        return Change(label, "configuration", "present", None, WARNING, why)
    return Change(label, "launch", "present", None, WARNING, "is no longer launched")


def _added(label: str, figures: _Values, old: Figures) -> Change:
    status = figures.get("status", "ok")
    if old and any(_function(other) == _function(label) for other in old):
        if status == "ok":
            note = "one more configuration for autotuning to try"
            return Change(label, "configuration", None, "present", IMPROVEMENT, note)
        return Change(label, "configuration", None, status, WARNING, "a new configuration that does not work")
    if status != "ok":
        return Change(label, "launch", None, status, REGRESSION, "a new launch that does not work")
    return Change(label, "launch", None, "present", WARNING, "one more kernel is launched")


def _pair(old: Figures, new: Figures) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Labels that belong together, old with new; then those gone and those added, in their order."""
    gone = [label for label in old if label not in new]
    added = [label for label in new if label not in old]
    pairs = [(label, label) for label in new if label in old]
    for likeness in (_edited, _renamed):
        for label in list(added):
            ranked = sorted(((likeness(before, label, old, new), -index) for index, before in enumerate(gone)))
            if ranked and ranked[-1][0] > 0:
                pairs.append((gone.pop(-ranked[-1][1]), label))
                added.remove(label)
    return pairs, gone, added


def _edited(before: str, after: str, old: Figures, new: Figures) -> float:
    """How much two configurations of one function agree, 0 to 1; 0 where less than half."""
    if _function(before) != _function(after):
        return 0.0
    first, second = _settings(before), _settings(after)
    if not first or first.keys() != second.keys():
        return 0.0 if first or second else 1.0
    same = sum(first[name] == second[name] for name in first) / len(first)
    return same if same >= SAME_WORK else 0.0


def _renamed(before: str, after: str, old: Figures, new: Figures) -> float:
    """1 where a function is gone, one is new, and the settings agree: the same launch under another name."""
    others = {_function(label) for label in old} & {_function(label) for label in new}
    if _function(before) in others or _function(after) in others:
        return 0.0
    return float(before[len(_function(before)) :] == after[len(_function(after)) :])


def _function(label: str) -> str:
    return label.split("[", 1)[0].split("#", 1)[0]


def _settings(label: str) -> dict[str, str]:
    if "[" not in label:
        return {}
    inside = label[label.index("[") + 1 : label.rindex("]")]
    return dict(part.partition("=")[::2] for part in inside.split(","))


def _spills(old: _Values, new: _Values) -> float:
    return _moved(old, new, "spill_bytes")


def _moved(old: _Values, new: _Values, name: str) -> float:
    return _number(new, name) - _number(old, name)


def _generation(values: _Values) -> int:
    kinds = str(values.get("mma_kind", "")).split("+")
    return max((_TENSOR_CORES.index(kind) for kind in kinds if kind in _TENSOR_CORES), default=-1)


def _number(values: _Values, name: str, default: float = 0) -> float:
    value = values.get(name, default)
    return value if isinstance(value, (int, float)) else default
