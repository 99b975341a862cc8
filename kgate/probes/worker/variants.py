"""What a case leaves open and the probe settles by its id: which autotune configuration runs, and in which order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from kgate.cases.records import Case
from kgate.probes import interpreter


def configurations(kernel: Any, case: Case) -> dict[str, int]:
    """Device function to the number of the configuration that this case runs, for autotuned ones.

    Over the cases of a kernel every configuration has its turn, and one case always runs the same. Kernels that prune
    their configurations run the first that is left.
    """
    return {
        tuner.base_fn.__name__: _draw(case) % len(tuner.configs)
        for tuner in _autotuners(kernel)
        if getattr(tuner, "early_config_prune", None) is None and len(tuner.configs) > 1
    }


def permuted(case: Case) -> bool:
    """Whether the programs of a launch run in a shuffled order: so in half of the cases, since any order is right."""
    return bool(_draw(case) >> 16 & 1)


def described(kernel: Any, chosen: dict[str, int]) -> dict[str, str]:
    """The chosen configurations in words."""
    return {
        tuner.base_fn.__name__: str(tuner.configs[chosen[tuner.base_fn.__name__]])
        for tuner in _autotuners(kernel)
        if tuner.base_fn.__name__ in chosen
    }


def _draw(case: Case) -> int:
    return zlib.crc32(case.id.encode())


def _autotuners(kernel: Any) -> Iterator[Any]:
    """Autotuned device functions that the launcher's module knows by name."""
    for value in list(getattr(kernel.launcher, "__globals__", {}).values()):
        if not type(value).__module__.startswith("triton") or not interpreter.configs(value):
            continue
        while not hasattr(value, "configs"):
            value = value.fn
        yield value
