"""CPU time of ``kgate lint`` per 1,000 lines, beside ruff's on the same trees: cold, warm, and one file in a process.

    python benchmarks/lint.py TREE...

Each TREE is a folder of Python packages (unpacked wheels: liger-kernel, fla-core, flag-gems,
tokenspeed-triton-kernels). It is copied into a git repository, so that facts can be remembered. CPU time is user and
system time of the process and its children.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
RUNS = 5


def main() -> None:
    """Measure every tree, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each command; the least is shown")
    options = parser.parse_args()
    heads = ("lines", "kgate cold", "kgate warm", "one edited", "ruff cold", "ruff warm", "700 lines, ms")
    print(f"{'CPU ms per 1,000 lines':<24}" + "".join(f"{head:>15}" for head in heads))
    for tree in options.trees:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(tree, Path(folder), options.runs))


def measure(tree: Path, folder: Path, runs: int) -> str:
    """One row of the table."""
    top = folder / "tree"
    shutil.copytree(tree, top, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    (top / ".gitignore").write_text(".kgate/\n.ruff_cache/\n")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "tree")
    files = sorted(top.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    kgate = [
        str(BIN / "kgate"),
        "lint",
        "--exit-zero",
        "--select",
        "ALL",
        "--format",
        "json",
        "-o",
        str(folder / "out"),
    ]
    ruff = [str(BIN / "ruff"), "check", "--exit-zero", "--quiet", "--select", "E,F,B,UP,SIM", "--isolated", "."]
    scale = 1e6 / lines
    cold = min(cpu(kgate, top, lambda: forget(top)) for _ in range(runs)) * scale
    warm = min(cpu(kgate, top) for _ in range(runs)) * scale
    edited = min(cpu(kgate, top, lambda: touch(files)) for _ in range(runs)) * scale
    ruff_cold = min(cpu([*ruff, "--no-cache"], top) for _ in range(runs)) * scale
    ruff_warm = min(cpu(ruff, top) for _ in range(runs + 1)) * scale
    inside = in_process(files)
    figures = (cold, warm, edited, ruff_cold, ruff_warm, inside)
    return f"{tree.name:<24}{lines:>15}" + "".join(f"{figure:>15.2f}" for figure in figures)


def forget(top: Path) -> None:
    """Remove everything that kgate remembers."""
    shutil.rmtree(top / ".kgate", ignore_errors=True)


def touch(files: list[Path]) -> None:
    """Change one file of average size, so that its content is new."""
    size = statistics.median(path.stat().st_size for path in files)
    path = min(files, key=lambda item: abs(item.stat().st_size - size))
    path.write_text(path.read_text() + f"# {time.time_ns()}\n")


def cpu(command: list[str], folder: Path, before: object = None) -> float:
    """CPU seconds of a command and its children."""
    if callable(before):
        before()
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def in_process(files: list[Path]) -> float:
    """Milliseconds to analyse a file of about 700 lines in a process that runs already; the median of several."""
    from kgate.lint.analysis import analyse

    kernels = [path for path in files if b"triton.jit" in path.read_bytes()]
    path = min(kernels, key=lambda item: abs(item.read_bytes().count(b"\n") - 700))
    raw = path.read_bytes()
    taken = []
    for _ in range(9):
        start = time.perf_counter()
        analyse(path.name, raw)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[2:]) * 1e3


def git(top: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", *arguments], cwd=top, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
