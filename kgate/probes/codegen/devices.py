"""What each target's hardware allows: the one table of limits that the fake device and the figures read.

Sources. NVIDIA limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and
the rules of ``cuda_occupancy.h`` (shipped in Triton's wheel). AMD limits: LLVM's AMDGPU target
(``AMDGPUBaseInfo``: total and addressable VGPRs, allocation granules, waves per execution unit, LDS
granularity) and AMD's CDNA 3, CDNA 4 and RDNA 3 instruction-set guides. Counts of multiprocessors, memory, L2
and clocks belong to the product named in ``name``, from its maker's data sheet; launchers ask for them to
choose a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

MAX_THREADS_PER_BLOCK = 1024
MAX_GRID_CUDA = (2**31 - 1, 65535, 65535)
MAX_WORK_ITEMS_HIP = 2**32 - 1


class UnknownTarget(ValueError):
    """The target is not one of the table's."""


@dataclass(frozen=True)
class Device:
    """Limits and sizes of one target's device.

    On AMD a *multiprocessor* is the unit that shares one LDS: a compute unit on CDNA, a work-group processor
    (two compute units) on RDNA.
    """

    target: str
    """For example ``cuda:sm_90``."""
    backend: str
    """``cuda`` or ``hip``, as Triton spells it."""
    arch: int | str
    """As Triton spells it: 90, or ``gfx942``."""
    capability: tuple[int, int]
    """What ``torch.cuda.get_device_capability`` answers."""
    name: str
    """The product whose sizes are given."""
    multiprocessors: int
    """Streaming multiprocessors, compute units or work-group processors."""
    warp_size: int
    """Threads per warp or wave."""
    partitions: int
    """Schedulers (SIMDs) per multiprocessor; each owns its share of the registers."""
    max_warps: int
    """Resident warps per multiprocessor."""
    max_blocks: int
    """Resident blocks per multiprocessor."""
    registers: int
    """32-bit registers per lane and partition on AMD; per multiprocessor on NVIDIA."""
    register_granule: int
    """Registers are handed out in multiples of this: per warp on NVIDIA, per lane on AMD."""
    shared_per_block: int
    """Most shared memory (LDS) that a block may have, in bytes (opt-in limit on NVIDIA)."""
    shared_per_multiprocessor: int
    """Shared memory (LDS) of a multiprocessor, in bytes."""
    shared_granule: int
    """Shared memory is handed out in multiples of this, in bytes."""
    memory: int
    """Device memory, in bytes."""
    l2: int
    """L2 cache, in bytes."""
    clock_khz: int
    """Boost clock."""
    memory_clock_khz: int
    """Memory clock."""
    bus_bits: int
    """Width of the memory bus."""
    shared_reserved: int = 0
    """Shared memory that the driver keeps for itself in every block, in bytes."""
    barriers: int = 0
    """Named barriers per multiprocessor; 0 where they do not limit (before compute capability 9)."""
    tensor_memory_columns: int = 0
    """Columns of tensor memory per multiprocessor; 0 where there is none."""

    @property
    def major(self) -> int:
        """Major compute capability."""
        return self.capability[0]

    @property
    def max_threads(self) -> int:
        """Resident threads per multiprocessor."""
        return self.max_warps * self.warp_size


def _nvidia(
    arch: int,
    name: str,
    sizes: tuple[int, int, int, int, int, int],
    *,
    warps: int,
    blocks: int,
    shared: int,
    barriers: int = 0,
    tensor_memory: int = 0,
) -> Device:
    multiprocessors, memory, l2, clock, memory_clock, bus = sizes
    return Device(
        target=f"cuda:sm_{arch}",
        backend="cuda",
        arch=arch,
        capability=divmod(arch, 10),
        name=name,
        multiprocessors=multiprocessors,
        warp_size=32,
        partitions=4,
        max_warps=warps,
        max_blocks=blocks,
        registers=65536,
        register_granule=256,
        shared_per_block=shared - KIB,
        shared_per_multiprocessor=shared,
        shared_granule=128,
        shared_reserved=KIB,
        barriers=barriers,
        tensor_memory_columns=tensor_memory,
        memory=memory,
        l2=l2,
        clock_khz=clock,
        memory_clock_khz=memory_clock,
        bus_bits=bus,
    )


