"""Which movements of compiled figures fail, warn, please, or mean nothing."""

from __future__ import annotations

import pytest

from kgate.baselines.codegen_rules import compare_codegen

GOOD = {
    "status": "ok", "registers": 128, "spill_bytes": 0, "stack_bytes": 0, "shared_bytes": 49152, "warps": 4,
    "load_128": 16, "load_64": 0, "load_32": 4, "load_16": 0, "load_8": 0,
    "store_128": 4, "store_64": 0, "store_32": 0, "store_16": 0, "store_8": 0,
    "mma": 32, "mma_kind": "wgmma", "barriers": 6, "barriers_in_loop": 2, "atomics": 0, "atomics_in_loop": 0,
    "cp_async": 12, "tma": 0, "instructions": 1000, "loop_instructions": 200, "occupancy": 0.25,
    "occupancy_limiter": "registers", "launches": 1,
}  # fmt: skip


def changes(before=(), /, **after):
    return compare_codegen({"_k": {**GOOD, **dict(before)}}, {"_k": {**GOOD, **after}})


def told(found):
    return [(change.figure, change.old, change.new, change.severity) for change in found]


def test_equal_figures_are_no_change():
    assert changes() == ()


@pytest.mark.parametrize(
    "moved",
    [
        {"registers": 133},
        {"registers": 123},
        {"instructions": 1018},
        {"loop_instructions": 203},
        {"stack_bytes": 32},
        {"shared_bytes": 50000},
        {"load_128": 32, "load_32": 8, "store_128": 8},
        {"load_128": 8, "load_32": 2},
        {"load_128": 8, "load_32": 5},
        {"mma": 64},
        {"barriers": 9},
        {"warps": 8},
    ],
)
def test_noise_and_other_tile_sizes_are_no_change(moved):
    assert changes(**moved) == ()


@pytest.mark.parametrize("status", ["cannot-launch", "refused"])
def test_what_can_no_longer_run_is_a_regression_and_nothing_else_is_said(status):
    assert told(changes(status=status, spill_bytes=400)) == [("status", "ok", status, "regression")]


def test_what_runs_again_is_an_improvement():
    assert told(changes({"status": "cannot-launch"})) == [("status", "cannot-launch", "ok", "improvement")]


def test_what_could_not_run_and_still_cannot_is_no_change():
    assert changes({"status": "cannot-launch"}, status="cannot-launch", spill_bytes=400) == ()


def test_any_spill_is_a_regression():
    assert told(changes(spill_bytes=8)) == [("spill_bytes", 0, 8, "regression")]
    assert told(changes({"spill_bytes": 48}, spill_bytes=52)) == [("spill_bytes", 48, 52, "regression")]


def test_spills_outrank_registers_and_occupancy_that_look_better():
    found = changes({"registers": 62, "occupancy": 0.5}, spill_bytes=3792, registers=32, occupancy=1.0)
    assert told(found) == [("spill_bytes", 0, 3792, "regression")]


def test_spills_that_are_gone_excuse_registers_and_occupancy():
    found = changes({"spill_bytes": 3792, "registers": 32, "occupancy": 1.0}, registers=62, occupancy=0.5)
    assert told(found) == [("spill_bytes", 3792, 0, "improvement")]


def test_lost_width_is_a_regression_that_says_what_came_instead():
    (change,) = changes({"load_128": 24}, load_128=0, load_32=100)
    assert (change.figure, change.old, change.new, change.severity) == ("load_128", 24, 0, "regression")
    assert "32-bit loads 4 -> 100 instead" in change.note


def test_narrower_stores_are_told_too():
    assert told(changes(store_128=0, store_16=32)) == [("store_128", 4, 0, "regression")]


def test_gained_width_is_an_improvement():
    assert told(changes({"load_128": 0, "load_32": 68})) == [("load_128", 0, 16, "improvement")]


def test_lost_tensor_cores_are_a_regression_and_new_ones_an_improvement():
    assert told(changes(mma=0, mma_kind="none")) == [("mma", 32, 0, "regression")]
    assert told(changes({"mma": 0, "mma_kind": "none"})) == [("mma", 0, 32, "improvement")]


def test_an_older_kind_of_tensor_core_instruction_warns():
    assert told(changes(mma_kind="mma")) == [("mma_kind", "wgmma", "mma", "warning")]


@pytest.mark.parametrize("name", ["barriers", "atomics"])
def test_one_more_in_a_loop_is_a_regression(name):
    more = {name: GOOD[name] + 1, f"{name}_in_loop": GOOD[f"{name}_in_loop"] + 1}
    (change,) = changes(**more)
    assert (change.figure, change.severity) == (f"{name}_in_loop", "regression")


