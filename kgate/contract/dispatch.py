"""The run-time dispatch: a check that is generated once per kernel, and what it asks of the arguments.

The generated function has the launcher's own signature, binds the arguments as Python does, and says whether
the kernel serves them. It asks exactly what `reasons.py` asks and in the same way, but stops at the first
reason. It never looks at a value of a tensor.
"""

from __future__ import annotations

import sys

from kgate.contract.dtypes import dtype_name
from kgate.contract.layouts import LAYOUTS
from kgate.contract.reasons import Step, TensorFacts, runs_on
from kgate.contract.shapes import AxisExpr, linear_in
from kgate.contract.signature import Parameter, source
from kgate.contract.switch import SWITCH, launcher_only
from kgate.contract.vocabulary import Choice, ListOf, Offsets, Scalar, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kgate.contract.envelope import Envelope
    from kgate.contract.where import Expr

MAX_ALIGN = 4096
"""The largest alignment that `align` tells, in bytes."""


class DtypeNames(dict[object, str]):
    """dtype object -> name, filled as dtypes are met."""

    def __missing__(self, dtype: object) -> str:
        name = self[dtype] = dtype_name(dtype)
        return name


class Accepted(dict[object, bool]):
    """dtype object -> whether it is one of these names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = frozenset(names)

    def __missing__(self, dtype: object) -> bool:
        accepted = self[dtype] = dtype_name(dtype) in self.names
        return accepted


class Runs(dict[object, bool]):
    """device object -> whether the kernel runs there."""

    def __init__(self, envelope: Envelope) -> None:
        super().__init__()
        self.envelope = envelope

    def __missing__(self, device: Any) -> bool:
        runs = self[device] = runs_on(self.envelope, target_of(device))
        return runs


NAMES = DtypeNames()
TENSOR_TYPES: set[type] = set()
"""Types whose instances were found to be tensors."""


def is_tensor(value: object) -> bool:
    """Whether a value answers what a tensor is asked: shape, stride, dtype and device."""
    if type(value) in TENSOR_TYPES:
        return True
    if isinstance(value, type) or not all(hasattr(value, n) for n in ("shape", "stride", "dtype", "device")):
        return False
    TENSOR_TYPES.add(type(value))
    return True


def alignment(address: int) -> int:
    """The largest power of two, up to MAX_ALIGN, that divides an address."""
    return min(address & -address, MAX_ALIGN) if address else MAX_ALIGN


def target_of(device: Any) -> str:
    """The concrete target of a device: `cuda:sm_90`, `hip:gfx942`, `cpu`; else the device's type.

    Asks the torch that is loaded; a GPU's tensor cannot exist without one.
    """
    kind = str(device.type)
    torch = sys.modules.get("torch")
    if kind != "cuda" or torch is None:
        return kind
    if getattr(torch.version, "hip", None):
        architecture = torch.cuda.get_device_properties(device).gcnArchName
        return f"hip:{architecture.partition(':')[0]}"
    major, minor = torch.cuda.get_device_capability(device)
    return f"cuda:sm_{major}{minor}"


def facts_of(value: Any, *, align: bool = False) -> Any:
    """What the envelope may ask of an argument: TensorFacts, a list of them, or the value itself."""
    if isinstance(value, TensorFacts):
        return value
    if is_tensor(value):
        return TensorFacts(
            tuple(value.shape),
            NAMES[value.dtype],
            tuple(value.stride()),
            str(value.device),
            alignment(value.data_ptr()) if align else None,
        )
    return [facts_of(one) for one in value] if isinstance(value, (list, tuple)) else value


def facts_of_call(envelope: Envelope, arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of a whole call, by input."""
    aligned = {
        name for condition in envelope.conditions for function, name, _ in condition.asked() if function == "align"
    }
    return {name: facts_of(arguments.get(name), align=name in aligned) for name in envelope.inputs}


