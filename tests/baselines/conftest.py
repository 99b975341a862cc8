"""Lines and measurements to store, and a folder to store them in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgate.baselines.records import Change, Line, Measurement

KERNEL = "kernels/norm/rms_norm.py::rms_norm"


@pytest.fixture
def measured() -> Callable[..., Measurement]:
    """Makes a measurement that passed, with changes as asked."""

    def make(case: str = "M=1,N=128", registers: int = 32, **changes: object) -> Measurement:
        values: dict[str, object] = {
            "kernel": KERNEL,
            "case": case,
            "probe": "codegen",
            "target": "cuda:sm_90",
            "executor": "compiler",
            "status": "ok",
            "figures": {"_kernel": {"registers": registers, "occupancy": 0.1875, "tensor_cores": False}},
            "toolchain": {"triton": "3.7.1", "ptxas": "13.1"},
            "code": "0123456789abcdef",
        }
        return Measurement(**{**values, **changes})

    return make


@pytest.fixture
def compare() -> Callable[[Line, Measurement], list[Change]]:
    """More registers are a regression, fewer an improvement."""

    def differences(line: Line, measurement: Measurement) -> list[Change]:
        old = line.figures["_kernel"]["registers"]
        new = measurement.figures["_kernel"]["registers"]
        if old == new:
            return []
        return [Change("_kernel", "registers", old, new, "regression" if new > old else "improvement")]

    return differences


@pytest.fixture
def no_ci() -> dict[str, str]:
    """An environment that is no CI service's."""
    return {}
