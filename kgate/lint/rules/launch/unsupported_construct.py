"""KG416: Python that Triton does not compile."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import Device
from kgate.lint.model.triton_api import BUILTINS, CHAINED_COMPARISON, shown, versions
from kgate.lint.rule import ERROR, FORKS, Example, Hit, Rule
from kgate.lint.rules.launch._shared import in_static_branch

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG416",
    name="unsupported-construct",
    severity=ERROR,
    except_in=FORKS,
    summary="A device function contains Python that Triton does not compile.",
    why=(
        "A device function looks like Python, but only part of the language has a meaning on the device. What has none "
        "raises when the function is compiled, which is when somebody first launches it with arguments that reach it. "
        "Conditions in comprehensions are worse: before Triton 3.9 they are ignored."
    ),
    remedy="Write it with what the device has: masks, `tl.where`, `while` with a flag, helper functions of their own.",
    quiet=(
        "`raise` in branches that compile-time values choose, where it ends a compilation on purpose; chained "
        "comparisons and `:=` where `triton` in the configuration starts at 3.9."
    ),
    sources=("linkedin/Liger-Kernel#991",),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def find(x_ptr, y_ptr, n):
                for i in range(n):
                    if tl.load(x_ptr + i) > 0:
                        tl.store(y_ptr, i)
                        break
                        ^^^^^
        """),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def clip(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=0 <= i < n)
                                            ^^^^^^^^^^
                tl.store(y_ptr + i, abs(x), mask=i < n)
                                    ^^^^^^
        """),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def find(x_ptr, y_ptr, n, OP: tl.constexpr):
                i = 0
                while (i < n) & (tl.load(x_ptr + i) <= 0):
                    i += 1
                if OP == "first":
                    tl.store(y_ptr, i)
                else:
                    raise ValueError("OP")
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def clip(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=0 <= i < n)
                tl.store(y_ptr + i, tl.abs(x), mask=i < n)
            """,
            config='triton = ">=3.9"',
            note="Triton 3.9 compiles chained comparisons.",
        ),
    ),
)

_NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "check before the launch"),
    ast.Lambda: ("a lambda", "write a function with @triton.jit"),
    ast.FunctionDef: ("a nested function", "move it to the module, with @triton.jit"),
    ast.AsyncFunctionDef: ("a nested function", "move it to the module, with @triton.jit"),
    ast.ClassDef: ("a class", "move it to the module"),
    ast.Dict: ("a dict", "pass constexpr parameters, or a tuple"),
    ast.Set: ("a set", "use a tuple"),
    ast.DictComp: ("a dict comprehension", "use tl.static_range"),
    ast.SetComp: ("a set comprehension", "use tl.static_range"),
    ast.GeneratorExp: ("a generator", "use tl.static_range"),
    ast.Break: ("break", "loop with while and a flag, or mask the rest"),
    ast.Continue: ("continue", "put the rest of the body under if, or mask it"),
    ast.Global: ("global", "pass it as a parameter"),
    ast.Nonlocal: ("nonlocal", "pass it as a parameter"),
    ast.Delete: ("del", "remove it"),
    ast.Import: ("import", "import in the module"),
    ast.ImportFrom: ("import", "import in the module"),
    ast.Yield: ("yield", "store the values"),
    ast.YieldFrom: ("yield", "store the values"),
    ast.Await: ("await", "remove it"),
    ast.Raise: ("raise", "use tl.device_assert, or tl.static_assert for compile-time values"),
    ast.Starred: ("a starred name", "name each value"),
}
_PYTHON = (
    "abs all any bool bytes callable chr complex dict divmod enumerate filter format id input iter map next "
    "open ord pow reversed round set setattr slice sorted str sum super tuple type vars zip"
)
_PYTHON_NAMES = frozenset(_PYTHON.split())
_MATCH = getattr(ast, "Match", None)


