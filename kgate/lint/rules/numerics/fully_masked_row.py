"""KG303: the softmax of a row that may be masked as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

RULE = Rule(
    code="KG303",
    name="fully-masked-row",
    severity=WARNING,
    summary="A row whose length is loaded may be masked as a whole, and its maximum is subtracted in an exponential.",
    why=(
        "The maximum of a row of `-inf` is `-inf`, and `-inf - -inf` is not a number. Sequences of length 0, padded "
        "rows and windows that hold no key do occur, and one such row poisons what is summed over all rows."
    ),
    remedy=(
        'Take 0 for the maximum where it is `-inf`: `tl.where(m == -float("inf"), 0.0, m)`. A finite value instead of '
        "`-inf` gives every masked key a weight of 1 unless the weights are masked too."
    ),
    quiet="Masks that no loaded value takes part in; finite fillers; kernels that compare anything with `-inf`.",
    default=False,
    off_because=(
        "Whether a row can be masked as a whole is decided by the lengths that arrive; in most kernels a caller, or "
        "the bounds of a loop further out, keep it from happening."
    ),
    sources=("NVIDIA/TensorRT-LLM#17477", "flashinfer-ai/flashinfer#4401", "pytorch/pytorch#133882"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def attend(s_ptr, lengths_ptr, p_ptr, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                length = tl.load(lengths_ptr + tl.program_id(0))
                s = tl.load(s_ptr + cols).to(tl.float32)
                s = tl.where(cols < length, s, float("-inf"))
                p = tl.exp(s - tl.max(s, axis=0))
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(p_ptr + cols, p)
        """,
            note="flashinfer#4401 and pytorch#133882, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def attend(s_ptr, lengths_ptr, p_ptr, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                length = tl.load(lengths_ptr + tl.program_id(0))
                s = tl.load(s_ptr + cols).to(tl.float32)
                s = tl.where(cols < length, s, float("-inf"))
                m = tl.max(s, axis=0)
                m = tl.where(m == float("-inf"), 0.0, m)
                p = tl.exp(s - m)
                tl.store(p_ptr + cols, p)
        """,
            note="flashinfer#4401 and pytorch#133882, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def softmax(s_ptr, p_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                s = tl.load(s_ptr + cols, mask=cols < n, other=float("-inf")).to(tl.float32)
                p = tl.exp(s - tl.max(s, axis=0))
                tl.store(p_ptr + cols, p, mask=cols < n)
        """,
            note="The width of a row is the same for all rows, and above 0.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Exponentials of a row less its own maximum, masked with ``-inf`` by something loaded."""
    if not device.called("max") or _guarded(device):
        return
    for call in device.called("exp", "exp2"):
        value = device.value_of(call.first) if call.first is not None else None
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub):
            continue
        mask = _mask(device, value.left)
        if mask is None or not _is_maximum(device, value.right):
            continue
        loaded = sorted(name for name in device.sources(mask) if name.startswith("load:"))
        if loaded and not _bounded_by_loop(device, call.node, set(loaded)):
            yield Hit(
                call.node,
                f"nan where `{device.module.segment(mask)}`, which depends on {loaded[0][5:]}, holds nowhere in a row",
                "take 0 for the maximum where it is -inf",
                related=((mask, "the mask"),),
            )


def _bounded_by_loop(device: Device, node: ast.AST, loaded: set[str]) -> bool:
    """Whether a loop around it ends where the mask does, so that each turn has something to see."""
    return any(isinstance(loop, ast.For) and loaded & set(device.sources(loop.iter)) for loop in device.ancestors(node))


def _guarded(device: Device) -> bool:
    """Whether anything in the function is compared with ``-inf``."""
    return any(
        _is_minus_infinity(device, item)
        for node in device.nodes(ast.Compare)
        for item in (node.left, *node.comparators)
    )


def _is_minus_infinity(device: Device, node: ast.expr) -> bool:
    node = device.value_of(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        return _is_infinity(inner, "inf") or (isinstance(inner, ast.Name) and "inf" in inner.id.lower())
    return _is_infinity(node, "-inf")


def _is_infinity(node: ast.expr, text: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "float"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == text
    )


def _mask(device: Device, node: ast.expr) -> ast.expr | None:
    """The condition under which a value is not ``-inf``; None for any other value."""
    node = device.value_of(node)
    call = device.call_of.get(node) if isinstance(node, ast.Call) else None
    if call is None:
        return None
    if call.name == "where":
        other = call.argument("y")
        return call.argument("condition") if other is not None and _is_minus_infinity(device, other) else None
    if call.name == "load":
        other = call.argument("other")
        return call.argument("mask") if other is not None and _is_minus_infinity(device, other) else None
    return _mask(device, call.first) if call.name in ("to", "cast") and call.first is not None else None


def _is_maximum(device: Device, node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    node = device.value_of(node)
    call = device.call_of.get(node) if isinstance(node, ast.Call) else None
    if call is None:
        return False
    return call.name == "max" or (call.name == "maximum" and any(_is_maximum(device, item) for item in call.node.args))
