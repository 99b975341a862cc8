"""Less usual parts of the language, and habits of training kernels: scans, joins, gradients in place, partial sums."""

import torch
import triton
import triton.language as tl


@triton.jit
def _step(a_left, b_left, a_right, b_right):
    return a_left * a_right, b_left * a_right + b_right


@triton.jit
def linear_recurrence_kernel(a_ptr, b_ptr, y_ptr, T, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    state = tl.zeros((), dtype=tl.float32)
    for start in range(0, T, BLOCK):
        t = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + row * T + t, mask=t < T, other=1.0).to(tl.float32)
        b = tl.load(b_ptr + row * T + t, mask=t < T, other=0.0).to(tl.float32)
        product, total = tl.associative_scan((a, b), 0, _step)
        y = total + product * state
        tl.store(y_ptr + row * T + t, y, mask=t < T)
        state = tl.sum(tl.where(t == tl.minimum(start + BLOCK, T) - 1, y, 0.0), axis=0)


@triton.jit
def interleave_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    even = tl.load(x_ptr + 2 * i, mask=2 * i < n, other=0.0)
    odd = tl.load(x_ptr + 2 * i + 1, mask=2 * i + 1 < n, other=0.0)
    y = tl.interleave(-odd, even)
    j = tl.program_id(0).to(tl.int64) * (2 * BLOCK) + tl.arange(0, 2 * BLOCK)
    tl.store(y_ptr + j, y, mask=j < n)


@triton.jit
def bin_counts_kernel(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=BINS).to(tl.int32)
    counts = tl.histogram(tl.minimum(x, BINS), 2 * BINS)
    bins = tl.arange(0, 2 * BINS)
    tl.atomic_add(counts_ptr + bins, counts, mask=bins < BINS)


@triton.jit
def cross_entropy_kernel(x_ptr, stride, target_ptr, loss_ptr, V, scale, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    target = tl.load(target_ptr + row)
    if target == IGNORED:
        for start in range(0, V, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            tl.store(x_ptr + cols, 0.0, mask=cols < V)
        tl.store(loss_ptr + row, 0.0)
        return
    at_target = tl.load(x_ptr + target).to(tl.float32)
    most = -float("inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - higher) + tl.sum(tl.exp(x - higher), axis=0)
        most = higher
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < V, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - most) / total
        grad = tl.where(cols == target, p - 1.0, p) * scale
        tl.store(x_ptr + cols, grad.to(x_ptr.dtype.element_ty), mask=cols < V)
    tl.store(loss_ptr + row, most + tl.log(total) - at_target)


@triton.jit
def norm_backward_kernel(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, M, N, per_program, BLOCK: tl.constexpr
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0).to(tl.int64) * per_program
    for row in range(first, tl.minimum(first + per_program, M)):
        x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        scaled = dy * w
        dx = rstd * (scaled - x * (rstd * rstd * tl.sum(scaled * x, axis=0) / N))
        tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        dw += dy * x * rstd
    tl.store(dw_ptr + tl.program_id(0) * N + cols, dw, mask=inside)


def norm_backward(dy, x, w, rstd):
    """Each program writes its part of the weight's gradient; torch adds the parts."""
    dy, x = dy.contiguous(), x.contiguous()
    M, N = x.shape
    programs = 64
    dx = torch.empty_like(x)
    parts = torch.empty((programs, N), device=x.device, dtype=torch.float32)
    norm_backward_kernel[(programs,)](
        dy, x, w.contiguous(), rstd, dx, parts, M, N, triton.cdiv(M, programs), BLOCK=triton.next_power_of_2(N)
    )
    return dx, parts.sum(dim=0)


@triton.jit
def residual_norm_kernel(x_ptr, residual_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        x += tl.load(residual_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(residual_ptr + row * N + cols, x.to(residual_ptr.dtype.element_ty), mask=cols < N)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    tl.debug_barrier()
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(residual_ptr + row * N + cols, mask=cols < N).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < N).to(tl.float32)
        tl.store(y_ptr + row * N + cols, (x * rstd * w).to(y_ptr.dtype.element_ty), mask=cols < N)


@triton.jit
def scaled_product_kernel(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    group = tl.arange(0, K // 32)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(n < N)[None, :], other=0.0)
    sa = tl.load(sa_ptr + m[:, None] * (K // 32) + group[None, :])
    sb = tl.load(sb_ptr + n[:, None] * (K // 32) + group[None, :], mask=(n < N)[:, None], other=0)
    c = tl.dot_scaled(a, sa, "e4m3", b, sb, "e4m3")
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=(n < N)[None, :])


@triton.jit
def softcapped_kernel(x_ptr, y_ptr, n, CAP: tl.constexpr, BLOCK: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32) / CAP
    e = tl.exp2(-2.0 * LOG2E * tl.abs(x))
    y = (1 - e) / (1 + e)
    tl.store(y_ptr + i, CAP * tl.where(x < 0, -y, y), mask=i < n)


@triton.jit
def binary_search_kernel(edges_ptr, x_ptr, y_ptr, edges, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    low = tl.zeros((BLOCK,), dtype=tl.int32)
    high = tl.zeros((BLOCK,), dtype=tl.int32) + edges
    left = edges
    while left > 0:
        middle = (low + high) // 2
        searching = low < high
        edge = tl.load(edges_ptr + middle, mask=searching, other=0.0)
        right = searching & (edge <= x)
        low = tl.where(right, middle + 1, low)
        high = tl.where(searching & (edge > x), middle, high)
        left = left // 2
    tl.store(y_ptr + i, low, mask=i < n)


@triton.jit
def group_norm_kernel(x_ptr, y_ptr, w_ptr, C, HW, PER_GROUP: tl.constexpr, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    base = group * PER_GROUP * HW
    size = PER_GROUP * HW
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < size, other=0.0).to(tl.float32)
        mean += x
        squares += x * x
    average = tl.sum(mean, axis=0) / size
    variance = tl.sum(squares, axis=0) / size - average * average
    rstd = tl.rsqrt(tl.maximum(variance, 0.0) + eps)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < size).to(tl.float32)
        channel = (group * PER_GROUP + i // HW) % C
        w = tl.load(w_ptr + channel, mask=i < size)
        tl.store(y_ptr + base + i, (x - average) * rstd * w, mask=i < size)


@triton.jit
def strided_flip_kernel(x_ptr, y_ptr, stride_xm, stride_xn, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_xm + (N - 1 - cols) * stride_xn, mask=cols < N)
    tl.store(y_ptr + row * N + cols, x, mask=cols < N)


@triton.jit
def ragged_mean_kernel(x_ptr, offsets_ptr, y_ptr, D, BT: tl.constexpr, BD: tl.constexpr):
    sequence = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    first = tl.load(offsets_ptr + sequence).to(tl.int64)
    last = tl.load(offsets_ptr + sequence + 1).to(tl.int64)
    total = tl.zeros((BD,), dtype=tl.float32)
    for start in range(first, last, BT):
        t = start + tl.arange(0, BT)
        x = tl.load(x_ptr + t[:, None] * D + d[None, :], mask=(t < last)[:, None] & (d < D)[None, :], other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    count = tl.maximum(last - first, 1).to(tl.float32)
    tl.store(y_ptr + sequence.to(tl.int64) * D + d, total / count, mask=d < D)
