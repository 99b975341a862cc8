"""What a run under the interpreter found: violations, launches, and the log that collects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

OUT_OF_BOUNDS = "out-of-bounds"
UNINITIALISED_READ = "uninitialised-read"
UNWRITTEN_OUTPUT = "unwritten-output"
INT32_OVERFLOW = "int32-overflow"
STORE_CONFLICT = "store-conflict"


@dataclass(frozen=True)
class Violation:
    """One thing that a kernel must not do, where it first happened, and how often."""

    kind: str
    """``out-of-bounds``, ``uninitialised-read``, ``unwritten-output``, ``int32-overflow`` or ``store-conflict``."""
    message: str
    """One sentence that names the argument, the element and the limit."""
    device_line: tuple[str, int] | None
    """File and line of the device code; None where no device line is to blame."""
    argument: str
    """Name of the tensor, as the launcher was given it or as the kernel's parameter is called."""
    index: int | None
    """Element index, counted from the tensor's first element; None where there is none."""
    count: int = 1
    """How many lanes did the same at the same place."""


@dataclass(frozen=True)
class LaunchRecord:
    """One kernel launch."""

    kernel: str
    """Name of the device function."""
    grid: tuple[int, int, int]
    """Programs along each axis."""
    constants: dict[str, Any] = field(default_factory=dict)
    """The values of the ``tl.constexpr`` parameters."""
    options: dict[str, Any] = field(default_factory=dict)
    """``num_warps`` and the other launch options that were given."""
    site: tuple[str, int] = ("", 0)
    """File and first line of the device function."""


class Log:
    """Collects the violations, launches and notes of one run.

    Violations of one kind, at one device line and on one argument are one entry that counts lanes.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Violation] = {}
        self.launches: list[LaunchRecord] = []
        self.notes: list[str] = []
        self._outputs: Any = None

    @property
    def violations(self) -> list[Violation]:
        """Everything found so far, in the order of first occurrence."""
        return list(self._found.values())

    def add(
        self,
        kind: str,
        message: str,
        *,
        device_line: tuple[str, int] | None = None,
        argument: str = "",
        index: int | None = None,
        count: int = 1,
    ) -> None:
        """Record a violation, or add to the count of the one that it repeats."""
        key = (kind, device_line, argument)
        known = self._found.get(key)
        if known is not None:
            message, index, count = known.message, known.index, known.count + count
        self._found[key] = Violation(kind, message, device_line, argument, index, count)

    def note(self, text: str) -> None:
        """Record once what could not be honoured on a CPU."""
        if text not in self.notes:
            self.notes.append(text)

    def check_outputs(self, outputs: Any) -> list[Violation]:
        """Judge what the launcher returned: every element of a tensor that came from ``torch.empty`` must be written.

        ``outputs`` is the launcher's result: a tensor, or tuples, lists and dicts of tensors (others are ignored).
        Returns the ``unwritten-output`` violations, which are also added to ``violations``.
        """
        before = set(self._found)
        if self._outputs is not None:
            self._outputs(outputs)
        return [v for key, v in self._found.items() if key not in before]


def flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Walk tuples, lists and dicts, yielding each leaf with the path that leads to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from flatten(item, f"{name}[{number}]")
    else:
        yield name, value
