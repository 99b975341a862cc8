"""KG410 uncapped-block: a block that grows with a dim, and for which nothing sets a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Rule
from kgate.source.records import Related

if TYPE_CHECKING:
    from kgate.lint.linking import Project, Setting
    from kgate.source.records import Finding

RULE = Rule(
    code="KG410",
    name="uncapped-block",
    severity=WARNING,
    lowered="an error where Triton refuses the size",
    summary="A block is a dim rounded up to a power of two, and nothing keeps the dim small enough for one program.",
    why=(
        "A program holds its block in registers. Beyond some 65,536 elements they spill and the kernel slows down many "
        "times over, and beyond 1,048,576 Triton refuses to compile. A vocabulary of 256,000 is enough."
    ),
    remedy="Cap the block and loop over the rest, or declare how large the dim may be.",
    quiet=(
        "Blocks under `min(...)`; dims whose declared range keeps the block at 65,536 or less; kernels without a "
        "declaration, since most dims that are rounded up are heads and never large."
    ),
    sources=("unslothai/unsloth#7",),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x.float().softmax(dim=-1)

            @triton.jit
            def _softmax(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
                e = tl.exp(x - tl.max(x, axis=0))
                tl.store(y_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 262144)},
            ))
            def softmax(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _softmax[(M,)](x, y, N, BLOCK=triton.next_power_of_2(N))
                                              ^^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
            note="As unsloth#7, before: a vocabulary as one block.",
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
                return x.float().softmax(dim=-1)

            @triton.jit
            def _softmax(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
                e = tl.exp(x - tl.max(x, axis=0))
                tl.store(y_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 16384)},
            ))
            def softmax(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _softmax[(M,)](x, y, N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="As unsloth#7, after: the declared range is the cap; wider rows are the fallback's.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                for start in range(0, n_cols, BLOCK):
                    cols = start + tl.arange(0, BLOCK)
                    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
                    tl.store(y_ptr + row * n_cols + cols, x * 2, mask=cols < n_cols)

            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, N, BLOCK=min(4096, triton.next_power_of_2(N)))
                return y
            """,
        ),
    ),
)

SPILLS = 65536
"""Elements of a block that a program still holds in registers, with 32 warps of 32 lanes and 64 each."""
REFUSED = 2**20
"""Elements of a tensor that Triton refuses to exceed."""


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Compile-time arguments of every launch that are rounded-up dims."""
    for device in project.devices.values():
        seen: set[tuple[int, str]] = set()
        for setting in project.settings(device) if device.kernels else ():
            yield from _declared(setting, project, seen)


def _declared(setting: Setting, project: Project, seen: set[tuple[int, str]]) -> Iterator[Finding]:
    for name, argument in setting.launch.arguments.items():
        key = (id(setting.launch), name)
        if "next_power_of_2" not in argument.form or key in seen:
            continue
        term = setting.term(name)
        witness = None if term is None else project.sizes(setting.declaration).largest(term, SPILLS + 1)
        if term is None or witness is None:
            continue
        seen.add(key)
        declaration = setting.declaration
        refused = witness.value > REFUSED
        happens = f"Triton refuses more than {REFUSED:,}" if refused else f"registers spill beyond {SPILLS:,}"
        yield project.finding(
            RULE,
            setting.launch.path,
            argument.place,
            f"{name} is {witness.value:,} elements at {witness}, as {declaration.name} allows, and {happens}",
            f"cap {name} and loop over the rest, or declare a smaller range",
            severity=ERROR if refused else WARNING,
            symbol=setting.launch.launch.by,
            related=(
                Related(declaration.path, declaration.line, declaration.column, f"{declaration.name} is declared here"),
            ),
        )
