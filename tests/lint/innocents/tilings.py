"""Matrix products in other tilings: wrapped tiles, split K, persistent programs, partial sums, packed triangles."""

import torch
import triton
import triton.language as tl


@triton.jit
def wrapped_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * cols) * GROUP
    height = min(rows - first, GROUP)
    pid_m = first + pid % (GROUP * cols) % height
    pid_n = pid % (GROUP * cols) // height
    m = ((pid_m * BM + tl.arange(0, BM)) % M).to(tl.int64)
    n = ((pid_n * BN + tl.arange(0, BN)) % N).to(tl.int64)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32")
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    at = c_ptr + m.to(tl.int64)[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(at, acc.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


def wrapped_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The rows that wrap around are computed twice and stored once."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    if c.numel() == 0:
        return c
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64),)
    wrapped_product_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BM=64, BN=64, BK=32, GROUP=8)
    return c


@triton.jit
def split_product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, 64)
    wide = m.to(tl.int64)[:, None]
    acc = tl.zeros((BM, 64), dtype=tl.float32)
    for start in range(tl.program_id(1) * BK, K, SPLIT * BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + wide * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(c_ptr + wide * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


def split_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Every program adds its part of K to zeros."""
    a, b = a.contiguous(), b.contiguous()
    c = torch.zeros((a.shape[0], b.shape[1]), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(a.shape[0], 32), 4)
    split_product_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], SPLIT=4, BM=32, BK=32)
    return c


@triton.jit
def part_kernel(x_ptr, part_ptr, M, N, PARTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    part = tl.program_id(1)
    total = tl.zeros((BN,), dtype=tl.float32)
    for start in range(part * BM, M, PARTS * BM):
        rows = (start + tl.arange(0, BM)).to(tl.int64)
        x = tl.load(
            x_ptr + rows[:, None] * N + cols[None, :], mask=(rows < M)[:, None] & (cols < N)[None, :], other=0.0
        )
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(part_ptr + part * N + cols, total, mask=cols < N)


@triton.jit
def join_kernel(part_ptr, y_ptr, N, PARTS: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    parts = tl.arange(0, PARTS)
    x = tl.load(part_ptr + parts[:, None] * N + cols[None, :], mask=(cols < N)[None, :], other=0.0)
    tl.store(y_ptr + cols, tl.sum(x, axis=0), mask=cols < N)


def column_sums(x: torch.Tensor) -> torch.Tensor:
    """Two launches in one stream; the number of parts is a power of two and never masked."""
    x = x.contiguous()
    M, N = x.shape
    part = torch.empty((8, N), device=x.device, dtype=torch.float32)
    y = torch.empty((N,), device=x.device, dtype=torch.float32)
    part_kernel[(triton.cdiv(N, 64), 8)](x, part, M, N, PARTS=8, BM=32, BN=64)
    join_kernel[(triton.cdiv(N, 64),)](part, y, N, PARTS=8, BN=64)
    return y


@triton.jit
def persistent_scale_kernel(x_ptr, y_ptr, M, N, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS):
        m = (tile // across * BM + tl.arange(0, BM)).to(tl.int64)
        n = tile % across * BN + tl.arange(0, BN)
        mask = (m < M)[:, None] & (n < N)[None, :]
        x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask)
        tl.store(y_ptr + m[:, None] * N + n[None, :], x * 2, mask=mask)


def persistent_scale(x: torch.Tensor) -> torch.Tensor:
    """As many programs as there are multiprocessors, each over many tiles."""
    x = x.contiguous()
    y = torch.empty_like(x)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    persistent_scale_kernel[(programs,)](x, y, x.shape[0], x.shape[1], PROGRAMS=programs, BM=32, BN=64)
    return y


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m.to(tl.int64)[:, None] * N + n[None, :], mask=(m < M)[:, None] & (n < N)[None, :])
    tl.store(y_ptr + n.to(tl.int64)[:, None] * M + m[None, :], tl.trans(x), mask=(n < N)[:, None] & (m < M)[None, :])


def transpose(x: torch.Tensor) -> torch.Tensor:
    """The mask of the store is the mask of the load, turned."""
    assert x.is_contiguous()
    y = torch.empty((x.shape[1], x.shape[0]), device=x.device, dtype=x.dtype)
    transpose_kernel[(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))](x, y, x.shape[0], x.shape[1], BLOCK=32)
    return y
