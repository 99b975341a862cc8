"""What a kernel may not do to memory is found, named and kept from happening."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kgate.probes.interpreter import CannotLaunch, DeviceAssert, KernelError, run

HERE = __file__


def line_of(text: str) -> int:
    """Line in this file that contains a text for the first time."""
    with open(HERE, encoding="utf-8") as handle:
        return next(number for number, line in enumerate(handle, 1) if text in line)


@triton.jit
def unmasked_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)  # no mask on the load
    tl.store(y + i, a + 1)  # no mask on the store


@triton.jit
def masked_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def short_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n - 1
    tl.store(y + i, tl.load(x + i, mask=mask) + 1, mask=mask)


@triton.jit
def negative_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i - 1, mask=i < n), mask=i < n)  # one before the start


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n)
    tl.store(y + tl.program_id(0), tl.sum(row, axis=0))


@triton.jit
def strided_row_sum_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * stride + i, mask=i < n, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(row, axis=0))


@triton.jit
def accumulate_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)  # reads y


@triton.jit
def conflict_kernel(y):
    tl.store(y, tl.program_id(0))  # every program, one address


@triton.jit
def agreeing_kernel(y):
    tl.store(y, 7)


@triton.jit
def lane_conflict_kernel(y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK) // 2, tl.arange(0, BLOCK))


@triton.jit
def locked_kernel(y, lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(y, tl.load(y) + tl.program_id(0))
    tl.atomic_xchg(lock, 0)


@triton.jit
def rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 7
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * stride + i, mask=i < n, other=0.0)
    tl.store(y + tl.program_id(0) * n + i, a, mask=i < n)


@triton.jit
def wide_rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * 7
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row * stride + i, mask=i < n, other=0.0)
    tl.store(y + tl.program_id(0) * n + i, a, mask=i < n)


@triton.jit
def guarded_rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 7
    i = tl.arange(0, BLOCK)
    mask = (i < n) & (row < 1)
    tl.store(y + tl.program_id(0) * n + i, tl.load(x + row * stride + i, mask=mask, other=0.0), mask=mask)


@triton.jit
def hash_kernel(y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, (i + 1000003) * 1000003)


@triton.jit
def assert_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0)
    tl.device_assert(a < 10, "too big")  # the assert


@triton.jit
def address_kernel(table, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def order_kernel(y, clock):
    tl.store(y + tl.program_id(0), tl.atomic_add(clock, 1))


@triton.jit
def block_pointer_kernel(x, y, n, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    target = tl.make_block_ptr(y, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(target, tl.load(source, boundary_check=(0,), padding_option="zero"), boundary_check=(0,))


def only(log, kind: str):
    """The one violation of a log."""
    assert [v.kind for v in log.violations] == [kind], log.violations
    return log.violations[0]


def test_a_load_without_mask_is_found_and_reads_poison():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty(128, device=x.device)
        unmasked_kernel[(1,)](x, y, BLOCK=128)
        log.check_outputs(y)
    found = only(log, "out-of-bounds")
    assert found.argument == "x"
    assert found.index == 100
    assert found.count == 28
    assert found.device_line == (HERE, line_of("no mask on the load"))
    assert bool(y[100:].isnan().all())
    assert torch.equal(y[:100], x + 1)


def test_a_store_without_mask_touches_nothing_else():
    x = torch.randn(128)
    guard = torch.zeros(256)
    with run({"x": x}) as log:
        y = torch.zeros(100, device=x.device)
        unmasked_kernel[(1,)](x, y, BLOCK=128)
    found = only(log, "out-of-bounds")
    assert (found.argument, found.index, found.count) == ("y", 100, 28)
    assert found.device_line == (HERE, line_of("no mask on the store"))
    assert torch.equal(y, x[:100] + 1)
    assert not guard.any()


def test_an_address_before_the_start_is_found():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        negative_kernel[(1,)](x, y, 100, BLOCK=128)
    found = only(log, "out-of-bounds")
    assert (found.argument, found.index, found.count) == ("x", -1, 1)


def test_running_out_of_one_tensor_into_another_is_found():
    both = [torch.zeros(64) for _ in range(50)]
    with run({f"t{i}": t for i, t in enumerate(both)}) as log:
        for tensor in both:
            unmasked_kernel[(1,)](tensor, torch.zeros(128, device=tensor.device), BLOCK=128)
    assert {v.argument for v in log.violations} == {f"t{i}" for i in range(50)}


def test_a_view_may_not_be_left_even_inside_its_storage():
    base = torch.zeros(4, 128)
    view = base[:, :100]
    with run({"x": view}) as log:
        y = torch.empty(4, device="cuda")
        strided_row_sum_kernel[(4,)](view, y, 128, 100, BLOCK=128)
        assert log.violations == []
        strided_row_sum_kernel[(4,)](view, y, 128, 128, BLOCK=128)
    found = only(log, "out-of-bounds")
    assert (found.argument, found.index, found.count) == ("x", 100, 4 * 28)
    assert "no element of the view" in found.message


def test_the_views_of_one_buffer_may_each_be_touched():
    buffer = torch.zeros(2, 100)
    with run({"q": buffer[0], "k": buffer[1]}) as log:
        y = torch.empty(100, device="cuda")
        masked_kernel[(1,)](buffer[0], y, 100, BLOCK=128)
        masked_kernel[(1,)](buffer[1], y, 100, BLOCK=128)
    assert log.violations == []
    with run({"q": buffer[0]}) as log:
        masked_kernel[(1,)](buffer[1], torch.empty(100, device="cuda"), 100, BLOCK=128)
    assert only(log, "out-of-bounds").index == 100


def test_expanded_and_offset_views_run():
    x = torch.randn(101)[1:]
    wide = torch.randn(1).expand(100)
    with run({"x": x, "wide": wide}) as log:
        y = torch.empty(100, device="cuda")
        masked_kernel[(1,)](x, y, 100, BLOCK=128)
        assert torch.equal(y, x + 1)
        assert log.violations == []
        masked_kernel[(1,)](wide, y, 100, BLOCK=128)
    assert only(log, "out-of-bounds").argument == "wide"


def test_a_correct_kernel_has_no_violations():
    x = torch.randn(1000)
    with run({"x": x}, overflow=True) as log:
        y = torch.empty_like(x)
        masked_kernel[(8,)](x, y, 1000, BLOCK=128)
        log.check_outputs((y, [y]))
    assert log.violations == []
    assert torch.equal(y, x + 1)
    launch = log.launches[0]
    assert (launch.kernel, launch.grid, launch.constants) == ("masked_kernel", (8, 1, 1), {"BLOCK": 128})


def test_an_element_never_written_is_found():
    x = torch.randn(10, 10)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        short_kernel[(1,)](x, y, 100, BLOCK=128)
        log.check_outputs({"y": y})
    found = only(log, "unwritten-output")
    assert (found.argument, found.index, found.count) == ("y", 99, 1)
    assert "[9, 9]" in found.message


def test_tensors_that_torch_wrote_count_as_written():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        y.zero_()
        short_kernel[(1,)](x, y, 100, BLOCK=128)
        z = torch.empty(100, device=x.device)
        torch.add(x, 1, out=z)
        log.check_outputs((y, z, torch.zeros(3)))
    assert log.violations == []


def test_a_view_of_an_output_is_judged_by_its_own_elements():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty(128, device=x.device)
        masked_kernel[(1,)](x, y, 100, BLOCK=128)
        log.check_outputs(y[:100])
        assert log.violations == []
        log.check_outputs(y)
    assert only(log, "unwritten-output").count == 28


def test_a_masked_load_without_other_poisons_what_uses_it():
    x = torch.ones(4, 100)
    with run({"x": x}) as log:
        y = torch.empty(4, device=x.device)
        row_sum_kernel[(4,)](x, y, 100, BLOCK=128)
    assert log.violations == []
    assert bool(y.isnan().all())
    with run({"x": x}, poison=False):
        row_sum_kernel[(4,)](x, y, 100, BLOCK=128)
    assert torch.equal(y, torch.full((4,), 100.0))


def test_integers_are_poisoned_with_the_extreme_value():
    x = torch.ones(2, 100, dtype=torch.int32)
    with run({"x": x}):
        y = torch.zeros(2, dtype=torch.int32, device=x.device)
        row_sum_kernel[(2,)](x, y, 100, BLOCK=128)
    assert bool((y != 100).all())


def test_reading_an_uninitialised_tensor_is_found():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        accumulate_kernel[(1,)](x, y, 100, BLOCK=128)
        log.check_outputs(y)
    found = only(log, "uninitialised-read")
    assert (found.index, found.count) == (0, 100)
    assert found.device_line == (HERE, line_of("# reads y"))
    assert bool(y.isnan().all())


def test_an_output_argument_can_be_followed_as_well():
    x, out = torch.randn(100), torch.zeros(100)
    with run({"x": x, "out": out}, uninitialised=("out",)) as log:
        short_kernel[(1,)](x, out, 100, BLOCK=128)
        log.check_outputs({"out": out})
    assert only(log, "unwritten-output").count == 1
    assert out[99].isnan()


def test_two_programs_that_store_different_values_are_found():
    with run() as log:
        y = torch.zeros(1, dtype=torch.int32, device="cuda")
        conflict_kernel[(4,)](y)
    found = only(log, "store-conflict")
    assert found.device_line == (HERE, line_of("# every program, one address"))
    assert found.index == 0


def test_programs_that_agree_or_take_a_lock_are_no_conflict():
    with run() as log:
        y = torch.zeros(1, dtype=torch.int32, device="cuda")
        agreeing_kernel[(4,)](y)
        y.zero_()
        locked_kernel[(4,)](y, torch.zeros(1, dtype=torch.int32, device="cuda"))
        agreeing_kernel[(1,)](y)
    assert log.violations == []


def test_two_lanes_of_one_store_that_differ_are_found():
    with run() as log:
        y = torch.zeros(64, dtype=torch.int32, device="cuda")
        lane_conflict_kernel[(1,)](y, BLOCK=128)
    assert only(log, "store-conflict").count == 64


def test_an_int32_offset_past_2_31_is_found_on_a_tensor_that_is_never_touched():
    huge = torch.empty(7 * 400_000_000 + 100, dtype=torch.float16)
    with run({"x": huge}, overflow=True) as log:
        y = torch.empty(2, 100, device="cuda")
        rows_kernel[(2,)](huge, y, 400_000_000, 100, BLOCK=128)
    kinds = {v.kind: v for v in log.violations}
    assert set(kinds) == {"int32-overflow", "out-of-bounds"}
    assert kinds["int32-overflow"].argument == "x"
    assert kinds["int32-overflow"].count == 100
    with run({"x": huge}, overflow=True) as log:
        wide_rows_kernel[(2,)](huge, y, 400_000_000, 100, BLOCK=128)
    assert log.violations == []


def test_an_offset_that_wraps_in_a_lane_that_is_masked_off_is_allowed():
    x = torch.randn(100)
    with run({"x": x}, overflow=True) as log:
        y = torch.empty(2, 100, device="cuda")
        guarded_rows_kernel[(2,)](x, y, 400_000_000, 100, BLOCK=128)
    assert log.violations == []


def test_wrapping_arithmetic_that_is_no_address_is_allowed():
    with run(overflow=True) as log:
        y = torch.empty(128, dtype=torch.int32, device="cuda")
        hash_kernel[(1,)](y, BLOCK=128)
    assert log.violations == []


def test_device_assert_is_active():
    x = torch.tensor([1, 20, 3])
    with pytest.raises(DeviceAssert) as caught, run({"x": x}):
        assert_kernel[(1,)](x, 3, BLOCK=4)
    error = caught.value
    assert "too big" in str(error)
    assert error.device_line == (HERE, line_of("# the assert"))
    assert error.kernel == "assert_kernel"


def test_pointers_that_travel_as_integers_are_checked_too():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        table = torch.tensor([x.data_ptr()], device="cuda")
        address_kernel[(1,)](table, y, 100, BLOCK=128)
        assert log.violations == []
        table = torch.tensor([x.data_ptr() + 2**40], device="cuda")
        address_kernel[(1,)](table, y, 100, BLOCK=128)
    assert torch.equal(y.isnan(), torch.ones(100, dtype=torch.bool))
    assert "belongs to no tensor" in only(log, "out-of-bounds").message


def test_a_permuted_order_runs_every_program_once():
    with run(permute=True, seed=3) as log:
        y = torch.empty(32, dtype=torch.int32, device="cuda")
        order_kernel[(32,)](y, torch.zeros(1, dtype=torch.int32, device="cuda"))
        log.check_outputs(y)
    assert log.violations == []
    assert sorted(y.tolist()) == list(range(32))
    assert y.tolist() != list(range(32))


def test_block_pointers_are_checked_where_triton_still_has_them():
    x = torch.randn(100)
    if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9):
        with pytest.raises(KernelError, match="removed"), run({"x": x}):
            block_pointer_kernel[(1,)](x, x, 100, BLOCK=128)
        return
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        block_pointer_kernel[(1,)](x, y, 100, BLOCK=128)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(x, y)


def test_outside_a_run_a_violation_is_an_error():
    x = torch.randn(100)
    with pytest.raises(KernelError) as caught:
        unmasked_kernel[(1,)](x, torch.zeros(128), BLOCK=128)
    error = caught.value
    assert "out-of-bounds" in str(error)


def test_a_host_tensor_or_an_impossible_grid_cannot_be_launched():
    x = torch.randn(100)
    for launch in (
        lambda: masked_kernel[(1,)](x, torch.empty(100), 100, BLOCK=128),
        lambda: masked_kernel[(1, 70000)](x, x, 100, BLOCK=128),
    ):
        with pytest.raises(CannotLaunch) as caught, run({"x": x}):
            launch()
        error = caught.value
        assert error.kernel == "masked_kernel"


def test_a_storage_that_was_resized_is_seen_where_it_lies_now():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.zeros(100, device="cuda")
        masked_kernel[(1,)](x, y, 100, BLOCK=128)
        y.resize_(100_000)
        masked_kernel[(1,)](y, y, 100, BLOCK=128)
    assert log.violations == []
    assert torch.allclose(y[:100], x + 2)


def test_an_empty_grid_runs_nothing():
    with run() as log:
        conflict_kernel[(0,)](torch.zeros(1, device="cuda"))
    assert log.launches == []
