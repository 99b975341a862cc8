"""The worker, end to end: right kernels pass, each fault gives its own finding, and the others are still judged."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from kgate.cases import parse_case
from kgate.probes import workers
from kgate.probes.workers import NOT_RUN, Job, WorkerError, run_jobs

sys.path.insert(0, str(Path(__file__).parent))
from worker_tree import RMS, SOFTMAX, rms, softmax, write

PLAIN, TAIL, BF16 = "M=2,N=64,T=float32", "M=2,N=67,T=float32", "M=2,N=67,T=bfloat16"
FAR = "M=3,N=64,T=float32,x=far"
NEGATIVE = "M=2,N=67,T=float32,values=negative"

FAULTS: dict[str, tuple[str, list[tuple[str, str]], tuple[str, ...]]] = {
    "right": (RMS, [], (PLAIN, TAIL, BF16, FAR, "M=0,N=64", "M=2,N=67,x=expanded", "M=2,N=67,weight=absent")),
    "right_softmax": (SOFTMAX, [], (PLAIN, TAIL, BF16, NEGATIVE)),
    "dropped_store_mask": (RMS, [("cols, v, mask=cols < N)", "cols, v)")], (PLAIN, TAIL)),
    "dropped_load_mask": (
        RMS,
        [("x + row * sx + cols, mask=cols < N, other=0.0).to(tl.float32)\n", "x + row * sx + cols).to(tl.float32)\n")],
        (PLAIN, "M=1,N=67,T=float32"),
    ),
    "wrong_identity": (SOFTMAX, [('other=-float("inf")', "other=0.0")], (PLAIN, NEGATIVE)),
    "dropped_upcast": (
        RMS,
        [
            ("total = tl.zeros([BLOCK], tl.float32)", "total = tl.zeros([BLOCK], x.dtype.element_ty)"),
            ("other=0.0).to(tl.float32)\n", "other=0.0)\n"),
        ],
        (TAIL, "M=2,N=4099,T=bfloat16"),
    ),
    "unhandled_tail": (
        RMS,
        [("for start in range(0, N, BLOCK)", "for start in range(0, N // BLOCK * BLOCK, BLOCK)")],
        (PLAIN, TAIL),
    ),
    "store_out_of_bounds": (
        RMS,
        [("tl.store(y + row * sy + cols, v", "tl.store(y + row * sy + cols + 1, v")],
        (PLAIN,),
    ),
    "int32_offset": (RMS, [("row = tl.program_id(0).to(tl.int64)", "row = tl.program_id(0)")], (PLAIN, FAR)),
    "hangs": (RMS, [("    if M:\n", "    while N == 67:\n        pass\n    if M:\n")], (TAIL, PLAIN)),
    "segfaults": (RMS, [("    if M:\n", "    if N == 67:\n        ctypes.string_at(0)\n    if M:\n")], (TAIL, PLAIN)),
    "exits": (RMS, [("    if M:\n", "    if N == 67:\n        os._exit(3)\n    if M:\n")], (TAIL, PLAIN)),
    "raises": (
        RMS,
        [("    if M:\n", "    if N == 67:\n        raise ValueError('no such tile')\n    if M:\n")],
        (TAIL, PLAIN),
    ),
    "sys_exit": (RMS, [("    if M:\n", "    if N == 67:\n        sys.exit('bye')\n    if M:\n")], (TAIL, PLAIN)),
    "eats_memory": (
        RMS,
        [("    if M:\n", "    if N == 67:\n        torch.zeros(1 << 44)\n    if M:\n")],
        (TAIL, PLAIN),
    ),
    "wrong_dtype": (RMS, [("    return y\n", "    return y.float()\n")], (PLAIN, BF16)),
    "writes_input": (RMS, [("    if M:\n", "    if N == 67:\n        x[:, 0] += 1\n    if M:\n")], (TAIL, PLAIN)),
    "chatty": (
        RMS,
        [("    if M:\n", '    print(\'{"id": 0}\'); os.write(1, b\'{"status": "wrong"}\\n\')\n    if M:\n')],
        (TAIL,),
    ),
    "wrong_gradient": (SOFTMAX, [("p * (g - tl.sum(p * g, 0))", "p * g")], (TAIL,)),
    "fails_to_import": (RMS, [("import ctypes", "import no_such_module, ctypes")], (PLAIN, TAIL)),
    "hangs_in_import": (RMS, [("import ctypes", "import time; time.sleep(600)\nimport ctypes")], (PLAIN, TAIL)),
    "dies_in_import": (RMS, [("import ctypes", "import os; os._exit(9)\nimport ctypes")], (PLAIN,)),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for module, (source, changes, _) in FAULTS.items():
        write(folder, module, source, *changes)
    return folder


def jobs_of(module: str, ids, limit: float = 20.0):
    source = FAULTS[module][0]
    declared = rms(module) if source is RMS else softmax(module)
    return [Job(declared, parse_case(declared, text), "accuracy", "cuda:sm_90", limit) for text in ids]


@pytest.fixture(scope="module")
def found(tree):
    """Measurement by (module, case text) of one run over all of them."""
    jobs, keys = [], []
    for module, (_, _, ids) in FAULTS.items():
        jobs += jobs_of(module, ids, limit=3.0 if module == "hangs" else 30.0)
        keys += [(module, text) for text in ids]
    before = workers._IMPORT_LIMIT
    workers._IMPORT_LIMIT = 15.0
    try:
        results = run_jobs(jobs, tree=tree, python=sys.executable)
    finally:
        workers._IMPORT_LIMIT = before
    return dict(zip(keys, results, strict=True))


@pytest.mark.parametrize("key", [(m, t) for m in ("right", "right_softmax", "chatty") for t in FAULTS[m][2]])
def test_a_right_kernel_passes_every_case(found, key):
    assert (found[key].status, found[key].message) == ("ok", "")


def test_figures_are_below_their_bounds_and_count_every_element(found):
    figures = found["right", TAIL].figures["y"]
    assert 0 < figures["err_over_floor"] <= 2
    assert 0 < figures["rms_over_floor"] <= 1
    assert (figures["wrong"], figures["elements"]) == (0, 134)
    assert "grad x" in found["right_softmax", TAIL].figures


@pytest.mark.parametrize(
    ("module", "case", "status", "words"),
    [
        ("dropped_store_mask", TAIL, "out-of-bounds", ("store to", "dropped_store_mask.py:")),
        ("dropped_load_mask", "M=1,N=67,T=float32", "out-of-bounds", ("load from x", "dropped_load_mask.py:")),
        ("wrong_identity", NEGATIVE, "wrong", ("y:", "noise floor")),
        ("dropped_upcast", "M=2,N=4099,T=bfloat16", "wrong", ("y:",)),
        ("unhandled_tail", TAIL, "unwritten", ("6 of 134 elements of y were never written",)),
        ("store_out_of_bounds", PLAIN, "out-of-bounds", ("store to",)),
        ("int32_offset", FAR, "overflow", ("32-bit", "int32_offset.py:")),
        ("hangs", TAIL, "hang", ("did not finish within 3 s", "hangs.py:")),
        ("segfaults", TAIL, "crash", ("SIGSEGV", "segfaults.py:")),
        ("exits", TAIL, "crash", ("exit status 3",)),
        ("raises", TAIL, "error", ("ValueError: no such tile", "raises.py:")),
        ("sys_exit", TAIL, "error", ("SystemExit: bye",)),
        ("eats_memory", TAIL, "error", ("out of memory",)),
        ("wrong_dtype", BF16, "wrong", ("y is float32, bfloat16 was promised",)),
        ("writes_input", TAIL, "wrong", ("input x was written to",)),
        ("wrong_gradient", TAIL, "wrong", ("grad x:",)),
        ("fails_to_import", PLAIN, "error", ("importing fails_to_import", "no_such_module", "fails_to_import.py:")),
        ("fails_to_import", TAIL, "error", ("no_such_module",)),
        ("hangs_in_import", PLAIN, "hang", ("importing hangs_in_import", "within 15 s")),
        ("hangs_in_import", TAIL, "hang", ("importing hangs_in_import",)),
        ("dies_in_import", PLAIN, "crash", ("importing dies_in_import", "exit status 9")),
    ],
)
def test_each_fault_gives_its_own_finding(found, module, case, status, words):
    measurement = found[module, case]
    assert measurement.status == status, measurement.message
    shown = f"{measurement.message} {measurement.details.get('line', '')}"
    for word in words:
        assert word in shown


@pytest.mark.parametrize(
    "module",
    ["hangs", "segfaults", "exits", "raises", "sys_exit", "eats_memory", "writes_input", "wrong_dtype",
     "dropped_store_mask", "wrong_identity", "unhandled_tail", "int32_offset"],
)  # fmt: skip
def test_the_case_without_the_fault_is_still_judged_right(found, module):
    assert found[module, PLAIN].status == "ok", found[module, PLAIN].message


def test_a_wrong_element_is_shown_with_what_was_wanted_and_allowed(found):
    worst = found["wrong_identity", NEGATIVE].details["worst"]
    assert worst["output"] == "y"
    assert len(worst["index"]) == 2
    assert abs(worst["got"] - worst["want"]) > worst["allowed"] > 0


def test_user_prints_are_kept_for_a_failing_case(found):
    assert "ValueError: no such tile" in found["raises", TAIL].details["traceback"]


def test_outside_cases_reach_the_fallback_for_the_right_reason(tree):
    declared = rms("right")
    cases = [parse_case(declared, text) for text in ("T=float64", "M=2,N=67,x=strided", "M=1,N=65537")]
    results = run_jobs(
        [Job(declared, case, "accuracy", "cuda:sm_90") for case in cases], tree=tree, python=sys.executable
    )
    assert [result.status for result in results] == ["ok"] * 3
    assert [case.reason for case in cases] == ["dtype-unsupported", "layout", "dim-range"]
    assert results[1].details["reasons"] == ["layout"]


def test_a_case_that_the_dispatch_sends_elsewhere_is_a_dispatch_finding(tree):
    declared = rms("right")
    case = parse_case(declared, PLAIN)
    outside = parse_case(declared, "M=2,N=67,x=strided")
    wrong = [
        Job(declared, type(case)(**{**vars(case), "expect": "fallback", "reason": "where"}), "accuracy", "cuda:sm_90"),
        Job(declared, type(case)(**{**vars(outside), "expect": "kernel", "reason": ""}), "accuracy", "cuda:sm_90"),
        Job(declared, case, "accuracy", "hip:gfx942"),
    ]
    results = run_jobs(wrong, tree=tree, python=sys.executable)
    assert [result.status for result in results] == ["dispatch"] * 3
    assert "the kernel would serve it" in results[0].message
    assert "[layout]" in results[1].message
    assert "target-unsupported" in results[2].details["reasons"]


def test_a_declaration_that_runs_differently_than_it_reads_is_an_error_that_names_the_place(tree):
    declared = rms("right")
    description = {"envelope": {"dims": {"M": {"lo": 1}}}}
    declared.description = description
    (result,) = run_jobs(
        [Job(declared, parse_case(declared, PLAIN), "accuracy", "cuda:sm_90")], tree=tree, python=sys.executable
    )
    assert result.status == "error"
    assert "envelope" in result.message
    assert "at run time" in result.message


def test_what_the_deadline_cuts_off_is_not_run_and_never_called_a_result(tree):
    seen = []
    jobs = jobs_of("right", [PLAIN, TAIL])
    results = run_jobs(
        jobs, tree=tree, python=sys.executable, deadline=time.monotonic() - 1,
        on_result=lambda job, result: seen.append(result),
    )  # fmt: skip
    assert [result.status for result in results] == [NOT_RUN, NOT_RUN]
    assert seen == []


def test_an_interpreter_that_does_not_exist_is_an_infrastructure_error(tree):
    with pytest.raises(WorkerError) as error:
        run_jobs(jobs_of("right", [PLAIN]), tree=tree, python="/no/such/python")
    assert "/no/such/python" in error.value.message
    assert "KGATE_PYTHON" in error.value.remedy


def test_an_interpreter_without_torch_is_an_infrastructure_error_that_names_it(tree, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(WorkerError) as error:
        run_jobs(jobs_of("right", [PLAIN]), tree=tree, python=str(bare))
    assert "numpy" in str(error.value) or "torch" in str(error.value)
    assert "install" in error.value.remedy


def test_a_module_from_outside_the_tree_is_refused(tmp_path):
    inside, elsewhere = tmp_path / "tree", tmp_path / "repo"
    inside.mkdir()
    elsewhere.mkdir()
    write(inside, "right", RMS, ("import ctypes", "import helper, ctypes"))
    (elsewhere / "helper.py").write_text("")
    write(inside, "fine", RMS)
    (inside / "sitecustomize.py").write_text("")
    (inside / "right.py").write_text(
        f"import sys; sys.path.append({str(elsewhere)!r})\n" + (inside / "right.py").read_text()
    )
    declared = rms("right")
    (result,) = run_jobs(
        [Job(declared, parse_case(declared, PLAIN), "accuracy", "cuda:sm_90")],
        tree=inside, python=sys.executable, elsewhere=[str(elsewhere)],
    )  # fmt: skip
    assert result.status == "error"
    assert "helper" in result.message
    assert "git add" in result.message


def test_codegen_measures_a_full_size_workload(tree):
    declared = rms("right")
    case = parse_case(declared, "M=4096,N=4096,T=bfloat16")
    (result,) = run_jobs([Job(declared, case, "codegen", "cuda:sm_90", 120.0)], tree=tree, python=sys.executable)
    assert (result.status, result.target, result.executor) == ("ok", "cuda:sm_90", "compiler")
    (figures,) = result.figures.values()
    assert figures["registers"] > 0
    assert result.toolchain["triton"]
