"""Fixes applied to one file: each as a whole or not at all, and only those that do not get in each other's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kgate.lint.fixes import arguments, comments, expressions, statements
from kgate.lint.fixes.nodes import Nodes, Spot, Statement, parse
from kgate.lint.fixes.text import Refusal, SourceText, Splice
from kgate.source.records import Edit, Fix


@dataclass(frozen=True)
class Applied:
    """What became of the fixes of one file."""

    source: bytes
    """The file after them."""
    applied: tuple[Fix, ...]
    refused: tuple[tuple[Fix, str], ...]
    """Those that were not made, each with the reason."""


def apply(source: bytes, fixes: Sequence[Fix], *, path: str = "kernel.py") -> Applied:
    """Apply fixes to the source of a file, the first ones first.

    A fix is refused where an edit fits no node exactly, where the result would not be Python any more, where it would
    change nothing, and where it conflicts with an earlier one: the file is then linted and fixed again. In a file that
    is no Python, by its ``path``, only comments are edited.
    """
    try:
        file = _File(source, python=path.endswith((".py", ".pyi")))
    except Refusal as reason:
        return Applied(source, (), tuple((fix, str(reason)) for fix in fixes))
    accepted: list[_Plan] = []
    refused: list[tuple[Fix, str]] = []
    for fix in fixes:
        try:
            plan = file.plan(fix)
            if (other := next((item for item in accepted if item.conflicts(plan)), None)) is not None:
                raise Refusal(f"conflicts with {other.fix.title!r}")
            file.check(file.result([plan]))
            accepted.append(plan)
        except Refusal as reason:
            refused.append((fix, str(reason)))
    accepted, result, late = _together(file, accepted)
    return Applied(result, tuple(plan.fix for plan in accepted), tuple(refused + late))


def apply_each(source: bytes, fixes: Sequence[Fix], *, path: str = "kernel.py") -> list[bytes | None]:
    """What each fix alone makes of a file, which is read once; None for one that cannot be made; see :func:`apply`."""
    try:
        file = _File(source, python=path.endswith((".py", ".pyi")))
    except Refusal:
        return [None] * len(fixes)
    made: list[bytes | None] = []
    for fix in fixes:
        try:
            made.append(file.check(file.result([file.plan(fix)])))
        except Refusal:
            made.append(None)
    return made


def _together(file: _File, plans: list[_Plan]) -> tuple[list[_Plan], bytes, list[tuple[Fix, str]]]:
    """All plans carried out, without those that only the ones before them spoil."""
    if not plans:
        return [], file.raw, []
    try:
        return plans, file.check(file.result(plans)), []
    except Refusal:
        pass
    kept: list[_Plan] = []
    refused = []
    for plan in plans:
        try:
            file.check(file.result([*kept, plan]))
            kept.append(plan)
        except Refusal as reason:
            refused.append((plan.fix, f"cannot be made together with the fixes before it: {reason}"))
    return kept, file.result(kept) if kept else file.raw, refused


@dataclass
class _Plan:
    """What one fix does to the file."""

    fix: Fix
    splices: list[Splice] = field(default_factory=list)
    calls: dict[tuple[int, int], arguments.Changes] = field(default_factory=dict)
    removed: list[Statement] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Stretches that are its own; an empty one is a place where it puts something in."""
    keys: set[tuple[str, int, int]] = field(default_factory=set)
    """Nodes that are its own."""

    def conflicts(self, other: _Plan) -> bool:
        """Whether it and another fix overlap or act on the same node."""
        if self.keys & other.keys:
            return True
        if any(arguments.touching(self.calls[key], other.calls[key]) for key in self.calls.keys() & other.calls.keys()):
            return True
        return any(_overlap(mine, theirs) for mine in self.spans for theirs in other.spans)


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[1] and second[0] < first[1]


