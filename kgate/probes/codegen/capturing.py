"""Calling a launcher on fake tensors and keeping every kernel launch and torch operator that it makes."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, field
from typing import Any

from kgate.probes.codegen import driver
from kgate.probes.codegen.fakedevice import fake_tensors

_QUIET_NAMESPACES = ("aten", "prims", "prim", "triton", "inductor", "profiler", "higher_order")


@dataclass(frozen=True)
class Launch:
    """One kernel launch, or one configuration of an autotuned launch, ready to be compiled."""

    label: str
    """The device function's name; ``_kernel[BLOCK=128,num_warps=8,num_stages=3]`` for one configuration of an
    autotuned kernel; ``#2`` and so on where the same function is launched again in another form."""
    name: str
    """The device function's name."""
    kernel: Any
    """The RecordedKernel: what to compile, for which target."""
    grids: list[tuple[int, int, int]]
    """The grid of each launch in this form, in the order of the launches."""
    arguments: list[str]
    """The arguments of each launch in this form, as text."""
    config: dict[str, Any] | None = None
    """The autotune configuration, None where there is none."""
    place: str = ""
    """Where the device function is defined: ``file.py:12``."""

    @property
    def signature(self) -> dict[str, str]:
        """Triton's type of each argument."""
        return {name: str(kind) for name, kind in self.kernel.signature.items()}

    @property
    def constexprs(self) -> dict[str, str]:
        """The value of each constexpr argument, as text."""
        names = list(self.kernel.signature)
        return {names[path[0]]: str(value) for path, value in self.kernel.constexprs.items()}

    @property
    def options(self) -> dict[str, Any]:
        """Triton's compile options: num_warps, num_stages and so on."""
        return dict(self.kernel.options.__dict__)

    @property
    def alignment(self) -> list[str]:
        """Names of the arguments known to be divisible by 16."""
        names = list(self.kernel.signature)
        return [
            names[path[0]]
            for path, attrs in self.kernel.attrs.items()
            if any(name == "tt.divisibility" for name, _ in attrs)
        ]


@dataclass
class Capture:
    """What one call of a launcher did."""

    launches: list[Launch] = field(default_factory=list)
    """In the order of the first launch of each."""
    skipped: str | None = None
    """Why the call could not be followed to its end, where it could not."""
    operators: list[str] = field(default_factory=list)
    """Torch operators and launches in order, as text: the work that the call asks for."""


def capture(fn: Any, args: Any, kwargs: Any, *, target: str) -> Capture:
    """Call ``fn(*args, **kwargs)`` on fake tensors (see ``fake_tensors``) and return what it launched.

    ``target`` must be the one that ``install`` was called with. A launcher that reads a tensor's value cannot
    be followed: ``skipped`` then says so, with the line. Other exceptions of the launcher are the caller's.
    """
    from kgate.probes import codegen

    codegen.require(target)
    recorder = _Recorder()
    with fake_tensors(), driver.observe(recorder.record), _operators(recorder):
        try:
            fn(*args, **kwargs)
        except Exception as error:
            reason = _data_dependent(error)
            if reason is None:
                raise
            recorder.result.skipped = reason
    return recorder.result


class _Recorder:
    def __init__(self) -> None:
        self.result = Capture()
        self._known: dict[tuple[str, str], Launch] = {}
        self._labels: dict[str, int] = {}

    def record(self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], config: Any) -> None:
        shape = (*[int(size) for size in grid], 1, 1)
        full = (shape[0], shape[1], shape[2])
        said = ", ".join(_describe(arg) for arg in args)
        base = kernel.fn.__name__ + _brackets(config)
        form = repr((kernel.fn.cache_key, kernel.signature, kernel.constexprs, kernel.attrs, kernel.options))
        launch = self._known.get((base, form))
        if launch is None:
            launch = self._add(base, form, kernel, config)
        launch.grids.append(full)
        launch.arguments.append(said)
        self.result.operators.append(f"launch {launch.label} {full} ({said})")

    def _add(self, base: str, form: str, kernel: Any, config: Any) -> Launch:
        count = self._labels[base] = self._labels.get(base, 0) + 1
        function = kernel.fn.fn
        launch = Launch(
            label=base if count == 1 else f"{base}#{count}",
            name=kernel.fn.__name__,
            kernel=kernel,
            grids=[],
            arguments=[],
            config=config,
            place=f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}",
        )
        self._known[base, form] = launch
        self.result.launches.append(launch)
        return launch


def _brackets(config: dict[str, Any] | None) -> str:
    if config is None:
        return ""
    return "[" + ",".join(f"{name}={value}" for name, value in config.items()) + "]"


def _describe(value: Any) -> str:
    """An argument as text, without anything that differs from process to process."""
    if hasattr(value, "dtype") and hasattr(value, "stride"):
        shape, stride = "x".join(map(str, value.shape)), "x".join(map(str, value.stride()))
        return f"{str(value.dtype).removeprefix('torch.')}[{shape}]/{stride}+{_offset(value)}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_describe(item) for item in value) + ")"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return str(getattr(value, "__name__", None) or type(value).__name__)


def _offset(tensor: Any) -> int:
    offset = getattr(tensor, "storage_offset", None)
    return int(offset()) if offset else 0


def _operators(recorder: _Recorder) -> Any:
    """A mode that notes torch operators, and runs custom operators' own code, to see what they launch."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            body = _custom_body(function)
            if body is not None:
                with self:
                    return body(*args, **kwargs)
            name = str(function)
            recorder.result.operators.append(f"{name} ({', '.join(_describe(arg) for arg in args)})")
            return function(*args, **kwargs)

    return Operators()


def _custom_body(function: Any) -> Any:
    """The Python function behind a custom operator, None for torch's own operators."""
    namespace = getattr(function, "namespace", "aten")
    if namespace in _QUIET_NAMESPACES:
        return None
    from torch._library.custom_ops import OPDEFS

    definition = OPDEFS.get(function._schema.name)
    return definition._init_fn if definition is not None else None


def _data_dependent(error: BaseException) -> str | None:
    """A sentence, where the launcher stopped because it asked for a value that fake tensors do not have."""
    from torch._subclasses import fake_tensor

    kinds = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
    if not isinstance(error, kinds):
        return None
    operator = str(getattr(error, "func", "")) or str(error)
    place = user_place(error)
    where = f"{operator} at {place}" if place else operator
    return f"the launcher reads a tensor's value ({where}), and here tensors have no data"


def user_place(error: BaseException) -> str:
    """``file.py:12``: the last line of the traceback outside of torch, Triton and kgate; empty without one."""
    import torch
    import triton

    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    packages = (os.path.dirname(torch.__file__), os.path.dirname(triton.__file__), own)
    foreign = tuple(f"{folder}{os.sep}" for folder in packages)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((*foreign, "<")):
            return f"{frame.filename}:{frame.lineno}"
    return ""