def target_of_call(envelope: Envelope, arguments: dict[str, Any]) -> str | None:
    """Target of the first tensor of a call; None where there is none."""
    for name, spec in envelope.inputs.items():
        value: Any = arguments.get(name)
        many = isinstance(spec, ListOf) and isinstance(value, (list, tuple))
        tensors: Sequence[Any] = value if many else (value,)
        for one in tensors:
            if isinstance(spec, (Tensor, Offsets, ListOf)) and is_tensor(one):
                return target_of(one.device)
    return None


class Dispatch:
    """The generated functions of one kernel.

    `serves(*args, **kwargs) -> bool` is the check; `bind(*args, **kwargs) -> dict` gives the arguments by
    parameter. Both raise TypeError for a call that does not fit the launcher's signature.
    """

    def __init__(self, envelope: Envelope, parameters: Sequence[Parameter], name: str) -> None:
        writer = _Writer(envelope)
        body = writer.write()
        head = source(parameters)
        pairs = ", ".join(f"{p.name!r}: {p.name}" for p in parameters)
        self.source = f"def serves({head}):\n{body}\n\ndef bind({head}):\n    return {{{pairs}}}\n"
        """The generated source, for the curious and for tests."""
        scope = dict(writer.scope)
        scope.update((f"_kg_default_{p.name}", p.default) for p in parameters)
        exec(compile(self.source, f"<kgate dispatch of {name}>", "exec"), scope)
        self.serves = scope["serves"]
        self.bind = scope["bind"]
        for function in (self.serves, self.bind):
            function.__name__ = function.__qualname__ = name  # a TypeError then names the kernel


