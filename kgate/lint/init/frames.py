"""Frames of a trace, and what the tracer knows of arrays: their axes, their sizes, the two branches joined."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgate.contract.dtypes import DTYPES as KNOWN_DTYPES
from kgate.lint.init.project import Project
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Dtype,
    Evidence,
    Facts,
    Formula,
    Items,
    Known,
    Parameter,
    Shape,
    Size,
    Value,
)
from kgate.source.uses import Uses

DTYPES = frozenset(KNOWN_DTYPES)
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}

DEPTH = 8
"""Calls inside calls that one trace follows."""


@dataclass
class Frame:
    """One run of one function."""

    path: str
    number: int
    uses: Uses
    owner: str
    lines: list[str]
    env: dict[str, Value]
    depth: int
    returns: list[tuple[Value, Evidence]] = field(default_factory=list)
    ended: bool = False


class Tracing:
    """What all parts of the tracer share; ``given`` says what the launcher's parameters are."""

    def __init__(self, project: Project, given: Mapping[str, Value], documented: Mapping[str, int] = {}) -> None:
        self.project = project
        self.documented = dict(documented)
        self.given = dict(given)
        self.facts = Facts()
        self.steps = 0
        self.frames = 0
        self.active: list[str] = []
        self.here = Evidence("", 0, "")

    def frame(self, symbol: str, env: dict[str, Value], depth: int) -> Frame:
        path, _, name = symbol.partition("::")
        self.frames += 1
        uses = self.project.uses(symbol)
        return Frame(path, self.frames, uses, name.rpartition(".")[0], self.project.file(path)[1], env, depth)

    def evidence(self, frame: Frame, node: ast.AST) -> Evidence:
        line = getattr(node, "lineno", 1)
        text = frame.lines[line - 1].strip() if line <= len(frame.lines) else ""
        return Evidence(frame.path, line, text)

    def insist_rank(self, array: Array, rank: int, evidence: Evidence) -> None:
        if isinstance(array.shape, str) and array.shape:
            self.facts.ranks.setdefault(array.shape, []).append((rank, evidence))

    def rank_of(self, array: Array) -> int | None:
        if isinstance(array.shape, tuple):
            return len(array.shape)
        return self.rank_of_input(array.shape) if isinstance(array.shape, str) else None

    def rank_of_input(self, root: str) -> int | None:
        """The number of axes of an input, by what was found so far, or by its documentation."""
        group, queue = {root}, [root]
        for name in queue:
            if name in self.facts.ranks:
                return self.facts.ranks[name][0][0]
            for one, other, _ in self.facts.same_shape:
                for here, there in ((one, other), (other, one)):
                    if here == name and there not in group:
                        group.add(there)
                        queue.append(there)
        return next((self.documented[name] for name in queue if name in self.documented), None)

    def axis(self, array: Array, at: int) -> Value:
        """The size of one axis of an array."""
        if isinstance(array.shape, tuple):
            return array.shape[at] if -len(array.shape) <= at < len(array.shape) else UNKNOWN
        if isinstance(array.shape, Items):
            after = len(array.shape.items) - max(array.shape.spread) - 1
            return array.shape.items[at] if -after <= at < 0 else UNKNOWN
        return Size(array.shape, at) if array.shape else UNKNOWN

    def _spread(self, value: Items, count: int | None, evidence: Evidence) -> list[Value] | None:
        """The items of a tuple with starred parts opened; None where their number is not known."""
        if not value.spread:
            return list(value.items)
        opened: list[Value] = []
        for at, item in enumerate(value.items):
            if at not in value.spread:
                opened.append(item)
            elif isinstance(item, Items) and not item.spread:
                opened += item.items
            elif isinstance(item, Shape):
                length = self._length(item)
                if length is None and count is not None and len(value.spread) == 1:
                    length = count - len(value.items) + 1
                    if item.start in (None, 0) and item.stop is None:
                        self.insist_rank(item.array, length, evidence)
                if length is None:
                    return None
                start = item.start or 0
                opened += [self.axis(item.array, start + step) for step in range(length)]
            else:
                return None
        return opened

    def _length(self, shape: Shape) -> int | None:
        start = shape.start or 0
        rank = self.rank_of(shape.array)
        if shape.stop is not None and shape.stop >= 0 and start >= 0:
            return shape.stop - start
        if rank is None or start < 0:
            return -start if start < 0 and shape.stop is None else None
        return (rank if shape.stop is None else rank + shape.stop) - start

    def as_tensor(self, parameter: Parameter, frame: Frame, node: ast.AST) -> Array:
        self.facts.tensors.setdefault(parameter.name, self.evidence(frame, node))
        return tensor(parameter.name)

    def _known_rank(self, array: Array) -> Value:
        return Known(len(array.shape)) if isinstance(array.shape, tuple) else UNKNOWN

    def swapped(self, array: Array, first: int, second: int) -> Array:
        """A transposed view: what is known of its shape moves along, its layout is another."""
        rank = self.rank_of(array)
        if rank is None or not -rank <= first < rank or not -rank <= second < rank:
            return replace(array, shape=None, dense=False)
        sizes = [self.axis(array, at) for at in range(rank)]
        sizes[first], sizes[second] = sizes[second], sizes[first]
        return replace(array, shape=tuple(sizes), dense=False)

    def block(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
        """Follow statements."""
        raise NotImplementedError


def returned(frame: Frame) -> Value:
    """What a function returns, where all its returns agree as far as they are known."""
    values = [value for value, _ in frame.returns]
    if not values:
        return Known(None)
    result = values[-1]
    for value in values[:-1]:
        result = join(value, result)
    return result


def join(first: Value | None, second: Value | None) -> Value:
    """What is known where it may be one or the other."""
    if first == second and first is not None:
        return first
    if isinstance(first, Items) and isinstance(second, Items) and not first.spread and not second.spread:
        if len(first.items) == len(second.items):
            return Items(tuple(map(join, first.items, second.items)))
        return UNKNOWN
    if isinstance(first, Array) and isinstance(second, Array):
        return Array(
            first.root or second.root if first.root == second.root or not (first.root and second.root) else "",
            first.shape if first.shape == second.shape else None,
            first.dtype if first.dtype == second.dtype else UNKNOWN,
            first.dense and second.dense,
            first.evidence,
        )
    return UNKNOWN


def tensor(name: str) -> Array:
    """An input as a tensor of which nothing is known yet."""
    return Array(name, name, Dtype(root=name))


def pow2(value: Value) -> Value:
    """The next power of two."""
    return Formula("pow2", value, Known(0))


def dtype_called(chain: str) -> Value:
    """``torch.float16``, ``torch.float``: a dtype; anything else is unknown."""
    last = chain.rpartition(".")[2]
    if chain.startswith("torch.") and chain.count(".") == 1 and (last in DTYPES or last in _ALIASES):
        return Dtype(_ALIASES.get(last, last))
    return UNKNOWN
