"""``# kgate: ignore[...] reason``: read, applied, found unused, written."""

from __future__ import annotations

import ast
import io
import random
import textwrap
import tokenize
from pathlib import Path

import pytest

from kgate.lint import comments
from kgate.lint.fixes import apply as apply_fixes
from kgate.lint.records import Suppression
from kgate.lint.rule import ERROR, WARNING, Rule
from kgate.lint.selection import Catalogue, Selection
from kgate.lint.suppress import add_ignores, add_ignores_to, apply, check, suppressions_of, suppressions_of_cuda
from kgate.source.config import Config
from kgate.source.records import Finding

RULES = tuple(
    Rule(code, name, severity, "A thing.", "It is bad.", "Mend it.", default=default)
    for code, name, severity, default in [
        ("KG001", "unreadable-file", ERROR, True),
        ("KG002", "unused-ignore", WARNING, True),
        ("KG003", "ignore-without-reason", WARNING, True),
        ("KG004", "unknown-code-in-ignore", ERROR, True),
        ("KG203", "masked-load-without-other", WARNING, True),
        ("KG205", "unbounded-gather-index", WARNING, False),
        ("KG301", "low-precision-accumulator", WARNING, True),
    ]
)
CATALOGUE = Catalogue(RULES)
SELECTION = Selection.of(CATALOGUE, Config())


def lines(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def one(text: str) -> Suppression:
    (found,) = suppressions_of(text)
    return found


def at(line: int, code: str = "KG203", path: str = "k.py", column: int = 1) -> Finding:
    return Finding(code, "warning", path, line, column, line, column + 1, "a load has no other", "give one")


# Reading --------------------------------------------------------------------------------------------------


def test_a_comment_after_code_has_its_place_codes_and_reason() -> None:
    found = one("x = 1\ny = 2  # kgate: ignore[KG203, low-precision-accumulator] both on purpose\n")
    assert found.place == (2, 8, 2, 73)
    assert (found.first, found.last) == (2, 2)
    assert found.codes == ("KG203", "low-precision-accumulator")
    assert found.reason == "both on purpose"
    assert found.error == ""


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("# kgate: ignore[KG203] why", "why"),
        ("#kgate:ignore[KG203] why", "why"),
        ("# kgate: ignore [ KG203 ]: why", "why"),
        ("# kgate: ignore[KG203] -- why (see #12)", "why (see #12)"),
        ("# noqa: E501  # kgate: ignore[KG203] why  # fmt: skip", "why"),
        ("# kgate: ignore[KG203]", ""),
    ],
)
def test_ways_to_write_it(written: str, reason: str) -> None:
    found = one(f"x = 1  {written}\n")
    assert (found.codes, found.reason) == (("KG203",), reason)
    assert found.comment == written


def test_two_in_one_comment_are_two() -> None:
    found = suppressions_of("x = 1  # kgate: ignore[KG203] a  # kgate: ignore[KG301] b\n")
    assert [(item.codes, item.reason) for item in found] == [(("KG203",), "a"), (("KG301",), "b")]


@pytest.mark.parametrize(
    "text",
    [
        's = "# kgate: ignore[KG203] reason"\n',
        's = """\n# kgate: ignore[KG203] reason\n"""\n',
        "s = f'{x}# kgate: ignore[KG203] reason'\n",
        "x = 1  # kgate: the kernels are declared in norm.py\n",
        "x = 1  # see kgate ignore[KG203]\n",
    ],
)
def test_strings_and_remarks_are_none(text: str) -> None:
    assert suppressions_of(text) == ()


