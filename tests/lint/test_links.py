"""Symbolic links in a linted tree: a file with several names is one file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgate.lint.run import LintOptions, lint

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def k(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.store(y, tl.sum(v))


def launch(x, y):
    k[(1,)](x, y, x.numel(), B=128)
"""
FILLED = KERNEL.replace("mask=o < n)", "mask=o < n, other=0.0)")
UNREASONED = KERNEL.replace("mask=o < n)", "mask=o < n)  # kgate: ignore[KG203]")
ONLY = LintOptions(select=("KG203",))


@pytest.fixture(params=["git", "folder"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``ops/k.py`` with links to it in its folder and in another one."""
    if request.param == "git":
        repo = request.getfixturevalue("repo")
        for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM"):
            monkeypatch.setenv(name, repo.env[name])
        top = Path(repo.path)
    else:
        top = tmp_path / "project"
        top.mkdir()
    for folder in ("ops", "links"):
        (top / folder).mkdir()
    (top / "ops" / "k.py").write_text(KERNEL)
    (top / "ops" / "a.py").symlink_to("k.py")
    (top / "links" / "z.py").symlink_to("../ops/a.py")
    return top


def found(top: Path, options: LintOptions = ONLY) -> list[tuple[str, str]]:
    return [(item.path, item.code) for item in lint(top, options, {}).findings]


def test_a_finding_is_reported_once_under_the_name_of_the_file(project: Path) -> None:
    assert found(project) == [("ops/k.py", "KG203")]


def test_a_file_with_several_names_counts_once(project: Path) -> None:
    result = lint(project, ONLY, {})
    assert (result.device_functions, result.frameworks) == (1, {"triton": 1})
    assert [note for note in result.notes if note.startswith("1 kernel is launched")]


@pytest.mark.parametrize("named", ["ops/k.py", "ops/a.py", "links/z.py", "links", "ops", "."])
def test_a_file_is_asked_for_by_any_of_its_names(project: Path, named: str) -> None:
    paths = (named,)
    assert found(project, LintOptions(paths=paths, select=("KG203",))) == [("ops/k.py", "KG203")]


def test_a_comment_is_judged_once(project: Path) -> None:
    (project / "ops" / "k.py").write_text(UNREASONED)
    assert found(project, LintOptions(select=("KG002", "KG003"))) == [("ops/k.py", "KG003")]


def test_a_fix_is_made_and_counted_once_and_keeps_the_links(project: Path) -> None:
    result = lint(project, LintOptions(select=("KG203",), fix=True), {})
    assert (result.fixed, result.findings) == (1, ())
    assert (project / "ops" / "k.py").read_text() == FILLED
    assert os.readlink(project / "links" / "z.py") == "../ops/a.py"


def test_a_diff_changes_the_file_and_not_its_links(project: Path) -> None:
    result = lint(project, LintOptions(select=("KG203",), diff=True), {})
    assert [line for line in result.diff.splitlines() if line.startswith("+++")] == ["+++ b/ops/k.py"]
    assert result.findings == ()


def test_an_ignore_is_written_once_and_nothing_is_left_alone(project: Path) -> None:
    result = lint(project, LintOptions(select=("KG203",), add_ignore="a reason"), {})
    assert (result.ignored, result.findings) == (1, ())
    assert [note for note in result.notes if "left alone" in note] == []
    assert (project / "ops" / "k.py").read_text().count("kgate: ignore[KG203] a reason") == 1


def test_a_link_to_an_excluded_file_is_judged_under_its_own_name(project: Path) -> None:
    (project / "kgate.toml").write_text('exclude = ["ops/**"]\n')
    assert found(project) == [("links/z.py", "KG203")]


def test_a_link_to_a_file_that_is_no_python_by_its_name_is_judged(project: Path) -> None:
    (project / "ops" / "k.py").rename(project / "ops" / "k.py.in")
    for name in ("ops/a.py", "links/z.py"):
        (project / name).unlink()
    (project / "ops" / "a.py").symlink_to("k.py.in")
    assert found(project) == [("ops/a.py", "KG203")]


def test_links_to_one_file_outside_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(KERNEL)
    top = tmp_path / "project"
    top.mkdir()
    for name in ("b.py", "c.py"):
        (top / name).symlink_to("../outside.py")
    assert found(top) == [("b.py", "KG203")]


def test_what_two_names_do_not_share_is_reported_too(project: Path) -> None:
    source = (
        "from kgate import kernel\nfrom .refs import plain\n\n@kernel(reference=plain, fallback=plain)\ndef f(x):\n"
    )
    (project / "ops" / "k.py").write_text(source + "    return x\n")
    (project / "links" / "refs.py").write_text("def plain(x):\n    return x\n")
    assert {path for path, _ in found(project, LintOptions(select=("KG1",)))} == {"ops/k.py"}
