"""What failing cases share."""

from __future__ import annotations

from itertools import product

import pytest

from kgate.cases.records import Case
from kgate.gate.explain import shared_by


def case(n: int, dtype: str = "float32", m: int = 4, **more: object) -> Case:
    return Case(
        id=f"M={m},N={n},T={dtype},{sorted(more)}", kernel="k.py::k", dims={"M": m, "N": n}, dtypes={"T": dtype}, **more
    )  # type: ignore[arg-type]


GRID = [case(n, dtype) for n, dtype in product((1, 64, 127, 128, 129, 256, 384, 1000), ("float32", "bfloat16"))]


def split(failing) -> tuple[list[Case], list[Case]]:
    return [c for c in GRID if failing(c)], [c for c in GRID if not failing(c)]


def test_a_dtype_alone_is_named() -> None:
    bad, good = split(lambda c: c.dtypes["T"] == "bfloat16")
    shared = shared_by(bad, good, (128,))
    assert shared is not None
    assert str(shared) == "T = bfloat16   (8 of 8 failing, 0 of 8 passing)"


def test_a_tail_in_one_dtype_is_a_conjunction_over_the_block_size() -> None:
    bad, good = split(lambda c: c.dims["N"] % 128 and c.dtypes["T"] == "bfloat16")
    shared = shared_by(bad, good, (128,))
    assert shared is not None
    assert set(shared.condition.split(" and ")) == {"T = bfloat16", "N % 128 != 0"}
    assert (shared.failing, shared.of_failing, shared.passing, shared.of_passing) == (5, 5, 0, 11)


def test_a_threshold_is_named_where_no_divisibility_explains_it() -> None:
    bad, good = split(lambda c: c.dims["N"] >= 256)
    shared = shared_by(bad, good)
    assert shared is not None
    assert shared.condition == "N >= 256"
    assert shared.exact


def test_crossing_a_block_size_is_said_with_the_block_size() -> None:
    bad, good = split(lambda c: c.dims["N"] > 256)
    shared = shared_by(bad, good, (256,))
    assert shared is not None
    assert shared.condition == "N > 256"


def test_a_layout_is_named() -> None:
    bad = [case(64, layouts={"x": "expanded"}), case(128, layouts={"x": "expanded"})]
    good = [case(64), case(128), case(64, layouts={"x": "sliced"})]
    shared = shared_by(bad, good)
    assert shared is not None
    assert shared.condition == "x = expanded"


def test_an_absent_optional_input_is_named() -> None:
    shared = shared_by([case(64, absent=("weight",)), case(127, absent=("weight",))], [case(64), case(127)])
    assert shared is not None
    assert shared.condition == "weight absent"


def test_input_values_are_named() -> None:
    shared = shared_by([case(64, values="mean300")], [case(64), case(64, values="zeros")])
    assert shared is not None
    assert shared.condition == "values = mean300"


def test_a_condition_that_does_not_separate_carries_its_counts() -> None:
    failing = [case(n, "bfloat16") for n in (64, 128, 129, 1000)] + [case(1, "float32")]
    passing = [case(n, "float32") for n in (64, 127, 128, 129, 256, 384, 1000)] + [case(1, "bfloat16")]
    shared = shared_by(failing, passing)
    assert shared is not None
    assert not (shared.exact and shared.condition == "T = bfloat16")
    assert shared.of_failing == 5
    assert shared.of_passing == 8


@pytest.mark.parametrize(("failing", "passing"), [([], GRID), (GRID, []), ([], [])])
def test_nothing_is_said_where_there_is_nothing_to_compare(failing: list[Case], passing: list[Case]) -> None:
    assert shared_by(failing, passing) is None


def test_one_passing_case_is_no_evidence_about_sizes() -> None:
    failing = [case(n, m=m) for n, m in product((67, 129, 1000), (3, 9))]
    assert shared_by(failing, [case(64, m=128)], (128,)) is None
    assert shared_by(failing, [case(64, m=128), case(128, m=3)], (128,)) is not None
