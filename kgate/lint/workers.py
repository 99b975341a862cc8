"""Work shared by forked processes: numbers handed out through a pipe, results given as they come, none left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
from collections.abc import Callable, Iterator

_TICKETS = 8192
"""Numbers that fit into a pipe at once; each stands for all that lie a multiple of this apart."""
_NUMBER = 4
_HEAD = 2 * _NUMBER


def available() -> bool:
    """Whether processes can be forked here."""
    return hasattr(os, "fork") and hasattr(select, "poll")


def shared(work: Callable[[int], bytes], count: int, processes: int) -> Iterator[tuple[int, bytes]]:
    """Each number below ``count`` with what ``work`` makes of it in one of several processes, as it is done.

    Low numbers are begun first. What a process had taken that died, or whose ``work`` raised, is left out: whoever asks
    does it anew, and meets the same error where it can be seen. The processes end with the iterator, and with the
    process that made them.
    """
    tickets = _tickets(count)
    children: dict[int, int] = {}
    try:
        for _ in range(processes):
            children.update([_fork(work, tickets, count, list(children))])
        os.close(tickets)
        tickets = -1
        yield from _results(children)
    finally:
        if tickets >= 0:
            os.close(tickets)
        for stream, pid in children.items():
            os.close(stream)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _tickets(count: int) -> int:
    """A pipe to read numbers from, each of which one reader gets."""
    read, write = os.pipe()
    os.write(write, b"".join(at.to_bytes(_NUMBER, "little") for at in range(min(count, _TICKETS))))
    os.close(write)
    return read


def _fork(work: Callable[[int], bytes], tickets: int, count: int, others: list[int]) -> tuple[int, int]:
    """Start a process; the stream of its results, and its id."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return read, pid
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted ends it
        gc.freeze()  # what is shared stays shared
        for stream in (read, *others):
            os.close(stream)
        while ticket := os.read(tickets, _NUMBER):
            for at in range(int.from_bytes(ticket, "little"), count, _TICKETS):
                body = work(at)
                _write(write, at.to_bytes(_NUMBER, "little") + len(body).to_bytes(_NUMBER, "little") + body)
        code = 0
    finally:
        os._exit(code)  # nothing of what the parent would do on its way out


def _write(stream: int, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(stream, rest) :]


def _results(children: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    waiting = select.poll()
    buffers = {stream: bytearray() for stream in children}
    for stream in buffers:
        waiting.register(stream, select.POLLIN | select.POLLHUP)
    while buffers:
        for stream, _ in waiting.poll():
            piece = os.read(stream, 1 << 20)
            if not piece:
                waiting.unregister(stream)
                del buffers[stream]
                continue
            buffer = buffers[stream]
            buffer += piece
            yield from _frames(buffer)


def _frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """The complete results at the start of a buffer, which are taken out."""
    start = 0
    while len(buffer) - start >= _HEAD:
        body = start + _HEAD
        end = body + int.from_bytes(buffer[start + _NUMBER : body], "little")
        if len(buffer) < end:
            break
        yield int.from_bytes(buffer[start : start + _NUMBER], "little"), bytes(buffer[body:end])
        start = end
    del buffer[:start]
