"""KG507 mutates-args-mismatch: a custom operator that says it writes to other arguments than it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, NOTE, Example, Hit, Rule
from kgate.lint.rules.host import _shared

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, Project
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG507",
    name="mutates-args-mismatch",
    severity=ERROR,
    lowered="a note where an argument is listed and nothing writes to it",
    summary="The `mutates_args` of a custom operator are not the arguments that its kernels store to.",
    why=(
        "`torch.compile` reorders and drops operators by what they say that they write. A write that is not listed is "
        "lost or seen too early, silently; one that is listed and never happens costs copies."
    ),
    remedy="List exactly the arguments that are written to.",
    quiet="`mutates_args='unknown'`; arguments that may have been copied or converted first.",
    sources=("axolotl-ai-cloud/axolotl#3788", "pytorch/pytorch#153389"),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            @torch.library.custom_op("mylib::double_out", mutates_args=())
                                                          ^^^^^^^^^^^^^^^
            def double_out(x: torch.Tensor, y: torch.Tensor) -> None:
                _double[(1,)](x, y, x.numel(), BLOCK=1024)
            """,
            note="axolotl#3788 and pytorch#153389, before.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from torch.library import triton_op, wrap_triton

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            @triton_op("mylib::double_out", mutates_args={"x", "y"})
                                            ^^^^^^^^^^^^^^^^^^^^^^^
            def double_out(x: torch.Tensor, y: torch.Tensor) -> None:
                wrap_triton(_double)[(1,)](x, y, x.numel(), BLOCK=1024)
            """,
            note="A note: x is listed and only read.",
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
                i = tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            @torch.library.custom_op("mylib::double_out", mutates_args=("y",))
            def double_out(x: torch.Tensor, y: torch.Tensor) -> None:
                _double[(1,)](x, y, x.numel(), BLOCK=1024)
            """,
            note="axolotl#3788 and pytorch#153389, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            @torch.library.custom_op("mylib::double", mutates_args=())
            def double(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="What is written is new.",
        ),
    ),
)
_MAKERS = frozenset({"torch.library.custom_op", "torch.library.triton_op", "torch._library.triton.triton_op"})


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Operators that list what they write to."""
    if not _MAKERS.intersection(host.decorators):
        return
    for decorator in host.node.decorator_list:
        if isinstance(decorator, ast.Call) and host.module.dotted(decorator.func) in _MAKERS:
            for keyword in decorator.keywords:
                listed = _listed(keyword.value) if keyword.arg == "mutates_args" else None
                if listed is not None:
                    # the keyword itself, as far as ast knows its range
                    yield Hit(
                        keyword,
                        f"mutates_args of {host.name} does not list what it writes to",
                        data={
                            "operator": host.name,
                            "listed": listed,
                            "own": _shared.inplace(host),
                            "used": _otherwise_used(host, listed),
                        },
                    )


def _listed(node: ast.expr) -> list[str] | None:
    """The names in ``mutates_args``; None where they cannot be read."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        values = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
        return [str(value) for value in values] if all(isinstance(value, str) for value in values) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "tuple", "list"):
        return [] if not node.args else None
    return [] if isinstance(node, ast.Dict) and not node.keys else None


def _otherwise_used(host: Host, listed: list[str]) -> list[str]:
    """Listed parameters that something other than a launch is handed, or that get another value."""
    launches = {launch.node for launch in host.launches}
    found = []
    for name in listed:
        for binding in host.bindings.get(name, ()):
            if binding.kind != "parameter" or any(not _is_plain(host, use, launches) for use in binding.uses):
                found.append(name)
                break
    return found


def _is_plain(host: Host, use: ast.Name, launches: set[ast.Call]) -> bool:
    """Whether a use is an argument of a launch, or asks for a size."""
    parent = host.parents.get(use)
    if isinstance(parent, ast.keyword):
        parent = host.parents.get(parent)
    if parent in launches:
        return True
    return isinstance(parent, ast.Attribute) and parent.attr in (
        "shape", "stride", "numel", "dtype", "device", "size", "dim", "ndim", "is_contiguous", "element_size"
    )  # fmt: skip


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Compared with what the launches, here and in functions called, store to."""
    data = candidate.data
    key = (candidate.path, data["operator"])
    found = {**data["own"], **_shared.writes(project, key, project.notes("KG505"))}
    missing = sorted(set(found) - set(data["listed"]))
    if missing:
        yield project.confirm(
            RULE,
            candidate,
            f"{found[missing[0]]} writes to {_names(missing)}, which mutates_args of {data['operator']} does not list",
            f"list {_names(missing)} in mutates_args",
        )
        return
    idle = [name for name in data["listed"] if name not in found and name not in data["used"]]
    if idle and _is_known(project, key):
        yield project.confirm(
            RULE,
            candidate,
            f"mutates_args of {data['operator']} lists {_names(idle)}, which nothing writes to",
            f"take {_names(idle)} out of mutates_args",
            severity=NOTE,
        )


def _names(names: list[str]) -> str:
    return " and ".join(names)


def _is_known(project: Project, key: HostKey) -> bool:
    """Whether every launch of a function is linked to a device function."""
    facts = project.files[key[0]]
    linked = {launch.launch.place for _, launch in project.launches_by.get(key, ())}
    launches = [item for item in facts.launches if item.by == key[1] and item.grid is not None]
    return bool(launches) and all(item.place in linked and not item.spread for item in launches)
