"""What can be wrong with a declaration as a whole: the same checks for the linter and for the import."""

from __future__ import annotations

from keyword import iskeyword

from kgate.contract.dtypes import DTYPES, is_floating
from kgate.contract.errors import DeclarationError, suggestion
from kgate.contract.shapes import AxisExpr, linear_in, parse_length
from kgate.contract.targets import known, unknown_target
from kgate.contract.vocabulary import (
    INDEX_DTYPES,
    INPUT_TYPES,
    OUTPUT_TYPES,
    Choice,
    Dim,
    ListOf,
    Offsets,
    Scalar,
    Tensor,
    Workload,
)
from kgate.contract.where import (
    RESERVED,
    Apply,
    Arithmetic,
    Ask,
    Compare,
    Expr,
    Literal,
    Name,
    Negative,
    parse,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgate.contract.envelope import Envelope

    Parameters = Sequence[tuple[str, bool]]


def check_declaration(
    *,
    envelope: Envelope,
    workloads: Sequence[Workload] = (),
    grad: Sequence[str] = (),
    parameters: Parameters | None = None,
    depends: Sequence[str] = (),
    sources: Sequence[str] = (),
    name: str | None = None,
    op: str | None = None,
) -> list[DeclarationError]:
    """Every mistake of a declaration whose parts are valid by themselves.

    `parameters` is as for `check_signature`; None leaves the signature out. The `where` of each error starts
    with `envelope`, `workloads`, `grad`, `parameters`, `depends`, `sources`, `name` or `op`. Targets that do not exist
    are among the errors; at import they are a warning (see `unknown_targets`).
    """
    errors = [*name_mistakes({"name": name, "op": op}), *_empty_mistakes(envelope)]
    errors += [error.under("envelope") for error in unknown_targets(envelope)]
    errors += _text_tuple_mistakes("depends", depends)
    errors += _text_tuple_mistakes("sources", sources)
    errors += _grad_mistakes(envelope, grad)
    errors += _numerics_place_mistakes(envelope, grad)
    if isinstance(workloads, Workload) or not isinstance(workloads, (tuple, list)):
        remedy = "write workloads=(Workload(...),)"
        errors.append(DeclarationError("not-a-tuple", "workloads is a tuple", ("workloads",), remedy))
    else:
        errors += _workload_list_mistakes(envelope, workloads)
    if parameters is not None:
        errors += check_signature(envelope, parameters)
    return errors


def name_mistakes(options: Mapping[str, object]) -> list[DeclarationError]:
    """Where `name` or `op` is not a name: identifiers, which may be joined by dots and dashes; None is no name."""
    errors = []
    for option, value in options.items():
        if value is None or (isinstance(value, str) and _is_name(value)):
            continue
        message = f"{option} is a name, not {value!r}"
        remedy = f'write {option}="rms_norm": letters, digits and "_", with dots or dashes between them'
        errors.append(DeclarationError("bad-name", message, (option,), remedy))
    return errors


def _is_name(text: str) -> bool:
    first, *others = text.replace("-", ".").split(".")
    return first.isidentifier() and all(f"_{piece}".isidentifier() and piece for piece in others)


def _empty_mistakes(envelope: Envelope) -> list[DeclarationError]:
    """Conditions that no sizes within the declared ranges fulfil."""
    from kgate.contract.intervals import outcomes

    ranges = {name: (envelope.dims[name].lo, envelope.dims[name].hi) for name in bindable(envelope, required=True)}
    for name, spec in envelope.inputs.items():
        if isinstance(spec, Choice) and spec.numbers():
            numbers = [value for value in spec.values if isinstance(value, int)]
            ranges[name] = (min(numbers), max(numbers))
        elif isinstance(spec, Scalar) and spec.kind == "int" and not spec.optional and None not in (spec.lo, spec.hi):
            ranges[name] = (int(spec.lo or 0), int(spec.hi or 0))
    errors = []
    for at, text in enumerate(envelope.where):
        condition = parse(text)
        if outcomes(condition, ranges) == {False}:
            named = sorted(condition.names() & ranges.keys())
            within = ", ".join(f"{name} within {ranges[name][0]}..{ranges[name][1]}" for name in named)
            message = f"{text} never holds{' for ' + within if within else ''}: the kernel would serve nothing"
            remedy = "correct the condition or the ranges"
            errors.append(DeclarationError("empty-envelope", message, ("envelope", "where", str(at)), remedy))
    return errors


def check_signature(envelope: Envelope, parameters: Parameters) -> list[DeclarationError]:
    """Where the launcher's parameters and the envelope's inputs do not fit together.

    `parameters` are (name, has a default) in order; `*args` and `**kwargs` keep their stars. The `where` of
    an error is `("parameters", name)` for a parameter and `("envelope", "inputs", name)` for an input.
    """
    errors = []
    names = [name for name, _ in parameters]
    for name, has_default in parameters:
        if name.startswith("*") and not name.startswith("**"):
            remedy = "give every input a parameter of its own, or declare a list as ListOf"
            errors.append(
                DeclarationError("star-parameter", f"the launcher takes {name}", ("parameters", name), remedy)
            )
        elif not name.startswith("*") and not has_default and name not in envelope.inputs:
            message = f"the launcher's parameter {name!r} is not among the inputs"
            remedy = f"declare {name!r} in inputs, or give it a default"
            errors.append(DeclarationError("parameter-undeclared", message, ("parameters", name), remedy))
    for name in envelope.inputs:
        if name not in names:
            message = f"the launcher has no parameter {name!r}"
            remedy = suggestion(name, [n for n in names if not n.startswith("*")]) or "drop the input"
            errors.append(DeclarationError("input-unknown", message, ("envelope", "inputs", name), remedy))
    return errors


def unknown_targets(envelope: Envelope) -> list[DeclarationError]:
    """An error for every target that does not exist, with `where` relative to the envelope."""
    return [
        unknown_target(target).under("targets", str(at))
        for at, target in enumerate(envelope.targets)
        if not known(target)
    ]


def container_mistakes(raw: Mapping[str, object]) -> list[DeclarationError]:
    """Where the parts of an envelope are not even the right kind of container."""
    errors = []
    for part in ("inputs", "outputs", "dtypes", "dims"):
        if not isinstance(raw[part], dict):
            message = f"{part} is a dict, not {type(raw[part]).__name__}"
            errors.append(DeclarationError("not-a-dict", message, (part,), f"write {part}={{...}}"))
    for part in ("where", "targets"):
        errors += _text_tuple_mistakes(part, raw[part])
    if isinstance(raw["dtypes"], dict):
        for name, values in raw["dtypes"].items():
            errors += _text_tuple_mistakes("dtypes", values, str(name))
    return errors


def _text_tuple_mistakes(part: str, value: object, *inner: str) -> list[DeclarationError]:
    if isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value):
        return []
    example = f'("{value}",)' if isinstance(value, str) else '("...",)'
    remedy = f"write {f'{inner[0]!r}: ' if inner else f'{part}='}{example}"
    return [DeclarationError("not-a-tuple", f"{(part, *inner)[-1]} is a tuple of strings", (part, *inner), remedy)]


