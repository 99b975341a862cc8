"""Blessing: what would change, what stands against it, and all or nothing whenever the process is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kgate.baselines import bless, journal, store
from kgate.baselines.bless import BlessRefused, apply, plan
from kgate.baselines.store import Key, load

KERNEL = "kernels/norm/rms_norm.py::rms_norm"


def blessed(top: Path, measurements, compare, *, reason="", env=None, **asked):
    found = plan(load(top), measurements, compare=compare, **asked)
    return apply(found, top, reason=reason, env=env or {})


def registers(top: Path) -> dict[tuple[str, str], int]:
    return {(key.target, key.case): line.figures["_kernel"]["registers"] for key, line in load(top).lines.items()}


def contents(top: Path) -> dict[str, bytes]:
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in (top / "baselines").rglob("*.jsonl")}


def test_first_bless_writes_lines_attributes_and_nothing_else(tmp_path, measured, compare):
    written = blessed(tmp_path, [measured("a"), measured("b")], compare)
    path = "baselines/kernels/norm/rms_norm/rms_norm/cuda-sm_90.jsonl"
    assert written == ["baselines/.gitattributes", path]
    assert "merge=union" in (tmp_path / "baselines/.gitattributes").read_text()
    assert registers(tmp_path) == {("cuda:sm_90", "a"): 32, ("cuda:sm_90", "b"): 32}
    line = load(tmp_path).lines[Key(KERNEL, "cuda:sm_90", "a", "codegen", "compiler")]
    assert line.toolchain == "ptxas 13.1, triton 3.7.1"
    assert line.code == "0123456789abcdef"
    assert line.note == ""


def test_plan_shows_old_and_new_and_writes_nothing(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    before = contents(tmp_path)
    found = plan(load(tmp_path), [measured("a", 40), measured("b", 24), measured("c")], compare=compare)
    shown = {change.key.case: (change.kind, change.worse) for change in found.changes}
    assert shown == {"a": (bless.CHANGED, True), "b": (bless.CHANGED, False), "c": (bless.NEW, False)}
    [difference] = found.changes[0].changes
    assert (difference.old, difference.new) == (32, 40)
    assert contents(tmp_path) == before


def test_a_reason_is_needed_where_something_got_worse_and_is_kept_on_that_line(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    worse = [measured("a", 40), measured("b", 24)]
    before = contents(tmp_path)
    for empty in ("", "  "):
        with pytest.raises(BlessRefused, match="got worse; say why"):
            blessed(tmp_path, worse, compare, reason=empty)
    assert contents(tmp_path) == before
    blessed(tmp_path, worse, compare, reason="one load less")
    notes = {key.case: line.note for key, line in load(tmp_path).lines.items()}
    assert notes == {"a": "one load less", "b": ""}
    blessed(tmp_path, [measured("a", 30)], compare)
    notes = {key.case: line.note for key, line in load(tmp_path).lines.items()}
    assert notes["a"] == "one load less"


def test_same_measurement_again_changes_no_byte(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a")], compare)
    before = contents(tmp_path)
    assert blessed(tmp_path, [measured("a", seconds=9.0)], compare) == []
    assert contents(tmp_path) == before


def test_same_figures_of_other_code_move_the_line(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a")], compare)
    found = plan(load(tmp_path), [measured("a", code="f" * 16)], compare=compare)
    assert [change.kind for change in found.changes] == [bless.SAME_FIGURES]


@pytest.mark.parametrize(
    "env", [{"CI": "true"}, {"CI": "1"}, {"GITHUB_ACTIONS": "true"}, {"GITLAB_CI": "true"}, {"TF_BUILD": "True"}]
)
def test_never_in_ci(tmp_path, measured, compare, env):
    with pytest.raises(BlessRefused, match="this is CI"):
        blessed(tmp_path, [measured("a")], compare, env=env)
    assert not (tmp_path / "baselines").exists()


@pytest.mark.parametrize("env", [{"CI": "false"}, {"CI": ""}, {"CI": "0"}])
def test_ci_switched_off_is_not_ci(tmp_path, measured, compare, env):
    assert blessed(tmp_path, [measured("a")], compare, env=env)


@pytest.mark.parametrize("status", ["wrong", "hang", "crash", "skipped", "inconclusive", "cannot-launch"])
def test_one_case_that_did_not_pass_refuses_them_all(tmp_path, measured, compare, status):
    bad = measured("b", status=status, figures={}, message="it says why")
    with pytest.raises(BlessRefused, match=rf"b: {status} \(it says why\)"):
        blessed(tmp_path, [measured("a"), bad], compare)
    assert not contents(tmp_path)
    assert blessed(tmp_path, [measured("a"), bad], compare, selection=lambda key: key.case == "a")


def test_a_case_that_was_not_measured_is_refused(tmp_path, measured, compare):
    expected = [Key(KERNEL, "cuda:sm_90", case, "codegen", "compiler") for case in "ab"]
    with pytest.raises(BlessRefused, match="b: not measured"):
        blessed(tmp_path, [measured("a")], compare, expected=expected)


def test_a_figure_that_is_not_finite_is_refused(tmp_path, measured, compare):
    bad = measured("a", figures={"_kernel": {"registers": 1, "ratio": float("inf")}})
    with pytest.raises(BlessRefused, match="ratio is inf"):
        blessed(tmp_path, [bad], compare)


def test_a_measurement_of_code_that_has_changed_since_is_refused(tmp_path, measured, compare):
    with pytest.raises(BlessRefused, match="changed since"):
        blessed(tmp_path, [measured("a")], compare, codes={KERNEL: "f" * 16})


def test_conflict_markers_are_refused_with_a_remedy(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a")], compare)
    [path] = contents(tmp_path)
    (tmp_path / path).write_text("<<<<<<< HEAD\n" + (tmp_path / path).read_text())
    with pytest.raises(BlessRefused, match=r"conflict markers; take either side"):
        blessed(tmp_path, [measured("a")], compare)


def test_lines_of_a_newer_kgate_are_not_thrown_away(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    [path] = contents(tmp_path)
    (tmp_path / path).write_text((tmp_path / path).read_text().replace("kgate.line/1", "kgate.line/2", 1))
    with pytest.raises(BlessRefused, match="upgrade kgate"):
        blessed(tmp_path, [measured("b", 20)], compare)


def test_every_reason_is_given_at_once(tmp_path, measured, compare):
    bad = [measured("a", status="wrong"), measured("b", status="hang")]
    with pytest.raises(BlessRefused) as caught:
        blessed(tmp_path, bad, compare, env={"CI": "true"})
    assert len(caught.value.reasons) == 3


@pytest.mark.parametrize("damage", ["edited", "duplicate", "truncated"])
def test_a_damaged_line_is_cured_by_blessing_it(tmp_path, measured, compare, damage):
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    [path] = contents(tmp_path)
    text = (tmp_path / path).read_text()
    harm = {
        "edited": text.replace('"registers": 32', '"registers": 31'),
        "duplicate": text + text.replace('"spills"', '"spilt"').replace("ptxas 13.1", "ptxas 12.8"),
        "truncated": text[:-40],
    }[damage]
    (tmp_path / path).write_text(harm)
    assert load(tmp_path).problems
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    assert not load(tmp_path).problems
    assert (tmp_path / path).read_text() == text


def test_a_damaged_line_that_was_not_blessed_stays_a_problem(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a"), measured("b")], compare)
    [path] = contents(tmp_path)
    (tmp_path / path).write_text((tmp_path / path).read_text().replace('"registers": 32', '"registers": 31'))
    blessed(tmp_path, [measured("a")], compare)
    assert [problem.key.case for problem in load(tmp_path).problems] == ["b"]


def test_obsolete_lines_go_whoever_measured_them(tmp_path, measured, compare):
    device = {"executor": "NVIDIA H100", "probe": "latency"}
    blessed(tmp_path, [measured("a"), measured("old"), measured("old", **device)], compare)
    blessed(tmp_path, [measured("a")], compare, declared=lambda key: key.case != "old")
    assert {key.case for key in load(tmp_path).lines} == {"a"}


def test_lines_of_other_executors_stay(tmp_path, measured, compare):
    device = {"executor": "NVIDIA H100", "probe": "latency"}
    blessed(tmp_path, [measured("a"), measured("a", **device)], compare)
    blessed(tmp_path, [measured("a", 24)], compare)
    assert {key.executor for key in load(tmp_path).lines} == {"compiler", "NVIDIA H100"}


def test_the_last_line_takes_its_file_and_empty_folders_along(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a")], compare)
    blessed(tmp_path, [], compare, declared=lambda key: False)
    assert [path.name for path in (tmp_path / "baselines").iterdir()] == [".gitattributes"]


def test_a_subset_leaves_every_other_line_as_it_was(tmp_path, measured, compare):
    both = [measured(case, target=target) for case in "ab" for target in ("cuda:sm_80", "cuda:sm_90")]
    blessed(tmp_path, both, compare)
    better = [measured(m.case, 20, target=m.target) for m in both]
    blessed(tmp_path, better, compare, selection=lambda key: key.case == "a" and key.target == "cuda:sm_80")
    expected = {("cuda:sm_80", "a"): 20, ("cuda:sm_80", "b"): 32, ("cuda:sm_90", "a"): 32, ("cuda:sm_90", "b"): 32}
    assert registers(tmp_path) == expected


def test_files_that_changed_since_they_were_read_are_not_overwritten(tmp_path, measured, compare):
    blessed(tmp_path, [measured("a")], compare)
    found = plan(load(tmp_path), [measured("a", 20)], compare=compare)
    blessed(tmp_path, [measured("b")], compare)
    before = contents(tmp_path)
    with pytest.raises(BlessRefused, match="changed in the meantime"):
        apply(found, tmp_path, env={})
    assert contents(tmp_path) == before


def test_plans_of_several_roots_are_written_together_or_not_at_all(tmp_path, measured, compare):
    layouts = [store.Layout(f"{root}/baselines", root) for root in ("one", "two")]
    found = [measured("a", kernel=f"{layout.root}/k.py::f") for layout in layouts]
    plans = [plan(load(tmp_path, layout), [item], compare=compare) for layout, item in zip(layouts, found, strict=True)]
    refused = plan(load(tmp_path, layouts[1]), [measured("a", kernel="two/k.py::f", status="wrong")], compare=compare)
    with pytest.raises(BlessRefused):
        apply([plans[0], refused], tmp_path, env={})
    assert not list(tmp_path.rglob("*.jsonl"))
    assert apply(plans, tmp_path, env={}) == [
        "one/baselines/.gitattributes",
        "one/baselines/k/f/cuda-sm_90.jsonl",
        "two/baselines/.gitattributes",
        "two/baselines/k/f/cuda-sm_90.jsonl",
    ]


# Killed -----------------------------------------------------------------------------------------------------------

SIDES = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "hip:gfx942")


def everywhere(measured, value: int):
    return [measured(case, value, target=target) for target in SIDES for case in "ab"]


def state(top: Path) -> set[int]:
    found = load(top)
    assert not found.problems
    assert len(found.lines) == 8
    return set(registers(top).values())


def killed_at(step: int, work) -> bool:
    """Run ``work`` in a fork that is killed at its n-th call to the file system; False where it came to its end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    calls = 0

    def counted(real, after: bool):
        def call(*arguments, **named):
            nonlocal calls
            calls += 1
            result = real(*arguments, **named) if after else None
            if calls >= step:
                os.kill(os.getpid(), signal.SIGKILL)
            return result if after else real(*arguments, **named)

        return call

    for name in ("replace", "fsync", "unlink", "mkdir", "rmdir"):
        setattr(os, name, counted(getattr(os, name), after=step % 2 == 0))
    real_open = open

    def opened(path, mode="r", *rest, **named):
        file = real_open(path, mode, *rest, **named)
        return counted(lambda: file, after=True)() if "w" in mode else file

    journal.write_through.__globals__["open"] = opened
    try:
        work()
    finally:
        os._exit(0)


