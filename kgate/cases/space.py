"""What an envelope leaves open: sizes, dtypes, layouts, choices; and whether one assignment lies within it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from kgate.cases.layouts import CONTIGUOUS, LAYOUTS, Geometry, geometry
from kgate.cases.records import Case
from kgate.contract.dtypes import DTYPES, is_floating
from kgate.contract.reasons import TensorFacts
from kgate.contract.vocabulary import Choice, Dim, Ignore, ListOf, Offsets, Scalar, Tensor

MOST_ELEMENTS = 2**17
"""Elements of the largest tensor that a case for the interpreter may have."""
MOST_WORK = 2**22
"""Product of all dims that a case for the interpreter may have."""
_INNER, _OUTER = 64, 4
_TRIES = 4000


class Space:
    """The configurations that a declaration allows, and those just outside of it.

    ``declaration`` needs ``identity``, ``envelope`` and ``workloads``.
    """

    def __init__(self, declaration: Any) -> None:
        self.identity: str = declaration.identity
        self.envelope = declaration.envelope
        self.workloads: tuple[Any, ...] = tuple(declaration.workloads)
        self.inputs: dict[str, Any] = dict(self.envelope.inputs)
        self.dims: dict[str, Dim] = dict(self.envelope.dims)
        self.dtypes: dict[str, tuple[str, ...]] = {k: tuple(v) for k, v in self.envelope.dtypes.items()}
        self.judged = 0
        """How often :meth:`broken` was asked."""

    # ---- what there is

    @cached_property
    def tensors(self) -> dict[str, Any]:
        """Input name to ``Tensor`` or ``Offsets``; of a list, its element."""
        return {
            name: item.element if isinstance(item, ListOf) else item
            for name, item in self.inputs.items()
            if isinstance(item, (Tensor, Offsets, ListOf))
        }

    @cached_property
    def choices(self) -> dict[str, tuple[Any, ...]]:
        """Parameter name to the values it may take."""
        return {name: item.values for name, item in self.inputs.items() if isinstance(item, Choice)}

    @cached_property
    def scalars(self) -> dict[str, Scalar]:
        """Parameter name to its ``Scalar``."""
        return {name: item for name, item in self.inputs.items() if isinstance(item, Scalar)}

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """Tensor inputs that may be left out."""
        return tuple(name for name in self.tensors if self.inputs[name].optional)

    @cached_property
    def outputs(self) -> tuple[Any, ...]:
        """The ``Tensor`` of every promised output; of a list, its element."""
        outputs = [item for item in self.envelope.outputs.values() if not isinstance(item, Ignore)]
        return tuple(item.element if isinstance(item, ListOf) else item for item in outputs)

    @cached_property
    def _shaped(self) -> tuple[Any, ...]:
        return (*self.tensors.values(), *self.outputs)

    @cached_property
    def outer(self) -> frozenset[str]:
        """Batch-like dims, which cost programs and little else.

        They are in no last axis, and every matrix that has an output's last axis has them too: a matrix without them
        means that the kernel tiles them, as a matmul does its rows.
        """
        inner = {name for item in self._shaped if item.axes for name in item.axes[-1].names()}
        columns = {name for item in self.outputs if item.axes for name in item.axes[-1].names()}
        for item in self.tensors.values():
            names = {name for axis in item.axes for name in axis.names()}
            if item.rank >= 2 and names & columns:
                inner |= set(self.dims) - names - columns
        return frozenset(self.dims) - inner

    @cached_property
    def rows(self) -> frozenset[str]:
        """Dims that lead a matrix and end none: each of their rows may have a program of its own.

        Unlike for ``outer``, a vector along them (one sum per row) does not speak against it.
        """
        matrices = [item for item in self._shaped if item.rank >= 2]
        ending = {name for item in matrices for name in item.axes[-1].names()}
        return frozenset(name for item in matrices for axis in item.axes[:-1] for name in axis.names()) - ending

    def widest(self, variable: str) -> str:
        """The dtype of a variable with the most bytes, floating point before others."""
        return max(self.dtypes[variable], key=lambda name: (is_floating(name), DTYPES.get(name, 0)))

    def dtype_of(self, item: Any, dtypes: Mapping[str, str]) -> str:
        """Dtype name of a tensor for these dtype variables."""
        return dtypes.get(item.dtype, item.dtype)

    def shape_of(self, item: Any, dims: Mapping[str, int], choices: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """Shape of a tensor for these sizes; raises ``ValueError`` for a negative one."""
        known = {**dims, **{k: v for k, v in (choices or {}).items() if type(v) is int}}
        shape = tuple(axis.evaluate(known) for axis in item.axes)
        if any(size < 0 for size in shape):
            raise ValueError(f"axis sizes {shape} of {item.shape!r} are negative")
        return shape

    # ---- cost

    def elements(self, dims: Mapping[str, int], choices: Mapping[str, Any] | None = None) -> int:
        """Elements of the largest tensor; raises ``ValueError`` where an axis is negative."""
        known = {**self.default_choices, **(choices or {}), **dims}
        largest = 0
        for names, axes in self._counted:
            count = 1
            for name in names:
                count *= known[name]
            for axis in axes:
                size = axis.evaluate(known)
                if size < 0:
                    raise ValueError(f"axis {axis.text} is negative")
                count *= size
            largest = max(largest, count)
        return largest

    @cached_property
    def _counted(self) -> tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...]:
        """Of every tensor the axes that are plain names, and the others: searching sizes asks this very often."""
        return tuple(
            (tuple(a.dim for a in item.axes if a.dim), tuple(a for a in item.axes if not a.dim))
            for item in self._shaped
        )

    def affordable(self, dims: Mapping[str, int], choices: Mapping[str, Any] | None = None) -> bool:
        """Whether the interpreter can do these sizes in the time; False too where no shape comes of them."""
        work = 1
        for size in dims.values():
            work *= max(size, 1)
        try:
            return self.elements(dims, choices) <= MOST_ELEMENTS and work <= MOST_WORK
        except (ValueError, ZeroDivisionError, KeyError):
            return False

    # ---- defaults

    @cached_property
    def default_choices(self) -> dict[str, Any]:
        """The first value of every choice, and a value for every whole number that a shape depends on."""
        used = {name for item in self._shaped for axis in item.axes for name in axis.names()}
        numbers = {name: accepted(item) for name, item in self.scalars.items() if item.kind == "int" and name in used}
        return {**{name: values[0] for name, values in self.choices.items()}, **numbers}

    @cached_property
    def default_dtypes(self) -> dict[str, str]:
        """The widest dtype of every variable."""
        return {name: self.widest(name) for name in self.dtypes}

    @cached_property
    def default_dims(self) -> dict[str, int]:
        """A small, round size of every dim, within the envelope where one can be found."""
        found = self.fit({})
        return found if found is not None else {name: self._candidates(name)[0] for name in self.dims}

    def _candidates(self, name: str) -> list[int]:
        """Sizes to try for a dim, the most convenient first."""
        dim = self.dims[name]
        usual = (_OUTER, 2, 8, 1) if name in self.outer else (_INNER, 128, 32, 16, 8, 256, 512, 1024)
        declared = sorted(
            value for w in self.workloads for key, value in w.values.items() if key == name and type(value) is int
        )
        wanted = [*usual, *declared, dim.lo, dim.lo + 1, dim.hi]
        return list(dict.fromkeys(value for value in wanted if dim.lo <= value <= dim.hi)) or [dim.lo]

    def fit(self, fixed: Mapping[str, int], *, tries: int = _TRIES, **attributes: Any) -> dict[str, int] | None:
        """Sizes of all dims with some of them ``fixed``, inside the envelope and affordable; None where none are.

        About ``tries`` combinations are judged. ``attributes`` (dtypes, layouts, choices, absent) are those of the
        case it is for.
        """
        choices = attributes.get("choices")
        candidates = {
            name: list(dict.fromkeys((*self._candidates(name), *self._alike(name, fixed))))
            for name in self.dims
            if name not in fixed
        }
        for dims in self._nearest_first(fixed, candidates, choices, tries):
            if self.affordable(dims, choices) and not self.broken(self.draft(dims, **attributes)):
                return {name: dims[name] for name in self.dims}
        return None

    def _alike(self, name: str, fixed: Mapping[str, int]) -> Iterator[int]:
        """The sizes that are fixed, for a condition such as ``HQ % H == 0``."""
        return (size for size in fixed.values() if self.dims[name].lo <= size <= self.dims[name].hi)

    def _nearest_first(
        self,
        fixed: Mapping[str, int],
        candidates: Mapping[str, list[int]],
        choices: Mapping[str, Any] | None,
        tries: int,
    ) -> Iterator[dict[str, int]]:
        """Combinations of candidates, those that differ from the first choices in fewest places first.

        What cannot be afforded with all later dims at their least is left out with everything that it begins: where
        six dims have to shrink because the seventh is long, trying combinations would not get there.
        """
        names = list(candidates)
        least = {**fixed, **{name: min(sizes) for name, sizes in candidates.items()}}
        prune = self.affordable(least, choices)  # else too large, or an axis such as "M-N" that has no size there
        lists = {
            name: [s for s in sizes if not prune or self.affordable({**least, name: s}, choices)]
            for name, sizes in candidates.items()
        }
        steps, most = itertools.count(), tries * max(len(names), 1)

        def walk(place: int, changes: int, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
            if place == len(names):
                yield sizes
                return
            name = names[place]
            rest = len(names) - place - 1
            options = [*(lists[name][1:] if changes else ()), *(lists[name][:1] if changes <= rest else ())]
            for size in options:
                if next(steps) >= most:
                    return
                chosen = {**sizes, name: size}
                if size == sizes[name] or not prune or self.affordable(chosen, choices):
                    yield from walk(place + 1, changes - (size != lists[name][0]), chosen)

        for changes in range(len(names) + 1):
            yield from walk(0, changes, least)

    # ---- cases

    def case(self, dims: Mapping[str, int], **attributes: Any) -> Case:
        """A case with defaults filled in and its id; ``attributes`` are those of :meth:`draft`."""
        from kgate.cases.ids import case_id

        draft = self.draft(dims, **attributes)
        return replace(draft, id=case_id(self, draft))

    def draft(
        self,
        dims: Mapping[str, int],
        *,
        dtypes: Mapping[str, str] | None = None,
        layouts: Mapping[str, str] | None = None,
        choices: Mapping[str, Any] | None = None,
        absent: Iterable[str] = (),
        values: str = "normal",
        seed: int = 0,
        **rest: Any,
    ) -> Case:
        """A case with defaults filled in and no id yet."""
        return Case(
            id="",
            kernel=self.identity,
            dims={name: dims[name] for name in self.dims},
            dtypes={**self.default_dtypes, **(dtypes or {})},
            layouts={k: v for k, v in (layouts or {}).items() if v != CONTIGUOUS},
            choices={**self.default_choices, **(choices or {})},
            absent=tuple(name for name in self.inputs if name in set(absent)),
            values=values,
            seed=seed,
            **rest,
        )

    def geometry(self, name: str, case: Case) -> Geometry:
        """How one tensor input lies in memory; raises ``ValueError`` where its layout does not exist for it."""
        shape = self.shape_of(self.tensors[name], case.dims, case.choices)
        return geometry(case.layouts.get(name, CONTIGUOUS), shape)

    def facts(self, case: Case) -> dict[str, Any]:
        """What the envelope may ask of every input of a case, as ``Envelope.reasons`` takes it.

        Raises ``ValueError`` where a tensor cannot have that shape or layout.
        """
        return {name: self._fact(name, item, case) for name, item in self.inputs.items()}

    def _fact(self, name: str, item: Any, case: Case) -> Any:
        if name in case.absent:
            return None
        if name not in self.tensors:
            return case.choices[name] if name in case.choices else accepted(item)
        tensor, place = self.tensors[name], self.geometry(name, case)
        dtype = self.dtype_of(tensor, case.dtypes)
        shape = self.shape_of(tensor, case.dims, case.choices)
        align = _alignment(place.offset * DTYPES.get(dtype, 1))
        fact = TensorFacts(shape, dtype, place.strides, align=align)
        return [fact] * self.length(item, case) if isinstance(item, ListOf) else fact

    def length(self, item: ListOf, case: Case) -> int:
        """How many tensors a list has."""
        return item.axis.evaluate({**case.dims, **self.default_choices, **case.choices})

    def broken(self, case: Case) -> list[str]:
        """Codes of the reasons why the kernel must not serve a case, each once; empty inside the envelope."""
        self.judged += 1
        try:
            facts = self.facts(case)
        except (ValueError, ZeroDivisionError, KeyError):
            return ["shape-mismatch"]
        return list(dict.fromkeys(reason.code for reason in self.envelope.reasons(facts)))

    def conditions_broken(self, case: Case) -> list[str]:
        """The conditions of ``where`` that do not hold, as text."""
        return [reason.name for reason in self.envelope.reasons(self.facts(case)) if reason.code == "where"]

    def admits(self, name: str, layout: str, case: Case) -> bool:
        """Whether ``case`` with one input laid out differently is still inside the envelope, and different."""
        item, rank = self.tensors[name], self.tensors[name].rank
        if rank < LAYOUTS[layout].least_rank or (layout == "expanded" and item.mutated):
            return False
        dense = self.geometry(name, case)
        other = self._with_layout(case, name, layout)
        return self.geometry(name, other) != dense and not self.broken(other)

    def _with_layout(self, case: Case, name: str, layout: str) -> Case:
        return self.draft(
            case.dims,
            dtypes=case.dtypes,
            layouts={**case.layouts, name: layout},
            choices=case.choices,
            absent=case.absent,
        )


def accepted(scalar: Scalar) -> Any:
    """A value within a scalar's promise."""
    if scalar.kind == "bool":
        return False
    ends = [end for end in (scalar.lo, scalar.hi) if end is not None]
    if scalar.kind == "int":
        return int(ends[0]) if ends else 1
    return sum(ends) / len(ends) if ends else 0.5


def unusual(scalar: Scalar) -> tuple[Any, ...]:
    """Values within a scalar's promise that are hardly its default: small, and exact in float32 where a float."""
    if scalar.kind == "bool":
        return (False, True)
    if scalar.kind == "int":
        low = scalar.lo if scalar.lo is not None else (scalar.hi - 6 if scalar.hi is not None else 0)
        value: Any = int(low + 3 if scalar.hi is None else min(low + 3, scalar.hi))
    else:
        low = scalar.lo if scalar.lo is not None else (scalar.hi - 1 if scalar.hi is not None else 0)
        mantissa, exponent = math.frexp(low + 0.375 * ((scalar.hi if scalar.hi is not None else low + 1) - low))
        value = math.ldexp(round(mantissa * 256) / 256, exponent)
    inside = (scalar.lo is None or scalar.lo <= value) and (scalar.hi is None or value <= scalar.hi)
    return (value,) if inside and math.isfinite(value) else ()


def _alignment(offset: int) -> int:
    """Alignment in bytes of an address that lies ``offset`` bytes into an allocation."""
    return 64 if offset % 64 == 0 else offset & -offset
