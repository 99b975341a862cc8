"""From source to measurement, for kernels that are declared under another name than their function's."""

from __future__ import annotations

import sys

import pytest

from kgate.cases import parse_case
from kgate.probes.workers import Job, run_jobs
from kgate.source.folder import FolderSnapshot
from kgate.source.index import build_index

THEIRS = """
import torch, triton, triton.language as tl

@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)

def fn(x):
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.shape[0], 64),)](x, y, x.shape[0], BLOCK=64)
    return y

def nothing(x):
    return torch.empty_like(x)

def raises(x):
    raise ValueError

def add(x):
    return x + x
"""

OURS = """
import torch
import torch.nn.functional as F
from kgate import Dim, Envelope, Numerics, Tensor, kernel
import theirs

def twice(x):
    return x * 2

two_times = twice
launcher = theirs.fn
ENVELOPE = Envelope(
    inputs={"x": Tensor("N", "T", layout="contiguous")},
    outputs={"y": Tensor("N", "T", numerics=Numerics())},
    dtypes={"T": ("float32",)},
    dims={"N": Dim(0, 300)},
    targets=("cuda:sm_90",),
)

doubled = kernel(reference=twice, fallback=twice, envelope=ENVELOPE)(theirs.fn)
renamed = kernel(reference=two_times, fallback="ours:two_times", envelope=ENVELOPE)(launcher)
own = kernel(reference="ours:twice", fallback=doubled, envelope=ENVELOPE)(twice)
named = kernel(reference=theirs.add, fallback=twice, envelope=ENVELOPE, name="a-b.c")(theirs.fn)
compiled = kernel(reference=twice, fallback=F.gelu, envelope=ENVELOPE)(theirs.fn)
empty = kernel(reference=twice, fallback=twice, envelope=ENVELOPE)(theirs.nothing)
bound = kernel(reference=twice, fallback=twice, envelope=ENVELOPE, sources=("a.cu",))(theirs.nothing)
broken = kernel(reference=twice, fallback=twice, envelope=ENVELOPE)(theirs.raises)

@kernel(reference=twice, fallback=twice, envelope=ENVELOPE)
def decorated(x):
    return theirs.fn(x)

alias = decorated
"""

RUNS = [
    ("doubled", "N=100", "accuracy"),
    ("doubled", "N=100", "codegen"),
    ("renamed", "N=100", "accuracy"),
    ("own", "N=100", "accuracy"),
    ("a-b.c", "N=100", "accuracy"),
    ("compiled", "N=100", "accuracy"),
    ("decorated", "N=100", "accuracy"),
    ("decorated", "N=0", "codegen"),
    ("empty", "N=100", "codegen"),
    ("empty", "N=0", "codegen"),
    ("bound", "N=100", "codegen"),
    ("broken", "N=100", "codegen"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "theirs.py").write_text(THEIRS)
    (folder / "ours.py").write_text(OURS)
    (folder / "a.cu").write_text("__global__ void k() {}\n")
    return folder


@pytest.fixture(scope="module")
def declarations(tree):
    index = build_index(FolderSnapshot(tree))
    assert index.findings == ()
    return {declaration.name: declaration for declaration in index.declarations}


@pytest.fixture(scope="module")
def results(tree, declarations):
    jobs = [
        Job(declarations[name], parse_case(declarations[name], case), probe, "cuda:sm_90", 120.0)
        for name, case, probe in RUNS
    ]
    return dict(zip(RUNS, run_jobs(jobs, tree=tree, python=sys.executable), strict=True))


def test_a_kernel_declared_from_outside_goes_by_its_variable(declarations):
    assert declarations["doubled"].identity == "ours.py::doubled"
    assert declarations["doubled"].op == "doubled"
    assert declarations["a-b.c"].qualname == "named"


@pytest.mark.parametrize("run", RUNS[:7], ids="-".join)
def test_what_ran_agrees_with_what_was_read_under_every_name(results, run):
    assert (results[run].status, results[run].message) == ("ok", "")


def test_a_launcher_that_launches_nothing_inside_the_envelope_is_an_error(results):
    found = results["empty", "N=100", "codegen"]
    assert (found.status, found.message) == ("error", "the launcher launched no kernel")


@pytest.mark.parametrize("run", [("empty", "N=0", "codegen"), ("bound", "N=100", "codegen")], ids="-".join)
def test_where_nothing_need_be_launched_through_triton_the_case_is_skipped(results, run):
    assert results[run].status == "skipped"


def test_an_error_names_its_line_by_the_path_in_the_tree(results):
    found = results["broken", "N=100", "codegen"]
    line = 1 + THEIRS.split("\n").index("    raise ValueError")
    assert (found.status, found.message) == ("error", f"ValueError (at theirs.py:{line})")
    assert found.details["line"] == f"theirs.py:{line}"


def test_the_place_of_a_launch_is_a_path_in_the_tree(results):
    (launch,) = results["doubled", "N=100", "codegen"].details["launches"].values()
    assert launch["place"].startswith("theirs.py:")
