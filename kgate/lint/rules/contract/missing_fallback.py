"""KG104: a declaration names no fallback."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG104",
    name="missing-fallback",
    severity=ERROR,
    summary=("A declaration names no fallback."),
    why=(
        "Inputs outside the envelope arrive one day. Without a fallback they either fail in production or, "
        "worse, run the kernel outside of what it supports."
    ),
    remedy=("Add `fallback=...`, what serves inputs outside the envelope."),
    covers=("missing-fallback",),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(
             ^^^^^^^
                reference=double_eager,
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
