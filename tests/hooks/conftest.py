"""Repositories whose hooks are run by git itself, by pre-commit and by prek."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent

PROBE = """\
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from kgate.source.git import Repository, changed_paths, export, resolve
repository = Repository(".")
found = resolve(repository)
tree = export(found.head, Path({trees!r}))
with open({answers!r}, "a") as file:
    json.dump({{
        "mode": found.mode,
        "base": found.base.commit if found.base else None,
        "head": found.head.commit,
        "tree": found.head.tree,
        "explanation": found.explanation,
        "changes": changed_paths(found.base, found.head),
        "files": {{path: found.head.read(path).decode() for path in found.head.files()}},
        "exported": sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()),
    }}, file)
    file.write("\\n")
"""

CONFIG = """\
repos:
- repo: local
  hooks:
  - id: probe
    name: probe
    entry: {entry}
    language: system
    pass_filenames: false
    always_run: true
    require_serial: true
    stages: [pre-commit, pre-push, manual]
"""


class Hooked:
    """A repository in which every commit asks ``resolve`` what it would judge."""

    def __init__(self, repo, driver: str, entry: str, answers: Path) -> None:
        self.repo = repo
        self.driver = driver
        self.entry = entry
        self._answers = answers

    def answers(self) -> list[dict]:
        """What was judged since the last time this was asked."""
        if not self._answers.exists():
            return []
        found = [json.loads(line) for line in self._answers.read_text().splitlines()]
        self._answers.unlink()
        return found

    def answer(self) -> dict:
        [found] = self.answers()
        return found

    def install(self) -> None:
        if self.driver == "git":
            self.repo.hook("pre-commit", f"#!/bin/sh\nexec {self.entry}\n")
            return
        self.repo.write(".pre-commit-config.yaml", CONFIG.format(entry=self.entry))
        self.repo.run(self.driver, "install", "-t", "pre-commit", "-t", "pre-push")


@pytest.fixture
def hooked_in(tmp_path: Path) -> Callable[..., Hooked]:
    """Gives a repository hooks of a driver; ``entry`` is the command, the probe where empty."""

    def make(repo, driver: str, entry: str = "") -> Hooked:
        if driver != "git" and shutil.which(driver, path=str(TOOLS)) is None:
            pytest.skip(f"{driver} is not installed")
        answers = tmp_path / f"answers-{repo.path.name}"
        probe = tmp_path / f"probe-{repo.path.name}.py"
        probe.write_text(PROBE.format(root=str(ROOT), trees=str(tmp_path / "trees"), answers=str(answers)))
        repo.env.update(
            PATH=f"{TOOLS}:{repo.env['PATH']}",
            PRE_COMMIT_HOME=str(tmp_path / "pre-commit-home"),
            PREK_HOME=str(tmp_path / "prek-home"),
        )
        made = Hooked(repo, driver, entry or f"{sys.executable} {probe}", answers)
        made.install()
        return made

    return make


@pytest.fixture(params=["git", "pre-commit", "prek"])
def driver(request: pytest.FixtureRequest) -> str:
    """Who runs the hooks."""
    return request.param


@pytest.fixture
def hooked(repo, driver, hooked_in) -> Hooked:
    """An empty repository with hooks."""
    return hooked_in(repo, driver)


@pytest.fixture
def started(hooked: Hooked) -> Hooked:
    """A repository with hooks, one commit, and two files in it."""
    hooked.repo.commit("one", {"a.py": "1\n", "b.py": "1\n"})
    hooked.answers()
    return hooked
