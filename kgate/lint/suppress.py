"""``# kgate: ignore[KG203] reason``: reading such comments, applying them, finding unused ones, writing them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgate.lint.comments import Comment, Layout, cuda_layout, cuda_strings, python_layout
from kgate.lint.records import Range, Suppression
from kgate.lint.selection import Catalogue, Selection
from kgate.source.records import Edit, Finding, Fix

UNREADABLE, UNUSED, WITHOUT_REASON, UNKNOWN, UNEXAMINED = "KG001", "KG002", "KG003", "KG004", "KG005"
ABOUT_COMMENTS = frozenset({UNUSED, WITHOUT_REASON, UNKNOWN})
"""Rules about the comments themselves; no comment hides their findings."""
HOW = "write `kgate: ignore[KG203] reason`, with the code of each rule that is to be quiet here"

_PART = re.compile(
    r"""
    (?:\#|//|/\*)\s*(?P<name>(?i:kgate)):\s*
    (?P<word>[A-Za-z][\w-]*)
    (?P<listed>\s*\[(?P<codes>[^\]\n]*)\])?
    (?P<reason>.*?)
    (?=\s*\*/|\s+\#\s|\s+//\s|\n|$)
    """,
    re.VERBOSE,
)
_NAME = "kgate"
_SPELLINGS = ("kgate:", "KGATE:", "Kgate:", "KGate:")
"""What a file has to hold for its comments to be read at all; all but the first are mistakes."""
_IGNORE = "ignore"
_IGNORE_FILE = "ignore-file"
_MEANT = frozenset({_IGNORE, _IGNORE_FILE, "ignores", "ignored", "ignore-line", "ignore-next-line", "disable", "noqa"})
_TOO_WIDE = frozenset({"ALL", "KG"})


# Reading --------------------------------------------------------------------------------------------------


def suppressions_of(text: str) -> tuple[Suppression, ...]:
    """The suppressions of a Python file, with those inside its CUDA C++ strings.

    A comment after code covers the whole statement that it ends or stands in; one alone on its line covers the next
    statement; of a compound statement that is its header. Never raises: where the file cannot be tokenised, lines
    stand for statements.
    """
    if not _is_named(text):
        return ()
    text = _plain(text)
    found = _read(python_layout(text))
    if "__global__" in text or "<<<" in text:
        for line, column, held in cuda_strings(text):
            if _is_named(held):
                found += [_moved(item, line, column) for item in _read(cuda_layout(held))]
    return tuple(found)


def suppressions_of_cuda(text: str) -> tuple[Suppression, ...]:
    """The suppressions of a file of CUDA C++: ``// kgate: ignore[KG604] reason``. Never raises."""
    return tuple(_read(cuda_layout(_plain(text)))) if _is_named(text) else ()


def _is_named(text: str) -> bool:
    return any(spelling in text for spelling in _SPELLINGS)


def _plain(text: str) -> str:
    """A text without byte order mark, its lines ended by line feeds."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _read(layout: Layout) -> list[Suppression]:
    return [
        _suppression(comment, part, layout)
        for comment in layout.comments
        if _is_named(comment.text)
        for part in _PART.finditer(comment.text)
        if _is_meant(part)
    ]


def _is_meant(part: re.Match[str]) -> bool:
    """Whether it is an attempt at a suppression; ``# kgate: see the README`` is none."""
    return part["word"].lower() in _MEANT or part["listed"] is not None


def _suppression(comment: Comment, part: re.Match[str], layout: Layout) -> Suppression:
    place = (comment.line, comment.column, comment.end_line, comment.end_column)
    whole = part["word"] == _IGNORE_FILE
    first, last = (1, 0) if whole else layout.covered_by(comment)
    codes = tuple(code.strip() for code in (part["codes"] or "").split(",") if code.strip())
    return Suppression(place, first, last, codes, _reason(part), _mistake(part, codes), comment.text)


def _reason(part: re.Match[str]) -> str:
    return part["reason"].strip().lstrip(":-–— \t").strip()


def _mistake(part: re.Match[str], codes: tuple[str, ...]) -> str:
    word = part["word"]
    if part["name"] != _NAME:
        return f"`{part['name']}: {word}` is not read; write `{_NAME}:`"
    if word not in (_IGNORE, _IGNORE_FILE):
        return f"`kgate: {word}` is no comment that kgate knows"
    if not codes:
        return f"`kgate: {word}` names no rule"
    wide = next((code for code in codes if code in _TOO_WIDE), "")
    return f"`kgate: {word}[{wide}]` would hide everything" if wide else ""


def _moved(item: Suppression, line: int, column: int) -> Suppression:
    """A suppression of a string in terms of the file that holds it."""

    def here(row: int, place: int) -> tuple[int, int]:
        return row + line - 1, place + column - 1 if row == 1 else place

    start, end = here(*item.place[:2]), here(*item.place[2:])
    last = item.last + line - 1 if item.last else item.last
    first = item.first + line - 1 if item.last else item.first
    return Suppression((*start, *end), first, last, item.codes, item.reason, item.error, item.comment)


# Judging the comments -------------------------------------------------------------------------------------


def check(path: str, suppressions: Iterable[Suppression], catalogue: Catalogue) -> list[Finding]:
    """What is wrong with the comments of a file: no reason (KG003); no rule, or one that does not exist (KG004)."""
    found: list[Finding] = []
    for item in suppressions:
        if item.error:
            remedy = "exclude the file in the configuration instead" if "everything" in item.error else HOW
            found.append(_finding(catalogue, UNKNOWN, path, item, item.error, remedy))
            continue
        for code in item.codes:
            if not catalogue.codes(code):
                message = f"the ignore names {code!r}, which is no rule"
                found.append(_finding(catalogue, UNKNOWN, path, item, message, catalogue.nearest(code)))
        if not item.reason:
            message = f"the ignore of {', '.join(item.codes)} gives no reason, so it hides nothing"
            found.append(_finding(catalogue, WITHOUT_REASON, path, item, message, "say after the bracket why"))
    return found


def _finding(
    catalogue: Catalogue,
    code: str,
    path: str,
    item: Suppression,
    message: str,
    remedy: str,
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    rule = catalogue.rule(code)
    severity, name = (rule.severity, rule.name) if rule else ("warning", "")
    return Finding(code, severity, path, *item.place, message, remedy, name=name, fixes=fixes)


# Applying -------------------------------------------------------------------------------------------------


def apply(
    findings: Iterable[Finding],
    suppressions: Mapping[str, Sequence[Suppression]],
    selection: Selection,
    *,
    unable: Iterable[str] = (),
) -> tuple[list[Finding], list[Finding]]:
    """The findings that no comment hides, and one KG002 for each comment, or code of one, that hid nothing.

    ``findings`` are those of whole files, before they are narrowed to changed lines, with rules off already taken
    out; ``unable`` are codes that this run could not find. A comment counts as unused only where every rule that it
    names was on in its file and the whole file was examined.
    """
    kept: list[Finding] = []
    used: set[tuple[str, int, str]] = set()
    unread: set[str] = set()
    for finding in findings:
        if finding.code in (UNREADABLE, UNEXAMINED):
            unread.add(finding.path)
        hidden = False
        for number, item in enumerate(suppressions.get(finding.path, ())):
            for code in _hides(item, finding, selection.catalogue):
                used.add((finding.path, number, code))
                hidden = True
        if not hidden:
            kept.append(finding)
    blind = frozenset(unable)
    unused: list[Finding] = []
    for path, items in suppressions.items():
        if path in unread or not selection.active(UNUSED, path):
            continue
        for number, item in enumerate(items):
            idle = [code for code in item.codes if (path, number, code) not in used]
            if idle and _certain(item, path, selection, blind):
                unused.append(_unused(path, item, idle, selection.catalogue))
    return kept, unused


def _hides(item: Suppression, finding: Finding, catalogue: Catalogue) -> list[str]:
    """The codes of a comment that hide a finding, as written."""
    if item.error or not item.reason or finding.code in ABOUT_COMMENTS:
        return []
    if item.last and not item.first <= finding.line <= item.last:
        return []
    return [code for code in item.codes if code == finding.code or finding.code in catalogue.codes(code)]


def _certain(item: Suppression, path: str, selection: Selection, blind: frozenset[str]) -> bool:
    if item.error or not item.reason:
        return False
    rules = selection.catalogue.rules
    active = selection.codes(path)
    for selector in item.codes:
        meant = selection.catalogue.codes(selector)
        if len(meant) > 1:  # of a prefix, what is off unless selected is not missed
            meant = frozenset(code for code in meant if rules[code].default or code in active)
        if not meant or UNUSED in meant or not meant <= active or meant & blind:
            return False
    return True


def _unused(path: str, item: Suppression, idle: list[str], catalogue: Catalogue) -> Finding:
    listed = ", ".join(idle)
    where = "in this file" if not item.last else "here"
    message = f"the ignore of {listed} hides nothing {where}"
    alone = len(idle) == len(item.codes)
    remedy = "remove the comment" if alone else f"remove {listed} from it"
    return _finding(catalogue, UNUSED, path, item, message, remedy, _removal(path, item, idle))


def _removal(path: str, item: Suppression, idle: list[str]) -> tuple[Fix, ...]:
    """The fix that takes codes out of a comment; none for one inside a string."""
    if is_python(path) != item.comment.startswith("#"):
        return ()
    text = _without(item, idle)
    if text == item.comment:
        return ()
    kind = "replace-comment" if text else "remove-comment"
    title = "Remove the ignore" if len(idle) == len(item.codes) else f"Remove {', '.join(idle)} from the ignore"
    return (Fix(title, True, (Edit(kind, *item.place, text=text),)),)


def _without(item: Suppression, idle: list[str]) -> str:
    """The comment that is left: without the codes, or without this ignore; empty where nothing is left."""
    for part in _PART.finditer(item.comment):
        codes = tuple(code.strip() for code in (part["codes"] or "").split(",") if code.strip())
        if part["name"] != _NAME or codes != item.codes or _reason(part) != item.reason:
            continue
        left = ", ".join(code for code in codes if code not in idle)
        if left:
            start, end = part.span("codes")
            return item.comment[:start] + left + item.comment[end:]
        before, after = item.comment[: part.start()].rstrip(), item.comment[part.end() :].lstrip()
        if item.comment.startswith("/*"):  # what is left of a block comment needs its ends
            return "" if after == "*/" and not before else item.comment
        return f"{before}  {after}".strip()
    return item.comment


# Writing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mark:
    """Codes to write at one place."""

    line: int
    """Line at whose end the comment goes, or that holds the comment to merge into."""
    place: Range | None
    """The comment to merge into."""
    codes: tuple[str, ...]


def add_ignores(text: str, findings: Iterable[Finding], reason: str) -> str:
    """The text of one file with a comment for each finding: merged into one that is there, or at the statement's end.

    Takes the text with its own line endings and byte order mark, and changes nothing else of it. A file that cannot
    be tokenised, or is neither Python nor CUDA C++ by its name, a finding on a line without code, and findings about
    such comments are left alone.
    """
    wanted = [item for item in findings if item.code not in ABOUT_COMMENTS]
    if not wanted or not _takes_comments(wanted[0].path):
        return text
    python = is_python(wanted[0].path)
    body, plain = text.removeprefix("\ufeff"), _plain(text)
    layout = python_layout(plain) if python else cuda_layout(plain)
    if not layout.exact:
        return text
    present = suppressions_of(plain) if python else suppressions_of_cuda(plain)
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", body)
    why = _one_line(reason)
    for mark in _marks(wanted, layout, present):
        number = mark.line - 1
        if mark.place is None and not python and _goes_on(lines[number], mark.line, layout):
            _put_above(lines, mark.line, layout, _comment(python, mark.codes, why))
        elif mark.place is None:
            content, ending = _split(lines[number])
            lines[number] = content + _blanks(content) + _comment(python, mark.codes, why) + ending
        else:
            _merge(lines, mark.place, mark.codes, why)
    return text[: len(text) - len(body)] + "".join(lines)


def add_ignores_to(raw: bytes, findings: Iterable[Finding], reason: str) -> bytes:
    """:func:`add_ignores` on the bytes of a file, in its own encoding.

    A file that cannot be decoded, or whose encoding cannot hold the reason, comes back as it was.
    """
    items = list(findings)
    if not items:
        return raw
    encoding = _encoding(raw) if is_python(items[0].path) else "utf-8"
    marked = raw.startswith(codecs.BOM_UTF8)
    body = raw[len(codecs.BOM_UTF8) :] if marked else raw
    try:
        changed = add_ignores(body.decode(encoding), items, reason).encode(encoding)
    except (UnicodeError, LookupError):
        return raw
    return raw[: len(raw) - len(body)] + changed


def is_reason(text: str) -> bool:
    """Whether a comment that is written with this reason is read as one with a reason, in Python and in CUDA C++."""
    written = [_comment(python, ("KG001",), _one_line(text)) for python in (True, False)]
    read = [*suppressions_of(f"pass  {written[0]}\n"), *suppressions_of_cuda(f"f();  {written[1]}\n")]
    return len(read) == len(written) and all(item.reason and not item.error for item in read)


def is_python(path: str) -> bool:
    """Whether a file holds Python rather than CUDA C++, by its name."""
    return path.endswith((".py", ".pyi"))


def _takes_comments(path: str) -> bool:
    """Whether suppressions are read from a file of this name; a baseline, say, has none."""
    from kgate.lint.analysis import CUDA_SUFFIXES

    return is_python(path) or path.endswith(CUDA_SUFFIXES)


def _encoding(raw: bytes) -> str:
    import io
    import tokenize

    try:
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0].replace("utf-8-sig", "utf-8")
    except SyntaxError:
        return "unknown"


def _marks(findings: list[Finding], layout: Layout, present: Sequence[Suppression]) -> list[_Mark]:
    """One mark for each place, with the codes of all findings that it is to hide."""
    places: dict[tuple[int, Range | None], dict[str, None]] = {}
    for finding in sorted(findings, key=lambda item: (item.line, item.column, item.code)):
        near = [item for item in present if item.last and item.first <= finding.line <= item.last and not item.error]
        statement = layout.statement_at(finding.line)
        if near:
            where: tuple[int, Range | None] = (near[-1].place[2], near[-1].place)
        elif statement is not None:
            where = (statement[1], None)
        else:
            continue
        places.setdefault(where, {})[finding.code] = None
    return [_Mark(line, place, tuple(codes)) for (line, place), codes in places.items()]


def _one_line(reason: str) -> str:
    """A reason that ends where the comment does: no line break, no ``# ``, no ``*/``, no backslash at its end."""
    words = " ".join(reason.split()).replace("*/", "* /")
    return re.sub(r"(?<!\S)(#|//)\s+", r"\1", words).rstrip("\\").rstrip()


def _goes_on(line: str, number: int, layout: Layout) -> bool:
    """Whether what stands at the end of a line belongs to a comment that goes on below it, or is joined to the next."""
    inside = any(item.line <= number < item.end_line for item in layout.comments)
    return inside or _split(line)[0].endswith("\\")


def _put_above(lines: list[str], number: int, layout: Layout, comment: str) -> None:
    """Put a comment on a line of its own above the statement of a line, unless that would be inside a comment."""
    statement = layout.statement_at(number)
    first = layout.first_on(statement[0]) if statement else number
    if first > 1 and _goes_on(lines[first - 2], first - 1, layout):
        return
    line = lines[first - 1]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    lines[first - 1] = f"{indent}{comment}{_split(line)[1] or _split(lines[0])[1]}{line}"


def _split(line: str) -> tuple[str, str]:
    content = line.rstrip("\r\n")
    return content, line[len(content) :]


def _blanks(content: str) -> str:
    return "" if content.endswith("  ") or not content else " " if content.endswith((" ", "\t")) else "  "


def _comment(python: bool, codes: tuple[str, ...], reason: str) -> str:
    return f"{'#' if python else '//'} kgate: ignore[{', '.join(codes)}] {reason}"


def _merge(lines: list[str], place: Range, codes: tuple[str, ...], reason: str) -> None:
    """Add codes to the ignore that a comment holds, and the reason where it says something else or nothing."""
    number = place[0] - 1
    content, ending = _split(lines[number])
    for part in _PART.finditer(content, place[1] - 1):
        if part["name"] == _NAME and part["word"] == _IGNORE and part["codes"]:
            start, end = part.span("codes")
            listed = [code.strip() for code in part["codes"].split(",") if code.strip()]
            merged = ", ".join([*listed, *(code for code in codes if code not in listed)])
            between = content[end : part.start("reason")]
            lines[number] = content[:start] + merged + between + _said(part, reason) + content[part.end() :] + ending
            return


def _said(part: re.Match[str], reason: str) -> str:
    """What stands behind the bracket once a reason is added to it."""
    before = _reason(part)
    if not before:
        return f" {reason}"
    written = part["reason"]
    return written if reason in before else f"{written.rstrip()}; {reason}"
