"""KG609 block-too-large: a launch with more threads in a block than the device or the kernel allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.cuda.constants import Constants
from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.source import CudaFile

LIMIT = 1024
"""Threads in a block, on every architecture."""

RULE = Rule(
    code="KG609",
    name="block-too-large",
    severity=WARNING,
    summary="A launch asks for more threads in a block than there can be.",
    why=(
        "No GPU runs blocks of more than 1,024 threads, and `__launch_bounds__` promises the compiler an upper limit "
        "of the kernel's own. Such a launch fails, and the kernel does not run."
    ),
    remedy="Launch with fewer threads in a block, or raise the kernel's `__launch_bounds__`.",
    quiet="Sizes that are not known from the text.",
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/#launch-bounds",),
    invalid=(
        Example(
            """
            void run(float* x, cudaStream_t stream) {
              dim3 block(64, 32);
              add<<<128, block, 0, stream>>>(x);
                         ^^^^^
              CUDA_CHECK(cudaGetLastError());
            }
            """,
        ),
        Example(
            """
            __global__ void __launch_bounds__(256) add(float* x) { x[threadIdx.x] += 1.0f; }

            void run(float* x, cudaStream_t stream) {
              add<<<1, 512, 0, stream>>>(x);
                       ^^^
              CUDA_CHECK(cudaGetLastError());
            }
            """,
            note="More than the kernel's own bound",
        ),
    ),
    valid=(
        Example(
            """
            __global__ void __launch_bounds__(256) add(float* x) { x[threadIdx.x] += 1.0f; }

            void run(float* x, cudaStream_t stream) {
              add<<<1, 256, 0, stream>>>(x);
              CUDA_CHECK(cudaGetLastError());
            }
            """,
        ),
    ),
)


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Second arguments of launches, where they are known."""
    if "<<<" not in file.text:
        return
    bounds = dict(_bounds(file)) if "__launch_bounds__" in file.text else {}
    for launch in file.launches:
        if len(launch.configuration) < 2:
            continue
        block = launch.configuration[1]
        threads = Constants(file, launch.function).threads(block)
        bound = bounds.get(launch.kernel, LIMIT)
        if threads is not None and threads > bound:
            allowed = "a block has at most" if bound == LIMIT else "its __launch_bounds__ are"
            yield Hit(
                file.place(block),
                f"{launch.kernel or 'the kernel'} is launched with {threads} threads in a block, and {allowed} {bound}",
                f"launch it with at most {bound} threads in a block",
            )


def _bounds(file: CudaFile) -> Iterator[tuple[str, int]]:
    """Kernels of one definition with a known bound."""
    names = [kernel.name for kernel in file.kernels]
    for kernel in file.kernels:
        node = next((item for item in _marks(kernel.node) if item.type == "launch_bounds"), None)
        value = None if node is None or not node.named_children else Constants(file).value(node.named_children[0])
        if value is not None and 0 < value <= LIMIT and names.count(kernel.name) == 1 and not kernel.template:
            yield kernel.name, value


def _marks(node: Node) -> list[Node]:
    return node.named_children
