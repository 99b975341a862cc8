"""The tour, second part: faults seeded into a clone of this repository are found, and named rightly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gate.seeded_faults import ACCURACY_FAULTS, CODEGEN_FAULTS, AccuracyFault, CodegenFault


@pytest.mark.parametrize("fault", ACCURACY_FAULTS, ids=lambda fault: fault.name)
def test_a_wrong_kernel_blocks_and_the_message_names_dimension_and_dtype(clone: Any, fault: AccuracyFault) -> None:
    clone.replace(fault.path, fault.old, fault.new)
    code, report, told = clone.check("--probe", "accuracy")
    assert code == 1, told
    failed = [item for item in report["verdicts"] if item["verdict"] == "fail"]
    assert {item["name"] for item in failed} == {fault.kernel}
    seen = {failing["status"] for item in failed for failing in item["failing"]}
    assert seen & set(fault.statuses), seen
    shared = " ; ".join(item["shared"] for item in failed)
    assert fault.shared in shared, shared
    assert not fault.values or any(value in shared for value in fault.values), shared
    assert report["passed"] > 0
    assert all(item["reproduce"].startswith(f"kgate run {fault.kernel} -k ") for item in failed)


@pytest.mark.parametrize("fault", CODEGEN_FAULTS, ids=lambda fault: fault.name)
def test_worse_compiled_code_blocks_and_the_message_has_old_and_new(clone: Any, fault: CodegenFault) -> None:
    target = fault.targets[0]
    clone.replace(fault.path, fault.old, fault.new)
    code, report, told = clone.check("--probe", "codegen", "--target", target)
    assert code == 1, told
    verdicts = [v for v in report["verdicts"] if v["verdict"] == "fail" and v["case"] == fault.workload]
    assert [(v["name"], v["target"]) for v in verdicts] == [(fault.kernel, target)]
    moved = [c for c in verdicts[0]["changes"] if c["figure"] == fault.figure]
    assert any(_worse(change, fault) for change in moved), verdicts[0]["changes"]
    assert verdicts[0]["accept"] == f"kgate bless {fault.kernel} -k {fault.workload} --reason '...'"


def _worse(change: dict[str, Any], fault: CodegenFault) -> bool:
    old, new = change["old"], change["new"]
    if old is None or new is None or change["severity"] != "regression":
        return False
    moved = new > old if fault.direction == "up" else new < old
    expected = (fault.old_figure in (None, old)) and (fault.new_figure in (None, new))
    return moved and expected


def test_run_reproduces_a_failure_with_got_want_and_allowed_at_the_worst_element(clone: Any) -> None:
    fault = next(item for item in ACCURACY_FAULTS if item.name == "wrong-identity")
    clone.replace(fault.path, fault.old, fault.new)
    done = clone.kgate("run", fault.kernel, "-k", fault.failing)
    assert done.returncode == 1
    for word in ("wrong", "worst at", "got ", "want ", "allowed "):
        assert word in done.stdout, done.stdout
    assert clone.kgate("run", fault.kernel, "-k", fault.passing).returncode == 0
