"""KG113: what is promised of a result (numerics, gradients, mutation) does not fit what the result is."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG113",
    name="bad-promise",
    severity=ERROR,
    summary=("What is promised of a result (numerics, gradients, mutation) does not fit what the result is."),
    why=(
        "A gradient of an integer, or numerics of an axis that is not there, cannot be judged; the probe that "
        "would need it is skipped."
    ),
    remedy=(
        "Name floating-point inputs in `grad`, reduced axes that exist in `Numerics(reduce=...)`, and mark "
        "inputs, not outputs, as mutated."
    ),
    covers=(
        "bad-numerics",
        "numerics-unused",
        "grad-not-floating",
        "grad-not-tensor",
        "grad-unknown",
        "mutated-non-tensor",
        "mutated-output",
    ),
    invalid=(
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
                grad=("z",),
                      ^^^
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
                grad=("x",),
            )
            def double(x):
                ...
        """
        ),
    ),
)
