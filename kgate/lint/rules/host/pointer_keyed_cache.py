"""KG509 pointer-keyed-cache: results remembered by where a tensor lies, or by its shape alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule
from kgate.lint.rules.host._shared import is_aside
from kgate.source.uses import chain_of

if TYPE_CHECKING:
    from kgate.lint.model.host import Host

RULE = Rule(
    code="KG509",
    name="pointer-keyed-cache",
    severity=WARNING,
    lowered="an error where a launcher returns the cached result",
    summary="Something made from a tensor is kept in a cache under its address, its `id`, or its shape alone.",
    why=(
        "Memory is used again: another tensor comes to lie at the same address with the same shape, and gets the "
        "result of the first. A benchmark that calls with one buffer sees a kernel that takes no time."
    ),
    remedy=(
        "Compute the result, or key the cache by what it depends on; keep the tensor itself in the entry and compare."
    ),
    quiet=(
        "Buffers that are cached by shape and filled on every call; entries with a weak reference; caches"
        " of compiled kernels and of descriptors that hold an address."
    ),
    sources=("flashinfer-ai/flashinfer-bench-starter-kit#21",),
    invalid=(
        Example(
            """
            import torch
            import triton

            _RESULTS = {}

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            def double(x):
                key = (x.data_ptr(), x.shape)
                if key in _RESULTS:
                    return _RESULTS[key]
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel())
                _RESULTS[key] = y
                ^^^^^^^^^^^^^
                return y
            """,
            note="flashinfer-bench-starter-kit#21, before: the last output, for an input that looks the same.",
        ),
        Example(
            """
            import torch
            import triton

            _RESULTS = {}

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            def double(x):
                if x.shape in _RESULTS:
                    return _RESULTS[x.shape]
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel())
                _RESULTS[x.shape] = y
                ^^^^^^^^^^^^^^^^^
                return y
            """,
            note="Every tensor of one shape gets the first one's result.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            _BUFFERS = {}

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            def double(x):
                if x.shape not in _BUFFERS:
                    _BUFFERS[x.shape] = torch.empty_like(x)
                buffer = _BUFFERS[x.shape]
                _double[(1,)](x, buffer, x.numel())
                return buffer.clone()
            """,
            note="flashinfer-bench-starter-kit#21, after: the buffer is filled on every call.",
        ),
    ),
)


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Entries of module-level dictionaries and attributes, whose key is an address or a shape."""
    if is_aside(host.module.path):
        return
    for statement in host.statements:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Subscript) and _outlives(host, target.value):
                kind = _key_of(host, target.slice)
                if kind and _is_result(host, statement.value) and (kind == "address" or _returns(host, target)):
                    by = "its address" if kind == "address" else "the shape of a tensor alone"
                    yield Hit(
                        target,
                        f"{host.name} keeps a result in {chain_of(target.value)} under {by}, "
                        "which another tensor can have",
                        "compute the result, or keep the tensor in the entry and compare it",
                        severity=ERROR if host.launches and _returns(host, target) else "",
                    )


def _outlives(host: Host, node: ast.expr) -> bool:
    """Whether a container lives on after the call: a global, or an attribute of an object."""
    if isinstance(node, ast.Name):
        return node.id not in host.bindings and node.id in host.module.constants
    return isinstance(node, ast.Attribute) and chain_of(node).partition(".")[0] in ("self", "cls", host.node.name)


def _key_of(host: Host, node: ast.expr) -> str:
    """``address``, ``shape`` or nothing: what a key is made of."""
    parts = [host.value_of(node)]
    if isinstance(parts[0], ast.Tuple):
        parts = [host.value_of(item) for item in parts[0].elts]
    found = {_kind(host, part) for part in parts}
    if "address" in found:
        return "address"
    return "shape" if found <= {"shape", "plain"} and "shape" in found else ""


def _kind(host: Host, node: ast.expr) -> str:
    """What one part of a key says: where a tensor lies, what shape it has, or something else."""
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "data_ptr":
            return "address"
        if isinstance(function, ast.Name) and function.id == "id" and "id" not in host.bindings:
            return "address"
        if isinstance(function, ast.Name) and function.id in ("tuple", "str", "int") and len(node.args) == 1:
            return _kind(host, node.args[0])
    form = host.forms.of(node)
    if ".shape" in form or ".numel()" in form:
        return "shape"
    return "plain" if form.endswith((".dtype", ".device")) or isinstance(node, ast.Constant) else ""


def _is_result(host: Host, node: ast.expr) -> bool:
    """Whether a value is a tensor that torch makes here, or that a launch is handed."""
    if any(isinstance(item, ast.Attribute) and item.attr == "ref" for item in ast.walk(node)):
        return False  # a weak reference, by which the entry is checked
    launched = {
        argument.id
        for launch in host.launches
        for argument in (*launch.node.args, *(item.value for item in launch.node.keywords))
        if isinstance(argument, ast.Name)
    }
    for item in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
        if isinstance(item, ast.Name) and item.id in launched:
            return True
        value = host.value_of(item)
        if isinstance(value, ast.Call) and host.module.dotted(value.func).startswith(("torch.", "triton.")):
            return not host.module.dotted(value.func).startswith(("torch.empty", "torch.cuda."))
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MAKES:
            return True
    return False


_MAKES = frozenset({"contiguous", "clone", "to", "transpose", "sum", "max", "permute", "t", "cumsum", "argsort"})


def _returns(host: Host, target: ast.Subscript) -> bool:
    """Whether an entry of the same container is returned before anything is launched."""
    name = chain_of(target.value)
    first = host.launches[0].node.lineno if host.launches else 0
    for statement in host.returns:
        value = statement.value
        if value is not None and statement.lineno < first:
            for node in ast.walk(host.value_of(value)):
                if isinstance(node, (ast.Name, ast.Attribute)) and chain_of(node) == name:
                    return True
    return False
