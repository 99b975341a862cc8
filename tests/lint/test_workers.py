"""Processes that share the analysis: every file once, early results, and no trouble where one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgate.lint import store, workers
from kgate.lint.analysis import DEFAULT
from kgate.source.cache import FactsStore
from kgate.source.git import Repository, worktree_snapshot

pytestmark = pytest.mark.skipif(not workers.available(), reason="processes cannot be forked here")
LARGE = 300_000
"""Bytes that no pipe holds."""


def squares(at: int) -> bytes:
    return b"%d" % (at * at)


@pytest.mark.parametrize("count", [0, 1, 7, 20_000])
def test_every_number_is_worked_on_once(count: int) -> None:
    found = list(workers.shared(squares, count, 2))
    assert sorted(found) == [(at, squares(at)) for at in range(count)]


def test_results_larger_than_a_pipe_come_through() -> None:
    found = dict(workers.shared(lambda at: bytes([at]) * LARGE, 5, 2))
    assert found == {at: bytes([at]) * LARGE for at in range(5)}


def test_a_result_comes_before_the_last_number_is_begun() -> None:
    read, write = os.pipe()

    def work(at: int) -> bytes:
        return b"first" if at == 0 else os.read(read, 1)  # waits for what is written below

    results = workers.shared(work, 2, 1)
    assert next(results) == (0, b"first")
    os.write(write, b"x")
    assert next(results) == (1, b"x")


def ids(results: Iterator[tuple[int, bytes]]) -> set[int]:
    return {int(body) for _, body in results}


def test_processes_are_gone_when_the_results_are() -> None:
    for pid in ids(workers.shared(lambda at: b"%d" % os.getpid(), 50, 2)):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_processes_end_with_whoever_is_interrupted() -> None:
    def work(at: int) -> bytes:
        if at:
            signal.pause()
        return b"%d" % os.getpid()

    results = workers.shared(work, 3, 2)
    _, pid = next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_an_interrupt_of_the_terminal_does_not_end_a_process_by_itself() -> None:
    def work(at: int) -> bytes:
        os.kill(os.getpid(), signal.SIGINT)
        return b"still here"

    assert list(workers.shared(work, 1, 1)) == [(0, b"still here")]


def test_what_a_dying_process_had_taken_is_left_out() -> None:
    def work(at: int) -> bytes:
        if at == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return squares(at)

    found = dict(workers.shared(work, 40, 2))
    assert 3 not in found
    assert all(body == squares(at) for at, body in found.items())


def project(folder: Path, files: int) -> FactsStore:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for at in range(files):
        text = f"import triton\n\n@triton.jit\ndef kernel_{at}(x):\n    return x\n"
        (folder / f"k{at:03}.py").write_text(text)
    return FactsStore(worktree_snapshot(Repository(folder)), folder / "cache")


def test_files_of_a_process_that_died_are_analysed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = project(tmp_path, 40)
    parent, real = os.getpid(), store._work

    def work(job: store._Job, settings: store.Settings) -> tuple[bytes, bytes]:
        if os.getpid() != parent and job.path.endswith("7.py"):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(job, settings)

    monkeypatch.setattr(store, "_work", work)
    paths = sorted(path for path in facts.oids if path.endswith(".py"))
    found = store.LintStore(facts, None, DEFAULT).read(paths, processes=2)
    assert [[item.name for item in found[path].devices] for path in paths] == [[f"kernel_{at}"] for at in range(40)]


def test_an_error_in_a_process_is_raised_where_it_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(job: store._Job, settings: store.Settings) -> tuple[bytes, bytes]:
        raise LookupError(job.path)

    facts = project(tmp_path, 30)
    monkeypatch.setattr(store, "_work", work)
    with pytest.raises(LookupError, match=r"k\d+\.py"):
        store.LintStore(facts, None, DEFAULT).read(sorted(facts.oids), processes=2)


@pytest.mark.parametrize("files", [5, 100])
def test_a_second_run_analyses_nothing(tmp_path: Path, files: int) -> None:
    facts = project(tmp_path, files)
    paths = sorted(path for path in facts.oids if path.endswith(".py"))
    cache = tmp_path / "cache"
    first = store.LintStore(facts, cache, DEFAULT)
    before = first.read(paths)
    again = FactsStore(facts.tree, cache)
    second = store.LintStore(again, cache, DEFAULT)
    assert second.read(paths) == before
    assert (first.analysed, second.analysed) == (files, 0)
    assert again.missing(paths) == []


def test_what_was_analysed_before_an_interrupt_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = project(tmp_path, 100)
    paths = sorted(path for path in facts.oids if path.endswith(".py"))
    real = store._work

    def work(job: store._Job, settings: store.Settings) -> tuple[bytes, bytes]:
        if job.path == paths[90]:
            raise KeyboardInterrupt
        return real(job, settings)

    cache = tmp_path / "cache"
    monkeypatch.setattr(store, "_work", work)
    with pytest.raises(KeyboardInterrupt):
        store.LintStore(facts, cache, DEFAULT).read(paths, processes=1)
    monkeypatch.undo()
    second = store.LintStore(facts, cache, DEFAULT)
    second.read(paths)
    assert 0 < second.analysed < len(paths)


def test_lint_opens_the_tree_once_and_sees_what_fixes_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kgate.lint import run
    from kgate.source import git

    project(tmp_path, 1)
    taken: list[Path] = []
    real = git.worktree_snapshot

    def counted(repository: Repository) -> git.Snapshot:
        taken.append(repository.toplevel)
        return real(repository)

    monkeypatch.setattr(git, "worktree_snapshot", counted)
    look = run._Run(tmp_path, run.LintOptions(), {})
    look.look()
    assert len(taken) == 1
    (tmp_path / "k001.py").write_text("import triton\n\n@triton.jit\ndef more(x):\n    return x\n")
    look.look()
    assert len(taken) == 2
    assert look.index is not None
    assert {item.identity for item in look.index.device_functions} == {"k000.py::kernel_0", "k001.py::more"}
