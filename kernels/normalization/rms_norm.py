"""RMSNorm: rows scaled to a root mean square of one, then by a weight per column. There is no bias.

    y[m, n] = x[m, n] / sqrt(mean(x[m, :]^2) + eps) * weight[n]

**Tiling.** A program holds whole rows in registers, padded to a power of two, so that x is read once. Rows
narrower than 1,024 columns (the per-head norm of queries and keys has 128) share a program. Warps grow
with the tile: 16 elements per lane until 16 warps are reached at 8,192 columns, and 32 per lane at the
widest.

**Memory traffic.** One read and one write of x, 2 * M * N * itemsize, which is the least possible; the
weight (N * itemsize) is read by every program, from L2 after the first.

**Trade-offs.** Rows end at 16,384 columns, the width of Llama-3-405B, where a lane holds 32 float32
values; wider ones would need a second walk and are the fallback's. One program per tile and no persistent
loop: each pays for the weight's way from L2, and in exchange the last wave is short. N = 4,097 pads to
8,192, and only some of its rows start on a 16-byte boundary, so that all of its accesses are narrow.

**Numerics.** Statistics and products in float32 and one rounding, on the store; some model code rounds x /
rms to the half type before the weight, which loses a bit. Squares leave float32 where |x| exceeds 1.8e19,
as they do in eager torch: such a row comes out as zeros.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels._host import device_guard, next_power_of_2, warps_for, wide_dtype
from kernels.normalization._config import ELEMENTS_PER_WARP, MAX_COLUMNS, MAX_WARPS, PACKED_ELEMENTS
from kernels.normalization._helpers import _row_mean_square
from kgate import Dim, Envelope, Numerics, Scalar, Tensor, Workload, kernel


def rms_norm_eager(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6) -> torch.Tensor:
    """The same in eager torch, along the last axis of any shape, layout and device; half types in float32."""
    wide = x.to(wide_dtype(x.dtype))
    y = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y.to(x.dtype)


@triton.jit
def _rms_norm_kernel(
    x_ptr,
    weight_ptr,
    y_ptr,
    x_row_stride,
    y_row_stride,
    n_rows,
    n_cols,
    eps,
    HAS_WEIGHT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """BLOCK_M whole rows; BLOCK_N >= n_cols. Columns are contiguous, row strides are in elements."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < n_rows)[:, None] & (cols < n_cols)

    # A row may begin past 2^31 elements: the product with the stride needs 64 bits, the column does not.
    rows = rows.to(tl.int64)[:, None]
    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=0.0)
    y = x * tl.rsqrt(_row_mean_square(x, n_cols) + eps)[:, None]
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = y * weight
    tl.store(y_ptr + rows * y_row_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@kernel(
    reference="kernels.references.normalization:rms_norm",
    fallback=rms_norm_eager,
    envelope=Envelope(
        inputs={
            "x": Tensor("M N", "T", layout="inner_contiguous"),
            "weight": Tensor("N", "T", optional=True, layout="contiguous"),
            "eps": Scalar("float", 1e-12, 1.0),
        },
        outputs={
            "y": Tensor("M N", "T", layout="contiguous", numerics=Numerics(reduce="N", acc="float32", c=2)),
        },
        dtypes={"T": ("float16", "bfloat16", "float32")},
        dims={"M": Dim(0, 2**24), "N": Dim(1, MAX_COLUMNS)},
        targets=("cuda:sm_80+", "hip:gfx942"),
    ),
    workloads=(
        Workload(M=4096, N=4096, T="bfloat16", source="Llama-3-8B, Mixtral-8x7B: prefill of 4,096 tokens"),
        Workload(M=8192, N=8192, T="bfloat16", source="Llama-3-70B: prefill of 8,192 tokens"),
        Workload(M=64, N=3584, T="bfloat16", source="Qwen2.5-7B: decode, batch of 64"),
        Workload(M=131072, N=128, T="bfloat16", source="Qwen3-8B: query norm, 4,096 tokens x 32 heads"),
        Workload(M=2048, N=16384, T="bfloat16", source="Llama-3-405B: prefill of 2,048; the widest row"),
        Workload(M=1, N=4096, T="float16", source="Llama-3-8B: decode, one sequence"),
        Workload(M=4096, N=4096, T="float32", source="Llama-3-8B: full-precision evaluation"),
        Workload(M=511, N=4097, T="bfloat16", source="awkward: no row after the first is aligned"),
    ),
)
def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6) -> torch.Tensor:
    """RMSNorm of the rows of x [M, N], whose columns are contiguous, with weight [N] or None for ones.

    Returns a contiguous [M, N] of x's dtype.
    """
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if n_rows == 0:  # nothing to compute
        return y
    block_n = next_power_of_2(n_cols)
    block_m = max(1, PACKED_ELEMENTS // block_n)
    with device_guard(x):
        _rms_norm_kernel[(triton.cdiv(n_rows, block_m),)](
            x,
            weight,
            y,
            x.stride(0),
            y.stride(0),
            n_rows,
            n_cols,
            eps,
            HAS_WEIGHT=weight is not None,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            num_warps=warps_for(block_m * block_n, per_warp=ELEMENTS_PER_WARP, most=MAX_WARPS),
        )
    return y
