"""From the traces of a launcher to a draft of its declaration. What is not known is a placeholder, never a promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kgate.lint.init.docstrings import documented_shapes
from kgate.lint.init.frames import dtype_called, tensor
from kgate.lint.init.launchers import Launcher
from kgate.lint.init.project import Project
from kgate.lint.init.registrations import Registered
from kgate.lint.init.sizes import Sizes, factors
from kgate.lint.init.trace import Tracer
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Dtype,
    Evidence,
    Facts,
    Items,
    Known,
    Parameter,
    Value,
)
from kgate.source.uses import chain_of

FLOATS = ("float16", "bfloat16", "float32")
DRAFT_LIMIT = 4096
"""Upper end of a size that device code covers with masks and loops, where the code names no limit."""
DRAFT_BLOCK = 1024
"""The same of a size that one block has to hold."""
DRAFT_PRODUCT = 128
"""The same of a size that one block of a product of matrices has to hold."""
LONGEST = 2**31
"""Offsets of 32 bits reach this far."""
TRIES = 8
"""Parameters with defaults that are tried with another value, per launcher."""
_OFFSETS = ("cu_seqlens", "cu_seq_lens", "cu_seqlen", "indptr", "seq_offsets", "offsets")
_TENSORS = ("Tensor", "LongTensor", "FloatTensor", "IntTensor", "BoolTensor")


@dataclass
class Entry:
    """One line of the stub: a name, the source of its value, and why."""

    name: str
    source: str
    evidence: list[str] = field(default_factory=list)
    todo: str = ""
    """What a person has to say; empty where nothing is left."""


@dataclass
class Draft:
    """The declaration of one launcher, as far as the code tells."""

    launcher: Launcher
    name: str
    """Name of the variable that declares it."""
    inputs: list[Entry] = field(default_factory=list)
    outputs: list[Entry] = field(default_factory=list)
    dtypes: list[Entry] = field(default_factory=list)
    dims: list[Entry] = field(default_factory=list)
    where: list[Entry] = field(default_factory=list)
    targets: list[Entry] = field(default_factory=list)
    reference: Entry = field(default_factory=lambda: Entry("reference", ""))
    fallback: Entry = field(default_factory=lambda: Entry("fallback", ""))
    helper: list[str] = field(default_factory=list)
    """Lines of a function that the stub refers to; empty without one."""
    op: str = ""
    notes: list[str] = field(default_factory=list)
    """Sentences for the comment above the stub."""
    parameters: list[tuple[str, str]] = field(default_factory=list)
    """Name and default (as source) of the launcher's parameters, for a function around it."""
    keyword_only: set[str] = field(default_factory=set)
    """Those of them that are given by name."""

    def todos(self) -> list[str]:
        """What is left to complete, in the order of the stub."""
        parts = [self.reference, self.fallback, *self.inputs, *self.outputs, *self.dtypes, *self.dims, *self.where]
        return [entry.todo for entry in (*parts, *self.targets) if entry.todo]


@dataclass
class _Parameter:
    name: str
    default: ast.expr | None
    annotation: str

    @property
    def optional_tensor(self) -> bool:
        return isinstance(self.default, ast.Constant) and self.default.value is None

    @property
    def is_tensor(self) -> bool:
        plain = self.annotation.replace("Optional[", "").replace("]", "").replace(" ", "")
        return any(part.rpartition(".")[2] in _TENSORS for part in plain.split("|"))

    @property
    def kind(self) -> str:
        plain = self.annotation.replace("Optional[", "").replace("]", "").replace(" ", "")
        first = plain.split("|")[0]
        return first if first in ("int", "float", "bool", "str") else ""


def draft(project: Project, launcher: Launcher, name: str, registered: Registered) -> Draft:
    """The draft of one launcher, reference and fallback apart."""
    return _Drafter(project, launcher, name, registered).make()


