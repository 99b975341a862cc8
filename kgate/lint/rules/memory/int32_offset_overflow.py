"""KG201 int32-offset-overflow: an offset that is computed in 32 bits and that the envelope lets grow beyond them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kgate.lint.model.device import INT64
from kgate.lint.model.offsets import Product, products_of
from kgate.lint.rule import ERROR, NOTE, WARNING, Example, Hit, Rule
from kgate.source.records import Edit, Fix, Related

if TYPE_CHECKING:
    from typing import Any

    from kgate.lint.linking import Project, Setting
    from kgate.lint.model.device import Device
    from kgate.lint.model.envelope import Term, Witness
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG201",
    name="int32-offset-overflow",
    severity=ERROR,
    lowered="a warning where only an unbounded stride is to blame, a note where another index of the kernel is cast",
    summary="An offset is computed in 32 bits, and the envelope allows sizes at which it needs more.",
    why=(
        "`tl.program_id` is a 32-bit integer and so are sizes and strides below 2**31; their product wraps around "
        "silently. The kernel then reads or writes gigabytes away from where it should: an illegal address at best, "
        "wrong numbers at worst, and only for inputs that no test is large enough for. The same repositories met it "
        "again in every new kernel."
    ),
    remedy="Cast one factor before the product, as in `tl.program_id(0).to(tl.int64)`, or declare a `where` condition "
    "that keeps the product below 2**31.",
    quiet=(
        "Offsets that the declared dims and `where` conditions keep below 2**31; products with a factor of 64 bits; "
        "block pointers and tensor descriptors, which compute in 64 bits. A kernel without a declaration is quiet, but "
        "for one note where it casts an index for one product with a stride and not for another."
    ),
    sources=(
        "triton-lang/triton#1058",
        "linkedin/Liger-Kernel#251",
        "linkedin/Liger-Kernel#803",
        "linkedin/Liger-Kernel#804",
        "linkedin/Liger-Kernel#1248",
        "linkedin/Liger-Kernel#1296",
        "linkedin/Liger-Kernel#1335",
        "fla-org/flash-linear-attention#818",
        "fla-org/flash-linear-attention#1082",
        "databricks/megablocks#185",
        "flagos-ai/FlagGems#327",
        "triton-lang/triton#6748",
    ),
    fix="safe",
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                mask = cols < n_cols
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask)
                                    ^^^^^^^^^^^^^^
                tl.store(y_ptr + row.to(tl.int64) * n_cols + cols, x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 2**20), "N": Dim(1, 65536)},
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            fixed="""
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                mask = cols < n_cols
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask)
                tl.store(y_ptr + row.to(tl.int64) * n_cols + cols, x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 2**20), "N": Dim(1, 65536)},
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="Liger-Kernel#251 and #803, before: the row times its stride.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(logits, grad):
                logits.mul_(grad)

            @triton.jit
            def _scale(X_ptr, X_stride, grad_ptr, n_cols, BLOCK: tl.constexpr):
                program_id = tl.program_id(0)
                X_ptr += program_id * X_stride
                         ^^^^^^^^^^^^^^^^^^^^^
                grad = tl.load(grad_ptr)
                for i in range(0, n_cols, BLOCK):
                    offs = i + tl.arange(0, BLOCK)
                    x = tl.load(X_ptr + offs, mask=offs < n_cols)
                    tl.store(X_ptr + offs, x * grad, mask=offs < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"logits": Tensor("T V", "bfloat16", layout="contiguous", mutated=True),
                        "grad": Tensor("", "float32")},
                dims={"T": Dim(1, 65536), "V": Dim(1, 262144)},
            ))
            def scale(logits, grad):
                T, V = logits.shape
                _scale[(T,)](logits, logits.stride(-2), grad, V, BLOCK=4096)
            """,
            note="Liger-Kernel#804 and #1248, before: the pointer of a row, moved once.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(table, index):
                return table[index]

            @triton.jit
            def _gather(table_ptr, index_ptr, y_ptr, n_tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
                token = tl.program_id(0).to(tl.int64)
                entry = tl.load(index_ptr + token)
                if entry >= n_tokens:
                    return
                cols = tl.arange(0, BLOCK)
                x = tl.load(table_ptr + entry * WIDTH + cols, mask=cols < WIDTH)
                                        ^^^^^^^^^^^^^
                tl.store(y_ptr + token * WIDTH + cols, x, mask=cols < WIDTH)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"table": Tensor("V N", "float16", layout="contiguous"), "index": Tensor("T", "int32")},
                outputs={"y": Tensor("T N", "float16")},
                dims={"V": Dim(1, 2**20), "N": Dim(1, 8192), "T": Dim(1, 65536)},
            ))
            def gather(table, index):
                V, N = table.shape
                y = table.new_empty((index.shape[0], N))
                _gather[(index.shape[0],)](table, index, y, V, WIDTH=N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="megablocks#185, before: a loaded index is as wide as it is stored.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                       ^^^^^^^^^^^^^^^^^^^^^^^^
                x = tl.load(x_ptr + offs, mask=offs < n)
                tl.store(y_ptr + offs, x * 2, mask=offs < n)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("B T D", "float16", layout="contiguous")},
                outputs={"y": Tensor("B T D", "float16")},
                dims={"B": Dim(1, 64), "T": Dim(1, 2**17), "D": Dim(1, 4096)},
            ))
            def double(x):
                y = torch.empty_like(x)
                n = x.numel()
                _double[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
                return y
            """,
            note="FlagGems#327 and triton#1058, before: elementwise, over more than 2**31 elements.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(q, scale):
                return q * scale

            @triton.jit
            def _scale(q, o, scale, T, H: tl.constexpr, D: tl.constexpr, BT: tl.constexpr):
                i_t, i_bh = tl.program_id(0), tl.program_id(1)
                i_b, i_h = i_bh // H, i_bh % H
                base = (i_b * T * H + i_h) * D
                       ^^^^^^^^^^^^^^^^^^^^^^^
                p_q = tl.make_block_ptr(q + base, (T, D), (H * D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                p_o = tl.make_block_ptr(o + base, (T, D), (H * D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                tl.store(p_o, tl.load(p_q, boundary_check=(0,)) * scale, boundary_check=(0,))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"q": Tensor("B T H D", "bfloat16", layout="contiguous")},
                outputs={"o": Tensor("B T H D", "bfloat16")},
                dims={"B": Dim(1, 32), "T": Dim(1, 2**17), "H": Dim(1, 64), "D": Dim(64, 128)},
            ))
            def scale(q, scale=1.0):
                B, T, H, D = q.shape
                o = torch.empty_like(q)
                _scale[(triton.cdiv(T, 64), B * H)](q, o, scale, T, H=H, D=D, BT=64)
                return o
            """,
            note="flash-linear-attention#818 and #1082, before: the base of a block pointer.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _backward(dy_ptr, x_ptr, dx_ptr, dy_stride, x_stride, dx_stride, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                mask = cols < n_cols
                dy = tl.load(dy_ptr + row * dy_stride + cols, mask=mask, other=0.0)
                                      ^^^^^^^^^^^^^^^
                x = tl.load(x_ptr + row.to(tl.int64) * x_stride + cols, mask=mask, other=0.0)
                tl.store(dx_ptr + row.to(tl.int64) * dx_stride + cols, dy * x, mask=mask)
            """,
            note="Without a declaration, one note: the same row is cast for two tensors and not for the third "
            "(Liger-Kernel#1296 and #1335, before).",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride_m, stride_n, M, N, BM: tl.constexpr, BN: tl.constexpr):
                offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
                offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
                mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
                x = tl.load(x_ptr + offs_m[:, None] * stride_m + offs_n[None, :] * stride_n, mask=mask)
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^
                rows = offs_m.to(tl.int64)[:, None]
                tl.store(y_ptr + rows * N + offs_n[None, :], x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "bfloat16", layout="inner_contiguous")},
                outputs={"y": Tensor("M N", "bfloat16")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 65536)},
            ))
            def double(x):
                M, N = x.shape
                y = torch.empty((M, N), device=x.device, dtype=x.dtype)
                grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
                _double[grid](x, y, x.stride(0), x.stride(1), M, N, BM=64, BN=64)
                return y
            """,
            fixed="""
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride_m, stride_n, M, N, BM: tl.constexpr, BN: tl.constexpr):
                offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
                offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
                mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
                x = tl.load(x_ptr + offs_m[:, None].to(tl.int64) * stride_m + offs_n[None, :] * stride_n, mask=mask)
                rows = offs_m.to(tl.int64)[:, None]
                tl.store(y_ptr + rows * N + offs_n[None, :], x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "bfloat16", layout="inner_contiguous")},
                outputs={"y": Tensor("M N", "bfloat16")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 65536)},
            ))
            def double(x):
                M, N = x.shape
                y = torch.empty((M, N), device=x.device, dtype=x.dtype)
                grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
                _double[grid](x, y, x.stride(0), x.stride(1), M, N, BM=64, BN=64)
                return y
            """,
            note="triton#6748, before: the pointer has 64 bits, and the product that is added to it has 32.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                mask = cols < n_cols
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask)
                tl.store(y_ptr + row * x_stride + cols, x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "float32", layout="contiguous")},
                outputs={"y": Tensor("M N", "float32")},
                dims={"M": Dim(1, 2**20), "N": Dim(1, 65536)},
                where=("M * N < 2**31",),
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="The condition keeps the product below 2**31.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def _double(x_ptr, y_ptr, x_stride, n_cols, BLOCK: tl.constexpr):
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                mask = cols < n_cols
                x = tl.load(x_ptr + row * x_stride + cols, mask=mask)
                tl.store(y_ptr + row * x_stride + cols, x * 2, mask=mask)
            """,
            note="Liger-Kernel#251, #803, #804, #1248, #1296 and #1335, after: cast once, for every product.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(table, index):
                return table[index]

            @triton.jit
            def _gather(table_ptr, index_ptr, y_ptr, n_tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
                token = tl.program_id(0).to(tl.int64)
                entry = tl.load(index_ptr + token)
                if entry >= n_tokens:
                    return
                cols = tl.arange(0, BLOCK)
                x = tl.load(table_ptr + entry * WIDTH + cols, mask=cols < WIDTH)
                tl.store(y_ptr + token * WIDTH + cols, x, mask=cols < WIDTH)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"table": Tensor("V N", "float16", layout="contiguous"), "index": Tensor("T", "int64")},
                outputs={"y": Tensor("T N", "float16")},
                dims={"V": Dim(1, 2**20), "N": Dim(1, 8192), "T": Dim(1, 65536)},
            ))
            def gather(table, index):
                V, N = table.shape
                y = table.new_empty((index.shape[0], N))
                _gather[(index.shape[0],)](table, index, y, V, WIDTH=N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="The index is declared to be int64.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride_m, stride_n, M, N, BM: tl.constexpr, BN: tl.constexpr):
                offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
                offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
                mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
                x = tl.load(x_ptr + offs_m.to(tl.int64)[:, None] * stride_m + offs_n[None, :] * stride_n, mask=mask)
                rows = offs_m.to(tl.int64)[:, None]
                tl.store(y_ptr + rows * N + offs_n[None, :], x * 2, mask=mask)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "bfloat16", layout="inner_contiguous")},
                outputs={"y": Tensor("M N", "bfloat16")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 65536)},
            ))
            def double(x):
                M, N = x.shape
                y = torch.empty((M, N), device=x.device, dtype=x.dtype)
                grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
                _double[grid](x, y, x.stride(0), x.stride(1), M, N, BM=64, BN=64)
                return y
            """,
            note="triton#6748, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(table, index):
                return table[index]

            @triton.jit
            def _gather(table_ptr, index_ptr, y_ptr, n_tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
                token = tl.program_id(0).to(tl.int64)
                entry = tl.load(index_ptr + token).to(tl.int64)
                if entry >= n_tokens:
                    return
                cols = tl.arange(0, BLOCK)
                x = tl.load(table_ptr + entry * WIDTH + cols, mask=cols < WIDTH)
                tl.store(y_ptr + token * WIDTH + cols, x, mask=cols < WIDTH)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"table": Tensor("V N", "float16", layout="contiguous"), "index": Tensor("T", "int32")},
                outputs={"y": Tensor("T N", "float16")},
                dims={"V": Dim(1, 2**20), "N": Dim(1, 8192), "T": Dim(1, 65536)},
            ))
            def gather(table, index):
                V, N = table.shape
                y = table.new_empty((index.shape[0], N))
                _gather[(index.shape[0],)](table, index, y, V, WIDTH=N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="megablocks#185, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n)
                tl.store(y_ptr + offs, x * 2, mask=offs < n)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("B T D", "float16", layout="contiguous")},
                outputs={"y": Tensor("B T D", "float16")},
                dims={"B": Dim(1, 64), "T": Dim(1, 2**17), "D": Dim(1, 4096)},
            ))
            def double(x):
                y = torch.empty_like(x)
                n = x.numel()
                _double[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
                return y
            """,
            note="FlagGems#327 and triton#1058, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(q, scale):
                return q * scale

            @triton.jit
            def _scale(q, o, scale, T, H: tl.constexpr, D: tl.constexpr, BT: tl.constexpr):
                i_t, i_bh = tl.program_id(0), tl.program_id(1)
                i_b, i_h = i_bh // H, i_bh % H
                base = (i_b.to(tl.int64) * T * H + i_h) * D
                p_q = tl.make_block_ptr(q + base, (T, D), (H * D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                p_o = tl.make_block_ptr(o + base, (T, D), (H * D, 1), (i_t * BT, 0), (BT, D), (1, 0))
                tl.store(p_o, tl.load(p_q, boundary_check=(0,)) * scale, boundary_check=(0,))

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"q": Tensor("B T H D", "bfloat16", layout="contiguous")},
                outputs={"o": Tensor("B T H D", "bfloat16")},
                dims={"B": Dim(1, 32), "T": Dim(1, 2**17), "H": Dim(1, 64), "D": Dim(64, 128)},
            ))
            def scale(q, scale=1.0):
                B, T, H, D = q.shape
                o = torch.empty_like(q)
                _scale[(triton.cdiv(T, 64), B * H)](q, o, scale, T, H=H, D=D, BT=64)
                return o
            """,
            note="flash-linear-attention#818 and #1082, after.",
        ),
    ),
)

TRIALS = (16, 128, 1024)
"""Values to try for a compile-time constant of which nothing is known; an overflow has to show with each of them."""
MOST_PRODUCTS = 40


# One file alone


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """One candidate for each device function: its 32-bit products, and which of them looks forgotten."""
    found = products_of(device)
    narrow = [item for item in found if not item.wide and (item.bound or _stride(device, item))][:MOST_PRODUCTS]
    if not narrow:
        return
    forgotten = _forgotten(device, narrow, [item for item in found if item.wide])
    bounded = [item for item in narrow if item.bound]
    if not bounded and forgotten is None:
        return
    data: dict[str, Any] = {"products": [_described(device, item) for item in bounded]}
    fixes: tuple[Fix, ...] = ()
    if forgotten is not None:
        data["forgotten"] = _described(device, forgotten[0]) | {"cast": device.module.segment(forgotten[1].node)[:80]}
    yield Hit(narrow[0].node, "an offset is computed in int32", fixes=fixes, data=data)


def _stride(device: Device, product: Product) -> str:
    """The runtime parameter that a product has as a factor and that is named as a stride; empty without one."""
    stack: list[ast.expr] = [product.node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult):
            stack += [item.left, item.right]
        else:
            name = device.parameter_of(item)
            if "stride" in name.lower() and name not in device.constexprs:
                return name
    return ""


def _described(device: Device, product: Product) -> dict[str, Any]:
    pointers = device.pointers(product.access.first) if product.access.first is not None else frozenset()
    access = product.access.name
    what = {"load": "the load of", "store": "the store to"}.get(access, "the atomic update of")
    if access.startswith("make_"):
        base = product.access.argument("base")
        what, pointers = "the address of", device.pointers(base) if base is not None else frozenset()
    return {
        "place": device.module.place(product.node),
        "text": " ".join(device.module.segment(product.node).split())[:80],
        "of": f"{what} {min(pointers)}" if len(pointers) == 1 else "an address",
        "bound": product.bound,
        "runtime": product.runtime,
        "loads": product.loads,
        "fix": _cast(device, product.node),
        "language": _language(device),
        "key": _leading(device, product.node),
    }


def _leading(device: Device, node: ast.expr) -> str:
    """The index of a product, as far as one has a name."""
    while isinstance(node, ast.BinOp):
        node = node.left if _varies(device, node.left) or not _varies(device, node.right) else node.right
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node)[:80]


def _varies(device: Device, node: ast.expr) -> bool:
    return any(item.startswith(("pid", "arange", "loop", "load:")) for item in device.sources(node))


# The fix


def _cast(device: Device, node: ast.BinOp) -> tuple[int, ...] | None:
    """The range of what to cast: the program's index where that has a name of its own, else the factor."""
    factor: ast.expr = node
    while isinstance(factor, ast.BinOp):
        if isinstance(factor.op, ast.Mult):
            factor = factor.left if _is_index(device, factor.left) else factor.right
        else:
            break
    if not _is_index(device, factor) or _language(device) is None:
        return None
    program = _program(device, factor)
    if program is not None:
        return device.module.place(program)
    return device.module.place(factor) if isinstance(factor, (ast.Name, ast.Subscript)) else None


