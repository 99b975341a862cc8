"""KG003 ignore-without-reason: an ignore comment that does not say why."""

from __future__ import annotations

from kgate.lint.rule import WARNING, Example, Rule

RULE = Rule(
    code="KG003",
    name="ignore-without-reason",
    severity=WARNING,
    summary="An ignore comment gives no reason; it hides nothing until it does.",
    why=(
        "Whoever reads the kernel next cannot tell a considered exception from a silenced mistake, and nobody can tell "
        "when the exception is no longer needed."
    ),
    remedy="Say in a few words after the bracket why the rule does not apply.",
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, y, n, B: tl.constexpr):
                i = tl.arange(0, B)
                v = tl.load(x + i).to(tl.float32) * (i < n)  # kgate: ignore[KG309]
                                                             ^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y + i, v, mask=i < n)
            """,
            note="KG309 is reported too.",
        ),
        Example(
            """
            # kgate: ignore-file[KG2]:
            ^^^^^^^^^^^^^^^^^^^^^^^^^^
            import triton
            """,
            note="For a whole file.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, y, n, B: tl.constexpr):
                i = tl.arange(0, B)
                v = tl.load(x + i).to(tl.float32) * (i < n)  # kgate: ignore[KG309] never infinite: a count
                tl.store(y + i, v, mask=i < n)
            """,
            note="The reason follows the bracket.",
        ),
    ),
)
