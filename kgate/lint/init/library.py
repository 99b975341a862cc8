"""What calls of torch, triton and Python give: new tensors, views, sizes. Whatever is not here is unknown."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Ask,
    Count,
    Dtype,
    Evidence,
    Formula,
    Items,
    Known,
    Parameter,
    Rank,
    Rows,
    Shape,
    Size,
    Stride,
    Value,
)

if TYPE_CHECKING:
    from kgate.lint.init.calls import Calls
    from kgate.lint.init.frames import Frame

_LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})
_MAKERS = frozenset({"empty", "zeros", "ones", "full"})
_NEW = frozenset({"new_empty", "new_zeros", "new_ones", "new_full"})
_ITSELF = frozenset({"detach", "requires_grad_", "data"})
_CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64", "int": "int32",
          "long": "int64", "bool": "bool"}  # fmt: skip


def array_method(
    tracer: Calls,
    frame: Frame,
    node: ast.Call,
    name: str,
    array: Array,
    positional: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """What a method of a tensor gives."""
    evidence = tracer.evidence(frame, node)
    first = positional[0] if positional else next(iter(keywords.values()), None)
    if name in ("size", "stride", "dim", "numel", "nelement", "is_contiguous", "is_floating_point"):
        return _question(tracer, name, array, first)
    if name in _ITSELF:
        return array
    if name == "contiguous":
        if array.root and array.shape == array.root:
            tracer.facts.dense.setdefault(array.root, evidence)
        return replace(array, dense=True)
    if name in ("view", "reshape", "flatten"):
        return _reshaped(tracer, name, array, positional, evidence)
    if name in ("transpose", "t", "swapaxes"):
        numbers = [value.value for value in positional if isinstance(value, Known) and isinstance(value.value, int)]
        pair = (-1, -2) if name == "t" else tuple(numbers)
        return tracer.swapped(array, *pair) if len(pair) == 2 else replace(array, shape=None, dense=False)
    if name in _NEW:
        return Array("", _sizes(tracer, positional), keywords.get("dtype", array.dtype), True, evidence)
    if name in ("to", "type"):
        return _converted(array, first, keywords)
    if name in _CASTS:
        return Array("", array.shape, Dtype(_CASTS[name]), array.dense, evidence)
    if name == "clone":
        return Array("", array.shape, array.dtype, array.dense, evidence)
    if name.endswith("_") and not name.endswith("__"):
        if array.root:
            tracer.facts.mutated.setdefault(array.root, evidence)
        return array
    if name in ("unsqueeze", "squeeze", "expand", "permute", "narrow", "view_as", "expand_as", "as_strided", "select"):
        return replace(array, shape=None, dense=False)
    if name == "element_size":
        return Known(8)  # of the widest dtype: a cap in bytes is then the narrowest in elements
    if name in ("item", "tolist", "data_ptr", "get_device"):
        return UNKNOWN
    return Array("", None, UNKNOWN)


def _question(tracer: Calls, name: str, array: Array, first: Value | None) -> Value:
    at = first.value if isinstance(first, Known) and isinstance(first.value, int) else None
    if name == "size":
        return Shape(array) if first is None else tracer.axis(array, at) if at is not None else UNKNOWN
    if name == "dim":
        if isinstance(array.shape, tuple):
            return Known(len(array.shape))
        return Rank(array.shape) if isinstance(array.shape, str) and array.shape else UNKNOWN
    if name in ("numel", "nelement"):
        return tracer.count(array)
    if not array.root:
        return UNKNOWN
    if name == "stride":
        own = array.shape == array.root
        return Stride(array.root, at) if own and (at is not None or first is None) else UNKNOWN
    return Ask(array.root, "contiguous" if name == "is_contiguous" else "floating")


def _reshaped(tracer: Calls, name: str, array: Array, positional: list[Value], evidence: Evidence) -> Value:
    sizes = _sizes(tracer, positional)
    flat = Array(array.root, None, array.dtype, array.dense)
    if name == "flatten":
        return replace(flat, shape=(tracer.count(array),)) if not positional else flat
    if isinstance(sizes, str):
        return replace(flat, shape=sizes)
    if sizes is None:
        return flat
    if isinstance(sizes, Items):
        return replace(flat, shape=sizes)
    rest = [at for at, size in enumerate(sizes) if size == Known(-1)]
    if not rest:
        return replace(flat, shape=sizes)
    root = array.shape if isinstance(array.shape, str) else ""
    if len(sizes) == 1:
        return replace(flat, shape=(tracer.count(array),))
    if len(sizes) == 2 and rest == [0] and root and isinstance(sizes[1], Size):
        # as rows: certain where there are two axes and the last one is what the rows are as long as
        tracer.facts.soft_ranks.setdefault(root, []).append((2, evidence))
        if sizes[1] != Size(root, -1):
            tracer.facts.same.append((sizes[1], Size(root, -1), evidence))
        return replace(flat, shape=(Rows(root), Size(root, -1)))
    known = [size if at not in rest else UNKNOWN for at, size in enumerate(sizes)]
    return replace(flat, shape=tuple(known))


def _converted(array: Array, first: Value | None, keywords: dict[str, Value]) -> Value:
    dtype = next((value for value in (keywords.get("dtype"), first) if isinstance(value, Dtype)), None)
    if dtype is not None:
        same = dtype == array.dtype
        return array if same else Array("", array.shape, dtype, array.dense, array.evidence)
    if isinstance(first, Array):
        return Array("", array.shape, first.dtype, array.dense, array.evidence)
    return Array("", array.shape, array.dtype if first is not None else UNKNOWN, array.dense, array.evidence)


def _sizes(tracer: Calls, positional: Sequence[Value]) -> str | tuple[Value, ...] | Items | None:
    """The shape that sizes given one by one, as a tuple or as another's shape stand for."""
    given = positional[0] if len(positional) == 1 else Items(tuple(positional))
    if isinstance(given, Shape):
        if given.start in (None, 0) and given.stop is None:
            return given.array.shape
        given = Items((given,), (0,))
    if isinstance(given, Items):
        whole = _whole_shape(given)
        if whole:
            return whole
        opened = tracer._spread(given, None, Evidence("", 0, ""))
        return tuple(opened) if opened is not None else given if len(given.spread) else None
    if isinstance(given, (Size, Rows, Count, Formula)):
        return (given,)
    if isinstance(given, Known):
        if isinstance(given.value, int):
            return (given,)
        if isinstance(given.value, (tuple, list)):
            return tuple(Known(item) for item in given.value)
    return None