COVERED = [
    ("after a call of several lines", "f(\n    a,\n    b,\n)  # kgate: ignore[KG203] r\n", (1, 4)),
    ("inside a call, after code", "f(\n    a,  # kgate: ignore[KG203] r\n    b,\n)\n", (1, 4)),
    ("inside a call, alone", "f(\n    # kgate: ignore[KG203] r\n    # more\n    a,\n    b,\n)\n", (4, 4)),
    ("after a backslash", "x = 1 + \\\n    2  # kgate: ignore[KG203] r\n", (1, 2)),
    ("after a text of several lines", 's = """\n\n"""  # kgate: ignore[KG203] r\n', (1, 3)),
    ("after a def", "def f(\n    a,\n):  # kgate: ignore[KG203] r\n    return a\n", (1, 3)),
    ("after a decorator", "@g(\n    1\n)  # kgate: ignore[KG203] r\ndef f():\n    pass\n", (1, 3)),
    ("above a decorator", "# kgate: ignore[KG203] r\n@g\n@h(\n    1)\ndef f(\n    a):\n    pass\n", (2, 6)),
    ("between decorator and def", "@g\n# kgate: ignore[KG203] r\ndef f(a):\n    pass\n", (3, 3)),
    ("above a statement", "x = 1\n# kgate: ignore[KG203] r\n\n# more\ny = (\n    2\n)\nz = 3\n", (5, 7)),
    ("above a loop", "# kgate: ignore[KG203] r\nfor i in a:\n    f(i)\n", (2, 2)),
    ("at the end of a body", "if a:\n    f()\n    # kgate: ignore[KG203] r\ng()\n", (4, 4)),
    ("at the end of the file", "x = 1\n# kgate: ignore[KG203] r", (2, 2)),
    ("after two statements", "x = 1; y = 2  # kgate: ignore[KG203] r\n", (1, 1)),
    ("the whole file", "x = 1\n# kgate: ignore-file[KG203] r\n", (1, 0)),
    ("with carriage returns", "x = (\r\n    1\r\n)  # kgate: ignore[KG203] r\r\n", (1, 3)),
    ("with a byte order mark", "\ufeffx = 1  # kgate: ignore[KG203] r\n", (1, 1)),
    ("with a form feed", "x = 1\n\x0cy = 2  # kgate: ignore[KG203] r\n", (2, 2)),
]


@pytest.mark.parametrize(("text", "covered"), [item[1:] for item in COVERED], ids=[item[0] for item in COVERED])
def test_what_a_comment_covers(text: str, covered: tuple[int, int]) -> None:
    found = one(text)
    assert (found.first, found.last) == covered


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n    x = 1  # kgate: ignore[KG203] r\n",
        "x = 1  # kgate: ignore[KG203] r\ns = '''\n",
        "x = 1  # kgate: ignore[KG203] r\n\x00\n",
        "if a:\n        b\n    c  # kgate: ignore[KG203] r\n",
        "(" * 500 + "x  # kgate: ignore[KG203] r",
    ],
)
def test_a_file_that_cannot_be_tokenised_is_read_line_by_line(text: str) -> None:
    assert [item.codes for item in suppressions_of(text)] == [("KG203",)]


def test_reading_never_fails() -> None:
    seeds = [text for _, text, _ in COVERED]
    pieces = ["'", '"""', "(", ")", "\\\n", "\x00", "\ud800", "{", "*/", 'R"(', "#", "\r", "\t", "kgate:", "["]
    chance = random.Random(3)
    for _ in range(600):
        text = chance.choice(seeds)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(text) + 1)
            text = text[:place] + chance.choice(pieces) + text[place + chance.randrange(3) :]
        for item in (*suppressions_of(text), *suppressions_of_cuda(text)):
            assert item.place[0] <= item.place[2]
            assert item.comment


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1  # kgate: ignore\n", "names no rule"),
        ("x = 1  # kgate: ignore[] because\n", "names no rule"),
        ("# kgate: ignore-file\n", "names no rule"),
        ("# kgate: ignore-file[ALL] generated\n", "would hide everything"),
        ("x = 1  # kgate: noqa\n", "no comment that kgate knows"),
        ("x = 1  # kgate: disable[KG203] r\n", "no comment that kgate knows"),
    ],
)
def test_a_blanket_or_unknown_comment_is_an_error_and_hides_nothing(text: str, said: str) -> None:
    found = suppressions_of(text)
    (finding,) = check("k.py", found, CATALOGUE)
    assert (finding.code, finding.severity) == ("KG004", "error")
    assert said in finding.message
    assert finding.remedy
    kept, unused = apply([at(1)], {"k.py": found}, SELECTION)
    assert (len(kept), unused) == (1, [])


