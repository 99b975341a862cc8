"""However a run ends, nothing of it stays behind, and who killed the worker is told from who was beside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgate.cases import parse_case
from kgate.probes.workers import Job, run_jobs

sys.path.insert(0, str(Path(__file__).parent))
from worker_tree import RMS, rms, write

HERE = Path(__file__).parent
PLAIN, TAIL = "M=2,N=64,T=float32", "M=2,N=67,T=float32"
CONTROLLER = """
import sys
sys.path[:0] = [{repository!r}, {here!r}]
from worker_tree import rms
from kgate.cases import parse_case
from kgate.probes.workers import Job, run_jobs
declared = rms("hangs")
run_jobs([Job(declared, parse_case(declared, {case!r}), "accuracy", "cuda:sm_90", 300.0)],
         tree={tree!r}, python=sys.executable)
"""


def processes(tree: Path) -> list[int]:
    """Workers of this tree: a fork has its parent's command line, which names the tree."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line, state = (
                    (entry / "cmdline").read_bytes(),
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[0],
                )
            except OSError:
                continue
            if b"bootstrap.py" in line and os.fsencode(str(tree)) in line and state != "Z":
                found.append(int(entry.name))
    return found


def until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running_when_the_controller_ends(tmp_path, how):
    began = tmp_path / "began"
    write(
        tmp_path,
        "hangs",
        RMS,
        ("    if M:\n", f"    open({str(began)!r}, 'w').close()\n    while True: pass\n    if M:\n"),
    )
    script = CONTROLLER.format(repository=str(HERE.parents[1]), here=str(HERE), case=PLAIN, tree=str(tmp_path))
    controller = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    try:
        assert until(began.exists)
        assert len(processes(tmp_path)) >= 4
        controller.send_signal(how)
        controller.wait(timeout=30)
        assert until(lambda: not processes(tmp_path), 20), processes(tmp_path)
    finally:
        controller.kill()
        controller.wait()


def test_a_case_that_kills_the_worker_is_told_from_the_cases_beside_it(tmp_path):
    write(tmp_path, "kills", RMS, ("    if M:\n", "    if N == 67:\n        os.kill(os.getsid(0), 9)\n    if M:\n"))
    write(tmp_path, "right", RMS)
    jobs = []
    for module, texts in (("kills", (TAIL, PLAIN)), ("right", (PLAIN, TAIL))):
        declared = rms(module)
        jobs += [Job(declared, parse_case(declared, text), "accuracy", "cuda:sm_90", 30.0) for text in texts]
    results = run_jobs(jobs, tree=tmp_path, python=sys.executable)
    assert [result.status for result in results] == ["crash", "ok", "ok", "ok"]
    assert "the worker process died" in results[0].message
