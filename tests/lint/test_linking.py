"""Launch arguments in terms of the envelope: through wrappers and views, and the sizes at which they get large."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kgate.contract import Choice, Dim, Envelope, Scalar, Tensor
from kgate.lint.analysis import analyse
from kgate.lint.examples import MemoryTree, lint_files
from kgate.lint.linking import Project
from kgate.lint.model.envelope import Scope, Sizes, Term, View, combine, extent, number, read, variable
from kgate.source.config import Config
from kgate.source.index import build_index

KERNEL = """
import torch
import triton
import triton.language as tl
from kgate import Choice, Dim, Envelope, Tensor, kernel

def eager(x, w=None):
    return x

@triton.jit
def _kernel(x_ptr, y_ptr, stride, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * cols + offs, tl.load(x_ptr + row * stride + offs, mask=offs < cols), mask=offs < cols)

ENVELOPE = Envelope(
    inputs={"x": Tensor("M N", "float16", layout=LAYOUT)},
    outputs={"y": Tensor("M N", "float16")},
    dims={"M": Dim(0, 2**20), "N": Dim(1, 8192)},
)
"""


def linked(*sources: str, layout: str = "contiguous", kernel: str = KERNEL) -> Project:
    """A project of one file, ``launch.py``, or of several that start with ``# file: name``."""
    files: dict[str, bytes] = {}
    for at, source in enumerate(sources):
        text = textwrap.dedent(source).strip("\n")
        first, _, rest = text.partition("\n")
        if first.startswith("# file: "):
            files[first.removeprefix("# file: ")] = rest.encode()
        else:
            files["launch.py" if at == 0 else f"other{at}.py"] = (kernel + "\n" + text + "\n").encode()
    files = {path: raw.replace(b"LAYOUT", repr(layout).encode()) for path, raw in files.items()}
    tree = MemoryTree(files)
    index = build_index(tree, ())
    assert index.findings == ()
    return Project(index, Config(configured=False), {path: analyse(path, files[path]) for path in index.paths})


def arguments(project: Project, name: str = "_kernel") -> list[dict[str, str]]:
    """The integer arguments of each way in which a kernel is launched."""
    device = next(device for device in project.devices.values() if device.summary.name == name)
    return [
        {item.name: term.text for item in device.summary.parameters if (term := setting.term(item.name)) is not None}
        for setting in project.settings(device)
    ]


def test_sizes_and_strides_become_dims():
    project = linked("""
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            y = torch.empty_like(x)
            _kernel[(x.shape[0],)](x, y, x.stride(0), x.size(0), x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[1]))
            return y
    """)
    assert arguments(project) == [{"stride": "N", "rows": "M", "cols": "N", "BLOCK": "next_power_of_2(N)"}]


def test_a_stride_that_the_layout_leaves_open_stays_a_stride():
    project = linked(
        """
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            y = torch.empty_like(x)
            _kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[0], x.stride(1), BLOCK=1024)
            return y
        """,
        layout="inner_contiguous",
    )
    assert arguments(project) == [{"stride": "stride(x, 0)", "rows": "M", "cols": "1", "BLOCK": "1024"}]


def test_a_contiguous_copy_has_standard_strides():
    project = linked(
        """
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            x = x.contiguous()
            y = torch.empty_like(x)
            _kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[0], x.shape[1], BLOCK=1024)
            return y
        """,
        layout="any",
    )
    assert arguments(project)[0]["stride"] == "N"


def test_launch_is_found_behind_an_autograd_function_and_a_helper():
    project = linked("""
        def _launch(data, scale, block=512):
            out = torch.empty(data.shape, device=data.device)
            n = data.shape[0]
            _kernel[(n,)](data, out, data.stride(0), n, data.shape[1], BLOCK=block)
            return out

        class _Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                return _launch(x, scale=scale)

            @staticmethod
            def backward(ctx, dy):
                return _launch(dy, 1.0), None

        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            return _Double.apply(x, 2.0)
    """)
    assert arguments(project) == [{"stride": "N", "rows": "M", "cols": "N", "BLOCK": "512"}]


