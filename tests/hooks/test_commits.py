"""What is judged in real hooks is what is committed, and no commit ever loses a change."""

from __future__ import annotations

OWN = {".pre-commit-config.yaml"}


def names(answer) -> list[str]:
    return sorted({new or old for _, old, new in answer["changes"]} - OWN)


def judged_what_was_committed(hooked, revision: str = "HEAD") -> dict:
    """The one answer; its tree must be that of the commit, in git's store and as exported."""
    answer = hooked.answer()
    assert answer["tree"] == hooked.repo.git("rev-parse", f"{revision}^{{tree}}")
    assert answer["exported"] == sorted(answer["files"])
    return answer


def test_first_commit(hooked):
    hooked.repo.commit("one", {"a.py": "1\n"})
    answer = judged_what_was_committed(hooked)
    assert answer["mode"] == "hook"
    assert answer["base"] is None
    assert names(answer) == ["a.py"]
    assert "everything is new" in answer["explanation"]


def test_staged_part_is_judged_and_the_rest_stays_in_the_folder(started):
    repo = started.repo
    repo.write("a.py", "staged\n")
    repo.git("add", "a.py")
    repo.write("a.py", "staged\nand more\n")
    repo.write("b.py", "unstaged\n")
    base = repo.git("rev-parse", "HEAD")
    repo.git("commit", "-q", "-m", "part")
    answer = judged_what_was_committed(started)
    assert answer["base"] == base
    assert names(answer) == ["a.py"]
    assert repo.show("a.py") == "staged\n"
    assert repo.show("b.py") == "1\n"
    assert (repo.path / "a.py").read_text() == "staged\nand more\n"
    assert (repo.path / "b.py").read_text() == "unstaged\n"


def test_commit_all_commits_the_edit(started):
    repo = started.repo
    repo.write("a.py", "2\n")
    repo.git("commit", "-q", "-a", "-m", "all")
    assert names(judged_what_was_committed(started)) == ["a.py"]
    assert repo.show("a.py") == "2\n"
    assert repo.git("status", "--porcelain") == ""


def test_commit_of_one_path_leaves_what_else_is_staged_staged(started):
    repo = started.repo
    repo.write("a.py", "2\n")
    repo.write("b.py", "2\n")
    repo.git("add", "b.py")
    repo.git("commit", "-q", "-m", "path", "a.py")
    answer = judged_what_was_committed(started)
    assert names(answer) == ["a.py"]
    assert answer["files"]["b.py"] == "1\n"
    assert repo.show("a.py") == "2\n"
    assert repo.show("b.py") == "1\n"
    assert repo.git("diff", "--cached", "--name-only") == "b.py"
    assert (repo.path / "b.py").read_text() == "2\n"


def test_delete_only_commit_is_judged(started):
    repo = started.repo
    repo.git("rm", "-q", "b.py")
    repo.git("commit", "-q", "-m", "gone")
    assert names(judged_what_was_committed(started)) == ["b.py"]
    assert not (repo.path / "b.py").exists()


def test_amend_is_compared_with_the_commit_that_it_replaces(started):
    repo = started.repo
    base = repo.git("rev-parse", "HEAD")
    repo.write("a.py", "amended\n")
    repo.git("commit", "-q", "-a", "--amend", "--no-edit")
    answer = judged_what_was_committed(started)
    assert answer["base"] == base
    assert names(answer) == ["a.py"]
    assert repo.show("a.py") == "amended\n"


def test_commit_without_a_change_has_none(started):
    started.repo.git("commit", "-q", "--allow-empty", "-m", "empty")
    answer = judged_what_was_committed(started)
    assert answer["mode"] == "hook"
    assert answer["changes"] == []


def test_rename_is_told_with_both_names(started):
    repo = started.repo
    repo.write("long.py", "".join(f"line {number}\n" for number in range(30)))
    repo.commit("long")
    started.answers()
    repo.git("mv", "long.py", "moved name.py")
    repo.git("commit", "-q", "-m", "rename")
    answer = judged_what_was_committed(started)
    assert answer["changes"] == [["R", "long.py", "moved name.py"]]


def test_untracked_helper_is_not_part_of_what_is_judged(started):
    repo = started.repo
    repo.write("a.py", "import helper\n")
    repo.write("helper.py", "")
    repo.git("commit", "-q", "-a", "-m", "forgot the helper")
    answer = judged_what_was_committed(started)
    assert "helper.py" not in answer["files"]
    assert "helper.py" not in answer["exported"]
    assert (repo.path / "helper.py").exists()


def test_merge_with_a_resolved_conflict_is_compared_with_what_it_is_merged_into(started):
    repo = started.repo
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", {"a.py": "side\n", "side.py": "1\n"})
    repo.git("checkout", "-q", "main")
    base = repo.commit("main", {"a.py": "main\n"})
    started.answers()
    assert repo.run("git", "merge", "side", check=False).returncode == 1
    repo.write("a.py", "both\n")
    repo.git("add", "a.py")
    repo.git("commit", "-q", "-m", "merge")
    answer = judged_what_was_committed(started)
    assert answer["base"] == base
    assert names(answer) == ["a.py", "side.py"]
    assert "merged into" in answer["explanation"]
    assert repo.show("a.py") == "both\n"


def test_commit_from_a_subfolder(started):
    repo = started.repo
    repo.write("deep/er/c.py", "1\n")
    repo.git("add", "-A")
    repo.git("-C", "deep/er", "commit", "-q", "-m", "deep")
    assert names(judged_what_was_committed(started)) == ["deep/er/c.py"]
    repo.write("deep/er/c.py", "2\n")
    repo.git("-C", "deep/er", "commit", "-q", "-m", "path", "c.py")
    assert judged_what_was_committed(started)["files"]["deep/er/c.py"] == "2\n"


def test_commit_in_a_linked_worktree(started, tmp_path):
    repo = started.repo
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a.py").write_text("side\n")
    repo.git("-C", str(tmp_path / "side"), "commit", "-q", "-a", "-m", "side")
    answer = judged_what_was_committed(started, "side")
    assert answer["files"]["a.py"] == "side\n"
    assert repo.show("a.py", "side") == "side\n"
    assert (repo.path / "a.py").read_text() == "1\n"


def test_commit_in_a_shallow_clone(new_repo, hooked_in, driver):
    origin = new_repo("origin")
    for number in range(3):
        origin.commit(f"{number}", {"a.py": f"{number}\n"})
    clone = hooked_in(new_repo("clone", "--depth=1", clone_of=origin), driver)
    clone.repo.write("a.py", "mine\n")
    clone.repo.git("commit", "-q", "-a", "-m", "mine") if driver == "git" else clone.repo.commit("mine")
    assert names(judged_what_was_committed(clone)) == ["a.py"]


def test_thirty_commits_of_every_kind_lose_nothing(started):
    repo = started.repo
    for number in range(6):
        for kind in (["-a"], ["a.py"], ["-a", "--amend", "--no-edit"], ["--include", "a.py"], ["--only", "a.py"]):
            text = f"{number} {' '.join(kind)}\n"
            repo.write("a.py", text)
            message = [] if "--amend" in kind else ["-m", "one"]
            repo.git("commit", "-q", *message, *kind)
            assert repo.show("a.py") == text
            assert judged_what_was_committed(started)["files"]["a.py"] == text
    assert repo.git("fsck", "--strict") == ""