def _is_index(device: Device, node: ast.expr) -> bool:
    sources = device.sources(node)
    kinds = {item.partition(":")[0] for item in sources}
    return bool(kinds & {"pid", "arange"}) and not kinds & {"loop", "load", "call", "global"}


def _program(device: Device, node: ast.expr) -> ast.Call | None:
    """The call of ``program_id`` that a factor is, where its value goes into no loop's range and is never rebound."""
    value = device.value_of(node)
    call = device.call_of.get(value) if isinstance(value, ast.Call) else None
    if call is None or call.name != "program_id":
        return None
    statement = device.statement_of(value)
    names = [item for item in chain.from_iterable(device.bindings.values()) if item.statement is statement]
    for binding in names:
        if len(device.bindings[binding.name]) > 1:
            return None
        for use in binding.uses:
            around = device.parents.get(use)
            inner = device.call_of.get(around) if isinstance(around, ast.Call) else None
            if inner is not None and inner.name in ("range", "static_range", ""):
                return None
    return call.node


def _language(device: Device) -> str | None:
    """The name under which the file imports ``triton.language``."""
    for name, origin in device.module.imports.items():
        if origin == "triton.language":
            return name
    return None


def _fixes(described: dict[str, Any]) -> tuple[Fix, ...]:
    place = described["fix"]
    if place is None:
        return ()
    line, column, end_line, end_column = place
    edit = Edit("wrap", line, column, end_line, end_column, "", f".to({described['language']}.int64)")
    return (Fix("Cast the index to int64", True, (edit,)),)


