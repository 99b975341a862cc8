"""A CUDA device that is not there: answers torch's questions about it for one target, without a GPU.

Installed once per process, before any user module is imported, so that constants computed at import time
(capabilities, multiprocessor counts) are those of the target.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from kgate.probes.codegen.devices import KIB, MAX_THREADS_PER_BLOCK, Device

_CUDA = 1  # c10::DeviceType::CUDA
_CPU = 0
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"


def install(device: Device) -> None:
    """Make torch answer as though ``device`` were present and current."""
    import torch

    _register_guard(torch)
    _patch_fake_tensors()
    _patch_cuda(torch, device)
    _patch_versions(torch, device)


def _register_guard(torch: Any) -> None:
    """Give the CUDA device type a guard that does nothing.

    Without one, indexing, copying and autograd on fake CUDA tensors stop (or abort) in a torch that was built
    for CPU alone; with a CUDA build, the real guard would start a context. The CPU's guard does nothing too.
    """
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        guards = (ctypes.c_void_p * 2).in_dll(ctypes.CDLL(library), _GUARDS)
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"cannot fake a device in torch {torch.__version__}: {error}; the codegen probe was tried with 2.13"
        ) from error
    guards[_CUDA] = guards[_CPU]


def _patch_fake_tensors() -> None:
    from torch._subclasses import fake_tensor

    module: Any = fake_tensor
    module.init_gpu_context = lambda *_, **__: None  # would allocate on the device that is not there
    module.FakeTensorMode.avoid_device_init = property(lambda self: True)
    addresses = _Addresses()
    module.FakeTensor.data_ptr = lambda self: addresses.of(self)


class _Addresses:
    """Pretend addresses: storages start 256-aligned, as in torch's allocator; views follow their offset."""

    _BASE = 0x7F00_0000_0000
    _ALIGNMENT = 256

    def __init__(self) -> None:
        self._next = self._BASE
        self._starts: dict[int, tuple[int, int]] = {}

    def of(self, tensor: Any) -> int:
        """Address of the tensor's first element; 0 where it has none, as in torch."""
        if tensor.numel() == 0:
            return 0
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        known = self._starts.get(storage._cdata)
        if known is None or known[1] != size:
            known = (self._next, size)
            self._starts[storage._cdata] = known
            self._next += -(-max(size, 1) // self._ALIGNMENT) * self._ALIGNMENT
        return int(known[0] + tensor.storage_offset() * tensor.element_size())


def _patch_versions(torch: Any, device: Device) -> None:
    if device.backend == "hip":
        torch.version.cuda, torch.version.hip = None, torch.version.hip or "7.0.0"
    else:
        torch.version.cuda, torch.version.hip = torch.version.cuda or "13.0", None


def _patch_cuda(torch: Any, device: Device) -> None:
    properties = _properties(device)
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "synchronize": lambda *_, **__: None,
        "empty_cache": lambda: None,
        "get_device_name": lambda *_: device.name,
        "get_device_capability": lambda *_: device.capability,
        "get_device_properties": lambda *_: properties,
        "get_arch_list": lambda: [str(device.target.split(":")[1])],
        "is_bf16_supported": lambda *_, **__: True,
        "is_tf32_supported": lambda: device.backend == "cuda",
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda *_: (device.memory, device.memory),
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "manual_seed": lambda *_: None,
        "manual_seed_all": lambda *_: None,
        "device": FakeDeviceGuard,
        "device_of": FakeDeviceGuard,
        "_exchange_device": lambda *_: 0,
        "_maybe_exchange_device": lambda *_: 0,
        "Stream": FakeStream,
        "ExternalStream": FakeStream,
        "Event": FakeEvent,
        "current_stream": lambda *_: FakeStream(),
        "default_stream": lambda *_: FakeStream(),
        "stream": lambda *_: contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    torch._C._cuda_getDevice = lambda: 0
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        current = torch.device("cuda", 0)
        for name, answer in {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_accelerator": lambda *_, **__: torch.device("cuda"),
            "current_device_index": lambda: 0,
            "current_device_idx": lambda: 0,
            "synchronize": lambda *_: None,
            "set_device_index": lambda *_: None,
            "current_stream": lambda *_: FakeStream(current),
        }.items():
            setattr(accelerator, name, answer)


def _properties(device: Device) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` answers, under torch's attribute names."""
    known: dict[str, Any] = {
        "name": device.name,
        "major": device.capability[0],
        "minor": device.capability[1],
        "multi_processor_count": device.multiprocessors,
        "warp_size": device.warp_size,
        "total_memory": device.memory,
        "max_threads_per_multi_processor": device.max_threads,
        "max_threads_per_block": MAX_THREADS_PER_BLOCK,
        "regs_per_multiprocessor": 65536,
        "shared_memory_per_block": min(48 * KIB, device.shared_per_block)
        if device.backend == "cuda"
        else device.shared_per_block,
        "shared_memory_per_block_optin": device.shared_per_block,
        "shared_memory_per_multiprocessor": device.shared_per_multiprocessor,
        "L2_cache_size": device.l2,
        "clock_rate": device.clock_khz,
        "memory_clock_rate": device.memory_clock_khz,
        "memory_bus_width": device.bus_bits,
        "is_integrated": 0,
        "is_multi_gpu_board": 0,
        "gcnArchName": device.arch if device.backend == "hip" else device.name,
    }
    return SimpleNamespace(**known)


class FakeDeviceGuard:
    """Stands in for ``torch.cuda.device`` and ``device_of``: there is one device, and it is current."""

    def __init__(self, *_: Any) -> None:
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> FakeDeviceGuard:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class FakeStream:
    """Stands in for ``torch.cuda.Stream``: work is recorded in order, so waiting does nothing."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, device: Any = None, *_: Any, **__: Any) -> None:
        self.device = device

    def record_event(self, event: Any = None) -> Any:
        """Return ``event``, or a new one."""
        return event or FakeEvent()

    def wait_event(self, *_: Any) -> None:
        """Return at once."""

    def wait_stream(self, *_: Any) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """All work is done."""
        return True

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


class FakeEvent:
    """Stands in for ``torch.cuda.Event``."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        """Return at once."""

    def wait(self, *_: Any) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """The event has happened."""
        return True

    def elapsed_time(self, *_: Any) -> float:
        """One millisecond: nothing ran."""
        return 1.0


_mode: list[Any] = []


@contextlib.contextmanager
def fake_tensors() -> Iterator[Any]:
    """Inside, torch makes fake tensors: shapes, strides and dtypes on ``cuda``, and no data.

    One FakeTensorMode serves the whole process, so tensors made in one block may be used in a later one.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    if not _mode:
        _mode.append(FakeTensorMode(allow_non_fake_inputs=True))
    with _device_names()(), _mode[0] as mode:
        yield mode


def _device_names() -> Any:
    """A mode in which ``0``, ``"cuda"`` and ``.cuda()`` all mean ``cuda:0``, as with a device present."""
    import torch
    from torch.overrides import TorchFunctionMode

    here = torch.device("cuda", 0)

    def place(value: Any) -> Any:
        if isinstance(value, str) and value == "cuda":
            return here
        if isinstance(value, torch.device) and value.type == "cuda":
            return here
        return value

    class DeviceNames(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if "device" in kwargs:
                device = kwargs["device"]
                is_index = isinstance(device, int) and not isinstance(device, bool)
                kwargs["device"] = here if is_index else place(device)
            name = getattr(function, "__name__", "")
            if name == "cuda" and args:
                return args[0].to(here)
            if name == "to":
                args = tuple(place(value) for value in args)
            return function(*args, **kwargs)

    return DeviceNames
