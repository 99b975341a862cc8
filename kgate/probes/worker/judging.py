"""The accuracy probe of one case: launcher under the interpreter, reference in float64, the rule between them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kgate.cases.layouts import FAR
from kgate.cases.records import FALLBACK, Case
from kgate.contract.dispatch import launcher_only
from kgate.contract.layouts import LAYOUTS as PROMISES
from kgate.contract.vocabulary import ABSOLUTE, ListOf, Numerics, Tensor
from kgate.probes import interpreter
from kgate.probes.accuracy import ELEMENT_BOUND, GRADIENT_BOUND, Budget, Judgement, judge, structure
from kgate.probes.worker import draw, endings, variants
from kgate.probes.worker.calling import Call, WrongOutputs, named_outputs
from kgate.probes.worker.inputs import LAZY_BYTES, make_inputs
from kgate.probes.worker.oracle import plain, widen, widened

Answer = dict[str, Any]

_STATUS = {
    interpreter.OUT_OF_BOUNDS: "out-of-bounds",
    interpreter.UNWRITTEN_OUTPUT: "unwritten",
    interpreter.INT32_OVERFLOW: "overflow",
    interpreter.STORE_CONFLICT: "wrong",
}
_GRAVEST = ("overflow", "out-of-bounds", "unwritten", "wrong", "")
# A read of memory that nothing wrote is no failure by itself: kernels load whole tiles and mask them afterwards. What
# was read is poison, so that it shows in the result wherever it matters.
_FALLBACK_ROUNDINGS = 8
"""A fallback is not the kernel: it may round after every step of its own."""


def run(kernel: Any, case: Case, target: str, tree: str) -> Answer:
    """Judge one case; ``target`` is a concrete target that the envelope has, and what the process stands in for."""
    inputs = _inputs(kernel, case)
    call = Call.of(kernel, inputs)
    reasons = kernel.reasons(call.args, call.kwargs, target)
    if case.expect == FALLBACK:
        return _fallback(kernel, case, inputs, reasons)
    if reasons:
        said = "; ".join(str(reason) for reason in reasons)
        message = f"the kernel must serve this case, and the dispatch would not: {said}"
        return {"status": "dispatch", "message": message, "details": {"reasons": [r.code for r in reasons]}}
    return _Trial(kernel, case, inputs, tree).answer()


def _inputs(kernel: Any, case: Case) -> dict[str, Any]:
    inputs = make_inputs(kernel.envelope, case)
    if kernel.input_generator is not None:
        given = kernel.input_generator(case)
        if not isinstance(given, Mapping):
            raise TypeError(f"the input generator returned {type(given).__name__}, a dict of inputs by name is needed")
        inputs.update(given)
    return inputs


# ---- the fallback's side


def _fallback(kernel: Any, case: Case, inputs: dict[str, Any], reasons: Any) -> Answer:
    """Outside the envelope: the right reason must be given, and the fallback must agree with the reference."""
    codes = [reason.code for reason in reasons]
    if case.reason and case.reason not in codes:
        found = ", ".join(codes) if codes else "none: the kernel would serve it"
        message = f"expected the fallback to serve this case because of {case.reason}; reasons given: {found}"
        return {"status": "dispatch", "message": message, "details": {"reasons": codes}}
    answer: Answer = {"status": "ok", "message": "", "figures": {}, "details": {"reasons": codes}}
    try:
        want = Expected.of(kernel, case, inputs)
    except Exception as error:
        answer["details"]["not_compared"] = f"the reference refuses these inputs: {endings.describe(error)}"
        return answer
    with interpreter.run(inputs):
        returned = Call.of(kernel, inputs).on(kernel.fallback)
    got = outputs_of(kernel.envelope, returned, inputs)
    for name, value in flat(got):
        verdict = _fallback_verdict(kernel, case, name, value, want)
        if not verdict.right:
            message = f"the fallback differs from the reference: {name}: {verdict.message}"
            return {
                **answer,
                "status": "wrong",
                "message": message,
                "details": {**answer["details"], **_worst(name, verdict)},
            }
    return answer


def _fallback_verdict(kernel: Any, case: Case, name: str, value: Any, want: Expected) -> Judgement:
    expected = want.outputs.get(name)
    if not isinstance(value, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return Judgement(value is None and expected is None, message="one of the two is no tensor")
    if value.shape != expected.shape:
        return Judgement(False, message=f"has shape {tuple(value.shape)}, the reference has {tuple(expected.shape)}")
    dtype = str(value.dtype).removeprefix("torch.")
    budget = budget_for(
        kernel.envelope,
        case,
        base_name(name),
        extra=_FALLBACK_ROUNDINGS,
        inputs=(dtype,),
        absolute=want.magnitudes.get(name),
    )
    return judge(value, expected, dtype, budget, bound=GRADIENT_BOUND)


# ---- what is expected


@dataclass
class Expected:
    """What the reference gives: outputs and written inputs by name, gradients by input, in float64."""

    outputs: dict[str, Any]
    """Output, or mutated input, to value; elements of lists as ``name[0]``."""
    gradients: dict[str, Any] = field(default_factory=dict)
    magnitudes: dict[str, Any] = field(default_factory=dict)
    """What the reference gives on the inputs' absolute values, where an output's ``Numerics`` ask for it."""

    note: str = ""
    """Why the reference did not run in float64, where it did not."""

    @classmethod
    def of(
        cls, kernel: Any, case: Case, inputs: Mapping[str, Any], upstream: Mapping[str, Any] | None = None
    ) -> Expected:
        """Run the reference in float64 on the inputs as already rounded; with ``upstream``, backward as well.

        A reference that cannot do float64 runs in its own dtypes, and the note says so. Raises ``ReferenceFails``
        where it does not run at all.
        """
        try:
            return cls._run(kernel, inputs, upstream or {}, widen, widened)
        except Exception as error:
            why = endings.describe(error)
            try:
                found = cls._run(kernel, inputs, upstream or {}, plain, contextlib.nullcontext)
            except Exception as own:
                raise ReferenceFails(f"the reference fails: {endings.describe(own)}") from own
            return replace(found, note=f"the reference ran in its own dtypes, since in float64 it fails: {why}")

    @classmethod
    def _run(
        cls,
        kernel: Any,
        inputs: Mapping[str, Any],
        upstream: Mapping[str, Any],
        copy: Callable[[Any], Any],
        surroundings: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> Expected:
        given = {name: copy(value) for name, value in inputs.items()}
        leaves = {name: given[name].requires_grad_() for name in _differentiable(kernel, inputs)} if upstream else {}
        with torch.set_grad_enabled(bool(upstream)), surroundings(), launcher_only():
            arguments = {name: value.clone() if name in leaves else value for name, value in given.items()}
            returned = Call.of(kernel, arguments).on(kernel.reference)
        outputs = dict(flat(outputs_of(kernel.envelope, returned, arguments)))
        values = {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()}
        gradients = _backward(outputs, leaves, {name: copy(value) for name, value in upstream.items()})
        return cls(values, gradients, _magnitudes(kernel, given))


class ReferenceFails(RuntimeError):
    """The reference does not run on the inputs of a case."""


def _magnitudes(kernel: Any, wide: Mapping[str, Any]) -> dict[str, Any]:
    """The reference on absolute values, by output; empty where no output's ``Numerics`` ask for it."""
    numerics = [getattr(item, "numerics", None) for item in kernel.envelope.promised().values()]
    if not any(one is not None and one.magnitude == ABSOLUTE for one in numerics):
        return {}
    absolute = {name: _absolute(value) for name, value in wide.items()}
    with torch.no_grad(), widened(), launcher_only():
        returned = Call.of(kernel, absolute).on(kernel.reference)
    return dict(flat(outputs_of(kernel.envelope, returned, absolute)))


