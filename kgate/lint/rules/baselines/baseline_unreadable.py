"""KG705: a baseline file holds something that kgate did not write."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.baselines.store import CONFLICT
from kgate.lint.linking import Project
from kgate.lint.rule import ERROR, Example, Rule
from kgate.lint.rules.baselines._files import at_line, declared, files_of
from kgate.source.records import Finding

RULE = Rule(
    code="KG705",
    name="baseline-unreadable",
    severity=ERROR,
    summary="A baseline file cannot be read, was cut off, or holds figures that were edited by hand.",
    why=(
        "Each line carries a checksum over its figures. A line that does not match it is no measurement, and "
        "what it would let pass was never seen."
    ),
    remedy="Restore the file with git, or run `kgate bless KERNEL`.",
    quiet="Repositories that have not configured kgate.",
    invalid=(
        Example(
            declared("""
                # file: baselines/kernel/double/interpreter.jsonl
                {"schema": "kgate.line/1", "case": "N=4096"
                ^

                # file: baselines/kernel/double/cuda-sm_90.jsonl
                "nothing yet"
            """)
        ),
    ),
    valid=(
        Example(
            declared("""
                # file: baselines/kernel/double/interpreter.jsonl
                "nothing yet"

                # file: baselines/kernel/double/cuda-sm_90.jsonl
                "nothing yet"
            """)
        ),
    ),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Files with any other mistake than conflict markers."""
    for _, file in files_of(project):
        for problem in file.problems:
            if problem.code != CONFLICT:
                yield at_line(project, RULE, file.path, problem.line, problem.message, problem.remedy)
