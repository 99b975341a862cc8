"""Tile sizes of the elementwise kernels."""

from __future__ import annotations

TILE_ELEMENTS = 2048
"""Elements of one program's tile."""

ELEMENTS_PER_WARP = 512
"""Tile elements that one warp handles: 16 per lane on a 32-lane warp, 8 (16 bytes) on a 64-lane one."""

MAX_WARPS = 8
"""Upper limit on the warps of a program."""
