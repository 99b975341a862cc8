"""KG404: a tuning key that the function does not use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import Device
from kgate.lint.rule import NOTE, WARNING, Example, Hit, Rule
from kgate.lint.rules.launch.autotune_key_unknown import key_node

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG404",
    name="autotune-key-unused",
    severity=WARNING,
    lowered="a note where the key is not a `tl.constexpr` too",
    summary="`key=` of an autotuner names a parameter that the function's body never reads.",
    why=(
        "Each new value of it starts a whole round of tuning, although it cannot change what the function does; where "
        "it is a `tl.constexpr` it compiles the function anew as well. A count that followed the packed length of each "
        "batch took a training run from 7,000 to 1,500 tokens per second."
    ),
    remedy="Drop it from the key, or round it to a power of two where it stands for the amount of work.",
    quiet=(
        "Keys that the launcher rounds (`next_power_of_2`, a bit length, `min`) or takes from a dtype, those that "
        "`heuristics` read, and functions that take their sizes from tensor descriptors."
    ),
    sources=(
        "fla-org/flash-linear-attention#1147",
        "fla-org/flash-linear-attention#1154",
        "Dao-AILab/flash-attention#911",
    ),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(configs=CONFIGS, key=["D", "NB"])
                                                        ^^^^
            @triton.jit
            def conv(x_ptr, y_ptr, D, NB: tl.constexpr, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < D), mask=i < D)

            def launch(x, y):
                D = x.shape[1]
                conv[(triton.cdiv(D, 128),)](x, y, D, NB=triton.cdiv(x.shape[0], 1024))
            """,
            note="flash-linear-attention#1147 and #1154, before.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK_M": 2}), triton.Config({"BLOCK_M": 8})]

            @triton.autotune(CONFIGS, key=["CACHE_KEY_SEQLEN"])
                                           ^^^^^^^^^^^^^^^^^^
            @triton.jit
            def rotary(x_ptr, cos_ptr, seqlen, nheads, CACHE_KEY_SEQLEN, BLOCK_K: tl.constexpr, BLOCK_M: tl.constexpr):
                m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
                k = tl.arange(0, BLOCK_K)
                x = tl.load(x_ptr + m[:, None] * BLOCK_K + k[None, :], mask=(m < seqlen)[:, None])
                cos = tl.load(cos_ptr + m[:, None] * BLOCK_K + k[None, :], mask=(m < seqlen)[:, None])
                tl.store(x_ptr + m[:, None] * BLOCK_K + k[None, :], x * cos, mask=(m < seqlen)[:, None])

            def apply(x, cos):
                seqlen = x.shape[0]
                rotary[(triton.cdiv(seqlen, 8),)](x, cos, seqlen, x.shape[1], seqlen // 128, BLOCK_K=64)
            """,
            note="flash-attention#911, before: the key was all that the lengths were for.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(configs=CONFIGS, key=["D"])
            @triton.jit
            def conv(x_ptr, y_ptr, D, NB: tl.constexpr, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < D), mask=i < D)
            """,
            note="flash-linear-attention#1147 and #1154, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(configs=CONFIGS, key=["D", "rows"])
            @triton.jit
            def conv(x_ptr, y_ptr, D, rows, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < D), mask=i < D)

            def launch(x, y):
                D = x.shape[1]
                conv[(triton.cdiv(D, 128),)](x, y, D, triton.next_power_of_2(x.shape[0]))
            """,
            note="A rounded amount of work has few values, and each may want a configuration of its own.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def rotary(x_ptr, cos_ptr, seqlen, BLOCK_K: tl.constexpr, BLOCK_M: tl.constexpr):
                m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
                k = tl.arange(0, BLOCK_K)
                x = tl.load(x_ptr + m[:, None] * BLOCK_K + k[None, :], mask=(m < seqlen)[:, None])
                cos = tl.load(cos_ptr + m[:, None] * BLOCK_K + k[None, :], mask=(m < seqlen)[:, None])
                tl.store(x_ptr + m[:, None] * BLOCK_K + k[None, :], x * cos, mask=(m < seqlen)[:, None])

            def apply(x, cos):
                rotary[(triton.cdiv(x.shape[0], 8),)](x, cos, x.shape[0], BLOCK_K=64, BLOCK_M=8)
            """,
            note="flash-attention#911, after.",
        ),
    ),
)

_FEW_VALUES = re.compile(r"bucket|pow|log|bit_length|round|clamp|\bmin\(|<<|dtype|element|itemsize", re.IGNORECASE)
_DESCRIPTOR = re.compile(r"desc|tma", re.IGNORECASE)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Keys whose parameter has no use."""
    tuned = device.autotune
    if tuned is None or not tuned.keys:
        return
    if any(map(_DESCRIPTOR.search, device.parameters)) or device.called("descriptor_load", "make_tensor_descriptor"):
        return  # descriptors know the sizes
    for key in tuned.keys:
        bindings = device.bindings.get(key, ())
        if (
            key in device.parameters
            and not any(binding.uses for binding in bindings)
            and not _read_outside(device, key)
        ):
            yield Hit(
                key_node(device, key),
                f"{key} is in key=, and {device.node.name} never reads it: each new value tunes anew"
                + (" and compiles anew" if key in device.constexprs else ""),
                "drop it from the key, or round it to a power of two before the launch",
                severity=WARNING if key in device.constexprs else NOTE,
                data={"key": key},
            )


def _read_outside(device: Device, key: str) -> bool:
    """Whether a name says that it is rounded, or another decorator or another argument of the tuner reads it."""
    if _FEW_VALUES.search(key):
        return True
    keys = device.tuner.argument("key", 1) if device.tuner is not None else None
    for decorator in device.decorators:
        for node in ast.walk(decorator.node):
            if node is keys:
                continue
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key:
                return True
            if isinstance(node, ast.Dict) and any(
                isinstance(item, ast.Constant) and item.value == key for item in node.keys
            ):
                return True
    return False


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Unless every launcher rounds the value, or passes a constant or a property of the type."""
    device = project.device(candidate.path, candidate.symbol)
    key = candidate.data["key"]
    given = (
        [launch.arguments[key] for launch in device.launches if key in launch.arguments] if device is not None else []
    )
    if given and all(
        _FEW_VALUES.search(item.form) or _FEW_VALUES.search(item.text) or item.form.isdecimal() for item in given
    ):
        return
    yield project.confirm(RULE, candidate)
