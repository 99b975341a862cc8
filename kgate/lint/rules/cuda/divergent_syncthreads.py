"""KG605 divergent-syncthreads: a block-wide barrier that some threads of the block may not reach."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.flow import Flow
    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG605",
    name="divergent-syncthreads",
    severity=ERROR,
    lowered="a warning in loops whose number of rounds differs, and after an early return",
    summary="`__syncthreads()` stands where only some threads of the block arrive.",
    why=(
        "The barrier is defined only where all threads of the block reach it. Otherwise the block hangs, or threads "
        "pass that should have waited and read shared memory that is not written yet. After an early return the "
        "threads that left take no part, and what they should have loaded is missing."
    ),
    remedy="Move the barrier out of the branch; let threads without work skip the work, not the barrier.",
    quiet=(
        "Conditions that are the same for the whole block (`blockIdx`, parameters, `idx - threadIdx.x`), branches that "
        "both hold a barrier, and loops up to a constant."
    ),
    sources=("proteneer/timemachine#1218", "NVIDIA/cuCollections#522"),
    invalid=(
        Example(
            """
            __global__ void total(const float* x, float* out) {
              __shared__ float part[256];
              int t = threadIdx.x;
              part[t] = x[blockIdx.x * 256 + t];
              for (int s = 128; s > 0; s >>= 1) {
                if (t < s) {
                  __syncthreads();
                  ^^^^^^^^^^^^^^^
                  part[t] += part[t + s];
                }
              }
              if (t == 0) out[blockIdx.x] = part[0];
            }
            """,
            note="timemachine#1218, before",
        ),
        Example(
            """
            __global__ void insert(const int* keys, int* slots, int n) {
              __shared__ int count;
              int idx = blockIdx.x * blockDim.x + threadIdx.x;
              while (idx < n) {
                if (threadIdx.x == 0) count = 0;
                __syncthreads();
                ^^^^^^^^^^^^^^^
                atomicAdd(&count, keys[idx]);
                idx += gridDim.x * blockDim.x;
              }
            }
            """,
            note="cuCollections#522, before",
        ),
        Example(
            """
            __global__ void shift(float* x, int n) {
              __shared__ float tile[256];
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i >= n) return;
              tile[threadIdx.x] = x[i];
              __syncthreads();
              ^^^^^^^^^^^^^^^
              x[i] = tile[blockDim.x - 1 - threadIdx.x];
            }
            """,
            note="An early return",
        ),
    ),
    valid=(
        Example(
            """
            __global__ void total(const float* x, float* out) {
              __shared__ float part[256];
              int t = threadIdx.x;
              part[t] = x[blockIdx.x * 256 + t];
              for (int s = 128; s > 0; s >>= 1) {
                __syncthreads();
                if (t < s) part[t] += part[t + s];
              }
              if (t == 0) out[blockIdx.x] = part[0];
            }
            """,
            note="timemachine#1218, after",
        ),
        Example(
            """
            __global__ void insert(const int* keys, int* slots, int n) {
              __shared__ int count;
              int idx = blockIdx.x * blockDim.x + threadIdx.x;
              while (idx - threadIdx.x < n) {
                if (threadIdx.x == 0) count = 0;
                __syncthreads();
                if (idx < n) atomicAdd(&count, keys[idx]);
                idx += gridDim.x * blockDim.x;
              }
            }
            """,
            note="The same number of rounds for the whole block (cuCollections#522, after)",
        ),
    ),
)

_BARRIER = re.compile(r"__syncthreads(?:_count|_and|_or)?")
_BLOCK = re.compile(r"\bthis_thread_block\b|\bthread_block\b")
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_EXITS = frozenset({"return_statement", "continue_statement", "break_statement"})
_ROUNDED = re.compile(r"round_?up|ceil|cdiv|div_?up|blockDim|\bpad", re.IGNORECASE)
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*|k[A-Z]\w*")


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Barriers of device code, and calls of functions with one, under what differs between threads."""
    if "sync" not in file.text or "thread" not in file.text:
        return
    waiting = {item.name for item in file.functions if not item.host and any(_barriers(file, item, frozenset()))}
    for function in file.functions:
        if not function.host:
            search = _Search(file, function)
            for call in _barriers(file, function, frozenset(waiting - {function.name})):
                yield from search.hits(call)


def _barriers(file: CudaFile, function: CudaFunction, waiting: frozenset[str]) -> Iterator[Node]:
    flow = file.flow(function)
    for call in function.nodes["call_expression"]:
        name = file.callee(call)
        if _BARRIER.fullmatch(name) or name in waiting or (name == "sync" and _of_block(file, flow, call)):
            yield call


def _of_block(file: CudaFile, flow: Flow, call: Node) -> bool:
    """Whether ``group.sync()`` or ``sync(group)`` is of the whole block."""
    text = file.code(call)
    if _BLOCK.search(text):
        return True
    words = re.findall(r"\w+", text[:80])
    items = [item for word in words for item in flow.definitions.get(word, ())]
    return any(_BLOCK.search(item.type) or _BLOCK.search(file.code(item.value)[:80]) for item in items)


