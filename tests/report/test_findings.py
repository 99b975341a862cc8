"""The formats of ``kgate lint``: each carries every finding, and none breaks on what a name or a file may hold."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from kgate.lint.rule import SAFE, WARNING, Rule
from kgate.lint.run import LintResult
from kgate.report.findings import render_findings, render_statistics
from kgate.report.formats import FORMATS
from kgate.report.formats.common import LintReport
from kgate.report.formats.full import window
from kgate.report.formats.sarif import replacements
from kgate.source.records import Edit, Finding, Fix, Related

SOURCE = "import triton\n\n\ndef k(x):\n    v = load(x, mask=m)\n    return v\n"
FIX = Fix("Fill with zeros", True, (Edit("replace", 5, 9, 5, 24, text="load(x, mask=m, other=0.0)"),))
GUESS = replace(FIX, title="Fill with ones", safe=False)
LOAD = Finding(
    "KG203", "warning", "ops/k.py", 5, 9, 5, 24, "the load of x has no other", "say what masked lanes hold",
    "ops/k.py::k", "masked-load-without-other", (Related("ops/l.py", 7, 3, "launched here"),), (GUESS, FIX),
)  # fmt: skip
BROKEN = Finding("KG001", "error", "ops/broken.py", 2, 5, 2, 6, "the file cannot be read", "repair it")
NOTE = Finding("KG702", "note", "ops/k.py", 4, 1, 6, 13, "the code has moved on", "")
RULES = {
    "KG203": Rule(
        "KG203", "masked-load-without-other", WARNING, "A load has no other.", "It is undefined.", "Give one.", fix=SAFE
    )
}
FILES = {"ops/k.py": SOURCE.encode()}


def report(*findings: Finding, files: dict[str, bytes] = FILES, **more: object) -> LintReport:
    result = LintResult(findings, (), 2, 3)
    return LintReport(replace(result, **more), files.get, RULES)  # type: ignore[arg-type]


def rendered(style: str, document: LintReport) -> str:
    stream = io.StringIO()
    render_findings(document, stream, style)
    return stream.getvalue()


# For people -----------------------------------------------------------------------------------------------


def test_full_shows_the_source_what_to_do_further_places_and_the_safe_fix() -> None:
    assert rendered("full", report(LOAD)) == (
        "ops/k.py:5:9: warning KG203 masked-load-without-other: the load of x has no other\n"
        "4 | def k(x):\n"
        "5 |     v = load(x, mask=m)\n"
        "  |         ^^^^^^^^^^^^^^^\n"
        "6 |     return v\n"
        "  = say what masked lanes hold\n"
        "  = ops/l.py:7:3: launched here\n"
        "  = fix available: Fill with zeros\n"
        "\n"
        "1 warning (2 kernels declared, 3 device functions)\n"
        "1 fixable with --fix\n"
    )


def test_an_unsafe_fix_is_called_so() -> None:
    text = rendered("full", report(replace(LOAD, fixes=(GUESS,))))
    assert "fix available: Fill with ones (unsafe)" in text
    assert text.endswith("1 fixable with --fix --unsafe-fixes\n")


def test_a_range_of_several_lines_has_carets_under_each() -> None:
    text = rendered("full", report(NOTE))
    assert "4 | def k(x):\n  | ^^^^^^^^^\n5 |     v = load(x, mask=m)\n  |     ^^^^" in text
    assert "6 |     return v\n  |     ^^^^^^^^\n" in text


def test_of_a_long_range_the_middle_is_left_out() -> None:
    files = {"ops/k.py": "".join(f"line{n}\n" for n in range(1, 41)).encode()}
    lines = rendered("full", report(replace(NOTE, line=2, end_line=39, end_column=3), files=files)).split("\n")
    assert [line for line in lines if " | line" in line] == [
        " 1 | line1", " 2 | line2", " 3 | line3", " 4 | line4", " 5 | line5", "39 | line39", "40 | line40",
    ]  # fmt: skip
    assert ".. |" in lines


@pytest.mark.parametrize("line", [0, 7, 8, 1000])
def test_a_place_outside_the_file_has_no_excerpt(line: int) -> None:
    text = rendered("full", report(replace(LOAD, line=line, end_line=line)))
    assert "^" not in text or line == 7
    assert "say what masked lanes hold" in text


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe\x00", b"# coding: no-such\nx\r\ny\rz", b"\x00" * 10, b"a\xffb\n" * 9])
def test_any_bytes_can_be_quoted(raw: bytes) -> None:
    assert "KG203" in rendered("full", report(LOAD, files={"ops/k.py": raw}))


def test_carets_stand_under_what_is_shown() -> None:
    assert window("\tx = 1", 1, 2) == ("    x = 1", "    ^")
    assert window("s = '日本' + x", 11, 12) == ("s = '日本' + x", " " * 13 + "^")
    assert window("a\x1b[31mb", 0, 2) == ("a\ufffd[31mb", "^^")
    assert window("x", 1, 2) == ("x", " ^")


def test_of_a_very_long_line_only_the_part_around_the_range_is_shown() -> None:
    text, carets = window("x" * 500_000 + "HERE" + "y" * 500_000, 500_000, 500_004)
    assert len(text) < 130
    assert text[carets.index("^") : carets.rindex("^") + 1] == "HERE"
    assert text.startswith("…")
    assert text.endswith("…")


def test_colour_changes_nothing_but_the_colour() -> None:
    import re

    plain, coloured = report(LOAD, BROKEN, NOTE), report(LOAD, BROKEN, NOTE)
    coloured.colour = True
    text = rendered("full", coloured)
    assert "\x1b[1;33mwarning\x1b[0m" in text
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == rendered("full", plain)


def test_concise_is_a_line_each() -> None:
    assert rendered("concise", report(BROKEN, LOAD, notes=("one thing",))) == (
        "ops/broken.py:2:5: error KG001: the file cannot be read\n"
        "ops/k.py:5:9: warning KG203 masked-load-without-other: the load of x has no other\n"
        "note: one thing\n"
        "1 error, 1 warning (2 kernels declared, 3 device functions)\n"
        "1 fixable with --fix\n"
    )


def test_quiet_shows_findings_alone() -> None:
    document = report(BROKEN, notes=("one thing",))
    document.quiet = True
    assert rendered("concise", document) == "ops/broken.py:2:5: error KG001: the file cannot be read\n"
    document.result = replace(document.result, findings=())
    assert rendered("full", document) == ""


def test_the_summary_says_what_was_fixed_and_ignored() -> None:
    text = rendered("concise", report(fixed=3, suppressed=2))
    assert text == ("fixed 3 findings\nno findings (2 kernels declared, 3 device functions, 2 ignored by comments)\n")


# For machines ---------------------------------------------------------------------------------------------


def test_json_holds_everything_with_its_schema() -> None:
    document = json.loads(rendered("json", report(LOAD, suppressed=4)))
    assert next(iter(document)) == "schema"
    assert document["schema"].startswith("kgate.lint/")
    assert (document["kernels"], document["device_functions"], document["suppressed"]) == (2, 3, 4)
    (found,) = document["findings"]
    assert found["code"] == "KG203"
    assert found["related"] == [{"path": "ops/l.py", "line": 7, "column": 3, "message": "launched here"}]
    assert [fix["safe"] for fix in found["fixes"]] == [False, True]
    assert found["fixes"][0]["edits"][0]["kind"] == "replace"


def sarif(document: LintReport) -> dict:
    (run,) = json.loads(rendered("sarif", document))["runs"]
    return run


def test_sarif_has_the_structure_that_the_standard_asks_for() -> None:
    document = json.loads(rendered("sarif", report(BROKEN, LOAD, NOTE, notes=("one thing",))))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kgate"
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(set(identifiers)) == len(identifiers)
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert identifiers[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        for place in (*result["locations"], *result.get("relatedLocations", ())):
            region = place["physicalLocation"]["region"]
            assert region["startLine"] >= 1
            assert region["startColumn"] >= 1
            assert region.get("endLine", region["startLine"]) >= region["startLine"]
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "one thing"


def test_sarif_explains_its_rules() -> None:
    (rule,) = sarif(report(LOAD))["tool"]["driver"]["rules"]
    assert rule["help"]["text"].startswith("KG203 masked-load-without-other")
    assert rule["help"]["markdown"].startswith("# KG203")
    assert rule["defaultConfiguration"]["level"] == "warning"


def test_sarif_fixes_give_the_fixed_file() -> None:
    (result,) = sarif(report(LOAD))["results"]
    titles = [fix["description"]["text"] for fix in result["fixes"]]
    assert titles == ["Fill with ones (unsafe)", "Fill with zeros"]
    (change,) = result["fixes"][1]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "ops/k.py"
    assert replaced(SOURCE, change["replacements"]) == SOURCE.replace("mask=m", "mask=m, other=0.0")


def replaced(text: str, changes: list[dict]) -> str:
    """What a reader of SARIF makes of replacements."""
    lines = text.split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(part) + 1 for part in lines[: line - 1]) + column - 1

    for change in reversed(changes):
        region = change["deletedRegion"]
        start = offset(region["startLine"], region["startColumn"])
        end = offset(region["endLine"], region["endColumn"])
        text = text[:start] + change["insertedContent"]["text"] + text[end:]
    return text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "a\nc\n"),
        ("a\nb\nc\n", "x\na\nb\nc\ny\n"),
        ("a\nb", "a\nb\nc"),
        ("a\nb", "a"),
        ("a\nb", "a\nB"),
        ("a\x0c\u2028b\nc", "a\x0c\u2028b\nd"),
        ("", "a\n"),
        ("a\n", ""),
        ("a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n"),
    ],
)
def test_replacements_turn_one_text_into_the_other(before: str, after: str) -> None:
    assert replaced(before, replacements(before, after)) == after


def test_a_fix_that_cannot_be_made_is_left_out_of_sarif() -> None:
    elsewhere = Fix("x", True, (Edit("replace", 90, 1, 90, 2, text="y"),))
    (result,) = sarif(report(replace(LOAD, fixes=(elsewhere,))))["results"]
    assert "fixes" not in result


def test_sarif_says_which_fixes_it_leaves_out_of_a_long_list() -> None:
    paths = [f"ops/{number}.py" for number in range(27)]
    document = report(*(replace(LOAD, path=path) for path in paths), files=dict.fromkeys(paths, SOURCE.encode()))
    run = sarif(document)
    assert sum("fixes" in result for result in run["results"]) == 25
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "the fixes of 2 further files are left out" in note["message"]["text"]


def marks(style: str, document: LintReport) -> list[str]:
    if style == "sarif":
        return [result["partialFingerprints"]["kgateFinding/v1"] for result in sarif(document)["results"]]
    return [issue["fingerprint"] for issue in json.loads(rendered("gitlab", document))]


@pytest.mark.parametrize("style", ["sarif", "gitlab"])
def test_fingerprints_are_unique_and_survive_moved_lines(style: str) -> None:
    twice = SOURCE + SOURCE
    second = replace(LOAD, line=11, end_line=11)
    before = marks(style, report(LOAD, second, NOTE, files={"ops/k.py": twice.encode()}))
    assert len(set(before)) == 3
    moved = [replace(item, line=item.line + 3, end_line=item.end_line + 3) for item in (LOAD, second, NOTE)]
    after = marks(style, report(*moved, files={"ops/k.py": b"# one\n# two\n# three\n" + twice.encode()}))
    assert after == before
    edited = marks(style, report(LOAD, files={"ops/k.py": SOURCE.replace("mask=m", "mask=n").encode()}))
    assert edited[0] not in before


def test_gitlab_issues_have_what_gitlab_reads() -> None:
    first, second, third = json.loads(rendered("gitlab", report(BROKEN, LOAD, NOTE)))
    assert (first["severity"], second["severity"], third["severity"]) == ("major", "minor", "info")
    assert second["check_name"] == "masked-load-without-other"
    assert second["description"] == "KG203: the load of x has no other"
    assert third["location"] == {"path": "ops/k.py", "lines": {"begin": 4, "end": 6}}
    assert json.loads(rendered("gitlab", report())) == []


def test_junit_fails_for_errors_alone_and_shows_the_rest() -> None:
    root = ElementTree.fromstring(rendered("junit", report(BROKEN, LOAD, NOTE)))
    assert root.attrib["tests"] == "3"
    assert root.attrib["failures"] == "1"
    assert [suite.attrib["name"] for suite in root] == ["ops/broken.py", "ops/k.py"]
    (failure,) = root.iter("failure")
    assert failure.attrib == {"type": "KG001", "message": "the file cannot be read"}
    assert "the load of x has no other" in "".join(item.text or "" for item in root.iter("system-out"))


def test_junit_without_findings_is_one_case_that_passes() -> None:
    root = ElementTree.fromstring(rendered("junit", report()))
    assert root.attrib["failures"] == "0"
    assert len(list(root.iter("testcase"))) == 1


def test_github_annotates_the_gravest_first_and_lists_what_it_would_drop() -> None:
    many = [replace(LOAD, line=number, end_line=number) for number in range(1, 14)]
    lines = rendered("github", report(*many, BROKEN)).splitlines()
    assert lines[0].startswith("::error file=ops/broken.py,line=2,endLine=2,col=5,endColumn=6,title=kgate%3A KG001::")
    assert sum(line.startswith("::warning") for line in lines) == 10
    assert sum(line.startswith("ops/k.py:1") for line in lines) == 3


# Hostile --------------------------------------------------------------------------------------------------

ODD = "\x1b[31m\x00\r\n\u202e%0A::error::]]>&<\"'\ud800\uffff|`日\t,:"
HOSTILE = Finding(
    "KG203", "error", f"ops/{ODD}/k.py", 5, 9, 5, 24, f"message {ODD}", f"remedy {ODD}", f"symbol {ODD}",
    "masked-load-without-other", (Related(f"rel {ODD}", 1, 1, f"there {ODD}"),),
    (Fix(f"title {ODD}", True, (Edit("replace", 5, 9, 5, 24, text=ODD),)),),
)  # fmt: skip


def hostile() -> LintReport:
    path = HOSTILE.path
    return report(HOSTILE, files={path: SOURCE.encode()}, notes=(f"note {ODD}",))


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_stays_whole_and_encodable_with_odd_names(style: str) -> None:
    text = rendered(style, hostile())
    text.encode("utf-8")
    assert "KG203" in text
    assert not set(text) & {"\x1b", "\x00", "\r", "\u202e"} or style in ("json", "sarif", "gitlab")
    if style in ("json", "sarif", "gitlab"):
        json.loads(text)
        assert not set(text) & {"\x1b", "\x00", "\r"}
    if style == "junit":
        assert len(list(ElementTree.fromstring(text).iter("failure"))) == 1
    if style == "github":
        assert sum(line.startswith("::error") for line in text.split("\n")) == 1
    if style == "concise":
        assert text.count("\n") == 3 + 1


def test_sarif_quotes_a_path_as_an_address() -> None:
    place = sarif(report(replace(LOAD, path="a b/ü#%.py")))["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b/%C3%BC%23%25.py"


# Statistics -----------------------------------------------------------------------------------------------


def counted(style: str, document: LintReport) -> str:
    stream = io.StringIO()
    render_statistics(document, stream, style)
    return stream.getvalue()


def test_statistics_count_by_rule_and_mark_what_can_be_fixed() -> None:
    unsafe = replace(NOTE, code="KG309", name="multiply-by-mask", fixes=(GUESS,))
    assert counted("full", report(BROKEN, LOAD, LOAD, unsafe)) == (
        "2  warning  [*]  KG203 masked-load-without-other\n"
        "1  error         KG001\n"
        "1  note     [+]  KG309 multiply-by-mask\n"
        "[*] fixable with --fix, [+] with --fix --unsafe-fixes\n"
        "4 findings of 3 rules\n"
    )


def test_statistics_as_json() -> None:
    document = json.loads(counted("json", report(LOAD, BROKEN)))
    assert document["schema"] == "kgate.lint-statistics/1"
    assert document["statistics"][1] == {
        "code": "KG203", "name": "masked-load-without-other", "severity": "warning", "count": 1, "safe": 1, "unsafe": 0,
    }  # fmt: skip


def test_statistics_of_nothing() -> None:
    assert counted("full", report()) == "0 findings of 0 rules\n"
    assert json.loads(counted("json", report()))["statistics"] == []


# Documentation --------------------------------------------------------------------------------------------


def test_every_key_of_the_json_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "linting.md").read_text(encoding="utf-8")
    document = json.loads(rendered("json", report(LOAD)))
    (found,) = document["findings"]
    keys = {*document, *found, *found["related"][0], *found["fixes"][0], "kind", "text"}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
    statistics = json.loads(counted("json", report(LOAD)))
    for key in (*statistics["statistics"][0], document["schema"], statistics["schema"]):
        assert f"`{key}`" in text
