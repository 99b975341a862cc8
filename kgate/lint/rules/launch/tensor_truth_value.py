"""KG415: a tensor where Python wants one truth value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import Device
from kgate.lint.model.module import Module
from kgate.lint.rule import ERROR, FORKS, NOTE, SAFE, Example, Hit, Rule
from kgate.lint.rules.launch._shared import edit
from kgate.source.records import Fix

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG415",
    name="tensor-truth-value",
    severity=ERROR,
    lowered="a note for `and` and `or` between blocks, which Triton deprecates",
    except_in=FORKS,
    summary="A block of values stands as the condition of `if`, `while` or `... if ... else`, or in `and` and `or`.",
    why=(
        "A branch needs one truth value. Triton refuses a block in `if`, `while` and conditional expressions. In `and` "
        "and `or` it still combines blocks element by element, with a warning that this will end, and older versions "
        "refuse chains of them."
    ),
    remedy="Choose with `tl.where`, combine masks with `&` and `|`, or reduce to one value first.",
    quiet=(
        "Single values: parameters, loop variables, sums over all axes, loads through one address. `and` and `or` are "
        "one note per file, in projects that have configured kgate."
    ),
    sources=(
        "linkedin/Liger-Kernel#991",
        "meta-recsys/generative-recommenders#561",
    ),
    fix=SAFE,
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                y = x if x > 0 else 0.0
                         ^^^^^
                tl.store(y_ptr + i, y, mask=i < n)
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def window(x_ptr, y_ptr, low, high, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i >= low and i < high, other=0.0)
                                            ^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + i, x)
            """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def window(x_ptr, y_ptr, low, high, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=(i >= low) & (i < high), other=0.0)
                tl.store(y_ptr + i, x)
            """,
            note="Liger-Kernel#991, before and after.",
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, tl.where(x > 0, x, 0.0), mask=i < n)
        """),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def guarded(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                total = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
                if total > 0 and n > 1:
                    tl.store(y_ptr, total)
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def window(x_ptr, y_ptr, low, high, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=(i >= low) & (i < high), other=0.0)
                tl.store(y_ptr + i, x)
            """,
            note="Liger-Kernel#991, after.",
        ),
    ),
)
_TESTS = (ast.If, ast.While, ast.IfExp)


@RULE.device
def conditions(device: Device) -> Iterator[Hit]:
    """Conditions that are blocks."""
    tests: tuple[ast.If | ast.While | ast.IfExp, ...]
    tests = (*device.nodes(ast.If), *device.nodes(ast.While), *device.nodes(ast.IfExp))
    for node in tests:
        if not isinstance(node.test, ast.Constant) and _block(device, node.test):
            yield _refused(device, node)


@RULE.module
def operators(module: Module) -> Iterator[Hit]:
    """Once in a file the first operator that joins blocks."""
    joined: list[tuple[Device, ast.BoolOp, list[ast.expr]]] = []
    for device in module.devices:
        for node in device.nodes(ast.BoolOp):
            if not isinstance(device.parents.get(node), ast.BoolOp):
                parts = list(_operands(node))
                if not _condition(device, node) and any(_block(device, part) for part in parts):
                    joined.append((device, node, parts))
    if joined:
        yield _joined(sorted(joined, key=lambda item: (item[1].lineno, item[1].col_offset)))


def _refused(device: Device, node: ast.If | ast.While | ast.IfExp) -> Hit:
    kind = {ast.If: "if", ast.While: "while", ast.IfExp: "a conditional expression"}[type(node)]
    shown = device.module.segment(node.test)
    return Hit(
        node.test,
        f"`{shown}` is a block of values, which Triton refuses as the condition of {kind}",
        "choose with tl.where, or reduce it to one value",
    )


def _joined(found: list[tuple[Device, ast.BoolOp, list[ast.expr]]]) -> Hit:
    """One finding for all operators of a file: they are one habit, and one fix."""
    first = found[0][1]
    word, sign = ("and", "&") if isinstance(first.op, ast.And) else ("or", "|")
    more = f" (so do {len(found) - 1} more in the file)" if len(found) > 1 else ""
    edits = tuple(
        edit(device.module, node, "replace", _written(device, node))
        for device, node, parts in found
        if _masks(device, parts)
    )
    fixes = (Fix("Combine masks element by element", True, edits),) if edits else ()
    return Hit(
        first,
        f"`{word}` joins blocks of values{more}, which Triton deprecates",
        f"write {sign}, with parentheses around each comparison",
        severity=NOTE,
        fixes=fixes,
        data={},
    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """A habit that works so far: told to projects that have configured kgate."""
    if project.config.configured:
        yield project.confirm(RULE, candidate)


def _operands(node: ast.BoolOp) -> Iterator[ast.expr]:
    for value in node.values:
        if isinstance(value, ast.BoolOp):
            yield from _operands(value)
        else:
            yield value


def _condition(device: Device, node: ast.expr) -> bool:
    parent = device.parents.get(node)
    return isinstance(parent, _TESTS) and parent.test is node


def _block(device: Device, node: ast.expr) -> bool:
    """Whether a value certainly has more than one element."""
    if isinstance(node, ast.Compare) and any(
        isinstance(item, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for item in node.ops
    ):
        return False
    tile = device.tiles.of(node)
    if not tile.dims or not tile.axes:
        return False
    return not any(_single(axis) for axis in tile.axes) and _certain(device, node)


def _single(axis: ast.Call) -> bool:
    """``tl.arange(0, 1)``."""
    return len(axis.args) == 2 and isinstance(axis.args[1], ast.Constant) and axis.args[1].value == 1


def _certain(device: Device, node: ast.expr) -> bool:
    """Whether each name in a value is a block, or a single value, in all cases; several bindings may differ."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found = device.reached.get(inner, ())
            if len(found) > 1:
                shapes = {bool(device.tiles.of_binding(binding).dims) for binding in found}
                if len(shapes) > 1:
                    return False
    return True


def _masks(device: Device, parts: list[ast.expr]) -> bool:
    """Whether every operand is a comparison that yields a block, so that the operator may be another."""
    return all(isinstance(part, ast.Compare) and _block(device, part) for part in parts)


def _written(device: Device, node: ast.BoolOp) -> str:
    sign = " & " if isinstance(node.op, ast.And) else " | "
    parts = []
    for value in node.values:
        inner = _written(device, value) if isinstance(value, ast.BoolOp) else device.module.segment(value)
        parts.append(f"({inner})")
    return sign.join(parts)
