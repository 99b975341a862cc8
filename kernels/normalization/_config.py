"""Tile sizes of the normalizations."""

from __future__ import annotations

MAX_COLUMNS = 16384
"""Widest row that a program keeps in registers, and so the widest that the kernels here support."""

PACKED_ELEMENTS = 1024
"""Rows narrower than this share a program until its tile has this many elements."""

ELEMENTS_PER_WARP = 512
"""Tile elements that one warp handles: 16 per lane on a 32-lane warp."""

MAX_WARPS = 16
"""Upper limit on the warps of a program; 16 warps of 64 lanes are the 1,024 threads that gfx942 allows."""
