"""What the code of a launcher says of its envelope."""

from __future__ import annotations

import pytest

from kgate import Choice, Dim, Ignore, Tensor

LAUNCH = """
    y = torch.empty_like(x)
    _scale_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=1024)
    return y
"""


def launcher(before: str, signature: str = "x", launch: str = LAUNCH) -> str:
    lines = "".join(f"    {line}\n" for line in before.strip().split("\n")) if before else ""
    return f"\n\ndef scale({signature}):\n{lines}{launch}"


def test_unpacked_shape_names_the_axes(parts):
    assert parts(launcher("rows, cols = x.shape"))["x"].shape == "rows cols"


def test_axes_come_from_an_assert_about_the_rank(parts):
    assert parts(launcher("assert x.dim() == 2"))["x"].rank == 2


@pytest.mark.parametrize(
    "check",
    [
        "if x.ndim != 2:\n    raise ValueError('two axes')",
        "torch._check(x.dim() == 2, lambda: 'two axes')",
        "if not x.dim() == 2:\n    raise ValueError('two axes')",
        "assert len(x.shape) == 2 and x.is_cuda",
    ],
)
def test_every_way_of_insisting_on_a_rank_counts(parts, check):
    assert parts(launcher(check))["x"].rank == 2


def test_rank_that_nothing_tells_is_a_placeholder(parts):
    host = """

    def copy(x):
        y = torch.empty_like(x)
        _scale_kernel[(1,)](x, y, 8, 1, BLOCK=1024)
        return y
    """
    assert "TODO" in parts(host)["x"]


def test_rows_of_any_tensor_are_promised_for_two_axes(parts):
    host = """

    def scale(x):
        shape = x.shape
        n = shape[-1]
        x = x.view(-1, n)
        y = torch.empty_like(x)
        _scale_kernel[(x.shape[0],)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
        return y.view(*shape)
    """
    found = parts(host)
    assert found["x"].rank == 2
    assert found["x"].layout == "contiguous"
    assert found["y"].shape == found["x"].shape


def test_sizes_that_are_compared_are_one_dim(parts):
    host = launcher("M, N = x.shape\nassert w.shape == (N,)\nw.stride(0)", "x, w")
    found = parts(host)
    assert (found["x"].shape, found["w"].shape) == ("M N", "N")


def test_size_compared_with_a_number_is_a_constant(parts):
    assert parts(launcher("M, N = x.shape\nassert N == 128"))["x"].shape == "M 128"


def test_cap_ends_the_range(parts):
    assert parts(launcher("M, N = x.shape\nif N > 8192:\n    raise ValueError(N)"))["N"] == Dim(1, 8192)


def test_cap_on_the_block_ends_the_range_of_what_it_holds(parts):
    before = "M, N = x.shape\nblock = triton.next_power_of_2(N)\nif block > 65536:\n    raise RuntimeError(N)"
    assert parts(launcher(before))["N"] == Dim(1, 65536)


def test_cap_in_bytes_counts_for_the_widest_dtype(parts):
    before = """M, N = x.shape
most = 65536 // x.element_size()
block = min(most, triton.next_power_of_2(N))
if N > block:
    raise RuntimeError(N)"""
    assert parts(launcher(before))["N"] == Dim(1, 8192)


def test_size_of_a_single_block_has_a_lower_limit_than_one_that_is_walked(parts):
    host = """

    def scale(x):
        M, N = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=triton.next_power_of_2(N))
        return y
    """
    found = parts(host)
    assert found["N"].hi < found["M"].hi


def test_size_that_no_device_code_covers_is_a_placeholder(parts):
    assert "TODO" in parts(launcher("M, N = x.shape\nK, L = w.shape", "x, w: torch.Tensor"))["K"]


def test_values_that_a_size_may_have_become_a_condition(repository):
    text = repository.text(launcher("M, N = x.shape\nassert N in (64, 128)"))
    assert '"N": Dim(64, 128)' in text
    assert '"N == 64 or N == 128"' in text


def test_multiple_becomes_a_condition(repository):
    assert '"N % 16 == 0"' in repository.text(launcher("M, N = x.shape\nassert N % 16 == 0"))


def test_dtypes_come_from_a_check(repository):
    text = repository.text(launcher("M, N = x.shape\nassert x.dtype in (torch.float16, torch.bfloat16)"))
    assert '"T": ("float16", "bfloat16"),' in text


def test_one_dtype_needs_no_variable(parts):
    found = parts(launcher("M, N = x.shape\nassert x.dtype == torch.float16"))
    assert found["x"].dtype == found["y"].dtype == "float16"


def test_alternatives_joined_by_or_are_the_dtypes(repository):
    check = "M, N = x.shape\nassert x.dtype == torch.float16 or x.dtype == torch.float32"
    assert '"T": ("float16", "float32"),' in repository.text(launcher(check))


