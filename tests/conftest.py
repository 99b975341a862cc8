"""Fixtures that several rooms use: git repositories that know nothing of the machine's own settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


class GitRepo:
    """A repository to play with; files are written and read relative to its root."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self.path = path
        self.env = dict(env)

    def run(self, *command: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=self.path, env={**self.env, **env}, capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(f"{command} failed:\n{done.stdout}\n{done.stderr}")
        return done

    def git(self, *arguments: str, **env: str) -> str:
        return self.run("git", *arguments, **env).stdout.strip()

    def write(self, path: str, text: str) -> Path:
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def commit(self, message: str, files: Mapping[str, str] | None = None) -> str:
        for path, text in (files or {}).items():
            self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def show(self, path: str, revision: str = "HEAD") -> str:
        return self.run("git", "show", f"{revision}:{path}").stdout

    def hook(self, name: str, script: str) -> None:
        place = self.path / ".git" / "hooks" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(script)
        place.chmod(0o755)


@pytest.fixture
def git_env(tmp_path: Path) -> dict[str, str]:
    """An environment without the machine's git settings, without CI's variables, with a name to commit under."""
    dropped = ("GIT_", "CI", "GITHUB_", "GITLAB_", "PRE_COMMIT", "BUILDKITE", "TF_BUILD", "JENKINS", "KGATE_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = A U Thor\nemail = author@example.com\n[init]\ndefaultBranch = main\n"
        '[protocol "file"]\nallow = always\n[commit]\ngpgsign = false\n'
    )
    env.update(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"), GIT_CONFIG_NOSYSTEM="1")
    return env


@pytest.fixture
def new_repo(tmp_path: Path, git_env: dict[str, str]) -> Callable[..., GitRepo]:
    """Makes an empty repository, or with ``clone_of`` a clone; ``options`` go to git clone."""

    def make(name: str = "repo", *options: str, clone_of: GitRepo | None = None) -> GitRepo:
        path = tmp_path / name
        if clone_of is None:
            path.mkdir(parents=True)
            repo = GitRepo(path, git_env)
            repo.git("init", "-q", *options)
            return repo
        parent = GitRepo(tmp_path, git_env)
        parent.git("clone", "-q", *options, clone_of.path.as_uri(), str(path))
        return GitRepo(path, git_env)

    return make


@pytest.fixture
def repo(new_repo: Callable[..., GitRepo]) -> GitRepo:
    """An empty repository on branch main."""
    return new_repo()
