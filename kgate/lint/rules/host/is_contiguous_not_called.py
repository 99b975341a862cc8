"""KG503 is-contiguous-not-called: the method itself as a condition, which is always true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, SAFE, Example, Hit, Rule
from kgate.source.records import Edit, Fix

if TYPE_CHECKING:
    from kgate.lint.model.module import Module

RULE = Rule(
    code="KG503",
    name="is-contiguous-not-called",
    severity=ERROR,
    summary="`x.is_contiguous` stands in a condition without being called.",
    why=(
        "A bound method is always true. The check passes for every layout, and the kernel reads a transposed or "
        "sliced tensor as if it were contiguous."
    ),
    remedy="Call it: `x.is_contiguous()`.",
    quiet="Classes of the file's own that have `is_contiguous` as an attribute or a property.",
    sources=("vllm-project/vllm#42739",),
    fix=SAFE,
    invalid=(
        Example(
            """
            def copy(x, kernel):
                assert x.is_contiguous, "copy needs a contiguous tensor"
                       ^^^^^^^^^^^^^^^
                return kernel(x)
            """,
            fixed="""
            def copy(x, kernel):
                assert x.is_contiguous(), "copy needs a contiguous tensor"
                return kernel(x)
            """,
            note="vllm#42739, before and after.",
        ),
        Example(
            """
            def copy(x, y, kernel):
                if not x.is_contiguous or not y.is_contiguous():
                       ^^^^^^^^^^^^^^^
                    x = x.contiguous()
                return kernel(x, y)
            """,
            fixed="""
            def copy(x, y, kernel):
                if not x.is_contiguous() or not y.is_contiguous():
                    x = x.contiguous()
                return kernel(x, y)
            """,
        ),
        Example(
            """
            def run(kernel, tensors):
                assert all(t.is_contiguous for t in tensors)
                           ^^^^^^^^^^^^^^^
                return kernel(*tensors)
            """,
            fixed="""
            def run(kernel, tensors):
                assert all(t.is_contiguous() for t in tensors)
                return kernel(*tensors)
            """,
        ),
    ),
    valid=(
        Example(
            """
            def copy(x, kernel):
                assert x.is_contiguous()
                return kernel(x)
            """,
            note="vllm#42739, after.",
        ),
        Example(
            """
            class Layout:
                @property
                def is_contiguous(self):
                    return self.strides[-1] == 1

            def copy(x, layout, kernel):
                return kernel(x) if layout.is_contiguous else kernel(x.contiguous())
            """,
            note="A property of the file's own.",
        ),
    ),
)
_BARE = re.compile(r"\.is_contiguous\b(?!\s*\()")
_OWN = re.compile(r"def is_contiguous\b|\bis_contiguous\s*[:=](?!=)")


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Every ``is_contiguous`` that is read as a condition."""
    if "is_contiguous" not in module.text or not _BARE.search(module.text) or _OWN.search(module.text):
        return
    for node in ast.walk(module.tree):
        for condition in _conditions(node):
            if isinstance(condition, ast.Attribute) and condition.attr == "is_contiguous":
                text = module.segment(condition)
                edit = Edit("replace", *module.place(condition), f"{text}()")
                yield Hit(
                    condition,
                    f"{text} is a method, which is always true as a condition",
                    f"call it: {text}()",
                    fixes=(Fix("Call the method", True, (edit,)),),
                )


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions directly below a node of which only the truth counts."""
    if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
        yield node.test
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("all", "any", "bool"):
        for argument in node.args:
            if isinstance(argument, (ast.GeneratorExp, ast.ListComp)):
                yield argument.elt
            elif isinstance(argument, (ast.List, ast.Tuple)):
                yield from argument.elts
            else:
                yield argument
