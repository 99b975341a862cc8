"""Progress: silent for a short run, told for a long one, never in the way of the report."""

from __future__ import annotations

import io
import time

import pytest

from kgate.report import progress as module
from kgate.report.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["log", "terminal"])
def test_a_short_run_says_nothing(stream: io.StringIO) -> None:
    with progress(stream) as told:
        told.phase("judging", 2)
        told.step("one")
        told.step("two", failed=True)
    assert stream.getvalue() == ""


def test_a_phase_that_takes_a_while_is_told_even_without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    stream = io.StringIO()
    with progress(stream) as told:
        told.phase("reading code")
        for _ in range(200):
            if stream.getvalue():
                break
            time.sleep(0.01)
    assert stream.getvalue() == "kgate: reading code\n"


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_EVERY", -1.0)
    stream = io.StringIO()
    with progress(stream) as told:
        told.phase("judging", 3)
        told.step("one")
        told.step("two", failed=True)
    assert stream.getvalue().splitlines() == [
        "kgate: judging: 1/3, 0 failed",
        "kgate: judging: 2/3, 1 failed",
    ]


def test_a_terminal_gets_a_bar_with_counts_and_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with progress(stream) as told:
        told.phase("judging", 3)
        for _ in range(200):
            if stream.getvalue():
                break
            time.sleep(0.01)
        told.step("rms_norm N=[odd]", failed=True)
        time.sleep(0.3)
    text = stream.getvalue()
    assert "judging" in text
    assert "1/3" in text
    assert "1 failed" in text
    assert "N=[odd]" in text
