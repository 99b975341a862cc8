"""KG412: a number of warps that no compiler or target takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.module import Module
from kgate.lint.rule import ERROR, Example, Hit, Rule
from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.source.records import Finding

RULE = Rule(
    code="KG412",
    name="bad-num-warps",
    severity=ERROR,
    summary="`num_warps` is no power of two, or more than a program can have on the target.",
    why=(
        "The compiler asserts that it is a power of two. A program has at most 1,024 threads: 32 warps of 32 lanes, "
        "and 16 of 64 lanes on AMD's gfx9. A larger number fails when the program is launched."
    ),
    remedy="Use 1, 2, 4, 8, 16 or 32 warps, and at most 16 where gfx9 is a target.",
    quiet="Numbers that are computed, and 32 warps where no declared target has lanes of 64.",
    sources=("triton-lang/triton#4128", "triton-lang/triton#6125"),
    invalid=(
        Example(
            """
            import triton

            CONFIGS = [
                triton.Config({"BLOCK": 128}, num_warps=4),
                triton.Config({"BLOCK": 256}, num_warps=6),
                                                        ^
                triton.Config({"BLOCK": 4096}, num_warps=64),
                                                         ^^
            ]
        """,
            note="triton#4128, before: no power of two, and more than a block has room for.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

            def eager(x: torch.Tensor) -> torch.Tensor:
                return x.clone()

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T", layout="contiguous")},
                    outputs={"y": Tensor("N", "T", layout="contiguous")},
                    dtypes={"T": ("float32",)},
                    dims={"N": Dim(1, 2**20)},
                    targets=("cuda:sm_90", "hip:gfx942"),
                ),
            )
            def copy(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                n = x.numel()
                copy_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=32)
                                                                                    ^^
                return y
            """,
            note="triton#6125, before: 32 warps are 2,048 threads on a target that the envelope promises.",
        ),
    ),
    valid=(
        Example(
            """
            import triton

            CONFIGS = [triton.Config({"BLOCK": size}, num_warps=warps) for size in (128, 256) for warps in (4, 8, 32)]
        """,
            note="triton#4128, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

            def eager(x: torch.Tensor) -> torch.Tensor:
                return x.clone()

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T", layout="contiguous")},
                    outputs={"y": Tensor("N", "T", layout="contiguous")},
                    dtypes={"T": ("float32",)},
                    dims={"N": Dim(1, 2**20)},
                    targets=("cuda:sm_90", "hip:gfx942"),
                ),
            )
            def copy(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                n = x.numel()
                copy_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=16)
                return y
            """,
            note="triton#6125, after.",
        ),
    ),
)

_GIVEN = re.compile(r"num_warps[\"']?\s*[=:]\s*(\d+)")
_MOST = 32
_MOST_WIDE = 16


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Numbers that are wrong everywhere."""
    if "num_warps" not in module.text or not any(map(_wrong, map(int, _GIVEN.findall(module.text)))):
        return
    for node in module.nodes(ast.Call):
        if node.keywords:
            for keyword in node.keywords:
                number = integer(keyword.value) if keyword.arg == "num_warps" else None
                if number is not None and _wrong(number):
                    yield _hit(keyword.value, number)


def _hit(node: ast.AST, number: int) -> Hit:
    if number > _MOST:
        return Hit(node, f"{number} warps are {number * 32:,} threads; a program has at most 1,024", "use at most 32")
    near = 1 << max(number.bit_length() - 1, 0)
    return Hit(node, f"{number} warps: the number must be a power of two", f"use {near} or {near * 2}")


def _wrong(number: int) -> bool:
    return number <= 0 or number & (number - 1) != 0 or number > _MOST


@RULE.project
def linked(project: Project) -> Iterator[Finding]:
    """Numbers that are too large for a declared target with lanes of 64."""
    for device in project.devices.values():
        wide = [target for target in device.targets if target.startswith("hip:gfx9")]
        if not wide:
            continue
        for launch in device.launches:
            given = launch.arguments.get("num_warps")
            if given is not None and given.form.isdecimal() and _MOST_WIDE < int(given.form) <= _MOST:
                yield project.finding(
                    RULE,
                    launch.path,
                    given.place,
                    _message(given.form, wide[0]),
                    "use at most 16",
                    symbol=launch.launch.by,
                )
        tuned = device.summary.autotune
        for number in tuned.values.get("num_warps", ()) if tuned is not None else ():
            if tuned is not None and _MOST_WIDE < number <= _MOST:
                message = f"a configuration of {device.summary.name} has {_message(str(number), wide[0])}"
                yield project.finding(
                    RULE, device.path, tuned.place, message, "prune it on that target", symbol=device.summary.name
                )


def _message(number: str, target: str) -> str:
    return f"{number} warps of 64 lanes are {int(number) * 64:,} threads on {target}; a program has at most 1,024"
