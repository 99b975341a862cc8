"""bfloat16 in real kernels, against torch: all 65,536 patterns for unary operations, random pairs for binary ones."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from kgate.probes.interpreter import run

BLOCK = 8192


@triton.jit
def widen_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i).to(tl.float32))


@triton.jit
def narrow_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i).to(tl.bfloat16))


@triton.jit
def implicit_narrow_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))


@triton.jit
def truncate_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i).to(tl.bfloat16, fp_downcast_rounding="rtz"))


@triton.jit
def unary_kernel(x, y, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    if OP == "neg":
        r = -a
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "copy":
        r = a
    elif OP == "exp":
        r = tl.exp(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "exp2":
        r = tl.exp2(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "log":
        r = tl.log(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "log2":
        r = tl.log2(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "sqrt":
        r = tl.sqrt(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "rsqrt":
        r = tl.rsqrt(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "sin":
        r = tl.sin(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "cos":
        r = tl.cos(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "sigmoid":
        r = tl.sigmoid(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "floor":
        r = tl.floor(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "ceil":
        r = tl.ceil(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "erf":
        r = tl.erf(a.to(tl.float32)).to(tl.bfloat16)
    elif OP == "float16":
        r = a.to(tl.float16)
    elif OP == "int32":
        r = a.to(tl.int32)
    tl.store(y + i, r)


@triton.jit
def binary_kernel(x, y, z, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "rem":
        r = a % b
    elif OP == "maximum":
        r = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum":
        r = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "fmax":
        r = tl.maximum(a, b)
    elif OP == "fmin":
        r = tl.minimum(a, b)
    elif OP == "where":
        r = tl.where(a < b, a, b)
    elif OP == "lt":
        r = a < b
    elif OP == "le":
        r = a <= b
    elif OP == "gt":
        r = a > b
    elif OP == "ge":
        r = a >= b
    elif OP == "eq":
        r = a == b
    elif OP == "ne":
        r = a != b
    elif OP == "fma":
        r = tl.fma(a, b, a)
    elif OP == "clamp":
        r = tl.clamp(a, -1.0, 1.0)
    elif OP == "scalar_add":
        r = a + 0.1
    elif OP == "scalar_mul":
        r = 3 * a
    elif OP == "scalar_sub":
        r = 1.0 - a
    tl.store(z + i, r)


@triton.jit
def reduce_kernel(x, y, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    a = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(a, axis=1)
    elif OP == "sum32":
        r = tl.sum(a.to(tl.float32), axis=1)
    elif OP == "max":
        r = tl.max(a, axis=1)
    elif OP == "min":
        r = tl.min(a, axis=1)
    elif OP == "argmax":
        r = tl.argmax(a, axis=1)
    tl.store(y + rows, r)


@triton.jit
def scan_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.cumsum(tl.load(x + i), axis=0))


@triton.jit
def dot_kernel(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(z + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def atomic_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y + i % 8, tl.load(x + i))


def patterns() -> torch.Tensor:
    """All 65,536 bfloat16 values."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)


