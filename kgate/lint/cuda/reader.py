"""One pass over a syntax tree of CUDA C++: functions, launches, macros, constants, and what holds each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.cuda.records import CudaFunction, CudaLaunch, CudaParameter, Macro

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.source import CudaFile


class Reader:
    """One pass over the tree; keeps its own stack, as trees of hostile files are deep."""

    def __init__(self, file: CudaFile) -> None:
        self.file = file
        self.functions: list[CudaFunction] = []
        self.launches: list[CudaLaunch] = []
        self.macros: dict[str, Macro] = {}
        self.constants: dict[str, list[Node]] = defaultdict(list)

    def read(self) -> tuple[list[CudaFunction], list[CudaLaunch], dict[str, Macro], dict[str, list[Node]]]:
        parents = self.file.parents
        stack = [self.file.tree.root_node]
        while stack:
            node = stack.pop()
            kind = node.type
            if kind == "function_definition":
                function = self._function(node)
                if function is not None:
                    self._body(function)
                    continue
            elif kind in _MACROS:
                self._macro(node)
            elif kind == "init_declarator":
                self._constant(node)
            elif kind == "kernel_call_syntax":
                self._launch(node, None)
            children = [
                child for child in node.named_children if child.named_child_count
            ]  # leaves are of no kind above
            for child in children:
                parents[child.id] = node
            stack += children[::-1]
        return self.functions, self.launches, self.macros, self.constants

    def _body(self, function: CudaFunction) -> None:
        """Everything in a function, functions inside it too."""
        parents, nodes = self.file.parents, function.nodes
        stack = [function.node]
        while stack:
            node = stack.pop()
            kind = node.type
            if kind in KEPT:
                nodes[kind].append(node)
            elif kind == "kernel_call_syntax":
                self._launch(node, function)
            elif kind in _MACROS:
                self._macro(node)
            children = [
                child for child in node.named_children if child.named_child_count
            ]  # leaves are of no kind above
            for child in children:
                parents[child.id] = node
            stack += children[::-1]

    def _function(self, node: Node) -> CudaFunction | None:
        body = node.child_by_field_name("body")
        declarator = _function_declarator(node)
        if body is None or declarator is None:
            return None
        name_node = declarator.child_by_field_name("declarator")
        if name_node is None:
            return None
        marks = {child.type for child in node.children}
        if marks.isdisjoint(_MARKS):
            marks |= {word for word in self.file.code_before(node, name_node).split() if word in _MARKS}
        name = self.file.last_name(name_node) or self.file.code(name_node)
        scopes, internal = self._around(node)
        written = self.file.code(name_node) if name_node.type == "qualified_identifier" else name
        found = CudaFunction(
            name=name,
            qualified="::".join([*scopes, written]),
            node=node,
            name_node=name_node,
            body=body,
            parameters=tuple(self._parameters(declarator.child_by_field_name("parameters"))),
            template=self._template(node) is not None,
            values=tuple(item.name for item in self._parameters(self._template(node))),
            kernel="__global__" in marks,
            device="__device__" in marks and "__host__" not in marks,
            internal=internal or any(self.file.code(c) == "static" for c in _of(node, "storage_class_specifier")),
        )
        self.functions.append(found)
        return found

    def _around(self, node: Node) -> tuple[list[str], bool]:
        scopes, internal = [], False
        for parent, _ in self.file.inside(node):
            if parent.type == "namespace_definition":
                name = parent.child_by_field_name("name")
                internal |= name is None
                scopes += [] if name is None else [self.file.code(name)]
            elif parent.type in ("class_specifier", "struct_specifier"):
                name = parent.child_by_field_name("name")
                scopes += [] if name is None else [self.file.code(name)]
        return scopes[::-1], internal

    def _parameters(self, listed: Node | None) -> Iterator[CudaParameter]:
        if listed is None:
            return
        for node in listed.named_children:
            if node.type not in _PARAMETERS:
                continue
            kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
            pointer = False
            while declarator is not None and declarator.type not in ("identifier", "field_identifier"):
                pointer |= declarator.type in ("pointer_declarator", "array_declarator")
                below = declarator.child_by_field_name("declarator")
                declarator = below if below is not None else _last_named(declarator)
            if kind is not None:
                name = "" if declarator is None else self.file.code(declarator)
                yield CudaParameter(name, self.file.type_of(kind), pointer, node)

    def _template(self, node: Node) -> Node | None:
        """The parameters of the template that a function is."""
        parent = self.file.parents.get(node.id)
        if parent is None or parent.type != "template_declaration":
            return None
        return parent.child_by_field_name("parameters")

    def _launch(self, node: Node, function: CudaFunction | None) -> None:
        call = self.file.parents.get(node.id)
        if call is not None and call.type == "call_expression":
            given = tuple(child for child in node.named_children if child.type != "comment")
            self.launches.append(CudaLaunch(call, self.file.callee(call), node, given, function))

    def _macro(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            text = "" if value is None else self.file.code(value)
            macro = Macro(self.file.code(name), text, node.type == "preproc_function_def", node)
            self.macros[macro.name] = macro

    def _constant(self, node: Node) -> None:
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        declaration = self.file.parents.get(node.id)
        if name is None or value is None or declaration is None or name.type != "identifier":
            return
        if any(self.file.code(item) in ("const", "constexpr") for item in _of(declaration, "type_qualifier")):
            self.constants[self.file.code(name)].append(value)


_MACROS = frozenset({"preproc_def", "preproc_function_def"})
KEPT = frozenset(
    {
        "assignment_expression",
        "binary_expression",
        "call_expression",
        "conditional_expression",
        "declaration",
        "do_statement",
        "expression_statement",
        "for_statement",
        "function_definition",
        "if_statement",
        "init_declarator",
        "switch_statement",
        "while_statement",
    }
)
"""Types of nodes that rules ask for."""
_MARKS = frozenset({"__global__", "__device__", "__host__"})
_PARAMETERS = frozenset({"parameter_declaration", "optional_parameter_declaration"})


def _function_declarator(node: Node) -> Node | None:
    """The innermost declarator of a function definition that has parameters of a function, not of a macro's name."""
    declarator = node.child_by_field_name("declarator")
    for _ in range(16):
        if declarator is None or declarator.type == "function_declarator":
            return declarator
        below = declarator.child_by_field_name("declarator")
        declarator = below if below is not None else _last_named(declarator)
    return None


def _last_named(node: Node) -> Node | None:
    children = node.named_children
    return children[-1] if children else None


def _of(node: Node, kind: str) -> list[Node]:
    return [child for child in node.named_children if child.type == kind]
