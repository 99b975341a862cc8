"""The tile shapes that matmul is tuned over, and the order in which programs take them."""

from __future__ import annotations

import triton

GROUP_M = 8
"""Row tiles that are finished together before the next column tile, so that their operands stay in L2."""

INPUT_PRECISION = "tf32"
"""How float32 operands enter the tensor cores: rounded to 10 mantissa bits."""


def _tile(m: int, n: int, k: int, *, stages: int, warps: int) -> triton.Config:
    """A configuration: m x n of the output per program, k at a time, ``stages`` steps in flight."""
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_stages=stages, num_warps=warps)


CONFIGS = [
    # Large problems: 96 KiB of shared memory in a half type, so also on sm_86 and sm_120, but not on gfx942.
    _tile(128, 256, 32, stages=4, warps=8),
    # The same with half the steps along K, each as wide as the 128-byte swizzle of wgmma.
    _tile(128, 128, 64, stages=3, warps=8),
    # Half types on gfx942, float32 on sm_80, and the largest tile for operands that are not aligned.
    _tile(128, 128, 32, stages=3, warps=8),
    # Few output tiles, or float32 on gfx942: at most 48 KiB, so that one configuration fits everywhere.
    _tile(64, 128, 32, stages=2, warps=8),
    # A handful of rows: decoding.
    _tile(16, 64, 64, stages=4, warps=4),
]

UNALIGNED_ELEMENTS = 8192
"""Most operand elements per step of K where they cannot be copied 16 bytes at a time.

Such operands pass through registers one element after the other, and larger tiles spill.
"""
