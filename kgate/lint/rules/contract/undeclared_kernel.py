"""KG101: a launched device function that no declaration reaches."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.rule import ERROR, Example, Rule
from kgate.source.config import Config
from kgate.source.index import Index
from kgate.source.records import DeviceFunction, Finding, Related

RULE = Rule(
    code="KG101",
    name="undeclared-kernel",
    severity=ERROR,
    summary="A device function is launched, and no declared kernel reaches it.",
    why=(
        "Nobody can say for which inputs it may be used, what it has to equal, or what runs otherwise; and no commit "
        "that breaks it is stopped, because it has no cases and no baselines."
    ),
    remedy=(
        "Decorate the launcher with `@kernel(...)`, or, where that is a method, a function that calls it; `kgate init` "
        "writes a draft to complete."
    ),
    quiet=(
        "Files outside `require`, or inside `exclude`. In a repository that has no `[tool.kgate]` all undeclared "
        "kernels are one line together."
    ),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                ^^^^^^^^^^^^^^
                offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
                keep = offs < n
                tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=keep) * 2, mask=keep)

            def double(x, y):
                _double_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        """),
        Example(
            """
            import cutlass.cute as cute

            @cute.kernel
            def copy_kernel(source, target):
                ^^^^^^^^^^^
                ...

            @cute.jit
            def copy(source, target):
                copy_kernel(source, target).launch(grid=[1, 1, 1], block=[128, 1, 1])
        """,
            note="Kernels of other frameworks count too.",
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def double_eager(x):
                return x * 2

            @triton.jit
            def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
                keep = offs < n
                tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=keep) * 2, mask=keep)

            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(1, 2**20)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                y = x.new_empty(x.shape)
                _double_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)

            def double(x, y):
                _double_kernel[(x.numel() // 1024,)](x, y, x.numel(), BLOCK=1024)
        """,
            config='require = ["kernels/**"]\n',
            note="The file is outside `require`.",
        ),
    ),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Launched and unreached device functions, where the project asks for declarations."""
    yield from undeclared(project.index, project.config)


def undeclared(index: Index, config: Config) -> Iterator[Finding]:
    """The findings of an index; none in a repository that has not configured kgate."""
    if not config.configured:
        return
    for device in index.undeclared:
        if not config.excludes(device.path) and config.requires(device.path):
            yield _finding(device)


def _finding(device: DeviceFunction) -> Finding:
    name = device.identity.rpartition("::")[2].rpartition(".")[2]
    place = device.launches[0]
    launcher = place.by.rpartition("::")[2]
    column = device.column + len("def ")
    decorate = f"decorate `{launcher}` with @kernel(reference=..., fallback=..., envelope=...)"
    if "." in launcher:
        decorate = f"declare a function that calls `{launcher}`"  # only functions of a module can be declared
    return Finding(
        code=RULE.code,
        severity=RULE.severity,
        path=device.path,
        line=device.line,
        column=column,
        end_line=device.line,
        end_column=column + len(name),
        message=f"`{name}` is launched by `{launcher}` ({place.path}:{place.line}), and no @kernel reaches it",
        remedy=f"{decorate}, or exclude the file",
        symbol=device.identity,
        name=RULE.name,
        related=(Related(place.path, place.line, place.column, "launched here"),),
    )
