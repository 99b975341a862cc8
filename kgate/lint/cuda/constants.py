"""Integers that are known from the text: literals, macros, constants, ``sizeof``, and arithmetic of these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)[uUlL]*")
_SIZES = {
    "char": 1,
    "int8_t": 1,
    "uint8_t": 1,
    "bool": 1,
    "half": 2,
    "__half": 2,
    "__nv_bfloat16": 2,
    "int16_t": 2,
    "short": 2,
    "int": 4,
    "unsigned": 4,
    "int32_t": 4,
    "uint32_t": 4,
    "float": 4,
    "half2": 4,
    "double": 8,
    "int64_t": 8,
    "size_t": 8,
    "float2": 8,
    "float4": 16,
    "int4": 16,
    "uint4": 16,
}
"""Bytes that a type takes."""
_DEEPEST = 24
_WRAPPERS = frozenset({"parenthesized_expression", "initializer_list", "argument_list"})


class Constants:
    """Evaluates expressions of one function of one piece of CUDA C++."""

    def __init__(self, file: CudaFile, function: CudaFunction | None = None) -> None:
        self.file = file
        self.function = function

    def value(self, node: Node, depth: int = 0) -> int | None:
        """The integer that an expression is; None where that is not known."""
        if depth > _DEEPEST or node.end_byte - node.start_byte > 400:
            return None
        kind = node.type
        if kind == "number_literal":
            return _number(self.file.code(node))
        if kind == "identifier":
            return self._named(self.file.code(node), depth + 1)
        if kind == "sizeof_expression":
            inner = node.child_by_field_name("type") or node.child_by_field_name("value")
            return None if inner is None else _SIZES.get(self.file.code(inner).strip("() "))
        if kind == "binary_expression":
            return self._binary(node, depth + 1)
        if kind == "cast_expression":
            inner = node.child_by_field_name("value")
            return None if inner is None else self.value(inner, depth + 1)
        if kind in _WRAPPERS and len(node.named_children) == 1:
            return self.value(node.named_children[0], depth + 1)
        return None

    def threads(self, node: Node, depth: int = 0) -> int | None:
        """The number of threads that a launch's second argument asks for; None where it is not known."""
        known = self.value(node)
        if known is not None or depth > 2:
            return known
        if node.type == "identifier" and self.function is not None:
            definitions = self.file.flow(self.function).definitions.get(self.file.code(node), [])
            return self.threads(definitions[0].value, depth + 1) if len(definitions) == 1 else None
        listed = node
        if node.type == "call_expression":
            arguments = node.child_by_field_name("arguments")
            if self.file.callee(node) != "dim3" or arguments is None:
                return None
            listed = arguments
        elif node.type not in ("argument_list", "initializer_list"):
            return None
        product = 1
        for item in listed.named_children:
            size = self.value(item)
            if size is None:
                return None
            product *= size
        return product

    def _binary(self, node: Node, depth: int) -> int | None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return None
        first, second = self.value(left, depth), self.value(right, depth)
        if first is None or second is None:
            return None
        return _apply(self.file.code(operator), first, second)

    def _named(self, name: str, depth: int) -> int | None:
        if self.function is not None:
            if any(item.name == name for item in self.function.parameters) or name in self.function.values:
                return None
            definitions = self.file.flow(self.function).definitions.get(name, [])
            if definitions:
                return self.value(definitions[0].value, depth) if len(definitions) == 1 else None
        values = self.file.constants.get(name, [])
        if values:
            return self.value(values[0], depth) if len(values) == 1 else None
        macro = self.file.macros.get(name)
        return None if macro is None or macro.function else _number(macro.value.strip(" ()\t"))


def _number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > 20:
        return None
    digits = found.group(1).replace("'", "")
    try:
        return int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" and digits != "0" else 10)
    except ValueError:
        return None


def _apply(operator: str, first: int, second: int) -> int | None:
    if operator == "+":
        return first + second
    if operator == "-":
        return first - second
    if operator == "*":
        return first * second
    if operator == "/" and second:
        return first // second
    if operator == "%" and second:
        return first % second
    if operator == "<<" and 0 <= second < 32 and abs(first) < 1 << 32:
        return first << second
    return None
