"""Children of the worker: each may crash, hang or exit at its own cost only."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from kgate.probes.worker import endings
from kgate.probes.worker.children import Ended, Line, Nursery, send


@pytest.fixture
def nursery():
    read, write = os.pipe()
    nursery = Nursery(read)
    yield nursery
    nursery.close()
    os.close(write)
    os.close(read)


def outcome(nursery: Nursery, body, limit: float = 20.0):
    """What one child sent, and how it ended."""
    child = nursery.fork("it", body, limit=limit)
    lines = []
    for _ in range(400):
        for event in nursery.events():
            if isinstance(event, Line):
                lines.append(json.loads(event.text))
            elif event.child is child:
                return lines, event
    raise AssertionError("the child never ended")


def test_an_answer_arrives_whole(nursery):
    payload = {"text": "x" * 300_000}
    lines, ended = outcome(nursery, lambda channel: send(channel, json.dumps(payload).encode()))
    assert lines == [payload]
    assert (ended.signal, ended.status) == (0, 0)


def test_prints_do_not_reach_the_channel_and_are_kept(nursery):
    def body(channel: int) -> None:
        print("hello from user code", flush=True)
        os.write(1, b'{"id": 1, "status": "ok"}\n')

    lines, ended = outcome(nursery, body)
    assert lines == []
    assert "hello from user code" in ended.child.tail()


def test_a_segfault_names_its_signal(nursery):
    _, ended = outcome(nursery, lambda channel: ctypes.string_at(0))
    answer = endings.answer_for(ended, "the case", "/nowhere")
    assert answer["status"] == "crash"
    assert "SIGSEGV" in answer["message"]


def test_a_crash_of_the_stack_dump_of_a_case_that_is_late_is_a_hang(nursery):
    # faulthandler reads the stack of a thread that goes on running
    def body(channel: int) -> None:
        os.write(2, b"Timeout (0:00:02)!\nThread 0x00007f0000000000 (most recent call first):\n")
        ctypes.string_at(0)

    _, ended = outcome(nursery, body)
    answer = endings.answer_for(ended, "the case", "/nowhere")
    assert answer["status"] == "hang"
    assert "did not finish" in answer["message"]


def test_a_hang_is_killed_with_what_it_started(nursery):
    def body(channel: int) -> None:
        started = subprocess.Popen(["sleep", "600"])
        send(channel, json.dumps(started.pid).encode())
        while True:
            time.sleep(1)

    (pid,), ended = outcome(nursery, body, limit=1.0)
    answer = endings.answer_for(ended, "the case", "/nowhere")
    assert answer["status"] == "hang"
    assert "within 1 s" in answer["message"]
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    raise AssertionError("the grandchild outlived the case")


def test_leaving_without_an_answer_names_the_exit_status(nursery):
    _, ended = outcome(nursery, lambda channel: os._exit(7))
    answer = endings.answer_for(ended, "the case", "/nowhere")
    assert answer["status"] == "crash"
    assert "exit status 7" in answer["message"]


def test_an_exception_never_returns_into_the_parent(nursery):
    def body(channel: int) -> None:
        raise KeyError("lost")

    _, ended = outcome(nursery, body)
    assert ended.status == 70
    assert "KeyError" in ended.child.tail()


def test_the_end_of_the_commands_is_reported():
    read, write = os.pipe()
    nursery = Nursery(read)
    os.close(write)
    events = [event for _ in range(3) for event in nursery.events()]
    assert Ended(None) in events
    nursery.close()
    os.close(read)


def test_memory_exhaustion_is_called_that():
    assert endings.describe(MemoryError()).startswith("out of memory")
    assert endings.describe(RuntimeError("DefaultCPUAllocator: can't allocate memory")).startswith("out of memory")
