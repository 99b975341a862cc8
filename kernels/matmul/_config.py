"""The tile shapes that matmul is tuned over, and the order in which programs take them."""

from __future__ import annotations

import triton

GROUP_M = 8
"""Row tiles that are finished together before the next group, so that their operands stay in L2."""

INPUT_PRECISION = "tf32"
"""How float32 operands enter the tensor cores: rounded to 10 bits of mantissa."""

ALIGNED_CONFIGS = [
    # Large problems: 96 KiB of shared memory in a half type, so also on sm_86 and sm_120, but not on gfx942.
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 32}, num_stages=4, num_warps=8),
    # The same memory with half the steps along K, each as wide as the 128-byte swizzle of wgmma.
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}, num_stages=3, num_warps=8),
]
"""Tiles for operands that are copied 16 bytes at a time.

Others pass through registers, one element after the other, and spill at these sizes.
"""

CONFIGS = [
    *ALIGNED_CONFIGS,
    # Half types on gfx942, float32 on sm_80, and the largest tile for operands that are not aligned.
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}, num_stages=3, num_warps=8),
    # Few output tiles, or float32 on gfx942: at most 48 KiB, so that one configuration fits everywhere.
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32}, num_stages=2, num_warps=8),
    # A handful of rows: decoding.
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_stages=4, num_warps=4),
]
"""All tiles, from the largest to the smallest."""
