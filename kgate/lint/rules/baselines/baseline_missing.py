"""KG701: a kernel with workloads has no baseline file for a target."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.contract.targets import expand
from kgate.lint.linking import Project
from kgate.lint.rule import WARNING, Example, Rule
from kgate.lint.rules.baselines._files import declared, files_of, layout_of
from kgate.source.records import Finding

RULE = Rule(
    code="KG701",
    name="baseline-missing",
    severity=WARNING,
    summary="A kernel has workloads, and no baseline file for one of the targets that it is compiled for.",
    why=(
        "Without committed lines nothing says how many registers, spills and wide loads the kernel had "
        "before: a change that makes it slower passes."
    ),
    remedy="Run `kgate bless KERNEL`, and commit the files that it writes.",
    quiet="Kernels without workloads; targets outside `probe-targets`; repositories that have not configured kgate.",
    invalid=(Example(declared(marked=True)),),
    valid=(
        Example(
            declared("""
                # file: baselines/kernel/double/interpreter.jsonl
                "nothing yet"

                # file: baselines/kernel/double/cuda-sm_90.jsonl
                "nothing yet"
            """)
        ),
        Example(declared(workload="")),
    ),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Kernels with workloads, against the files that are there."""
    if not project.config.configured:
        return
    present = {file.path for _, file in files_of(project)}
    probed = project.config.probe_targets
    for declaration in project.index.declarations:
        if not declaration.workloads:
            continue
        layout = layout_of(project.config.root_of(declaration.path))
        declared = set(expand(declaration.envelope.targets))
        wanted = ["interpreter", *(target for target in probed if target in declared)]
        missing = [target for target in wanted if layout.path(declaration.identity, target) not in present]
        if missing:
            yield project.at_declaration(
                RULE,
                declaration,
                f"{declaration.name} has no baseline for {', '.join(missing)}",
                f"run: kgate bless {declaration.name}",
            )
