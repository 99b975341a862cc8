"""KG214 zero-sized-grid: an empty grid for sizes at which there is still something to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Rule
from kgate.source.records import Related

if TYPE_CHECKING:
    from kgate.lint.linking import Project, Setting
    from kgate.lint.model.envelope import Scope
    from kgate.source.records import Finding

RULE = Rule(
    code="KG214",
    name="zero-sized-grid",
    severity=WARNING,
    summary="A grid is empty where a dim is zero, as the envelope allows, and an output with elements stays unwritten.",
    why=(
        "Triton launches nothing where an axis of the grid is zero, and says nothing. An output whose shape does not "
        "have that axis, such as the sums over it, keeps what the memory held before. Launched by hand, CUDA refuses "
        "an empty grid altogether."
    ),
    remedy="Return early for empty inputs, fill the output first, or declare the dim from 1.",
    quiet="Dims declared from 1; launchers that compare a size with zero; outputs that are empty then, or filled "
    "when they are made.",
    sources=("triton-lang/triton-ascend#984",),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.sum(dim=0)

            @triton.jit
            def _sum(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
                rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                for col in range(n_cols):
                    x = tl.load(x_ptr + rows.to(tl.int64) * n_cols + col, mask=rows < n_rows, other=0.0)
                    tl.atomic_add(y_ptr + col, tl.sum(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"M": Dim(0, 65536), "N": Dim(1, 1024)},
            ))
            def total(x):
                M, N = x.shape
                y = torch.empty((N,), device=x.device, dtype=x.dtype)
                _sum[(triton.cdiv(M, 128),)](x, y, M, N, BLOCK=128)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
            note="triton-ascend#984, before: a step with no requests.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.sum(dim=0)

            @triton.jit
            def _sum(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
                rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                for col in range(n_cols):
                    x = tl.load(x_ptr + rows.to(tl.int64) * n_cols + col, mask=rows < n_rows, other=0.0)
                    tl.atomic_add(y_ptr + col, tl.sum(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"M": Dim(0, 65536), "N": Dim(1, 1024)},
            ))
            def total(x):
                M, N = x.shape
                y = torch.zeros((N,), device=x.device, dtype=x.dtype)
                _sum[(triton.cdiv(M, 128),)](x, y, M, N, BLOCK=128)
                return y
            """,
            note="The output is filled first.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.amax(dim=0)

            @triton.jit
            def _max(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
                rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                for col in range(n_cols):
                    x = tl.load(x_ptr + rows.to(tl.int64) * n_cols + col, mask=rows < n_rows, other=0.0)
                    tl.atomic_max(y_ptr + col, tl.max(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 1024)},
            ))
            def largest(x):
                M, N = x.shape
                y = torch.empty((N,), device=x.device, dtype=x.dtype)
                _max[(triton.cdiv(M, 128),)](x, y, M, N, BLOCK=128)
                return y
            """,
            note="The dim is declared from 1.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.sum(dim=0)

            @triton.jit
            def _sum(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
                rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                for col in range(n_cols):
                    x = tl.load(x_ptr + rows.to(tl.int64) * n_cols + col, mask=rows < n_rows, other=0.0)
                    tl.atomic_add(y_ptr + col, tl.sum(x, axis=0))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"M": Dim(0, 65536), "N": Dim(1, 1024)},
            ))
            def total(x):
                M, N = x.shape
                y = torch.empty((N,), device=x.device, dtype=x.dtype)
                if x.numel() == 0:
                    return y.zero_()
                _sum[(triton.cdiv(M, 128),)](x, y, M, N, BLOCK=128)
                return y
            """,
            note="triton-ascend#984, after: the launcher returns early.",
        ),
    ),
)

TRIALS = (128, 16)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Launches that a declaration reaches with a dim that may be zero."""
    for device in project.devices.values():
        seen: set[int] = set()
        for setting in project.settings(device) if device.kernels else ():
            if id(setting.launch) not in seen:
                found = _unwritten(setting, project)
                if found is not None:
                    seen.add(id(setting.launch))
                    yield _reported(setting, *found, project)


def _unwritten(setting: Setting, project: Project) -> tuple[str, str] | None:
    """A dim that makes the grid empty and leaves an output with elements, and the parameter that is stored to."""
    sizes = project.sizes(setting.declaration)
    for dim in [
        name for name, (low, high) in sizes.ranges.items() if low == 0 and name in setting.declaration.envelope.dims
    ]:
        values = {name: min(max(low, 1), high) for name, (low, high) in sizes.ranges.items()} | {dim: 0}
        if sizes.allows(values) and _is_empty(setting, values) and not _minded(setting.scope, values, project):
            for parameter in (*setting.device.summary.stores, *setting.device.summary.atomics):
                if _has_elements(setting, parameter, values):
                    return dim, parameter
    return None


def _is_empty(setting: Setting, values: dict[str, int]) -> bool:
    """Whether some axis of the grid is zero, whatever the compile-time constants are."""
    from kgate.lint.model.envelope import evaluated

    return all(
        any(
            evaluated(setting.axis(axis, constants), values) == 0
            for axis in range(len(setting.launch.launch.grid or ()))
        )
        for constants in setting.constants(TRIALS)
    )


def _has_elements(setting: Setting, parameter: str, values: dict[str, int]) -> bool:
    from kgate.lint.model.envelope import View, evaluated

    value = setting.value(parameter)
    if not isinstance(value, View) or value.name or value.filled:
        return False
    return (evaluated(value.elements, values) or 0) > 0


def _minded(scope: Scope | None, values: dict[str, int], project: Project) -> bool:
    """Whether a function on the way to the launch compares something with zero that is zero here."""
    from kgate.lint.model.envelope import Term, View, evaluated

    while scope is not None:
        host = project.hosts.get(scope.host)
        for form in host.facts.get("not-zero", ()) if host is not None else ():
            value = scope.value(form)
            terms = value if isinstance(value, tuple) else (value.elements if isinstance(value, View) else value,)
            if any(isinstance(term, Term) and evaluated(term, values) == 0 for term in terms):
                return True
        scope = scope.outer
    return False


def _reported(setting: Setting, dim: str, parameter: str, project: Project) -> Finding:
    launch, declaration = setting.launch, setting.declaration
    return project.finding(
        RULE,
        launch.path,
        launch.launch.place,
        f"{declaration.name} allows {dim} = 0, where the grid of {setting.device.summary.name} is empty and what "
        f"{parameter} points to stays unwritten",
        f"return early where {dim} is 0, fill the output first, or declare {dim} from 1",
        symbol=launch.launch.by,
        related=(
            Related(declaration.path, declaration.line, declaration.column, f"{declaration.name} is declared here"),
        ),
    )
