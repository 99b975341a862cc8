"""What failing cases share: the shortest condition over case attributes that separates them from passing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    One predicate is preferred to two, two to three; among equals, the one whose kind explains most (a dtype, a layout, a
    divisibility by a block size, then thresholds). Where no condition separates them fully, the best partial one is given,
    with its counts. None where there is nothing to say (no failing case, or no passing one to compare with).
    """
    if not failing or not passing:
        return None
    predicates = _distinct(_predicates(failing, passing, tuple(block_sizes)))
    everything = (1 << len(failing)) - 1
    covering = [p for p in predicates if p.failing == everything]
    for size in (1, 2, 3):
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


def _partial(predicates: list[_Predicate], failing: int, passing: int) -> Shared | None:
    """The best condition by how well it predicts failing (F1), where none separates."""
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


def _predicates(
    failing: Sequence[Case], passing: Sequence[Case], block_sizes: tuple[int, ...]
) -> Iterable[_Predicate]:
    def make(text: str, cost: float, attribute: str, holds: Callable[[Case], bool]) -> _Predicate:
        bits = [sum(1 << i for i, case in enumerate(group) if holds(case)) for group in (failing, passing)]
        return _Predicate(text, cost, bits[0], bits[1], attribute)

    cases = [*failing, *passing]
    yield from _categorical(make, failing, cases)
    for dim in sorted({name for case in cases for name in case.dims}):
        yield from _dimension(make, dim, failing, cases, block_sizes)
    for one, other in combinations(sorted({name for case in cases for name in case.dims}), 2):
        yield make(f"{one} > {other}", 1.8, f"{one},{other}", lambda c, a=one, b=other: _dim(c, a) > _dim(c, b))
        yield make(f"{one} < {other}", 1.8, f"{one},{other}", lambda c, a=one, b=other: _dim(c, a) < _dim(c, b))


_Make = Callable[[str, float, str, Callable[[Case], bool]], _Predicate]


def _dim(case: Case, name: str) -> int:
    return case.dims.get(name, -1)


def _categorical(make: _Make, failing: Sequence[Case], cases: Sequence[Case]) -> Iterable[_Predicate]:
    for name in sorted({n for case in cases for n in case.dtypes}):
        values = sorted({case.dtypes[name] for case in failing if name in case.dtypes})
        for value in values:
            yield make(f"{name} = {value}", 1.0, name, lambda c, n=name, v=value: c.dtypes.get(n) == v)
        if len(values) > 1:
            text = " or ".join(values)
            yield make(f"{name} = {text}", 1.3, name, lambda c, n=name, v=tuple(values): c.dtypes.get(n) in v)
    for name in sorted({n for case in cases for n in case.layouts}):
        values = sorted({case.layouts.get(name, "contiguous") for case in failing})
        for value in values:
            yield make(
                f"{name} = {value}", 1.0, name, lambda c, n=name, v=value: c.layouts.get(n, "contiguous") == v
            )
        yield make(f"{name} is not contiguous", 1.1, name, lambda c, n=name: n in c.layouts)
    for name in sorted({n for case in cases for n in case.choices}):
        for value in sorted({repr(case.choices[name]) for case in failing if name in case.choices}):
            yield make(f"{name} = {value}", 1.0, name, lambda c, n=name, v=value: repr(c.choices.get(n)) == v)
    for name in sorted({n for case in cases for n in case.absent}):
        yield make(f"{name} absent", 1.0, name, lambda c, n=name: n in c.absent)
        yield make(f"{name} present", 1.05, name, lambda c, n=name: n not in c.absent)
    for value in sorted({case.values for case in failing}):
        yield make(f"values = {value}", 1.0, "values", lambda c, v=value: c.values == v)


def _dimension(
    make: _Make, dim: str, failing: Sequence[Case], cases: Sequence[Case], block_sizes: tuple[int, ...]
) -> Iterable[_Predicate]:
    values = sorted({_dim(case, dim) for case in cases})
    if len(values) < 2:
        return
    for block in sorted({b for b in block_sizes if b > 1}):
        yield make(f"{dim} % {block} != 0", 1.1, dim, lambda c, d=dim, b=block: _dim(c, d) % b != 0)
        yield make(f"{dim} > {block}", 1.15, dim, lambda c, d=dim, b=block: _dim(c, d) > b)
        yield make(f"{dim} <= {block}", 1.15, dim, lambda c, d=dim, b=block: 0 <= _dim(c, d) <= b)
    for power in (2, 4, 8, 16, 32, 64, 128, 256):
        yield make(f"{dim} % {power} != 0", 1.25, dim, lambda c, d=dim, p=power: _dim(c, d) % p != 0)
    yield make(
        f"{dim} is not a power of two", 1.2, dim, lambda c, d=dim: _dim(c, d) < 1 or bool(_dim(c, d) & (_dim(c, d) - 1))
    )
    bad = sorted({_dim(case, dim) for case in failing})
    if len(bad) == 1:
        yield make(f"{dim} = {bad[0]}", 1.4, dim, lambda c, d=dim, v=bad[0]: _dim(c, d) == v)
    yield make(f"{dim} >= {bad[0]}", 1.5, dim, lambda c, d=dim, v=bad[0]: _dim(c, d) >= v)
    yield make(f"{dim} <= {bad[-1]}", 1.5, dim, lambda c, d=dim, v=bad[-1]: 0 <= _dim(c, d) <= v)
