"""One layer normalisation, written ten times: the edits between the versions mean nothing."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

EPSILON = 1e-5


@triton.jit
def original(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def commented(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    """Normalise one row."""
    # One program per row.
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns

    # Statistics in float32.
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(variance + eps)

    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def locals_renamed(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < columns
    values = tl.load(x_ptr + pid * stride + cols, mask=inside, other=0.0).to(tl.float32)
    mu = tl.sum(values, 0) / columns
    delta = tl.where(inside, values - mu, 0.0)
    var = tl.sum(delta * delta, 0) / columns
    inverse = 1 / tl.sqrt(var + eps)
    scale = tl.load(w_ptr + cols, mask=inside).to(tl.float32)
    shift = tl.load(b_ptr + cols, mask=inside).to(tl.float32)
    tl.store(y_ptr + pid * stride + cols, delta * inverse * scale + shift, mask=inside)


@triton.jit
def arguments_renamed(X, W, B, Y, stride_m, N, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < N
    x = tl.load(X + row * stride_m + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / N
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / N
    rstd = 1 / tl.sqrt(variance + epsilon)
    w = tl.load(W + offsets, mask=mask).to(tl.float32)
    b = tl.load(B + offsets, mask=mask).to(tl.float32)
    tl.store(Y + row * stride_m + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def loads_reordered(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(variance + eps)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def sums_commuted(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = columns > offsets
    x = tl.load(x_ptr + (offsets + row * stride), mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(eps + variance)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + (offsets + stride * row), b + w * (centred * rstd), mask=mask)


@triton.jit
def pointers_first(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def _moments(x, mask, columns):
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    return centred, tl.sum(centred * centred, 0) / columns


@triton.jit
def helper_extracted(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    centred, variance = _moments(x, mask, columns)
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def dead_code_added(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    largest = tl.max(x, 0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    rstd = 1 / tl.sqrt(variance + eps)
    unused = rstd + largest  # noqa: F841
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask=mask)


@triton.jit
def casts_repeated(x_ptr, w_ptr, b_ptr, y_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0).to(tl.float32) / columns
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + offsets, mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask).to(tl.float32)
    tl.store(y_ptr + row * stride + offsets, centred * rstd * w + b, mask)


EDITS = (
    original, commented, locals_renamed, arguments_renamed, loads_reordered, sums_commuted, pointers_first,
    helper_extracted, dead_code_added, casts_repeated,
)  # fmt: skip


def layer_norm(kernel, x, w, b):
    y = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    kernel[(x.shape[0],)](x, w, b, y, x.stride(0), x.shape[1], EPSILON, BLOCK=block, num_warps=8)
    return y
