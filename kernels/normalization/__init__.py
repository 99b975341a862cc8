"""Kernels that rescale rows by a statistic of the row."""
