"""References of the elementwise kernels."""

from __future__ import annotations

import torch


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up`` with ``silu(g) = g / (1 + exp(-g))``; both of shape [M, N]."""
    return gate * torch.sigmoid(gate) * up