def test_an_unknown_code_is_an_error_that_says_which_there_are() -> None:
    (finding,) = check("k.py", suppressions_of("x = 1  # kgate: ignore[KG2003] r\n"), CATALOGUE)
    assert finding.code == "KG004"
    assert finding.message == "the ignore names 'KG2003', which is no rule"
    assert finding.remedy == "codes are KG0xx to KG7xx; `kgate rule --all` lists them"
    assert (finding.line, finding.column, finding.end_column) == (1, 8, 33)


def test_a_missing_reason_is_a_warning_and_the_ignore_hides_nothing() -> None:
    found = suppressions_of("x = 1  # kgate: ignore[KG203]\n")
    (finding,) = check("k.py", found, CATALOGUE)
    assert (finding.code, finding.severity, finding.name) == ("KG003", "warning", "ignore-without-reason")
    assert apply([at(1)], {"k.py": found}, SELECTION) == ([at(1)], [])


# CUDA C++ -------------------------------------------------------------------------------------------------

LAUNCH = """\
void f(at::Tensor x) {
  softmax<<<grid,
            block>>>(
      x.data_ptr<float>(), n);  // kgate: ignore[KG601] checked by the caller
  g();
}
"""


def test_a_cuda_comment_after_a_statement_covers_all_of_it() -> None:
    (found,) = suppressions_of_cuda(LAUNCH)
    assert (found.first, found.last, found.codes, found.reason) == (2, 4, ("KG601",), "checked by the caller")
    assert found.place == (4, 33, 4, 78)


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("/* kgate: ignore[KG601] r */ int x;\nint y;\n", (1, 1)),
        ("int x; /* kgate: ignore[KG601] r */\n", (1, 1)),
        ("int x;\n// kgate: ignore[KG601] r\n\nint y =\n    2;\nint z;\n", (4, 5)),
        ("__global__ void k(\n    float* x) {  // kgate: ignore[KG601] r\n  int i;\n}\n", (1, 2)),
        ("for (int i = 0; i < n;\n     i++) {  // kgate: ignore[KG601] r\n  f();\n}\n", (1, 2)),
        ("F(x, [&] {\n  k<<<1,\n    2>>>(x);  // kgate: ignore[KG601] r\n});\n", (2, 3)),
        ("#define L(x) \\\n  k<<<1, 2>>>(x)  // kgate: ignore[KG601] r\nint y;\n", (1, 2)),
        ("int a = 1'000'000;\nint b;  // kgate: ignore[KG601] r\n", (2, 2)),
        ("// kgate: ignore-file[KG6] r\n", (1, 0)),
    ],
)
def test_what_a_cuda_comment_covers(text: str, covered: tuple[int, int]) -> None:
    (found,) = suppressions_of_cuda(text)
    assert (found.first, found.last, found.reason) == (*covered, "r")


@pytest.mark.parametrize(
    "text",
    ['auto s = "// kgate: ignore[KG601] r";\n', 'auto s = R"x(\n// kgate: ignore[KG601] r\n)" )x";\n'],
)
def test_a_cuda_string_is_no_comment(text: str) -> None:
    assert suppressions_of_cuda(text) == ()


def test_comments_in_a_string_of_cuda_are_read_where_they_stand() -> None:
    text = 'SRC = r"""\n__global__ void k(float* x) {\n  x[0] = 1;  // kgate: ignore[KG606] one block\n}\n"""\n'
    found = one(text)
    assert (found.place, found.first, found.last) == ((3, 14, 3, 47), 3, 3)


