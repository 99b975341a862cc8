"""How many blocks of a kernel a multiprocessor can hold at once, and what stops it from holding more."""

from __future__ import annotations

from dataclasses import dataclass

from kgate.probes.codegen.devices import Device

_MAX_REGISTERS_PER_THREAD = 255


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks, as a number and as a share of the resident warps that the device could hold."""

    blocks: int
    """Blocks that one multiprocessor holds; 0 where not even one fits."""
    fraction: float
    """Resident warps over the most that the multiprocessor holds, 0 to 1, rounded to 4 places."""
    limiter: str
    """What allows the fewest blocks: ``warps``, ``blocks``, ``registers``, ``shared``, ``barriers`` or
    ``tensor_memory``; the first of these where several do."""


@dataclass(frozen=True)
class Demand:
    """What one block asks for."""

    warps: int
    """Warps (waves) per block."""
    registers: int
    """Registers per thread; on AMD architectural and accumulation registers together."""
    shared: int
    """Shared memory (LDS) per block, in bytes."""
    barriers: int = 0
    """Named barriers per block."""
    tensor_memory: int = 0
    """Columns of tensor memory per block."""


def occupancy(device: Device, demand: Demand) -> Occupancy:
    """The occupancy of a kernel that asks for ``demand`` per block on ``device``."""
    limits = {
        "warps": device.max_warps // demand.warps,
        "blocks": device.max_blocks,
        "registers": _by_registers(device, demand),
        "shared": _by_shared(device, demand),
    }
    if device.barriers and demand.barriers:
        limits["barriers"] = device.barriers // demand.barriers
    if device.tensor_memory_columns and demand.tensor_memory:
        limits["tensor_memory"] = device.tensor_memory_columns // demand.tensor_memory
    blocks = min(limits.values())
    limiter = next(name for name, limit in limits.items() if limit == blocks)
    return Occupancy(blocks, round(blocks * demand.warps / device.max_warps, 4), limiter)


def _by_registers(device: Device, demand: Demand) -> int:
    if demand.registers == 0:
        return device.max_blocks
    if device.backend == "hip":
        per_lane = _round_up(demand.registers, device.register_granule)
        waves = min(device.registers // per_lane, device.max_warps // device.partitions)
        return waves * device.partitions // demand.warps
    if demand.registers > _MAX_REGISTERS_PER_THREAD:
        return 0
    per_warp = _round_up(demand.registers * device.warp_size, device.register_granule)
    # A launch is checked as though its warps were spread over all partitions evenly.
    if per_warp * _round_up(demand.warps, device.partitions) > device.registers:
        return 0
    warps = device.registers // device.partitions // per_warp * device.partitions
    return warps // demand.warps


def _by_shared(device: Device, demand: Demand) -> int:
    if demand.shared > device.shared_per_block:
        return 0
    size = _round_up(demand.shared + device.shared_reserved, device.shared_granule)
    return device.shared_per_multiprocessor // size if size else device.max_blocks


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
