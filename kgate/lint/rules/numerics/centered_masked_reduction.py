"""KG302: the deviation from a mean, summed over masked elements too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

RULE = Rule(
    code="KG302",
    name="centered-masked-reduction",
    severity=WARNING,
    summary="`x - mean` of a masked load is reduced, and the masked elements are not cleared again.",
    why=(
        "A masked load gives 0 where nothing is; `0 - mean` is not 0. Every masked element adds `mean**2` to the "
        "variance, so that the result is wrong whenever the width is not a multiple of the block, and more so for a "
        "large mean."
    ),
    remedy="Clear the difference: `tl.where(mask, x - mean, 0.0)`.",
    quiet="Differences that pass a `tl.where` or a product with the mask first; loads without a mask.",
    sources=("linkedin/Liger-Kernel#582",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def variance(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                mask = cols < n
                x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
                mean = tl.sum(x, axis=0) / n
                centered = x - mean
                var = tl.sum(centered * centered, axis=0) / n
                             ^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr, var)
        """,
            note="Liger-Kernel#582, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def variance(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                mask = cols < n
                x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
                mean = tl.sum(x, axis=0) / n
                centered = tl.where(mask, x - mean, 0.0)
                var = tl.sum(centered * centered, axis=0) / n
                tl.store(y_ptr, var)
        """,
            note="Liger-Kernel#582, after.",
        ),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def variance(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                x = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float32)
                centered = x - tl.sum(x, axis=0) / BLOCK
                tl.store(y_ptr, tl.sum(centered * centered, axis=0) / BLOCK)
        """),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Sums of a product that has a difference ``masked load - reduction`` in it."""
    for call in device.called("sum"):
        value = call.first
        if value is None:
            continue
        for term in _factors(device, value):
            if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Sub):
                loaded, mean = _masked_load(device, term.left), _reduced(device, term.right)
                if loaded is not None and mean:
                    shown = device.module.segment(term)
                    yield Hit(
                        value,
                        f"`{shown}` is not 0 where the load is masked, and it is summed there too",
                        f"clear it first: tl.where({device.module.segment(loaded)}, {shown}, 0.0)",
                        related=((term, "the difference"),),
                    )
                    break


def _factors(device: Device, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """Factors of a product, names followed and casts looked through; nothing below a ``where``."""
    node = device.value_of(node)
    if depth > 8:
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        kinds = (device.type_of(node.left), device.type_of(node.right))
        if "int1" in kinds:
            return  # multiplied by the mask
        factors = [*_factors(device, node.left, depth + 1), *_factors(device, node.right, depth + 1)]
        if any(_is_masked_product(device, factor) for factor in factors):
            return
        yield from factors
    elif isinstance(node, ast.Call):
        call = device.call_of.get(node)
        if call is not None and call.name in ("to", "cast", "abs") and call.first is not None:
            yield from _factors(device, call.first, depth + 1)
    else:
        yield node


def _is_masked_product(device: Device, node: ast.expr) -> bool:
    """Whether a factor is 0 in the masked elements itself: a load of the same mask."""
    return _masked_load(device, node) is not None


def _masked_load(device: Device, node: ast.expr, depth: int = 0) -> ast.expr | None:
    """The mask of the load that a value is, casts looked through; None for anything else."""
    node = device.value_of(node)
    call = device.call_of.get(node) if isinstance(node, ast.Call) else None
    if call is None or depth > 4:
        return None
    if call.name in ("to", "cast") and call.first is not None:
        return _masked_load(device, call.first, depth + 1)
    return call.argument("mask") if call.name == "load" else None


def _reduced(device: Device, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is made from a sum, through quotients, casts and shapes."""
    node = device.value_of(node)
    if depth > 6:
        return False
    if isinstance(node, ast.Call):
        call = device.call_of.get(node)
        if call is None:
            return False
        return call.name == "sum" or (
            call.name in ("to", "cast", "reshape", "expand_dims", "broadcast_to", "div_rn")
            and call.first is not None
            and _reduced(device, call.first, depth + 1)
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
        return _reduced(device, node.left, depth + 1) or _reduced(device, node.right, depth + 1)
    if isinstance(node, ast.Subscript):
        return _reduced(device, node.value, depth + 1)
    return False
