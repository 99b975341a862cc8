"""The accuracy rule: right roundings pass whatever the data, and injected faults do not."""

from __future__ import annotations

import pytest
import torch

from kgate.probes.accuracy import Budget, floor, judge, structure, unit_roundoff
from kgate.probes.worker import draw

NARROW = ("bfloat16", "float16")


def data(shape, seed=0, values="normal"):
    return torch.from_numpy(draw.floats(shape, values, seed, "x"))


def rounded(value, dtype):
    return value.to(getattr(torch, dtype))


FUNCTIONS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "rms_norm": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    "silu": lambda x: x * torch.sigmoid(x),
    "square": lambda x: x * x,
    "exp": torch.exp,
    "shift": lambda x: x + 300,
}


@pytest.mark.parametrize("dtype", [*NARROW, "float32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_float32_computation_rounded_once_is_right(name, dtype):
    function = FUNCTIONS[name]
    for seed in range(5):
        for shape in ((4, 1025), (64, 300)):
            x = rounded(data(shape, seed), dtype)
            want, got = function(x.double()), rounded(function(x.float()), dtype)
            budget = Budget(reduction=shape[1], chain=2, inputs=(dtype,))
            verdict = judge(got, want, dtype, budget, random=True)
            assert verdict.right, (seed, shape, verdict.message)


def test_figures_say_how_near_the_bound_the_worst_element_is():
    want = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    step = 2 * 4.0 * unit_roundoff("float32")
    verdict = judge((want + torch.tensor([0.0, 0.0, step])).float(), want, "float32", Budget())
    assert verdict.right
    assert verdict.figures["err_over_floor"] == pytest.approx(1.0, rel=0.01)  # u(out) |ref| + u(acc) |ref|
    assert verdict.worst["index"] == [0, 2]


def test_one_lost_element_is_wrong_and_shown_with_got_want_and_allowed():
    want = data((64, 257))
    got = rounded(want, "bfloat16")
    got[3, 4] = 0
    verdict = judge(got, want, "bfloat16", Budget())
    assert not verdict.right
    assert verdict.figures["wrong"] == 1
    assert verdict.worst["index"] == [3, 4]
    assert verdict.worst["got"] == 0.0
    assert verdict.worst["want"] == pytest.approx(float(want[3, 4]), rel=1e-5)
    assert 0 < verdict.worst["allowed"] < abs(verdict.worst["want"])


def test_zeros_do_not_pass_as_a_softmax_over_many_columns():
    want = torch.softmax(data((2, 32768)), -1)
    assert not judge(torch.zeros(2, 32768), want, "float32", Budget(reduction=32768, chain=2)).right


@pytest.mark.parametrize("dtype", NARROW)
def test_truncation_where_rounding_was_meant_shows_as_a_bias(dtype):
    want = data((16, 512)).float().double()
    got = rounded(want, dtype)
    over = got.double().abs() > want.abs()
    got = torch.where(over, (got.view(torch.int16) - 1).view(got.dtype), got)
    budget = Budget(inputs=(dtype,))
    assert judge(got, want, dtype, budget).right
    verdict = judge(got, want, dtype, budget, random=True)
    assert not verdict.right
    assert "towards zero" in verdict.message


def test_a_row_with_a_wrong_divisor_shows_far_below_the_noise_of_an_element():
    want = data((4, 4096))
    got = rounded(want * torch.tensor([1.0, 1.0, 1.002, 1.0]).reshape(4, 1), "bfloat16")
    verdict = judge(got, want, "bfloat16", Budget(inputs=("bfloat16",)), random=True)
    assert judge(got, want, "bfloat16", Budget(inputs=("bfloat16",))).right
    assert not verdict.right
    assert "row 2" in verdict.message


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinities_must_stand_where_the_reference_has_them(special):
    want = data((4, 64))
    got = want.float()
    odd = got.clone()
    odd[1, 2] = special
    assert not judge(odd, want, "float32", Budget()).right
    there = want.clone()
    there[1, 2] = special
    assert judge(odd, there, "float32", Budget()).right
    assert not judge(got, there, "float32", Budget()).right


def test_nan_rules_of_a_declaration_hold():
    want = data((4, 64))
    want[0, 0] = float("nan")
    got = torch.nan_to_num(want).float()
    assert judge(got, want, "float32", Budget(nan="ignore")).right
    assert judge(got, want, "float32", Budget(nan="unspecified")).right
    got[1, 1] = float("nan")
    assert not judge(got, want, "float32", Budget(nan="ignore")).right


def test_overflow_of_the_output_dtype_is_expected_where_the_reference_overflows_it():
    want = torch.tensor([[1e5, 1.0, -1e5]], dtype=torch.float64)
    assert judge(want.half(), want, "float16", Budget()).right
    assert not judge(torch.tensor([[65504.0, 1.0, -65504.0]]).half(), want, "float16", Budget()).right


def test_signed_zeros_count_only_where_they_are_promised():
    want, got = torch.tensor([[-0.0, 1.0]], dtype=torch.float64), torch.tensor([[0.0, 1.0]])
    assert judge(got, want, "float32", Budget()).right
    assert not judge(got, want, "float32", Budget(signed_zero=True)).right


def test_integers_are_exact():
    want = torch.arange(12).reshape(3, 4)
    assert judge(want.int(), want, "int32", Budget()).right
    off = want.clone()
    off[2, 1] += 1
    verdict = judge(off.int(), want, "int32", Budget())
    assert not verdict.right
    assert verdict.worst["index"] == [2, 1]


def test_nothing_is_right():
    assert judge(torch.empty(0, 4), torch.empty(0, 4, dtype=torch.float64), "float32", Budget()).right


def test_the_floor_follows_its_formula():
    want = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    budget = Budget(reduction=16, roundings=2, chain=1.0, inputs=("bfloat16",))
    u16, u32, tiny = 2.0**-8, 2.0**-24, torch.finfo(torch.bfloat16).tiny
    expected = [u16 * s + 2 * u16 * s + 4 * u32 * 4.0 + tiny for s in (3.0, 4.0)]
    assert floor(want, "bfloat16", budget).flatten().tolist() == pytest.approx(expected)


def test_tf32_products_widen_the_floor():
    want = data((8, 8))
    exact, tf32 = Budget(inputs=("float32",)), Budget(inputs=("float32",), accumulator="tf32")
    assert bool((floor(want, "float32", tf32) > 100 * floor(want, "float32", exact)).all())
    assert torch.equal(floor(want, "float16", Budget(accumulator="tf32")), floor(want, "float16", Budget()))


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (torch.zeros(2, 3), ""),
        (torch.zeros(3, 2), "has shape (3, 2), (2, 3) was promised"),
        (torch.zeros(2, 3).half(), "is float16, float32 was promised"),
        (torch.zeros(3, 2).t(), "has strides (1, 2), (3, 1) was promised"),
        (None, "is NoneType, a tensor was promised"),
    ],
)
def test_structure_names_what_differs(got, said):
    assert structure(got, (2, 3), "float32", (3, 1)) == said
