"""KG419: Triton API that a supported version warns about."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model import triton_api as api
from kgate.lint.model.device import Device
from kgate.lint.model.module import Module
from kgate.lint.rule import FORKS, NOTE, Example, Hit, Rule
from kgate.lint.rules.launch import _api

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG419",
    name="deprecated-api",
    severity=NOTE,
    except_in=FORKS,
    summary="A function or argument of Triton that a version supported by the project warns about.",
    why="Triton removes what it deprecates, often one or two minor versions later; then nothing compiles any more.",
    remedy="Use what replaces it.",
    quiet=(
        "Files that look at Triton's version, branches that compile-time values choose, and what KG418 reports. "
        "Without `triton` in the configuration, 3.6 to 3.9 are meant; one finding per file and change."
    ),
    sources=("triton-lang/triton#4496",),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def rows(x_ptr, y_ptr, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.view(tl.load(x_ptr + i), (BLOCK // 2, 2))
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                y = max(tl.load(y_ptr + i), 0.0)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + i, y + tl.ravel(x))
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                start = tl.program_id(0) * BLOCK
                x = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + start + tl.arange(0, BLOCK), tl.load(x))
            """,
            config='triton = ">=3.6,<3.8"',
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.reshape(tl.load(x_ptr + i), (BLOCK // 2, 2))
                y = tl.maximum(tl.load(y_ptr + i), 0.0)
                tl.store(y_ptr + i, y + tl.ravel(x) + max(n, 1))
        """),
    ),
)

_BUILTIN = {"max": "maximum", "min": "minimum"}


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """What warns, once for each change in the file."""
    for group in _api.grouped(_api.deprecated(module)):
        first, change = group[0], group[0].change
        more = f" ({len(group)} such uses in the file)" if len(group) > 1 else ""
        last = None if change.last is None else list(change.last)
        data = {"version": list(change.version), "last": last, "more": more, "gone": first.name == "tl.make_block_ptr"}
        yield Hit(first.node, first.name, change.instead, data=data)
    found = sorted(
        (node for device in module.devices for node in _builtins(device)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    if found:
        name = found[0].func.id  # type: ignore[attr-defined]
        more = f" ({len(found)} such uses in the file)" if len(found) > 1 else ""
        data = {"version": [3, 0], "last": None, "more": more, "gone": False}
        yield Hit(found[0], f"Python's {name} of blocks", f"use tl.{_BUILTIN[name]}", data=data)


def _builtins(device: Device) -> Iterator[ast.Call]:
    """Calls of Python's ``max`` and ``min`` with a block."""
    for call in device.called("maximum", "minimum"):
        function = call.node.func
        if isinstance(function, ast.Name) and function.id in _BUILTIN and function.id not in device.module.imports:
            tiles = [device.tiles.of(argument) for argument in call.node.args]
            if any(tile.dims and tile.axes for tile in tiles):
                yield call.node


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Where a supported version warns."""
    data = candidate.data
    supported = api.versions(project.config)
    if data["gone"] and api.affected(api.BLOCK_POINTERS, supported) is not None:
        return
    last = None if data["last"] is None else (data["last"][0], data["last"][1])
    since = api.affected(api.Change((data["version"][0], data["version"][1]), "", last), supported)
    if since is not None:
        yield project.confirm(
            RULE, candidate, f"{candidate.message} is deprecated in Triton {api.shown(since)}{data['more']}"
        )
