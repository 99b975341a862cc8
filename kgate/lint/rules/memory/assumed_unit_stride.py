"""KG207 assumed-unit-stride: the kernel takes the outer strides and assumes that the inner one is 1."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule
from kgate.source.records import Related

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, LinkedDevice, LinkedLaunch, Project, Setting
    from kgate.lint.model.device import Device
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG207",
    name="assumed-unit-stride",
    severity=WARNING,
    lowered="an error where the envelope promises other layouts",
    summary="A kernel takes a tensor's outer strides, assumes an inner stride of 1, and nothing ensures it.",
    why=(
        "Passing strides looks as if any layout were served. A transposed tensor, or one whose last axis is a slice "
        "with a step, has another inner stride, and the kernel reads its neighbours' elements without an error."
    ),
    remedy="Pass the inner stride too, call `.contiguous()`, or check it in the launcher; declare the layout.",
    quiet=(
        "A declared layout of `contiguous`, `inner_contiguous` or the like; launchers and callers that call "
        "`.contiguous()`, check a stride or carry a decorator that does; tensors made by the launcher itself."
    ),
    sources=("unslothai/unsloth#10617",),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * x_stride + cols, mask=cols < N)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + row * N + cols, x + x, mask=cols < N)

            def double(x):
                y = x.new_empty(x.shape)
                _double[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=1024)
                return y
            """,
            note="double(x.t()) gives wrong numbers.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * x_stride + cols, mask=cols < N)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + row * N + cols, x + x, mask=cols < N)

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "float32", layout="any")},
                    outputs={"y": Tensor("M N", "float32")},
                    dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
                ),
            )
            def double(x):
                y = x.new_empty(x.shape)
                _double[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=1024)
                return y
            """,
            note="An error: the envelope promises any layout.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _rms_bwd(dy_ptr, x_ptr, dx_ptr, dy_stride, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                mask = cols < N
                dy = tl.load(dy_ptr + row * dy_stride + cols, mask=mask, other=0.0)
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0)
                tl.store(dx_ptr + row * N + cols, dy * x, mask=mask)

            class Norm(torch.autograd.Function):
                @staticmethod
                def backward(ctx, dy):
                    (x,) = ctx.saved_tensors
                    shape = dy.shape
                    dy = dy.reshape(-1, shape[-1])
                    dx = torch.empty_like(x)
                    _rms_bwd[(dy.shape[0],)](dy, x, dx, dy.stride(0), x.stride(0), dy.shape[1], BLOCK=1024)
                    return dx.view(shape)
            """,
            note="unsloth#10617, before: a gradient that was sliced keeps its inner stride through reshape.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * x_stride + cols, mask=cols < N)
                tl.store(y_ptr + row * N + cols, x + x, mask=cols < N)

            def double(x):
                x = x.contiguous()
                y = x.new_empty(x.shape)
                _double[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=1024)
                return y
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * x_stride + cols, mask=cols < N)
                tl.store(y_ptr + row * N + cols, x + x, mask=cols < N)

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "float32", layout="inner_contiguous")},
                    outputs={"y": Tensor("M N", "float32")},
                    dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
                ),
            )
            def double(x):
                y = x.new_empty(x.shape)
                _double[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=1024)
                return y
            """,
            note="The envelope keeps other layouts away.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _rms_bwd(dy_ptr, x_ptr, dx_ptr, dy_stride, x_stride, N, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                mask = cols < N
                dy = tl.load(dy_ptr + row * dy_stride + cols, mask=mask, other=0.0)
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0)
                tl.store(dx_ptr + row * N + cols, dy * x, mask=mask)

            class Norm(torch.autograd.Function):
                @staticmethod
                def backward(ctx, dy):
                    (x,) = ctx.saved_tensors
                    shape = dy.shape
                    dy = dy.reshape(-1, shape[-1]).contiguous()
                    dx = torch.empty_like(x)
                    _rms_bwd[(dy.shape[0],)](dy, x, dx, dy.stride(0), x.stride(0), dy.shape[1], BLOCK=1024)
                    return dx.view(shape)
            """,
            note="unsloth#10617, after.",
        ),
    ),
)

