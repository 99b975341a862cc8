"""A CUDA (or HIP) device that is not there: what torch and triton are asked about it is answered for a target.

Tensors stay plain CPU tensors. A TorchFunctionMode answers ``x.is_cuda`` and ``x.device``, and turns factory calls
and transfers that ask for the device into CPU ones; ``torch.cuda`` and Triton's driver answer from a table.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack


@dataclass(frozen=True)
class DeviceFacts:
    """What a launcher may ask about the device."""

    name: str
    """Marketing name."""
    capability: tuple[int, int]
    """Compute capability (major, minor); gfx numbers for HIP."""
    processors: int
    """Multiprocessors (compute units)."""
    shared: int
    """Largest shared memory a block may opt into, in bytes."""
    memory: int
    """Device memory, in bytes."""
    l2: int
    """L2 cache, in bytes."""
    warp: int = 32
    """Threads per warp (wavefront)."""
    threads: int = 2048
    """Threads a multiprocessor holds."""


_GIB = 1 << 30
_MIB = 1 << 20
DEVICES = {
    "cuda:sm_80": DeviceFacts("NVIDIA A100-SXM4-80GB", (8, 0), 108, 166912, 80 * _GIB, 40 * _MIB),
    "cuda:sm_86": DeviceFacts("NVIDIA A10", (8, 6), 72, 101376, 24 * _GIB, 6 * _MIB, threads=1536),
    "cuda:sm_89": DeviceFacts("NVIDIA L40S", (8, 9), 142, 101376, 48 * _GIB, 96 * _MIB, threads=1536),
    "cuda:sm_90": DeviceFacts("NVIDIA H100 80GB HBM3", (9, 0), 132, 232448, 80 * _GIB, 50 * _MIB),
    "cuda:sm_100": DeviceFacts("NVIDIA B200", (10, 0), 148, 232448, 180 * _GIB, 126 * _MIB),
    "cuda:sm_120": DeviceFacts("NVIDIA GeForce RTX 5090", (12, 0), 170, 101376, 32 * _GIB, 96 * _MIB, threads=1536),
    "hip:gfx942": DeviceFacts("AMD Instinct MI300X", (9, 4), 304, 65536, 192 * _GIB, 4 * _MIB, 64),
    "hip:gfx950": DeviceFacts("AMD Instinct MI355X", (9, 5), 256, 163840, 288 * _GIB, 4 * _MIB, 64),
    "hip:gfx1100": DeviceFacts("AMD Radeon RX 7900 XTX", (11, 0), 96, 65536, 24 * _GIB, 6 * _MIB),
}

_MARK = "_kgate_host"
_TENSOR = torch.Tensor
_IS_CUDA = _TENSOR.is_cuda.__get__
_IS_CPU = _TENSOR.is_cpu.__get__
_DEVICE = _TENSOR.device.__get__
_EMPTY = {torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted} | {
    _TENSOR.new_empty,
    _TENSOR.new_empty_strided,
}
_HOST_FACTORIES = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.tensor, torch.arange, torch.rand, torch.randn,
    torch.randint, torch.linspace, torch.eye, torch.empty_strided, torch.as_tensor, torch.scalar_tensor,
    torch.randperm,
}  # fmt: skip


class Hooks:
    """What the mode reports while a run is active; nothing otherwise."""

    def __init__(self) -> None:
        self.empty: Callable[[Any], None] | None = None
        self.wrote: Callable[[Any], None] | None = None
        self.note: Callable[[str], None] | None = None


HOOKS = Hooks()


def is_device(value: Any) -> bool:
    """Tell whether a device argument names the stand-in device."""
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and value.split(":")[0] == "cuda"


def marked_host(tensor: Any) -> bool:
    """Tell whether a tensor was made on the host during a run, and would not be on the device."""
    return bool(getattr(tensor, _MARK, False))


class DeviceMode(TorchFunctionMode):  # type: ignore[misc]
    """Makes CPU tensors pass for device tensors in everything Python can ask."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(*args, **kwargs)
        device = kwargs.get("device")
        if device is not None and is_device(device):
            kwargs = {**kwargs, "device": "cpu"}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if func is _TENSOR.to:
            return _to(args, kwargs)
        result = func(*args, **kwargs)
        if HOOKS.empty is not None:
            self._report(func, args, kwargs, device, result)
        return result

    def _report(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any, result: Any) -> None:
        if func in _EMPTY and isinstance(result, _TENSOR) and HOOKS.empty is not None:
            HOOKS.empty(result)
        if func in _HOST_FACTORIES and isinstance(result, _TENSOR) and _made_on_host(func, args, device):
            with contextlib.suppress(AttributeError):
                setattr(result, _MARK, True)
        out = kwargs.get("out")
        name = getattr(func, "__name__", "")
        if HOOKS.wrote is not None and (out is not None or name == "__set__"):
            for target in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(target, _TENSOR):
                    HOOKS.wrote(target)


