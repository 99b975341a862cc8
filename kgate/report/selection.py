"""What a diff touched, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgate.report.text import plural

if TYPE_CHECKING:
    from kgate.gate.select import Selection

SCHEMA = "kgate.affected/1"


def render_text(selection: Selection, *, paths: bool) -> str:
    """One line per kernel; with ``paths`` every stop from the diff to it."""
    lines = []
    for item in selection.affected:
        was = f" (was {item.was})" if item.was else ""
        lines.append(f"{item.path}  {item.name}{was}  {', '.join(item.moved)}")
        shown = item.reasons if paths else item.reasons[:1]
        for reason in shown:
            lines.append(f"    {reason.role}: {reason.sentence}")
            if paths:
                lines.extend(f"        {_step(step)}" for step in reason.steps)
    lines.extend(f"{item.path}  {item.name}  no longer declared" for item in selection.removed)
    known = {item.kernel for item in selection.affected}
    lines.extend(f"{new}  was {old}" for new, old in sorted(selection.renamed.items()) if new not in known)
    lines.extend(f"{item.path}:{item.line}  cannot be read: {item.message}" for item in selection.unreadable)
    if not lines:
        lines.append("not affected" if paths else "no kernel affected")
    total = len(selection.head.declarations)
    lines.append(f"{len(selection.affected)} of {plural(total, 'kernel')}: {selection.comparison.explanation}")
    return "\n".join(lines) + "\n"


def _step(step: object) -> str:
    from kgate.source.records import Step

    assert isinstance(step, Step)
    place = f"{step.path}:{step.line}" if step.line else step.path
    name = "" if step.symbol == step.path else f"  {step.symbol.rpartition('::')[2]}"
    return f"{place}{name}{f'  {step.change}' if step.change else ''}"


def render_json(selection: Selection) -> str:
    """One object with schema, base, head and ``kernels``: name, path and reasons of each."""
    import msgspec

    base = selection.comparison.base
    document = {
        "schema": SCHEMA,
        "base": {"label": base.label, "tree": base.tree, "commit": base.commit} if base else None,
        "head": {
            "label": selection.comparison.head.label,
            "tree": selection.comparison.head.tree,
            "commit": selection.comparison.head.commit,
        },
        "explanation": selection.comparison.explanation,
        "kernels": [
            {
                "name": item.name,
                "path": item.path,
                "kernel": item.kernel,
                "was": item.was,
                "moved": item.moved,
                "reasons": item.reasons,
            }
            for item in selection.affected
        ],
        "removed": selection.removed,
        "renamed": selection.renamed,
        "unreadable": selection.unreadable,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
