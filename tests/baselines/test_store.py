"""Reading and writing baseline lines: whatever the files hold, lines and problems, never a traceback."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from kgate.baselines import store
from kgate.baselines.records import Line
from kgate.baselines.store import Key, Layout, load, read_file, write_file, write_line
from kgate.source.git import Repository, commit_snapshot

KERNEL = "kernels/norm/rms_norm.py::rms_norm"
TARGET = "cuda:sm_90"
PATH = "baselines/kernels/norm/rms_norm/rms_norm/cuda-sm_90.jsonl"


def line(case: str = "M=1,N=128", **changes: object) -> Line:
    figures = {"_kernel": {"spills": 0, "occupancy": 0.1875, "registers": 32, "name": "ünï", "tma": True}}
    made = Line(case, "codegen", "0123456789abcdef", "ptxas 13.1, triton 3.7.1", "compiler", figures)
    return replace(made, **changes)


def key(case: str = "M=1,N=128", **changes: str) -> Key:
    return Key(KERNEL, TARGET, case, "codegen", "compiler")._replace(**changes)


def content(*lines: Line) -> bytes:
    return write_file((key(one.case), write_line(one, TARGET)) for one in lines)


def stored(top: Path, data: bytes, path: str = PATH):
    place = top / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return load(top)


def test_lines_come_back_as_they_were_written(tmp_path):
    lines = [
        line("a"),
        line("b", note="3 % faster on H100, for 8 registers"),
        line("c=“x”", note="one\ntwo\u2028three\x85four\x1c"),
    ]
    found = stored(tmp_path, content(*lines))
    assert not found.problems
    assert [found.line(key(one.case)) for one in lines] == lines


def test_files_are_sorted_and_the_same_whatever_the_order(tmp_path):
    lines = [line(f"N={number}") for number in range(20)]
    expected = content(*lines)
    random.Random(1).shuffle(lines)
    assert content(*lines) == expected
    titles = [json.loads(text) for text in expected.decode().splitlines()[::3]]
    assert titles == sorted(titles)


def test_every_line_of_a_file_is_json_and_holds_no_timestamp(tmp_path):
    for text in content(line("a"), line("b")).decode().splitlines():
        assert not text or json.loads(text)
    said = json.loads(write_line(line(), TARGET))
    assert set(said) == {"schema", "case", "probe", "executor", "toolchain", "code", "figures", "sum"}


@pytest.mark.parametrize(
    ("value", "written"), [(0.1 + 0.2, 0.3), (1 / 3, 0.333333333), (1.0, 1.0), (2.5e-12, 2.5e-12), (3, 3)]
)
def test_floats_have_one_format(value, written):
    said = write_line(line(figures={"y": {"error": value}}), TARGET)
    again = json.loads(said)["figures"]["y"]["error"]
    assert again == written
    assert type(again) is type(written)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="error is"):
        write_line(line(figures={"y": {"error": value}}), TARGET)


@pytest.mark.parametrize(
    ("kernel", "target", "root"),
    [
        ("kernels/norm/rms_norm.py::rms_norm", "cuda:sm_90", "."),
        ("a b/ü.py::Outer.inner", "interpreter", "."),
        ("sub/k.py::f", "hip:gfx942", "sub"),
        ("k.py::f", "cpu", "."),
        ("k.py::f", "device-name:H100 SXM", "."),
    ],
)
def test_paths_lead_back_to_kernel_and_target(kernel, target, root):
    layout = Layout("baselines", root) if root == "." else Layout(f"{root}/baselines", root)
    assert layout.parse(layout.path(kernel, target)) == (kernel, target)


@pytest.mark.parametrize(
    "path", ["baselines/x.jsonl", "baselines/.gitattributes", "other/a/b/cpu.jsonl", "baselines/a/b/c.txt"]
)
def test_other_files_are_no_baselines(path):
    assert Layout().parse(path) is None


def test_missing_file_and_missing_line_are_said_with_the_command(tmp_path):
    found = stored(tmp_path, content(line("a")))
    missing = found.missing([key("a"), key("b"), key("a", target="cuda:sm_80")])
    assert [problem.code for problem in missing] == [store.MISSING] * 2
    assert missing[0].path == PATH
    assert "no codegen line for b" in missing[0].message
    assert missing[1].path == PATH.replace("90", "80")
    assert f"kgate bless '{KERNEL}'" in missing[1].remedy


def test_hand_edited_figure_is_told_by_its_checksum(tmp_path):
    data = content(line("a"), line("b")).replace(b'"registers": 32', b'"registers": 31', 1)
    found = stored(tmp_path, data)
    [problem] = found.problems
    assert (problem.code, problem.path, problem.line) == (store.EDITED, PATH, 2)
    assert "changed by hand" in problem.message
    assert found.line(key("a")) is None
    assert found.line(key("b")) == line("b")
    assert found.missing([key("a")]) == []


@pytest.mark.parametrize("field", ["case", "probe", "code", "toolchain", "executor", "note"])
def test_no_field_can_be_edited_by_hand(tmp_path, field):
    document = json.loads(write_line(line(note="why"), TARGET))
    document[field] += "x"
    assert [problem.code for problem in stored(tmp_path, json.dumps(document).encode()).problems] == [store.EDITED]


def test_a_file_copied_to_another_target_is_told(tmp_path):
    found = stored(tmp_path, content(line("a")), PATH.replace("sm_90", "sm_80"))
    assert [problem.code for problem in found.problems] == [store.EDITED]


def test_a_file_moved_with_its_kernel_is_good(tmp_path):
    found = stored(tmp_path, content(line("a")), PATH.replace("rms_norm/rms_norm", "rms/renamed"))
    assert not found.problems
    assert found.line(key("a", kernel="kernels/norm/rms.py::renamed")) == line("a")


def test_conflict_markers_make_the_file_count_as_missing_and_are_said(tmp_path):
    data = b"<<<<<<< HEAD\n" + content(line("a")) + b"=======\n" + content(line("b")) + b">>>>>>> side\n"
    found = stored(tmp_path, data)
    [problem] = found.problems
    assert (problem.code, problem.line) == (store.CONFLICT, 1)
    assert not found.lines


def test_two_different_lines_for_one_case_contradict_each_other(tmp_path):
    other = line("a", figures={"_kernel": {"registers": 40}})
    found = stored(tmp_path, content(line("a"), line("b")) + content(other))
    assert [problem.code for problem in found.problems] == [store.DUPLICATE] * 2
    assert [problem.line for problem in found.problems] == [2, 8]
    assert set(found.lines) == {key("b")}


def test_the_same_line_twice_is_one_line(tmp_path):
    found = stored(tmp_path, content(line("a")) * 2)
    assert not found.problems
    assert found.line(key("a")) == line("a")


@pytest.mark.parametrize("cut", [3, 25, 60, 200])
def test_truncated_file_is_told_wherever_it_was_cut(tmp_path, cut):
    whole = content(line("a"), line("b")).rstrip()
    found = stored(tmp_path, whole[:-cut])
    assert [problem.code for problem in found.problems] == [store.TRUNCATED]
    assert set(found.lines) == {key("a")}


def test_unknown_schema_asks_for_a_newer_kgate(tmp_path):
    found = stored(tmp_path, content(line("a")).replace(b"kgate.line/1", b"kgate.line/9"))
    [problem] = found.problems
    assert problem.code == store.SCHEMA_UNKNOWN
    assert "kgate.line/9" in problem.message
    assert "upgrade" in problem.remedy


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00",
        b"null\n",
        b"[1, 2]\n",
        b"{\n",
        b'{"schema": "kgate.line/1"}\n',
        b'{"schema": "kgate.line/1", "case": 3}\n',
        b'{"schema": "kgate.line/1", "case": "a", "probe": "p", "executor": "e", "code": "", "toolchain": "", '
        b'"figures": {"k": {"registers": [1]}}}\n',
        b"\x00\x00\x00",
        b"[" * 5000,
        b'{"a": ' * 3000,
        b"1" * 6000,
        b'{"schema": "kgate.line/1", "case": "a", "probe": "p", "executor": "e", "code": "", "toolchain": "", '
        b'"figures": {"k": {"registers": NaN}}, "sum": "00000000"}\n',
        b'{"schema": "kgate.line/1", "case": "a", "probe": "p", "executor": "e", "code": "", "toolchain": "", '
        b'"figures": {"k": {"registers": 1e999}}, "sum": "00000000"}\n',
    ],
)
def test_whatever_a_file_holds_it_is_a_problem_never_a_traceback(tmp_path, data):
    found = stored(tmp_path, data)
    assert found.problems
    assert all(problem.message and problem.remedy for problem in found.problems)
    assert not found.lines


def test_random_damage_is_never_a_traceback_nor_another_figure():
    good = content(line("a"), line("b"), line("c"))
    lines = {key(case): line(case) for case in "abc"}
    chance = random.Random(0)
    for _ in range(500):
        damaged = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.randrange(3)] = bytes(
                chance.randrange(256) for _ in range(chance.randrange(3))
            )
        file = read_file(PATH, KERNEL, TARGET, bytes(damaged))
        for record in file.records:
            if record.line is not None:
                assert record.line == lines[record.key]


def test_empty_and_absent_folders_hold_nothing(tmp_path):
    assert load(tmp_path).lines == {}
    assert stored(tmp_path, b"").problems == ()


def test_windows_line_ends_are_read(tmp_path):
    found = stored(tmp_path, content(line("a")).replace(b"\n", b"\r\n"))
    assert found.line(key("a")) == line("a")
    assert not found.problems


def test_lines_are_read_from_the_tree_under_test_not_from_the_folder(repo):
    place = repo.path / PATH
    place.parent.mkdir(parents=True)
    place.write_bytes(content(line("committed")))
    repo.commit("lines")
    place.write_bytes(content(line("edited")))
    snapshot = commit_snapshot(Repository(repo.path, env=repo.env), "HEAD")
    assert set(load(snapshot).lines) == {key("committed")}
    assert set(load(repo.path).lines) == {key("edited")}


def test_only_the_kernels_asked_for_are_read(tmp_path):
    stored(tmp_path, content(line("a")))
    assert load(tmp_path, kernels={"other.py::f"}).files == {}
    assert set(load(tmp_path, kernels={KERNEL}).lines) == {key("a")}


# Merging ----------------------------------------------------------------------------------------------------------


def merged(repo, base, ours, theirs, *, attributes: bool):
    """Commit three versions of a file as a base and two branches, merge, and give git's exit status."""
    place = repo.path / PATH
    place.parent.mkdir(parents=True)
    if attributes:
        (repo.path / "baselines/.gitattributes").write_text("*.jsonl text eol=lf merge=union\n")
    place.write_bytes(content(*base))
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "theirs")
    place.write_bytes(content(*theirs))
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    place.write_bytes(content(*ours))
    repo.commit("ours")
    return repo.run("git", "merge", "-q", "-m", "merge", "theirs", check=False).returncode


