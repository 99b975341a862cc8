"""Tiles are chosen so that every launch fits its device, and matmul always has something to tune over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from kernels._host import device_guard, next_power_of_2, warps_for
from kernels.elementwise import _config as elementwise
from kernels.matmul._config import ALIGNED_CONFIGS, CONFIGS
from kernels.matmul.matmul import _configs_that_fit
from kernels.normalization import _config as normalization
from kernels.reduction import _config as reduction

SHARED_BYTES = {"sm_80": 166_912, "sm_86": 101_376, "sm_90": 232_448, "sm_120": 101_376, "gfx942": 65_536}
THREADS = 1024


def operands(dtype: torch.dtype, *, aligned: bool) -> dict[str, Any]:
    size = 4096 if aligned else 4097
    strides = {"stride_am": size, "stride_ak": 1, "stride_bk": 1, "stride_bn": size}
    return {"a_ptr": torch.empty(1, dtype=dtype), "N": size, "K": size, **strides}


@pytest.fixture(params=SHARED_BYTES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    properties = {"max_shared_mem": SHARED_BYTES[request.param]}
    active = SimpleNamespace(
        get_current_device=lambda: 0,
        utils=SimpleNamespace(get_device_properties=lambda _: properties),
    )
    monkeypatch.setattr(triton.runtime, "driver", SimpleNamespace(active=active))
    return str(request.param)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "unaligned"])
def test_some_configuration_fits_every_device(device: str, dtype: torch.dtype, aligned: bool) -> None:
    fitting = _configs_that_fit(CONFIGS, operands(dtype, aligned=aligned))
    assert fitting
    for config in fitting:
        rows = config.kwargs["BLOCK_M"] + config.kwargs["BLOCK_N"]
        assert rows * config.kwargs["BLOCK_K"] * dtype.itemsize * config.num_stages <= SHARED_BYTES[device]


def test_tiles_that_spill_without_wide_copies_are_for_aligned_operands_only(device: str) -> None:
    unaligned = _configs_that_fit(CONFIGS, operands(torch.bfloat16, aligned=False))
    assert not any(config in ALIGNED_CONFIGS for config in unaligned)
    if device != "gfx942":
        assert ALIGNED_CONFIGS[0] in _configs_that_fit(CONFIGS, operands(torch.bfloat16, aligned=True))


def test_no_row_kernel_asks_for_more_threads_than_a_64_lane_device_launches() -> None:
    assert max(elementwise.MAX_WARPS, reduction.MAX_WARPS, normalization.MAX_WARPS) * 64 <= THREADS
    assert all(config.num_warps * 64 <= THREADS for config in CONFIGS)


@pytest.mark.parametrize(("size", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (4096, 4096), (4097, 8192)])
def test_tiles_are_padded_to_the_next_power_of_two(size: int, power: int) -> None:
    assert next_power_of_2(size) == power


@pytest.mark.parametrize(("elements", "warps"), [(1, 1), (512, 1), (1024, 2), (8192, 16), (16384, 16)])
def test_warps_grow_with_the_tile_up_to_the_limit(elements: int, warps: int) -> None:
    assert warps_for(elements, per_warp=512, most=16) == warps


def test_the_device_guard_leaves_cpu_tensors_alone() -> None:
    with device_guard(torch.empty(2)):
        assert torch.empty(1).device.type == "cpu"
