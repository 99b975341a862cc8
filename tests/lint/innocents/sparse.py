"""Data that moves: gathers, scatters, histograms, compaction, selection, groups of products, blocks that exist."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(table_ptr, index_ptr, y_ptr, rows, N, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(index_ptr + token).to(tl.int64)
    known = (row >= 0) & (row < rows)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(table_ptr + row * N + cols, mask=known & (cols < N), other=0.0)
        tl.store(y_ptr + token * N + cols, x, mask=cols < N)


@triton.jit
def scatter_add_kernel(grad_ptr, index_ptr, table_ptr, N, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(index_ptr + token).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    grad = tl.load(grad_ptr + token * N + cols, mask=cols < N)
    tl.atomic_add(table_ptr + row * N + cols, grad, mask=(cols < N) & (row >= 0))


def embedding_gradient(grad: torch.Tensor, index: torch.Tensor, rows: int) -> torch.Tensor:
    """Rows that no token names stay zero."""
    grad, index = grad.contiguous(), index.contiguous()
    table = torch.zeros((rows, grad.shape[-1]), device=grad.device, dtype=torch.float32)
    if index.numel():
        scatter_add_kernel[(index.numel(), triton.cdiv(grad.shape[-1], 256))](
            grad, index, table, grad.shape[-1], BLOCK=256
        )
    return table


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    inside = (x >= 0) & (x < BINS)
    tl.atomic_add(counts_ptr + tl.where(inside, x, 0), 1, mask=inside)


def histogram(x: torch.Tensor) -> torch.Tensor:
    """What lies outside is counted nowhere."""
    x = x.contiguous()
    counts = torch.zeros((256,), device=x.device, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(x.numel(), 1024),)](x, counts, x.numel(), BINS=256, BLOCK=1024)
    return counts


@triton.jit
def compact_kernel(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    keep = (x != 0) & (i < n)
    place = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    base = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), axis=0))
    tl.store(y_ptr + base + place, x, mask=keep)


def compact(x: torch.Tensor) -> torch.Tensor:
    """The result is as long as the count says."""
    x = x.contiguous()
    y = torch.empty_like(x)
    count = torch.zeros((), device=x.device, dtype=torch.int32)
    compact_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, count, x.numel(), BLOCK=1024)
    return y[: int(count.item())]


@triton.jit
def top_kernel(x_ptr, value_ptr, index_ptr, N, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    for k in tl.static_range(K):
        value, at = tl.max(x, axis=0, return_indices=True)
        tl.store(value_ptr + row * K + k, value)
        tl.store(index_ptr + row * K + k, at)
        x = tl.where(cols == at, -float("inf"), x)


@triton.jit
def sorted_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("inf"))
    tl.store(y_ptr + row * N + cols, tl.sort(x), mask=cols < N)


@triton.jit
def grouped_product_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    offsets_ptr,
    G,
    N,
    K,
    PROGRAMS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    across = tl.cdiv(N, BN)
    tile = tl.program_id(0)
    before = 0
    for group in range(G):
        first = tl.load(offsets_ptr + group).to(tl.int64)
        rows = (tl.load(offsets_ptr + group + 1) - first).to(tl.int32)
        tiles = tl.cdiv(rows, BM) * across
        while tile < before + tiles:
            local = tile - before
            m = local // across * BM + tl.arange(0, BM)
            n = local % across * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for start in range(0, K, BK):
                k = start + tl.arange(0, BK)
                inside = k < K
                a_at = (first + m)[:, None] * K + k[None, :]
                a = tl.load(a_ptr + a_at, mask=(m < rows)[:, None] & inside[None, :], other=0.0)
                b_at = (group.to(tl.int64) * K + k)[:, None] * N + n[None, :]
                b = tl.load(b_ptr + b_at, mask=inside[:, None] & (n < N)[None, :], other=0.0)
                acc = tl.dot(a, b, acc)
            c_at = (first + m)[:, None] * N + n[None, :]
            tl.store(c_ptr + c_at, acc.to(c_ptr.dtype.element_ty), mask=(m < rows)[:, None] & (n < N)[None, :])
            tile += PROGRAMS
        before += tiles


@triton.jit
def block_sparse_kernel(x_ptr, starts_ptr, columns_ptr, blocks_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)):
        column = tl.load(columns_ptr + at)
        block = tl.load(blocks_ptr + at.to(tl.int64) * BLOCK * BLOCK + i[:, None] * BLOCK + i[None, :])
        x = tl.load(x_ptr + column.to(tl.int64) * BLOCK + i)
        acc += tl.sum(block.to(tl.float32) * x[None, :], axis=1)
    tl.store(y_ptr + row.to(tl.int64) * BLOCK + i, acc)


@triton.jit
def permute_tokens_kernel(x_ptr, source_ptr, y_ptr, tokens, N, TOP: tl.constexpr, BLOCK: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    source = tl.load(source_ptr + slot).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = source < tokens * TOP
    x = tl.load(x_ptr + source // TOP * N + cols, mask=real & (cols < N), other=0.0)
    tl.store(y_ptr + slot * N + cols, x, mask=cols < N)
