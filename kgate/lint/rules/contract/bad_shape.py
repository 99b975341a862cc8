"""KG112: a shape, dim, layout or range of the envelope does not fit the rest of it."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG112",
    name="bad-shape",
    severity=ERROR,
    summary=("A shape, dim, layout or range of the envelope does not fit the rest of it."),
    why=(
        "A dim that no tensor has, or a layout for another rank, constrains nothing; what the author meant to "
        "promise is not promised."
    ),
    remedy=(
        'Write shapes as axis strings (`"B H S D"`), give every dim a range in `dims`, and use the layouts of '
        "docs/declaration.md."
    ),
    covers=(
        "bad-shape",
        "unknown-dim",
        "unused-dim",
        "unbound-dim",
        "bad-range",
        "unknown-scalar",
        "layout-rank",
        "unknown-layout",
        "duplicate-name",
        "bad-choice",
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
                    dims={"N": Dim(1, 1024), "M": Dim(1, 8)},
                                                  ^^^^^^^^^
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):
                ...
        """
        ),
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T", layout="rowmajor")},
                                                         ^^^^^^^^^^
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
