"""KG121: an exception around a launch is swallowed and something else computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.host import Host
from kgate.lint.rule import ERROR, Example, Hit, Rule

RULE = Rule(
    code="KG121",
    name="silent-fallback",
    severity=ERROR,
    summary="A launch stands in a `try` whose broad `except` swallows the error and computes the result another way.",
    why=(
        "The kernel can be broken for months: every call is right, and slow. Benchmarks measure the fallback and call "
        "it the kernel. A compile error, an out-of-memory error and a wrong argument all look alike."
    ),
    remedy="Declare the fallback, so that the choice is made before the launch from the envelope; let errors through.",
    quiet="Handlers that raise again, that name a narrow exception, or around code that launches nothing.",
    invalid=(
        Example("""
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                ...

            def softmax(x):
                y = torch.empty_like(x)
                try:
                    _softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
                except Exception:
                ^^^^^^^^^^^^^^^^
                    y = torch.softmax(x, dim=-1)
                return y
        """),
    ),
    valid=(
        Example("""
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                ...

            def softmax(x):
                y = torch.empty_like(x)
                try:
                    _softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
                except Exception as error:
                    raise RuntimeError(f"softmax of {tuple(x.shape)} failed") from error
                return y
        """),
        Example(
            """
            try:
                import triton
            except Exception:
                triton = None

            def softmax(x, kernel):
                return kernel(x) if triton else x.softmax(-1)
        """,
            note="An optional import is no launch.",
        ),
    ),
)
_BROAD = frozenset({"Exception", "BaseException", "RuntimeError", "builtins.Exception"})


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Broad handlers of a ``try`` that launches, which end without raising."""
    if not host.launches:
        return
    for statement in host.statements:
        if isinstance(statement, ast.Try) and any(_inside(host, launch.node, statement) for launch in host.launches):
            for handler in statement.handlers:
                if _broad(host, handler) and not _raises(handler) and _computes(handler):
                    line, start, _, _ = host.module.place(handler)
                    end = host.module.place(handler.type)[3] if handler.type is not None else start + len("except")
                    yield Hit(
                        (line, start, line, end),
                        f"{host.name} swallows the error of a launch and computes the result another way",
                        "declare the fallback, and let the error through",
                    )


def _inside(host: Host, node: ast.AST, statement: ast.Try) -> bool:
    body = set(map(id, statement.body))
    return id(node) in body or any(id(parent) in body for parent in host.ancestors(node))


def _broad(host: Host, handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or host.module.dotted(kind) in _BROAD for kind in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) for statement in handler.body for node in ast.walk(statement))


def _computes(handler: ast.ExceptHandler) -> bool:
    """Whether the handler gives a result: it returns a value, or assigns one that a call made."""
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
                return True
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.Call, ast.BinOp)):
                return True
    return False
