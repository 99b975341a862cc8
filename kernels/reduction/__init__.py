"""Kernels whose rows share one reduction."""
