"""Kernels and launchers for the codegen tests: each pair differs in one thing that the figures must show."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

AT_IMPORT = {
    "available": torch.cuda.is_available(),
    "capability": list(torch.cuda.get_device_capability()),
    "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
    "hip": torch.version.hip is not None,
    "shared": triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"],
    "backend": triton.runtime.driver.active.get_current_target().backend,
}


@triton.jit
def _add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


def add(x, block=1024):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _add_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


def add_twice(x):
    return add(add(x))


def add_both_sizes(x):
    return add(x), add(x, block=2048)


def add_after_reading(x):
    return add(x[: int(x.sum().item())])


def add_contiguous(x):
    return add(x.t().contiguous())


def add_on_current_device(x):
    with torch.cuda.device(x.device):
        torch.cuda.current_stream().synchronize()
        y = torch.zeros(x.numel(), device=torch.cuda.current_device(), dtype=x.dtype)
    _add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y.to("cuda").cuda()


@torch.library.custom_op("codegen_subjects::add", mutates_args=())
def add_custom(x: torch.Tensor) -> torch.Tensor:
    return add(x)


@add_custom.register_fake
def _(x):
    return torch.empty_like(x)


def add_persistent(x):
    y = torch.empty_like(x)
    kernel = _add_kernel.warmup(x, y, x.numel(), BLOCK=1024, grid=(1,))
    kernel._init_handles()
    programs = torch.cuda.get_device_properties(0).multi_processor_count * (kernel.n_regs > 0)
    kernel[(programs, 1, 1)](x, y, x.numel(), 1024)
    return y


def add_in_rows(x):
    _add_kernel[(1, 70000)](x, x, x.numel(), BLOCK=1024)


def add_with_block_of_1000(x):
    _add_kernel[(1,)](x, x, x.numel(), BLOCK=1000)


def launches_nothing(x):
    return x + 1


@triton.jit
def _sin_kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, libdevice.sin(tl.load(x_ptr + offsets)))


def sine(x):
    _sin_kernel[(1,)](x, BLOCK=128)


@triton.jit
def _softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row + offsets, (e / tl.sum(e, 0)).to(y_ptr.dtype.element_ty), mask=offsets < columns)


def softmax(x, num_warps=32):
    y = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    _softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=num_warps)
    return y


@triton.jit
def _row_sum_kernel(x_ptr, y_ptr, columns, IN_LOOP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    lanes = tl.zeros((BLOCK,), tl.float32)
    total = 0.0
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + offsets, mask=offsets < columns, other=0.0)
        if IN_LOOP:
            total += tl.sum(x, 0)
        else:
            lanes += x
    if not IN_LOOP:
        total = tl.sum(lanes, 0)
    tl.store(y_ptr + tl.program_id(0), total)


def row_sum(x, in_loop=False):
    y = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    _row_sum_kernel[(x.shape[0],)](x, y, x.shape[1], IN_LOOP=in_loop, BLOCK=1024)
    return y


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
    EVEN_K: tl.constexpr = False,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * stride_a + k[None, :], mask=(rows < M)[:, None] & (k < K)[None, :])
        b = tl.load(b_ptr + k[:, None] * stride_b + columns[None, :], mask=(k < K)[:, None] & (columns < N)[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a, b, precision="tf32", blocks=(64, 64, 32), num_warps=4, num_stages=3):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(a.shape[0], blocks[0]), triton.cdiv(b.shape[1], blocks[1]))
    _matmul_kernel[grid](
        a, b, c, a.shape[0], b.shape[1], a.shape[1], a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2], PRECISION=precision,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


_tuned_kernel = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=8, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128}, num_warps=4, num_stages=12),
    ],
    key=["M", "N", "K"],
)(triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})(_matmul_kernel))


def tuned_matmul(a, b):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)

    def grid(meta):
        return triton.cdiv(a.shape[0], meta["BLOCK_M"]), triton.cdiv(b.shape[1], meta["BLOCK_N"])

    _tuned_kernel[grid](
        a, b, c, a.shape[0], b.shape[1], a.shape[1], a.stride(0), b.stride(0), c.stride(0), PRECISION="tf32"
    )
    return c


def tuned_matmul_twice(a, b):
    return tuned_matmul(tuned_matmul(a, b), b)
