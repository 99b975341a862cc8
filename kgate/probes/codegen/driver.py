"""A Triton driver for the fake device: launches are recorded, every autotune configuration is visited."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgate.probes.codegen.devices import MAX_THREADS_PER_BLOCK, Device

Observer = Callable[["RecordedKernel", tuple[int, ...], tuple[Any, ...], "dict[str, Any] | None"], None]

_observers: list[Observer] = []
_tuning: list[_Tuning] = []


class _Tuning:
    """One call of an autotuned kernel that is under way."""

    def __init__(self) -> None:
        self.visited = False
        self.config: dict[str, Any] | None = None


class RecordedKernel:
    """What the JIT gets instead of a compiled kernel: it knows how to compile itself, and running it records.

    Launchers that look into a compiled kernel (``n_regs``, ``metadata.shared``) have it compiled for them.
    """

    function = None
    packed_metadata = None

    def __init__(self, fn: Any, signature: Any, constexprs: Any, options: Any, attrs: Any, target: Any) -> None:
        self.fn = fn
        self.signature = signature
        self.constexprs = constexprs
        self.options = options
        self.attrs = attrs
        self.target = target

    def launch_metadata(self, *_: Any) -> None:
        """Nothing is launched, so there is nothing to say."""

    def run(
        self,
        grid_0: int,
        grid_1: int,
        grid_2: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *args: Any,
    ) -> None:
        """Record the launch; the JIT passes the kernel's arguments last, in their order."""
        self._record((grid_0, grid_1, grid_2), args)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **_: self._record(tuple(grid), args)

    def _record(self, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        tuning = _tuning[-1] if _tuning else None
        if tuning is not None and tuning.visited and tuning.config is None:
            return  # the winner's run, after every configuration was recorded
        for observer in _observers:
            observer(self, grid, args, tuning.config if tuning else None)

    def _init_handles(self) -> None:
        return None

    @functools.cached_property
    def _compiled(self) -> Any:
        from kgate.probes.codegen.compiler import compile_kernel

        return compile_kernel(self)

    @functools.cached_property
    def n_regs(self) -> int:
        """Registers per thread."""
        return int(self._usage.registers)

    @functools.cached_property
    def n_spills(self) -> int:
        """Bytes spilled."""
        return int(self._usage.spill_bytes)

    @property
    def n_max_threads(self) -> int:
        """Threads that a block may have."""
        return MAX_THREADS_PER_BLOCK

    @functools.cached_property
    def _usage(self) -> Any:
        from kgate.probes.codegen.compiler import usage

        return usage(self._compiled)

    def __getattr__(self, name: str) -> Any:
        if name in ("metadata", "asm", "src", "hash", "name", "kernel", "shared", "num_warps"):
            compiled = self._compiled
            return getattr(compiled.metadata if name in ("shared", "num_warps") else compiled, name)
        raise AttributeError(name)


@contextlib.contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Call ``observer(kernel, grid, arguments, config)`` for every launch inside."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def install(device: Device) -> None:
    """Make Triton compile for ``device``, record launches and visit every autotune configuration."""
    from triton.runtime import driver as active_driver
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    fake = _driver_class()(device)
    active_driver._default = fake
    active_driver.set_active(fake)

    def do_compile(
        self: Any, key: Any, signature: Any, dev: Any, constexprs: Any, options: Any, attrs: Any, warmup: Any
    ) -> RecordedKernel:
        cache, _, target, *_ = self.device_caches[dev]
        cache[key] = RecordedKernel(self, signature, constexprs, options, attrs, target)
        kernel: RecordedKernel = cache[key]
        return kernel

    function_class: Any = JITFunction
    function_class._do_compile = do_compile
    _patch_autotuner(Autotuner)
    _patch_benchmarks()


def _patch_autotuner(autotuner: Any) -> None:
    run, bench = autotuner.run, autotuner._bench

    @functools.wraps(run)
    def run_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.cache.clear()  # so that a second call visits the configurations as well
        self.cache_results = False
        _tuning.append(_Tuning())
        try:
            return run(self, *args, **kwargs)
        finally:
            _tuning.pop()

    @functools.wraps(bench)
    def bench_one(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        self.__dict__["do_bench"] = _benchmark
        if not _tuning:
            return bench(self, *args, config=config, **meta)
        tuning = _tuning[-1]
        tuning.visited, tuning.config = True, _config_values(config)
        try:
            return bench(self, *args, config=config, **meta)
        finally:
            tuning.config = None

    autotuner.run, autotuner._bench = run_all, bench_one


def _config_values(config: Any) -> dict[str, Any]:
    """The values that tell one configuration from another, in the order in which it states them."""
    values = dict(config.kwargs)
    values["num_warps"], values["num_stages"] = config.num_warps, config.num_stages
    if config.num_ctas not in (None, 1):
        values["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        values["maxnreg"] = config.maxnreg
    return values


def _benchmark(kernel_call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **__: Any) -> Any:
    """Call once, so that the launch is recorded, and say that it took a millisecond."""
    kernel_call()
    return [1.0] * len(quantiles) if quantiles else 1.0


def _patch_benchmarks() -> None:
    import triton.testing

    for name in ("do_bench", "do_bench_cudagraph"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, _benchmark)


def _driver_class() -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class FakeDriver(DriverBase):  # type: ignore[misc]
        """Answers for the target."""

        def __init__(self, device: Device) -> None:
            self.device = device
            self.utils = _Utils(device)
            self.launcher_cls = _refuse_launch

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget(self.device.backend, self.device.arch, self.device.warp_size)

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_device_capability(self, *_: Any) -> tuple[int, int]:
            return self.device.capability

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, *_: Any) -> None:
            return None

        def get_current_stream(self, *_: Any) -> int:
            return 0

        def get_benchmarker(self) -> Any:
            return _benchmark

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(1, dtype=torch.int, device="cuda")

        def clear_cache(self, *_: Any) -> None:
            return None

        def assemble_tensormap_to_arg(self, _: Any, args: Any) -> Any:
            return args

    return FakeDriver


def _refuse_launch(*_: Any) -> Any:
    raise RuntimeError("kernels are compiled and counted here, never launched: there is no device")


class _Utils:
    """The part of a driver that Triton asks about device limits."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def get_device_properties(self, *_: Any) -> dict[str, Any]:
        """Limits, under Triton's names."""
        device = self._device
        return {
            "max_shared_mem": device.shared_per_block,
            "max_num_regs": 65536,
            "multiprocessor_count": device.multiprocessors,
            "warpSize": device.warp_size,
            "sm_clock_rate": device.clock_khz,
            "mem_clock_rate": device.memory_clock_khz,
            "mem_bus_width": device.bus_bits,
            "arch": str(device.arch),
        }

    def cuOccupancyMaxActiveClusters(self, *_: Any) -> int:
        """As many clusters as there are multiprocessors."""
        return self._device.multiprocessors

    def fill_1d_tma_descriptor(self, *_: Any) -> None:
        """Nothing reads the descriptor."""

    def fill_2d_tma_descriptor(self, *_: Any) -> None:
        """Nothing reads the descriptor."""
