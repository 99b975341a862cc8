"""Axis strings: sizes from dims, and dims from sizes."""

from __future__ import annotations

import pytest

from kgate import DeclarationError
from kgate.contract.shapes import parse_length, parse_shape


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("", []),
        ("M N", [3, 10]),
        ("128", [128]),
        ("M N+1 2*N N//3", [3, 11, 20, 3]),
        ("cdiv(N, 4) max(M, N)", [3, 10]),
        ("(M+1)*N-1", [39]),
    ],
)
def test_sizes_of_the_axes(text, sizes):
    assert [axis.evaluate({"M": 3, "N": 10}) for axis in parse_shape(text)] == sizes


def test_a_missing_dim_is_named():
    with pytest.raises(KeyError, match="size of N is needed"):
        parse_length("N+1").evaluate({"M": 1})


@pytest.mark.parametrize(
    ("axis", "size", "dims", "settled"),
    [
        ("N", 7, {}, {"N": 7}),
        ("N", 7, {"N": 7}, {}),
        ("N", 7, {"N": 8}, None),
        ("N+1", 7, {}, {"N": 6}),
        ("N+1", 0, {}, None),
        ("2*N", 6, {}, {"N": 3}),
        ("2*N", 7, {}, None),
        ("9-N", 7, {}, {"N": 2}),
        ("M*N", 6, {"M": 3}, {"N": 2}),
        ("M*N", 6, {"M": 0}, None),
        ("M*N", 0, {"M": 0}, {}),
        ("M*N", 6, {}, {}),
        ("N//2", 3, {}, {}),
        ("N//2", 3, {"N": 7}, {}),
        ("N//2", 3, {"N": 8}, None),
        ("M//N", 3, {"M": 3, "N": 0}, None),
        ("128", 128, {}, {}),
        ("128", 127, {}, None),
    ],
)
def test_what_a_size_says_about_the_dims(axis, size, dims, settled):
    assert parse_length(axis).solve(size, dims) == settled


def test_only_what_is_solvable_is_settled():
    assert parse_length("G*N").solve(6, {"N": 2}, {"N"}) == {}


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("M, N", "spaces"),
        ("... N", "one declaration per rank"),
        ("M/2", '"//"'),
        ("stride(x,0)", "dims and whole numbers"),
        ("M<N", "grammar"),
        ("(M<N)", "dims and whole numbers"),
        ('"M"', "dims and whole numbers"),
        ("M N +", "grammar"),
    ],
)
def test_what_is_no_shape(text, remedy):
    with pytest.raises(DeclarationError) as caught:
        parse_shape(text)
    assert caught.value.code == "bad-shape"
    assert remedy in caught.value.remedy


def test_columns_count_in_the_whole_string():
    with pytest.raises(DeclarationError) as caught:
        parse_shape("M N N/2")
    assert caught.value.column == 6
