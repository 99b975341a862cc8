"""Measurements, baseline lines and what comes of comparing them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Figure = int | float | str | bool
Figures = dict[str, dict[str, Figure]]

OK = "ok"
WRONG = "wrong"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Measurement:
    """What one probe found for one case on one target by one executor."""

    kernel: str
    """Identity of the kernel, ``path.py::qualname``."""
    case: str
    """Id of the case."""
    probe: str
    """``accuracy``, ``codegen``, ``traffic`` or ``latency``."""
    target: str
    """Where it runs, for example ``cuda:sm_90``; the interpreter's figures stand under ``interpreter``."""
    executor: str
    """What ran it: ``interpreter``, ``compiler`` or a device's name."""
    status: str
    """``ok``, ``wrong``, ``out-of-bounds``, ``unwritten``, ``overflow``, ``crash``, ``hang``, ``refused``,
    ``cannot-launch``, ``error``, ``dispatch`` (the wrong path would serve it), ``skipped`` or
    ``not-run`` (the time was up)."""
    figures: Figures = field(default_factory=dict)
    """Per launch (codegen) or per output (accuracy): figure name to value."""
    message: str = ""
    """One sentence on what went wrong, or why it was skipped."""
    details: dict[str, Any] = field(default_factory=dict)
    """Evidence: the worst element with got, want and allowed; the device line; the log's tail."""
    toolchain: dict[str, str] = field(default_factory=dict)
    """Versions that decide the figures: triton, ptxas, torch, python."""
    code: str = ""
    """The *code* fingerprint that was measured."""
    seconds: float = 0.0
    """Wall time of the measurement, in seconds; never compared."""


@dataclass(frozen=True)
class Line:
    """One committed baseline line: the yardstick for one workload and probe on one target."""

    case: str
    """Id of the workload."""
    probe: str
    """The probe that the figures come from."""
    code: str
    """The *code* fingerprint that was measured."""
    toolchain: str
    """For example ``triton 3.7.1, ptxas 13.1``."""
    executor: str
    """What ran it; lines bind only within one executor."""
    figures: Figures
    """Per launch or output: figure name to value."""
    note: str = ""
    """The reason given when it was blessed, where something got worse."""


@dataclass(frozen=True)
class Change:
    """One figure, old against new."""

    label: str
    """The launch or output that the figure belongs to."""
    figure: str
    """Name of the figure."""
    old: Figure | None
    """Value in the baseline; None where it had none."""
    new: Figure | None
    """Value measured; None where it is gone."""
    severity: str
    """``regression`` (fails), ``warning``, ``improvement`` or ``neutral``."""
    note: str = ""
    """Why the severity is what it is, where that is not plain."""


@dataclass(frozen=True)
class Comparison:
    """Baseline and measurement side by side."""

    measurement: Measurement
    """What was measured now."""
    line: Line | None
    """The committed line; None where there is none."""
    changes: tuple[Change, ...] = ()
    """Figures that differ."""
    against: str = "baseline"
    """``baseline``, or ``base`` where another toolchain made base and head be measured both."""
