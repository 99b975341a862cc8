"""Why a kernel would not serve some inputs: a pure function of facts, without torch and without a GPU.

The run-time dispatch (`dispatch.py`) generates code from the same plan, and has to agree with it.
"""

from __future__ import annotations

from kgate.contract.dtypes import DTYPES
from kgate.contract.layouts import LAYOUTS, contiguous_strides
from kgate.contract.records import Record
from kgate.contract.shapes import AxisExpr
from kgate.contract.targets import parse_target
from kgate.contract.vocabulary import Choice, Input, ListOf, Offsets, Scalar, Tensor, Workload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from kgate.contract.envelope import Envelope
    from kgate.contract.where import Expr

CODES: dict[str, str] = {
    "missing": "an input that is not optional is not there",
    "type": "an argument is not a tensor, or not a list of tensors",
    "rank": "a tensor has another number of axes",
    "dtype-unsupported": "a tensor has a dtype that is not supported",
    "dtype-mismatch": "two tensors that share a dtype variable have different dtypes",
    "shape-mismatch": "a size contradicts another one, or a constant",
    "dim-range": "a size is outside its range",
    "layout": "a tensor does not lie in memory as the kernel asks",
    "choice": "a parameter has a value that is not one of its choices",
    "scalar": "a number is of the wrong kind, or outside its range",
    "where": "a condition of the envelope does not hold",
    "device-mismatch": "the tensors are not on one device",
    "target-unsupported": "the kernel does not run on this target",
}
"""The codes that a reason can have, each with its sentence. They are stable."""


