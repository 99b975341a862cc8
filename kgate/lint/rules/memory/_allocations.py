"""Memory that a launcher allocates without values, and the device functions that are handed it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, LinkedLaunch, Project
    from kgate.lint.model.host import Host, LaunchNode
    from kgate.lint.records import Candidate

_HARMLESS = frozenset(
    [
        "shape",
        "dtype",
        "device",
        "ndim",
        "stride",
        "size",
        "numel",
        "dim",
        "element_size",
        "is_contiguous",
        "requires_grad",
        "is_cuda",
        "data_ptr",
    ]
)
"""Attributes of a tensor whose use sets nothing."""


def uninitialised(host: Host, launch: LaunchNode) -> Iterator[tuple[str, str, ast.Call]]:
    """Arguments of a launch that are names bound to ``torch.empty`` alone, with nothing done to them before: the
    argument's name or position, the local name, and the allocation."""
    arguments: list[tuple[str, ast.expr]] = []
    for index, value in enumerate(launch.node.args):
        if isinstance(value, ast.Starred):
            break
        arguments.append((str(index), value))
    arguments += [(keyword.arg, keyword.value) for keyword in launch.node.keywords if keyword.arg]
    for name, value in arguments:
        if not isinstance(value, ast.Name):
            continue
        found = host.reached.get(value, ())
        if len(found) != 1 or found[0].kind != "assign" or not isinstance(found[0].value, ast.Call):
            continue
        allocation = found[0].value
        if not _is_empty(host, allocation) or found[0].loop is not host.loops.get(host.statement_of(launch.node)):
            continue
        if not any(_touches(host, use, launch) for use in found[0].uses):
            yield name, value.id, allocation


def _is_empty(host: Host, node: ast.Call) -> bool:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "new_empty":
        return True
    return host.module.dotted(function) in ("torch.empty", "torch.empty_like", "torch.empty_strided")


def _touches(host: Host, use: ast.Name, launch: LaunchNode) -> bool:
    """Whether a use may set the memory before the launch."""
    if use.lineno >= launch.node.lineno:
        return False
    parent = host.parents.get(use)
    return not (isinstance(parent, ast.Attribute) and parent.attr in _HARMLESS)


def allocated(project: Project, candidate: Candidate) -> Iterator[tuple[LinkedDevice, LinkedLaunch, str]]:
    """The launches that are handed an allocation, each with its parameter there."""
    data = candidate.data
    for device, launch in project.launches_by.get((candidate.path, data["by"]), ()):
        if launch.launch.place[0] != data["line"]:
            continue
        for parameter, argument in launch.arguments.items():
            if argument.name == data["argument"]:
                yield device, launch, parameter
