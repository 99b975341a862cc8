"""What the figures show: each seeded fault moves the figure that it must move."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kgate.baselines.codegen_rules import compare_codegen
from kgate.probes.codegen.compiler import usage

TARGETS = ("cuda:sm_80", "cuda:sm_90", "hip:gfx942")
NVIDIA = TARGETS[:2]


def figures(result):
    (values,) = result["figures"].values()
    return values


def regressions(before, after):
    changes = compare_codegen(before["figures"], after["figures"])
    return [change.figure for change in changes if change.severity == "regression"]


@pytest.mark.parametrize("target", NVIDIA)
def test_registers_stack_spills_and_instructions_equal_the_vendors_tools(results, target):
    checked = results(target)["cross_checked"]
    assert len(checked) == 5
    for item in checked:
        assert {name: item["figures"][name] for name in item["vendor"]} == item["vendor"]


def test_registers_allow_the_waves_that_llvm_says_on_amd(results):
    for item in results("hip:gfx942")["cross_checked"]:
        granules = -(-item["figures"]["registers"] // 8) * 8
        assert min(8, 512 // granules) == item["vendor"]["waves_per_simd"]


def test_too_many_columns_for_four_warps_spill_and_outrank_occupancy(results):
    many, few = results("cuda:sm_80")["softmax"], results("cuda:sm_80")["softmax_4_warps"]
    assert figures(many)["spill_bytes"] == 0
    assert figures(few)["spill_bytes"] > 0
    changes = compare_codegen(many["figures"], few["figures"])
    assert (changes[0].figure, changes[0].severity) == ("spill_bytes", "regression")


def test_a_stack_frame_alone_is_not_a_spill(results):
    assert figures(results("cuda:sm_80")["sine"])["spill_bytes"] == 0
    said = "32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nUsed 16 registers, used 1 barriers"
    used = usage(SimpleNamespace(metadata=SimpleNamespace(kgate_ptxas_log=said)))
    assert (used.stack_bytes, used.spill_bytes, used.registers, used.barriers) == (32, 0, 16, 1)


def test_spill_stores_and_loads_of_every_function_are_added():
    said = (
        "8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\nUsed 40 registers\n"
        "16 bytes stack frame, 0 bytes spill stores, 12 bytes spill loads\nUsed 255 registers, used 2 barriers"
    )
    used = usage(SimpleNamespace(metadata=SimpleNamespace(kgate_ptxas_log=said)))
    assert (used.stack_bytes, used.spill_bytes, used.registers, used.barriers) == (16, 24, 255, 2)


@pytest.mark.parametrize("target", TARGETS)
def test_lost_alignment_narrows_the_loads(results, target):
    aligned, sliced = results(target)["add"], results(target)["add_unaligned"]
    width = "load_128" if target in NVIDIA else "load_64"
    assert figures(aligned)[width] == 1
    assert figures(aligned)["load_16"] == 0
    assert figures(sliced)[width] == 0
    assert figures(sliced)["load_16"] == (8 if target in NVIDIA else 4)
    assert regressions(aligned, sliced) == [width]


def test_a_length_that_is_no_multiple_of_16_narrows_loads_and_stores(results):
    aligned, odd = results("cuda:sm_80")["add"], results("cuda:sm_80")["add_odd_length"]
    assert regressions(aligned, odd) == ["load_128", "store_128"]


def test_ieee_precision_loses_the_tensor_cores(results):
    tf32, ieee = results("cuda:sm_80")["matmul_tf32"], results("cuda:sm_80")["matmul_ieee"]
    assert figures(tf32)["mma"] > 0
    assert figures(tf32)["mma_kind"] == "mma"
    assert figures(ieee)["mma"] == 0
    assert "mma" in regressions(tf32, ieee)


def test_tensor_core_instructions_are_those_of_the_target(results):
    kinds = [figures(results(target)["matmul_2_stages"])["mma_kind"] for target in TARGETS]
    assert kinds == ["mma", "wgmma", "mfma"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_moved_into_the_loop_puts_barriers_there(results, target):
    after, inside = results(target)["row_sum"], results(target)["row_sum_in_loop"]
    assert figures(after)["barriers_in_loop"] == 0
    assert figures(inside)["barriers_in_loop"] >= 2
    assert regressions(after, inside) == ["barriers_in_loop"]


def test_more_stages_than_the_lds_holds_cannot_be_launched(results):
    two, five = results("hip:gfx942")["matmul_2_stages"], results("hip:gfx942")["matmul_5_stages"]
    assert two["status"] == "ok"
    assert five["status"] == "cannot-launch"
    assert "needs 131,072 bytes of shared memory, a block may have 65,536" in five["message"]
    assert figures(five)["shared_bytes"] == 131072
    assert regressions(two, five) == ["status"]


def test_the_same_stages_fit_where_there_is_more_shared_memory(results):
    assert results("cuda:sm_90")["matmul_5_stages"]["status"] == "ok"


def test_a_grid_beyond_the_limit_cannot_be_launched(results):
    result = results("cuda:sm_80")["add_in_rows"]
    assert result["status"] == "cannot-launch"
    assert "grid (1, 70000, 1) is larger than 65,535 in y" in result["message"]


def test_what_the_compiler_refuses_has_its_reason(results):
    result = results("cuda:sm_80")["add_with_block_of_1000"]
    assert result["status"] == "refused"
    assert "arange's range must be a power of 2" in result["message"]
    assert result["figures"] == {"_add_kernel": {"status": "refused"}}


def test_asynchronous_copies_count_as_loads_of_their_width(results):
    values = figures(results("cuda:sm_80")["matmul"])
    assert values["cp_async"] > 0
    assert values["load_128"] == values["cp_async"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_toolchain_names_what_decides_the_figures(results, target):
    names = {"triton", "ptxas"} if target in NVIDIA else {"triton"}
    assert results(target)["toolchain"].keys() == names


@pytest.mark.parametrize("target", TARGETS)
def test_edits_that_mean_nothing_change_no_figure_beyond_the_noise(results, target):
    edits = results(target)["edits"]
    original = edits["original"]
    assert len(edits) == 10
    for name, edited in edits.items():
        assert edited["status"] == "ok", name
        assert compare_codegen(original["figures"], edited["figures"]) == (), name


def test_edits_of_names_and_comments_leave_the_code_identical(results):
    edits = results("cuda:sm_80")["edits"]
    codes = {
        name: next(iter(edits[name]["details"]["launches"].values()))["code"]
        for name in ("original", "commented", "locals_renamed", "helper_extracted", "sums_commuted")
    }
    assert codes["commented"] == codes["locals_renamed"] == codes["helper_extracted"] == codes["original"]
    assert codes["sums_commuted"] != codes["original"]


REPEATED = ["add", "matmul_2_stages"]


@pytest.mark.parametrize("target", ["cuda:sm_90", "hip:gfx942"])
def test_figures_and_identities_repeat_in_a_fresh_process(results, fresh, target):
    again = fresh(target, REPEATED, PYTHONHASHSEED="7")
    assert again == {name: results(target)[name] for name in REPEATED}
    assert all(result["details"]["trace"] for result in again.values())


def test_figures_and_identities_repeat_where_the_assembler_swaps_registers(fresh, tmp_path):
    first = fresh("cuda:sm_100", REPEATED, PYTHONHASHSEED="1")
    second = fresh("cuda:sm_100", REPEATED, PYTHONHASHSEED="2", TRITON_CACHE_DIR=str(tmp_path / "other"))
    assert first == second
    assert first["matmul_2_stages"]["figures"]["_matmul_kernel"]["mma_kind"] == "tcgen05"
