"""Snapshots of commits, of the index and of the working tree, and what differs between two."""

from __future__ import annotations

import os

import pytest

from kgate.source.git import (
    GitError,
    Repository,
    changed_paths,
    commit_snapshot,
    index_snapshot,
    worktree_snapshot,
)
from kgate.source.git import snapshot as snapshots


def opened(repo) -> Repository:
    return Repository(repo.path, env=repo.env)


def test_paths_with_spaces_newlines_quotes_and_other_alphabets_are_read_as_they_are(repo):
    names = ["a b.py", "new\nline.py", 'quo"te.py', "ключ/ü.py", "tab\t.py", "-dash.py"]
    repo.commit("odd", {name: f"{name}\n" for name in names})
    snapshot = commit_snapshot(opened(repo), "HEAD")
    assert set(snapshot.files()) == set(names)
    assert snapshot.read_many(names) == {name: f"{name}\n".encode() for name in names}


def test_a_name_that_is_not_utf8_survives(repo):
    name = os.fsdecode(b"caf\xe9.py")
    repo.commit("latin", {name: "1\n"})
    assert commit_snapshot(opened(repo), "HEAD").read(name) == b"1\n"


def test_unknown_revision_is_an_error_with_a_command(repo):
    repo.commit("one", {"a.py": ""})
    with pytest.raises(GitError, match="no commit 'nowhere'") as caught:
        commit_snapshot(opened(repo), "nowhere")
    assert "git fetch origin nowhere" in caught.value.remedy


def test_a_revision_that_looks_like_an_option_is_not_one(repo):
    repo.commit("one", {"a.py": ""})
    with pytest.raises(GitError, match="no commit '--all'"):
        commit_snapshot(opened(repo), "--all")


def test_unknown_path_is_an_error_that_names_the_snapshot(repo):
    repo.commit("one", {"a.py": ""})
    with pytest.raises(GitError, match=r"b\.py is not a file in HEAD"):
        commit_snapshot(opened(repo), "HEAD").read("b.py")


def test_symlink_to_a_file_counts_as_that_file(repo):
    repo.write("real/a.py", "1\n")
    (repo.path / "link.py").symlink_to("real/a.py")
    (repo.path / "hop.py").symlink_to("link.py")
    (repo.path / "loop.py").symlink_to("loop.py")
    (repo.path / "out.py").symlink_to("../../etc/passwd")
    repo.commit("links")
    snapshot = commit_snapshot(opened(repo), "HEAD")
    assert snapshot.read("link.py") == snapshot.read("hop.py") == b"1\n"
    assert "loop.py" not in snapshot.files()
    assert "out.py" not in snapshot.files()
    assert snapshot.symlinks()["hop.py"] == "link.py"


def test_index_snapshot_holds_what_is_staged_and_nothing_else(repo):
    repo.commit("one", {"a.py": "1\n", "b.py": "1\n"})
    repo.write("a.py", "2\n")
    repo.git("add", "a.py")
    repo.write("a.py", "3\n")
    repo.write("new.py", "")
    snapshot = index_snapshot(opened(repo))
    assert snapshot.read("a.py") == b"2\n"
    assert set(snapshot.files()) == {"a.py", "b.py"}


def test_index_with_conflicts_is_an_error_that_names_them(repo):
    conflict(repo)
    with pytest.raises(GitError, match=r"conflicts are staged in a\.py") as caught:
        index_snapshot(opened(repo))
    assert "git add" in caught.value.remedy


def test_worktree_snapshot_during_a_conflict_holds_the_files_as_they_stand(repo):
    conflict(repo)
    assert b"<<<<<<<" in worktree_snapshot(opened(repo)).read("a.py")


def conflict(repo) -> None:
    repo.commit("one", {"a.py": "1\n"})
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", {"a.py": "side\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("main", {"a.py": "main\n"})
    assert repo.run("git", "merge", "side", check=False).returncode == 1


