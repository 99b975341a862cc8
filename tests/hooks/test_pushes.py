"""Pushes as pre-commit and prek see them: the pushed tree against what the remote has."""

from __future__ import annotations

import pytest

OWN = {".pre-commit-config.yaml"}


@pytest.fixture(params=["pre-commit", "prek"])
def driver(request):
    """Who runs the hooks; git alone says nothing of a push in variables."""
    return request.param


@pytest.fixture
def pushing(new_repo, hooked_in, driver):
    """A clone with hooks, whose remote has one commit on main."""
    origin = new_repo("origin.git", "--bare")
    repo = new_repo("clone")
    repo.git("remote", "add", "origin", origin.path.as_uri())
    made = hooked_in(repo, driver)
    repo.commit("one", {"a.py": "1\n"})
    made.answers()
    return made


def pushed(hooked, *arguments: str) -> dict:
    hooked.answers()
    hooked.repo.git("push", "-q", "origin", *arguments)
    return hooked.answer()


def names(answer) -> list[str]:
    return sorted({new or old for _, old, new in answer["changes"]} - OWN)


def test_push_of_a_root_finds_everything_new(pushing):
    answer = pushed(pushing, "main")
    assert answer["mode"] == "pre-push"
    assert answer["base"] is None
    assert names(answer) == ["a.py"]
    assert answer["tree"] == pushing.repo.git("rev-parse", "main^{tree}")


def test_push_is_compared_with_what_the_remote_has_not_with_the_folder(pushing):
    base = pushing.repo.git("rev-parse", "main")
    pushed(pushing, "main")
    pushing.repo.commit("two", {"b.py": "1\n"})
    pushing.repo.write("untracked.py", "")
    answer = pushed(pushing, "main")
    assert answer["base"] == base
    assert names(answer) == ["b.py"]
    assert "untracked.py" not in answer["exported"]


def test_push_of_another_branch_than_the_one_checked_out(pushing):
    repo = pushing.repo
    pushed(pushing, "main")
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit("topic", {"topic.py": "1\n"})
    repo.git("checkout", "-q", "main")
    answer = pushed(pushing, "topic")
    assert names(answer) == ["topic.py"]
    assert answer["head"] == repo.git("rev-parse", "topic")


def test_push_after_an_amend_is_compared_at_the_merge_base(pushing):
    repo = pushing.repo
    base = repo.git("rev-parse", "main")
    pushed(pushing, "main")
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit("topic", {"topic.py": "1\n"})
    pushed(pushing, "topic")
    repo.write("topic.py", "2\n")
    repo.git("commit", "-q", "-a", "--amend", "--no-edit")
    answer = pushed(pushing, "--force", "topic")
    assert answer["base"] == base
    assert names(answer) == ["topic.py"]
    assert answer["files"]["topic.py"] == "2\n"


def test_push_of_a_tag(pushing):
    repo = pushing.repo
    pushed(pushing, "main")
    repo.commit("two", {"b.py": "1\n"})
    repo.git("tag", "-a", "v1", "-m", "one")
    answer = pushed(pushing, "v1")
    assert names(answer) == ["b.py"]
    assert answer["head"] == repo.git("rev-parse", "main")


def test_deleting_a_branch_checks_nothing(pushing):
    repo = pushing.repo
    pushed(pushing, "main")
    repo.git("branch", "topic")
    repo.git("push", "-q", "origin", "topic")
    pushing.answers()
    repo.git("push", "-q", "origin", "--delete", "topic")
    assert pushing.answers() == []


def test_run_by_hand_with_nothing_staged_judges_the_branch(pushing):
    repo = pushing.repo
    pushed(pushing, "main")
    repo.git("fetch", "-q", "origin")
    repo.commit("two", {"b.py": "1\n"})
    pushing.answers()
    repo.run(pushing.driver, "run", "--all-files", "probe")
    answer = pushing.answer()
    assert answer["mode"] == "worktree"
    assert names(answer) == ["b.py"]


def test_run_by_hand_between_two_refs(pushing):
    repo = pushing.repo
    repo.commit("two", {"b.py": "1\n"})
    repo.commit("three", {"c.py": "1\n"})
    pushing.answers()
    repo.run(pushing.driver, "run", "--from-ref", "HEAD~1", "--to-ref", "HEAD", "probe")
    assert names(pushing.answer()) == ["c.py"]
