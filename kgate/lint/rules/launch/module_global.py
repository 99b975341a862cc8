"""KG406: a plain module global read in a device function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.model.device import FLOATS, INTEGERS, Device
from kgate.lint.model.module import Module
from kgate.lint.rule import ERROR, FORKS, UNSAFE, Example, Hit, Rule
from kgate.lint.rules.launch._shared import edit
from kgate.source.records import Fix

RULE = Rule(
    code="KG406",
    name="module-global",
    severity=ERROR,
    except_in=FORKS,
    summary="A device function reads a module-level number, string or other plain value that is no `tl.constexpr`.",
    why=(
        "Triton refuses it when the function is compiled (`Cannot access global variable`), because a later change of "
        "the variable would not compile the function anew. The annotation `NAME: tl.constexpr = 4` does not help: "
        "Triton looks at the value, not at the annotation."
    ),
    remedy="Wrap the value: `NAME = tl.constexpr(4)`, or pass it as a `tl.constexpr` parameter.",
    quiet=(
        "`tl.constexpr(...)` values, dtypes of `tl`, modules and functions, defaults of parameters, and files that set "
        "`TRITON_ALLOW_NON_CONSTEXPR_GLOBALS`."
    ),
    sources=("linkedin/Liger-Kernel#1275", "flagos-ai/FlagGems#118", "triton-lang/triton#7322"),
    fix=UNSAFE,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            LOG2E = 1.4426950408889634

            @triton.jit
            def scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, tl.exp2(x * LOG2E), mask=i < n)
                                                ^^^^^
            """,
            fixed="""
            import triton
            import triton.language as tl

            LOG2E = tl.constexpr(1.4426950408889634)

            @triton.jit
            def scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < n)
                tl.store(y_ptr + i, tl.exp2(x * LOG2E), mask=i < n)
            """,
            note="Liger-Kernel#1275 and FlagGems#118, before and after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            GROUP: tl.constexpr = 8

            @triton.jit
            def order(y_ptr, n):
                pid = tl.program_id(0)
                tl.store(y_ptr + pid, pid % GROUP)
                                            ^^^^^
            """,
            fixed="""
            import triton
            import triton.language as tl

            GROUP: tl.constexpr = tl.constexpr(8)

            @triton.jit
            def order(y_ptr, n):
                pid = tl.program_id(0)
                tl.store(y_ptr + pid, pid % GROUP)
            """,
            note="The annotation alone is not enough.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            GROUP = tl.constexpr(8)
            ACC = tl.float32

            @triton.jit
            def order(y_ptr, n):
                pid = tl.program_id(0)
                tl.store(y_ptr + pid, (pid % GROUP).to(ACC))
        """,
            note="Liger-Kernel#1275 and FlagGems#118, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            GROUP = 8

            @triton.jit
            def order(y_ptr, n, G: tl.constexpr = GROUP):
                pid = tl.program_id(0)
                tl.store(y_ptr + pid, pid % G)
            """,
            note="A parameter's default may be a plain global.",
        ),
    ),
)

_NUMERIC_CALLS = frozenset(
    {"float", "int", "bool", "str", "len", "abs", "round", "min", "max", "tuple", "list", "dict"}
)
_PLAIN_ROOTS = ("math.", "os.getenv", "os.environ", "torch.finfo", "torch.iinfo", "torch.cuda.get_device_capability")
_TORCH_TYPES = frozenset({*FLOATS, *INTEGERS, "bool", "half", "float"})


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Reads of plain globals, each name at its first one."""
    module = device.module
    names = _plain_globals(module)
    if not names:
        return
    seen: set[str] = set()
    reads = [node for node in device.nodes(ast.Name) if node.id in names]
    for node in sorted(reads, key=lambda item: (item.lineno, item.col_offset)):
        name = node.id
        if name in seen or name in device.bindings or _annotation(device, node):
            continue
        seen.add(name)
        yield Hit(
            node,
            f"{name} is a plain global, which Triton refuses in {device.node.name}",
            f"write {name} = tl.constexpr(...), or pass it as a tl.constexpr parameter",
            fixes=_fixes(module, name),
            related=tuple((value, "its value") for value in module.constants[name] if value is not None),
        )


