"""Finding a repository, its environment, and reading its objects."""

from __future__ import annotations

import os

import pytest

from kgate.source.git import GitError, Repository, clean_env, commit_snapshot


def test_clean_env_drops_what_a_hook_inherits_and_keeps_what_reaches_a_remote():
    inherited = {
        "PATH": "/bin",
        "GIT_DIR": ".git",
        "GIT_INDEX_FILE": ".git/index.lock",
        "GIT_WORK_TREE": ".",
        "GIT_PREFIX": "",
        "GIT_OBJECT_DIRECTORY": "x",
        "GIT_AUTHOR_DATE": "@0",
        "GIT_SSH_COMMAND": "ssh -i key",
        "GIT_SSL_CAINFO": "ca.pem",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.proxy",
        "GIT_CONFIG_VALUE_0": "p",
    }
    kept = clean_env(inherited)
    assert {name for name in kept if name in inherited} == {
        "PATH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0",
    }  # fmt: skip


def test_a_folder_is_read_as_the_repository_it_lies_in_whatever_a_surrounding_git_says(new_repo):
    mine, other = new_repo("mine"), new_repo("other")
    commit = mine.commit("mine", {"a.py": "1\n"})
    other.commit("other", {"b.py": "1\n"})
    inherited = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git/index"),
    }
    repository = Repository(mine.path, env={**mine.env, **inherited})
    assert repository.toplevel == mine.path
    assert repository.commit("HEAD") == commit
    assert repository.git("ls-files") == b"a.py\n"


def test_toplevel_is_found_from_a_subfolder(repo):
    repo.write("a/b/c.py", "")
    found = Repository(repo.path / "a" / "b", env=repo.env)
    assert found.toplevel == repo.path
    assert found.git_dir == found.common_dir == repo.path / ".git"


@pytest.mark.parametrize("name", ["with space", "ünï", "new\nline", "quote'\""])
def test_folders_may_have_any_name(new_repo, name):
    repo = new_repo(name)
    repo.commit("one", {"a.py": "1\n"})
    found = Repository(repo.path, env=repo.env)
    assert found.toplevel == repo.path
    assert commit_snapshot(found, "HEAD").read("a.py") == b"1\n"


def test_linked_worktree_has_its_own_toplevel_and_the_common_objects(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    found = Repository(tmp_path / "side", env=repo.env)
    assert found.toplevel == tmp_path / "side"
    assert found.common_dir == repo.path / ".git"
    assert found.git_dir == repo.path / ".git" / "worktrees" / "side"


def test_bare_repository_can_be_read_but_has_no_working_tree(repo, new_repo):
    repo.commit("one", {"a.py": "1\n"})
    bare = Repository(new_repo("bare.git", "--bare", clone_of=repo).path, env=repo.env)
    assert commit_snapshot(bare, "main").read("a.py") == b"1\n"
    with pytest.raises(GitError, match="no working tree"):
        _ = bare.toplevel


def test_repository_described_by_variables_alone(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    (repo.path / ".git").rename(tmp_path / "elsewhere")
    env = {**repo.env, "GIT_DIR": str(tmp_path / "elsewhere"), "GIT_WORK_TREE": str(repo.path)}
    found = Repository(repo.path, env=env)
    assert found.toplevel == repo.path
    assert commit_snapshot(found, "HEAD").read("a.py") == b"1\n"


def test_no_repository_is_an_error_with_a_remedy(tmp_path, git_env):
    with pytest.raises(GitError, match="not in a git repository") as caught:
        Repository(tmp_path, env=git_env)
    assert "git init" in caught.value.remedy


def test_no_such_folder_is_told_apart_from_no_git(tmp_path, git_env):
    with pytest.raises(GitError, match="no folder"):
        Repository(tmp_path / "nowhere", env=git_env)


def test_missing_git_is_an_error_with_a_remedy(repo, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="not installed") as caught:
        Repository(repo.path, env={**repo.env, "PATH": str(tmp_path)})
    assert "install git" in caught.value.remedy


def test_reading_many_objects_does_not_block_on_a_full_pipe(repo):
    repo.commit("many", {f"f{number}.txt": f"{number}\n" * 400 for number in range(700)})
    repo.write("big.bin", "x" * 3_000_000)
    repo.commit("big")
    snapshot = commit_snapshot(Repository(repo.path, env=repo.env), "HEAD")
    contents = snapshot.read_many(snapshot.files())
    assert contents["f699.txt"] == b"699\n" * 400
    assert len(contents["big.bin"]) == 3_000_000
    assert len(contents) == 701


def test_missing_object_is_an_error_and_later_reads_work(repo):
    repo.commit("one", {"a.py": "1\n"})
    repository = Repository(repo.path, env=repo.env)
    with pytest.raises(GitError, match="lacks object"):
        list(repository.read_objects(["1" * 40]))
    assert commit_snapshot(repository, "HEAD").read("a.py") == b"1\n"


def test_a_fork_reads_through_a_process_of_its_own(repo):
    repo.commit("one", {"a.py": "1\n", "b.py": "2\n"})
    snapshot = commit_snapshot(Repository(repo.path, env=repo.env), "HEAD")
    assert snapshot.read("a.py") == b"1\n"
    child = os.fork()
    if child == 0:
        os._exit(0 if snapshot.read("b.py") == b"2\n" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert snapshot.read("b.py") == b"2\n"


def test_close_ends_the_reading_process_and_a_later_read_starts_another(repo):
    repo.commit("one", {"a.py": "1\n"})
    repository = Repository(repo.path, env=repo.env)
    snapshot = commit_snapshot(repository, "HEAD")
    assert snapshot.read("a.py") == b"1\n"
    repository.close()
    assert snapshot.read("a.py") == b"1\n"


def test_a_git_that_ended_while_objects_were_read_is_no_missing_object(repo):
    repo.commit("one", {"a.py": "x = 1\n"})
    repository = Repository(repo.path, env=repo.env)
    oid = repo.git("rev-parse", "HEAD:a.py")
    assert list(repository.read_objects([oid])) == [b"x = 1\n"]
    reader = repository._object_reader()
    reader._child.kill()
    reader._child.wait()
    with pytest.raises(GitError, match="git ended while"):
        reader.read([oid])
    assert list(repository.read_objects([oid])) == [b"x = 1\n"]
