"""KG120: the reference, or the fallback, launches what it should be compared with."""

from __future__ import annotations

from collections.abc import Iterator

from kgate.lint.linking import Project
from kgate.lint.rule import ERROR, Example, Rule
from kgate.source.records import Finding

_HEAD = """
    import triton
    import triton.language as tl
    from kgate import Dim, Envelope, Tensor, kernel

    @triton.jit
    def _double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        keep = offs < n
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=keep) * 2, mask=keep)

    def _launch(x):
        y = x.new_empty(x.shape)
        _double_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y

    def double_plain(x):
        return {body}

    def double_eager(x):
        return x * 2

    @kernel(
{mark}        reference=double_plain,
        fallback=double_eager,
        envelope=Envelope(
            inputs={{"x": Tensor("N", "float32")}},
            outputs={{"y": Tensor("N", "float32")}},
            dims={{"N": Dim(1, 2**20)}},
            targets=("cuda:sm_80+",),
        ),
    )
    def double(x):
        return _launch(x)
"""

RULE = Rule(
    code="KG120",
    name="reference-is-kernel",
    severity=ERROR,
    summary="The reference or the fallback of a kernel reaches the device functions of that kernel.",
    why=(
        "A kernel that is compared with itself is always right. Detectors of gamed benchmarks look for just this; it "
        "also happens in good faith, when a helper that the reference calls is given a fast path. A fallback that "
        "launches the kernel runs it on the inputs that it does not support."
    ),
    remedy="Write the reference and the fallback from operations that do not share device code with the kernel.",
    invalid=(Example(_HEAD.format(body="_launch(x)", mark="     ^^^^^^^\n")),),
    valid=(Example(_HEAD.format(body="x + x", mark="")),),
)


@RULE.project
def check(project: Project) -> Iterator[Finding]:
    """Declarations whose reference or fallback reaches a device function that their launcher reaches."""
    index = project.index
    devices = {item.identity for item in index.device_functions if item.declared_by} if index.declarations else set()
    for declaration in index.declarations:
        roots = index.declared(declaration.identity).roots
        own = devices & set(index.graph.reach(roots.get("code", (declaration.identity,))))
        for part in ("reference", "fallback"):
            shared = sorted(own & set(index.graph.reach(roots.get(part, ())))) if own else []
            if shared:
                device = shared[0].rpartition("::")[2]
                yield project.at_declaration(
                    RULE,
                    declaration,
                    f"the {part} of {declaration.name} reaches {device}, which the kernel itself runs",
                    f"name a {part} that does not launch it",
                )
