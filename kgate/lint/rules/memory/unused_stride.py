"""KG206 unused-stride: a stride is passed, and an access ignores it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.memory.assumed_unit_stride import unchecked

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedLaunch, Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG206",
    name="unused-stride",
    severity=WARNING,
    summary="A stride parameter is never used while the tensor's other strides are, or one access forgets it.",
    why=(
        "The caller passes the stride and believes that any layout is served. The kernel reads the axis as if it had "
        "stride 1 (or no extent at all), so that a transposed or sliced tensor gives wrong results without an error."
    ),
    remedy="Multiply the index by the stride, or remove the parameter and check the layout in the launcher.",
    quiet=(
        "Axes other than the last one, strides that the launcher fixes (its own `torch.empty`, `.contiguous()`, a "
        "literal), parameters whose name begins with `_`, kernels that use none of the tensor's strides, and tensors "
        "that are only accessed through block pointers or helpers."
    ),
    sources=("ModelTC/LightLLM#1467",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def copy(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, N, BLOCK: tl.constexpr):
                                                                    ^^^^^^^^^
                m = tl.program_id(0)
                n = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + m * stride_xm + n * stride_xn, mask=n < N)
                tl.store(y_ptr + m * stride_ym + n, x, mask=n < N)

            def copy_into(x, y):
                copy[(x.shape[0],)](
                    x, y, x.stride(0), x.stride(1), y.stride(0), y.stride(1), x.shape[1], BLOCK=1024
                )
            """,
            note="LightLLM#1467, before: the stride of the output's last axis is passed and ignored.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def twice(x_ptr, y_ptr, stride_xm, stride_xn, N, BLOCK: tl.constexpr):
                m = tl.program_id(0)
                n = tl.arange(0, BLOCK)
                a = tl.load(x_ptr + m * stride_xm + n * stride_xn, mask=n < N, other=0.0)
                b = tl.load(x_ptr + (m + 1) * stride_xm + n, mask=n < N, other=0.0)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + m * N + n, a + b, mask=n < N)
            """,
            note="One of two loads of the same tensor forgets the stride.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def copy(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, stride_yn, N, BLOCK: tl.constexpr):
                m = tl.program_id(0)
                n = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + m * stride_xm + n * stride_xn, mask=n < N)
                tl.store(y_ptr + m * stride_ym + n * stride_yn, x, mask=n < N)
            """,
            note="LightLLM#1467, after.",
        ),
    ),
)

_STRIDE = re.compile(r"stride", re.IGNORECASE)
_OWN_STRIDE = re.compile(r"([A-Za-z_]\w*)\.stride\((-?\d+)\)$")
_AXIS = re.compile(
    r"^(stride_[a-z0-9_]*?)_?([a-z]|\d|\d\d)$|^(\w+_strides?_?)([a-z]{1,2}|\d)$|^(strides?_\w+)_([a-z]{1,6}|\d)$",
    re.IGNORECASE,
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Strides without a use, and accesses without a stride that others of the tensor have."""
    strides = [
        name for name in device.parameters if _STRIDE.search(name) and name not in device.constexprs and name[0] != "_"
    ]
    if not strides:
        return
    used = {name for name in strides if any(item.uses for item in device.bindings.get(name, ()))}
    unused = [
        name
        for name in strides
        if name not in used and tensor_of(name) and any(tensor_of(other) == tensor_of(name) for other in used)
    ]
    if unused:
        first = device.bindings[unused[0]][0].statement
        yield Hit(first, "", data={"strides": unused})
    if used:
        yield from _forgotten(device, used)


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """One finding for the strides of a tensor as it came, of whatever layout that is, that some launch passes."""
    device = project.device(candidate.path, candidate.symbol)
    for launch in device.launches if device is not None else ():
        given = {}
        innermost = _innermost(launch)
        for stride in candidate.data["strides"]:
            argument = launch.arguments.get(stride)
            found = _OWN_STRIDE.match(argument.form) if argument is not None else None
            if found is None or int(found.group(2)) != innermost[found.group(1)]:
                continue  # an outer axis that a kernel leaves out mostly has one element
            if unchecked(project, (launch.path, launch.launch.by), found.group(1)):
                given[stride] = found.group(0)
        if given:
            names, strides = _listed([*given]), _listed([*given.values()])
            are, axis = ("are", "those axes") if len(given) > 1 else ("is", "that axis")
            yield project.confirm(
                RULE,
                candidate,
                f"{names} {are} never used: the kernel ignores the layout of {axis}, and {launch.launch.by} passes "
                f"{strides}",
                "multiply the index by it, or drop the parameter and check the layout in the launcher",
            )
            return


def _innermost(launch: LinkedLaunch) -> dict[str, int]:
    """Tensors to the last axis of which a launch passes the stride."""
    last: dict[str, int] = {}
    for argument in launch.arguments.values():
        found = _OWN_STRIDE.match(argument.form)
        if found is not None:
            name, axis = found.group(1), int(found.group(2))
            last[name] = axis if axis == -1 else max(axis, last.get(name, axis)) if last.get(name) != -1 else -1
    return last


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def tensor_of(stride: str) -> str:
    """The part of a stride's name that says which tensor it belongs to; empty where it does not say."""
    found = _AXIS.match(stride)
    if found is None:
        return ""
    part = next(group for group in (found.group(1), found.group(3), found.group(5)) if group)
    return part.rstrip("_") if part.rstrip("_").lower() not in ("stride", "strides") else ""


def _forgotten(device: Device, strides: set[str]) -> Iterator[Hit]:
    """Accesses that take an index bare that another access of the same tensor multiplies by a stride."""
    with_stride: dict[tuple[str, int], tuple[str, Call]] = {}
    bare: list[tuple[str, int, ast.expr, Call]] = []
    for call in device.accesses:
        pointers = device.pointers(call.first) if call.first is not None else frozenset()
        if len(pointers) != 1 or call.first is None:
            continue
        pointer = next(iter(pointers))
        for term in device.tiles.terms(call.first):
            if not device.tiles.axes(term):
                continue
            index, stride = _product(device, term, strides)
            if stride:
                with_stride.setdefault((pointer, index), (stride, call))
            elif not isinstance(term, ast.BinOp):
                bare.append((pointer, index, term, call))
    for pointer, index, term, call in bare:
        known = with_stride.get((pointer, index))
        if known is not None and known[1] is not call:
            yield Hit(
                call.node,
                f"the {call.name} of {pointer} takes {device.module.segment(term)} without {known[0]}, which the "
                f"{known[1].name} in line {known[1].node.lineno} multiplies it by",
                f"multiply it by {known[0]} here too",
                related=((known[1].node, f"multiplied by {known[0]} here"),),
            )


def _product(device: Device, term: ast.expr, strides: set[str]) -> tuple[int, str]:
    """The number of an index, and the stride parameter that it is multiplied by."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        for index, factor in ((term.left, term.right), (term.right, term.left)):
            name = device.parameter_of(factor)
            if name in strides:
                return device.tiles.number(index), name
    return device.tiles.number(term), ""