def _annotation(device: Device, node: ast.AST) -> bool:
    """Whether a name is (part of) the annotation of a local variable."""
    inner = node
    for outer in device.ancestors(node):
        if isinstance(outer, ast.AnnAssign):
            return inner is outer.annotation
        inner = outer
    return False


def _plain_globals(module: Module) -> frozenset[str]:
    """Globals whose every value is plain."""
    known = module.memory.get("KG406")
    if known is None:
        known = frozenset(
            name
            for name, values in module.constants.items()
            if values and all(value is not None and _plain(module, value) for value in values)
        )
        if "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS" in module.text:
            known = frozenset()
        module.memory["KG406"] = known
    return known


def _plain(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is one that Triton refuses: a number, string, torch dtype or collection, never a constexpr."""
    if depth > 8:
        return False
    if isinstance(node, ast.Constant):
        return node.value is not None and node.value is not Ellipsis
    if isinstance(node, (ast.JoinedStr, ast.Dict, ast.Set)):
        return True
    if isinstance(node, (ast.Tuple, ast.List)):
        return bool(node.elts)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) or _plain(module, node.operand, depth + 1)
    if isinstance(node, ast.BinOp):
        return _plain(module, node.left, depth + 1) and _plain(module, node.right, depth + 1)
    if isinstance(node, ast.BoolOp):
        return all(_plain(module, value, depth + 1) for value in node.values)
    if isinstance(node, ast.Compare):
        return _plain(module, node.left, depth + 1) or all(_plain(module, item, depth + 1) for item in node.comparators)
    if isinstance(node, ast.IfExp):
        return _plain(module, node.body, depth + 1) and _plain(module, node.orelse, depth + 1)
    if isinstance(node, ast.Name):
        values = module.constants.get(node.id, ())
        return bool(values) and all(value is not None and _plain(module, value, depth + 1) for value in values)
    if isinstance(node, ast.Attribute):
        dotted = module.dotted(node)
        return dotted.startswith("math.") or (dotted.startswith("torch.") and node.attr in _TORCH_TYPES)
    if isinstance(node, ast.Subscript):
        return module.dotted(node.value) == "os.environ"
    if isinstance(node, ast.Call):
        dotted = module.dotted(node.func)
        return dotted.startswith(_PLAIN_ROOTS) or (dotted in _NUMERIC_CALLS and dotted not in module.functions)
    return False


def _fixes(module: Module, name: str) -> tuple[Fix, ...]:
    """Wrap the value, where only device functions of the file read the name; unsafe, as another file may read it."""
    values = module.constants[name]
    if len(values) != 1 or values[0] is None or not _for_devices_only(module, name):
        return ()
    language = _language_before(module, values[0].lineno)
    if not language:
        return ()
    change = edit(module, values[0], "wrap", f"{language}.constexpr(", ")")
    return (Fix(f"Make {name} a tl.constexpr", False, (change,)),)


def _language_before(module: Module, line: int) -> str:
    """The name of ``triton.language`` in a file, where it is imported above a line without conditions; else empty."""
    for statement in module.tree.body:
        if statement.lineno >= line:
            break
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                name = alias.asname or alias.name
                if module.imports.get(name) == "triton.language":
                    return name
    return ""


def _for_devices_only(module: Module, name: str) -> bool:
    """Whether every read of a name in the file stands in a device function."""
    inside = {node for device in module.devices for node in device.nodes(ast.Name)}
    reads = (node for node in module.nodes(ast.Name) if node.id == name and isinstance(node.ctx, ast.Load))
    if any(node not in inside for node in reads):
        return False
    return all(node.value != name for node in module.nodes(ast.Constant))  # __all__
