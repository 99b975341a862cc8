"""Liger-Kernel's operators under the interpreter, where an unzipped wheel is at hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "liger_interpreter.py"
FOLDER = os.environ.get("KGATE_LIGER", "")


@pytest.mark.skipif(not FOLDER, reason="KGATE_LIGER names no unzipped liger-kernel==0.8.5 wheel")
def test_liger_operators_agree_with_float64_in_every_dtype() -> None:
    command = [sys.executable, str(BENCHMARK), FOLDER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.endswith("  ok")]
    operators = {line.split()[0] for line in lines}
    assert len(operators) >= 15
    for dtype in ("float32", "float16", "bfloat16"):
        assert {line.split()[0] for line in lines if line.split()[1] == dtype} == operators
