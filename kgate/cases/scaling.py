"""Workloads made small: sizes that a CPU can do, with the remainders that decide how tiles end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgate.cases.space import Space

_MOST_PERIOD = 256


def period(block_sizes: tuple[int, ...]) -> int:
    """What sizes are kept modulo of: the largest block size of at most 256, and 128 where there is none."""
    return max([size for size in block_sizes if 16 <= size <= _MOST_PERIOD], default=128)


def scale(
    space: Space, dims: Mapping[str, int], block_sizes: tuple[int, ...], **attributes: Any
) -> tuple[dict[str, int], str] | None:
    """Sizes that the interpreter can afford, and a phrase that says what was scaled.

    Batch-like dims shrink first, then the largest of the others, each keeping its remainder. None where no size
    inside the envelope was found.
    """
    small = dict(dims)
    for name in small:
        if name in space.outer:
            small[name] = _fewer(small[name])
    step = period(block_sizes)
    while not space.affordable(small, attributes.get("choices")):
        name = max(small, key=lambda key: small[key])
        shorter = _shorter(small[name], step)
        if shorter == small[name]:
            if step <= 16:
                return None
            step //= 2
        small[name] = shorter
    if space.broken(space.draft(small, **attributes)):
        fitted = _repair(space, small, dims, attributes)
        if fitted is None:
            return None
        small = fitted
    changed = [f"{name} {dims[name]} -> {small[name]}" for name in small if small[name] != dims[name]]
    return small, ", ".join(changed)


def _fewer(size: int) -> int:
    """A small count with the parity of ``size``."""
    return size if size <= 4 else 4 - size % 2


def _shorter(size: int, step: int) -> int:
    """About half of ``size``, the same modulo ``step``, and at least one full step."""
    rest = size % step
    return min(size, max((size // 2) // step, 1) * step + rest)


def _repair(
    space: Space, small: dict[str, int], dims: Mapping[str, int], attributes: dict[str, Any]
) -> dict[str, int] | None:
    """Give up single reductions, then as few sizes as possible, until the envelope is satisfied again."""
    for name in small:
        tried = {**small, name: dims[name]}
        if space.affordable(tried, attributes.get("choices")) and not space.broken(space.draft(tried, **attributes)):
            return tried
    for name in small:
        kept = {other: size for other, size in small.items() if other != name}
        fitted = space.fit(kept, **attributes)
        if fitted is not None:
            return fitted
    return space.fit({name: size for name, size in small.items() if name not in space.outer}, **attributes)
