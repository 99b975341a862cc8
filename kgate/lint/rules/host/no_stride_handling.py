"""KG502 no-stride-handling: a launch is told nothing of a tensor's strides, and nothing ensures them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, Example, Rule
from kgate.source.records import Related

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project, Setting
    from kgate.lint.model.envelope import Scope, View
    from kgate.source.records import Finding

RULE = Rule(
    code="KG502",
    name="no-stride-handling",
    severity=ERROR,
    summary=(
        "A kernel reads or writes a tensor of several axes, is told none of its strides, and nothing "
        "makes it contiguous."
    ),
    why=(
        "The kernel counts on the elements lying one after the other. For a slice, a transposed or an expanded tensor "
        "it reads the wrong ones, or memory beyond the tensor, and returns wrong numbers without an error."
    ),
    remedy="Pass the strides, call `.contiguous()` in the launcher, or declare `layout='contiguous'`.",
    quiet=(
        "A declared layout without gaps, which the dispatch guarantees; `.contiguous()`, a check of the layout or a "
        "decorator that does so, here or in every caller; kernels without a declaration."
    ),
    sources=("NVIDIA/TransformerEngine#2746",),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < M * N) * 2, mask=i < M * N)

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
                M, N = x.shape
                y = torch.empty((M, N), device=x.device, dtype=x.dtype)
                _double[(triton.cdiv(M * N, 1024),)](x, y, M, N, BLOCK=1024)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
            note="An error: rows of x may have gaps, as the envelope says.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < M * N) * 2, mask=i < M * N)

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                    outputs={"y": Tensor("M N", "float32")},
                    dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
                ),
            )
            def double(x):
                M, N = x.shape
                y = torch.empty((M, N), device=x.device, dtype=x.dtype)
                _double[(triton.cdiv(M * N, 1024),)](x, y, M, N, BLOCK=1024)
                return y
            """,
            note="The declared layout keeps other tensors away.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _add(x_ptr, y_ptr, z_ptr, stride_m, stride_n, N, BLOCK: tl.constexpr):
                m, n = tl.program_id(0), tl.arange(0, BLOCK)
                x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=n < N)
                y = tl.load(y_ptr + m * N + n, mask=n < N)
                tl.store(z_ptr + m * N + n, x + y, mask=n < N)

            def add(x, y):
                y = y.contiguous()
                z = torch.empty(x.shape, device=x.device, dtype=x.dtype)
                _add[(y.shape[0],)](x, y, z, x.stride(0), x.stride(1), y.shape[1], BLOCK=1024)
                return z
            """,
        ),
    ),
)
_GAPLESS = ("contiguous", "dense", "channels_last")


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Launches whose tensors have several axes and no strides among the arguments."""
    for device in project.devices.values():
        if device.summary.framework not in ("triton", "gluon"):
            continue
        pointers = [*dict.fromkeys((*device.summary.loads, *device.summary.stores, *device.summary.atomics))]
        if not pointers:
            continue
        if device.kernels:
            yield from _declared(project, device, pointers)


# Declared


def _declared(project: Project, device: LinkedDevice, pointers: list[str]) -> Iterator[Finding]:
    seen: set[tuple[int, str]] = set()
    for setting in project.settings(device):
        for pointer in pointers:
            view = _open(project, setting, pointer)
            if view is None or (id(setting.launch), pointer) in seen:
                continue
            seen.add((id(setting.launch), pointer))
            declaration = setting.declaration
            layout = declaration.envelope.tensors()[view.name].layout
            yield project.finding(
                RULE,
                setting.launch.path,
                setting.launch.launch.place,
                f"the envelope of {declaration.name} promises layout {layout} for {view.name}; "
                f"the launch of {device.summary.name} passes no stride of it",
                f"pass the strides of {view.name}, make it contiguous, or declare layout='contiguous' for it",
                severity=ERROR,
                symbol=setting.launch.launch.by,
                related=(Related(declaration.path, declaration.line, declaration.column, "declared here"),),
            )


def _open(project: Project, setting: Setting, pointer: str) -> View | None:
    """What a pointer stands for, where it is an input with strides that the envelope leaves open and nothing passes."""
    from kgate.lint.model.envelope import View

    view = setting.value(pointer)
    if not isinstance(view, View) or not view.name or view.strides is None or view.sizes is None:
        return None
    spec = setting.declaration.envelope.tensors().get(view.name)
    if spec is None or spec.layout in _GAPLESS or setting.launch.launch.spread:
        return None
    wanted = {
        stride.text
        for size, stride in zip(view.sizes, view.strides, strict=False)
        if stride is not None and stride.text.startswith("stride(") and (size is None or size.number != 1)
    }
    if not wanted or any(_names(setting, parameter) & wanted for parameter in setting.launch.arguments):
        return None
    if any("stride" in argument.text for argument in setting.launch.arguments.values() if argument.form == "?"):
        return None
    return None if _is_minded(project, setting.scope, view.name) or not _allows_gaps(project, setting, wanted) else view


def _names(setting: Setting, parameter: str) -> frozenset[str]:
    term = setting.term(parameter)
    return frozenset() if term is None else term.names


def _is_minded(project: Project, scope: Scope | None, name: str) -> bool:
    """Whether a function on the way makes the tensor contiguous, or looks at its layout."""
    from kgate.lint.model.envelope import View

    notes = project.notes("KG504")
    while scope is not None:
        note = notes.get(scope.host, {})
        if note.get("decorated"):
            return True
        for parameter in note.get("seen", ()):
            value = scope.parameter(parameter)
            if isinstance(value, View) and value.name == name:
                return True
        scope = scope.outer
    return False


def _allows_gaps(project: Project, setting: Setting, wanted: set[str]) -> bool:
    """Whether the conditions allow one of the strides to be larger than that of a tensor without gaps."""
    sizes = project.sizes(setting.declaration)
    values = {name: min(max(low, 2), high) for name, (low, high) in sizes.ranges.items()}
    if not sizes.allows(values):
        return not any("stride" in condition for condition in setting.declaration.envelope.where)
    for name in wanted:
        usual = sizes.usual.get(name)
        try:
            gap = {**values, name: 64 if usual is None else usual.evaluate(values) * 2}
        except (KeyError, ZeroDivisionError):
            continue
        if sizes.allows(gap):
            return True
    return False
