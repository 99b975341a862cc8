"""KG001 unreadable-file: a file that is no Python, so that nothing in it is checked."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG001",
    name="unreadable-file",
    severity=ERROR,
    lowered="a warning in `kgate check` where the file does not mention kgate",
    summary="A file that mentions kernels cannot be read as Python.",
    why=(
        "Whatever kernels it holds are neither checked nor counted, and kernels in other files that rest on it cannot "
        "be followed to their end. A merge left unfinished, or one wrong byte, would pass as clean."
    ),
    remedy="Correct the line that is named, or list the file under `exclude` where it is no source at all.",
    quiet="Files that `exclude` names. A file that does not mention a kernel framework is left to other tools.",
    covers=("unreadable-file",),
    invalid=(
        Example(
            """
            import triton

            @triton.jit
            def k(x:
                 ^
                pass
            """,
            note="A parenthesis that is never closed: Python names the place where it was opened.",
        ),
    ),
    valid=(
        Example(
            """
            import triton

            @triton.jit
            def k(x):
                pass
            """,
            note="The same, closed.",
        ),
    ),
)
