"""KG608 shared-memory-opt-in: a launch with more dynamic shared memory than a kernel gets without asking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.cuda.constants import Constants
from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.source import CudaFile

LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel gets without asking, on every architecture."""

RULE = Rule(
    code="KG608",
    name="shared-memory-opt-in",
    severity=WARNING,
    summary="A launch asks for more than 48 KiB of dynamic shared memory and nothing allows the kernel so much.",
    why=(
        "Above 48 KiB a kernel must opt in with `cudaFuncSetAttribute`. Without it the launch fails with an invalid "
        "argument, and the kernel does not run, on every GPU, also on those with 100 KiB and more."
    ),
    remedy=(
        "Call `cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)` before the launch, "
        "for each instance of a template."
    ),
    quiet="The attribute is set anywhere in the file, or the size is not known from the text.",
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#shared-memory-8-x",),
    invalid=(
        Example(
            """
            constexpr int kTile = 128;

            void run(const float* x, float* y, cudaStream_t stream) {
              const int bytes = kTile * kTile * sizeof(float);
              transpose<<<64, 256, bytes, stream>>>(x, y);
                                   ^^^^^
              CUDA_CHECK(cudaGetLastError());
            }
            """,
        ),
        Example(
            """
            void run(const float* x, cudaStream_t stream) {
              reduce<<<64, 256, 96 << 10, stream>>>(x);
                                ^^^^^^^^
              CUDA_CHECK(cudaGetLastError());
            }
            """,
        ),
    ),
    valid=(
        Example(
            """
            constexpr int kTile = 128;

            void run(const float* x, float* y, cudaStream_t stream) {
              const int bytes = kTile * kTile * sizeof(float);
              cudaFuncSetAttribute(transpose, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
              transpose<<<64, 256, bytes, stream>>>(x, y);
              CUDA_CHECK(cudaGetLastError());
            }
            """,
        ),
        Example(
            """
            void run(const float* x, int bytes, cudaStream_t stream) {
              reduce<<<64, 256, bytes, stream>>>(x);
              CUDA_CHECK(cudaGetLastError());
            }
            """,
            note="Not known here",
        ),
    ),
)

_ATTRIBUTE = re.compile(r"MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE_BYTES|FuncSetAttribute")


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Third arguments of launches, where they are known."""
    if "<<<" not in file.text or _ATTRIBUTE.search(file.text):
        return
    for launch in file.launches:
        if len(launch.configuration) < 3 or launch.function is None:
            continue
        size = Constants(file, launch.function).value(launch.configuration[2])
        if size is not None and size > LIMIT:
            name = launch.kernel or "the kernel"
            yield Hit(
                file.place(launch.configuration[2]),
                f"{name} is launched with {size} bytes of dynamic shared memory and may use {LIMIT}",
                f"call cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {size}) before it",
            )