_STRIDE = re.compile(r"stride", re.IGNORECASE)
_DECORATOR = re.compile(r"contiguous|input_guard|ensure|tensor_guard", re.IGNORECASE)
_OWN_STRIDE = re.compile(r"([A-Za-z_]\w*)\.stride\((-?\d+)\)$")
_VIEW = re.compile(r"view\(([A-Za-z_]\w*),")
_DEPTH = 4


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Addresses with a runtime stride on one axis and a bare index on another."""
    strides = {name for name in device.parameters if _STRIDE.search(name) and name not in device.constexprs}
    if not strides:
        return
    seen: dict[str, Hit] = {}
    multiplied: set[str] = set()
    for call in device.accesses:
        pointers = device.pointers(call.first) if call.first is not None else frozenset()
        if len(pointers) != 1 or call.first is None:
            continue
        pointer = next(iter(pointers))
        taken, bare, opaque = _terms(device, call.first, strides)
        if opaque or (not bare and taken):
            multiplied.add(pointer)
        elif bare is not None and taken and pointer not in seen:
            names = [binding.name for binding in device.bound_to.get(bare, ()) if binding.kind == "assign"]
            shown = names[0] if names else device.module.segment(bare)
            seen[pointer] = Hit(
                call.node,
                f"the {call.name} of {pointer} multiplies its outer indices by {', '.join(sorted(taken))} and adds "
                f"{shown} as it is, which is right for an inner stride of 1 alone",
                "pass that stride too, or make the tensor contiguous or check it in the launcher",
                data={"pointer": pointer, "strides": sorted(taken)},
            )
    for pointer, hit in seen.items():
        if pointer not in multiplied:
            yield hit


def _terms(device: Device, address: ast.expr, strides: set[str]) -> tuple[set[str], ast.expr | None, bool]:
    """Strides that terms of an address are multiplied by, a bare term along an axis, and whether a term is unclear."""
    taken: set[str] = set()
    bare: ast.expr | None = None
    opaque = False
    for term in device.tiles.terms(address):
        used = {source.removeprefix("param:") for source in device.sources(term)} & strides
        if used:
            taken |= used
        elif device.tiles.axes(term) and not (isinstance(term, ast.Name) and device.pointers(term)):
            if _counts(device, term):
                bare = term
            else:
                opaque = True
    return taken, bare, opaque


def _counts(device: Device, term: ast.expr) -> bool:
    """Whether a term is an index itself: an arange, not a product with something."""
    return isinstance(term, ast.Call) and term in device.tiles.axes(term)


@RULE.host
def handled(host: Host) -> Iterator[Hit]:
    """Note for the decisions: the parameters that a host function makes contiguous or whose strides it looks at."""
    found = set()
    for node, dotted in host.calls:
        if dotted in (".contiguous", ".is_contiguous") and isinstance(node.func, ast.Attribute):
            found.add(_root(host, node.func.value))
        elif dotted == ".stride" and any(
            isinstance(outer, (ast.Compare, ast.Assert, ast.If)) for outer in _outside(host, node)
        ):
            found.add(_root(host, node.func.value))  # type: ignore[attr-defined]
        elif "contiguous" in dotted.rpartition(".")[2]:
            found |= {_root(host, item) for item in node.args}
    found.discard("")
    extra = host.module.contiguous_decorators
    decorated = any(_DECORATOR.search(name) or name.rpartition(".")[2] in extra for name in host.decorators)
    if (found or decorated) and (host.launches or host.call_nodes):
        yield Hit(
            host.module.name_place(host.node),
            "",
            data={"host": host.name, "handled": sorted(found), "decorated": decorated},
        )


def _outside(host: Host, node: ast.AST) -> Iterator[ast.AST]:
    for outer in host.ancestors(node):
        yield outer
        if isinstance(outer, ast.stmt):
            return


def _root(host: Host, node: ast.expr) -> str:
    """The parameter that a tensor is, or is a view of; the name itself for anything else."""
    form = host.forms.of(node)
    found = re.search(r"[A-Za-z_]\w*(?=[,)]|$)", form)
    if found is not None and found.group() in host.parameters:
        return found.group()
    return node.id if isinstance(node, ast.Name) else ""


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """One finding for a device function and a launcher of it, which lists the other accesses of that kind."""
    device = project.device(candidate.path, candidate.symbol) if "pointer" in candidate.data else None
    if device is None:
        return
    alike = [
        item
        for item in project.files[candidate.path].candidates
        if item.code == RULE.code and item.symbol == candidate.symbol and "pointer" in item.data
    ]
    if alike[0].place != candidate.place:
        return  # told with the first
    groups: dict[HostKey, list[_Verdict]] = {}
    for item in alike:
        verdict = _judged(item, project, device)
        if verdict is not None:
            groups.setdefault((verdict.launch.path, verdict.launch.launch.by), []).append(verdict)
    for first, *others in groups.values():
        line, column = first.launch.launch.place[:2]
        place = first.candidate.place
        yield project.finding(
            RULE,
            candidate.path,
            place,
            first.message,
            first.remedy,
            severity=first.severity,
            symbol=candidate.symbol,
            related=(
                Related(first.launch.path, line, column, "launched here"),
                *(
                    Related(candidate.path, *item.candidate.place[:2], f"{item.candidate.data['pointer']} likewise")
                    for item in others
                ),
            ),
        )


@dataclass(frozen=True)
class _Verdict:
    """What is to be said of one access, and the launch that shows it."""

    candidate: Candidate
    launch: LinkedLaunch
    message: str
    remedy: str
    severity: str = ""


def _judged(candidate: Candidate, project: Project, device: LinkedDevice) -> _Verdict | None:
    """Reported where an envelope promises other layouts; of an undeclared kernel, where nothing on the way checks."""
    pointer, strides = candidate.data["pointer"], candidate.data["strides"]
    settings = project.settings(device)
    for setting in settings:
        root, axes = _strided_input(setting.launch, pointer, strides)
        if root and not _is_handled(project, (setting.launch.path, setting.launch.launch.by), root):
            promised = _promised(setting, pointer, axes)
            if promised:
                name, layout = promised
                return _Verdict(
                    candidate,
                    setting.launch,
                    f"{candidate.message}; the envelope of {setting.declaration.name} promises layout {layout!r} for "
                    f"{name}",
                    f"declare layout='inner_contiguous' for {name}, or pass the inner stride too",
                    ERROR,
                )
    if settings:
        return None
    for launch in device.launches:
        key = (launch.path, launch.launch.by)
        backward = key[1].rpartition(".")[2] == "backward"  # autograd gives gradients of any layout
        root, axes = _strided_input(launch, pointer, strides, views=backward)
        if root and -1 not in axes and (unchecked(project, key, root) or _loose(project, key, root, backward)):
            message = f"{candidate.message}; {launch.launch.by} does not ensure that for {root}"
            return _Verdict(candidate, launch, message, candidate.remedy)
    return None


def _loose(project: Project, key: HostKey, parameter: str, backward: bool) -> bool:
    """Whether a parameter of a backward pass is a gradient that nobody made contiguous."""
    names = [item.name for item in project.hosts[key].parameters] if backward and key in project.hosts else []
    return parameter in names[1:] and not _is_handled(project, key, parameter)


def _strided_input(launch: LinkedLaunch, pointer: str, strides: list[str], views: bool = False) -> tuple[str, set[int]]:
    """The host parameter that is passed as it came, and the axes whose strides are passed with it; else empty.

    With ``views``, what ``reshape`` and ``view`` make of it counts too, as they keep the stride of the last axis.
    """
    argument = launch.arguments.get(pointer)
    if argument is None or launch.host is None:
        return "", set()
    form = argument.form
    viewed = _VIEW.match(form) if views else None
    root = viewed.group(1) if viewed is not None else form
    if root not in {item.name for item in launch.host.parameters}:
        return "", set()
    axes = set()
    for stride in strides:
        given = launch.arguments.get(stride)
        text = given.form.replace(f"{form}.stride(", f"{root}.stride(", 1) if given is not None else ""
        found = _OWN_STRIDE.match(text)
        if found is None or found.group(1) != root:
            return "", set()
        axes.add(int(found.group(2)))
    return root, axes


def _promised(setting: Setting, pointer: str, axes: set[int]) -> tuple[str, str] | None:
    """The input and its layout, where the layout leaves the stride of the only axis that is not passed open."""
    from kgate.contract import Tensor
    from kgate.lint.model.envelope import View

    view = setting.value(pointer)
    if not isinstance(view, View) or not view.name or not view.strides:
        return None
    rest = set(range(len(view.strides))) - {axis % len(view.strides) for axis in axes}
    if len(rest) != 1:
        return None
    stride = view.strides[rest.pop()]
    spec = setting.declaration.envelope.inputs.get(view.name)
    if stride is None or stride.number is not None or not isinstance(spec, Tensor):
        return None
    return (view.name, spec.layout) if stride.text.startswith("stride(") else None


def unchecked(project: Project, key: HostKey, parameter: str, depth: int = _DEPTH) -> bool:
    """Whether a tensor reaches a host function from outside with nobody looking at its strides."""
    if _is_handled(project, key, parameter) or depth == 0:
        return False
    callers = project.callers.get(key, ())
    if not callers:
        return key[1].rpartition(".")[2] not in ("backward", "setup_context")
    return any(
        forms.get(parameter) in {item.name for item in project.hosts[caller].parameters}
        and unchecked(project, caller, forms[parameter], depth - 1)
        for caller, forms in callers
        if caller in project.hosts
    )


def _is_handled(project: Project, key: HostKey, parameter: str) -> bool:
    notes = project.notes(RULE.code).get(key)
    return notes is not None and bool(notes["decorated"] or parameter in notes["handled"])
