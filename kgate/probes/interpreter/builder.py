"""A builder for Triton's interpreter whose arithmetic rounds as the hardware's and whose loads are checked.

Values live in NumPy arrays of the type's bits: bfloat16 as uint16, float8 as uint8. Every float operation widens
its operands to float32 (or stays in float16, float32, float64), computes, and rounds once to the result's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter as upstream

from kgate.probes.interpreter import floats, libdevice
from kgate.probes.interpreter.errors import DeviceAssert, Unsupported
from kgate.probes.interpreter.memory import Space, poison_value

Handle = Any
"""An ``upstream.TensorHandle``: data (ndarray of bits), dtype (Triton scalar type), attr."""
Array = Any

_WRAPPED = "kgate.wrapped"
"""Handle attribute: (bool ndarray, device line), the lanes whose 32-bit integer value wrapped around."""

make = upstream.TensorHandle


_NUMPY_DTYPES: dict[str, Any] = {}


def numpy_dtype(ty: Any) -> Any:
    """Return the NumPy dtype of a Triton scalar, block or pointer type's bits."""
    scalar = ty.scalar
    if scalar.is_ptr():
        return _POINTER
    found = _NUMPY_DTYPES.get(scalar.name)
    if found is None:
        found = _NUMPY_DTYPES[scalar.name] = upstream._get_np_dtype(scalar)
    return found


_POINTER = np.dtype(np.uint64)


def decode(handle: Handle) -> Array:
    """Return a handle's values as a NumPy float or integer array; bfloat16 and float8 as float32."""
    scalar = handle.dtype.scalar
    if scalar is tl.bfloat16 or scalar == tl.bfloat16:
        return floats.bf16_to_f32(handle.data)
    if scalar.is_fp8():
        if floats.fp8_known(scalar.name):
            return floats.fp8_to_f32(handle.data, scalar.name)
        return upstream._convert_float(handle.data, scalar, tl.float16, None).view(np.float16).astype(np.float32)
    return handle.data


def encode(values: Array, scalar: Any) -> Array:
    """Round float values to the bits of a Triton float type, to nearest even."""
    if scalar == tl.bfloat16:
        return floats.f32_to_bf16(values)
    if scalar.is_fp8():
        if floats.fp8_known(scalar.name):
            return floats.f32_to_fp8(values, scalar.name)
        rounding = ir.ROUNDING_MODE.RTNE
        return upstream._convert_float(np.asarray(values, np.float32), tl.float32, scalar, rounding).astype(np.uint8)
    return np.asarray(values).astype(numpy_dtype(scalar), copy=False)


def _float_binary(op: Callable[..., Array]) -> Callable[..., Handle]:
    def method(self: Any, lhs: Handle, rhs: Handle) -> Handle:
        scalar = lhs.dtype.scalar
        return make(encode(op(decode(lhs), decode(rhs)), scalar), scalar)

    return method


def _float_unary(op: Callable[..., Array]) -> Callable[..., Handle]:
    def method(self: Any, arg: Handle) -> Handle:
        scalar = arg.dtype.scalar
        return make(encode(op(decode(arg)), scalar), scalar)

    return method


def _float_compare(op: Callable[..., Array]) -> Callable[..., Handle]:
    def method(self: Any, lhs: Handle, rhs: Handle) -> Handle:
        return make(op(decode(lhs), decode(rhs)), tl.int1)

    return method


def _int_compare(op: Callable[..., Array]) -> Callable[..., Handle]:
    def method(self: Any, lhs: Handle, rhs: Handle) -> Handle:
        return make(op(lhs.data, rhs.data), tl.int1)

    return method


def _int_binary(op: Callable[..., Array], wraps: bool = False) -> Callable[..., Handle]:
    def method(self: Any, lhs: Handle, rhs: Handle) -> Handle:
        return self.integer(lhs, rhs, op, wraps)

    return method


def _ordered_not_equal(a: Array, b: Array) -> Array:
    return (a < b) | (a > b)