def parse_conditions(where: Sequence[str]) -> tuple[tuple[Expr, ...], list[DeclarationError]]:
    """The conditions that can be read, and an error for each that cannot."""
    conditions, errors = [], []
    for at, text in enumerate(where):
        try:
            conditions.append(parse(text))
        except DeclarationError as error:
            errors.append(error.under("where", str(at)))
    return tuple(conditions), errors


def envelope_mistakes(envelope: Envelope) -> list[DeclarationError]:
    """Every mistake of an envelope whose containers are right and whose conditions could be read."""
    errors = [*_kind_mistakes(envelope), *_name_mistakes(envelope)]
    if errors:
        return errors
    return [
        *_dtype_mistakes(envelope),
        *_axis_mistakes(envelope),
        *_dim_mistakes(envelope),
        *_condition_mistakes(envelope),
        *_promise_mistakes(envelope),
    ]


def _kind_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    for part, allowed, example in (
        ("inputs", INPUT_TYPES, "a Tensor, Scalar, Choice, ListOf or Offsets"),
        ("outputs", OUTPUT_TYPES, "a Tensor, ListOf or Ignore"),
        ("dims", (Dim,), "a Dim"),
    ):
        for name, spec in getattr(envelope, part).items():
            if not isinstance(spec, allowed):
                shown = spec.__name__ if isinstance(spec, type) else type(spec).__name__
                remedy = f"write {name!r}: {shown}()" if spec in allowed else f"give it {example}"
                yield DeclarationError("wrong-kind", f"{name!r} is {example}, not {shown}", (part, str(name)), remedy)
            elif part == "outputs" and getattr(spec, "mutated", False):
                remedy = "mark the input as mutated, and drop the output or the mark"
                yield DeclarationError("mutated-output", f"{name!r} is an output", (part, name, "mutated"), remedy)