def _made_on_host(func: Any, args: tuple[Any, ...], device: Any) -> bool:
    """A factory that was told no device makes a host tensor, except where it passes a device tensor through."""
    if func is torch.as_tensor and args and isinstance(args[0], _TENSOR):
        return False
    if device is None:
        return not is_device(torch.get_default_device())
    return not is_device(device)


def _to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    wanted = [a for a in args[1:] if isinstance(a, (str, torch.device, int)) and not isinstance(a, bool)]
    args = tuple("cpu" if is_device(a) or (type(a) is int) else a for a in args)
    result = _TENSOR.to(*args, **kwargs)
    if result is source and wanted and marked_host(source) and any(is_device(w) for w in wanted):
        result = source.view_as(source)
    return result


def _is_cuda(tensor: Any) -> bool:
    return _DEVICE(tensor).type == "cpu" and not marked_host(tensor)


def _device(tensor: Any) -> Any:
    real = _DEVICE(tensor)
    return torch.device("cuda", 0) if real.type == "cpu" and not marked_host(tensor) else real


def _cuda(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor.view_as(tensor) if marked_host(tensor) else tensor


def _get_device(tensor: Any) -> int:
    return 0 if _is_cuda(tensor) else -1


def _with_out_dtype(function: Any) -> Callable[..., Any]:
    """Products with ``out_dtype``, which torch has for the device only: widen, multiply, and round once."""

    def multiply(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("out_dtype", None)
        if wanted is None and len(args) > 2 and isinstance(args[-1], torch.dtype):
            args, wanted = args[:-1], args[-1]
        if wanted is None:
            return function(*args, **kwargs)
        return function(*[a.to(wanted) if isinstance(a, _TENSOR) else a for a in args], **kwargs)

    return multiply


_HANDLERS: dict[Any, Callable[..., Any]] = {
    _IS_CUDA: _is_cuda,
    _IS_CPU: lambda tensor: not _is_cuda(tensor),
    _DEVICE: _device,
    _TENSOR.cuda: _cuda,
    _TENSOR.get_device: _get_device,
    torch.get_device: _get_device,
    _TENSOR.pin_memory: lambda tensor, *a, **k: tensor,
    _TENSOR.is_pinned: lambda tensor, *a, **k: False,
    _TENSOR.record_stream: lambda tensor, *a, **k: None,
}
for _product in ("mm", "bmm", "addmm", "baddbmm"):
    _HANDLERS[getattr(torch, _product)] = _with_out_dtype(getattr(torch, _product))

_entered = threading.local()


def enter_mode() -> None:
    """Switch the stand-in device on for this thread; once is enough."""
    if not getattr(_entered, "mode", None):
        _entered.mode = DeviceMode()
        _entered.mode.__enter__()


@contextlib.contextmanager
def real_devices() -> Iterator[None]:
    """Let torch tell the truth about devices inside the block."""
    with torch._C.DisableTorchFunction():
        yield


class _Stream:
    """A stream on which everything has already happened."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()

    def query(self) -> bool:
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


class _Event:
    """An event that has already been reached."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class _Guard:
    """A device guard with nothing to guard."""

    idx = prev_idx = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        from kgate.probes.interpreter.errors import Unsupported

        raise Unsupported(f"{what} cannot be honoured on a CPU")

    return refuse


class Device:
    """The stand-in device of this process."""

    def __init__(self, target: str) -> None:
        kind, _, arch = target.partition(":")
        facts = DEVICES.get(target)
        if facts is None:
            known = ", ".join(DEVICES)
            raise ValueError(f"the interpreter does not know the target {target!r}; it knows {known}")
        self.target, self.kind, self.arch, self.facts = target, kind, arch, facts
        self.processors = facts.processors

    @property
    def dot_precisions(self) -> tuple[str, ...]:
        """The ``input_precision`` values that ``tl.dot`` accepts; where tf32 is among them, it is the default."""
        if self.kind == "cuda":
            return ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
        return ("ieee", "bf16x3", "bf16x6") + (("tf32",) if self.arch == "gfx942" else ())

    def properties(self, *ignored: Any) -> SimpleNamespace:
        """Answer ``torch.cuda.get_device_properties``."""
        facts = self.facts
        return SimpleNamespace(
            name=facts.name,
            major=facts.capability[0],
            minor=facts.capability[1],
            multi_processor_count=self.processors,
            total_memory=facts.memory,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=facts.shared,
            shared_memory_per_multiprocessor=facts.shared + 1024,
            regs_per_multiprocessor=65536,
            max_threads_per_multi_processor=facts.threads,
            max_threads_per_block=1024,
            warp_size=facts.warp,
            L2_cache_size=facts.l2,
            gcnArchName=self.arch if self.kind == "hip" else "",
            is_integrated=0,
            is_multi_gpu_board=0,
        )

    def install(self) -> None:
        """Patch ``torch.cuda``, ``torch.version`` and ``torch.compile``; enter the mode."""
        for name, value in self._answers().items():
            setattr(torch.cuda, name, _distinct(name, value))
        if self.kind == "hip":
            torch.version.hip = "7.0.0"
        else:
            torch.version.cuda = "13.0"
        torch.compile = _no_compile
        torch.compiler.disable = _leave
        torch.compiler.allow_in_graph = _leave
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            accelerator.is_available = lambda: True
            accelerator.device_count = lambda: 1
            accelerator.current_accelerator = lambda *a, **k: torch.device("cuda")
            accelerator.current_device_index = lambda: 0
            accelerator.current_device_idx = lambda: 0
            accelerator.set_device_index = accelerator.set_device_idx = lambda *a: None
            accelerator.synchronize = lambda *a: None
            accelerator.current_stream = lambda *a: _Stream()
        torch.Generator = _generator(torch.Generator)
        _watch_autocast()
        _enter_mode_in_backward()
        enter_mode()

    def _answers(self) -> dict[str, Any]:
        facts = self.facts
        nothing = _nothing
        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": nothing,
            "_lazy_init": nothing,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": nothing,
            "device": _Guard,
            "_DeviceGuard": _Guard,
            "device_of": _Guard,
            "get_device_properties": self.properties,
            "get_device_capability": lambda *a, **k: facts.capability,
            "get_device_name": lambda *a, **k: facts.name,
            "get_arch_list": lambda: [self.arch],
            "can_device_access_peer": lambda *a: False,
            "synchronize": nothing,
            "current_stream": lambda *a, **k: _Stream(),
            "default_stream": lambda *a, **k: _Stream(),
            "set_stream": nothing,
            "stream": _Guard,
            "StreamContext": _Guard,
            "Stream": _Stream,
            "ExternalStream": _Stream,
            "Event": _Event,
            "is_current_stream_capturing": lambda: False,
            "CUDAGraph": _refused("a CUDA graph"),
            "graph": _refused("a CUDA graph"),
            "empty_cache": nothing,
            "memory_allocated": lambda *a: 0,
            "max_memory_allocated": lambda *a: 0,
            "memory_reserved": lambda *a: 0,
            "reset_peak_memory_stats": nothing,
            "mem_get_info": lambda *a: (facts.memory, facts.memory),
            "is_bf16_supported": lambda *a, **k: facts.capability[0] >= 8 or self.kind == "hip",
            "manual_seed": nothing,
            "manual_seed_all": nothing,
            "ipc_collect": nothing,
        }


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _distinct(name: str, value: Any) -> Any:
    """Make one object per name, because torch's compiler refuses two names for one object."""
    if isinstance(value, type):
        return type(name, (value,), {})

    def answer(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    answer.__name__ = name
    return answer


def _leave(function: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator, with or without arguments, that leaves the function as it is."""
    return function if function is not None else lambda wrapped: wrapped


def _no_compile(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` that leaves the function as it is."""
    return model if model is not None else lambda function: function


def _generator(base: Any) -> Any:
    class Generator(base):  # type: ignore[misc]
        """A CPU generator, whichever device is asked for."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return base.__new__(cls, "cpu" if is_device(device) else device)

        def __init__(self, device: Any = "cpu") -> None:
            pass

    return Generator


def _watch_autocast() -> None:
    autocast: Any = torch.amp.autocast_mode.autocast
    enter = autocast.__enter__

    def noting(self: Any) -> Any:
        if HOOKS.note is not None and self.device == "cuda" and self._enabled:
            HOOKS.note("autocast for the device has no effect on CPU tensors")
        return enter(self)

    autocast.__enter__ = noting


def _enter_mode_in_backward() -> None:
    """Keep the mode on in users' backward functions, which torch calls while it handles ``Tensor.backward``."""
    function: Any = torch.autograd.function.BackwardCFunction
    apply = function.apply

    def with_mode(self: Any, *args: Any) -> Any:
        mode = getattr(_entered, "mode", None) or DeviceMode()
        if mode in _get_current_function_mode_stack():
            return apply(self, *args)
        with mode:
            return apply(self, *args)

    function.apply = with_mode


class Driver:
    """What Triton's driver answers for the target; it cannot load or launch anything."""

    def __init__(self, device: Device) -> None:
        from triton.backends.compiler import GPUTarget

        arch: Any = int(device.arch.removeprefix("sm_")) if device.kind == "cuda" else device.arch
        self._target = GPUTarget(device.kind, arch, device.facts.warp)
        self._device = device
        self.utils = SimpleNamespace(get_device_properties=self._properties)
        self.get_device_capability = lambda *a: device.facts.capability
        self.launcher_cls = _refused("launching compiled code")

    def _properties(self, *ignored: Any) -> dict[str, int]:
        return {
            "max_shared_mem": self._device.facts.shared,
            "max_num_regs": 65536,
            "multiprocessor_count": self._device.processors,
            "warpSize": self._device.facts.warp,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        return _refused("timing")

    def get_empty_cache_for_benchmark(self) -> Any:
        return torch.empty(0)

    def clear_cache(self, cache: Any) -> None:
        return None

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty
