"""Which base and which head: by hand, on a CI service, with refs from pre-commit, in shallow clones."""

from __future__ import annotations

import json

import pytest

from kgate.source.git import GitError, Repository, changed_paths, resolve

ZEROS = "0" * 40


def compared(repo, env=None, **asked):
    repository = Repository(repo.path, env={**repo.env, **(env or {})})
    return resolve(repository, **asked)


def names(comparison):
    return sorted({new or old for _, old, new in changed_paths(comparison.base, comparison.head)})


@pytest.fixture
def origin(repo):
    """Three commits on main, then a branch ``feature`` with two, after which main moved on by one."""
    for number in range(3):
        repo.commit(f"main {number}", {f"main{number}.py": "1\n"})
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit("feature 1", {"feature.py": "1\n"})
    repo.commit("feature 2", {"feature.py": "2\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("main moves on", {"moved.py": "1\n"})
    return repo


def pull_request_merge(origin) -> str:
    """What a host makes of a pull request: a merge commit under a ref of its own."""
    origin.git("checkout", "-q", "--detach", "main")
    origin.git("merge", "-q", "--no-ff", "-m", "merge", "feature")
    commit = origin.git("rev-parse", "HEAD")
    origin.git("update-ref", "refs/pull/7/merge", commit)
    origin.git("checkout", "-q", "main")
    return commit


# By hand --------------------------------------------------------------------------------------------------


def test_by_hand_the_working_tree_is_compared_with_where_it_left_the_remote_branch(origin, new_repo):
    clone = new_repo("clone", clone_of=origin)
    clone.git("checkout", "-q", "feature")
    clone.write("untracked.py", "1\n")
    found = compared(clone)
    assert found.mode == "worktree"
    assert names(found) == ["feature.py", "untracked.py"]
    assert found.distance == 2
    assert "the working tree against" in found.explanation
    assert "where it left origin/main, 2 commits back" in found.explanation


def test_by_hand_on_the_default_branch_local_commits_count(origin, new_repo):
    clone = new_repo("clone", clone_of=origin)
    clone.commit("local", {"local.py": "1\n"})
    found = compared(clone)
    assert names(found) == ["local.py"]
    assert found.distance == 1


def test_by_hand_without_a_remote_the_local_main_branch_is_the_base(origin):
    origin.git("checkout", "-q", "feature")
    found = compared(origin)
    assert names(found) == ["feature.py"]
    assert "where it left main" in found.explanation


def test_by_hand_on_main_without_a_remote_the_last_commit_is_the_base(origin):
    origin.write("main0.py", "2\n")
    found = compared(origin)
    assert names(found) == ["main0.py"]
    assert "the last commit" in found.explanation
    assert found.distance == 0


def test_by_hand_before_the_first_commit_everything_is_new(repo):
    repo.write("a.py", "1\n")
    found = compared(repo)
    assert found.base is None
    assert names(found) == ["a.py"]
    assert "everything is new" in found.explanation


def test_by_hand_a_clone_too_shallow_is_an_error_with_the_command_that_cures_it(origin, new_repo):
    clone = new_repo("clone", "--depth=1", "--no-single-branch", clone_of=origin)
    clone.git("checkout", "-q", "feature")
    with pytest.raises(GitError, match="too shallow") as caught:
        compared(clone)
    command = caught.value.remedy.removeprefix("run: ").split(", or")[0]
    clone.run(*command.split())
    assert names(compared(clone)) == ["feature.py"]


def test_by_hand_nothing_is_fetched(origin, new_repo):
    clone = new_repo("clone", "--depth=1", "--no-single-branch", clone_of=origin)
    clone.git("checkout", "-q", "feature")
    before = clone.git("count-objects")
    with pytest.raises(GitError):
        compared(clone)
    assert clone.git("count-objects") == before


# As asked -------------------------------------------------------------------------------------------------


def test_a_given_base_that_moved_on_is_compared_at_the_merge_base(origin):
    origin.git("checkout", "-q", "feature")
    found = compared(origin, base="main")
    assert found.mode == "explicit"
    assert names(found) == ["feature.py"]
    assert "where it left main" in found.explanation


def test_given_base_and_head_leave_the_working_tree_out_of_it(origin):
    origin.write("main0.py", "edited\n")
    found = compared(origin, base="main~2", head="main")
    assert names(found) == ["main2.py", "moved.py"]
    assert found.distance == 2


def test_a_given_tree_is_compared_as_it_is(origin):
    found = compared(origin, base="main^{tree}", head="feature")
    assert names(found) == ["feature.py", "moved.py"]
    assert found.distance is None


def test_a_given_head_alone_is_compared_with_where_it_left_main(origin):
    assert names(compared(origin, head="feature")) == ["feature.py"]


def test_a_given_head_that_is_main_itself_is_compared_with_its_first_parent(origin):
    assert names(compared(origin, head="main")) == ["moved.py"]


def test_unknown_base_is_an_error_with_a_command(origin):
    with pytest.raises(GitError, match="no commit 'nowhere'") as caught:
        compared(origin, base="nowhere")
    assert "git fetch origin nowhere" in caught.value.remedy


def test_unrelated_histories_are_compared_as_asked(origin):
    origin.git("checkout", "-q", "--orphan", "other")
    origin.git("rm", "-rfq", ".")
    origin.commit("other root", {"other.py": "quite another thing\n"})
    found = compared(origin, base="main", head="other")
    assert "no history" in found.explanation
    assert "other.py" in names(found)
    assert "main0.py" in names(found)


# CI -------------------------------------------------------------------------------------------------------


def github(event: str, tmp_path, document=None, **more):
    path = tmp_path / "event.json"
    path.write_text(json.dumps(document or {}))
    env = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(path)}
    return {**env, **more}


@pytest.mark.parametrize("depth", [1, 2])
def test_pull_request_merge_commit_is_compared_with_its_first_parent(origin, new_repo, tmp_path, depth):
    commit = pull_request_merge(origin)
    runner = new_repo("runner", f"--depth={depth}", "--branch=feature", clone_of=origin)
    runner.git("fetch", "-q", f"--depth={depth}", "origin", "refs/pull/7/merge")
    runner.git("checkout", "-q", "--detach", commit)
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/7/merge")
    found = compared(runner, env)
    assert found.mode == "ci"
    assert found.head.commit == commit
    assert names(found) == ["feature.py"]


def test_merge_commit_of_depth_two_needs_no_network(origin, new_repo, tmp_path):
    commit = pull_request_merge(origin)
    runner = new_repo("runner", "--depth=2", clone_of=origin)
    runner.git("fetch", "-q", "--depth=2", "origin", "refs/pull/7/merge")
    runner.git("checkout", "-q", "--detach", commit)
    runner.git("remote", "set-url", "origin", "file:///nowhere")
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/7/merge")
    assert names(compared(runner, env)) == ["feature.py"]


def test_merge_commit_of_depth_one_without_network_fails_with_the_exact_command(origin, new_repo, tmp_path):
    commit = pull_request_merge(origin)
    runner = new_repo("runner", "--depth=1", "--branch=feature", clone_of=origin)
    runner.git("fetch", "-q", "--depth=1", "origin", "refs/pull/7/merge")
    runner.git("checkout", "-q", "--detach", commit)
    runner.git("remote", "set-url", "origin", "file:///nowhere")
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/7/merge")
    with pytest.raises(GitError, match="is not in this clone") as caught:
        compared(runner, env)
    runner.git("remote", "set-url", "origin", origin.path.as_uri())
    runner.run(*caught.value.remedy.removeprefix("run: ").split())
    assert names(compared(runner, env)) == ["feature.py"]


@pytest.mark.parametrize("depth", [1, 2])
def test_pull_request_head_in_a_shallow_clone_is_deepened_to_the_merge_base(origin, new_repo, tmp_path, depth):
    runner = new_repo("runner", f"--depth={depth}", "--branch=feature", clone_of=origin)
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/7/head")
    found = compared(runner, env)
    assert names(found) == ["feature.py"]
    assert "where it left origin/main" in found.explanation


def test_a_stale_target_branch_is_fetched_anew(origin, new_repo, tmp_path):
    runner = new_repo("runner", clone_of=origin)
    origin.git("checkout", "-q", "-b", "late", "main")
    origin.commit("more on main", {"more.py": "1\n"})
    origin.git("branch", "-f", "main", "late")
    origin.commit("late", {"late.py": "1\n"})
    runner.git("fetch", "-q", "origin", "late")
    runner.git("checkout", "-q", "--detach", "FETCH_HEAD")
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", GITHUB_REF="refs/pull/8/head")
    assert names(compared(runner, env)) == ["late.py"]


def test_missing_target_branch_fails_with_the_exact_command(origin, new_repo, tmp_path):
    runner = new_repo("runner", "--single-branch", "--branch=feature", clone_of=origin)
    runner.git("remote", "set-url", "origin", "file:///nowhere")
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main")
    with pytest.raises(GitError, match="target branch origin/main") as caught:
        compared(runner, env)
    runner.git("remote", "set-url", "origin", origin.path.as_uri())
    runner.run(*caught.value.remedy.removeprefix("run: ").split())
    assert names(compared(runner, env)) == ["feature.py"]


def test_pull_request_job_that_checked_out_the_target_branch_is_not_a_pass(origin, new_repo, tmp_path):
    runner = new_repo("runner", clone_of=origin)
    with pytest.raises(GitError, match="not checked out"):
        compared(runner, github("pull_request_target", tmp_path, GITHUB_BASE_REF="main"))


def test_merge_group_uses_its_own_base(origin, new_repo, tmp_path):
    base = origin.git("rev-parse", "main")
    head = pull_request_merge(origin)
    runner = new_repo("runner", "--depth=1", clone_of=origin)
    runner.git("fetch", "-q", "--depth=1", "origin", head)
    runner.git("checkout", "-q", "--detach", head)
    env = github("merge_group", tmp_path, {"merge_group": {"base_sha": base, "head_sha": head}})
    found = compared(runner, env)
    assert found.base is not None
    assert found.base.commit == base
    assert names(found) == ["feature.py"]


def test_merge_group_without_its_event_file_is_an_error(origin):
    env = {"CI": "true", "GITHUB_EVENT_NAME": "merge_group", "GITHUB_EVENT_PATH": "/nowhere"}
    with pytest.raises(GitError, match="event file"):
        compared(origin, env)


def test_push_to_the_default_branch_is_compared_with_what_it_was(origin, new_repo, tmp_path):
    before = origin.git("rev-parse", "main~2")
    runner = new_repo("runner", clone_of=origin)
    event = {"before": before, "repository": {"default_branch": "main"}}
    found = compared(runner, github("push", tmp_path, event, GITHUB_REF="refs/heads/main"))
    assert names(found) == ["main2.py", "moved.py"]


def test_scheduled_build_of_the_default_branch_never_compares_it_with_itself(origin, new_repo, tmp_path):
    runner = new_repo("runner", "--depth=1", clone_of=origin)
    event = {"repository": {"default_branch": "main"}}
    found = compared(runner, github("schedule", tmp_path, event, GITHUB_REF="refs/heads/main"))
    assert names(found) == ["moved.py"]
    assert "first parent" in found.explanation


def test_push_of_another_branch_is_compared_with_where_it_left_the_default_branch(origin, new_repo, tmp_path):
    runner = new_repo("runner", "--depth=1", "--branch=feature", clone_of=origin)
    event = {"before": ZEROS, "repository": {"default_branch": "main"}}
    found = compared(runner, github("push", tmp_path, event, GITHUB_REF="refs/heads/feature"))
    assert names(found) == ["feature.py"]


def test_gitlab_merge_request_uses_its_diff_base_or_its_target_branch(origin, new_repo):
    runner = new_repo("runner", "--depth=1", "--branch=feature", clone_of=origin)
    env = {"CI": "true", "GITLAB_CI": "true", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    assert names(compared(runner, env)) == ["feature.py"]
    env["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = origin.git("merge-base", "main", "feature")
    assert names(compared(runner, env)) == ["feature.py"]


def test_ci_of_no_known_service(origin, new_repo):
    runner = new_repo("runner", "--branch=feature", clone_of=origin)
    assert names(compared(runner, {"CI": "1"})) == ["feature.py"]


# Refs from pre-commit and prek ----------------------------------------------------------------------------


def test_push_refs_are_compared_at_their_merge_base(origin):
    env = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": "main", "PRE_COMMIT_TO_REF": "feature"}
    found = compared(origin, env)
    assert found.mode == "pre-push"
    assert names(found) == ["feature.py"]


def test_push_after_an_amend_finds_the_same_base_whichever_ref_is_given(origin):
    old = origin.git("rev-parse", "feature")
    origin.git("checkout", "-q", "feature")
    origin.write("amended.py", "1\n")
    origin.git("add", "-A")
    origin.git("commit", "-q", "--amend", "--no-edit")
    bases = set()
    for start in (old, origin.git("rev-parse", "feature^")):
        env = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": start, "PRE_COMMIT_TO_REF": "feature"}
        bases.add(compared(origin, env).base.commit)
    assert bases == {origin.git("rev-parse", "feature^")}


def test_push_of_a_new_branch_is_compared_with_where_it_left_what_the_remote_has(origin, new_repo):
    clone = new_repo("clone", clone_of=origin)
    clone.git("checkout", "-q", "-b", "topic", "origin/feature")
    clone.commit("topic", {"topic.py": "1\n"})
    env = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": ZEROS, "PRE_COMMIT_TO_REF": "topic"}
    found = compared(clone, env)
    assert names(found) == ["topic.py"]
    assert "origin/feature" in found.explanation


def test_root_push_has_no_base(origin):
    env = {
        "PRE_COMMIT": "1",
        "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/main",
        "PRE_COMMIT_REMOTE_NAME": "origin",
    }
    found = compared(origin, env)
    assert found.base is None
    assert found.head.commit == origin.git("rev-parse", "main")
    assert "none of its history" in found.explanation


def test_push_of_a_tag_is_that_of_its_commit(origin):
    origin.git("tag", "-a", "v1", "-m", "one", "feature")
    env = {
        "PRE_COMMIT": "1",
        "PRE_COMMIT_FROM_REF": "main",
        "PRE_COMMIT_TO_REF": origin.git("rev-parse", "v1"),
    }
    found = compared(origin, env)
    assert found.head.commit == origin.git("rev-parse", "feature")
    assert names(found) == ["feature.py"]


def test_deleting_a_ref_says_that_there_is_nothing_to_check(origin):
    env = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": "feature", "PRE_COMMIT_TO_REF": ZEROS}
    found = compared(origin, env)
    assert names(found) == []
    assert "deletes a ref" in found.explanation


def test_a_remote_commit_that_is_not_here_is_an_error_with_a_command(origin):
    env = {"PRE_COMMIT": "1", "PRE_COMMIT_FROM_REF": "1" * 40, "PRE_COMMIT_TO_REF": "feature"}
    with pytest.raises(GitError, match="not in this clone") as caught:
        compared(origin, env)
    assert "git fetch" in caught.value.remedy


# The hook, as far as variables tell ------------------------------------------------------------------------


def test_staged_on_request(origin):
    origin.write("main0.py", "2\n")
    origin.git("add", "main0.py")
    origin.write("main1.py", "2\n")
    found = compared(origin, staged=True)
    assert found.mode == "hook"
    assert names(found) == ["main0.py"]


def test_run_by_pre_commit_with_nothing_staged_is_not_nothing_changed(origin):
    origin.git("checkout", "-q", "feature")
    found = compared(origin, {"PRE_COMMIT": "1"})
    assert found.mode == "worktree"
    assert names(found) == ["feature.py"]


def test_run_by_pre_commit_on_ci_with_nothing_staged_is_judged_as_ci(origin, new_repo, tmp_path):
    runner = new_repo("runner", "--branch=feature", clone_of=origin)
    env = github("pull_request", tmp_path, GITHUB_BASE_REF="main", PRE_COMMIT="1")
    found = compared(runner, env)
    assert found.mode == "ci"
    assert names(found) == ["feature.py"]


def test_index_file_that_is_gone_is_an_error(origin):
    with pytest.raises(GitError, match="GIT_INDEX_FILE"):
        compared(origin, {"GIT_INDEX_FILE": ".git/nowhere"})
