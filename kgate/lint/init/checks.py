"""What asserts, ``if ...: raise`` and ``torch._check`` insist on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from kgate.lint.init.values import (
    Array,
    Ask,
    Count,
    Device,
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

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SIZES = (Size, Rows, Count)


def insist(tracer: Calls, frame: Frame, test: ast.expr, holds: bool, evidence: Evidence) -> None:
    """Note that a condition holds (or does not hold) wherever the launcher goes on."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        insist(tracer, frame, test.operand, not holds, evidence)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) == holds:
            for part in test.values:
                insist(tracer, frame, part, holds, evidence)
        else:
            _either(tracer, frame, test, holds, evidence)
    elif isinstance(test, ast.Compare):
        left = test.left
        if len(test.ops) > 1 and not holds:
            return
        for kind, right in zip(test.ops, test.comparators, strict=True):
            wanted = type(kind) if holds else _NEGATED.get(type(kind), ast.Is)
            _compare(tracer, tracer.value(left, frame), wanted, tracer.value(right, frame), evidence)
            left = right
    elif holds:
        _ask(tracer, tracer.value(test, frame), evidence)


def _either(tracer: Calls, frame: Frame, test: ast.BoolOp, holds: bool, evidence: Evidence) -> None:
    """``x.dtype == a or x.dtype == b``: one of several; and ``bias is None or ...``: decided by what is known."""
    undecided = []
    for part in test.values:
        known = tracer.truth(part, frame)
        if known is None:
            undecided.append(part)
        elif known == holds:
            return
    if len(undecided) == 1:
        insist(tracer, frame, undecided[0], holds, evidence)
        return
    dtypes: list[str] = []
    roots = set()
    for part in undecided:
        if not isinstance(part, ast.Compare) or len(part.ops) != 1:
            return
        left, right = tracer.value(part.left, frame), tracer.value(part.comparators[0], frame)
        kind = type(part.ops[0]) if holds else _NEGATED.get(type(part.ops[0]))
        if not (kind is ast.Eq and isinstance(left, Dtype) and left.root and isinstance(right, Dtype) and right.name):
            return
        roots.add(left.root)
        dtypes.append(right.name)
    if len(roots) == 1:
        tracer.facts.dtypes.setdefault(roots.pop(), []).append((tuple(dtypes), evidence))


def _ask(tracer: Calls, value: Value, evidence: Evidence) -> None:
    if isinstance(value, Ask) and value.root:
        if value.what == "contiguous":
            tracer.facts.layouts[value.root] = ("contiguous", evidence)
        elif value.what == "cuda":
            tracer.facts.cuda.append(evidence)
        elif value.what == "floating":
            tracer.facts.floating.setdefault(value.root, evidence)


def _compare(tracer: Calls, left: Value, kind: type[ast.cmpop], right: Value, evidence: Evidence) -> None:
    if isinstance(left, (Known, Dtype)) and isinstance(right, (*_SIZES, Rank, Formula, Stride)):
        mirrored = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
        return _compare(tracer, right, mirrored.get(kind, kind), left, evidence)
    facts = tracer.facts
    if isinstance(left, Rank) and kind in (ast.Eq, ast.In):
        _rank(tracer, left, right, evidence)
    elif isinstance(left, Dtype) and left.root and kind in (ast.Eq, ast.In):
        _dtype(tracer, left.root, right, evidence)
    elif isinstance(left, Dtype) and left.root and kind is ast.NotEq and isinstance(right, Dtype) and right.name:
        facts.not_dtypes.setdefault(left.root, []).append((right.name, evidence))
    elif isinstance(left, Device) and left.kind and kind is ast.Eq and right == Known("cuda"):
        facts.cuda.append(evidence)
    elif isinstance(left, Stride) and kind is ast.Eq and right == Known(1):
        rank = tracer.rank_of(Array(left.root, left.root))
        if left.axis == -1 or (rank is not None and left.axis == rank - 1):
            facts.layouts.setdefault(left.root, ("inner_contiguous", evidence))
    elif isinstance(left, (Shape, Items)) and kind is ast.Eq and isinstance(right, (Shape, Items)):
        _shapes(tracer, left, right, evidence)
    elif isinstance(left, _SIZES):
        _size(tracer, left, kind, right, evidence)
    elif isinstance(left, Formula):
        _formula(tracer, left, kind, right, evidence)
    elif isinstance(left, (Known, Parameter)):
        name = left.parameter if isinstance(left, Known) else left.name
        if name:
            _literal(tracer, name, kind, right, evidence)
    return None


def _rank(tracer: Calls, left: Rank, right: Value, evidence: Evidence) -> None:
    if isinstance(right, Known) and isinstance(right.value, int):
        tracer.facts.ranks.setdefault(left.root, []).append((right.value, evidence))
    elif isinstance(right, Rank):
        tracer.facts.same_shape.append((left.root, right.root, evidence))
    else:
        numbers = [value for value in _literals(right) if isinstance(value, int)]
        if numbers:
            tracer.facts.soft_ranks.setdefault(left.root, []).append((numbers[0], evidence))


