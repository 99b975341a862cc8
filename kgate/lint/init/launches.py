"""What a launch says about the inputs: written, covered by a mask, read as one row, converted, in which layout."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.lint.init.device import DeviceFacts
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Count,
    Dtype,
    Evidence,
    Formula,
    Items,
    Known,
    Launched,
    Parameter,
    Rows,
    Size,
    Stride,
    Value,
)
from kgate.source.uses import chain_of

if TYPE_CHECKING:
    from kgate.lint.init.calls import Calls


def note_launch(
    tracer: Calls,
    device: str,
    grid: list[Value],
    positional: list[Value],
    keywords: dict[str, Value],
    certain: bool,
    evidence: Evidence,
) -> None:
    """Note one launch."""
    facts = tracer.facts
    launched = Launched(device, evidence)
    facts.launches.append(launched)
    for axis, size in enumerate(grid):
        _covered_by_grid(tracer, size, evidence, axis)
        if axis > 0 and not isinstance(size, Known):
            facts.grids.append((size, evidence))
    inner = tracer.project.device_facts(device)
    if inner is None:
        return
    bound = dict(zip(inner.parameters, positional, strict=False))
    bound |= {name: value for name, value in keywords.items() if name in inner.parameters}
    for name, value in bound.items():
        if isinstance(value, Parameter) and (name in inner.loads or name in inner.stores):
            where = inner.loads.get(name) or inner.stores[name]
            facts.tensors.setdefault(value.name, where)
            value = bound[name] = Array(value.name, value.name, Dtype(root=value.name))
        if isinstance(value, Array) and value.root:
            _pointer(tracer, inner, name, value, bound)
        elif isinstance(value, (Size, Rows, Count)) and name in inner.masked:
            facts.covered.append((value, inner.masked[name]))
        elif isinstance(value, Formula) and value.operator == "*" and name in inner.masked:
            for part in (value.left, value.right):
                if isinstance(part, (Size, Rows, Count)):
                    facts.covered.append((part, inner.masked[name]))
        for size in _single_block(value):
            facts.whole.append((size, inner.dots is not None, evidence))
    _alike(tracer, inner, bound)
    _layouts(tracer, launched, inner, bound, evidence)


def _single_block(value: Value) -> list[Value]:
    """Sizes that a block is rounded up from."""
    if isinstance(value, Formula) and value.operator == "pow2" and isinstance(value.left, (Size, Rows, Count)):
        return [value.left]
    if isinstance(value, Formula) and value.operator == "max":
        return [*_single_block(value.left), *_single_block(value.right)]
    return []


def _alike(tracer: Calls, inner: DeviceFacts, bound: dict[str, Value]) -> None:
    """Arrays that are addressed in the same way have the same shape."""
    arrays = {name: value for name, value in bound.items() if isinstance(value, Array)}
    for name, value in arrays.items():
        if not value.root:
            continue
        for other, its in arrays.items():
            if other == name or its.shape is None or its.root == value.root:
                continue
            common = inner.patterns.get(name, {}).keys() & inner.patterns.get(other, {}).keys()
            if not common or len(common) != len(inner.patterns[name]):
                continue
            if value.shape != value.root:
                _equal(tracer, value, its, inner.patterns[name][min(common)])
            else:
                tracer.facts.alike.append((value.root, its, inner.patterns[name][min(common)]))


def _equal(tracer: Calls, one: Array, other: Array, evidence: Evidence) -> None:
    """Two views of one shape."""
    if isinstance(one.shape, tuple) and isinstance(other.shape, tuple) and len(one.shape) == len(other.shape):
        pairs = zip(other.shape, one.shape, strict=True)
        tracer.facts.same += [(left, right, evidence) for left, right in pairs if left != right]


def _covered_by_grid(tracer: Calls, value: Value, evidence: Evidence, axis: int) -> None:
    """Sizes that the grid has a program for, or a block of them."""
    if isinstance(value, (Size, Rows, Count)):
        tracer.facts.covered.append((value, evidence))
        if axis > 0:
            tracer.facts.limits.append((value, 65535, evidence))
    elif isinstance(value, Formula) and value.operator in ("*", "cdiv", "max"):
        parts = (value.left,) if value.operator == "cdiv" else (value.left, value.right)
        for part in parts:
            _covered_by_grid(tracer, part, evidence, 0)


def _pointer(tracer: Calls, inner: DeviceFacts, name: str, value: Array, bound: dict[str, Value]) -> None:
    facts, root = tracer.facts, value.root
    if name in inner.loads or name in inner.stores:
        facts.tensors.setdefault(root, inner.loads.get(name) or inner.stores[name])
    if name in inner.stores:
        facts.mutated.setdefault(root, inner.stores[name])
    if name in inner.index:
        facts.index.setdefault(root, inner.index[name])
    elif name not in inner.bits:
        if name in inner.wide and name not in inner.raw:
            facts.wide.setdefault(root, inner.wide[name])
        if name in inner.raw:
            facts.raw.add(root)
        if name in inner.floating and name not in inner.fixed and not (inner.dots and inner.fixed):
            facts.floating.setdefault(root, inner.floating[name])
    if name in inner.flat:
        size, where = inner.flat[name]
        length = bound.get(size, UNKNOWN)
        whole = value.shape == root or value.shape == (Count(root),)
        if whole and isinstance(length, (Size, Rows, Count, Known)):
            facts.flat.append((root, length, where))


def _layouts(
    tracer: Calls, launched: Launched, inner: DeviceFacts, bound: dict[str, Value], evidence: Evidence
) -> None:
    """Which layout of each input this launch can do with."""
    axes: dict[str, set[int | None]] = {}
    for name, value in bound.items():
        values = value.items if isinstance(value, Items) else (value,)
        for item in values:
            if isinstance(item, Stride) and (name in inner.used or isinstance(value, Items)):
                axes.setdefault(item.root, set()).add(item.axis)
                tracer.facts.stride_axes.setdefault(item.root, set()).add(item.axis)
                tracer.facts.strided.setdefault(item.root, evidence)
    for value in bound.values():
        if not isinstance(value, Array) or not value.root:
            continue
        root = value.root
        given = axes.get(root, set())
        rank = tracer.rank_of(Array(root, root))
        if value.dense:
            layout = "any"
        elif None in given or (rank is not None and _all(given, rank, rank)):
            layout = "any" if value.shape == root else "contiguous"
        elif rank is not None and rank > 1 and _all(given, rank - 1, rank):
            layout = "inner_contiguous" if value.shape == root else "contiguous"
        else:
            layout = "contiguous"
        order = ("any", "inner_contiguous", "contiguous")
        known = launched.layouts.get(root, "any")
        launched.layouts[root] = max(layout, known, key=order.index)


def _all(given: set[int | None], count: int, rank: int) -> bool:
    plain = {axis % rank for axis in given if axis is not None and -rank <= axis < rank}
    return set(range(count)) <= plain


def note_elementwise(
    tracer: Calls, positional: list[Value], keywords: dict[str, Value], evidence: Evidence, device: str
) -> Value:
    """A wrapper that applies a device function to every element: tensors of one shape give one of that shape."""
    from kgate.lint.init.frames import tensor

    facts = tracer.facts
    launched = Launched(device, evidence)
    facts.launches.append(launched)
    options = _pointwise_options(tracer, device)
    outs = [value for name, value in keywords.items() if name.startswith("out") and isinstance(value, Array)]
    roots: list[str] = []
    node = tracer.project.function(device)
    names = [argument.arg for argument in node.args.args] if node is not None else []
    for at, value in enumerate(positional):
        numeric = options.tensors is not None and at < len(options.tensors) and not options.tensors[at]
        if isinstance(value, Parameter) and not numeric:
            facts.tensors.setdefault(value.name, evidence)
            value = tensor(value.name)
        if not isinstance(value, Array) or not value.root:
            continue
        launched.layouts[value.root] = "contiguous"
        if value.shape != value.root:
            continue
        roots.append(value.root)
        if at < len(names):
            _element(tracer, value.root, names[at], device, options.why)
    for value in outs:
        if value.root:
            facts.mutated.setdefault(value.root, evidence)
            roots += [value.root] if value.shape == value.root else []
    roots = list(dict.fromkeys(roots))
    for root in roots[1:]:
        facts.same_shape.append((roots[0], root, evidence))
        facts.same_dtype.append((roots[0], root, evidence))
    for root in roots:
        facts.soft_ranks.setdefault(root, []).append((1, evidence))
        facts.covered.append((Count(root), evidence))
    if outs:
        return outs[0]
    if not roots:
        return Array("", None, UNKNOWN, True, evidence)
    dtype: Value = UNKNOWN
    if options.promotion in ("DEFAULT", "INT_TO_FLOAT", "COMPLEX_TO_FLOAT"):
        dtype = Dtype(root=roots[0])
    elif options.promotion == "ALWAYS_BOOL":
        dtype = Dtype("bool")
    return Array("", roots[0], dtype, True, evidence)


@dataclass(frozen=True)
class _Pointwise:
    tensors: list[bool] | None
    promotion: str
    why: Evidence


def _pointwise_options(tracer: Calls, device: str) -> _Pointwise:
    """What the wrapping decorator says: which parameters are tensors, and the dtype of the result."""
    definition = tracer.project.definition(device)
    path = device.partition("::")[0]
    for decorator in definition.decorators if definition is not None else ():
        node = decorator.segment.parse()
        why = Evidence(path, decorator.segment.line, f"@{decorator.chain}")
        if decorator.chain.rpartition(".")[2] == "pointwise_dynamic":
            given = {k.arg: k.value for k in node.keywords} if isinstance(node, ast.Call) else {}
            tensors, promotion = (_value(given.get(key)) for key in ("is_tensor", "promotion_methods"))
            single = isinstance(promotion, list) and len(promotion) == 1 and isinstance(promotion[0], tuple)
            kind = str(promotion[0][-1]) if single and isinstance(promotion, list) else ""
            return _Pointwise(tensors if isinstance(tensors, list) else None, kind, why)
    return _Pointwise(None, "", Evidence(path, 1, ""))


def _value(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError):
        return None


def _element(tracer: Calls, root: str, name: str, device: str, why: Evidence) -> None:
    """What an elementwise device function does with one element."""
    node = tracer.project.function(device)
    if node is None:
        return
    lines = tracer.project.file(device.partition("::")[0])[1]
    path = device.partition("::")[0]
    bitwise = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
    for child in ast.walk(node):
        if isinstance(child, ast.BinOp) and isinstance(child.op, bitwise):
            return  # whole numbers, of which width is not known
        if isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Invert):
            return
    for child in ast.walk(node):
        if not (isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr == "to"):
            continue
        target = chain_of(child.args[0]) if child.args else ""
        if isinstance(child.func.value, ast.Name) and child.func.value.id == name and target.endswith("float32"):
            line = child.lineno
            tracer.facts.wide.setdefault(root, Evidence(path, line, lines[line - 1].strip()))
            return
    tracer.facts.floating.setdefault(root, why)
