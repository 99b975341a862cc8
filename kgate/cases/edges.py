"""The sizes at which kernels break: both ends of a range, and both sides of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kgate.cases.space import Space

_ASSUMED = (64, 128)
_PRIMES = (67, 131, 257, 31, 13, 7)
_SEARCH = 64
_FIRST_TRIES, _TRIES = 1000, 20
"""Combinations of the other sizes judged for a size itself, and for each one near it: many conditions that do not
hold at a size (``B == 1``) hold at none near it either, and are not worth a minute."""
_MOST_JUDGED = 4000
"""Combinations judged for one kernel in all: a count, not a time, so that every machine finds the same cases."""
_MOST_PROGRAMS = 300
"""Batch-like dims go no further: a CPU takes about a millisecond for each program."""
_MOST_ROWS = 8192
"""Rows that may have a program each go no further: 65,536 of them take longer than a case may."""


def sizes(space: Space, name: str, block_sizes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Sizes worth trying for one dim and why, the most telling first; some may lie outside the envelope."""
    most = _MOST_PROGRAMS if name in space.outer else _MOST_ROWS if name in space.rows else space.dims[name].hi
    for size, why in _all_sizes(space, name, block_sizes):
        if size <= most:
            yield size, why


def _all_sizes(space: Space, name: str, block_sizes: Sequence[int]) -> Iterator[tuple[int, str]]:
    dim = space.dims[name]
    blocks = _blocks(block_sizes)
    first = blocks[:1]
    for block in first:
        yield block + 1, f"one more than a block of {block}"
    yield 1, "a single element"
    for prime in _PRIMES[:1]:
        yield prime, "a prime"
    for block in first:
        yield block - 1, f"one less than a block of {block}"
    yield 0, "nothing at all"
    for block in first:
        yield 2 * block + 3, f"three blocks of {block}, the last one nearly empty"
        yield block, f"exactly a block of {block}"
    for block in blocks[1:]:
        yield block + 1, f"one more than a block of {block}"
        yield block - 1, f"one less than a block of {block}"
        yield 2 * block + 3, f"three blocks of {block}, the last one nearly empty"
    yield dim.lo, "the smallest size that is declared"
    yield dim.hi, "the largest size that is declared"
    for block in blocks[1:]:
        yield block, f"exactly a block of {block}"
    for prime in _PRIMES[1:]:
        yield prime, "a prime"


def _blocks(block_sizes: Sequence[int]) -> list[int]:
    """Block sizes in the order in which they are worth trying: the usual tile sizes first, then the larger ones."""
    usual = sorted((size for size in block_sizes if 16 <= size <= 1024), reverse=True)
    large = sorted(size for size in block_sizes if size > 1024)
    small = sorted((size for size in block_sizes if 2 <= size < 16), reverse=True)
    return [*usual, *large, *small] or list(_ASSUMED)


def nearest(space: Space, name: str, size: int, **attributes: Any) -> dict[str, int] | None:
    """Sizes of all dims with ``name`` as near to ``size`` as the envelope allows, never across its range."""
    dim = space.dims[name]
    least = {other: max(space.dims[other].lo, 1) for other in space.dims}
    if not dim.lo <= size <= dim.hi or not space.affordable({**least, name: size}):
        return None
    if space.judged > _MOST_JUDGED:
        return None  # the most telling sizes come first: where conditions make sizes rare, the others are not found
    for distance in range(_SEARCH + 1):
        for near in dict.fromkeys((size + distance, size - distance)):
            if dim.lo <= near <= dim.hi:
                found = space.fit({name: near}, tries=_TRIES if distance else _FIRST_TRIES, **attributes)
                if found is not None:
                    return found
    return None


def tile(block_sizes: Sequence[int]) -> int:
    """The block size that a case with a tail is built around: the largest of at most 128."""
    return max([size for size in block_sizes if 16 <= size <= 128], default=_ASSUMED[0])
