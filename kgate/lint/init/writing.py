"""The source of a stub, in the style of ruff's formatter, with the evidence beside each part."""

from __future__ import annotations

from collections.abc import Iterable

from kgate.lint.init.draft import Draft, Entry

WIDTH = 120
HEADER = '''"""Kernels of this project, declared from outside: a draft that `kgate init` read from the code.

Nothing here was run. A comment names the line that a part comes from. What the code does not tell says TODO, and
`kgate lint` reports it until it is completed; a file that says TODO cannot be imported, which is why kernels that are
complete stand in one of their own. Ranges are narrow on purpose: widen what the kernel supports.
"""
'''
WORDS = ("Choice", "Dim", "Envelope", "Ignore", "ListOf", "Offsets", "Scalar", "Tensor", "kernel")


def file_source(stubs: Iterable[str], imports: Iterable[str]) -> str:
    """A whole file."""
    parts = [HEADER, "\n".join(sorted_imports(imports, stubs_text := "\n".join(stubs))), ""]
    return "\n".join(parts) + "\n" + stubs_text.rstrip("\n") + "\n"


def sorted_imports(imports: Iterable[str], body: str) -> list[str]:
    """The import statements: the project's modules as given, and the words of kgate that the body uses."""
    lines = [
        part
        for line in sorted(dict.fromkeys(imports), key=lambda line: (line.startswith("from"), line))
        for part in folded_import(line)
    ]
    own = wrapped_import("kgate", used_words(body))
    return [*lines, *([""] if lines else []), *own]


def folded_import(line: str) -> list[str]:
    """An import statement, over three lines where it is too long for one."""
    module, _, name = line.partition(" import ")
    return [line] if len(line) <= WIDTH else [f"{module} import (", f"    {name},", ")"]


def used_words(body: str) -> list[str]:
    """The words of kgate that some stubs use."""
    import re

    return [word for word in WORDS if re.search(rf"\b{word}\(", body)]


def wrapped_import(module: str, words: list[str]) -> list[str]:
    """``from module import a, b``, over several lines where it is too long."""
    line = f"from {module} import {', '.join(words)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {word}," for word in words), ")"]


def stub_source(draft: Draft, callee: str) -> str:
    """The declaration of one kernel; ``callee`` is how the file names what is declared."""
    lines = [*draft.helper, *(["", ""] if draft.helper else []), *_notes(draft)]
    wrapped = draft.launcher.kind != "function"
    lines.append("@kernel(" if wrapped else f"{draft.name} = kernel(")
    lines += _line(f"reference={draft.reference.source},", draft.reference.evidence, 4)
    lines += _line(f"fallback={draft.fallback.source},", draft.fallback.evidence, 4)
    if draft.op and draft.op != draft.name:
        lines.append(f'    op="{draft.op}",')
    lines.append("    envelope=Envelope(")
    for part in ("inputs", "outputs", "dtypes", "dims"):
        lines += _dict(part, getattr(draft, part))
    for part in ("where", "targets"):
        lines += _tuple(part, getattr(draft, part))
    lines.append("    ),")
    if wrapped:
        lines += [")", *_function(draft, callee)]
    else:
        lines.append(f")({callee})")
    return "\n".join(lines)


def _function(draft: Draft, callee: str) -> list[str]:
    """A function around something that is called like one."""
    written = [(name, f"{name}={default}" if default else name) for name, default in draft.parameters]
    positional = [text for name, text in written if name not in draft.keyword_only]
    keywords = [text for name, text in written if name in draft.keyword_only]
    given = [f"{name}={name}" if name in draft.keyword_only else name for name, _ in draft.parameters]
    return function_lines(draft.name, [*positional, *(["*", *keywords] if keywords else [])], callee, given)


def function_lines(name: str, parameters: list[str], callee: str, given: list[str]) -> list[str]:
    """A function that hands what it is given on to another one."""
    return [*_folded(f"def {name}(", parameters, "):", 0), *_folded(f"return {callee}(", given, ")", 4)]


def _folded(before: str, parts: list[str], after: str, indent: int) -> list[str]:
    """A bracket on one line, on three, or with a line for each part, as a formatter does."""
    space, inner = " " * indent, ", ".join(parts)
    if len(f"{space}{before}{inner}{after}") <= WIDTH:
        return [f"{space}{before}{inner}{after}"]
    if len(f"{space}    {inner}") <= WIDTH:
        return [space + before, f"{space}    {inner}", space + after]
    return [space + before, *(f"{space}    {part}," for part in parts), space + after]


def _notes(draft: Draft) -> list[str]:
    lines = []
    for note in draft.notes:
        lines += _comment(note, 0)
    return lines


def _dict(part: str, entries: list[Entry]) -> list[str]:
    if not entries:
        return [] if part in ("dtypes", "dims", "where", "targets") else [f"        {part}={{}},"]
    lines = [f"        {part}={{"]
    for entry in entries:
        lines += _line(f'"{entry.name}": {entry.source},', entry.evidence, 12)
    return [*lines, "        },"]


def _tuple(part: str, entries: list[Entry]) -> list[str]:
    if not entries:
        return []
    single = f"{part}=({entries[0].source},),"
    if len(entries) == 1 and len(single) + 8 <= WIDTH:
        return _line(single, entries[0].evidence, 8)
    lines = [f"        {part}=("]
    for entry in entries:
        lines += _line(f"{entry.source},", entry.evidence, 12)
    return [*lines, "        ),"]


def _line(code: str, evidence: list[str], indent: int) -> list[str]:
    """Code with its evidence: beside it where that fits, above it otherwise."""
    space = " " * indent
    shown = list(dict.fromkeys(_short(text) for text in evidence if text))[:3]
    if len(shown) == 1 and len(f"{space}{code}  # {shown[0]}") <= WIDTH:
        return [f"{space}{code}  # {shown[0]}"]
    joined = "; ".join(shown)
    if shown and len(f"{space}{code}  # {joined}") <= WIDTH:
        return [f"{space}{code}  # {joined}"]
    above = [line for text in shown for line in _comment(text, indent)]
    return [*above, *_code(code, indent)]


def _code(code: str, indent: int) -> list[str]:
    """A line of code; a call that is too long is opened, as a formatter does."""
    space = " " * indent
    line = space + code
    if len(line) <= WIDTH or "(" not in code or not code.endswith("),"):
        return [line]
    head, _, inner = code.partition("(")
    inner = inner[:-2]
    if len(f"{space}    {inner}") <= WIDTH:
        return [f"{space}{head}(", f"{space}    {inner}", f"{space}),"]
    return [f"{space}{head}(", *(f"{space}    {part}," for part in _split(inner)), f"{space}),"]


def _split(inner: str) -> list[str]:
    """Arguments, split at the commas between them."""
    parts, depth, quoted, current = [], 0, False, ""
    for character in inner:
        quoted ^= character == '"'
        depth += (character in "([{") - (character in ")]}") if not quoted else 0
        if character == "," and not depth and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


def _comment(text: str, indent: int) -> list[str]:
    """A comment, folded at the width."""
    import textwrap

    prefix = " " * indent + "# "
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_long_words=False) or []


def _short(text: str) -> str:
    """Evidence without its tail, where a line of code is long."""
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "..."