def _name_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    seen: dict[str, str] = {}
    for part in ("inputs", "outputs", "dims", "dtypes"):
        for name in getattr(envelope, part):
            if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
                yield DeclarationError("bad-name", f"{name!r} is not a name", (part, str(name)), "write an identifier")
            elif name.startswith("_kg_"):
                yield DeclarationError("bad-name", f"{name!r} is reserved", (part, name), "choose another name")
            elif part != "outputs" and part != "inputs" and (name in RESERVED or name in DTYPES):
                message = f"{name!r} is a word of the language"
                yield DeclarationError("bad-name", message, (part, name), "choose another name")
            elif name in seen:
                message = f"{name!r} is already among the {seen[name]}"
                yield DeclarationError("duplicate-name", message, (part, name), "give each thing its own name")
            else:
                seen[name] = part


def _tensor_specs(envelope: Envelope) -> Iterator[tuple[str, str, Tensor | Offsets, tuple[str, ...]]]:
    """Every tensor: (part, name, description, path)."""
    for part in ("inputs", "outputs"):
        for name, spec in getattr(envelope, part).items():
            if isinstance(spec, (Tensor, Offsets)):
                yield part, name, spec, (part, name)
            elif isinstance(spec, ListOf):
                yield part, name, spec.element, (part, name, "element")


def _dtype_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    used: dict[str, set[str]] = {}
    told: set[str] = set()
    for part, _, spec, path in _tensor_specs(envelope):
        if spec.dtype in envelope.dtypes:
            used.setdefault(spec.dtype, set()).add(part)
            wrong = [d for d in envelope.dtypes[spec.dtype] if d in DTYPES and d not in INDEX_DTYPES]
            if isinstance(spec, Offsets) and wrong:
                message = f"offsets are int32 or int64, and {spec.dtype} can be {', '.join(wrong)}"
                yield DeclarationError("offsets-dtype", message, (*path, "dtype"), "give them a variable of their own")
        elif spec.dtype not in DTYPES and spec.dtype not in told:
            told.add(spec.dtype)
            message = f"{spec.dtype!r} is neither a dtype nor one of the dtype variables"
            remedy = suggestion(spec.dtype, [*envelope.dtypes, *DTYPES]) or f'define it: dtypes={{"{spec.dtype}": ...}}'
            yield DeclarationError("unknown-dtype", message, (*path, "dtype"), remedy)
    for name, values in envelope.dtypes.items():
        yield from _dtype_variable_mistakes(name, values, used.get(name, set()))


def _dtype_variable_mistakes(name: str, values: tuple[str, ...], used: set[str]) -> Iterator[DeclarationError]:
    where = ("dtypes", name)
    if not values:
        yield DeclarationError("empty-dtypes", f"{name} has no dtypes", where, f'write "{name}": ("float32",)')
    for at, value in enumerate(values):
        if value not in DTYPES:
            message = f"there is no dtype {value!r}"
            yield DeclarationError("unknown-dtype", message, (*where, str(at)), suggestion(value, DTYPES))
        elif value in values[:at]:
            message = f"{value!r} is there twice"
            yield DeclarationError("duplicate-name", message, (*where, str(at)), "name every dtype once")
    if not used:
        yield DeclarationError("unused-dtype", f"no tensor has the dtype {name}", where, "use it, or drop it")
    elif "inputs" not in used and len(values) > 1:
        message = f"no input says which dtype {name} is"
        yield DeclarationError("unbound-dtype", message, where, "use it for an input, or leave it one dtype")


def _integers(envelope: Envelope) -> set[str]:
    """The parameters that axis strings can compute with."""
    return {
        name
        for name, spec in envelope.inputs.items()
        if (isinstance(spec, Choice) and spec.numbers()) or (isinstance(spec, Scalar) and spec.kind == "int")
    }