# Without a declaration


def _forgotten(device: Device, narrow: list[Product], wide: list[Product]) -> tuple[Product, Product] | None:
    """A product with a stride whose very index is cast to 64 bits for another product with a stride."""
    strided = [item for item in narrow if _stride(device, item)]
    cast: dict[str, Product] = {}
    for item in wide if strided else ():
        if _stride(device, item):
            for index in _indices(device, item.node, cast=True):
                cast.setdefault(index, item)
    for item in strided:
        if cast:
            for index in _indices(device, item.node, cast=False):
                if index in cast and _branches(device, item.node) <= _branches(device, cast[index].node):
                    return item, cast[index]
    return None


def _branches(device: Device, node: ast.AST) -> set[tuple[ast.AST, bool]]:
    """The arms of conditions that a node stands in: a kernel may have a branch for large tensors and one for small."""
    found: set[tuple[ast.AST, bool]] = set()
    for around in device.ancestors(node):
        if isinstance(around, ast.If):
            found.add((around, node in around.orelse))
        node = around
    return found


def _indices(device: Device, node: ast.expr, *, cast: bool) -> Iterator[str]:
    """What varies among the factors of a product: those that are cast to 64 bits right there, or those that are not."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _indices(device, node.left, cast=cast)
        yield from _indices(device, node.right, cast=cast)
    elif _varies(device, node):
        is_cast = False
        for _ in range(10):
            node = device.value_of(node)
            call = device.call_of.get(node) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Subscript):
                node = node.value
            elif call is not None and call.name in ("to", "cast") and call.first is not None:
                is_cast = is_cast or device.type_of(node) in INT64
                node = call.first
            else:
                break
        if is_cast is cast:
            yield ast.unparse(node)[:80]


# Linked


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Products that some envelope lets grow beyond 32 bits; without one, the product that looks forgotten."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    if not device.kernels:
        forgotten = candidate.data.get("forgotten")
        if forgotten is not None:
            yield _noted(candidate, project, forgotten)
        return
    worst: dict[str, tuple[dict[str, Any], Setting, Witness, Term]] = {}
    for described in candidate.data["products"]:
        known = worst.get(described["key"])
        if known is not None and not known[2].strided:
            continue
        for setting in project.settings(device):
            judged = _overflow(setting, project, described)
            if judged is not None and (known is None or not judged[0].strided):
                known = worst[described["key"]] = (described, setting, *judged)
                if not judged[0].strided:
                    break
    for found in worst.values():
        yield _reported(candidate, project, *found)


def _overflow(setting: Setting, project: Project, described: dict[str, Any]) -> tuple[Witness, Term] | None:
    """Sizes at which a product overflows in one setting, with the product; None where none were found."""
    if not all(_in_32_bits(setting, pointer) for pointer in described["loads"]):
        return None
    sizes = project.sizes(setting.declaration)
    found: tuple[Witness, Term] | None = None
    for constants in setting.constants(TRIALS):
        term, below = _terms(setting, described, constants)
        if term is None:
            return None
        witness = sizes.largest(term, 2**31, below)
        if witness is None:
            return None
        if found is None or not _guessed(setting, described):
            found = witness, term
    return found


def _guessed(setting: Setting, described: dict[str, Any]) -> bool:
    """Whether a bound has compile-time constants that are tried out, since nothing says what they are."""
    text = described["bound"]
    if "pid" in text or "grid" in text:
        text += " ".join(setting.launch.launch.grid or ())
    names = set(re.findall(r"\w+", text))
    return any(name in names and not setting.values_of(name) for name in setting.constants(TRIALS)[0])


def _in_32_bits(setting: Setting, pointer: str) -> bool:
    """Whether some declared dtype of what a pointer points to has 32 bits or fewer."""
    from kgate.lint.model.envelope import View

    value = setting.value(pointer)
    spec = setting.declaration.envelope.tensors().get(value.name) if isinstance(value, View) else None
    return spec is not None and any("64" not in dtype for dtype in setting.declaration.envelope.dtypes_of(spec.dtype))


def _terms(
    setting: Setting, described: dict[str, Any], constants: dict[str, Term | None]
) -> tuple[Term | None, tuple[Term, ...]]:
    """A product's bound, and the runtime parameters in it, in terms of the envelope."""
    from kgate.lint.model.envelope import as_term, combine, number

    further = dict(constants)
    for axis in range(3):
        if f"pid{axis}" in described["bound"] or f"grid{axis}" in described["bound"]:
            extent = setting.axis(axis, constants)
            further[f"grid{axis}"] = extent
            further[f"pid{axis}"] = combine("-", extent, number(1))
    term = as_term(setting.read(described["bound"], further))
    below = [setting.term(name) for name in described["runtime"]]
    return term, tuple(item for item in below if item is not None)


