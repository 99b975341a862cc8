"""KG420 unproven-alignment: a hint about divisibility or contiguity that the envelope does not imply."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.extents import Extents
from kgate.lint.rule import ERROR, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import Project, Setting
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG420",
    name="unproven-alignment",
    severity=ERROR,
    summary="`tl.multiple_of`, `tl.max_contiguous` or `tl.assume` promises the compiler what the envelope does not.",
    why=(
        "The compiler believes the hint and emits wide accesses. For a size that breaks it they are misaligned, or mix "
        "elements of two rows: faults and wrong values that no bounds check sees."
    ),
    remedy="Declare the condition that the hint needs, or drop the hint: Triton finds the divisibility of arguments by "
    "16 itself.",
    quiet="Hints that the declared dims and `where` conditions imply; kernels without a declaration.",
    sources=("ROCm/aiter#5428", "AMD-AGI/Primus-Turbo#286", "ROCm/TransformerEngine#464"),
    invalid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
                stride = tl.multiple_of(stride, 8)
                         ^^^^^^^^^^^^^^^^^^^^^^^^^
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * stride + cols, x * 2, mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "bfloat16", layout="contiguous")},
                outputs={"y": Tensor("M N", "bfloat16")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 8192)},
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="As TransformerEngine#464, before.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % n
                offs = tl.max_contiguous(tl.multiple_of(offs, BLOCK), BLOCK)
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("N", "float16", layout="contiguous")},
                outputs={"y": Tensor("N", "float16")},
                dims={"N": Dim(1, 2**20)},
            ))
            def double(x):
                y = torch.empty_like(x)
                n = x.numel()
                _double[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
                return y
            """,
            note="The last block wraps around in the middle.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride_k, N, BLOCK: tl.constexpr):
                tl.assume(stride_k > 0)
                ^^^^^^^^^^^^^^^^^^^^^^^
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < N)
                tl.store(y_ptr + tl.program_id(1) * stride_k + i, x * 2, mask=i < N)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"N": Dim(1, 2**20)},
            ))
            def double(x):
                y = torch.empty_like(x)
                N = x.shape[0]
                _double[(triton.cdiv(N, 1024), 1)](x, y, 0, N, BLOCK=1024)
                return y
            """,
            note="aiter#5428, before: a stride that is 0 where the product is not split.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
                stride = tl.multiple_of(stride, 8)
                row = tl.program_id(0).to(tl.int64)
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols)
                tl.store(y_ptr + row * stride + cols, x * 2, mask=cols < n_cols)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "bfloat16", layout="contiguous")},
                outputs={"y": Tensor("M N", "bfloat16")},
                dims={"M": Dim(1, 65536), "N": Dim(1, 8192)},
                where=("N % 8 == 0",),
            ))
            def double(x):
                y = torch.empty_like(x)
                M, N = x.shape
                _double[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
                return y
            """,
            note="As TransformerEngine#464, after: the condition is declared, other sizes are the fallback's.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                offs = tl.max_contiguous(tl.multiple_of(offs, BLOCK), BLOCK)
                tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("N", "float16", layout="contiguous")},
                outputs={"y": Tensor("N", "float16")},
                dims={"N": Dim(1, 2**20)},
            ))
            def double(x):
                y = torch.empty_like(x)
                n = x.numel()
                _double[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
                return y
            """,
            note="A block that is masked does not wrap around.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x):
                return x * 2

            @triton.jit
            def _double(x_ptr, y_ptr, stride_k, N, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i, mask=i < N)
                tl.store(y_ptr + tl.program_id(1) * stride_k + i, x * 2, mask=i < N)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("N", "float32", layout="contiguous")},
                outputs={"y": Tensor("N", "float32")},
                dims={"N": Dim(1, 2**20)},
            ))
            def double(x):
                y = torch.empty_like(x)
                N = x.shape[0]
                _double[(triton.cdiv(N, 1024), 1)](x, y, 0, N, BLOCK=1024)
                return y
            """,
            note="aiter#5428, after.",
        ),
    ),
)