def test_launch_is_found_in_another_file():
    project = linked(
        """
        from helpers import launch

        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            return launch(_kernel, x) if False else other(x)

        def other(x):
            return launch(x)
        """,
        """
        # file: helpers.py
        import torch
        import triton
        from constants import BLOCK

        def launch(x):
            import launch as kernels
            y = torch.empty_like(x)
            kernels._kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[0], x.shape[1], BLOCK=BLOCK)
            return y
        """,
        """
        # file: constants.py
        BLOCK = 2 * 1024
        """,
    )
    assert arguments(project)[-1] == {"stride": "N", "rows": "M", "cols": "N", "BLOCK": "2048"}


def test_a_declaration_from_outside_reaches_what_it_declares():
    project = linked("""
        def double(x):
            y = torch.empty_like(x)
            _kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[0], x.shape[1], BLOCK=128)
            return y

        declared = kernel(reference=eager, fallback=eager, envelope=ENVELOPE)(double)
    """)
    assert arguments(project) == [{"stride": "N", "rows": "M", "cols": "N", "BLOCK": "128"}]


def test_spread_arguments_end_the_trail():
    project = linked("""
        def _launch(x, n):
            _kernel[(n,)](x, x, x.stride(0), n, n, BLOCK=128)

        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            args = (x, x.shape[0])
            _launch(*args)
            return x
    """)
    assert arguments(project) == [{"BLOCK": "128"}]


def test_recursion_between_host_functions_ends():
    project = linked("""
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            return _again(x, 3)

        def _again(x, times):
            _kernel[(x.shape[0],)](x, x, x.stride(0), x.shape[0], x.shape[1], BLOCK=128)
            return _again(x, 2) if times else double.unchecked(x)
    """)
    assert arguments(project) == [{"stride": "N", "rows": "M", "cols": "N", "BLOCK": "128"}]


def test_a_grid_is_known_with_the_constants_of_its_launch():
    project = linked("""
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            y = torch.empty_like(x)
            M, N = x.shape
            grid = lambda meta: (triton.cdiv(M, meta["BLOCK"]), N)
            _kernel[grid](x, y, x.stride(0), M, N, BLOCK=64)
            return y
    """)
    (device,) = project.devices.values()
    (setting,) = project.settings(device)
    assert [str(setting.axis(axis).text) for axis in range(3)] == ["cdiv(M, 64)", "N", "1"]


def test_argument_terms_name_the_declaration_and_the_launch():
    project = linked("""
        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            y = torch.empty_like(x)
            _kernel[(x.shape[0],)](x, y, x.stride(0), len(x), x.shape[1], BLOCK=compute(x))
            return y
    """)
    (device,) = project.devices.values()
    ((declaration, launch, rows),) = project.argument_terms(device, "rows")
    assert (declaration.name, launch.launch.by, rows) == ("double", "double", variable("M"))
    assert project.argument_terms(device, "BLOCK")[0][2] is None


def test_configurations_are_followed_into_other_files():
    project = linked(
        """
        from configs import CONFIGS

        @triton.autotune(configs=CONFIGS, key=["cols"])
        @triton.jit
        def _tuned(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
            offs = tl.arange(0, BLOCK)
            tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < cols), mask=offs < cols)

        @kernel(reference=eager, fallback=eager, envelope=ENVELOPE)
        def double(x):
            y = torch.empty_like(x)
            _tuned[(1,)](x, y, x.shape[1])
            return y
        """,
        """
        # file: configs.py
        import triton

        SMALL = [triton.Config({"BLOCK": 64}, num_warps=2)]
        CONFIGS = [*SMALL, triton.Config({"BLOCK": 256}, num_warps=4)]
        """,
    )
    (setting,) = next(project.settings(item) for item in project.devices.values() if item.summary.name == "_tuned")
    assert sorted(setting.values_of("BLOCK")) == [64, 256]
    assert setting.values_of("cols") == ()


# The repository's own kernels

KERNELS = Path(__file__).parents[2] / "kernels"


