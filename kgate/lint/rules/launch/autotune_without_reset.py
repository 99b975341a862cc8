"""KG401: tuning runs change an argument, and nothing puts it back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import Device
from kgate.lint.rule import ERROR, SAFE, WARNING, Example, Hit, Rule
from kgate.lint.rules.launch._shared import benchmarks, edit, in_static_branch
from kgate.source.records import Fix

if TYPE_CHECKING:
    from kgate.lint.model.device import Decorator
    from kgate.lint.records import Autotune

RULE = Rule(
    code="KG401",
    name="autotune-without-reset",
    severity=ERROR,
    lowered="a warning where tuning runs overwrite and do not add, or under a compile-time condition",
    summary="An autotuned function adds to an argument or updates it, and tuning does not put it back.",
    why=(
        "The tuner runs the function many times on the caller's own tensors to measure each configuration. What those "
        "runs add or change in place is still there when the chosen configuration runs, so the first call of each key "
        "returns wrong numbers, and every later one right ones."
    ),
    remedy="Name the argument in `restore_value`, or in `reset_to_zero` where each call starts from zeros.",
    quiet=(
        "Atomics that can be repeated without harm (`atomic_max`, `atomic_min`, `atomic_or`, `atomic_and`, locks), "
        "tuners with one configuration, hooks of the project's own, and arguments that the function writes before it "
        "reads them."
    ),
    sources=(
        "triton-lang/triton#6547",
        "triton-lang/triton#781",
        "lucidrains/lion-pytorch#36",
        "triton-lang/triton#4217",
    ),
    fix=SAFE,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"])
            @triton.jit
            def count(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n, other=0.0)
                tl.atomic_add(total_ptr, tl.sum(x))
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            fixed="""
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"], restore_value=["total_ptr"])
            @triton.jit
            def count(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n, other=0.0)
                tl.atomic_add(total_ptr, tl.sum(x))
            """,
            note="triton#4217, before and after: a sum that holds every tuning run.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"])
            @triton.jit
            def update(param_ptr, grad_ptr, rate, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                p = tl.load(param_ptr + i, mask=i < n)
                g = tl.load(grad_ptr + i, mask=i < n)
                tl.store(param_ptr + i, p - rate * g, mask=i < n)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="triton#781, triton#6547 and lion-pytorch#36, before: an update that tuning repeats.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"], restore_value=["param_ptr"])
            @triton.jit
            def update(param_ptr, grad_ptr, rate, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                p = tl.load(param_ptr + i, mask=i < n)
                g = tl.load(grad_ptr + i, mask=i < n)
                tl.store(param_ptr + i, p - rate * g, mask=i < n)
            """,
            note="triton#781, triton#6547 and lion-pytorch#36, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            CONFIGS = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]

            @triton.autotune(CONFIGS, key=["n"])
            @triton.jit
            def largest(x_ptr, most_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n, other=-1)
                tl.atomic_max(most_ptr, tl.max(x))
            """,
            note="A maximum is the same however often it is taken.",
        ),
    ),
)

_ADDING = ("atomic_add", "atomic_xor")
_DEPTH = 4
_SPLITS = ("SPLIT_K", "SPLITK", "NUM_KSPLIT")
"""Parameters that configurations from a file often set."""


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Arguments of tuned functions that runs change, each at the first place that does."""
    tuner, tuned = device.tuner, device.autotune
    if tuner is None or tuned is None or not benchmarks(tuner) or _restored_otherwise(device, tuner):
        return
    kept = {*tuned.reset, *tuned.restore}
    seen: set[str] = set()
    for node, name, how in _changes(device):
        if name in kept or name in seen or name not in device.parameters or _never_taken(device, node, tuned):
            continue
        seen.add(name)
        adds = how == "adds"
        yield Hit(
            node,
            f"tuning runs of {device.node.name} {'add to' if adds else 'update'} {name}, "
            "and neither restore_value nor reset_to_zero names it",
            f'write restore_value=["{name}"]' + (f', or reset_to_zero=["{name}"] if it starts at zero' if adds else ""),
            severity=ERROR if adds and not in_static_branch(device, node) else WARNING,
            fixes=_fixes(device, tuner, name),
            related=((tuner.node, "the tuner"),),
        )


def _restored_otherwise(device: Device, tuner: Decorator) -> bool:
    """Whether the tuner has hooks, or arguments that cannot be read here."""
    if tuner.call is None or tuner.argument("pre_hook") is not None:
        return True
    for name in ("reset_to_zero", "restore_value"):
        given = tuner.argument(name)
        nothing = given is None or (isinstance(given, ast.Constant) and given.value is None)
        if not nothing and device.strings(given) is None:
            return True
    spread = [keyword.value for keyword in tuner.call.keywords if keyword.arg is None]
    if any("cache" not in ast.unparse(value).lower() for value in spread):
        return True
    configs = tuner.argument("configs", 0)
    return configs is not None and "pre_hook" in device.module.text and _hooks(device, configs)


