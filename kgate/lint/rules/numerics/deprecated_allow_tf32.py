"""KG307: ``allow_tf32`` in a dot, which ``input_precision`` replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import FORKS, SAFE, WARNING, Example, Hit, Rule
from kgate.source.records import Edit, Fix

RULE = Rule(
    code="KG307",
    name="deprecated-allow-tf32",
    severity=WARNING,
    except_in=FORKS,
    summary="`tl.dot` is given `allow_tf32`, which is deprecated in favour of `input_precision`.",
    why=(
        "The argument says only whether TF32 may be used; `input_precision` says what is meant (`tf32`, `tf32x3`, "
        "`ieee`), on every backend. Once the argument goes, the kernel stops compiling, and where it is dropped "
        "without a replacement the default precision decides silently."
    ),
    remedy='Write `input_precision="tf32"` for True and `input_precision="ieee"` for False.',
    quiet="Calls that give `input_precision` too are reported once, for the argument to be dropped.",
    sources=("triton-lang/triton#4302",),
    fix=SAFE,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                c = tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), allow_tf32=False)
                                                                         ^^^^^^^^^^^^^^^^
                tl.store(c_ptr + offs, c)
        """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                c = tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), input_precision="ieee")
                tl.store(c_ptr + offs, c)
        """,
        ),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def product(a, b, ALLOW_TF32: tl.constexpr):
                return tl.dot(a, b, allow_tf32=ALLOW_TF32)
                                    ^^^^^^^^^^^^^^^^^^^^^
        """),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def product(a, b):
                return tl.dot(a, b, input_precision="tf32")
        """),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """The first dot with the old keyword, for all of the function: one habit is one finding."""
    found = [
        (call.node, keyword)
        for call in device.called("dot")
        for keyword in call.node.keywords
        if keyword.arg == "allow_tf32"
    ]
    if found:
        others = f" (in {len(found)} dots of {device.name})" if len(found) > 1 else ""
        yield Hit(
            found[0][1],
            f"`allow_tf32` of tl.dot is deprecated{others}",
            "say with input_precision what is meant, or drop it where the operands are half types",
            fixes=_fixes(device, found),
        )


def _fixes(device: Device, found: list[tuple[ast.Call, ast.keyword]]) -> tuple[Fix, ...]:
    """One fix for all the dots; none where a value is no literal."""
    edits = []
    for node, keyword in found:
        if not isinstance(keyword.value, ast.Constant) or not isinstance(keyword.value.value, bool):
            return ()
        place = device.module.place(node)
        edits.append(Edit("remove-argument", *place, name="allow_tf32"))
        if all(other.arg != "input_precision" for other in node.keywords):
            precision = '"tf32"' if keyword.value.value else '"ieee"'
            edits.append(Edit("set-argument", *place, text=precision, name="input_precision"))
    return (Fix("Write input_precision", True, tuple(edits)),)
