"""What failing cases share: the shortest condition over case attributes that separates them from passing ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from kgate.cases.records import Case


@dataclass(frozen=True)
class Shared:
    """A condition, and how many failing and passing cases it holds for."""

    condition: str
    """For example ``N % 128 != 0 and T = bfloat16``; empty where nothing separates the two."""
    failing: int
    """Failing cases that it holds for."""
    of_failing: int
    """All failing cases."""
    passing: int
    """Passing cases that it holds for."""
    of_passing: int
    """All passing cases."""

    @property
    def exact(self) -> bool:
        """Whether it holds for every failing and for no passing case."""
        return bool(self.condition) and self.failing == self.of_failing and self.passing == 0

    def __str__(self) -> str:
        counts = f"({self.failing} of {self.of_failing} failing, {self.passing} of {self.of_passing} passing)"
        return f"{self.condition}   {counts}"


@dataclass(frozen=True)
class _Predicate:
    text: str
    cost: float
    failing: int  # bit sets over the cases
    passing: int
    attribute: str


def shared_by(failing: Sequence[Case], passing: Sequence[Case], block_sizes: Iterable[int] = ()) -> Shared | None:
    """Find the shortest condition that holds for the failing cases and for no passing case.

    One predicate is preferred to two, two to three; among equals, the one whose kind explains most (a dtype, a
    layout, a divisibility by a block size, then thresholds). Where no condition separates them fully, the best
    partial one is given, with its counts. None where there is nothing to say (no failing
    or no passing case).
    """
    if not failing or not passing:
        return None
    predicates = _distinct(_predicates(failing, passing, tuple(block_sizes)))
    everything = (1 << len(failing)) - 1
    covering = [p for p in predicates if p.failing == everything]
    for size in (1, 2, 3):
        if len(passing) < _EVIDENCE * (size - 1):
            break  # few passing cases are told from failing ones by almost any two conditions together
        best = _separating(covering, size)
        if best is not None:
            return _shared(best, len(failing), len(passing))
    return _partial(predicates, len(failing), len(passing))


def _separating(covering: list[_Predicate], size: int) -> tuple[_Predicate, ...] | None:
    pool = sorted(covering, key=lambda p: (p.cost, p.text))[: 400 if size < 3 else 60]
    best: tuple[_Predicate, ...] | None = None
    best_cost = float("inf")
    for group in combinations(pool, size):
        if size > 1 and len({p.attribute for p in group}) < size:
            continue
        left = group[0].passing
        for predicate in group[1:]:
            left &= predicate.passing
        cost = sum(p.cost for p in group)
        if left == 0 and cost < best_cost:
            best, best_cost = group, cost
    return best


_EVIDENCE = 4
"""Passing cases that each condition beyond the first needs to stand for something."""
_SIZES_PASSING = 2
"""Passing cases below which nothing is said of sizes, where several dims vary."""
_ENOUGH_PASSING = 4
"""With fewer passing cases than this, almost any condition tells them from most of the failing ones."""


def _partial(predicates: list[_Predicate], failing: int, passing: int) -> Shared | None:
    """The best condition by how well it predicts failing (F1), where none separates."""
    if passing < _ENOUGH_PASSING:
        return None
    best, best_score = None, 0.0
    for size in (1, 2):
        pool = sorted(predicates, key=lambda p: (p.cost, p.text))[: 400 if size == 1 else 80]
        for group in combinations(pool, size):
            if size > 1 and group[0].attribute == group[1].attribute:
                continue
            hits, misses = group[0].failing, group[0].passing
            for predicate in group[1:]:
                hits, misses = hits & predicate.failing, misses & predicate.passing
            true = hits.bit_count()
            if misses.bit_count() > 0.15 * passing or 3 * true < 2 * failing:
                continue  # it holds for passing cases too, or for too few failing ones: it explains nothing
            score = 2 * true / (true + misses.bit_count() + failing) - 0.02 * sum(p.cost for p in group)
            if score > best_score:
                best, best_score = group, score
    return _shared(best, failing, passing) if best is not None and best_score > 0.5 else None


def _shared(group: tuple[_Predicate, ...], failing: int, passing: int) -> Shared:
    hits, misses = group[0].failing, group[0].passing
    for predicate in group[1:]:
        hits, misses = hits & predicate.failing, misses & predicate.passing
    text = " and ".join(p.text for p in group)
    return Shared(text, hits.bit_count(), failing, misses.bit_count(), passing)


def _distinct(predicates: Iterable[_Predicate]) -> list[_Predicate]:
    """One predicate per pair of bit sets and attribute: the cheapest way to say the same."""
    best: dict[tuple[int, int, str], _Predicate] = {}
    for predicate in predicates:
        key = (predicate.failing, predicate.passing, predicate.attribute)
        if key not in best or (predicate.cost, predicate.text) < (best[key].cost, best[key].text):
            best[key] = predicate
    return list(best.values())


class _Table:
    """Makes predicates over the cases at hand: failing ones first, then passing ones."""

    def __init__(self, failing: Sequence[Case], passing: Sequence[Case]) -> None:
        self.failing = failing
        self.cases = [*failing, *passing]

    def predicate(self, text: str, cost: float, attribute: str, holds: Sequence[bool]) -> _Predicate:
        """A predicate that holds for the cases at which ``holds`` is true."""
        count = len(self.failing)
        bits = [sum(1 << i for i, value in enumerate(part) if value) for part in (holds[:count], holds[count:])]
        return _Predicate(text, cost, bits[0], bits[1], attribute)


def _predicates(failing: Sequence[Case], passing: Sequence[Case], block_sizes: tuple[int, ...]) -> Iterable[_Predicate]:
    table = _Table(failing, passing)
    yield from _named(table)
    yield from _optional(table)
    dims = sorted({name for case in table.cases for name in case.dims})
    vary = [name for name in dims if len({_dim(case, name) for case in table.cases}) > 1]
    if len(passing) < _SIZES_PASSING and len(vary) > 1:
        return  # one passing case differs from the others in every size: nothing says which of them matters
    for dim in dims:
        yield from _dimension(table, dim, block_sizes)
    for one, other in combinations(dims, 2):
        sizes = [(_dim(c, one), _dim(c, other)) for c in table.cases]
        yield table.predicate(f"{one} > {other}", 1.8, f"{one},{other}", [a > b for a, b in sizes])
        yield table.predicate(f"{one} < {other}", 1.8, f"{one},{other}", [a < b for a, b in sizes])


def _dim(case: Case, name: str) -> int:
    return case.dims.get(name, -1)


def _named(table: _Table) -> Iterable[_Predicate]:
    """Dtypes, layouts, choices and value classes: ``T = bfloat16``."""
    columns: dict[str, list[str]] = {}
    for name in sorted({n for case in table.cases for n in case.dtypes}):
        columns[name] = [case.dtypes.get(name, "") for case in table.cases]
    for name in sorted({n for case in table.cases for n in case.layouts}):
        columns[name] = [case.layouts.get(name, "contiguous") for case in table.cases]
    for name in sorted({n for case in table.cases for n in case.choices}):
        columns[name] = [str(case.choices.get(name, "")) for case in table.cases]
    columns["values"] = ["" if case.values == "normal" else case.values for case in table.cases]
    for name, column in columns.items():
        values = sorted({value for value in column[: len(table.failing)] if value not in ("", "contiguous")})
        for value in values:
            yield table.predicate(f"{name} = {value}", 1.0, name, [found == value for found in column])
        if 1 < len(values) < 4:
            yield table.predicate(f"{name} = {' or '.join(values)}", 1.3, name, [found in values for found in column])
        if name in {n for case in table.cases for n in case.layouts}:
            yield table.predicate(f"{name} is not contiguous", 1.1, name, [found != "contiguous" for found in column])


def _optional(table: _Table) -> Iterable[_Predicate]:
    for name in sorted({n for case in table.cases for n in case.absent}):
        absent = [name in case.absent for case in table.cases]
        yield table.predicate(f"{name} absent", 1.0, name, absent)
        yield table.predicate(f"{name} present", 1.05, name, [not value for value in absent])


def _dimension(table: _Table, dim: str, block_sizes: tuple[int, ...]) -> Iterable[_Predicate]:
    """Divisibility, thresholds and single sizes of one dim."""
    sizes = [_dim(case, dim) for case in table.cases]
    if len(set(sizes)) < 2:
        return
    powers = {2, 4, 8, 16, 32, 64, 128, 256}
    for block in sorted({b for b in block_sizes if b > 1} | powers):
        cost = 1.1 if block in block_sizes else 1.25
        yield table.predicate(f"{dim} % {block} != 0", cost, dim, [size % block != 0 for size in sizes])
    for block in sorted({b for b in block_sizes if b > 1}):
        yield table.predicate(f"{dim} > {block}", 1.15, dim, [size > block for size in sizes])
        yield table.predicate(f"{dim} <= {block}", 1.15, dim, [0 <= size <= block for size in sizes])
    yield table.predicate(
        f"{dim} is not a power of two", 1.2, dim, [size < 1 or bool(size & (size - 1)) for size in sizes]
    )
    bad = sorted(set(sizes[: len(table.failing)]))
    if len(bad) == 1:
        yield table.predicate(f"{dim} = {bad[0]}", 1.4, dim, [size == bad[0] for size in sizes])
    yield table.predicate(f"{dim} >= {bad[0]}", 1.5, dim, [size >= bad[0] for size in sizes])
    yield table.predicate(f"{dim} <= {bad[-1]}", 1.5, dim, [0 <= size <= bad[-1] for size in sizes])
