"""Rules about host code, where their examples do not say it all."""

from __future__ import annotations

import textwrap

import pytest

from kgate.lint.examples import lint_files

PRELUDE = """
import torch
import triton
import triton.language as tl
from kgate import Choice, Dim, Envelope, Scalar, Tensor, kernel

@triton.jit
def _scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

def eager(x):
    return x * 2
"""


def found(code, source, **files):
    """What a rule finds in a file after the prelude: lines of the file, and messages."""
    text = PRELUDE + textwrap.dedent(source)
    contents = {"kernel.py": text, **{f"{name}.py": PRELUDE + textwrap.dedent(item) for name, item in files.items()}}
    lines = {path: item.split("\n") for path, item in contents.items()}
    return [
        (lines[item.path][item.line - 1].strip(), item.message) for item in lint_files(contents) if item.code == code
    ]


def remedies(code, source):
    """What a rule advises about a file, without the prelude's device function."""
    text = PRELUDE.partition("@triton.jit")[0] + textwrap.dedent(source)
    return [item.remedy for item in lint_files({"kernel.py": text}, 'require = ["**"]\n') if item.code == code]


def lines_of(code, source, **files):
    return [line for line, _ in found(code, source, **files)]


def declared(body, inputs='"x": Tensor("M N", "T", layout="contiguous")', where="()", before=""):
    """A declared launcher with a body, after other code."""
    head = f"""
{textwrap.dedent(before)}
@kernel(reference=eager, fallback=eager, envelope=Envelope(
    inputs={{{inputs}}},
    outputs={{"y": Tensor("M N", "T")}},
    dtypes={{"T": ("float16", "float32")}},
    dims={{"M": Dim(0, 4096), "N": Dim(1, 65536)}},
    where={where},
))
def scale(x):
"""
    tail = """
y = torch.empty_like(x)
_scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
return y
"""
    return head + textwrap.indent(textwrap.dedent(body) + tail, "    ")


# The envelope against the code


@pytest.mark.parametrize(
    ("check", "shown"),
    [
        ("assert x.shape[1] <= 1024", "N = "),
        ("assert x.shape[-1] % 8 == 0", "N = "),
        ("assert x.shape[0] > 0", "M = 0"),
        ("assert x.ndim == 3", "every input"),
        ("assert len(x.shape) == 3", "every input"),
        ("assert x.shape[1] in (64, 128)", "N = "),
        ("assert 1 <= x.shape[1] <= 4096", "N = "),
        ("assert x.shape[0] == x.shape[1]", "M = "),
        ("assert x.dtype in (torch.float32, torch.bfloat16)", "x of float16"),
        ("if x.dtype == torch.half: raise TypeError", "x of float16"),
        ("torch._check(x.size(1) < 100)", "N = "),
    ],
)
def test_condition_that_the_envelope_does_not_imply_is_reported_with_a_witness(check, shown):
    ((line, message),) = found("KG122", declared(check))
    assert line == check
    assert shown in message
    assert message.endswith("which the envelope of scale promises")


@pytest.mark.parametrize(
    "check",
    [
        "assert x.shape[1] <= 65536",
        "assert x.dim() == 2 and x.ndim == 2 and len(x.shape) == 2",
        "assert x.is_contiguous()",
        "assert x.stride(0) == x.shape[1]",
        "assert x.dtype != torch.int32",
        "assert x is not None",
        "assert x.is_cuda",
        "assert x.numel() < 2**40",
        "assert eager(x) is not None",
        "x = x.float()\nassert x.dtype == torch.float32",
        "if x.shape[0] > 4: assert x.shape[1] <= 8",
    ],
)
def test_condition_that_the_envelope_implies_or_that_is_not_known_is_not_reported(check):
    assert found("KG122", declared(check)) == []


def test_condition_on_sizes_keeps_an_assertion_quiet():
    assert found("KG122", declared("assert x.shape[1] % 8 == 0", where='("N % 8 == 0",)')) == []


