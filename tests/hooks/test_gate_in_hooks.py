"""The two hooks as users have them: a bad commit is blocked, a good one passes, and no change is ever lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HELPER = """\
import triton
import triton.language as tl

@triton.jit
def bump(x):
    return x + 1
"""

KERNEL = """\
import torch
import triton
import triton.language as tl
from kgate import Dim, Envelope, Numerics, Tensor, kernel
from ops.helper import bump

def plain(x):
    return x + 1

@triton.jit
def _add_one(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, bump(x), mask=offs < n)

@kernel(
    reference=plain,
    fallback=plain,
    envelope=Envelope(
        inputs={"x": Tensor("N", "T", layout="contiguous")},
        outputs={"y": Tensor("N", "T", numerics=Numerics())},
        dtypes={"T": ("float32",)},
        dims={"N": Dim(1, 300)},
        targets=("cuda:sm_90",),
    ),
)
def add_one(x):
    y = torch.empty_like(x)
    _add_one[(triton.cdiv(x.shape[0], 64),)](x, y, x.shape[0], BLOCK=64)
    return y
"""

CONFIG = """\
repos:
- repo: local
  hooks:
{hooks}
"""

HOOK = """\
  - id: {id}
    name: {id}
    entry: {entry}
    language: system
    pass_filenames: false
    always_run: true
    require_serial: true
    stages: [pre-commit, pre-push, manual]
"""


@pytest.fixture(params=["pre-commit", "prek"])
def gated(request, repo, hooked_in):
    """A repository with one right kernel, whose commits go through ``kgate lint`` and ``kgate check``."""
    hooked_in(repo, request.param)
    command = f"{sys.executable} -m kgate"
    hooks = "".join(
        HOOK.format(id=f"kgate-{name}", entry=f"{command} {arguments}")
        for name, arguments in (("lint", "lint"), ("check", "check --probe accuracy"))
    )
    repo.write(".pre-commit-config.yaml", CONFIG.format(hooks=hooks))
    repo.env.update(KGATE_PYTHON=sys.executable, PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1")
    repo.write("pyproject.toml", "[tool.kgate]\nprobe-targets = ['cuda:sm_90']\n")
    repo.write("ops/helper.py", HELPER)
    repo.write("ops/add_one.py", KERNEL)
    repo.git("add", "-A")
    repo.git("commit", "-q", "--no-verify", "-m", "a right kernel")
    return repo


def commit(repo, *arguments: str):
    return repo.run("git", "commit", "-q", "-m", "change", *arguments, check=False)


def test_a_helper_that_goes_wrong_blocks_the_commit_and_the_edit_stays(gated):
    before = gated.git("rev-parse", "HEAD")
    gated.write("ops/helper.py", HELPER.replace("x + 1", "x + 2"))
    gated.git("add", "ops/helper.py")
    done = commit(gated)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "cases are wrong" in told
    assert "selected because: bump (ops/helper.py:5) changed" in told
    assert "kgate run add_one -k" in told
    assert gated.git("rev-parse", "HEAD") == before
    assert "x + 2" in (gated.path / "ops/helper.py").read_text()
    assert gated.git("diff", "--cached", "--name-only") == "ops/helper.py"


def test_commit_all_with_a_wrong_helper_is_blocked_and_a_right_edit_is_committed_whole(gated):
    gated.write("ops/helper.py", HELPER.replace("x + 1", "x - 1"))
    assert commit(gated, "-a").returncode != 0
    assert "x - 1" in (gated.path / "ops/helper.py").read_text()
    gated.write("ops/helper.py", HELPER.replace("x + 1", "1 + x"))
    done = commit(gated, "-a")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 + x" in gated.show("ops/helper.py")
    assert gated.git("status", "--porcelain") == ""


def test_a_comment_passes(gated):
    gated.write("ops/helper.py", "# A remark.\n" + HELPER)
    done = commit(gated, "-a")
    assert done.returncode == 0, done.stdout + done.stderr


def test_deleting_the_helper_alone_is_blocked(gated):
    gated.git("rm", "-q", "ops/helper.py")
    done = commit(gated)
    assert done.returncode != 0
    assert "ops/helper.py" in done.stdout + done.stderr


def test_a_helper_that_was_never_added_blocks(gated):
    gated.write("ops/fresh.py", HELPER)
    gated.write("ops/add_one.py", KERNEL.replace("ops.helper", "ops.fresh"))
    gated.git("add", "ops/add_one.py")
    done = commit(gated)
    assert done.returncode != 0
    assert "ops.fresh" in done.stdout + done.stderr
    assert (gated.path / "ops/fresh.py").exists()
    gated.git("add", "ops/fresh.py")
    assert commit(gated).returncode == 0


def test_an_undeclared_kernel_is_refused_by_the_static_hook(gated):
    source = KERNEL.replace("@kernel(", "declare = dict(").replace("def add_one", "\ndef add_one")
    gated.write("ops/other.py", source.replace("_add_one", "_other").replace("add_one", "other"))
    gated.git("add", "ops/other.py")
    done = commit(gated)
    assert done.returncode != 0
    assert "no @kernel reaches it" in done.stdout + done.stderr


def test_a_pass_is_remembered_so_that_the_next_hook_need_not_repeat_it(gated):
    gated.write("ops/helper.py", HELPER.replace("x + 1", "1 + x"))
    gated.git("add", "ops/helper.py")
    assert commit(gated).returncode == 0
    gated.git("reset", "-q", "--soft", "HEAD~1")
    done = gated.run(sys.executable, "-m", "kgate", "check", "--staged", "--probe", "accuracy", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "remembered" in done.stdout
    assert os.path.isdir(gated.path / ".kgate" / "passes")
    assert gated.git("status", "--porcelain") == "M  ops/helper.py"
