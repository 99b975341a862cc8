"""KG405: a size that the tuned loop runs over, missing from the key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kgate.lint.model.device import Device
from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.launch._shared import benchmarks

RULE = Rule(
    code="KG405",
    name="autotune-key-missing",
    severity=WARNING,
    summary="A loop in steps of a tuned block runs over a size that is not in `key=`, while other sizes are.",
    why=(
        "The configuration that is best for the first length of the loop is used for all others: a block chosen for "
        "K = 64 then runs K = 8,192, at a fraction of the speed and with nothing to see in a profile of the first call."
    ),
    remedy="Add the size to `key=`, rounded to a power of two where it has many values.",
    quiet=(
        "Lengths of sequences and counts of tokens, which many projects leave out on purpose, keys with a bucket of "
        "the size, and functions whose key has no other size."
    ),
    sources=("triton-lang/triton#4046", "fla-org/flash-linear-attention#1037"),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK_K": 32}), triton.Config({"BLOCK_K": 128})]

            @triton.autotune(configs=CONFIGS, key=["N"])
                                              ^^^^^^^^^
            @triton.jit
            def rows(x_ptr, y_ptr, N, K, BLOCK_K: tl.constexpr):
                row = tl.program_id(0)
                total = tl.zeros((BLOCK_K,), dtype=tl.float32)
                for start in range(0, K, BLOCK_K):
                    i = start + tl.arange(0, BLOCK_K)
                    total += tl.load(x_ptr + row * K + i, mask=i < K, other=0.0).to(tl.float32)
                tl.store(y_ptr + row, tl.sum(total), mask=row < N)
        """),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK_K": 32}), triton.Config({"BLOCK_K": 128})]

            @triton.autotune(configs=CONFIGS, key=["N", "K"])
            @triton.jit
            def rows(x_ptr, y_ptr, N, K, BLOCK_K: tl.constexpr):
                row = tl.program_id(0)
                total = tl.zeros((BLOCK_K,), dtype=tl.float32)
                for start in range(0, K, BLOCK_K):
                    i = start + tl.arange(0, BLOCK_K)
                    total += tl.load(x_ptr + row * K + i, mask=i < K, other=0.0).to(tl.float32)
                tl.store(y_ptr + row, tl.sum(total), mask=row < N)
        """),
    ),
)

_VARYING = re.compile(
    r"^[TLSM]$|^(N|n)_?CTX|seq|len|token|row|batch|total|numel|num_|^n_|^B[TS]?$|bound|start|end|block|tile",
    re.IGNORECASE,
)
"""Sizes that often differ from call to call, and are left out so that a new one does not tune anew."""


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Loop bounds that no key stands for."""
    tuner, tuned = device.tuner, device.autotune
    if tuner is None or tuned is None or not tuned.keys or not tuned.configured or not benchmarks(tuner):
        return
    if not any(_is_size(device, key) for key in tuned.keys):
        return
    seen = set()
    for name in _loop_bounds(device, set(tuned.configured)):
        if name in tuned.keys or name in seen or _VARYING.search(name):
            continue
        seen.add(name)
        if any(name.lower() in key.lower() for key in tuned.keys):
            continue  # rounded, under a name of its own
        place = (
            next((item for item in tuner.call.keywords if item.arg == "key"), tuner.node) if tuner.call else tuner.node
        )
        yield Hit(
            place,
            f"{device.node.name} loops over {name} in tuned steps, and key= does not name it",
            f"add {name} to key=",
        )


def _is_size(device: Device, key: str) -> bool:
    """Whether a key is compared with an index, or bounds a loop."""
    for binding in device.bindings.get(key, ()):
        for use in binding.uses:
            parent = device.parents.get(use)
            if isinstance(parent, ast.Compare) or (
                isinstance(parent, ast.Call) and device.call_of[parent].name in ("cdiv", "range")
            ):
                return True
    return False


def _loop_bounds(device: Device, blocks: set[str]) -> Iterator[str]:
    """Parameters that bound a loop in steps of a tuned block: ``range(0, K, BLOCK_K)``, ``range(cdiv(K, BLOCK_K))``."""
    for call in device.called("range"):
        arguments = call.node.args
        if not isinstance(device.parents.get(call.node), ast.For) or not arguments:
            continue
        bound, step = (arguments[1], arguments[2]) if len(arguments) == 3 else _divided(device, arguments[-1])
        if bound is not None and step is not None and _names(device, step) & blocks:
            yield from _parameter(device, bound)


def _divided(device: Device, node: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """What a rounded-up division divides, and by what."""
    node = device.value_of(node)
    call = device.call_of.get(node) if isinstance(node, ast.Call) else None
    if call is None or call.name != "cdiv":
        return None, None
    return call.argument("x"), call.argument("div")


def _names(device: Device, node: ast.expr) -> set[str]:
    return {source.rpartition(":")[2] for source in device.sources(node)}


def _parameter(device: Device, node: ast.expr) -> Iterator[str]:
    name = device.parameter_of(node)
    if name:
        yield name
