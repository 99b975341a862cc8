"""What the rules about launches share: edits, branches that the compiler decides, and tuners."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kgate.source.records import Edit

if TYPE_CHECKING:
    from kgate.lint.model.device import Decorator, Device
    from kgate.lint.model.module import Module


def edit(module: Module, node: ast.AST, kind: str, text: str = "", name: str = "") -> Edit:
    """An edit of the node."""
    return Edit(kind, *module.place(node), text, name)


def in_static_branch(device: Device, node: ast.AST) -> bool:
    """Whether a node stands in a branch that compile-time values choose, and so may never be compiled."""
    inner = node
    for outer in device.ancestors(node):
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test and static(device, outer.test):
            return True
        inner = outer
    return False


def static(device: Device, test: ast.expr) -> bool:
    """Whether a condition may be decided at compile time: it reads parameters and globals alone. A plain parameter
    may be one that callers give constants for."""
    return not any(source in ("pid", "arange", "loop") or source.startswith("load:") for source in device.sources(test))


def benchmarks(tuner: Decorator) -> bool:
    """Whether a tuner runs the function several times: not where it has one configuration to choose from."""
    configs = tuner.argument("configs", 0)
    if isinstance(configs, (ast.List, ast.Tuple)):
        return len(configs.elts) > 1 or any(isinstance(item, ast.Starred) for item in configs.elts)
    return True
