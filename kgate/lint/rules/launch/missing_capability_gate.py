"""KG413: a feature that a declared target does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import Device
from kgate.lint.model.host import Host
from kgate.lint.rule import ERROR, Example, Hit, Rule
from kgate.lint.rules.launch._shared import in_static_branch

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, Project
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

_CLUSTERED = """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, x.to({dtype}), mask=i < n)
{mark}
            def eager(x: torch.Tensor) -> torch.Tensor:
                return x.clone()

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={{"x": Tensor("N", "T", layout="contiguous")}},
                    outputs={{"y": Tensor("N", "T", layout="contiguous")}},
                    dtypes={{"T": ("float32",)}},
                    dims={{"N": Dim(1, 2**20)}},
                    targets=({targets}),
                ),
            )
            def copy(x: torch.Tensor) -> torch.Tensor:
                y = torch.empty_like(x)
                n = x.numel()
                copy_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024{option})
                {after}return y
"""

RULE = Rule(
    code="KG413",
    name="missing-capability-gate",
    severity=ERROR,
    summary="A device function uses a type or feature that a declared target does not have.",
    why=(
        "The function does not compile there: `tl.float8e4nv` begins with sm_89, clusters (`num_ctas`) with sm_90, PTX "
        "and CUDA's libdevice are CUDA's. A user of that target meets it as a crash instead of the fallback."
    ),
    remedy="Take the target out of the envelope, or choose the feature by the target's capability.",
    quiet="Undeclared kernels, branches that compile-time values choose, and launchers that look at the device.",
    sources=(
        "vllm-project/vllm#54280",
        "vllm-project/vllm#40127",
    ),
    invalid=(
        Example(
            _CLUSTERED.format(
                dtype="tl.float8e4nv",
                mark="                                         ^^^^^^^^^^^^^\n",
                targets='"cuda:sm_80", "cuda:sm_90"',
                option="",
                after="",
            ),
            note="vllm#54280 and #40127, before: the type begins with 8.9.",
        ),
        Example(
            _CLUSTERED.format(
                dtype="tl.float32",
                mark="",
                targets='"cuda:sm_80", "cuda:sm_90"',
                option=", num_ctas=2",
                after=f"{' ' * 67}^\n                ",
            )
        ),
    ),
    valid=(
        Example(
            _CLUSTERED.format(
                dtype="tl.float8e4nv", mark="", targets='"cuda:sm_89", "cuda:sm_90"', option=", num_ctas=1", after=""
            ),
            note="vllm#54280 and #40127, after: every declared target has the type.",
        ),
    ),
)

_ASKS = (
    "capab",
    "is_hip",
    "is_cuda",
    "is_hopper",
    "is_blackwell",
    "get_device_properties",
    "current_target",
    "get_arch",
    "arch_name",
)
"""Parts of the names of functions that look at the device."""
_CUDA_ONLY = "triton.language.extra.cuda."
_AMD_ASSEMBLY = re.compile(r"\s*(v_|s_|ds_|buffer_|global_)")


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Types and calls that some targets lack."""
    source = device.module.text
    if "float8e4nv" in source:
        for node in device.parents:
            if isinstance(node, ast.Attribute) and node.attr == "float8e4nv" and _cast(device, node):
                yield Hit(node, "tl.float8e4nv", data={"below": 89, "hip": False})
    if "inline_asm_elementwise" in source:
        for call in device.called("inline_asm_elementwise"):
            assembly = call.argument("asm") or call.first
            text = assembly.value if isinstance(assembly, ast.Constant) else None
            if isinstance(text, str) and not _AMD_ASSEMBLY.match(text) and not in_static_branch(device, call.node):
                yield Hit(call.node.func, "PTX", data={"below": 0, "hip": True})
    if "extra.cuda" in source:
        for call_node in device.call_nodes:
            if device.module.dotted(call_node.func).startswith(_CUDA_ONLY) and not in_static_branch(device, call_node):
                yield Hit(call_node.func, "CUDA's libdevice", data={"below": 0, "hip": True})


def _cast(device: Device, node: ast.Attribute) -> bool:
    """Whether a type is handed to a call that always runs; a comparison of types asks first."""
    if not isinstance(device.parents[node], (ast.Call, ast.keyword)) or in_static_branch(device, node):
        return False
    return device.module.dotted(node) == "triton.language.float8e4nv"


@RULE.host
def gates(host: Host) -> Iterator[Hit]:
    """Launchers that look at the device: what they launch is chosen."""
    memory = host.module.memory
    if RULE.code not in memory:
        text = host.module.text.lower()
        memory[RULE.code] = any(part in text for part in _ASKS)
    if (
        memory[RULE.code]
        and host.launches
        and any(part in dotted.lower() for _, dotted in host.calls for part in _ASKS)
    ):
        yield Hit(host.node, "looks at the device", data={"gate": True})


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Where a declared target lacks it."""
    data = candidate.data
    device = project.device(candidate.path, candidate.symbol)
    if "gate" in data or device is None or _gated(project, device):
        return
    name = device.kernels[0].name if device.kernels else ""
    for target in device.targets:
        if _lacks(target, data["below"], data["hip"]):
            yield project.confirm(
                RULE,
                candidate,
                f"{candidate.message} does not exist on {target}, which the envelope of {name} promises",
                "take the target out, or choose by the device's capability",
            )
            return


@RULE.project
def clusters(project: Project) -> Iterator[Finding]:
    """Clusters on targets that have none."""
    for device in project.devices.values():
        lacking = [target for target in device.targets if _lacks(target, 90, True)]
        if not lacking or _gated(project, device):
            continue
        for launch in device.launches:
            given = launch.arguments.get("num_ctas")
            if given is not None and given.form.isdecimal() and int(given.form) > 1:
                message = f"num_ctas={given.form} needs sm_90, and the envelope promises {lacking[0]}"
                yield project.finding(RULE, launch.path, given.place, message, "use 1 there", symbol=launch.launch.by)
        tuned = device.summary.autotune
        if tuned is not None and tuned.values.get("num_ctas") and min(tuned.values["num_ctas"]) > 1:
            message = (
                f"every configuration of {device.summary.name} has clusters, and the envelope promises {lacking[0]}"
            )
            yield project.finding(
                RULE, device.path, tuned.place, message, "add one without", symbol=device.summary.name
            )


def _lacks(target: str, below: int, hip: bool) -> bool:
    if target.startswith("hip:"):
        return hip
    number = target.removeprefix("cuda:sm_")
    return number.isdecimal() and int(number) < below


def _gated(project: Project, device: LinkedDevice) -> bool:
    for launch in device.launches:
        facts = project.files.get(launch.path)
        for candidate in facts.candidates if facts is not None else ():
            if candidate.code == RULE.code and "gate" in candidate.data and candidate.symbol == launch.launch.by:
                return True
    return False
