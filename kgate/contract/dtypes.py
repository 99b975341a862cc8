"""The dtypes that a declaration can name, with their width in bytes."""

from __future__ import annotations

DTYPES: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
}
"""Dtype name -> bytes of one element. The names are torch's, without `torch.`."""


def is_floating(name: str) -> bool:
    """Whether values of this dtype can have a gradient (floating point or complex)."""
    return name.startswith(("float", "bfloat", "complex"))


def dtype_name(dtype: object) -> str:
    """Name of a dtype object of torch or numpy (`torch.bfloat16` -> `bfloat16`); strings stay as they are."""
    text = str(dtype)
    return text[6:] if text.startswith("torch.") else text
