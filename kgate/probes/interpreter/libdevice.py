"""CPU implementations of the device math library (libdevice, ocml), found by symbol name.

Functions take and give NumPy arrays. float32 functions are computed in float64 and rounded once, so results do not
depend on the CPU's vector units; directed roundings (``_rz``, ``_rd``, ``_ru``) are exact for one operation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = Any
Function = Callable[..., Array]


def wide(function: Function) -> Function:
    """Make a float64 function serve every float type: float32 and float16 are widened, and rounded once."""

    def call(*args: Array) -> Array:
        dtype = np.asarray(args[0]).dtype
        if dtype == np.float64:
            return np.asarray(function(*args))
        return np.asarray(function(*[np.asarray(a, dtype=np.float64) for a in args])).astype(dtype)

    return call


def _elementwise(function: Callable[[float], float]) -> Function:
    def safe(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(safe, otypes=[np.float64])


def _torch(name: str) -> Function:
    def call(*args: Array) -> Array:
        import torch

        function: Any = torch
        for part in name.split("."):
            function = getattr(function, part)
        with torch._C.DisableTorchFunction():
            return function(*[torch.from_numpy(np.array(a)) for a in args]).numpy()

    return call


erf: Function = wide(_torch("erf"))
"""Error function of float arrays."""


def multiply_high(left: Array, right: Array, *, signed: bool) -> Array:
    """Return the upper half of the integer product, as an array of the operands' width."""
    width = 8 * left.dtype.itemsize
    kind = np.dtype(f"{'int' if signed else 'uint'}{width}")
    left, right = np.broadcast_arrays(left.view(kind), right.view(kind))
    if width <= 32:
        double = np.dtype(f"{'int' if signed else 'uint'}{2 * width}")
        return ((left.astype(double) * right.astype(double)) >> width).astype(kind)
    products = [(int(a) * int(b)) >> width for a, b in zip(left.ravel(), right.ravel(), strict=True)]
    return np.array(products, dtype=kind).reshape(left.shape)


def _bit_count(a: Array) -> Array:
    unsigned = a.view(np.dtype(f"uint{8 * a.dtype.itemsize}"))
    bits = np.unpackbits(np.ascontiguousarray(unsigned).view(np.uint8).reshape(*a.shape, a.dtype.itemsize), axis=-1)
    return bits.sum(axis=-1).astype(np.int32)


def _bit_strings(a: Array, function: Callable[[int, int], int], dtype: Any = np.int32) -> Array:
    width = 8 * a.dtype.itemsize
    unsigned = np.asarray(a).view(np.dtype(f"uint{width}"))
    values = [function(int(v), width) for v in unsigned.ravel()]
    return np.array(values, dtype=np.dtype(f"uint{width}")).view(a.dtype).reshape(a.shape).astype(dtype)


def _clz(a: Array) -> Array:
    return _bit_strings(a, lambda v, width: width - v.bit_length())


def _ffs(a: Array) -> Array:
    return _bit_strings(a, lambda v, width: (v & -v).bit_length())


def _brev(a: Array) -> Array:
    return _bit_strings(a, lambda v, width: int(f"{v:0{width}b}"[::-1], 2), a.dtype)


def _byte_perm(a: Array, b: Array, selector: Array) -> Array:
    pool = a.view(np.uint32).astype(np.uint64) | (b.view(np.uint32).astype(np.uint64) << np.uint64(32))
    out = np.zeros(pool.shape, dtype=np.uint64)
    for byte in range(4):
        pick = (selector.view(np.uint32).astype(np.uint64) >> np.uint64(4 * byte)) & np.uint64(7)
        out |= ((pool >> (pick * np.uint64(8))) & np.uint64(0xFF)) << np.uint64(8 * byte)
    return out.astype(np.uint32).view(np.int32)


def _round_away(a: Array) -> Array:
    return np.copysign(np.floor(np.abs(a) + 0.5), a)


def _sum_of_squares(*args: Array) -> Array:
    return np.sqrt(sum(a * a for a in args))


def _power(a: Array, b: Array) -> Array:
    return np.power(a, np.asarray(b, dtype=np.float64))


