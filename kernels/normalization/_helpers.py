"""Device functions that the normalizations share."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _row_mean_square(x, n_cols):
    """Mean of the squares along axis 1 of x [rows, lanes], in float32.

    n_cols is the number of true columns; lanes beyond it must hold zero, the identity of the sum.
    """
    x = x.to(tl.float32)
    return tl.sum(x * x, axis=1) / n_cols
