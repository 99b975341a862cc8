"""KG306: a dot of float32 operands that leaves its precision to the backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgate.lint.linking import Project
from kgate.lint.model.calls import Call
from kgate.lint.model.device import Device
from kgate.lint.records import Candidate
from kgate.lint.rule import FORKS, UNSAFE, WARNING, Example, Hit, Rule
from kgate.lint.rules.numerics._dtypes import dtypes_of
from kgate.source.records import Edit, Finding, Fix

RULE = Rule(
    code="KG306",
    name="dot-without-input-precision",
    severity=WARNING,
    except_in=FORKS,
    summary="`tl.dot` multiplies float32 operands and does not say in which precision.",
    why=(
        "The default differs: TF32, with ten bits of mantissa, on NVIDIA and gfx942, IEEE on gfx90a and gfx950. The "
        "same kernel then has errors of 1e-3 on one device and 1e-7 on the other, and the default has changed before."
    ),
    remedy='Say `input_precision="ieee"`, `"tf32x3"` or `"tf32"`, whichever is meant.',
    quiet="Operands that are not float32, or whose declared dtypes have no float32.",
    sources=("triton-lang/triton#6265", "triton-lang/triton#9080"),
    fix=UNSAFE,
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                a = tl.load(a_ptr + offs).to(tl.float32)
                b = tl.load(b_ptr + offs).to(tl.float32)
                tl.store(c_ptr + offs, tl.dot(a, b))
                                       ^^^^^^^^^^^^
        """,
            fixed="""
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                a = tl.load(a_ptr + offs).to(tl.float32)
                b = tl.load(b_ptr + offs).to(tl.float32)
                tl.store(c_ptr + offs, tl.dot(a, b, input_precision="ieee"))
        """,
            note="triton#6265 and #9080, before: the default decides, and the default has changed.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                tl.store(c_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs)))
                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            def product_eager(a, b):
                return a @ b

            @kernel(
                reference=product_eager,
                fallback=product_eager,
                envelope=Envelope(
                    inputs={"a": Tensor("N N", "T"), "b": Tensor("N N", "T")},
                    outputs={"c": Tensor("N N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(64, 64)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def product(a, b):
                c = a.new_empty(a.shape)
                _product[(1,)](a, b, c, BLOCK=64)
                return c
        """,
            note="The envelope has float32.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                a = tl.load(a_ptr + offs).to(tl.float32)
                b = tl.load(b_ptr + offs).to(tl.float32)
                tl.store(c_ptr + offs, tl.dot(a, b, input_precision="tf32x3"))
        """,
            note="triton#6265 and #9080, after.",
        ),
        Example("""
            import triton
            import triton.language as tl

            @triton.jit
            def product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
                offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                a = tl.load(a_ptr + offs).to(tl.float16)
                b = tl.load(b_ptr + offs).to(tl.float16)
                tl.store(c_ptr + offs, tl.dot(a, b))
        """),
    ),
)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Dots whose operands are float32, or are loaded and not cast; one finding for each of the two."""
    certain: list[Call] = []
    loaded: list[Call] = []
    pointers: set[str] = set()
    for call in device.called("dot"):
        if call.spread or call.argument("input_precision") is not None or call.argument("allow_tf32") is not None:
            continue
        kinds = [
            device.type_of(value) for value in (call.argument("input"), call.argument("other")) if value is not None
        ]
        if kinds == ["float32", "float32"]:
            certain.append(call)
        elif len(kinds) == 2 and all(kind == "float32" or kind.startswith("elem:") for kind in kinds):
            loaded.append(call)
            pointers.update(kind[5:] for kind in kinds if kind.startswith("elem:"))
    if certain:
        yield _hit(device, certain, None)
    if loaded:
        yield _hit(device, loaded, {"pointers": sorted(pointers)})


def _hit(device: Device, calls: list[Call], data: dict[str, Any] | None) -> Hit:
    edits = tuple(
        Edit("set-argument", *device.module.place(call.node), text='"ieee"', name="input_precision") for call in calls
    )
    others = f" (in {len(calls)} dots of {device.name})" if len(calls) > 1 else ""
    return Hit(
        calls[0].node,
        "float32 operands are multiplied in the target's default precision, tf32 on NVIDIA and gfx942, ieee elsewhere"
        + others,
        "say input_precision",
        fixes=(Fix('Write input_precision="ieee"', False, edits),),
        data=data,
    )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Loaded operands count where a declaration lets them be float32."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    for kernel in device.kernels:
        dtypes = [dtypes_of(kernel, device, pointer) for pointer in candidate.data["pointers"]]
        if dtypes and all("float32" in allowed for allowed in dtypes):
            yield project.confirm(RULE, candidate, f"{candidate.message} ({kernel.name} declares float32)")
            return
