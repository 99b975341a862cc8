"""KG703: a baseline file whose kernel is not declared."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.contract.targets import expand
from kgate.lint.linking import Project
from kgate.lint.rule import WARNING, Example, Rule
from kgate.lint.rules.baselines._files import at_line, declared, files_of
from kgate.source.records import Finding

RULE = Rule(
    code="KG703",
    name="baseline-obsolete",
    severity=WARNING,
    summary="A baseline file is for a kernel that is not declared any more, or for a target that it does not have.",
    why=(
        "The kernel was renamed, moved or deleted and its lines stayed behind: they are read as evidence of a "
        "kernel that does not exist."
    ),
    remedy="Run `kgate bless`, which removes or moves them.",
    quiet="Repositories that have not configured kgate.",
    invalid=(
        Example(
            declared("""
                # file: baselines/kernel/halve/interpreter.jsonl
                "nothing yet"
                ^
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
    """Files of kernels and targets that no declaration has."""
    if not project.config.configured:
        return
    for _, file in files_of(project):
        declaration = project.declarations.get(file.kernel)
        if declaration is None:
            if file.kernel not in project.index.sites:  # one with a mistake is still meant to be here
                yield at_line(project, RULE, file.path, 1, f"{file.kernel} is not declared", "run: kgate bless")
        elif ":" in file.target and file.target not in expand(declaration.envelope.targets):
            message = f"{declaration.name} does not promise {file.target}"
            yield at_line(project, RULE, file.path, 1, message, f"run: kgate bless {declaration.name}")
