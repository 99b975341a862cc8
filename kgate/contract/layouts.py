"""The layouts that a kernel can ask of a tensor: a published table of predicates on sizes and strides.

Strides count elements. An axis of size 0 or 1 never matters to a layout, and a tensor without elements has
every layout except one that its rank rules out.
"""

from __future__ import annotations

from kgate.contract.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Predicate = Callable[[Sequence[int], Sequence[int]], bool]


class Layout(Record):
    """One row of the table."""

    __slots__ = ("_holds", "name", "ranks", "sentence")
    name: str
    """As a declaration names it."""
    sentence: str
    """What the layout promises, in words."""
    ranks: tuple[int, ...]
    """Ranks it makes sense for; empty for any rank."""
    _holds: Predicate

    def __init__(self, name: str, sentence: str, holds: Predicate, ranks: tuple[int, ...] = ()) -> None:
        self._set(name=name, sentence=sentence, ranks=ranks, _holds=holds)

    def holds(self, shape: Sequence[int], strides: Sequence[int]) -> bool:
        """Whether a tensor with these sizes and strides (in elements) has the layout."""
        return (not self.ranks or len(shape) in self.ranks) and (0 in shape or self._holds(shape, strides))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor without gaps, as torch gives them (an empty axis counts as one)."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _any(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return True


def _dense_in(order: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether walking the axes in this order, innermost first, meets every element once without a gap."""
    step = 1
    for axis in order:
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def _contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return _dense_in(range(len(shape) - 1, -1, -1), shape, strides)


def _inner_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return not shape or shape[-1] == 1 or strides[-1] == 1


def _row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    span = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride < span:
                return False
            span += (size - 1) * stride
    return _inner_contiguous(shape, strides)


def _column_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return len(shape) < 2 or shape[-2] == 1 or strides[-2] == 1


def _channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    rank = len(shape)
    return _dense_in((1, *range(rank - 1, 1, -1), 0), shape, strides)


def _by_stride(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    return sorted((axis for axis in range(len(shape)) if shape[axis] != 1), key=lambda axis: strides[axis])


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return _dense_in(_by_stride(shape, strides), shape, strides)


def _non_overlapping(shape: Sequence[int], strides: Sequence[int]) -> bool:
    span = 1
    for axis in _by_stride(shape, strides):
        if strides[axis] < span:
            return False
        span += (shape[axis] - 1) * strides[axis]
    return True


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("any", "every layout, expanded axes (stride 0) included", _any),
        Layout("contiguous", "row-major without gaps, as torch's is_contiguous()", _contiguous),
        Layout("inner_contiguous", "the last axis has stride 1; the others are free", _inner_contiguous),
        Layout("row_major", "axes in row-major order, the last with stride 1, gaps between rows", _row_major),
        Layout("column_major", "the last axis but one has stride 1; the others are free", _column_major),
        Layout("channels_last", "N H W C or N D H W C in memory, without gaps", _channels_last, (4, 5)),
        Layout("dense", "without gaps or overlaps, in any order of the axes", _dense),
        Layout("non_overlapping", "no two elements share an address; gaps are fine", _non_overlapping),
    )
}
"""Layout name -> predicate, in order of publication."""