# Applying -------------------------------------------------------------------------------------------------


def test_a_finding_anywhere_in_the_statement_is_hidden() -> None:
    text = "f(\n    a,\n    b,\n)  # kgate: ignore[KG203] r\nc\n"
    found = {"k.py": suppressions_of(text)}
    kept, unused = apply([at(1), at(3), at(5)], found, SELECTION)
    assert [item.line for item in kept] == [5]
    assert unused == []


@pytest.mark.parametrize("written", ["KG203", "KG20", "KG2", "masked-load-without-other"])
def test_codes_prefixes_and_names_hide(written: str) -> None:
    found = {"k.py": suppressions_of(f"# kgate: ignore-file[{written}] r\nx = 1\n")}
    assert apply([at(2)], found, SELECTION) == ([], [])


def test_another_file_and_another_code_are_not_hidden() -> None:
    found = {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203] r\n")}
    others = [at(1, path="other.py"), at(1, "KG301")]
    kept, unused = apply([at(1), *others], found, SELECTION)
    assert kept == others
    assert unused == []


def test_an_unused_comment_is_reported_with_a_safe_fix_that_removes_it() -> None:
    kept, (finding,) = apply([], {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203] r\n")}, SELECTION)
    assert kept == []
    assert (finding.code, finding.message) == ("KG002", "the ignore of KG203 hides nothing here")
    (fix,) = finding.fixes
    (edit,) = fix.edits
    assert fix.safe
    assert (edit.kind, edit.line, edit.column, edit.end_line, edit.end_column) == ("remove-comment", 1, 8, 1, 32)


def test_of_two_codes_only_the_unused_one_goes() -> None:
    found = {"k.py": suppressions_of("x = 1  # noqa  # kgate: ignore[KG301, KG203] r\n")}
    kept, (finding,) = apply([at(1)], found, SELECTION)
    assert kept == []
    assert finding.message == "the ignore of KG301 hides nothing here"
    edit = finding.fixes[0].edits[0]
    assert (edit.kind, edit.text) == ("replace-comment", "# noqa  # kgate: ignore[KG203] r")


def test_what_else_a_comment_says_is_kept() -> None:
    found = {"k.py": suppressions_of("x = 1  # noqa  # kgate: ignore[KG301] r  # fmt: skip\n")}
    _, (finding,) = apply([], found, SELECTION)
    edit = finding.fixes[0].edits[0]
    assert (edit.kind, edit.text) == ("replace-comment", "# noqa  # fmt: skip")


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("// kgate: ignore[KG203] r", ""),
        ("/* kgate: ignore[KG203] r */", ""),
        ("// sums  // kgate: ignore[KG203] r", "// sums"),
    ],
)
def test_an_unused_cuda_comment_has_a_fix_too(comment: str, left: str) -> None:
    _, (finding,) = apply([], {"k.cu": suppressions_of_cuda(f"int x;  {comment}\n")}, SELECTION)
    (edit,) = finding.fixes[0].edits
    assert (edit.kind, edit.text) == ("replace-comment" if left else "remove-comment", left)


def test_no_fix_where_a_comment_cannot_be_taken_out_alone() -> None:
    in_string = 'S = """\n__global__ void k() {  // kgate: ignore[KG203] r\n}\n"""\n'
    between = "int x;  /* kgate: ignore[KG203] r\n   more */\n"
    for path, found in (("k.py", suppressions_of(in_string)), ("k.cu", suppressions_of_cuda(between))):
        _, (finding,) = apply([], {path: found}, SELECTION)
        assert (finding.code, finding.fixes) == ("KG002", ())