def _unordered(op: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: ~op(a, b)


def _rsqrt(a: Array) -> Array:
    return (1 / np.sqrt(a)).astype(a.dtype)


_FLOAT_BINARY = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "precise_divf": np.divide,
    "approx_divf": np.divide,
    "frem": np.fmod,
    "minimumf": np.minimum,
    "maximumf": np.maximum,
    "minnumf": np.fmin,
    "maxnumf": np.fmax,
}
_FLOAT_COMPARE = {
    "OLT": np.less,
    "OGT": np.greater,
    "OLE": np.less_equal,
    "OGE": np.greater_equal,
    "OEQ": np.equal,
    "ONE": _ordered_not_equal,
    "ULT": _unordered(np.greater_equal),
    "UGT": _unordered(np.less_equal),
    "ULE": _unordered(np.greater),
    "UGE": _unordered(np.less),
    "UEQ": _unordered(_ordered_not_equal),
    "UNE": np.not_equal,
}
_INT_COMPARE = {"LT": np.less, "GT": np.greater, "LE": np.less_equal, "GE": np.greater_equal}
_FLOAT_UNARY = {
    "exp": libdevice.wide(np.exp),
    "exp2": libdevice.wide(np.exp2),
    "log": libdevice.wide(np.log),
    "log2": libdevice.wide(np.log2),
    "sin": libdevice.wide(np.sin),
    "cos": libdevice.wide(np.cos),
    "sqrt": np.sqrt,
    "precise_sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "erf": libdevice.erf,
    "fneg": np.negative,
}
_INT_BINARY = {
    "add": (np.add, True),
    "sub": (np.subtract, True),
    "mul": (np.multiply, True),
    "srem": (np.fmod, False),
    "urem": (np.fmod, False),
    "minsi": (np.minimum, False),
    "minui": (np.minimum, False),
    "maxsi": (np.maximum, False),
    "maxui": (np.maximum, False),
    "and": (np.bitwise_and, False),
    "or": (np.bitwise_or, False),
    "xor": (np.bitwise_xor, False),
    "shl": (np.left_shift, False),
}


