"""Reductions: Welford, two passes, online softmax, scans with a carry, combined pairs, ties."""

import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(x_ptr, mean_ptr, var_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    m2 = tl.zeros((BLOCK,), dtype=tl.float32)
    weight = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < N
        x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        seen = weight + inside.to(tl.float32)
        delta = x - mean
        mean = tl.where(inside, mean + delta / tl.maximum(seen, 1.0), mean)
        m2 = tl.where(inside, m2 + delta * (x - mean), m2)
        weight = seen
    total = tl.sum(weight, axis=0)
    overall = tl.sum(mean * weight, axis=0) / total
    spread = tl.sum(m2 + weight * (mean - overall) * (mean - overall), axis=0)
    tl.store(mean_ptr + row, overall)
    tl.store(var_ptr + row, spread / total)


@triton.jit
def centered_kernel(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centered = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=inside)
    tl.store(y_ptr + row * N + cols, (centered * rstd * w).to(y_ptr.dtype.element_ty), mask=inside)


def layer_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The weight is loaded without a filler and goes nowhere but to the masked store."""
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty_like(x)
    N = x.shape[-1]
    assert N <= 16384
    if x.numel() == 0:
        return y
    centered_kernel[(x.numel() // N,)](x, weight, y, N, 1e-5, BLOCK=triton.next_power_of_2(N))
    return y


@triton.jit
def online_softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    most = tl.full((), -float("inf"), dtype=tl.float32)
    total = tl.zeros((), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(most, tl.max(x, axis=0))
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(x - safe), axis=0)
        most = higher
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row * N + cols, tl.exp(x - most) / total, mask=cols < N)


@triton.jit
def logsumexp_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :], mask=mask, other=-float("inf")).to(tl.float32)
    most = tl.max(x, axis=1)
    most = tl.where(rows < M, most, 0.0)
    tl.store(y_ptr + rows, most + tl.log(tl.sum(tl.exp(x - most[:, None]), axis=1)), mask=rows < M)


@triton.jit
def argmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((), -float("inf"), dtype=tl.float32)
    at = tl.zeros((), dtype=tl.int32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        value, place = tl.max(x, axis=0, return_indices=True)
        at = tl.where(value > best, start + place, at)
        best = tl.maximum(best, value)
    tl.store(y_ptr + row, at)


@triton.jit
def _join(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n == 0.0, 0.0, n_b / n)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def joined_variance_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
    _, m2, n = tl.reduce((x, tl.zeros_like(x), inside.to(tl.float32)), 0, _join)
    tl.store(y_ptr + row, m2 / n)


@triton.jit
def running_sum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    carry = tl.zeros((), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + cols, carry + tl.cumsum(x, axis=0), mask=cols < N)
        carry += tl.sum(x, axis=0)


@triton.jit
def largest_magnitude_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.atomic_max(y_ptr, tl.max(tl.abs(x), axis=0))


def largest_magnitude(x: torch.Tensor) -> torch.Tensor:
    """Zeros are the identity of a maximum of magnitudes, in the lanes and in the output."""
    x = x.contiguous()
    y = torch.zeros((), device=x.device, dtype=torch.float32)
    largest_magnitude_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
