"""KG510 timing-tampering: what measures or orders the kernel is replaced, or bypassed by a stream of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule
from kgate.lint.rules.host._shared import is_aside, last

if TYPE_CHECKING:
    from kgate.lint.model.host import Host
    from kgate.lint.model.module import Module

RULE = Rule(
    code="KG510",
    name="timing-tampering",
    severity=ERROR,
    lowered="a warning for launches on a stream of their own",
    summary=(
        "A timer, a synchronisation or a comparison of torch is replaced, or a launch runs on a stream "
        "nobody waits for."
    ),
    why=(
        "A module that replaces `torch.cuda.Event`, `torch.cuda.synchronize` or `time.perf_counter` changes what "
        "benchmarks measure. A launch on a stream of its own, which the current stream never waits for, looks "
        "instant to events on the current stream, and its result is read before it is there."
    ),
    remedy="Leave timers and synchronisation alone; let the current stream wait for a side stream.",
    quiet="Tests and benchmarks; side streams that are waited for or synchronised.",
    sources=("flashinfer-ai/flashinfer-bench-starter-kit#21",),
    invalid=(
        Example(
            """
            import torch
            import triton

            def _elapsed(self, other):
                return 0.01

            torch.cuda.Event.elapsed_time = _elapsed
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
        ),
        Example(
            """
            import torch
            import triton

            def install():
                setattr(torch.cuda, "synchronize", lambda *args: None)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _double(x_ptr, y_ptr):
                ...

            def double(x):
                y = torch.empty_like(x)
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    _double[(x.numel(),)](x, y)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
                return y
            """,
            note="The caller's stream does not wait for the result.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _double(x_ptr, y_ptr):
                ...

            def double(x):
                y = torch.empty_like(x)
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    _double[(x.numel(),)](x, y)
                torch.cuda.current_stream().wait_stream(side)
                return y
            """,
        ),
        Example(
            """
            import torch
            import triton

            class Timer:
                def start(self):
                    self.event = torch.cuda.Event(enable_timing=True)
                    self.event.record()
            """,
        ),
    ),
)
_MEASURING = {
    "torch.cuda": ("Event", "synchronize", "current_stream", "default_stream", "Stream", "stream"),
    "torch.cuda.Event": ("elapsed_time", "record", "synchronize", "query"),
    "torch.cuda.Stream": ("synchronize", "wait_stream"),
    "torch": ("Event", "allclose", "isclose", "equal"),
    "torch.Event": ("elapsed_time",),
    "time": ("time", "perf_counter", "perf_counter_ns", "time_ns", "monotonic", "process_time"),
    "triton.testing": ("do_bench", "do_bench_cudagraph"),
    "torch.testing": ("assert_close",),
    "torch.utils.benchmark": ("Timer",),
}
_NAMES = frozenset(f"{owner}.{name}" for owner, names in _MEASURING.items() for name in names)
_LAST_NAMES = frozenset(name for names in _MEASURING.values() for name in names)
_ASSIGNED = re.compile(r"\.(\w+)\s*=(?!=)")


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Assignments to what measures, and ``setattr`` on it."""
    text = module.text
    if is_aside(module.path) or not ("setattr(" in text or not _LAST_NAMES.isdisjoint(_ASSIGNED.findall(text))):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
                if isinstance(target, ast.Attribute) and module.dotted(target) in _NAMES:
                    yield _replaced(target, module.dotted(target))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            name = ".".join(_named(module, node))
            if name in _NAMES:
                yield _replaced(node, name)


def _named(module: Module, node: ast.Call) -> Iterator[str]:
    """What a ``setattr`` sets: the owner, and the name where it is written out."""
    if len(node.args) == 3 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
        yield module.dotted(node.args[0])
        yield node.args[1].value


def _replaced(node: ast.AST, name: str) -> Hit:
    return Hit(node, f"{name} is replaced for the whole process", "leave timers, streams and comparisons alone")


@RULE.host
def side_stream(host: Host) -> Iterator[Hit]:
    """Launches on a new stream that nothing in the function waits for."""
    if not host.launches or "Stream(" not in host.module.text or is_aside(host.module.path):
        return
    if any(last(dotted) in ("wait_stream", "wait_event", "synchronize", "wait") for _, dotted in host.calls):
        return
    for launch in host.launches:
        for outer in host.ancestors(launch.node):
            if isinstance(outer, ast.With) and any(_is_new(host, item.context_expr) for item in outer.items):
                yield Hit(
                    launch.node,
                    f"{host.name} launches {launch.callees[0]} on a stream of its own, which nothing waits for",
                    "launch on the current stream, or let it wait for the side stream",
                    severity=WARNING,
                )


def _is_new(host: Host, context: ast.expr) -> bool:
    """Whether a context makes a stream current that the function has just made."""
    if not isinstance(context, ast.Call) or not context.args:
        return False
    if host.module.dotted(context.func) not in ("torch.cuda.stream", "torch.xpu.stream"):
        return False
    stream = host.value_of(context.args[0])
    return isinstance(stream, ast.Call) and last(host.module.dotted(stream.func)) == "Stream"
