"""From a declaration to its cases: workloads, edges, layouts, values, and what lies just outside."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kgate.cases import edges, outside
from kgate.cases.layouts import FAR, LAYOUTS
from kgate.cases.records import FALLBACK, KERNEL, Case
from kgate.cases.scaling import scale
from kgate.cases.space import Space, unusual
from kgate.contract.dtypes import is_floating
from kgate.contract.vocabulary import Offsets

WORKLOAD, SCALED, EDGE = "workload", "scaled", "edge"
BUDGET = 60
_INT32 = 2**31
_ROWS = (3, 1031, 4099)
"""Numbers of rows that may lie far apart: few, or as many as a bound on strides makes necessary."""
_LAYOUTS = ("transposed", "sliced", "expanded", "offset", "rows", "strided", "padded", "channels_last")
_ROW_LAYOUTS = ("sliced", "padded", "rows", "transposed")
_HARD_VALUES, _OTHER_VALUES = ("mean300", "outlier", "equal"), ("negative", "zeros")
_LONG = (4099, 2051, 1027, 515, 259)
"""Lengths of a reduction at which a sum in a narrow dtype is plainly wrong."""
_OUTSIDE_SHARE = 10


def derive(declaration: Any, *, block_sizes: Sequence[int] = (), budget: int = BUDGET) -> list[Case]:
    """All cases of a kernel, the most telling first, each id once.

    ``declaration`` needs ``identity``, ``envelope`` and ``workloads``; ``block_sizes`` are the sizes at which the code
    may change its mind (``Closure.block_sizes``). Workloads come in full first (``origin="workload"``, any size), then
    at most ``budget`` cases that the interpreter can afford. A workload that needs no scaling appears once, as itself.
    """
    space = Space(declaration)
    blocks = tuple(sorted(set(block_sizes)))
    workloads = _unique(_workloads(space), set())
    seen = {case.id for case in workloads if affordable(declaration, case)}
    outer = _unique(outside.cases(space), seen)[:_OUTSIDE_SHARE]
    inside = (case for case in _interleaved(space, blocks) if not space.broken(case))
    inner = _unique(inside, seen)[: max(budget - len(outer), 0)]
    taken = {case.id for case in workloads}
    return [*workloads, *(case for case in (*inner, *outer) if case.id not in taken)]


def affordable(declaration: Any, case: Case) -> bool:
    """Whether the interpreter can run a case; False for full-size workloads, which only the compiler can do."""
    space = Space(declaration)
    return FAR in case.layouts.values() or space.affordable(case.dims, case.choices)


def _unique(cases: Iterable[Case], seen: set[str]) -> list[Case]:
    found: list[Case] = []
    for case in cases:
        if case.id not in seen:
            seen.add(case.id)
            found.append(case)
    return found


@dataclass(frozen=True)
class _Given:
    """What a workload sets, sorted by what it is."""

    dims: dict[str, int]
    attributes: dict[str, Any]
    source: str


def _given(space: Space, workload: Any) -> _Given:
    values = dict(workload.values)
    dims = {name: values[name] for name in space.dims if name in values}
    attributes = {
        "dtypes": {name: values[name] for name in space.dtypes if name in values},
        "choices": {name: values[name] for name in space.inputs if name in values},
        "layouts": dict(workload.layouts),
        "absent": tuple(workload.absent),
    }
    return _Given({**space.default_dims, **dims}, attributes, workload.source)


def _workloads(space: Space) -> Iterator[Case]:
    for workload in space.workloads:
        given = _given(space, workload)
        reasons = space.broken(space.draft(given.dims, **given.attributes))
        yield space.case(
            given.dims,
            **given.attributes,
            origin=WORKLOAD,
            purpose=given.source or "a declared workload",
            expect=FALLBACK if reasons else KERNEL,
            reason=reasons[0] if reasons else "",
        )


def _scaled(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    for workload in space.workloads:
        given = _given(space, workload)
        found = scale(space, given.dims, blocks, **given.attributes)
        if found is not None:
            dims, change = found
            purpose = f"{given.source or 'a declared workload'}{'; scaled: ' + change if change else ''}"
            yield space.case(dims, **given.attributes, origin=SCALED, purpose=purpose)


def _interleaved(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    """The kinds of cases in the order of how much they tell; within the long kinds, round robin."""
    yield from _scaled(space, blocks)
    yield from _dtypes(space, blocks)
    yield from _lengths(space)
    yield from _switches(space, blocks)
    kinds = [_sizes(space, blocks), _layouts(space, blocks), _values(space, blocks), _far(space), _long_layouts(space)]
    while kinds:
        for kind in list(kinds):
            case = next(kind, None)
            if case is None:
                kinds.remove(kind)
            else:
                yield case


def _tail(space: Space, blocks: tuple[int, ...], **attributes: Any) -> dict[str, int]:
    """Sizes that are no multiple of a block wherever the envelope allows it."""
    block = edges.tile(blocks)
    wanted = space.fit({}, **attributes) or space.default_dims
    for name in space.dims:
        sizes = (3,) if name in space.outer else range(block + 3, block + 20)
        for size in sizes:
            tried = {**wanted, name: size}
            if space.affordable(tried) and not space.broken(space.draft(tried, **attributes)):
                wanted = tried
                break
    return wanted


def _dtypes(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    """Every dtype of every variable, once with round sizes and once with a tail; the widest first."""
    yield from _both(space, blocks, {}, "the widest dtype")
    for name, allowed in space.dtypes.items():
        for dtype in allowed:
            if dtype != space.default_dtypes[name]:
                yield from _both(space, blocks, {name: dtype}, f"{name} = {dtype}")


def _both(space: Space, blocks: tuple[int, ...], dtypes: dict[str, str], what: str) -> Iterator[Case]:
    tail = _tail(space, blocks, dtypes=dtypes)
    yield space.case(tail, dtypes=dtypes, purpose=f"{what}, sizes that are no multiple of a block")
    round_sizes = space.fit({}, dtypes=dtypes)
    if round_sizes is not None:
        yield space.case(round_sizes, dtypes=dtypes, purpose=f"{what}, round sizes")


def _switches(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    """Every value of every choice, a value of every scalar, and every optional input left out, in sizes with a tail."""
    for name, values in space.choices.items():
        for value in values[1:]:
            yield from _switched(space, blocks, f"{name} = {value}", choices={name: value})
    for name, scalar in space.scalars.items():
        if name not in space.default_choices:  # else it is a size
            for value in unusual(scalar):
                yield from _switched(space, blocks, f"{name} = {value}, whatever its default", choices={name: value})
    for name in space.optional:
        yield from _switched(space, blocks, f"without {name}", absent=(name,))
    if len(space.optional) > 1:
        yield from _switched(space, blocks, "without any optional input", absent=space.optional)


def _switched(space: Space, blocks: tuple[int, ...], purpose: str, **attributes: Any) -> Iterator[Case]:
    tail = _tail(space, blocks, **attributes)
    dims = tail if not space.broken(space.draft(tail, **attributes)) else space.fit({}, **attributes)
    if dims is not None:
        yield space.case(dims, **attributes, purpose=purpose)


def _sizes(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    """Edges of every dim, one dim at a time, in turn."""
    edges_of = [_edges_of(space, name, blocks) for name in sorted(space.dims, key=lambda n: n in space.outer)]
    for row in itertools.zip_longest(*edges_of):
        yield from (case for case in row if case is not None)


def _edges_of(space: Space, name: str, blocks: tuple[int, ...]) -> Iterator[Case]:
    for size, why in edges.sizes(space, name, blocks):
        dims = edges.nearest(space, name, size)
        layouts: dict[str, str] = {}
        if dims is not None and dims[name] != size:
            padded = _padded(space, {name: size})
            dims, layouts = padded if padded is not None else (dims, {})
        if dims is not None:
            near = "" if dims[name] == size else f" (nearest size that is allowed to {size})"
            yield space.case(dims, layouts=layouts, purpose=f"{name} = {dims[name]}: {why}{near}")


def _padded(space: Space, fixed: dict[str, int]) -> tuple[dict[str, int], dict[str, str]] | None:
    """Sizes, and rows padded to a round stride, for an envelope that asks something of strides."""
    asked = {name for condition in space.envelope.conditions for name in condition.tensors()}
    layouts = {name: "padded" for name, item in space.tensors.items() if name in asked and item.rank >= 2}
    dims = space.fit(fixed, layouts=layouts) if layouts else None
    return None if dims is None else (dims, layouts)


def _layouts(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    base = space.draft(_tail(space, blocks))
    names = [name for name, item in space.tensors.items() if not isinstance(item, Offsets)]
    for layout in _LAYOUTS:
        for name in names:
            if space.admits(name, layout, base):
                purpose = f"{name} {layout}: {LAYOUTS[layout].meaning}"
                yield space.case(base.dims, layouts={name: layout}, purpose=purpose)


def _long_layouts(space: Space) -> Iterator[Case]:
    """Rows that do not follow one another, near and far, in a long reduction: long rows may have code of their own."""
    dims = _long(space)
    if dims is None:
        return
    for name, item in space.tensors.items():
        if isinstance(item, Offsets) or item.rank < 2:
            continue
        near = [layout for layout in _ROW_LAYOUTS if space.admits(name, layout, space.draft(dims))]
        far = [] if item.mutated or not _can_be_huge(space, item) else [FAR]
        for layout in (*near[:1], *far):
            if layout != FAR or space.admits(name, FAR, space.draft(dims)):
                yield space.case(dims, layouts={name: layout}, purpose=f"{name} {layout} in a long reduction")


def _values(space: Space, blocks: tuple[int, ...]) -> Iterator[Case]:
    """Values that overflow, cancel or coincide: in every dtype, where there is a reduction in a long one."""
    if not any(is_floating(space.dtype_of(item, space.default_dtypes)) for item in space.tensors.values()):
        return
    for dims in _paths(space, blocks):
        yield space.case(dims, values="low", purpose="input values: low, all far below a maximum that starts at 0")
    dims = _long(space) or _tail(space, blocks)
    for values in _HARD_VALUES:
        for dtypes in _each_dtype(space):
            yield space.case(dims, dtypes=dtypes, values=values, purpose=f"input values: {values}")
    for values in _OTHER_VALUES:
        yield space.case(_tail(space, blocks), values=values, purpose=f"input values: {values}")


def _paths(space: Space, blocks: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Sizes with a tail, and just past the largest block that can be afforded: kernels change their path there."""
    yield _tail(space, blocks)
    for name in space.dims:
        if name not in space.outer:
            for block in sorted(blocks, reverse=True):
                found = edges.nearest(space, name, block + 1)
                if found is not None and found[name] == block + 1:
                    yield found
                    break