def test_the_fixes_leave_the_rest_of_the_file_alone() -> None:
    text = "a = 1  # kgate: ignore[KG203] r\nb = (\n    # kgate: ignore[KG301, KG203] s\n    2,  # noqa\n)\n"
    _, unused = apply([at(4)], {"k.py": suppressions_of(text)}, SELECTION)
    done = apply_fixes(text.encode(), [item.fixes[0] for item in unused])
    assert done.refused == ()
    assert done.source.decode() == "a = 1\nb = (\n    # kgate: ignore[KG203] s\n    2,  # noqa\n)\n"


@pytest.mark.parametrize(
    "selection",
    [
        Selection.of(CATALOGUE, Config(), select=("KG301", "KG002")),
        Selection.of(CATALOGUE, Config(), ignore=("KG203",)),
        Selection.of(CATALOGUE, Config(per_file_ignores=(("k.py", ("KG203",)),))),
        Selection.of(CATALOGUE, Config(), ignore=("KG002",)),
    ],
)
def test_with_its_rule_off_a_comment_is_not_called_unused(selection: Selection) -> None:
    assert apply([], {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203] r\n")}, selection) == ([], [])


def test_a_comment_that_asks_for_it_is_never_called_unused() -> None:
    found = {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203, KG002] version dependent\n")}
    assert apply([], found, SELECTION) == ([], [])


@pytest.mark.parametrize("code", ["KG001", "KG005"])
def test_a_comment_in_a_file_that_was_not_examined_is_not_called_unused(code: str) -> None:
    found = {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203] r\ndef (:\n")}
    broken = at(2, code)
    assert apply([broken], found, SELECTION) == ([broken], [])


def test_what_the_run_could_not_find_is_not_called_unused() -> None:
    found = {"k.py": suppressions_of("x = 1  # kgate: ignore[KG203] r\n")}
    assert apply([], found, SELECTION, unable=("KG203",)) == ([], [])


def test_an_unused_prefix_counts_without_the_rules_that_are_off_by_default() -> None:
    _, (finding,) = apply([], {"k.py": suppressions_of("x = 1  # kgate: ignore[KG20] r\n")}, SELECTION)
    assert finding.message == "the ignore of KG20 hides nothing here"


# Writing --------------------------------------------------------------------------------------------------

ADDED = [
    ("x = load(p)\n", [1], "x = load(p)  # kgate: ignore[KG203] later\n"),
    ("x = load(p)", [1], "x = load(p)  # kgate: ignore[KG203] later"),
    ("x = load(p)\r\ny = 1\r\n", [1], "x = load(p)  # kgate: ignore[KG203] later\r\ny = 1\r\n"),
    ("x = load(p)\ry = 1\r", [2], "x = load(p)\ry = 1  # kgate: ignore[KG203] later\r"),
    ("\ufeffx = load(p)\n", [1], "\ufeffx = load(p)  # kgate: ignore[KG203] later\n"),
    ("f(\n    a,\n    b,\n)\n", [2, 3], "f(\n    a,\n    b,\n)  # kgate: ignore[KG203] later\n"),
    ("f(  # why\n    a)  # b\n", [1], "f(  # why\n    a)  # b  # kgate: ignore[KG203] later\n"),
    ("x = 1 + \\\n  y\n", [1], "x = 1 + \\\n  y  # kgate: ignore[KG203] later\n"),
    ("s = '''\na\n'''\nz\n", [2], "s = '''\na\n'''  # kgate: ignore[KG203] later\nz\n"),
    ("def f(\n    a):\n    return a\n", [1], "def f(\n    a):  # kgate: ignore[KG203] later\n    return a\n"),
    ("x = 1 \t\n", [1], "x = 1 \t # kgate: ignore[KG203] later\n"),
    (
        "x = 1  # kgate: ignore[KG301] old\n",
        [1],
        "x = 1  # kgate: ignore[KG301, KG203] old; later\n",
    ),
    ("x = 1  # kgate: ignore[KG301] later\r\n", [1], "x = 1  # kgate: ignore[KG301, KG203] later\r\n"),
    ("x = 1  # kgate: ignore[KG203]\r\n", [1], "x = 1  # kgate: ignore[KG203] later\r\n"),
    (
        "# kgate: ignore[KG301] old  # noqa\nx = (\n  1)\n",
        [3],
        "# kgate: ignore[KG301, KG203] old; later  # noqa\nx = (\n  1)\n",
    ),
    ("# a comment alone\n\nx = 1\n", [1, 2], "# a comment alone\n\nx = 1\n"),
    ("x = 1\ndef (:\n  '''", [1], "x = 1\ndef (:\n  '''"),
]


@pytest.mark.parametrize(("before", "found", "after"), ADDED)
def test_adding_an_ignore(before: str, found: list[int], after: str) -> None:
    assert add_ignores(before, [at(line) for line in found], "later") == after


def test_two_codes_of_one_statement_share_a_comment() -> None:
    assert add_ignores("f(\n  a)\n", [at(2, "KG301"), at(1), at(2)], "later") == (
        "f(\n  a)  # kgate: ignore[KG203, KG301] later\n"
    )


def test_findings_about_comments_get_none() -> None:
    text = "x = 1  # kgate: ignore[KG203]\n"
    assert add_ignores(text, [at(1, code) for code in ("KG002", "KG003", "KG004")], "later") == text


@pytest.mark.parametrize("reason", ["two\nlines", "a # b", "see #12", "ends in \\", "a */ b", "  spaces  ", "größer"])
@pytest.mark.parametrize("path", ["k.py", "k.cu"])
def test_any_reason_is_read_back(reason: str, path: str) -> None:
    finding = at(1, path=path)
    text = add_ignores("x = 1;\ny = 2;\n", [finding], reason)
    found = suppressions_of(text) if path == "k.py" else suppressions_of_cuda(text)
    assert apply([finding], {path: found}, SELECTION) == ([], [])
    assert text.endswith("\ny = 2;\n")
    assert text.count("\n") == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("void f() {\n  q; /* why\n  r */\n}\n", "void f() {\n  // COMMENT\n  q; /* why\n  r */\n}\n"),
        ("a;\n\tq(\n  1); // on \\\n and on\nb;\n", "a;\n\t// COMMENT\n\tq(\n  1); // on \\\n and on\nb;\n"),
        ("q; /* why\r\n*/\r\n", "// COMMENT\r\nq; /* why\r\n*/\r\n"),
        ("/* x\n*/ q; /* why\n*/\n", "/* x\n*/ q; /* why\n*/\n"),
        ("q; /* why */\n", "q; /* why */  // COMMENT\n"),
    ],
    ids=["block", "joined", "crlf", "no-place", "closed"],
)
def test_a_cuda_comment_that_goes_on_gets_the_ignore_above_it(text: str, wanted: str) -> None:
    line = 1 + text[: text.index("q")].count("\n")
    item = at(line, path="k.cu")
    after = add_ignores(text, [item], "ours")
    assert after == wanted.replace("COMMENT", "kgate: ignore[KG203] ours")
    moved = at(1 + after[: after.index("q")].count("\n"), path="k.cu")
    hidden = apply([moved], {"k.cu": suppressions_of_cuda(after)}, SELECTION)[0] == []
    assert hidden == (after != text)