def test_worktree_snapshot_holds_edits_deletions_and_untracked_files_but_no_ignored_ones(repo):
    repo.commit("one", {"a.py": "1\n", "gone.py": "1\n", ".gitignore": "*.log\n"})
    repo.write("a.py", "2\n")
    (repo.path / "gone.py").unlink()
    repo.write("helpers/new.py", "n\n")
    repo.write("noise.log", "")
    snapshot = worktree_snapshot(opened(repo))
    assert set(snapshot.files()) == {".gitignore", "a.py", "helpers/new.py"}
    assert snapshot.read("a.py") == b"2\n"
    assert snapshot.untracked == ("helpers/new.py",)


def test_worktree_snapshot_sees_an_edit_made_right_after_the_index_was_written(repo):
    repo.commit("one", {"a.py": "1\n"})
    for value in range(20):
        text = f"{value % 10}\n"  # always the same size: only time and content tell them apart
        repo.write("a.py", text)
        assert worktree_snapshot(opened(repo)).read("a.py") == text.encode()


def test_snapshots_leave_index_working_tree_and_status_alone(repo):
    repo.commit("one", {"a.py": "1\n", "b.py": "1\n"})
    repo.write("a.py", "2\n")
    repo.git("add", "a.py")
    repo.write("b.py", "3\n")
    repo.write("new.py", "")
    index = (repo.path / ".git" / "index").read_bytes()
    status = repo.git("status", "--porcelain=v2")
    index = (repo.path / ".git" / "index").read_bytes()
    index_snapshot(opened(repo))
    worktree_snapshot(opened(repo))
    assert (repo.path / ".git" / "index").read_bytes() == index
    assert repo.git("status", "--porcelain=v2") == status


def test_snapshots_do_not_wait_for_a_locked_index(repo):
    repo.commit("one", {"a.py": "1\n"})
    repo.write(".git/index.lock", "")
    repo.write("a.py", "2\n")
    assert worktree_snapshot(opened(repo)).read("a.py") == b"2\n"
    assert index_snapshot(opened(repo)).read("a.py") == b"1\n"


def test_snapshots_run_no_hook_of_the_user(repo):
    repo.commit("one", {"a.py": "1\n"})
    repo.hook("post-index-change", "#!/bin/sh\ntouch hook-ran\n")
    repo.write("a.py", "2\n")
    worktree_snapshot(opened(repo))
    assert not (repo.path / "hook-ran").exists()


def test_intent_to_add_is_part_of_the_working_tree_but_not_of_the_index(repo):
    repo.commit("one", {"a.py": "1\n"})
    repo.write("soon.py", "1\n")
    repo.git("add", "--intent-to-add", "soon.py")
    assert "soon.py" in worktree_snapshot(opened(repo)).files()
    assert "soon.py" not in index_snapshot(opened(repo)).files()


def test_file_replaced_by_a_folder(repo):
    repo.commit("one", {"thing": "1\n"})
    (repo.path / "thing").unlink()
    repo.write("thing/inside.py", "1\n")
    assert set(worktree_snapshot(opened(repo)).files()) == {"thing/inside.py"}


