"""Errors that end a launch under the interpreter."""

from __future__ import annotations


class KernelError(Exception):
    """A kernel failed while it ran; ``device_line`` is the (file, line) of the device code, where known."""

    def __init__(self, message: str, device_line: tuple[str, int] | None = None, kernel: str = "") -> None:
        where = f" (at {device_line[0]}:{device_line[1]})" if device_line else ""
        super().__init__(f"{message}{where}")
        self.message = message
        self.device_line = device_line
        self.kernel = kernel


class Unsupported(KernelError):
    """The kernel uses something that a CPU cannot stand in for; its cases are skipped with this reason."""


class DeviceAssert(KernelError):
    """A ``tl.device_assert``, ``tl.assume`` or ``assert`` in device code did not hold."""


class CannotLaunch(KernelError):
    """The launch itself is invalid: a grid past the hardware's limits, or a host tensor as a pointer."""
