"""Shapes that a docstring states: ``q (torch.Tensor): queries of shape `[B, T, H, K]```."""

from __future__ import annotations

import ast
import re

from kgate.lint.init.values import Evidence

_SECTION = re.compile(r"^\s*(?::param\s+)?[`*]*(\w+)[`*]*\s*(?:\([^)]*\)|:\s*[\w.\[\], |]*)?\s*:?")
_SHAPE = re.compile(
    r"(?:shape[sd]?\s*(?:of|is|:|=)?\s*|^\s*\w+\s*(?:\([^)]*\))?\s*:\s*)[`'\"]*[\[(]([^\])]*)[\])]", re.IGNORECASE
)
_AXIS = re.compile(r"^(?:[A-Za-z_]\w*|\d+|[A-Za-z_]\w*\s*\+\s*1)$")


def documented_shapes(
    path: str, node: ast.FunctionDef, parameters: list[str]
) -> dict[str, tuple[tuple[str, ...], Evidence]]:
    """Parameter to the axes that the docstring gives it, where it gives one shape plainly."""
    if not (node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)):
        return {}
    text = node.body[0].value.value
    if not isinstance(text, str):
        return {}
    first = node.body[0].lineno
    found: dict[str, tuple[tuple[str, ...], Evidence]] = {}
    current = ""
    for at, line in enumerate(text.split("\n")):
        if re.match(r"^\s*(returns?|yields?|examples?|raises|notes?)\b", line, re.IGNORECASE):
            current = "" if current or found else current
            if found:
                break
        section = _SECTION.match(line)
        if section is not None and section.group(1) in parameters:
            current = section.group(1)
        if not current or current in found:
            continue
        shape = _SHAPE.search(line)
        if shape is None:
            continue
        axes = tuple(part.strip() for part in shape.group(1).split(",") if part.strip())
        if (
            axes
            and all(_AXIS.match(axis) for axis in axes)
            and not all(axis.islower() and len(axis) > 12 for axis in axes)
        ):
            found[current] = (tuple(axis.replace(" ", "") for axis in axes), Evidence(path, first + at, line.strip()))
    return found
