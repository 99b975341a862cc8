"""Matrix product with float32 accumulation: the linear layers of a transformer.

    c[m, n] = sum_k a[m, k] * b[k, n]

**Tiling.** A program computes BLOCK_M x BLOCK_N of c and walks K in steps of BLOCK_K, through a software
pipeline of num_stages tiles in shared memory. Products run on tensor cores: mma on sm_80, wgmma on sm_90,
tcgen05 on sm_100 (mma for tiles of 16 rows), mfma on gfx942. Tile shapes are tuned over CONFIGS, less
those that do not fit the device's shared memory and those that would spill for operands that are not
aligned.

**Order.** Programs count along grid axis x. Within a group of GROUP_M row tiles the row runs fastest, so
that the programs in flight share GROUP_M row panels of a and few column panels of b, and both stay in L2.

**Memory traffic.** Least possible: (M*K + K*N + M*N) * itemsize. Requested from L2: a once per column tile
and b once per row tile, which at 128 x 256 is K/128 + K/256 operand elements per element of c. Grouping
keeps what reaches memory near the least for problems whose panels fit L2.

**Trade-offs.** Strides are free, so ``linear.weight.T`` needs no copy; 16-byte copies need one unit stride
per operand and a multiple of 16 elements for the other. In float32, wgmma and tcgen05 read both operands
along K, so a row-major b is copied 4 bytes at a time there. K is masked only where BLOCK_K does not divide
it (EVEN_K), which is a second binary. Tuning runs once per (M, N, K) and layout: a server whose batch
changes with every step should pad M to a few sizes. There is no split along K, so few output tiles with a
long K leave multiprocessors idle. Operands come through pointers and cp.async, not TMA descriptors: those
demand strides of 16 bytes of every caller, and in exchange would free registers and issue slots on sm_90
and later.

**Offsets.** A tile begins at a 64-bit offset; inside it offsets are 32-bit, in half the registers. That is
what limits strides to 2^22 elements: 255 columns and 63 steps of K, at most, stay below 2^31.

**Numerics.** float32 accumulator throughout and one rounding, on the store. Products of half types are
exact. float32 operands are rounded to tf32 (10 bits of mantissa, relative error up to 2^-11 each), as
torch does under ``allow_tf32``; the fallback does not unless torch is told to.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kernels._host import device_guard
from kernels.matmul._config import ALIGNED_CONFIGS, CONFIGS, GROUP_M, INPUT_PRECISION
from kgate import Dim, Envelope, Numerics, Tensor, Workload, kernel


def matmul_eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same in eager torch, for every dtype, layout and device that torch multiplies."""
    return torch.matmul(a, b)


def _configs_that_fit(configs: list[triton.Config], named_args: dict[str, Any], **_: Any) -> list[triton.Config]:
    """The configurations that can launch on the current device and do not spill for these operands.

    Tuning would find the others out as well, but only after compiling and timing each of them.
    """
    driver = triton.runtime.driver.active
    limit = driver.utils.get_device_properties(driver.get_current_device())["max_shared_mem"]
    itemsize = named_args["a_ptr"].element_size()
    fitting = [config for config in configs if _operand_bytes(config, itemsize) <= limit]
    if _is_aligned(named_args):
        return fitting
    return [config for config in fitting if config not in ALIGNED_CONFIGS]


def _operand_bytes(config: triton.Config, itemsize: int) -> int:
    """Shared memory for the tiles of a and b in flight, in bytes; what some targets need is a stage less."""
    tile = config.kwargs
    return (tile["BLOCK_M"] + tile["BLOCK_N"]) * tile["BLOCK_K"] * itemsize * config.num_stages


def _is_aligned(named_args: dict[str, Any]) -> bool:
    """Whether operands can be copied 16 bytes at a time: unit strides, and all else a multiple of 16."""
    strides = [named_args[name] for name in ("stride_am", "stride_ak", "stride_bk", "stride_bn")]
    sizes = [named_args[name] for name in ("N", "K")]
    return all(value == 1 or value % 16 == 0 for value in strides) and all(size % 16 == 0 for size in sizes)