def _absolute(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().abs() if value.is_floating_point() else value
    return type(value)(map(_absolute, value)) if isinstance(value, (list, tuple)) else value


def _differentiable(kernel: Any, inputs: Mapping[str, Any]) -> list[str]:
    """Inputs with a promised gradient that are there and can have one."""
    return [
        name for name in kernel.grad if isinstance(inputs.get(name), torch.Tensor) and inputs[name].is_floating_point()
    ]


def _backward(outputs: Mapping[str, Any], leaves: Mapping[str, Any], upstream: Mapping[str, Any]) -> dict[str, Any]:
    """Gradient of every leaf; zeros for one that the outputs do not depend on."""
    usable = [name for name in upstream if isinstance(outputs.get(name), torch.Tensor) and outputs[name].requires_grad]
    if not leaves or not usable:
        return {}
    found = torch.autograd.grad(
        [outputs[name] for name in usable],
        list(leaves.values()),
        [upstream[name].to(outputs[name].dtype) for name in usable],
        allow_unused=True,
    )
    return {
        name: torch.zeros_like(leaf) if gradient is None else gradient
        for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
    }


# ---- the kernel's side


@dataclass
class _Trial:
    """One run of the launcher, and everything that is judged about it."""

    kernel: Any
    case: Case
    inputs: dict[str, Any]
    tree: str
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> Answer:
        before = {name: _copy(value) for name, value in self.inputs.items()}
        backward = bool(_differentiable(self.kernel, self.inputs)) and FAR not in self.case.layouts.values()
        for name in _differentiable(self.kernel, self.inputs) if backward else ():
            self.inputs[name].requires_grad_()
        with self._watched() as log:
            with torch.set_grad_enabled(backward):
                returned = Call.of(self.kernel, self.inputs).on(self.kernel.launcher)
            got = dict(flat(outputs_of(self.kernel.envelope, returned, self.inputs)))
            log.check_outputs(got)
            upstream = self._upstream(got) if backward else {}
            gradients = self._gradients(got, upstream)
        self.details["launches"] = len(log.launches)
        if log.notes:
            self.details["notes"] = list(log.notes)
        problem = self._violations(log) or self._structure(got) or self._written(before)
        if problem is not None:
            return problem
        want = Expected.of(self.kernel, self.case, before, upstream)
        if want.note:
            self.details["notes"] = [*self.details.get("notes", []), want.note]
        return self._outputs(got, want) or self._judge_gradients(gradients, want) or self._result("ok", "")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Any]:
        """The interpreter's watch, every call going to its launcher, in the configuration and order of the case."""
        chosen = variants.configurations(self.kernel, self.case)
        if chosen:
            self.details["configurations"] = variants.described(self.kernel, chosen)
        overflow = FAR in self.case.layouts.values()
        watch = interpreter.run(self.inputs, overflow=overflow, permute=variants.permuted(self.case))
        with interpreter.use_config(chosen), watch as log, launcher_only():
            yield log

    def _result(self, status: str, message: str, **details: Any) -> Answer:
        return {"status": status, "message": message, "figures": self.figures, "details": {**self.details, **details}}

    def _upstream(self, got: Mapping[str, Any]) -> dict[str, Any]:
        """A random upstream gradient for every output that has one."""
        return {
            name: torch.from_numpy(draw.floats(tuple(value.shape), "normal", self.case.seed, f"d{name}")).to(
                value.dtype
            )
            for name, value in got.items()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }

    def _gradients(self, got: Mapping[str, Any], upstream: Mapping[str, Any]) -> dict[str, Any]:
        if not upstream:
            return {}
        leaves = {name: self.inputs[name] for name in _differentiable(self.kernel, self.inputs)}
        return _backward(got, leaves, upstream)

    def _violations(self, log: Any) -> Answer | None:
        """The gravest thing the interpreter saw, with the device line and the argument."""
        found = sorted(log.violations, key=lambda v: _GRAVEST.index(_STATUS.get(v.kind, "")))
        if not found:
            return None
        self.details["violations"] = [
            {
                "kind": one.kind,
                "message": one.message,
                "line": endings.shown(one.device_line, self.tree) if one.device_line else "",
                "argument": one.argument,
                "index": one.index,
                "count": one.count,
            }
            for one in found[:20]
        ]
        worst = found[0]
        if worst.kind not in _STATUS:
            self.details["notes"] = [*self.details.get("notes", []), worst.message]
            return None
        line = endings.shown(worst.device_line, self.tree) if worst.device_line else ""
        message = f"{worst.message} ({worst.count} times)" if worst.count > 1 else worst.message
        where = {"line": line} if line else {}
        return self._result(
            _STATUS[worst.kind], f"{message} at {line}" if line else message, argument=worst.argument, **where
        )

    def _structure(self, got: Mapping[str, Any]) -> Answer | None:
        """Shape, dtype, device and layout of every output."""
        for name, value in got.items():
            item = _declared(self.kernel.envelope, base_name(name))
            if value is None and item.optional:
                continue
            shape = tuple(axis.evaluate(self._sizes()) for axis in item.axes)
            dtype = self.case.dtypes.get(item.dtype, item.dtype)
            wrong = structure(value, shape, dtype, None) or _misplaced(value, item)
            if wrong:
                return self._result("wrong", f"{name} {wrong}", output=name)
        return None

    def _sizes(self) -> dict[str, int]:
        numbers = {name: value for name, value in self.inputs.items() if type(value) is int}
        return {**self.case.dims, **numbers}

    def _written(self, before: Mapping[str, Any]) -> Answer | None:
        """No input may change, nor the memory around it, unless it is declared mutated."""
        for name, value in self.inputs.items():
            if getattr(self.kernel.envelope.inputs.get(name), "mutated", False):
                continue
            for (label, now), (_, then) in zip(flat({name: value}), flat({name: before[name]}), strict=True):
                if isinstance(now, torch.Tensor) and _bytes_differ(now, then):
                    message = f"input {label} was written to, and is not declared mutated"
                    return self._result("wrong", message, argument=label)
        return None

    def _outputs(self, got: Mapping[str, Any], want: Expected) -> Answer | None:
        if self.kernel.check is not None:
            return self._custom(got, want)
        problems: list[tuple[str, Judgement]] = []
        for name, value in got.items():
            if value is None:
                continue
            expected = want.outputs.get(name)
            if not isinstance(expected, torch.Tensor) or expected.shape != value.shape:
                shape = tuple(expected.shape) if isinstance(expected, torch.Tensor) else type(expected).__name__
                message = f"the reference gives {name} as {shape}, the kernel as {tuple(value.shape)}"
                return self._result("wrong", message, output=name)
            budget = budget_for(self.kernel.envelope, self.case, base_name(name), absolute=want.magnitudes.get(name))
            dtype = str(value.dtype).removeprefix("torch.")
            verdict = judge(value.detach(), expected, dtype, budget, random=self._random())
            self._note(name, verdict, problems)
        return self._failed(problems)

    def _random(self) -> bool:
        """Whether every element of the inputs is its own random number."""
        plain = self.case.values == "normal" and "expanded" not in self.case.layouts.values()
        return plain and self.kernel.input_generator is None

    def _judge_gradients(self, gradients: Mapping[str, Any], want: Expected) -> Answer | None:
        problems: list[tuple[str, Judgement]] = []
        for name, value in gradients.items():
            source = self.inputs[name]
            label, dtype = f"grad {name}", str(source.dtype).removeprefix("torch.")
            wrong = structure(value, tuple(source.shape), dtype, None)
            if wrong:
                return self._result("wrong", f"{label} {wrong}", output=label)
            budget = gradient_budget(self.kernel.envelope, self.case, name)
            self._note(label, judge(value, want.gradients[name], dtype, budget, bound=GRADIENT_BOUND), problems)
        return self._failed(problems)

    def _note(self, name: str, verdict: Judgement, problems: list[tuple[str, Judgement]]) -> None:
        self.figures[name] = dict(verdict.figures)
        if not verdict.right:
            problems.append((name, verdict))
        elif verdict.worst and "worst" not in self.details:
            self.details.update(_worst(name, verdict))

    def _failed(self, problems: list[tuple[str, Judgement]]) -> Answer | None:
        if not problems:
            return None
        name, verdict = problems[0]
        more = f" (and {len(problems) - 1} more outputs)" if len(problems) > 1 else ""
        return self._result("wrong", f"{name}: {verdict.message}{more}", **_worst(name, verdict))

    def _custom(self, got: Mapping[str, Any], want: Expected) -> Answer | None:
        """The declaration's own judge: None or True is right, a sentence or False is wrong."""
        with interpreter.real_devices():
            said = self.kernel.check(dict(self.inputs), dict(got), dict(want.outputs))
        if said is None or said is True:
            return None
        return self._result("wrong", said if isinstance(said, str) else "the declaration's own check says no")


