"""Every word of the declaration works under the accuracy probe: mutation, lists, outputs, checks, generators."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from kgate import contract
from kgate.cases import derive
from kgate.probes.workers import Job, run_jobs

HEADER = """
import torch
from kgate import Choice, Dim, Envelope, Ignore, ListOf, Numerics, Offsets, Scalar, Tensor, kernel

FLOATS = ("float32", "bfloat16")
"""

KERNELS: dict[str, tuple[str, str]] = {
    "add_inplace": (
        """Envelope(inputs={"x": Tensor("N", "T", mutated=True), "y": Tensor("N", "T")}, dtypes={"T": FLOATS},
                    dims={"N": Dim(0, 4096)})""",
        """
def reference(x, y):
    x.add_(y)
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def add_inplace(x, y):
    x.add_(y FAULT)
""",
    ),
    "several": (
        """Envelope(inputs={"x": Tensor("M N", "T")},
                    outputs={"y": Tensor("M N", "T"), "workspace": Ignore(), "total": Tensor("M", "float32",
                             numerics=Numerics(reduce="N"))},
                    dtypes={"T": FLOATS}, dims={"M": Dim(0, 64), "N": Dim(1, 4096)})""",
        """
def reference(x):
    return x * 2, None, x.float().sum(1).to(torch.float32)
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def several(x):
    return x * 2, object(), x.float().sum(1 FAULT)
""",
    ),
    "lists": (
        """Envelope(inputs={"parts": ListOf(Tensor("N", "T"), "L")}, outputs={"y": ListOf(Tensor("N", "T"), "L")},
                    dtypes={"T": FLOATS}, dims={"N": Dim(0, 4096), "L": Dim(1, 4)})""",
        """
def reference(parts):
    return [part * 2 for part in parts]
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def lists(parts):
    return [part * 2 FAULT for part in parts]
""",
    ),
    "ragged": (
        """Envelope(inputs={"x": Tensor("M", "float32"), "offsets": Offsets("B+1", total="M")},
                    outputs={"y": Tensor("B", "float32", numerics=Numerics(reduce="M", magnitude=64.0))},
                    dims={"M": Dim(0, 4096), "B": Dim(1, 16)})""",
        """
def reference(x, offsets):
    ends = offsets.tolist()
    return torch.stack([x[a:b].sum() for a, b in zip(ends, ends[1:])])
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def ragged(x, offsets):
    ends = offsets.tolist()
    return torch.stack([x[a:b].sum() for a, b in zip(ends, ends[1:])]) FAULT
""",
    ),
    "scaled": (
        """Envelope(inputs={"x": Tensor("N", "T"), "scale": Scalar("float", 1, 3), "flag": Choice(True, False)},
                    outputs={"y": Tensor("N", "T")}, dtypes={"T": FLOATS}, dims={"N": Dim(0, 4096)})""",
        """
def reference(x, scale, *, flag=True):
    return x * scale if flag else x
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def scaled(x, scale, *, flag=True):
    return (x * scale if flag else x) FAULT
""",
    ),
    "chosen": (
        """Envelope(inputs={"x": Tensor("M N", "float32")}, outputs={"index": Tensor("M", "int64")},
                    dims={"M": Dim(1, 64), "N": Dim(1, 4096)})""",
        """
def reference(x):
    return x.argmax(1)
def check(inputs, outputs, expected):
    x = inputs["x"]
    best = x.gather(1, outputs["index"][:, None])[:, 0]
    return None if bool((best == x.amax(1)).all()) else "not a largest element"
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE, check=check)
def chosen(x):
    return x.shape[1] - 1 - x.flip(1).argmax(1) FAULT
""",
    ),
    "narrow": (
        """Envelope(inputs={"x": Tensor("N", "T")}, outputs={"y": Tensor("N", "T")}, dtypes={"T": FLOATS},
                    dims={"N": Dim(0, 4096)})""",
        """
def reference(x):
    assert x.dtype in (torch.float32, torch.bfloat16)
    return x * 2
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def narrow(x):
    return x * 2 FAULT
""",
    ),
    "generated": (
        """Envelope(inputs={"x": Tensor("N", "float32"), "index": Tensor("N", "int64")},
                    outputs={"y": Tensor("N", "float32")}, dims={"N": Dim(1, 4096)})""",
        """
def reference(x, index):
    return x[index]
@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def generated(x, index):
    assert sorted(index.tolist()) == list(range(x.numel()))
    return x[index] FAULT
@generated.generator
def permutation(case):
    return {"index": torch.arange(case.dims["N"]).flip(0)}
""",
    ),
}
FAULT = {
    "add_inplace": "* 1.01",
    "several": ") + 1 + 0 * x.float().sum(1",
    "lists": "+ 1",
    "ragged": "+ 1",
    "scaled": "+ 1",
    "chosen": "* 0",
    "narrow": "+ 1",
    "generated": ".flip(0)",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Kernel and whether it is faulty -> measurements of its first cases."""
    tree = tmp_path_factory.mktemp("vocabulary")
    jobs, owners = [], []
    for name, (envelope, source) in KERNELS.items():
        for faulty in (False, True):
            module = f"{name}_{'wrong' if faulty else 'right'}"
            text = source.replace("ENVELOPE", envelope).replace("FAULT", FAULT[name] if faulty else "")
            (tree / f"{module}.py").write_text(HEADER + text)
            declared = SimpleNamespace(
                identity=f"{module}.py::{name}", module=module, qualname=name, root=".", workloads=(), description={},
                envelope=eval(envelope, {**vars(contract), "FLOATS": ("float32", "bfloat16")}),
            )  # fmt: skip
            for case in derive(declared)[: 3 if faulty else 12]:
                jobs.append(Job(declared, case, "accuracy", "cuda:sm_90", 30.0))
                owners.append((name, faulty))
    results = run_jobs(jobs, tree=tree, python=sys.executable)
    grouped: dict = {}
    for owner, result in zip(owners, results, strict=True):
        grouped.setdefault(owner, []).append(result)
    return grouped


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_passes(found, name):
    assert [(r.case, r.message) for r in found[name, False] if r.status != "ok"] == []


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_one_does_not(found, name):
    assert found[name, True][0].status == "wrong", found[name, True][0].message


def test_outputs_have_figures_by_name_and_ignored_ones_have_none(found):
    assert set(found["several", False][0].figures) == {"y", "total"}
    assert set(found["add_inplace", False][0].figures) == {"x"}
    assert "y[0]" in found["lists", False][0].figures


def test_a_check_of_the_declaration_has_its_own_words(found):
    assert found["chosen", True][0].message == "not a largest element"


def test_a_reference_that_refuses_float64_runs_in_its_own_dtypes_and_that_is_said(found):
    (note,) = found["narrow", False][0].details["notes"]
    assert "in its own dtypes" in note