def _whole_shape(given: Items) -> str:
    """The input whose shape ``(*x.shape[:-1], x.shape[-1])`` is; empty for any other shape."""
    if len(given.items) != 2 or given.spread not in ((0,), (0, 1)):
        return ""
    head, tail = given.items
    tail = tail.items[0] if isinstance(tail, Items) and len(tail.items) == 1 else tail
    if not isinstance(head, Shape) or head.start is not None or head.stop != -1:
        return ""
    root = head.array.shape
    return root if isinstance(root, str) and tail == Size(root, -1) else ""


def library_call(
    tracer: Calls, frame: Frame, node: ast.Call, chain: str, positional: list[Value], keywords: dict[str, Value]
) -> Value:
    """What a function from outside the tree gives."""
    last = chain.rpartition(".")[2]
    evidence = tracer.evidence(frame, node)
    first = positional[0] if positional else UNKNOWN
    if last == "apply" or not chain:
        return UNKNOWN
    if last in _LIKE:
        first = tracer.as_tensor(first, frame, node) if isinstance(first, Parameter) else first
        source = first if isinstance(first, Array) else Array()
        return Array("", source.shape, keywords.get("dtype", source.dtype), True, evidence)
    if last in _MAKERS and chain.startswith("torch."):
        given = positional[:1] if last == "full" else positional
        shape = _sizes(tracer, given or ([keywords["size"]] if "size" in keywords else []))
        return Array("", shape, keywords.get("dtype", Dtype("float32")), True, evidence)
    if last == "cdiv" and len(positional) == 2:
        return Formula("cdiv", positional[0], positional[1])
    if last == "next_power_of_2" and positional:
        return Formula("pow2", first, Known(0))
    if chain in ("builtins.min", "builtins.max") and len(positional) == 2:
        return Formula(last, positional[0], positional[1])
    if chain in ("builtins.int", "builtins.tuple", "builtins.list", "torch.Size", "builtins.float", "builtins.bool"):
        return first if last != "bool" else UNKNOWN
    if chain == "builtins.len":
        return Rank(first.array.shape) if isinstance(first, Shape) and isinstance(first.array.shape, str) else UNKNOWN
    if chain == "math.prod" and isinstance(first, Shape) and isinstance(first.array.shape, str):
        if first.start in (None, 0) and first.stop == -1:
            return Rows(first.array.shape)
        return Count(first.array.shape) if first.stop is None and not first.start else UNKNOWN
    if chain in ("torch.tensor", "torch.arange", "torch.cat", "torch.stack", "torch.matmul"):
        return Array("", None, UNKNOWN)
    return UNKNOWN
