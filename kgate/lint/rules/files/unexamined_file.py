"""KG005: a file that a rule could not look at."""

from __future__ import annotations

from kgate.lint.rule import WARNING, Example, Rule

RULE = Rule(
    code="KG005",
    name="unexamined-file",
    severity=WARNING,
    summary="A file is nested too deeply for the rules, or a rule failed on it.",
    why="Silence about the file means nothing then: what is wrong in it was not looked for.",
    remedy="Split the expression, or exclude the file; a rule that failed is a mistake in kgate, and worth a report.",
    quiet="Files that every rule has looked at.",
    valid=(
        Example("""
            import triton

            @triton.jit
            def kernel(x_ptr):
                ...
        """),
    ),
)
