"""Quantised data: rows, blocks, packed nibbles, integer products, scales of groups."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantise_rows_kernel(x_ptr, q_ptr, scale_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-8) / 127.0
    q = x / scale
    q = tl.where(q >= 0, q + 0.5, q - 0.5).to(tl.int8)
    tl.store(q_ptr + row * N + cols, q, mask=cols < N)
    tl.store(scale_ptr + row, scale)


@triton.jit
def quantise_blocks_kernel(x_ptr, q_ptr, scale_ptr, M, N, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (m < M)[:, None] & (n < N)[None, :]
    at = m.to(tl.int64)[:, None] * N + n[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.max(tl.max(tl.abs(x), axis=1), axis=0) / LARGEST
    scale = tl.where(scale == 0.0, 1.0, scale)
    tl.store(q_ptr + at, (x / scale).to(q_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), scale)


def quantise_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The element type of the output decides, and the launcher looks at the device."""
    if torch.cuda.get_device_capability(x.device) < (8, 9):
        raise RuntimeError("float8 needs compute capability 8.9")
    x = x.contiguous()
    M, N = x.shape
    q = torch.empty((M, N), device=x.device, dtype=torch.float8_e4m3fn)
    scale = torch.empty((triton.cdiv(M, 128), triton.cdiv(N, 128)), device=x.device, dtype=torch.float32)
    quantise_blocks_kernel[tuple(scale.shape)](x, q, scale, M, N, LARGEST=448.0, BLOCK=128)
    return q, scale


@triton.jit
def nibbles_product_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    c_ptr,
    M,
    N,
    K,
    GROUP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    wide = m.to(tl.int64)[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        inside = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + wide * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        packed = tl.load(packed_ptr + (k // 2)[:, None] * N + n[None, :], mask=inside, other=0)
        nibble = (packed >> ((k % 2) * 4)[:, None]) & 0xF
        scale = tl.load(scale_ptr + (k // GROUP)[:, None] * N + n[None, :], mask=inside, other=0.0)
        b = ((nibble.to(tl.int32) - 8) * scale).to(a.dtype)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + wide * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def integer_product_kernel(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    wide = m.to(tl.int64)[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + wide * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        acc += tl.dot(a, b, out_dtype=tl.int32)
    sa = tl.load(sa_ptr + m, mask=m < M, other=0.0)
    sb = tl.load(sb_ptr + n, mask=n < N, other=0.0)
    c = acc.to(tl.float32) * sa[:, None] * sb[None, :]
    tl.store(c_ptr + wide * N + n[None, :], c.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def dequantise_kernel(q_ptr, scale_ptr, zero_ptr, y_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + i, mask=i < n).to(tl.float32)
    scale = tl.load(scale_ptr + i // GROUP, mask=i < n)
    zero = tl.load(zero_ptr + i // GROUP, mask=i < n)
    tl.store(y_ptr + i, (q - zero) * scale, mask=i < n)
