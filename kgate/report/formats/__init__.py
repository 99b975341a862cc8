"""The formats of ``kgate lint``: one module each, with ``render(report, stream)``."""

from __future__ import annotations

import importlib
from typing import IO

from kgate.report.formats.common import LintReport

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")
"""Names, the default first."""
TEXT = ("full", "concise")
"""Formats for people, which end with a summary."""
_MODULES = {"json": "document"}


def render(report: LintReport, style: str, stream: IO[str]) -> None:
    """Write a report in a format."""
    module = importlib.import_module(f"{__name__}.{_MODULES.get(style, style)}")
    module.render(report, stream)
