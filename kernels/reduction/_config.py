"""Tile sizes and the one-pass threshold of the row reductions."""

from __future__ import annotations

ONE_PASS_COLUMNS = 16384
"""Widest row that is kept whole in registers: 32 fp32 values a lane at MAX_WARPS on 32-lane warps."""

LOOP_COLUMNS = 8192
"""Columns of one tile where the row is walked in several."""

PACKED_ELEMENTS = 1024
"""Rows narrower than this share a program until its tile has this many elements."""

ELEMENTS_PER_WARP = 512
"""Tile elements that one warp handles: 16 per lane on a 32-lane warp."""

MAX_WARPS = 16
"""Upper limit on the warps of a program; 16 warps of 64 lanes are the 1,024 threads that gfx942 allows."""