def _axis_sites(envelope: Envelope) -> Iterator[tuple[str, AxisExpr, tuple[str, ...]]]:
    """Every size of the envelope: (part, expression, path)."""
    for part, _, spec, path in _tensor_specs(envelope):
        for axis in spec.axes:
            yield part, axis, (*path, "shape")
    for part in ("inputs", "outputs"):
        for name, spec in getattr(envelope, part).items():
            if isinstance(spec, ListOf):
                yield part, spec.axis, (part, name, "length")


def _extra_sites(envelope: Envelope) -> Iterator[tuple[AxisExpr, tuple[str, ...]]]:
    """Sizes that are spoken of without being an axis: reduction lengths and offsets' totals."""
    for _, _, spec, path in _tensor_specs(envelope):
        if isinstance(spec, Offsets):
            if spec.total:
                yield parse_length(spec.total), (*path, "total")
        elif spec.numerics is not None and spec.numerics.terms is not None:
            yield spec.numerics.terms, (*path, "numerics", "reduce")


def _axis_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    integers = _integers(envelope)
    told: set[str] = set()
    sites = [(axis, path) for _, axis, path in _axis_sites(envelope)]
    for axis, path in (*sites, *_extra_sites(envelope)):
        for name in sorted(axis.names() - envelope.dims.keys() - integers - told):
            told.add(name)
            if name in envelope.inputs:
                message = f"{name!r} is an input, but not a whole number"
                remedy = f'declare it as Scalar("int", ...), or name a dim in {axis.text!r}'
            else:
                message = f"the dim {name!r} has no range"
                remedy = f'add "{name}": Dim(1, 4096) to dims'
            yield DeclarationError("unknown-dim", message, path, remedy)


def _dim_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    sites = list(_axis_sites(envelope))
    bound = bindable(envelope)
    for name in envelope.dims:
        if name in bound:
            continue
        where = ("dims", name)
        parts = {part for part, axis, _ in sites if name in axis.names()}
        if not parts:
            yield DeclarationError("unused-dim", f"no tensor has the dim {name}", where, "use it, or drop it")
        elif "inputs" in parts:
            message = f"no input tells the size of {name}: it stands in arithmetic that cannot be solved for it"
            yield DeclarationError("unbound-dim", message, where, f'give some input an axis "{name}"')
        else:
            message = f"no input tells the size of {name}"
            yield DeclarationError("unbound-dim", message, where, f"use it for an input, or declare a parameter {name}")


def bindable(envelope: Envelope, *, required: bool = False) -> set[str]:
    """The dims that run-time shapes can settle when every input is there; `required`: those that always are."""
    known = _integers(envelope)
    left_out = envelope.optional() if required else ()
    axes = [axis for part, axis, path in _axis_sites(envelope) if part == "inputs" and path[1] not in left_out]
    while True:
        before = len(known)
        for axis in axes:
            unknown = axis.names() - known
            if len(unknown) == 1 and linear_in(axis.expr, *unknown):
                known |= unknown
        if len(known) == before:
            return known & envelope.dims.keys()


def _promise_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    if not envelope.promised() and not envelope.mutated():
        remedy = "name an output, or mark what is written in place as mutated=True"
        yield DeclarationError("no-promise", "the envelope promises no result", ("outputs",), remedy)


def _condition_mistakes(envelope: Envelope) -> Iterator[DeclarationError]:
    for at, text in enumerate(envelope.where):
        conditions, _ = parse_conditions((text,))
        for condition in conditions:
            checker = _Types(envelope)
            if checker.kind(condition) not in ("bool", "error"):
                checker.refuse(condition, f"{condition} is not a condition", 'compare it, as in "M < 65536"')
            for error in checker.errors:
                yield error.under("where", str(at))


