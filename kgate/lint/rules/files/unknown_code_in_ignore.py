"""KG004 unknown-code-in-ignore: an ignore comment that names no rule, or one that there is not."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG004",
    name="unknown-code-in-ignore",
    severity=ERROR,
    summary="An ignore comment names no rule, names one that does not exist, or would hide everything.",
    why=(
        "A misspelt code hides nothing, and the author believes that it does. A comment without a code would hide "
        "every mistake that is made on its line from now on."
    ),
    remedy="Name each rule that is to be quiet: `kgate: ignore[KG203] reason`.",
    quiet="Comments that begin with `kgate:` and ask for nothing, such as `kgate: see docs/norm.md`.",
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(x + i, 0.0, mask=i < n)  # kgate: ignore[KG999] not a rule
                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="There is no KG999.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(x + i, 0.0, mask=i < n)  # kgate: ignore
                                                  ^^^^^^^^^^^^^^^
            """,
            note="It does not say what is to be ignored.",
        ),
    ),
    valid=(
        Example(
            """
            import triton  # kgate: the kernels below are declared in norm.py
            """,
            note="A remark, not an ignore.",
        ),
        Example(
            """
            import triton

            HELP = "write  # kgate: ignore[KG999] reason"
            """,
            note="A string is no comment.",
        ),
    ),
)
