"""The case record: one configuration of one kernel, and the path that must serve it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KERNEL = "kernel"
FALLBACK = "fallback"


@dataclass(frozen=True)
class Case:
    """One configuration: shapes, dtypes, layouts, values, seed, and the path that must serve it.

    ``id`` is stable and readable, omits defaults, and is enough to rebuild the case
    (``M=4096,N=127,T=bfloat16,x=strided``).
    """

    id: str
    """Readable, stable name; unique within the kernel."""
    kernel: str
    """Identity of the kernel, ``path.py::qualname``."""
    dims: dict[str, int]
    """Size of every dim of the envelope."""
    dtypes: dict[str, str]
    """Dtype name of every dtype variable of the envelope."""
    layouts: dict[str, str] = field(default_factory=dict)
    """Layout of each tensor argument that is not contiguous."""
    choices: dict[str, Any] = field(default_factory=dict)
    """Value of every Choice and Scalar parameter that the case sets."""
    absent: tuple[str, ...] = ()
    """Optional arguments that are left out."""
    values: str = "normal"
    """Distribution of the input values."""
    seed: int = 0
    """Seed of the input generator."""
    expect: str = KERNEL
    """The path that must serve the case: ``kernel`` or ``fallback``."""
    reason: str = ""
    """Where the fallback must serve it: the code of the reason that must be given."""
    purpose: str = ""
    """What the case is there to try, in words."""
    origin: str = "edge"
    """``workload`` (as declared), ``scaled`` (a workload made small), ``edge`` or ``outside``."""
