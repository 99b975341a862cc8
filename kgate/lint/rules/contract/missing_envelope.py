"""KG102: a declaration has no envelope, or one that promises no result."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG102",
    name="missing-envelope",
    severity=ERROR,
    summary=("A declaration has no envelope, or one that promises no result."),
    why=(
        "Without an envelope nobody knows for which shapes, dtypes, layouts and targets the kernel may be "
        "used: neither the dispatch, nor the cases that prove it, nor a compiler that looks for a kernel."
    ),
    remedy=("Add `envelope=Envelope(inputs=..., outputs=..., dtypes=..., dims=..., targets=...)`."),
    covers=(
        "missing-envelope",
        "incomplete-declaration",
        "no-promise",
    ),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(reference=double_eager, fallback=double_eager)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            def double(x):
                ...
        """
        ),
    ),
    valid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                ...
        """
        ),
    ),
)
