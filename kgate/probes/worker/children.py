"""Forked children that may crash, hang or exit: started, listened to, timed and buried one by one."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import select
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

_POLL = 0.25
_SOON = 0.002
"""How long to wait (seconds) for a child to end that has closed its channel."""
_TAIL = 4000
_DIE_WITH_PARENT = 1


class Lines:
    """Splits what arrives on one descriptor into lines."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> tuple[list[bytes], bool]:
        """Complete lines that have arrived, and whether the other end is closed."""
        try:
            chunk = os.read(self.descriptor, 1 << 16)
        except OSError:
            return [], True
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines, not chunk


def send(descriptor: int, line: bytes) -> None:
    """Write one whole line; the other end may already be gone."""
    data = memoryview(line.rstrip(b"\n") + b"\n")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except (BrokenPipeError, ConnectionResetError):
        return


@dataclass
class Child:
    """One forked process and the channel to it."""

    key: Any
    pid: int
    channel: socket.socket
    lines: Lines
    log: IO[bytes]
    started: float
    limit: float | None
    late: bool = False
    """Whether it was killed for being late."""
    closed: bool = False
    """Whether its end of the channel is closed."""
    meta: dict[str, Any] = field(default_factory=dict)

    def tail(self, size: int = _TAIL) -> str:
        """The end of what it printed, so many bytes."""
        self.log.seek(0, os.SEEK_END)
        self.log.seek(max(self.log.tell() - size, 0))
        return self.log.read().decode("utf-8", "replace")

    def kill(self) -> None:
        """End it and its process group."""
        self.sweep()
        os.kill(self.pid, signal.SIGKILL)  # not yet waited for, so the number is still its own

    def sweep(self) -> None:
        """End what is left of its process group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


@dataclass(frozen=True)
class Line:
    """A line from a child, or from the commands where ``child`` is None."""

    child: Child | None
    text: bytes


@dataclass(frozen=True)
class Ended:
    """A child that is gone, or the commands' end where ``child`` is None."""

    child: Child | None
    signal: int = 0
    status: int = 0


class Nursery:
    """The children of one process, and the descriptor its commands arrive on."""

    def __init__(self, commands: int) -> None:
        self.commands = Lines(commands)
        self.children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(commands, selectors.EVENT_READ, None)

    def fork(self, key: Any, body: Callable[[int], None], *, limit: float | None) -> Child:
        """Run ``body(channel descriptor)`` in a forked child that must answer within ``limit`` seconds."""
        ours, theirs = socket.socketpair()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become(body, ours, theirs, log)
        theirs.close()
        child = Child(key, pid, ours, Lines(ours.fileno()), log, time.monotonic(), limit)
        self.children.append(child)
        self._selector.register(ours, selectors.EVENT_READ, child)
        return child

    def _become(self, body: Callable[[int], None], ours: socket.socket, theirs: socket.socket, log: IO[bytes]) -> None:
        status = 70
        try:
            ours.close()
            os.close(self.commands.descriptor)
            for sibling in self.children:
                sibling.channel.close()
            self._selector.close()
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            sys.stdout = open(1, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
            faulthandler.enable(file=2)
            body(theirs.fileno())
            status = 0
        except BaseException:  # the child must never return into its parent's loop
            sys.excepthook(*sys.exc_info())
        finally:
            _flush()
            os._exit(status)

    def events(self) -> Iterator[Line | Ended]:
        """What happened since the last call; waits a moment where nothing has."""
        for ready, _ in self._selector.select(self._patience()):
            child: Child | None = ready.data
            lines = self.commands if child is None else child.lines
            texts, closed = lines.read()
            yield from (Line(child, text) for text in texts)
            if closed:
                self._selector.unregister(lines.descriptor)
                if child is None:
                    yield Ended(None)
                else:
                    child.closed = True
        for child in list(self.children):
            yield from self._check(child)

    def _patience(self) -> float:
        if any(child.closed for child in self.children):
            return _SOON
        ends = [child.started + child.limit for child in self.children if child.limit is not None]
        return max(min([_POLL, *(end - time.monotonic() for end in ends)]), 0.0)

    def _check(self, child: Child) -> Iterator[Line | Ended]:
        if child.limit is not None and time.monotonic() > child.started + child.limit:
            child.late = True
            child.kill()
        pid, status = os.waitpid(child.pid, 0 if child.late else os.WNOHANG)
        if pid == 0:
            return
        closed = child.closed
        if not closed:
            self._selector.unregister(child.channel)
        while not closed and select.select([child.channel], [], [], 0)[0]:
            texts, closed = child.lines.read()
            yield from (Line(child, text) for text in texts)
        self.children.remove(child)
        child.sweep()
        child.channel.close()
        signaled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        yield Ended(child, signaled, os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0)

    def close(self) -> None:
        """End every child."""
        for child in self.children:
            child.kill()
            os.waitpid(child.pid, 0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
