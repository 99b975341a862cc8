"""KG211 atomic-into-uninitialised: a kernel accumulates atomically into memory that nothing has set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.calls import ATOMICS
from kgate.lint.rule import ERROR, UNSAFE, Example, Hit, Rule
from kgate.lint.rules.memory._allocations import allocated, uninitialised
from kgate.source.records import Edit, Fix

if TYPE_CHECKING:
    from kgate.lint.linking import LinkedDevice, LinkedLaunch, Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG211",
    name="atomic-into-uninitialised",
    severity=ERROR,
    summary="A kernel updates memory atomically that the launcher allocated with `torch.empty`.",
    why=(
        "An atomic adds to what is there, and fresh memory holds what its last owner left. The caching allocator hands "
        "out zeros in a new process and leftovers later, so the first call is right and the thousandth is not."
    ),
    remedy="Allocate with `torch.zeros`, or with the identity of the operation.",
    quiet=(
        "Buffers that something else touches before the launch (`.zero_()`, `.fill_()`, a copy, another kernel), "
        "kernels "
        "that store to the buffer too, atomics in branches on compile-time constants, `reset_to_zero` and `pre_hook` "
        "of the tuner, and exchanges."
    ),
    sources=("ByteDance-Seed/Triton-distributed#182", "triton-lang/triton#2183"),
    fix=UNSAFE,
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.atomic_add(y_ptr, tl.sum(x, axis=0))

            def total(x):
                y = torch.empty((), dtype=torch.float32, device=x.device)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            fixed="""
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.atomic_add(y_ptr, tl.sum(x, axis=0))

            def total(x):
                y = torch.zeros((), dtype=torch.float32, device=x.device)
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="Triton-distributed#182, before.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _largest(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=-1)
                tl.atomic_max(y_ptr + offs % 8, x)

            def largest(x):
                y = x.new_empty(8)
                    ^^^^^^^^^^^^^^
                _largest[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="A maximum needs its own identity, so no fix is offered.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _splitk(a_ptr, b_ptr, c_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
                n = tl.arange(0, BN)
                k = tl.program_id(1) * BK + tl.arange(0, BK)
                a = tl.load(a_ptr + tl.program_id(0) * K + k, mask=k < K, other=0.0)
                b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
                tl.atomic_add(c_ptr + tl.program_id(0) * N + n, tl.sum(a[:, None] * b, axis=0), mask=n < N)

            def product(a, b):
                c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=torch.float32)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                _splitk[(a.shape[0], triton.cdiv(a.shape[1], 64))](a, b, c, b.shape[1], a.shape[1], BN=128, BK=64)
                return c
            """,
            note="triton#2183 without its hook: the parts of a split product are added to what the memory held.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.atomic_add(y_ptr, tl.sum(x, axis=0))

            def total(x):
                y = torch.zeros((), dtype=torch.float32, device=x.device)
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="Triton-distributed#182, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
                tl.atomic_add(y_ptr, tl.sum(x, axis=0))

            def total(x):
                y = torch.empty((), dtype=torch.float32, device=x.device)
                y.zero_()
                _total[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            def zero(args):
                args["c_ptr"].zero_()

            CONFIGS = [triton.Config({"SPLIT": split}, pre_hook=zero) for split in (2, 4)]

            @triton.autotune(CONFIGS, key=["N", "K"])
            @triton.jit
            def _splitk(a_ptr, c_ptr, N, K, SPLIT: tl.constexpr, BK: tl.constexpr):
                row = tl.program_id(0)
                total = 0.0
                for k in range(tl.program_id(1) * BK, K, SPLIT * BK):
                    offs = k + tl.arange(0, BK)
                    total += tl.sum(tl.load(a_ptr + row * K + offs, mask=offs < K, other=0.0).to(tl.float32))
                tl.atomic_add(c_ptr + row, total)

            def sums(a):
                c = torch.empty((a.shape[0],), device=a.device, dtype=torch.float32)
                _splitk[lambda meta: (a.shape[0], meta["SPLIT"])](a, c, a.shape[0], a.shape[1], BK=128)
                return c
            """,
            note="triton#2183: zeros that the hook of each configuration writes.",
        ),
    ),
)

