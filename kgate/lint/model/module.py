"""A Python file as rules see it: imports, module constants, classes, device functions and host functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kgate.lint.model.flow import Nodes
from kgate.lint.records import Range
from kgate.lint.rule import place_of
from kgate.source.frameworks import JIT_NAMES, framework_of
from kgate.source.uses import chain_of

if TYPE_CHECKING:
    from kgate.lint.model.device import Device
    from kgate.lint.model.host import Host

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """One Python file."""

    def __init__(self, path: str, text: str, tree: ast.Module, device_decorators: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.jit_names = JIT_NAMES | device_decorators
        self.guard_decorators: frozenset[str] = frozenset()
        """Decorators of the project's own that set the device of their arguments, by their last name."""
        self.contiguous_decorators: frozenset[str] = frozenset()
        """Decorators of the project's own that make their arguments contiguous, by their last name."""
        self.imports: dict[str, str] = {}
        """Names bound by imports anywhere in the file, to what they stand for: ``tl`` to ``triton.language``."""
        self.constants: dict[str, list[ast.expr | None]] = {}
        """Names bound at module level, to what they are bound to; None where that is no plain assignment."""
        self.functions: dict[str, FunctionNode] = {}
        """Functions and methods by qualified name (the last one of a name), nested ones too."""
        self.classes: dict[str, ast.ClassDef] = {}
        self.owners: dict[ast.AST, ast.ClassDef | FunctionNode] = {}
        """A function or class to the function or class that holds it."""
        self.memory: dict[str, Any] = {}
        """What a rule works out once for all functions of the file, by the rule's code."""
        self._read(tree.body, "", None)

    def forget(self) -> None:
        """Let go of everything, so that it is freed at once: module and functions refer to each other."""
        for name in ("devices", "hosts"):
            for function in self.__dict__.get(name, ()):
                function.__dict__.clear()
        self.__dict__.clear()

    @cached_property
    def lines(self) -> list[str]:
        """The lines, as ``ast`` counts them."""
        return self.text.split("\n")

    @cached_property
    def nodes(self) -> Nodes:
        """Every node of the file, by class."""
        return Nodes(ast.walk(self.tree))

    def place(self, node: ast.AST) -> Range:
        """The range of a node."""
        return place_of(node, self.lines)

    def name_place(self, node: FunctionNode | ast.ClassDef) -> Range:
        """The range of the name in a ``def`` or ``class`` line."""
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        column = line.find(node.name, 0 if node.col_offset >= len(line) else node.col_offset)
        column = max(column, 0) + 1
        return node.lineno, column, node.lineno, column + len(node.name)

    def segment(self, node: ast.AST) -> str:
        """The source of a node."""
        line, column, end_line, end_column = self.place(node)
        lines = self.lines[line - 1 : end_line]
        lines[-1] = lines[-1][: end_column - 1]
        lines[0] = lines[0][column - 1 :]
        return "\n".join(lines)

    def dotted(self, node: ast.AST) -> str:
        """A name or attribute chain with its first name replaced by what the file imports under it; else empty."""
        chain = chain_of(node)
        return self.dotted_chain(chain) if chain else ""

    def dotted_chain(self, chain: str) -> str:
        """The same of a chain."""
        first, dot, rest = chain.partition(".")
        origin = self.imports.get(first)
        return chain if origin is None else origin + dot + rest

    @cached_property
    def devices(self) -> list[Device]:
        """Functions that are compiled for a device by Triton or Gluon."""
        from kgate.lint.model.device import Device

        return [
            Device(self, node, name)
            for name, node in self.functions.items()
            if self.framework(node) in ("triton", "gluon")
        ]

    @cached_property
    def other_devices(self) -> list[tuple[FunctionNode, str, str]]:
        """Device functions of other frameworks: node, qualified name, framework."""
        found = []
        for name, node in self.functions.items():
            framework = self.framework(node)
            if framework not in ("", "triton", "gluon"):
                found.append((node, name, framework))
        return found

    @cached_property
    def hosts(self) -> list[Host]:
        """Functions that are not compiled for a device, and do not stand inside one."""
        from kgate.lint.model.host import Host

        return [
            Host(self, node, name)
            for name, node in self.functions.items()
            if not self.framework(node)
            and not isinstance(self.owners.get(node), (ast.FunctionDef, ast.AsyncFunctionDef))
        ]

    @cached_property
    def _jitted(self) -> frozenset[str]:
        """Functions made device functions by ``name = triton.jit(function)``."""
        found: set[str] = set()
        for values in self.constants.values():
            for value in values:
                while isinstance(value, ast.Call):
                    if self._jit(value.func):
                        found.update(arg.id for arg in value.args if isinstance(arg, ast.Name))
                    value = value.func
        return frozenset(found)

    def framework(self, node: FunctionNode) -> str:
        """What compiles a function for a device; empty for a host function."""
        for decorator in node.decorator_list:
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            found = self._jit(function)
            if found:
                return found
        if node.name in self._jitted:
            return "triton"
        return ""

    def _jit(self, function: ast.expr) -> str:
        dotted = self.dotted(function)
        found = framework_of(dotted)
        if found:
            return found
        last = dotted.rpartition(".")[2]
        if last in self.jit_names:
            return "gluon" if "gluon" in last else "triton"
        if "jit" in last.lower() and last not in ("jit", "njit") and not dotted.startswith(("torch.", "numba", "jax")):
            return "triton" if self._stands_for_jit(last) else ""
        return ""

    def _stands_for_jit(self, name: str) -> bool:
        """Whether a name of this file is an alias, a partial or a function around ``triton.jit``."""
        around: list[ast.AST] = [value for value in self.constants.get(name, ()) if value is not None]
        if name in self.functions:
            around.append(self.functions[name])
        return any(
            self.dotted(node) == "triton.jit"
            for root in around
            for node in ast.walk(root)
            if isinstance(node, ast.Attribute)
        )

    # Reading

    def _read(self, body: list[ast.stmt], prefix: str, owner: ast.ClassDef | FunctionNode | None) -> None:
        for statement in _blocks(body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(statement, ast.ImportFrom):
                source = "." * statement.level + (statement.module or "")
                for alias in statement.names:
                    self.imports[alias.asname or alias.name] = (
                        f"{source}.{alias.name}".lstrip(".") if source else alias.name
                    )
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[prefix + statement.name] = statement
                if owner is not None:
                    self.owners[statement] = owner
                self._read(statement.body, f"{prefix}{statement.name}.<locals>.", statement)
            elif isinstance(statement, ast.ClassDef):
                self.classes[prefix + statement.name] = statement
                if owner is not None:
                    self.owners[statement] = owner
                self._read(statement.body, f"{prefix}{statement.name}.", statement)
            elif owner is None:
                self._constant(statement)

    def _constant(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    self.constants.setdefault(target.id, []).append(statement.value)
                elif isinstance(target, (ast.Tuple, ast.List)):
                    same = isinstance(statement.value, (ast.Tuple, ast.List)) and len(statement.value.elts) == len(
                        target.elts
                    )
                    for index, item in enumerate(target.elts):
                        if isinstance(item, ast.Name):
                            value = statement.value.elts[index] if same else None  # type: ignore[attr-defined]
                            self.constants.setdefault(item.id, []).append(value)
        elif isinstance(statement, ast.AnnAssign):
            if isinstance(statement.target, ast.Name):
                self.constants.setdefault(statement.target.id, []).append(statement.value)
        elif isinstance(statement, ast.AugAssign):
            if isinstance(statement.target, ast.Name):
                self.constants.setdefault(statement.target.id, []).append(None)
        elif isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
            self.constants.setdefault(statement.target.id, []).append(None)


def _blocks(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body and of the blocks in it, without going into functions and classes."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for field in ("finalbody", "orelse", "handlers", "body"):
            inner = getattr(statement, field, None)
            if inner:
                stack.extend(reversed(inner))
