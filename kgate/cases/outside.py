"""Cases just outside the envelope: the fallback must serve them, and say why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kgate.cases.layouts import LAYOUTS
from kgate.cases.records import FALLBACK, Case
from kgate.cases.space import Space
from kgate.contract.dtypes import is_floating
from kgate.contract.vocabulary import Offsets

OUTSIDE = "outside"
_OTHER_FLOATS = ("float64", "float32", "float16", "bfloat16")
_OTHER_INTEGERS = ("int64", "int32", "int16")
_TRIED = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 65, 100, 127, 129, 255, 257, 1000, 1023)
_MOST_LAYOUTS = 3


def cases(space: Space) -> Iterator[Case]:
    """Cases that break exactly one promise each, kind after kind."""
    yield from _dtypes(space)
    yield from _ranges(space)
    yield from _layouts(space)
    yield from _conditions(space)
    yield from _choices(space)


def _only(space: Space, reason: str, purpose: str, dims: Mapping[str, int], **attributes: Any) -> Iterator[Case]:
    """The case, where ``reason`` is the one promise that it breaks and the CPU can afford it."""
    draft = space.draft(dims, **attributes)
    if space.affordable(draft.dims, space.default_choices) and space.broken(draft) == [reason]:
        yield space.case(dims, **attributes, expect=FALLBACK, reason=reason, purpose=purpose, origin=OUTSIDE)


def _dtypes(space: Space) -> Iterator[Case]:
    for name, allowed in space.dtypes.items():
        others = _OTHER_FLOATS if is_floating(allowed[0]) else _OTHER_INTEGERS
        other = next((dtype for dtype in others if dtype not in allowed), None)
        if other is not None:
            purpose = f"{name} = {other}, which is not supported"
            yield from _only(space, "dtype-unsupported", purpose, space.default_dims, dtypes={name: other})


def _ranges(space: Space) -> Iterator[Case]:
    for name, dim in space.dims.items():
        if dim.lo > 0:
            dims = {**space.default_dims, name: dim.lo - 1}
            yield from _only(space, "dim-range", f"{name} below {dim.lo}", dims)
        small = {other: max(min(d.lo, 1), d.lo) for other, d in space.dims.items()}
        for base in (space.default_dims, {k: max(v, 1) for k, v in small.items()}):
            found = list(_only(space, "dim-range", f"{name} above {dim.hi}", {**base, name: dim.hi + 1}))
            if found:
                yield found[0]
                break


def _layouts(space: Space) -> Iterator[Case]:
    base = space.draft(space.default_dims)
    count = 0
    for name, item in space.tensors.items():
        if isinstance(item, Offsets) or item.layout == "any" or count == _MOST_LAYOUTS:
            continue
        for layout in ("transposed", "strided", "sliced", "expanded"):
            if item.rank < LAYOUTS[layout].least_rank or (layout == "expanded" and item.mutated):
                continue
            purpose = f"{name} {layout}, where {item.layout} is asked for"
            found = list(_only(space, "layout", purpose, base.dims, layouts={name: layout}))
            if found:
                count += 1
                yield found[0]
                break


def _conditions(space: Space) -> Iterator[Case]:
    for number, condition in enumerate(space.envelope.conditions):
        found = _violating(space, number)
        if found is not None:
            dims, layouts = found
            yield from _only(space, "where", f"{condition} does not hold", dims, layouts=layouts)


def _violating(space: Space, number: int) -> tuple[dict[str, int], dict[str, str]] | None:
    """Sizes, or one input's layout, for which this condition alone is false."""
    condition = space.envelope.conditions[number]
    for name in sorted(condition.names() & set(space.dims)):
        for size in _TRIED:
            if space.dims[name].lo <= size <= space.dims[name].hi:
                dims = {**space.default_dims, name: size}
                if _breaks(space, number, dims, {}):
                    return dims, {}
    for name in sorted(condition.tensors() & set(space.tensors)):
        for layout in ("sliced", "offset", "transposed", "strided", "rows", "expanded"):
            if space.tensors[name].rank >= LAYOUTS[layout].least_rank and not space.tensors[name].mutated:
                layouts = {name: layout}
                if _breaks(space, number, space.default_dims, layouts):
                    return dict(space.default_dims), layouts
    return None


def _breaks(space: Space, number: int, dims: Mapping[str, int], layouts: Mapping[str, str]) -> bool:
    draft = space.draft(dims, layouts=layouts)
    if not space.affordable(dims) or space.broken(draft) != ["where"]:
        return False
    return space.conditions_broken(draft)[0] == str(space.envelope.conditions[number])


def _choices(space: Space) -> Iterator[Case]:
    for name, values in space.choices.items():
        other: Any = "something-else"
        if all(type(value) is int for value in values):
            other = max(values) + 1
        elif all(type(value) is bool for value in values):
            continue
        purpose = f"{name} = {other}, which is not among the choices"
        yield from _only(space, "choice", purpose, space.default_dims, choices={name: other})