def overflows(change: Callable[[str], str]) -> dict[str, set[str]]:
    """File to the severities of what KG201 finds in the repository's own kernels after a change of their source."""
    files = {path.relative_to(KERNELS.parent).as_posix(): path.read_text() for path in KERNELS.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for finding in lint_files({path: change(source) for path, source in files.items()}):
        if finding.code == "KG201":
            found.setdefault(finding.path.rpartition("/")[2], set()).add(finding.severity)
    return found


def test_own_kernels_compute_their_offsets_in_64_bits():
    assert overflows(lambda source: source) == {}


def test_a_cast_that_is_taken_out_is_missed():
    found = overflows(lambda source: source.replace(".to(tl.int64)", ""))
    assert {"swiglu.py", "rms_norm.py", "softmax.py"} <= {
        path for path, severities in found.items() if "error" in severities
    }


def test_a_bound_of_strides_that_is_taken_out_is_missed():
    found = overflows(lambda source: re.sub(r"where=\((\s*\"stride[^)]*\)[^)]*)*\),\n", "", source))
    assert found == {"matmul.py": {"warning"}}


# Forms over an envelope

THREE = Envelope(
    inputs={
        "x": Tensor("B T D", "float16", layout="contiguous"),
        "y": Tensor("T D", "float16"),
        "k": Scalar("int", 1, 8),
        "w": Choice(64, 128),
    },
    outputs={"z": Tensor("B T D", "float16")},
    dims={"B": Dim(1, 64), "T": Dim(1, 8192), "D": Dim(1, 4096)},
)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("x.numel()", "B * T * D"),
        ("x.stride(0)", "T * D"),
        ("x.stride(-2)", "D"),
        ("y.stride(0)", "stride(y, 0)"),
        ("x.dim()", "3"),
        ("(x.numel() // x.shape[-1])", "B * T"),
        ("view(x, (-1), x.shape[2]).shape[0]", "B * T"),
        ("view(x, (-1), x.shape[2]).stride(0)", "D"),
        ("transposed(x, 1, 2).stride(1)", "1"),
        ("permuted(x, 2, 0, 1).shape[0]", "D"),
        ("new(_, x.shape[2]).stride(0)", "D"),
        ("filled(x.shape).numel()", "B * T * D"),
        ("like(y).stride(0)", "D"),
        ("contiguous(y).stride(0)", "D"),
        ("cdiv(x.shape[1], w)", "cdiv(T, w)"),
        ("min(64, next_power_of_2(x.shape[2]))", "min(64, next_power_of_2(D))"),
        ("(k * 2)", "k * 2"),
        ("next_power_of_2(100)", "128"),
        ("(1 << 4)", "16"),
    ],
)
def test_forms_are_terms_over_dims(form, text):
    value = Scope.of_envelope(THREE, ("a.py", "f"), lambda name: None).value(form)
    assert isinstance(value, Term)
    assert value.text == text


@pytest.mark.parametrize(
    "form",
    [
        "?",
        "x.shape[3]",
        "view(x).shape[0]",
        "x",
        "unknown",
        "$SIZE",
        "x.dtype",
        "(x +",
        "new(_, 4).shape[0]",
        "(k ** k)",
        "((k ** 8) ** 8)",
    ],
)
def test_what_is_not_known_is_no_term(form):
    value = Scope.of_envelope(THREE, ("a.py", "f"), lambda name: None).value(form)
    assert not isinstance(value, Term)


def test_a_view_of_unknown_shape_keeps_its_elements():
    view = Scope.of_envelope(THREE, ("a.py", "f"), lambda name: None).value("view(x)")
    assert isinstance(view, View)
    assert view.sizes is None
    assert view.elements is not None
    assert view.elements.text == "B * T * D"