def _hooks(device: Device, configs: ast.expr) -> bool:
    roots: list[ast.AST] = [configs]
    for node in ast.walk(configs):
        if isinstance(node, ast.Name):
            roots += [value for value in device.module.constants.get(node.id, ()) if value is not None]
            if node.id in device.module.functions:
                roots.append(device.module.functions[node.id])
    return any(isinstance(node, ast.keyword) and node.arg == "pre_hook" for root in roots for node in ast.walk(root))


def _changes(device: Device, depth: int = 0) -> Iterator[tuple[ast.AST, str, str]]:
    """Places that change what an argument points to, the argument, and how; those in functions that are called too."""
    for call in device.called(*_ADDING):
        if call.first is not None:
            for name in sorted(device.pointers(call.first)):
                if not _cleared_before(device, name, call.node) and not _written_first(device, name, call.node):
                    yield call.node, name, "adds"
    for call in device.called("store"):
        base, value = call.first, call.argument("value")
        if base is None or value is None:
            continue
        pointers = device.pointers(base)
        if len(pointers) == 1:
            name = next(iter(pointers))
            if (
                name in device.summary.loads
                and _reads_back(device, name, base, value)
                and not _written_first(device, name, call.node)
            ):
                yield call.node, name, "updates"
    if depth >= _DEPTH:
        return
    for call in device.calls.get("", ()):
        callee = _callee(device, call.node)
        if callee is None or callee is device:
            continue
        names = list(callee.parameters)
        given = dict(zip(names, call.node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.node.keywords if keyword.arg}
        for _, name, how in _changes(callee, depth + 1):
            if name in given:
                pointers = device.pointers(given[name])
                if len(pointers) == 1:
                    yield call.node, next(iter(pointers)), how


def _never_taken(device: Device, node: ast.AST, tuned: Autotune) -> bool:
    """Whether a node stands in a branch on a parameter of the configurations to which they give one value, or values
    that cannot be read: all runs then do the same, and the launcher knows which."""
    inner = node
    for outer in device.ancestors(node):
        if isinstance(outer, ast.If) and inner is not outer.test:
            names = {source[10:] for source in device.sources(outer.test) if source.startswith("constexpr:")}
            chosen = names & {*tuned.configured, *_SPLITS}
            if chosen and all(len(tuned.values.get(name, ())) < 2 for name in chosen):
                return True
        inner = outer
    return False


def _cleared_before(device: Device, name: str, node: ast.Call) -> bool:
    """Whether the function stores zeros to an argument further up, by whichever program."""
    return any(
        call.first is not None
        and name in device.pointers(call.first)
        and call.node.lineno < node.lineno
        and isinstance(value := call.argument("value"), ast.Constant)
        and value.value == 0
        for call in device.called("store")
    )


def _reads_back(device: Device, name: str, address: ast.expr, value: ast.expr) -> bool:
    """Whether a value is computed from what was at its own address before. A choice between that and something else is
    not: made twice, it is the same."""
    if f"load:{name}" not in device.sources(value):
        return False
    value = device.value_of(value)
    call = device.call_of.get(value) if isinstance(value, ast.Call) else None
    while call is not None and call.name in ("to", "cast") and call.first is not None:
        value = device.value_of(call.first)
        call = device.call_of.get(value) if isinstance(value, ast.Call) else None
    if call is not None and call.name in ("where", "load", "maximum", "minimum"):
        return False
    number = device.tiles.number(address)
    return any(call.first is not None and device.tiles.number(call.first) == number for call in device.called("load"))


def _written_first(device: Device, name: str, store: ast.Call) -> bool:
    """Whether the function stores to an argument before it loads from it, as scratch space."""
    for call in device.accesses:
        if call.first is not None and name in device.pointers(call.first):
            return call.name == "store" and call.node is not store
    return False


def _callee(device: Device, node: ast.Call) -> Device | None:
    if not isinstance(node.func, ast.Name) or node.func.id in device.bindings:
        return None
    for other in device.module.devices:
        if other.name == node.func.id:
            return other
    return None


def _fixes(device: Device, tuner: Decorator, name: str) -> tuple[Fix, ...]:
    if tuner.dotted not in ("triton.autotune", "triton.runtime.autotune", "triton.runtime.autotuner.autotune"):
        return ()
    given = tuner.argument("restore_value")
    if isinstance(given, (ast.List, ast.Tuple)):
        names = [str(item.value) for item in given.elts if isinstance(item, ast.Constant)]
    elif given is None:
        names = []
    else:
        return ()
    text = "[" + ", ".join(f'"{item}"' for item in (*names, name)) + "]"
    change = edit(device.module, tuner.node, "set-argument", text, "restore_value")
    return (Fix(f"Restore {name} after each tuning run", True, (change,)),)