def _dtype(tracer: Calls, root: str, right: Value, evidence: Evidence) -> None:
    if isinstance(right, Dtype):
        if right.name:
            tracer.facts.dtypes.setdefault(root, []).append(((right.name,), evidence))
        elif right.root and right.root != root:
            tracer.facts.same_dtype.append((root, right.root, evidence))
    elif isinstance(right, Items):
        names = tuple(item.name for item in right.items if isinstance(item, Dtype) and item.name)
        if names and len(names) == len(right.items):
            tracer.facts.dtypes.setdefault(root, []).append((names, evidence))


def _shapes(tracer: Calls, left: Shape | Items, right: Shape | Items, evidence: Evidence) -> None:
    whole = [
        value.array.shape
        for value in (left, right)
        if isinstance(value, Shape) and not value.start and value.stop is None and isinstance(value.array.shape, str)
    ]
    if len(whole) == 2:
        if whole[0] and whole[1] and whole[0] != whole[1]:
            tracer.facts.same_shape.append((whole[0], whole[1], evidence))
        return
    sides = []
    for value in (left, right):
        opened = tracer._spread(value if isinstance(value, Items) else Items((value,), (0,)), None, evidence)
        sides.append(opened)
    first, second = sides
    if first is None and second is not None and len(whole) == 1:
        first = _expand(tracer, whole[0], len(second), evidence)
    elif second is None and first is not None and len(whole) == 1:
        second = _expand(tracer, whole[0], len(first), evidence)
    if first is not None and second is not None and len(first) == len(second):
        for one, other in zip(first, second, strict=True):
            _size(tracer, one, ast.Eq, other, evidence)


def _expand(tracer: Calls, root: str, rank: int, evidence: Evidence) -> list[Value]:
    array = Array(root, root)
    tracer.insist_rank(array, rank, evidence)
    return [tracer.axis(array, at) for at in range(rank)]


def _size(tracer: Calls, left: Value, kind: type[ast.cmpop], right: Value, evidence: Evidence) -> None:
    facts = tracer.facts
    if isinstance(left, Known) and isinstance(right, _SIZES):
        left, right = right, left
    if not isinstance(left, _SIZES):
        return
    if isinstance(right, Known) and type(right.value) is int:
        number = right.value
        if kind is ast.Eq:
            facts.members.append((left, (number,), evidence))
        elif kind in (ast.LtE, ast.Lt):
            facts.caps.append((left, number - (kind is ast.Lt), evidence))
        elif kind in (ast.GtE, ast.Gt):
            facts.floors.append((left, number + (kind is ast.Gt), evidence))
        elif kind is ast.NotEq and number == 0:
            facts.floors.append((left, 1, evidence))
    elif isinstance(right, _SIZES) and kind is ast.Eq and left != right:
        facts.same.append((left, right, evidence))
    elif isinstance(right, Formula) and kind in (ast.LtE, ast.Lt) and right.operator == "min":
        for part, other in ((right.left, right.right), (right.right, right.left)):
            if other == Formula("pow2", left, Known(0)) and isinstance(part, Known) and type(part.value) is int:
                facts.caps.append((left, part.value - (kind is ast.Lt), evidence))
    elif kind is ast.In:
        numbers = tuple(value for value in _literals(right) if type(value) is int)
        if numbers and len(numbers) == len(_literals(right)):
            facts.members.append((left, numbers, evidence))


def _formula(tracer: Calls, left: Formula, kind: type[ast.cmpop], right: Value, evidence: Evidence) -> None:
    facts = tracer.facts
    number = right.value if isinstance(right, Known) and type(right.value) is int else None
    if number is None:
        return
    if left.operator == "%" and kind is ast.Eq and number == 0 and isinstance(left.left, _SIZES):
        if isinstance(left.right, Known) and type(left.right.value) is int and left.right.value > 1:
            facts.multiples.append((left.left, left.right.value, evidence))
        elif isinstance(left.right, _SIZES):
            facts.divides.append((left.left, left.right, evidence))
    elif left.operator == "pow2" and isinstance(left.left, _SIZES):
        if kind in (ast.LtE, ast.Lt):
            cap = number - (kind is ast.Lt)
            facts.caps.append((left.left, 1 << (max(cap, 1).bit_length() - 1), evidence))
        elif kind is ast.Eq:  # pow2(n) == n
            return


def _literal(tracer: Calls, name: str, kind: type[ast.cmpop], right: Value, evidence: Evidence) -> None:
    if kind in (ast.Eq, ast.In):
        found = _literals(right)
        if found and all(isinstance(value, (str, int, bool)) for value in found):
            tracer.facts.literals.setdefault(name, []).append((tuple(found), evidence))


def _literals(value: Value) -> list[Any]:
    """The literals that something is compared with."""
    if isinstance(value, Known):
        return list(value.value) if isinstance(value.value, (tuple, list, set, dict)) else [value.value]
    if isinstance(value, Items) and not value.spread:
        return [item.value for item in value.items if isinstance(item, Known)]
    return []
