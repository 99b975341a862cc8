"""KG123 assert-only-guard: what keeps unserved inputs away is an assertion, which `python -O` takes out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import NOTE, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG123",
    name="assert-only-guard",
    severity=NOTE,
    summary="A launcher without a declaration checks its inputs by assertions alone.",
    why=(
        "`python -O` takes assertions out, and the kernel then runs on shapes and layouts that it reads beyond. Nobody "
        "but a reader of the source knows the limits, and nothing is done for inputs outside of them."
    ),
    remedy="Declare the limits as an envelope with a fallback, or raise an error.",
    quiet=(
        "Launchers that a declared kernel reaches; functions that raise as well; assertions on something "
        "else than inputs."
    ),
    default=False,
    off_because=(
        "Libraries check nearly all inputs in this way: Liger, fla and FlagGems hold some 2,400 such "
        "assertions, and whoever runs without `-O` is served by them."
    ),
    invalid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _softmax(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def softmax(x):
                assert x.is_contiguous()
                       ^^^^^^^^^^^^^^^^^
                assert x.shape[1] <= 1024
                y = torch.empty_like(x)
                _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
                return y
            """,
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _softmax(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def softmax(x):
                if not x.is_contiguous() or x.shape[1] > 1024:
                    raise ValueError("softmax takes contiguous rows of up to 1,024 elements")
                y = torch.empty_like(x)
                _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
                return y
            """,
        ),
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _softmax(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def eager(x):
                return x.softmax(-1)

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                    outputs={"y": Tensor("M N", "float32")},
                    dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
                ),
            )
            def softmax(x):
                assert x.is_contiguous()
                y = torch.empty_like(x)
                _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
                return y
            """,
            note="The declared envelope keeps such inputs away.",
        ),
    ),
)
_ASKED = frozenset({"shape", "dtype", "ndim", "is_cuda", "device"})
_ASKED_CALLS = frozenset({"is_contiguous", "dim", "stride", "size", "numel"})


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """The first assertion on an input, of launchers that raise nothing."""
    if not host.launches:
        return
    asserted = [item for item in host.statements if isinstance(item, ast.Assert) and _asks(host, item.test)]
    if not asserted or any(isinstance(item, ast.Raise) for item in host.statements):
        return
    count = "an assertion" if len(asserted) == 1 else f"{len(asserted)} assertions"
    yield Hit(
        asserted[0].test,
        f"{host.name} keeps inputs that it cannot serve away by {count} alone",
        "declare an envelope with a fallback, or raise an error",
        data={"host": host.name},
    )


def _asks(host: Host, test: ast.expr) -> bool:
    """Whether a condition asks something of a tensor."""
    return any(
        isinstance(node, ast.Attribute)
        and (node.attr in _ASKED or (node.attr in _ASKED_CALLS and isinstance(host.parents.get(node), ast.Call)))
        for node in ast.walk(test)
    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where no declared kernel reaches what is launched."""
    launched = project.launches_by.get((candidate.path, candidate.data["host"]), ())
    if not any(device.kernels for device, _ in launched):
        yield project.confirm(RULE, candidate)