class _Types:
    """Kinds of expressions: `number`, `bool`, `dtype`, `choice`, `text`, `none`; `error` once reported."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.errors: list[DeclarationError] = []

    def refuse(self, node: Expr, message: str, remedy: str) -> str:
        """Note a mistake at this node."""
        text = f"column {node.column}: {message}"
        self.errors.append(DeclarationError("bad-where", text, (), remedy, column=node.column))
        return "error"

    def kind(self, node: Expr) -> str:
        """The kind of an expression, mistakes noted."""
        if isinstance(node, Literal):
            kinds = {bool: "bool", int: "number", str: "text"}
            return kinds.get(type(node.value), "none")
        if isinstance(node, Name):
            return self.name(node)
        if isinstance(node, Ask):
            return self.ask(node)
        if isinstance(node, Compare):
            return self.compare(node)
        wanted = "number" if isinstance(node, (Negative, Arithmetic, Apply)) else "bool"
        found = [(child, self.kind(child)) for child in node.children()]
        for child, kind in found:
            if kind not in (wanted, "error"):
                what = "a number" if wanted == "number" else "a condition"
                self.refuse(child, f"{child} is not {what}", f"use {what} here")
        if isinstance(node, (Arithmetic, Apply)):
            self.divisor(node)
        return wanted

    def divisor(self, node: Expr) -> None:
        """Refuse what always divides by zero."""
        for divisor in node.divisors():
            if isinstance(divisor, Literal) and divisor.value == 0:
                self.refuse(divisor, "a division by zero is never fulfilled", "divide by something else")

    def name(self, node: Name) -> str:
        """A dim, a choice or a scalar."""
        spec = self.envelope.inputs.get(node.name)
        if node.name in self.envelope.dims:
            return "number"
        if isinstance(spec, Scalar):
            return "bool" if spec.kind == "bool" else "number"
        if isinstance(spec, Choice):
            if spec.numbers():
                return "number"
            return "bool" if all(isinstance(value, bool) for value in spec.values) else "choice"
        if spec is not None:
            return self.refuse(
                node, f"{node.name!r} is a tensor", "write stride(x, 0), dtype(x), align(x) or present(x)"
            )
        if node.name in self.envelope.dtypes:
            owner = next((n for n, s in self.envelope.tensors().items() if s.dtype == node.name), "x")
            return self.refuse(node, f"{node.name!r} is a dtype variable", f"write dtype({owner})")
        names = [*self.envelope.dims, *self.envelope.choices(), *self.envelope.scalars()]
        remedy = suggestion(node.name, names) or "name a dim, a Choice or a Scalar"
        return self.refuse(node, f"there is nothing called {node.name!r}", remedy)

    def ask(self, node: Ask) -> str:
        """What a tensor is asked for."""
        spec = self.envelope.inputs.get(node.tensor)
        if spec is None:
            remedy = suggestion(node.tensor, self.envelope.tensors()) or "name an input"
            return self.refuse(node, f"there is no input {node.tensor!r}", remedy)
        if node.function == "present":
            if not getattr(spec, "optional", False):
                self.refuse(
                    node,
                    f"{node.tensor!r} is always there",
                    "declare it optional=True, or drop the condition",
                )
            return "bool"
        if not isinstance(spec, (Tensor, Offsets)):
            return self.refuse(node, f"{node.tensor!r} is not a single tensor", "ask a Tensor")
        if node.function == "stride" and not -spec.rank <= (node.index or 0) < spec.rank:
            axes = f"its axes are 0 to {spec.rank - 1}" if spec.rank else "it has no axes"
            return self.refuse(node, f"{node.tensor!r} has no axis {node.index}", axes)
        return "dtype" if node.function == "dtype" else "number"

    def compare(self, node: Compare) -> str:
        """A comparison, pair by pair."""
        left, left_kind = node.first, self.kind(node.first)
        for operator, right in node.rest:
            right_kind = self.kind(right)
            if "error" not in (left_kind, right_kind):
                self.pair(left, left_kind, operator, right, right_kind)
            left, left_kind = right, right_kind
        return "bool"

    def pair(self, left: Expr, left_kind: str, operator: str, right: Expr, right_kind: str) -> None:
        """Two neighbours of a comparison."""
        kinds = {left_kind, right_kind}
        if kinds == {"number"}:
            return
        if operator not in ("==", "!="):
            self.refuse(left, f"{left} {operator} {right} orders what has no order", 'use "==" or "!="')
        elif kinds == {"dtype"} or (kinds == {"bool"} and (_plain(left) and _plain(right))):
            return
        elif kinds == {"dtype", "text"}:
            text = left if left_kind == "text" else right
            if isinstance(text, Literal) and text.value not in DTYPES:
                self.refuse(text, f"there is no dtype {text}", suggestion(str(text.value), DTYPES))
        elif "choice" in kinds and len(kinds) == 2:
            self.choice(*((left, right) if left_kind == "choice" else (right, left)))
        else:
            self.refuse(left, f"{left} and {right} cannot be compared", "compare numbers, or a choice with its value")

    def choice(self, name: Expr, value: Expr) -> None:
        """A choice against one of its values."""
        spec = self.envelope.inputs[name.name] if isinstance(name, Name) else None
        if not isinstance(spec, Choice) or not isinstance(value, Literal):
            self.refuse(value, f"{name} is compared with {value}", "compare a choice with one of its values")
        elif not any(type(v) is type(value.value) and v == value.value for v in spec.values):
            options = ", ".join(map(repr, spec.values))
            self.refuse(value, f"{name} is never {value}", f"its values are {options}")


def _plain(node: Expr) -> bool:
    return isinstance(node, (Literal, Name, Ask))


def _grad_mistakes(envelope: Envelope, grad: Sequence[str]) -> list[DeclarationError]:
    errors = _text_tuple_mistakes("grad", grad)
    if errors:
        return errors
    for at, name in enumerate(grad):
        spec = envelope.inputs.get(name)
        where = ("grad", str(at))
        element = spec.element if isinstance(spec, ListOf) else spec
        if spec is None:
            remedy = suggestion(name, envelope.tensors()) or "name a tensor of the inputs"
            errors.append(DeclarationError("grad-unknown", f"there is no input {name!r}", where, remedy))
        elif not isinstance(element, Tensor):
            errors.append(DeclarationError("grad-not-tensor", f"{name!r} is not a tensor", where, "drop it from grad"))
        elif not all(map(is_floating, envelope.dtypes_of(element.dtype))):
            message = f"{name!r} is not of floating point"
            errors.append(DeclarationError("grad-not-floating", message, where, "drop it from grad"))
        elif name in grad[:at]:
            errors.append(DeclarationError("duplicate-name", f"{name!r} is there twice", where, "name it once"))
    return errors


def _numerics_place_mistakes(envelope: Envelope, grad: Sequence[str]) -> Iterator[DeclarationError]:
    for part, name, spec, path in _tensor_specs(envelope):
        numerics = spec.numerics if isinstance(spec, Tensor) else None
        if part == "inputs" and numerics is not None and not spec.mutated and name not in grad:
            message = f"{name!r} is only read, so it has no accuracy"
            remedy = "move numerics to an output, or name the input in grad or as mutated"
            where = ("envelope", *path, "numerics")
            yield DeclarationError("numerics-unused", message, where, remedy)


def _workload_list_mistakes(envelope: Envelope, workloads: Sequence[object]) -> Iterator[DeclarationError]:
    seen: list[object] = []
    for at, workload in enumerate(workloads):
        if not isinstance(workload, Workload):
            remedy = 'write Workload(M=4096, source="...")'
            message = f"this is a Workload, not {type(workload).__name__}"
            yield DeclarationError("wrong-kind", message, ("workloads", str(at)), remedy)
            continue
        for error in workload_mistakes(envelope, workload):
            yield error.under("workloads", str(at))
        key = (workload.values, workload.layouts, workload.absent)
        if key in seen:
            message = "the same workload is there twice"
            yield DeclarationError("duplicate-name", message, ("workloads", str(at)), "drop one, or change it")
        seen.append(key)


def workload_mistakes(envelope: Envelope, workload: Workload) -> list[DeclarationError]:
    """Every mistake of one workload, with `where` relative to it."""
    errors = [*_workload_values(envelope, workload), *_workload_names(envelope, workload)]
    if errors:
        return errors
    from kgate.contract.reasons import workload_facts

    try:
        facts = workload_facts(envelope, workload)
    except KeyError as error:
        return [DeclarationError("workload-incomplete", str(error.args[0]), (), "add its value")]
    except ZeroDivisionError:
        return [DeclarationError("workload-outside", "a size divides by zero", (), "change the workload")]
    for reason in envelope.reasons(facts):
        message = f"the workload is outside the envelope: {reason.message}"
        errors.append(DeclarationError("workload-outside", message, (), "change the workload or the envelope"))
    return errors


def _workload_values(envelope: Envelope, workload: Workload) -> Iterator[DeclarationError]:
    for name, value in workload.values.items():
        where = (name,)
        spec = envelope.inputs.get(name)
        if name in envelope.dims:
            dim = envelope.dims[name]
            if type(value) is not int:
                message = f"{name} is a size, a whole number, not {value!r}"
                yield DeclarationError("workload-range", message, where, f"write {name}={_whole(value, dim)}")
            elif not dim.lo <= value <= dim.hi:
                message = f"{name} = {value!r} is not within {dim.lo}..{dim.hi}"
                yield DeclarationError("workload-range", message, where, "change the workload, or widen the range")
        elif name in envelope.dtypes:
            if not isinstance(value, str):
                message = f"{name} is a dtype's name, a string, not {value!r}"
                remedy = f'write {name}="{envelope.dtypes[name][0]}"'
                yield DeclarationError("workload-dtype", message, where, remedy)
            elif value not in envelope.dtypes[name]:
                message = f"{name} = {value!r} is not supported"
                remedy = suggestion(str(value), envelope.dtypes[name])
                yield DeclarationError("workload-dtype", message, where, remedy)
        elif isinstance(spec, (Choice, Scalar)):
            if not spec.accepts(value):
                message = f"{name} = {value!r} is not supported"
                yield DeclarationError("workload-choice", message, where, f"it is {_allowed(spec)}")
        elif spec is not None:
            remedy = f'leave it out with absent=("{name}",)' if value is None else "give the sizes of its axes"
            yield DeclarationError("workload-unknown", f"{name!r} is a tensor", where, remedy)
        else:
            names = [*envelope.dims, *envelope.dtypes, *envelope.choices(), *envelope.scalars()]
            message = f"there is no dim, dtype variable or choice {name!r}"
            yield DeclarationError("workload-unknown", message, where, suggestion(name, names))


def _whole(value: object, dim: Dim) -> int:
    """The whole number that was meant, or else one in the range."""
    try:
        number = int(float(str(value)))
    except (ValueError, OverflowError):
        return dim.hi
    return number if dim.lo <= number <= dim.hi else dim.hi


def _allowed(spec: Choice | Scalar) -> str:
    if isinstance(spec, Choice):
        return "one of " + ", ".join(map(repr, spec.values))
    lo = "" if spec.lo is None else f" from {spec.lo}"
    hi = "" if spec.hi is None else f" to {spec.hi}"
    return f"{spec.kind}{lo}{hi}"


def _workload_names(envelope: Envelope, workload: Workload) -> Iterator[DeclarationError]:
    for name in workload.absent:
        if name not in envelope.optional():
            message = f"{name!r} is not an optional input"
            remedy = suggestion(name, envelope.optional()) or "drop it"
            yield DeclarationError("workload-unknown", message, ("absent",), remedy)
    for name in workload.layouts:
        if not isinstance(envelope.inputs.get(name), (Tensor, Offsets, ListOf)):
            message = f"{name!r} is not a tensor of the inputs"
            remedy = suggestion(name, envelope.tensors()) or "drop it"
            yield DeclarationError("workload-unknown", message, ("layouts", name), remedy)
    present = {
        name
        for part, owner, spec, _ in _tensor_specs(envelope)
        if not (part == "inputs" and owner in workload.absent)
        for name in (*(n for axis in spec.axes for n in axis.names()), spec.dtype)
    }
    lengths = {n for part, axis, path in _axis_sites(envelope) if path[-1] == "length" for n in axis.names()}
    for name, dim in envelope.dims.items():
        if name not in workload.values and name in (present | lengths) and dim.lo != dim.hi:
            yield DeclarationError("workload-incomplete", f"it has no size for {name}", (), f"add {name}={dim.hi}")
    for name, values in envelope.dtypes.items():
        if name not in workload.values and name in present and len(values) > 1:
            remedy = f'add {name}="{values[0]}"'
            yield DeclarationError("workload-incomplete", f"it has no dtype for {name}", (), remedy)


__all__ = [
    "check_declaration",
    "check_signature",
    "envelope_mistakes",
    "unknown_targets",
    "workload_mistakes",
]
