"""KG115: a declaration in a file that no configured root holds."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.rule import ERROR, Example, Rule
from kgate.source.config import Config
from kgate.source.index import Index
from kgate.source.records import Finding

_DECLARED = """
    from kgate import Dim, Envelope, Tensor, kernel

    def double_eager(x):
        return x * 2

    @kernel(
     ^^^^^^^
        reference=double_eager,
        fallback=double_eager,
        envelope=Envelope(
            inputs={"x": Tensor("N", "float32")},
            outputs={"y": Tensor("N", "float32")},
            dims={"N": Dim(1, 1024)},
            targets=("cuda:sm_80+",),
        ),
    )
    def double(x):
        ...
"""

RULE = Rule(
    code="KG115",
    name="outside-roots",
    severity=ERROR,
    summary="A declaration lies in no `[[tool.kgate.root]]` of the project.",
    why="Nothing says how to import the file, nor where its baselines lie, so that the kernel cannot be proved.",
    remedy="Add a root for its folder, or exclude the file.",
    invalid=(Example(_DECLARED, config='[[root]]\npath = "python"\n'),),
    valid=(Example(_DECLARED.replace("     ^^^^^^^\n", "")),),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Declarations that no root owns."""
    yield from outside(project.index, project.config)


def outside(index: Index, config: Config) -> Iterator[Finding]:
    """The findings of an index."""
    for item in index.declarations:
        if not any(root.owns(item.path) for root in config.roots):
            yield Finding(
                RULE.code,
                RULE.severity,
                item.path,
                item.line,
                item.column,
                item.line,
                item.column + len("kernel("),
                f"{item.name} lies in no [[tool.kgate.root]], so that nothing says how to import it",
                "add a root for its folder, or exclude the file",
                item.identity,
                RULE.name,
            )
