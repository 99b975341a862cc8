"""``kgate lint`` and ``kgate rule`` from the command line: options, exit codes, formats, files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kgate.cli import LINT_FORMATS, main
from kgate.lint.project import watch
from kgate.report.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float32) * (i < n)
    tl.store(y + i, v, mask=i < n)
"""
LINE = 8
STALE = KERNEL.replace("mask=i < n)\n", "mask=i < n)  # kgate: ignore[KG309] not any more\n")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without git and without configuration, with one warning in it (KG309)."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PRE_COMMIT", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "k.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kgate(*arguments: str) -> Result:
    done = CliRunner().invoke(main, arguments, prog_name="kgate")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def codes(*arguments: str) -> list[str]:
    return [item["code"] for item in json.loads(kgate("lint", "--format", "json", *arguments).stdout)["findings"]]


def test_a_warning_is_shown_with_its_source_and_does_not_fail(project: Path) -> None:
    done = kgate("lint", "--select", "KG309")
    assert done.exit_code == 0
    head, *rest = done.stdout.splitlines()
    assert head.startswith(f"k.py:{LINE}:9: warning KG309 multiply-by-mask: ")
    assert f"{LINE} |     v = tl.load(x + i).to(tl.float32) * (i < n)" in rest
    assert "\x1b" not in done.stdout


def test_strict_fails_for_warnings_and_exit_zero_for_nothing(project: Path) -> None:
    assert kgate("lint", "--select", "KG309", "--strict").exit_code == 1
    assert kgate("lint", "--select", "KG309", "--strict", "--exit-zero").exit_code == 0


def test_an_error_fails_unless_told_otherwise(project: Path) -> None:
    (project / "k.py").write_text(KERNEL + "x = 1  # kgate: ignore\n")
    assert kgate("lint").exit_code == 1
    assert kgate("lint", "--exit-zero").exit_code == 0


def test_rules_are_selected_by_lists_and_repeated_options(project: Path) -> None:
    (project / "k.py").write_text(STALE)
    assert codes("--select", "KG309,KG002") == ["KG309", "KG002"]
    assert codes("--select", "KG309", "--select", "unused-ignore") == ["KG309", "KG002"]
    assert codes("--select", "KG3", "--ignore", "multiply-by-mask") == []
    assert codes("--select", "KG002", "--extend-select", "KG309") == ["KG309", "KG002"]


def test_the_configuration_selects_and_ignores_by_file(project: Path) -> None:
    (project / "kgate.toml").write_text('require = []\nselect = ["KG3"]\n[per-file-ignores]\n"k.py" = ["KG309"]\n')
    (project / "other.py").write_text(KERNEL)
    found = json.loads(kgate("lint", "--format", "json").stdout)["findings"]
    assert [(item["code"], item["path"]) for item in found] == [("KG309", "other.py")]


