"""KG301: a sum kept in a half type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.model.device import Device
from kgate.lint.records import Candidate
from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.numerics._dtypes import dtypes_of
from kgate.source.records import Declaration, Finding

RULE = Rule(
    code="KG301",
    name="low-precision-accumulator",
    severity=WARNING,
    summary="A reduction, or an accumulator in a loop, is kept in float16 or bfloat16.",
    why=(
        "Added one after the other, a sum of ones stops at 256 in bfloat16 and at 2,048 in float16, where one more is "
        "less than half a unit in the last place; float16 overflows at 65,504. A tree, as `tl.sum` makes, loses less, "
        "and still rounds on every level: `tl.sum` adds in the type that it is given."
    ),
    remedy="Cast to float32 before the reduction, keep the accumulator in float32, and cast once on the store.",
    quiet='Kernels whose declaration says so: `Numerics(acc="float16")`; inputs that are declared without a half type.',
    sources=(
        "triton-lang/triton#1960",
        "triton-lang/triton#6961",
        "pytorch/pytorch#141052",
        "linkedin/Liger-Kernel#950",
    ),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + cols, mask=cols < n, other=0.0).to(tl.bfloat16)
                tl.store(y_ptr, tl.sum(x, axis=0))
                                ^^^^^^^^^^^^^^^^^
        """,
            note="triton#1960 and #6961, before.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float16)
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                for k in range(0, K, BLOCK):
                    acc += tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs)).to(tl.float16)
                tl.store(c_ptr + offs, acc)
        """,
            note="An accumulator of half precision in a loop.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
                tl.store(y_ptr, tl.sum(x, axis=0))
                                ^^^^^^^^^^^^^^^^^

            def row_sum_eager(x):
                return x.sum(-1)

            @kernel(
                reference=row_sum_eager,
                fallback=row_sum_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("", "T")},
                    dtypes={"T": ("bfloat16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def row_sum(x):
                y = x.new_empty(())
                _row_sum[(1,)](x, y, x.shape[0], BLOCK=1024)
                return y
        """,
            note="pytorch#141052, before: no dtype in the kernel, and the envelope has bfloat16.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x, dy):
                return (x * dy).sum(dim=0)

            @triton.jit
            def _weight_grad(x_ptr, dy_ptr, dw_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
                cols = tl.arange(0, BN)
                dw = tl.zeros((BN,), dtype=tl.float32)
                for start in range(0, M, BM):
                    rows = (start + tl.arange(0, BM)).to(tl.int64)
                    mask = (rows < M)[:, None] & (cols < N)[None, :]
                    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
                    dy = tl.load(dy_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
                    dw += tl.sum((dy.to(tl.float32) * x).to(x_ptr.dtype.element_ty), axis=0)
                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                tl.store(dw_ptr + cols, dw, mask=cols < N)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "T", layout="contiguous"), "dy": Tensor("M N", "T", layout="contiguous")},
                outputs={"dw": Tensor("N", "float32")},
                dtypes={"T": ("bfloat16",)},
                dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
            ))
            def weight_grad(x, dy):
                M, N = x.shape
                dw = torch.empty((N,), device=x.device, dtype=torch.float32)
                _weight_grad[(1,)](x, dy, dw, M, N, BM=16, BN=triton.next_power_of_2(N))
                return dw
            """,
            note="Liger-Kernel#950, before: cast back before the sum, which a float32 accumulator cannot mend.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
                tl.store(y_ptr, tl.sum(x, axis=0).to(y_ptr.dtype.element_ty))
        """,
            note="triton#1960, triton#6961 and pytorch#141052, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Numerics, Tensor, kernel

            @triton.jit
            def _row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                cols = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
                tl.store(y_ptr, tl.sum(x, axis=0))

            def row_sum_eager(x):
                return x.sum(-1)

            @kernel(
                reference=row_sum_eager,
                fallback=row_sum_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("", "T", numerics=Numerics(reduce="N", acc="bfloat16"))},
                    dtypes={"T": ("bfloat16",)},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def row_sum(x):
                y = x.new_empty(())
                _row_sum[(1,)](x, y, x.shape[0], BLOCK=1024)
                return y
        """,
            note="Declared.",
        ),
        Example(
            """
            import torch
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            def eager(x, dy):
                return (x * dy).sum(dim=0)

            @triton.jit
            def _weight_grad(x_ptr, dy_ptr, dw_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
                cols = tl.arange(0, BN)
                dw = tl.zeros((BN,), dtype=tl.float32)
                for start in range(0, M, BM):
                    rows = (start + tl.arange(0, BM)).to(tl.int64)
                    mask = (rows < M)[:, None] & (cols < N)[None, :]
                    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
                    dy = tl.load(dy_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
                    dw += tl.sum((dy.to(tl.float32) * x), axis=0)
                tl.store(dw_ptr + cols, dw, mask=cols < N)

            @kernel(reference=eager, fallback=eager, envelope=Envelope(
                inputs={"x": Tensor("M N", "T", layout="contiguous"), "dy": Tensor("M N", "T", layout="contiguous")},
                outputs={"dw": Tensor("N", "float32")},
                dtypes={"T": ("bfloat16",)},
                dims={"M": Dim(1, 4096), "N": Dim(1, 1024)},
            ))
            def weight_grad(x, dy):
                M, N = x.shape
                dw = torch.empty((N,), device=x.device, dtype=torch.float32)
                _weight_grad[(1,)](x, dy, dw, M, N, BM=16, BN=triton.next_power_of_2(N))
                return dw
            """,
            note="Liger-Kernel#950, after.",
        ),
    ),
)


_HALF = ("float16", "bfloat16")


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Sums of half types, and half accumulators that a loop adds to."""
    for call in device.called("sum", "cumsum"):
        value = call.first
        if value is None or call.argument("dtype") is not None:
            continue
        kind = device.type_of(value)
        if kind in _HALF and not (kind == "bfloat16" and call.name == "cumsum"):  # cumsum widens bfloat16 itself
            yield _hit(call.node, f"tl.{call.name} adds in {kind}", {})
        elif kind.startswith("elem:"):
            yield _hit(call.node, f"tl.{call.name} adds in the type that {kind[5:]} points to", {"pointer": kind[5:]})
    for call in device.called("dot"):
        start = call.argument("acc")
        kind = device.named_type(call.argument("out_dtype"))
        if kind not in _HALF and start is not None:
            kind = _started(device, start)
        if kind in _HALF:
            yield _hit(call.node, f"tl.dot adds in {kind}", {})
    for call in device.called("zeros", "full"):
        kind = device.type_of(call.node)
        if kind in _HALF:
            name = _accumulates(device, call.node)
            if name:
                yield _hit(call.node, f"the accumulator `{name}` is kept in {kind}", {})


def _hit(node: ast.expr, message: str, data: dict[str, str]) -> Hit:
    return Hit(node, message, "keep the sum in float32, and cast once on the store", data=data)


def _started(device: Device, node: ast.expr) -> str:
    """The type in which an accumulator was made; empty where that is not known."""
    if not isinstance(node, ast.Name):
        return device.type_of(node)
    made = [binding.value for binding in device.origins_of(node)[0] if isinstance(binding.value, ast.Call)]
    kinds = {device.type_of(value) for value in made if device.call_of[value].name in ("zeros", "full")}
    return next(iter(kinds)) if len(kinds) == 1 else ""


def _accumulates(device: Device, node: ast.expr) -> str:
    """The name that starts with a value and is added to in a loop; empty where there is none."""
    statement = device.statement_of(node)
    for bindings in device.bindings.values():
        for binding in bindings:
            if (
                binding.kind == "augmented"
                and binding.loop is not None
                and isinstance(binding.statement, ast.AugAssign)
            ):
                started = any(before.statement is statement for before in binding.previous)
                if started and isinstance(binding.statement.op, ast.Add):
                    return binding.name
    return ""


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """A declared accumulator excuses it; a loaded type counts where a declaration makes it half."""
    device = project.device(candidate.path, candidate.symbol)
    kernels = device.kernels if device is not None else ()
    if any(_declared_half(kernel) for kernel in kernels):
        return
    pointer = candidate.data.get("pointer", "")
    if not pointer:
        yield project.confirm(RULE, candidate)
        return
    for kernel in kernels:
        half = [name for name in dtypes_of(kernel, device, pointer) if name in _HALF] if device is not None else []
        if half:
            told = f"{candidate.message}, and {kernel.name} declares {' and '.join(sorted(half))}"
            yield project.confirm(RULE, candidate, told)
            return


def _declared_half(kernel: Declaration) -> bool:
    for output in kernel.envelope.outputs.values():
        numerics = getattr(output, "numerics", None)
        if numerics is not None and numerics.acc in _HALF:
            return True
    return False