def test_killed_at_any_call_the_baselines_are_all_old_or_all_new(tmp_path, measured, compare):
    seen, step = [], 0
    while True:
        step += 1
        top = tmp_path / f"at{step}"
        top.mkdir()
        blessed(top, everywhere(measured, 32), compare)
        if not killed_at(step, lambda top=top: blessed(top, everywhere(measured, 24), compare)):
            break
        found = state(top)
        assert len(found) == 1, f"half a bless is seen when killed at call {step}"
        seen.append(found.pop())
        journal.recover(top)
        assert state(top) == {seen[-1]}
        assert set(contents(top)) == {
            path.relative_to(top).as_posix()
            for path in top.rglob("baselines/**/*")
            if path.is_file() and path.name != ".gitattributes"
        }
        blessed(top, everywhere(measured, 20), compare)
        assert state(top) == {20}
    assert len(seen) > 10
    assert seen == sorted(seen, reverse=True), "once it has happened it stays so"
    assert set(seen) == {32, 24}


def test_killed_at_random_moments_the_baselines_are_all_old_or_all_new(tmp_path, measured, compare):
    blessed(tmp_path, everywhere(measured, 1), compare)
    script = textwrap.dedent(
        """
        import sys, itertools
        from pathlib import Path
        from dataclasses import replace
        from kgate.baselines.store import load
        from kgate.baselines.bless import plan, apply
        from kgate.baselines.records import Measurement
        top = Path(sys.argv[1])
        print("ready", flush=True)
        for value in itertools.count(int(sys.argv[2])):
            found = [
                Measurement(key.kernel, key.case, key.probe, key.target, key.executor, "ok",
                            {"_kernel": {"registers": value}}, code="c")
                for key in load(top).lines
            ]
            apply(plan(load(top), found, compare=lambda line, measurement: ()), top, env={})
        """
    )
    chance = random.Random(7)
    value = 2
    for _ in range(12):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), str(value)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.08))
        child.kill()
        child.communicate()
        found = state(tmp_path)
        assert len(found) == 1
        value = found.pop() + 1