def test_refused_dtype_is_not_promised(repository):
    text = repository.text(launcher("M, N = x.shape\nassert x.dtype != torch.float32"))
    assert '"T": ("float16", "bfloat16"),' in text


def test_conversion_to_float32_in_device_code_tells_floats(repository):
    assert '"T": ("float16", "bfloat16", "float32"),' in repository.text(launcher("M, N = x.shape"))


def test_function_of_unconverted_elements_is_promised_for_float32_alone(parts):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=mask, other=0.0)
        tl.store(y_ptr + tl.program_id(0) * stride + cols, tl.exp(x), mask=mask)
    """
    assert parts(launcher("M, N = x.shape"), device)["x"].dtype == "float32"


def test_dtype_that_nothing_tells_is_a_placeholder(repository):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=mask, other=0)
        tl.store(y_ptr + tl.program_id(0) * stride + cols, x + x, mask=mask)
    """
    assert '"T": ("TODO: the dtypes of x",)' in repository.text(launcher("M, N = x.shape"), device)


def test_product_of_whole_numbers_is_not_taken_for_floats(repository):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols[:, None] * stride + cols[None, :], mask=cols[None, :] < n_cols, other=0)
        tl.store(y_ptr + cols, tl.sum(tl.dot(x.to(tl.int8), x.to(tl.int8), out_dtype=tl.int32), 0))
    """
    assert '"T": ("TODO' in repository.text(launcher("M, N = x.shape"), device)


def test_gathered_indices_are_int64(parts):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _gather(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        at = tl.load(index_ptr + i, mask=i < n, other=0)
        tl.store(y_ptr + i, tl.load(x_ptr + at, mask=i < n).to(tl.float32), mask=i < n)
    """
    host = """

    def gather(x, index):
        y = torch.empty(index.numel(), dtype=torch.float32, device=x.device)
        n = index.numel()
        _gather[(triton.cdiv(n, 256),)](x, index, y, n, BLOCK=256)
        return y
    """
    found = parts(host, device)
    assert (found["index"].dtype, found["index"].rank) == ("int64", 1)
    assert "TODO" in found["x"]


def test_handed_row_stride_frees_the_rows(parts):
    assert parts(launcher("M, N = x.shape"))["x"].layout == "inner_contiguous"


def test_without_strides_the_input_has_to_be_contiguous(parts):
    host = """

    def scale(x):
        M, N = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, N, BLOCK=1024)
        return y
    """
    assert parts(host)["x"].layout == "contiguous"


@pytest.mark.parametrize(
    "made", ["x = x.contiguous()\n    ", "if not x.is_contiguous():\n        x = x.contiguous()\n    "]
)
def test_input_that_is_made_contiguous_may_lie_in_any_way(parts, made):
    host = f"""

def scale(x):
    M, N = x.shape
    {made}y = torch.empty_like(x)
    _scale_kernel[(M,)](x, y, N, N, BLOCK=1024)
    return y
"""
    expected = "any" if made.startswith("x =") else "contiguous"
    assert parts(host)["x"].layout == expected


def test_decorator_makes_inputs_contiguous(parts):
    host = """

    def input_guard(function):
        return function


    @input_guard
    def scale(x):
        M, N = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, N, BLOCK=1024)
        return y
    """
    assert parts(host)["x"].layout == "any"


def test_check_of_the_inner_stride_is_the_layout(parts):
    host = """

    def scale(x):
        M, N = x.shape
        if x.stride(-1) != 1:
            raise ValueError("rows")
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, N, BLOCK=1024)
        return y
    """
    assert parts(host)["x"].layout == "inner_contiguous"


def test_input_that_device_code_stores_to_is_mutated(parts):
    host = """

    def scale_(x):
        M, N = x.shape
        _scale_kernel[(M,)](x, x, N, x.stride(0), BLOCK=1024)
    """
    found = parts(host)
    assert found["x"].mutated
    assert found["x"].layout == "contiguous"


def test_outputs_stand_in_the_order_returned(parts):
    host = """

    def scale(x):
        M, N = x.shape
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        total = torch.zeros(M, dtype=torch.float32, device=x.device)
        _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
        return y, total, M
    """
    found = parts(host)
    assert (found["y0"].shape, found["y1"], found["y2"]) == ("M N", Tensor("M", "float32"), Ignore())


def test_optional_tensor_is_part_where_its_shape_is_known(parts):
    host = """

    def scale(x, weight=None):
        M, N = x.shape
        if weight is not None:
            assert weight.shape == (N,) and weight.dtype == torch.float32
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
        return y
    """
    assert parts(host)["weight"] == Tensor("N", "float32", optional=True, layout="contiguous")


def test_optional_tensor_of_unknown_shape_is_left_out(repository):
    host = """

    def scale(x, weight=None):
        M, N = x.shape
        if weight is not None:
            x = x * weight.to(x.dtype)
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
        return y
    """
    text = repository.text(host)
    assert '"weight"' not in text
    assert "weight=None" in text


