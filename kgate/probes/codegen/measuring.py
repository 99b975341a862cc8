"""From a captured launch to figures: compile it for the target, count, and say whether it can be launched."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from kgate.probes.codegen import assembly, compiler
from kgate.probes.codegen.capturing import Launch
from kgate.probes.codegen.devices import (
    MAX_GRID_CUDA,
    MAX_THREADS_PER_BLOCK,
    MAX_WORK_ITEMS_HIP,
    Device,
    device,
)
from kgate.probes.codegen.occupancy import Demand, Occupancy, occupancy

OK = "ok"
REFUSED = "refused"
CANNOT_LAUNCH = "cannot-launch"

Figure = int | float | str | bool


@dataclass(frozen=True)
class Measured:
    """What compiling one launch for one target showed."""

    status: str
    """``ok``, ``refused`` (by the compiler) or ``cannot-launch`` (compiled, but beyond the device)."""
    figures: dict[str, Figure]
    """Figure name to value; always has ``status``. Empty otherwise where the compiler refused."""
    message: str = ""
    """One sentence where the status is not ``ok``."""
    details: dict[str, Any] = field(default_factory=dict)
    """``identity``: a hash of code, grids, arguments and options, equal where the work is identical;
    ``code``: a hash of the code alone; ``log``: the compiler's last words where it refused."""


_known: dict[str, tuple[Any, ...]] = {}


def measure(launch: Launch, target: str) -> Measured:
    """Compile ``launch`` for ``target`` and count; the same code is compiled once per process."""
    spec = device(target)
    try:
        figures, demand, code = _compiled(launch, spec)
    except compiler.Refused as refused:
        message = f"{launch.label} does not compile for {target}: {refused.message}"
        return Measured(REFUSED, {"status": REFUSED}, message, {"log": refused.log, "place": launch.place})
    fits = occupancy(spec, demand)
    obstacle = _obstacle(launch, spec, demand, fits)
    status = CANNOT_LAUNCH if obstacle else OK
    ordered: dict[str, Figure] = {
        "status": status,
        **figures,
        "occupancy": fits.fraction,
        "occupancy_limiter": fits.limiter,
        "launches": len(launch.grids),
    }
    message = f"{launch.label} compiles for {target} and cannot be launched: {obstacle}" if obstacle else ""
    return Measured(status, ordered, message, _details(launch, code))


def _compiled(launch: Launch, spec: Device) -> tuple[dict[str, Figure], Demand, str]:
    kernel = launch.kernel
    form = repr((kernel.fn.cache_key, kernel.signature, kernel.constexprs, kernel.attrs, kernel.options))
    key = f"{spec.target} {form}"
    if key not in _known:
        compiled = compiler.compile_kernel(kernel)
        read = _read_cuda if spec.backend == "cuda" else _read_hip
        _known[key] = read(compiled, spec)
    figures, demand, code = _known[key]
    return dict(figures), demand, code


def _read_cuda(compiled: Any, spec: Device) -> tuple[dict[str, Figure], Demand, str]:
    ptx, metadata = compiled.asm["ptx"], compiled.metadata
    used = compiler.usage(compiled)
    tensor_memory = int(getattr(metadata, "tmem_size", 0) or 0)
    figures: dict[str, Figure] = {
        "registers": used.registers,
        "spill_bytes": used.spill_bytes,
        "stack_bytes": used.stack_bytes,
        "shared_bytes": int(metadata.shared or 0),
        "warps": int(metadata.num_warps),
        **assembly.count_ptx(ptx),
        "instructions": assembly.sass_instructions(compiled.asm["cubin"]),
    }
    if spec.tensor_memory_columns:
        figures["tensor_memory_columns"] = tensor_memory
    shared, warps = int(metadata.shared or 0), int(metadata.num_warps)
    demand = Demand(warps, used.registers, shared, used.barriers, tensor_memory)
    return figures, demand, _hash(_without_names(ptx, metadata.name, "//"))


