"""Tensor descriptors: their bounds are their own, and offsets are counted in 32 bits by design."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def described_product_kernel(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([m, k])
        b = b_desc.load([n, k])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


def described_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Descriptors need rows of 16 bytes, and so does the assertion."""
    if torch.cuda.get_device_capability(a.device) < (9, 0):
        raise RuntimeError("needs a device that copies by descriptors")
    a, b = a.contiguous(), b.contiguous()
    assert a.shape[1] % 16 == 0
    assert b.shape[0] % 16 == 0
    c = torch.empty((a.shape[0], b.shape[0]), device=a.device, dtype=a.dtype)
    descriptors = [TensorDescriptor.from_tensor(x, [64, 64]) for x in (a, b, c)]
    grid = (triton.cdiv(a.shape[0], 64), triton.cdiv(b.shape[0], 64))
    described_product_kernel[grid](*descriptors, a.shape[1], BM=64, BN=64, BK=64)
    return c


@triton.jit
def made_descriptor_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    y_desc = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for n in range(0, N, BN):
        x = x_desc.load([tl.program_id(0) * BM, n])
        y_desc.store([tl.program_id(0) * BM, n], x * 2)


@triton.jit
def described_sums_kernel(x_desc, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    total = tl.zeros((BM,), dtype=tl.float32)
    for n in range(0, N, BN):
        total += tl.sum(x_desc.load([m, n]).to(tl.float32), axis=1)
    rows = m + tl.arange(0, BM)
    tl.store(y_ptr + rows, total, mask=rows < M)