class _File:
    """The file that is fixed: turns a fix into a plan, and plans into the new source."""

    def __init__(self, raw: bytes, *, python: bool) -> None:
        self.raw = raw
        self.python = python
        self.source = SourceText(raw, python=python)
        self._calls: dict[tuple[int, int], arguments.Call] = {}
        if python and parse(raw) is None:
            raise Refusal("the file is no valid Python")

    @cached_property
    def nodes(self) -> Nodes:
        """Its nodes; parsed once, when the first edit asks."""
        return Nodes(self.source)

    def plan(self, fix: Fix) -> _Plan:
        """What a fix does. Raises Refusal where one of its edits cannot be made."""
        if not fix.edits:
            raise Refusal("it has no edits")
        plan = _Plan(fix)
        for edit in fix.edits:
            if not self.python and edit.kind not in ("replace-comment", "remove-comment"):
                raise Refusal(f"{edit.kind} is for Python files only")
            self._add(plan, edit)
        return plan

    def result(self, plans: Sequence[_Plan]) -> bytes:
        """The source with plans carried out together."""
        splices = [item for plan in plans for item in plan.splices]
        for key in sorted({key for plan in plans for key in plan.calls}):
            changes = arguments.merged([plan.calls[key] for plan in plans if key in plan.calls])
            splices += self._calls[key].render(changes)
        removed = [item for plan in plans for item in plan.removed]
        if removed:
            splices += statements.remove(self.nodes, removed)
        imports = [text for plan in plans for text in plan.imports]
        if imports:
            splices += statements.add_imports(self.nodes, imports)
        return self.source.encode(self.source.spliced(splices))

    def check(self, result: bytes) -> bytes:
        """The same source. Raises Refusal where it is not Python, or the file as it was."""
        if result == self.raw:
            raise Refusal("it changes nothing")
        if self.python and parse(result) is None:
            raise Refusal("the result would be no valid Python")
        return result

    def _add(self, plan: _Plan, edit: Edit) -> None:
        kind = edit.kind
        if kind == "add-import":
            statements.check_import(edit.text)
            plan.imports.append(edit.text)
        elif kind in ("replace", "wrap"):
            self._expression(plan, edit)
        elif kind in ("set-argument", "remove-argument"):
            self._argument(plan, edit)
        elif kind in ("add-decorator", "insert-before", "insert-after", "remove"):
            self._statement(plan, edit)
        elif kind in ("replace-comment", "remove-comment"):
            self._comment(plan, edit)
        else:
            raise Refusal(f"there is no edit of kind {kind!r}")

    def _expression(self, plan: _Plan, edit: Edit) -> None:
        span = self.source.span(edit)
        spot = self.nodes.expressions.get(span)
        statement = self.nodes.statements.get(span)
        if edit.kind == "wrap":
            if spot is None:
                raise Refusal("no expression spans exactly the range")
            plan.splices += expressions.wrap(self.nodes, spot, edit.text, edit.name)
        elif spot is not None and not (statement is not None and _only_statement(edit.text)):
            plan.splices += expressions.replace(self.nodes, spot, edit.text)
        elif statement is not None:
            plan.splices += statements.replace(self.nodes, statement, edit.text)
        elif span in self.nodes.keywords or span in self.nodes.parameters:
            plan.splices += _signature_part(self.nodes, span, edit.text)
        else:
            raise Refusal("no expression or statement spans exactly the range")
        plan.spans.append(_reach(spot, span))

    def _argument(self, plan: _Plan, edit: Edit) -> None:
        span = self.source.span(edit)
        if not edit.name.isidentifier():
            raise Refusal(f"{edit.name!r} is no name of an argument")
        spot = self.nodes.expressions.get(span)
        if spot is None:
            raise Refusal("no call spans exactly the range")
        call = self._calls.get(span) or arguments.Call(self.nodes, spot)
        removed = edit.kind == "remove-argument"
        call.check(edit.name, removed=removed)
        self._calls[span] = call
        changes = plan.calls.setdefault(span, arguments.Changes())
        if removed:
            changes.removed.append(edit.name)
            plan.spans.append((call.opening, call.closing))
            return
        changes.set[edit.name] = edit.text
        old = call.named(edit.name)
        end = call.arguments[-1].end if call.arguments else call.opening
        plan.spans.append((old.start, old.end) if old is not None else (end, end))

    def _statement(self, plan: _Plan, edit: Edit) -> None:
        span = self.source.span(edit)
        statement = self.nodes.statements.get(span)
        if statement is None:
            raise Refusal("no statement spans exactly the range")
        if edit.kind == "add-decorator":
            plan.splices += statements.decorate(self.nodes, statement, edit.text, top=edit.name == "top")
            plan.keys.add(("decorators", *span))
            return
        plan.keys.add(("statement", *span))
        if edit.kind == "remove":
            statements.check_removal(statement)
            plan.removed.append(statement)
            plan.spans.append((statement.top, statement.end))
        else:
            after = edit.kind == "insert-after"
            made = statements.insert(self.nodes, statement, edit.text, after=after)
            plan.splices += made
            plan.spans.append((made[0].start, made[0].start))

    def _comment(self, plan: _Plan, edit: Edit) -> None:
        span = self.source.span(edit)
        comments.check_comment(self.source, span, self.nodes.comments if self.python else None)
        if edit.kind == "replace-comment":
            plan.splices += comments.replace(self.source, span, edit.text)
        else:
            plan.splices += comments.remove(self.source, span)
        plan.spans.append(span)


def _reach(spot: Spot | None, span: tuple[int, int]) -> tuple[int, int]:
    """What a changed expression takes for itself, the parentheses around it included."""
    return span if spot is None else (min(span[0], spot.outer), max(span[1], spot.outer_end))


def _only_statement(text: str) -> bool:
    """Whether a text is a statement, and no expression."""
    return parse(f"({text}\n)") is None and parse(text) is not None


def _signature_part(nodes: Nodes, span: tuple[int, int], text: str) -> list[Splice]:
    """A parameter, or an argument given by keyword, exchanged for another."""
    parameter = span in nodes.parameters
    tree = parse(f"def f({text}\n): ..." if parameter else f"f({text}\n)")
    comma = parse(f"def f({text}\n,): ..." if parameter else f"f({text}\n,)")
    if tree is None or comma is None:
        raise Refusal(f"{text!r} is no {'parameter' if parameter else 'argument'}")
    lost = [item for item in nodes.comments_in(*span) if item not in text]
    if lost:
        raise Refusal(f"it would lose the comment {lost[0]!r}")
    return [Splice(*span, text)]
