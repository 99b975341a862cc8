"""KG704: a baseline file holds conflict markers."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.baselines.store import CONFLICT
from kgate.lint.linking import Project
from kgate.lint.rule import ERROR, Example, Rule
from kgate.lint.rules.baselines._files import at_line, declared, files_of
from kgate.source.records import Finding

RULE = Rule(
    code="KG704",
    name="baseline-conflicted",
    severity=ERROR,
    summary="A baseline file holds conflict markers: a merge was not finished.",
    why=("None of its lines can be used, so that the kernel is judged by nothing."),
    remedy="Take either side, then run `kgate bless KERNEL` and commit.",
    quiet="Repositories that have not configured kgate.",
    invalid=(
        Example(
            declared("""
                # file: baselines/kernel/double/interpreter.jsonl
                <<<<<<< ours
                ^
                "nothing yet"
                =======
                "nothing at all"
                >>>>>>> theirs

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
    """Files that hold the markers of an unfinished merge."""
    for _, file in files_of(project):
        for problem in file.problems:
            if problem.code == CONFLICT:
                yield at_line(project, RULE, file.path, problem.line, problem.message, problem.remedy)
