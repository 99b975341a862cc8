"""What the launchers share on the host: the device guard and the tile of a row kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def device_guard(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Make the tensor's device the current one for a launch.

    Triton launches on the current device, which need not be the one that holds the tensors. CPU tensors (the
    interpreter) and builds of torch without CUDA (compiling under fake tensors) have no device to change to.
    """
    if torch.cuda.is_available():
        return torch.cuda.device_of(tensor)
    return nullcontext()


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below n; 1 for n <= 1."""
    return 1 << max(n - 1, 0).bit_length()


def warps_for(elements: int, *, per_warp: int, most: int) -> int:
    """Warps for a tile: one for each ``per_warp`` elements, a power of two, between 1 and ``most``."""
    return min(most, max(1, next_power_of_2(elements // per_warp)))


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that an eager fallback computes in: float32 for the half types, otherwise the input's own."""
    return torch.promote_types(dtype, torch.float32)