def _reported(
    candidate: Candidate,
    project: Project,
    described: dict[str, Any],
    setting: Setting,
    witness: Witness,
    term: Term,
) -> Finding:
    from kgate.lint.model.envelope import extent

    declaration = setting.declaration
    bound = f"{extent(term).text} < 2**31"
    guessed = _guessed(setting, described)
    names = ", ".join(witness.sizes)
    if "next_power_of_2" in bound or len(bound) > 100 or (guessed and extent(term).number is not None):
        declare = "smaller dims"
    elif guessed and any(factor.number is not None for factor in extent(term).factors):
        declare = f"a where condition that bounds {names}"
    else:
        declare = f'where=("{bound}",)'
    value = f"{witness.value:.1e}".replace("e+", "e")
    why = "allows, since it bounds no stride" if witness.strided else "allows"
    message = (
        f"{described['text']} in {described['of']} is computed in int32, and {witness}, which "
        f"{declaration.name} {why}, give {value}"
    )
    return project.finding(
        RULE,
        candidate.path,
        tuple(described["place"]),
        message,
        f"cast the index to int64 before the product, or declare {declare}",
        severity=WARNING if witness.strided else ERROR,
        symbol=candidate.symbol,
        related=(
            Related(declaration.path, declaration.line, declaration.column, f"{declaration.name} is declared here"),
        ),
        fixes=_fixes(described),
    )


def _noted(candidate: Candidate, project: Project, forgotten: dict[str, Any]) -> Finding:
    return project.finding(
        RULE,
        candidate.path,
        tuple(forgotten["place"]),
        f"{forgotten['text']} in {forgotten['of']} is computed in int32, while {forgotten['cast']} is cast to int64",
        "cast it too, or declare dims that keep the product below 2**31",
        severity=NOTE,
        symbol=candidate.symbol,
        fixes=_fixes(forgotten),
    )
