"""A host function as rules see it: what it launches, with which arguments, and on what it depends."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from kgate.lint.model.flow import Function
from kgate.lint.model.forms import Forms
from kgate.lint.records import Argument, HostSummary, Launch, Parameter
from kgate.source.uses import chain_of

if TYPE_CHECKING:
    from kgate.lint.model.module import FunctionNode, Module

LAUNCH_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "warmup", "stream", "enable_fp_fusion"})


class LaunchNode:
    """``kernel[grid](...)``, ``wrap_triton(kernel)[grid](...)``, or a method that launches."""

    __slots__ = ("callees", "grid", "node")

    def __init__(self, node: ast.Call, callees: tuple[str, ...], grid: ast.expr | None) -> None:
        self.node = node
        self.callees = callees
        """Chains that may be what is launched, local names followed."""
        self.grid = grid


class Host(Function):
    """One host function."""

    def __init__(self, module: Module, node: FunctionNode, name: str) -> None:
        self.module = module
        self.name = name
        """Qualified name."""
        super().__init__(node)
        self.forms = Forms(self)

    @cached_property
    def parameters(self) -> dict[str, ast.arg]:
        """Parameters by name, in order."""
        arguments = self.node.args
        return {item.arg: item for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Calls, in source order, each with the dotted name called (``torch.empty``, ``.contiguous`` of a method)."""
        found = []
        for node in self.call_nodes:
            dotted = self.module.dotted(node.func)
            root = chain_of(node.func).partition(".")[0]
            if isinstance(node.func, ast.Attribute) and (not dotted or root in self.bindings):
                dotted = f".{node.func.attr}"
            found.append((node, dotted))
        return sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset))

    @cached_property
    def launches(self) -> list[LaunchNode]:
        """Launches, in source order."""
        found = []
        for node in self.call_nodes:
            function = node.func
            if isinstance(function, ast.Subscript):
                callees = self._callees(function.value)
                if callees:
                    found.append(LaunchNode(node, callees, function.slice))
        return sorted(found, key=lambda launch: (launch.node.lineno, launch.node.col_offset))

    def _callees(self, node: ast.expr, depth: int = 0) -> tuple[str, ...]:
        """Chains that an expression may stand for."""
        if depth > 5:
            return ()
        if isinstance(node, ast.Name):
            found: dict[str, None] = {}
            reached = self.reached.get(node, ())
            for binding in reached:
                if binding.kind == "assign" and binding.value is not None:
                    found.update(dict.fromkeys(self._callees(binding.value, depth + 1)))
                elif binding.kind in ("parameter", "other"):
                    found[binding.name] = None
            return tuple(found) if reached else (node.id,)
        if isinstance(node, ast.Attribute):
            chain = chain_of(node)
            return (chain,) if chain else ()
        if isinstance(node, ast.IfExp):
            return tuple(dict.fromkeys((*self._callees(node.body, depth + 1), *self._callees(node.orelse, depth + 1))))
        if isinstance(node, ast.Call):
            # wrap_triton(kernel), functools.partial(kernel, ...), triton.jit(kernel), autotune(...)(kernel)
            for argument in node.args[:1]:
                inner = self._callees(argument, depth + 1)
                if inner:
                    return inner
            return ()
        if isinstance(node, ast.Subscript):
            return self._callees(node.value, depth + 1)
        if isinstance(node, ast.Dict):
            return tuple(dict.fromkeys(chain for value in node.values for chain in self._callees(value, depth + 1)))
        return ()

    @cached_property
    def autograd(self) -> str:
        """``forward`` or ``backward`` of an ``autograd.Function``; empty for any other function."""
        owner = self.module.owners.get(self.node)
        if not isinstance(owner, ast.ClassDef) or self.node.name not in ("forward", "backward", "setup_context"):
            return ""
        for base in owner.bases:
            dotted = self.module.dotted(base)
            if dotted.endswith("autograd.Function") or dotted == "Function":
                return self.node.name
        return ""

    @cached_property
    def decorators(self) -> tuple[str, ...]:
        """Dotted names of the decorators, outermost first."""
        return tuple(
            self.module.dotted(node.func if isinstance(node, ast.Call) else node) for node in self.node.decorator_list
        )

    # For the linker

    def summary(self) -> HostSummary:
        """What the linker needs to know."""
        parameters = []
        arguments = self.node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        for argument, default in pairs:
            parameters.append(
                Parameter(
                    argument.arg,
                    False,
                    ast.unparse(argument.annotation) if argument.annotation is not None else "",
                    ast.unparse(default) if default is not None else None,
                )
            )
        return HostSummary(
            self.name,
            self.module.name_place(self.node),
            tuple(parameters),
            self.decorators,
            self.autograd,
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, list[str]]:
        """``not-zero``: forms that conditions and assertions compare with zero or one, or take the truth of."""
        found: dict[str, None] = {}
        for statement in self.statements:
            if isinstance(statement, (ast.If, ast.Assert)):
                for test in _comparisons(statement.test):
                    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
                    if not sides:
                        found[self.forms.of(test)] = None
                    elif any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in sides):
                        found.update(dict.fromkeys(map(self.forms.of, sides)))
        known = [form for form in found if "?" not in form and not form.isdecimal()]
        return {"not-zero": known} if known else {}

    def launch_summaries(self) -> list[Launch]:
        """The launches, and the calls of other functions of the project that are handed tensors or sizes."""
        found = [self._summary(launch.node, launch.callees, launch.grid) for launch in self.launches]
        launched = {launch.node for launch in self.launches}
        for node in self.call_nodes:
            if node in launched or isinstance(node.func, ast.Subscript):
                continue
            chain = chain_of(node.func)
            root = chain.partition(".")[0]
            own = root in ("self", "cls") and root in self.parameters
            if not chain or (root in self.bindings and not own):
                continue
            module = self.module
            if not (own or root in module.imports or root in module.functions or root in module.classes):
                continue
            origin = self.module.dotted_chain(chain)
            if origin.startswith(("torch.", "triton.", "math.", "numpy.", "os.", "functools.")) or origin == "torch":
                continue
            found.append(self._summary(node, (chain,), None))
        return found

    def _summary(self, node: ast.Call, callees: tuple[str, ...], grid: ast.expr | None) -> Launch:
        arguments = []
        spread = False
        for index, value in enumerate(node.args):
            if isinstance(value, ast.Starred):
                spread = True
                break
            arguments.append(self._argument(str(index), value))
        for keyword in node.keywords:
            if keyword.arg is None:
                spread = True
            else:
                arguments.append(self._argument(keyword.arg, keyword.value))
        axes = None if grid is None else self.forms.grid(grid)
        return Launch(callees, self.module.place(node), self.name, tuple(arguments), axes, spread)

    def _argument(self, name: str, value: ast.expr) -> Argument:
        text = ast.unparse(value) if not isinstance(value, ast.Name) else value.id
        return Argument(name, self.module.place(value), text[:200], self.forms.of(value))


def _comparisons(test: ast.expr) -> list[ast.expr]:
    """The comparisons in a condition, and what it takes the truth of under ``not``."""
    found: list[ast.expr] = []
    stack = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.BoolOp):
            stack += node.values
        elif isinstance(node, ast.Compare):
            found.append(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            if isinstance(node.operand, (ast.BoolOp, ast.Compare)):
                stack.append(node.operand)
            else:
                found.append(node.operand)
    return found
