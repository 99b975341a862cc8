"""Kernels that multiply matrices."""
