"""How much memory one case may take before it fails, instead of the machine."""

from __future__ import annotations

import os
import resource

from kgate.cases.layouts import CONTIGUOUS, FAR, geometry
from kgate.cases.records import Case
from kgate.contract.dtypes import DTYPES
from kgate.contract.vocabulary import ListOf, Offsets, Tensor

_GIB = 1 << 30
_USUAL = 8 * _GIB


def limit(envelope: object, case: Case) -> None:
    """Limit this process's address space: what it has, what the case maps lazily, and room to work in."""
    extra = _lazy_bytes(envelope, case)
    wanted = _mapped() + extra + min(_USUAL, max(_physical() // 2, _GIB))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _mapped() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _physical() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _lazy_bytes(envelope: object, case: Case) -> int:
    inputs = getattr(envelope, "inputs")  # noqa: B009 - the envelope is the user's, of any version
    total = 0
    for name, item in inputs.items():
        tensor = item.element if isinstance(item, ListOf) else item
        if isinstance(tensor, (Tensor, Offsets)) and case.layouts.get(name, CONTIGUOUS) == FAR:
            shape = tuple(axis.evaluate(case.dims) for axis in tensor.axes)
            width = DTYPES.get(case.dtypes.get(tensor.dtype, tensor.dtype), 8)
            total += geometry(FAR, shape).storage * width
    return total
