"""The corpus's declarations are what they claim: readable, complete, and true of what they turn away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.elementwise.swiglu import swiglu
from kernels.matmul.matmul import matmul
from kernels.normalization.rms_norm import rms_norm
from kernels.reduction._config import ONE_PASS_COLUMNS
from kernels.reduction.softmax import softmax
from kgate.contract.reasons import workload_facts
from kgate.source.folder import FolderSnapshot
from kgate.source.index import build_index

CORPUS = {"swiglu": swiglu, "softmax": softmax, "rms_norm": rms_norm, "matmul": matmul}
TARGETS = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "hip:gfx942")
ROOT = Path(__file__).parents[2]


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.fixture(scope="module")
def index() -> Any:
    return build_index(_Corpus(ROOT))


class _Corpus(FolderSnapshot):
    """The repository without what is not the corpus."""

    def files(self) -> dict[str, str]:
        return {path: digest for path, digest in super().files().items() if path.startswith("kernels/")}


@pytest.mark.parametrize("name", CORPUS)
def test_what_is_read_from_source_is_what_is_executed(name: str, index: Any) -> None:
    (declaration,) = index.find(name)
    assert declaration.description == CORPUS[name].describe()


def test_reading_the_corpus_finds_nothing_to_complain_about(index: Any) -> None:
    assert [str(finding) for finding in index.findings] == []
    assert sorted(declaration.name for declaration in index.declarations) == sorted(CORPUS)


def test_the_closure_follows_configs_helpers_and_references(index: Any) -> None:
    def symbols(name: str, role: str) -> set[str]:
        (declaration,) = index.find(name)
        return set(index.closure(declaration.identity).symbols[role])

    assert "kernels/normalization/_helpers.py::_row_mean_square" in symbols("rms_norm", "code")
    assert "kernels/reduction/_config.py::ONE_PASS_COLUMNS" in symbols("softmax", "code")
    assert "kernels/matmul/_config.py::CONFIGS" in symbols("matmul", "code")
    assert symbols("matmul", "oracle") == {"kernels/references/matmul.py::matmul"}


@pytest.mark.parametrize("kernel", CORPUS.values(), ids=CORPUS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_workload_is_inside_the_envelope_on_every_target(kernel: Any, target: str) -> None:
    assert kernel.workloads
    for workload in kernel.workloads:
        facts = workload_facts(kernel.envelope, workload)
        assert kernel.envelope.reasons(facts, target) == (), workload


@pytest.mark.parametrize("kernel", CORPUS.values(), ids=CORPUS)
def test_workloads_say_where_they_are_from_and_some_are_awkward(kernel: Any) -> None:
    sources = [workload.source for workload in kernel.workloads]
    assert all(sources)
    assert any(source.startswith("awkward") for source in sources)
    assert {workload.values["T"] for workload in kernel.workloads} == {"float16", "bfloat16", "float32"}


def test_softmax_has_workloads_on_both_sides_of_its_threshold() -> None:
    widths = [int(str(workload.values["N"])) for workload in softmax.workloads]
    assert ONE_PASS_COLUMNS in widths
    assert ONE_PASS_COLUMNS + 1 in widths
    assert softmax.envelope.dims["N"].hi in widths


CPU_CALLS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "swiglu": (swiglu, (draw(3, 5), draw(3, 5))),
    "softmax": (softmax, (draw(3, 5),)),
    "rms_norm": (rms_norm, (draw(3, 5), draw(5))),
    "matmul": (matmul, (draw(3, 5), draw(5, 4))),
}


@pytest.mark.parametrize("name", CPU_CALLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_cpu_tensor_is_served_by_the_fallback_and_rightly(name: str, dtype: torch.dtype) -> None:
    kernel, tensors = CPU_CALLS[name]
    inputs = [tensor.to(dtype) for tensor in tensors]
    assert "target-unsupported" in codes(kernel, *inputs, target=None)
    got = kernel(*inputs)
    want = CORPUS[name].reference(*(tensor.double() for tensor in inputs))
    assert got.dtype is dtype
    torch.testing.assert_close(got.double(), want, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)


def codes(kernel: Any, *args: Any, target: str | None = "cuda:sm_90", **kwargs: Any) -> list[str]:
    return [reason.code for reason in kernel.explain(*args, target=target, **kwargs)]


@pytest.mark.parametrize("target", TARGETS)
def test_ordinary_inputs_are_served_on_every_target(target: str) -> None:
    for kernel, inputs in CPU_CALLS.values():
        assert codes(kernel, *inputs, target=target) == []


def test_a_target_before_sm_80_is_turned_away() -> None:
    assert codes(softmax, draw(2, 3), target="cuda:sm_75") == ["target-unsupported"]


def test_columns_that_are_not_contiguous_are_turned_away_but_row_strides_are_not() -> None:
    fused = draw(4, 12)
    gate, up = fused.chunk(2, dim=-1)
    assert codes(swiglu, gate, up) == []
    assert codes(softmax, draw(1, 6).expand(4, 6)) == []
    assert codes(softmax, draw(6, 4).T) == ["layout"]
    assert codes(rms_norm, draw(4, 6), draw(12)[::2]) == ["layout"]


def test_matmul_takes_transposed_and_expanded_operands_until_a_stride_is_too_long() -> None:
    assert codes(matmul, draw(6, 3).T, draw(4, 6).T) == []
    assert codes(matmul, draw(1, 6).expand(3, 6), draw(6, 4)) == []
    far = torch.empty_strided((2, 6), (2**22 + 1, 1), device="meta")
    assert codes(matmul, far, torch.empty(6, 4, device="meta")) == ["where"]


def test_sizes_at_the_envelopes_edges_are_served_and_beyond_them_are_not() -> None:
    meta = {"device": "meta"}
    assert codes(softmax, torch.empty(0, 5, **meta)) == []
    assert codes(softmax, torch.empty(1, 65536, **meta)) == []
    assert codes(softmax, torch.empty(1, 65537, **meta)) == ["dim-range"]
    assert codes(rms_norm, torch.empty(1, 16384, **meta)) == []
    assert codes(rms_norm, torch.empty(1, 16385, **meta)) == ["dim-range"]
    assert codes(swiglu, torch.empty(2, 0, **meta), torch.empty(2, 0, **meta)) == ["dim-range"]
    assert codes(matmul, torch.empty(0, 3, **meta), torch.empty(3, 0, **meta)) == []


def test_mismatches_are_named() -> None:
    assert codes(matmul, draw(3, 5), draw(6, 4)) == ["shape-mismatch"]
    assert codes(swiglu, draw(3, 5), draw(3, 5, dtype=torch.float16)) == ["dtype-mismatch"]
    assert codes(rms_norm, draw(2, 3, 4), draw(4)) == ["rank"]
    assert codes(rms_norm, draw(3, 4), eps=0.0) == ["scalar"]
    assert codes(softmax, draw(3, 4).to(torch.int32)) == ["dtype-unsupported"]
