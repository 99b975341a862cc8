"""Remembered passes and pending measurements: exact keys, passes only, damage ignored or said."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace

import pytest

from kgate.baselines import memory
from kgate.baselines.measurements import read_pending, write_pending
from kgate.baselines.memory import Memory, PassKey, triton_settings

KEY = PassKey(
    kernel="k.py::f", case="M=1", probe="codegen", target="cuda:sm_90", executor="compiler", code="c" * 16,
    oracle="", dispatch="", toolchain="triton 3.7.1", policy="1", settings="", kgate="0.1",
)  # fmt: skip


def test_a_pass_is_remembered_across_runs(tmp_path, measured):
    assert Memory(tmp_path).recall(KEY) is None
    assert Memory(tmp_path).remember(KEY, measured())
    assert Memory(tmp_path).recall(KEY) == measured()


@pytest.mark.parametrize("field", [field.name for field in fields(PassKey)])
def test_every_part_of_the_key_counts(tmp_path, measured, field):
    Memory(tmp_path).remember(KEY, measured())
    assert Memory(tmp_path).recall(replace(KEY, **{field: "other"})) is None


@pytest.mark.parametrize("status", ["wrong", "crash", "hang", "skipped", "refused", "error"])
def test_only_passes_are_remembered(tmp_path, measured, status):
    kept = Memory(tmp_path)
    assert not kept.remember(KEY, measured(status=status))
    assert kept.recall(KEY) is None


def test_settings_that_change_results_count_and_places_do_not():
    env = {"TRITON_DEFAULT_FP_FUSION": "0", "TRITON_CACHE_DIR": "/a", "TRITON_HOME": "/b", "HOME": "/c"}
    assert triton_settings(env) == "TRITON_DEFAULT_FP_FUSION=0"


def test_damage_costs_the_damaged_line_only(tmp_path, measured):
    keys = [replace(KEY, case=f"M={number}") for number in range(5)]
    kept = Memory(tmp_path)
    for key in keys:
        kept.remember(key, measured(key.case))
    [path] = (tmp_path / ".kgate/passes").rglob("*.jsonl")
    lines = path.read_bytes().split(b"\n")
    place = next(number for number, line in enumerate(lines) if b"M=2" in line)
    lines[place] = lines[place].replace(b"32", b"31")
    path.write_bytes(b"\n".join(lines)[:-20])
    again = Memory(tmp_path)
    assert [again.recall(key) is not None for key in keys] == [True, True, False, True, False]
    again.remember(keys[4], measured("M=4"))
    assert Memory(tmp_path).recall(keys[4]) == measured("M=4")


def test_several_processes_remember_at_once(tmp_path, measured):
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            kept = Memory(tmp_path)
            for case in range(20):
                kept.remember(replace(KEY, case=f"{number}-{case}"), measured(details={"log": "x" * 9000}))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    kept = Memory(tmp_path)
    assert all(kept.recall(replace(KEY, case=f"{number}-{case}")) for number in range(6) for case in range(20))


def test_old_fingerprints_are_forgotten(tmp_path, measured, monkeypatch):
    monkeypatch.setattr(memory, "KEPT", 3)
    for number in range(6):
        key = replace(KEY, code=f"{number}")
        Memory(tmp_path).remember(key, measured())
        os.utime(Memory(tmp_path)._path(key), (number, number))
    kept = [number for number in range(6) if Memory(tmp_path)._path(replace(KEY, code=f"{number}")).exists()]
    assert kept == [3, 4, 5]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, measured):
    tmp_path.chmod(0o555)
    assert not Memory(tmp_path).remember(KEY, measured())


def test_a_file_in_the_way_is_no_error(tmp_path, measured):
    (tmp_path / ".kgate").write_text("")
    assert not Memory(tmp_path).remember(KEY, measured())
    assert Memory(tmp_path).recall(KEY) is None


def test_git_ignores_what_is_kept(repo, measured):
    repo.commit("one", {"a.py": ""})
    Memory(repo.path).remember(KEY, measured())
    write_pending(repo.path / ".kgate/pending", [measured()])
    assert repo.git("status", "--porcelain", "--untracked-files=all") == ""


# Pending ----------------------------------------------------------------------------------------------------------


def test_pending_measurements_come_back_kernel_by_kernel(tmp_path, measured):
    found = [measured("a"), measured("b", status="wrong", message="why"), measured("a", kernel="k/other.py::f")]
    assert len(write_pending(tmp_path / "out", found, {"tree": "abc"})) == 2
    again, problems = read_pending(tmp_path / "out")
    assert problems == []
    assert sorted(again, key=repr) == sorted(found, key=repr)


def test_a_later_check_replaces_what_an_earlier_one_left_of_the_same_kernel(tmp_path, measured):
    write_pending(tmp_path, [measured("a"), measured("b")])
    write_pending(tmp_path, [measured("a", 40)])
    assert read_pending(tmp_path)[0] == [measured("a", 40)]


def test_no_pending_measurements_are_said(tmp_path):
    found, [problem] = read_pending(tmp_path / "nowhere")
    assert found == []
    assert "kgate check" in problem.remedy


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{}",
        json.dumps({"schema": "kgate.pending/9", "measurements": []}),
        json.dumps({"schema": "kgate.pending/1", "measurements": [{}]}),
        json.dumps({"schema": "kgate.pending/1", "measurements": [3]}),
        json.dumps({"schema": "kgate.pending/1", "measurements": [{"kernel": 3}]}),
        json.dumps({"schema": "kgate.pending/1", "measurements": [{"unknown": "x"}]}),
    ],
)
def test_pending_files_that_are_no_such_thing_are_said(tmp_path, document):
    (tmp_path / "x.json").write_text(document)
    found, [problem] = read_pending(tmp_path)
    assert found == []
    assert problem.path == str(tmp_path / "x.json")