_AT_LEAST = {ast.Gt: 1, ast.GtE: 0}


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Hints about runtime sizes and strides, and about offsets that wrap around at one."""
    for call in device.called("multiple_of", "max_contiguous"):
        if _inside_hint(device, call):
            continue
        value, factor = call.first, call.argument("values")
        hint = None if value is None or factor is None else _hint(device, value, factor)
        if hint is not None:
            yield Hit(call.node, "a hint is not implied", data=hint)
    for call in device.called("assume"):
        hint = _assumed(device, call)
        if hint is not None:
            yield Hit(call.node, "an assumption is not implied", data=hint)


def _inside_hint(device: Device, call: Call) -> bool:
    around = device.parents.get(call.node)
    outer = device.call_of.get(around) if isinstance(around, ast.Call) else None
    return outer is not None and outer.name in ("multiple_of", "max_contiguous")


def _hint(device: Device, value: ast.expr, factor: ast.expr) -> dict[str, str] | None:
    """What has to be divisible by what: the parameter itself, or the size at which an offset wraps around."""
    divisor = _divisor(device, factor)
    if divisor is None:
        return None
    parameter = device.parameter_of(value)
    if parameter and parameter not in device.constexprs:
        return {"parameter": parameter, "divisor": divisor, "what": "hint"}
    for _ in range(10):
        value = device.value_of(value)
        call = device.call_of.get(value) if isinstance(value, ast.Call) else None
        if call is not None and call.name in ("multiple_of", "max_contiguous", "to") and call.first is not None:
            value = call.first
        else:
            break
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        size = device.parameter_of(value.right)
        if size:
            return {"parameter": size, "divisor": divisor, "what": "wrap"}
    return None


def _divisor(device: Device, node: ast.expr) -> str | None:
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1:
        node = node.elts[0]
    return Extents.of_device(device).extent(node)


def _assumed(device: Device, call: Call) -> dict[str, str] | None:
    """``tl.assume(stride % 8 == 0)`` and ``tl.assume(stride > 0)``."""
    test = call.first
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    if type(test.ops[0]) in _AT_LEAST and isinstance(test.left, ast.Name):
        parameter, limit = device.parameter_of(test.left), test.comparators[0]
        if not parameter or parameter in device.constexprs:
            return None
        if not isinstance(limit, ast.Constant) or type(limit.value) is not int:
            return None
        return {"parameter": parameter, "least": str(limit.value + _AT_LEAST[type(test.ops[0])]), "what": "assumption"}
    if not isinstance(test.ops[0], ast.Eq):
        return None
    rest, zero = test.left, test.comparators[0]
    if not (isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mod)):
        return None
    if not (isinstance(zero, ast.Constant) and zero.value == 0):
        return None
    parameter, divisor = device.parameter_of(rest.left), _divisor(device, rest.right)
    if not parameter or parameter in device.constexprs or divisor is None:
        return None
    return {"parameter": parameter, "divisor": divisor, "what": "assumption"}


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Hints that some envelope contradicts."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None or not device.kernels:
        return
    data = candidate.data
    for setting in project.settings(device):
        if "least" in data:
            found = _too_small(project, setting, data["parameter"], int(data["least"]))
            if found:
                yield project.confirm(RULE, candidate, found, "drop the assumption where it does not hold")
                return
            continue
        for divisor in _divisors(setting, data["divisor"]):
            term = setting.term(data["parameter"])
            if term is None or divisor <= 1:
                continue
            witness = project.sizes(setting.declaration).example(term, lambda value: value % divisor != 0)  # noqa: B023
            if witness is not None and witness.sizes:
                name = setting.declaration.name
                does = (
                    f"the hint says that a block of {divisor} does not wrap around at {data['parameter']}"
                    if data["what"] == "wrap"
                    else f"the {data['what']} says that {data['parameter']} is a multiple of {divisor}"
                )
                message = f"{does}, and {name} allows {witness}"
                remedy = f'declare where=("{term.text} % {divisor} == 0",), or drop the {data["what"]}'
                yield project.confirm(RULE, candidate, message, remedy.replace("drop the wrap", "drop the hint"))
                return


def _too_small(project: Project, setting: Setting, parameter: str, least: int) -> str:
    """What an envelope gives a parameter below an assumed bound, for inputs that have elements; empty if nothing."""
    term = setting.term(parameter)
    if term is None:
        return ""
    witness = project.sizes(setting.declaration).example(term, lambda value: value < least)
    if witness is None or not all(witness.sizes.values()):
        return ""
    name = setting.declaration.name
    given = (
        f"{name} allows {witness}, which makes it {witness.value}"
        if witness.sizes
        else f"{name} passes {witness.value}"
    )
    return f"the assumption says that {parameter} is at least {least}, and {given}"


def _divisors(setting: Setting, text: str) -> tuple[int, ...]:
    """A divisor as a number: written out, given at the launch, or the least that is configured."""
    values = (int(text),) if text.isdecimal() else setting.values_of(text)
    return values and (min(values),)
