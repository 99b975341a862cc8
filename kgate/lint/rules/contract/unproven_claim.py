"""KG124: a declared dtype or target that nothing proves."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.contract.targets import expand
from kgate.lint.linking import Project
from kgate.lint.rule import NOTE, Example, Rule
from kgate.source.records import Declaration, Finding

_DECLARED = """
    from kgate import Dim, Envelope, Tensor, Workload, kernel

    def double_eager(x):
        return x * 2

    @kernel(
{mark}        reference=double_eager,
        fallback=double_eager,
        envelope=Envelope(
            inputs={{"x": Tensor("N", "T")}},
            outputs={{"y": Tensor("N", "T")}},
            dtypes={{"T": ("float16", "float32")}},
            dims={{"N": Dim(1, 65536)}},
            targets=("cuda:sm_90",{target}),
        ),
        workloads=(
            Workload(N=4096, T="float16", source="a model"),{workload}
        ),
    )
    def double(x):
        ...
"""
_MARK = "     ^^^^^^^\n"
_OTHER = '\n            Workload(N=4096, T="float32", source="another"),'

RULE = Rule(
    code="KG124",
    name="unproven-claim",
    severity=NOTE,
    summary="A declared dtype has no workload, or a declared target is one that nothing is compiled for.",
    why=(
        "The capability record tells compilers and runtimes what they may rely on. A dtype without a workload has no "
        "line in the baselines, and of a target outside `probe-targets` nothing is known but the promise."
    ),
    remedy="Add a workload for the dtype, add the target to `probe-targets`, or promise less.",
    quiet="Declarations without any workload, which have no baselines to be complete.",
    invalid=(
        Example(_DECLARED.format(mark=_MARK, target="", workload="")),
        Example(_DECLARED.format(mark=_MARK, target=' "cuda:sm_70"', workload=_OTHER)),
    ),
    valid=(Example(_DECLARED.format(mark="", target="", workload=_OTHER)),),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Dtypes without a workload, targets without a probe."""
    probed = set(project.config.probe_targets)
    for declaration in project.index.declarations:
        for message, remedy in (*_dtypes(declaration), *_targets(declaration, probed)):
            yield project.at_declaration(RULE, declaration, message, remedy)


def _dtypes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    if not declaration.workloads:
        return
    for variable, dtypes in declaration.envelope.dtypes.items():
        used = {workload.values.get(variable) for workload in declaration.workloads}
        missing = [dtype for dtype in dtypes if dtype not in used] if used - {None} else []
        if missing:
            names = " and ".join(missing)
            it = "it" if len(missing) == 1 else "them"
            yield (
                f"{declaration.name} promises {variable} = {names}, and no workload has {it}",
                f'add a workload with {variable}="{missing[0]}", or promise less',
            )


def _targets(declaration: Declaration, probed: set[str]) -> Iterator[tuple[str, str]]:
    for target in declaration.envelope.targets:
        if not probed & set(expand((target,))):
            yield (
                f"{declaration.name} promises {target}, and probe-targets has nothing that would compile for it",
                "add it to probe-targets, or promise less",
            )
