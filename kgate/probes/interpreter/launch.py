"""Launches device functions program by program, on CPU tensors, in the memory of the run that is active."""

from __future__ import annotations

import builtins
import hashlib
import inspect
import random
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as upstream
from triton.runtime.jit import JITFunction, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from kgate.probes.interpreter import device, reductions
from kgate.probes.interpreter.builder import Builder, decode, make
from kgate.probes.interpreter.errors import CannotLaunch, DeviceAssert, KernelError, Unsupported
from kgate.probes.interpreter.memory import Space
from kgate.probes.interpreter.records import LaunchRecord, Log
from kgate.probes.interpreter.rewrite import DEVICE_CODES, rewrite

_TRITON_ROOT = triton.__path__[0]
_DTYPES = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.int8: tl.int8,
    torch.int16: tl.int16,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
    torch.uint8: tl.uint8,
    torch.bool: tl.int1,
}
for _torch_name, _triton_type in {
    "uint16": tl.uint16,
    "uint32": tl.uint32,
    "uint64": tl.uint64,
    "float8_e4m3fn": tl.float8e4nv,
    "float8_e5m2": tl.float8e5,
    "float8_e4m3fnuz": tl.float8e4b8,
    "float8_e5m2fnuz": tl.float8e5b16,
}.items():
    if hasattr(torch, _torch_name):
        _DTYPES[getattr(torch, _torch_name)] = _triton_type

_LARGEST_GRID = (2**31 - 1, 65535, 65535)


class State:
    """What the launches of this process share."""

    builder: Builder
    semantic: Any
    space: Space | None = None
    permute: bool = False
    seed: int = 0
    running: bool = False


STATE = State()


def device_line() -> tuple[str, int] | None:
    """Return file and line of the innermost device code on the stack that is not Triton's own library."""
    frame: Any = sys._getframe(1)
    last = None
    while frame is not None:
        if frame.f_code in DEVICE_CODES:
            last = (frame.f_code.co_filename, frame.f_lineno)
            if not last[0].startswith(_TRITON_ROOT):
                return last
        frame = frame.f_back
    return last


# what rewritten device code calls


def to_tensor(value: Any) -> Any:
    """Make a tensor of a Python number; anything else is passed through."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, (bool, int, float)):
        return STATE.semantic.to_tensor(value)
    return value


def truth(value: Any) -> bool:
    """Decide a condition; a tensor with more than one element has no truth value, on a GPU neither."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if not isinstance(value, tl.tensor):
        return bool(value)
    data = decode(value.handle)
    if data.size != 1:
        raise TypeError(f"the condition is a tensor of shape {tuple(data.shape)}; use tl.where, or reduce it first")
    return bool(data.reshape(-1)[0])


def logical_not(value: Any) -> Any:
    """``not`` as the compiler understands it: elementwise on tensors."""
    if isinstance(value, tl.tensor):
        return STATE.semantic.not_(value)
    return not truth(value)


def logical(kind: str, *terms: Callable[[], Any]) -> Any:
    """``and`` / ``or`` as the compiler understands them: constants short-circuit, tensors combine elementwise."""
    stop = kind == "or"
    result: Any = None
    value: Any = None
    for term in terms:
        value = term()
        if isinstance(value, tl.tensor):
            combine = STATE.semantic.logical_or if stop else STATE.semantic.logical_and
            result = value if result is None else combine(result, value)
        elif truth(value) is stop:
            return value
    return value if result is None else result


def device_assert(condition: Any, message: Any) -> None:
    """``assert`` in device code."""
    holds = np.all(condition.handle.data) if isinstance(condition, tl.tensor) else truth(condition)
    if not holds:
        raise DeviceAssert(f"assert failed: {message}", device_line())


def constant_value(value: Any) -> Any:
    """``x.value`` in device code; constants are plain Python values here, and ``constexpr`` objects there."""
    if isinstance(value, (bool, int, float, str, tl.dtype)) or value is None:
        return value
    return value.value


