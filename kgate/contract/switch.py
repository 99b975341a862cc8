"""The switch that sends kernels' calls past the dispatch: `KGATE_DISPATCH=off`, and `launcher_only()`."""

from __future__ import annotations

import os
from _thread import allocate_lock


class Switch:
    """Whether calls pass by the check; one for the process, since autograd has threads of its own."""

    __slots__ = ("bypass",)

    def __init__(self, bypass: int) -> None:
        self.bypass = bypass


SWITCH = Switch(1 if os.environ.get("KGATE_DISPATCH", "").lower() == "off" else 0)
"""`bypass` above 0 sends every kernel's call straight to its launcher."""
_LOCK = allocate_lock()


class launcher_only:
    """Context manager inside which every kernel's call goes straight to its launcher, in all threads.

    Probes need this: a CPU tensor is outside an envelope for `cuda:*`, so that the dispatch would hand it to
    the fallback and a broken kernel would pass.
    """

    def __enter__(self) -> None:
        with _LOCK:
            SWITCH.bypass += 1

    def __exit__(self, *exc: object) -> None:
        with _LOCK:
            SWITCH.bypass -= 1
