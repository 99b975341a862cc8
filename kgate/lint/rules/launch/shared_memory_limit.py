"""KG411 shared-memory-limit: a configuration whose tiles do not fit into any target's shared memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kgate.lint.model.extents import Extents
from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG411",
    name="shared-memory-limit",
    severity=WARNING,
    summary="A tuning configuration needs more shared memory for the operands of a `tl.dot` than any target has.",
    why=(
        "Each stage of the pipeline holds the tiles that the loop loads. What does not fit is `out of resource: "
        "shared memory` where the configuration is launched, and time lost compiling it where the tuner drops it."
    ),
    remedy="Take fewer stages or smaller tiles, or prune the configuration for the targets that cannot hold it.",
    quiet="Configurations that fit on one of the declared targets, with the smallest declared dtype; without declared "
    "targets, on the largest of all, with 16-bit elements.",
    sources=("triton-lang/triton#2596", "triton-lang/triton#8182"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.autotune(
                configs=[
                    triton.Config({"BM": 128, "BN": 128, "BK": 64}, num_stages=4),
                    triton.Config({"BM": 128, "BN": 256, "BK": 128}, num_stages=4),
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                ],
                key=["K"],
            )
            @triton.jit
            def matmul(a_ptr, b_ptr, c_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
                rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
                cols = tl.arange(0, BN)
                ks = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for k in range(0, K, BK):
                    a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
                    b = tl.load(b_ptr + (k + ks)[:, None] * N + cols[None, :])
                    acc = tl.dot(a, b, acc)
                tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)
            """,
            note="As triton#2596 and #8182, before: (128 + 256) x 128 x 2 bytes x 4 stages are 384 KiB.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.autotune(
                configs=[
                    triton.Config({"BM": 128, "BN": 128, "BK": 64}, num_stages=4),
                    triton.Config({"BM": 128, "BN": 256, "BK": 64}, num_stages=3),
                ],
                key=["K"],
            )
            @triton.jit
            def matmul(a_ptr, b_ptr, c_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
                rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
                cols = tl.arange(0, BN)
                ks = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for k in range(0, K, BK):
                    a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
                    b = tl.load(b_ptr + (k + ks)[:, None] * N + cols[None, :])
                    acc = tl.dot(a, b, acc)
                tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)
            """,
            note="As triton#2596 and #8182, after: at most 144 KiB with 16-bit elements.",
        ),
    ),
)

KIB = 1024
LIMITS = {
    "cuda:sm_80": 163 * KIB,
    "cuda:sm_86": 99 * KIB,
    "cuda:sm_87": 163 * KIB,
    "cuda:sm_89": 99 * KIB,
    "cuda:sm_90": 227 * KIB,
    "cuda:sm_100": 227 * KIB,
    "cuda:sm_103": 227 * KIB,
    "cuda:sm_110": 227 * KIB,
    "cuda:sm_120": 99 * KIB,
    "cuda:sm_121": 99 * KIB,
    "hip:gfx90a": 64 * KIB,
    "hip:gfx942": 64 * KIB,
    "hip:gfx950": 160 * KIB,
    "hip:gfx1100": 64 * KIB,
}
"""Shared memory of one block in bytes, by target."""
LARGEST = 227 * KIB
STAGES = 3
"""Stages of a configuration that says nothing."""


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Configurations with the elements that the tiles of their largest dot take, all stages together."""
    tuner = device.tuner
    if tuner is None or not device.calls.get("dot"):
        return
    configs = list(_configs(device, tuner.argument("configs", 0)))
    if not configs:
        return
    tiles = [pair for call in device.called("dot") if (pair := _tiles(device, call)) is not None]
    for node, values in configs:
        stages = max(values.get("num_stages", STAGES), 1)
        needs = [size * stages for pair in tiles if (size := _elements(pair, values)) is not None]
        if needs and max(needs) > LARGEST // 8:
            yield Hit(node, "a configuration does not fit", data={"elements": max(needs), "stages": stages})


def _configs(device: Device, root: ast.expr | None) -> Iterator[tuple[ast.Call, dict[str, int]]]:
    """``Config(...)`` calls written out in the tuner's list, with the integers that they set."""
    if isinstance(root, ast.Name):
        known = device.module.constants.get(root.id, [])
        root = known[0] if len(known) == 1 else None
    if not isinstance(root, (ast.List, ast.Tuple)):
        return
    for node in root.elts:
        if isinstance(node, ast.Call) and device.module.dotted(node.func).rpartition(".")[2] == "Config" and node.args:
            values: dict[str, int | None] = {}
            if isinstance(node.args[0], ast.Dict):
                for key, value in zip(node.args[0].keys, node.args[0].values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        values[key.value] = integer(value)
            for keyword in node.keywords:
                if keyword.arg == "num_stages":
                    values["num_stages"] = integer(keyword.value)
            yield node, {name: value for name, value in values.items() if value is not None}


def _tiles(device: Device, call: Call) -> list[tuple[str, ...]] | None:
    """The shapes of operands that come from memory in a loop; None where there are none, or one is not known."""
    found = []
    for name in ("input", "other"):
        operand = call.argument(name)
        load = _loaded(device, operand)
        if load is not None and device.loops.get(device.statement_of(load)) is not None:
            shape = Extents.of_device(device).of(operand)
            if shape is None or None in shape:
                return None
            found.append(tuple(item for item in shape if item is not None))
    return found or None


def _loaded(device: Device, node: ast.expr | None) -> ast.Call | None:
    """The load that an operand is, a cast or a transposition apart."""
    for _ in range(10):
        if node is None:
            return None
        node = device.value_of(node)
        call = device.call_of.get(node) if isinstance(node, ast.Call) else None
        if call is None:
            return None
        if call.name in ("load", "descriptor_load"):
            return call.node
        node = call.first if call.name in ("to", "trans") else None
    return None


def _elements(shapes: list[tuple[str, ...]], values: dict[str, int]) -> int | None:
    total = 0
    for shape in shapes:
        size = 1
        for item in shape:
            extent = int(item) if item.isdecimal() else values.get(item)
            if extent is None:
                return None
            size *= extent
        total += size
    return total


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """What the declared targets and dtypes make of the configuration."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    limit = max((LIMITS.get(target, LARGEST) for target in device.targets if target != "cpu"), default=LARGEST)
    needed = candidate.data["elements"] * _smallest(device)
    if needed > limit:
        where = "any declared target" if device.targets else "any GPU"
        message = (
            f"the tiles of this configuration take {needed // KIB} KiB over {_stages(candidate.data)}, and {where} has "
            f"at most {limit // KIB} KiB of shared memory for a block"
        )
        yield project.confirm(RULE, candidate, message, "take fewer stages or smaller tiles")


def _stages(data: dict[str, Any]) -> str:
    return f"{data['stages']} stages" if data["stages"] > 1 else "one stage"


def _smallest(device: LinkedDevice) -> int:
    """Bytes of the smallest dtype that a declared floating-point tensor may have; 2 without a declaration."""
    from kgate.contract.dtypes import DTYPES

    sizes = [
        DTYPES[dtype]
        for kernel in device.kernels
        for spec in kernel.envelope.tensors().values()
        for dtype in kernel.envelope.dtypes_of(spec.dtype)
        if "float" in dtype or dtype in ("int8", "uint8")
    ]
    return min(sizes, default=2)
