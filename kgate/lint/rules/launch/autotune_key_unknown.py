"""KG403: a tuning key that is no parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import ERROR, Example, Hit, Rule

RULE = Rule(
    code="KG403",
    name="autotune-key-unknown",
    severity=ERROR,
    summary="`key=` of an autotuner names something that is no parameter of the function.",
    why=(
        "Triton passes over such a name in silence: the size that was to choose the configuration does not, and what "
        "was tuned for the first shape serves all others. Old versions raise instead."
    ),
    remedy="Name a parameter, spelled as in the signature.",
    quiet="Keys that cannot be read, and functions whose signature takes any arguments.",
    sources=(
        "triton-lang/triton#11602",
        "pytorch/ao#4880",
    ),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(configs=CONFIGS, key=["n_cols"])
                                                   ^^^^^^^^
            @triton.jit
            def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
        """,
            note="pytorch/ao#4880, before: a name that the signature no longer has. triton#11602 refuses it.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(configs=CONFIGS, key=["n"])
            @triton.jit
            def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
        """,
            note="pytorch/ao#4880, after.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Keys that the signature does not have."""
    tuned = device.autotune
    if tuned is None or not tuned.keys or device.node.args.vararg is not None or device.node.args.kwarg is not None:
        return
    import difflib

    for key in tuned.keys:
        if key not in device.parameters:
            near = difflib.get_close_matches(key, device.parameters, 1)
            yield Hit(
                key_node(device, key),
                f"{key} in key= is no parameter of {device.node.name}, and Triton ignores it",
                f"write {near[0]}" if near else "name a parameter, or remove it",
            )


def key_node(device: Device, key: str) -> ast.AST:
    """Where a key is written: the string itself, or the tuner where that stands elsewhere."""
    tuner = device.tuner
    assert tuner is not None
    keys = tuner.argument("key", 1)
    if isinstance(keys, (ast.List, ast.Tuple)):
        for item in keys.elts:
            if isinstance(item, ast.Constant) and item.value == key:
                return item
    return tuner.node