class _Writer:
    """Writes the body of the check: each `_part` yields its lines, and keeps what later ones may rely on."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.lines: list[str] = []
        self.start: list[str] = []
        self.depth = 1
        self.scope: dict[str, Any] = {
            "_kg_type": type,
            "_kg_len": len,
            "_kg_min": min,
            "_kg_max": max,
            "_kg_divmod": divmod,
            "_kg_isinstance": isinstance,
            "_kg_lists": (list, tuple),
            "_kg_types": TENSOR_TYPES,
            "_kg_is_tensor": is_tensor,
            "_kg_names": NAMES,
            "_kg_align": alignment,
            "_kg_dims": frozenset(envelope.dims),
            "_kg_ZeroDivisionError": ZeroDivisionError,
        }
        self.sizes: dict[str, str] = {}
        """Dim -> the local that holds it, for dims that are surely known by now."""
        self.maybe: set[str] = set()
        """Dims that may be known by now; the local `_kg_d_NAME` is None where they are not."""
        self.declared: set[str] = set()

    def write(self) -> str:
        self.arguments()
        self.dtypes()
        self.steps()
        self.ranges()
        self.strides()
        self.conditions()
        self.devices()
        self.add("return True")
        return "\n".join([*self.start, *self.lines])

    # -- writing ---------------------------------------------------------------------------------------

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def refuse_if(self, condition: str) -> None:
        self.add(f"if {condition}: return False")

    def declare(self, local: str) -> str:
        """A local that is None until something sets it."""
        if local not in self.declared:
            self.declared.add(local)
            self.start.append(f"    {local} = None")
        return local

    def constant(self, name: str, value: object) -> str:
        self.scope[name] = value
        return name

    def each(self) -> Iterator[tuple[str, str, Tensor | Offsets, bool]]:
        """Every tensor: (input, local, description, surely there), the writer inside its guard or loop."""
        for name in self.envelope.inputs:
            yield from self.inside(name)

    def inside(self, name: str) -> Iterator[tuple[str, str, Tensor | Offsets, bool]]:
        spec = self.envelope.inputs[name]
        if isinstance(spec, (Choice, Scalar)):
            return
        depth, before = self.depth, len(self.lines)
        if spec.optional:
            self.add(f"if {name} is not None:")
            self.depth += 1
        if isinstance(spec, ListOf):
            self.add(f"for _kg_e in {name}:")
            self.depth += 1
            guards = len(self.lines)
            yield name, "_kg_e", spec.element, False
        else:
            guards = len(self.lines)
            yield name, name, spec, not spec.optional
        self.depth = depth
        if len(self.lines) == guards:
            del self.lines[before:]  # nothing was written inside

    # -- the parts -------------------------------------------------------------------------------------

    def arguments(self) -> None:
        """Presence, kinds, choices, scalars and ranks."""
        for name, spec in self.envelope.inputs.items():
            if isinstance(spec, (Choice, Scalar)):
                accepts = self.constant(f"_kg_accepts_{name}", spec.accepts)
                self.refuse_if(f"not {accepts}({name})")
            elif isinstance(spec, ListOf):
                absent = f"{name} is not None and " if spec.optional else ""
                self.refuse_if(f"{absent}not _kg_isinstance({name}, _kg_lists)")
        for name, local, tensor, _ in self.each():
            self.refuse_if(f"_kg_type({local}) not in _kg_types and not _kg_is_tensor({local})")
            shape = f"_kg_s_{name}"
            self.add(f"{shape} = {local}.shape")
            self.refuse_if(f"_kg_len({shape}) != {tensor.rank}")
            if tensor.rank and local == name:
                self.add(f"{''.join(f'_kg_z_{name}_{at}, ' for at in range(tensor.rank))}= {shape}")

    def dtypes(self) -> None:
        """Supported dtypes, and equal ones where a variable is shared."""
        first: dict[str, tuple[str, bool]] = {}
        for name, local, tensor, sure in self.each():
            variable = tensor.dtype
            accepted = self.constant(f"_kg_ok_{variable}", Accepted(self.envelope.dtypes_of(variable)))
            dtype = f"_kg_t_{name}"
            self.add(f"{dtype} = {local}.dtype")
            known, surely = first.get(variable, ("", False))
            if variable not in self.envelope.dtypes or not known:
                self.refuse_if(f"not {accepted}[{dtype}]")
            if variable in self.envelope.dtypes:
                if known:
                    self.same_dtype(dtype, known, surely, accepted)
                elif sure:
                    first[variable] = (dtype, True)
                else:
                    holder = self.declare(f"_kg_v_{variable}")
                    self.lines.pop()  # checked below, against what another element of the list may have set
                    self.same_dtype(dtype, holder, False, accepted)
                    first[variable] = (holder, False)

    def same_dtype(self, dtype: str, known: str, surely: bool, accepted: str) -> None:
        differs = f"{dtype} is not {known} and _kg_names[{dtype}] != _kg_names[{known}]"
        if surely:
            self.refuse_if(differs)
            return
        self.add(f"if {known} is None:")
        self.depth += 1
        self.refuse_if(f"not {accepted}[{dtype}]")
        self.add(f"{known} = {dtype}")
        self.depth -= 1
        self.add(f"elif {differs}: return False")

    def steps(self) -> None:
        """Sizes settle the dims, by the plan; what was too early to say anything is said again."""
        again = [step for step in self.envelope.plan.steps if self.step(step)]
        for step in again:
            self.step(step)

    def step(self, step: Step) -> bool:
        spec = self.envelope.inputs[step.input]
        if step.axis >= 0 and not step.many:
            result = False
            for name, _, _, sure in self.inside(step.input):
                result = self.unify(step, f"_kg_z_{name}_{step.axis}", sure)
            return result
        if step.many:
            result = False
            for _, local, _, _ in self.inside(step.input):
                result = self.unify(step, f"{local}.shape[{step.axis}]", False)
            return result
        depth, optional = self.depth, bool(getattr(spec, "optional", False))
        if optional:
            self.add(f"if {step.input} is not None:")
            self.depth += 1
        self.add(f"_kg_n_{step.input} = _kg_len({step.input})")
        result = self.unify(step, f"_kg_n_{step.input}", not optional)
        self.depth = depth
        return result

    def unify(self, step: Step, size: str, sure: bool) -> bool:
        """One size against its expression; True where it may have been too early."""
        expr = step.expr
        unsure = {name for name in expr.names() if not self.is_sure(name)}
        if not unsure:
            self.compare(size, expr)
        elif len(unsure) == 1 and unsure == expr.names() and self.settle(expr, min(unsure), size, sure):
            pass
        else:
            self.solve(step, size, unsure)
            return True
        return False

    def is_sure(self, name: str) -> bool:
        if name in self.envelope.dims:
            return name in self.sizes
        return not getattr(self.envelope.inputs[name], "optional", False)

    def compare(self, size: str, expr: AxisExpr) -> None:
        differs = f"{size} != {expr.expr.python(self)}"
        if not expr.expr.divides():
            self.refuse_if(differs)
            return
        self.add("try:")
        self.depth += 1
        self.refuse_if(differs)
        self.depth -= 1
        self.add("except _kg_ZeroDivisionError: return False")

    def settle(self, expr: AxisExpr, name: str, size: str, sure: bool) -> bool:
        """A single unknown dim with constant factors; False where it is not so simple."""
        if name not in self.envelope.dims or expr.expr.divides() or not linear_in(expr.expr, name):
            return False
        offset = expr.evaluate({name: 0})
        slope = expr.evaluate({name: 1}) - offset
        if slope == 0:
            return False
        if expr.dim and sure and name not in self.maybe:
            self.sizes[name] = size
            return True
        local = f"_kg_d_{name}"
        if sure and name not in self.maybe:
            self.assign(local, size, offset, slope)
        else:
            self.declare(local)
            self.add(f"if {local} is None:")
            self.depth += 1
            self.assign(local, size, offset, slope)
            self.depth -= 1
            self.add(f"elif {size} != {expr.expr.python(self)}: return False")
            self.maybe.add(name)
        if sure:
            self.sizes[name] = local
        return True

    def assign(self, local: str, size: str, offset: int, slope: int) -> None:
        if slope == 1:
            self.add(f"{local} = {size}{f' - {offset}' if offset else ''}")
        else:
            self.add(f"{local}, _kg_rest = _kg_divmod({size} - {offset}, {slope})")
            self.refuse_if("_kg_rest")
        if offset or slope != 1:
            self.refuse_if(f"{local} < 0")

    def solve(self, step: Step, size: str, unsure: set[str]) -> None:
        """The general case, at run time."""
        at = self.envelope.plan.steps.index(step)
        axis = self.constant(f"_kg_axis_{at}", step.expr)
        known = [f"{name!r}: {self.name(name)}" for name in sorted(step.expr.names() - unsure)]
        for name in sorted(unsure):
            if name in self.envelope.dims:
                self.declare(f"_kg_d_{name}")
                self.maybe.add(name)
            known.append(f"**({{}} if {self.name(name)} is None else {{{name!r}: {self.name(name)}}})")
        self.add(f"_kg_found = {axis}.solve({size}, {{{', '.join(known)}}}, _kg_dims)")
        self.refuse_if("_kg_found is None")
        for name in sorted(unsure & self.envelope.dims.keys()):
            self.add(f"{self.name(name)} = _kg_found.get({name!r}, {self.name(name)})")

    def ranges(self) -> None:
        for name, dim in self.envelope.dims.items():
            size = self.name(name)
            outside = f"{size} > {dim.hi}" if dim.lo == 0 else f"not {dim.lo} <= {size} <= {dim.hi}"
            self.refuse_if(outside if name in self.sizes else f"{size} is not None and {outside}")

    def strides(self) -> None:
        """Layouts, and the strides that the conditions ask for."""
        asked = {(f, name) for c in self.envelope.conditions for f, name, _ in c.asked()}
        for name, local, tensor, _ in self.each():
            if tensor.layout == "any" and ("stride", name) not in asked:
                continue
            stride = f"_kg_st_{name}"
            self.add(f"{stride} = {local}.stride()")
            if tensor.layout != "any":
                self.layout(name, local, tensor)

    def layout(self, name: str, local: str, tensor: Tensor | Offsets) -> None:
        shape = f"_kg_s_{name}" if local == name else f"{local}.shape"
        stride = f"_kg_st_{name}"
        if local == name and tensor.rank and tensor.layout in ("contiguous", "inner_contiguous"):
            axes = range(tensor.rank) if tensor.layout == "contiguous" else (tensor.rank - 1,)
            wrong = []
            for at in reversed(axes):
                inner = " * ".join(f"_kg_z_{name}_{i}" for i in range(at + 1, tensor.rank)) or "1"
                wrong.append(f"{stride}[{at}] != {inner} and _kg_z_{name}_{at} != 1")
            self.refuse_if(f"({' or '.join(wrong)}) and 0 not in {shape}")
        else:
            holds = self.constant(f"_kg_layout_{tensor.layout}", LAYOUTS[tensor.layout].holds)
            self.refuse_if(f"not {holds}({shape}, {stride})")

    def conditions(self) -> None:
        aligned = {name for c in self.envelope.conditions for f, name, _ in c.asked() if f == "align"}
        for name, local, _, _ in self.each():
            if name in aligned:
                self.add(f"_kg_a_{name} = _kg_align({local}.data_ptr())")
        for condition in self.envelope.conditions:
            fails = f"not {condition.python_may(True, self)}"
            if condition.divides():
                self.add("try:")
                self.depth += 1
                self.refuse_if(fails)
                self.depth -= 1
                self.add("except _kg_ZeroDivisionError: return False")
            else:
                self.refuse_if(fails)

    def devices(self) -> None:
        """One device for all tensors, and a target that the kernel runs on."""
        found, surely = "", False
        for name, local, _, sure in self.each():
            device = f"_kg_dev_{name}"
            self.add(f"{device} = {local}.device")
            if found and surely:
                self.refuse_if(f"{device} != {found}")
            elif sure and not found:
                found, surely = device, True
            else:
                found = self.declare("_kg_dev")
                self.add(f"if {found} is None: {found} = {device}")
                self.add(f"elif {device} != {found}: return False")
                surely = surely or sure
        if found and self.envelope.targets:
            runs = self.constant("_kg_runs", Runs(self.envelope))
            absent = "" if surely else f"{found} is not None and "
            self.refuse_if(f"{absent}not {runs}[{found}]")

    # -- how expressions are spelt (where.Atoms) -------------------------------------------------------

    def name(self, name: str) -> str:
        return self.sizes.get(name, f"_kg_d_{name}") if name in self.envelope.dims else name

    def call(self, function: str, tensor: str, index: int | None) -> str:
        if function == "present":
            return f"({tensor} is not None)"
        if function == "dtype":
            return f"_kg_names[_kg_t_{tensor}]"
        return f"_kg_a_{tensor}" if function == "align" else f"_kg_st_{tensor}[{index}]"

    def unknown(self, leaf: Expr) -> str:
        """Python condition for a comparison depending on what is not known; empty where it never does."""
        tests = [f"{self.name(name)} is None" for name in sorted(leaf.names()) if not self.is_sure(name)]
        for function, tensor, _ in leaf.asked():
            if function != "present" and getattr(self.envelope.inputs[tensor], "optional", False):
                tests.append(f"{tensor} is None")
        return " or ".join(dict.fromkeys(tests))


__all__ = [
    "NAMES",
    "SWITCH",
    "Dispatch",
    "facts_of",
    "facts_of_call",
    "is_tensor",
    "launcher_only",
    "target_of",
]
