"""Scenarios run in processes of their own: faking a device changes torch and Triton for the whole process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("run_scenarios.py")
ROOT = SCRIPT.parents[3]

COMMON = (
    "at_import", "add", "add_unaligned", "add_huge", "row_sum",
    "row_sum_in_loop", "matmul_2_stages", "matmul_5_stages", "edits",
    "cross_checked", "toolchain",
)  # fmt: skip
SM_80_ONLY = (
    "add_odd_length", "add_one", "add_twice", "add_both_sizes", "add_after_reading",
    "add_contiguous", "add_on_current_device", "add_custom", "add_custom_by_name", "add_persistent",
    "add_in_rows", "add_with_block_of_1000", "launches_nothing", "launcher_raises", "sine",
    "softmax", "softmax_4_warps", "matmul", "matmul_tf32", "matmul_ieee", "tuned_matmul", "tuned_matmul_twice",
    "forked", "addresses",
)  # fmt: skip


def run_process(target, names, cache, **environment):
    """Results of the named scenarios for ``target``, from a fresh process with its own Triton cache."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    result = subprocess.run(
        [sys.executable, str(SCRIPT), target, ",".join(names)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRITON_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """``results(target)``: every scenario's result for the target; one process per target and session."""

    @functools.cache
    def of(target):
        names = [*COMMON, *SM_80_ONLY] if target == "cuda:sm_80" else COMMON
        return run_process(target, names, tmp_path_factory.mktemp("triton"))

    return of


@pytest.fixture
def fresh(tmp_path):
    """``fresh(target, names, **environment)``: the same, always in a new process."""
    return lambda target, names, **environment: run_process(target, names, tmp_path / "cache", **environment)