@pytest.mark.parametrize("name", ["KGATE", "Kgate", "KGate"])
def test_a_name_in_capitals_is_a_mistake_and_hides_nothing(name: str) -> None:
    found = one(f"x = 1  # {name}: ignore[KG203] ours\n")
    assert found.error == f"`{name}: ignore` is not read; write `kgate:`"
    assert [item.code for item in check("k.py", [found], CATALOGUE)] == ["KG004"]
    assert apply([at(1)], {"k.py": (found,)}, SELECTION)[0] == [at(1)]


def test_a_cuda_file_gets_cuda_comments() -> None:
    bare = LAUNCH.replace("  // kgate: ignore[KG601] checked by the caller", "")
    assert add_ignores(bare, [at(2, "KG601", "k.cu")], "checked by the caller") == LAUNCH


@pytest.mark.parametrize("path", ["baselines/k.jsonl", "pyproject.toml", "README.md", "py"])
def test_files_that_take_no_such_comment_are_left_alone(path: str) -> None:
    assert add_ignores("{}\n", [at(1, "KG703", path)], "later") == "{}\n"
    assert add_ignores_to(b"{}\n", [at(1, "KG703", path)], "later") == b"{}\n"


def test_bytes_keep_their_encoding() -> None:
    raw = "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1")
    assert add_ignores_to(raw, [at(2)], "später") == (
        "# -*- coding: latin-1 -*-\nx = 'é'  # kgate: ignore[KG203] später\n".encode("latin-1")
    )
    assert add_ignores_to(raw, [at(2)], "→") == raw
    marked = b"\xef\xbb\xbfx = 1\r\n"
    assert add_ignores_to(marked, [at(1)], "later") == b"\xef\xbb\xbfx = 1  # kgate: ignore[KG203] later\r\n"
    assert add_ignores_to(b"\xff\xfe", [at(1)], "later") == b"\xff\xfe"


