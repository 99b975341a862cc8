"""Declared dtypes of what a device function's pointer points to."""

from __future__ import annotations

import re

from kgate.lint.linking import LinkedDevice
from kgate.source.records import Declaration

_WRAPPED = re.compile(r"^(?:contiguous|view|like)\((?P<inner>.*)\)$")


def dtypes_of(kernel: Declaration, device: LinkedDevice, pointer: str) -> frozenset[str]:
    """Dtypes that a declaration allows for a pointer; empty where that cannot be told.

    Known where the kernel's own launcher launches the device function and hands it an input, a copy, a view or a new
    tensor like one, or a local that has the name of an output.
    """
    found: frozenset[str] | None = None
    for launch in device.launches:
        argument = launch.arguments.get(pointer)
        if argument is None or f"{launch.path}::{launch.launch.by}" != kernel.identity:
            return frozenset()
        allowed = _allowed(kernel, base_of(argument.form)) or _allowed(kernel, argument.text)
        if not allowed:
            return frozenset()
        found = allowed if found is None else found & allowed
    return found or frozenset()


def base_of(form: str) -> str:
    """The parameter that a form is a copy or a view of, or new like; the form itself where it is none."""
    while (wrapped := _WRAPPED.match(form)) is not None:
        form = wrapped["inner"].partition(",")[0]
    return form


def _allowed(kernel: Declaration, name: str) -> frozenset[str]:
    tensor = kernel.envelope.inputs.get(name, kernel.envelope.outputs.get(name))
    dtype = getattr(tensor, "dtype", None)
    if not isinstance(dtype, str):
        return frozenset()
    return frozenset(kernel.envelope.dtypes.get(dtype, (dtype,)))
