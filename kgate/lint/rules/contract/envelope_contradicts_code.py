"""KG122 envelope-contradicts-code: the launcher refuses what its envelope promises."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kgate.lint.rule import ERROR, Example, Hit, Rule
from kgate.source.uses import chain_of

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, Project
    from kgate.lint.model.conditions import Condition
    from kgate.lint.model.envelope import Scope
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Declaration, Finding

RULE = Rule(
    code="KG122",
    name="envelope-contradicts-code",
    severity=ERROR,
    summary="An assertion or a `raise` on the way to the launch refuses inputs that the envelope promises.",
    why=(
        "Dispatch sends such an input to the kernel, because the envelope says that it is served; the caller gets an "
        "error instead of the fallback's result. Run with `-O`, the assertion is gone and the kernel runs on what it "
        "cannot handle."
    ),
    remedy="Write the limit into the envelope: as a range of a dim, a `where` condition, a dtype or a layout.",
    quiet="Conditions that the envelope implies, that follow a return which may be taken, or that cannot be read.",
    invalid=(
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _softmax(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def eager(x):
                return x.softmax(-1)

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("M N", "T", layout="inner_contiguous")},
                    outputs={"y": Tensor("M N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"M": Dim(1, 4096), "N": Dim(1, 65536)},
                ),
            )
            def softmax(x):
                assert x.is_contiguous()
                       ^^^^^^^^^^^^^^^^^
                rows, cols = x.shape
                assert cols <= 1024, "rows are held in registers"
                       ^^^^^^^^^^^^
                if x.dtype != torch.float16:
                   ^^^^^^^^^^^^^^^^^^^^^^^^
                    raise TypeError("softmax takes float16")
                y = torch.empty_like(x)
                _softmax[(rows,)](x, y, cols, BLOCK=1024)
                return y
            """,
        ),
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _scale(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def eager(x):
                return x * 2

            def _launch(x, block):
                n = x.numel()
                if n % block != 0:
                   ^^^^^^^^^^^^^^
                    raise ValueError("whole blocks only")
                y = torch.empty_like(x)
                _scale[(n // block,)](x, y, n, BLOCK=block)
                return y

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32", layout="contiguous")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(1, 65536)},
                ),
            )
            def scale(x):
                return _launch(x, 256)
            """,
            note="The check is in a function that the launcher calls.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _scale(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def eager(x):
                return x * 2

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T", layout="contiguous")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 65536)},
                    where=("N % 256 == 0",),
                ),
            )
            def scale(x):
                assert x.dim() == 1 and x.is_contiguous()
                assert x.dtype in (torch.float16, torch.float32)
                n = x.numel()
                if n % 256 != 0:
                    raise ValueError("whole blocks only")
                y = torch.empty_like(x)
                _scale[(n // 256,)](x, y, n, BLOCK=256)
                return y
            """,
            note="The envelope implies every one of them.",
        ),
        Example(
            """
            import torch
            import triton
            from kgate import Dim, Envelope, Tensor, kernel

            @triton.jit
            def _scale(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def eager(x):
                return x * 2

            @kernel(
                reference=eager,
                fallback=eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32", layout="contiguous")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(0, 65536)},
                ),
            )
            def scale(x):
                y = torch.empty_like(x)
                if x.numel() == 0:
                    return y
                assert x.shape[0] > 0
                _scale[(triton.cdiv(x.shape[0], 256),)](x, y, x.shape[0], BLOCK=256)
                return y
            """,
            note="What the assertion would refuse has been returned before.",
        ),
    ),
)


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Conditions at the top level of a function, and a note of the calls that may be left out."""
    from kgate.lint.model.conditions import UNKNOWN, condition_of, is_known

    before: list[Condition] = []
    maybe: dict[str, None] = {}
    for statement in _top(host.node.body):
        test, wanted = _checked(host, statement)
        if test is not None:
            condition = condition_of(host, test)
            if is_known(condition):
                text = " ".join(host.module.segment(test).split())
                yield Hit(
                    test,
                    f"{text} is checked",
                    data={
                        "must": condition if wanted else ["not", condition],
                        "before": list(before),
                        "text": f"assert {text}" if wanted else f"the raise on {text}",
                    },
                )
            continue
        if before or _is_branch(statement):
            maybe.update(dict.fromkeys(_called(host, statement)))
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return) and not statement.orelse:
            before.append(condition_of(host, statement.test))
        elif _is_branch(statement) and any(_lies_in(host, item, statement) for item in host.returns):
            before.append(UNKNOWN)
    if maybe:
        yield Hit(host.module.name_place(host.node), "", data={"host": host.name, "maybe": list(maybe)})


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever the function does, up to a return."""
    for statement in body:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from _top(statement.body)
        else:
            yield statement


