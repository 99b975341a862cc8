"""Windows: convolutions with borders, pools, interpolation, short convolutions with a state."""

import triton
import triton.language as tl


@triton.jit
def convolution_kernel(
    x_ptr, w_ptr, y_ptr, C, H, W, OC, P, Q, R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(2).to(tl.int64)
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    p, q = pixel // Q, pixel % Q
    oc = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, C * R * S, BK):
        k = start + tl.arange(0, BK)
        c, r, s = k // (R * S), k // S % R, k % S
        h = p[:, None] + r[None, :] - PAD
        w = q[:, None] + s[None, :] - PAD
        inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (c < C)[None, :] & (pixel < P * Q)[:, None]
        x = tl.load(x_ptr + ((image * C + c[None, :]) * H + h) * W + w, mask=inside, other=0.0)
        filters = tl.load(
            w_ptr + oc[None, :].to(tl.int64) * (C * R * S) + k[:, None],
            mask=(k < C * R * S)[:, None] & (oc < OC)[None, :],
            other=0.0,
        )
        acc = tl.dot(x, filters, acc, input_precision="ieee")
    at = (image * OC + oc[None, :]) * (P * Q) + pixel[:, None]
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=(pixel < P * Q)[:, None] & (oc < OC)[None, :])


@triton.jit
def max_pool_kernel(x_ptr, y_ptr, H, W, P, Q, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, q = pixel // Q, pixel % Q
    best = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for r in tl.static_range(SIZE):
        for s in tl.static_range(SIZE):
            h, w = p * SIZE + r, q * SIZE + s
            inside = (h < H) & (w < W) & (pixel < P * Q)
            x = tl.load(x_ptr + (plane * H + h) * W + w, mask=inside, other=-float("inf"))
            best = tl.maximum(best, x.to(tl.float32))
    tl.store(y_ptr + plane * P * Q + pixel, best.to(y_ptr.dtype.element_ty), mask=pixel < P * Q)


@triton.jit
def causal_convolution_kernel(
    x_ptr, w_ptr, state_ptr, y_ptr, T, D, TAPS: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr
):
    sequence = tl.program_id(2).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    inside = (t < T)[:, None] & (d < D)[None, :]
    acc = tl.zeros((BT, BD), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        at = t + tap - (TAPS - 1)
        new = tl.load(
            x_ptr + (sequence * T + at)[:, None] * D + d[None, :], mask=(at >= 0)[:, None] & inside, other=0.0
        ).to(tl.float32)
        old = tl.load(
            state_ptr + (sequence * (TAPS - 1) + at + (TAPS - 1))[:, None] * D + d[None, :],
            mask=(at < 0)[:, None] & inside,
            other=0.0,
        ).to(tl.float32)
        w = tl.load(w_ptr + tap * D + d, mask=d < D, other=0.0).to(tl.float32)
        acc += (new + old) * w[None, :]
    tl.store(y_ptr + (sequence * T + t)[:, None] * D + d[None, :], acc, mask=inside)


@triton.jit
def interpolate_kernel(x_ptr, y_ptr, H, W, P, Q, BLOCK: tl.constexpr):
    plane = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.maximum((pixel // Q + 0.5) * H / P - 0.5, 0.0)
    w = tl.maximum((pixel % Q + 0.5) * W / Q - 0.5, 0.0)
    top, left = tl.minimum(h.to(tl.int32), H - 1), tl.minimum(w.to(tl.int32), W - 1)
    bottom, right = tl.minimum(top + 1, H - 1), tl.minimum(left + 1, W - 1)
    down, along = h - top, w - left
    base = x_ptr + plane * H * W
    a = tl.load(base + top * W + left, mask=pixel < P * Q)
    b = tl.load(base + top * W + right, mask=pixel < P * Q)
    c = tl.load(base + bottom * W + left, mask=pixel < P * Q)
    d = tl.load(base + bottom * W + right, mask=pixel < P * Q)
    y = (a * (1 - along) + b * along) * (1 - down) + (c * (1 - along) + d * along) * down
    tl.store(y_ptr + plane * P * Q + pixel, y, mask=pixel < P * Q)
