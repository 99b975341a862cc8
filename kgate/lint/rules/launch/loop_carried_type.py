"""KG417: a name that changes its type from one turn of a loop to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.device import FLOATS, INTEGERS, SAME_TYPE, Device
from kgate.lint.model.triton_api import LOOP_VARIABLE, shown, versions
from kgate.lint.rule import ERROR, FORKS, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.calls import Call
    from kgate.lint.model.flow import Binding
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG417",
    name="loop-carried-type",
    severity=ERROR,
    except_in=FORKS,
    summary="A name has one type before a loop and another at the end of its body.",
    why=(
        "A loop on the device hands each value to the next turn in one place of one type. Triton refuses a body that "
        "gives the name another element type or another shape (`Loop-carried variable has initial type int32 but is "
        "re-assigned to fp32`), and it does so when the function is first launched with arguments that reach the loop."
    ),
    remedy="Begin with the type and the shape that the body gives, or cast at the end of the body.",
    quiet=(
        "Loops over `tl.static_range`, names that are new in the body, and values whose type is not known here. The "
        "variable of a loop is reported where `triton` in the configuration begins before 3.4."
    ),
    sources=("fla-org/flash-linear-attention#1188", "triton-lang/triton#9547"),
    invalid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def count(x_ptr, y_ptr, n):
                total = 0
                for i in range(n):
                    total += (tl.load(x_ptr + i) > 0).to(tl.int64)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr, total)
        """),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                total = 0.0
                for row in range(n):
                    total += tl.load(x_ptr + row * BLOCK + i)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + i, total)
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def chunks(x_ptr, y_ptr, NT, D: tl.constexpr):
                o = tl.arange(0, D)
                for i_t in range(NT):
                    i_t = i_t.to(tl.int64)
                    ^^^^^^^^^^^^^^^^^^^^^^
                    tl.store(y_ptr + i_t * D + o, tl.load(x_ptr + i_t * D + o))
            """,
            note="flash-linear-attention#1188, before: Triton 3.3 refuses a loop variable of another type.",
            config='triton = ">=3.3"',
        ),
    ),
    valid=(
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def count(x_ptr, y_ptr, n):
                total = tl.zeros((), dtype=tl.int64)
                for i in range(n):
                    total += (tl.load(x_ptr + i) > 0).to(tl.int64)
                tl.store(y_ptr, total)
        """),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                total = tl.zeros((BLOCK,), dtype=tl.float32)
                for row in range(n):
                    total += tl.load(x_ptr + row * BLOCK + i).to(tl.float32)
                tl.store(y_ptr + i, total)
        """),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def chunks(x_ptr, y_ptr, NT, D: tl.constexpr):
                o = tl.arange(0, D)
                for i_t in range(NT):
                    i_wide = i_t.to(tl.int64)
                    tl.store(y_ptr + i_wide * D + o, tl.load(x_ptr + i_wide * D + o))
            """,
            note="flash-linear-attention#1188, after.",
            config='triton = ">=3.3"',
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def chunks(x_ptr, y_ptr, NT, D: tl.constexpr):
                o = tl.arange(0, D)
                for i_t in range(NT):
                    i_t = i_t.to(tl.int64)
                    tl.store(y_ptr + i_t * D + o, tl.load(x_ptr + i_t * D + o))
            """,
            note="Triton 3.4 and later let a loop variable change its type.",
        ),
    ),
)

_INT, _FLOAT = "#int", "#float"
"""Python's own numbers, which take the type of the other side."""
_LITERAL = {_INT: "int32", _FLOAT: "float32"}
_SAME = SAME_TYPE & {
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "abs",
    "broadcast_to",
    "expand_dims",
    "reshape",
    "trans",
}
_WIDE = frozenset({"int32", "int64", "float32", "float64"})


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Names that loops carry, at the last assignment of the body."""
    for loop in device.statements:
        if not isinstance(loop, (ast.For, ast.While)) or _unrolled(device, loop):
            continue
        if isinstance(loop, ast.For):
            yield from _own_variable(device, loop)
        for binding in _carried(device, loop):
            before = _before(device, binding, loop)
            if before is None:
                continue
            kind = _Types(device, binding.name, before)
            after = kind.result(binding)
            if before and after and before != after:
                yield _hit(device, loop, binding, f"is {before} before the loop and {after} after its body")
            elif _grows(device, binding, loop):
                yield _hit(device, loop, binding, "is a single value before the loop and a block after its body")


def _hit(device: Device, loop: ast.For | ast.While, binding: Binding, what: str) -> Hit:
    line = device.module.place(loop)[0]
    return Hit(
        binding.statement,
        f"{binding.name} {what}, which Triton refuses",
        "begin with the type and the shape that the body gives",
        related=(((line, device.module.place(loop)[1], line, len(device.module.lines[line - 1]) + 1), "the loop"),),
    )


def _own_variable(device: Device, loop: ast.For) -> Iterator[Hit]:
    """Where the body gives the loop's own variable another type than counting gives it."""
    name = loop.target.id if isinstance(loop.target, ast.Name) else ""
    bounds: list[ast.expr] = list(loop.iter.args) if isinstance(loop.iter, ast.Call) else []
    for node in bounds:  # grows by what cdiv divides
        call = device.call_of.get(node) if isinstance(node, ast.Call) else None
        if call is not None and call.name == "cdiv":
            bounds.extend(call.node.args)
        elif device.wide(node) is not False and not isinstance(node, ast.Constant):
            return
    for statement in loop.body:
        if isinstance(statement, ast.Assign) and [getattr(item, "id", "") for item in statement.targets] == [name]:
            call = device.call_of.get(statement.value) if isinstance(statement.value, ast.Call) else None
            if call is not None and call.name in ("to", "cast"):
                kind = device.named_type(call.argument("dtype"))
                if kind in ("int64", "uint64"):
                    yield Hit(
                        statement,
                        f"{name}, the variable of the loop, is {kind} after its body",
                        "bind a new name",
                        data={"variable": name},
                    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Where the project supports a Triton that refuses it of the loop's own variable."""
    old = [version for version in versions(project.config) if version < LOOP_VARIABLE]
    if old:
        yield project.confirm(RULE, candidate, f"{candidate.message}, which Triton {shown(old[0])} refuses")


def _unrolled(device: Device, loop: ast.For | ast.While) -> bool:
    if isinstance(loop, ast.While):
        return False
    call = device.call_of.get(loop.iter) if isinstance(loop.iter, ast.Call) else None
    return call is None or call.name != "range"


def _carried(device: Device, loop: ast.For | ast.While) -> Iterator[Binding]:
    """The last assignment of each name in the loop's body, where that always runs."""
    last: dict[str, Binding] = {}
    own = loop.target.id if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else ""
    for statement in loop.body:
        target = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        elif isinstance(statement, ast.AugAssign):
            target = statement.target
        if isinstance(target, ast.Name) and target.id != own:
            for binding in device.bindings.get(target.id, ()):
                if binding.statement is statement:
                    last[target.id] = binding
    for name, binding in last.items():
        line = binding.statement.lineno  # type: ignore[attr-defined]
        later = [item for item in device.bindings[name] if _inside(device, item, loop) and _line(item) > line]
        if not later:
            yield binding


def _line(binding: Binding) -> int:
    return getattr(binding.statement, "lineno", 0)


def _inside(device: Device, binding: Binding, loop: ast.AST) -> bool:
    around = binding.loop
    while around is not None:
        if around is loop:
            return True
        around = device.loops.get(around)
    return False


def _outer(device: Device, binding: Binding, loop: ast.AST) -> list[Binding]:
    """Bindings of a name that stand before a loop."""
    return [
        item
        for item in device.bindings[binding.name]
        if not _inside(device, item, loop) and _line(item) < loop.lineno  # type: ignore[attr-defined]
    ]


def _before(device: Device, binding: Binding, loop: ast.For | ast.While) -> str | None:
    """The type of a name before a loop, empty where it is not known; None where the loop does not carry it."""
    outer = _outer(device, binding, loop)
    if not outer or any(item.kind != "assign" or item.value is None or _annotated(item) for item in outer):
        return None if not outer else ""
    if any(
        _inside(device, item, around) != (around in _around(device, loop))
        for item in outer
        for around in [item.loop]
        if around
    ):
        return ""
    types = {_Types(device, "", "").of(item.value) for item in outer if item.value is not None}
    if len(types) != 1:
        return ""
    only = next(iter(types))
    return _LITERAL.get(only, only)


def _around(device: Device, loop: ast.AST) -> list[ast.AST]:
    found = []
    around = device.loops.get(loop)
    while around is not None:
        found.append(around)
        around = device.loops.get(around)
    return found


def _annotated(binding: Binding) -> bool:
    return isinstance(binding.statement, ast.AnnAssign)


def _grows(device: Device, binding: Binding, loop: ast.For | ast.While) -> bool:
    """Whether a name that begins as a literal ends as a block."""
    outer = _outer(device, binding, loop)
    if len(outer) != 1 or outer[0].value is None or outer[0].kind != "assign" or _annotated(outer[0]):
        return False
    if _Types(device, "", "").of(outer[0].value) not in _LITERAL or binding.value is None:
        return False
    if outer[0].loop is not None and outer[0].loop not in _around(device, loop):
        return False
    tile = device.tiles.of(binding.value)
    if not tile.dims or not tile.axes:
        return False
    return all(len(device.reached.get(node, ())) <= 1 or node.id == binding.name for node in _names(binding.value))


def _names(node: ast.expr) -> Iterator[ast.Name]:
    return (item for item in ast.walk(node) if isinstance(item, ast.Name))


class _Types:
    """Types of values as Triton promotes them, with the type of one name given."""

    def __init__(self, device: Device, name: str, given: str) -> None:
        self.device = device
        self.name = name
        self.given = given
        self.depth = 0

    def result(self, binding: Binding) -> str:
        """The type that an assignment gives."""
        if binding.value is None:
            return ""
        kind = self.of(binding.value)
        statement = binding.statement
        if isinstance(statement, ast.AugAssign):
            kind = _combined(self.given, kind, statement.op)
        return _LITERAL.get(kind, kind)

    def of(self, node: ast.expr) -> str:
        """The type of a value; empty where it is not known."""
        if self.depth > 12:
            return ""
        self.depth += 1
        try:
            return self._of(node)
        finally:
            self.depth -= 1

    def _of(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return {bool: "int1", int: _INT, float: _FLOAT}.get(type(node.value), "")
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, ast.UnaryOp):
            return "int1" if isinstance(node.op, ast.Not) else self.of(node.operand)
        if isinstance(node, ast.Compare):
            return "int1"
        if isinstance(node, ast.BinOp):
            return _combined(self.of(node.left), self.of(node.right), node.op)
        if isinstance(node, ast.IfExp):
            one, other = self.of(node.body), self.of(node.orelse)
            return one if one == other else ""
        if isinstance(node, ast.Subscript):
            return self.of(node.value) if self.device.tiles.dims(node) is not None else ""
        if isinstance(node, ast.Call):
            return self._of_call(node)
        return ""

    def _of_name(self, node: ast.Name) -> str:
        found = self.device.reached.get(node, ())
        if node.id == self.name:
            return self.given if len(found) > 1 else self._of_binding(found[0]) if found else ""
        return self._of_binding(found[0]) if len(found) == 1 else ""

    def _of_binding(self, binding: Binding) -> str:
        if binding.kind != "assign" or binding.value is None or _annotated(binding):
            return ""
        kind = self.of(binding.value)
        return _LITERAL.get(kind, kind)

    @staticmethod
    def _sides(call: Call) -> tuple[ast.expr | None, ast.expr | None]:
        """The two values that a choice or a maximum is made of; Python's own ``max`` has them by position only."""
        arguments = call.node.args
        if call.name != "where" and not call.method and len(arguments) > 2:
            return None, None
        return call.argument("x"), call.argument("y")

    def _of_call(self, node: ast.Call) -> str:
        if isinstance(node.func, ast.Name) and node.func.id == "float" and "float" not in self.device.bindings:
            return _FLOAT
        call = self.device.call_of.get(node)
        if call is None:
            return ""
        name = call.name
        if name in ("to", "cast", "zeros", "full"):
            found = self.device.named_type(call.argument("dtype"))
            return found if found in FLOATS or found in INTEGERS else ""
        if name in ("program_id", "num_programs", "arange"):
            return "int32"
        if name in ("where", "maximum", "minimum"):
            one, other = self._sides(call)
            return "" if one is None or other is None else _combined(self.of(one), self.of(other), ast.Add())
        if name in _SAME and call.first is not None:
            return self.of(call.first)
        if name in ("sum", "max", "min") and call.first is not None and call.argument("return_indices") is None:
            if call.argument("dtype") is not None:
                return ""
            kind = self.of(call.first)
            return kind if kind in _WIDE else ""
        return ""


def _combined(left: str, right: str, operator: ast.operator) -> str:
    """The type of an operation on two types, as Triton promotes; empty where that is not known."""
    if not left or not right:
        return ""
    if isinstance(operator, ast.Div) and _is_integer(left) and _is_integer(right):
        return "float32"
    if left == right:
        return "" if left == "int1" else left
    if left in _LITERAL or right in _LITERAL:
        literal, other = (left, right) if left in _LITERAL else (right, left)
        if other in _LITERAL:
            return _FLOAT
        if literal == _FLOAT and other in INTEGERS:
            return "float32"
        return other if other != "int1" else ""
    if left in FLOATS and right in FLOATS:
        if "float8" in left + right or {left, right} == {"float16", "bfloat16"}:
            return ""
        return left if FLOATS.index(left) > FLOATS.index(right) else right
    if left in FLOATS or right in FLOATS:
        return left if left in FLOATS else right
    if left.startswith("u") or right.startswith("u") or "int1" in (left, right):
        return ""
    return left if INTEGERS.index(left) > INTEGERS.index(right) else right


def _is_integer(kind: str) -> bool:
    return kind in INTEGERS or kind == _INT
