"""KG108: the envelope names a dtype that does not exist, or a dtype variable that nothing binds or uses."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG108",
    name="unknown-dtype",
    severity=ERROR,
    summary=("The envelope names a dtype that does not exist, or a dtype variable that nothing binds or uses."),
    why=(
        "No input has that dtype, so the promise is empty: cases are never made for it and the dispatch never "
        "takes the kernel."
    ),
    remedy=("Use torch's names (`float16`, `bfloat16`, `float32`, ...), and list every dtype variable in `dtypes`."),
    covers=(
        "unknown-dtype",
        "empty-dtypes",
        "unused-dtype",
        "unbound-dtype",
        "offsets-dtype",
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
                    dtypes={"T": ("float16", "half")},
                                             ^^^^^^
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
