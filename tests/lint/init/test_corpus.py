"""The project's own kernels without their declarations: what is inferred must follow from what they declare."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import kgate
from kgate.lint.init import InitResult, Options, init
from kgate.source.folder import FolderSnapshot
from kgate.source.index import build_index
from kgate.source.records import Declaration

ROOT = Path(__file__).parents[3]
WIDER = {
    "contiguous": ("contiguous", "inner_contiguous", "row_major", "any"),
    "inner_contiguous": ("inner_contiguous", "any"),
    "any": ("any",),
}
"""Layout to those that it implies."""


def without_declarations(text: str) -> str:
    """A file without its `@kernel(...)` decorators and its import of kgate."""
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        calls = [item for item in getattr(node, "decorator_list", ()) if isinstance(item, ast.Call)]
        gone = [item for item in calls if isinstance(item.func, ast.Name) and item.func.id == "kernel"]
        gone += [node] if isinstance(node, ast.ImportFrom) and node.module == "kgate" else []
        for item in gone:
            dropped |= set(range(item.lineno, (item.end_lineno or 0) + 1))
    return "\n".join(line for at, line in enumerate(text.splitlines(), 1) if at not in dropped) + "\n"


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> InitResult:
    folder = tmp_path_factory.mktemp("corpus")
    for path in (ROOT / "kernels").rglob("*.py"):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(without_declarations(path.read_text(encoding="utf-8")), encoding="utf-8")
    return init(folder, Options(dry_run=True), env={})


class Only(FolderSnapshot):
    """The tree of the corpus alone."""

    def files(self) -> dict[str, str]:
        return {path: oid for path, oid in super().files().items() if path.startswith("kernels/")}


DECLARED = {declaration.identity: declaration for declaration in build_index(Only(ROOT)).declarations}


def parts(drafted: InitResult, launcher: str) -> dict[str, Any]:
    """The entries of one stub without placeholders, as objects."""
    (stub,) = (stub for stub in drafted.stubs if stub.launcher == launcher)
    text = re.search(rf"^{stub.name} = kernel\(.*?^\)\(", drafted.files[stub.file], re.DOTALL | re.MULTILINE)
    assert text is not None
    found = re.findall(r'^ +"(\w+)": (.*?),(?:  # .*)?$', text.group(0), re.MULTILINE)
    return {name: eval(source, vars(kgate)) for name, source in found if "TODO" not in source}


def dtypes(spec: kgate.Tensor, variables: dict[str, tuple[str, ...]]) -> set[str]:
    return set(variables.get(spec.dtype, (spec.dtype,)))


def test_every_kernel_is_drafted(drafted):
    assert {stub.launcher for stub in drafted.stubs} == set(DECLARED)
    assert drafted.unexpected == ()


@pytest.mark.parametrize("declaration", DECLARED.values(), ids=list(DECLARED))
def test_inferred_inputs_follow_from_the_declared_ones(drafted, declaration: Declaration):
    found, true = parts(drafted, declaration.identity), declaration.envelope
    compared = 0
    for name, spec in true.inputs.items():
        draft = found.get(name)
        if not isinstance(draft, kgate.Tensor):
            continue
        assert isinstance(spec, kgate.Tensor)
        assert draft.rank == spec.rank
        assert dtypes(draft, found) <= dtypes(spec, true.dtypes)
        assert spec.layout in WIDER[draft.layout]
        assert spec.optional or not draft.optional
        compared += 1
        for mine, theirs in zip(draft.shape.split(), spec.shape.split(), strict=True):
            inferred = found.get(mine)
            if isinstance(inferred, kgate.Dim):
                assert true.dims[theirs].lo <= inferred.lo
                assert inferred.hi <= true.dims[theirs].hi
    assert compared > 0


@pytest.mark.parametrize("declaration", DECLARED.values(), ids=list(DECLARED))
def test_sizes_declared_as_equal_are_not_inferred_to_differ(drafted, declaration: Declaration):
    found, true = parts(drafted, declaration.identity), declaration.envelope
    meant: dict[str, set[str]] = {}
    for specs in (true.inputs, true.outputs):
        for at, (name, spec) in enumerate(specs.items()):
            drafted_as = name if specs is true.inputs else "y" if len(specs) == 1 else f"y{at}"
            draft = found.get(drafted_as)
            if isinstance(draft, kgate.Tensor) and isinstance(spec, kgate.Tensor):
                for mine, theirs in zip(draft.shape.split(), spec.shape.split(), strict=True):
                    if mine in found:  # a size that a person has to name is none yet
                        meant.setdefault(theirs, set()).add(mine)
    assert all(len(names) == 1 for names in meant.values()), meant


@pytest.mark.parametrize("declaration", DECLARED.values(), ids=list(DECLARED))
def test_inferred_outputs_follow_from_the_declared_ones(drafted, declaration: Declaration):
    found, true = parts(drafted, declaration.identity), declaration.envelope
    for at, spec in enumerate(true.outputs.values()):
        draft = found.get("y" if len(true.outputs) == 1 else f"y{at}")
        if isinstance(draft, kgate.Tensor) and isinstance(spec, kgate.Tensor):
            assert draft.rank == spec.rank
            assert dtypes(draft, found) <= dtypes(spec, true.dtypes)
