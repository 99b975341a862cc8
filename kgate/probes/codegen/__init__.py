"""The codegen probe's worker side: a fake device, launches captured on it, and their compiled code counted.

In a process of its own, one per target::

    from kgate.probes import codegen

    codegen.install("cuda:sm_90")            # before any user module is imported
    from project.kernels import launcher
    with codegen.fake_tensors():
        x = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
        answer = codegen.probe(launcher, (x,), {}, "cuda:sm_90")

Imports of torch and Triton wait until ``install`` is called.
"""

from __future__ import annotations

import os

from kgate.probes.codegen.capturing import Capture, Launch, capture
from kgate.probes.codegen.devices import UnknownTarget, device
from kgate.probes.codegen.fakedevice import fake_tensors
from kgate.probes.codegen.measuring import Measured, measure
from kgate.probes.codegen.probing import probe

__all__ = [
    "Capture",
    "Launch",
    "Measured",
    "UnknownTarget",
    "capture",
    "fake_tensors",
    "install",
    "measure",
    "probe",
    "require",
    "toolchain",
]

_installed: list[str] = []


def install(target: str) -> None:
    """Fake the device of ``target`` (``cuda:sm_90``) in this process, before user modules are imported.

    Raises UnknownTarget for a target that the table of devices lacks, RuntimeError where another one is
    installed already.
    """
    spec = device(target)
    if _installed:
        require(target)
        return
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # paths and line numbers would enter the compiled code
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # torch.compile would hide the launches
    from kgate.probes.codegen import compiler, driver, fakedevice

    fakedevice.install(spec)
    driver.install(spec)
    compiler.install()
    compiler.toolchain(spec.backend, spec.arch)  # a Triton without its assembler is no kernel's fault: it shows here
    _installed.append(target)


def require(target: str) -> None:
    """Raise RuntimeError unless ``install(target)`` was called in this process."""
    if _installed != [target]:
        found = _installed[0] if _installed else "none"
        raise RuntimeError(f"this process must be installed for {target}; installed: {found}")


def toolchain() -> dict[str, str]:
    """Versions of what decides the figures here: triton, and ptxas on NVIDIA targets."""
    if not _installed:
        raise RuntimeError("call install(target) first: the assembler depends on the target")
    from kgate.probes.codegen import compiler

    spec = device(_installed[0])
    return compiler.toolchain(spec.backend, spec.arch)
