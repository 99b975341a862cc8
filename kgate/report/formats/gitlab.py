"""GitLab Code Quality: a list of issues, each with a fingerprint that moved lines leave as it is."""

from __future__ import annotations

import hashlib
from typing import IO, Any

from kgate.report.formats.common import LintReport, fingerprints
from kgate.report.formats.document import write
from kgate.source.records import Finding

_SEVERITY = {"error": "major", "warning": "minor", "note": "info"}


def render(report: LintReport, stream: IO[str]) -> None:
    """Write the list."""
    pairs = zip(report.result.findings, fingerprints(report), strict=True)
    write([_issue(item, mark, count) for item, (mark, count) in pairs], stream)


def _issue(item: Finding, mark: str, count: int) -> dict[str, Any]:
    return {
        "check_name": item.name or item.code,
        "description": f"{item.code}: {item.message}",
        "content": {"body": item.remedy},
        "categories": ["Bug Risk"],
        "severity": _SEVERITY[item.severity],
        "fingerprint": hashlib.sha256(f"{mark}:{count}".encode()).hexdigest()[:32],
        "location": {"path": item.path, "lines": {"begin": item.line, "end": max(item.line, item.end_line)}},
    }
