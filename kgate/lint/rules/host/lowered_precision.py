"""KG511 lowered-precision: precision is lowered for the whole process, or behind the caller's back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule
from kgate.lint.rules.host._shared import is_aside, root_of

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.host import Host
    from kgate.lint.model.module import Module
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG511",
    name="lowered-precision",
    severity=WARNING,
    lowered="an error where the envelope promises the wider type",
    summary=(
        "A module with kernels lowers the precision of the whole process, or a launcher converts its "
        "inputs to a half type and the result back."
    ),
    why=(
        "A switch such as `allow_tf32` changes every matrix product of the program that imports the module, the "
        "reference that the kernel is compared with included. An input that is quietly made half precision loses 13 of "
        "24 bits, or overflows at 65,504, and the result's dtype hides it."
    ),
    remedy="Leave process-wide switches to the application; take half types as inputs and declare them.",
    quiet=(
        "Tests, benchmarks and code under `if __name__ == '__main__'`; switches that are set back in the "
        "same function; conversions in a branch."
    ),
    sources=("flashinfer-ai/flashinfer-bench-starter-kit#21",),
    invalid=(
        Example(
            """
            import torch
            import triton

            torch.backends.cuda.matmul.allow_tf32 = True
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...
            """,
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _matmul(a_ptr, b_ptr, c_ptr, M, N, K):
                ...

            def matmul(a, b):
                a = a.half()
                    ^^^^^^^^
                b = b.to(torch.float16)
                    ^^^^^^^^^^^^^^^^^^^
                c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=torch.float16)
                _matmul[(1,)](a, b, c, a.shape[0], b.shape[1], a.shape[1])
                return c.float()
            """,
        ),
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T", layout="contiguous")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 4096)},
                ),
            )
            def double(x):
                half = x.bfloat16()
                       ^^^^^^^^^^^^
                y = torch.empty_like(x)
                _double[(1,)](half, y, x.numel())
                return y
            """,
            note="An error: the envelope promises float32.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            if __name__ == "__main__":
                torch.backends.cuda.matmul.allow_tf32 = True
            """,
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _matmul(a_ptr, b_ptr, c_ptr, M, N, K):
                ...

            def matmul_half(a, b):
                c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
                _matmul[(1,)](a, b, c, a.shape[0], b.shape[1], a.shape[1])
                return c
            """,
        ),
    ),
)
_SWITCHES = {
    "torch.backends.cuda.matmul.allow_tf32": (True,),
    "torch.backends.cudnn.allow_tf32": (True,),
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": (True,),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (True,),
    "torch.backends.cuda.matmul.allow_fp16_accumulation": (True,),
    "torch.backends.cuda.matmul.fp32_precision": ("tf32", "bf16"),
    "torch.backends.cudnn.fp32_precision": ("tf32", "bf16"),
    "torch.backends.cudnn.conv.fp32_precision": ("tf32", "bf16"),
    "torch.backends.fp32_precision": ("tf32", "bf16"),
}
_CALLS = {
    "torch.set_float32_matmul_precision": ("high", "medium"),
    "torch.set_default_dtype": ("float16", "bfloat16", "half"),
}
_WORDS = (
    "allow_tf32",
    "reduced_precision_reduction",
    "fp16_accumulation",
    "fp32_precision",
    "set_float32_matmul",
    "set_default_dtype",
)
"""Parts of the names of the switches."""
_HALF = frozenset({"torch.float16", "torch.bfloat16", "torch.half"})
_WIDE = frozenset({"torch.float32", "torch.float"})


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Process-wide switches, in a file that has device functions or launches them."""
    if not any(word in module.text for word in _WORDS) or is_aside(module.path):
        return
    if not module.devices and not any(host.launches for host in module.hosts):
        return
    for statement, function in _statements(module):
        for node, name, value in _settings(module, statement):
            if function is not None and _is_set_back(module, function, name):
                continue
            yield Hit(
                node,
                f"{name} is set to {value} for the whole process",
                "leave that to the application, and give the precision to the kernel that needs it",
            )


