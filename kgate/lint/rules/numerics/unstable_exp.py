"""KG304: an exponential of something from which no maximum was subtracted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

RULE = Rule(
    code="KG304",
    name="unstable-exp",
    severity=WARNING,
    summary="The sum of exponentials is taken without subtracting the maximum first.",
    why="`exp` of more than 88 is infinite in float32, and the quotient of two infinities is not a number.",
    remedy="Subtract the row's maximum before `tl.exp`, and add it to the logarithm of the sum.",
    quiet="Exponents that are differences, negations, or products with a constant below zero; sums over nothing.",
    default=False,
    off_because=(
        "Whether the inputs are bounded is seldom visible in the kernel: gates, decays and log-probabilities are at "
        "most 0 by what computed them."
    ),
    sources=("triton-lang/triton#230",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=float("-inf")).to(tl.float32)
                e = tl.exp(x)
                    ^^^^^^^^^
                tl.store(y_ptr + offs, e / tl.sum(e, axis=0), mask=offs < n)
        """,
            note="triton#230, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=float("-inf")).to(tl.float32)
                e = tl.exp(x - tl.max(x, axis=0))
                tl.store(y_ptr + offs, e / tl.sum(e, axis=0), mask=offs < n)
        """,
            note="triton#230, after.",
        ),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
                tl.store(y_ptr + offs, x / (1 + tl.exp(-x)), mask=offs < n)
        """),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Exponentials of loaded values whose result is summed."""
    sums = device.called("sum")
    if not sums:
        return
    for call in device.called("exp", "exp2"):
        value = call.first
        if value is None or not _bare(device, value):
            continue
        if any(_reaches(device, item.first, call.node) for item in sums if item.first is not None):
            shown = device.module.segment(value)
            yield Hit(
                call.node,
                f"the exponential of `{shown}` is summed, and no maximum was subtracted from it",
                f"subtract the maximum: tl.{call.name}({shown} - tl.max({shown}, axis))",
            )


def _bare(device: Device, node: ast.expr) -> bool:
    """Whether a value is loaded, and nothing is subtracted from it on the way."""
    node = device.value_of(node)
    if isinstance(node, ast.Call):
        call = device.call_of.get(node)
        if call is not None and call.name in ("to", "cast") and call.first is not None:
            return _bare(device, call.first)
        return call is not None and call.name == "load"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _bare(device, node.left) or _bare(device, node.right)
    return False


def _reaches(device: Device, node: ast.expr, wanted: ast.Call) -> bool:
    node = device.value_of(node)
    return node is wanted or any(child is wanted for child in ast.walk(node))