def device_range(*args: Any, **options: Any) -> Any:
    """A loop over device integers: int32 tensors, or int64 where a bound is."""
    if "arg1" in options or "arg2" in options:
        first = options.get("arg1", args[0] if args else 0)
        args = (first,) if options.get("arg2") is None else (first, options["arg2"])
        if options.get("step") is not None:
            args = (*args, options["step"])
    elif options.get("step") is not None:
        args = (*args, options["step"]) if len(args) == 2 else (0, args[0], options["step"])
    args = tuple(a for a in args if a is not None)
    wide = any(isinstance(a, tl.tensor) and a.dtype.primitive_bitwidth == 64 for a in args)
    bounds = [_index(a) for a in args]
    if any(not -(2**31) <= b < 2**31 for b in bounds):
        wide = True
    dtype, ty = (np.int64, tl.int64) if wide else (np.int32, tl.int32)
    for value in builtins.range(*bounds):
        yield tl.tensor(make(np.array([value], dtype=dtype), ty), ty)


def static_range(arg1: Any, arg2: Any = None, step: Any = None, **options: Any) -> builtins.range:
    """An unrolled loop: plain integers."""
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    return builtins.range(_index(start), _index(end), 1 if step is None else _index(step))


def _index(value: Any) -> int:
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.tensor):
        return int(value.handle.data.reshape(-1)[0])
    return int(value)


def _extreme(name: str) -> Callable[..., Any]:
    python = getattr(builtins, name)

    def pick(*args: Any, **options: Any) -> Any:
        if not any(isinstance(a, tl.tensor) for a in args):
            return python(*[a.value if isinstance(a, tl.constexpr) else a for a in args], **options)
        return getattr(tl.core, f"builtin_{name}")(*args, **options)

    return pick


HELPERS: dict[str, Any] = {
    "tensor": to_tensor,
    "truth": truth,
    "not": logical_not,
    "bool": logical,
    "assert": device_assert,
    "value": constant_value,
    "range": device_range,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "print": print,
}


# functions


class DeviceFunction(JITFunction):  # type: ignore[misc]
    """What ``@triton.jit`` makes in this process: a JITFunction in all that launchers ask, run by the interpreter."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Launched:
        """Launch; returns a stand-in for the compiled kernel."""
        return run_kernel(self, *args, grid=grid, warmup=warmup, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it from device code."""
        if not STATE.running:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return call_device_function(self, *args, **kwargs)

    @property
    def cache_key(self) -> str:
        """A key that changes with the function's source."""
        return hashlib.sha256(f"{self.__module__}.{self.__qualname__}\n{self.src}".encode()).hexdigest()

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call ``hook`` with the arguments before each launch."""
        self.pre_run_hooks.append(hook)


class Launched:
    """Stands in for a compiled kernel: it can be launched again, and what only a compiler knows is assumed."""

    def __init__(self, function: Any, values: dict[str, Any], options: dict[str, Any]) -> None:
        self.name = function.fn.__name__
        self.function = function
        self.metadata = SimpleNamespace(
            name=self.name,
            shared=1024,
            num_warps=options.get("num_warps", 4),
            num_stages=options.get("num_stages", 3),
            num_ctas=options.get("num_ctas", 1),
        )
        self.asm: dict[str, str] = {}
        self.hash = self.name
        self.n_spills = 0
        self._values = values
        self._options = options

    @property
    def n_regs(self) -> int:
        """Registers per thread; nobody has compiled the kernel, so 32 are assumed, and that is noted."""
        if STATE.space is not None:
            STATE.space.log.note(f"{self.name}: register and shared memory figures are assumed, nothing is compiled")
        return 32

    def _init_handles(self) -> None:
        return None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Launch again with positional arguments: all of them, or all but the constants."""
        names = list(self._values)
        plain = [name for name in names if name not in _constants(self.function)]

        def launch(*args: Any, **ignored: Any) -> Any:
            given = dict(zip(plain if len(args) == len(plain) else names, args, strict=False))
            return self.function.run(grid=grid, warmup=False, **{**self._values, **given}, **self._options)

        return launch


