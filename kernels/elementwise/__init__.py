"""Kernels that read each element once and write each element once."""