def unreached(declaration: Any, cases: Sequence[Case]) -> list[str]:
    """Tensor inputs that the envelope admits with more than 2**31 elements, and that no case makes so large."""
    space = Space(declaration)
    far = {name for case in cases for name, layout in case.layouts.items() if layout == FAR}
    return [
        name
        for name, item in space.tensors.items()
        if not isinstance(item, Offsets) and name not in far and _can_be_huge(space, item)
    ]


def _each_dtype(space: Space) -> Iterator[dict[str, str]]:
    """Every dtype of every variable, the narrow ones first, the widest of all last."""
    for name, allowed in space.dtypes.items():
        yield from ({name: dtype} for dtype in allowed if dtype != space.default_dtypes[name])
    yield {}


def _long(space: Space) -> dict[str, int] | None:
    """Sizes with a long reduction, small otherwise; None for a kernel that declares none."""
    names = {name for output in space.outputs for name in _reduced(output)}
    for name in sorted(names & set(space.dims)):
        for size in _LONG:
            found = edges.nearest(space, name, size)
            if found is not None:
                return found
    return None


def _reduced(output: Any) -> frozenset[str]:
    terms = output.numerics.terms if output.numerics is not None else None
    return frozenset() if terms is None else terms.names()


def _lengths(space: Space) -> Iterator[Case]:
    """A long reduction in every dtype, with random values."""
    dims = _long(space)
    if dims is not None:
        for dtypes in _each_dtype(space):
            yield space.case(dims, dtypes=dtypes, purpose="a long reduction")


def _far(space: Space) -> Iterator[Case]:
    """Inputs whose last row starts beyond 2**31 elements, where the envelope allows a tensor that large."""
    for name, item in space.tensors.items():
        if isinstance(item, Offsets) or item.mutated or not _can_be_huge(space, item):
            continue
        rows = item.axes[0].dim if item.rank > 1 else None
        for fixed in ({}, *({rows: size} for size in _ROWS if rows is not None)):
            found = space.fit(fixed, layouts={name: FAR})
            if found is not None and space.admits(name, FAR, space.draft(found)):
                yield space.case(found, layouts={name: FAR}, purpose=f"offsets into {name} exceed 2**31")
                break


def _can_be_huge(space: Space, item: Any) -> bool:
    """Whether the envelope admits this tensor with more than 2**31 elements, the other sizes being small."""
    own = {name for axis in item.axes for name in axis.names()}
    sizes = {name: dim.hi if name in own else dim.lo for name, dim in space.dims.items()}
    try:
        count = math.prod(space.shape_of(item, sizes, space.default_choices))
    except (ValueError, ZeroDivisionError, KeyError):
        return False
    return count > _INT32 and not space.broken(space.draft(sizes))
