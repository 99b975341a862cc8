"""KG125: a device function that nothing launches, calls or names."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.rule import NOTE, Example, Rule
from kgate.source.facts import FileFacts
from kgate.source.records import Finding

RULE = Rule(
    code="KG125",
    name="orphan-kernel",
    severity=NOTE,
    summary="A private device function is named nowhere: nothing launches it, calls it or exports it.",
    why=(
        "Dead kernels are read, ported and tuned, and found in searches as if they were in use; often one is left over "
        "from a rewrite whose launcher still has the old name in its comments."
    ),
    remedy="Delete it, or launch it.",
    quiet="Names without a leading underscore, which others may import; names that occur in a string or in `__all__`.",
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def _copy_kernel_v1(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                ^^^^^^^^^^^^^^^
                ...
        """),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def _scale(x):
                return x * 2

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                tl.store(y_ptr, _scale(tl.load(x_ptr)))
        """),
    ),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Private device functions whose name occurs nowhere else."""
    index = project.index
    suspects = [
        item
        for item in index.device_functions
        if not item.launches and item.identity.rpartition("::")[2].startswith("_") and item.framework == "triton"
    ]
    if not suspects:
        return
    named: set[str] = set()
    chains: set[str] = set()
    for path in index.paths:
        _note(index.facts(path), named, chains)
    for chain in chains:
        named |= {chain.rpartition(".")[2], chain.partition(".")[0]}
    for item in suspects:
        name = item.identity.rpartition("::")[2]
        summary = project.device(item.path, name)
        if name not in named and summary is not None:
            yield project.finding(
                RULE,
                item.path,
                summary.summary.place,
                f"nothing launches, calls or names `{name}`",
                "delete it, or launch it",
                symbol=name,
            )


def _note(facts: FileFacts, found: set[str], chains: set[str]) -> None:
    """Note the names that a file uses: the chains that it reads, what else it names, and strings that it hands over."""
    found.update(facts.exports or ())
    used = [item.uses for item in facts.effects]
    for item in facts.definitions:
        used += [item.uses, *(decorator.uses for decorator in item.decorators)]
        found.add(item.alias.rpartition(".")[2])
    for uses in used:
        chains.update(chain for chain, _ in uses.refs)
        found.update(site.chain.rpartition(".")[2] for site in uses.launches)
        for given in uses.given:
            found.update(value for value in given.positional if value)
    found.update(item.attribute for item in facts.imports if item.attribute)
