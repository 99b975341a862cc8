"""KG117: a declaration that still says TODO is a draft, and one finding says all that is left of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kgate.lint.rule import ERROR, Example, Rule, place_of
from kgate.source.index import Index
from kgate.source.records import Finding, Related
from kgate.source.text import UnreadableText, decode

PLACEHOLDER = "TODO"
SHOWN = 3
"""Placeholders whose text the message tells."""

RULE = Rule(
    code="KG117",
    name="incomplete-draft",
    severity=ERROR,
    summary="A declaration still says TODO where `kgate init`, or its author, left something to complete.",
    why=(
        "A draft promises nothing: it cannot be imported, and the gate does not test its kernel. The mistakes that "
        "placeholders make of a declaration (a size without a range, a function that does not exist) are no news to "
        "its author, and a remedy for each would be a guess at what only its author knows."
    ),
    remedy="Replace each TODO by what the kernel supports, or delete the draft.",
    quiet=(
        "A declaration without a string that begins with `TODO`. Until a draft is complete, other rules say nothing "
        "about what it declares."
    ),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Scalar, Tensor, kernel


            def scale_eager(x, factor):
                return x * factor


            @kernel(
             ^^^^^^
                reference=scale_eager,
                fallback="TODO: what serves inputs outside the envelope of scale",
                envelope=Envelope(
                    inputs={
                        "x": Tensor("N", "T"),
                        "factor": Scalar("float", "TODO: the range of factor"),
                    },
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("TODO: the dtypes of x",)},
                    dims={"N": Dim(1, "TODO: the sizes that N can have")},
                    targets=("cuda:sm_80+",),
                ),
            )
            def scale(x, factor):
                ...
        """,
            note="Four placeholders are one finding, with a place for each.",
        ),
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            def double(x):
                ...


            double_kernel = kernel(
                            ^^^^^^
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("TODO", "float32")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )(double)
        """
        ),
    ),
    valid=(
        Example(
            """
            from kgate import Dim, Envelope, Scalar, Tensor, kernel


            def scale_eager(x, factor):
                return x * factor


            @kernel(
                reference=scale_eager,
                fallback=scale_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T"), "factor": Scalar("float", -4.0, 4.0)},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def scale(x, factor):
                ...
        """
        ),
        Example(
            """
            from kgate import Dim, Envelope, Tensor, kernel


            def double_eager(x):
                return x * 2


            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "float32")},
                    outputs={"y": Tensor("N", "float32")},
                    dims={"N": Dim(1024, 1)},
                    targets=("cuda:sm_80+",),
                ),
            )
            def double(x):  # TODO: a faster path for short rows
                ...
        """,
            note="A mistake in a declaration without placeholders is reported as what it is; comments do not count.",
        ),
    ),
)


@dataclass
class _Draft:
    """A declaration that says TODO."""

    path: str
    call: ast.Call
    places: list[tuple[ast.Constant, str]] = field(default_factory=list)
    """Placeholders, and what each of them asks for."""

    def holds(self, finding: Finding) -> bool:
        """Whether a finding that names no symbol lies inside the call."""
        last = self.call.end_lineno or self.call.lineno
        return finding.path == self.path and self.call.lineno <= finding.line <= last


def gathered(findings: Iterable[Finding], index: Index) -> list[Finding]:
    """Findings with those about drafts taken out, and one for each draft put in."""
    findings = list(findings)
    drafts = _drafts(index)
    if not drafts:
        return findings
    kept = [item for item in findings if not _about(item, drafts)]
    return [*kept, *(_finding(identity, draft, index) for identity, draft in drafts.items())]


def _about(finding: Finding, drafts: dict[str, _Draft]) -> bool:
    if finding.symbol:
        return finding.symbol in drafts
    return finding.code.startswith("KG1") and any(draft.holds(finding) for draft in drafts.values())


def _drafts(index: Index) -> dict[str, _Draft]:
    """What is declared, has a mistake and says TODO, by identity."""
    found = index.findings
    if not found:
        return {}
    symbols, bare = {item.symbol for item in found}, {item.path for item in found if not item.symbol}
    drafts: dict[str, _Draft] = {}
    for identity in index.sites:
        path = identity.partition("::")[0]
        if identity not in symbols and path not in bare:
            continue
        call = index.site(identity)
        draft = _Draft(path, call, list(_places(call, ""))) if isinstance(call, ast.Call) else None
        if draft is None or not draft.places:
            continue
        if identity in symbols or any(not item.symbol and draft.holds(item) for item in found):
            drafts[identity] = draft
    return drafts


def _places(node: ast.AST, name: str) -> Iterator[tuple[ast.Constant, str]]:
    """Strings that begin with TODO, with their text; ``name`` is what a part without a text belongs to."""
    if isinstance(node, ast.Constant):
        text = node.value.strip() if isinstance(node.value, str) else ""
        if text == PLACEHOLDER or text.startswith(f"{PLACEHOLDER}:"):
            yield node, text.removeprefix(PLACEHOLDER).lstrip(": ") or (f"what {name} is" if name else "")
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            named = isinstance(key, ast.Constant) and isinstance(key.value, str)
            if key is not None:
                yield from _places(key, name)
            yield from _places(value, str(key.value) if named and isinstance(key, ast.Constant) else name)
    elif isinstance(node, ast.keyword):
        yield from _places(node.value, node.arg or name)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _places(child, name)


def _finding(identity: str, draft: _Draft, index: Index) -> Finding:
    try:
        lines = decode(index.store.tree.read(draft.path)).split("\n")
    except (KeyError, OSError, UnreadableText):
        lines = [""] * (draft.call.end_lineno or draft.call.lineno)
    texts = list(dict.fromkeys(text for _, text in draft.places if text))
    told = ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")
    count = len(draft.places)
    say = "1 place says" if count == 1 else f"{count} places say"
    message = f"{identity.partition('::')[2]} is a draft: {say} TODO" + (f" ({told})" if told else "")
    related = [(place_of(node, lines), text) for node, text in draft.places]
    return Finding(
        RULE.code,
        RULE.severity,
        draft.path,
        *place_of(draft.call.func, lines),
        message,
        "replace each TODO by what the kernel supports",
        identity,
        RULE.name,
        tuple(Related(draft.path, place[0], place[1], text or "TODO") for place, text in related),
    )
