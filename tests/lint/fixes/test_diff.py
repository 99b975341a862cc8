"""Diffs of fixes: what git and patch make of them is the fixed file again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgate.lint.fixes import diff


def test_no_difference_is_no_text() -> None:
    assert diff("a.py", b"x\n", b"x\n") == ""


def test_a_diff_names_both_sides_and_no_times() -> None:
    header = "diff --git a/ops/a.py b/ops/a.py\n--- a/ops/a.py\n+++ b/ops/a.py\n"
    assert diff("ops/a.py", b"x\ny\n", b"x\nz\n") == header + "@@ -1,2 +1,2 @@\n x\n-y\n+z\n"


def test_a_missing_last_line_ending_is_said_on_the_side_that_misses_it() -> None:
    assert diff("a.py", b"x", b"x\n").endswith("-x\n\\ No newline at end of file\n+x\n")
    assert diff("a.py", b"x\n", b"x").endswith("-x\n+x\n\\ No newline at end of file\n")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", b"x\r\ny\r\nz\r\n", b"x\r\nw\r\nz\r\n"),
        ("a.py", b"# \xe9\xff\nx\n", b"# \xe9\xff\ny\n"),
        ("a.py", b"x\ny", b"z\ny"),
        ("a.py", b"x\ry\nz\n", b"x\rw\nz\n"),
        ("a.py", b"", b"x\n"),
        ("a.py", b"x\n\x0c\n\xe2\x80\xa8y\n", b"x\n\x0c\n\xe2\x80\xa8z\n"),
        ("a b.py", b"x\n", b"y\n"),
        ('a"\t\\.py', b"x\n", b"y\n"),
        ("\u00fc.py", b"x\n", b"y\n"),
        ("\udce9.py", b"x\n", b"y\n"),
    ],
)
def test_git_applies_a_diff(tmp_path: Path, path: str, before: bytes, after: bytes) -> None:
    (tmp_path / path).write_bytes(before)
    text = diff(path, before, after).encode("utf-8", "surrogateescape")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=tmp_path, input=text, check=True)
    assert (tmp_path / path).read_bytes() == after


@pytest.mark.parametrize("path", ["below/a.py", "below/a b.py", 'below/a".py'])
def test_git_applies_a_diff_in_a_folder_below_the_root(tmp_path: Path, path: str) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / path).write_bytes(b"x\n")
    text = diff(path, b"x\n", b"y\n").encode()
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "below", input=text, check=True)
    assert (tmp_path / path).read_bytes() == b"y\n"
