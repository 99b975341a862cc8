"""Rules about memory and indices: what the examples of the rules cannot say, and the tiles that they reason with."""

from __future__ import annotations

import ast
import textwrap

import pytest

from kgate.lint.examples import lint_files
from kgate.lint.fixes import apply
from kgate.lint.model.module import Module

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


def found(code, body, config="", **files):
    """The findings of one rule in a file, and in others beside it."""
    sources = {"kernel.py": HEADER + textwrap.dedent(body)}
    sources.update({f"{name}.py": HEADER + textwrap.dedent(text) for name, text in files.items()})
    return [item for item in lint_files(sources, config) if item.code == code]


def device(body):
    """The first device function of a file."""
    source = HEADER + textwrap.dedent(body)
    return Module("kernel.py", source, ast.parse(source)).devices[0]


def value(function, name):
    """What a name is last bound to."""
    return function.bindings[name][-1].value


# Tiles


SHAPES = """
    @triton.jit
    def k(x_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
        m = tl.program_id(0) * BM + tl.arange(0, BM)
        n = tl.arange(0, BN)
        at = x_ptr + m[:, None] * N + n[None, :]
        tile = tl.load(at, mask=(m < M)[:, None] & (n < N)[None, :])
        turned = tl.trans(tile)
        rows = tl.sum(tile, axis=1)
        last = tl.sum(tile, axis=-1, keep_dims=True)
        both = tl.sum(tile)
        product = tl.dot(tile, tl.trans(tile))
        folded = tl.reshape(tile, (BM * BN,))
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(4):
            acc += tile
        whole = n < BN
        upper = (m < M) & (M > n)
        lower = m >= 0
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m", ["m"]),
        ("at", ["m", "n"]),
        ("tile", ["m", "n"]),
        ("turned", ["n", "m"]),
        ("rows", ["m"]),
        ("last", ["m", ""]),
        ("both", []),
        ("product", ["m", "m"]),
        ("acc", ["m", "n"]),
    ],
)
def test_axes_of_a_tile_are_known_by_position(name, expected):
    function = device(SHAPES)
    names = {next(iter(function.tiles.axes(value(function, axis)))): axis for axis in ("m", "n")}
    dims = function.tiles.dims(function.bindings[name][-1].statement.value)
    if name == "acc":
        dims = function.tiles.dims(ast_name(function, "acc"))
    assert [names.get(next(iter(axes), None), "") for axes in dims] == expected


def ast_name(function, name):
    """A read of a name after all of its bindings: the value that a loop carries."""
    use = ast.Name(name, ast.Load())
    function.reached[use] = tuple(function.bindings[name])
    return use


def test_positions_after_a_reshape_are_unknown_and_its_axes_known():
    function = device(SHAPES)
    folded = value(function, "folded")
    assert function.tiles.dims(folded) is None
    assert len(function.tiles.axes(folded)) == 2


def test_mask_bounds_the_axes_that_it_compares_with_a_limit():
    function = device(SHAPES)
    tiles = function.tiles
    m, n = tiles.axes(value(function, "m")), tiles.axes(value(function, "n"))
    assert tiles.bounded(value(function, "upper")) == m | n
    assert tiles.bounded(value(function, "lower")) == frozenset()


def test_mask_up_to_the_extent_of_the_block_bounds_nothing():
    function = device(SHAPES)
    assert function.tiles.bounded(value(function, "whole")) == frozenset()


def test_values_computed_alike_share_a_number():
    function = device("""
        @triton.jit
        def k(x, n, B: tl.constexpr):
            pid = tl.program_id(0)
            a = pid * B + tl.arange(0, B)
            b = tl.arange(0, B)[None, :] + tl.program_id(0).to(tl.int64) * B
            c = tl.program_id(1) * B + tl.arange(0, B)
            tl.store(x + a, b + c)
    """)
    a, b, c = (function.tiles.number(value(function, name)) for name in "abc")
    assert a == b
    assert a != c


# KG202


def test_whole_blocks_in_a_loop_and_a_masked_tail_after_it_are_left_alone():
    assert not found(
        "KG202",
        """
        @triton.jit
        def k(x_ptr, y_ptr, n, whole, B: tl.constexpr):
            offs = tl.arange(0, B)
            acc = tl.zeros((B,), tl.float32)
            for _ in range(whole):
                acc += tl.load(x_ptr + offs)
                offs += B
            acc += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
            tl.store(y_ptr, tl.sum(acc, axis=0))
        """,
    )


def test_index_kept_in_range_needs_no_mask():
    for kept in ("tl.minimum(offs, n - 1)", "tl.where(offs < n, offs, 0)", "offs % n"):
        assert not found(
            "KG202",
            f"""
            @triton.jit
            def k(x_ptr, y_ptr, n, B: tl.constexpr):
                offs = tl.program_id(0) * B + tl.arange(0, B)
                x = tl.load(x_ptr + {kept})
                tl.store(y_ptr + offs, x, mask=offs < n)
            """,
        )


def test_workspace_with_a_row_for_each_block_needs_no_mask():
    assert not found(
        "KG202",
        """
        @triton.jit
        def k(x_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
            tl.store(y_ptr + tl.program_id(0) * B + offs, x)
        """,
    )


# KG203


def test_loads_that_meet_in_one_sum_are_one_finding_and_one_safe_fix():
    body = """
        @triton.jit
        def k(a_ptr, b_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            a = tl.load(a_ptr + offs, mask=offs < n)
            b = tl.load(b_ptr + offs, mask=offs < n)
            tl.store(y_ptr, tl.sum(a * b, axis=0))
    """
    (finding,) = found("KG203", body)
    assert "a_ptr, b_ptr" in finding.message
    assert finding.fixes[0].safe
    fixed = apply((HEADER + textwrap.dedent(body)).encode(), [finding.fixes[0]]).source.decode()
    assert fixed.count("other=0.0") == 2


def test_filling_that_an_exponential_would_change_is_not_offered():
    (finding,) = found(
        "KG203",
        """
        @triton.jit
        def k(x_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            x = tl.load(x_ptr + offs, mask=offs < n)
            tl.store(y_ptr, tl.sum(tl.exp(x), axis=0))
        """,
    )
    assert finding.fixes == ()


def test_forward_scan_never_sees_the_masked_end_and_a_reversed_one_does():
    body = """
        @triton.jit
        def k(x_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            x = tl.load(x_ptr + offs, mask=offs < n)
            tl.store(y_ptr + offs, tl.cumsum(x, axis=0{reverse}), mask=offs < n)
    """
    assert not found("KG203", body.format(reverse=""))
    assert found("KG203", body.format(reverse=", reverse=True"))


def test_only_the_contracted_axis_of_a_dot_matters():
    body = """
        @triton.jit
        def k(a_ptr, b_ptr, c_ptr, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
            m = tl.arange(0, BM)
            n = tl.arange(0, BN)
            k = tl.arange(0, BK)
            a = tl.load(a_ptr + m[:, None] * BK + k[None, :], mask={mask})
            b = tl.load(b_ptr + k[:, None] * BN + n[None, :])
            tl.store(c_ptr + m[:, None] * BN + n[None, :], tl.dot(a, b), mask=m[:, None] < M)
    """
    assert not found("KG203", body.format(mask="m[:, None] < M"))
    assert found("KG203", body.format(mask="k[None, :] < K"))


# KG204


def test_zero_is_the_least_of_what_is_never_negative():
    body = """
        @triton.jit
        def k(x_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
            tl.store(y_ptr, tl.max({value}, axis=0))
    """
    assert found("KG204", body.format(value="x * 0.5"))
    for value_ in ("x * x", "tl.abs(x)", "tl.exp(x)"):
        assert not found("KG204", body.format(value=value_))


ROW = """
    @triton.jit
    def k(x_ptr, y_ptr, w, n, B: tl.constexpr):
        offs = tl.arange(0, B)
        x = tl.load(x_ptr + offs, mask=offs < n, other={other})
        m = tl.max(x, axis=0)
        tl.store(y_ptr, tl.sum(tl.exp(x - m), axis=0))
        {more}
"""


def test_filling_is_proposed_only_where_every_reduction_can_have_it():
    (alone,) = found("KG204", ROW.format(other="0.0", more=""))
    assert alone.remedy == 'fill with -float("inf"), or the least value of an integer type'
    sum_too = "tl.store(y_ptr + 1, tl.sum(0.1 * x * w, axis=0))"
    (zeros,) = found("KG204", ROW.format(other="0.0", more=sum_too))
    assert zeros.remedy == 'choose with tl.where(mask, ..., -float("inf")) before tl.max'
    (infinite,) = found("KG204", ROW.format(other='-float("inf")', more=sum_too))
    assert infinite.remedy == "choose with tl.where(mask, ..., 0) before tl.sum"


def test_infinity_that_an_exponential_turns_into_zero_may_be_summed():
    assert not found(
        "KG204",
        """
        @triton.jit
        def k(x_ptr, y_ptr, n, B: tl.constexpr):
            offs = tl.arange(0, B)
            x = tl.load(x_ptr + offs, mask=offs < n, other=-float("inf"))
            tl.store(y_ptr, tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0))
        """,
    )


# KG206, KG207


def test_kernel_that_uses_no_stride_of_a_tensor_is_left_alone():
    assert not found(
        "KG206",
        """
        @triton.jit
        def k(x_ptr, y_ptr, stride_xm, stride_xn, stride_ym, B: tl.constexpr):
            offs = tl.arange(0, B)
            tl.store(y_ptr + tl.program_id(0) * stride_ym + offs, tl.load(x_ptr + offs))
        """,
    )


DOUBLE = """
    @triton.jit
    def _double(x_ptr, y_ptr, stride, N, B: tl.constexpr):
        cols = tl.arange(0, B)
        x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=cols < N)
        tl.store(y_ptr + tl.program_id(0) * N + cols, x + x, mask=cols < N)

    def launch(x):
        y = x.new_empty(x.shape)
        _double[(x.shape[0],)](x, y, x.stride(0), x.shape[1], B=1024)
        return y
"""


def test_accesses_that_one_launcher_leaves_open_are_one_finding_with_the_launch():
    body = """
    @triton.jit
    def _add(x_ptr, z_ptr, y_ptr, x_stride, z_stride, N, B: tl.constexpr):
        cols = tl.arange(0, B)
        x = tl.load(x_ptr + tl.program_id(0) * x_stride + cols, mask=cols < N)
        z = tl.load(z_ptr + tl.program_id(0) * z_stride + cols, mask=cols < N)
        tl.store(y_ptr + tl.program_id(0) * N + cols, x + z, mask=cols < N)

    def add(x, z):
        y = x.new_empty(x.shape)
        _add[(x.shape[0],)](x, z, y, x.stride(0), z.stride(0), x.shape[1], B=1024)
        return y
    """
    (one,) = found("KG207", body)
    assert one.message == (
        "the load of x_ptr multiplies its outer indices by x_stride and adds cols as it is, which is right for an "
        "inner stride of 1 alone; add does not ensure that for x"
    )
    launch, other = one.related
    assert (launch.line, launch.message) == (14, "launched here")
    assert (other.line, other.message) == (9, "z_ptr likewise")


def test_caller_that_makes_the_tensor_contiguous_ensures_the_stride():
    assert found("KG207", DOUBLE)
    assert not found("KG207", DOUBLE + "\n    def double(x):\n        return launch(x.contiguous())\n")


def test_one_caller_that_does_not_is_enough_for_a_finding():
    callers = (
        "\n    def double(x):\n        return launch(x.contiguous())\n\n    def other(x):\n        return launch(x)\n"
    )
    assert found("KG207", DOUBLE + callers)


def test_configured_decorator_makes_arguments_contiguous():
    decorated = DOUBLE.replace("def launch", "@prepared\n    def launch")
    assert found("KG207", decorated)
    assert not found("KG207", decorated, config='contiguous-decorators = ["prepared"]\n')


def test_launcher_that_asserts_the_stride_is_left_alone():
    assert not found("KG207", DOUBLE.replace("y = x.new", "assert x.stride(-1) == 1\n        y = x.new"))


# KG209, KG210


def test_barrier_of_the_project_counts():
    body = """
        @triton.jit
        def k(s_ptr, y_ptr, ROW: tl.constexpr):
            offs = tl.arange(0, ROW)
            tl.store(s_ptr + offs, offs)
            {between}
            tl.store(y_ptr + offs, tl.load(s_ptr + (offs ^ 1)))
    """
    assert found("KG209", body.format(between="pass"))
    assert not found("KG209", body.format(between="group_barrier(0)"))


def test_index_that_a_loop_moves_on_leaves_the_stored_region():
    assert not found(
        "KG209",
        """
        @triton.jit
        def k(s_ptr, n, ROW: tl.constexpr):
            offs = tl.arange(0, ROW)
            tl.store(s_ptr + offs, offs)
            for _ in range(n):
                offs += ROW
                tl.store(s_ptr + offs, tl.load(s_ptr + offs) + 1)
        """,
    )


SUM = """
    @triton.jit
    def _sum(x_ptr, y_ptr, n, SPLITS: tl.constexpr, B: tl.constexpr):
        offs = tl.program_id(0) * B + tl.arange(0, B)
        x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
        {store}

    def total(x):
        y = {allocation}
        {before}
        _sum[{grid}](x, y, x.numel(), SPLITS=1, B=1024)
        return y
"""
PLAIN = {
    "store": "tl.store(y_ptr, tl.sum(x, axis=0))",
    "allocation": "torch.zeros(1)",
    "before": "pass",
    "grid": "(triton.cdiv(x.numel(), 1024),)",
}


def test_one_address_for_several_programs_is_reported():
    assert found("KG210", SUM.format(**PLAIN))


@pytest.mark.parametrize(
    "change",
    [
        {"grid": "(1,)"},
        {"store": "tl.store(y_ptr + tl.program_id(0), tl.sum(x, axis=0))"},
        {"store": "tl.store(y_ptr, n)"},
        {"store": "tl.store(y_ptr, tl.sum(x, axis=0), mask=tl.program_id(0) == 0)"},
        {"store": "if SPLITS == 1:\n            tl.store(y_ptr, tl.sum(x, axis=0))"},
        {"store": "if tl.program_id(0) > 0:\n            return\n        tl.store(y_ptr, tl.sum(x, axis=0))"},
    ],
)
def test_store_tied_to_its_program_is_left_alone(change):
    assert not found("KG210", SUM.format(**{**PLAIN, **change}))


# KG211


ATOMIC = {**PLAIN, "store": "tl.atomic_add(y_ptr, tl.sum(x, axis=0))", "allocation": "torch.empty(1)"}


def test_atomic_sum_into_fresh_memory_is_an_error_with_a_fix():
    (finding,) = found("KG211", SUM.format(**ATOMIC))
    assert finding.severity == "error"
    assert finding.fixes[0].edits[0].text == "torch.zeros"


@pytest.mark.parametrize(
    "change",
    [
        {"allocation": "torch.zeros(1)"},
        {"before": "y.fill_(0)"},
        {"before": "y[0] = 0"},
        {"before": "clear(y)"},
        {"store": "tl.atomic_xchg(y_ptr, tl.sum(x, axis=0))"},
        {"store": "if SPLITS > 1:\n            tl.atomic_add(y_ptr, tl.sum(x, axis=0))"},
    ],
)
def test_memory_that_something_sets_first_is_left_alone(change):
    assert not found("KG211", SUM.format(**{**ATOMIC, **change}))


def test_size_and_stride_of_fresh_memory_set_nothing():
    assert found("KG211", SUM.format(**{**ATOMIC, "before": "print(y.shape, y.stride(0))"}))


def test_tuner_that_resets_the_memory_is_left_alone():
    tuned = SUM.format(**ATOMIC).replace(
        "@triton.jit",
        "@triton.autotune(configs=[triton.Config({})], key=['n'], reset_to_zero=['y_ptr'])\n    @triton.jit",
    )
    assert not found("KG211", tuned)


# KG212


def test_exit_at_a_bound_writes_all_that_there_is():
    assert not found(
        "KG212",
        """
        @triton.jit
        def _k(x_ptr, len_ptr, y_ptr, B: tl.constexpr):
            if tl.program_id(0) * B >= tl.load(len_ptr):
                return
            offs = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(y_ptr + offs, tl.load(x_ptr + offs))

        def k(x, lengths):
            y = torch.empty_like(x)
            _k[(triton.cdiv(x.numel(), 128),)](x, lengths, y, B=128)
            return y
        """,
    )


def test_zeros_on_the_other_side_make_it_a_warning_also_through_an_augmented_product():
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def gated(x_ptr, z_ptr, y_ptr, n, BLOCK: tl.constexpr):
            cols = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
            z = tl.load(z_ptr + cols, mask=cols < n).to(tl.float32)
            x *= z * tl.sigmoid(z)
            tl.store(y_ptr, tl.sum(x * x, axis=0))
    """
    (finding,) = (item for item in lint_files({"kernel.py": textwrap.dedent(source)}) if item.code == "KG203")
    assert (finding.severity, finding.line) == ("warning", 9)
