"""Definitions in JSON, as flashinfer-bench keeps them: name, axes, inputs, outputs and the source of a reference."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kgate.contract.dtypes import DTYPES
from kgate.contract.errors import DeclarationError
from kgate.contract.where import parse
from kgate.lint.init.draft import DRAFT_LIMIT, Draft, Entry
from kgate.lint.init.project import Project

FOLDER = "kgate_references"
"""Where the references that definitions carry are written, one file each."""


@dataclass(frozen=True)
class Definition:
    """One definition, as far as a declaration can use it."""

    path: str
    name: str
    axes: dict[str, int | None]
    """Axis to its size; None for one that varies."""
    inputs: dict[str, tuple[tuple[str, ...] | None, str]]
    """Input to its axes (None for a number) and dtype."""
    outputs: dict[str, tuple[tuple[str, ...] | None, str]]
    constraints: tuple[str, ...] = ()
    reference: str = ""
    """Source with a function ``run``."""
    names: tuple[str, ...] = field(default=())
    """Names that a launcher of it may have."""


def read_definitions(project: Project) -> list[Definition]:
    """Every definition of the tree; files that are no definition are passed over."""
    paths = [path for path in project.index.store.oids if path.endswith(".json") and "definitions" in path.split("/")]
    found = []
    for path in sorted(paths):
        try:
            raw = json.loads(project.index.store.tree.read(path))
            definition = _definition(path, raw)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if definition is not None:
            found.append(definition)
    return found


def _definition(path: str, raw: Any) -> Definition | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not isinstance(raw.get("inputs"), dict):
        return None
    axes = {name: axis.get("value") if axis["type"] == "const" else None for name, axis in raw["axes"].items()}
    if not all(name.isidentifier() for name in (*axes, *raw["inputs"], *raw["outputs"])):
        return None
    reference = raw.get("reference", "")
    return Definition(
        path,
        raw["name"],
        axes,
        _tensors(raw["inputs"]),
        _tensors(raw["outputs"]),
        tuple(text for text in raw.get("constraints") or () if isinstance(text, str)),
        reference if isinstance(reference, str) and "def run(" in reference else "",
        tuple(text for text in (raw["name"], raw.get("op_type")) if isinstance(text, str)),
    )


def _tensors(raw: dict[str, Any]) -> dict[str, tuple[tuple[str, ...] | None, str]]:
    found = {}
    for name, tensor in raw.items():
        shape = tensor.get("shape")
        found[name] = (tuple(map(str, shape)) if shape is not None else None, str(tensor["dtype"]))
    return found


def definition_of(definitions: list[Definition], draft: Draft) -> Definition | None:
    """The definition that a launcher implements: it takes the same inputs, and is called alike or is the only one."""
    names = [name for name, default in draft.parameters if not default]
    same = [item for item in definitions if list(item.inputs) == names]
    named = [item for item in same if draft.name in item.names or draft.launcher.symbol.endswith(f"::{item.name}")]
    return named[0] if len(named) == 1 else same[0] if len(same) == 1 and not named else None


def apply(definition: Definition, draft: Draft) -> dict[str, str]:
    """Let a definition say what a draft promises; gives the file with its reference, by path."""
    why = [definition.path]
    known = {entry.name: entry for entry in draft.dims}
    mutated = {entry.name for entry in draft.inputs if "mutated=True" in entry.source}
    draft.inputs = [_input(name, spec, definition, why, name in mutated) for name, spec in definition.inputs.items()]
    draft.outputs = [_output(name, spec, definition, why) for name, spec in definition.outputs.items()]
    used = {
        axis for shape, _ in definition.inputs.values() for axis in shape or () if definition.axes.get(axis) is None
    }
    draft.dims = [
        known.get(axis) or Entry(axis, f"Dim(1, {DRAFT_LIMIT})", [f"narrow, to be widened: {definition.path}"])
        for axis in definition.axes
        if axis in used
    ]
    for entry in draft.dims:
        if entry.todo:
            entry.source, entry.todo = f"Dim(1, {DRAFT_LIMIT})", ""
            entry.evidence = [f"narrow, to be widened: {definition.path}"]
    draft.dtypes = []
    draft.where = [Entry("", f'"{text}"', why) for text in definition.constraints if _speaks_of(text, used)]
    if not definition.reference:
        return {}
    stem = "".join(character if character.isalnum() else "_" for character in definition.name)
    target = f'"{FOLDER}.{stem}:run"'
    draft.reference, draft.fallback = Entry("reference", target, why), Entry("fallback", target)
    return {f"{FOLDER}/{stem}.py": definition.reference.rstrip() + "\n"}


def _speaks_of(text: str, axes: set[str]) -> bool:
    try:
        return parse(text).names() <= axes
    except DeclarationError:
        return False


def _shape(axes: tuple[str, ...], definition: Definition) -> str:
    sizes = [definition.axes.get(axis) for axis in axes]
    return " ".join(axis if size is None else str(size) for axis, size in zip(axes, sizes, strict=True))


def _input(
    name: str, spec: tuple[tuple[str, ...] | None, str], definition: Definition, why: list[str], mutated: bool
) -> Entry:
    axes, dtype = spec
    if axes is None:
        kind = "bool" if dtype == "bool" else "int" if "int" in dtype else "float"
        todo = f"the range of {name}"
        source = 'Scalar("bool")' if kind == "bool" else f'Scalar("{kind}", "TODO: {todo}")'
        return Entry(name, source, why, "" if kind == "bool" else todo)
    if dtype not in DTYPES:
        todo = f"the dtype of {name} ({dtype} in the definition)"
        return Entry(name, f'Tensor("{_shape(axes, definition)}", "TODO")', why, todo)
    written = ", mutated=True" if mutated else ""
    return Entry(name, f'Tensor("{_shape(axes, definition)}", "{dtype}"{written}, layout="contiguous")', why)


def _output(name: str, spec: tuple[tuple[str, ...] | None, str], definition: Definition, why: list[str]) -> Entry:
    axes, dtype = spec
    if axes is None or dtype not in DTYPES:
        return Entry(name, "Ignore()", why)
    return Entry(name, f'Tensor("{_shape(axes, definition)}", "{dtype}")', why)
