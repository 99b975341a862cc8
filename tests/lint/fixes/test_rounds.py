"""Fixing a tree: rounds, files that are left alone, and what is written."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kgate.lint.fixes import ChangedSince, Fixing, Folder, fix_all
from kgate.lint.fixes.writing import write_whole
from kgate.lint.rule import place_of
from kgate.source.records import Edit, Finding, Fix

Mend = Callable[[ast.Name], tuple[str, bool] | None]


def linter(top: Path, mend: Mend) -> Callable[[], list[Finding]]:
    """Finds names that ``mend`` has another text for."""

    def lint() -> list[Finding]:
        found = []
        for file in sorted(top.glob("*.py")):
            text = file.read_text()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Name) and (new := mend(node)) is not None:
                    place = place_of(node, text.split("\n"))
                    fix = Fix(f"Write {new[0]}", new[1], (Edit("replace", *place, new[0]),))
                    found.append(
                        Finding("KG900", "warning", file.name, *place, f"{node.id} is wrong", "", fixes=(fix,))
                    )
        return found

    return lint


def names(**texts: str) -> Mend:
    """Safe fixes that write other names."""
    return lambda node: (texts[node.id], True) if node.id in texts else None


def run(top: Path, mend: Mend, unsafe: bool = False) -> Fixing:
    folder = Folder(top)
    return fix_all(linter(top, mend), folder.read, folder.write, unsafe)


def test_every_finding_is_fixed_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old(old)\nnew\n")
    (tmp_path / "b.py").write_text("old\n")
    (tmp_path / "c.py").write_text("new\n")
    found = run(tmp_path, names(old="new"))
    assert (tmp_path / "a.py").read_text() == "new(new)\nnew\n"
    assert (tmp_path / "b.py").read_text() == "new\n"
    assert [item.path for item in found.fixed] == ["a.py", "a.py", "b.py"]
    assert found.remaining == found.refused == found.left == ()
    assert [(item.path, item.before, item.after) for item in found.changes] == [
        ("a.py", b"old(old)\nnew\n", b"new(new)\nnew\n"),
        ("b.py", b"old\n", b"new\n"),
    ]
    assert found.rounds == 1


def test_a_finding_that_a_fix_uncovers_is_fixed_in_the_next_round(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    found = run(tmp_path, names(one="two", two="three"))
    assert (tmp_path / "a.py").read_text() == "three\n"
    assert (found.rounds, [item.message for item in found.fixed]) == (2, ["one is wrong", "two is wrong"])


def test_unsafe_fixes_are_made_only_where_asked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")

    def unsafe(node: ast.Name) -> tuple[str, bool] | None:
        return ("new", False) if node.id == "old" else None

    assert run(tmp_path, unsafe).fixed == ()
    assert (tmp_path / "a.py").read_text() == "old\n"
    assert len(run(tmp_path, unsafe, unsafe=True).fixed) == 1
    assert (tmp_path / "a.py").read_text() == "new\n"


def test_fixes_that_undo_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    found = run(tmp_path, names(one="two", two="one"))
    assert (tmp_path / "a.py").read_text() == "two\n"
    assert found.left == (("a.py", "the fixes of KG900 undo each other"),)
    assert len(found.fixed) == 1


def test_a_fix_that_leaves_its_finding_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    found = run(tmp_path, names(old="f(old)"))
    assert (tmp_path / "a.py").read_text() == "f(old)\n"
    assert [why for _, why in found.refused] == ["the fix of KG900 did not end its finding"]


def test_fixes_that_never_end_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x0\n")
    found = run(tmp_path, lambda node: (f"x{int(node.id[1:]) + 1}", True))
    assert found.rounds == 10
    assert (tmp_path / "a.py").read_text() == "x10\n"
    assert found.left == (("a.py", "there is more to fix after 10 rounds"),)


def test_a_fix_that_cannot_be_made_is_named_with_its_finding(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old = 1\nold\n")
    found = run(tmp_path, names(old="f()"))
    assert (tmp_path / "a.py").read_text() == "old = 1\nf()\n"
    assert [(item.line, why) for item, why in found.refused] == [(1, "the result would be no valid Python")]


def test_two_findings_may_share_one_fix(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    once = linter(tmp_path, names(old="new"))
    folder = Folder(tmp_path)
    found = fix_all(lambda: once() * 2, folder.read, folder.write)
    assert (len(found.fixed), found.refused) == (2, ())


def test_fixes_that_conflict_are_made_in_turn(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = y\n")

    def lint() -> list[Finding]:
        text = (tmp_path / "a.py").read_text()
        edits = [("KG901", "f("), ("KG902", "g(")]
        return [
            Finding(code, "note", "a.py", 1, 5, 1, 6, code, "", fixes=(Fix(code, True, (place(text, opening),)),))
            for code, opening in edits
            if opening not in text
        ]

    def place(text: str, opening: str) -> Edit:
        return Edit("wrap", 1, 5, 1, len(text), opening, ")")

    folder = Folder(tmp_path)
    found = fix_all(lint, folder.read, folder.write)
    assert (tmp_path / "a.py").read_text() == "x = g(f(y))\n"
    assert (found.rounds, found.refused) == (2, ())


def test_a_file_that_changed_since_it_was_linted_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    (tmp_path / "b.py").write_text("old\n")
    find = linter(tmp_path, names(old="new"))
    linted = find()
    (tmp_path / "a.py").write_text("old + edited\n")
    looks = iter([linted])
    found = fix_all(lambda: next(looks, linted[:1]), lambda path: b"old\n", Folder(tmp_path).write)
    assert (tmp_path / "a.py").read_text() == "old + edited\n"
    assert (tmp_path / "b.py").read_text() == "new\n"
    assert found.left == (("a.py", "it was changed on disk since it was linted"),)
    assert [item.path for item in found.changes] == ["b.py"]


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    linted = linter(tmp_path, names(old="new"))()
    (tmp_path / "a.py").unlink()
    folder = Folder(tmp_path)
    found = fix_all(lambda: linted, folder.read, folder.write)
    assert found.left == (("a.py", "it cannot be read: No such file or directory"),)


# Writing


def test_permissions_are_kept_and_symlinks_are_followed(tmp_path: Path) -> None:
    real = tmp_path / "real.py"
    real.write_bytes(b"old\n")
    real.chmod(0o754)
    (tmp_path / "link.py").symlink_to("real.py")
    Folder(tmp_path).write("link.py", b"old\n", b"new\n")
    assert (tmp_path / "link.py").is_symlink()
    assert real.read_bytes() == b"new\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o754
    assert sorted(os.listdir(tmp_path)) == ["link.py", "real.py"]


def test_line_endings_that_git_converted_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"old\r\nx\r\n")
    Folder(tmp_path).write("a.py", b"old\nx\n", b"new\nx\n")
    assert (tmp_path / "a.py").read_bytes() == b"new\r\nx\r\n"
    with pytest.raises(ChangedSince):
        Folder(tmp_path).write("a.py", b"old\nx\n", b"newer\nx\n")


def test_an_interruption_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_bytes(b"old\n")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.py", b"new\n")
    assert os.listdir(tmp_path) == ["a.py"]
    assert (tmp_path / "a.py").read_bytes() == b"old\n"


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_bytes(b"old\n")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)
    with pytest.raises(ChangedSince, match="it cannot be written: Permission denied"):
        Folder(tmp_path).write("a.py", b"old\n", b"new\n")
