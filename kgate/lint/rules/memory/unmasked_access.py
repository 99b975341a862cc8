"""KG202 unmasked-access: an access does not mask an index that the kernel masks elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.model.calls import Call
from kgate.lint.model.tiles import Axes, Bound
from kgate.lint.rule import ERROR, WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.linking import Project
    from kgate.lint.model.device import Device
    from kgate.lint.model.envelope import Sizes, Term
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG202",
    name="unmasked-access",
    severity=WARNING,
    lowered="an error where an envelope allows sizes that are no multiple of the block",
    summary="A load or store uses an index without the bound that another access of the kernel masks it with.",
    why=(
        "The other mask says that the index may run past the end. Where this access has none, the last block reads or "
        "writes beyond the tensor: it corrupts a neighbour, or faults, and only for sizes that are no multiple of "
        "the block."
    ),
    remedy="Mask this access too, or declare that the dim is a multiple of the block.",
    quiet=(
        "Indices kept in range by `%`, `tl.minimum` or `tl.where`; branches such as `if EVEN_N:`; workspaces whose "
        "rows "
        "are as long as the block; bounds that are the block's own extent; `where` conditions of the envelope that "
        "make the dim a multiple of the block."
    ),
    sources=("triton-lang/triton#1088", "triton-lang/triton#630"),
    invalid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n)
                y = tl.load(y_ptr + offs)
                    ^^^^^^^^^^^^^^^^^^^^^
                tl.store(out_ptr + offs, x + y, mask=offs < n)
            """,
            note="triton#1088, before: one of two loads forgets the mask.",
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs)
                    ^^^^^^^^^^^^^^^^^^^^^
                tl.store(y_ptr + offs, x + x, mask=offs < n)

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(0, 2**20)},
                    where=("N % 16 == 0",),
                ),
            )
            def double(x):
                y = x.new_empty(x.shape)
                _double[(triton.cdiv(x.shape[0], 128),)](x, y, x.shape[0], BLOCK=128)
                return y
            """,
            note="An error: the envelope promises multiples of 16, and the block has 128 elements.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def scale_rows(x_ptr, w_ptr, y_ptr, stride, M, N, BM: tl.constexpr, BN: tl.constexpr):
                m = tl.program_id(0) * BM + tl.arange(0, BM)
                n = tl.arange(0, BN)
                rows = m < M
                w = tl.load(w_ptr + m, mask=rows, other=0.0)
                x = tl.load(x_ptr + m[:, None] * stride + n[None, :], mask=rows[:, None] & (n < N)[None, :], other=0.0)
                tl.store(y_ptr + m[:, None] * stride + n[None, :], x * w[:, None], mask=rows[:, None])
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="The store masks the rows and forgets the columns.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
                m = tl.program_id(0) * BM + tl.arange(0, BM)
                n = tl.program_id(1) * BN + tl.arange(0, BN)
                k = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for start in range(0, K, BK):
                    a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                    b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                    acc = tl.dot(a, b, acc, input_precision="ieee")
                tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
            """,
            note="triton#630, before: the product of the tutorial masks its store alone.",
        ),
    ),
    valid=(
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                if EVEN:
                    y = tl.load(y_ptr + offs)
                else:
                    y = tl.load(y_ptr + offs, mask=offs < n)
                tl.store(out_ptr + offs, y, mask=offs < n)
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def gather_rows(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + (offs % n) * stride)
                tl.store(out_ptr + offs, x, mask=offs < n)
            """,
        ),
        Example(
            """
            import triton
            import triton.language as tl
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs)
                tl.store(y_ptr + offs, x + x, mask=offs < n)

            def eager(x):
                return x + x

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(0, 2**20)},
                    where=("N % 128 == 0",),
                ),
            )
            def double(x):
                y = x.new_empty(x.shape)
                _double[(triton.cdiv(x.shape[0], 128),)](x, y, x.shape[0], BLOCK=128)
                return y
            """,
            note="The envelope promises whole blocks.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
                m = tl.program_id(0) * BM + tl.arange(0, BM)
                n = tl.program_id(1) * BN + tl.arange(0, BN)
                k = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for start in range(0, K, BK):
                    inside = start + k < K
                    am = (m < M)[:, None] & inside[None, :]
                    bm = inside[:, None] & (n < N)[None, :]
                    a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :], mask=am, other=0.0)
                    b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :], mask=bm, other=0.0)
                    acc = tl.dot(a, b, acc, input_precision="ieee")
                tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
            """,
            note="triton#630, after.",
        ),
        Example(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs, mask=offs < n)
                y = tl.load(y_ptr + offs, mask=offs < n)
                tl.store(out_ptr + offs, x + y, mask=offs < n)
            """,
            note="triton#1088, after.",
        ),
    ),
)

_EVEN = re.compile(r"EVEN|DIVIS|FULL|ALIGN|MASK|PAD|BOUND|CHECK|WHOLE|MULTIPLE|IS_LAST|TAIL|SAFE", re.IGNORECASE)
_WORKSPACE = re.compile(r"tmp|temp|part|work|scratch|lock|buf|cache|dummy|mid|acc|block_|workspace|desc", re.IGNORECASE)


@RULE.device
def check(device: Device) -> Iterator[Hit]:
    """Accesses whose address holds an index that the masks of others bound, and whose own mask does not."""
    masks = {call: mask for call in device.accesses if (mask := call.argument("mask")) is not None}
    if not masks:
        return
    waiting = [(call, axes) for call in device.accesses if (axes := _open_axes(device, call, masks.get(call)))]
    if not waiting:
        return
    evidence = [
        (bound, call)
        for call, mask in masks.items()
        for bound in device.tiles.bounds(mask)
        if not device.tiles.whole(bound) and not _constant(device, bound.limit)
    ]
    for call, axes in waiting:
        hit = _unmasked(device, call, axes, evidence)
        if hit is not None:
            yield hit


def _open_axes(device: Device, call: Call, mask: ast.expr | None) -> Axes:
    """The axes of an address that the access's own mask says nothing of."""
    if call.first is None or call.spread or call.argument("boundary_check") is not None:
        return frozenset()
    tiles = device.tiles
    axes = tiles.axes(call.first)
    if mask is not None and axes:
        axes -= tiles.axes(mask)
        # Two aranges of one extent may stand for one index, so what a mask says of one counts for the other.
        known = {tiles.number(axis) for axis in tiles.axes(mask)} if axes else set()
        axes = frozenset(axis for axis in axes if tiles.number(axis) not in known)
    return axes