def test_terms_evaluate_as_python_does():
    values = {"M": 1000, "N": 37}
    for form, expected in [
        ("((M + 3) * N)", 1003 * 37),
        ("(M // N)", 27),
        ("(M % N)", 1),
        ("cdiv(M, N)", 28),
        ("max(M, (N ** 2))", 1369),
        ("(-N)", -37),
        ("(M - (N - 1))", 964),
    ]:
        term = read(form, {"M": variable("M"), "N": variable("N")}.get)
        assert isinstance(term, Term)
        assert term.evaluate(values) == expected
        assert eval(term.text.replace("cdiv(M, N)", "28"), {}, values) == expected


def test_adding_what_was_taken_away_gives_the_size_back():
    less = combine("-", variable("M"), number(1))
    assert combine("+", less, number(1)) == variable("M")
    product = combine("*", less, variable("N"))
    assert product is not None
    assert extent(product).text == "M * N"


# Sizes


def sizes(*where: str, layout: str = "any", **dims: tuple[int, int]) -> Sizes:
    ranges = {name: Dim(*ends) for name, ends in dims.items()}
    shape = " ".join(ranges)
    return Sizes(
        Envelope(
            inputs={"x": Tensor(shape, "float16", layout=layout)},
            outputs={"y": Tensor(shape, "float16")},
            dims=ranges,
            where=where,
        )
    )


def term(form: str) -> Term:
    value = read(form, lambda name: variable("stride(x, 0)") if name == "stride" else variable(name))
    assert isinstance(value, Term)
    return value


def test_the_largest_sizes_are_a_witness():
    found = sizes(M=(1, 2**20), N=(1, 65536)).largest(term("((M - 1) * N)"), 2**31)
    assert found is not None
    assert found.sizes == {"M": 2**20, "N": 65536}
    assert found.value == (2**20 - 1) * 65536
    assert str(found) == "M = 1048576 and N = 65536"


def test_a_condition_on_the_product_discharges_it():
    assert sizes("M * N < 2**31", M=(1, 2**20), N=(1, 65536)).largest(term("((M - 1) * N)"), 2**31) is None


@pytest.mark.parametrize("condition", ["M * N <= 2**32", "M + N <= 70000", "N % 128 == 0 and M * N < 2**33"])
def test_a_witness_fulfils_every_condition(condition):
    limits = sizes(condition, M=(1, 2**20), N=(1, 65536))
    found = limits.largest(term("(M * N)"), 2**30)
    assert found is not None
    assert found.value >= 2**30
    assert limits.allows(found.sizes)


def test_a_third_dim_in_a_condition_counts():
    assert sizes("B * M * N < 2**31", B=(1, 64), M=(1, 2**20), N=(1, 65536)).largest(term("(M * N)"), 2**31) is None


def test_an_open_stride_is_bounded_by_conditions_alone():
    open_stride = sizes(M=(1, 64), N=(1, 128), layout="inner_contiguous").largest(term("((M - 1) * stride)"), 2**31)
    assert open_stride is not None
    assert open_stride.strided
    bounded = sizes("stride(x, 0) <= 2**20", M=(1, 64), N=(1, 128), layout="inner_contiguous")
    assert bounded.largest(term("((M - 1) * stride)"), 2**31) is None
    dense = sizes(M=(1, 64), N=(1, 128), layout="dense")
    assert dense.largest(term("((M - 1) * stride)"), 2**31) is None


def test_a_stride_is_no_larger_than_the_overflow_needs():
    found = sizes(M=(1, 1025), N=(1, 128), layout="inner_contiguous").largest(term("((M - 1) * stride)"), 2**31)
    assert found is not None
    assert found.sizes["stride(x, 0)"] == 2**21


def test_arguments_beyond_32_bits_are_64_bit_and_overflow_nothing():
    limits = sizes(M=(1, 2), N=(2**31, 2**32))
    assert limits.largest(term("(M * N)"), 2**31, below=(term("N"),)) is None


def test_an_example_is_looked_for_among_multiples_too():
    limits = sizes("D % 16 == 0", D=(16, 256))
    found = limits.example(term("D"), lambda value: value & (value - 1) != 0)
    assert found is not None
    assert found.value % 16 == 0
    powers = sizes("D == 64 or D == 128", D=(64, 128))
    assert powers.example(term("D"), lambda value: value & (value - 1) != 0) is None