def _ilogb(a: Array) -> Array:
    exponent = np.frexp(np.asarray(a, dtype=np.float64))[1] - 1
    exponent = np.where(a == 0, np.iinfo(np.int32).min, exponent)
    return np.where(np.isfinite(a), exponent, np.iinfo(np.int32).max).astype(np.int32)


def _logb(a: Array) -> Array:
    return np.where(a == 0, -np.inf, np.where(np.isinf(a), np.inf, _ilogb(a).astype(np.float64)))


def _normcdfinv(a: Array) -> Array:
    return math.sqrt(2.0) * _torch("erfinv")(2.0 * a - 1.0)


_WIDE: dict[str, Function] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh,
    "cospi": lambda a: np.cos(np.pi * np.fmod(a, 2.0)), "cyl_bessel_i0": _torch("special.i0"),
    "cyl_bessel_i1": _torch("special.i1"), "i0": _torch("special.i0"), "i1": _torch("special.i1"),
    "erf": _torch("erf"), "erfc": _torch("erfc"), "erfcinv": lambda a: _torch("erfinv")(1.0 - a),
    "erfcx": _torch("special.erfcx"), "erfinv": _torch("erfinv"), "exp": np.exp, "exp10": lambda a: np.power(10.0, a),
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.abs, "fdim": lambda a, b: np.maximum(a - b, 0.0),
    "floor": np.floor, "fma": lambda a, b, c: a * b + c, "fmod": np.fmod, "hypot": np.hypot,
    "j0": _torch("special.bessel_j0"), "j1": _torch("special.bessel_j1"), "lgamma": _elementwise(math.lgamma),
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "logb": _logb, "nearbyint": np.rint,
    "norm3d": _sum_of_squares, "norm4d": _sum_of_squares,
    "normcdf": lambda a: 0.5 * _torch("erfc")(-a / math.sqrt(2.0)), "normcdfinv": _normcdfinv, "pow": _power,
    "powi": _power, "pown": _power, "rcbrt": lambda a: 1.0 / np.cbrt(a),
    "rhypot": lambda a, b: 1.0 / np.hypot(a, b), "rint": np.rint, "rnorm3d": lambda *a: 1.0 / _sum_of_squares(*a),
    "rnorm4d": lambda *a: 1.0 / _sum_of_squares(*a), "round": _round_away, "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "saturate": lambda a: np.clip(np.nan_to_num(a, nan=0.0), 0.0, 1.0), "sin": np.sin, "sinh": np.sinh,
    "sinpi": lambda a: np.sin(np.pi * np.fmod(a, 2.0)), "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "tgamma": _elementwise(math.gamma), "trunc": np.trunc, "y0": _torch("special.bessel_y0"),
    "y1": _torch("special.bessel_y1"), "fdividef": np.divide,
}  # fmt: skip
_WIDE["remainder"] = np.vectorize(
    lambda a, b: math.remainder(a, b) if math.isfinite(a) and b != 0 and not math.isnan(b) else math.nan,
    otypes=[np.float64],
)

