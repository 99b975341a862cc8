"""KG402: one argument both set to zero and restored."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule

RULE = Rule(
    code="KG402",
    name="reset-and-restore",
    severity=WARNING,
    summary="An argument of a tuned function stands in both `reset_to_zero` and `restore_value`.",
    why=(
        "The tuner sets it to zero first and copies it afterwards, so that what it restores is the zeros: the caller's "
        "values are lost, and a copy of the whole tensor is made for each run."
    ),
    remedy="Keep `restore_value` where the caller's values matter, else `reset_to_zero`.",
    quiet="Arguments that stand in one of the two.",
    sources=("triton-lang/triton#6547",),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"], reset_to_zero=["total_ptr"], restore_value=["total_ptr"])
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            @triton.jit
            def count(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))
        """),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

            @triton.autotune(CONFIGS, key=["cols"], reset_to_zero=["logits_ptr"], restore_value=["logits_ptr"])
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            @triton.jit
            def scale_(logits_ptr, penalty_ptr, cols, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(logits_ptr + i, mask=i < cols)
                tl.store(logits_ptr + i, x * tl.load(penalty_ptr + i, mask=i < cols), mask=i < cols)
            """,
            note="triton#6547, before: an update in place that then begins with zeros.",
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"], reset_to_zero=["total_ptr"])
            @triton.jit
            def count(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))
        """),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

            @triton.autotune(CONFIGS, key=["cols"], restore_value=["logits_ptr"])
            @triton.jit
            def scale_(logits_ptr, penalty_ptr, cols, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(logits_ptr + i, mask=i < cols)
                tl.store(logits_ptr + i, x * tl.load(penalty_ptr + i, mask=i < cols), mask=i < cols)
            """,
            note="triton#6547, after.",
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Names in both lists of one tuner."""
    tuned = device.autotune
    if tuned is not None and device.tuner is not None:
        for name in tuned.reset:
            if name in tuned.restore:
                yield Hit(
                    device.tuner.node,
                    f"{name} is in reset_to_zero and in restore_value, so zeros are what is restored",
                    "keep one of the two",
                )