def test_paths_narrow_the_findings(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "other.py").write_text(KERNEL)
    found = json.loads(kgate("lint", "--select", "KG309", "--format", "json", "sub").stdout)["findings"]
    assert [item["path"] for item in found] == ["sub/other.py"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--select", "KG999"], "--select: 'KG999' is no rule"),
        (["--ignore", "multiply-by-masks"], "did you mean multiply-by-mask?"),
        (["--add-ignore", " "], "it is empty"),
        (["--add-ignore", "-"], "reads as none"),
        (["--add-ignore", " : \N{EM DASH}"], "reads as none"),
        (["--add-ignore", "\\"], "reads as none"),
        (["--diff", "--add-ignore", "r"], "--diff and --add-ignore say different things"),
        (["--fix", "--add-ignore", "r"], "--fix and --add-ignore say different things"),
        (["--watch", "--add-ignore", "r"], "use --add-ignore alone"),
        (["--unsafe-fixes"], "goes with --fix or --diff"),
        (["--base", "main"], "give --changed too"),
        (["--base", "", "--changed"], "--base is empty"),
        (["--changed"], "is in no git repository"),
        (["--statistics", "--format", "sarif"], "--statistics has no format sarif"),
        (["--diff", "--format", "json"], "--diff is a diff"),
        (["--format", "xml"], "'xml' is not one of"),
        (["nowhere"], "nowhere"),
        (["-o", "k.py/x.json"], "name another place"),
        (["-o", "../nowhere/x.json"], "there is no such folder"),
        (["-o", "/nowhere/at/all/x.json"], "there is no such folder"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(project: Path, arguments: list[str], said: str) -> None:
    done = kgate("lint", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert (project / "k.py").read_text() == KERNEL


def test_a_wrong_rule_in_the_configuration_names_the_file(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.kgate]\nignore = ["KG20x"]\n')
    done = kgate("lint")
    assert done.exit_code == 2
    assert "pyproject.toml: tool.kgate.ignore: 'KG20x' is no rule" in done.stderr


def test_the_command_offers_every_format() -> None:
    assert LINT_FORMATS == FORMATS


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_names_the_finding_and_can_be_written_to_a_file(project: Path, style: str) -> None:
    shown = kgate("lint", "--select", "KG309", "--format", style).stdout
    done = kgate("lint", "--select", "KG309", "--format", style, "-o", "out/report")
    assert done.stdout == ""
    text = (project / "out" / "report").read_text(encoding="utf-8")
    assert text == shown
    assert "KG309" in text
    assert str(LINE) in text
    if style in ("json", "sarif", "gitlab"):
        json.loads(text)
    if style == "junit":
        ElementTree.fromstring(text)


def test_statistics_replace_the_findings(project: Path) -> None:
    text = kgate("lint", "--select", "KG309", "--statistics").stdout
    assert text.startswith("1  warning")
    assert "k.py" not in text
    document = json.loads(kgate("lint", "--select", "KG309", "--statistics", "--format", "json").stdout)
    assert [(row["code"], row["count"]) for row in document["statistics"]] == [("KG309", 1)]


def test_quiet_is_silent_about_a_clean_project(project: Path) -> None:
    assert kgate("lint", "--select", "KG001", "-q").stdout == ""


# Suppressions ---------------------------------------------------------------------------------------------


def test_a_finding_is_ignored_with_a_reason_and_reported_without(project: Path) -> None:
    for comment, expected in (("ignore[KG309] a count", []), ("ignore[KG309]", ["KG309", "KG003"])):
        (project / "k.py").write_text(KERNEL.replace(" * (i < n)\n", f" * (i < n)  # kgate: {comment}\n"))
        assert codes("--select", "KG309,KG00") == expected


def test_add_ignore_writes_comments_that_the_next_run_heeds(project: Path) -> None:
    done = kgate("lint", "--select", "KG309", "--add-ignore", "before the linter came")
    assert done.exit_code == 0
    assert "wrote ignores for 1 finding" in done.stdout
    text = (project / "k.py").read_text()
    assert text == KERNEL.replace("* (i < n)\n", "* (i < n)  # kgate: ignore[KG309] before the linter came\n")
    assert codes("--select", "KG309,KG00") == []


def test_add_ignore_leaves_undeclared_kernels_to_the_configuration(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.kgate]\n")
    (project / "k.py").write_text(KERNEL + "\n\ndef launch(x, y):\n    k[(1,)](x, y, x.numel(), B=1024)\n")
    done = kgate("lint", "--select", "KG309,KG101", "--add-ignore", "before the linter came")
    assert done.exit_code == 1
    assert "1 KG101 got no ignore" in done.stdout
    assert 'ignore = ["KG101"]' in done.stdout
    assert (project / "k.py").read_text().count("kgate: ignore") == 1
    assert codes("--select", "KG309,KG101") == ["KG101"]


def test_add_ignore_leaves_notes_alone(project: Path) -> None:
    source = KERNEL.replace("def k(", "def _k(")
    (project / "k.py").write_text(source)
    assert codes("--select", "KG125") == ["KG125"]
    kgate("lint", "--select", "KG125", "--add-ignore", "before the linter came")
    assert (project / "k.py").read_text() == source


def test_an_unused_ignore_is_a_finding_and_fix_removes_it(project: Path) -> None:
    (project / "k.py").write_text(STALE)
    assert "KG002" in codes("--select", "KG309,KG002")
    done = kgate("lint", "--select", "KG309,KG002", "--fix")
    assert "fixed 1 finding" in done.stdout
    assert (project / "k.py").read_text() == KERNEL


def test_diff_shows_the_fix_makes_none_and_exits_with_1(project: Path) -> None:
    (project / "k.py").write_text(STALE)
    done = kgate("lint", "--select", "KG309,KG002", "--diff")
    assert done.exit_code == 1
    assert done.stdout.startswith("diff --git a/k.py b/k.py\n--- a/k.py\n+++ b/k.py\n")
    assert "+    tl.store(y + i, v, mask=i < n)\n" in done.stdout
    assert (project / "k.py").read_text() == STALE
    (project / "k.py").write_text(KERNEL)
    done = kgate("lint", "--select", "KG002", "--diff")
    assert (done.exit_code, done.stdout) == (0, "")


def test_fix_with_diff_shows_the_fixes_and_makes_none(project: Path) -> None:
    (project / "k.py").write_text(STALE)
    both = kgate("lint", "--select", "KG309,KG002", "--fix", "--diff")
    alone = kgate("lint", "--select", "KG309,KG002", "--diff")
    assert (both.exit_code, both.stdout) == (alone.exit_code, alone.stdout)
    assert (project / "k.py").read_text() == STALE


@pytest.mark.parametrize("where", ["stdout", "file"])
@pytest.mark.parametrize("name", ["k.py", "\udce9.py"])
def test_a_diff_applies_whatever_bytes_a_file_and_its_name_hold(project: Path, where: str, name: str) -> None:
    (project / "k.py").unlink()
    source = ("# coding: latin-1\n" + STALE.replace("not any more", "not any more \u00e9")).encode("latin-1")
    (project / name).write_bytes(source)
    options = ["-o", "fixes.patch"] if where == "file" else []
    done = kgate("lint", "--select", "KG309,KG002", "--diff", "-q", *options)
    assert done.exit_code == 1
    patch = (project / "fixes.patch").read_bytes() if where == "file" else done.stdout_bytes
    subprocess.run(["git", "apply", "-"], cwd=project, input=patch, check=True)
    assert (project / name).read_bytes() == ("# coding: latin-1\n" + KERNEL).encode()


# What cannot be read, and faults of kgate itself ----------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        b"<<<<<<< HEAD\n" + KERNEL.encode() + b"=======\n>>>>>>> other\n",
        KERNEL.replace("mask=i < n)", "mask=i < n").encode(),
        b"# \xe9\n" + KERNEL.encode(),
        b"import numba\n\0\n",
        b"import numba\nx = " + b"(" * 5000 + b"\n",
        b"s = '__global__ void k() {}'\ndef f(:\n",
    ],
    ids=["conflict", "parenthesis", "encoding", "nul", "nested", "cuda"],
)
def test_a_file_with_kernels_that_cannot_be_read_fails(project: Path, broken: bytes) -> None:
    (project / "k.py").write_bytes(broken)
    assert kgate("lint").exit_code == 1
    found = json.loads(kgate("lint", "--format", "json").stdout)["findings"]
    assert [(item["code"], item["severity"]) for item in found] == [("KG001", "error")]


def test_a_file_that_is_not_about_kernels_is_left_to_other_tools(project: Path) -> None:
    (project / "k.py").write_text("def f(:\n")
    done = kgate("lint")
    assert (done.exit_code, "no findings" in done.stdout) == (0, True)


@pytest.mark.parametrize("error", [ValueError("of a kind\nthat nobody foresaw"), MemoryError(), RecursionError()])
def test_a_fault_of_kgate_is_exit_code_4_and_a_sentence(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.delenv("KGATE_DEBUG", raising=False)
    monkeypatch.setattr("kgate.lint.run.lint", fail)
    for arguments in (["lint"], ["lint", "--exit-zero"], ["lint", "--watch"]):
        done = kgate(*arguments)
        assert done.exit_code == 4
        assert f"kgate: {type(error).__name__}" in done.stderr
        assert "kgate --debug" in done.stderr
        assert "Traceback" not in done.output
    done = kgate("--debug", "lint")
    assert (done.exit_code, done.stderr.startswith("Traceback")) == (4, True)
    assert "kgate --debug" not in done.stderr
    monkeypatch.setenv("KGATE_DEBUG", "1")
    assert kgate("lint").stderr.startswith("Traceback")


# Changed lines --------------------------------------------------------------------------------------------


def test_changed_shows_findings_on_changed_lines_only(repo) -> None:
    repo.commit("one", {"k.py": KERNEL})
    repo.write("k.py", KERNEL.replace("import triton\n", "import triton  # a\n", 1) + KERNEL.replace("def k", "def l"))
    done = subprocess.run(
        [sys.executable, "-m", "kgate", "lint", "--select", "KG309", "--changed", "--format", "json"],
        cwd=repo.path, env={**repo.env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [item["line"] for item in json.loads(done.stdout)["findings"]] == [LINE + KERNEL.count("\n")]


# Watching -------------------------------------------------------------------------------------------------


def test_watch_runs_again_after_a_change_and_ends_cleanly(project: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "kgate", "lint", "--select", "KG309", "--watch", "--format", "concise"]
    log = project / "log.txt"
    with log.open("w") as stream:
        child = subprocess.Popen(command, cwd=project, env=env, stdout=stream, stderr=subprocess.STDOUT)
        try:
            _until(lambda: log.read_text().count("watching for changes") == 1)
            assert f"k.py:{LINE}:9: warning KG309" in log.read_text()
            (project / "kgate.toml").write_text("requir = []\n")
            _until(lambda: "did you mean 'require'?" in log.read_text())
            (project / "kgate.toml").unlink()
            (project / "k.py").write_text("# moved\n" + KERNEL)
            _until(lambda: f"k.py:{LINE + 1}:9: warning KG309" in log.read_text())
            child.send_signal(signal.SIGINT)
            assert child.wait(30) == 0
        finally:
            child.kill()
    assert "Traceback" not in log.read_text()


def test_a_watch_does_not_take_its_own_report_for_a_change(project: Path) -> None:
    report, runs = project / "report.json", []

    def run() -> None:
        runs.append("run")
        report.write_text("{}" * len(runs))

    def wait() -> None:
        waits.append("wait")
        if len(waits) == 3:
            (project / "k.py").write_text("# moved\n" + KERNEL)
        if len(waits) == 6:
            raise KeyboardInterrupt

    waits: list[str] = []
    (project / "link.json").symlink_to(report)
    with pytest.raises(KeyboardInterrupt):
        watch(project, run, wait, output=report)
    assert len(runs) == 2


def _until(met) -> None:
    for _ in range(600):
        if met():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


# Explaining -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", ["KG002", "kg002", "unused-ignore"])
def test_a_rule_is_explained_by_code_or_name(known: str) -> None:
    done = kgate("rule", known)
    assert done.exit_code == 0
    assert done.stdout.startswith("KG002 unused-ignore (warning, safe fix)\n")
    for part in ("Why", "What to do", "Reported", "Not reported", "after the fix"):
        assert f"\n{part}" in done.stdout


def test_an_unknown_rule_is_exit_code_2_with_the_nearest() -> None:
    done = kgate("rule", "unused-ignor")
    assert done.exit_code == 2
    assert "there is no rule 'unused-ignor'" in done.stderr
    assert "did you mean unused-ignore?" in done.stderr


@pytest.mark.parametrize("family", ["KG2", "kg2", "KG20", "ALL"])
def test_a_family_of_rules_is_said_to_be_one(family: str) -> None:
    done = kgate("rule", family)
    assert done.exit_code == 2
    assert f"{family} stands for " in done.stderr
    assert "did you mean" not in done.stderr


def test_an_unknown_rule_of_odd_bytes_is_shown_as_they_are() -> None:
    assert r"there is no rule '\xff'" in kgate("rule", "\udcff").stderr


def test_pages_do_not_go_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/x", "none/x"):
        done = kgate("rule", "--all", "--format", "markdown", "-o", str(tmp_path / place))
        assert done.exit_code == 2
        assert "name another folder" in done.stderr


def test_a_report_may_go_to_a_new_folder_of_the_project(project: Path) -> None:
    kgate("lint", "--format", "json", "-o", "reports/lint/k.json")
    assert json.loads((project / "reports" / "lint" / "k.json").read_text())["schema"].startswith("kgate.lint/")


@pytest.mark.parametrize("arguments", [[], ["KG002", "--all"]])
def test_either_a_rule_or_all_of_them(arguments: list[str]) -> None:
    assert kgate("rule", *arguments).exit_code == 2


def test_all_rules_as_json_have_their_examples() -> None:
    document = json.loads(kgate("rule", "--all", "--format", "json").stdout)
    assert document["schema"] == "kgate.rules/1"
    found = {rule["code"]: rule for rule in document["rules"]}
    assert list(found) == sorted(found)
    example = found["KG002"]["invalid"][0]
    (place,) = example["places"]
    line = example["files"][place["path"]].split("\n")[place["line"] - 1]
    assert line[place["column"] - 1 : place["end_column"] - 1].startswith("# kgate: ignore[KG202]")


def test_all_rules_as_text_are_a_line_each() -> None:
    lines = kgate("rule", "--all").stdout.splitlines()
    assert any(line.startswith("KG002  unused-ignore ") for line in lines)
    assert len(lines) == len({line[:5] for line in lines})


def test_pages_are_written_to_a_folder_and_stale_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "KG999-gone.md").write_text("old")
    (tmp_path / "NOTES.md").write_text("mine")
    assert kgate("rule", "--all", "--format", "markdown", "-o", str(tmp_path)).exit_code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert "KG999-gone.md" not in names
    assert {"README.md", "NOTES.md", "KG002-unused-ignore.md"} <= names
    assert "(KG002-unused-ignore.md)" in (tmp_path / "README.md").read_text()
    again = kgate("rule", "--all", "--format", "markdown", "-o", str(tmp_path))
    assert again.stderr == ""
