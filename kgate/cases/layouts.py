"""How a tensor argument lies in memory: the layouts that cases try, as strides and a storage offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

CONTIGUOUS = "contiguous"
FAR = "far"
"""Rows so far apart that the last one starts beyond 2**31 elements; only ever allocated lazily."""

_PAST_INT32 = 2**31 * 10 // 7
"""Where the last row starts, so that the last tile of rows starts beyond 2**31 too."""


@dataclass(frozen=True)
class Geometry:
    """Where the elements of one tensor lie, in elements of its dtype."""

    strides: tuple[int, ...]
    """Stride of every axis."""
    offset: int
    """Position of the first element in the storage."""
    storage: int
    """Elements that the storage holds, at least one."""


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def permuted_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a gapless tensor whose axes lie in memory in ``order``, slowest first."""
    dense = dense_strides([shape[axis] for axis in order])
    strides = [0] * len(shape)
    for position, axis in enumerate(order):
        strides[axis] = dense[position]
    return tuple(strides)


def _contiguous(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return dense_strides(shape), 0


def _offset(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return dense_strides(shape), 1


def _transposed(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    axes = list(range(len(shape)))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return permuted_strides(shape, axes), 0


def _sliced(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return dense_strides([*shape[:-1], shape[-1] + 5]), 0


def _padded(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return dense_strides([*shape[:-1], -(-shape[-1] // 16) * 16 + 16]), 0


def _rows(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    dense = list(dense_strides(shape))
    return (2 * dense[0], *dense[1:]), 0


def _strided(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return tuple(2 * stride for stride in dense_strides(shape)), 0


def _expanded(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return (0, *dense_strides(shape)[1:]), 0


def _channels_last(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    return permuted_strides(shape, (0, *range(2, len(shape)), 1)), 0


def _far(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    dense = dense_strides(shape)
    apart = -(-_PAST_INT32 // max(shape[0] - 1, 1))
    return (max(-(-apart // 64) * 64, dense[0]), *dense[1:]), 0


@dataclass(frozen=True)
class Layout:
    """One layout: its name, what it is like, and the ranks it exists for."""

    name: str
    meaning: str
    least_rank: int
    place: Callable[[Sequence[int]], tuple[tuple[int, ...], int]]


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout(CONTIGUOUS, "row-major without gaps", 0, _contiguous),
        Layout("transposed", "the last two axes swapped in memory", 2, _transposed),
        Layout("sliced", "some columns of a tensor that is 5 wider", 2, _sliced),
        Layout("padded", "some columns of a tensor whose rows are padded to a multiple of 16", 2, _padded),
        Layout("rows", "every other row of a tensor twice as long", 2, _rows),
        Layout("strided", "every other element of the last axis", 1, _strided),
        Layout("expanded", "one row repeated with stride 0", 1, _expanded),
        Layout("offset", "starts one element into its storage", 0, _offset),
        Layout("channels_last", "the second axis fastest", 3, _channels_last),
        Layout(FAR, "rows so far apart that the last starts beyond 2**31 elements", 2, _far),
    )
}


def geometry(layout: str, shape: Sequence[int]) -> Geometry:
    """Strides, offset and storage size of a tensor of ``shape`` laid out as ``layout``.

    Raises ``ValueError`` where the layout is unknown or does not exist for the rank.
    """
    known = LAYOUTS.get(layout)
    if known is None:
        raise ValueError(f"unknown layout {layout!r}; known are {', '.join(LAYOUTS)}")
    if len(shape) < known.least_rank:
        raise ValueError(f"layout {layout!r} needs {known.least_rank} or more axes, the tensor has {len(shape)}")
    strides, offset = known.place(shape)
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    elements = 0 if 0 in shape else last + 1
    return Geometry(strides, offset, max(offset + elements, 1))
