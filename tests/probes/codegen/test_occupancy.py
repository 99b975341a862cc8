"""Occupancy against NVIDIA's own rule and known cases."""

from __future__ import annotations

import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from kgate.probes.codegen.devices import DEVICES, UnknownTarget, device
from kgate.probes.codegen.occupancy import Demand, occupancy

HEADER_FOLDER = Path(find_spec("triton").origin).parent / "backends" / "nvidia" / "include"

HARNESS = r"""
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads_per_sm, shared, regs, warps, smem, barriers;
  while (scanf("%d %d %d %d %d %d %d %d", &major, &minor, &threads_per_sm, &shared, &regs, &warps, &smem,
               &barriers) == 8) {
    cudaOccDeviceProp p; memset(&p, 0, sizeof p);
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = threads_per_sm; p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536;
    p.warpSize = 32; p.sharedMemPerBlock = 49152; p.sharedMemPerMultiprocessor = shared; p.numSms = 1;
    p.sharedMemPerBlockOptin = shared - 1024; p.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes a; memset(&a, 0, sizeof a);
    a.maxThreadsPerBlock = 1024; a.numRegs = regs; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    a.maxDynamicSharedSizeBytes = smem; a.numBlockBarriers = barriers;
    cudaOccDeviceState s; memset(&s, 0, sizeof s); s.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    cudaOccResult r; memset(&r, 0, sizeof r);
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, warps * 32, smem)) return 1;
    printf("%d\n", r.activeBlocksPerMultiprocessor);
  }
}
"""


def test_blocks_equal_nvidias_rule_in_random_cases(tmp_path):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or not (HEADER_FOLDER / "cuda_occupancy.h").is_file():
        pytest.skip("needs a C++ compiler and cuda_occupancy.h from Triton's wheel")
    (tmp_path / "harness.cpp").write_text(HARNESS)
    build = [compiler, "-O0", "-w", f"-I{HEADER_FOLDER}", "harness.cpp", "-o", "harness"]
    subprocess.run(build, cwd=tmp_path, check=True)
    draw = random.Random(20)
    targets = [spec for spec in DEVICES.values() if spec.backend == "cuda"]
    cases, lines = [], []
    for _ in range(3000):
        spec = draw.choice(targets)
        demand = Demand(
            warps=draw.choice((1, 2, 3, 4, 6, 8, 12, 16, 32)),
            registers=draw.randint(16, 255),
            shared=draw.choice((0, draw.randint(1, spec.shared_per_block))),
            barriers=draw.choice((0, 1, 1, 2, 16)),
        )
        cases.append((spec, demand))
        lines.append(
            f"{spec.capability[0]} {spec.capability[1]} {spec.max_threads} {spec.shared_per_multiprocessor} "
            f"{demand.registers} {demand.warps} {demand.shared} {demand.barriers}"
        )
    said = subprocess.run(
        [str(tmp_path / "harness")], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    expected = [int(line) for line in said.stdout.split()]
    assert len(expected) == len(cases)
    for (spec, demand), blocks in zip(cases, expected, strict=True):
        assert occupancy(spec, demand).blocks == blocks, (spec.target, demand)


@pytest.mark.parametrize(
    ("target", "demand", "expected"),
    [
        ("cuda:sm_90", Demand(warps=4, registers=32, shared=0), (16, 1.0, "warps")),
        ("cuda:sm_80", Demand(warps=4, registers=255, shared=0), (2, 0.125, "registers")),
        ("cuda:sm_90", Demand(warps=8, registers=64, shared=100 * 1024), (2, 0.25, "shared")),
        ("cuda:sm_90", Demand(warps=1, registers=32, shared=0), (32, 0.5, "blocks")),
        (
            "cuda:sm_100",
            Demand(warps=4, registers=64, shared=0, tensor_memory=256),
            (2, 0.125, "tensor_memory"),
        ),
        ("cuda:sm_90", Demand(warps=4, registers=32, shared=228 * 1024), (0, 0.0, "shared")),
        ("hip:gfx942", Demand(warps=4, registers=128, shared=0), (4, 0.5, "registers")),
        ("hip:gfx942", Demand(warps=4, registers=64, shared=33 * 1024), (1, 0.125, "shared")),
        ("hip:gfx1100", Demand(warps=8, registers=96, shared=0), (8, 1.0, "warps")),
    ],
)
def test_known_cases(target, demand, expected):
    found = occupancy(device(target), demand)
    assert (found.blocks, found.fraction, found.limiter) == expected


def test_an_unknown_target_is_named_with_the_known_ones():
    with pytest.raises(UnknownTarget, match=r"cuda:sm_12.*known targets are cuda:sm_80"):
        device("cuda:sm_12")
