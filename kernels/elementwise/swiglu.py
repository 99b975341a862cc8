"""SwiGLU: the gated activation between the two matrix products of a transformer's feed-forward block.

    y[m, n] = silu(gate[m, n]) * up[m, n]        silu(g) = g / (1 + exp(-g))

**Tiling.** One program per tile of BLOCK_M rows by BLOCK_N columns. Programs count along grid axis x only,
the column tiles of a row one after the other, because axes y and z end at 65,535. A tile has 2,048
elements: one row by 2,048 at a model's width, more rows where rows are narrow. At four warps a lane
handles 16 elements (8 on gfx942), which makes every access of an aligned row 16 bytes wide, in half types
too.

**Memory traffic.** Three tensors pass once: 3 * M * N * itemsize bytes, the least possible. At about ten
flops for 6 to 12 bytes the kernel is bound by memory on every declared target, and larger tiles gain
nothing once each multiprocessor has enough loads in flight.

**Trade-offs.** The tile does not depend on M, so a single token of width 14,336 is spread over only 7
programs; such a call is bound by launch latency. A width just above a multiple of the tile wastes most of
a program: 768 columns pad to 1,024. Rows whose distance is not a multiple of 16 elements (N = 4,097) lose
the wide accesses, because only some of them start on a 16-byte boundary. Both operands may be halves of
one fused projection (``gate_up.chunk(2, dim=-1)``), since rows have strides of their own; inner strides
other than 1 are the fallback's, where eager torch is no slower.

**Numerics.** Computed in float32 and rounded once, on the store. Eager torch in a half type rounds
silu(gate) before the product as well.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from kernels._host import device_guard, next_power_of_2, warps_for, wide_dtype
from kernels.elementwise._config import ELEMENTS_PER_WARP, MAX_WARPS, TILE_ELEMENTS
from kgate import Dim, Envelope, Numerics, Tensor, Workload, kernel


def swiglu_eager(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The same in eager torch, for any shape, layout and device; half types are computed in float32."""
    wide = wide_dtype(gate.dtype)
    return (F.silu(gate.to(wide)) * up.to(wide)).to(gate.dtype)


@triton.jit
def _swiglu_kernel(
    gate_ptr,
    up_ptr,
    y_ptr,
    gate_row_stride,
    up_row_stride,
    y_row_stride,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One tile of BLOCK_M rows by BLOCK_N columns; columns are contiguous, row strides are in elements."""
    pid = tl.program_id(0)
    column_tiles = tl.cdiv(n_cols, BLOCK_N)
    rows = (pid // column_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (pid % column_tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]

    # A row may begin past 2^31 elements: the product with the stride needs 64 bits, the column does not.
    rows = rows.to(tl.int64)[:, None]
    cols = cols[None, :]
    gate = tl.load(gate_ptr + rows * gate_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + rows * up_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + rows * y_row_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@kernel(
    reference="kernels.references.elementwise:swiglu",
    fallback=swiglu_eager,
    envelope=Envelope(
        inputs={
            "gate": Tensor("M N", "T", layout="inner_contiguous"),
            "up": Tensor("M N", "T", layout="inner_contiguous"),
        },
        outputs={"y": Tensor("M N", "T", layout="contiguous", numerics=Numerics(acc="float32", c=2))},
        dtypes={"T": ("float16", "bfloat16", "float32")},
        dims={"M": Dim(0, 2**20), "N": Dim(1, 2**17)},
        targets=("cuda:sm_80+", "hip:gfx942"),
    ),
    workloads=(
        Workload(M=4096, N=14336, T="bfloat16", source="Llama-3-8B, Mixtral-8x7B: prefill of 4,096 tokens"),
        Workload(M=8192, N=28672, T="bfloat16", source="Llama-3-70B: prefill of 8,192 tokens"),
        Workload(M=64, N=18944, T="bfloat16", source="Qwen2.5-7B: decode, batch of 64"),
        Workload(M=2048, N=768, T="bfloat16", source="Qwen3-30B-A3B: one expert's 2,048 tokens"),
        Workload(M=1, N=14336, T="float16", source="Llama-3-8B: decode, one sequence"),
        Workload(M=4096, N=11008, T="float32", source="Llama-2-7B: full-precision evaluation"),
        Workload(M=511, N=4097, T="bfloat16", source="awkward: no row after the first is aligned"),
    ),
)
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up`` for gate and up [M, N], whose columns are contiguous.

    Returns a contiguous [M, N] of their dtype.
    """
    n_rows, n_cols = gate.shape
    y = torch.empty((n_rows, n_cols), dtype=gate.dtype, device=gate.device)
    if n_rows == 0:  # nothing to compute
        return y
    block_n = min(TILE_ELEMENTS, next_power_of_2(n_cols))
    block_m = TILE_ELEMENTS // block_n
    grid = (triton.cdiv(n_rows, block_m) * triton.cdiv(n_cols, block_n),)
    with device_guard(gate):
        _swiglu_kernel[grid](
            gate,
            up,
            y,
            gate.stride(0),
            up.stride(0),
            y.stride(0),
            n_rows,
            n_cols,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            num_warps=warps_for(TILE_ELEMENTS, per_warp=ELEMENTS_PER_WARP, most=MAX_WARPS),
        )
    return y
