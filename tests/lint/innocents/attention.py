"""Attention: packed sequences, paged caches, windows, split keys and their combination."""

import torch
import triton
import triton.language as tl


@triton.jit
def packed_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, offsets_ptr, stride_t, stride_h, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(1), tl.program_id(2)
    first = tl.load(offsets_ptr + sequence).to(tl.int64)
    length = (tl.load(offsets_ptr + sequence + 1) - first).to(tl.int32)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    if tl.program_id(0) * BM >= length:
        return
    d = tl.arange(0, D)
    q = tl.load(
        q_ptr + (first + m)[:, None] * stride_t + head * stride_h + d[None, :], mask=(m < length)[:, None], other=0.0
    )
    most = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    last = min((tl.program_id(0) + 1) * BM, length)
    for start in range(0, last, BN):
        n = start + tl.arange(0, BN)
        at = (first + n)[:, None] * stride_t + head * stride_h + d[None, :]
        k = tl.load(k_ptr + at, mask=(n < length)[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((m[:, None] >= n[None, :]) & (n < length)[None, :], s, -float("inf"))
        higher = tl.maximum(most, tl.max(s, axis=1))
        p = tl.exp(s - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + at, mask=(n < length)[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        most = higher
    at = (first + m)[:, None] * stride_t + head * stride_h + d[None, :]
    tl.store(o_ptr + at, (acc / total[:, None]).to(o_ptr.dtype.element_ty), mask=(m < length)[:, None])


def packed_attention(q, k, v, offsets, longest: int):
    """Causal: every row has its own key at least, so that no row is masked as a whole."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    o = torch.zeros_like(q)
    grid = (triton.cdiv(longest, 64), offsets.shape[0] - 1, q.shape[1])
    packed_attention_kernel[grid](
        q, k, v, o, offsets, q.stride(0), q.stride(1), q.shape[2] ** -0.5, D=q.shape[2], BM=64, BN=64
    )
    return o


@triton.jit
def window_attention_kernel(s_ptr, p_ptr, lengths_ptr, T, WINDOW, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths_ptr + row // T)
    at = (row % T).to(tl.int32)
    n = tl.arange(0, BLOCK)
    seen = (n <= at) & (n > at - WINDOW) & (n < length)
    s = tl.load(s_ptr + row * T + n, mask=seen, other=-float("inf")).to(tl.float32)
    most = tl.max(s, axis=0)
    most = tl.where(most == -float("inf"), 0.0, most)
    p = tl.exp(s - most)
    total = tl.sum(p, axis=0)
    tl.store(p_ptr + row * T + n, p / tl.where(total == 0.0, 1.0, total), mask=n < T)


@triton.jit
def paged_scores_kernel(
    q_ptr, k_ptr, table_ptr, lengths_ptr, s_ptr, stride_block, stride_slot, pages, longest,
    PAGE: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0).to(tl.int64)
    page = tl.program_id(1)
    length = tl.load(lengths_ptr + request)
    slot = tl.arange(0, PAGE)
    d = tl.arange(0, D)
    n = page * PAGE + slot
    if page * PAGE < length:
        block = tl.load(table_ptr + request * pages + page).to(tl.int64)
        q = tl.load(q_ptr + request * D + d).to(tl.float32)
        k = tl.load(
            k_ptr + block * stride_block + slot[:, None] * stride_slot + d[None, :],
            mask=(n < length)[:, None],
            other=0.0,
        )
        s = tl.where(n < length, tl.sum(q[None, :] * k, axis=1), -float("inf"))
        tl.store(s_ptr + request * longest + n, s, mask=n < longest)
    else:
        tl.store(s_ptr + request * longest + n, -float("inf"), mask=n < longest)


@triton.jit
def combine_kernel(o_ptr, lse_ptr, y_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    lse = tl.load(lse_ptr + row * SPLITS + split)
    most = tl.max(lse, axis=0)
    most = tl.where(most == -float("inf"), 0.0, most)
    weight = tl.exp(lse - most)
    o = tl.load(o_ptr + (row * SPLITS + split)[:, None] * D + d[None, :])
    o = tl.where((weight > 0)[:, None], o, 0.0)
    y = tl.sum(o * weight[:, None], axis=0) / tl.maximum(tl.sum(weight, axis=0), 1e-20)
    tl.store(y_ptr + row * D + d, y)


@triton.jit
def delta_kernel(o_ptr, do_ptr, delta_ptr, T, D: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    at = m.to(tl.int64)[:, None] * D + d[None, :]
    o = tl.load(o_ptr + at, mask=(m < T)[:, None], other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=(m < T)[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + m, tl.sum(o * do, axis=1), mask=m < T)


def row_products(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    """The gradient may be expanded, and is made contiguous before it is read flat."""
    o, do = o.contiguous(), do.contiguous()
    delta = torch.empty(o.shape[:-1], device=o.device, dtype=torch.float32)
    delta_kernel[(triton.cdiv(delta.numel(), 64),)](o, do, delta, delta.numel(), D=o.shape[-1], BM=64)
    return delta
