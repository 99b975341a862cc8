"""A clone of this repository to break, and kgate run in it as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("kernels", "baselines", "pyproject.toml")


def plain_environment() -> dict[str, str]:
    """The environment without what a surrounding git, hook or CI set."""
    dropped = ("GIT_", "GITHUB_", "GITLAB_", "CI_", "PRE_COMMIT")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped) and name != "CI"}
    env.update(
        KGATE_PYTHON=sys.executable,
        PYTHONPATH=str(ROOT),
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_AUTHOR_NAME="A",
        GIT_AUTHOR_EMAIL="a@example.org",
        GIT_COMMITTER_NAME="A",
        GIT_COMMITTER_EMAIL="a@example.org",
    )
    return env


@dataclass
class Clone:
    """A repository of its own with this one's kernels and baselines."""

    path: Path
    env: dict[str, str]

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, message: str = "change") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace one occurrence; a fault that no longer applies must not pass for one that is found."""
        file = self.path / path
        text = file.read_text()
        assert text.count(old) == 1, f"{path}: {old!r} stands there {text.count(old)} times"
        file.write_text(text.replace(old, new))

    def kgate(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run kgate; whatever happens, a user must not see a traceback."""
        done = subprocess.run(
            [sys.executable, "-m", "kgate", *arguments],
            cwd=self.path, env={**self.env, **env}, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def check(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """``kgate check``: exit code, the report as JSON, and the message that a person reads."""
        report = self.path / ".kgate" / "report.json"
        done = self.kgate("check", *arguments, "--format", "json", "-o", str(report))
        document = json.loads(report.read_text()) if report.exists() else {}
        return done.returncode, document, done.stdout + done.stderr


def make_clone(path: Path) -> Clone:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, path / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            path.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, path / part)
    clone = Clone(path, plain_environment())
    clone.git("init", "-q", "-b", "main")
    clone.commit("start")
    return clone


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return make_clone(tmp_path / "clone")
