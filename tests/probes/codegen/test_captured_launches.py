"""What capturing sees: launches, their form, and the reasons why some cannot be followed."""

from __future__ import annotations

import pytest

SM_80, SM_90, GFX942 = "cuda:sm_80", "cuda:sm_90", "hip:gfx942"


def only(result):
    assert result["status"] == "ok", result["message"]
    (label,) = result["figures"]
    return label, result["figures"][label], result["details"]["launches"][label]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            SM_80,
            {"capability": [8, 0], "multiprocessors": 108, "hip": False, "shared": 166912, "backend": "cuda"},
        ),
        (
            SM_90,
            {"capability": [9, 0], "multiprocessors": 132, "hip": False, "shared": 232448, "backend": "cuda"},
        ),
        (
            GFX942,
            {"capability": [9, 4], "multiprocessors": 304, "hip": True, "shared": 65536, "backend": "hip"},
        ),
    ],
)
def test_constants_computed_at_import_are_the_targets(results, target, expected):
    assert results(target)["at_import"] == {"available": True, **expected}


def test_a_launch_is_labelled_by_its_device_function_and_says_where_it_is(results):
    label, _, details = only(results(SM_80)["add"])
    assert label == "_add_kernel"
    assert details["grids"] == [[1024, 1, 1]]
    assert details["signature"] == {"x_ptr": "*fp16", "y_ptr": "*fp16", "n": "i32", "BLOCK": "constexpr"}
    assert details["constexprs"] == {"BLOCK": "1024"}
    assert details["options"]["num_warps"] == 4
    file, _, line = details["place"].rpartition(":")
    assert file.endswith("subjects.py")
    assert int(line) > 1


def test_alignment_of_a_pointer_follows_the_offset_of_its_view(results):
    aligned = only(results(SM_80)["add"])[2]["alignment"]
    sliced = only(results(SM_80)["add_unaligned"])[2]["alignment"]
    assert aligned == ["x_ptr", "y_ptr", "n"]
    assert sliced == ["y_ptr", "n"]


def test_integers_are_specialised_as_the_jit_does(results):
    odd = only(results(SM_80)["add_odd_length"])[2]
    one = only(results(SM_80)["add_one"])[2]
    huge = only(results(SM_80)["add_huge"])[2]
    assert "n" not in odd["alignment"]
    assert one["signature"]["n"] == "constexpr"
    assert one["constexprs"]["n"] == "1"
    assert huge["signature"]["n"] == "i64"


def test_fake_addresses_are_aligned_and_follow_views(results):
    assert results(SM_80)["addresses"] == {
        "base": 0,
        "second_row": 128,
        "second_column": 2,
        "view_shares": True,
        "other_differs": True,
        "empty": 0,
    }


def test_the_same_launch_twice_is_one_label_that_counts_two(results):
    label, figures, _ = only(results(SM_80)["add_twice"])
    assert (label, figures["launches"]) == ("_add_kernel", 2)


def test_the_same_function_in_another_form_gets_a_number(results):
    assert list(results(SM_80)["add_both_sizes"]["figures"]) == ["_add_kernel", "_add_kernel#2"]


def test_every_configuration_of_an_autotuned_kernel_is_a_launch_of_its_own(results):
    figures = results(SM_80)["tuned_matmul"]["figures"]
    assert list(figures) == [
        "_matmul_kernel[BLOCK_M=64,BLOCK_N=64,BLOCK_K=64,num_warps=4,num_stages=2]",
        "_matmul_kernel[BLOCK_M=64,BLOCK_N=128,BLOCK_K=64,num_warps=8,num_stages=2]",
        "_matmul_kernel[BLOCK_M=64,BLOCK_N=64,BLOCK_K=128,num_warps=4,num_stages=12]",
    ]
    assert [values["launches"] for values in figures.values()] == [1, 1, 1]


def test_heuristics_are_evaluated_for_each_configuration(results):
    details = results(SM_80)["tuned_matmul"]["details"]["launches"]
    assert {launch["constexprs"]["EVEN_K"] for launch in details.values()} == {"True"}


def test_a_second_call_of_an_autotuned_kernel_visits_all_configurations_again(results):
    figures = results(SM_80)["tuned_matmul_twice"]["figures"]
    assert [values["launches"] for values in figures.values()] == [2, 2, 2]


def test_one_configuration_that_cannot_be_launched_does_not_fail_the_kernel(results):
    result = results(SM_80)["tuned_matmul"]
    assert result["status"] == "ok"
    assert [values["status"] for values in result["figures"].values()] == ["ok", "ok", "cannot-launch"]


@pytest.mark.parametrize(
    "name", ["add_contiguous", "add_on_current_device", "add_custom", "add_custom_by_name", "add_persistent"]
)
def test_ordinary_launchers_run_unchanged(results, name):
    label, figures, _ = only(results(SM_80)[name])
    assert label == "_add_kernel"
    assert figures["load_128"] == 2


def test_a_persistent_launcher_may_ask_for_registers_before_it_launches(results):
    assert only(results(SM_80)["add_persistent"])[2]["grids"] == [[108, 1, 1]]


def test_torch_operators_are_part_of_the_trace(results):
    plain, contiguous = results(SM_80)["add_twice"]["details"], results(SM_80)["add_contiguous"]["details"]
    assert any(operator.startswith("aten.clone") for operator in contiguous["operators"])
    assert not any(operator.startswith("aten.clone") for operator in plain["operators"])


def test_a_launcher_that_reads_a_value_is_skipped_with_the_line(results):
    result = results(SM_80)["add_after_reading"]
    assert result["status"] == "skipped"
    assert "reads a tensor's value" in result["message"]
    assert "subjects.py:" in result["message"]


def test_a_launcher_without_a_launch_is_skipped_and_says_so(results):
    result = results(SM_80)["launches_nothing"]
    assert (result["status"], result["figures"]) == ("skipped", {})
    assert "launched no kernel" in result["message"]


def test_a_launcher_that_raises_is_an_error_with_its_line(results):
    result = results(SM_80)["launcher_raises"]
    assert result["status"] == "error"
    assert result["message"].startswith("AttributeError: ")
    assert "(at " in result["message"]
    assert "no_such_method" in result["message"]


def test_a_forked_child_finds_the_same(results):
    forked = results(SM_80)["forked"]
    assert forked["code"] == 0
    assert forked["there"] == forked["here"]
    assert forked["here"]["status"] == "ok"