_ZEROS = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
_ACCUMULATING = ATOMICS - {"atomic_xchg", "atomic_cas"}


@RULE.device
def atomics(device: Device) -> Iterator[Hit]:
    """Note for the decisions: the pointers that are updated atomically, and how."""
    found: dict[str, set[str]] = {}
    for call in device.called(*sorted(_ACCUMULATING)):
        if not _in_variant(device, call):
            for pointer in device.pointers(call.first) if call.first is not None else ():
                found.setdefault(pointer, set()).add(call.name)
    if found and not any("pre_hook" in ast.unparse(item.node) or "hook" in item.name for item in device.decorators):
        tuner = device.tuner
        if tuner is not None and _hooked(device):
            return
        yield Hit(
            device.module.name_place(device.node),
            "",
            data={"atomics": {name: sorted(how) for name, how in found.items()}},
        )


def _in_variant(device: Device, call: Call) -> bool:
    """Whether a compile-time constant decides about it, so that this launch may not make it."""
    return any(
        isinstance(outer, ast.If) and any(item.startswith("constexpr:") for item in device.sources(outer.test))
        for outer in device.ancestors(call.node)
    )


def _hooked(device: Device) -> bool:
    """Whether configurations of the tuner that are written elsewhere in the file have a hook."""
    return "pre_hook" in device.module.text


@RULE.host
def allocations(host: Host) -> Iterator[Hit]:
    """Launch arguments whose memory nothing has set."""
    for launch in host.launches:
        for name, argument, allocation in uninitialised(host, launch):
            function = allocation.func
            last = function.attr if isinstance(function, ast.Attribute) else ""
            fixes: tuple[Fix, ...] = ()
            if last in _ZEROS and isinstance(function, ast.Attribute):
                line, column, end_line, end_column = host.module.place(function)
                text = f"{host.module.segment(function.value)}.{_ZEROS[last]}"
                edit = Edit("replace", line, column, end_line, end_column, text)
                fixes = (Fix(f"Allocate with {_ZEROS[last]}", False, (edit,)),)
            yield Hit(
                allocation,
                f"{argument} is not initialised",
                "allocate it with the identity of the operation, torch.zeros for a sum",
                fixes=fixes,
                data={"by": host.name, "line": host.module.place(launch.node)[0], "argument": name, "text": argument},
            )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where the launched kernel updates the argument atomically and stores nothing to it."""
    import msgspec

    if "argument" not in candidate.data:
        return
    text = candidate.data["text"]
    for device, launch, parameter in allocated(project, candidate):
        how = _atomics(project, device).get(parameter)
        if not how or parameter in device.summary.stores or _reset(device, parameter) or _loaded(launch, text):
            continue
        message = f"{text} is allocated without values, and {device.summary.name} updates it with tl.{how[0]}"
        if how != ["atomic_add"]:
            candidate = msgspec.structs.replace(candidate, fixes=())
        yield project.confirm(RULE, candidate, message)
        return


def _loaded(launch: LinkedLaunch, text: str) -> bool:
    """Whether the same buffer is handed on twice, and so may be set through the other parameter."""
    return sum(argument.text == text for argument in launch.arguments.values()) > 1


def _reset(device: LinkedDevice, parameter: str) -> bool:
    tuned = device.summary.autotune
    return tuned is not None and parameter in (*tuned.reset, *tuned.restore)


def _atomics(project: Project, device: LinkedDevice) -> dict[str, list[str]]:
    for item in project.files[device.path].candidates:
        if item.code == RULE.code and "atomics" in item.data and item.symbol == device.summary.name:
            return dict(item.data["atomics"])
    return {}