def _amd(
    arch: str,
    capability: tuple[int, int],
    name: str,
    sizes: tuple[int, int, int, int, int, int],
    *,
    wave: int,
    waves_per_simd: int,
    blocks: int,
    registers: int,
    granule: int,
    shared_per_block: int,
    shared: int,
    shared_granule: int,
) -> Device:
    multiprocessors, memory, l2, clock, memory_clock, bus = sizes
    return Device(
        target=f"hip:{arch}",
        backend="hip",
        arch=arch,
        capability=capability,
        name=name,
        multiprocessors=multiprocessors,
        warp_size=wave,
        partitions=4,
        max_warps=4 * waves_per_simd,
        max_blocks=blocks,
        registers=registers,
        register_granule=granule,
        shared_per_block=shared_per_block,
        shared_per_multiprocessor=shared,
        shared_granule=shared_granule,
        memory=memory,
        l2=l2,
        clock_khz=clock,
        memory_clock_khz=memory_clock,
        bus_bits=bus,
    )


# sizes: multiprocessors, memory, L2, clock (kHz), memory clock (kHz), bus (bits)
_TABLE = (
    _nvidia(
        80,
        "NVIDIA A100-SXM4-80GB",
        (108, 80 * GIB, 40 * MIB, 1410000, 1593000, 5120),
        warps=64,
        blocks=32,
        shared=164 * KIB,
    ),
    _nvidia(
        86,
        "NVIDIA A10",
        (72, 24 * GIB, 6 * MIB, 1695000, 6251000, 384),
        warps=48,
        blocks=16,
        shared=100 * KIB,
    ),
    _nvidia(
        89,
        "NVIDIA L40S",
        (142, 48 * GIB, 96 * MIB, 2520000, 9001000, 384),
        warps=48,
        blocks=24,
        shared=100 * KIB,
    ),
    _nvidia(
        90,
        "NVIDIA H100 80GB HBM3",
        (132, 80 * GIB, 50 * MIB, 1980000, 2619000, 5120),
        warps=64,
        blocks=32,
        shared=228 * KIB,
        barriers=64,
    ),
    _nvidia(
        100,
        "NVIDIA B200",
        (148, 180 * GIB, 126 * MIB, 1965000, 3996000, 8192),
        warps=64,
        blocks=32,
        shared=228 * KIB,
        barriers=64,
        tensor_memory=512,
    ),
    _nvidia(
        120,
        "NVIDIA GeForce RTX 5090",
        (170, 32 * GIB, 96 * MIB, 2407000, 14001000, 512),
        warps=48,
        blocks=24,
        shared=100 * KIB,
        barriers=24,
    ),
    _amd(
        "gfx942",
        (9, 4),
        "AMD Instinct MI300X",
        (304, 192 * GIB, 4 * MIB, 2100000, 1300000, 8192),
        wave=64,
        waves_per_simd=8,
        blocks=16,
        registers=512,
        granule=8,
        shared_per_block=64 * KIB,
        shared=64 * KIB,
        shared_granule=512,
    ),
    _amd(
        "gfx950",
        (9, 5),
        "AMD Instinct MI355X",
        (256, 288 * GIB, 4 * MIB, 2400000, 2000000, 8192),
        wave=64,
        waves_per_simd=8,
        blocks=16,
        registers=512,
        granule=8,
        shared_per_block=160 * KIB,
        shared=160 * KIB,
        shared_granule=1280,
    ),
    _amd(
        "gfx1100",
        (11, 0),
        "AMD Radeon RX 7900 XTX",
        (48, 24 * GIB, 6 * MIB, 2500000, 1249000, 384),
        wave=32,
        waves_per_simd=16,
        blocks=32,
        registers=1536,
        granule=24,
        shared_per_block=64 * KIB,
        shared=128 * KIB,
        shared_granule=1024,
    ),
)

DEVICES = {device.target: device for device in _TABLE}


def device(target: str) -> Device:
    """The device of a concrete target such as ``cuda:sm_90``.

    Raises UnknownTarget where the table has no such target.
    """
    try:
        return DEVICES[target]
    except KeyError:
        known = ", ".join(DEVICES)
        raise UnknownTarget(f"cannot compile for {target!r}: known targets are {known}") from None
