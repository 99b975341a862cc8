"""KG305: an accumulator scaled again on every turn of the loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

_SCALE = re.compile(r"(?:^|_)(?:alpha|beta|scale|scaling|sm_scale|softmax_scale)(?:_|$)")

RULE = Rule(
    code="KG305",
    name="loop-invariant-scale",
    severity=WARNING,
    summary="A running sum is multiplied by the same scale on every turn of the loop.",
    why=(
        "After n turns the first term has been scaled n times: the result is right for one block and wrong for every "
        "longer input, which is how such a kernel passes small tests."
    ),
    remedy="Scale once, after the loop, or scale the new term alone.",
    quiet="Factors that change inside the loop (the rescaling of an online softmax, decays of a recurrence).",
    sources=("flagos-ai/FlagGems#424",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def addmm(a_ptr, b_ptr, c_ptr, alpha, K, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
                for k in range(0, tl.cdiv(K, BLOCK)):
                    acc += tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), input_precision="ieee")
                    acc = acc * alpha
                          ^^^^^^^^^^^
                tl.store(c_ptr + offs, acc)
        """,
            note="FlagGems#424, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def addmm(a_ptr, b_ptr, c_ptr, alpha, K, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
                for k in range(0, tl.cdiv(K, BLOCK)):
                    acc += tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), input_precision="ieee")
                tl.store(c_ptr + offs, acc * alpha)
        """,
            note="FlagGems#424, after.",
        ),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def softmax_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                m = -float("inf")
                total = 0.0
                for start in range(0, n, BLOCK):
                    offs = start + tl.arange(0, BLOCK)
                    x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
                    m_new = tl.maximum(m, tl.max(x, axis=0))
                    scale = tl.exp(m - m_new)
                    total = total * scale + tl.sum(tl.exp(x - m_new), axis=0)
                    m = m_new
                tl.store(y_ptr, total)
        """),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """``acc = acc * scale`` in a loop that also adds to ``acc``, with a parameter named like a scale."""
    for statement in device.statements:
        loop = device.loops.get(statement)
        if loop is None:
            continue
        found = _scaled(statement)
        if found is None:
            continue
        name, factor, node = found
        scale = device.parameter_of(factor)
        if scale and _SCALE.search(scale) and _adds(device, name, loop):
            yield Hit(
                node,
                f"`{name}` is multiplied by {scale} on every turn of the loop",
                f"multiply by {scale} once, after the loop",
            )


def _scaled(statement: ast.stmt) -> tuple[str, ast.expr, ast.AST] | None:
    """Name, factor and place of ``x = x * factor`` or ``x *= factor``."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Mult):
        return (statement.target.id, statement.value, statement) if isinstance(statement.target, ast.Name) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        name, value = statement.targets[0].id, statement.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            for one, other in ((value.left, value.right), (value.right, value.left)):
                if isinstance(one, ast.Name) and one.id == name:
                    return name, other, value
    return None


def _adds(device: Device, name: str, loop: ast.AST) -> bool:
    """Whether the loop adds to the name, and nothing in it starts the name anew."""
    added = False
    for binding in device.bindings.get(name, ()):
        if binding.loop is not loop:
            continue
        if binding.kind == "augmented":
            added = added or isinstance(getattr(binding.statement, "op", None), ast.Add)
        elif binding.kind == "assign" and binding.value is not None:
            names = {node.id for node in ast.walk(binding.value) if isinstance(node, ast.Name)}
            if name not in names:
                return False
            added = added or _is_sum(binding.value)
    return added


def _is_sum(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("dot", "fma")