def _unmasked(device: Device, call: Call, axes: Axes, evidence: list[tuple[Bound, Call]]) -> Hit | None:
    address, tiles = call.first, device.tiles
    near = [(bound, other) for bound, other in evidence if bound.axes <= axes and other is not call]
    if address is None or not near:
        return None
    pointers = device.pointers(address)
    if not pointers or any(_WORKSPACE.search(name) for name in pointers):
        return None
    parts = tiles.parts(address)
    for bound, other in near:
        if tiles.number(bound.index) not in parts:
            continue
        if _apart(device, call, other, bound) or _padded(device, address, bound) or _settled(device, bound):
            continue
        index, limit = device.module.segment(bound.index), device.module.segment(bound.limit)
        return Hit(
            call.node,
            f"the {_kind(call)} of {'/'.join(sorted(pointers))} does not mask {index}, which the {_kind(other)} in "
            f"line {other.node.lineno} bounds by {limit}",
            f"mask it with {index} < {limit}, or declare that {limit} is a multiple of the block (where=...)",
            related=((other.node, f"masked with {index} < {limit} here"),),
            data={"limit": device.parameter_of(bound.limit), "extent": _extent(device, bound.axes)},
        )
    return None


def _kind(call: Call) -> str:
    return call.name.replace("_", " ")


def _constant(device: Device, limit: ast.expr) -> bool:
    """Whether a limit is made of compile-time constants only: a padded head dim, say, whose mask is often redundant."""
    return all(source.startswith("constexpr:") for source in device.sources(limit))


def _branches(device: Device, node: ast.AST) -> list[tuple[ast.If, bool]]:
    """The branches of ``if`` that a node stands in, and whether in the body."""
    found = []
    inner = node
    for outer in device.ancestors(node):
        if isinstance(outer, ast.If):
            found.append((outer, inner in outer.body))
        inner = outer
    return found


