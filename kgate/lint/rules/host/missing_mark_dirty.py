"""KG505 missing-mark-dirty: an autograd.Function writes to its input and does not say so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.host import _shared

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG505",
    name="missing-mark-dirty",
    severity=WARNING,
    summary="The forward of an `autograd.Function` writes to one of its inputs without `ctx.mark_dirty`.",
    why=(
        "Autograd counts the versions of a tensor to notice that a value saved for a backward pass has been "
        "overwritten. A kernel writes behind its back: other operations that saved the input compute wrong gradients "
        "without an error, and an input that is returned loses its history."
    ),
    remedy=(
        "Write to a new tensor. Where forward returns the input, `ctx.mark_dirty(x)` will do too, unless the input is "
        "a leaf that requires a gradient; torch refuses `mark_dirty` for what forward does not return."
    ),
    quiet="Forwards that call `mark_dirty`; inputs that may have been copied or converted first; running statistics.",
    sources=("linkedin/Liger-Kernel#272", "linkedin/Liger-Kernel#1251"),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _rotate(q_ptr, cos_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                q = tl.load(q_ptr + i, mask=i < n)
                tl.store(q_ptr + i, q * tl.load(cos_ptr + i, mask=i < n), mask=i < n)

            class Rotate(torch.autograd.Function):
                @staticmethod
                def forward(ctx, q, cos):
                                 ^
                    _rotate[(1,)](q, cos, q.numel(), BLOCK=1024)
                    ctx.save_for_backward(cos)
                    return q
            """,
            note="Liger-Kernel#272 and #1251, before: autograd does not know that the input has changed.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _scale(x_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

            def scale_(x):
                _scale[(1,)](x, x.numel(), BLOCK=1024)
                return x

            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(ctx, inputs):
                                 ^^^^^^
                    out = scale_(inputs)
                    ctx.save_for_backward(inputs)
                    return out
            """,
            note="The write is in a function that forward calls.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _loss(x_ptr, loss_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n, other=0.0)
                tl.store(loss_ptr, tl.sum(x * x, axis=0))
                tl.store(x_ptr + i, 2 * x, mask=i < n)

            class Loss(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                                 ^
                    loss = torch.empty((), device=x.device)
                    _loss[(1,)](x, loss, x.numel(), BLOCK=1024)
                    ctx.save_for_backward(x)
                    return loss
            """,
            note="The input is overwritten with its gradient and not returned, so that `mark_dirty` would raise.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _rotate(q_ptr, cos_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                q = tl.load(q_ptr + i, mask=i < n)
                tl.store(q_ptr + i, q * tl.load(cos_ptr + i, mask=i < n), mask=i < n)

            class Rotate(torch.autograd.Function):
                @staticmethod
                def forward(ctx, q, cos):
                    _rotate[(1,)](q, cos, q.numel(), BLOCK=1024)
                    ctx.mark_dirty(q)
                    ctx.save_for_backward(cos)
                    return q
            """,
            note="Liger-Kernel#272 and #1251, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _rotate(q_ptr, cos_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                q = tl.load(q_ptr + i, mask=i < n)
                tl.store(q_ptr + i, q * tl.load(cos_ptr + i, mask=i < n), mask=i < n)

            class Rotate(torch.autograd.Function):
                @staticmethod
                def forward(ctx, q, cos):
                    q = q.clone()
                    _rotate[(1,)](q, cos, q.numel(), BLOCK=1024)
                    ctx.save_for_backward(cos)
                    return q
            """,
            note="A copy is written.",
        ),
    ),
)


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Forwards without ``mark_dirty``; of every function, a note of what it writes in place by itself."""
    if host.autograd == "forward" and not any(last == ".mark_dirty" for _, last in host.calls):
        if _shared.is_aside(host.module.path):
            return
        inputs = list(host.parameters.items())[1:]
        yield Hit(
            host.module.name_place(host.node),
            f"{host.name} writes to an input without ctx.mark_dirty",
            data={
                "forward": host.name,
                "inputs": {name: list(host.module.place(node)) for name, node in inputs},
                "returned": _returned(host),
            },
        )
    own, copied = _shared.inplace(host), _shared.converted(host)
    if own or copied:
        place = host.module.name_place(host.node)
        yield Hit(place, "", data={"host": host.name, "inplace": own, "converted": copied})


def _returned(host: Host) -> list[str]:
    """Inputs that may be returned themselves."""
    found: dict[str, None] = {}
    for statement in host.returns:
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        for value in values:
            if value is not None:
                found[_shared.same_memory(host.forms.of(value))] = None
    found.pop("", None)
    return list(found)


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported for every input that a launch, here or in a function called with it, stores to."""
    name = candidate.data.get("forward")
    if name is None:
        return
    dirty = _shared.writes(project, (candidate.path, name), project.notes(RULE.code))
    for parameter, place in candidate.data["inputs"].items():
        if parameter in dirty and not parameter.startswith("running_"):
            returned = parameter in candidate.data["returned"]
            does = "returns it and " if returned else ""
            yield project.finding(
                RULE,
                candidate.path,
                tuple(place),
                f"{name} {does}lets {dirty[parameter]} write to its input {parameter} without ctx.mark_dirty",
                f"call ctx.mark_dirty({parameter}), or write to a new tensor"
                if returned
                else f"write to a new tensor, or return {parameter} and mark it dirty",
                symbol=candidate.symbol,
            )
