"""KG208 offset-precedence: `ptr + start + offs * stride` where `(start + offs) * stride` is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device

RULE = Rule(
    code="KG208",
    name="offset-precedence",
    severity=WARNING,
    summary="A start index is added to an address bare, while the offsets after it are multiplied by the stride.",
    why=(
        "`ptr + start + offs * stride` and `ptr + (start + offs) * stride` are the same for stride 1, which is what "
        "tests use. With any other stride the first reads from the wrong rows."
    ),
    remedy="Put the sum in parentheses: `(start + offs) * stride`.",
    quiet=(
        "Starts that no other access of the kernel multiplies by the stride of the same index, and addresses with an "
        "inner index that the start may belong to."
    ),
    sources=("state-spaces/mamba#537",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def chunk(x_ptr, y_ptr, stride_x, stride_y, T, BLOCK: tl.constexpr):
                start = tl.program_id(0) * BLOCK
                t = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + start + t * stride_x, mask=start + t < T)
                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + (start + t) * stride_y, x, mask=start + t < T)
            """,
            note="mamba#537, before: the start of the chunk is not multiplied by the stride.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def rows(x_ptr, y_ptr, seq_ptr, stride_x, stride_y, T, BLOCK: tl.constexpr):
                begin = tl.load(seq_ptr + tl.program_id(0))
                t = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + begin * stride_x + t * stride_x, mask=t < T)
                tl.store(y_ptr + begin + t * stride_y, x, mask=t < T)
                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def chunk(x_ptr, y_ptr, stride_x, stride_y, T, BLOCK: tl.constexpr):
                start = tl.program_id(0) * BLOCK
                t = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + (start + t) * stride_x, mask=start + t < T)
                tl.store(y_ptr + (start + t) * stride_y, x, mask=start + t < T)
            """,
            note="mamba#537, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def column(x_ptr, y_ptr, stride_x, stride_y, T, BLOCK: tl.constexpr):
                head = tl.program_id(0)
                t = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + head + t * stride_x, mask=t < T)
                tl.store(y_ptr + head * stride_y + t, x, mask=t < T)
            """,
            note="The head is the inner index of one tensor and the outer index of the other.",
        ),
    ),
)


class Address:
    """One access with the terms of its address taken apart."""

    def __init__(self, device: Device, call: Call, address: ast.expr, strides: set[str]) -> None:
        self.call = call
        self.address = address
        tiles = device.tiles
        self.bare: dict[int, ast.expr] = {}
        """Numbers of scalar terms that are multiplied by nothing."""
        self.multiplied: dict[int, set[int]] = {}
        """Number of a runtime factor to the numbers of the terms, along an axis or not, that it multiplies."""
        self.along: dict[int, set[int]] = {}
        """The same, of terms along an axis."""
        self.inner = False
        """Whether a term along an axis is multiplied by nothing."""
        for term in tiles.terms(address):
            product = isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult)
            if not product:
                self.inner |= bool(tiles.axes(term))
                if not tiles.axes(term) and not isinstance(term, ast.Constant):
                    self.bare[tiles.number(term)] = term
                continue
            for index, factor in ((term.left, term.right), (term.right, term.left)):  # type: ignore[attr-defined]
                if device.parameter_of(factor) not in strides:
                    continue
                by = tiles.number(factor)
                for item in tiles.terms(index):
                    self.multiplied.setdefault(by, set()).add(tiles.number(item))
                    if tiles.axes(item):
                        self.along.setdefault(by, set()).add(tiles.number(item))


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Addresses that add a start bare which another access multiplies together with the same index."""
    strides = {name for name in device.parameters if "stride" in name.lower()}
    if len(device.accesses) < 2 or not strides:
        return
    found = [
        Address(device, call, call.first, strides)
        for call in device.accesses
        if call.first is not None and not call.spread
    ]
    if not any(item.along for item in found):
        return
    for one in found:
        for by, indices in one.along.items():
            hit = _slip(device, one, by, indices, found)
            if hit is not None:
                yield hit
                break


def _slip(device: Device, one: Address, by: int, indices: set[int], found: list[Address]) -> Hit | None:
    starts = _starts(device, one)
    if len(starts) != 1 or one.inner:  # they may be the index of an inner axis
        return None
    # A start that is multiplied by this very stride here as well is a base of its own.
    for number in starts - one.multiplied.get(by, set()):
        for other in found:
            for twin, along in other.along.items():
                if (
                    other is not one
                    and along & indices
                    and number in other.multiplied[twin]
                    and number not in other.bare
                ):
                    start = _shown(device, one, number)
                    return Hit(
                        one.address,
                        f"{start} is added without the stride, while the {other.call.name} in line "
                        f"{other.call.node.lineno} multiplies it by the stride together with the same offsets",
                        f"write ({start} + ...) * stride",
                        related=((other.address, f"{start} is multiplied here"),),
                    )
    return None


def _starts(device: Device, one: Address) -> set[int]:
    """Scalar terms that are added bare, products with compile-time constants among them."""
    pointers = {device.tiles.number(term) for term in one.bare.values() if device.pointers(term)}
    blocks = {
        device.tiles.number(term)
        for term in device.tiles.terms(one.address)
        if isinstance(term, ast.BinOp)
        and isinstance(term.op, ast.Mult)
        and not device.tiles.axes(term)
        and "pid" in device.sources(term)
        and not any(source.startswith("param:") for source in device.sources(term))
    }
    return (set(one.bare) | blocks) - pointers


def _shown(device: Device, one: Address, number: int) -> str:
    """The start as it is written in the address: a name where there is one."""
    for node in ast.walk(one.address):
        if isinstance(node, ast.expr) and device.tiles.number(node) == number:
            return device.module.segment(node)
    return "the start"
