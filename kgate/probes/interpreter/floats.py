"""Bit-exact bfloat16, float8 and tf32 on NumPy arrays, which know none of the three."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = Any
"""A ``numpy.ndarray``; what it holds is said where it matters."""

_BF16_NAN = np.uint16(0x7FC0)
_FP8_TORCH = {
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}


def bf16_to_f32(bits: Array) -> Array:
    """Widen bfloat16 bit patterns (uint16) to float32; exact, subnormals and NaN payloads included."""
    return np.left_shift(np.asarray(bits, dtype=np.uint32), np.uint32(16)).view(np.float32)


def f32_to_bf16(values: Array) -> Array:
    """Round float32 to bfloat16 bit patterns (uint16): to nearest even, overflow to infinity, NaN kept."""
    values = np.asarray(values, dtype=np.float32, order="C")
    bits = values.view(np.uint32)
    bias = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits + bias) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    return np.where(nan, _BF16_NAN, rounded) if nan.any() else rounded


def truncate_to_bf16(values: Array) -> Array:
    """Round float32 to bfloat16 bit patterns towards zero (``fp_downcast_rounding="rtz"``)."""
    values = np.asarray(values, dtype=np.float32, order="C")
    truncated = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), _BF16_NAN, truncated)


def truncate_to_f16(values: Array) -> Array:
    """Round float32 or float64 to float16 towards zero."""
    nearest = np.asarray(values).astype(np.float16)
    too_big = np.abs(nearest.astype(np.float64)) > np.abs(np.asarray(values, dtype=np.float64))
    return np.where(too_big, np.nextafter(nearest, np.float16(0)), nearest)


def round_tf32(values: Array) -> Array:
    """Round float32 to tf32 (10 bits of mantissa), to nearest even; infinities and NaN are kept."""
    bits = np.asarray(values, dtype=np.float32, order="C").view(np.uint32)
    bias = np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    rounded = (bits + bias) & np.uint32(0xFFFFE000)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.where(special, bits, rounded).view(np.float32)


@cache
def _fp8_table(name: str) -> Array:
    import torch

    with torch._C.DisableTorchFunction():
        patterns = torch.arange(256, dtype=torch.uint8)
        return patterns.view(getattr(torch, _FP8_TORCH[name])).to(torch.float32).numpy().copy()


def fp8_known(name: str) -> bool:
    """Tell whether the float8 format with this Triton name is modelled."""
    return name in _FP8_TORCH


def fp8_to_f32(bits: Array, name: str) -> Array:
    """Widen float8 bit patterns (uint8) of the format with this Triton name to float32."""
    return _fp8_table(name)[np.asarray(bits).view(np.uint8)]


def f32_to_fp8(values: Array, name: str) -> Array:
    """Round float32 to float8 bit patterns (uint8), saturating as the hardware conversions do."""
    import torch

    dtype = getattr(torch, _FP8_TORCH[name])
    limit = float(torch.finfo(dtype).max)
    values = np.asarray(values, dtype=np.float32, order="C")
    clipped = np.clip(values, -limit, limit)
    with torch._C.DisableTorchFunction():
        encoded = torch.from_numpy(np.array(clipped, dtype=np.float32).reshape(-1)).to(dtype).view(torch.uint8).numpy()
    return encoded.reshape(values.shape)


def saturating_int(values: Array, dtype: Any) -> Array:
    """Convert floats to integers as the hardware does: towards zero, saturating, NaN to zero."""
    info = np.iinfo(dtype)
    wide = np.trunc(np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((wide >= float(info.min)) & (wide < float(info.max)), wide, 0.0).astype(dtype)
    inside = np.where(wide >= float(info.max), info.max, inside)
    return np.where(wide < float(info.min), info.min, inside).astype(dtype)
