"""The references are torch's own operators, in float64 to the last few bits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.references.elementwise import swiglu
from kernels.references.matmul import matmul
from kernels.references.normalization import rms_norm
from kernels.references.reduction import softmax

SHAPES = [(1, 1), (3, 7), (5, 129), (2, 1025)]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype is torch.float64
    torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
def test_swiglu_is_silu_times_up(shape: tuple[int, int]) -> None:
    gate, up = draw(*shape), draw(*shape, seed=1)
    same(swiglu(gate, up), F.silu(gate) * up)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_softmax_is_torchs(shape: tuple[int, int], shift: float) -> None:
    x = draw(*shape) + shift
    same(softmax(x), torch.softmax(x, dim=-1))


def test_softmax_treats_infinities_and_nan_as_torch_does() -> None:
    x = draw(5, 9)
    x[0] = -torch.inf
    x[1, :4] = -torch.inf
    x[2, 3] = torch.inf
    x[3, 3] = torch.nan
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=-1), rtol=1e-13, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-6, 1e-1])
def test_rms_norm_is_torchs(shape: tuple[int, int], eps: float) -> None:
    x, weight = draw(*shape), draw(shape[1], seed=1)
    same(rms_norm(x, weight, eps), F.rms_norm(x, (shape[1],), weight, eps))
    same(rms_norm(x, eps=eps), F.rms_norm(x, (shape[1],), None, eps))


def test_matmul_sums_every_product() -> None:
    a, b = draw(4, 6), draw(6, 3, seed=1)
    same(matmul(a, b), (a[:, :, None] * b[None, :, :]).sum(dim=1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_references_keep_the_dtype_they_are_given(dtype: torch.dtype) -> None:
    x, weight = draw(3, 8).to(dtype), draw(8).to(dtype)
    assert swiglu(x, x).dtype is softmax(x).dtype is rms_norm(x, weight).dtype is matmul(x, x.T).dtype is dtype