class Reason(Record):
    """One reason why the kernel would not serve a call."""

    __slots__ = ("code", "got", "message", "name", "want")
    code: str
    """One of `CODES`."""
    message: str
    """One sentence with the values at hand."""
    name: str
    """The input, dim, dtype variable or condition that it is about."""
    got: Any
    """What was found; JSON-able."""
    want: Any
    """What the envelope asks for; JSON-able."""

    def __init__(self, code: str, message: str, name: str = "", got: Any = None, want: Any = None) -> None:
        self._set(code=code, message=message, name=name, got=got, want=want)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {name: getattr(self, name) for name in self.fields()}

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class TensorFacts(Record):
    """What the envelope may ask of a tensor. None stands for what is not known, which is then not checked."""

    __slots__ = ("align", "device", "dtype", "shape", "strides")
    shape: tuple[int, ...]
    """Sizes of the axes."""
    dtype: str | None
    """Name of the dtype, without `torch.`."""
    strides: tuple[int, ...] | None
    """Strides in elements."""
    device: str | None
    """`cuda:0`, `cpu`; compared between tensors only."""
    align: int | None
    """Largest power of two, up to 4096, that divides the address of the first element."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str | None = None,
        strides: Sequence[int] | None = None,
        device: str | None = None,
        align: int | None = None,
    ) -> None:
        self._set(
            shape=tuple(shape),
            strides=None if strides is None else tuple(strides),
            dtype=dtype,
            device=device,
            align=align,
        )


class Step(Record):
    """One axis that says something about the dims."""

    __slots__ = ("axis", "expr", "input", "many")
    input: str
    """The input that has the axis."""
    axis: int
    """Which axis; -1 for the length of a list."""
    expr: AxisExpr
    """Its size."""
    many: bool
    """Whether it is an axis of every element of a list."""

    def __init__(self, input: str, axis: int, expr: AxisExpr, many: bool) -> None:
        self._set(input=input, axis=axis, expr=expr, many=many)


class Plan(Record):
    """The order in which run-time sizes settle the dims: plain axes first, required inputs before others."""

    __slots__ = ("integers", "steps")
    steps: tuple[Step, ...]
    """Every axis of every input, once."""
    integers: tuple[str, ...]
    """Parameters that sizes are computed with; never solved for."""

    def __init__(self, steps: Sequence[Step], integers: Sequence[str]) -> None:
        self._set(steps=tuple(steps), integers=tuple(integers))


def make_plan(envelope: Envelope) -> Plan:
    """The plan of an envelope."""
    steps = sorted(_steps(envelope), key=lambda step: _is_late(envelope.inputs[step.input], step))
    integers = [
        name
        for name, spec in envelope.inputs.items()
        if (isinstance(spec, Choice) and spec.numbers()) or (isinstance(spec, Scalar) and spec.kind == "int")
    ]
    known = set(integers) | {step.expr.dim for step in steps if step.expr.dim}
    ordered = [step for step in steps if step.expr.dim or step.expr.constant is not None]
    waiting = [step for step in steps if step not in ordered]
    while waiting:
        step = min(waiting, key=lambda step: len(step.expr.names() - known))
        waiting.remove(step)
        ordered.append(step)
        known |= step.expr.names()
    return Plan(ordered, integers)


def _steps(envelope: Envelope) -> Iterator[Step]:
    for name, spec in envelope.inputs.items():
        if isinstance(spec, ListOf):
            yield Step(name, -1, spec.axis, False)
            yield from (Step(name, at, axis, True) for at, axis in enumerate(spec.element.axes))
        elif isinstance(spec, (Tensor, Offsets)):
            yield from (Step(name, at, axis, False) for at, axis in enumerate(spec.axes))


def _is_late(spec: Input, step: Step) -> bool:
    return bool(getattr(spec, "optional", False)) or step.many


def reasons(envelope: Envelope, facts: Mapping[str, Any], target: str | None = None) -> tuple[Reason, ...]:
    """See `Envelope.reasons`."""
    return _Judge(envelope, facts).judge(target)


class _Judge:
    """One judgement: collects the reasons and, on the way, the sizes of the dims."""

    def __init__(self, envelope: Envelope, facts: Mapping[str, Any]) -> None:
        self.envelope = envelope
        self.facts = facts
        self.reasons: list[Reason] = []
        self.values: dict[str, Any] = {}
        self.tensors: dict[str, TensorFacts | None] = {}
        self.lists: dict[str, list[TensorFacts]] = {}
        self.sized: list[tuple[str, str, Tensor | Offsets, TensorFacts]] = []

    def judge(self, target: str | None) -> tuple[Reason, ...]:
        for name, spec in self.envelope.inputs.items():
            self.take(name, spec, self.facts.get(name))
        self.check_dtypes()
        self.settle()
        self.check_ranges()
        self.check_layouts()
        self.check_conditions()
        self.check_devices()
        self.check_target(target)
        return tuple(self.reasons)

    def refuse(self, code: str, message: str, name: str, got: Any = None, want: Any = None) -> None:
        self.reasons.append(Reason(code, message, name, got, want))

    def take(self, name: str, spec: Input, fact: Any) -> None:
        """Sort an input's fact by what it is, and check what can be checked of it alone."""
        if isinstance(spec, Choice):
            self.take_choice(name, spec, fact)
        elif fact is None:
            if spec.optional:
                self.tensors[name] = None
            else:
                self.refuse("missing", f"{name} is not there", name, want="a value")
        elif isinstance(spec, Scalar):
            self.take_scalar(name, spec, fact)
        elif isinstance(spec, ListOf):
            self.take_list(name, spec, fact)
        else:
            self.take_tensor(name, name, spec, fact)

    def take_choice(self, name: str, spec: Choice, value: Any) -> None:
        if spec.accepts(value):
            self.values[name] = value
        else:
            options = ", ".join(map(repr, spec.values))
            self.refuse(
                "choice",
                f"{name} is {_short(value)}, not one of {options}",
                name,
                _got(value),
                [*spec.values],
            )

    def take_scalar(self, name: str, spec: Scalar, value: Any) -> None:
        if spec.accepts(value):
            self.values[name] = value
            self.tensors[name] = TensorFacts(())  # there, for present(); it has nothing else to ask for
        else:
            want = {"kind": spec.kind, "lo": spec.lo, "hi": spec.hi}
            limits = "" if spec.lo is None and spec.hi is None else f" within {spec.lo}..{spec.hi}"
            self.refuse("scalar", f"{name} is {_short(value)}, not {spec.kind}{limits}", name, _got(value), want)

    def take_list(self, name: str, spec: ListOf, fact: Any) -> None:
        if not isinstance(fact, (list, tuple)):
            self.refuse("type", f"{name} is {_short(fact)}, not a list of tensors", name, _got(fact), "list")
            return
        self.tensors[name] = TensorFacts(())
        fit = [self.take_tensor(name, f"{name}[{at}]", spec.element, one) for at, one in enumerate(fact)]
        if all(fit):
            self.lists[name] = list(fact)

    def take_tensor(self, name: str, label: str, spec: Tensor | Offsets, fact: Any) -> bool:
        if not isinstance(fact, TensorFacts):
            self.refuse("type", f"{label} is {_short(fact)}, not a tensor", name, _got(fact), "tensor")
            return False
        if name == label:
            self.tensors[name] = fact
        if len(fact.shape) != spec.rank:
            message = f"{label} has {len(fact.shape)} axes, not {spec.rank}"
            self.refuse("rank", message, name, len(fact.shape), spec.rank)
            return False
        self.sized.append((name, label, spec, fact))
        return True

    def check_dtypes(self) -> None:
        first: dict[str, tuple[str, str]] = {}
        for name, label, spec, fact in self.sized:
            allowed = self.envelope.dtypes_of(spec.dtype)
            if fact.dtype is None:
                continue
            if fact.dtype not in allowed:
                message = f"{label} is {fact.dtype}, not {_either(allowed)}"
                self.refuse("dtype-unsupported", message, name, fact.dtype, [*allowed])
            elif spec.dtype in self.envelope.dtypes:
                owner, dtype = first.setdefault(spec.dtype, (label, fact.dtype))
                if dtype != fact.dtype:
                    message = f"{label} is {fact.dtype} and {owner} is {dtype}; both are {spec.dtype}"
                    self.refuse("dtype-mismatch", message, name, fact.dtype, dtype)

    def settle(self) -> None:
        """Bind the dims from the sizes, and check the sizes against each other."""
        dims = self.envelope.dims
        whole = {name: fact for name, label, _, fact in self.sized if name == label}
        self.known = {name: self.values[name] for name in self.envelope.plan.integers if name in self.values}
        skipped = [one for step in self.envelope.plan.steps for one in self.sizes(step, whole) if not self.unify(*one)]
        for step, label, size in skipped:
            self.unify(step, label, size)
        self.values.update((name, size) for name, size in self.known.items() if name in dims)

    def sizes(self, step: Step, whole: Mapping[str, TensorFacts]) -> Iterator[tuple[Step, str, int]]:
        """The run-time sizes that a step is about, each with the tensor that has it."""
        if step.many:
            for at, fact in enumerate(self.lists.get(step.input, ())):
                yield step, f"{step.input}[{at}]", fact.shape[step.axis]
        elif step.axis < 0:
            if step.input in self.lists:
                yield step, step.input, len(self.lists[step.input])
        elif step.input in whole:
            yield step, step.input, whole[step.input].shape[step.axis]

    def unify(self, step: Step, label: str, size: int) -> bool:
        """Let one size speak; False where it is too early for it to say anything."""
        settled = step.expr.solve(size, self.known, self.envelope.dims)
        if settled is None:
            self.refuse_size(step, label, size)
        else:
            self.known.update(settled)
        return settled is None or step.expr.names() <= self.known.keys()

    def refuse_size(self, step: Step, label: str, size: int) -> None:
        sizes = ", ".join(f"{name} = {self.known[name]}" for name in sorted(step.expr.names() & self.known.keys()))
        given = f" with {sizes}" if sizes else ""
        place = f"the length of {label}" if step.axis < 0 else f"axis {step.axis} of {label}"
        message = f"{place} is {size}, not {step.expr}{given}"
        self.refuse("shape-mismatch", message, step.input, size, step.expr.text)

    def check_ranges(self) -> None:
        for name, dim in self.envelope.dims.items():
            size = self.known.get(name)
            if size is not None and not dim.lo <= size <= dim.hi:
                message = f"{name} is {size}, not within {dim.lo}..{dim.hi}"
                self.refuse("dim-range", message, name, size, [dim.lo, dim.hi])

    def check_layouts(self) -> None:
        for name, label, spec, fact in self.sized:
            if fact.strides is not None and not LAYOUTS[spec.layout].holds(fact.shape, fact.strides):
                message = f"{label} with shape {fact.shape} and strides {fact.strides} is not {spec.layout}"
                self.refuse("layout", message, name, [*fact.strides], spec.layout)

    def check_conditions(self) -> None:
        for condition in self.envelope.conditions:
            if not condition.holds(self.values, self.tensors):
                message = f"{condition} does not hold: {self.shown(condition)}"
                self.refuse("where", message, str(condition), self.evidence(condition), str(condition))

    def evidence(self, condition: Expr) -> dict[str, Any]:
        """What the condition refers to, with its values."""
        found: dict[str, Any] = {n: self.values[n] for n in sorted(condition.names()) if n in self.values}
        for node in condition.walk():
            if str(node) not in found and not node.children() and node.names() == frozenset():
                value = node.evaluate(self.values, self.tensors)
                if node.tensors() and value is not None:
                    found[str(node)] = value
        return found

    def shown(self, condition: Expr) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.evidence(condition).items())

    def check_devices(self) -> None:
        first: tuple[str, str] | None = None
        for name, label, _, fact in self.sized:
            if fact.device is None:
                continue
            if first is None:
                first = (label, fact.device)
            elif fact.device != first[1]:
                message = f"{label} is on {fact.device} and {first[0]} on {first[1]}"
                self.refuse("device-mismatch", message, name, fact.device, first[1])

    def check_target(self, target: str | None) -> None:
        if target is not None and not runs_on(self.envelope, target):
            message = f"the kernel runs on {', '.join(self.envelope.targets)}, not on {target}"
            self.refuse("target-unsupported", message, "", target, [*self.envelope.targets])