def rewritten(function: Any) -> Callable[..., Any]:
    """Return the device code of an InterpretedFunction, rewritten on first use."""
    found: Callable[..., Any] | None = function.__dict__.get("_kgate_code")
    if found is None:
        found = function.__dict__["_kgate_code"] = rewrite(function.fn, HELPERS)
    return found


def call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call one device function from another (replaces ``InterpretedFunction.__call__``)."""
    kwargs.pop("_semantic", None)
    kwargs.pop("_generator", None)
    return rewritten(self)(*args, **kwargs)


def run_kernel(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Launched:
    """Launch a kernel in the active run; outside of one, a violation raises KernelError."""
    for hook in () if warmup else getattr(self, "pre_run_hooks", ()):
        hook(*args, **kwargs)
    values, options = _bind(self, args, kwargs)
    launched = Launched(self, values, options)
    shape = (0, 0, 0) if warmup else _grid(grid, values, self.fn.__name__)
    if min(shape) > 0:
        _run_in_space(self, values, options, shape)
    return launched


def _run_in_space(self: Any, values: dict[str, Any], options: dict[str, Any], shape: tuple[int, int, int]) -> None:
    code = rewritten(self)
    if STATE.space is not None:
        _launch(self, code, STATE.space, values, options, shape)
        return
    log = Log()
    space = Space(log, poison=True)
    _launch(self, code, space, values, options, shape)
    if log.violations:
        worst = log.violations[0]
        raise KernelError(f"{worst.kind}: {worst.message}", worst.device_line, self.fn.__name__)


def _launch(self: Any, code: Callable[..., Any], space: Space, values: dict[str, Any], options: Any, grid: Any) -> None:
    builder, constants = STATE.builder, _constants(self)
    name = self.fn.__name__
    kept = {key: value for key, value in values.items() if key in constants}
    site = (self.fn.__code__.co_filename, self.fn.__code__.co_firstlineno)
    space.log.launches.append(LaunchRecord(name, grid, kept, options, site))
    builder.space, space.line = space, device_line
    with torch._C.DisableTorchFunction():
        arguments = {
            key: (value.value if isinstance(value, tl.constexpr) else value)
            if key in constants
            else _convert(value, key, space, name)
            for key, value in values.items()
        }
    order = list(np.ndindex(*grid))
    if STATE.permute:
        random.Random(STATE.seed).shuffle(order)
    builder.set_grid_dim(*grid)
    space.begin_launch(len(order))
    STATE.running = True
    try:
        with np.errstate(all="ignore"):
            for number, (x, y, z) in enumerate(order):
                space.program = number
                builder.grid_idx = (x, y, z)
                code(**arguments)
    except KernelError as error:
        error.kernel = error.kernel or name
        raise
    except Exception as error:
        line = _line_of(error)
        raise KernelError(f"{name}: {type(error).__name__}: {error}", line, name) from error
    finally:
        STATE.running = False
        space.end_launch(len(order))


def _line_of(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost device line of a traceback that is not Triton's own library."""
    line, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code in DEVICE_CODES and (line is None or not code.co_filename.startswith(_TRITON_ROOT)):
            line = (code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _constants(self: Any) -> frozenset[str]:
    found: frozenset[str] | None = self.__dict__.get("_kgate_constants")
    if found is None:
        names = []
        for parameter in inspect.signature(self.fn).parameters.values():
            note = parameter.annotation
            text = note if isinstance(note, str) else getattr(note, "__name__", str(note))
            if "constexpr" in text:
                names.append(parameter.name)
        found = self.__dict__["_kgate_constants"] = frozenset(names)
    return found


def _bind(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort a launch's arguments into the kernel's parameters and the launch options."""
    signature = inspect.signature(self.fn)
    parameters = signature.parameters
    options = {key: value for key, value in kwargs.items() if key not in parameters}
    given = {key: value for key, value in kwargs.items() if key in parameters}
    bound = signature.bind(*args, **given)
    bound.apply_defaults()
    return dict(bound.arguments), options


def _grid(grid: Any, values: dict[str, Any], kernel: str) -> tuple[int, int, int]:
    if callable(grid):
        grid = grid(values)
    sizes = [int(size) for size in grid] if isinstance(grid, (tuple, list)) else [int(grid)]
    if len(sizes) > 3:
        raise CannotLaunch(f"{kernel}: the grid has {len(sizes)} axes; at most 3 are possible", kernel=kernel)
    sizes += [1] * (3 - len(sizes))
    for axis, (size, limit) in enumerate(zip(sizes, _LARGEST_GRID, strict=True)):
        if size > limit:
            raise CannotLaunch(f"{kernel}: grid axis {axis} is {size}; the hardware allows {limit}", kernel=kernel)
    return sizes[0], sizes[1], sizes[2]


def _convert(value: Any, name: str, space: Space, kernel: str) -> Any:
    """Turn a launch argument into what device code sees."""
    if isinstance(value, torch.Tensor):
        return _pointer(value, _DTYPES.get(value.dtype), name, space, kernel)
    if isinstance(value, TensorWrapper):
        return _pointer(value.base, value.dtype, name, space, kernel)
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, bool):
        return tl.tensor(make(np.array([value]), tl.int1), tl.int1)
    if isinstance(value, (int, np.integer)):
        return _integer(int(value))
    if isinstance(value, (float, np.floating)):
        return tl.tensor(make(np.array([value], dtype=np.float32), tl.float32), tl.float32)
    if isinstance(value, tuple):
        items = [_convert(item, f"{name}[{i}]", space, kernel) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, TensorDescriptor):
        return _descriptor(value, name, space, kernel)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _foreign_pointer(value, name, space, kernel)
    return value


def _integer(value: int) -> Any:
    if -(2**31) <= value < 2**31:
        dtype, ty = np.dtype(np.int32), tl.int32
    elif value < 2**63:
        dtype, ty = np.dtype(np.int64), tl.int64
    else:
        dtype, ty = np.dtype(np.uint64), tl.uint64
    return tl.tensor(make(np.array([value], dtype=dtype), ty), ty)


def _pointer(tensor: Any, element: Any, name: str, space: Space, kernel: str) -> Any:
    if element is None:
        raise Unsupported(f"{kernel}: tensors of {tensor.dtype} have no Triton type", kernel=kernel)
    if tensor.device.type != "cpu":
        raise CannotLaunch(f"{kernel}: argument {name} is on {tensor.device}, not on the device", kernel=kernel)
    if device.marked_host(tensor):
        raise CannotLaunch(
            f"{kernel}: argument {name} is a host tensor; make it with device=... like its inputs", kernel=kernel
        )
    ty = tl.pointer_type(element)
    address = space.address(tensor, name)
    return tl.tensor(make(np.array([address], dtype=np.uint64), ty), ty)


def _foreign_pointer(value: Any, name: str, space: Space, kernel: str) -> Any:
    """Take an object that passes for a tensor; the tensor that owns its memory is looked for in its attributes."""
    address = int(value.data_ptr())
    for owner in vars(value).values():
        if isinstance(owner, torch.Tensor):
            region = space.region_of(owner, name)
            if 0 <= address - region.real <= region.nbytes:
                ty = tl.pointer_type(_DTYPES[value.dtype])
                data = np.array([region.base + address - region.real], dtype=np.uint64)
                return tl.tensor(make(data, ty), ty)
    raise Unsupported(f"{kernel}: argument {name} is a {type(value).__name__}, whose memory is unknown", kernel=kernel)


def _descriptor(value: Any, name: str, space: Space, kernel: str) -> Any:
    strides = [_integer(int(s)) for s in value.strides]
    strides[-1] = tl.constexpr(1)
    made = STATE.semantic.make_tensor_descriptor(
        base=_convert(value.base, name, space, kernel),
        shape=[_integer(int(s)) for s in value.shape],
        strides=strides,
        block_shape=[tl.constexpr(b) for b in value.block_shape],
        padding_option=value.padding,
    )
    if getattr(value, "round_f32_to_tf32", False):
        made.handle.round_f32_to_tf32 = True
    return made


# installation


class _Permanent:
    """Sets attributes for good, where Triton's own interpreter would restore them after each launch."""

    def set_attr(self, owner: object, name: str, value: object) -> None:
        setattr(owner, name, value)


def install(options: dict[str, Any]) -> None:
    """Put kgate's builder and launches in the place of Triton's; once per process, before user modules."""
    from dataclasses import fields, replace

    builder = Builder()
    known = {f.name for f in fields(builder.options)}
    builder.options = replace(builder.options, **{k: v for k, v in options.items() if k in known})
    semantic = upstream.interpreter_semantic.__class__(builder)
    upstream.interpreter_builder, upstream.interpreter_semantic = builder, semantic
    STATE.builder, STATE.semantic = builder, semantic
    _patch_language(semantic)
    library = upstream.InterpretedFunction  # what the functions of triton.language itself already are
    library.run, library.__call__, library.rewrite = run_kernel, call_device_function, rewritten
    upstream.InterpretedFunction = DeviceFunction


def _bound(member: Any, semantic: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    call.__name__ = getattr(member, "__name__", "builtin")
    call.__module__ = getattr(member, "__module__", "triton.language")
    setattr(call, tl.core.TRITON_BUILTIN, True)
    return call


def _patch_builtins(owner: Any, semantic: Any) -> None:
    for name, member in list(inspect.getmembers(owner)):
        if tl.core.is_builtin(member):
            setattr(owner, name, _bound(member, semantic))


def _patch_language(semantic: Any) -> None:
    tensor = tl.core.tensor
    for owner in (tl, tl.core, tl.math, tensor):
        _patch_builtins(owner, semantic)
    for name in ("tensor_descriptor_base", "tensor_descriptor"):
        if hasattr(tl.core, name):
            _patch_builtins(getattr(tl.core, name), semantic)
    _patch_extra(semantic)
    truthy = tensor.__dict__.get("__bool__")
    for owner in (tl, tl.core):
        upstream._patch_lang_core(owner, _Permanent())
        owner.range, owner.static_range = device_range, static_range
    if truthy is None and "__bool__" in tensor.__dict__:
        del tensor.__bool__
    tensor.__index__ = lambda self: _index(self)
    tensor.__int__ = lambda self: int(decode(self.handle).reshape(-1)[0])
    tensor.__float__ = lambda self: float(decode(self.handle).reshape(-1)[0])
    tensor.__repr__ = tensor.__str__ = lambda self: str(decode(self.handle))
    tensor.T = property(_transposed)
    if hasattr(tl, "condition"):
        tl.condition.__bool__ = lambda self: truth(self.condition)
    reductions.install(tl)


def _transposed(self: Any) -> Any:
    shape = list(self.type.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    data = np.ascontiguousarray(np.swapaxes(self.handle.data, -1, -2))
    return tl.tensor(make(data, self.handle.dtype), tl.core.block_type(self.dtype, shape))


def _patch_extra(semantic: Any) -> None:
    """Give the device library modules implementations; the neutral one forwards to the target's."""
    from triton.language.extra import libdevice as neutral

    backends = {}
    for name in ("cuda", "hip"):
        try:
            module = __import__(f"triton.language.extra.{name}.libdevice", fromlist=["libdevice"])
        except ImportError:
            continue
        _patch_builtins(module, semantic)
        backends[name] = module
    order = [backends[k] for k in ("cuda", "hip") if k in backends]
    for name, member in list(vars(neutral).items()):
        if inspect.isfunction(member):
            for module in order:
                if hasattr(module, name):
                    setattr(neutral, name, getattr(module, name))
                    break
    _patch_gpu_only()


def _patch_gpu_only() -> None:
    """Launch-dependency hints do nothing here, and clocks and ids are zero."""
    try:
        from triton.language.extra.cuda import gdc
    except ImportError:
        gdc = None
    for name in ("gdc_wait", "gdc_launch_dependents"):
        if gdc is not None and hasattr(gdc, name):
            setattr(gdc, name, lambda *args, **kwargs: None)