def _read_hip(compiled: Any, spec: Device) -> tuple[dict[str, Figure], Demand, str]:
    text, metadata = compiled.asm["amdgcn"], compiled.metadata
    arch_vgprs, agprs = _gcn(text, r"; NumVgprs: (\d+)"), _gcn(text, r"\.agpr_count:\s+(\d+)")
    total = _gcn(text, r"; TotalNumVgprs: (\d+)") or _gcn(text, r"\.vgpr_count:\s+(\d+)")
    vgpr_spills = _gcn(text, r"\.vgpr_spill_count:\s+(\d+)")
    figures: dict[str, Figure] = {
        "registers": total,
        "spill_bytes": 4 * vgpr_spills,
        "stack_bytes": _gcn(text, r"\.private_segment_fixed_size:\s+(\d+)"),
        "shared_bytes": int(metadata.shared or 0),
        "warps": int(metadata.num_warps),
        "vgprs": arch_vgprs or total,
        "agprs": agprs,
        "sgprs": _gcn(text, r"\.sgpr_count:\s+(\d+)"),
        "vgpr_spills": vgpr_spills,
        "sgpr_spills": _gcn(text, r"\.sgpr_spill_count:\s+(\d+)"),
        **assembly.count_amdgcn(text),
    }
    demand = Demand(int(metadata.num_warps), total, int(metadata.shared or 0))
    return figures, demand, _hash(_without_names(text, metadata.name, ";"))


def _gcn(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def _obstacle(launch: Launch, spec: Device, demand: Demand, fits: Occupancy) -> str:
    """Why the device would refuse the launch; empty where it would not."""
    threads = demand.warps * spec.warp_size
    if demand.shared > spec.shared_per_block:
        return f"needs {demand.shared:,} bytes of shared memory, a block may have {spec.shared_per_block:,}"
    if threads > MAX_THREADS_PER_BLOCK:
        return f"needs {threads:,} threads, a block may have {MAX_THREADS_PER_BLOCK:,}"
    if spec.tensor_memory_columns and demand.tensor_memory > spec.tensor_memory_columns:
        return (
            f"needs {demand.tensor_memory:,} columns of tensor memory, "
            f"a multiprocessor has {spec.tensor_memory_columns:,}"
        )
    if fits.blocks == 0:
        return f"{demand.registers} registers for each of {threads:,} threads are more than there are"
    for grid in launch.grids:
        if spec.backend == "cuda":
            for axis, size, most in zip("xyz", grid, MAX_GRID_CUDA, strict=True):
                if size > most:
                    return f"grid {grid} is larger than {most:,} in {axis}"
        elif grid[0] * threads > MAX_WORK_ITEMS_HIP:
            return f"grid {grid} makes more than {MAX_WORK_ITEMS_HIP:,} work-items in x"
    return ""


_OPTIONS_OF_WORK = ("num_warps", "num_ctas", "launch_cooperative_grid", "launch_pdl")


def _details(launch: Launch, code: str) -> dict[str, Any]:
    options = {name: launch.options.get(name) for name in (*_OPTIONS_OF_WORK, "num_stages")}
    work = [
        code,
        [list(grid) for grid in launch.grids],
        launch.arguments,
        [options[name] for name in _OPTIONS_OF_WORK],
    ]
    return {
        "identity": _hash(repr(work)),
        "code": code,
        "grids": [list(grid) for grid in dict.fromkeys(launch.grids)],
        "options": options,
        "signature": launch.signature,
        "constexprs": launch.constexprs,
        "alignment": launch.alignment,
        "place": launch.place,
    }


def _without_names(text: str, name: str, comment: str) -> str:
    """The code without comments, and with the kernel's name replaced: neither makes other machine code.

    The text is hashed, not the binary: ptxas 13.1 may swap two registers for sm_100 from run to run.
    """
    lines = (line.split(comment, 1)[0].rstrip() for line in text.splitlines())
    return re.sub(rf"\b{re.escape(name)}(?=\b|_param)", "kernel", "\n".join(line for line in lines if line))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