def test_very_large_untracked_files_and_inner_repositories_are_reported_as_left_out(repo, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGEST_UNTRACKED", 10)
    repo.commit("one", {"a.py": "1\n"})
    repo.write("checkpoint.bin", "x" * 11)
    (repo.path / "inner").mkdir()
    repo.git("init", "-q", "inner")
    snapshot = worktree_snapshot(opened(repo))
    assert set(snapshot.left_out) == {"checkpoint.bin", "inner/"}
    assert set(snapshot.files()) == {"a.py"}


def test_before_the_first_commit(repo):
    assert worktree_snapshot(opened(repo)).files() == {}
    repo.write("a.py", "1\n")
    assert worktree_snapshot(opened(repo)).read("a.py") == b"1\n"
    assert index_snapshot(opened(repo)).files() == {}


def test_subfolder_start_still_takes_the_whole_repository(repo):
    repo.commit("one", {"a.py": "1\n", "sub/b.py": "1\n"})
    repo.write("a.py", "2\n")
    repo.write("new.py", "")
    snapshot = worktree_snapshot(Repository(repo.path / "sub", env=repo.env))
    assert set(snapshot.files()) == {"a.py", "new.py", "sub/b.py"}
    assert snapshot.read("a.py") == b"2\n"


def test_sparse_checkout_keeps_what_is_not_checked_out(repo):
    repo.commit("one", {"in/a.py": "1\n", "out/b.py": "1\n"})
    repo.git("sparse-checkout", "set", "in")
    assert not (repo.path / "out").exists()
    assert set(worktree_snapshot(opened(repo)).files()) == {"in/a.py", "out/b.py"}


def test_gitlinks_are_listed_apart_from_files(repo, new_repo):
    library = new_repo("library")
    first = library.commit("one", {"lib.h": "1\n"})
    repo.git("submodule", "add", "-q", library.path.as_uri(), "third_party/lib")
    repo.commit("add submodule")
    snapshot = commit_snapshot(opened(repo), "HEAD")
    assert snapshot.gitlinks() == {"third_party/lib": first}
    assert set(snapshot.files()) == {".gitmodules"}


def test_moved_submodule_is_seen_in_the_working_tree(repo, new_repo):
    library = new_repo("library")
    library.commit("one", {"lib.h": "1\n"})
    repo.git("submodule", "add", "-q", library.path.as_uri(), "lib")
    repo.commit("add submodule")
    repo.git("-C", "lib", "commit", "-q", "--allow-empty", "-m", "two")
    repository = opened(repo)
    base, head = commit_snapshot(repository, "HEAD"), worktree_snapshot(repository)
    assert changed_paths(base, head) == [("M", "lib", "lib")]
    assert base.gitlinks() != head.gitlinks()


def test_changed_paths_gives_both_names_of_a_rename(repo):
    repo.commit("one", {"old name.py": "line\n" * 30, "b.py": "1\n", "c.py": "1\n"})
    base = commit_snapshot(opened(repo), "HEAD")
    repo.git("mv", "old name.py", "new\nname.py")
    (repo.path / "b.py").unlink()
    repo.write("c.py", "2\n")
    repo.write("d.py", "new\n")
    head = worktree_snapshot(opened(repo))
    assert sorted(changed_paths(base, head)) == [
        ("A", "", "d.py"),
        ("D", "b.py", ""),
        ("M", "c.py", "c.py"),
        ("R", "old name.py", "new\nname.py"),
    ]


def test_changed_paths_from_nothing_is_everything(repo):
    repo.commit("one", {"a.py": "1\n"})
    assert changed_paths(None, commit_snapshot(opened(repo), "HEAD")) == [("A", "", "a.py")]


def test_line_endings_that_git_converts_do_not_count_as_a_change(repo):
    repo.commit("one", {".gitattributes": "* text=auto\n", "a.py": "1\n2\n"})
    repo.git("config", "core.autocrlf", "true")
    (repo.path / "a.py").write_bytes(b"1\r\n2\r\n")
    repository = opened(repo)
    assert changed_paths(commit_snapshot(repository, "HEAD"), worktree_snapshot(repository)) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_repository_gets_its_new_objects_elsewhere(repo):
    repo.commit("one", {"a.py": "1\n"})
    repo.write("a.py", "2\n")
    objects = repo.path / ".git" / "objects"
    for folder, _, _ in os.walk(objects):
        os.chmod(folder, 0o555)
    snapshot = worktree_snapshot(opened(repo))
    assert snapshot.read("a.py") == b"2\n"


def test_objects_written_elsewhere_can_be_read(repo, monkeypatch):
    repo.commit("one", {"a.py": "1\n"})
    repo.write("a.py", "2\n")
    repository = opened(repo)
    real = repository.git

    def refusing(*arguments, extra=None, **others):
        if arguments[0] == "add" and "GIT_OBJECT_DIRECTORY" not in (extra or {}):
            raise GitError("insufficient permission for adding an object to repository database")
        return real(*arguments, extra=extra, **others)

    monkeypatch.setattr(repository, "git", refusing)
    snapshot = worktree_snapshot(repository)
    monkeypatch.undo()
    assert snapshot.read("a.py") == b"2\n"
    assert changed_paths(commit_snapshot(repository, "HEAD"), snapshot) == [("M", "a.py", "a.py")]
    blob = snapshot.files()["a.py"]
    assert not (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).exists()
