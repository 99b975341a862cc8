"""Random input values that are the same on every machine: integer hashing and exact arithmetic, no libm."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SIXTEEN_BITS = np.uint64(0xFFFF)
_WORDS = 3

VALUES: dict[str, str] = {
    "normal": "about N(0, 1)",
    "mean300": "about N(300, 1)",
    "low": "about N(-300, 1)",
    "equal": "all elements of a row equal",
    "outlier": "about N(0, 1), and one element of each row is 10,000",
    "zeros": "exact zeros",
    "negative": "about -|N(0, 1)|",
}


def words(count: int, seed: int, name: str) -> Any:
    """``count`` 64-bit words (numpy uint64) that depend on ``seed`` and ``name`` alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    key = np.frombuffer(digest[:8], dtype="<u8")[0]
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN + key
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def normal(count: int, seed: int, name: str) -> Any:
    """``count`` float64 values of mean 0 and variance 1: sums of twelve uniforms, each value exact in float32."""
    raw = words(count * _WORDS, seed, name).reshape(_WORDS, count)
    total: Any = np.zeros(count, dtype=np.int64)
    for shift in (0, 16, 32, 48):
        total += ((raw >> np.uint64(shift)) & _SIXTEEN_BITS).sum(axis=0).astype(np.int64)
    return (2 * total - 12 * 65535).astype(np.float64) / 2.0**17


def integers(count: int, seed: int, name: str, low: int, high: int) -> Any:
    """``count`` int64 values from ``low`` to ``high``, both included; ``high`` must not be below ``low``."""
    if high < low:
        raise ValueError(f"input {name!r} has no value to take: its range is {low} to {high}")
    raw = words(count, seed, name) >> np.uint64(1)
    span = np.uint64(high - low + 1)
    return (raw % span).astype(np.int64) + low


def floats(shape: Sequence[int], values: str, seed: int, name: str) -> Any:
    """A float64 array of ``shape`` with the distribution ``values``, one of ``VALUES``."""
    if values not in VALUES:
        raise ValueError(f"unknown values {values!r}; known are {', '.join(VALUES)}")
    count = int(np.prod(shape, dtype=np.int64))
    return np.asarray(_shaped(normal(count, seed, name).reshape(shape), values))  # arithmetic makes a scalar of rank 0


def _shaped(drawn: Any, values: str) -> Any:
    """Standard normal values made into another distribution."""
    if values == "mean300":
        return drawn + 300.0
    if values == "low":
        return drawn - 300.0
    if values == "equal" and drawn.ndim:
        return np.broadcast_to(drawn[..., :1], drawn.shape).copy()
    if values == "outlier" and drawn.ndim and drawn.shape[-1]:
        drawn[..., drawn.shape[-1] // 2] = 10000.0
    elif values == "zeros":
        drawn[...] = 0.0
    elif values == "negative":
        drawn = -np.abs(drawn)
    return drawn
