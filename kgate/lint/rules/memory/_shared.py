"""What the rules about memory share: where a value goes, and what a literal stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.lint.model.calls import REDUCTIONS, SCANS

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.model.tiles import Axes

ADDITIONS = frozenset({"sum", "dot", "xor_sum", "cumsum"})
"""What zeros do not change."""
SINKS = REDUCTIONS | SCANS | {"dot", "softmax"}
ELEMENTWISE = frozenset(
    [
        "to",
        "cast",
        "exp",
        "exp2",
        "log",
        "log2",
        "sqrt",
        "rsqrt",
        "abs",
        "maximum",
        "minimum",
        "sigmoid",
        "fma",
        "floor",
        "ceil",
        "sin",
        "cos",
        "erf",
        "tanh",
        "div_rn",
        "fdiv",
        "pow",
        "trans",
        "broadcast_to",
        "expand_dims",
        "clamp",
    ]
)
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_LIMIT = 400


@dataclass(frozen=True)
class Reach:
    """A reduction, scan or dot that a value takes part in."""

    sink: Call
    argument: ast.expr
    """The operand of it that holds the value."""
    through: frozenset[str]
    """Operators and functions on the way, ``square`` for a value multiplied by itself."""
    factors: tuple[ast.expr, ...]
    """What it is multiplied by on the way."""


def reaches(device: Device, value: ast.expr) -> Iterator[Reach]:
    """The reductions, scans and dots that take a value, with no ``tl.where`` and no mask multiplied in on the way."""
    waiting: list[tuple[ast.expr, frozenset[str], tuple[ast.expr, ...]]] = [(value, frozenset(), ())]
    seen: set[ast.expr] = set()
    while waiting and len(seen) < _LIMIT:
        node, through, factors = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        parent = device.parents.get(node)
        if isinstance(parent, ast.keyword):
            parent = device.parents.get(parent)
        if isinstance(parent, ast.Attribute):
            if parent.attr == "T":
                waiting.append((parent, through, factors))
            parent = device.parents.get(parent)
            if not (
                isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.value is node
            ):
                continue
        if isinstance(parent, ast.BinOp):
            step = _operator(device, parent, node)
            if step is not None:
                mult = isinstance(parent.op, ast.Mult)
                other = parent.right if node is parent.left else parent.left
                waiting.append((parent, through | {step}, (*factors, other) if mult else factors))
        elif isinstance(parent, ast.UnaryOp):
            waiting.append((parent, through | {"negated"}, factors))
        elif isinstance(parent, ast.Subscript):
            if parent.value is node:
                waiting.append((parent, through, factors))
        elif isinstance(parent, ast.Call):
            call = device.call_of.get(parent)
            if call is None:
                continue
            if call.name in SINKS:
                if call.first is node or call.argument("other") is node:
                    yield Reach(call, node, through, factors)
            elif call.name in ELEMENTWISE:
                plain = call.name in ("to", "cast", "trans", "broadcast_to", "expand_dims")
                waiting.append((parent, through if plain else through | {call.name}, factors))
        else:
            for binding in device.bound_to.get(node, ()):
                if binding.kind == "augmented":
                    operator = binding.statement.op  # type: ignore[attr-defined]
                    step = "+=" if isinstance(operator, ast.Add) else _OPERATORS.get(type(operator), "?")
                    before = binding.previous if isinstance(operator, ast.Mult) else ()
                    values = tuple(item.value for item in before if item.kind == "assign" and item.value is not None)
                    waiting += [(use, through | {step}, (*factors, *values)) for use in binding.uses]
                elif binding.kind == "assign":
                    waiting += [(use, through, factors) for use in binding.uses]


def _operator(device: Device, parent: ast.BinOp, node: ast.expr) -> str | None:
    """What an operator does to the value; None where the result is no longer it."""
    other = parent.right if node is parent.left else parent.left
    if isinstance(parent.op, ast.Mult):
        if device.type_of(other) == "int1" or _is_mask(device, other):
            return None
        return "square" if device.tiles.number(node) == device.tiles.number(other) else "*"
    if isinstance(parent.op, ast.Div):
        return "/" if node is parent.left else "1/"
    return _OPERATORS.get(type(parent.op))


def _is_mask(device: Device, node: ast.expr) -> bool:
    """Whether a factor is a mask cast to a number."""
    node = device.value_of(node)
    if isinstance(node, ast.Subscript):
        return _is_mask(device, node.value)
    if isinstance(node, ast.Call):
        call = device.call_of.get(node)
        if call is not None and call.name in ("to", "cast") and call.first is not None:
            return device.type_of(call.first) == "int1" or _is_mask(device, call.first)
    return False


def runs_over(device: Device, reach: Reach) -> Axes:
    """The axes that a reduction or dot runs over, of the operand that holds the value; empty where unknown.

    Scans run over none unless they are reversed: what is masked off at the end comes after all that counts.
    """
    if reach.sink.name in SCANS and reach.sink.argument("reverse") is None:
        return frozenset()
    if reach.sink.name == "dot":
        left, right = device.tiles.contracted(reach.sink)
        return (left if reach.argument is reach.sink.first else right) or frozenset()
    return device.tiles.reduced(reach.sink) or frozenset()


def number_of(device: Device, node: ast.expr) -> float | None:
    """The number that a literal stands for, ``float("-inf")`` and module constants among them; else None."""
    node = device.value_of(node)
    if isinstance(node, ast.Name) and node.id not in device.bindings:
        known = device.module.constants.get(node.id, [])
        if len(known) == 1 and known[0] is not None and not isinstance(known[0], ast.Name):
            return number_of(device, known[0])
    if isinstance(node, ast.Constant):
        return float(node.value) if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(device, node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Call) and len(node.args) == 1:
        argument = node.args[0]
        if isinstance(node.func, ast.Name) and node.func.id == "float" and isinstance(argument, ast.Constant):
            try:
                return float(argument.value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                return None
        if device.module.dotted(node.func).endswith(".constexpr"):
            return number_of(device, argument)
    if isinstance(node, ast.Attribute) and node.attr == "inf":
        return float("inf")
    return None
