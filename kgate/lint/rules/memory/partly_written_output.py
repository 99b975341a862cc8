"""KG212 partly-written-output: some programs leave their part of an uninitialised output unwritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.memory._allocations import allocated

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG212",
    name="partly-written-output",
    severity=WARNING,
    summary="A program that leaves early, on a value it has loaded, writes nothing to an output from `torch.empty`.",
    why=(
        "The caller gets leftovers of other tensors for the rows that were skipped. They often look plausible, and "
        "turn into NaN in a reduction much later."
    ),
    remedy="Store the neutral value before leaving, or allocate the output with values.",
    quiet=(
        "Outputs allocated with values or set before the launch, exits that compare an index with a bound, and exits "
        "that store something to the output first."
    ),
    sources=(
        "fla-org/flash-linear-attention#892",
        "fla-org/flash-linear-attention#1158",
        "flashinfer-ai/flashinfer#4724",
    ),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _scale(x_ptr, active_ptr, y_ptr, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                if tl.load(active_ptr + row) == 0:
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                    return
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * N + cols, mask=cols < N)
                tl.store(y_ptr + row * N + cols, x * 2, mask=cols < N)

            def scale(x, active):
                y = torch.empty_like(x)
                _scale[(x.shape[0],)](x, active, y, x.shape[1], BLOCK=1024)
                return y
            """,
            note="flashinfer#4724, before: rows that are not active keep what was in memory.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _keep(x_ptr, keep_ptr, y_ptr, N, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                keep = tl.load(keep_ptr + offs, mask=offs < N, other=0)
                x = tl.load(x_ptr + offs, mask=offs < N)
                tl.store(y_ptr + offs, x, mask=(offs < N) & (keep != 0))
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            def keep(x, keep):
                y = torch.empty_like(x)
                _keep[(triton.cdiv(x.numel(), 1024),)](x, keep, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="The mask skips elements by their value.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _scale(x_ptr, active_ptr, y_ptr, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                cols = tl.arange(0, BLOCK)
                if tl.load(active_ptr + row) == 0:
                    tl.store(y_ptr + row * N + cols, 0.0, mask=cols < N)
                    return
                x = tl.load(x_ptr + row * N + cols, mask=cols < N)
                tl.store(y_ptr + row * N + cols, x * 2, mask=cols < N)

            def scale(x, active):
                y = torch.empty_like(x)
                _scale[(x.shape[0],)](x, active, y, x.shape[1], BLOCK=1024)
                return y
            """,
            note="flashinfer#4724, after.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl

            @triton.jit
            def _scale(x_ptr, active_ptr, y_ptr, N, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                if tl.load(active_ptr + row) == 0:
                    return
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * N + cols, mask=cols < N)
                tl.store(y_ptr + row * N + cols, x * 2, mask=cols < N)

            def scale(x, active):
                y = torch.zeros_like(x)
                _scale[(x.shape[0],)](x, active, y, x.shape[1], BLOCK=1024)
                return y
            """,
        ),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Outputs whose stores all stand behind a condition on a loaded value."""
    stores = device.called("store")
    if not stores:
        return
    by_pointer: dict[str, list[Call]] = {}
    for call in stores:
        for pointer in device.pointers(call.first) if call.first is not None else ():
            by_pointer.setdefault(pointer, []).append(call)
    for statement in device.statements:
        if isinstance(statement, ast.If) and not statement.orelse and _on_a_value(device, statement.test):
            for pointer, calls in by_pointer.items():
                if all(_skipped(device, statement, call) and not _scattered(device, call) for call in calls):
                    yield Hit(
                        statement,
                        f"programs that this condition sends away write nothing to {pointer}",
                        f"store a neutral value to {pointer} there, or allocate it with values",
                        related=((calls[0].node, "the others store here"),),
                        data={"pointer": pointer},
                    )

    for pointer, calls in by_pointer.items():
        chosen = calls[0].argument("mask")
        if len(calls) == 1 and chosen is not None and not _scattered(device, calls[0]):
            for condition in device.tiles.conjuncts(chosen):
                if _on_a_value(device, condition):
                    yield Hit(
                        calls[0].node,
                        f"the mask leaves elements of {pointer} unwritten by the value of "
                        f"`{device.module.segment(condition)}`",
                        f"store tl.where(condition, value, neutral) to {pointer} instead, or allocate it with values",
                        data={"pointer": pointer},
                    )
                    break


def _scattered(device: Device, call: Call) -> bool:
    """Whether the address depends on loaded values or sums, so that other elements may fill the gaps."""
    sources = device.sources(call.first) if call.first is not None else frozenset()
    return any(item.startswith(("load:", "call:")) for item in sources)


def _on_a_value(device: Device, test: ast.expr) -> bool:
    """Whether a condition asks whether a loaded value is something, rather than where a bound is."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare):
        if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            return False
        sides = [device.value_of(item) for item in (test.left, test.comparators[0])]
        return any(_is_load(device, item) for item in sides) and any(
            isinstance(item, (ast.Constant, ast.UnaryOp)) for item in sides
        )
    return _is_load(device, device.value_of(test))


def _is_load(device: Device, node: ast.expr) -> bool:
    for _ in range(5):
        call = device.call_of.get(node) if isinstance(node, ast.Call) else None
        if call is None:
            return False
        if call.name == "load":
            return True
        if call.name not in ("to", "cast") or call.first is None:
            return False
        node = device.value_of(call.first)
    return False


def _skipped(device: Device, condition: ast.If, call: Call) -> bool:
    """Whether a store is not made by all programs because of a condition: behind its return, or inside."""
    inside = condition in device.ancestors(call.node)
    leaves = bool(condition.body) and isinstance(condition.body[-1], ast.Return)
    if leaves:
        return not inside and call.node.lineno > condition.lineno
    return inside


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where a launch is handed memory without values for the output."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    for launch in device.launches:
        argument = launch.arguments.get(candidate.data["pointer"])
        if argument is None:
            continue
        for note in _notes(project).get((launch.path, launch.launch.by, launch.launch.place[0], argument.name), ()):
            for found, _, _ in allocated(project, note):
                if found is device:
                    message = f"{candidate.message}, which {launch.launch.by} allocates without values"
                    yield project.confirm(RULE, candidate, message)
                    return


_Key = tuple[str, str, int, str]


def _notes(project: Project) -> dict[_Key, list[Candidate]]:
    """Arguments without values, as the rule about atomics notes them: file, launcher, line and argument."""
    import msgspec

    known: dict[_Key, list[Candidate]] | None = project.memory.get("_uninitialised")
    if known is None:
        known = project.memory["_uninitialised"] = {}
        for path, facts in project.files.items():
            for item in facts.candidates:
                if item.code == "KG211" and "argument" in item.data:
                    key = (path, item.data["by"], item.data["line"], item.data["argument"])
                    known.setdefault(key, []).append(msgspec.structs.replace(item, path=path))
    return known
