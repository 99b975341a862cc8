"""References of the matrix products."""

from __future__ import annotations

import torch


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a @ b`` for a [M, K] and b [K, N]."""
    return torch.matmul(a, b)
