"""Conditions of host functions on their inputs: written down so that JSON holds them, and judged for an envelope.

A condition is a list that begins with what it is: ``["and", [...]]``, ``["or", [...]]``, ``["not", condition]``,
``["compare", "<=", form, form]``, ``["in", form, [1, 2]]``, ``["dtype", "x", ["float16"]]``,
``["same-dtype", "x", "y"]``, ``["contiguous", form]``, ``["none", "x"]``, and ``["?"]`` for one that is not known.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgate.contract import Envelope
    from kgate.lint.model.envelope import Scope, Sizes, Value
    from kgate.lint.model.host import Host

Condition = list[Any]

UNKNOWN: Condition = ["?"]
_OPERATORS: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DTYPES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
_RANK = re.compile(r"\blen\(([^()]+)\.shape\)|([A-Za-z_]\w*)\.ndim\b")
_STEPS = (2, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_MOST_POINTS = 2_000


# Writing down


def condition_of(host: Host, node: ast.expr) -> Condition:
    """The condition that an expression of a host function is."""
    if isinstance(node, ast.BoolOp):
        parts = [condition_of(host, item) for item in node.values]
        return ["and" if isinstance(node.op, ast.And) else "or", parts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = condition_of(host, node.operand)
        return UNKNOWN if inner == UNKNOWN else ["not", inner]
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        parts = [_compared(host, sides[at], op, sides[at + 1]) for at, op in enumerate(node.ops)]
        return parts[0] if len(parts) == 1 else ["and", parts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "is_contiguous":
        form = host.forms.of(node.func.value)
        plain = bool(host.parameter_of(node.func.value)) and not node.args and not node.keywords
        return ["contiguous", form] if plain and "?" not in form else UNKNOWN
    if isinstance(node, ast.Name):
        value = host.value_of(node)
        return condition_of(host, value) if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp)) else UNKNOWN
    return UNKNOWN


def _compared(host: Host, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Condition:
    if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant) and right.value is None:
        name = host.parameter_of(left)
        found: Condition = ["none", name] if name else UNKNOWN
    elif _dtype_owner(host, left) or _dtype_owner(host, right):
        found = _dtypes(host, left, op, right)
    elif isinstance(op, (ast.In, ast.NotIn)):
        form, values = host.forms.of(left), _integers(host, right)
        found = UNKNOWN if values is None or "?" in form else ["in", _normal(form), values]
    elif type(op) in _OPERATORS:
        one, other = host.forms.of(left), _shape(host, right)
        if "?" in one or "?" in other or (".stride(" in one + other and _may_be_copied(host, left, right)):
            return UNKNOWN
        return ["compare", _OPERATORS[type(op)], _normal(one), _normal(other)]
    else:
        return UNKNOWN
    negated = isinstance(op, (ast.IsNot, ast.NotIn)) or (isinstance(op, ast.NotEq) and found is not UNKNOWN)
    return UNKNOWN if found == UNKNOWN else ["not", found] if negated else found


def _may_be_copied(host: Host, *sides: ast.expr) -> bool:
    """Whether a tensor that is asked for its strides may be one of several, such as itself and a contiguous copy."""
    names = [node for side in sides for node in ast.walk(host.value_of(side)) if isinstance(node, ast.Name)]
    return any(len(host.bindings_of(name)) > 1 for name in names)


def _shape(host: Host, node: ast.expr) -> str:
    """The form of what something is compared with; a shape written out as ``filled(m, n).shape``."""
    if isinstance(node, (ast.Tuple, ast.List)):
        forms = [host.forms.of(item) for item in node.elts]
        return f"filled({', '.join(forms)}).shape" if forms else "?"
    return host.forms.of(node)


def _normal(form: str) -> str:
    """``len(x.shape)`` and ``x.ndim`` as ``x.dim()``."""
    return _RANK.sub(lambda found: f"{found.group(1) or found.group(2)}.dim()", form)


def _dtype_owner(host: Host, node: ast.expr) -> str:
    """The parameter whose dtype an expression asks for; empty for anything else."""
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return host.parameter_of(node.value)
    return ""


def _dtypes(host: Host, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Condition:
    one, other = _dtype_owner(host, left), _dtype_owner(host, right)
    if one and other:
        return ["same-dtype", one, other] if isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)) else UNKNOWN
    names = _dtype_names(host, right if one else left)
    return ["dtype", one or other, names] if names else UNKNOWN


def _dtype_names(host: Host, node: ast.expr) -> list[str]:
    """The dtypes that an expression lists; empty where one is not known."""
    node = _constant(host, node)
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    names = [host.module.dotted(item) for item in items]
    if not names or not all(name.startswith("torch.") and name.count(".") == 1 for name in names):
        return []
    return [_DTYPES.get(name[6:], name[6:]) for name in names]


def _constant(host: Host, node: ast.expr) -> ast.expr:
    """What a name of the module stands for, where it is bound once."""
    values = host.module.constants.get(node.id, []) if isinstance(node, ast.Name) else []
    return values[0] if len(values) == 1 and values[0] is not None else node


def _integers(host: Host, node: ast.expr) -> list[int] | None:
    node = _constant(host, node)
    if not isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return None
    found = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
    return [int(value) for value in found if type(value) is int] if all(type(v) is int for v in found) else None


def is_known(condition: Condition) -> bool:
    """Whether any part of a condition is known."""
    if condition[0] in ("and", "or"):
        return any(is_known(part) for part in condition[1])
    return is_known(condition[1]) if condition[0] == "not" else condition != UNKNOWN


# Judging


@dataclass(frozen=True)
class Point:
    """Inputs that an envelope allows: sizes and strides, and a dtype for each variable of dtypes."""

    values: Mapping[str, int]
    dtypes: Mapping[str, str]
    gaps: bool = False
    """Whether the strides are larger than those of tensors without gaps."""


class Judge:
    """Conditions of one host function, reached from a declared launcher in one way."""

    def __init__(self, envelope: Envelope, sizes: Sizes, scope: Scope) -> None:
        self.envelope = envelope
        self.sizes = sizes
        self.scope = scope

    def holds(self, condition: Condition, point: Point) -> bool | None:
        """Whether a condition holds at a point; None where that is not known."""
        kind = condition[0]
        if kind in ("and", "or"):
            parts = [self.holds(part, point) for part in condition[1]]
            decisive = kind == "or"
            return decisive if decisive in parts else None if None in parts else not decisive
        if kind == "not":
            inner = self.holds(condition[1], point)
            return None if inner is None else not inner
        if kind == "compare":
            return self._compare(condition, point)
        if kind == "in":
            value = self._number(self.scope.value(condition[1]), point)
            return None if value is None else value in condition[2]
        if kind == "dtype":
            dtype = self._dtype(condition[1], point)
            return None if dtype is None else dtype in condition[2]
        if kind == "same-dtype":
            one, other = self._dtype(condition[1], point), self._dtype(condition[2], point)
            return None if one is None or other is None else one == other
        if kind == "contiguous":
            return self._is_contiguous(self.scope.value(condition[1]), point)
        if kind == "none":
            return self._is_none(condition[1])
        return None

    def _compare(self, condition: Condition, point: Point) -> bool | None:
        test = _TESTS[condition[1]]
        one, other = self.scope.value(condition[2]), self.scope.value(condition[3])
        if isinstance(one, tuple) and isinstance(other, tuple):
            if condition[1] not in ("==", "!="):
                return None
            left = [self._number(item, point) for item in one]
            right = [self._number(item, point) for item in other]
            if len(left) != len(right):
                return bool(condition[1] == "!=")
            return None if None in left or None in right else bool(test(left, right))
        first, second = self._number(one, point), self._number(other, point)
        return None if first is None or second is None else bool(test(first, second))

    def _number(self, value: Value | None, point: Point) -> int | None:
        from kgate.lint.model.envelope import as_term, evaluated

        return evaluated(as_term(value), point.values)

    def _dtype(self, name: str, point: Point) -> str | None:
        """The dtype of a parameter; known of the declared launcher's alone, since others may be handed conversions."""
        if self.scope.outer is not None:
            return None
        spec = self.envelope.tensors().get(name)
        if spec is None or spec.optional:
            return None
        return point.dtypes.get(spec.dtype, spec.dtype)

    def _is_contiguous(self, value: Value | None, point: Point) -> bool | None:
        from kgate.contract.layouts import LAYOUTS
        from kgate.lint.model.envelope import View

        if not isinstance(value, View) or value.sizes is None or value.strides is None:
            return None
        sizes = [self._number(item, point) for item in value.sizes]
        strides = [self._number(item, point) for item in value.strides]
        if None in sizes or None in strides:
            return None
        return LAYOUTS["contiguous"].holds(sizes, strides)  # type: ignore[arg-type]

    def _is_none(self, name: str) -> bool | None:
        from kgate.lint.model.envelope import View

        value = self.scope.parameter(name)
        if not isinstance(value, View) or not value.name:
            return None
        return None if value.name in self.envelope.optional() else False

    # Points

    def refused(self, condition: Condition, unless: list[Condition]) -> Point | None:
        """Inputs that the envelope allows and that fail a condition, none of the others holding; None without any."""
        names = sorted(self._names(condition))
        for at, point in enumerate(self._points(names, condition)):
            if at >= _MOST_POINTS:
                return None
            if self.holds(condition, point) is False and all(self.holds(other, point) is False for other in unless):
                return point
        return None

    def _points(self, names: list[str], condition: Condition) -> Iterator[Point]:
        kinds = set(_kinds(condition))
        dtypes = list(self._dtype_choices()) if kinds & {"dtype", "same-dtype"} else [{}]
        dtypes = dtypes or [{}]
        for values in self._sizes(names):
            for gaps in (False, True) if "contiguous" in kinds or "stride" in kinds else (False,):
                full = self._strides(values, gaps)
                if full is not None and self.sizes.allows(full):
                    for dtype in dtypes:
                        yield Point(full, dtype, gaps)

    def _dtype_choices(self) -> Iterator[dict[str, str]]:
        """Each variable of dtypes at each of its values, the others at their first."""
        first = {name: values[0] for name, values in self.envelope.dtypes.items()}
        yield first
        for name, values in self.envelope.dtypes.items():
            for value in values[1:]:
                yield {**first, name: value}

    def _sizes(self, names: list[str]) -> Iterator[dict[str, int]]:
        ranges = self.sizes.ranges
        bases = [
            {name: min(max(low, least), high) for name, (low, high) in ranges.items()} for least in (2, 128, 1 << 62)
        ]
        bases = [self._chosen(base) for base in bases]
        yield from bases
        for base in bases:
            for name in names:
                for value in self._samples(name):
                    yield {**base, name: value}

    def _chosen(self, values: dict[str, int]) -> dict[str, int]:
        """Choices at a value that they can have."""
        return {
            name: max((item for item in self.sizes.choices[name] if item <= value), default=self.sizes.choices[name][0])
            if name in self.sizes.choices
            else value
            for name, value in values.items()
        }

    def _samples(self, name: str) -> list[int]:
        if name in self.sizes.choices:
            return list(self.sizes.choices[name])
        low, high = self.sizes.range_of(name)
        found = [*range(low, low + 18), high, high - 1]
        for step in _STEPS:
            found += [step, step + 1, step * 3]
        return [value for value in dict.fromkeys(found) if low <= value <= high]

    def _strides(self, values: dict[str, int], gaps: bool) -> dict[str, int] | None:
        """Sizes with the strides that the envelope leaves open: those without gaps, or twice as large."""
        full = dict(values)
        for name, usual in self.sizes.usual.items():
            try:
                stride = max(usual.evaluate(values), 1)
            except (KeyError, ZeroDivisionError):
                continue
            full[name] = stride * 2 if gaps and self.sizes.free(name) else stride
        return full

    def _names(self, condition: Condition) -> set[str]:
        """Variables that a condition depends on."""
        if condition[0] in ("and", "or"):
            return {name for part in condition[1] for name in self._names(part)}
        if condition[0] == "not":
            return self._names(condition[1])
        forms = condition[2:4] if condition[0] == "compare" else condition[1:2] if condition[0] == "in" else []
        return {name for form in forms for name in self._of(self.scope.value(form)) if name in self.sizes.ranges}

    def _of(self, value: Value | None) -> Iterator[str]:
        from kgate.lint.model.envelope import Term

        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Term):
                yield from item.names

    def shown(self, condition: Condition, point: Point) -> str:
        """The part of a point that makes a condition fail: ``N = 65536``, ``x of float32``."""
        parts = [f"{name} = {point.values[name]}" for name in sorted(self._names(condition)) if name in point.values]
        for leaf in _leaves(condition):
            if leaf[0] in ("dtype", "same-dtype") and self.holds(leaf, point) is not None:
                for name in leaf[1:2] if leaf[0] == "dtype" else leaf[1:3]:
                    parts.append(f"{name} of {self._dtype(name, point)}")
            if leaf[0] == "contiguous" and self.holds(leaf, point) is False:
                parts.append(f"{leaf[1]} with gaps between its elements")
        return " and ".join(dict.fromkeys(parts)) or "every input"


def _leaves(condition: Condition) -> Iterator[Condition]:
    if condition[0] in ("and", "or"):
        for part in condition[1]:
            yield from _leaves(part)
    elif condition[0] == "not":
        yield from _leaves(condition[1])
    else:
        yield condition


def _kinds(condition: Condition) -> Iterator[str]:
    for leaf in _leaves(condition):
        yield leaf[0]
        if leaf[0] == "compare" and ".stride(" in f"{leaf[2]} {leaf[3]}":
            yield "stride"