def runs_on(envelope: Envelope, target: str) -> bool:
    """Whether a concrete target is one of the envelope's; every target is, where it names none."""
    if not envelope.targets:
        return True
    from kgate.contract.errors import DeclarationError

    for declared in envelope.targets:
        try:
            if parse_target(declared).matches(target):
                return True
        except DeclarationError:
            continue  # warned about at import; a target that does not exist matches nothing
    return False


def workload_facts(envelope: Envelope, workload: Workload) -> dict[str, Any]:
    """Facts of a workload's inputs: contiguous where it does not say otherwise, on no device."""
    return {name: _workload_fact(envelope, workload, name, spec) for name, spec in envelope.inputs.items()}


def _workload_fact(envelope: Envelope, workload: Workload, name: str, spec: Input) -> Any:
    if name in workload.absent:
        return None
    if isinstance(spec, Choice):
        return workload.values.get(name, spec.values[0])
    if isinstance(spec, Scalar):
        return workload.values.get(name, _some(spec))
    values = sizes_of(envelope, workload)
    if isinstance(spec, ListOf):
        one = _tensor_fact(envelope, workload, name, spec.element, values)
        return [one] * spec.axis.evaluate(values)
    return _tensor_fact(envelope, workload, name, spec, values)


def _some(spec: Scalar) -> Any:
    """A value that the scalar accepts."""
    if spec.optional:
        return None
    if spec.kind == "bool":
        return False
    ends = [end for end in (spec.lo, spec.hi) if end is not None]
    return ends[0] if ends else 1


