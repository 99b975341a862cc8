"""KG213 grid-axis-limit: an axis of a launch grid that the envelope lets grow beyond what the hardware counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, NOTE, Example, Rule
from kgate.source.records import Related

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, LinkedLaunch, Project, Setting
    from kgate.lint.model.envelope import Term, Witness
    from kgate.source.records import Finding

RULE = Rule(
    code="KG213",
    name="grid-axis-limit",
    severity=ERROR,
    lowered="a note where no declaration bounds the axis",
    summary="A grid has more than 65,535 programs along axis y or z for sizes that the envelope allows.",
    why=(
        "CUDA counts to 2**31 - 1 along axis x and only to 65,535 along y and z. The launch fails with `invalid "
        "argument`, for the first batch or sequence that is long enough."
    ),
    remedy="Put the large axis first, fold it into axis x, or declare a `where` condition that keeps it below 65,536.",
    quiet=(
        "Axes that the declared dims and `where` conditions keep in range; kernels for AMD alone. Without "
        "a declaration only an axis that counts all elements of a tensor, or the rows of all batches, is noted."
    ),
    sources=(
        "fla-org/flash-linear-attention#172",
        "fla-org/flash-linear-attention#1077",
        "fla-org/flash-linear-attention#1097",
        "triton-lang/triton#3299",
        "NVIDIA/apex#411",
    ),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(1).to(tl.int64)
                cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * n_cols + cols, x * 2, mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 2**20), "N": Dim(1, 65536)},
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(triton.cdiv(N, 1024), M)](x, y, N, BLOCK=1024)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
            note="flash-linear-attention#172, triton#3299 and apex#411, before: rows along axis y.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(q):
                return q * 2

            @triton.jit
            def _double(q, o, T, D: tl.constexpr, BT: tl.constexpr):
                i_t, i_bh = tl.program_id(0), tl.program_id(1)
                p_q = tl.make_block_ptr(q + i_bh.to(tl.int64) * T * D, (T, D), (D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                p_o = tl.make_block_ptr(o + i_bh.to(tl.int64) * T * D, (T, D), (D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                tl.store(p_o, tl.load(p_q, boundary_check=(0,)) * 2, boundary_check=(0,))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"q": Tensor("B H T D", "bfloat16", layout="contiguous")},
                outputs={"o": Tensor("B H T D", "bfloat16")},
                dims={"B": Dim(1, 4096), "H": Dim(1, 64), "T": Dim(1, 8192), "D": Dim(64, 64)},
                where=("B * H <= 2**17",),
            ))
            def double(q):
                B, H, T, D = q.shape
                o = torch.empty_like(q)
                grid = lambda meta: (triton.cdiv(T, meta["BT"]), B * H)
                _double[grid](q, o, T, D=D, BT=64)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return o
            """,
            note="flash-linear-attention#1077 and #1097, before: batch times heads along axis y.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(1).to(tl.int64)
                cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * n_cols + cols, x * 2, mask=cols < n_cols)

            def double(x):
                rows = x.view(-1, x.shape[-1])
                y = torch.empty_like(rows)
                _double[(triton.cdiv(rows.shape[1], 1024), rows.shape[0])](rows, y, rows.shape[1], BLOCK=1024)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return y.view(x.shape)
            """,
            note="Without a declaration, a note: every token of every batch along axis y.",
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
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * n_cols + cols, x * 2, mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 2**20), "N": Dim(1, 65536)},
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M, triton.cdiv(N, 1024))](x, y, N, BLOCK=1024)
                return y
            """,
            note="flash-linear-attention#172, triton#3299 and apex#411, after: rows along axis x.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(1).to(tl.int64)
                cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * n_cols + cols, x * 2, mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("B T N", "float32", layout="contiguous")},
                outputs={"y": Tensor("B T N", "float32")},
                dims={"B": Dim(1, 64), "T": Dim(1, 8192), "N": Dim(1, 65536)},
                where=("B * T < 2**16",),
            ))
            def double(x):
                y = torch.empty_like(x)
                B, T, N = x.shape
                _double[(triton.cdiv(N, 1024), B * T)](x, y, N, BLOCK=1024)
                return y
            """,
            note="flash-linear-attention#1077 and #1097, after: declared, and what exceeds it is the fallback's.",
        ),
    ),
)

LIMIT = 65536
"""Programs along axis y or z that are one too many."""
TRIALS = (1024, 128, 16)
"""Values to try for a compile-time constant of which nothing is known; the axis has to be too long with each."""
_WHOLE = re.compile(r"[A-Za-z_]\w*\.numel\(\)|(contiguous\()?view\(\w+, \(-1\), [^()]*\)\)?\.shape\[0\]")
"""Forms that count all elements of a tensor, or all rows of one whose leading axes are flattened."""
_AXES = "xyz"


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Axes y and z of every launch that is linked to a declaration, and those of others that are plainly too long."""
    for device in project.devices.values():
        if device.kernels:
            if not device.targets or any(target.startswith("cuda") for target in device.targets):
                yield from _declared(device, project)
        else:
            for launch in device.launches:
                yield from _undeclared(launch, project)


def _declared(device: LinkedDevice, project: Project) -> Iterator[Finding]:
    seen: set[tuple[int, int]] = set()
    for setting in project.settings(device):
        grid = setting.launch.launch.grid or ()
        for axis in range(1, len(grid)):
            if (id(setting.launch), axis) in seen:
                continue
            judged = _too_long(setting, axis, project)
            if judged is not None:
                seen.add((id(setting.launch), axis))
                yield _reported(setting, axis, *judged, project)


def _too_long(setting: Setting, axis: int, project: Project) -> tuple[Witness, Term] | None:
    last = None
    for constants in setting.constants(TRIALS):
        term = setting.axis(axis, constants)
        witness = project.sizes(setting.declaration).largest(term, LIMIT) if term is not None else None
        if term is None or witness is None:
            return None
        last = last or (witness, term)
    return last


def _reported(setting: Setting, axis: int, witness: Witness, term: Term, project: Project) -> Finding:
    launch, declaration = setting.launch, setting.declaration
    known = "next_power_of_2" not in term.text and len(term.text) < 100
    device = setting.device.summary.name
    return project.finding(
        RULE,
        launch.path,
        launch.launch.place,
        f"axis {_AXES[axis]} of the grid of {device} ends at 65,535 programs, and {declaration.name} allows {witness}, "
        f"which needs {witness.value:,}",
        "put this axis first, or declare " + (f'where=("{term.text} < 2**16",)' if known else "smaller dims"),
        symbol=launch.launch.by,
        related=(
            Related(declaration.path, declaration.line, declaration.column, f"{declaration.name} is declared here"),
        ),
    )


def _undeclared(launch: LinkedLaunch, project: Project) -> Iterator[Finding]:
    for axis, form in enumerate(launch.launch.grid or ()):
        if axis and _WHOLE.fullmatch(form):
            yield project.finding(
                RULE,
                launch.path,
                launch.launch.place,
                f"axis {_AXES[axis]} of the grid of {launch.device.name} ends at 65,535 programs, and counts "
                + ("all elements of a tensor" if form.endswith("numel()") else "the rows of all batches"),
                "put this axis first, or declare dims that keep it below 65,536",
                severity=NOTE,
                symbol=launch.launch.by,
            )
