"""KG606 no-bounds-check: a global thread index is stored through and compared with nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.flow import Flow
    from kgate.lint.cuda.records import CudaFunction, CudaLaunch
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG606",
    name="no-bounds-check",
    severity=WARNING,
    summary="A kernel stores at an index made of `blockIdx` and `threadIdx` that it compares with nothing.",
    why=(
        "The grid is rounded up to whole blocks, so that the last block has threads beyond the end; what they write "
        "lands in the next tensor."
    ),
    remedy="Return or skip where the index is not below the number of elements.",
    quiet=(
        "A comparison, a loop or a minimum with the index or anything made of it; extents that are template values; "
        "kernels whose launch in this file is not rounded up; kernels without any size among their parameters."
    ),
    sources=("NVIDIA/cuCollections#522",),
    invalid=(
        Example(
            """
            __global__ void relu(const float* x, float* y, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              y[i] = fmaxf(x[i], 0.0f);
              ^^^^
            }
            """,
            note="The size is handed in and not used",
        ),
        Example(
            """
            __global__ void clear(float* out) {
              out[blockIdx.x * blockDim.x + threadIdx.x] = 0.0f;
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            }

            void run(float* out, int n, cudaStream_t stream) {
              int blocks = (n + 255) / 256;
              clear<<<blocks, 256, 0, stream>>>(out);
              CUDA_CHECK(cudaGetLastError());
            }
            """,
            note="The launch rounds up",
        ),
    ),
    valid=(
        Example(
            """
            __global__ void relu(const float* x, float* y, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = fmaxf(x[i], 0.0f);
            }
            """,
        ),
        Example(
            """
            __global__ void relu(const float* x, float* y, int n) {
              for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                y[i] = fmaxf(x[i], 0.0f);
            }
            """,
            note="A grid-stride loop",
        ),
    ),
)

_CONDITIONS = ("if_statement", "while_statement", "for_statement", "do_statement", "switch_statement")
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "%", "&"})
_CLAMPS = re.compile(r"\b(?:min|max|clamp)\b|loop|check|assert|guard|bound|valid|inside", re.IGNORECASE)
_SIZE = re.compile(
    r"n|N|num\w*|numel|size|sz|len|length|count|cnt|total|elements|\w*_(?:size|len|length|count|elements|numel)|n_\w+"
)
_INTEGER = re.compile(r"(?:unsigned|signed|u?int\w*|long|size_t|short|index_t|IndexType)(?: \w+)*")
_ROUNDED = re.compile(
    r"\+\s*\(?\s*[\w.:]+\s*-\s*1\s*\)*\s*/|\+\s*(?:31|63|127|255|511|1023)\s*\)\s*/|-\s*1\s*\)\s*/\s*[\w.:]+\s*\)?\s*\+\s*1"
    r"|ceil|cdiv|div_?up|GET_BLOCKS|round_?up",
    re.IGNORECASE,
)


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Kernels whose launches round up, or that are given a size, and that compare nothing."""
    if "blockIdx" not in file.text:
        return
    for kernel in file.kernels:
        if kernel.values or "blockIdx" not in file.code(kernel.body):
            continue
        flow = file.flow(kernel)
        store = _store(file, kernel, flow)
        if store is None or _compared(file, kernel, flow):
            continue
        reason = _reason(file, kernel)
        if reason:
            yield Hit(
                file.place(store),
                f"{kernel.name} stores at {file.line_of(store)} without comparing the index, {reason}",
                "skip the store where the index is not below the number of elements",
            )


def _store(file: CudaFile, kernel: CudaFunction, flow: Flow) -> Node | None:
    """The first store to a pointer parameter at a global index."""
    pointers = {item.name for item in kernel.parameters if item.pointer}
    for node in kernel.nodes["assignment_expression"]:
        left = node.child_by_field_name("left")
        if left is None or left.type != "subscript_expression":
            continue
        root, index = left.child_by_field_name("argument"), left.child_by_field_name("indices")
        if root is None or index is None or file.code(root) not in pointers:
            continue
        if flow.mentions(index, flow.global_index) or flow.is_global_index(index):
            return left
    return None


def _compared(file: CudaFile, kernel: CudaFunction, flow: Flow) -> bool:
    """Whether anything made of the thread's or the block's index is compared, or decides a branch."""
    names = flow.global_index | flow.thread | {"blockIdx", "threadIdx"}
    for kind in _CONDITIONS:
        for node in kernel.nodes[kind]:
            condition = node.child_by_field_name("condition")
            if condition is not None and flow.mentions(condition, names):
                return True
    if kernel.nodes["conditional_expression"]:
        return True
    for node in kernel.nodes["binary_expression"]:
        if flow.operator(node) in _COMPARISONS and flow.mentions(node, names):
            return True
    return any(
        _CLAMPS.search(file.callee(node)) and flow.mentions(node, names) for node in kernel.nodes["call_expression"]
    ) or any(_CLAMPS.search(file.code(node)[:40]) for node in kernel.nodes["function_definition"])


def _reason(file: CudaFile, kernel: CudaFunction) -> str:
    """Why there must be threads beyond the end; empty where that is not known."""
    launches = [launch for launch in file.launches if launch.kernel == kernel.name]
    if launches:
        rounded = next((launch for launch in launches if _rounds_up(file, launch)), None)
        if rounded is None:
            return ""
        line = file.place(rounded.node)[0]
        return f"and its launch in line {line} rounds the grid up to whole blocks"
    size = next((item for item in kernel.parameters if _is_size(item.name, item.type, item.pointer)), None)
    return "" if size is None else f"although it is given {size.name}"


def _is_size(name: str, kind: str, pointer: bool) -> bool:
    return not pointer and _SIZE.fullmatch(name) is not None and _INTEGER.fullmatch(kind) is not None


def _rounds_up(file: CudaFile, launch: CudaLaunch) -> bool:
    if not launch.configuration:
        return False
    grid = launch.configuration[0]
    texts = [file.code(grid)]
    if launch.function is not None:
        flow = file.flow(launch.function)
        for name in flow.names(grid):
            texts += [file.code(item.value) for item in flow.definitions.get(name, ())]
    return any(_ROUNDED.search(text) is not None for text in texts)
