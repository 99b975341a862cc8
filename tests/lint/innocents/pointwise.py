"""Elementwise work: random numbers, updates in place, rotations, tuned and even sizes, empty inputs."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = tl.rand(seed, i) > p
    tl.store(y_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=i < n)


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """A seed per call is a runtime argument, and no recompilation."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), p, seed, BLOCK=1024)
    return y


UPDATES = [triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024})]


@triton.autotune(configs=UPDATES, key=["n"], restore_value=["p_ptr", "m_ptr"])
@triton.jit
def momentum_kernel(p_ptr, m_ptr, g_ptr, n, rate, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    g = tl.load(g_ptr + i, mask=mask).to(tl.float32)
    m = tl.load(m_ptr + i, mask=mask) * beta + g * (1 - beta)
    p = tl.load(p_ptr + i, mask=mask).to(tl.float32)
    tl.store(m_ptr + i, m, mask=mask)
    tl.store(p_ptr + i, (p - rate * m).to(p_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rotate_kernel(x_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, HEADS)
    d = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + token * HALF + d)[None, :]
    sin = tl.load(sin_ptr + token * HALF + d)[None, :]
    low = (token * heads + h)[:, None] * (2 * HALF) + d[None, :]
    mask = (h < heads)[:, None]
    a = tl.load(x_ptr + low, mask=mask).to(tl.float32)
    b = tl.load(x_ptr + low + HALF, mask=mask).to(tl.float32)
    tl.store(x_ptr + low, (a * cos - b * sin).to(x_ptr.dtype.element_ty), mask=mask)
    tl.store(x_ptr + low + HALF, (b * cos + a * sin).to(x_ptr.dtype.element_ty), mask=mask)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + i, tl.load(x_ptr + i))
    else:
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def gated_kernel(x_ptr, y_ptr, stride_x, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x_ptr + row * stride_x + cols, mask=cols < N).to(tl.float32)
    up = tl.load(x_ptr + row * stride_x + N + cols, mask=cols < N).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + row * N + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


def gated(x: torch.Tensor) -> torch.Tensor:
    """Rows may have gaps, and their last axis has none."""
    assert x.stride(-1) == 1
    N = x.shape[1] // 2
    y = torch.empty((x.shape[0], N), device=x.device, dtype=x.dtype)
    gated_kernel[(x.shape[0], triton.cdiv(N, 512))](x, y, x.stride(0), N, BLOCK=512)
    return y


@triton.jit
def smooth_kernel(x_ptr, y_ptr, n, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    size = tl.abs(x)
    y = tl.where(size < beta, 0.5 * x * x / beta, size - 0.5 * beta)
    tl.store(y_ptr + i, y, mask=i < n)