def moved(case: str) -> Line:
    return line(case, figures={"_kernel": {"registers": 64}})


CASES = [line(case) for case in "bdfh"]


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([moved("b"), *CASES[1:]], [CASES[0], moved("d"), *CASES[2:]]),
        ([*CASES[:1], line("c"), *CASES[1:]], [CASES[0], moved("d"), *CASES[2:]]),
        ([*CASES[:1], line("c"), *CASES[1:]], [moved("b"), *CASES[1:]]),
        (CASES[1:], [CASES[0], moved("d"), *CASES[2:]]),
        ([line("a"), *CASES], [*CASES, line("z")]),
        ([line("a"), *CASES], [moved("b"), *CASES[1:]]),
        ([*CASES, line("z")], [*CASES[:3], moved("h")]),
    ],
    ids=[
        "neighbours",
        "new-before-moved",
        "new-after-moved",
        "gone-before-moved",
        "both-ends",
        "first",
        "last",
    ],
)
def test_branches_that_bless_different_lines_merge_without_conflict(repo, ours, theirs, attributes):
    assert merged(repo, CASES, ours, theirs, attributes=attributes) == 0
    found = load(repo.path)
    assert not found.problems
    expected = {one.case: one for one in CASES}
    for side in (ours, theirs):
        expected.update({one.case: one for one in side if one not in CASES})
    kept = {one.case for one in ours} & {one.case for one in theirs} | {
        one.case for side in (ours, theirs) for one in side if one not in CASES
    }
    assert {name.case: one for name, one in found.lines.items()} == {case: expected[case] for case in kept}


def test_branches_that_add_different_lines_at_one_place_are_united(repo):
    ours, theirs = [CASES[0], line("c1"), *CASES[1:]], [CASES[0], line("c2"), *CASES[1:]]
    assert merged(repo, CASES, ours, theirs, attributes=True) == 0
    found = load(repo.path)
    assert not found.problems
    assert {name.case for name in found.lines} == {"b", "c1", "c2", "d", "f", "h"}


def test_branches_that_add_the_same_new_file_are_united(repo):
    assert merged(repo, [], [line("a")], [line("b")], attributes=True) == 0
    assert {name.case for name in load(repo.path).lines} == {"a", "b"}


@pytest.mark.parametrize("attributes", [False, True])
def test_branches_that_bless_the_same_line_differently_are_told(repo, attributes):
    other = line("b", figures={"_kernel": {"registers": 80}})
    merged(repo, CASES, [moved("b"), *CASES[1:]], [other, *CASES[1:]], attributes=attributes)
    found = load(repo.path)
    assert {problem.code for problem in found.problems} == {store.DUPLICATE if attributes else store.CONFLICT}
    assert found.line(key("b")) is None
