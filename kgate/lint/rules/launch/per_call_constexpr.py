"""KG407: a value of each call given as a compile-time constant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project
    from kgate.lint.records import Argument, Parameter
    from kgate.source.records import Finding

RULE = Rule(
    code="KG407",
    name="per-call-constexpr",
    severity=WARNING,
    summary="A launch passes a size that differs from call to call as a `tl.constexpr`.",
    why=(
        "Each new value of a compile-time constant compiles the function anew, which takes from a tenth of a second to "
        "minutes, and keeps one more binary in memory. With a count of tokens or rows that is a compilation per step."
    ),
    remedy="Make it a plain parameter, or round it (`triton.next_power_of_2`) and mask the rest.",
    quiet=(
        "Sizes that the envelope lets take at most 256 values, rounded ones, and of undeclared kernels everything but "
        "whole counts of elements (`x.numel()`) and of rows (`x.shape[0]`)."
    ),
    sources=(
        "triton-lang/triton#10872",
        "triton-lang/triton#8273",
    ),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def scale_kernel(x_ptr, y_ptr, n_rows: tl.constexpr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + i, mask=i < n_cols)
                tl.store(y_ptr + row * n_cols + i, x / n_rows, mask=i < n_cols)

            def scale(x):
                n_rows, n_cols = x.shape
                y = torch.empty_like(x)
                block = triton.next_power_of_2(n_cols)
                scale_kernel[(n_rows,)](x, y, n_rows, n_cols, BLOCK=block)
                                              ^^^^^^
                return y
            """,
            note="triton#10872, before: a compilation for each number of rows.",
        ),
        Example("""
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < N), mask=i < N)

            def eager(x: torch.Tensor) -> torch.Tensor:
                return x.clone()

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "T", layout="contiguous")},
                    outputs={"y": Tensor("M N", "T", layout="contiguous")},
                    dtypes={"T": ("float32",)},
                    dims={"M": Dim(1, 64), "N": Dim(1, 2**16)},
                    targets=("cuda:sm_90",),
                ),
            )
            def copy(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.shape[1] * x.shape[0], BLOCK=1024)
                                                                   ^^^^^^^^^^^^^^^^^^^^^^^
                return y
        """),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def scale_kernel(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + i, mask=i < n_cols)
                tl.store(y_ptr + row * n_cols + i, x / n_rows, mask=i < n_cols)

            def scale(x):
                n_rows, n_cols = x.shape
                y = torch.empty_like(x)
                block = triton.next_power_of_2(n_cols)
                scale_kernel[(n_rows,)](x, y, n_rows, n_cols, BLOCK=block)
                return y
            """,
            note="triton#10872, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, n, D: tl.constexpr):
                row = tl.program_id(0)
                i = tl.arange(0, D)
                tl.store(y_ptr + row * D + i, tl.load(x_ptr + row * D + i))

            def eager(x: torch.Tensor) -> torch.Tensor:
                return x.clone()

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M D", "T", layout="contiguous")},
                    outputs={"y": Tensor("M D", "T", layout="contiguous")},
                    dtypes={"T": ("float32",)},
                    dims={"M": Dim(1, 2**20), "D": Dim(64, 64)},
                    targets=("cuda:sm_90",),
                ),
            )
            def copy(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                copy_kernel[(x.shape[0],)](x, y, x.shape[0], D=x.shape[1])
                return y
            """,
            note="The envelope has one value of D.",
        ),
    ),
)

_MANY = 256
_WHOLE_COUNT = re.compile(r"^(?:[\w.]+|(?:view|contiguous|like)\(.*\))(?:\.shape\[0\]|\.numel\(\))$")
_PLAIN_COUNT = re.compile(r"^[\w.]+(?:\.shape\[0\]|\.numel\(\))$")
_FIXED = re.compile(
    r"weight|table|bias|gamma|beta|expert|group|head|slot|stack|freq|cos|sin\b|^w\d?\b|norm|param|dim|lut|scale|eos|stop",
    re.I,
)
"""Names of tensors whose leading size is the model's, not the call's."""
_STEADY = re.compile(
    r"^(b|bs|bsz|batch\w*|num_batch\w*|n_batch\w*|nb|n?v)$|group|slice|expert|split|vocab|head|class", re.I
)
"""Sizes of the model, and the number of sequences: a run has one value of them."""


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Compile-time parameters of each device function, each at its first launch."""
    for device in project.devices.values():
        chosen = set(device.summary.heuristics)
        if device.summary.autotune is not None:
            chosen.update(device.summary.autotune.configured)
        for parameter in device.summary.parameters:
            if parameter.constexpr and parameter.name not in chosen:
                yield from (
                    _declared(project, device, parameter) if device.kernels else _undeclared(project, device, parameter)
                )


def _declared(project: Project, device: LinkedDevice, parameter: Parameter) -> Iterator[Finding]:
    for setting in project.settings(device):
        term = setting.term(parameter.name)
        given = setting.launch.arguments.get(parameter.name)
        if term is None or given is None or term.number is not None:
            continue
        if re.search(r"\w\(", term.text):
            continue  # rounded, or a stride
        sizes = project.sizes(setting.declaration)
        count = 1
        for name in term.names:
            if name in sizes.choices:
                count *= len(sizes.choices[name])
            else:
                low, high = sizes.range_of(name)
                count *= high - low + 1
        if count > _MANY:
            least = f"{count:,}" if count < 2**40 else "any number of"
            yield _finding(
                project,
                device,
                setting.launch.path,
                setting.launch.launch.by,
                given,
                f"{parameter.name} of {device.summary.name} is a tl.constexpr and gets {term.text}, for which the "
                f"envelope of {setting.declaration.name} allows {least} values: one compilation each",
            )
            return


def _undeclared(project: Project, device: LinkedDevice, parameter: Parameter) -> Iterator[Finding]:
    for launch in device.launches:
        given = launch.arguments.get(parameter.name)
        if given is None or not _WHOLE_COUNT.match(given.form) or "stride" in parameter.name:
            continue
        if _FIXED.search(given.form) or _STEADY.match(given.text) or _STEADY.match(parameter.name):
            continue
        yield _finding(
            project,
            device,
            launch.path,
            launch.launch.by,
            given,
            f"{parameter.name} of {device.summary.name} is a tl.constexpr and gets {_shown(given)}: "
            "one compilation for each value",
        )
        return


def _shown(given: Argument) -> str:
    """An argument as written, and what it counts."""
    if given.form == given.text:
        return given.text
    counted = "all elements" if given.form.endswith("numel()") else "rows"
    return f"{given.text} ({given.form if _PLAIN_COUNT.match(given.form) else f'a count of {counted}'})"


def _finding(project: Project, device: LinkedDevice, path: str, symbol: str, given: Argument, message: str) -> Finding:
    remedy = "make it a plain parameter; a block size is rounded to a power of two, and the true size passed beside it"
    return project.finding(RULE, path, given.place, message, remedy, symbol=symbol)