# ---- names, copies, budgets


def outputs_of(envelope: Any, returned: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What is part of the promise by name: what was returned, then the inputs that are written in place."""
    outputs = named_outputs(envelope, returned)
    written = {
        name: inputs[name]
        for name, item in envelope.inputs.items()
        if getattr(item, "mutated", False) and inputs.get(name) is not None
    }
    return {**outputs, **{name: value for name, value in written.items() if name not in outputs}}


def flat(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Leaves by label; the elements of lists as ``name[0]``."""
    leaves: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, (list, tuple)):
            leaves += [(f"{name}[{at}]", item) for at, item in enumerate(value)]
        else:
            leaves.append((name, value))
    return leaves


def base_name(label: str) -> str:
    """The output that a label belongs to."""
    return label.partition("[")[0]


def _declared(envelope: Any, name: str) -> Tensor:
    item = envelope.outputs.get(name, envelope.inputs.get(name))
    found: Tensor = item.element if isinstance(item, ListOf) else item
    return found


def _misplaced(value: Any, item: Tensor) -> str:
    if not value.is_cuda:
        return "is on the host, the inputs are on the device"
    if not PROMISES[item.layout].holds(tuple(value.shape), tuple(value.stride())):
        return f"has strides {tuple(value.stride())}, which are not {item.layout}"
    return ""


