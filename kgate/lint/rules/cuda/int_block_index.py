"""KG604 int-block-index: an index over a 64-bit extent that is computed in 32 bits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.cuda.flow import NARROW, WIDE
from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.flow import Definition, Flow
    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG604",
    name="int-block-index",
    severity=WARNING,
    summary="An index made of `blockIdx` is computed or kept in 32 bits although what bounds it has 64.",
    why=(
        "Both `blockIdx` and `blockDim` are 32-bit unsigned, and so is their product: it wraps at `2**32` before it is "
        "widened, and at `2**31` in an int, whose negative values then pass the comparison with the bound. Tensors of "
        "more than `2**31` elements are read and written outside their memory."
    ),
    remedy="Widen a factor first: `int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x`.",
    quiet=(
        "A factor that is cast to 64 bits, a bound that is an int too, and kernels in which nothing says that the "
        "index can be large."
    ),
    sources=("PaddlePaddle/Paddle#76303", "vllm-project/vllm#5781"),
    invalid=(
        Example(
            """
            __global__ void add(const float* x, float* y, int64_t n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              if (i < n) y[i] += x[i];
            }
            """,
            note="Paddle#76303, before",
        ),
        Example(
            """
            __global__ void add(const float* x, float* y, size_t n) {
              for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                y[i] += x[i];
            }
            """,
            note="Widened too late",
        ),
        Example(
            """
            __global__ void copy(const float* x, float* y, int64_t row_stride, int width) {
              int start = blockIdx.x * row_stride;
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              for (int i = threadIdx.x; i < width; i += blockDim.x) y[start + i] = x[start + i];
            }
            """,
            note="A 64-bit product kept in an int (vllm#5781, before)",
        ),
    ),
    valid=(
        Example(
            """
            __global__ void add(const float* x, float* y, int64_t n) {
              int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
              if (i < n) y[i] += x[i];
            }
            """,
            note="Paddle#76303, after",
        ),
        Example(
            """
            __global__ void add(const float* x, float* y, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] += x[i];
            }
            """,
            note="The bound is an int: its callers answer for it",
        ),
        Example(
            """
            __global__ void copy(const float* x, float* y, int64_t row_stride, int width) {
              int64_t start = blockIdx.x * row_stride;
              for (int i = threadIdx.x; i < width; i += blockDim.x) y[start + i] = x[start + i];
            }
            """,
            note="The product is computed in 64 bits, as one factor has them (vllm#5781, after)",
        ),
    ),
)

_CASTS = frozenset({"call_expression", "cast_expression"})
_ORDER = frozenset({"<", "<=", ">", ">="})
_REMEDY = "keep it in int64_t and cast a factor first: static_cast<int64_t>(blockIdx.x) * ..."


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Variables of device code that are initialised with a product of a block index."""
    if "blockIdx" not in file.text:
        return
    for function in file.functions:
        if function.host and not function.kernel:
            continue
        flow = file.flow(function)
        for items in list(flow.definitions.values()):
            for item in items:
                message = _why(file, function, flow, item)
                if message:
                    yield Hit(file.place(item.node), message, _REMEDY)


def _why(file: CudaFile, function: CudaFunction, flow: Flow, item: Definition) -> str:
    """What is wrong with an initialisation; empty where nothing is known to be."""
    if not item.type:
        return ""
    narrow = NARROW.fullmatch(item.type) is not None
    if not narrow and item.type != "auto" and not WIDE.search(item.type):
        return ""
    products = list(_block_products(file, flow, item.value))
    if not products:
        return ""
    wide = next((product for product in products if flow.wide(product)), None)
    if wide is not None:
        if narrow and not _cast_down(file, item.value):
            return f"{item.shown} is {item.type} and takes {file.line_of(wide)}, which is computed in 64 bits"
        return ""
    if not any("blockIdx" in flow.names(product) for product in products):
        return ""
    bound = _wide_bound(file, function, flow, item.name)
    if bound:
        return f"{item.shown} is computed in 32 bits and compared with {bound}, which has 64"
    return ""


def _block_products(file: CudaFile, flow: Flow, value: Node) -> Iterator[Node]:
    """The products of a sum that have ``blockIdx``, or a variable made of it, in them."""
    block = {"blockIdx", *flow.block}
    if flow.names(value).isdisjoint(block):
        return
    stack = [value]
    while stack:
        node = stack.pop()
        if node.type == "parenthesized_expression" or _is_wide_cast(file, node):
            stack += node.named_children
        elif node.type == "binary_expression":
            operator = flow.operator(node)
            if operator == "*" and not flow.names(node).isdisjoint(block):
                yield node
            elif operator in ("+", "-"):
                stack += node.named_children


def _is_wide_cast(file: CudaFile, node: Node) -> bool:
    """Whether an expression only widens what is in it, arguments of a constructor included."""
    if node.type in ("argument_list", "initializer_list"):
        return True
    return node.type in _CASTS and WIDE.search(file.code(node)[:80].partition("(")[0]) is not None


def _cast_down(file: CudaFile, value: Node) -> bool:
    """Whether the author narrows on purpose."""
    return (
        re.match(r"\(\s*(?:unsigned|u?int(?:32_t)?)\s*\)|static_cast<\s*(?:unsigned|u?int)", file.code(value))
        is not None
    )


def _wide_bound(file: CudaFile, function: CudaFunction, flow: Flow, name: str) -> str:
    """The 64-bit variable that a variable is compared with; empty without one, or where an int bounds it too."""
    found = ""
    for node in function.nodes["binary_expression"]:
        if flow.operator(node) not in _ORDER:
            continue
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            continue
        if right.type == "identifier" and flow.variable(right) == name:
            left, right = right, left
        if left.type != "identifier" or flow.variable(left) != name:
            continue
        if not flow.wide(right):
            return ""
        if right.type == "identifier":
            found = file.code(right)
    return found
