"""The documentation of rules: plain text for ``kgate rule``, Markdown for ``docs/rules``, and JSON."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kgate.lint.examples import default_path, read
from kgate.lint.rule import EITHER, FAMILIES, SAFE, UNSAFE, Example, Rule

WIDTH = 100
INDEX = "README.md"
_TITLES = {
    "files": "Files and ignores",
    "contract": "Contract",
    "memory": "Memory and indices",
    "numerics": "Numerics",
    "launch": "Compilation, tuning, launch",
    "host": "Host side and torch",
    "cuda": "CUDA C++",
    "baselines": "Baselines",
}
_HOW_TO_FIX = {
    SAFE: "`kgate lint --fix` mends it.",
    UNSAFE: "`kgate lint --fix --unsafe-fixes` mends it; look at the change, as it may alter what is computed.",
    EITHER: (
        "`kgate lint --fix` mends it where what is computed stays right, `kgate lint --fix --unsafe-fixes` elsewhere; "
        "look at the change then."
    ),
}
_MARKS = {"": "", SAFE: "✓", UNSAFE: "~", EITHER: "✓ ~"}
_PAGE = re.compile(r"KG\d{3}-[a-z0-9-]+\.md")
_REPORT = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


# Text -----------------------------------------------------------------------------------------------------


def as_text(rule: Rule) -> str:
    """What ``kgate rule CODE`` prints: what, why, what keeps it quiet, examples, remedy, sources."""
    parts = [f"{rule.code} {rule.name} ({_standing(rule)})", _wrapped(rule.summary)]
    parts += [f"{title}\n{_wrapped(text, 4)}" for title, text in _sections(rule)]
    parts += [_text_example("Reported", rule, example) for example in rule.invalid]
    parts += [_text_example("Not reported", rule, example) for example in rule.valid]
    if rule.sources:
        parts.append("Sources\n" + "\n".join(f"    {_source(item)[1]}" for item in rule.sources))
    return "\n\n".join(parts) + "\n"


def _standing(rule: Rule, *, short: bool = False) -> str:
    words = [rule.severity if short or not rule.lowered else f"{rule.severity} ({rule.lowered})"]
    if rule.fix:
        words.append(f"{rule.fix} fix")
    if not rule.default:
        words.append("off unless selected")
    return ", ".join(words)


def _sections(rule: Rule) -> list[tuple[str, str]]:
    """Title and text of what a rule says of itself, in order."""
    found = [("Why", rule.why), ("What to do", rule.remedy), ("What keeps it quiet", rule.quiet)]
    if rule.fix:
        found.append(("Fix", _HOW_TO_FIX[rule.fix]))
    found.append(("Why it is off by default", rule.off_because))
    if rule.covers and rule.covers != (rule.name,):
        found.append(("Findings under this code", ", ".join(rule.covers)))
    return [(title, text) for title, text in found if text]


def _wrapped(text: str, indent: int = 0) -> str:
    pad = " " * indent
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(
        textwrap.fill(part, WIDTH, initial_indent=pad, subsequent_indent=pad, break_long_words=False)
        for part in paragraphs
    )


def _text_example(title: str, rule: Rule, example: Example) -> str:
    head = f"{title}: {example.note}" if example.note else title
    lines = [head, "", textwrap.indent(_code(example.code), "    ")]
    if example.config:
        lines += ["", "with, in [tool.kgate]:", "", textwrap.indent(_code(example.config), "    ")]
    if example.fixed:
        lines += ["", "after the fix:", "", textwrap.indent(_code(example.fixed), "    ")]
    return "\n".join(lines)


def _code(text: str) -> str:
    return textwrap.dedent(text).strip("\n").rstrip()


def _source(text: str) -> tuple[str, str]:
    """Words and address of a public report."""
    found = _REPORT.fullmatch(text)
    return (text, f"https://github.com/{found[1]}/issues/{found[2]}") if found else (text, text)


# Markdown -------------------------------------------------------------------------------------------------


def page_name(rule: Rule) -> str:
    """File of a rule's page: ``KG203-masked-load-without-other.md``."""
    return f"{rule.code}-{rule.name}.md"


def is_page(name: str) -> bool:
    """Whether a file's name is that of a rule's page."""
    return _PAGE.fullmatch(name) is not None


def as_markdown(rule: Rule) -> str:
    """The page of a rule."""
    parts = [f"# {rule.code} {rule.name}", f"*{_standing(rule)}*", rule.summary]
    parts += [f"## {title}\n\n{_paragraphs(text)}" for title, text in _sections(rule)]
    if rule.invalid:
        parts.append("## Reported")
        parts += [_markdown_example(rule, example) for example in rule.invalid]
    if rule.valid:
        parts.append("## Not reported")
        parts += [_markdown_example(rule, example) for example in rule.valid]
    if rule.sources:
        links = [f"* [{words}]({address})" for words, address in map(_source, rule.sources)]
        parts.append("## Sources\n\n" + "\n".join(links))
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _markdown_example(rule: Rule, example: Example) -> str:
    language = "cuda" if default_path(rule).endswith(".cu") else "python"
    parts = [example.note] if example.note else []
    parts.append(_fenced(example.code, language))
    if example.config:
        parts += ["with, in `[tool.kgate]`:", _fenced(example.config, "toml")]
    if example.fixed:
        parts += ["After the fix:", _fenced(example.fixed, language)]
    return "\n\n".join(parts)


