"""Every rule against its own examples: what is marked is found, nothing else is, and fixes give what is written."""

from __future__ import annotations

import ast
import re

import pytest

from kgate.lint.examples import check, default_path, lint_files, read
from kgate.lint.registry import rules
from kgate.lint.rule import EITHER, ERROR, NOTE, SAFE, UNSAFE, WARNING

INVALID = [pytest.param(rule, item, id=f"{rule.code}-{at}") for rule in rules() for at, item in enumerate(rule.invalid)]
VALID = [pytest.param(rule, item, id=f"{rule.code}-{at}") for rule in rules() for at, item in enumerate(rule.valid)]
FIXED = [
    pytest.param(rule, item, id=f"{rule.code}-{at}")
    for rule in rules()
    for at, item in enumerate(rule.invalid)
    if item.fixed
]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_rule_says_all_that_a_reader_needs(rule):
    assert re.fullmatch(r"KG[0-7]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.severity in (ERROR, WARNING, NOTE)
    assert rule.fix in ("", SAFE, UNSAFE, EITHER)
    for text in (rule.summary, rule.why, rule.remedy):
        assert text[0].isupper() or text[0] in "`@.'\"" or not text[0].isalpha()
        assert text.endswith(".")
    assert rule.default or rule.off_because
    assert rule.invalid or rule.code == "KG005"  # an expression too deep to print; see below
    assert bool(rule.fix) == any(item.fixed for item in rule.invalid)


@pytest.mark.parametrize(("rule", "example"), INVALID)
def test_invalid_example_is_found_where_it_is_marked(rule, example):
    snippet, findings = check(rule, example)
    assert snippet.marks, "mark the range with a line of carets"
    found = sorted((item.path, item.line, item.column, _end(item, snippet)) for item in findings)
    assert found == sorted(snippet.marks), "\n".join(f"{f.path}:{f.line}:{f.column} {f.message}" for f in findings)
    for item in findings:
        assert item.message
        assert not item.message.endswith(".")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_rule_says_whether_its_fixes_are_safe(rule):
    given = {fix.safe for example in rule.invalid for item in check(rule, example)[1] for fix in item.fixes}
    assert given == {"": set(), SAFE: {True}, UNSAFE: {False}, EITHER: {True, False}}[rule.fix]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_rule_says_when_a_finding_has_another_severity(rule):
    given = {item.severity for example in rule.invalid for item in check(rule, example)[1]}
    assert rule.lowered or given <= {rule.severity}
    assert not rule.lowered or re.match(rf"an? (?!{rule.severity})({ERROR}|{WARNING}|{NOTE}) .+[^.]$", rule.lowered)


def _end(item, snippet):
    """The end of the range in its first line."""
    if item.end_line == item.line:
        return item.end_column
    return len(snippet.files[item.path].split("\n")[item.line - 1]) + 1


@pytest.mark.parametrize(("rule", "example"), VALID)
def test_valid_example_is_not_found(rule, example):
    _, findings = check(rule, example)
    assert findings == []


@pytest.mark.parametrize(("rule", "example"), FIXED)
def test_fix_gives_the_fixed_example_and_ends_the_finding(rule, example):
    from kgate.lint.fixes import apply

    snippet, findings = check(rule, example)
    wanted = read(example.fixed, default_path(rule)).files
    files = dict(snippet.files)
    for path in sorted({item.path for item in findings}):
        fixes = [item.fixes[0] for item in findings if item.path == path and item.fixes]
        assert fixes, "the rule gives no fix"
        applied = apply(files[path].encode(), fixes)
        assert applied.refused == ()
        files[path] = applied.source.decode()
        if path.endswith(".py"):
            ast.parse(files[path])
    assert files == {**files, **wanted}
    assert [item for item in lint_files(files, example.config) if item.code == rule.code] == []


def test_a_file_that_is_nested_too_deeply_is_told_of():
    source = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel(p):\n    x = " + "+".join(
        ["p"] * 2900
    )
    findings = lint_files({"kernel.py": source + "\n    tl.store(p + x, x)\n"})
    assert {"KG001", "KG005"} & {item.code for item in findings}
    assert {item.severity for item in findings if item.code in ("KG001", "KG005")} <= {ERROR, WARNING}
