"""``kgate lint --changed``: which lines a diff touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgate.lint.changed import ChangedLines, changed_lines
from kgate.source.git import GitError, Repository
from kgate.source.records import Finding


def found(path: str, line: int, end: int | None = None) -> Finding:
    return Finding("KG203", "warning", path, line, 1, end or line, 2, "m", "r")


def changes(repo, base: str | None = None) -> ChangedLines:
    return changed_lines(Repository(repo.path, env=repo.env), base, repo.env)


BEFORE = "".join(f"line {number}\n" for number in range(1, 11))


def test_rewritten_and_added_lines_count_and_others_do_not(repo) -> None:
    repo.commit("one", {"a.py": BEFORE, "b.py": BEFORE})
    repo.write("a.py", BEFORE.replace("line 3\n", "line three\nmore\n"))
    touched = changes(repo)
    assert [line for line in range(1, 12) if touched.touch(found("a.py", line))] == [3, 4]
    assert not touched.touch(found("b.py", 3))


def test_a_finding_that_spans_a_changed_line_counts(repo) -> None:
    repo.commit("one", {"a.py": BEFORE})
    repo.write("a.py", BEFORE.replace("line 5\n", "line five\n"))
    touched = changes(repo)
    assert touched.narrow([found("a.py", 3, 6), found("a.py", 6, 9)]) == [found("a.py", 3, 6)]


def test_a_removal_counts_for_what_stands_on_both_sides_of_it(repo) -> None:
    repo.commit("one", {"a.py": BEFORE})
    repo.write("a.py", BEFORE.replace("line 5\n", ""))
    touched = changes(repo)
    assert touched.touch(found("a.py", 4, 5))
    assert not touched.touch(found("a.py", 4))
    assert not touched.touch(found("a.py", 5))


def test_a_file_that_became_unreadable_counts_wherever_it_changed(repo) -> None:
    repo.commit("one", {"a.py": BEFORE, "b.py": BEFORE})
    repo.write("a.py", BEFORE.replace("line 5\n", ""))
    unreadable = [replace(found(path, 1), code="KG001", severity="error") for path in ("a.py", "b.py")]
    assert changes(repo).narrow(unreadable) == unreadable[:1]


def test_untracked_files_are_new_from_end_to_end(repo) -> None:
    repo.commit("one", {"a.py": BEFORE})
    repo.write("new.py", BEFORE)
    assert all(changes(repo).touch(found("new.py", line)) for line in (1, 10))


def test_before_the_first_commit_everything_is_new(repo) -> None:
    repo.write("a.py", BEFORE)
    assert changes(repo).touch(found("a.py", 7))


def test_a_base_can_be_named(repo) -> None:
    first = repo.commit("one", {"a.py": BEFORE})
    repo.commit("two", {"a.py": BEFORE.replace("line 2\n", "line two\n")})
    repo.commit("three", {"a.py": BEFORE.replace("line 2\n", "line two\n").replace("line 9\n", "line nine\n")})
    assert [line for line in range(1, 11) if changes(repo, first).touch(found("a.py", line))] == [2, 9]
    assert [line for line in range(1, 11) if changes(repo, "HEAD~1").touch(found("a.py", line))] == [9]


def test_a_base_that_is_not_there_is_an_error(repo) -> None:
    repo.commit("one", {"a.py": BEFORE})
    with pytest.raises(GitError):
        changes(repo, "no-such-branch")


def test_a_renamed_file_has_its_edited_lines_only(repo) -> None:
    repo.commit("one", {"a.py": BEFORE * 3})
    repo.git("mv", "a.py", "b.py")
    repo.write("b.py", (BEFORE * 3).replace("line 1\n", "line one\n", 1))
    assert [line for line in range(1, 31) if changes(repo).touch(found("b.py", line))] == [1]


@pytest.mark.parametrize("name", ["with space.py", "größe.py", 'quo"te.py', "tab\there.py", "b/c.py", "new\nline.py"])
def test_any_file_name(repo, name: str) -> None:
    repo.commit("one", {name: BEFORE})
    repo.write(name, BEFORE.replace("line 4\n", "line four\n"))
    assert [line for line in range(1, 11) if changes(repo).touch(found(name, line))] == [4]


def test_content_that_looks_like_a_diff_is_passed_over(repo) -> None:
    hostile = "++ b/c.py\n@@ -1,1 +1,9 @@\ndiff --git a/x b/x\n-- a\n"
    repo.commit("one", {"a.py": BEFORE})
    repo.write("a.py", hostile + BEFORE.removesuffix("\n"))
    touched = changes(repo)
    assert touched.files is not None
    assert set(touched.files) == {"a.py"}
    assert [line for line in range(1, 15) if touched.touch(found("a.py", line))] == [1, 2, 3, 4, 14]


def test_binary_files_and_a_user_s_diff_settings_do_not_disturb(repo) -> None:
    repo.git("config", "diff.noprefix", "true")
    repo.git("config", "diff.external", "false")
    repo.git("config", "color.ui", "always")
    repo.commit("one", {"a.py": BEFORE, ".gitattributes": "*.py binary\n"})
    (repo.path / "blob").write_bytes(b"\0\1\n\2")
    repo.write("a.py", BEFORE.replace("line 4\n", "line four\n"))
    assert [line for line in range(1, 11) if changes(repo).touch(found("a.py", line))] == [4]