def test_flag_is_a_choice_where_it_changes_nothing_of_the_outputs(parts):
    host = """

    def scale(x, fast=False, both=False):
        M, N = x.shape
        y = torch.empty_like(x)
        if fast:
            _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=2048)
        else:
            _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
        if both:
            return y, x
        return y
    """
    found = parts(host)
    assert found["fast"] == Choice(False, True)
    assert "both" not in found
    assert found["y"].shape == "M N"


def test_checked_strings_are_a_choice(parts):
    before = "M, N = x.shape\nassert mode in ('exact', 'tanh')"
    assert parts(launcher(before, "x, mode='exact'"))["mode"] == Choice("exact", "tanh")


def test_required_number_is_a_placeholder(parts):
    assert "TODO" in parts(launcher("M, N = x.shape", "x, eps: float"))["eps"]


def test_axis_counted_from_the_end_is_the_last_one(parts):
    before = "dim = dim % x.ndim\nn = x.shape[dim]"
    found = parts(launcher(before, "x, dim"))
    assert found["dim"] == Choice(-1)
    assert found["x"].rank == 2


def test_docstring_tells_shapes(parts):
    before = '"""Scale.\n\n    Args:\n        x (torch.Tensor): rows of shape `[B, H]`.\n    """'
    assert parts(launcher(before, "x: torch.Tensor"))["x"].shape == "B H"


def test_code_outweighs_the_docstring(parts):
    before = '"""Scale.\n\n    Args:\n        x: rows of shape `[B, S, H]`.\n    """\nM, N = x.shape'
    assert parts(launcher(before))["x"].rank == 2


def test_tensors_that_are_addressed_alike_have_one_shape(parts):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _add(a_ptr, b_ptr, y_ptr, a_stride, b_stride, n, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        mask = cols < n
        a = tl.load(a_ptr + tl.program_id(0) * a_stride + cols, mask=mask).to(tl.float32)
        b = tl.load(b_ptr + tl.program_id(0) * b_stride + cols, mask=mask).to(tl.float32)
        tl.store(y_ptr + tl.program_id(0) * a_stride + cols, a + b, mask=mask)
    """
    host = """

    def add(a, b):
        M, N = a.shape
        y = torch.empty_like(a)
        _add[(M,)](a, b, y, a.stride(0), b.stride(0), N, BLOCK=1024)
        return y
    """
    found = parts(host, device)
    assert found["a"].shape == found["b"].shape == "M N"


def test_branch_that_depends_on_the_rank_does_not_mix_ranks(parts):
    host = """

    def rows(x):
        B, H, N = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(B * H,)](x, y, N, N, BLOCK=1024)
        return y


    def plane(x):
        M, N = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M,)](x, y, N, N, BLOCK=1024)
        return y


    def scale(x):
        assert x.dim() == 2
        if x.dim() == 3:
            return rows(x)
        return plane(x)
    """
    found = parts(host)
    assert found["x"].rank == 2
    assert found["y"].rank == 2


def test_second_axis_of_a_grid_has_its_limit(repository):
    host = """

    def scale(x):
        M, N, K = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M, N * K)](x, y, K, N, BLOCK=1024)
        return y
    """
    assert '"N * K <= 65535"' in repository.text(host)


def test_large_products_are_kept_below_32_bits(repository):
    host = """

    def scale(x):
        M, N, K = x.shape
        y = torch.empty_like(x)
        _scale_kernel[(M, N)](x, y, K, N, BLOCK=1024)
        return y
    """
    assert '"M * N * K < 2**31"' in repository.text(host)


def test_empty_input_is_not_what_a_draft_speaks_of(parts):
    before = "M, N = x.shape\nif x.numel() == 0:\n    return x, x, x"
    assert parts(launcher(before))["y"].shape == "M N"


@pytest.mark.parametrize("used", ["tl.exp(x - tl.max(x, axis=0))", "tl.exp((x - m) * 2)", "tl.exp(x - m) * tl.exp2(m)"])
def test_maximum_of_half_types_is_float32_and_so_is_what_is_reckoned_with_it(repository, used):
    device = f"""
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=mask, other=float("-inf"))
        m = tl.max(x, axis=0)
        tl.store(y_ptr + tl.program_id(0) * stride + cols, {used}, mask=mask)
    """
    assert '"T": ("float16", "bfloat16", "float32"),' in repository.text(launcher("M, N = x.shape"), device)


def test_one_use_of_unconverted_elements_narrows_whatever_the_others_do(parts):
    device = """
    import torch
    import triton
    import triton.language as tl


    @triton.jit
    def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=mask, other=0.0)
        y = tl.exp(x - tl.max(x, axis=0)) + tl.exp(x)
        tl.store(y_ptr + tl.program_id(0) * stride + cols, y, mask=mask)
    """
    assert parts(launcher("M, N = x.shape"), device)["x"].dtype == "float32"