def test_assertion_after_a_copy_that_was_only_sometimes_made_is_not_reported():
    body = """
    if not x.is_contiguous():
        x = x.contiguous()
    assert x.is_contiguous()
    """
    assert found("KG122", declared(body, inputs='"x": Tensor("M N", "T", layout="any")')) == []


def test_assertion_after_a_return_that_cannot_be_read_is_not_reported():
    body = """
    if torch.is_grad_enabled():
        return eager(x)
    assert x.shape[1] <= 1024
    """
    assert found("KG122", declared(body)) == []


def test_assertion_in_a_function_that_is_called_on_a_branch_is_not_reported():
    before = """
    def _small(x):
        assert x.shape[1] <= 1024
        y = torch.empty_like(x)
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)
        return y
    """
    branch = "if x.shape[1] <= 1024:\n    return _small(x)"
    assert found("KG122", declared(branch, before=before)) == []
    assert lines_of("KG122", declared("z = _small(x)", before=before)) == ["assert x.shape[1] <= 1024"]


# Devices


def test_launch_in_a_function_that_only_a_guarded_one_calls_is_covered_across_files():
    source = """
    def launch(x, y):
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)

    def scale(x, y):
        with torch.cuda.device(x.device):
            _scale[(1,)](x, y, x.numel(), BLOCK=1024)
    """
    caller = """
    from kernel import launch

    def outer(x, y):
        {}launch(x, y)
    """
    assert lines_of("KG501", source, other=caller.format("")) == ["_scale[(1,)](x, y, x.numel(), BLOCK=1024)"]
    assert lines_of("KG501", source, other=caller.format("with torch.cuda.device_of(x): ")) == []


def test_backward_pass_needs_no_guard():
    source = """
    class Scale(torch.autograd.Function):
        @staticmethod
        def backward(ctx, dy):
            dx = torch.empty_like(dy)
            _scale[(1,)](dy.contiguous(), dx, dy.numel(), BLOCK=1024)
            return dx

    def scale(x, y):
        with torch.cuda.device(x.device):
            _scale[(1,)](x, y, x.numel(), BLOCK=1024)
    """
    assert found("KG501", source) == []


# Writes


WRITES = """
@triton.jit
def _put(p, v, i):
    tl.store(p + i, v)

@triton.jit
def _double(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    _put(x_ptr, tl.load(x_ptr + i) * 2, i)
"""


def test_write_through_another_device_function_counts():
    source = (
        WRITES
        + """
@torch.library.custom_op("mylib::double_", mutates_args=())
def double_(x: torch.Tensor) -> None:
    _double[(1,)](x, BLOCK=128)
"""
    )
    ((_, message),) = found("KG507", source)
    assert message == "_double writes to x, which mutates_args of double_ does not list"


def test_write_by_a_torch_method_counts():
    source = """
    @torch.library.custom_op("mylib::fill", mutates_args=("y",))
    def fill(x: torch.Tensor, y: torch.Tensor) -> None:
        x.zero_()
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)
    """
    ((_, message),) = found("KG507", source)
    assert message.startswith("zero_() writes to x")


def test_argument_that_something_unknown_is_handed_is_not_called_unwritten():
    source = """
    @torch.library.custom_op("mylib::fill", mutates_args=("y", "z"))
    def fill(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
        torch.add(x, x, out=z)
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)
    """
    assert found("KG507", source) == []


def test_forward_that_writes_to_what_may_be_a_converted_copy_is_not_reported():
    source = (
        WRITES
        + """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.float()
        _double[(1,)](x, BLOCK=128)
        return x
"""
    )
    assert found("KG505", source) == []
    assert lines_of("KG505", source.replace("        x = x.float()\n", "")) == ["def forward(ctx, x):"]


# Layouts


