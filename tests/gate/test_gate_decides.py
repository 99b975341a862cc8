"""What the gate makes of odd projects: nothing that proves nothing may pass for a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gate.conftest import Clone, plain_environment

SOURCE = """\
import torch
import triton
import triton.language as tl
from kgate import Dim, Envelope, Numerics, Tensor, Workload, kernel

def plain(x):
    return x + 1

@triton.jit
def _{name}(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x + 1, mask=offs < n)

@kernel(
    reference=plain,
    fallback=plain,
    envelope=Envelope(
        inputs={{"x": Tensor("N", "T", layout="contiguous")}},
        outputs={{"y": Tensor("N", "T", numerics=Numerics())}},
        dtypes={{"T": ("float32",)}},
        dims={{"N": Dim(1, 300)}},
        targets=("cuda:sm_90",),
    ),
    workloads=(Workload(N=256, T="float32", source="a model"), Workload(N=100, T="float32", source="a model")),
)
def {name}(x):
    y = torch.empty_like(x)
    _{name}[(triton.cdiv(x.shape[0], 64),)](x, y, x.shape[0], BLOCK=64)
    return y
"""
LAUNCH = "_add_one[(triton.cdiv(x.shape[0], 64),)](x, y, x.shape[0], BLOCK=64)"
CONFIG = "probe-targets = ['cuda:sm_90']\n"


@pytest.fixture
def small(tmp_path: Path) -> Clone:
    """One right kernel, not blessed yet."""
    path = tmp_path / "small"
    (path / "ops").mkdir(parents=True)
    (path / "ops/add_one.py").write_text(SOURCE.format(name="add_one"))
    (path / "kgate.toml").write_text(CONFIG)
    clone = Clone(path, plain_environment())
    clone.git("init", "-q", "-b", "main")
    clone.commit("start")
    return clone


@pytest.fixture
def blessed(small: Clone) -> Clone:
    done = small.kgate("bless")
    assert done.returncode == 0, done.stdout + done.stderr
    small.commit("baselines")
    return small


def edit(clone: Clone, old: str, new: str) -> None:
    clone.replace("ops/add_one.py", old, new)


def notes(report: dict[str, Any]) -> str:
    return " | ".join(report["notes"])


def test_a_kernel_that_launches_nothing_any_more_does_not_pass(blessed: Clone) -> None:
    edit(blessed, LAUNCH, "y = x + 1")
    code, report, told = blessed.check("--probe", "codegen")
    assert code in (1, 3), told
    assert any("launched no kernel" in json.dumps(item) for item in report["verdicts"])
    assert blessed.kgate("bless", "add_one").returncode == 2


def test_a_wrong_kernel_cannot_be_blessed_not_even_line_by_line(blessed: Clone) -> None:
    edit(blessed, "x + 1, mask", "x * 1.5, mask")
    for arguments in ([], ["--target", "cuda:sm_90"], ["-k", "N=100,T=float32"]):
        done = blessed.kgate("bless", "add_one", *arguments, "--reason", "x")
        assert done.returncode == 2, done.stdout
        assert "nothing was written" in done.stdout


def test_a_kernel_that_is_wrong_only_off_its_workloads_cannot_be_blessed(blessed: Clone) -> None:
    edit(blessed, "    y = torch.empty_like(x)\n", "    y = torch.empty_like(x)\n    x = x + (x.shape[0] == 65)\n")
    done = blessed.kgate("bless", "add_one", "--reason", "x")
    assert done.returncode == 2, done.stdout
    assert "the figures of a wrong kernel are no yardstick" in done.stdout


def test_losing_a_line_does_not_spare_its_reason(blessed: Clone) -> None:
    for file in (blessed.path / "baselines").rglob("cuda-sm_90.jsonl"):
        file.unlink()
    edit(blessed, "BLOCK=64)\n", "BLOCK=65536)\n")
    done = blessed.kgate("bless", "add_one")
    assert done.returncode == 2, done.stdout
    assert "--reason" in done.stdout


def test_a_probe_that_has_nothing_to_look_at_is_no_pass(small: Clone) -> None:
    text = (small.path / "ops/add_one.py").read_text()
    edit(small, next(line for line in text.splitlines(keepends=True) if "workloads=" in line), "")
    code, report, _ = small.check("--all", "--probe", "codegen")
    assert code == 4
    assert "nothing was proved" in notes(report)
    code, report, _ = small.check("--all", "--probe", "accuracy")
    assert code == 0
    assert "add_one declares no workloads: its compiled code is not judged" in notes(report)


def test_all_of_no_kernels_is_no_pass(small: Clone) -> None:
    (small.path / "kgate.toml").write_text(CONFIG + "exclude = ['ops']\n")
    code, report, _ = small.check("--all")
    assert code == 4
    assert "no kernel is declared" in notes(report)


def test_a_file_that_cannot_be_read_is_told_by_every_command(small: Clone) -> None:
    (small.path / "ops/add_one.py").write_text("from kgate import kernel\ndef (:\n")
    listed = small.kgate("affected")
    assert listed.returncode == 3
    assert "ops/add_one.py:2  cannot be read" in listed.stdout
    assert json.loads(small.kgate("affected", "--format", "json").stdout)["unreadable"]
    for command in (["run", "add_one"], ["cases", "add_one"], ["why", "add_one"], ["bless", "add_one"]):
        done = small.kgate(*command)
        assert done.returncode == 2
        assert "ops/add_one.py:2" in done.stderr
    assert small.kgate("bless").returncode == 2
    assert small.check()[0] == 1


def test_baselines_of_a_kernel_that_is_not_declared_are_refused_in_the_same_diff(blessed: Clone) -> None:
    place = blessed.path / "baselines/ops/gone/gone"
    place.mkdir(parents=True)
    source = next((blessed.path / "baselines").rglob("interpreter.jsonl"))
    (place / "interpreter.jsonl").write_bytes(source.read_bytes())
    code, report, _ = blessed.check()
    assert code == 2
    assert any("ops/gone.py::gone is not declared" in item["headline"] for item in report["verdicts"])


def test_cases_that_the_fallback_serves_do_not_blur_what_the_failing_ones_share(small: Clone) -> None:
    edit(small, "x + 1, mask", "x + 2, mask")
    code, report, _ = small.check("--all", "--probe", "accuracy")
    assert code == 1
    (verdict,) = [item for item in report["verdicts"] if item["verdict"] == "fail"]
    assert verdict["shared"] == "every case that the kernel serves"


def test_a_wrong_fallback_is_told_as_one(small: Clone) -> None:
    edit(small, "    fallback=plain", "    fallback=lambda x: x + 3")
    code, report, _ = small.check("--all", "--probe", "accuracy")
    if report["findings"]:  # a lambda cannot be named: then a function that can
        edit(small, "    fallback=lambda x: x + 3", "    fallback=off")
        edit(small, "@triton.jit\n", "def off(x):\n    return x + 3\n\n@triton.jit\n")
        code, report, _ = small.check("--all", "--probe", "accuracy")
    assert code == 1
    (verdict,) = [item for item in report["verdicts"] if item["verdict"] == "fail"]
    assert "that the fallback serves" in verdict["headline"]


def test_the_commands_that_are_printed_mean_one_kernel_where_two_share_a_name(small: Clone) -> None:
    (small.path / "more").mkdir()
    (small.path / "more/add_one.py").write_text(SOURCE.format(name="add_one").replace("x + 1, mask", "x + 2, mask"))
    code, report, _ = small.check("--all", "--probe", "accuracy")
    assert code == 1
    (verdict,) = [item for item in report["verdicts"] if item["verdict"] == "fail"]
    assert "more/add_one.py::add_one" in verdict["reproduce"]
    import shlex

    done = small.kgate(*shlex.split(verdict["reproduce"])[1:])
    assert done.returncode == 1
    assert "wrong" in done.stdout


def test_run_says_that_a_case_is_outside_the_envelope(small: Clone) -> None:
    done = small.kgate("run", "add_one", "-k", "N=1000")
    assert done.returncode == 0
    assert "outside the envelope (dim-range): the fallback serves it" in done.stdout
    assert small.kgate("run", "add_one", "-k", "N=1000", "--target", "cuda:sm_90").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--base", ""],
        ["check", "--staged", "--head", "HEAD"],
        ["check", "nosuch"],
        ["check", "--target", "cuda:sm_91"],
        ["check", "--budget", "1_0s"],
        ["check", "--budget", "-3s"],
        ["check", "-o", "/dev/null/x"],
        ["check", "--base", "nosuchrev"],
        ["run", "add_one", "-k", "Q=3"],
        ["run", "add_one", "-k", "N=many"],
        ["run", "add_one", "--timeout", "soon"],
        ["run", "add_one", "--target", "cuda:sm_80"],
        ["bless", "add_one", "-k", "N=7,T=float32"],
        ["why", "nosuch"],
        ["lint", "nosuch"],
    ],
)
def test_a_mistake_in_a_command_is_exit_2_and_a_sentence(small: Clone, arguments: list[str]) -> None:
    done = small.kgate(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.strip()


def test_paths_are_taken_from_the_current_folder(small: Clone) -> None:
    import subprocess
    import sys

    for name in (".", "add_one.py"):
        done = subprocess.run(
            [sys.executable, "-m", "kgate", "check", name, "--probe", "accuracy", "--budget", "1ms"],
            cwd=small.path / "ops", env=small.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 4, done.stdout + done.stderr
        assert "not run (budget)" in done.stdout


def test_a_terminal_that_cannot_show_a_name_is_no_crash(small: Clone) -> None:
    edit(small, 'source="a model"), Workload', 'source="ein Modell, größer"), Workload')
    done = small.kgate("cases", "add_one", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr\\xf6" in done.stdout


def test_measurements_of_ci_are_blessed_at_home(small: Clone, tmp_path: Path) -> None:
    out = str(tmp_path / "pending")
    code, _, told = small.check("--all", "--pending", out)
    assert code == 2, told  # right, and without a line
    done = small.kgate("bless", "--from", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "blessed 4 lines in 3 files" in done.stdout
    assert small.check("--all")[0] == 0


def test_measurements_of_other_code_or_of_a_wrong_kernel_are_refused(small: Clone, tmp_path: Path) -> None:
    out = str(tmp_path / "pending")
    edit(small, "x + 1, mask", "x + 1 + (n == 65), mask")
    assert small.check("--all", "--pending", out)[0] == 1
    done = small.kgate("bless", "--from", out)
    assert done.returncode == 2
    assert "no yardstick" in done.stdout
    edit(small, "x + 1 + (n == 65), mask", "1 + x, mask")
    done = small.kgate("bless", "--from", out)
    assert done.returncode == 2
    assert "measured on code that has changed since" in done.stdout


def test_a_folder_without_measurements_says_how_to_make_them(small: Clone, tmp_path: Path) -> None:
    done = small.kgate("bless", "--from", str(tmp_path))
    assert done.returncode == 2
    assert "kgate check --pending DIR" in done.stdout
