"""KG504 backward-gradient-layout: a backward pass hands on a gradient as if it were contiguous."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.host import _shared

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, LinkedLaunch, Project
    from kgate.lint.model.device import Device
    from kgate.lint.model.host import Host
    from kgate.lint.records import Argument, Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG504",
    name="backward-gradient-layout",
    severity=WARNING,
    summary="A backward pass launches on a gradient whose layout nothing ensures and whose strides are not passed.",
    why=(
        "Autograd gives whatever layout the consumer had. `y.sum().backward()` gives an expanded "
        "gradient: one element, "
        "every stride 0. A kernel that reads it as contiguous reads beyond that element, and the gradients are garbage "
        "without an error."
    ),
    remedy="Call `.contiguous()` on the gradient first, or pass its strides to the kernel.",
    quiet=(
        "Gradients that are made contiguous, looked at or copied on the way; strides that are passed; decorators that "
        "make arguments contiguous; gradients of one element, of which the kernel loads no other."
    ),
    sources=("Dao-AILab/flash-attention#355", "NVIDIA/apex#1601"),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            class Double(torch.autograd.Function):
                @staticmethod
                def backward(ctx, dy):
                                  ^^
                    dx = torch.empty_like(dy)
                    _double[(triton.cdiv(dy.numel(), 1024),)](dy, dx, dy.numel(), BLOCK=1024)
                    return dx
            """,
            note="flash-attention#355 and apex#1601, before: the kernel took the gradient as it came.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            def double_bwd(dy):
                dx = torch.empty_like(dy)
                _double[(triton.cdiv(dy.numel(), 1024),)](dy, dx, dy.numel(), BLOCK=1024)
                return dx

            class Double(torch.autograd.Function):
                @staticmethod
                def backward(ctx, grad):
                                  ^^^^
                    return double_bwd(grad)
            """,
            note="The launch is in a function that backward calls.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            class Double(torch.autograd.Function):
                @staticmethod
                def backward(ctx, dy):
                    dy = dy.contiguous()
                    dx = torch.empty_like(dy)
                    _double[(triton.cdiv(dy.numel(), 1024),)](dy, dx, dy.numel(), BLOCK=1024)
                    return dx
            """,
            note="flash-attention#355 and apex#1601, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, stride_m, stride_n, N, BLOCK: tl.constexpr):
                m, n = tl.program_id(0), tl.arange(0, BLOCK)
                x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=n < N)
                tl.store(y_ptr + m * N + n, x * 2, mask=n < N)

            class Double(torch.autograd.Function):
                @staticmethod
                def backward(ctx, dy):
                    dx = torch.empty(dy.shape, device=dy.device)
                    _double[(dy.shape[0],)](dy, dx, dy.stride(0), dy.stride(1), dy.shape[1], BLOCK=1024)
                    return dx
            """,
            note="The kernel is told the strides.",
        ),
    ),
)
_DEPTH = 4
_NAMES = re.compile(r"[A-Za-z_]\w*")


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Gradients of a backward pass; of every function, a note of what it does for layouts."""
    decorated = _shared.makes_contiguous(host)
    seen = _shared.looked_at(host)
    if decorated or seen:
        yield Hit(
            host.module.name_place(host.node),
            "",
            data={"host": host.name, "seen": seen, "decorated": decorated},
        )
    if host.autograd == "backward" and not decorated and not _shared.is_aside(host.module.path):
        for name, node in list(host.parameters.items())[1:]:
            if name not in seen and host.bindings[name][0].uses and not _rebound(host, name):
                yield Hit(
                    node,
                    f"{host.name} hands on {name} without ensuring its layout",
                    f"call {name}.contiguous() first, or pass its strides to the kernel",
                    data={"backward": host.name, "gradient": name},
                )


def _rebound(host: Host, name: str) -> bool:
    """Whether another value takes the gradient's name, such as a converted copy."""
    return any(
        binding.value is not None and _shared.same_memory(host.forms.of(binding.value)) != name
        for binding in host.bindings[name]
        if binding.kind != "parameter"
    )


@RULE.device
def scalars(device: Device) -> Iterator[Hit]:
    """Note for the decisions: pointers of which the first element alone is loaded, such as a loss's gradient."""
    alone = {name for call in device.accesses if call.first is not None and (name := device.parameter_of(call.first))}
    if alone:
        for call in device.accesses:
            if call.first is not None and not device.parameter_of(call.first):
                alone -= device.pointers(call.first)
    if alone:
        place = device.module.name_place(device.node)
        yield Hit(place, "", data={"device": device.name, "scalars": sorted(alone)})


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where a launch, here or in a function called with it, loads the gradient and gets "
    "none of its strides."""
    name = candidate.data.get("backward")
    if name is None:
        return
    gradient = candidate.data["gradient"]
    kernel = _handed(project, (candidate.path, name), gradient, _DEPTH)
    if kernel:
        yield project.confirm(
            RULE,
            candidate,
            f"{name} passes {gradient} to {kernel} without its strides and without making it contiguous; "
            "y.sum().backward() gives an expanded gradient, all of whose strides are 0",
        )


def _handed(project: Project, key: HostKey, tensor: str, depth: int) -> str:
    """The kernel that is handed a parameter as it came, with no stride of it; empty where there is none."""
    note = project.notes(RULE.code).get(key, {})
    if note.get("decorated") or tensor in note.get("seen", ()):
        return ""
    for device, launch in project.launches_by.get(key, ()):
        alone = project.notes(RULE.code, "device").get((device.path, device.summary.name), {})
        if _passes(launch, tensor, {*device.summary.loads}.difference(alone.get("scalars", ()))):
            return device.summary.name
    if depth:
        for callee, forms in project.calls_of(key):
            for parameter, form in forms.items():
                if _shared.same_memory(form) == tensor and callee != key:
                    found = _handed(project, callee, parameter, depth - 1)
                    if found:
                        return found
    return ""


def _passes(launch: LinkedLaunch, tensor: str, loads: set[str]) -> bool:
    """Whether a launch loads a tensor as it came and is told none of its strides."""
    if launch.launch.spread:
        return False
    arguments = launch.arguments.items()
    given = [parameter for parameter, argument in arguments if _shared.same_memory(argument.form) == tensor]
    return bool(loads.intersection(given)) and not any(_may_be_stride(item, tensor) for _, item in arguments)


def _may_be_stride(argument: Argument, tensor: str) -> bool:
    """Whether an argument is a stride of a tensor, or of one that is not known."""
    if argument.form == "?":
        return "stride" in argument.text
    owner = argument.form.partition(".stride(")[0]
    return owner != argument.form and tensor in _NAMES.findall(owner)
