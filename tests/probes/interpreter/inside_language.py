"""The language as the compiler understands it: arguments, conditions, loops, math, reductions, dots, autotuning."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda.libdevice import fast_expf

from kgate.probes.interpreter import KernelError, Unsupported, configs, run, use_config

LOG2E: tl.constexpr = 1.4426950408889634
LIMIT = tl.constexpr(3)


@triton.jit
def float_argument_kernel(x, y, eps, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, a + eps.to(tl.float32), mask=i < n)


@triton.jit
def argument_types_kernel(y, small, large, flag, fraction):
    tl.static_assert(small.dtype == tl.int32)
    tl.static_assert(large.dtype == tl.int64)
    tl.static_assert(flag.dtype == tl.int1)
    tl.static_assert(fraction.dtype == tl.float32)
    tl.store(y, small + large)


@triton.jit
def logic_kernel(x, y, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    if KIND == "and":
        r = a > 0 and i % 2 == 0
    elif KIND == "or":
        r = a > 0 or i % 2 == 0
    elif KIND == "not":
        r = not (a > 0)
    elif KIND == "chain":
        r = -1 < a < 1
    elif KIND == "constant":
        r = a > 0 and KIND == "constant"
    elif KIND == "short":
        r = KIND == "other" and a.no_such_attribute
        r = a > 0
    tl.store(y + i, r)


@triton.jit
def scalar_condition_kernel(x, y, n):
    i = tl.program_id(0)
    a = tl.load(x + i)
    if a > 0 and i < n - 1:
        tl.store(y + i, 1)
    elif not a > 0:
        tl.store(y + i, 2)
    else:
        tl.store(y + i, 3 if i == n - 1 else 4)


@triton.jit
def block_condition_kernel(x, y, BLOCK: tl.constexpr):
    a = tl.load(x + tl.arange(0, BLOCK))
    if a > 0:
        tl.store(y, 1)


@triton.jit
def loop_kernel(x, y, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        i = start.to(tl.int64) + tl.arange(0, BLOCK)
        for k in tl.static_range(UNROLL):
            total += tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0) * (k + 1)
    for step in tl.range(0, n, BLOCK, num_stages=2):
        total += step * 0
    tl.store(y, total)


@triton.jit
def constants_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    limit = max(LIMIT, 2)
    tl.store(y + i, tl.minimum(tl.exp2(a * LOG2E), limit))


@triton.jit
def helper(a, scale, SQUARE: tl.constexpr = False):
    if SQUARE:
        return a * a * scale, scale
    return a * scale, scale


@triton.jit
def helper_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b, scale = helper(a, 2.0)
    c, _ = helper(a, scale, SQUARE=True)
    tl.store(y + i, b + c, mask=i < n)


@triton.jit
def libdevice_kernel(x, y, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    if OP == "tanh":
        r = libdevice.tanh(a)
    elif OP == "erf":
        r = libdevice.erf(a)
    elif OP == "log1p":
        r = libdevice.log1p(a * a)
    elif OP == "expm1":
        r = libdevice.expm1(a)
    elif OP == "rsqrt":
        r = cuda_libdevice.rsqrt(a * a)
    elif OP == "pow":
        r = libdevice.pow(a * a, a)
    elif OP == "fast_expf":
        r = fast_expf(a)
    elif OP == "round":
        r = libdevice.round(a * 3)
    elif OP == "div_rz":
        r = libdevice.div_rz(a, 3.0)
    elif OP == "isnan":
        r = libdevice.isnan(a).to(tl.float32)
    elif OP == "atan2":
        r = libdevice.atan2(a, 1.0 + a * a)
    elif OP == "lgamma":
        r = libdevice.lgamma(a * a + 0.5)
    tl.store(y + i, r)


@triton.jit
def popc_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(y + i, libdevice.popc(a) * 100 + libdevice.clz(a))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i) + 1)
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def dot_kernel(x, y, z, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(z + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision=PRECISION))


@triton.jit
def combine_welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    share = count_b / tl.maximum(count, 1.0)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(x, mean, variance, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    one = (i < n).to(tl.float32)
    m, m2, count = tl.reduce((a, tl.zeros_like(a), one), 0, combine_welford)
    tl.store(mean + tl.program_id(0), m)
    tl.store(variance + tl.program_id(0), m2 / count)


@triton.jit
def combine_linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_scan_kernel(a, b, h, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    _, state = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, combine_linear, reverse=REVERSE)
    tl.store(h + i, state)


@triton.jit
def reductions_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(y, tl.max(a, axis=0))
    tl.store(y + 1, tl.sum(a, axis=-1))
    _value, index = tl.max(a, axis=0, return_indices=True)
    tl.store(y + 2, index.to(tl.float32))
    tl.store(y + 3, tl.sum(tl.sum(tl.reshape(a, (2, N // 2)), axis=0, keep_dims=True)))
    tl.store(y + 4, tl.argmin(a, axis=0).to(tl.float32))
    tl.store(y + 5, tl.sum(tl.cumprod(a * 0 + 1, axis=0), axis=0))


@triton.jit
def sort_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.sort(tl.load(x + i), descending=True))


@triton.jit
def shape_kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + n[None, :])
    left, right = tl.split(tl.reshape(a, (M, N // 2, 2)))
    b = tl.reshape(tl.join(right, left), (M, N))
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(b))


@triton.jit
def asm_kernel(x):
    value = tl.load(x)
    tl.store(x, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [value], tl.float32, True, 1))


@triton.jit
def integer_kernel(x, y, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(z + i, a // b)
    tl.store(z + BLOCK + i, a % b)
    tl.store(z + 2 * BLOCK + i, a >> 3)
    tl.store(z + 3 * BLOCK + i, tl.umulhi(a, b))


@triton.jit
def fp8_kernel(x, y, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(y + i, a.to(y.dtype.element_ty))
    tl.store(z + i, tl.load(y + i).to(tl.float32))


@triton.jit
def histogram_kernel(x, y, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(y + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@triton.jit
def random_kernel(y, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.rand(seed, i))


@triton.jit
def descriptor_kernel(source, target, M: tl.constexpr, N: tl.constexpr):
    block = source.load([tl.program_id(0) * M, 0])
    target.store([tl.program_id(0) * M, 0], block + 1)


@triton.jit
def failing_kernel(x):
    a = tl.load(x)
    tl.store(x, a.no_such_method())  # fails here


def test_a_python_float_argument_is_an_fp32_scalar():
    x = torch.randn(100)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        float_argument_kernel[(1,)](x, y, 1e-6, 100, BLOCK=128)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(y, x + 1e-6)


def test_arguments_have_the_types_that_the_compiler_gives_them():
    y = torch.zeros(1, dtype=torch.int64)
    with run({"y": y}):
        argument_types_kernel[(1,)](y, 5, 2**40, True, 0.5)
    assert y.item() == 2**40 + 5


def test_and_or_not_on_tensors_are_elementwise():
    x = torch.linspace(-2, 2, 16)
    even = torch.arange(16) % 2 == 0
    for kind, want in (
        ("and", (x > 0) & even),
        ("or", (x > 0) | even),
        ("not", ~(x > 0)),
        ("chain", (x > -1) & (x < 1)),
        ("constant", x > 0),
        ("short", x > 0),
    ):
        with run({"x": x}) as log:
            y = torch.empty(16, dtype=torch.bool, device=x.device)
            logic_kernel[(1,)](x, y, kind, BLOCK=16)
            log.check_outputs(y)
        assert log.violations == []
        assert torch.equal(y, want), kind


def test_conditions_on_scalars_branch():
    x = torch.tensor([1.0, -1.0, 1.0, 1.0])
    y = torch.zeros(4, dtype=torch.int32)
    with run({"x": x, "y": y}):
        scalar_condition_kernel[(4,)](x, y, 4)
    assert y.tolist() == [1, 2, 1, 3]


def test_a_condition_on_a_block_is_an_error_with_its_line():
    x = torch.ones(4)
    with pytest.raises(KernelError) as caught, run({"x": x}):
        block_condition_kernel[(1,)](x, x, BLOCK=4)
    error = caught.value
    assert "tl.where" in str(error)
    assert error.device_line is not None
    assert error.device_line[0] == __file__


def test_loop_indices_are_device_integers():
    x = torch.randn(1000)
    y = torch.zeros(1)
    with run({"x": x, "y": y}) as log:
        loop_kernel[(1,)](x, y, 1000, BLOCK=128, UNROLL=2)
    assert log.violations == []
    assert math.isclose(y.item(), 3 * x.double().sum().item(), rel_tol=1e-4, abs_tol=1e-4)


def test_module_constants_and_min_max():
    x = torch.randn(64)
    y = torch.empty_like(x)
    with run({"x": x, "y": y}):
        constants_kernel[(1,)](x, y, BLOCK=64)
    assert torch.allclose(y, x.exp().clamp(max=3), rtol=1e-6)


def test_device_functions_call_each_other():
    x = torch.randn(50)
    y = torch.empty_like(x)
    with run({"x": x, "y": y}) as log:
        helper_kernel[(1,)](x, y, 50, BLOCK=64)
    assert log.violations == []
    assert torch.allclose(y, 2 * x + 2 * x * x)


def test_kernels_defined_inside_a_function_see_its_variables():
    FACTOR = tl.constexpr(5)

    @triton.jit
    def closure_kernel(x, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) * FACTOR)

    x = torch.ones(8)
    with run({"x": x}):
        closure_kernel[(1,)](x, BLOCK=8)
    assert torch.equal(x, torch.full((8,), 5.0))


def test_libdevice():
    x = torch.randn(256)
    d = x.double()
    for op, want in (
        ("tanh", d.tanh()),
        ("erf", d.erf()),
        ("log1p", (x * x).double().log1p()),
        ("expm1", d.expm1()),
        ("rsqrt", (x * x).double().rsqrt()),
        ("pow", (x * x).double().pow(d)),
        ("fast_expf", d.exp()),
        ("round", (x * 3).double().abs().add(0.5).floor().copysign(d)),
        ("isnan", d * 0),
        ("atan2", torch.atan2(d, (1 + x * x).double())),
        ("lgamma", (x * x + 0.5).double().lgamma()),
    ):
        with run({"x": x}) as log:
            y = torch.empty_like(x)
            libdevice_kernel[(1,)](x, y, op, BLOCK=256)
        assert log.violations == []
        assert torch.allclose(y.double(), want, rtol=2**-23, atol=1e-7), op
    with run({"x": x}):
        libdevice_kernel[(1,)](x, y, "div_rz", BLOCK=256)
    assert bool((y.double().abs() <= (d / 3).abs()).all())
    assert torch.allclose(y.double(), d / 3, rtol=2**-23)


def test_integer_libdevice():
    x = torch.tensor([0, 1, 255, -1], dtype=torch.int32)
    y = torch.empty_like(x)
    with run({"x": x, "y": y}):
        popc_kernel[(1,)](x, y, BLOCK=4)
    assert y.tolist() == [32, 131, 824, 3200]


def test_every_libdevice_function_has_an_implementation():
    import re
    from pathlib import Path

    from kgate.probes.interpreter.libdevice import find

    source = Path(cuda_libdevice.__file__).read_text()
    symbols = sorted(set(re.findall(r'"(__nv_\w+)"', source)))
    missing = [s for s in symbols if find(s) is None]
    assert len(symbols) > 300
    assert set(missing) <= {"__nv_rcp64h", "__nv_jn", "__nv_jnf", "__nv_yn", "__nv_ynf"}, missing


def test_an_autotuned_kernel_runs_its_first_configuration_and_any_other():
    x = torch.randn(300)
    assert [c.kwargs["BLOCK"] for c in configs(tuned_kernel)] == [64, 128, 256]
    assert configs(helper_kernel) == []
    for choice, block in ((None, 64), (1, 128), ({"tuned_kernel": 2}, 256)):
        with run({"x": x}) as log:
            y = torch.empty_like(x)

            def launch(y=y):
                tuned_kernel[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, y, 300)

            if choice is None:
                launch()
            else:
                with use_config(choice):
                    launch()
            log.check_outputs(y)
        assert log.violations == []
        assert torch.equal(y, x + 1)
        assert log.launches[0].constants == {"BLOCK": block, "EVEN": False}
        assert tuned_kernel.best_config.kwargs["BLOCK"] == block


def test_a_configuration_that_does_not_exist_is_an_error():
    x = torch.randn(64)
    with pytest.raises(IndexError) as caught, run({"x": x}), use_config(3):
        tuned_kernel[(1,)](x, x, 64)
    assert "tuned_kernel" in str(caught.value)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to 10 bits of mantissa, to nearest even."""
    bits = x.view(torch.int32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
    return rounded.view(torch.float32)


def test_float32_dots_round_their_operands_to_tf32_unless_told_not_to():
    x, y = torch.randn(32, 32), torch.randn(32, 32)
    exact = (x.double() @ y.double()).float()
    narrow = (tf32(x).double() @ tf32(y).double()).float()
    for precision, want in ((None, narrow), ("tf32", narrow), ("tf32x3", exact), ("ieee", exact)):
        z = torch.empty(32, 32)
        with run({"x": x, "y": y, "z": z}):
            dot_kernel[(1,)](x, y, z, precision, 32, 32, 32)
        assert torch.equal(z, want), precision
    assert not torch.equal(exact, narrow)


def test_float16_and_int8_dots():
    x, y = torch.randn(32, 64).half(), torch.randn(64, 32).half()
    z = torch.empty(32, 32)
    with run({"x": x, "y": y, "z": z}):
        dot_kernel[(1,)](x, y, z, None, 32, 32, 64)
    assert torch.equal(z, (x.double() @ y.double()).float())
    a = torch.randint(-128, 128, (32, 64), dtype=torch.int8)
    b = torch.randint(-128, 128, (64, 32), dtype=torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32)
    with run({"a": a, "b": b, "c": c}):
        dot_kernel[(1,)](a, b, c, None, 32, 32, 64)
    assert torch.equal(c, (a.double() @ b.double()).int())


def test_a_custom_reduction_over_several_tensors():
    x = torch.randn(4, 1000) * 3 + 7
    mean, variance = torch.empty(4), torch.empty(4)
    with run({"x": x, "mean": mean, "variance": variance}) as log:
        welford_kernel[(4,)](x, mean, variance, 1000, BLOCK=1024)
    assert log.violations == []
    assert torch.allclose(mean.double(), x.double().mean(1), rtol=1e-6)
    assert torch.allclose(variance.double(), x.double().var(1, unbiased=False), rtol=1e-5)


def test_a_custom_scan_in_both_directions():
    a, b = torch.rand(128), torch.randn(128)
    for reverse in (False, True):
        h = torch.empty(128)
        with run({"a": a, "b": b, "h": h}):
            linear_scan_kernel[(1,)](a, b, h, 128, reverse)
        state, want = 0.0, [0.0] * 128
        for i in reversed(range(128)) if reverse else range(128):
            state = a[i].item() * state + b[i].item()
            want[i] = state
        assert torch.allclose(h.double(), torch.tensor(want, dtype=torch.float64), atol=1e-5)


def test_reductions_of_the_library():
    x = torch.randn(128)
    y = torch.empty(6)
    with run({"x": x, "y": y}) as log:
        reductions_kernel[(1,)](x, y, 128)
    assert log.violations == []
    assert y[0] == x.max()
    assert math.isclose(y[1].item(), x.double().sum().item(), abs_tol=1e-5)
    assert y[2] == x.argmax()
    assert math.isclose(y[3].item(), x.double().sum().item(), abs_tol=1e-5)
    assert y[4] == x.argmin()
    assert y[5] == 128


def test_max_ignores_nan_as_the_hardware_does():
    x = torch.randn(128)
    x[5] = float("nan")
    y = torch.empty(6)
    with run({"x": x, "y": y}):
        reductions_kernel[(1,)](x, y, 128)
    assert y[0] == x.nan_to_num(nan=-100).max()
    assert y[1].isnan()


def test_sort():
    x = torch.randn(128)
    y = torch.empty_like(x)
    with run({"x": x, "y": y}):
        sort_kernel[(1,)](x, y, 128)
    assert torch.equal(y, x.sort(descending=True).values)


def test_split_join_reshape_and_trans():
    x = torch.randn(8, 16)
    y = torch.empty(16, 8)
    with run({"x": x, "y": y}):
        shape_kernel[(1,)](x, y, 8, 16)
    assert torch.equal(y, x.reshape(8, 8, 2).flip(-1).reshape(8, 16).T)


def test_inline_assembly_is_unsupported_and_says_where():
    x = torch.ones(1)
    with pytest.raises(Unsupported) as caught, run({"x": x}):
        asm_kernel[(1,)](x)
    error = caught.value
    assert "inline assembly" in str(error)
    assert error.device_line is not None
    assert error.device_line[0] == __file__


def test_integer_division_rounds_towards_zero():
    x = torch.tensor([7, -7, 7, -7], dtype=torch.int32)
    y = torch.tensor([2, 2, -2, -2], dtype=torch.int32)
    z = torch.empty(16, dtype=torch.int32)
    with run({"x": x, "y": y, "z": z}):
        integer_kernel[(1,)](x, y, z, BLOCK=4)
    assert z[:4].tolist() == [3, -3, -3, 3]
    assert z[4:8].tolist() == [1, -1, 1, -1]
    assert z[8:12].tolist() == [0, -1, 0, -1]
    assert z[12:].tolist() == [0, 1, 6, -9]


def test_float8_casts_round_and_saturate():
    x = torch.randn(512) * torch.logspace(-4, 5, 512)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        y, z = torch.zeros(512, dtype=dtype), torch.empty(512)
        with run({"x": x, "y": y, "z": z}):
            fp8_kernel[(1,)](x, y, z, BLOCK=512)
        limit = torch.finfo(dtype).max
        want = x.clamp(-limit, limit).to(dtype)
        assert torch.equal(y.view(torch.uint8), want.view(torch.uint8))
        assert torch.equal(z, want.float())


def test_histogram_leaves_out_of_range_values_out():
    x = torch.tensor([0, 1, 1, 3, 4, 9, 3, 3], dtype=torch.int32)
    y = torch.empty(4, dtype=torch.int32)
    with run({"x": x, "y": y}):
        histogram_kernel[(1,)](x, y, 8, 4)
    assert y.tolist() == [1, 2, 0, 3]


def test_random_numbers_do_not_count_as_overflow():
    y = torch.empty(1024)
    with run({"y": y}, overflow=True) as log:
        random_kernel[(1,)](y, 42, 1024)
    assert log.violations == []
    assert 0.45 < y.mean().item() < 0.55
    assert bool(((y >= 0) & (y < 1)).all())


def test_host_descriptors():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = torch.randn(50, 32)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        source = TensorDescriptor.from_tensor(x, [16, 32])
        target = TensorDescriptor.from_tensor(y, [16, 32])
        descriptor_kernel[(4,)](source, target, 16, 32)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(y, x + 1)


def test_a_launch_returns_what_passes_for_a_compiled_kernel():
    x = torch.ones(8)
    with run({"x": x}) as log:
        warmed = float_argument_kernel.warmup(x, x, 1.0, 8, BLOCK=8, grid=(1,))
        assert log.launches == []
        assert warmed.n_regs > 0
        assert any("assumed" in note for note in log.notes)
        kernel = float_argument_kernel[(1,)](x, x, 1.0, 8, BLOCK=8, num_warps=8)
        assert kernel.metadata.num_warps == 8
        kernel[(1,)](x, x, 2.0, 8)
    assert [launch.options for launch in log.launches] == [{"num_warps": 8}] * 2
    assert torch.equal(x, torch.full((8,), 4.0))


def test_a_jit_function_has_the_attributes_that_launchers_read():
    assert isinstance(float_argument_kernel, triton.runtime.JITFunction)
    assert float_argument_kernel.arg_names == ["x", "y", "eps", "n", "BLOCK"]
    assert [p.name for p in float_argument_kernel.params if p.is_constexpr] == ["BLOCK"]
    assert float_argument_kernel.cache_key != helper_kernel.cache_key
    with pytest.raises(RuntimeError, match="outside of the scope"):
        helper(1, 2)


def test_a_failing_kernel_names_its_line():
    x = torch.ones(1)
    with pytest.raises(KernelError) as caught, run({"x": x}):
        failing_kernel[(1,)](x)
    error = caught.value
    with open(__file__, encoding="utf-8") as handle:
        line = next(n for n, text in enumerate(handle, 1) if "# fails here" in text)
    assert error.device_line == (__file__, line)
    assert error.kernel == "failing_kernel"


@triton.jit
def selu_of_one(a, alpha):
    if a > 0:
        return a
    return alpha * (tl.exp(a) - 1)


@triton.jit
def map_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(y + i, tl.map_elementwise(selu_of_one, a, tl.zeros_like(a) + 1.5))


@triton.jit
def device_descriptor_kernel(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    target.store([row, 0], source.load([row, 0]) * 2)


@triton.jit
def rearrange_kernel(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(y + i, tl.gather(a, tl.load(index + i), axis=0))
    tl.store(y + N + i, tl.flip(a, 0))
    tl.store(y + 2 * N + tl.arange(0, 2 * N), tl.interleave(a, -a))
    tl.store(y + 4 * N + tl.arange(0, 2 * N), tl.cat(a, -a, can_reorder=True))
    tl.store(y + 6 * N + i, tl.cumsum(a, axis=0, reverse=True))


@triton.jit
def atomics_kernel(x, y, z, flags, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.atomic_max(y, tl.max(a, axis=0))
    tl.atomic_min(y + 1, tl.min(a, axis=0))
    old = tl.atomic_add(z + i % 4, i, mask=i < N - 1)
    tl.atomic_or(flags, 1 << (tl.program_id(0) + 1))
    tl.atomic_xor(flags + 1, 1)
    tl.assume(old.dtype == tl.int32)


@triton.jit
def half_dot_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + i[None, :])
    acc = tl.zeros((N, N), dtype=tl.float16)
    acc = tl.dot(a, tl.trans(a), acc, out_dtype=tl.float16)
    tl.store(y + i[:, None] * N + i[None, :], acc)


@triton.jit
def batched_dot_kernel(x, y, B: tl.constexpr, N: tl.constexpr):
    b, i = tl.arange(0, B), tl.arange(0, N)
    where = b[:, None, None] * N * N + i[None, :, None] * N + i[None, None, :]
    a = tl.load(x + where)
    tl.store(y + where, tl.dot(a, a, input_precision="ieee"))


@triton.jit
def pointer_table_kernel(pointers, y, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in tl.static_range(COUNT):
        tl.store(y + k * n + i, tl.load(pointers[k] + i, mask=i < n), mask=i < n)


def test_map_elementwise_may_branch():
    if not hasattr(tl, "map_elementwise"):
        return
    x, y = torch.randn(64), torch.empty(64)
    with run({"x": x, "y": y}):
        map_kernel[(1,)](x, y, BLOCK=64)
    assert torch.allclose(y, torch.where(x > 0, x, 1.5 * (x.exp() - 1)), atol=1e-6)


def test_descriptors_made_on_the_device():
    x = torch.randn(50, 32)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        device_descriptor_kernel[(4,)](x, y, 50, 32, 16, 32)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(y, x * 2)


def test_gather_flip_interleave_cat_and_reverse_cumsum():
    x, index = torch.randn(32), torch.randperm(32).int()
    y = torch.empty(7 * 32)
    with run({"x": x, "index": index, "y": y}):
        rearrange_kernel[(1,)](x, index, y, 32)
    assert torch.equal(y[:32], x[index.long()])
    assert torch.equal(y[32:64], x.flip(0))
    assert torch.equal(y[64:128], torch.stack([x, -x], 1).flatten())
    assert torch.equal(y[128:192], torch.cat([x, -x]))
    assert torch.allclose(y[192:], x.flip(0).cumsum(0).flip(0), atol=1e-5)


def test_atomics():
    x, y = torch.randn(64), torch.tensor([-100.0, 100.0])
    z, flags = torch.zeros(4, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    with run({"x": x, "y": y, "z": z, "flags": flags}) as log:
        atomics_kernel[(3,)](x, y, z, flags, 64)
    assert log.violations == []
    assert y.tolist() == [x.max().item(), x.min().item()]
    i = torch.arange(63)
    assert z.tolist() == [3 * int(i[i % 4 == k].sum()) for k in range(4)]
    assert flags.tolist() == [2 + 4 + 8, 1]


def test_dots_with_a_float16_accumulator_and_in_batches():
    x = torch.randn(32, 32).half()
    y = torch.empty_like(x)
    with run({"x": x, "y": y}):
        half_dot_kernel[(1,)](x, y, 32)
    exact = (x.double() @ x.double().T).numpy()  # torch rounds twice, through float32
    assert torch.equal(y, torch.from_numpy(exact.astype("float16")))
    a = torch.randn(4, 16, 16)
    b = torch.empty_like(a)
    with run({"a": a, "b": b}):
        batched_dot_kernel[(1,)](a, b, 4, 16)
    assert torch.equal(b, (a.double() @ a.double()).float())


def test_a_tuple_of_tensors_as_one_argument():
    parts = tuple(torch.randn(20) for _ in range(3))
    with run({"parts": parts}) as log:
        y = torch.empty(60, device="cuda")
        pointer_table_kernel[(1,)](parts, y, 20, COUNT=3, BLOCK=32)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(y, torch.cat(parts))
