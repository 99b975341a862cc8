"""The hooks that kgate offers to pre-commit and prek."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"

CONFIG = """\
repos:
- repo: {url}
  rev: {rev}
  hooks:
  - id: kgate-lint-system
  - id: kgate-check-system
"""


def hooks() -> list[dict]:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(MANIFEST.read_text())


def test_every_hook_is_run_once_and_always_without_file_names():
    assert [hook["id"] for hook in hooks()] == [
        "kgate-lint", "kgate-check", "kgate-lint-system", "kgate-check-system",
    ]  # fmt: skip
    for hook in hooks():
        assert hook["pass_filenames"] is False
        assert hook["always_run"] is True
        assert hook["require_serial"] is True
        assert hook["stages"] == ["pre-commit", "pre-push", "manual"]
        assert hook["language"] == ("system" if hook["id"].endswith("-system") else "python")


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_manifest_is_valid(repo, tool, hooked_in):
    hooked = hooked_in(repo, tool)
    hooked.repo.run(tool, "validate-manifest", str(MANIFEST))


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_hooks_run_kgate_on_commit_also_where_only_a_file_is_deleted(new_repo, repo, tool, hooked_in, tmp_path):
    published = new_repo("published")
    shutil.copy(MANIFEST, published.path)
    rev = published.commit("hooks")
    hooked_in(repo, tool)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    asked = tmp_path / "asked"
    (bin_folder / "kgate").write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    (bin_folder / "kgate").chmod(0o755)
    repo.env["PATH"] = f"{bin_folder}:{repo.env['PATH']}"
    repo.write(".pre-commit-config.yaml", CONFIG.format(url=published.path.as_uri(), rev=rev))
    repo.commit("one", {"a.py": "1\n"})
    repo.git("rm", "-q", "a.py")
    repo.git("commit", "-q", "-m", "gone")
    assert asked.read_text().splitlines() == ["lint", "check"] * 2


@pytest.mark.parametrize("tool", ["pre-commit", "prek"])
def test_a_hook_that_fails_blocks_the_commit_and_keeps_the_edit(repo, tool, hooked_in):
    hooked_in(repo, tool, entry="false")
    repo.write("a.py", "1\n")
    repo.git("add", "-A")
    assert repo.run("git", "commit", "-q", "-m", "one", check=False).returncode != 0
    assert (repo.path / "a.py").read_text() == "1\n"
    assert repo.run("git", "rev-parse", "HEAD", check=False).returncode != 0
