"""Launchers that insist on CUDA run on CPU tensors: what Python can ask is answered for the target."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kgate.probes.interpreter import Unsupported, install, installed, real_devices, run, set_multiprocessors

IS_CUDA = triton.runtime.driver.active.get_current_target().backend == "cuda"


@triton.jit
def add_one_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def insisting_launcher(x: torch.Tensor) -> torch.Tensor:
    """Does what real launchers do before they launch."""
    assert x.is_cuda
    assert not x.is_cpu
    assert x.device.type == "cuda"
    assert x.device == torch.device("cuda:0")
    assert x.get_device() == torch.cuda.current_device()
    assert torch.cuda.is_available()
    y = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    z = torch.empty_like(x, device=x.device)
    assert y.device == x.device == z.device
    n = x.numel()
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count
    with torch.cuda.device(x.device), torch.cuda.device_of(x), torch.cuda.stream(torch.cuda.Stream()):
        add_one_kernel[(min(processors, triton.cdiv(n, 128)),)](x, y, n, BLOCK=128)
    torch.cuda.synchronize()
    return y


def test_an_insisting_launcher_runs():
    x = torch.randn(300, device="cuda")
    with run({"x": x}) as log:
        y = insisting_launcher(x)
        log.check_outputs(y)
    assert log.violations == []
    assert torch.equal(y, x + 1)


def test_the_device_is_the_targets():
    assert installed() == "cuda:sm_90"
    assert IS_CUDA
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_capability("cuda:0") == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132
    assert "H100" in torch.cuda.get_device_name()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.is_bf16_supported()
    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert properties["max_shared_mem"] == 232448
    assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cuda", 0)


def test_the_number_of_multiprocessors_can_be_set():
    set_multiprocessors(4)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 4
    assert triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 4
    set_multiprocessors(None)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132


def test_transfers_and_factories_stay_on_the_cpu():
    x = torch.randn(3)
    made = [
        x.cuda(),
        x.to("cuda"),
        x.to(torch.device("cuda", 0), torch.float16),
        x.to(device="cuda:0", dtype=torch.float64),
        torch.zeros(3, device="cuda"),
        torch.full((3,), 1.0, device=torch.device("cuda")),
        torch.arange(3, device=x.device),
        torch.tensor([1.0], device="cuda"),
        x.new_zeros(3, device="cuda"),
        torch.rand(3, device="cuda", generator=torch.Generator(device="cuda")),
        torch.nn.Linear(3, 3).cuda().weight,
        torch.nn.Linear(3, 3, device="cuda").weight.data,
        x.pin_memory(),
    ]
    with torch.device("cuda"):
        made.append(torch.ones(3))
    assert all(t.is_cuda for t in made)
    with real_devices():
        assert {t.device.type for t in made} == {"cpu"}


def test_host_tensors_of_a_launcher_stay_host_tensors():
    with run():
        host = torch.zeros(3)
        explicit = torch.zeros(3, device="cpu")
        assert not host.is_cuda
        assert not explicit.is_cuda
        assert host.device.type == "cpu"
        assert host.to("cuda").is_cuda
        assert host.cuda().is_cuda
        assert torch.zeros_like(torch.zeros(3, device="cuda")).is_cuda
    assert torch.zeros(3).is_cuda


def test_meta_tensors_stay_meta_tensors():
    assert torch.empty(3, device="meta").device.type == "meta"
    assert not torch.empty(3, device="meta").is_cuda


def test_gradients_flow_through_a_function_that_launches():
    class AddOne(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return insisting_launcher(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            return insisting_launcher(grad.contiguous())

    x = torch.randn(10, device="cuda", requires_grad=True)
    with run({"x": x}) as log:
        y = AddOne.apply(x)
        y.sum().backward()
    assert log.violations == []
    assert torch.equal(x.grad, torch.full((10,), 2.0))


def test_compiled_functions_run_as_they_are():
    @torch.compile(dynamic=True)
    def double(x):
        return x * 2

    assert torch.equal(torch.compile(double)(torch.ones(2)), torch.full((2,), 2.0))


def test_what_cannot_be_honoured_is_said():
    x = torch.randn(4, 4)
    with run({"x": x}) as log, torch.autocast("cuda", dtype=torch.bfloat16):
        x @ x
    assert any("autocast" in note for note in log.notes)
    with pytest.raises(Unsupported) as caught:
        torch.cuda.CUDAGraph()
    error = caught.value
    assert "CUDA graph" in str(error)


def test_printing_a_tensor_works():
    assert "0." in str(torch.zeros(2, device="cuda"))
    assert "requires_grad" in repr(torch.zeros(2, device="cuda", requires_grad=True))


def test_products_with_a_wider_result():
    x = torch.randn(4, 4).bfloat16()
    got = torch.mm(x, x, out_dtype=torch.float32)
    assert got.dtype == torch.float32
    assert torch.allclose(got, x.float() @ x.float())


def test_a_second_install_for_another_target_is_refused():
    install(target="cuda:sm_90")
    with pytest.raises(RuntimeError) as caught:
        install(target="cuda:sm_80")
    assert "sm_90" in str(caught.value)


def test_runs_do_not_nest():
    with pytest.raises(RuntimeError) as caught, run(), run():
        pass
    assert "active" in str(caught.value)
    with run():
        pass


def test_a_fork_inherits_everything():
    import os

    x = torch.randn(300)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with run({"x": x}) as log:
                y = insisting_launcher(x)
                log.check_outputs(y)
            status = 0 if torch.equal(y, x + 1) and not log.violations else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
