"""What the variables of a function hold: what they are made of, and which of them differ between threads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

WIDE = re.compile(
    r"\b(?:u?int(?:_fast|_least)?64_t|long|size_t|ssize_t|ptrdiff_t|u?intptr_t|uint64|int64|u?longlong\d?|difference_type)\b"
)
"""Integer types of 64 bits (``long`` is one where CUDA runs on Linux)."""
NARROW = re.compile(r"(?:(?:signed|unsigned|u?int32_t|u?int|uint)\s*)+")
"""Integer types of 32 bits."""
_PASSES = re.compile(
    r"min|max|abs|int|unsigned|uint|size_t|u?int(?:32|64)_t|long|(?:static|const|reinterpret)_cast|__ldg|fminf?|fmaxf?|bool"
)
"""Calls whose result differs between threads where an argument does."""
_LONGEST = 1000
_MOST = 200
_LARGEST = 200_000
"""Size in bytes of an expression, declarations of a name, size of a function: what is larger is generated code."""
_SCOPES = frozenset({"compound_statement", "for_statement", "case_statement", "lambda_expression"})
_RANK = frozenset({"thread_rank", "thread_index"})


@dataclass(frozen=True)
class Definition:
    """One place that gives a variable a value."""

    name: str
    type: str
    """Type as declared there; empty for an assignment."""
    operator: str
    """``=``, or the operator of a compound assignment."""
    value: Node
    node: Node
    """The declarator or the assignment."""

    @property
    def shown(self) -> str:
        """Its name as written."""
        return self.name.partition("@")[0]


class Flow:
    """The variables of a function. One is known by its name, and where a name is declared in several scopes by
    ``name@offset`` of its scope."""

    def __init__(self, file: CudaFile, function: CudaFunction) -> None:
        self.file = file
        self.function = function

    def variable(self, node: Node) -> str:
        """The variable that an identifier stands for."""
        name = self.file.code(node)
        scopes = self._scopes.get(name)
        if scopes is None:
            return name
        at = node.start_byte
        around = [(start, scope) for start, end, scope in scopes if start <= at < end]
        return f"{name}@{max(around)[1]}" if around else name

    @cached_property
    def _scopes(self) -> dict[str, list[tuple[int, int, int]]]:
        """Names declared in several scopes: start and end of where each declaration holds, and its scope's offset."""
        if self.function.body.end_byte - self.function.body.start_byte > _LARGEST:
            return {}
        found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for node in self.function.nodes["init_declarator"]:
            name = _identifier(node)
            scope = next((item for item, _ in self.file.inside(node, self.function.node) if item.type in _SCOPES), None)
            if name is not None and scope is not None:
                found[self.file.code(name)].append((node.start_byte, scope.end_byte, scope.start_byte))
        return {name: items for name, items in found.items() if _several(items)}

    @cached_property
    def definitions(self) -> dict[str, list[Definition]]:
        """Name to what it is given."""
        found: dict[str, list[Definition]] = defaultdict(list)
        for item in self._definitions():
            found[item.name].append(item)
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """Name of a parameter, template value or variable to its type, as far as it is declared here."""
        found = {item.name: "pointer" if item.pointer else item.type for item in self.function.parameters}
        for items in self.definitions.values():
            for item in items:
                if item.type:
                    found.setdefault(item.name, item.type)
        return found

    @cached_property
    def shared(self) -> frozenset[str]:
        """Variables in shared memory, which all threads of a block see alike."""
        found: set[str] = set()
        for node in self.function.nodes["declaration"]:
            children = node.named_children
            if any(item.type == "type_qualifier" and self.file.code(item) == "__shared__" for item in children):
                names = [_identifier(item) for item in node.children_by_field_name("declarator")]
                found.update(self.file.code(name) for name in names if name is not None)
        return frozenset(found)

    @cached_property
    def block(self) -> frozenset[str]:
        """Variables that are given a value with ``blockIdx`` in it."""
        return frozenset(
            name for name, items in self.definitions.items() if any("blockIdx" in self.names(i.value) for i in items)
        )

    @cached_property
    def uses(self) -> dict[str, list[Definition]]:
        """Name to the definitions whose values have it in them."""
        found: dict[str, list[Definition]] = defaultdict(list)
        for items in self.definitions.values():
            for item in items:
                for name in self.names(item.value):
                    found[name].append(item)
        return found

    @cached_property
    def thread(self) -> frozenset[str]:
        """Variables that differ between the threads of a block."""
        return self.spread(self.differs)

    @cached_property
    def global_index(self) -> frozenset[str]:
        """Variables made of both the block's index and the thread's, and what is made of them."""
        direct = {
            name for name, items in self.definitions.items() for item in items if self.is_global_index(item.value)
        }
        return self.spread(self.mentions, direct)

    def is_global_index(self, node: Node) -> bool:
        """Whether an expression has ``blockIdx.x * ...`` and the thread's index in it."""
        used = self.names(node)
        if "blockIdx" not in used or ("threadIdx" not in used and used.isdisjoint(self.thread)):
            return False
        return any(
            item.type == "binary_expression" and self.operator(item) == "*" and "blockIdx" in self.names(item)
            for item in self.file.under(node)
        )

    def spread(self, test: Callable[[Node, set[str]], bool], start: Iterable[str] = ()) -> frozenset[str]:
        """Some names, and those with a value that passes a test, which is given the names found so far."""
        found = set(start)
        waiting = [item for items in self.definitions.values() for item in items]
        while waiting:
            item = waiting.pop()
            if item.name not in found and test(item.value, found):
                found.add(item.name)
                waiting += self.uses.get(item.name, ())
        return frozenset(found)

    def differs(self, node: Node, names: Set[str] | None = None) -> bool:
        """Whether the value of an expression can differ between the threads of a block.

        A difference of two such values may be the same everywhere (``i - threadIdx.x``), and so may what a call
        returns: neither counts.
        """
        if node.end_byte - node.start_byte > _LONGEST:
            return False
        known = self.thread if names is None else names
        stack = [node]
        while stack:
            item = stack.pop()
            kind = item.type
            if kind == "identifier":
                text = self.variable(item)
                if text == "threadIdx" or text in known:
                    return True
            elif kind == "call_expression":
                name = self.file.callee(item)
                if name in _RANK:
                    return True
                arguments = item.child_by_field_name("arguments")
                if _PASSES.fullmatch(name) and arguments is not None:
                    stack.append(arguments)
            elif kind == "binary_expression" and self.operator(item) in ("-", "^"):
                sides = item.named_children
                if not all(self._touches(side, known) for side in sides):
                    stack += sides
            elif kind not in ("lambda_expression", "sizeof_expression", "comment"):
                stack += item.named_children
        return False

    def names(self, node: Node) -> set[str]:
        """Variables in an expression; none for one that is longer than anybody writes."""
        if node.end_byte - node.start_byte > _LONGEST:
            return set()
        return {self.variable(item) for item in self.file.under(node) if item.type == "identifier"}

    def mentions(self, node: Node, names: Set[str]) -> bool:
        """Whether an expression has one of some names in it."""
        return not self.names(node).isdisjoint(names)

    def _touches(self, node: Node, names: Set[str]) -> bool:
        used = self.names(node)
        return "threadIdx" in used or not used.isdisjoint(names)

    def operator(self, node: Node) -> str:
        """Operator of a binary expression or an assignment."""
        found = node.child_by_field_name("operator")
        return "" if found is None else self.file.code(found)

    def wide(self, node: Node) -> bool:
        """Whether an arithmetic expression is surely computed in 64 bits: an operand of it is that wide."""
        stack = [node] if node.end_byte - node.start_byte <= _LONGEST else []
        while stack:
            item = stack.pop()
            kind = item.type
            if kind == "identifier":
                if WIDE.search(self.types.get(self.variable(item), "")):
                    return True
            elif kind == "number_literal":
                if self.file.code(item).lower().endswith("l"):
                    return True
            elif kind == "cast_expression":
                type_node = item.child_by_field_name("type")
                if type_node is not None and WIDE.search(self.file.code(type_node)):
                    return True
            elif kind == "call_expression":
                function = item.child_by_field_name("function")
                if function is not None and WIDE.search(self.file.code(function)):
                    return True
            elif kind == "compound_literal_expression":
                if WIDE.search(self.file.code(item).partition("{")[0]):
                    return True
            elif kind in (
                "binary_expression",
                "parenthesized_expression",
                "unary_expression",
                "conditional_expression",
            ):
                stack += item.named_children
        return False

    def _definitions(self) -> Iterator[Definition]:
        if self.function.body.end_byte - self.function.body.start_byte > _LARGEST:
            return
        for node in self.function.nodes["init_declarator"]:
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            declaration = self.file.parents.get(node.id)
            if name is None or value is None or declaration is None:
                continue
            kind = declaration.child_by_field_name("type")
            written = "" if kind is None else self.file.type_of(kind)
            if name.type != "identifier":
                written, name = "pointer", _identifier(name)
            if name is not None:
                yield Definition(self.variable(name), written, "=", value, node)
        for node in self.function.nodes["assignment_expression"]:
            left, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or value is None or left.type != "identifier":
                continue
            if self.file.code(left) not in self.shared:
                yield Definition(self.variable(left), "", self.operator(node), value, node)


def _identifier(node: Node) -> Node | None:
    """The name in a declarator."""
    inner: Node | None = node
    for _ in range(16):
        if inner is None or inner.type == "identifier":
            return inner
        below = inner.child_by_field_name("declarator")
        children = inner.named_children
        inner = below if below is not None else (children[-1] if children else None)
    return None


def _several(declarations: list[tuple[int, int, int]]) -> bool:
    """Whether declarations of one name are in several scopes, and no more than a person writes."""
    return len(declarations) <= _MOST and len({scope for _, _, scope in declarations}) > 1