def _fenced(text: str, language: str) -> str:
    code = _code(text)
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", code)), 0)
    return f"{fence}{language}\n{code}\n{fence}"


def index(rules: Iterable[Rule]) -> str:
    """The page that lists all rules, family by family."""
    known = sorted(rules, key=lambda rule: rule.code)
    parts = [
        "# Rules",
        "Written by `kgate rule --all --format markdown -o docs/rules`. `kgate rule CODE` prints one of them.",
        "✓ is mended by `--fix`, ~ by `--fix --unsafe-fixes`; rules in parentheses are off unless selected.",
    ]
    for family in FAMILIES.values():
        mine = [rule for rule in known if rule.family == family]
        if mine:
            rows = "\n".join(_row(rule) for rule in mine)
            head = "| code | rule | severity | fix | what is reported |\n|---|---|---|---|---|"
            parts.append(f"## {_TITLES[family]}\n\n{head}\n{rows}")
    return "\n\n".join(parts) + "\n"


def _row(rule: Rule) -> str:
    link = f"[{rule.name}]({page_name(rule)})"
    cells = (
        rule.code,
        link if rule.default else f"({link})",
        rule.severity,
        _MARKS[rule.fix],
        rule.summary.replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |"


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """Every file of ``docs/rules``: name to content."""
    known = tuple(rules)
    return {INDEX: index(known), **{page_name(rule): as_markdown(rule) for rule in known}}


# JSON -----------------------------------------------------------------------------------------------------


def as_dict(rule: Rule) -> dict[str, Any]:
    """A rule as JSON holds it: its words, and its examples with the places that are reported."""
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity,
        "lowered": rule.lowered,
        "default": rule.default,
        "fix": rule.fix,
        "summary": rule.summary,
        "why": rule.why,
        "remedy": rule.remedy,
        "quiet": rule.quiet,
        "off_because": rule.off_because,
        "covers": list(rule.covers),
        "sources": [_source(item)[1] for item in rule.sources],
        "invalid": [_example(rule, example) for example in rule.invalid],
        "valid": [_example(rule, example) for example in rule.valid],
    }


def _example(rule: Rule, example: Example) -> dict[str, Any]:
    snippet = read(example.code, default_path(rule))
    places = [
        {"path": path, "line": line, "column": column, "end_column": end} for path, line, column, end in snippet.marks
    ]
    fixed = f"{_code(example.fixed)}\n" if example.fixed else ""
    return {
        "files": snippet.files,
        "places": places,
        "fixed": fixed,
        "note": example.note,
        "config": _code(example.config),
    }


def document(rules: Iterable[Rule]) -> dict[str, Any]:
    """All rules as one JSON document."""
    return {"schema": "kgate.rules/1", "rules": [as_dict(rule) for rule in rules]}


# What the command prints ----------------------------------------------------------------------------------


class UnknownRule(LookupError):
    """There is no such rule; ``remedy`` names the nearest."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def explained(code: str, style: str) -> str:
    """One rule, by code or name, as ``text``, ``json`` or ``markdown``. Raises :class:`UnknownRule`."""
    from kgate.lint.registry import rules
    from kgate.lint.selection import Catalogue

    catalogue = Catalogue(rules())
    rule = catalogue.rule(code)
    if rule is None:
        family = sorted(catalogue.codes(code.upper()))
        if len(family) > 1:
            remedy = f"name one of them, such as {family[0]}; `kgate rule --all` lists them"
            raise UnknownRule(f"{code} stands for {len(family)} rules", remedy)
        shown = os.fsencode(code).decode("utf-8", "backslashreplace")
        raise UnknownRule(f"there is no rule '{shown}'", catalogue.nearest(code))
    if style == "json":
        return _json({"schema": "kgate.rules/1", "rules": [as_dict(rule)]})
    return as_markdown(rule) if style == "markdown" else as_text(rule)


def explained_all(style: str) -> str:
    """Every rule: a line each as ``text``, all of it as ``json`` or ``markdown``."""
    from kgate.lint.registry import rules

    if style == "json":
        return _json(document(rules()))
    if style == "markdown":
        return "\n".join(pages(rules()).values())
    return listing(rules())


def listing(rules: Iterable[Rule]) -> str:
    """Code, name, standing and summary of each rule, in columns."""
    rows = [(rule.code, rule.name, _standing(rule, short=True), rule.summary) for rule in rules]
    names, standings = (max((len(row[column]) for row in rows), default=0) for column in (1, 2))
    return "".join(f"{code}  {name:<{names}}  {how:<{standings}}  {what}\n" for code, name, how, what in rows)


def _json(content: dict[str, Any]) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def write_pages(folder: Path) -> list[str]:
    """Write ``docs/rules``: what changed is written, pages of rules that are gone are removed; their names."""
    from kgate.lint.registry import rules

    wanted = pages(rules())
    folder.mkdir(exist_ok=True)
    changed = []
    for name, content in wanted.items():
        place = folder / name
        if not place.is_file() or place.read_bytes() != content.encode("utf-8"):
            place.write_bytes(content.encode("utf-8"))
            changed.append(name)
    for place in folder.iterdir():
        if is_page(place.name) and place.name not in wanted:
            place.unlink()
            changed.append(place.name)
    return changed