def _statements(module: Module) -> Iterator[tuple[ast.stmt, ast.AST | None]]:
    """Simple statements of a file outside of ``if __name__ == "__main__"``, with the function that they stand in."""
    stack: list[tuple[ast.AST, ast.AST | None]] = [(item, None) for item in module.tree.body]
    while stack:
        node, function = stack.pop()
        if isinstance(node, ast.If) and "__name__" in ast.dump(node.test):
            continue
        inside = node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
        if inner:
            stack += [(child, inside) for child in inner]
        elif isinstance(node, ast.stmt):
            yield node, function


def _settings(module: Module, statement: ast.stmt) -> Iterator[tuple[ast.AST, str, object]]:
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        for target in statement.targets:
            name = module.dotted(target)
            if statement.value.value in _SWITCHES.get(name, ()):
                yield statement, name, statement.value.value
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        name = module.dotted(statement.value.func)
        given = statement.value.args[0]
        value = given.value if isinstance(given, ast.Constant) else module.dotted(given).removeprefix("torch.")
        if value in _CALLS.get(name, ()):
            yield statement, name, value


def _is_set_back(module: Module, function: ast.AST, name: str) -> bool:
    """Whether a function sets the same switch twice: to a value, and back."""
    last = name.rpartition(".")[2]
    places = [
        node
        for node in ast.walk(function)
        if (isinstance(node, ast.Attribute) and node.attr == last and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Call) and module.dotted(node.func) == name)
    ]
    return len(places) > 1


@RULE.host
def conversion(host: Host) -> Iterator[Hit]:
    """Inputs that are made half precision for a launch, outside of branches."""
    if not host.launches or is_aside(host.module.path):
        return
    back = _converts_back(host)
    for node in host.call_nodes:
        if not _is_to_half(host, node) or any(isinstance(outer, (ast.If, ast.IfExp)) for outer in host.ancestors(node)):
            continue
        name = root_of(host.forms.of(node.func.value))  # type: ignore[attr-defined]
        if name in host.parameters and _is_launched(host, node):
            shown = " ".join(host.module.segment(node).split())
            yield Hit(
                node,
                f"{host.name} launches on {shown}, whatever dtype {name} has, and returns a wider dtype",
                f"take {name} in that dtype, and declare it",
                data={"host": host.name, "input": name, "back": back, "shown": shown},
            )


def _is_to_half(host: Host, node: ast.Call) -> bool:
    function = node.func
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in ("half", "bfloat16"):
        return not node.args
    return function.attr in ("to", "type") and any(
        host.module.dotted(item) in _HALF for item in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def _is_launched(host: Host, node: ast.Call) -> bool:
    """Whether a launch is handed the converted tensor, directly or by name."""
    arguments = [
        item
        for launch in host.launches
        for item in (*launch.node.args, *(keyword.value for keyword in launch.node.keywords))
    ]
    return any(_made_of(host, item, node) for item in arguments)


def _made_of(host: Host, item: ast.expr, node: ast.Call) -> bool:
    for _ in range(6):
        item = host.value_of(item)
        if item is node:
            return True
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in (
            "contiguous", "view", "reshape", "flatten", "transpose", "t", "to", "cuda"
        ):  # fmt: skip
            item = item.func.value
        else:
            return False
    return False


def _converts_back(host: Host) -> bool:
    """Whether a result is converted to float32, or to an input's dtype, when it is returned."""
    for statement in host.returns:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "float" and not node.args:
                    return True
                if node.func.attr == "to" and any(
                    host.module.dotted(item) in _WIDE or host.forms.of(item).endswith(".dtype") for item in node.args
                ):
                    return True
    return False


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where the envelope promises a wider type for the input; of an undeclared launcher, where it hides it."""
    data = candidate.data
    declared = project.declarations.get(f"{candidate.path}::{data['host']}")
    if declared is None:
        if data["back"]:
            yield project.confirm(RULE, candidate)
        return
    spec = declared.envelope.tensors().get(data["input"])
    wide = [item for item in declared.envelope.dtypes_of(spec.dtype) if item in ("float32", "float64")] if spec else []
    if wide:
        yield project.confirm(
            RULE,
            candidate,
            f"{data['host']} launches on {data['shown']}; the envelope promises {wide[0]} for {data['input']}",
            severity=ERROR,
        )
