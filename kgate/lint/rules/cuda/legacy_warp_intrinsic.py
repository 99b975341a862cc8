"""KG611 legacy-warp-intrinsic: a warp intrinsic without a mask, which GPUs since Volta do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG611",
    name="legacy-warp-intrinsic",
    severity=WARNING,
    summary="A warp shuffle or vote is called without the mask of the threads that take part.",
    why=(
        "Threads of a warp no longer run in lockstep since Volta. `__shfl`, `__any`, `__all` and `__ballot` are gone "
        "for these targets, so that the file does not compile there, and before that they gave whatever threads "
        "happened to meet."
    ),
    remedy="Call the `_sync` form with the mask of the threads that reach it: `__shfl_down_sync(0xffffffff, v, 16)`.",
    quiet="Files that name their HIP or CUDA version in a conditional, and functions or macros of the file so named.",
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#warp-shuffle-functions",),
    invalid=(
        Example(
            """
            __device__ float warp_sum(float v) {
              for (int d = 16; d > 0; d >>= 1) v += __shfl_down(v, d);
                                                    ^^^^^^^^^^^
              return v;
            }
            """,
        ),
    ),
    valid=(
        Example(
            """
            __device__ float warp_sum(float v) {
              for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
              return v;
            }
            """,
        ),
    ),
)

_LEGACY = re.compile(r"__(?:shfl(?:_up|_down|_xor)?|any|all|ballot)\b(?=\s*\()")
_VERSIONED = re.compile(r"CUDA_VERSION|CUDART_VERSION|CUDACC_VER|__HIP|USE_ROCM|HIP_PLATFORM|CUDA_ARCH__\s*<")


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Calls of the old intrinsics in device code."""
    if _LEGACY.search(file.text) is None or _VERSIONED.search(file.text) is not None or file.path.endswith(".hip"):
        return
    own = {*file.macros, *(function.name for function in file.functions)}
    for function in file.functions:
        if function.host and not function.kernel:
            continue
        for node in function.nodes["call_expression"]:
            called = node.child_by_field_name("function")
            name = file.callee(node)
            if called is not None and name not in own and _LEGACY.match(name + "("):
                yield Hit(
                    file.place(called),
                    f"{name} takes no mask and does not exist on GPUs since Volta",
                    f"call {name}_sync with the mask of the threads that take part",
                )
