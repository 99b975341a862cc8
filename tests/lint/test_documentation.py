"""The documentation of rules: every rule has it, it is well formed, and what is committed is what rules say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgate.lint.documentation import as_dict, as_markdown, as_text, index, is_page, listing, page_name, pages
from kgate.lint.examples import default_path, read
from kgate.lint.registry import rules
from kgate.lint.rule import UNSAFE, WARNING, Example, Rule

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"

MADE = Rule(
    code="KG299",
    name="made-up",
    severity=WARNING,
    summary="A thing | is reported.",
    why="It hurt.\n\nTwice.",
    remedy="Do `this`.",
    quiet="A bound.",
    sources=("triton-lang/triton#1234", "https://example.com/report"),
    default=False,
    off_because="It guesses.",
    fix=UNSAFE,
    covers=("old-name",),
    invalid=(
        Example("""
            x = 1
            ^^^^^
        """, fixed="""
            x = 2
        """, note="One is too few.", config="triton = '>=3.6'"),
    ),
    valid=(Example("x = '```'"),),
)  # fmt: skip


def test_the_text_of_a_rule_says_all_there_is_to_say() -> None:
    assert as_text(MADE) == (
        "KG299 made-up (warning, unsafe fix, off unless selected)\n"
        "\n"
        "A thing | is reported.\n"
        "\n"
        "Why\n    It hurt.\n\n    Twice.\n"
        "\n"
        "What to do\n    Do `this`.\n"
        "\n"
        "What keeps it quiet\n    A bound.\n"
        "\n"
        "Fix\n"
        "    `kgate lint --fix --unsafe-fixes` mends it; look at the change, as it may alter what is\n"
        "    computed.\n"
        "\n"
        "Why it is off by default\n    It guesses.\n"
        "\n"
        "Findings under this code\n    old-name\n"
        "\n"
        "Reported: One is too few.\n\n    x = 1\n    ^^^^^\n\n"
        "with, in [tool.kgate]:\n\n    triton = '>=3.6'\n\nafter the fix:\n\n    x = 2\n"
        "\n"
        "Not reported\n\n    x = '```'\n"
        "\n"
        "Sources\n    https://github.com/triton-lang/triton/issues/1234\n    https://example.com/report\n"
    )


def test_the_page_of_a_rule_is_markdown_whose_code_cannot_end_its_block() -> None:
    page = as_markdown(MADE)
    assert page.startswith("# KG299 made-up\n\n*warning, unsafe fix, off unless selected*\n\nA thing | is reported.\n")
    assert "```python\nx = 1\n^^^^^\n```" in page
    assert "````python\nx = '```'\n````" in page
    assert "* [triton-lang/triton#1234](https://github.com/triton-lang/triton/issues/1234)" in page


def test_the_index_links_every_rule_by_family() -> None:
    text = index([MADE])
    assert "## Memory and indices" in text
    assert "| KG299 | ([made-up](KG299-made-up.md)) | warning | ~ | A thing \\| is reported. |" in text


def test_the_json_of_a_rule_has_files_without_carets_and_the_places() -> None:
    (example,) = as_dict(MADE)["invalid"]
    assert example["files"] == {"kernel.py": "x = 1\n"}
    assert example["places"] == [{"path": "kernel.py", "line": 1, "column": 1, "end_column": 6}]
    assert (example["fixed"], example["config"]) == ("x = 2\n", "triton = '>=3.6'")


def test_names_of_pages() -> None:
    assert page_name(MADE) == "KG299-made-up.md"
    assert is_page("KG299-made-up.md")
    assert not is_page("README.md")
    assert not is_page("KG299.md")


def test_a_listing_has_a_line_for_each_rule() -> None:
    assert listing([MADE]) == "KG299  made-up  warning, unsafe fix, off unless selected  A thing | is reported.\n"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_every_rule_is_documented(rule: Rule) -> None:
    assert re.fullmatch(r"KG[0-7]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    for text in (rule.summary, rule.why, rule.remedy, *filter(None, (rule.quiet, rule.off_because))):
        assert text.strip() == text
        assert text.endswith((".", "`", ")"))
    assert rule.default == (not rule.off_because)
    for example in rule.invalid:
        snippet = read(example.code, default_path(rule))
        assert snippet.marks, "nothing is marked in an example of what is reported"
        for path, line, column, end in snippet.marks:
            text = snippet.files[path].split("\n")[line - 1]
            assert column < end <= len(text) + 2, text
    for example in rule.valid:
        assert read(example.code, default_path(rule)).marks == ()


def test_the_committed_pages_are_what_the_rules_say() -> None:
    wanted = pages(rules())
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    how = "run: kgate rule --all --format markdown -o docs/rules"
    assert sorted(found) == sorted(wanted), how
    assert [name for name in wanted if found[name] != wanted[name]] == [], how
