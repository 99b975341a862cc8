"""How named inputs become a call of a launcher, and what it returns becomes named outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kgate.cases.space import accepted
from kgate.contract.vocabulary import Ignore, Scalar

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY,)


@dataclass(frozen=True)
class Call:
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, kernel: Any, inputs: Mapping[str, Any]) -> Call:
        """The call that passes ``inputs`` to the launcher, by name wherever it can be."""
        parameters = inspect.signature(kernel.launcher).parameters
        values = {**_fill(kernel.envelope, parameters, inputs), **inputs}
        first = [name for name, parameter in parameters.items() if parameter.kind in _POSITIONAL and name in values]
        return cls(tuple(values[name] for name in first), {k: v for k, v in values.items() if k not in first})

    def on(self, function: Callable[..., Any]) -> Any:
        """Call ``function`` the same way."""
        return function(*self.args, **self.kwargs)


def _fill(envelope: Any, parameters: Mapping[str, inspect.Parameter], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Values for scalars that neither the case nor the signature gives."""
    return {
        name: accepted(item)
        for name, item in envelope.inputs.items()
        if isinstance(item, Scalar)
        and name not in inputs
        and (name not in parameters or parameters[name].default is inspect.Parameter.empty)
    }


class WrongOutputs(Exception):
    """What was returned is not what the declaration says is returned."""


def named_outputs(envelope: Any, returned: Any) -> dict[str, Any]:
    """Output name to what was returned for it, ``Ignore`` left out.

    Raises ``WrongOutputs`` where the number of values differs from the declared one.
    """
    names = list(envelope.outputs)
    if len(names) == 1:
        values = [returned]
    elif not names:
        values = []
    elif isinstance(returned, (tuple, list)):
        values = list(returned)
    else:
        raise WrongOutputs(f"returns {type(returned).__name__}, {len(names)} outputs are declared")
    if len(values) != len(names):
        raise WrongOutputs(f"returns {len(values)} values, {len(names)} outputs are declared: {', '.join(names)}")
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if not isinstance(envelope.outputs[name], Ignore)}