KERNELS = sorted((Path(__file__).resolve().parents[2] / "kernels").rglob("*.py"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_wherever_a_finding_is_the_written_comment_hides_it_and_nothing_else_changes(path: Path) -> None:
    text = path.read_text()
    chance = random.Random(path.name)
    starts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
    found = [at(node.lineno, chance.choice(["KG203", "KG301"])) for node in chance.sample(starts, min(25, len(starts)))]
    changed = add_ignores(text, found, "for a reason")
    assert apply(found, {"k.py": suppressions_of(changed)}, SELECTION) == ([], [])
    assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    assert _without_ours(changed) == _without_ours(text)
    assert add_ignores(changed, found, "for a reason") == changed


def _without_ours(text: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    cut = [(token.type, token.string.partition("# kgate:")[0].rstrip()) for token in tokens]
    return [item for item in cut if item != (tokenize.COMMENT, "")]


# Scanning -------------------------------------------------------------------------------------------------


CONTRACT = sorted((Path(__file__).resolve().parents[2] / "kgate" / "contract").glob("*.py"))


@pytest.mark.parametrize("path", KERNELS + CONTRACT, ids=lambda path: path.name)
def test_the_scan_of_a_file_agrees_with_its_tokens(path: Path) -> None:
    text = path.read_text()
    assert comments._scanned(text) in (comments._Python(text).layout(), None)


ODD_TEXTS = [
    "x = ''\n", 'x = """"a"""\n', "x = '' 'a' ''\n", "x = 'a''b'  # c\n", "x = r'\\'  # '\n", "x = '\\\n'  # c\n",
    'x = """\n\\"""\n"""  # c\n', "x = (\n  # c\n)\n\n@a\n# c\n@b()\nasync def f(): pass\n",
    "f'{a}' f\"{{{b}}}#\"  # c\n",
    "x = 1 \\\n  + 2  # c\n", "if a:\n    b\n\n    # c\nelse:\n    d  # e", "\x0cx = 1\n\x0c# c\n", "x = 1;  # c\n",
    "class A: # c\n  'doc'\n", "# c", "", "\n\n", "x", "@a\nclass B:\n  @c\n  def d(\n    e,\n  ): ...\n",
    "x = {  # c\n}\n",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_the_scan_agrees_with_tokens_on_odd_texts(text: str) -> None:
    assert comments._scanned(text) == comments._Python(text).layout()


@pytest.mark.parametrize("text", ["x = f'{d['#']}'\n", "x = '\n", "x = '''a\n", "x = (\n", "x = )\n", 'f"{x["a"]}"'])
def test_the_scan_leaves_to_tokens_what_it_cannot_tell(text: str) -> None:
    assert comments._scanned(text) is None
