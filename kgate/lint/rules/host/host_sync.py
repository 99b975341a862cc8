"""KG508 host-sync: a launcher waits for the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import NOTE, Example, Hit, Rule
from kgate.lint.rules.host._shared import is_aside, last

if TYPE_CHECKING:
    from kgate.lint.model.host import Host

RULE = Rule(
    code="KG508",
    name="host-sync",
    severity=NOTE,
    summary="A launcher reads a tensor's values on the host, or synchronises with the device.",
    why=(
        "`.item()`, `.tolist()`, `.cpu()` and `synchronize()` wait until everything queued before is "
        "done. The launches "
        "that follow start from an idle device, CUDA graphs cannot capture the call, and "
        "torch.compile breaks the graph."
    ),
    remedy="Pass the tensor to the kernel and read the value there, or take the number from the caller.",
    quiet=(
        "Values that size an allocation, which no launch can know; checks that raise; numbers that "
        "may be given as tensors; branches that return without a launch; tensors that the function "
        "made on "
        "the CPU; tests and benchmarks; functions that launch nothing."
    ),
    sources=("meta-pytorch/tritonbench#477",),
    invalid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _scale(x_ptr, y_ptr, scale, n):
                ...

            def scale(x, factor: torch.Tensor):
                y = torch.empty_like(x)
                _scale[(1,)](x, y, factor.item(), x.numel())
                                   ^^^^^^^^^^^^^
                return y
            """,
            note="tritonbench#477, before.",
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _pool(x_ptr, y_ptr, lengths_ptr, n):
                ...

            def pool(x, lengths):
                longest = int(lengths.max())
                          ^^^^^^^^^^^^^^^^^^
                y = torch.empty_like(x)
                _pool[(triton.cdiv(longest, 64),)](x, y, lengths, longest)
                torch.cuda.synchronize()
                ^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _scale(x_ptr, y_ptr, scale_ptr, n):
                ...

            def scale(x, factor):
                y = torch.empty_like(x)
                _scale[(1,)](x, y, factor, x.numel())
                return y
            """,
            note="tritonbench#477, after: the kernel loads the factor.",
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _compact(x_ptr, y_ptr, offsets_ptr, n):
                ...

            def compact(x, mask):
                offsets = mask.cumsum(0)
                count = offsets[-1].item()
                y = torch.empty(count, device=x.device)
                _compact[(1,)](x, y, offsets, x.numel())
                return y
            """,
            note="The size of the result depends on the values.",
        ),
    ),
)
_READS = frozenset({"item", "tolist", "cpu", "numpy"})
_WAITS = frozenset(
    {"torch.cuda.synchronize", "torch.xpu.synchronize", "torch.npu.synchronize", "torch.accelerator.synchronize"}
)
_REDUCTIONS = frozenset({"max", "min", "sum", "amax", "amin", "any", "all", "mean", "prod", "argmax", "argmin"})
_ALLOCATIONS = frozenset(
    {
        "empty",
        "zeros",
        "ones",
        "full",
        "new_empty",
        "new_zeros",
        "new_ones",
        "new_full",
        "arange",
        "rand",
        "randn",
        "range",
    }
    | {"narrow", "split", "expand", "view", "reshape", "resize_", "repeat_interleave", "empty_strided"}
)
# Tests around checks that are switched on, and around numbers that may be given as tensors.
_CHECKS = re.compile(r"debug|check|validate|verif|assert|is_tensor\(|isinstance\(", re.IGNORECASE)