def _copy(value: Any) -> Any:
    """A copy with the memory around it, where that is small enough to copy."""
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(item) for item in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.untyped_storage().nbytes() > LAZY_BYTES:
        return value.detach().clone(memory_format=torch.contiguous_format)
    whole = value.detach().as_strided((value.untyped_storage().nbytes() // value.element_size(),), (1,), 0)
    return whole.clone().as_strided(value.shape, value.stride(), value.storage_offset())


def _bytes_differ(now: Any, then: Any) -> bool:
    now = now.detach()
    if now.untyped_storage().nbytes() > LAZY_BYTES:
        now, then = now.contiguous(), then.contiguous()
    pair = [torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()) for tensor in (now, then)]
    return not torch.equal(*pair)


def budget_for(
    envelope: Any, case: Case, name: str, *, extra: int = 0, inputs: tuple[str, ...] = (), absolute: Any = None
) -> Budget:
    """What the declared ``Numerics`` of an output come to in this case.

    ``absolute`` is what the reference gives on absolute values, for an output whose magnitude is that.
    """
    numerics = _declared(envelope, name).numerics or Numerics()
    budget = _budget(numerics, case, inputs or _float_inputs(envelope, case), extra)
    if numerics.magnitude == ABSOLUTE and absolute is not None:
        return replace(budget, magnitude=torch.nan_to_num(absolute, nan=0.0, posinf=0.0))
    return budget


def gradient_budget(envelope: Any, case: Case, name: str) -> Budget:
    """The budget of an input's gradient: its own ``Numerics``, or what the outputs and the sizes imply.

    A gradient sums over every axis of the outputs that its input lacks, so that the reduction is at least that long;
    and it is a difference of terms that were rounded (saved outputs, the upstream gradient), of the row's magnitude.
    """
    item = _declared(envelope, name)
    inputs = _float_inputs(envelope, case)
    if item.numerics is not None:
        return _budget(item.numerics, case, inputs, 0)
    outputs = [value for value in envelope.promised().values() if isinstance(value, Tensor)]
    numerics = next((value.numerics for value in outputs if value.numerics is not None), Numerics())
    budget = _budget(numerics, case, inputs, 1)
    own = {axis_name for axis in item.axes for axis_name in axis.names()}
    length = math.prod(max(size, 1) for dim, size in case.dims.items() if dim not in own)
    return replace(budget, reduction=max(budget.reduction, length), spread=True)


def _budget(numerics: Numerics, case: Case, inputs: tuple[str, ...], extra: int) -> Budget:
    terms = numerics.terms
    integers = {name: value for name, value in case.choices.items() if type(value) is int}
    magnitude = None
    if isinstance(numerics.magnitude, (int, float)):
        magnitude = torch.tensor(numerics.magnitude, dtype=torch.float64)
    return Budget(
        reduction=terms.evaluate({**case.dims, **integers}) if terms is not None else 1,
        accumulator=numerics.acc,
        roundings=numerics.roundings + extra,
        chain=numerics.c,
        inputs=inputs,
        magnitude=magnitude,
        nan=numerics.nan,
        signed_zero=numerics.signed_zero,
    )


def _float_inputs(envelope: Any, case: Case) -> tuple[str, ...]:
    names = []
    for item in envelope.inputs.values():
        tensor = item.element if isinstance(item, ListOf) else item
        if isinstance(tensor, Tensor):
            names.append(case.dtypes.get(tensor.dtype, tensor.dtype))
    return tuple(name for name in dict.fromkeys(names) if getattr(torch, name).is_floating_point)


def _worst(name: str, verdict: Judgement) -> dict[str, Any]:
    return {"worst": {"output": name, **verdict.worst}} if verdict.worst else {"output": name}


__all__ = ["ELEMENT_BOUND", "WrongOutputs", "run"]
