"""KG110: a condition in `where` is outside the published language."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG110",
    name="bad-where-clause",
    severity=ERROR,
    summary=("A condition in `where` is outside the published language."),
    why=(
        "Conditions are evaluated by the dispatch, by the case generator, by the linter and by compilers; "
        "what only one of them understands is no promise."
    ),
    remedy=(
        "Use integers, dims, `+ - * // % **`, comparisons, `and`, `or`, `min`, `max`, `cdiv`, `stride(x, i)`, "
        "`align(x)`, `dtype(x)`, `present(x)`."
    ),
    covers=("bad-where",),
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
                    where=("N % 8 = 0",),
                                  ^^^^
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
                    where=("N % 8 == 0",),
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                ...
        """
        ),
    ),
)