def test_readers_beside_a_bless_see_all_old_or_all_new(tmp_path, measured, compare):
    blessed(tmp_path, everywhere(measured, 100), compare)
    child = os.fork()
    if child == 0:
        try:
            for value in range(99, 0, -1):
                blessed(tmp_path, everywhere(measured, value), compare)
        finally:
            os._exit(0)
    looks = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert len(state(tmp_path)) == 1
        looks += 1
    assert looks > 0
    assert state(tmp_path) == {1}


def interrupted(top: Path, measured, compare) -> None:
    """Leave what a bless leaves that was killed after its first file."""
    blessed(top, everywhere(measured, 32), compare)
    real = os.replace

    def second_fails(source, place):
        if str(place).endswith(".jsonl") and real is not None:
            real(source, place)
            raise KeyboardInterrupt
        return real(source, place)

    os.replace = second_fails
    try:
        with pytest.raises(KeyboardInterrupt):
            blessed(top, everywhere(measured, 24), compare)
    finally:
        os.replace = real
    assert len({value for path in contents(top).values() for value in [path.count(b'"registers": 24')]}) == 2


def test_half_a_bless_that_was_staged_is_a_problem_not_a_baseline(repo, measured, compare):
    from kgate.source.git import Repository, index_snapshot, worktree_snapshot

    interrupted(repo.path, measured, compare)
    repository = Repository(repo.path, env=repo.env)
    assert state(repo.path) == {24}
    assert {line.figures["_kernel"]["registers"] for line in load(worktree_snapshot(repository)).lines.values()} == {24}
    repo.git("add", "-A")
    problems = load(index_snapshot(repository)).problems
    assert {problem.code for problem in problems} == {store.INTERRUPTED}
    journal.recover(repo.path)
    repo.git("add", "-A")
    assert not load(index_snapshot(repository)).problems
    assert not repo.git("status", "--porcelain").count(".kgate")


def test_a_killed_bless_that_was_taken_back_with_git_stays_taken_back(repo, measured, compare):
    blessed(repo.path, everywhere(measured, 32), compare)
    repo.commit("lines")
    interrupted(repo.path, measured, compare)
    repo.git("checkout", "-q", ".")
    assert state(repo.path) == {32}
    assert journal.recover(repo.path) == []
    assert state(repo.path) == {32}


def test_a_journal_is_void_once_somebody_edited_one_of_its_files(tmp_path, measured, compare):
    interrupted(tmp_path, measured, compare)
    path = sorted(contents(tmp_path))[-1]
    (tmp_path / path).write_bytes(b"")
    assert journal.recover(tmp_path) == []
    assert (tmp_path / path).read_bytes() == b""


@pytest.mark.parametrize("text", [b"", b"{", b'{"sum": "x", "text": "{}"}', b"\xff"])
def test_a_damaged_journal_is_ignored(tmp_path, measured, compare, text):
    blessed(tmp_path, everywhere(measured, 32), compare)
    (tmp_path / ".kgate/bless/journal.json").write_bytes(text)
    assert state(tmp_path) == {32}
    blessed(tmp_path, everywhere(measured, 24), compare)
    assert state(tmp_path) == {24}
