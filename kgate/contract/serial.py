"""Declarations as plain data: canonical, deterministic, and readable back."""

from __future__ import annotations

from kgate.contract.envelope import Envelope
from kgate.contract.records import Record
from kgate.contract.vocabulary import Choice, Dim, Ignore, ListOf, Numerics, Offsets, Scalar, Tensor, Workload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

KINDS: dict[str, type[Record]] = {
    "tensor": Tensor,
    "scalar": Scalar,
    "choice": Choice,
    "list": ListOf,
    "offsets": Offsets,
    "ignore": Ignore,
}
_NAMES = {cls: name for name, cls in KINDS.items()}
_DEFAULTS: dict[type[Record], dict[str, Any]] = {
    Tensor: {"optional": False, "mutated": False, "layout": "any", "numerics": None},
    Scalar: {"lo": None, "hi": None, "optional": False},
    ListOf: {"optional": False},
    Offsets: {"total": "", "optional": False},
    Numerics: {
        "reduce": "",
        "acc": "float32",
        "roundings": 0,
        "c": 1.0,
        "magnitude": None,
        "nan": "propagate",
        "signed_zero": False,
    },
    Workload: {"source": "", "layouts": {}, "absent": ()},
}


def envelope_to_dict(envelope: Envelope) -> dict[str, Any]:
    """See `Envelope.to_dict`. Inputs and outputs are lists, since their order is part of the promise."""
    return {
        "inputs": [{"name": name, **spec_to_dict(spec)} for name, spec in envelope.inputs.items()],
        "outputs": [{"name": name, **spec_to_dict(spec)} for name, spec in envelope.outputs.items()],
        "dtypes": {name: list(envelope.dtypes[name]) for name in sorted(envelope.dtypes)},
        "dims": {name: [envelope.dims[name].lo, envelope.dims[name].hi] for name in sorted(envelope.dims)},
        "where": [str(condition) for condition in envelope.conditions],
        "targets": list(envelope.targets),
    }


def envelope_from_dict(document: Mapping[str, Any]) -> Envelope:
    """See `Envelope.from_dict`."""
    return Envelope(
        inputs={entry["name"]: spec_from_dict(entry) for entry in document["inputs"]},
        outputs={entry["name"]: spec_from_dict(entry) for entry in document["outputs"]},
        dtypes={name: tuple(values) for name, values in document["dtypes"].items()},
        dims={name: Dim(lo, hi) for name, (lo, hi) in document["dims"].items()},
        where=tuple(document["where"]),
        targets=tuple(document["targets"]),
    )


def spec_to_dict(spec: Record) -> dict[str, Any]:
    """An input or output: its type, and every field that is not at its default."""
    return {"type": _NAMES[type(spec)], **_fields(spec)}


def _fields(record: Record) -> dict[str, Any]:
    defaults = _DEFAULTS.get(type(record), {})
    fields = {name: getattr(record, name) for name in record.fields()}
    return {n: _plain(value) for n, value in fields.items() if n not in defaults or value != defaults[n]}


def _plain(value: Any) -> Any:
    if isinstance(value, Numerics):
        return _fields(value)
    if isinstance(value, Record):
        return spec_to_dict(value)
    return list(value) if isinstance(value, tuple) else value


def spec_from_dict(entry: Mapping[str, Any]) -> Any:
    """The input or output that `spec_to_dict` wrote; a `name` in it is passed over."""
    fields = {name: value for name, value in entry.items() if name not in ("type", "name")}
    if entry["type"] == "choice":
        return Choice(*fields["values"])
    if fields.get("numerics") is not None:
        fields["numerics"] = Numerics(**fields["numerics"])
    if entry["type"] == "list":
        fields["element"] = spec_from_dict(fields["element"])
    return KINDS[entry["type"]](**fields)


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """A workload: its values, and every other field that is not at its default."""
    values = {name: workload.values[name] for name in sorted(workload.values)}
    return {**_fields(workload), "values": values}


def workload_from_dict(document: Mapping[str, Any]) -> Workload:
    """The workload that `workload_to_dict` wrote."""
    fields = {name: value for name, value in document.items() if name != "values"}
    return Workload(**fields, **document["values"])


def describe(
    *,
    name: str,
    op: str,
    envelope: Envelope,
    reference: str,
    fallback: str,
    grad: Sequence[str] = (),
    check: str = "",
    depends: Sequence[str] = (),
    sources: Sequence[str] = (),
    workloads: Sequence[Workload] = (),
) -> dict[str, Any]:
    """A whole declaration as plain data; functions are given as `module:qualname`.

    What is read from source and what is executed both go through here, so that they can be compared.
    """
    return {
        "name": name,
        "op": op,
        "envelope": envelope.to_dict(),
        "reference": reference,
        "fallback": fallback,
        "grad": list(grad),
        "check": check,
        "depends": list(depends),
        "sources": list(sources),
        "workloads": [workload_to_dict(workload) for workload in workloads],
    }