_LOOKED_AT = frozenset(
    {
        *_NODES,
        _MATCH,
        ast.Compare,
        ast.Call,
        ast.BinOp,
        ast.For,
        ast.While,
        ast.Return,
        ast.Assign,
        ast.NamedExpr,
        ast.ListComp,
    }
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Nodes that the compiler has no meaning for."""
    candidates = [node for node in device.parents if node.__class__ in _LOOKED_AT]
    nested = any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for node in candidates)
    seen: set[str] = set()
    for node in candidates:
        found = _trouble(device, node)
        if found is None or found[0] in seen:
            continue
        if isinstance(node, (ast.Raise, ast.Continue, ast.Break)) and in_static_branch(device, node):
            continue
        if nested and any(isinstance(outer, (ast.FunctionDef, ast.ClassDef)) for outer in device.ancestors(node)):
            continue
        what, remedy, since = found
        seen.add(what)
        start = (
            _head(device, node)
            if isinstance(node, ast.stmt) and not isinstance(node, (ast.Break, ast.Continue))
            else node
        )
        yield Hit(
            start,
            f"{what} in {device.node.name} does not compile" + (" before Triton 3.9" if since else ""),
            remedy,
            data={"since": since} if since else None,
        )


def _head(device: Device, node: ast.stmt) -> ast.AST | tuple[int, int, int, int]:
    """A simple statement, or the first line of a compound one."""
    if not hasattr(node, "body"):
        return node
    line, column, _, _ = device.module.place(node)
    text = device.module.lines[line - 1].rstrip()
    return line, column, line, len(text) + 1


def _trouble(device: Device, node: ast.AST) -> tuple[str, str, bool] | None:
    """What is wrong with a node, what to do, and whether Triton 3.9 compiles it."""
    plain = _NODES.get(node.__class__)
    if plain is not None:
        if isinstance(node, ast.Starred) and not isinstance(node.ctx, ast.Store):
            return None
        return (*plain, False)
    if isinstance(node, ast.Compare):
        if any(isinstance(item, (ast.In, ast.NotIn)) for item in node.ops):
            return "`in`", "compare with each value, joined by or", False
        if len(node.ops) > 1:
            return "a chained comparison", "write two comparisons, joined by &", True
    elif isinstance(node, ast.Call):
        return _call(device, node)
    elif isinstance(node, ast.BinOp):
        return _operator(device, node)
    elif isinstance(node, (ast.For, ast.While)):
        return _loop(node)
    elif isinstance(node, ast.Return):
        return _return(device, node)
    elif isinstance(node, ast.Assign):
        return _assignment(node)
    elif isinstance(node, ast.NamedExpr):
        return "`:=`", "assign in a statement of its own", True
    elif isinstance(node, ast.ListComp):
        if len(node.generators) > 1:
            return "a nested comprehension", "use tl.static_range", False
        if node.generators[0].ifs:
            return "a condition in a comprehension", "use tl.static_range, with if in it", True
    elif _MATCH is not None and isinstance(node, _MATCH):
        return "match", "use if and elif", False
    return None


def _call(device: Device, node: ast.Call) -> tuple[str, str, bool] | None:
    function = node.func
    if not isinstance(function, ast.Name) or function.id not in _PYTHON_NAMES or function.id in BUILTINS:
        return None
    module, name = device.module, function.id
    if name in device.bindings or name in module.imports or name in module.functions or name in module.constants:
        return None
    if name in module.classes or "import *" in module.text:
        return None
    return (
        f"Python's {name}",
        f"use tl.{name}" if name in ("abs", "sum") else "use a function of triton.language",
        False,
    )


def _operator(device: Device, node: ast.BinOp) -> tuple[str, str, bool] | None:
    if isinstance(node.op, ast.MatMult):
        return "`@`", "use tl.dot", False
    if isinstance(node.op, ast.Pow) and any(
        device.tiles.dims(side) and device.tiles.axes(side) for side in (node.left, node.right)
    ):
        return "`**` on a block", "multiply, or use libdevice's pow", False
    return None


def _loop(node: ast.For | ast.While) -> tuple[str, str, bool] | None:
    if node.orelse:
        return "else after a loop", "put it after the loop", False
    if isinstance(node, ast.For) and not isinstance(node.iter, ast.Call):
        return "a loop over anything but range", "use range, tl.range or tl.static_range", False
    return None


def _return(device: Device, node: ast.Return) -> tuple[str, str, bool] | None:
    """A return under a loop that runs on the device, unless compile-time values alone decide about it."""
    loop = device.loops.get(node)
    if loop is None or in_static_branch(device, node):
        return None
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call):
        call = device.call_of.get(loop.iter)
        if call is not None and call.name == "static_range":
            return None
    return "return inside a loop", "loop with while and a flag", False


def _assignment(node: ast.Assign) -> tuple[str, str, bool] | None:
    if len(node.targets) > 1:
        return "`a = b = value`", "write one assignment for each name", False
    target = node.targets[0]
    if isinstance(target, ast.Subscript):
        return "an assignment to elements", "use tl.where, or tl.store through a pointer", False
    return None


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Where the project supports a Triton that does not compile it."""
    old = [version for version in versions(project.config) if version < CHAINED_COMPARISON]
    if old:
        yield project.confirm(RULE, candidate, f"{candidate.message}, and the project supports {shown(old[0])}")
