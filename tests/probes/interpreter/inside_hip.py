"""A process that stands in for an AMD device answers as one."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kgate.probes.interpreter import run

TARGET = "hip:gfx950"


@triton.jit
def dot_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(y + i[:, None] * N + i[None, :], tl.dot(libdevice.tanh(a), a))


def test_the_target_is_amd():
    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("hip", "gfx950", 64)
    assert torch.version.hip
    assert torch.cuda.is_available()
    assert torch.cuda.get_device_properties(0).gcnArchName == "gfx950"
    assert torch.cuda.get_device_properties(0).warp_size == 64


def test_float32_dots_are_exact_by_default():
    x = torch.randn(32, 32)
    with run({"x": x}) as log:
        y = torch.empty_like(x)
        dot_kernel[(1,)](x, y, 32)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.allclose(y.double(), x.double().tanh() @ x.double(), atol=1e-5)
