"""The envelope: the inputs that a kernel supports, and what it returns for them."""

from __future__ import annotations

from kgate.contract import targets as _targets
from kgate.contract.errors import raise_all
from kgate.contract.records import Record
from kgate.contract.vocabulary import Choice, Dim, Ignore, Input, ListOf, Offsets, Output, Scalar, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kgate.contract.reasons import Plan, Reason
    from kgate.contract.where import Expr


class Envelope(Record):
    """What a kernel supports. Raises DeclarationError, which carries every mistake that was found."""

    __slots__ = ("_conditions", "_plan", "dims", "dtypes", "inputs", "outputs", "targets", "where")
    inputs: dict[str, Input]
    """By parameter of the launcher. Parameters with a default that are not named here are not promised."""
    outputs: dict[str, Output]
    """In the order returned; a single one is the returned value itself. Empty if it only mutates."""
    dtypes: dict[str, tuple[str, ...]]
    """Dtype variable -> the dtypes that it can be; tensors that share a variable share the dtype."""
    dims: dict[str, Dim]
    """The range of every size that the axis strings name."""
    where: tuple[str, ...]
    """Conditions in the where-language, all of which have to hold."""
    targets: tuple[str, ...]
    """Where the kernel runs (`cuda:sm_80+`); empty for everywhere."""
    _conditions: tuple[Expr, ...]
    _plan: Plan | None

    def __init__(
        self,
        inputs: Mapping[str, Input],
        outputs: Mapping[str, Output] | None = None,
        dtypes: Mapping[str, Sequence[str]] | None = None,
        dims: Mapping[str, Dim] | None = None,
        where: Sequence[str] = (),
        targets: Sequence[str] = (),
    ) -> None:
        from kgate.contract import validation

        raw: dict[str, Any] = {
            "inputs": inputs,
            "outputs": {} if outputs is None else outputs,
            "dtypes": {} if dtypes is None else dtypes,
            "dims": {} if dims is None else dims,
            "where": where,
            "targets": targets,
        }
        raise_all(validation.container_mistakes(raw))
        conditions, errors = validation.parse_conditions(tuple(where))
        self._set(
            inputs=dict(inputs),
            outputs=dict(raw["outputs"]),
            dtypes={name: tuple(values) for name, values in (dtypes or {}).items()},
            dims=dict(dims or {}),
            where=tuple(where),
            targets=tuple(targets),
            _conditions=conditions,
            _plan=None,
        )
        raise_all([*validation.envelope_mistakes(self), *errors])

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """The parsed `where`, in its order."""
        return self._conditions

    @property
    def plan(self) -> Plan:
        """How run-time shapes settle the dims; made on first use."""
        if self._plan is None:
            from kgate.contract.reasons import make_plan

            self._set(_plan=make_plan(self))
        assert self._plan is not None
        return self._plan

    def tensors(self) -> dict[str, Tensor | Offsets]:
        """The inputs that are single tensors."""
        return {n: spec for n, spec in self.inputs.items() if isinstance(spec, (Tensor, Offsets))}

    def choices(self) -> dict[str, Choice]:
        """The inputs that are choices."""
        return {n: spec for n, spec in self.inputs.items() if isinstance(spec, Choice)}

    def scalars(self) -> dict[str, Scalar]:
        """The inputs that are numbers."""
        return {n: spec for n, spec in self.inputs.items() if isinstance(spec, Scalar)}

    def optional(self) -> tuple[str, ...]:
        """Names of the inputs that may be None."""
        return tuple(n for n, spec in self.inputs.items() if getattr(spec, "optional", False))

    def mutated(self) -> tuple[str, ...]:
        """Names of the inputs that the launcher writes to."""
        return tuple(n for n, spec in self.inputs.items() if getattr(spec, "mutated", False))

    def promised(self) -> dict[str, Tensor | ListOf]:
        """The outputs that are part of the promise."""
        return {n: spec for n, spec in self.outputs.items() if not isinstance(spec, Ignore)}

    def dtypes_of(self, dtype: str) -> tuple[str, ...]:
        """The dtypes that a tensor's `dtype` allows: the variable's, or the one it names."""
        return self.dtypes.get(dtype, (dtype,))

    def concrete_targets(self) -> tuple[str, ...]:
        """The concrete targets that `targets` stands for."""
        return _targets.expand(self.targets)

    def reasons(self, facts: Mapping[str, Any], target: str | None = None) -> tuple[Reason, ...]:
        """Why the kernel would not serve these inputs; empty where it would.

        `facts` maps each input to its TensorFacts, a list of them, a plain value, or None for one that is
        left out. `target` is a concrete one (`cuda:sm_90`); None does not look at targets. Needs no torch.
        """
        from kgate.contract.reasons import reasons

        return reasons(self, facts, target)

    def to_dict(self) -> dict[str, Any]:
        """Canonical, JSON-able form: equal envelopes give equal dicts, and `from_dict` reads it back."""
        from kgate.contract.serial import envelope_to_dict

        return envelope_to_dict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Envelope:
        """The envelope that `to_dict` wrote; raises DeclarationError for one that is not valid."""
        from kgate.contract.serial import envelope_from_dict

        return envelope_from_dict(document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((tuple(self.inputs), tuple(self.outputs), self.targets))
