"""Faults to seed into the corpus: exact text replacements, and what the gate has to say about each.

Each is one mistake that engineers make. ``old`` occurs once in the file, and the file still parses with ``new``
in its place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One mistake in one file, and the finding that must follow."""

    name: str
    """Kebab-case, for the test's id."""
    path: str
    """File to edit, relative to the repository."""
    old: str
    """Text that stands there exactly once."""
    new: str
    """Text that takes its place."""
    kernel: str
    """Short name of the one kernel that must fail."""


@dataclass(frozen=True)
class AccuracyFault(Fault):
    """A mistake that makes results wrong."""

    statuses: tuple[str, ...]
    """What failing cases may be called, by the measurement's status."""
    shared: str
    """What the message must name as shared by the failing cases: a dim, a dtype variable or a layout."""
    values: tuple[str, ...] = ()
    """Values of it that the message must name (dtypes); empty where the dim alone will do."""
    failing: str = ""
    """Id of a small case that must fail."""
    passing: str = ""
    """Id of a small case that must pass all the same."""


@dataclass(frozen=True)
class CodegenFault(Fault):
    """A mistake that leaves results right and makes the compiled code worse."""

    workload: str
    """Id of the workload whose figures move."""
    targets: tuple[str, ...]
    """Targets on which they do."""
    figure: str
    """Name of the figure that moves, in every launch of the workload."""
    direction: str
    """``up`` or ``down``."""
    old_figure: int | None = None
    """The figure before, where it is the same on all these targets."""
    new_figure: int | None = None
    """The figure after, likewise."""


_SWIGLU = "kernels/elementwise/swiglu.py"
_SOFTMAX = "kernels/reduction/softmax.py"
_RMS_NORM = "kernels/normalization/rms_norm.py"
_MATMUL = "kernels/matmul/matmul.py"

ACCURACY_FAULTS: tuple[AccuracyFault, ...] = (
    AccuracyFault(
        name="removed-mask",
        path=_SWIGLU,
        old="    tl.store(y_ptr + rows * y_row_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)\n",
        new="    tl.store(y_ptr + rows * y_row_stride + cols, y.to(y_ptr.dtype.element_ty))\n",
        kernel="swiglu",
        statuses=("out-of-bounds",),
        shared="N",
        failing="M=3,N=4097,T=bfloat16",
        passing="M=4,N=28672,T=bfloat16",
    ),
    AccuracyFault(
        name="int32-offset",
        path=_RMS_NORM,
        old="    rows = rows.to(tl.int64)[:, None]\n",
        new="    rows = rows[:, None]\n",
        kernel="rms_norm",
        statuses=("overflow",),
        shared="x",
        values=("far",),
        failing="M=4,N=64,T=float32,x=far",
        passing="M=4,N=64,T=float32",
    ),
    AccuracyFault(
        name="wrong-identity",
        path=_SOFTMAX,
        old=('    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)\n'),
        new="    x = tl.load(x_ptr + rows * x_row_stride + cols, mask=mask, other=0.0).to(tl.float32)\n",
        kernel="softmax",
        statuses=("wrong",),
        shared="N",
        failing="M=4,N=17,T=float32",
        passing="M=4,N=1024,T=float32",
    ),
    AccuracyFault(
        name="dropped-float32",
        path="kernels/normalization/_helpers.py",
        old="    x = x.to(tl.float32)\n",
        new="",
        kernel="rms_norm",
        statuses=("wrong", "error"),
        shared="T",
        values=("bfloat16", "float16"),
        failing="M=4,N=8192,T=bfloat16",
        passing="M=4,N=4096,T=float32",
    ),
    AccuracyFault(
        name="unwritten-tail",
        path=_SWIGLU,
        old="    grid = (triton.cdiv(n_rows, block_m) * triton.cdiv(n_cols, block_n),)\n",
        new="    grid = (triton.cdiv(n_rows, block_m) * (n_cols // block_n),)\n",
        kernel="swiglu",
        statuses=("unwritten",),
        shared="N",
        failing="M=3,N=4097,T=bfloat16",
        passing="M=4,N=28672,T=bfloat16",
    ),
    AccuracyFault(
        name="unsummed-tail",
        path=_MATMUL,
        old="    for k in range(0, K, BLOCK_K):\n",
        new="    for k in range(0, K // BLOCK_K * BLOCK_K, BLOCK_K):\n",
        kernel="matmul",
        statuses=("wrong",),
        shared="K",
        failing="M=64,N=64,K=67,T=float32",
        passing="M=64,N=64,K=64,T=float32",
    ),
)

_CUDA = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100")

CODEGEN_FAULTS: tuple[CodegenFault, ...] = (
    CodegenFault(
        name="spilling-block",
        path="kernels/reduction/_config.py",
        old="LOOP_COLUMNS = 8192\n",
        new="LOOP_COLUMNS = 32768\n",
        kernel="softmax",
        workload="M=512,N=65536,T=bfloat16",
        targets=_CUDA,
        figure="spill_bytes",
        direction="up",
        old_figure=0,
    ),
    CodegenFault(
        name="lost-alignment",
        path=_SWIGLU,
        old="@triton.jit\ndef _swiglu_kernel(\n",
        new=(
            '@triton.jit(do_not_specialize=["gate_row_stride", "up_row_stride", "y_row_stride", "n_cols"])\n'
            "def _swiglu_kernel(\n"
        ),
        kernel="swiglu",
        workload="M=4096,N=14336,T=bfloat16",
        targets=(*_CUDA, "hip:gfx942"),
        figure="store_128",
        direction="down",
        new_figure=0,
    ),
    CodegenFault(
        name="ieee-for-tf32",
        path="kernels/matmul/_config.py",
        old='INPUT_PRECISION = "tf32"\n',
        new='INPUT_PRECISION = "ieee"\n',
        kernel="matmul",
        workload="M=4096,N=4096,K=4096,T=float32,b=transposed",
        targets=_CUDA,
        figure="mma",
        direction="down",
        new_figure=0,
    ),
    CodegenFault(
        name="reduction-in-loop",
        path=_SOFTMAX,
        old="        new_max = tl.maximum(lane_max, x)\n",
        new="        new_max = tl.maximum(lane_max, tl.max(x, axis=0))\n",
        kernel="softmax",
        workload="M=512,N=65536,T=bfloat16",
        targets=(*_CUDA, "hip:gfx942"),
        figure="barriers_in_loop",
        direction="up",
        old_figure=0,
        new_figure=3,
    ),
)

FAULTS: tuple[Fault, ...] = (*ACCURACY_FAULTS, *CODEGEN_FAULTS)