def pairs(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """65,536 random pairs of bit patterns, half of them near one."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(2**15), 2**15, (2, 65536), generator=generator).to(torch.int16)
    x, y = bits.view(torch.bfloat16)
    near = torch.randn(2, 65536, generator=generator).to(torch.bfloat16)
    half = torch.rand(65536, generator=generator) < 0.5
    return torch.where(half, near[0], x), torch.where(half, near[1], y)


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """Bit for bit equal, but for the payload of NaN."""
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if not want.is_floating_point():
        assert torch.equal(got, want)
        return
    assert torch.equal(got.isnan(), want.isnan())
    number = ~want.isnan()
    wrong = (got != want) & number | (got.signbit() != want.signbit()) & number
    assert not wrong.any(), f"{int(wrong.sum())} differ, first got {got[wrong][0]} want {want[wrong][0]}"


def launch_unary(kernel, x: torch.Tensor, dtype: torch.dtype, *constants: str) -> torch.Tensor:
    with run({"x": x}) as log:
        y = torch.empty_like(x, dtype=dtype)
        kernel[(x.numel() // BLOCK,)](x, y, *constants, BLOCK=BLOCK)
        log.check_outputs(y)
    assert log.violations == []
    return y


def launch_binary(op: str, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, ...]:
    x, y = pairs()
    with run({"x": x, "y": y}) as log:
        z = torch.empty_like(x, dtype=dtype)
        binary_kernel[(x.numel() // BLOCK,)](x, y, z, op, BLOCK=BLOCK)
        log.check_outputs(z)
    assert log.violations == []
    return x, y, z


def unary(op: str, want: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
    same(launch_unary(unary_kernel, patterns(), dtype, op), want)


def binary(op: str, function, dtype: torch.dtype = torch.bfloat16) -> None:
    x, y, z = launch_binary(op, dtype)
    same(z, function(x, y))


def rounded(function) -> torch.Tensor:
    """A function of the patterns in float64, rounded through float32 to bfloat16 as the kernel's is."""
    return function(patterns().double()).float().to(torch.bfloat16)


def test_widening_is_exact():
    same(launch_unary(widen_kernel, patterns(), torch.float32), patterns().float())


def test_narrowing_rounds_to_nearest_even():
    x = torch.randn(65536) * torch.logspace(-45, 38, 65536)
    ties = (patterns().float().view(torch.int32) | 0x8000).view(torch.float32)
    for values in (x, ties, patterns().float()):
        same(launch_unary(narrow_kernel, values, torch.bfloat16), values.to(torch.bfloat16))


def test_narrowing_overflows_to_infinity_and_keeps_nan():
    edge = torch.tensor([3.3961775e38, -3.3961775e38, float("nan"), float("inf"), 3.3895314e38, 1e-45, -0.0, 0.0])
    x = edge.repeat(BLOCK // 8)
    got = launch_unary(narrow_kernel, x, torch.bfloat16)[:8]
    same(got, edge.to(torch.bfloat16))
    assert got[0] == float("inf")
    assert got[1] == -float("inf")
    assert got[2].isnan()


def test_storing_float32_to_a_bfloat16_pointer_rounds():
    x = torch.randn(65536)
    same(launch_unary(implicit_narrow_kernel, x, torch.bfloat16), x.to(torch.bfloat16))


def test_rtz_truncates():
    x = torch.randn(65536)
    want = (x.view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)
    same(launch_unary(truncate_kernel, x, torch.bfloat16), want)


def test_copy_keeps_every_pattern():
    got = launch_unary(unary_kernel, patterns(), torch.bfloat16, "copy")
    assert torch.equal(got.view(torch.int16), patterns().view(torch.int16))


def test_negation():
    x = patterns()
    got = launch_unary(unary_kernel, x, torch.bfloat16, "neg")
    number = ~x.isnan() & (x != 0)
    assert torch.equal(got[number], -x[number])
    assert bool((got[x == 0] == 0).all())


def test_abs():
    unary("abs", patterns().abs())


def test_exp():
    unary("exp", rounded(torch.exp))


def test_exp2():
    unary("exp2", rounded(torch.exp2))


def test_log():
    unary("log", rounded(torch.log))


def test_log2():
    unary("log2", rounded(torch.log2))


def test_sqrt():
    unary("sqrt", rounded(torch.sqrt))


def test_rsqrt():
    unary("rsqrt", (1 / patterns().float().sqrt()).to(torch.bfloat16))


def test_sin_and_cos():
    unary("sin", rounded(torch.sin))
    unary("cos", rounded(torch.cos))


def test_sigmoid():
    got = launch_unary(unary_kernel, patterns(), torch.bfloat16, "sigmoid")
    want = rounded(torch.sigmoid)
    number = ~want.isnan()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.allclose(got[number].float(), want[number].float(), rtol=2**-8, atol=1e-38)


def test_floor_and_ceil():
    unary("floor", rounded(torch.floor))
    unary("ceil", rounded(torch.ceil))


def test_erf():
    unary("erf", rounded(torch.erf))


def test_to_float16():
    unary("float16", patterns().float().half(), torch.float16)


def test_to_int32_saturates():
    x = patterns().double()
    want = x.nan_to_num(nan=0.0, posinf=1e300, neginf=-1e300).clamp(-(2**31), 2**31 - 1).to(torch.int32)
    unary("int32", want, torch.int32)


def test_add():
    binary("add", torch.add)


def test_sub():
    binary("sub", torch.sub)


def test_mul():
    binary("mul", torch.mul)


def test_div():
    binary("div", lambda x, y: (x.float() / y.float()).to(torch.bfloat16))


def test_rem():
    def want(x, y):
        both = x.tolist(), y.tolist()
        exact = [math.fmod(a, b) if b and not math.isinf(a) else math.nan for a, b in zip(*both, strict=True)]
        return torch.tensor(exact).to(torch.bfloat16)

    binary("rem", want)


def test_minimum_and_maximum_propagate_nan_when_asked():
    x, y, z = launch_binary("maximum")
    assert torch.equal(z.isnan(), x.isnan() | y.isnan())
    number = ~z.isnan()
    assert torch.equal(z[number], torch.maximum(x, y)[number])
    x, y, z = launch_binary("minimum")
    number = ~z.isnan()
    assert torch.equal(z[number], torch.minimum(x, y)[number])


def test_minimum_and_maximum_ignore_nan_by_default():
    for op, function in (("fmax", torch.maximum), ("fmin", torch.minimum)):
        x, y, z = launch_binary(op)
        want = torch.where(x.isnan(), y, torch.where(y.isnan(), x, function(x, y)))
        assert torch.equal(z.isnan(), want.isnan())
        number = ~want.isnan()
        assert torch.equal(z[number], want[number])


def test_comparisons():
    for op, function in (
        ("lt", torch.lt),
        ("le", torch.le),
        ("gt", torch.gt),
        ("ge", torch.ge),
        ("eq", torch.eq),
        ("ne", torch.ne),
    ):
        binary(op, function, torch.bool)


def test_where():
    binary("where", lambda x, y: torch.where(x < y, x, y))


def test_fma_rounds_once():
    def want(x, y):
        return (x.double() * y.double() + x.double()).float().to(torch.bfloat16)

    binary("fma", want)


def test_clamp():
    x, _, z = launch_binary("clamp")
    number = ~x.isnan()
    assert torch.equal(z[number], x.clamp(-1, 1)[number])


def test_python_scalars():
    binary("scalar_add", lambda x, y: x + torch.tensor(0.1, dtype=torch.bfloat16))
    binary("scalar_mul", lambda x, y: x * torch.tensor(3.0, dtype=torch.bfloat16))
    binary("scalar_sub", lambda x, y: torch.tensor(1.0, dtype=torch.bfloat16) - x)


def reduced(op: str, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    with run({"x": x}) as log:
        y = torch.empty(x.shape[0], dtype=dtype, device=x.device)
        reduce_kernel[(1,)](x, y, op, x.shape[0], x.shape[1])
        log.check_outputs(y)
    assert log.violations == []
    return y


def test_sum_stays_within_the_roundings_of_a_tree():
    x = torch.randn(16, 256).to(torch.bfloat16)
    want = x.double().sum(1)
    scale = x.double().abs().sum(1)
    assert bool(((reduced("sum", x, torch.bfloat16).double() - want).abs() <= 9 * 2**-9 * scale).all())
    assert bool(((reduced("sum32", x, torch.float32).double() - want).abs() <= 9 * 2**-24 * scale).all())


def test_max_min_and_argmax():
    x = torch.randn(16, 256).to(torch.bfloat16)
    assert torch.equal(reduced("max", x, torch.bfloat16), x.amax(1))
    assert torch.equal(reduced("min", x, torch.bfloat16), x.amin(1))
    assert torch.equal(reduced("argmax", x, torch.int32).long(), x.float().argmax(1))


def test_cumsum():
    x = torch.randn(256).to(torch.bfloat16)
    with run({"x": x}) as log:
        y = torch.empty_like(x, dtype=torch.float32)
        scan_kernel[(1,)](x, y, 256)
    assert log.violations == []
    scale = x.double().abs().cumsum(0)  # Triton 3.9 adds up in bfloat16, earlier versions in float32
    assert bool(((y.double() - x.double().cumsum(0)).abs() <= 9 * 2**-9 * scale).all())


def test_dot():
    x = torch.randn(32, 64).to(torch.bfloat16)
    y = torch.randn(64, 16).to(torch.bfloat16)
    with run({"x": x, "y": y}) as log:
        z = torch.empty(32, 16, device=x.device)
        dot_kernel[(1,)](x, y, z, 32, 16, 64)
    assert log.violations == []
    assert torch.equal(z, (x.double() @ y.double()).float())


def test_atomic_add():
    x = torch.ones(64, dtype=torch.bfloat16)
    y = torch.zeros(8, dtype=torch.bfloat16)
    with run({"x": x, "y": y}) as log:
        atomic_kernel[(1,)](x, y, BLOCK=64)
    assert log.violations == []
    assert torch.equal(y, torch.full((8,), 8.0, dtype=torch.bfloat16))
