"""Inputs: the same numbers everywhere, in the layouts that the case names, with poison around them."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kgate import Choice, Dim, Envelope, ListOf, Offsets, Scalar, Tensor
from kgate.cases import parse_case
from kgate.cases.ids import VALUES
from kgate.cases.layouts import LAYOUTS
from kgate.probes.worker import draw
from kgate.probes.worker.inputs import make_inputs
from kgate.probes.worker.oracle import widen, widened

ENVELOPE = Envelope(
    inputs={
        "x": Tensor("M N", "T"),
        "weight": Tensor("N", "T", optional=True),
        "index": Tensor("M", "int64"),
        "keep": Tensor("M", "bool"),
        "parts": ListOf(Tensor("M", "T"), "L"),
        "cu_seqlens": Offsets("B+1", total="M", dtype="int32"),
        "eps": Scalar("float", 0, 1),
        "mode": Choice("a", "b"),
    },
    outputs={"y": Tensor("M N", "T")},
    dtypes={"T": ("float32", "bfloat16", "float16")},
    dims={"M": Dim(0, 4096), "N": Dim(1, 4096), "L": Dim(1, 3), "B": Dim(1, 64)},
)
DECLARED = SimpleNamespace(identity="k.py::k", envelope=ENVELOPE, workloads=())


def made(text, **options):
    return make_inputs(ENVELOPE, parse_case(DECLARED, text), **options)


def test_the_generator_gives_these_very_numbers_on_every_machine():
    assert draw.words(2, 0, "x").tolist() == [12801339980238102899, 15484171569022855629]
    assert draw.normal(2, 0, "x").tolist() == [-0.8417205810546875, 1.2143096923828125]


def test_normal_values_have_mean_zero_and_variance_one_and_are_exact_in_float32():
    x = draw.normal(100_000, 1, "x")
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02
    assert (x == x.astype(np.float32)).all()


def test_inputs_depend_on_seed_and_name_alone():
    assert torch.equal(made("M=4,N=8")["x"], made("M=4,N=8,x=sliced")["x"])
    assert not torch.equal(made("M=4,N=8")["x"], made("M=4,N=8,seed=1")["x"])
    assert not torch.equal(made("M=4,N=8,L=2")["parts"][0], made("M=4,N=8,L=2")["parts"][1])


@pytest.mark.parametrize(
    "layout", [name for name, layout in LAYOUTS.items() if layout.least_rank <= 2 and name != "far"]
)
def test_a_layout_has_its_strides_and_poison_in_every_gap(layout):
    inputs = made(f"M=4,N=8,x={layout}")
    x = inputs["x"]
    assert tuple(x.shape) == (4, 8)
    assert bool(torch.isfinite(x).all())
    whole = torch.empty(0).set_(x.untyped_storage())
    inside = torch.arange(whole.numel()).as_strided(x.shape, x.stride(), x.storage_offset()).unique()
    outside = torch.ones(whole.numel(), dtype=torch.bool)
    outside[inside] = False
    assert bool(torch.isnan(whole[outside]).all())
    assert layout in ("contiguous", "transposed", "expanded", "channels_last") or bool(outside.any())


def test_far_rows_cost_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = made("M=3,N=8,x=far")["x"]
    assert x.stride(0) * 2 >= 2**31
    assert torch.equal(x.contiguous(), made("M=3,N=8")["x"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_every_value_that_a_case_can_name_is_known_to_the_generator():
    assert set(VALUES) == set(draw.VALUES)
    for values in VALUES:
        assert bool(torch.isfinite(made(f"M=4,N=8,T=float16,values={values}")["x"]).all())


def test_hard_values_are_what_they_are_called():
    assert abs(float(made("M=4,N=64,values=mean300")["x"].mean()) - 300) < 1
    equal = made("M=4,N=64,values=equal")["x"]
    assert torch.equal(equal, equal[:, :1].expand(4, 64))
    assert made("M=4,N=64,values=outlier")["x"].amax(dim=1).tolist() == [10000.0] * 4
    assert bool((made("M=4,N=64,values=negative")["x"] <= 0).all())


def test_offsets_ascend_from_zero_to_their_total():
    offsets = made("M=37,B=5")["cu_seqlens"]
    assert (offsets.dtype, tuple(offsets.shape)) == (torch.int32, (6,))
    assert (int(offsets[0]), int(offsets[-1])) == (0, 37)
    assert bool((offsets.diff() >= 0).all())


def test_indices_are_valid_for_every_axis():
    index = made("M=37,N=5,B=8,L=2")["index"]
    assert 0 <= int(index.min()) <= int(index.max()) < 2


def test_absent_inputs_are_none_and_scalars_are_left_to_the_launcher():
    inputs = made("M=4,weight=absent")
    assert inputs["weight"] is None
    assert "eps" not in inputs
    assert (inputs["mode"], made("M=4,eps=0.5")["eps"]) == ("a", 0.5)


def test_without_data_shapes_and_layouts_are_the_same():
    plain, empty = made("M=4,N=8,x=sliced"), made("M=4,N=8,x=sliced", data=False)
    assert (plain["x"].shape, plain["x"].stride()) == (empty["x"].shape, empty["x"].stride())
    assert len(empty["parts"]) == len(plain["parts"])


def test_a_reference_that_asks_for_float32_computes_in_float64():
    x = torch.tensor([1.0, 2.0**-30], dtype=torch.float32)
    with widened():
        wide = widen(x)
        results = [
            wide.float(),
            wide.to(torch.float32),
            wide.to(dtype=torch.float32),
            wide.to("cpu", torch.float32),
            torch.zeros(2, dtype=torch.float32) + wide,
            torch.ones(2) * wide,
            wide.sum(dtype=torch.float32),
        ]
        assert wide.half().dtype is torch.float16
    assert all(result.dtype is torch.float64 for result in results)
    assert float(results[-1]) == 1.0 + 2.0**-30
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize("values", sorted(draw.VALUES))
def test_a_tensor_of_rank_0_can_have_every_distribution(values):
    drawn = draw.floats((), values, 0, "x")
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == ()