def test_a_first_atomic_outside_of_loops_warns():
    assert told(changes(atomics=4)) == [("atomics", 0, 4, "warning")]


def test_barriers_taken_out_of_the_loop_are_an_improvement():
    assert told(changes(barriers=4, barriers_in_loop=0)) == [("barriers_in_loop", 2, 0, "improvement")]


def test_a_loop_that_was_unrolled_is_not_praised_for_its_barriers():
    assert changes(barriers=12, barriers_in_loop=0) == ()


@pytest.mark.parametrize(
    ("figure", "value", "severity"),
    [
        ("occupancy", 0.1875, "warning"),
        ("occupancy", 0.5, "improvement"),
        ("registers", 137, "warning"),
        ("registers", 135, "warning"),
        ("registers", 119, "improvement"),
        ("instructions", 1060, "warning"),
        ("instructions", 900, "improvement"),
        ("loop_instructions", 228, "warning"),
        ("cp_async", 0, "warning"),
        ("launches", 2, "warning"),
    ],
)
def test_softer_movements_warn_or_please(figure, value, severity):
    assert told(changes(**{figure: value})) == [(figure, GOOD[figure], value, severity)]


def test_vector_registers_have_wider_noise_on_amd():
    assert compare_codegen({"_k": {"registers": 64, "vgprs": 64}}, {"_k": {"registers": 72, "vgprs": 72}}) == ()


def test_regressions_come_first():
    severities = [change.severity for change in changes(registers=200, occupancy=0.125, spill_bytes=4, mma=0)]
    assert severities == ["regression", "regression", "warning", "warning"]


CONFIG = "_k[BLOCK={},num_warps={},num_stages=3]"


def test_each_configuration_is_compared_with_itself():
    labels = [CONFIG.format(64, 4), CONFIG.format(128, 8)]
    after = {labels[0]: GOOD, labels[1]: {**GOOD, "spill_bytes": 16}}
    (change,) = compare_codegen(dict.fromkeys(labels, GOOD), after)
    assert (change.label, change.figure, change.severity) == (labels[1], "spill_bytes", "regression")


def test_an_edited_configuration_is_compared_with_what_it_was():
    kept, before, after = CONFIG.format(64, 4), CONFIG.format(128, 8), CONFIG.format(256, 8)
    (change,) = compare_codegen({kept: GOOD, before: GOOD}, {kept: GOOD, after: {**GOOD, "spill_bytes": 16}})
    assert (change.label, change.figure, change.old, change.new) == (after, "spill_bytes", 0, 16)
    assert change.note == f"was {before}"


def test_a_configuration_that_is_gone_or_new_is_said():
    kept, other = CONFIG.format(64, 4), CONFIG.format(128, 8)
    both, one = {kept: GOOD, other: GOOD}, {kept: GOOD}
    assert [(c.label, c.figure, c.severity) for c in compare_codegen(both, one)] == [
        (other, "configuration", "warning")
    ]
    assert [(c.label, c.figure, c.severity) for c in compare_codegen(one, both)] == [
        (other, "configuration", "improvement")
    ]


def test_a_new_configuration_that_does_not_work_warns():
    kept, other = CONFIG.format(64, 4), CONFIG.format(128, 8)
    (change,) = compare_codegen({kept: GOOD}, {kept: GOOD, other: {**GOOD, "status": "cannot-launch"}})
    assert (change.figure, change.new, change.severity) == ("configuration", "cannot-launch", "warning")


def test_one_more_launch_warns_and_one_fewer_too():
    two = {"_k": GOOD, "_cast": GOOD}
    (added,) = compare_codegen({"_k": GOOD}, two)
    (gone,) = compare_codegen(two, {"_k": GOOD})
    assert (added.label, added.figure, added.severity) == ("_cast", "launch", "warning")
    assert (gone.label, gone.figure, gone.severity) == ("_cast", "launch", "warning")


def test_nothing_launched_any_more_is_a_regression():
    (change,) = compare_codegen({"_k": GOOD}, {})
    assert (change.figure, change.severity) == ("launch", "regression")


def test_a_renamed_device_function_is_the_same_launch():
    assert compare_codegen({"_k": GOOD}, {"_kernel": GOOD}) == ()
    assert told(compare_codegen({"_k": GOOD}, {"_kernel": {**GOOD, "mma": 0}})) == [("mma", 32, 0, "regression")]


def test_a_kernel_that_came_to_be_autotuned_is_compared_with_its_best_likeness():
    found = compare_codegen({"_k": GOOD}, {CONFIG.format(64, 4): GOOD})
    assert {change.severity for change in found} <= {"warning", "improvement"}
    assert found != ()
