"""KG103: a declaration names no reference."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG103",
    name="missing-reference",
    severity=ERROR,
    summary=("A declaration names no reference."),
    why=(
        "Without the plain implementation that defines the right answer nothing can be proven right, and "
        "`allclose` against an older kernel only proves that both are wrong together."
    ),
    remedy=("Add `reference=...`, the plain implementation that defines the right answer."),
    covers=("missing-reference",),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(
             ^^^^^^^
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