class _Drafter:
    def __init__(self, project: Project, launcher: Launcher, name: str, registered: Registered) -> None:
        self.project, self.launcher, self.registered = project, launcher, registered
        self.symbol = f"{launcher.symbol}.forward" if launcher.kind == "apply" else launcher.symbol
        self.node = project.function(self.symbol)
        self.draft = Draft(launcher, name)
        self.path = launcher.symbol.partition("::")[0]
        self.parameters = self._parameters()
        self.optional: dict[str, Facts] = {}
        """Optional tensors to the trace in which they are there."""
        self.flags: list[str] = []
        self.variables: dict[tuple[str, ...], str] = {}

    def _parameters(self) -> list[_Parameter]:
        if self.node is None:
            return []
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(
            arguments.defaults
        )
        pairs = list(zip(positional, defaults, strict=True))
        if self.launcher.kind == "apply":
            pairs = pairs[1:]
        pairs += list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        return [
            _Parameter(a.arg, default, ast.unparse(a.annotation).strip("'\"") if a.annotation is not None else "")
            for a, default in pairs
        ]

    # Traces

    def _given(self) -> dict[str, Value]:
        given: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.default is None:
                given[parameter.name] = tensor(parameter.name) if parameter.is_tensor else Parameter(parameter.name)
                continue
            try:
                given[parameter.name] = Known(ast.literal_eval(parameter.default), parameter.name)
            except (ValueError, TypeError, SyntaxError):
                given[parameter.name] = dtype_called(chain_of(parameter.default))
        return given

    def _trace(self, given: dict[str, Value]) -> Facts:
        if self.launcher.kind == "apply":
            given = {**given, "ctx": UNKNOWN}
            assert self.node is not None
            if self.node.args.args:
                given[self.node.args.args[0].arg] = UNKNOWN
        facts = Tracer(self.project, given, self.documented).run(self.symbol)
        again = {**given}
        for name, value in given.items():
            if isinstance(value, Parameter) and name in facts.tensors:
                again[name] = tensor(name)
            elif isinstance(value, Parameter) and name in facts.axes:
                again[name] = Known(-1)
        if again != given:
            first = facts
            facts = Tracer(self.project, again, self.documented).run(self.symbol)
            facts.axes.update(first.axes)
            for name, evidence in first.tensors.items():
                facts.tensors.setdefault(name, evidence)
        return facts

    def make(self) -> Draft:
        """Trace, and put the draft together."""
        given = self._given()
        names = [parameter.name for parameter in self.parameters]
        shapes = documented_shapes(self.path, self.node, names) if self.node is not None else {}
        self.documented = {name: len(axes) for name, (axes, _) in shapes.items()}
        self.facts = self._trace(given)
        self.sizes = self._sizes(self.facts, self._tensors(self.facts))
        self._try_others(given)
        self._inputs()
        self._outputs()
        self._dims()
        self._where()
        self._dtypes()
        self._targets()
        self._notes()
        self.draft.op = self.registered.op
        if self.node is not None:
            self.draft.keyword_only = {argument.arg for argument in self.node.args.kwonlyargs}
        if self.parameters and self.parameters[0].name in ("self", "cls") and self.launcher.kind == "function":
            self.launcher.kind = "wrapped"
        self.draft.parameters = self._signature_parameters()
        if self.parameters and self.parameters[0].name in ("self", "cls"):
            self._rename_first()
        return self.draft

    def _signature_parameters(self) -> list[tuple[str, str]]:
        """The launcher's parameters with their defaults as source; a function around it has those that are literals.

        Any other default speaks of names that the file does not have; such a parameter keeps its default, and those
        that follow it by position theirs.
        """
        kept: list[tuple[str, str]] = []
        cut = False
        for parameter in self.parameters:
            by_name = parameter.name in self.draft.keyword_only
            default = _default_source(parameter.default)
            plain = default is not None or self.launcher.kind == "function"
            cut = cut or (not plain and not by_name)
            if plain and (by_name or not cut):
                kept.append((parameter.name, default or ""))
        names = {name for name, _ in kept}
        self.draft.inputs = [entry for entry in self.draft.inputs if entry.name in names]
        return kept

    def _rename_first(self) -> None:
        """A function whose first parameter is called ``self`` counts as a method: one around it calls it otherwise."""
        old = self.parameters[0].name
        taken = {name for name, _ in self.draft.parameters}
        new = "input" if "input" not in taken else "first"
        self.draft.parameters[0] = (new, self.draft.parameters[0][1])
        for entry in self.draft.inputs:
            entry.name = new if entry.name == old else entry.name
        self.draft.notes.append(f"{new} is what the launcher calls {old}")

    def _tensors(self, facts: Facts, also: Iterable[str] = ()) -> list[str]:
        names = {*facts.tensors, *also, *(p.name for p in self.parameters if p.is_tensor and p.default is None)}
        return [parameter.name for parameter in self.parameters if parameter.name in names]

    def _sizes(self, facts: Facts, inputs: list[str]) -> Sizes:
        names = frozenset(parameter.name for parameter in self.parameters) | {"T", "T2", "T3", "y", "y0", "y1"}
        documented = documented_shapes(self.path, self.node, inputs) if self.node is not None else {}
        for root, found in list(documented.items()):
            hard = facts.ranks.get(root)
            if hard and hard[0][0] != len(found[0]):
                del documented[root]
        wanted = {axis for axes, _ in documented.values() for axis in axes}
        clash = {"T", "T2", "T3"} & (wanted | {name for _, name, _ in facts.names})
        return Sizes(facts, inputs, documented, names - clash)

    def _try_others(self, given: dict[str, Value]) -> None:
        """Which optional tensors, and which flags, change nothing of the outputs when they are given."""
        base = self._signature(self.facts)
        tries = 0
        for parameter in self.parameters:
            value = given.get(parameter.name)
            if not isinstance(value, Known) or not value.parameter or tries >= TRIES:
                continue
            if parameter.optional_tensor and not parameter.kind and parameter.name not in self.registered.mutated:
                tries += 1
                facts = self._trace({**given, parameter.name: tensor(parameter.name)})
                used = parameter.name in facts.tensors and parameter.name not in facts.mutated
                if used and self._certain(facts) and self._signature(facts) == base:
                    self.optional[parameter.name] = facts
            elif isinstance(value.value, bool) and parameter.name in self.facts.flags:
                tries += 1
                facts = self._trace({**given, parameter.name: Known(not value.value, parameter.name)})
                if (
                    self._certain(facts)
                    and self._signature(facts) == base
                    and set(facts.mutated) == set(self.facts.mutated)
                ):
                    self.flags.append(parameter.name)

    def _signature(self, facts: Facts) -> tuple[Any, ...]:
        """What a trace says of the outputs, as far as two traces can be compared."""
        found = [tuple(_outline(item) for item in _items(value)) for value, _ in facts.returns[-1:]]
        return tuple(found)

    def _certain(self, facts: Facts) -> bool:
        """Whether everything that is returned is known, so that two traces can be compared."""
        values = [value for value, _ in facts.returns]
        items = [item for value in values for item in _items(value)]
        known = all(isinstance(item, Array) and item.shape is not None for item in items if item != Known(None))
        agree = len({tuple(map(_outline, _items(value))) for value in values}) <= 1
        return bool(facts.launches) and known and agree and not facts.truncated

    # Inputs

    def _inputs(self) -> None:
        for parameter in self.parameters:
            name = parameter.name
            if parameter.default is None:
                self.draft.inputs.append(self._required(parameter))
            elif name in self.optional:
                entry = self._optional(parameter)
                if entry is not None:
                    self.draft.inputs.append(entry)
            elif name in self.flags:
                evidence = [str(self.facts.flags[name])]
                self.draft.inputs.append(Entry(name, "Choice(False, True)", evidence))
            elif name in self.facts.literals and self._enumeration(parameter) is not None:
                self.draft.inputs.append(self._enumeration(parameter) or Entry(name, ""))

    def _enumeration(self, parameter: _Parameter) -> Entry | None:
        """A parameter with a default that the code compares with the literals it allows."""
        values, evidence = self.facts.literals[parameter.name][0]
        default = ast.literal_eval(parameter.default) if parameter.default is not None else None
        if len(set(map(repr, values))) != len(values) or default not in values or not 1 < len(values) <= 8:
            return None
        base, given = self._signature(self.facts), self._given()
        if not self._certain(self.facts):
            return None
        good = [
            value
            for value in values
            if value == default
            or self._signature(self._trace({**given, parameter.name: Known(value, parameter.name)})) == base
        ]
        return Entry(parameter.name, f"Choice({', '.join(map(_literal, good))})", [str(evidence)])

    def _required(self, parameter: _Parameter) -> Entry:
        name = parameter.name
        if name in self.sizes.inputs:
            return self._tensor(name, self.facts, self.sizes, optional=False)
        if name in self.facts.literals:
            values, evidence = self.facts.literals[name][0]
            if 0 < len(values) <= 16 and len(set(map(repr, values))) == len(values):
                return Entry(name, f"Choice({', '.join(map(_literal, values))})", [str(evidence)])
        if name in self.facts.axes:
            return Entry(name, "Choice(-1)", [str(self.facts.axes[name])])
        if parameter.kind == "bool" and self._certain(self.facts):
            return Entry(name, "Choice(False, True)", [self._signature_evidence(parameter)])
        if "ist[" in parameter.annotation and "Tensor" in parameter.annotation:
            todo = f"how many tensors {name} holds, and of which shape"
            return Entry(name, f'ListOf(Tensor("TODO", {_text(self._variable(()))}), "TODO")', [], todo)
        if parameter.kind in ("int", "float"):
            todo = f"the range of {name}"
            source = f'Scalar("{parameter.kind}", {_text("TODO: " + todo)})'
            return Entry(name, source, [self._signature_evidence(parameter)], todo)
        todo = f"what {name} is"
        return Entry(name, f"Scalar({_text('TODO: ' + todo)})", [], todo)

    def _signature_evidence(self, parameter: _Parameter) -> str:
        line = self.node.lineno if self.node is not None else 1
        return str(Evidence(self.path, line, f"{parameter.name}: {parameter.annotation}"))

    def _optional(self, parameter: _Parameter) -> Entry | None:
        """An optional tensor whose shape and dtype are known; else it is left out."""
        facts = self.optional[parameter.name]
        sizes = self._sizes(facts, self._tensors(facts, [*self.sizes.inputs, parameter.name]))
        shape = sizes.shape(parameter.name)
        if shape is None or any(sizes.shape(name) != self.sizes.shape(name) for name in self.sizes.inputs):
            return None
        known = set(self.sizes.dims())
        if not all(axis.isdecimal() or axis in known for axis in shape.split()):
            return None
        entry = self._tensor(parameter.name, facts, sizes, optional=True)
        return None if entry.todo or "TODO" in entry.source else entry

    def _tensor(self, name: str, facts: Facts, sizes: Sizes, *, optional: bool) -> Entry:
        shape, evidence = sizes.shape(name), [str(item) for item in sizes.why.get(name, [])]
        dtypes, because = self._shared_dtypes(name, facts)
        evidence += [str(item) for item in because]
        layout, why = self._layout(name, facts)
        evidence += [str(why)] if why is not None else []
        todo = ""
        if shape is None:
            shape, todo = f"TODO: the axes of {name}", f"the axes of {name}"
        if any(part in name for part in _OFFSETS) and len(shape.split()) == 1:
            return self._offsets(name, shape, optional, evidence)
        if optional and not dtypes:
            return Entry(name, "TODO", [], "dtypes")
        variable = dtypes[0] if len(dtypes) == 1 else self._variable(dtypes)
        if not dtypes:
            self._undecided.append(name)
        options = [_text(shape if not todo else "TODO"), _text(variable)]
        options += ["optional=True"] if optional else []
        mutated = facts.mutated.get(name) or self.registered.mutated.get(name)
        if mutated is not None:
            options.append("mutated=True")
            evidence.append(str(mutated))
        options += [f'layout="{layout}"'] if layout != "any" else []
        return Entry(name, f"Tensor({', '.join(options)})", evidence, todo)

    def _offsets(self, name: str, shape: str, optional: bool, evidence: list[str]) -> Entry:
        """Where sequences start; how many elements they have in all is for a person to say."""
        todo = f"the size that {name} ends with"
        extra = ", optional=True" if optional else ""
        return Entry(name, f'Offsets({_text(shape)}, "TODO"{extra})', evidence, todo)

    _undecided: list[str]

    def _shared_dtypes(self, name: str, facts: Facts) -> tuple[tuple[str, ...], list[Evidence]]:
        """The dtypes of an input; those told by device code alone are what all such inputs have in common."""
        dtypes, why = self._dtypes_of(name, facts)
        if name in facts.dtypes or not set(dtypes) & set(FLOATS) or not set(dtypes) <= set(FLOATS):
            return dtypes, why
        for other in self.sizes.inputs:
            found, _ = self._dtypes_of(other, facts)
            common = tuple(dtype for dtype in dtypes if dtype in found)
            if found and set(found) <= set(FLOATS) and common:
                dtypes = common
        return dtypes, why

    def _dtypes_of(self, name: str, facts: Facts) -> tuple[tuple[str, ...], list[Evidence]]:
        """The dtypes of an input, and why; empty where nothing tells."""
        group: set[str] = {name}
        ties: list[Evidence] = []
        moved = True
        while moved:
            moved = False
            for one, other, evidence in facts.same_dtype:
                if (one in group) != (other in group):
                    group |= {one, other}
                    ties.append(evidence)
                    moved = True
        refused = [item for member in sorted(group) for item in facts.not_dtypes.get(member, [])]
        if refused:
            ties = [refused[0][1], *ties]
        dtypes, why = self._of_group(name, group, facts, ties)
        without = {dtype for dtype, _ in refused}
        left = tuple(dtype for dtype in dtypes if dtype not in without)
        if dtypes and not left and set(dtypes) <= set(FLOATS):
            left = tuple(dtype for dtype in FLOATS if dtype not in without)
        return left, why

    def _of_group(
        self, name: str, group: set[str], facts: Facts, ties: list[Evidence]
    ) -> tuple[tuple[str, ...], list[Evidence]]:
        """The dtypes of inputs that share one."""
        insisted = [(found, evidence) for member in sorted(group) for found, evidence in facts.dtypes.get(member, [])]
        if insisted:
            kept = [dtype for dtype in insisted[0][0] if all(dtype in found for found, _ in insisted)]
            if kept:
                return tuple(kept), [insisted[0][1], *ties]
        for member in sorted(group, key=lambda item: item != name):
            annotation = next((p.annotation for p in self.parameters if p.name == member), "")
            if member in facts.index or "LongTensor" in annotation:
                why = [facts.index[member]] if member in facts.index else []
                return ("int64",), [*why, *ties]
            if "IntTensor" in annotation:
                return ("int32",), ties
            if member in facts.wide and member not in facts.raw:
                return FLOATS, [facts.wide[member], *ties]
            if member in facts.floating:
                return ("float32",), [facts.floating[member], *ties]
        return (), ties

    def _layout(self, name: str, facts: Facts) -> tuple[str, Evidence | None]:
        """The layout to ask of an input: what the code insists on, or what every launch can do with."""
        insisted = facts.layouts.get(name)
        if insisted is not None:
            return insisted
        if name in facts.mutated:
            return "contiguous", None
        found = [launched.layouts[name] for launched in facts.launches if name in launched.layouts]
        if not found:
            return "contiguous", None
        order = ("any", "inner_contiguous", "contiguous")
        layout = max(found, key=order.index)
        rank = self.sizes.ranks.get(name)
        if layout == "inner_contiguous" and rank == 1:
            layout = "contiguous"
        why = facts.dense.get(name) if layout == "any" and name in facts.dense else facts.strided.get(name)
        return layout, why if layout != "contiguous" else None

    def _variable(self, dtypes: tuple[str, ...]) -> str:
        """The dtype variable for a set of dtypes; one for all tensors that share the set."""
        if not hasattr(self, "_undecided"):
            self._undecided = []
        if dtypes not in self.variables:
            taken = {*self.sizes.dims(), *self.variables.values()} | {p.name for p in self.parameters}
            self.variables[dtypes] = next(
                name for name in ("T", "D", "DT", "T2", "D2", "DT2", "T3", "D3", "T4", "D4", "T5") if name not in taken
            )
        return self.variables[dtypes]

    # Outputs

    def _outputs(self) -> None:
        if not hasattr(self, "_undecided"):
            self._undecided = []
        returns = self.facts.returns
        values = [value for value, _ in returns if not (isinstance(value, Known) and value.value is None)]
        if not values:
            if not any("mutated=True" in entry.source for entry in self.draft.inputs):
                self._unknown_output(None)
            return
        items = self._merged(values)
        evidence = returns[-1][1]
        if items is None:
            self._unknown_output(evidence)
            return
        names = ["y"] if len(items) == 1 else [f"y{at}" for at in range(len(items))]
        taken = {p.name for p in self.parameters} | set(self.sizes.dims())
        names = [name if name not in taken else f"{name}_out" for name in names]
        entries = [self._output(name, item, evidence) for name, item in zip(names, items, strict=True)]
        if all(entry is None for entry in entries):
            self._unknown_output(evidence, names)
            return
        if entries[0] is None:
            todo = f"what {names[0]} is: its axes and dtype"
            entries[0] = Entry(names[0], f'Tensor("TODO", {_text(self._some_dtype())})', [str(evidence)], todo)
        for name, entry in zip(names, entries, strict=True):
            self.draft.outputs.append(
                entry
                or Entry(name, "Ignore()", [f"{evidence}: left out of the promise, since nothing tells its shape"])
            )

    def _merged(self, values: list[Value]) -> list[Value] | None:
        """The outputs, where all returns agree in their number."""
        lists = [_items(value) for value in values]
        if len({len(items) for items in lists}) != 1:
            return None
        merged = []
        for position in range(len(lists[0])):
            column = [items[position] for items in lists]
            arrays = [item for item in column if isinstance(item, Array) and item.shape is not None]
            outlines = {_outline(item) for item in arrays}
            merged.append(arrays[-1] if len(outlines) == 1 else column[-1] if len(column) == 1 else UNKNOWN)
        return merged

    def _output(self, name: str, value: Value, returned: Evidence) -> Entry | None:
        if not isinstance(value, Array) or value.shape is None:
            return None
        if isinstance(value.shape, str):
            shape = self.sizes.shape(value.shape)
        else:
            sizes = self.sizes.open(value.shape) if isinstance(value.shape, Items) else value.shape
            axes = [self.sizes.text(size) for size in sizes] if sizes is not None else [None]
            shape = None if None in axes else " ".join(axis for axis in axes if axis is not None)
        if shape is None:
            return None
        dtype = self._output_dtype(value)
        if dtype is None:
            dtype = self._variable(())
            self._undecided.append(name)
        evidence = [str(value.evidence)] if value.evidence is not None else [str(returned)]
        return Entry(name, f"Tensor({_text(shape)}, {_text(dtype)})", evidence)

    def _output_dtype(self, value: Array) -> str | None:
        if isinstance(value.dtype, Dtype) and value.dtype.name:
            return value.dtype.name
        root = value.dtype.root if isinstance(value.dtype, Dtype) else ""
        if root not in self.sizes.inputs:
            return None
        dtypes, _ = self._shared_dtypes(root, self.facts)
        return dtypes[0] if len(dtypes) == 1 else self._variable(dtypes)

    def _some_dtype(self) -> str:
        """A dtype to stand in a placeholder: one that inputs have."""
        return next(iter(self.variables.values()), "float32")

    def _unknown_output(self, evidence: Evidence | None, names: list[str] | None = None) -> None:
        """The launcher promises something, and nothing tells what."""
        variable = self._some_dtype()
        for at, name in enumerate(names or ["y"]):
            if at:
                self.draft.outputs.append(Entry(name, "Ignore()"))
                continue
            todo = "what is returned: its axes and dtype" if evidence is not None else "what is returned or written"
            note = [str(evidence)] if evidence is not None else []
            self.draft.outputs.append(Entry(name, f'Tensor("TODO", {_text(variable)})', note, todo))

    # Dims, conditions, dtypes, targets

    def _used_dims(self) -> list[str]:
        text = " ".join(entry.source for entry in (*self.draft.inputs, *self.draft.outputs))
        words = set(re.findall(r"\w+", text))
        return [name for name in self.sizes.dims() if name in words]

    def _dims(self) -> None:
        facts, sizes = self.facts, self.sizes
        for name in self._used_dims():
            caps = [(limit, why) for value, limit, why in facts.caps if sizes.dim(value) == name]
            limits = [(limit, why) for value, limit, why in facts.limits if sizes.dim(value) == name]
            floors = [(limit, why) for value, limit, why in facts.floors if sizes.dim(value) == name]
            members = [(found, why) for value, found, why in facts.members if sizes.dim(value) == name]
            covered = [why for value, why in facts.covered if sizes.dim(value) == name]
            low = max([1, *(limit for limit, _ in floors)])
            if members:
                numbers = sorted(members[0][0])
                condition = " or ".join(f"{name} == {number}" for number in numbers)
                self.draft.dims.append(Entry(name, f"Dim({numbers[0]}, {numbers[-1]})", [str(members[0][1])]))
                self.draft.where.append(Entry("", _text(condition), [str(members[0][1])]))
            elif caps:
                high, why = min(caps, key=lambda item: item[0])
                high = min([high, *(limit for limit, _ in limits)])
                evidence = [str(why), *(str(reason) for _, reason in floors[:1])]
                self.draft.dims.append(Entry(name, f"Dim({min(low, high)}, {high})", evidence))
            elif covered:
                whole = [(dots, why) for value, dots, why in facts.whole if sizes.dim(value) == name]
                top = DRAFT_LIMIT if not whole else DRAFT_PRODUCT if any(dots for dots, _ in whole) else DRAFT_BLOCK
                high = max(top, low)
                evidence = [f"narrow, to be widened: {whole[0][1] if whole else covered[0]}"]
                self.draft.dims.append(Entry(name, f"Dim({low}, {high})", evidence))
            else:
                todo = f"the sizes that {name} can have, or which other size it is"
                evidence = [str(why) for _, why in floors[:1]]
                self.draft.dims.append(Entry(name, f"Dim({low}, {_text('TODO: ' + todo)})", evidence, todo))
        if any('"TODO"' in e.source and e.source.startswith(("Tensor", "ListOf")) for e in self.draft.inputs):
            return

    def _where(self) -> None:
        used = set(self._used_dims())
        for value, number, why in self.facts.multiples:
            name = self.sizes.dim(value)
            if name in used:
                self.draft.where.append(Entry("", _text(f"{name} % {number} == 0"), [str(why)]))
        for left, right, why in self.facts.divides:
            one, other = self.sizes.dim(left), self.sizes.dim(right)
            if one in used and other in used:
                self.draft.where.append(Entry("", _text(f"{one} % {other} == 0"), [str(why)]))
        tops = {entry.name: _top(entry.source) for entry in self.draft.dims}
        self._grids(tops)
        for root in self.sizes.inputs:
            shape = self.sizes.shape(root)
            axes = shape.split() if shape is not None else []
            product = 1
            for axis in axes:
                product *= int(axis) if axis.isdecimal() else tops.get(axis, DRAFT_LIMIT)
            if product >= LONGEST and all(axis.isdecimal() or axis in tops for axis in axes):
                text = _text(f"{' * '.join(axis for axis in axes if axis != '1')} < 2**31")
                if all(entry.source != text for entry in self.draft.where):
                    self.draft.where.append(Entry("", text, ["a narrow limit: offsets of 32 bits"]))
        seen: set[str] = set()
        unique = []
        for entry in self.draft.where:
            if entry.source not in seen:
                seen.add(entry.source)
                unique.append(entry)
        self.draft.where = unique

    def _grids(self, tops: dict[str, int]) -> None:
        """The second and third axis of a grid end at 65,535 programs."""
        for value, why in self.facts.grids:
            parts = [part for part in factors(self.sizes, value) if part != "1"]
            names = set(re.findall(r"[A-Za-z_]\w*", " ".join(parts))) - {"cdiv", "min", "max"}
            product = 1
            for part in parts:
                product *= int(part) if part.isdecimal() else tops.get(part, DRAFT_LIMIT)
            if names and names <= tops.keys() and product > 65535:
                self.draft.where.append(Entry("", _text(f"{' * '.join(parts)} <= 65535"), [f"a grid's limit: {why}"]))

    def _dtypes(self) -> None:
        text = " ".join(entry.source for entry in (*self.draft.inputs, *self.draft.outputs))
        for dtypes, variable in self.variables.items():
            if f'"{variable}"' not in text:
                continue
            if dtypes:
                source = (
                    f"({', '.join(map(_text, dtypes))},)" if len(dtypes) == 1 else f"({', '.join(map(_text, dtypes))})"
                )
                self.draft.dtypes.append(Entry(variable, source))
            else:
                whose = ", ".join(dict.fromkeys(self._undecided)) or "the tensors"
                todo = f"the dtypes of {whose}"
                self.draft.dtypes.append(Entry(variable, f"({_text('TODO: ' + todo)},)", [], todo))

    def _targets(self) -> None:
        numbers = self.registered.capabilities
        if numbers:
            for number in sorted({number for number, _ in numbers}):
                self.draft.targets.append(Entry("", _text(f"cuda:sm_{number}"), [str(numbers[0][1])]))
            return
        modern = None
        for launched in self.facts.launches:
            inner = self.project.device_facts(launched.device)
            modern = modern or (inner.modern if inner is not None else None)
        oldest = "cuda:sm_90+" if modern is not None else "cuda:sm_80+"
        evidence = [str(modern)] if modern is not None else [str(why) for why in self.facts.cuda[:1]]
        self.draft.targets.append(Entry("", _text(oldest), evidence))

    def _notes(self) -> None:
        declared = {entry.name for entry in self.draft.inputs}
        left = [
            f"{p.name}={ast.unparse(p.default)}"
            for p in self.parameters
            if p.name not in declared and p.default is not None
        ]
        if left:
            self.draft.notes.append(f"Not part of the draft, which holds for their defaults: {', '.join(left)}")
        if self.facts.backward is not None:
            self.draft.notes.append(f"Gradients come from {self.facts.backward}; promise them with grad=(...)")
        if self.facts.truncated:
            self.draft.notes.append("The code was too long to be followed to its end")


def _items(value: Value) -> list[Value]:
    return list(value.items) if isinstance(value, Items) and not value.spread else [value]


def _outline(value: Value) -> tuple[Any, ...]:
    """An output as far as two traces can be compared."""
    if isinstance(value, Array):
        return "array", repr(value.shape), repr(value.dtype)
    return ("other",)


def _default_source(node: ast.expr | None) -> str | None:
    """A literal default as ruff formats it, empty where there is no default; None for any other expression."""
    if node is None:
        return ""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return _text(value) if isinstance(value, str) else ast.unparse(node)


def _top(source: str) -> int:
    """The upper end of a written ``Dim(lo, hi)``; the draft's limit where it is a placeholder."""
    text = source.rpartition(", ")[2].rstrip(")")
    return int(text) if text.isdecimal() else DRAFT_LIMIT


def _literal(value: Any) -> str:
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    """A string as ruff formats it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
