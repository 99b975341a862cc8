"""KG414: a test of the compute capability's major number that says something else than its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from kgate.lint.model.module import Module
from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.source.uses import integer

RULE = Rule(
    code="KG414",
    name="capability-major-only",
    severity=WARNING,
    summary="A test of the major compute capability decides about something that the major number does not tell.",
    why=(
        "Capabilities are not a ladder. Blackwell is 10.x in data centres, 11.0 in Thor and 12.x in consumer cards; "
        "only 12.x lacks tcgen05 and tensor memory. wgmma exists on 9.0 alone. fp8 begins at 8.9, not at 8.0. A test "
        "of the major number sends a card to code that it cannot run, or keeps it from code that it could."
    ),
    remedy="Compare the pair: `capability == (9, 0)`, `capability >= (8, 9)`, `capability[0] in (10, 11)`.",
    quiet="Tests whose name or assignment mentions no such feature, and tests that look at the minor number too.",
    sources=(
        "fla-org/flash-linear-attention#940",
        "vllm-project/vllm#33416",
        "unslothai/unsloth#10790",
    ),
    invalid=(
        Example(
            """
            import torch
            import triton

            IS_BLACKWELL = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 10
                                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="flash-linear-attention#940, before: consumer cards are 12.0.",
        ),
        Example("""
            import torch
            import triton

            def supports_fp8(device):
                major, _ = torch.cuda.get_device_capability(device)
                return major >= 8
                       ^^^^^^^^^^
        """),
        Example(
            """
            import torch
            import triton

            def dequantise(weight, scale, block):
                kernel_fp8_unsupported = (
                    weight.dtype == torch.float8_e4m3fn
                    and torch.cuda.get_device_capability(weight.device)[0] < 9
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                )
                if kernel_fp8_unsupported:
                    return weight.float() * scale
                return launch(weight, scale, block)
            """,
            note="unsloth#10790, before: Ada has the type and is sent to the slow path.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            IS_BLACKWELL = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] in (10, 11, 12)
            """,
            note="flash-linear-attention#940, after.",
        ),
        Example("""
            import torch
            import triton

            def supports_fp8(device):
                return torch.cuda.get_device_capability(device) >= (8, 9)

            def supports_bf16(device):
                return torch.cuda.get_device_capability(device)[0] >= 8
        """),
        Example(
            """
            import torch
            import triton

            def dequantise(weight, scale, block):
                kernel_fp8_unsupported = (
                    weight.dtype == torch.float8_e4m3fn
                    and torch.cuda.get_device_capability(weight.device) < (8, 9)
                )
                if kernel_fp8_unsupported:
                    return weight.float() * scale
                return launch(weight, scale, block)
            """,
            note="unsloth#10790, after.",
        ),
    ),
)

_NUMBERS = re.compile(r"(==|<|>=?)\s*(7|8|9|10)\b")
_PURPOSES = re.compile(r"blackwell|fp8|float8|e4m3|wgmma|hopper|sm_?90|sm_?100|tcgen|tmem|2cta", re.IGNORECASE)
_LATER_TOO = re.compile(r"plus|later|newer|at_least|or_|above|min_|_up", re.IGNORECASE)
_AT_LEAST = {ast.Gt: 1, ast.GtE: 0}


@RULE.module
def check(module: Module) -> Iterator[Hit]:
    """Comparisons of the major number whose name says what they are for."""
    if "capability" not in module.text or not _NUMBERS.search(module.text):
        return
    for function in [None, *module.functions.values()]:
        if function is None:
            body, name = module.tree.body, ""
        else:
            body, name = function.body, function.name
            lines = module.lines[function.lineno - 1 : function.end_lineno]
            if not any("capability" in line for line in lines) or not any(map(_NUMBERS.search, lines)):
                continue
        majors: frozenset[str] | None = None
        for statement, target in _statements(body):
            if not _PURPOSES.search(target or name):
                continue
            if majors is None:
                majors = _majors(item for item, _ in _statements(body))
            for node in ast.walk(statement):
                if isinstance(node, ast.Compare) and len(node.ops) == 1 and _is_major(module, node.left, majors):
                    found = _wrong(node, target or name)
                    if found and not _looks_at_minor(statement):
                        yield Hit(
                            node, f"{found}, and this decides about {target or name}", "compare the pair (major, minor)"
                        )


def _statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Simple statements with the name that they assign; of a compound one its test."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        inner += [handler.body for handler in getattr(statement, "handlers", [])]
        if any(inner):
            for block in inner:
                yield from _statements(block)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield statement, targets[0].id if isinstance(targets[0], ast.Name) else ""
        elif isinstance(statement, ast.Return):
            yield statement, ""


def _majors(body: Iterable[ast.stmt]) -> frozenset[str]:
    """Names that hold the major number."""
    found = set()
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and "capability" in ast.unparse(node.value):
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and target.elts and isinstance(target.elts[0], ast.Name):
                found.add(target.elts[0].id)
            elif (
                isinstance(target, ast.Name)
                and isinstance(node.value, ast.Subscript)
                and integer(node.value.slice) == 0
            ):
                found.add(target.id)
    return frozenset(found)


def _is_major(module: Module, node: ast.expr, majors: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in majors
    if isinstance(node, ast.Subscript) and integer(node.slice) == 0:
        text = module.segment(node.value)
        return "get_device_capability" in text or text in ("capability", "device_capability", "cc")
    return False


def _looks_at_minor(statement: ast.stmt) -> bool:
    text = ast.unparse(statement)
    return bool(re.search(r"minor|capability[^\n]*\[1\]|get_device_name", text))


def _wrong(node: ast.Compare, purpose: str) -> str:
    """What a comparison gets wrong for its purpose; empty where nothing."""
    number = integer(node.comparators[0])
    operator = type(node.ops[0])
    if number is None:
        return ""
    words = purpose.lower()
    if operator is ast.Eq:
        if number == 10 and "blackwell" in words and not re.search("datacenter|data_center|server", words):
            return "major == 10 leaves out Thor (11.0) and consumer Blackwell (12.x)"
        return ""
    if operator is ast.Lt and number == 9 and re.search(r"fp8|float8|e4m3", words):
        return "fp8 begins with 8.9, and a major number below 9 is 8.9 too"
    if operator not in _AT_LEAST or _LATER_TOO.search(words):
        return ""
    least = number + _AT_LEAST[operator]
    if least == 8 and re.search(r"fp8|float8|e4m3", words):
        return "fp8 begins with 8.9, and 8.0 and 8.6 pass too"
    if least == 9 and re.search(r"wgmma|hopper|sm_?90(?!\d)", words):
        return "Blackwell, which has no wgmma, passes too"
    if least == 10 and re.search(r"tcgen|tmem|sm_?100|2cta", words):
        return "12.x, which has no tcgen05, passes too"
    return ""