def sizes_of(envelope: Envelope, workload: Workload) -> dict[str, int]:
    """Sizes of a workload's dims and integer parameters, ranges of one size and first choices filled in."""
    sizes: dict[str, Any] = {name: dim.lo for name, dim in envelope.dims.items() if dim.lo == dim.hi}
    sizes |= {name: spec.values[0] for name, spec in envelope.choices().items() if spec.numbers()}
    sizes |= {n: _some(spec) for n, spec in envelope.scalars().items() if spec.kind == "int" and not spec.optional}
    sizes |= {name: value for name, value in workload.values.items() if type(value) is int}
    return sizes


def _tensor_fact(
    envelope: Envelope, workload: Workload, name: str, spec: Tensor | Offsets, sizes: Mapping[str, int]
) -> TensorFacts:
    shape = tuple(axis.evaluate(sizes) for axis in spec.axes)
    dtype = spec.dtype
    if dtype not in DTYPES:
        allowed = envelope.dtypes_of(dtype)
        dtype = str(workload.values.get(dtype, allowed[0]))
    known = name not in workload.layouts and spec.layout in (
        "any",
        "contiguous",
        "inner_contiguous",
        "row_major",
        "dense",
        "non_overlapping",
    )
    return TensorFacts(shape, dtype, contiguous_strides(shape) if known else None)


def _got(value: Any) -> Any:
    """A value as a reason may carry it: itself where JSON has it, else what it is."""
    return value if type(value) in (int, float, bool, str, type(None)) else f"a {type(value).__name__}"


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(_got(value))


def _either(words: Sequence[str]) -> str:
    return " or ".join(words)
