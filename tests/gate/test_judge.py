"""From measurements to verdicts and exit codes."""

from __future__ import annotations

import pytest

from kgate.baselines.records import Change, Comparison, Line, Measurement
from kgate.cases.records import Case
from kgate.gate import records
from kgate.gate.judge import compare, exit_code, judge_cases, judge_figures
from kgate.gate.records import Verdict
from kgate.source.records import Declaration

DECLARATION = Declaration(
    identity="k/norm.py::norm", name="norm", op="norm", path="k/norm.py", line=7, column=1, module="k.norm",
    qualname="norm", root=".", envelope=None, reference="r:norm", fallback="f:norm",
)  # type: ignore[arg-type]  # fmt: skip


def case(n: int, dtype: str = "float32") -> Case:
    return Case(f"N={n},T={dtype}", DECLARATION.identity, {"N": n}, {"T": dtype})


def found(one: Case, status: str = "ok", probe: str = "accuracy", **more: object) -> Measurement:
    target = "cuda:sm_90" if probe == "codegen" else "interpreter"
    return Measurement(DECLARATION.identity, one.id, probe, target, "x", status, **more)  # type: ignore[arg-type]


def test_all_passing_is_one_pass() -> None:
    (verdict,) = judge_cases(DECLARATION, "accuracy", [(c, found(c)) for c in map(case, (1, 2, 3))], ())
    assert (verdict.verdict, verdict.cases) == (records.PASS, 3)


def test_each_way_of_failing_is_its_own_finding() -> None:
    cases = [case(n) for n in (1, 64, 128, 129)]
    statuses = ["ok", "crash", "hang", "wrong"]
    verdicts = judge_cases(
        DECLARATION, "accuracy", [(c, found(c, s)) for c, s in zip(cases, statuses, strict=True)], ()
    )
    assert [v.headline for v in verdicts] == [
        "1 of 4 cases crashes",
        "1 of 4 cases hangs",
        "1 of 4 cases is wrong",
    ]
    assert all(v.verdict == records.FAIL for v in verdicts)


def test_the_smallest_failing_case_comes_first_and_can_be_reproduced() -> None:
    cases = [case(n) for n in (129, 1000, 64, 127)]
    (verdict,) = judge_cases(
        DECLARATION, "accuracy", [(c, found(c, "ok" if c.dims["N"] < 128 else "wrong")) for c in cases], (128,)
    )
    assert verdict.failing[0].case == "N=129,T=float32"
    assert verdict.reproduce == "kgate run norm -k N=129,T=float32"
    assert verdict.shared.startswith("N > 128 ")


def test_a_case_id_that_a_shell_would_split_is_quoted() -> None:
    odd = Case("N=1,mode=a b", DECLARATION.identity, {"N": 1}, {})
    (verdict,) = judge_cases(DECLARATION, "accuracy", [(odd, found(odd, "wrong"))], ())
    assert verdict.reproduce == "kgate run norm -k 'N=1,mode=a b'"


def figures(**values: object) -> dict[str, dict[str, object]]:
    return {"_kernel": dict(values)}


def test_new_spills_fail_and_say_old_and_new() -> None:
    one = case(4096)
    line = Line(one.id, "codegen", "c", "t", "x", figures(spill_bytes=0, registers=32, occupancy=1.0))  # type: ignore[arg-type]
    new = found(one, probe="codegen", figures=figures(spill_bytes=48, registers=32, occupancy=1.0))
    verdict = judge_figures(DECLARATION, one, compare(new, line, None))
    assert verdict is not None
    assert verdict.verdict == records.FAIL
    assert "spills 0 -> 48 B" in verdict.headline
    assert verdict.accept == "kgate bless norm -k N=4096,T=float32 --reason '...'"
    assert verdict.reproduce.endswith("--target cuda:sm_90")


def test_without_a_line_the_verdict_is_new() -> None:
    one = case(1)
    verdict = judge_figures(DECLARATION, one, Comparison(found(one, probe="codegen"), None))
    assert verdict is not None
    assert verdict.verdict == records.NEW


def test_base_stands_in_for_a_line_of_another_toolchain() -> None:
    one = case(1)
    line = Line(one.id, "codegen", "c", "triton 3.6.0", "x", figures(spill_bytes=400))  # type: ignore[arg-type]
    base = found(one, probe="codegen", figures=figures(spill_bytes=0))
    new = found(one, probe="codegen", figures=figures(spill_bytes=16))
    comparison = compare(new, line, base)
    assert comparison.against == "base"
    assert [(c.figure, c.old, c.new) for c in comparison.changes if c.severity == "regression"] == [
        ("spill_bytes", 0, 16)
    ]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [(0.2, 0.45, None), (0.4, 0.7, "regression"), (0.6, 0.8, None), (0.9, 0.3, "improvement")],
)
def test_error_growth_counts_from_half_the_floor(old: float, new: float, severity: str | None) -> None:
    one = case(1)
    line = Line(one.id, "accuracy", "c", "t", "x", {"y": {"err_over_floor": old}})
    changes = compare(found(one, figures={"y": {"err_over_floor": new}}), line, None).changes
    told = [c.severity for c in changes if c.severity != "neutral"]
    assert told == ([severity] if severity else [])


def verdict(kind: str) -> Verdict:
    return Verdict("k", "k", "k.py", 1, "accuracy", "", kind, "x", changes=(Change("a", "b", 1, 2, "neutral"),))


@pytest.mark.parametrize(
    ("kinds", "flags", "code"),
    [
        (["pass", "warn"], {}, 0),
        (["fail", "error", "new"], {"undecided": True}, 1),
        (["error", "new"], {}, 4),
        (["new"], {"infrastructure": True}, 4),
        (["new"], {"undecided": True}, 2),
        (["pass"], {"baseline_errors": True}, 2),
        (["pass"], {"undecided": True}, 3),
        ([], {"static_errors": True, "infrastructure": True}, 1),
    ],
)
def test_where_several_exit_codes_hold_the_order_is_1_4_2_3(
    kinds: list[str], flags: dict[str, bool], code: int
) -> None:
    every = dict.fromkeys(("static_errors", "baseline_errors", "infrastructure", "undecided"), False)
    assert exit_code([verdict(kind) for kind in kinds], **{**every, **flags}) == code