def test_decorator_that_makes_arguments_contiguous_covers_gradients():
    source = """
    from mylib import ensure_contiguous

    class Scale(torch.autograd.Function):
        @staticmethod
        @ensure_contiguous
        def backward(ctx, dy):
            dx = torch.empty_like(dy)
            _scale[(1,)](dy, dx, dy.numel(), BLOCK=1024)
            return dx
    """
    assert found("KG504", source) == []
    assert lines_of("KG504", source.replace("@ensure_contiguous", "@staticmethod")) == ["def backward(ctx, dy):"]


def test_gradient_of_which_one_element_is_loaded_needs_no_layout():
    source = """
    @triton.jit
    def _times(x_ptr, dloss_ptr, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * tl.load(dloss_ptr), mask=i < n)

    class Loss(torch.autograd.Function):
        @staticmethod
        def backward(ctx, dloss):
            (dx,) = ctx.saved_tensors
            _times[(1,)](dx, dloss, dx.numel(), BLOCK=1024)
            return dx
    """
    assert found("KG504", source) == []
    assert lines_of("KG504", source.replace("tl.load(dloss_ptr)", "tl.load(dloss_ptr + i)")) == [
        "def backward(ctx, dloss):"
    ]


def test_condition_on_strides_is_a_promise_of_the_layout():
    inputs = '"x": Tensor("M N", "T", layout="inner_contiguous")'
    launch = "_scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)"
    assert lines_of("KG502", declared("", inputs=inputs)) == [launch]
    assert lines_of("KG502", declared("", inputs=inputs, where='("stride(x, 0) == N",)')) == []
    assert lines_of("KG502", declared("assert x.stride(0) == x.shape[1]", inputs=inputs)) == []


# What is not for users


@pytest.mark.parametrize("path", ["tests/test_scale.py", "benchmarks/scale.py", "bench_scale.py"])
def test_tests_and_benchmarks_may_synchronise(path):
    source = PRELUDE + textwrap.dedent("""
    def run(x, y):
        _scale[(1,)](x, y, x.numel(), BLOCK=1024)
        torch.cuda.synchronize()
    """)
    config = 'require = ["**"]\nexclude = []'
    assert [item for item in lint_files({path: source}, config) if item.code == "KG508"] == []
    assert [item.line for item in lint_files({"scale.py": source}, config) if item.code == "KG508"] == [17]


def test_switch_that_is_set_back_is_not_reported():
    source = """
    def run(x):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        y = x @ x
        torch.backends.cuda.matmul.allow_tf32 = before
        return y
    """
    assert found("KG511", source) == []


FORWARD = """
    @triton.jit
    def _scale(x_ptr, n, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            _scale[(1,)](x, x.numel(), B=1024)
            return {returned}
"""


@pytest.mark.parametrize(
    ("returned", "remedy"),
    [
        ("x", "call ctx.mark_dirty(x), or write to a new tensor"),
        ("y", "write to a new tensor, or return x and mark it dirty"),
    ],
)
def test_mark_dirty_is_proposed_for_what_forward_returns_alone(returned, remedy):
    assert remedies("KG505", FORWARD.format(returned=returned)) == [remedy]


def test_device_guard_is_proposed_with_a_tensor_that_the_launch_has():
    source = """
    @triton.jit
    def _fill(y_ptr, n, B: tl.constexpr):
        tl.store(y_ptr + tl.arange(0, B), 0.0)

    def fill(y):
        with torch.cuda.device(y.device):
            _fill[(1,)](y, y.numel(), B=1024)

    def refill(out):
        _fill[(1,)](out, out.numel(), B=1024)
    """
    assert remedies("KG501", source) == ["launch inside `with torch.cuda.device(out.device):`, or as fill does"]


def test_function_that_calls_a_launching_method_is_to_be_declared():
    source = """
    @triton.jit
    def _fill(y_ptr, B: tl.constexpr):
        tl.store(y_ptr + tl.arange(0, B), 0.0)

    class Fill:
        def run(self, y):
            _fill[(1,)](y, B=1024)
    """
    (remedy,) = remedies("KG101", source)
    assert remedy == "declare a function that calls `Fill.run`, or exclude the file"
