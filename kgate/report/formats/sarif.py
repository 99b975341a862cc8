"""SARIF 2.1.0, for code scanning: rules with their help, results with fingerprints, related places and fixes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import quote

from kgate._version import __version__
from kgate.lint.documentation import as_markdown, as_text
from kgate.lint.rule import Rule
from kgate.report.formats.common import LintReport, fingerprints
from kgate.report.formats.document import write
from kgate.source.records import Finding, Fix

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FIXED_FILES = 25
"""Files whose fixes are worked out; each has to be parsed for that, which takes most of the time."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")


def render(report: LintReport, stream: IO[str]) -> None:
    """Write the document."""
    used = sorted({item.code for item in report.result.findings})
    numbers = {code: number for number, code in enumerate(used)}
    fixes, left_out = _fixes(report)
    results = []
    for item, (mark, count) in zip(report.result.findings, fingerprints(report), strict=True):
        result = _result(item, numbers[item.code], mark, count)
        made = [fixes[item.path, fix] for fix in item.fixes if fixes.get((item.path, fix))]
        results.append({**result, "fixes": made} if made else result)
    driver = {
        "name": "kgate",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(code, report.rules.get(code)) for code in used],
    }
    more = (f"the fixes of {left_out} further files are left out; `kgate lint --diff` has them",) if left_out else ()
    notes = [{"level": "note", "message": {"text": note}} for note in (*report.result.notes, *more)]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": results,
    }
    write({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, stream)


def _rule(code: str, rule: Rule | None) -> dict[str, Any]:
    if rule is None:
        return {"id": code}
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": as_text(rule), "markdown": as_markdown(rule)},
        "defaultConfiguration": {"level": rule.severity, "enabled": rule.default},
        "properties": {"tags": [rule.family]},
    }


def _result(item: Finding, number: int, mark: str, count: int) -> dict[str, Any]:
    text = f"{item.message}\n{item.remedy}" if item.remedy else item.message
    found: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": number,
        "level": item.severity,
        "message": {"text": text},
        "locations": [_location(item.path, item.line, item.column, item.end_line, item.end_column)],
        "partialFingerprints": {"kgateFinding/v1": f"{mark}:{count}", "primaryLocationLineHash": f"{mark}:{count + 1}"},
    }
    if item.symbol:
        found["locations"][0]["logicalLocations"] = [{"fullyQualifiedName": item.symbol}]
    if item.related:
        found["relatedLocations"] = [
            {"id": number, "message": {"text": place.message}, **_location(place.path, place.line, place.column)}
            for number, place in enumerate(item.related, start=1)
        ]
    return found


def _location(path: str, line: int, column: int, end_line: int = 0, end_column: int = 0) -> dict[str, Any]:
    region = {"startLine": max(line, 1), "startColumn": max(column, 1)}
    if (end_line, end_column) > (line, column):
        region.update(endLine=end_line, endColumn=max(end_column, 1))
    return {"physicalLocation": {"artifactLocation": _artifact(path), "region": region}}


def _artifact(path: str) -> dict[str, str]:
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "backslashreplace")
    return {"uri": quote(raw), "uriBaseId": "%SRCROOT%"}


def _fixes(report: LintReport) -> tuple[dict[tuple[str, Fix], dict[str, Any]], int]:
    """Path and fix to the fix as SARIF has it: replaced lines; without those that cannot be made.

    Also the number of files that have more of them.
    """
    wanted: dict[str, dict[Fix, None]] = {}
    for item in report.result.findings:
        for fix in item.fixes:
            wanted.setdefault(item.path, {})[fix] = None
    found: dict[tuple[str, Fix], dict[str, Any]] = {}
    for path, fixes in list(wanted.items())[:FIXED_FILES]:
        raw = report.source(path)
        if raw is not None:
            found.update(((path, fix), made) for fix, made in _made(path, raw, list(fixes)))
    return found, max(0, len(wanted) - FIXED_FILES)


def _made(path: str, raw: bytes, fixes: list[Fix]) -> Iterator[tuple[Fix, dict[str, Any]]]:
    from kgate.lint.fixes import apply_each

    for fix, result in zip(fixes, apply_each(raw, fixes, path=path), strict=True):
        try:
            changes = replacements(raw.decode("utf-8-sig"), (result or raw).decode("utf-8-sig"))
        except UnicodeDecodeError:
            continue  # a file in another encoding, which SARIF cannot quote byte for byte
        if changes:
            title = fix.title if fix.safe else f"{fix.title} (unsafe)"
            change = {"artifactLocation": _artifact(path), "replacements": changes}
            yield fix, {"description": {"text": title}, "artifactChanges": [change]}


def replacements(before: str, after: str) -> list[dict[str, Any]]:
    """What turns one text into another, as SARIF replacements of whole lines."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    found = []
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind != "equal":
            text = "".join(new[head + first : head + last])
            region = _lines(old, head + start, head + end)
            found.append({"deletedRegion": region, "insertedContent": {"text": text}})
    return found


def _lines(lines: list[str], start: int, end: int) -> dict[str, int]:
    """The region of some lines, from 0, with their endings."""
    if end == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
        column = len(lines[-1]) + 1
        first = {"startLine": start + 1, "startColumn": 1} if start < end else {"startLine": end, "startColumn": column}
        return {**first, "endLine": end, "endColumn": column}
    return {"startLine": start + 1, "startColumn": 1, "endLine": end + 1, "endColumn": 1}
