"""Softmax along rows: attention probabilities, router gates, and the logits of a vocabulary.

    y[m, n] = exp(x[m, n] - max(x[m, :])) / sum(exp(x[m, :] - max(x[m, :])))

**Tiling.** Two kernels, chosen by the row's width N on the host.

* Up to ONE_PASS_COLUMNS (16,384) a program holds whole rows in registers, padded to a power of two. Rows
  narrower than 1,024 share a program, so that a router's 8 or 128 columns do not leave a warp idle. Warps
  grow with the tile: 16 elements per lane until 16 warps are reached at 8,192 columns, and 32 per lane at
  the widest.
* Wider rows are walked twice in tiles of LOOP_COLUMNS (8,192). The first walk keeps a running maximum and
  a running sum *per lane* and reduces across lanes once, after the loop; a reduction per tile would put
  barriers into every trip. The price is a second exponential per element, which hides behind the loads.

**Memory traffic.** Least possible: one read and one write, 2 * M * N * itemsize. One pass meets it. The
wide path reads twice, half as much again; the second read of a row (128 KiB of bfloat16 at 65,536 columns)
comes from L2 as long as the rows in flight fit there, which is why the first load asks to be kept and the
second does not.

**Trade-offs.** A one-pass tile of 32,768 columns would need 32 warps, which 64-lane hardware cannot
launch, or spill with fewer. Just past the threshold (N = 16,385) the second walk's reads come back and
three tiles cover what two nearly did. One row per program leaves multiprocessors idle where M is below
their number (sampling). Rows of 8 columns are read in pieces: their stride is no multiple of 16 elements,
which is all that is known of it.

**Numerics.** Statistics in float32 and a single rounding, on the store. As in torch, a row of -inf gives
NaN, and a NaN or +inf makes its whole row NaN. A lane that has seen nothing but -inf must keep a sum of
zero, where exp(-inf + inf) would be NaN: hence ``_finite_or_zero``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels._host import device_guard, next_power_of_2, warps_for
from kernels.reduction._config import (
    ELEMENTS_PER_WARP,
    LOOP_COLUMNS,
    MAX_WARPS,
    ONE_PASS_COLUMNS,
    PACKED_ELEMENTS,
)
from kgate import Dim, Envelope, Numerics, Tensor, Workload, kernel


def softmax_eager(x: torch.Tensor) -> torch.Tensor:
    """The same in eager torch, along the last axis of a tensor of any shape, layout and device."""
    return torch.softmax(x, dim=-1)


@triton.jit
def _finite_or_zero(maximum):
    """The maximum, or 0 where it is -inf: x - 0 is then still -inf, and its exponential 0 instead of NaN."""
    return tl.where(maximum == -float("inf"), 0.0, maximum)


@triton.jit
def _softmax_one_pass_kernel(
    x_ptr,
    y_ptr,
    x_row_stride,
    y_row_stride,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """BLOCK_M whole rows; BLOCK_N >= n_cols. Columns are contiguous, row strides are in elements."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < n_rows)[:, None] & (cols < n_cols)

    # A row may begin past 2^31 elements: the product with the stride needs 64 bits, the column does not.
    rows = rows.to(tl.int64)[:, None]
    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    row_max = tl.max(x, axis=1)
    e = tl.exp(x - _finite_or_zero(row_max)[:, None])
    y = e / tl.sum(e, axis=1)[:, None]
    tl.store(y_ptr + rows * y_row_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_loop_kernel(x_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, BLOCK_N: tl.constexpr):
    """One row, walked twice in tiles of BLOCK_N columns: first the statistics, then the result."""
    row = tl.program_id(0).to(tl.int64)
    x_row_ptr = x_ptr + row * x_row_stride
    y_row_ptr = y_ptr + row * y_row_stride
    lanes = tl.arange(0, BLOCK_N)

    lane_max = tl.full([BLOCK_N], -float("inf"), tl.float32)
    lane_sum = tl.zeros([BLOCK_N], tl.float32)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + lanes
        x = tl.load(x_row_ptr + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_last").to(
            tl.float32
        )
        new_max = tl.maximum(lane_max, x)
        shift = _finite_or_zero(new_max)
        lane_sum = lane_sum * tl.exp(lane_max - shift) + tl.exp(x - shift)
        lane_max = new_max

    shift = _finite_or_zero(tl.max(lane_max, axis=0))
    total = tl.sum(lane_sum * tl.exp(lane_max - shift), axis=0)

    for start in range(0, n_cols, BLOCK_N):
        cols = start + lanes
        mask = cols < n_cols
        x = tl.load(x_row_ptr + cols, mask=mask, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
        y = tl.exp(x - shift) / total
        tl.store(y_row_ptr + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@kernel(
    reference="kernels.references.reduction:softmax",
    fallback=softmax_eager,
    envelope=Envelope(
        inputs={"x": Tensor("M N", "T", layout="inner_contiguous")},
        outputs={
            "y": Tensor("M N", "T", layout="contiguous", numerics=Numerics(reduce="N", acc="float32", c=2)),
        },
        dtypes={"T": ("float16", "bfloat16", "float32")},
        dims={"M": Dim(0, 2**24), "N": Dim(1, 65536)},
        targets=("cuda:sm_80+", "hip:gfx942"),
    ),
    workloads=(
        Workload(M=131072, N=4096, T="bfloat16", source="Llama-3-8B: 32 heads, 4,096 x 4,096 scores"),
        Workload(M=4096, N=128, T="bfloat16", source="Qwen3-30B-A3B: router over 128 experts, 4,096 tokens"),
        Workload(M=4096, N=8, T="float32", source="Mixtral-8x7B: router over 8 experts, 4,096 tokens"),
        Workload(M=1024, N=16384, T="float16", source="Llama-3-8B: scores of 16,384 keys; one-pass limit"),
        Workload(M=1024, N=16385, T="float16", source="awkward: one column past the one-pass limit"),
        Workload(M=64, N=32000, T="float32", source="Llama-2, Mixtral: sampling, vocabulary of 32,000"),
        Workload(M=65536, N=50257, T="bfloat16", source="GPT-2: logits, 64 x 1,024 tokens; past 2^31"),
        Workload(M=512, N=65536, T="bfloat16", source="RWKV-World: vocabulary of 65,536; the widest row"),
        Workload(M=511, N=4097, T="bfloat16", source="awkward: no row after the first is aligned"),
    ),
)
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the rows of x [M, N], whose columns are contiguous.

    Returns a contiguous [M, N] of its dtype.
    """
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if n_rows == 0:  # nothing to compute
        return y
    if n_cols <= ONE_PASS_COLUMNS:
        _launch_one_pass(x, y)
    else:
        _launch_loop(x, y)
    return y


def _launch_one_pass(x: torch.Tensor, y: torch.Tensor) -> None:
    """Whole rows per program; x and y [M, N]."""
    n_rows, n_cols = x.shape
    block_n = next_power_of_2(n_cols)
    block_m = max(1, PACKED_ELEMENTS // block_n)
    with device_guard(x):
        _softmax_one_pass_kernel[(triton.cdiv(n_rows, block_m),)](
            x,
            y,
            x.stride(0),
            y.stride(0),
            n_rows,
            n_cols,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            num_warps=warps_for(block_m * block_n, per_warp=ELEMENTS_PER_WARP, most=MAX_WARPS),
        )


def _launch_loop(x: torch.Tensor, y: torch.Tensor) -> None:
    """One row per program, in several tiles; x and y [M, N]."""
    n_rows, n_cols = x.shape
    with device_guard(x):
        _softmax_loop_kernel[(n_rows,)](
            x,
            y,
            x.stride(0),
            y.stride(0),
            n_cols,
            BLOCK_N=LOOP_COLUMNS,
            num_warps=warps_for(LOOP_COLUMNS, per_warp=ELEMENTS_PER_WARP, most=MAX_WARPS),
        )
