"""KG408 arange-not-power-of-two: a range whose length is, or may come to be, no power of two."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.extents import Extents
from kgate.lint.rule import ERROR, FORKS, Example, Hit, Rule
from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG408",
    name="arange-not-power-of-two",
    severity=ERROR,
    except_in=FORKS,
    summary="The length of a `tl.arange` is no power of two, or the envelope allows sizes at which it is none.",
    why="Triton refuses to compile it: `arange's range must be a power of 2`. The first model with a head of 80 fails.",
    remedy="Round the block up with `triton.next_power_of_2` and mask what is beyond the size.",
    quiet="Lengths that are rounded up; sizes that the envelope limits to powers of two, as `Choice(64, 128)` does; a "
    "`tl.static_assert` about the parameter.",
    sources=("vllm-project/vllm#25030", "vllm-project/vllm#49157"),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, HEAD: tl.constexpr):
                offs = tl.program_id(0).to(tl.int64) * HEAD + tl.arange(0, HEAD)
                                                              ^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("T D", "float16", layout="contiguous")},
                outputs={"y": Tensor("T D", "float16")},
                dims={"T": Dim(1, 65536), "D": Dim(16, 256)},
                where=("D % 16 == 0",),
            ))
            def double(x):
                y = torch.empty_like(x)
                T, D = x.shape
                _double[(T,)](x, y, HEAD=D)
                return y
            """,
            note="As vLLM#25030 and vllm#49157, before: the head itself is the length.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def rotate(x_ptr, BLOCK: tl.constexpr):
                half = tl.arange(0, 48)
                       ^^^^^^^^^^^^^^^^
                tl.store(x_ptr + half, -tl.load(x_ptr + half + 48))
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

            def copy(x, y):
                n = x.numel()
                _copy[(triton.cdiv(n, 1000),)](x, y, n, BLOCK=1000)
                                                              ^^^^
            """,
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, HEAD, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                offs = tl.program_id(0).to(tl.int64) * HEAD + cols
                tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=cols < HEAD) * 2, mask=cols < HEAD)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("T D", "float16", layout="contiguous")},
                outputs={"y": Tensor("T D", "float16")},
                dims={"T": Dim(1, 65536), "D": Dim(16, 256)},
            ))
            def double(x):
                y = torch.empty_like(x)
                T, D = x.shape
                _double[(T,)](x, y, D, BLOCK=triton.next_power_of_2(D))
                return y
            """,
            note="As vLLM#25030 and vllm#49157, after: rounded up and masked.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, HEAD: tl.constexpr):
                offs = tl.program_id(0).to(tl.int64) * HEAD + tl.arange(0, HEAD)
                tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("T D", "float16", layout="contiguous")},
                outputs={"y": Tensor("T D", "float16")},
                dims={"T": Dim(1, 65536), "D": Dim(64, 128)},
                where=("D == 64 or D == 128",),
            ))
            def double(x):
                y = torch.empty_like(x)
                T, D = x.shape
                _double[(T,)](x, y, HEAD=D)
                return y
            """,
            note="The envelope allows powers of two alone.",
        ),
    ),
)


def not_power_of_two(value: int) -> bool:
    """Whether a positive number is no power of two."""
    return value > 0 and value & (value - 1) != 0


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Ranges of a literal length, and those whose length is a parameter that nothing in the function limits."""
    seen: set[str] = set()
    for call in device.called("arange"):
        start, end = call.argument("start"), call.argument("end")
        if start is None or end is None:
            continue
        first, last = integer(device.value_of(start)), integer(device.value_of(end))
        if first is not None and last is not None:
            if not_power_of_two(last - first):
                yield Hit(
                    call.node,
                    f"the range has {last - first} elements, which is no power of two",
                    f"take {1 << (last - first).bit_length()} elements and mask those beyond",
                )
        elif first == 0:
            name = Extents.of_device(device).extent(end)
            if name is not None and not name.isdecimal() and name not in seen and not asserted(device, name):
                seen.add(name)
                yield Hit(call.node, f"{name} may be no power of two", data={"parameter": name})


def asserted(device: Device, name: str) -> bool:
    """Whether a ``static_assert`` is about a parameter."""
    return any(
        isinstance(node, ast.Name) and node.id == name
        for call in device.called("static_assert")
        for argument in call.node.args[:1]
        for node in ast.walk(argument)
    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """What launches, configurations and envelopes make of the parameter."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    name = candidate.data["parameter"]
    remedy = f"round {name} up with triton.next_power_of_2 and mask what is beyond the size"
    configured = [value for value in device.configured(name) if not_power_of_two(value)]
    if configured:
        message = f"{name} is {configured[0]} in a configuration, and the length of a range is a power of two"
        yield project.confirm(RULE, candidate, message, remedy)
        return
    yield from _literals(device, name, project)
    for setting in project.settings(device):
        term = setting.term(name)
        if term is None or term.number is not None:
            continue
        witness = project.sizes(setting.declaration).example(term, not_power_of_two)
        if witness is not None:
            gives = "which is no power of two" if term.text in witness.sizes else f"which give {witness.value}"
            message = f"{name} is the length of a range, and {setting.declaration.name} allows {witness}, {gives}"
            yield project.confirm(RULE, candidate, message, f"{remedy}, or declare the powers of two that it may be")
            return


def _literals(device: LinkedDevice, name: str, project: Project) -> Iterator[Finding]:
    """Launches that give a number which is no power of two."""
    for launch in device.launches:
        argument = launch.arguments.get(name)
        if argument is None or not argument.form.isdecimal() or not not_power_of_two(int(argument.form)):
            continue
        larger = 1 << int(argument.form).bit_length()
        yield project.finding(
            RULE,
            launch.path,
            argument.place,
            f"{name} is the length of a range in {device.summary.name}, and {argument.form} is no power of two",
            f"pass {larger} and mask what is beyond the size",
            symbol=launch.launch.by,
        )