def _has_comment(host: Host, node: ast.AST) -> bool:
    """Whether a comment stands on the line of a node, or on the one above."""
    line = host.module.place(node)[0]
    above = host.module.lines[line - 2].strip() if line > 1 else ""
    return above.startswith("#") or "#" in host.module.lines[line - 1]


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Reads of values and waits in functions that launch."""
    if not host.launches or is_aside(host.module.path):
        return
    for node, dotted in host.calls:
        function = node.func
        if dotted in _WAITS:
            if _has_comment(host, node):
                continue  # a drain that was put there on purpose, and says why
            yield Hit(
                node,
                f"{host.name} waits for the device with {dotted}()",
                "leave that to whoever measures or reads the result",
            )
        elif isinstance(function, ast.Attribute) and function.attr in _READS:
            if not node.args and _is_tensor(host, function.value) and not _is_needed(host, node):
                yield _read(host, node, function.value)
        elif dotted in ("int", "float", "bool") and len(node.args) == 1 and not node.keywords:
            inner = node.args[0]
            if _is_value(host, inner) and not _is_needed(host, node):
                yield _read(host, node, inner)


def _read(host: Host, node: ast.Call, tensor: ast.expr) -> Hit:
    shown = " ".join(host.module.segment(tensor).split())
    return Hit(
        node,
        f"{host.name} reads {shown if len(shown) < 60 else 'a value'} on the host, which waits for the device",
        "let the kernel read it, or take the number from the caller",
    )


def _is_value(host: Host, node: ast.expr) -> bool:
    """Whether an expression is a tensor's value without being read yet: ``lengths.max()``, ``offsets[-1]``."""
    node = host.value_of(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCTIONS:
        return _is_tensor(host, node.func.value)
    return isinstance(node, ast.Subscript) and host.forms.of(node).startswith("view(") and _is_tensor(host, node.value)


def _is_tensor(host: Host, node: ast.expr, depth: int = 6) -> bool:
    """Whether an expression is surely a tensor on the device: made by torch there, or launched with."""
    node = host.value_of(node)
    if depth == 0:
        return False
    if isinstance(node, ast.Call):
        dotted = host.module.dotted(node.func)
        if dotted.startswith("torch.") and dotted.count(".") == 1:
            name = last(dotted)
            if name in ("tensor", "as_tensor", "from_numpy", "device", "Size", "Generator", "finfo", "iinfo"):
                return False
            made = [_is_tensor(host, item, depth - 1) for item in node.args[:1]]
            return any(made) or any(item.arg == "device" and not _is_cpu(item.value) for item in node.keywords)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("cpu", "numpy", "tolist", "item", "stride", "size", "numel", "dim", "get", "pop"):
                return False
            if node.func.attr == "to" and any(_is_cpu(item) for item in node.args):
                return False
            return _is_tensor(host, node.func.value, depth - 1)
        return False
    if isinstance(node, ast.Subscript):
        return _is_tensor(host, node.value, depth - 1)
    if isinstance(node, (ast.BinOp, ast.Compare)):
        left = node.left
        return _is_tensor(host, left, depth - 1)
    if isinstance(node, ast.Name):
        return _is_launched(host, node)
    return False


def _is_cpu(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_launched(host: Host, node: ast.Name) -> bool:
    """Whether a parameter is handed to a launch as a tensor, or has a tensor's annotation."""
    found = host.reached.get(node, ())
    if len(found) != 1 or found[0].kind != "parameter":
        return False
    annotation = host.parameters[node.id].annotation if node.id in host.parameters else None
    if annotation is not None:
        return "Tensor" in ast.unparse(annotation) and "ist[" not in ast.unparse(annotation)
    launches = {launch.node for launch in host.launches}
    return any(_shows_tensor(host.parents.get(use), launches) for use in found[0].uses)


def _shows_tensor(parent: ast.AST | None, launches: set[ast.Call]) -> bool:
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("shape", "stride", "device", "dtype")
    return parent in launches


def _is_needed(host: Host, node: ast.AST) -> bool:
    """Whether a value sizes an allocation, or only decides whether to raise."""
    child: ast.AST = node
    for outer in host.ancestors(node):
        if isinstance(outer, ast.Assert):
            return True
        if isinstance(outer, ast.If):
            if child is outer.test and any(isinstance(item, ast.Raise) for item in outer.body):
                return True
            if child is not outer.test and (_CHECKS.search(ast.unparse(outer.test)) or _leaves(host, outer.body)):
                return True
        if isinstance(outer, ast.Call) and _allocates(host, outer):
            return True
        if isinstance(outer, ast.Raise):
            return True
        child = outer
    for binding in host.bound_to.get(host.parents.get(node, node), []) + host.bound_to.get(node, []):  # type: ignore[call-overload]
        if any(_sizes(host, use) for use in binding.uses):
            return True
    return False


def _leaves(host: Host, body: list[ast.stmt]) -> bool:
    """Whether a block returns without launching."""
    if not isinstance(body[-1], ast.Return):
        return False
    first, last_line = body[0].lineno, body[-1].end_lineno or 0
    return not any(first <= launch.node.lineno <= last_line for launch in host.launches)


def _sizes(host: Host, use: ast.Name, depth: int = 3) -> bool:
    """Whether a use of a name sizes an allocation or decides whether to raise, by itself or under another name."""
    for outer in host.ancestors(use):
        if isinstance(outer, ast.Call) and _allocates(host, outer):
            return True
        if isinstance(outer, ast.Subscript):
            return not isinstance(host.parents.get(outer), ast.Call)  # a slice, and not the grid of a launch
        if isinstance(outer, ast.stmt):
            if isinstance(outer, ast.Assert) or (isinstance(outer, ast.If) and isinstance(outer.body[0], ast.Raise)):
                return True
            if isinstance(outer, ast.Assign) and depth:
                for target in outer.targets:
                    if isinstance(target, ast.Name):
                        for binding in host.bindings.get(target.id, ()):
                            if binding.statement is outer and any(
                                _sizes(host, item, depth - 1) for item in binding.uses
                            ):
                                return True
            return False
    return False


def _allocates(host: Host, node: ast.Call) -> bool:
    name = last(host.module.dotted(node.func)) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    return name in _ALLOCATIONS
