"""The table of layouts, against strides as torch makes them."""

from __future__ import annotations

import itertools

import pytest

from kgate.contract.layouts import LAYOUTS, contiguous_strides

TABLE = [
    # shape, strides, the layouts that hold beside "any"
    ((4, 8), (8, 1), {"contiguous", "inner_contiguous", "row_major", "dense", "non_overlapping"}),
    ((4, 8), (1, 4), {"column_major", "dense", "non_overlapping"}),
    ((4, 8), (16, 1), {"inner_contiguous", "row_major", "non_overlapping"}),
    ((4, 8), (16, 2), {"non_overlapping"}),
    ((4, 8), (0, 1), {"inner_contiguous"}),
    ((4, 8), (1, 0), {"column_major"}),
    ((4, 1), (8, 1), {"inner_contiguous", "row_major", "non_overlapping"}),
    ((4, 1), (1, 99), {"contiguous", "inner_contiguous", "row_major", "column_major", "dense", "non_overlapping"}),
    ((8,), (2,), {"column_major", "non_overlapping"}),
    ((2, 3, 4, 5), (60, 1, 15, 3), {"channels_last", "dense", "non_overlapping"}),
    ((2, 3, 4, 5), (60, 20, 5, 1), {"contiguous", "inner_contiguous", "row_major", "dense", "non_overlapping"}),
    ((0, 8), (3, 3), set(LAYOUTS) - {"any", "channels_last"}),
    ((), (), set(LAYOUTS) - {"any", "channels_last"}),
]


@pytest.mark.parametrize(("shape", "strides", "expected"), TABLE)
def test_layouts_that_hold(shape, strides, expected):
    assert {name for name, layout in LAYOUTS.items() if layout.holds(shape, strides)} == expected | {"any"}


def test_contiguous_and_dense_are_what_torch_says():
    torch = pytest.importorskip("torch")
    for shape in itertools.product((0, 1, 2, 3), repeat=3):
        base = torch.empty(shape)
        assert contiguous_strides(shape) == base.stride()
        for order in itertools.permutations(range(3)):
            view = base.permute(order)
            assert LAYOUTS["contiguous"].holds(view.shape, view.stride()) is view.is_contiguous()
            assert LAYOUTS["dense"].holds(view.shape, view.stride())
