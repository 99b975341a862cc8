"""KG107: the inputs of the envelope and the launcher's parameters differ."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG107",
    name="signature-mismatch",
    severity=ERROR,
    summary=("The inputs of the envelope and the launcher's parameters differ."),
    why=(
        "An input that the launcher does not take cannot be checked, and a parameter that no input describes "
        "can carry anything past the envelope."
    ),
    remedy=(
        "Give every parameter without a default an input of the same name, and drop inputs that are no parameters."
    ),
    covers=(
        "input-unknown",
        "parameter-undeclared",
        "star-parameter",
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
                                 ^^^^^^^^^^^^^^^^
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(z):
                ^^^^^^
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
            def double(x, eps=1e-6):
                ...
        """
        ),
    ),
)