@triton.jit
def _grouped_tile(pid, row_tiles, column_tiles, GROUP_M: tl.constexpr):
    """Row and column of the pid-th tile; GROUP_M row tiles are finished before the next group begins."""
    tiles_per_group = GROUP_M * column_tiles
    first_row = (pid // tiles_per_group) * GROUP_M
    rows_in_group = min(row_tiles - first_row, GROUP_M)
    within = pid % tiles_per_group
    return first_row + within % rows_in_group, within // rows_in_group


@triton.autotune(
    configs=CONFIGS,
    key=["M", "N", "K", "stride_ak", "stride_bk"],
    prune_configs_by={"early_config_prune": _configs_that_fit},
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def _matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    GROUP_M: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """One BLOCK_M x BLOCK_N tile of c, whose columns are contiguous; strides in elements, at most 2^22."""
    pid_m, pid_n = _grouped_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    first_row = pid_m * BLOCK_M
    first_col = pid_n * BLOCK_N
    rows = tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    ks = tl.arange(0, BLOCK_K)
    row_mask = rows < M - first_row
    col_mask = cols < N - first_col

    # A tile may begin past 2^31 elements: that offset is a 64-bit scalar. Inside a tile 32 bits are enough
    # for strides up to 2^22 (the envelope), and take half the registers where every element has an address.
    a_ptr += first_row.to(tl.int64) * stride_am
    b_ptr += first_col.to(tl.int64) * stride_bn
    c_ptr += first_row.to(tl.int64) * stride_cm + first_col
    a_offsets = rows * stride_am + ks[None, :] * stride_ak
    b_offsets = ks[:, None] * stride_bk + cols * stride_bn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptr + a_offsets, mask=row_mask, other=0.0)
            b = tl.load(b_ptr + b_offsets, mask=col_mask, other=0.0)
        else:
            in_k = ks < K - k
            a = tl.load(a_ptr + a_offsets, mask=row_mask & in_k[None, :], other=0.0)
            b = tl.load(b_ptr + b_offsets, mask=in_k[:, None] & col_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=INPUT_PRECISION)
        a_ptr += BLOCK_K * stride_ak
        b_ptr += BLOCK_K * stride_bk

    c_ptrs = c_ptr + rows * stride_cm + cols
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_mask & col_mask)


@kernel(
    reference="kernels.references.matmul:matmul",
    fallback=matmul_eager,
    envelope=Envelope(
        inputs={"a": Tensor("M K", "T"), "b": Tensor("K N", "T")},
        outputs={
            "c": Tensor(
                "M N", "T", layout="contiguous", numerics=Numerics(reduce="K", acc="tf32", magnitude="absolute")
            ),
        },
        dtypes={"T": ("float16", "bfloat16", "float32")},
        dims={"M": Dim(0, 2**20), "N": Dim(0, 2**20), "K": Dim(0, 2**20)},
        where=(
            "stride(a, 0) <= 2**22",
            "stride(a, 1) <= 2**22",
            "stride(b, 0) <= 2**22",
            "stride(b, 1) <= 2**22",
        ),
        targets=("cuda:sm_80+", "hip:gfx942"),
    ),
    workloads=(
        Workload(
            M=4096,
            N=4096,
            K=4096,
            T="bfloat16",
            layouts={"b": "transposed"},
            source="Llama-3-8B: query projection, 4,096 tokens",
        ),
        Workload(
            M=8192,
            N=28672,
            K=8192,
            T="bfloat16",
            layouts={"b": "transposed"},
            source="Llama-3-70B: gate projection, 8,192 tokens",
        ),
        Workload(
            M=16,
            N=4096,
            K=14336,
            T="bfloat16",
            layouts={"b": "transposed"},
            source="Mixtral-8x7B: one expert's down projection, decode, 16 tokens",
        ),
        Workload(
            M=64,
            N=152064,
            K=3584,
            T="bfloat16",
            layouts={"b": "transposed"},
            source="Qwen2.5-7B: logits of 64 sequences",
        ),
        Workload(M=1024, N=768, K=3072, T="float16", source="GPT-2: down projection (weights as [in, out])"),
        Workload(
            M=1024,
            N=50257,
            K=768,
            T="float16",
            layouts={"b": "transposed"},
            source="GPT-2: logits of 1,024 tokens; columns not a multiple of 16",
        ),
        Workload(
            M=4096,
            N=4096,
            K=4096,
            T="float32",
            layouts={"b": "transposed"},
            source="Llama-3-8B: query projection in tf32",
        ),
        Workload(M=511, N=4097, K=1023, T="bfloat16", source="awkward: nothing aligned, a tail on every axis"),
    ),
)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a @ b`` for a [M, K] and b [K, N] of any strides; returns a contiguous [M, N] of their dtype."""
    n_rows, depth = a.shape
    n_cols = b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    if n_rows == 0 or n_cols == 0:  # nothing to compute
        return c

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(n_rows, meta["BLOCK_M"]) * triton.cdiv(n_cols, meta["BLOCK_N"]),)

    with device_guard(a):
        _matmul_kernel[grid](
            a,
            b,
            c,
            n_rows,
            n_cols,
            depth,
            a.stride(0),
            a.stride(1),
            b.stride(0),
            b.stride(1),
            c.stride(0),
            GROUP_M=GROUP_M,
            INPUT_PRECISION=INPUT_PRECISION,
        )
    return c
