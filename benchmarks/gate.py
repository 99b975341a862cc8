"""How long a user waits: start-up, a check with nothing affected, with one kernel affected, and of the whole corpus.

Usage: ``.venv/bin/python benchmarks/gate.py``. Everything is measured side by side in one run, in a clone of the corpus
with nothing remembered; compare the ratios, not the times. Start-up needs hyperfine on PATH. Peak memory is the largest
sum of proportional set sizes (shared pages counted once) over the process tree, sampled every quarter second.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KGATE = [sys.executable, "-m", "kgate"]


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        env = _clone(clone)
        _start_up(clone, env)
        _runs(clone, env)


def _clone(clone: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") and name != "CI"}
    env.update(KGATE_PYTHON=sys.executable, PYTHONPATH=str(ROOT))
    for part in ("kernels", "baselines"):
        shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", clone)
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *name, *command], cwd=clone, env=env, check=True)
    return env


def _start_up(clone: Path, env: dict[str, str]) -> None:
    if shutil.which("hyperfine") is None:
        print("start-up: not measured, hyperfine is not on PATH")
        return
    commands = {
        "bare Python": f"{sys.executable} -c pass",
        "import kgate": f"{sys.executable} -c 'import kgate'",
        "from kgate import kernel, Envelope": f"{sys.executable} -c 'from kgate import kernel, Envelope'",
        "kgate --help": " ".join([*KGATE, "--help"]),
        "kgate lint": " ".join([*KGATE, "lint"]),
        "kgate check, nothing affected": " ".join([*KGATE, "check"]),
    }
    out = clone.parent / "start.json"
    options = ["--shell=none", "--warmup", "2", "--runs", "15", "--export-json", str(out), "--style", "none"]
    named = [item for name, command in commands.items() for item in ("-n", name, command)]
    subprocess.run(["hyperfine", *options, *named], cwd=clone, env=env, check=True, capture_output=True)
    results = json.loads(out.read_text())["results"]
    bare = results[0]["median"]
    for result in results:
        ratio, spread = result["median"] / bare, result["stddev"] / bare
        print(f"{result['command']:<36} {ratio:6.1f} x bare Python (standard deviation {spread:.1f})")


def _runs(clone: Path, env: dict[str, str]) -> None:
    bare = _seconds([sys.executable, "-c", "import torch, triton"], clone, env)[0]
    print(f"import torch, triton: 1.0 (the unit below, {bare:.1f} s here)")
    config = clone / "kernels" / "elementwise" / "_config.py"
    text = config.read_text()
    config.write_text(re.sub(r"(?m)^TILE_ELEMENTS = .*", "TILE_ELEMENTS = 1024", text))
    _tell("one kernel affected (swiglu, both probes, four targets)", [*KGATE, "check", "--no-memory"], clone, env, bare)
    config.write_text(text)
    _tell("whole corpus, nothing remembered", [*KGATE, "check", "--all", "--no-memory"], clone, env, bare)
    subprocess.run([*KGATE, "check", "--all"], cwd=clone, env=env, check=False, capture_output=True)
    _tell("whole corpus, remembered", [*KGATE, "check", "--all"], clone, env, bare)


def _tell(name: str, command: list[str], clone: Path, env: dict[str, str], unit: float) -> None:
    seconds, peak, last = _seconds(command, clone, env)
    print(f"{name}: {seconds / unit:.1f}, peak {peak} MiB: {last}")


def _seconds(command: list[str], clone: Path, env: dict[str, str]) -> tuple[float, int, str]:
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, cwd=clone, env=env, stdout=out, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _proportional(process.pid))
            time.sleep(0.25)
        taken = time.monotonic() - began
        out.seek(0)
        lines = out.read().strip().splitlines()
    return taken, peak // 1024, lines[-1] if lines else ""


def _proportional(root: int) -> int:
    """Proportional set size of a process and all that it started, in KiB."""
    parents: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    total = 0
    for pid in parents:
        at: int | None = pid
        while at and at != root:
            at = parents.get(at)
        if at == root:
            total += _pss(pid)
    return total


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"(?m)^Pss:\s+(\d+)", text)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
