"""KG309: a mask multiplied in where ``tl.where`` belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

RULE = Rule(
    code="KG309",
    name="multiply-by-mask",
    severity=WARNING,
    summary="A floating-point value is multiplied by a mask to clear it.",
    why=(
        "`0 * inf` and `0 * nan` are `nan`: what was to be cleared poisons the whole reduction as soon as a masked "
        "element is not finite, for instance because it is uninitialised or `-inf`."
    ),
    remedy="Choose with `tl.where(mask, value, 0.0)`.",
    quiet="Conditions that mask no load or store; integers; values that a masked load filled with `other`.",
    sources=("flashinfer-ai/flashinfer#4724",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                keep = offs < n
                x = tl.load(x_ptr + offs).to(tl.float32)
                tl.store(y_ptr, tl.sum(tl.exp(x) * keep, axis=0))
                                       ^^^^^^^^^^^^^^^^
                tl.store(x_ptr + offs, x, mask=keep)
        """,
            note="flashinfer#4724, before.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)
                keep = offs < n
                x = tl.load(x_ptr + offs).to(tl.float32)
                tl.store(y_ptr, tl.sum(tl.where(keep, tl.exp(x), 0.0), axis=0))
                tl.store(x_ptr + offs, x, mask=keep)
        """,
            note="flashinfer#4724, after.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Products of a float and the mask of some access of the function."""
    masks = _masks(device)
    if not masks:
        return
    for node in device.nodes(ast.BinOp):
        if isinstance(node.op, ast.Mult):
            for value, mask in ((node.left, node.right), (node.right, node.left)):
                if device.type_of(value).startswith(("float", "bfloat")) and _is_mask(device, mask, masks):
                    if _cleared(device, value, mask):
                        break
                    shown = device.module.segment(mask)
                    yield Hit(
                        node,
                        f"a value is multiplied by the mask `{shown}`, and a masked inf or nan stays",
                        f"write tl.where({shown}, ..., 0.0)",
                    )
                    break


def _masks(device: Device) -> frozenset[str]:
    """The masks of all accesses, as written once names are followed."""
    found = (call.argument("mask") for call in device.accesses)
    return frozenset(ast.dump(_plain(device, mask)) for mask in found if mask is not None)


def _is_mask(device: Device, node: ast.expr, masks: frozenset[str]) -> bool:
    plain = _plain(device, node)
    return isinstance(plain, (ast.Compare, ast.BinOp)) and ast.dump(plain) in masks


def _plain(device: Device, node: ast.expr) -> ast.expr:
    """A value with names followed and added axes (``[:, None]``) taken off."""
    node = device.value_of(node)
    while isinstance(node, ast.Subscript):
        node = device.value_of(node.value)
    return node


def _cleared(device: Device, value: ast.expr, mask: ast.expr) -> bool:
    """Whether a value is loaded under a mask with ``other``, and so finite where it is masked."""
    node = device.value_of(value)
    call = device.call_of.get(node) if isinstance(node, ast.Call) else None
    if call is not None and call.name in ("to", "cast") and call.first is not None:
        return _cleared(device, call.first, mask)
    return call is not None and call.name == "load" and call.argument("other") is not None