def _apart(device: Device, call: Call, other: Call, bound: Bound) -> bool:
    """Whether the masked access is in a branch that this one is not in, or this one is where blocks are whole: in a
    branch, or in a loop over the whole blocks that a masked tail follows."""
    loops = [device.loops.get(device.statement_of(item.node)) for item in (call, other)]
    if loops[0] is not loops[1] and _carried(device, bound.index):
        return True
    mine, theirs = _branches(device, call.node), _branches(device, other.node)
    if any(branch not in mine for branch in theirs):
        return True
    for branch in mine:
        if branch not in theirs:
            test = branch[0].test
            if _EVEN.search(ast.unparse(test)) or any(
                not item.startswith("constexpr:") for item in device.sources(test)
            ):
                return True
    return any(
        isinstance(outer, ast.If) and _EVEN.search(ast.unparse(outer.test)) for outer in device.ancestors(call.node)
    )


def _carried(device: Device, index: ast.expr) -> bool:
    """Whether a loop moves the index on."""
    return any(
        isinstance(node, ast.Name) and len(device.reached.get(node, ())) > 1
        for node in ast.walk(device.value_of(index))
    ) or any(len(device.bindings.get(node.id, ())) > 1 for node in ast.walk(index) if isinstance(node, ast.Name))


def _padded(device: Device, address: ast.expr, bound: Bound) -> bool:
    """Whether rows of the buffer are as long as the block: a term beside the index is a multiple of the extent."""
    extents = {device.tiles.number(axis.args[-1]) for axis in bound.axes if axis.args}
    own = {device.tiles.number(term) for term in device.tiles.terms(bound.index)}
    for term in device.tiles.terms(address):
        if device.tiles.number(term) in own:
            continue
        product = isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult) and not device.tiles.axes(term)
        if product and _factors(device, term) & extents:
            return True
    return False


def _factors(device: Device, node: ast.expr) -> set[int]:
    node = device.value_of(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(device, node.left) | _factors(device, node.right)
    return {device.tiles.number(node)}


def _settled(device: Device, bound: Bound) -> bool:
    """Whether a static assertion or an assumption speaks of the limit."""
    wanted = ast.unparse(bound.limit)
    return any(
        call.first is not None and wanted in ast.unparse(call.first)
        for call in device.called("static_assert", "assume")
    )


def _extent(device: Device, axes: Axes) -> str:
    """The constexpr parameter, or the literal, that is the extent of the only axis."""
    if len(axes) != 1:
        return ""
    extent = next(iter(axes)).args[-1] if next(iter(axes)).args else None
    if extent is None:
        return ""
    return device.parameter_of(extent) or (ast.unparse(extent) if isinstance(extent, ast.Constant) else "")


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Quiet where every kernel that reaches it promises whole blocks; an error where one allows others."""
    device = project.device(candidate.path, candidate.symbol)
    if device is None:
        return
    limit, extent = candidate.data["limit"], candidate.data["extent"]
    promised = 0
    for setting in project.settings(device):
        blocks = (int(extent),) if extent.isdecimal() else setting.values_of(extent)
        allowed = _uneven(project.sizes(setting.declaration), setting.term(limit), blocks)
        if allowed:
            message = f"{candidate.message}; the envelope of {setting.declaration.name} allows {allowed}"
            yield project.confirm(RULE, candidate, message, severity=ERROR)
            return
        promised += allowed == ""
    if not promised:
        yield project.confirm(RULE, candidate)


def _uneven(sizes: Sizes, term: Term | None, blocks: tuple[int, ...]) -> str | None:
    """A size that the envelope allows and that is no multiple of the block; empty without one, None where unknown."""
    if term is None or not blocks or (term.number is None and term.names != {term.text}):
        return None
    block = max(blocks)
    if term.number is not None:
        return f"{term.number}, which is no multiple of {block}" if term.number % block else ""
    low, high = sizes.range_of(term.text)
    tried = (*range(low, low + 5), block // 2, *(block + extra for extra in (1, 8, 16, block // 2)), high, high - 1)
    for value in tried:
        if low <= value <= high and value % block and sizes.allows({term.text: value}):
            return f"{term.text} = {value:,}, which is no multiple of {block}"
    return ""