class _Search:
    """The way up from each barrier of one function."""

    def __init__(self, file: CudaFile, function: CudaFunction) -> None:
        self.file = file
        self.function = function
        self.flow = file.flow(function)
        self.told: set[int] = set()
        self.differing: dict[int, bool] = {}
        self.paired: dict[int, bool] = {}
        self.exits: dict[int, list[tuple[int, Node, str]]] = {}

    def hits(self, call: Node) -> Iterator[Hit]:
        """At most one for a barrier: the innermost reason why not all threads arrive."""
        name = self.file.callee(call)
        what = f"{name}()" if name != "sync" else self.file.line_of(call)
        in_loop = True
        for parent, child in self.file.inside(call, self.function.body):
            reason = self._branch(parent, child) or self._exit(parent, child, in_loop)
            if reason is not None:
                condition, severity, text = reason
                if condition.id in self.told:
                    return  # one finding for all barriers that one condition splits
                self.told.add(condition.id)
                yield Hit(
                    self.file.place(call),
                    f"{what} {text}, which differs between the threads of a block",
                    "let all threads reach the barrier, and put only the work under the condition",
                    severity=severity,
                    related=((self.file.place(condition), "differs between threads"),),
                )
                return
            if parent.type in _LOOPS or parent.type == "lambda_expression":
                in_loop = False

    def _branch(self, parent: Node, child: Node) -> tuple[Node, str, str] | None:
        kind = parent.type
        if kind not in ("if_statement", "switch_statement", *_LOOPS):
            return None
        condition = parent.child_by_field_name("condition")
        if condition is None or condition.id == child.id or not self._differs(condition):
            return None
        shown = self._shown(condition)
        if kind in _LOOPS:
            if self._constant(condition):
                return None
            return condition, WARNING, f"is in a loop that goes on while {shown}"
        if kind == "if_statement" and self._both(parent):
            return None
        if kind == "switch_statement":
            return condition, ERROR, f"is in one case of {shown}"
        return condition, ERROR, f"is reached depending on {shown}"

    def _exit(self, parent: Node, child: Node, in_loop: bool) -> tuple[Node, str, str] | None:
        """A statement before, in the same block, with which some threads leave."""
        if parent.type not in ("compound_statement", "case_statement"):
            return None
        known = self.exits.get(parent.id)
        if known is None:
            known = self.exits[parent.id] = list(self._divergent_exits(parent))
        for _, condition, kind in known[: bisect_left(known, child.start_byte, key=lambda item: item[0])]:
            shown = self._shown(condition)
            if kind == "return_statement":
                return condition, WARNING, f"comes after a return that depends on {shown}"
            if in_loop and parent.id != self.function.body.id:
                word = kind.partition("_")[0]
                return condition, ERROR, f"comes after a {word} that depends on {shown}"
        return None

    def _divergent_exits(self, block: Node) -> Iterator[tuple[int, Node, str]]:
        for item in block.named_children:
            if item.type != "if_statement":
                continue
            condition, body = item.child_by_field_name("condition"), item.child_by_field_name("consequence")
            if condition is None or body is None:
                continue
            last = body
            if body.type == "compound_statement":
                inner = [node for node in body.named_children if node.type != "comment"]
                last = inner[-1] if inner else body
            if last.type in _EXITS and self.flow.differs(condition):
                yield item.start_byte, condition, last.type

    def _both(self, branch: Node) -> bool:
        """Whether both branches hold a barrier."""
        known = self.paired.get(branch.id)
        if known is not None:
            return known
        sides = [branch.child_by_field_name("consequence"), branch.child_by_field_name("alternative")]
        known = all(side is not None and _BARRIER.search(self.file.code(side)) is not None for side in sides)
        self.paired[branch.id] = known
        return known

    def _differs(self, condition: Node) -> bool:
        known = self.differing.get(condition.id)
        if known is None:
            known = self.differing[condition.id] = self.flow.differs(condition)
        return known

    def _constant(self, condition: Node) -> bool:
        """Whether what bounds a loop is known when it is compiled, or a multiple of the block's size."""
        known = {*self.function.values, *self.file.constants}
        if self._whole_blocks(condition):
            return True
        for node in self.file.under(condition):
            if node.type != "identifier":
                continue
            name = self.flow.variable(node)
            fixed = name in known or _CONSTANT.fullmatch(name) is not None
            if not fixed and name != "threadIdx" and name not in self.flow.thread:
                return False
        return True

    def _whole_blocks(self, condition: Node) -> bool:
        texts = [self.file.code(condition)]
        for name in self.flow.names(condition) - self.flow.thread:
            texts += [self.file.code(item.value) for item in self.flow.definitions.get(name, ())]
        return any(_ROUNDED.search(text) for text in texts)

    def _shown(self, condition: Node) -> str:
        text = self.file.line_of(condition)
        return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