_DIRECT: dict[str, Function] = {
    "abs": np.abs, "llabs": np.abs, "brev": _brev, "brevll": _brev, "byte_perm": _byte_perm, "clz": _clz,
    "clzll": _clz, "copysign": np.copysign, "double_as_longlong": lambda a: a.view(np.int64), "ffs": _ffs,
    "ffsll": _ffs, "finite": np.isfinite, "isfinite": np.isfinite, "isfinited": np.isfinite,
    "float_as_int": lambda a: a.view(np.int32), "float_as_uint": lambda a: a.view(np.uint32),
    "hadd": lambda a, b: ((a.astype(np.int64) + b) >> 1).astype(a.dtype),
    "uhadd": lambda a, b: ((a.astype(np.int64) + b) >> 1).astype(a.dtype),
    "rhadd": lambda a, b: ((a.astype(np.int64) + b + 1) >> 1).astype(a.dtype),
    "urhadd": lambda a, b: ((a.astype(np.int64) + b + 1) >> 1).astype(a.dtype),
    "ilogb": _ilogb, "int_as_float": lambda a: a.view(np.float32), "uint_as_float": lambda a: a.view(np.float32),
    "isinf": np.isinf, "isinfd": np.isinf, "isnan": np.isnan, "isnand": np.isnan,
    "ldexp": lambda a, n: np.ldexp(a, n), "scalbn": lambda a, n: np.ldexp(a, n),
    "llrint": lambda a: np.rint(a).astype(np.int64), "llround": lambda a: _round_away(a).astype(np.int64),
    "longlong_as_double": lambda a: a.view(np.float64),
    "mul24": lambda a, b: ((a << 8 >> 8) * (b << 8 >> 8)), "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul64hi": lambda a, b: multiply_high(a, b, signed=True), "mulhi": lambda a, b: multiply_high(a, b, signed=True),
    "umul64hi": lambda a, b: multiply_high(a, b, signed=False),
    "umulhi": lambda a, b: multiply_high(a, b, signed=False), "nextafter": np.nextafter, "popc": _bit_count,
    "popcll": _bit_count, "sad": lambda a, b, c: np.abs(a.astype(np.int64) - b) + c, "signbit": np.signbit,
    "signbitd": np.signbit, "usad": lambda a, b, c: np.abs(a.astype(np.int64) - b) + c,
    "hiloint2double": lambda hi, lo: (
        (hi.astype(np.int64) << 32) | lo.view(np.uint32).astype(np.int64)
    ).view(np.float64),
    "double2loint": lambda a: (a.view(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32),
    "double2hiint": lambda a: (a.view(np.int64) >> 32).astype(np.int32),
}  # fmt: skip

_ARITHMETIC: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt, "rsqrt": lambda a: 1.0 / np.sqrt(a), "ma": lambda a, b, c: a * b + c,
}  # fmt: skip
_TO_INT = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_SHORT = {
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


def _directed(function: Function, mode: str) -> Function:
    """Round one float32 operation in a direction; float64 operations are rounded to nearest."""

    def call(*args: Array) -> Array:
        dtype = np.asarray(args[0]).dtype
        exact = function(*[np.asarray(a, dtype=np.float64) for a in args])
        return exact if dtype == np.float64 else _narrow(exact, mode)

    return call


def _narrow(exact: Array, mode: str) -> Array:
    nearest = np.asarray(exact).astype(np.float32)
    back = nearest.astype(np.float64)
    down = np.nextafter(nearest, np.float32(-np.inf))
    up = np.nextafter(nearest, np.float32(np.inf))
    if mode == "rd":
        return np.where(back > exact, down, nearest)
    if mode == "ru":
        return np.where(back < exact, up, nearest)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(exact), np.where(exact > 0, down, up), nearest)
    return nearest


def _conversion(name: str) -> Function | None:
    found = re.fullmatch(r"(int|uint|ll|ull|float|double)2(int|uint|ll|ull|float|double)_(rn|rz|rd|ru)", name)
    if found is None:
        return None
    target, mode = np.dtype(_SHORT[found[2]]), found[3]
    if target.kind == "f":
        if target == np.float32:
            return lambda a: _narrow(np.asarray(a, dtype=np.float64), mode)
        return lambda a: np.asarray(a).astype(np.float64)

    def convert(a: Array) -> Array:
        from kgate.probes.interpreter.floats import saturating_int

        return saturating_int(_TO_INT[mode](a), target)

    return convert


@cache
def find(symbol: str) -> Function | None:
    """Return the implementation of a device library symbol (``__nv_tanhf``, ``__ocml_tanh_f32``), or None."""
    name = re.sub(r"^__(nv|ocml|ocml_native)_", "", symbol)
    name = re.sub(r"_f(16|32|64)$", "", name).removeprefix("fast_")
    for candidate in (name, name.removesuffix("f")):
        if candidate in _DIRECT:
            return _DIRECT[candidate]
        if candidate in _WIDE:
            return wide(_WIDE[candidate]) if candidate not in ("powi", "pown", "pow") else _powers
    rounded = re.fullmatch(r"[fd]?(add|sub|mul|div|rcp|sqrt|rsqrt|ma)f?_(rn|rz|rd|ru)", name)
    if rounded is not None:
        return _directed(_ARITHMETIC[rounded[1]], rounded[2])
    return _conversion(name)


def _powers(base: Array, exponent: Array) -> Array:
    return _power(np.asarray(base, dtype=np.float64), exponent).astype(np.asarray(base).dtype)
