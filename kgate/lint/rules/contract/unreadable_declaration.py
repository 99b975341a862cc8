"""KG106: a declaration cannot be read without executing the code, or is not written as one."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG106",
    name="unreadable-declaration",
    severity=ERROR,
    summary=("A declaration cannot be read without executing the code, or is not written as one."),
    why=(
        "Declarations are read from source, so that hooks, editors and compilers can use them without "
        "importing anything. A declaration made in a loop, a factory or from rebound names is invisible to "
        "them."
    ),
    remedy=(
        "Write `@kernel(...)` on a function at module level, with values that can be read: literals and names "
        "bound once."
    ),
    covers=(
        "unreadable-declaration",
        "declared-twice",
        "not-a-function",
        "bad-arguments",
        "generator-twice",
        "bad-name",
        "not-a-dict",
        "not-a-tuple",
        "bad-list",
        "bad-flag",
        "wrong-kind",
        "unknown-parameter",
    ),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            def make(block):
                return kernel(reference=double_eager)(double_eager)
                       ^^^^^^
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
