"""Runs Triton launchers on CPU tensors, with the hardware's arithmetic and every memory access checked.

Call :func:`install` once per process, before the first import of triton or of the code under test. Then::

    with run({"x": x}) as log:
        y = launcher(x)
        log.check_outputs(y)
    log.violations, log.launches, log.notes
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kgate.probes.interpreter.errors import CannotLaunch, DeviceAssert, KernelError, Unsupported
from kgate.probes.interpreter.records import (
    INT32_OVERFLOW,
    OUT_OF_BOUNDS,
    STORE_CONFLICT,
    UNINITIALISED_READ,
    UNWRITTEN_OUTPUT,
    LaunchRecord,
    Log,
    Violation,
)

__all__ = [
    "INT32_OVERFLOW",
    "OUT_OF_BOUNDS",
    "STORE_CONFLICT",
    "UNINITIALISED_READ",
    "UNWRITTEN_OUTPUT",
    "CannotLaunch",
    "DeviceAssert",
    "KernelError",
    "LaunchRecord",
    "Log",
    "Unsupported",
    "Violation",
    "configs",
    "install",
    "installed",
    "real_devices",
    "run",
    "set_multiprocessors",
    "use_config",
]

_installed: Any = None


def installed() -> str | None:
    """Return the target that this process stands in for, or None before :func:`install`."""
    return None if _installed is None else str(_installed.target)


def install(*, target: str = "cuda:sm_90") -> None:
    """Turn this process into one that runs Triton kernels on CPU tensors as if on ``target``.

    ``target`` is a concrete one (``cuda:sm_90``, ``hip:gfx942``). Call it before any user module is imported: what
    ``@triton.jit`` makes, and module constants that depend on the device, are fixed at import. Forks inherit it.
    A second call with the same target does nothing. Raises ValueError for a target it does not know, RuntimeError
    where triton was imported for compiling, or where the process stands in for another target already.
    """
    global _installed
    if _installed is not None:
        if _installed.target == target:
            return
        raise RuntimeError(f"this process stands in for {_installed.target}; start another one for {target}")
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # blocks are small, and several workers share the cores
    os.environ.setdefault("GEMS_VENDOR", "amd" if target.startswith("hip:") else "nvidia")
    already = sys.modules.get("triton.language")
    if already is not None and type(already.sum).__name__ != "InterpretedFunction":
        raise RuntimeError("triton was imported before install(); call install() first, in a fresh process")
    from kgate.probes.interpreter import autotune, device, launch

    stand_in = device.Device(target)
    stand_in.install()
    from triton.runtime.driver import driver

    driver.set_active(device.Driver(stand_in))
    launch.install(
        {
            "debug": True,
            "sanitize_overflow": False,
            "arch": stand_in.arch,
            "default_dot_input_precision": "tf32" if stand_in.kind == "cuda" else "ieee",
            "allowed_dot_input_precisions": stand_in.dot_precisions,
        }
    )
    autotune.install()
    _installed = stand_in


@contextlib.contextmanager
def run(
    tensors: Mapping[str, Any] | Sequence[Any] = (),
    *,
    poison: bool = True,
    overflow: bool = False,
    permute: bool = False,
    uninitialised: Sequence[str] = (),
    seed: int = 0,
) -> Iterator[Log]:
    """Watch what launchers do inside the block; yields the :class:`Log`.

    ``tensors``: the arguments by name (values that are no tensors are ignored; lists are walked), for messages, and so
    that pointers passed as integers are known. ``poison``: masked-off loads without ``other`` and the contents of
    ``torch.empty`` read as NaN or the largest integer, else zero and whatever was there. ``overflow``: report 32-bit
    offsets that wrap around (slower). ``permute``: run the programs of each launch in an order drawn from ``seed``.
    ``uninitialised``: names among ``tensors`` of output buffers whose contents must not matter; they are filled with
    poison and followed like ``torch.empty``.
    Raises RuntimeError before :func:`install`, or where a run is active already.
    """
    if _installed is None:
        raise RuntimeError("call kgate.probes.interpreter.install() before run()")
    import torch

    from kgate.probes.interpreter import device, launch
    from kgate.probes.interpreter.memory import Space
    from kgate.probes.interpreter.records import flatten

    state = launch.STATE
    if state.space is not None:
        raise RuntimeError("a run is active in this process already")
    device.enter_mode()
    log = Log()
    space = Space(log, poison=poison, overflow=overflow)
    named = dict(tensors) if isinstance(tensors, Mapping) else {f"argument {i}": t for i, t in enumerate(tensors)}
    with torch._C.DisableTorchFunction():
        for name, leaf in flatten(named):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and leaf.layout is torch.strided:
                space.name(leaf, name)
                if name in uninitialised:
                    space.uninitialised(leaf, name, whole=False)

    def fresh(tensor: Any) -> None:
        if tensor.device.type == "cpu" and tensor.layout is torch.strided:
            space.uninitialised(tensor)

    state.space, state.permute, state.seed = space, permute, seed
    device.HOOKS.empty, device.HOOKS.wrote, device.HOOKS.note = fresh, space.written_by_torch, log.note
    try:
        yield log
    finally:
        state.space, state.permute = None, False
        device.HOOKS.empty = device.HOOKS.wrote = device.HOOKS.note = None


def configs(fn: Any) -> list[Any]:
    """Return the ``triton.Config`` objects of an autotuned kernel, in order; empty for any other kernel."""
    from kgate.probes.interpreter import autotune

    return autotune.configs(fn)


def use_config(index: int | Mapping[str, int]) -> contextlib.AbstractContextManager[None]:
    """Run autotuned kernels with configuration ``index`` (one number, or a mapping by device function name)."""
    from kgate.probes.interpreter import autotune

    return autotune.use_config(index)


def real_devices() -> contextlib.AbstractContextManager[None]:
    """Let torch tell the truth about devices (CPU) inside the block."""
    from kgate.probes.interpreter import device

    return device.real_devices()


def set_multiprocessors(count: int | None) -> None:
    """Answer queries for the number of multiprocessors with ``count``; None for the target's own."""
    if _installed is None:
        raise RuntimeError("call kgate.probes.interpreter.install() before set_multiprocessors()")
    _installed.processors = _installed.facts.processors if count is None else count
