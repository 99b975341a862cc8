"""What a run says about settings that do nothing and about paths that it does not look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgate.lint.run import LintOptions, lint
from kgate.source.config import ConfigError


def notes(folder: Path, config: str = "", *paths: str) -> tuple[str, ...]:
    """The notes of a run over two files, in a folder that git does not know."""
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "a.py").write_text("x = 1\n")
    (folder / "sub" / "b.py").write_text("y = 1\n")
    (folder / "kgate.toml").write_text(config)
    return lint(folder, LintOptions(paths=paths), env={}).notes


def test_settings_that_all_do_something_are_not_noted(tmp_path: Path) -> None:
    config = "exclude = ['sub']\n[per-file-ignores]\n'a.py' = ['KG203']\n'b.py' = ['KG203']\n"
    assert notes(tmp_path, config) == ()


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ("exclude = ['nope/**', 'sub']", "exclude: 'nope/**' matches no file"),
        ("per-file-ignores = {'[a.py' = ['KG203']}", "per-file-ignores: '[a.py' matches no file"),
        ("exclude = ['**']", "exclude matches every file, so nothing is looked at"),
        ("select = []", "no rule is on: select is empty"),
        ("ignore = ['ALL']", "no rule is on: ignore leaves none of what is selected"),
    ],
)
def test_a_setting_that_does_nothing_or_turns_everything_off_is_noted(tmp_path: Path, config: str, note: str) -> None:
    assert notes(tmp_path, config) == (note,)


def test_a_second_configuration_is_noted(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kgate]\n")
    assert notes(tmp_path) == ("kgate.toml is used, and the configuration in pyproject.toml is not",)


def test_a_named_path_that_is_excluded_is_noted(tmp_path: Path) -> None:
    excluded = "exclude = ['sub']"
    assert notes(tmp_path, excluded, "sub") == ("sub was not looked at: exclude matches",)
    assert notes(tmp_path, excluded, "sub/b.py", "a.py") == ("sub/b.py was not looked at: exclude matches",)
    assert notes(tmp_path, excluded, ".") == ()


def test_many_paths_that_are_not_looked_at_are_one_note(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = [f"sub/{name}.py" for name in "cdefg"]
    for name in names:
        (tmp_path / name).write_text("")
    (note,) = notes(tmp_path, "exclude = ['sub']", *names)
    assert note == "sub/c.py, sub/d.py, sub/e.py and 2 more were not looked at: exclude matches"


def test_a_named_path_that_git_ignores_is_noted(repo) -> None:
    repo.commit("one", {".gitignore": "ig.py\n", "a.py": "x = 1\n"})
    repo.write("ig.py", "import triton\n")
    for path in ("ig.py", ".git"):
        found = lint(repo.path, LintOptions(paths=(path,)), env=repo.env).notes
        assert found == (f"{path} was not looked at: ignored by git, or no part of the project",)
    assert lint(repo.path, LintOptions(paths=("a.py",)), env=repo.env).notes == ()


def test_a_configuration_that_git_cannot_read_is_refused(repo) -> None:
    (repo.path / "pyproject.toml").symlink_to(repo.path / "none")
    with pytest.raises(ConfigError, match="is a link to nothing"):
        lint(repo.path, env=repo.env)
