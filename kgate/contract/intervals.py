"""What a condition can come to over whole ranges of sizes, by interval arithmetic: true, false, or either."""

from __future__ import annotations

from kgate.contract.where import Apply, Arithmetic, Ask, Compare, Expr, Junction, Literal, Name, Negative, Not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Range = tuple[int, int]

_BOTH = frozenset((True, False))


def outcomes(condition: Expr, ranges: Mapping[str, Range]) -> frozenset[bool]:
    """The truth values that a condition may have, where each name lies anywhere in its range, both ends included.

    What is not among the ranges may be anything. Values that exclude each other are not seen through (`N < N`), so that
    both truth values mean no more than that neither is ruled out.
    """
    if isinstance(condition, Literal) and isinstance(condition.value, bool):
        return frozenset((condition.value,))
    if isinstance(condition, Not):
        return frozenset(not value for value in outcomes(condition.operand, ranges))
    if isinstance(condition, Junction):
        return _together([outcomes(operand, ranges) for operand in condition.operands], condition.word == "and")
    if isinstance(condition, Compare):
        sides = [_range(child, ranges) for child in condition.children()]
        pairs = zip(condition.rest, sides, sides[1:], strict=False)
        return _together([_compared(operator, left, right) for (operator, _), left, right in pairs], True)
    return _BOTH


def _together(parts: list[frozenset[bool]], every: bool) -> frozenset[bool]:
    """Outcomes of `and` (every) or `or` over parts that are taken to be independent."""
    if any(part == {not every} for part in parts):
        return frozenset((not every,))
    return frozenset((every,)) if all(part == {every} for part in parts) else _BOTH


def _compared(operator: str, left: Range | None, right: Range | None) -> frozenset[bool]:
    if left is None or right is None:
        return _BOTH
    if operator in ("==", "!="):
        same = left == right and left[0] == left[1]
        apart = left[1] < right[0] or right[1] < left[0]
        equal = frozenset((True,)) if same else frozenset((False,)) if apart else _BOTH
        return equal if operator == "==" else frozenset(not value for value in equal)
    if operator in (">", ">="):
        left, right = right, left
    # from here on "<" or "<="
    strict = len(operator) == 1
    always = left[1] < right[0] if strict else left[1] <= right[0]
    never = left[0] >= right[1] if strict else left[0] > right[1]
    return frozenset((True,)) if always else frozenset((False,)) if never else _BOTH


def _range(node: Expr, ranges: Mapping[str, Range]) -> Range | None:
    """The range of a number; None where nothing is known of it."""
    if isinstance(node, Literal):
        return (node.value, node.value) if type(node.value) is int else None
    if isinstance(node, Name):
        return ranges.get(node.name)
    if isinstance(node, Ask):
        return None
    parts = [_range(child, ranges) for child in node.children()]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    if isinstance(node, Negative):
        return (-known[0][1], -known[0][0])
    if isinstance(node, Apply) and node.function in ("min", "max"):
        pick = min if node.function == "min" else max
        return pick(low for low, _ in known), pick(high for _, high in known)
    if isinstance(node, (Apply, Arithmetic)):
        return _ARITHMETIC["cdiv" if isinstance(node, Apply) else node.operator](known[0], known[1])
    return None


def _corners(compute: Callable[[int, int], int], left: Range, right: Range) -> Range:
    found = [compute(a, b) for a in left for b in right]
    return min(found), max(found)


def _divided(compute: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    return lambda a, b: None if b[0] <= 0 <= b[1] else _corners(compute, a, b)


def _remainder(left: Range, right: Range) -> Range | None:
    if right[0] <= 0:
        return None
    if left[0] >= 0 and left[1] < right[0]:
        return left
    if left[0] == left[1] and right[0] == right[1]:
        return (left[0] % right[0], left[0] % right[0])
    return (0, right[1] - 1)


def _power(left: Range, right: Range) -> Range | None:
    if right[0] != right[1] or right[0] < 0:
        return None
    low, high = _corners(lambda a, b: a**b, left, right)
    return (min(low, 0), high) if left[0] < 0 < left[1] else (low, high)


_ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": lambda a, b: _corners(lambda x, y: x * y, a, b),
    "//": _divided(lambda x, y: x // y),
    "cdiv": _divided(lambda x, y: -(-x // y)),
    "%": _remainder,
    "**": _power,
}
