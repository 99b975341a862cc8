"""Progress on standard error: a bar in a terminal, a line now and then in a log, nothing for a short run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import IO, Any

from kgate.gate.progress import Progress

QUIET_SECONDS = 1.0
LOG_EVERY = 15.0


class _Log(Progress):
    """Plain lines for a stream that is not a terminal; silent until something takes time."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.total, self.done, self.failed = stream, 0, 0, 0
        self.last = time.monotonic()
        self.name = ""

    def phase(self, name: str, total: int = 0) -> None:
        self.name, self.total, self.done, self.failed = name, total, 0, 0

    def step(self, label: str, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        if time.monotonic() - self.last > LOG_EVERY:
            self.last = time.monotonic()
            self.stream.write(f"kgate: {self.name}: {self.done}/{self.total}, {self.failed} failed\n")
            self.stream.flush()

    def note(self, text: str) -> None:
        self.stream.write(f"kgate: {text}\n")
        self.stream.flush()


class _Bar(Progress):
    """A rich bar, made only once something takes longer than a second."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.bar, self.task = stream, None, None
        self.began = time.monotonic()
        self.name, self.total, self.done, self.failed = "", 0, 0, 0

    bar: Any
    task: Any

    def phase(self, name: str, total: int = 0) -> None:
        self.name, self.total, self.done, self.failed = name, total, 0, 0
        self._draw("")

    def step(self, label: str, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        self._draw(label)

    def note(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            self.stream.write(text + "\n")

    def _draw(self, label: str) -> None:
        if self.bar is None:
            if self.total == 0 and time.monotonic() - self.began < QUIET_SECONDS:
                return
            self._open()
        failed = f", {self.failed} failed" if self.failed else ""
        self.bar.update(
            self.task,
            total=self.total or None,
            completed=self.done,
            description=f"{self.name}{failed}",
            label=label,
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

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


@contextlib.contextmanager
def progress(stream: IO[str]) -> Iterator[Progress]:
    """Progress for the time of a command, fitting to what ``stream`` is."""
    if not stream.isatty():
        yield _Log(stream)
        return
    bar = _Bar(stream)
    try:
        yield bar
    finally:
        bar.close()