def _checked(host: Host, statement: ast.stmt) -> tuple[ast.expr | None, bool]:
    """The test of an assertion or of ``if ...: raise``, and whether it has to be true to go on."""
    if isinstance(statement, ast.Assert):
        return statement.test, True
    if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Raise):
        return statement.test, False
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and call.args and host.module.dotted(call.func) == "torch._check":
        return call.args[0], True
    return None, True


def _is_branch(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.If, ast.For, ast.While, ast.Try, ast.AsyncFor, ast.FunctionDef))


def _lies_in(host: Host, node: ast.AST, statement: ast.stmt) -> bool:
    return any(outer is statement for outer in host.ancestors(node))


def _called(host: Host, statement: ast.stmt) -> Iterator[str]:
    """Last names of the project's functions that a statement calls; of ``F.apply`` the class."""
    module = host.module
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    for node in host.call_nodes:
        if first <= node.lineno <= last:
            chain = chain_of(node.func)
            root = chain.partition(".")[0]
            if root in ("self", "cls") or root in module.imports or root in module.functions or root in module.classes:
                origin = module.dotted_chain(chain)
                if not origin.startswith(("torch.", "triton.", "math.")):
                    yield origin.removesuffix(".apply").rpartition(".")[2]


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported for the first kernel whose envelope allows inputs that are refused."""
    data = candidate.data
    if "must" not in data:
        return
    for declaration, scope in _ways(project).get((candidate.path, candidate.symbol), ()):
        if _is_always_reached(project, scope):
            shown = _refused(project, declaration, scope, data)
            if shown:
                yield project.confirm(
                    RULE,
                    candidate,
                    f"{data['text']} refuses {shown}, which the envelope of {declaration.name} promises",
                    "narrow the envelope, or serve those inputs",
                )
                return


def _refused(project: Project, declaration: Declaration, scope: Scope, data: dict[str, Any]) -> str:
    from kgate.lint.model.conditions import Judge

    judge = Judge(declaration.envelope, project.sizes(declaration), scope)
    point = judge.refused(data["must"], data["before"])
    return "" if point is None else judge.shown(data["must"], point)


def _ways(project: Project) -> dict[HostKey, list[tuple[Declaration, Scope]]]:
    """Host function to the declared kernels that come to call it."""
    known: dict[HostKey, list[tuple[Declaration, Scope]]] | None = project.memory.get("_declared_ways")
    if known is None:
        known = project.memory["_declared_ways"] = {}
        for declaration in project.declarations.values():
            for key, scopes in project.scopes(declaration).items():
                known.setdefault(key, []).extend((declaration, scope) for scope in scopes)
    return known


def _is_always_reached(project: Project, scope: Scope) -> bool:
    """Whether every call on the way is made whatever the inputs are."""
    while scope.outer is not None:
        parts = scope.host[1].split(".")
        name = parts[-2] if parts[-1] == "forward" and len(parts) > 1 else parts[-1]
        if name in _maybe(project).get(scope.outer.host, ()):
            return False
        scope = scope.outer
    return True


def _maybe(project: Project) -> dict[HostKey, list[str]]:
    known: dict[HostKey, list[str]] | None = project.memory.get("_maybe_called")
    if known is None:
        known = project.memory["_maybe_called"] = {
            (path, item.data["host"]): item.data["maybe"]
            for path, facts in project.files.items()
            for item in facts.candidates
            if item.code == RULE.code and "maybe" in item.data
        }
    return known
