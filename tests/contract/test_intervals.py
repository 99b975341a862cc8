"""Interval arithmetic over conditions rules a truth value out only where no size has it."""

from __future__ import annotations

import itertools

import pytest

from kgate import Dim, Envelope, Scalar, Tensor
from kgate.contract import check_declaration
from kgate.contract.intervals import outcomes
from kgate.contract.where import parse

CONDITIONS = (
    "N < 0", "N <= M", "N == M", "N != M", "N >= 3 and M < 2", "N < 2 or M > 9", "not N < M", "N * M < 12", "N - M > 5",
    "-N < M", "N // (M + 1) == 7", "N // (M - 3) >= 0", "N % 4 == 5", "N % (M + 1) < 3", "N % M == 0", "N ** 2 > 30",
    "(N - M) ** 2 < 0", "(N - M) ** 3 < -200", "min(N, M) > 4", "max(N, M, 7) < 7", "cdiv(N, M + 1) > 6",
    "0 < N < M", "N < 3 < M", "N % 16 == N", "3 % 2 == 1", "True", "False", "N == 2 and not (M == 2 or N < 9)",
    "0 * N == 1", "cdiv(-N, 4) <= 0", "(-N) // 3 > 0", "(-N) % 3 == 3",
)  # fmt: skip
RANGES = (
    {"N": (0, 6), "M": (0, 4)},
    {"N": (3, 3), "M": (1, 2)},
    {"N": (5, 9), "M": (4, 8)},
    {"N": (-3, 4), "M": (2, 5)},
)


@pytest.mark.parametrize("text", CONDITIONS)
def test_what_some_size_has_is_never_ruled_out(text):
    condition = parse(text)
    for ranges in RANGES:
        found = set()
        for n, m in itertools.product(*(range(low, high + 1) for low, high in ranges.values())):
            try:
                found.add(bool(condition.evaluate({"N": n, "M": m})))
            except ZeroDivisionError:
                continue
        assert found <= outcomes(condition, ranges), ranges


@pytest.mark.parametrize(
    "text",
    ["N < 1", "N + 1 > 301", "N % 8 == 8", "N // 2 > 150", "N >= 1 and N > 300", "not N <= 300", "0 == N", "N == 301"],
)
def test_a_condition_that_no_size_fulfils_is_seen(text):
    assert outcomes(parse(text), {"N": (1, 300)}) == {False}


def test_what_is_not_known_may_be_anything():
    for text in ("stride(x, 0) < 0", "align(x) > 8", "M < 0", 'dtype(x) == "int8"', "N < M"):
        assert outcomes(parse(text), {"N": (1, 300)}) == {True, False}, text


def envelope(where, **inputs):
    tensor = Tensor("N", "float32")
    return Envelope(
        inputs=inputs or {"x": tensor}, outputs={"y": tensor}, dims={"N": Dim(1, 300)}, where=where, targets=()
    )


def test_an_envelope_that_nothing_fits_is_a_mistake_at_its_condition():
    (error,) = check_declaration(envelope=envelope(("N > 0", "N < 0")))
    assert (error.code, error.where) == ("empty-envelope", ("envelope", "where", "1"))
    assert "N within 1..300" in error.message
    assert error.remedy


def test_a_scalars_range_counts_too():
    scalar = Scalar("int", 1, 8)
    (error,) = check_declaration(envelope=envelope(("k > 8",), x=Tensor("N", "float32"), k=scalar))
    assert error.code == "empty-envelope"


def test_a_size_that_only_an_optional_input_tells_may_be_unknown_and_then_the_condition_holds():
    x, weight = Tensor("4", "float32", mutated=True), Tensor("N", "float32", optional=True)
    one = Envelope(inputs={"x": x, "weight": weight}, outputs={}, dims={"N": Dim(1, 300)}, where=("N < 0",))
    assert check_declaration(envelope=one) == []
