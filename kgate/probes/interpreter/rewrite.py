"""Turns device functions into Python that means on a CPU what the compiler makes of them on a GPU.

Plain execution differs in small ways that matter: ``a and b`` on tensors is Python truthiness, loop indices and
literals are Python numbers without ``.to``, and a condition on a whole block is silently true.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, cast

DEVICE_CODES: set[CodeType] = set()
"""Code objects of all rewritten device functions, by which device lines are found on the stack."""

_SHADOWED = ("range", "min", "max", "print")


class _Rewriter(ast.NodeTransformer):
    """Rewrites the body of one device function; helper names are injected by :func:`rewrite`."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        unpacks = any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets)
        if unpacks and isinstance(node.value, (ast.Tuple, ast.List)):
            node.value.elts = [self._tensor(item) for item in node.value.elts]
        elif not unpacks:
            node.value = self._tensor(node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and "constexpr" not in ast.unparse(node.annotation):
            node.value = self._tensor(node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        kind = "and" if isinstance(node.op, ast.And) else "or"
        return self._call("__kg_bool", [ast.Constant(kind), *map(self._lazy, node.values)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("__kg_not", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        terms = [node.left, *node.comparators]
        pairs = [ast.copy_location(ast.Compare(terms[i], [op], [terms[i + 1]]), node) for i, op in enumerate(node.ops)]
        return self._call("__kg_bool", [ast.Constant("and"), *map(self._lazy, pairs)], node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return self._call("__kg_value", [node.value], node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._test(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._test(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._test(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        message = node.msg or ast.Constant("")
        return ast.copy_location(ast.Expr(self._call("__kg_assert", [node.test, message], node)), node)

    def _test(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = self._call("__kg_truth", [node.test], node.test)
        return cast(ast.AST, node)

    def _tensor(self, value: ast.expr) -> ast.expr:
        return self._call("__kg_tensor", [value], value)

    def _lazy(self, value: ast.expr) -> ast.expr:
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Lambda(empty, value), value)

    def _call(self, name: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), args, []), at)


def rewrite(fn: Callable[..., Any], helpers: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that does what ``fn`` means on the device.

    ``helpers`` maps ``tensor``, ``truth``, ``not``, ``bool``, ``assert``, ``value``, ``range``, ``min``, ``max`` and
    ``print`` to their implementations. File names and lines are kept. Raises OSError where there is no source.
    """
    assert isinstance(fn, FunctionType)
    definition = _definition(fn)
    injected = {f"__kg_{key}": helpers[key] for key in ("tensor", "truth", "not", "bool", "assert", "value")}
    free = _closure(fn)
    for name in _SHADOWED:
        if name not in fn.__globals__ and name not in free:
            injected[name] = helpers[name]
    injected.update(free)
    maker = ast.FunctionDef(
        name="__kg_make",
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(n) for n in injected], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:
        setattr(maker, "type_params", [])  # noqa: B010 - the field is new in Python 3.12
    module = ast.fix_missing_locations(ast.Module([maker], type_ignores=[]))
    code = compile(module, fn.__code__.co_filename, "exec", dont_inherit=True)
    namespace: dict[str, Any] = {}
    exec(code, fn.__globals__, namespace)
    made: FunctionType = namespace["__kg_make"](**injected)
    made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    DEVICE_CODES.update(_codes(made.__code__))
    return made


def _definition(fn: FunctionType) -> ast.FunctionDef:
    """Parse a function; decorators, annotations and defaults are dropped, and lines are those of its file."""
    lines, first = inspect.getsourcelines(fn)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    rewritten = _Rewriter()
    found.body = [rewritten.visit(statement) for statement in found.body]
    found.decorator_list, found.returns = [], None
    arguments = found.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        argument.annotation = None
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [None if value is None else ast.Constant(None) for value in arguments.kw_defaults]
    return found


def _closure(fn: FunctionType) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue
    return values


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