class Builder(upstream.InterpreterBuilder):  # type: ignore[misc]
    """Does what Triton's semantic layer asks for, on NumPy arrays, in the memory of ``space``."""

    space: Space

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            raise Unsupported(f"the interpreter has no {name.removeprefix('create_')}", self.space.line())
        raise AttributeError(name)

    # constants

    def get_bf16(self, value: float) -> Handle:
        return make(floats.f32_to_bf16(np.array([value], dtype=np.float32)), tl.bfloat16)

    def get_all_ones_value(self, type: Any) -> Handle:
        dtype = numpy_dtype(type)
        value = np.True_ if dtype.kind == "b" else (np.iinfo(dtype).max if dtype.kind == "u" else -1)
        return make(np.full(1, value, dtype=dtype), type.scalar)

    def get_cache_policy(self, *ignored: Any) -> None:
        return None

    # integers

    def integer(self, lhs: Handle, rhs: Handle, op: Callable[..., Array], wraps: bool = False) -> Handle:
        """Apply an integer operation; results have the left operand's type and wrap around."""
        scalar = lhs.dtype.scalar
        left, right = lhs.data, rhs.data
        if left.dtype == np.bool_ and right.dtype == np.bool_:
            data = (op(left.astype(np.uint8), right.astype(np.uint8)) & 1).astype(np.bool_)
            return make(data, scalar)
        data = np.asarray(op(left, right)).astype(left.dtype, copy=False)
        result = make(data, scalar)
        if self.space.overflow:
            self._track(result, lhs, rhs, op if wraps else None)
        return result

    def _track(self, result: Handle, lhs: Handle, rhs: Handle, op: Callable[..., Array] | None) -> None:
        line = None
        lanes: Array = None
        for operand in (lhs, rhs):
            if _WRAPPED in operand.attr:
                mask, line = operand.attr[_WRAPPED]
                lanes = mask if lanes is None else lanes | mask
        if op is not None and result.data.dtype == np.int32:
            exact = op(lhs.data.astype(np.int64), rhs.data.astype(np.int64))
            wrong = exact != result.data
            if wrong.any():
                line = line or self.space.line()
                lanes = wrong if lanes is None else lanes | wrong
        if lanes is not None:
            result.attr[_WRAPPED] = (np.broadcast_to(lanes, result.data.shape), line)

    def create_idiv(self, lhs: Handle, rhs: Handle) -> Handle:
        return self.integer(lhs, rhs, lambda a, b: (a - np.fmod(a, b)) // b)

    create_sdiv = create_udiv = create_idiv

    def create_ashr(self, lhs: Handle, rhs: Handle) -> Handle:
        signed = np.dtype(upstream._get_signed_np_dtype(lhs.data.dtype))
        data = np.right_shift(lhs.data.view(signed), rhs.data.view(signed)).view(lhs.data.dtype)
        return make(data, lhs.dtype.scalar)

    def create_lshr(self, lhs: Handle, rhs: Handle) -> Handle:
        if lhs.data.dtype == np.bool_:
            return self.integer(lhs, rhs, np.right_shift)
        unsigned = np.dtype(f"uint{8 * lhs.data.dtype.itemsize}")
        data = np.right_shift(lhs.data.view(unsigned), rhs.data.view(unsigned)).view(lhs.data.dtype)
        return make(data, lhs.dtype.scalar)

    def create_umulhi(self, lhs: Handle, rhs: Handle) -> Handle:
        dtype = lhs.data.dtype
        data = libdevice.multiply_high(lhs.data, rhs.data, signed=False)
        return make(data.view(dtype), lhs.dtype.scalar)

    def create_iabs(self, arg: Handle) -> Handle:
        return make(np.abs(arg.data), arg.dtype.scalar)

    # casts

    def cast_impl(self, src: Handle, dst_type: Any) -> Handle:
        source, target = src.dtype.scalar, dst_type.scalar
        dtype = numpy_dtype(target)
        if target.is_floating():
            values = decode(src)
            if not source.is_floating() and not (target.is_fp64() or target.is_fp32()):
                values = values.astype(np.float32)
            data = encode(values, target)
        elif source.is_floating():
            data = floats.saturating_int(decode(src), dtype)
        else:
            data = src.data.astype(dtype)
        return self._carry(src, make(data, target), lambda mask: mask)

    create_si_to_fp = create_ui_to_fp = create_fp_to_si = create_fp_to_ui = cast_impl
    create_fp_ext = create_fp_trunc = cast_impl

    def create_int_cast(self, src: Handle, dst_type: Any, is_signed: bool) -> Handle:
        return self.cast_impl(src, dst_type)

    def create_fp_to_fp(self, src: Handle, dst_type: Any, rounding_mode: Any) -> Handle:
        target = dst_type.scalar
        if rounding_mode == ir.ROUNDING_MODE.RTZ and target.is_bf16():
            return make(floats.truncate_to_bf16(decode(src)), target)
        if rounding_mode == ir.ROUNDING_MODE.RTZ and target.is_fp16():
            return make(floats.truncate_to_f16(decode(src)), target)
        return self.cast_impl(src, dst_type)

    def create_bitcast(self, src: Handle, dst_type: Any) -> Handle:
        data = np.ascontiguousarray(src.data).view(numpy_dtype(dst_type))
        return self._carry(src, make(data.reshape(src.data.shape), dst_type.scalar), lambda mask: mask)

    create_int_to_ptr = create_ptr_to_int = create_bitcast

    # floats

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        scalar = z.dtype.scalar
        if not scalar.is_floating():
            return self.integer(self.integer(x, y, np.multiply, True), z, np.add, True)
        if scalar.is_fp64():
            return make(x.data * y.data + z.data, scalar)
        exact = decode(x).astype(np.float64) * decode(y).astype(np.float64) + decode(z).astype(np.float64)
        return make(encode(exact.astype(np.float32) if not scalar.is_fp16() else exact, scalar), scalar)

    def create_fabs(self, arg: Handle) -> Handle:
        scalar = arg.dtype.scalar
        unsigned = np.dtype(f"uint{scalar.primitive_bitwidth}")
        mask = unsigned.type((1 << (scalar.primitive_bitwidth - 1)) - 1)
        return make((arg.data.view(unsigned) & mask).view(arg.data.dtype), scalar)

    def create_clampf(self, arg: Handle, lo: Handle, hi: Handle, propagate_nans: Any) -> Handle:
        scalar = arg.dtype.scalar
        values, low, high = decode(arg), decode(lo), decode(hi)
        if propagate_nans == ir.PROPAGATE_NAN.NONE:
            return make(encode(np.fmin(np.fmax(values, low), high), scalar), scalar)
        return make(encode(np.minimum(np.maximum(values, low), high), scalar), scalar)

    def create_select(self, cond: Handle, lhs: Handle, rhs: Handle) -> Handle:
        # Bits of one width may carry two types here (int32 and uint32); NumPy would widen them.
        other = rhs.data if rhs.data.dtype == lhs.data.dtype else rhs.data.view(lhs.data.dtype)
        result = make(np.where(cond.data, lhs.data, other), lhs.dtype.scalar)
        if _WRAPPED in lhs.attr or _WRAPPED in rhs.attr:
            nowhere: Array = np.zeros((1,), dtype=np.bool_)
            left, line = lhs.attr.get(_WRAPPED, (nowhere, None))
            right, second = rhs.attr.get(_WRAPPED, (nowhere, None))
            result.attr[_WRAPPED] = (np.where(cond.data, left, right), line or second)
        return result

    def create_dot(self, a: Handle, b: Handle, d: Handle, input_precision: Any, max_num_imprecise_acc: Any) -> Handle:
        """Multiply block matrices; products are summed in float64 and rounded once to the accumulator's type."""
        left, right = decode(a), decode(b)
        if a.dtype.scalar.is_fp32() and input_precision == ir.INPUT_PRECISION.TF32:
            left, right = floats.round_tf32(left), floats.round_tf32(right)
        product = np.matmul(left.astype(np.float64), right.astype(np.float64))
        scalar = d.dtype.scalar
        if not scalar.is_floating():
            return make(product.astype(d.data.dtype) + d.data, scalar)
        return make(encode(product + decode(d).astype(np.float64), scalar), scalar)

    def create_extern_elementwise(
        self, lib_name: str, lib_path: str, symbol: str, args: list[Handle], ret_type: Any, is_pure: bool
    ) -> Handle:
        function = libdevice.find(symbol)
        if function is None:
            raise Unsupported(f"the library function {symbol} has no CPU implementation", self.space.line())
        scalar = ret_type.scalar
        data = np.asarray(function(*[decode(arg) for arg in args]))
        if scalar.is_floating():
            return make(encode(data, scalar), scalar)
        return make(data.astype(numpy_dtype(scalar), copy=False), scalar)

    def create_inline_asm(self, text: str, constraints: str, values: Any, ty: Any, is_pure: bool, pack: int) -> Any:
        raise Unsupported("inline assembly cannot run in the interpreter", self.space.line())

    def create_histogram(self, data: Handle, bins: int, mask: Handle | None) -> Handle:
        values = data.data.reshape(-1)
        valid = (values >= 0) & (values < bins)
        if mask is not None:
            valid &= mask.data.reshape(-1)
        return make(np.bincount(values[valid].astype(np.int64), minlength=bins).astype(np.int32), tl.int32)

    # shapes

    def _carry(self, source: Handle, result: Handle, shape: Callable[[Array], Array]) -> Handle:
        if _WRAPPED in source.attr:
            mask, line = source.attr[_WRAPPED]
            result.attr[_WRAPPED] = (shape(mask), line)
        return result

    def _shaped(self, arg: Handle, shape: Callable[[Array], Array]) -> Handle:
        return self._carry(arg, make(shape(arg.data), arg.dtype.scalar), shape)

    def create_reshape(self, arg: Handle, shape: Any, allow_reorder: bool) -> Handle:
        return self._shaped(arg, lambda a: a.reshape(shape))

    def create_trans(self, arg: Handle, perm: Any) -> Handle:
        return self._shaped(arg, lambda a: np.asarray(np.transpose(a, perm), order="C"))

    def create_expand_dims(self, arg: Handle, axis: int) -> Handle:
        return self._shaped(arg, lambda a: np.expand_dims(a, axis))

    def create_broadcast(self, arg: Handle, shape: Any) -> Handle:
        return self._shaped(arg, lambda a: np.ascontiguousarray(np.broadcast_to(a, shape)))

    def create_splat(self, ret_ty: Any, arg: Handle) -> Handle:
        shape = ret_ty.shape
        return self._shaped(arg, lambda a: np.full(shape, a.reshape(-1)[0], dtype=a.dtype))

    def create_unsplat(self, arg: Handle) -> Handle:
        return self._shaped(arg, lambda a: a.reshape(-1)[:1].copy())

    # memory

    def create_addptr(self, ptr: Handle, offset: Handle) -> Handle:
        width = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        data = ptr.data + np.uint64(width) * offset.data.astype(np.uint64)
        result = make(data, ptr.dtype)
        if self.space.overflow:
            self._track(result, ptr, offset, None)
        return result

    def _element(self, ptrs: Handle) -> tuple[Any, str]:
        element = ptrs.get_element_ty()
        return numpy_dtype(element), element.name

    def _check_wrapped(self, ptrs: Handle, mask: Array | None) -> None:
        if _WRAPPED in ptrs.attr:
            lanes, line = ptrs.attr[_WRAPPED]
            self.space.overflowed(line, ptrs.data, lanes if mask is None else lanes & mask)

    def create_load(self, ptr: Handle, *policy: Any, **options: Any) -> Handle:
        return self.create_masked_load(ptr, None, None)

    def create_masked_load(self, ptrs: Handle, mask: Any, other: Handle | None, *policy: Any, **options: Any) -> Handle:
        lanes = _lanes(mask)
        self._check_wrapped(ptrs, lanes)
        dtype, name = self._element(ptrs)
        data = self.space.load(ptrs.data, lanes, None if other is None else other.data, dtype, name)
        return make(data, ptrs.get_element_ty())

    def create_store(self, ptr: Handle, val: Handle, *policy: Any) -> None:
        self.create_masked_store(ptr, val, None)

    def create_masked_store(self, ptrs: Handle, value: Handle, mask: Any, *policy: Any, **options: Any) -> None:
        lanes = _lanes(mask)
        self._check_wrapped(ptrs, lanes)
        self.space.store(ptrs.data, value.data, lanes, self._element(ptrs)[0])

    def create_tensor_pointer_load(self, ptr: Any, boundary_check: Any, padding_option: Any, *policy: Any) -> Handle:
        ptrs, mask = ptr.materialize_pointers(boundary_check)
        return self.create_masked_load(ptrs, mask, self._padding(ptrs, padding_option))

    def create_tensor_pointer_store(self, ptr: Any, value: Handle, boundary_check: Any, *policy: Any) -> None:
        ptrs, mask = ptr.materialize_pointers(boundary_check)
        self.create_masked_store(ptrs, value, mask)

    def create_descriptor_load(self, desc: Any, indices: list[Handle], *policy: Any) -> Handle:
        ptrs, mask = desc.materialize_pointers(indices)
        result = self.create_masked_load(ptrs, mask, self._padding(ptrs, desc.padding))
        if getattr(desc, "round_f32_to_tf32", False) and ptrs.get_element_ty() == tl.float32:
            result.data = floats.round_tf32(result.data)
        return result

    def create_descriptor_store(self, desc: Any, value: Handle, indices: list[Handle]) -> None:
        ptrs, mask = desc.materialize_pointers(indices)
        self.create_masked_store(ptrs, value, mask)

    def create_descriptor_reduce(self, kind: Any, desc: Any, value: Handle, indices: list[Handle]) -> None:
        ptrs, mask = desc.materialize_pointers(indices)
        name = kind.name
        self._rmw("FADD" if name == "ADD" and value.dtype.scalar.is_floating() else name, ptrs, value, _lanes(mask))

    def _padding(self, ptrs: Handle, option: Any) -> Handle | None:
        dtype, name = self._element(ptrs)
        if option is None:
            return None
        nan = option == ir.PADDING_OPTION.PAD_NAN
        value = poison_value(dtype, name) if nan else dtype.type(0)
        return make(np.full(ptrs.data.shape, value, dtype=dtype), ptrs.get_element_ty())

    # atomics

    def create_atomic_rmw(self, op: Any, ptr: Handle, val: Handle, mask: Handle, sem: Any, scope: Any) -> Handle:
        name = next(key for key, value in _RMW_NAMES if value == op)
        lanes = _lanes(mask)
        self._check_wrapped(ptr, lanes)
        if name == "XCHG":
            self.space.locked = True
        return self._rmw(name, ptr, val, lanes)

    def _rmw(self, name: str, ptr: Handle, val: Handle, lanes: Array | None) -> Handle:
        dtype, element = self._element(ptr)
        scalar = val.dtype.scalar
        values = np.broadcast_to(val.data, ptr.data.shape).reshape(-1)
        op = _RMW[name]

        def every(old: Array, where: Array) -> Array:
            new = op(decode(make(old, scalar)), decode(make(values[where], scalar)))
            return encode(new, scalar) if scalar.is_floating() else np.asarray(new).astype(dtype)

        old = self.space.update_all(ptr.data, lanes, dtype, element, every)
        if old is None:
            old = self.space.update(
                ptr.data, lanes, dtype, element, lambda o, i: every(np.array([o]), np.array([i]))[0]
            )
        return make(old, scalar)

    def create_atomic_cas(self, ptr: Handle, cmp: Handle, val: Handle, sem: Any, scope: Any) -> Handle:
        dtype, element = self._element(ptr)
        self._check_wrapped(ptr, None)
        self.space.locked = True
        expected = np.broadcast_to(cmp.data, ptr.data.shape).reshape(-1)
        values = np.broadcast_to(val.data, ptr.data.shape).reshape(-1)
        old = self.space.update(ptr.data, None, dtype, element, lambda o, i: values[i] if o == expected[i] else o)
        return make(old, cmp.dtype.scalar)

    def create_atomic_load(self, ptr: Handle, mask: Any, sem: Any, scope: Any) -> Handle:
        return self.create_masked_load(ptr, mask, None)

    def create_atomic_store(self, ptr: Handle, val: Handle, mask: Any, sem: Any, scope: Any) -> None:
        self.space.locked = True
        self.create_masked_store(ptr, val, mask)

    # checks

    def create_assert(self, condition: Handle, message: str) -> None:
        if not np.all(condition.data):
            raise DeviceAssert(f"device_assert failed: {message}", self.space.line())

    def create_assume(self, condition: Handle) -> None:
        if not np.all(condition.data):
            raise DeviceAssert("tl.assume does not hold", self.space.line())

    def create_barrier(self, *ignored: Any) -> None:
        return None


def _lanes(mask: Any) -> Array | None:
    return mask.data if isinstance(mask, make) else mask


_RMW_NAMES = [(name, getattr(ir.ATOMIC_OP, name)) for name in dir(ir.ATOMIC_OP) if name.isupper()]
_RMW: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add,
    "FADD": np.add,
    "MIN": np.minimum,
    "UMIN": np.minimum,
    "MAX": np.maximum,
    "UMAX": np.maximum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "XCHG": lambda old, new: new,
}


def _install_tables() -> None:
    for name, op in _FLOAT_BINARY.items():
        setattr(Builder, f"create_{name}", _float_binary(op))
    for name, op in _FLOAT_UNARY.items():
        setattr(Builder, f"create_{name}", _float_unary(op))
    for name, op in _FLOAT_COMPARE.items():
        setattr(Builder, f"create_fcmp{name}", _float_compare(op))
    for name, op in _INT_COMPARE.items():
        setattr(Builder, f"create_icmpS{name}", _int_compare(op))
        setattr(Builder, f"create_icmpU{name}", _int_compare(op))
    setattr(Builder, "create_icmpEQ", _int_compare(np.equal))  # noqa: B010 - one of a table
    setattr(Builder, "create_icmpNE", _int_compare(np.not_equal))  # noqa: B010
    for name, (op, wraps) in _INT_BINARY.items():
        setattr(Builder, f"create_{name}", _int_binary(op, wraps))


_install_tables()
