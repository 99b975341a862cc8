"""KG418: Triton API that a supported version does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model import triton_api as api
from kgate.lint.model.module import Module
from kgate.lint.rule import ERROR, FORKS, WARNING, Example, Hit, Rule
from kgate.lint.rules.launch import _api

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG418",
    name="removed-api",
    severity=ERROR,
    lowered="a warning where only newer releases than the oldest that kgate supports lack it, and `triton` is not set",
    except_in=FORKS,
    summary="A function, module or argument of Triton that a version supported by the project does not have.",
    why=(
        "Triton drops and renames API between minor versions, and a device function meets that only when it is first "
        "compiled on a machine with the other version; a module that is gone stops the import of the whole package."
    ),
    remedy="Use what replaced it, or narrow `triton` in the configuration to the versions that have it.",
    quiet=(
        "Files that look at Triton's version, imports under `try`, and branches that compile-time values choose. "
        "Without `triton` in the configuration, 3.6 to 3.9 are meant; one finding per file and change."
    ),
    sources=("bitsandbytes-foundation/bitsandbytes#909", "openai/gpt-oss#137"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def tanh(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, tl.math.tanh(x), mask=i < n)
                                    ^^^^^^^^^^^^^^^
            """,
            note="Moved to libdevice in Triton 3.0.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                start = tl.program_id(0) * BLOCK
                x = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                y = tl.make_block_ptr(y_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
                tl.store(y, tl.load(x, boundary_check=(0,)), boundary_check=(0,))
            """,
            config='triton = ">=3.6"',
            note="Block pointers are gone in Triton 3.9.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def quantize(x_ptr, scale_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                scale = tl.load(scale_ptr)
                tl.store(y_ptr + i, tl.libdevice.llrint(127.0 * (x * scale)), mask=i < n)
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="bitsandbytes#909, before: libdevice has moved twice.",
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl
            from triton.language.extra import libdevice

            @triton.jit
            def tanh(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, libdevice.tanh(x), mask=i < n)
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                start = tl.program_id(0) * BLOCK
                x = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
                y = tl.make_block_ptr(y_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
                tl.store(y, tl.load(x, boundary_check=(0,)), boundary_check=(0,))
            """,
            config='triton = ">=3.6,<3.9"',
            note="The declared range ends before they went.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from triton.language.extra import libdevice

            @triton.jit
            def quantize(x_ptr, scale_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                scale = tl.load(scale_ptr)
                tl.store(y_ptr + i, libdevice.llrint(127.0 * (x * scale)), mask=i < n)
            """,
            note="bitsandbytes#909, after.",
        ),
    ),
)


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """What is gone, and what came late: once for each change in the file."""
    for kind, uses in (("removed", _api.removed(module)), ("added", _api.added(module))):
        for group in _api.grouped(uses):
            first, change = group[0], group[0].change
            same = sum(use.name == first.name for use in group)
            more = f" ({same} such uses in the file)" if same > 1 else ""
            last = None if change.last is None else list(change.last)
            yield Hit(
                first.node,
                first.name,
                change.instead,
                data={"kind": kind, "version": list(change.version), "last": last, "more": more},
            )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Where a supported version does not have it."""
    data = candidate.data
    supported = api.versions(project.config)
    change = api.Change((data["version"][0], data["version"][1]))
    if data["kind"] == "added":
        old = api.lacking(change, supported) if project.config.triton else None
        if old is not None:
            since, oldest = api.shown(change.version), api.shown(old)
            message = f"{candidate.message} came with Triton {since}, and the project supports {oldest}"
            yield project.confirm(
                RULE, candidate, message + data["more"], "raise the lower end of the range, or do without"
            )
        return
    gone = api.affected(change, supported)
    if gone is not None:
        certain = bool(project.config.triton) or change.version <= api.SUPPORTED[0]
        since = f"since Triton {api.shown(change.version)}" if change.version > api.SUPPORTED[0] else "from Triton"
        message = f"{candidate.message} is gone {since}{data['more']}"
        yield project.confirm(RULE, candidate, message, severity=ERROR if certain else WARNING)
