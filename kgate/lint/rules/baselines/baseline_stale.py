"""KG702: baseline lines that were measured with other code."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.rule import NOTE, Example, Rule
from kgate.lint.rules.baselines._files import declared, files_of
from kgate.source.records import Finding

_LINE = (
    '{"schema": "kgate.line/1", "case": "N=4096", "probe": "accuracy", "executor": "interpreter", '
    '"toolchain": "triton 3.7.1", "code": "0123456789abcdef", "figures": {"y": {"wrong": 0}}, "sum": "79ec6c1e"}'
)

RULE = Rule(
    code="KG702",
    name="baseline-stale",
    severity=NOTE,
    summary="The code of a kernel is not the one that its committed lines were measured with.",
    why=(
        "That is no mistake: a change within the limits passes and leaves the line as the yardstick. But "
        "figures read from the baselines, or from a record made of them, are those of other code."
    ),
    remedy="Run `kgate bless KERNEL` where the new figures are to be the yardstick.",
    quiet="Lines that carry the hash of the code as it is.",
    invalid=(
        Example(
            declared(
                """
                # file: baselines/kernel/double/interpreter.jsonl
                @LINE@

                # file: baselines/kernel/double/cuda-sm_90.jsonl
                "nothing yet"
            """,
                marked=True,
            ).replace("@LINE@", _LINE)
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
    """Declarations whose code hash no line of a file carries."""
    measured = _codes(project)
    for declaration in project.index.declarations:
        codes = measured.get(declaration.identity, set())
        if codes and codes != {project.index.closure(declaration.identity).fingerprint.code}:
            yield project.at_declaration(
                RULE,
                declaration,
                f"the baselines of {declaration.name} were measured with other code than it has now",
                f"run: kgate bless {declaration.name}, where the new figures are to be the yardstick",
            )


def _codes(project: Project) -> dict[str, set[str]]:
    """Kernel to the code hashes that its usable lines carry."""
    found: dict[str, set[str]] = {}
    for _, file in files_of(project):
        for record in file.records:
            if record.line is not None:
                found.setdefault(file.kernel, set()).add(record.line.code)
    return found
