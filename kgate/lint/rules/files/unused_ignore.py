"""KG002 unused-ignore: an ignore comment that hides nothing."""

from __future__ import annotations

from kgate.lint.rule import SAFE, WARNING, Example, Rule

RULE = Rule(
    code="KG002",
    name="unused-ignore",
    severity=WARNING,
    summary="An ignore comment names a rule that reports nothing there.",
    why=(
        "The mistake that it was written for is gone, and the comment stays behind to hide the next one. It also tells "
        "a reader of a danger that is not there."
    ),
    remedy="Remove the comment, or the one code of it that hides nothing.",
    quiet=(
        "A rule that was off in this run, by selection or because the file could not be read: whether the comment is "
        "needed is then not known. A comment that names KG002 too is kept."
    ),
    fix=SAFE,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(x + i, 0.0, mask=i < n)  # kgate: ignore[KG202] the tail is masked elsewhere
                                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(x + i, 0.0, mask=i < n)
            """,
            note="The store has got its mask since.",
        ),
        Example(
            """
            # kgate: ignore-file[KG309] masks are multiplied in on purpose
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, y, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)
            """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, y, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)
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
            note="It hides a multiplication by a mask.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def k(x, n, B: tl.constexpr):
                i = tl.arange(0, B)
                tl.store(x + i, 0.0, mask=i < n)  # kgate: ignore[KG202, KG002] needed before 2.0
            """,
            note="It names KG002 too, so it stays: with another version it does hide something.",
        ),
    ),
)
