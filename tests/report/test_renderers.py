"""Every renderer carries the same facts, and none of them breaks on what a message may hold."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import pytest

from kgate.baselines.records import Change
from kgate.gate.records import Failing, Report, Verdict
from kgate.report import github, terminal
from kgate.report.text import closing
from kgate.source.records import Affected, Finding, Reason, Step

WORST = {"worst": {"output": "y", "index": [0, 128], "got": 0.0, "want": 0.0322, "allowed": 0.002}}

ACCURACY = Verdict(
    kernel="k/norm.py::norm", name="norm", path="k/norm.py", line=41, probe="accuracy", target="", verdict="fail",
    headline="6 of 48 cases are wrong", cases=48,
    failing=(Failing("M=1,N=129,T=bfloat16", "wrong", "y is wrong", WORST),),
    shared="N % 128 != 0 and T = bfloat16   (6 of 6 failing, 0 of 42 passing)",
    reproduce="kgate run norm -k M=1,N=129,T=bfloat16",
)  # fmt: skip
CODEGEN = Verdict(
    kernel="k/norm.py::norm", name="norm", path="k/norm.py", line=41, probe="codegen", target="cuda:sm_90",
    verdict="fail", headline="spills 0 -> 48 B, occupancy 18.75% -> 12.5%", cases=1, case="M=4096,N=4096",
    changes=(
        Change("_norm", "spill_bytes", 0, 48, "regression"),
        Change("_norm", "occupancy", 0.1875, 0.125, "warning"),
    ),
    accept="kgate bless norm -k M=4096,N=4096 --reason '...'",
)  # fmt: skip
AFFECTED = Affected(
    "k/norm.py::norm", "norm", "k/norm.py", ("code",),
    (Reason("code", (Step("k/h.py::mean", "k/h.py", 12, "changed"),), "mean (k/h.py:12) changed"),),
)  # fmt: skip


def report(*verdicts: Verdict, findings: tuple[Finding, ...] = (), **more: object) -> Report:
    fields: dict[str, object] = {
        "schema": "kgate.report/1", "base": "b", "head": "h", "explanation": "h against b", "findings": findings,
        "affected": (AFFECTED,), "verdicts": verdicts, "kernels": 3, "passed": 42, "failed": 6, "remembered": 0,
        "not_run": 0, "not_run_why": "", "skipped": {}, "notes": (), "seconds": 1.5, "exit_code": 1,
    }  # fmt: skip
    return Report(**{**fields, **more})  # type: ignore[arg-type]


def rendered(renderer, document: Report) -> str:
    stream = io.StringIO()
    renderer.render(document, stream)
    return stream.getvalue()


FACTS = [
    "k/norm.py:41", "6 of 48 cases are wrong", "N %25 128 != 0 and T = bfloat16", "M=1,N=129,T=bfloat16",
    "worst at y[0, 128]: got 0, want 0.0322, allowed 0.002", "mean (k/h.py:12) changed", "kgate run norm -k",
    "cuda:sm_90", "M=4096,N=4096", "spills 0 -> 48 B", "occupancy 18.75%25 -> 12.5%25", "kgate bless norm -k",
]  # fmt: skip


@pytest.mark.parametrize("fact", FACTS)
def test_terminal_and_github_carry_the_same_facts(fact: str) -> None:
    document = report(ACCURACY, CODEGEN)
    assert fact.replace("%25", "%") in rendered(terminal, document)
    assert fact in rendered(github, document)


def test_a_message_with_markup_is_printed_as_it_stands() -> None:
    odd = Failing("x[bold]=1", "wrong", "got [red]1[/red] for a[0]")
    text = rendered(terminal, report(replace(ACCURACY, failing=(odd,))))
    assert "x[bold]=1   got [red]1[/red] for a[0]" in text


def test_an_annotation_is_one_line_with_its_specials_escaped() -> None:
    finding = Finding("bad,code:x", "error", "a,b:c.py", 3, 5, 3, 9, "100% wrong\nsecond line", "mend it")
    (line, *_) = rendered(github, report(findings=(finding,))).splitlines()
    assert line == (
        "::error file=a%2Cb%3Ac.py,line=3,title=kgate%3A bad%2Ccode%3Ax::100%25 wrong%0Asecond line%0Amend it"
    )


def test_github_shows_ten_annotations_of_a_kind_and_counts_the_rest() -> None:
    findings = tuple(Finding("c", "error", f"f{n}.py", 1, 1, 1, 1, "m", "") for n in range(13))
    text = rendered(github, report(findings=findings))
    assert text.count("::error ") == 10
    assert "3 more of level error" in text


def test_errors_come_before_warnings() -> None:
    warning = replace(CODEGEN, verdict="warn", name="aaa", kernel="a.py::aaa")
    text = rendered(github, report(warning, ACCURACY))
    assert text.index("::error") < text.index("::warning")


def test_forty_missing_lines_of_one_kernel_are_one_line() -> None:
    new = [replace(CODEGEN, verdict="new", case=f"M={n}", changes=(), headline="no line") for n in range(40)]
    text = rendered(terminal, report(*new, exit_code=2))
    assert text.count("no baseline line yet for 40 cases on cuda:sm_90") == 1


def test_the_closing_line_says_what_was_not_run() -> None:
    assert closing(report(not_run=6, not_run_why="budget", failed=0)) == (
        "FAIL: 42 passed, 0 failed, 6 not run (budget); 1 kernel, 1.5 s"
    )


def test_the_report_is_json_with_its_schema() -> None:
    document = msgspec.json.decode(msgspec.json.encode(report(ACCURACY, CODEGEN)))
    assert document["schema"] == "kgate.report/1"
    assert document["verdicts"][1]["changes"][0] == {
        "label": "_norm", "figure": "spill_bytes", "old": 0, "new": 48, "severity": "regression", "note": "",
    }  # fmt: skip


def test_the_closing_line_says_what_an_exit_code_of_2_is_about() -> None:
    problem = replace(CODEGEN, verdict="baseline", changes=(), headline="was changed by hand")
    assert closing(report(problem, failed=0, exit_code=2)) == (
        "baselines or configuration: 42 passed, 0 failed, 1 baseline problem; 1 kernel, 1.5 s"
    )


def test_failures_come_last_and_improvements_of_a_broken_kernel_are_not_told() -> None:
    better = replace(
        CODEGEN, verdict="pass", changes=(Change("_norm", "registers", 64, 32, "improvement"),), headline="registers"
    )
    warning = replace(CODEGEN, verdict="warn")
    text = rendered(terminal, report(ACCURACY, warning, better))
    assert text.index("warn  ") < text.index("FAIL  ")
    assert "improved" not in text
    assert "improved" in rendered(terminal, report(better, exit_code=0))


def test_numbers_are_printed_with_as_many_digits_as_it_takes_to_tell_them_apart() -> None:
    close = {"worst": {"output": "y", "index": [1], "got": -0.04470312, "want": -0.04470318, "allowed": 1.6e-8}}
    text = rendered(terminal, report(replace(ACCURACY, failing=(Failing("N=1", "wrong", "", close),))))
    assert "got -0.0447031, want -0.0447032" in text
