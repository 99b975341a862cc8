"""The linked phase: local findings, decided candidates, project checks and the declarations' own mistakes, together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from kgate.lint.analysis import CRASH
from kgate.lint.linking import Project
from kgate.lint.records import LintFacts, LocalFinding
from kgate.lint.registry import by_code, by_name, rules
from kgate.lint.rule import Rule
from kgate.lint.rules.contract.incomplete_draft import gathered
from kgate.source.config import Config
from kgate.source.index import Index
from kgate.source.records import Finding, Related
from kgate.source.text import UnreadableText, decode

_NAMED = re.compile(r"(?:(?:async\s+)?def\s+|class\s+)?(?P<name>[\w.]+)")


def findings_of(index: Index, config: Config, files: Mapping[str, LintFacts]) -> list[Finding]:
    """Every finding of every rule, selected or not, by file and place."""
    project = Project(index, config, files)
    found = [_failing(coded(item, index)) for item in index.findings]
    for path, facts in files.items():
        found += [_found(path, item) for item in facts.findings]
    codes = by_code()
    for candidate in project.candidates():
        rule = codes.get(candidate.code)
        for decision in rule.decisions if rule is not None else ():
            found += _kept(rule, candidate.path, partial(decision, candidate, project))
    for rule in rules():
        for check in rule.project_checks:
            found += _kept(rule, "", partial(check, project))
    found = gathered(found, index)
    found = [item for item in found if item.code not in codes or not is_for(item.path, codes[item.code].except_in)]
    return sorted(_unique(found), key=lambda item: (item.path, item.line, item.column, item.code, item.message))


def _kept(rule: Rule | None, path: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What a rule finds; where it fails, one finding that says so: its mistake must not cost those of the others."""
    try:
        return list(look())
    except Exception as error:
        assert rule is not None
        message = f"{rule.code} {rule.name} failed ({type(error).__name__}: {error}); please report it"
        told = by_code()[CRASH]
        return [Finding(CRASH, told.severity, path or "pyproject.toml", 1, 1, 1, 1, message, "", name=told.name)]


def is_for(path: str, compilers: frozenset[str]) -> bool:
    """Whether a file is for one of some vendors' compilers, by the names of its folders and its own."""
    if not compilers:
        return False
    return any(word in compilers for part in path.lower().removesuffix(".py").split("/") for word in part.split("_"))


def coded(finding: Finding, index: Index) -> Finding:
    """A finding made while declarations were read, under the code of the rule that covers it, with a range."""
    rule = by_name().get(finding.code)
    if (finding.line, finding.column) == (finding.end_line, finding.end_column):
        finding = _spread(finding, index)
    return finding if rule is None else dataclasses.replace(finding, code=rule.code, name=rule.name)


def _failing(finding: Finding) -> Finding:
    """A file that cannot be read fails the linter whatever is in it; the gate tells files that declare from others."""
    if finding.name != "unreadable-file":
        return finding
    return dataclasses.replace(finding, severity=by_name()[finding.name].severity)


def _spread(finding: Finding, index: Index) -> Finding:
    """A finding at a point, over the name that stands there."""
    try:
        line = decode(index.store.tree.read(finding.path)).split("\n")[finding.line - 1]
    except (KeyError, OSError, UnreadableText, IndexError):
        return finding
    found = _NAMED.match(line, finding.column - 1)
    told = re.search(rf"(?<![\w.]){re.escape(finding.message.partition(' ')[0])}(?!\w)", line)
    if told is not None and finding.column == 1:
        start, end = told.span()  # only the line is known: the message begins with what it is about
    elif found is not None:
        start, end = found.span("name")
    else:
        return finding
    return dataclasses.replace(finding, column=start + 1, end_column=end + 1)


def _found(path: str, item: LocalFinding) -> Finding:
    rule = by_code().get(item.code)
    return Finding(
        item.code,
        item.severity,
        path,
        *item.place,
        item.message,
        item.remedy,
        f"{path}::{item.symbol}" if item.symbol else "",
        rule.name if rule is not None else "",
        tuple(Related(path, place[0], place[1], text) for place, text in item.related),
        item.fixes,
    )


def _unique(found: list[Finding]) -> Iterator[Finding]:
    seen = set()
    for item in found:
        key = (item.path, item.line, item.column, item.code, item.message)
        if key not in seen:
            seen.add(key)
            yield item
