"""Progress on standard error: a bar in a terminal, a line now and then in a log, nothing for a short run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

from kgate.gate.progress import Progress

PATIENCE = 1.5
"""Seconds before a phase is told at all."""
LOG_EVERY = 15.0
"""Seconds between lines in a log."""


class _Told(Progress):
    """Counts steps, and tells a phase only once it has taken a while, also one that has no steps."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.name, self.total, self.done, self.failed, self.label = "", 0, 0, 0, ""
        self.timer: threading.Timer | None = None

    def phase(self, name: str, total: int = 0) -> None:
        self.name, self.total, self.done, self.failed, self.label = name, total, 0, 0, ""
        self._rest()
        self.timer = threading.Timer(PATIENCE, self._waited)
        self.timer.daemon = True
        self.timer.start()

    def step(self, label: str, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        self.label = label
        self._stepped()

    def close(self) -> None:
        """The command is over."""
        self._rest()

    def _rest(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _waited(self) -> None:
        """The phase has taken a while."""

    def _stepped(self) -> None:
        """A step is done."""


class _Log(_Told):
    """Plain lines for a stream that is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self.last = time.monotonic()

    def note(self, text: str) -> None:
        self.stream.write(f"kgate: {text}\n")
        self.stream.flush()

    def _waited(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # the stream may be closed by now
            self.note(f"{self.name} ({self.total} cases)" if self.total else self.name)

    def _stepped(self) -> None:
        if time.monotonic() - self.last > LOG_EVERY:
            self.last = time.monotonic()
            self.note(f"{self.name}: {self.done}/{self.total}, {self.failed} failed")


class _Bar(_Told):
    """A rich bar, made only once a phase has taken a while."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self.bar: Any = None
        self.task: Any = None
        self.lock = threading.Lock()

    def note(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            self.stream.write(text + "\n")

    def close(self) -> None:
        super().close()
        with self.lock:
            if self.bar is not None:
                self.bar.stop()

    def _waited(self) -> None:
        with self.lock:
            if self.bar is None:
                self._open()
        self._stepped()

    def _stepped(self) -> None:
        if self.bar is not None:
            failed = f", {self.failed} failed" if self.failed else ""
            self.bar.update(
                self.task,
                total=self.total or None,
                completed=self.done,
                description=f"{self.name}{failed}",
                label=self.label,
            )

    def _open(self) -> None:
        from rich import progress as bars
        from rich.console import Console

        self.bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=24),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[label]}", markup=False),
            console=Console(file=self.stream),
            transient=True,
        )
        self.task = self.bar.add_task(self.name, total=None, label="")
        self.bar.start()


@contextlib.contextmanager
def progress(stream: IO[str]) -> Iterator[Progress]:
    """Progress for the time of a command, fitting to what ``stream`` is."""
    told = _Bar(stream) if stream.isatty() else _Log(stream)
    try:
        yield told
    finally:
        told.close()
