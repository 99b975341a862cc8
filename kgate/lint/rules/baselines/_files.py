"""The committed baseline files of a project, as its tree holds them, and where findings about them are shown."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

from kgate.baselines.store import File, Layout, read_file
from kgate.lint.linking import Project
from kgate.lint.rule import Rule
from kgate.source.config import Root
from kgate.source.records import Finding

_DECLARED = """
    from kgate import Dim, Envelope, Tensor, Workload, kernel

    def double_eager(x):
        return x * 2

    @kernel(
{mark}        reference=double_eager,
        fallback=double_eager,
        envelope=Envelope(
            inputs={{"x": Tensor("N", "float32")}},
            outputs={{"y": Tensor("N", "float32")}},
            dims={{"N": Dim(1, 65536)}},
            targets=("cuda:sm_90",),
        ),
        workloads=({workload}),
    )
    def double(x):
        ...
"""
_WORKLOAD = 'Workload(N=4096, source="a model"),'


def declared(files: str = "", *, marked: bool = False, workload: str = _WORKLOAD) -> str:
    """The code of an example: a declared kernel, ``marked`` where a finding points at it, and baseline files."""
    code = dedent(_DECLARED.format(mark="     ^^^^^^^\n" if marked else "", workload=workload))
    return code + (f"\n{dedent(files).strip()}\n" if files else "")


def layout_of(root: Root) -> Layout:
    """Where the baselines of a root lie."""
    return Layout(root.join(root.baselines), root.path)


def files_of(project: Project) -> list[tuple[Layout, File]]:
    """Every baseline file of the tree, with the layout that it belongs to; read once per project."""
    known: list[tuple[Layout, File]] | None = project.memory.get("baseline_files")
    if known is None:
        known = project.memory["baseline_files"] = list(_read(project))
    return known


def _read(project: Project) -> Iterator[tuple[Layout, File]]:
    store = project.index.store
    for root in project.config.roots:
        layout = layout_of(root)
        found = {}
        for path in store.oids:
            parsed = layout.parse(path) if path.endswith(".jsonl") else None
            if parsed is not None:
                found[path] = parsed
        contents = store.tree.read_many(sorted(found)) if found else {}
        for path in sorted(found):
            kernel, target = found[path]
            yield layout, read_file(path, kernel, target, contents[path])


def at_line(project: Project, rule: Rule, path: str, line: int, message: str, remedy: str) -> Finding:
    """A finding in a baseline file."""
    return project.finding(rule, path, (max(line, 1), 1, max(line, 1), 2), message, remedy)
