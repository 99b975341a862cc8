"""The tour, fourth part: kernels that hang, crash or write out of bounds; the others are judged all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gate.conftest import Clone, plain_environment

KERNEL = """\
import ctypes
import torch
import triton
import triton.language as tl
from kgate import Dim, Envelope, Numerics, Tensor, kernel

def plain(x):
    return x + 1

@triton.jit
def _{name}(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x + 1, mask={mask})

@kernel(
    reference=plain,
    fallback=plain,
    envelope=Envelope(
        inputs={{"x": Tensor("N", "T", layout="contiguous")}},
        outputs={{"y": Tensor("N", "T", numerics=Numerics())}},
        dtypes={{"T": ("float32",)}},
        dims={{"N": Dim(1, 5000)}},
        targets=("cuda:sm_90",),
    ),
)
def {name}(x):
    n = x.shape[0]
    {before}
    y = torch.empty_like(x)
    _{name}[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
    return y
"""

HOSTILE = {
    "sound": ("offs < n", "pass"),
    "hangs": ("offs < n", "while n > 4000: pass"),
    "crashes": ("offs < n", "ctypes.string_at(0) if n > 4000 else None"),
    "leaves": ("offs < n", "import os; os._exit(3) if n > 4000 else None"),
    "strays": ("offs < n + 1", "pass"),
    "raises": ("offs < n", "assert n < 4000, 'too long'"),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Clone:
    path = tmp_path / "hostile"
    (path / "ops").mkdir(parents=True)
    for name, (mask, before) in HOSTILE.items():
        (path / "ops" / f"{name}.py").write_text(KERNEL.format(name=name, mask=mask, before=before))
    (path / "pyproject.toml").write_text("[tool.kgate]\ncase-timeout = 10\nprobe-targets = ['cuda:sm_90']\n")
    clone = Clone(path, plain_environment())
    clone.git("init", "-q", "-b", "main")
    clone.commit("start")
    return clone


def test_each_way_of_going_wrong_is_its_own_finding_and_the_others_are_judged(hostile: Any) -> None:
    code, report, told = hostile.check("--all", "--probe", "accuracy")
    assert code == 1, told
    found = {(v["name"], f["status"]) for v in report["verdicts"] for f in v["failing"]}
    assert found == {
        ("hangs", "hang"),
        ("crashes", "crash"),
        ("leaves", "crash"),
        ("strays", "out-of-bounds"),
        ("raises", "error"),
    }
    verdicts = {v["name"]: v for v in report["verdicts"]}
    assert verdicts["sound"]["verdict"] == "pass"
    assert "10" in verdicts["hangs"]["failing"][0]["message"]
    assert "SIGSEGV" in verdicts["crashes"]["failing"][0]["message"]
    assert "too long" in verdicts["raises"]["failing"][0]["message"]
    assert verdicts["strays"]["shared"].startswith("N % 64 != 0")
    assert report["not_run"] == 0


def test_a_module_that_cannot_be_imported_fails_its_kernel_alone(hostile: Any) -> None:
    broken = hostile.path / "ops" / "raises.py"
    broken.write_text(broken.read_text() + "\nraise RuntimeError('no such device')\n")
    for name in ("hangs", "crashes", "leaves", "strays"):
        (hostile.path / "ops" / f"{name}.py").unlink()
    code, report, _ = hostile.check("--all", "--probe", "accuracy")
    assert code == 1
    verdicts = {v["name"]: v for v in report["verdicts"]}
    assert verdicts["sound"]["verdict"] == "pass"
    assert "no such device" in verdicts["raises"]["failing"][0]["message"]


def test_a_python_without_torch_is_an_infrastructure_failure_with_a_remedy(hostile: Any, tmp_path: Path) -> None:
    import subprocess
    import sys

    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = hostile.kgate("check", "--all", KGATE_PYTHON=str(bare / "bin" / "python"))
    assert done.returncode == 4
    assert "torch" in done.stdout
    assert "install" in done.stdout


def test_a_budget_cuts_the_run_and_says_what_did_not_run(hostile: Any) -> None:
    code, report, _ = hostile.check("--all", "--probe", "accuracy", "--budget", "1ms")
    assert report["not_run"] > 0
    assert report["not_run_why"] == "budget"
    assert code == 4  # something was due, and nothing ran


def test_a_kernel_that_always_hangs_costs_three_time_limits_not_sixty(hostile: Any) -> None:
    (hostile.path / "pyproject.toml").write_text("[tool.kgate]\ncase-timeout = 2\n")
    source = KERNEL.format(name="hangs", mask="offs < n", before="while True: pass")
    (hostile.path / "ops" / "hangs.py").write_text(source)
    code, report, _ = hostile.check("hangs", "--probe", "accuracy")
    assert code == 1
    hung = [f for v in report["verdicts"] for f in v["failing"] if f["status"] == "hang"]
    assert 3 <= len(hung) <= 4  # one more may be in flight
    assert any("after 3 cases" in why for why in report["skipped"])
