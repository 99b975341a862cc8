"""KG506 custom-op-without-fake: a custom operator that torch.compile cannot trace."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.host._shared import is_aside, last

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.module import FunctionNode, Module
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG506",
    name="custom-op-without-fake",
    needs=("custom_op", "register_fake", "impl_abstract", "register_abstract", "fake_impl", "Meta"),
    severity=WARNING,
    summary="A `torch.library.custom_op` has no fake implementation anywhere in the project.",
    why=(
        "`torch.compile` and `torch.export` run operators on tensors without data to learn the shapes"
        " of their results. "
        "Without a fake implementation tracing ends in an error, or a graph break around the kernel."
    ),
    remedy="Register one with `register_fake`: a function that returns empty tensors of the right shape and type.",
    quiet=(
        "`register_fake` or an implementation for `Meta` in any file that mentions kernels; "
        "`triton_op`, which is traced "
        "through; operators that write to their arguments and return nothing."
    ),
    sources=("pytorch/pytorch#120802", "pytorch/pytorch#153389"),
    invalid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            @torch.library.custom_op("mylib::double", mutates_args=())
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            def double(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel())
                return y
            """,
            note="pytorch#120802 and #153389, before.",
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

            @torch.library.custom_op("mylib::double", mutates_args=())
            def double(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel())
                return y

            @double.register_fake
            def _(x):
                return torch.empty_like(x)
            """,
            note="pytorch#120802 and #153389, after.",
        ),
        Example(
            """
            # file: ops.py
            import torch
            import triton

            @triton.jit
            def _double(x_ptr, y_ptr, n):
                ...

            @torch.library.custom_op("mylib::double", mutates_args=())
            def double(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                _double[(1,)](x, y, x.numel())
                return y
            # file: fakes.py
            import torch
            import triton

            @torch.library.register_fake("mylib::double")
            def _(x):
                return torch.empty_like(x)
            """,
            note="The fake implementation stands in another file.",
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _double_(x_ptr, n):
                ...

            @torch.library.custom_op("mylib::double_", mutates_args=("x",))
            def double_(x: torch.Tensor) -> None:
                _double_[(1,)](x, x.numel())
            """,
            note="There is no result whose shape could be asked for.",
        ),
    ),
)
_FAKES = ("register_fake", "impl_abstract", "register_abstract", "fake_impl", "_register_fake")
_MAKERS = ("torch.library.custom_op", "torch._library.custom_ops.custom_op")


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Operators that are made here, and a note of the fake implementations."""
    fakes: dict[str, None] = {}
    unread = False
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in _FAKES:
            fakes[last(module.dotted(node.value))] = None
        elif isinstance(node, ast.Call):
            name, found = _fake(module, node)
            unread = unread or (found and not name)
            if name:
                fakes[name] = None
    fakes.pop("library", None)
    fakes.pop("", None)
    if fakes:
        yield Hit((1, 1, 1, 1), "", data={"fakes": list(fakes)})
    if unread or is_aside(module.path):
        return
    for node, call in _made(module):
        data: dict[str, Any] = {"function": node.name, "operator": _text(call.args[0])}
        if not _returns_nothing(node, call):
            shown = data["operator"] or node.name
            yield Hit(
                call,
                f"{shown} has no fake implementation, so torch.compile cannot trace it",
                f"add @{node.name}.register_fake with a function that returns empty results",
                data=data,
            )


def _fake(module: Module, node: ast.Call) -> tuple[str, bool]:
    """The operator that a call gives a fake implementation, where it can be read, and whether it gives one at all."""
    name = last(module.dotted(node.func)) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if any(keyword.arg == "fake_impl" for keyword in node.keywords):
        given = [keyword.value for keyword in node.keywords if keyword.arg == "op_name"] + node.args[:1]
        return (_text(given[0]).rpartition("::")[2] if given else "", True)
    if name in _FAKES and node.args:
        first = node.args[0]
        return (_text(first) or last(module.dotted(first)), True)
    if name == "impl" and any(_text(item) == "Meta" for item in (*node.args, *(k.value for k in node.keywords))):
        return (_text(node.args[0]) if node.args else "", True)
    return "", False


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _made(module: Module) -> Iterator[tuple[FunctionNode, ast.Call]]:
    """Functions that ``custom_op`` decorates."""
    for node in module.functions.values():
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and decorator.args and module.dotted(decorator.func) in _MAKERS:
                yield node, decorator


def _returns_nothing(node: FunctionNode, call: ast.Call) -> bool:
    returns = node.returns
    nothing = isinstance(returns, ast.Constant) and returns.value in (None, "None")
    mutates = next((item.value for item in call.keywords if item.arg == "mutates_args"), None)
    return nothing and not (isinstance(mutates, (ast.Tuple, ast.List)) and not mutates.elts)


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where no file registers a fake implementation under the operator's or the function's name."""
    if "function" not in candidate.data:
        return
    operator = candidate.data["operator"]
    names = {candidate.data["function"], operator, operator.rpartition("::")[2]}
    if not names & _fakes(project):
        yield project.confirm(RULE, candidate)


def _fakes(project: Project) -> frozenset[str]:
    known: frozenset[str] | None = project.memory.get("_fake_implementations")
    if known is None:
        known = project.memory["_fake_implementations"] = frozenset(
            form
            for facts in project.files.values()
            for item in facts.candidates
            if item.code == RULE.code
            for name in item.data.get("fakes", ())
            for form in (name, name.rpartition("::")[2])
        )
    return known
