"""A small project whose kernels are right, or wrong in one known way each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kgate import contract

RMS_ENVELOPE = """Envelope(
    inputs={"x": Tensor("M N", "T", layout="inner_contiguous"), "weight": Tensor("N", "T", optional=True)},
    outputs={"y": Tensor("M N", "T", numerics=Numerics(reduce="N"))},
    dtypes={"T": ("float32", "float16", "bfloat16")},
    dims={"M": Dim(0, 2**20), "N": Dim(1, 65536)},
    targets=("cuda:sm_80+",),
)"""

RMS = """
import ctypes, os, sys, time
import torch, triton, triton.language as tl
from kgate import Dim, Envelope, Numerics, Tensor, kernel

def reference(x, weight=None, eps=1e-6):
    wide = x.float()
    y = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)

@triton.jit
def _rms(x, w, y, N, sx, sy, eps, HAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * sx + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += v * v
    scale = tl.rsqrt(tl.sum(total, 0) / N + eps)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * sx + cols, mask=cols < N, other=0.0).to(tl.float32) * scale
        if HAS:
            v = v * tl.load(w + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(y + row * sy + cols, v, mask=cols < N)

@kernel(reference=reference, fallback=reference, envelope=ENVELOPE)
def rms(x, weight=None, eps=1e-6):
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    weight = weight if weight is None else weight.contiguous()
    if M:
        _rms[(M,)](x, weight, y, N, x.stride(0), y.stride(0), eps, HAS=weight is not None, BLOCK=64)
    return y
"""

SOFTMAX_ENVELOPE = """Envelope(
    inputs={"x": Tensor("M N", "T", layout="inner_contiguous")},
    outputs={"y": Tensor("M N", "T", numerics=Numerics(reduce="N", c=2))},
    dtypes={"T": ("float32", "bfloat16")},
    dims={"M": Dim(1, 65536), "N": Dim(1, 4096)},
    targets=("cuda:sm_80+",),
)"""

SOFTMAX = """
import torch, triton, triton.language as tl
from kgate import Dim, Envelope, Numerics, Tensor, kernel

def reference(x):
    return torch.softmax(x.float(), dim=-1).to(x.dtype)

@triton.jit
def _forward(x, y, N, sx, sy, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * sx + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * sy + cols, e / tl.sum(e, 0), mask=cols < N)

@triton.jit
def _backward(y, dy, dx, N, sy, sdy, sdx, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    p = tl.load(y + row * sy + cols, mask=cols < N, other=0.0).to(tl.float32)
    g = tl.load(dy + row * sdy + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(dx + row * sdx + cols, p * (g - tl.sum(p * g, 0)), mask=cols < N)

class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x.shape[1])
        _forward[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=block)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(y)
        block = triton.next_power_of_2(y.shape[1])
        _backward[(y.shape[0],)](y, dy, dx, y.shape[1], y.stride(0), dy.stride(0), dx.stride(0), BLOCK=block)
        return dx

@kernel(reference=reference, fallback=reference, envelope=ENVELOPE, grad=("x",))
def softmax(x):
    return _Softmax.apply(x)
"""


def write(folder: Path, module: str, source: str, *changes: tuple[str, str]) -> None:
    """Write one of the sources above as a module, with changes that each must apply."""
    for old, new in changes:
        assert old in source, f"{old!r} is not in the source of {module}"
        source = source.replace(old, new)
    envelope = RMS_ENVELOPE if "def rms(" in source else SOFTMAX_ENVELOPE
    (folder / f"{module}.py").write_text(source.replace("ENVELOPE", envelope))


def declaration(module: str, qualname: str, envelope: str, **rest: Any) -> SimpleNamespace:
    """What reading the source would give."""
    return SimpleNamespace(
        identity=f"{module}.py::{qualname}",
        name=qualname,
        module=module,
        qualname=qualname,
        root=".",
        envelope=eval(envelope, vars(contract).copy()),
        workloads=(),
        description=rest.pop("description", {}),
        **rest,
    )


def rms(module: str, **rest: Any) -> SimpleNamespace:
    """The declaration of a module written from ``RMS``."""
    return declaration(module, "rms", RMS_ENVELOPE, **rest)


def softmax(module: str, **rest: Any) -> SimpleNamespace:
    """The declaration of a module written from ``SOFTMAX``."""
    return declaration(module, "softmax", SOFTMAX_ENVELOPE, **rest)
