"""JSON: the whole result.

``{"schema": "kgate.lint/2", "findings": [...], "notes": [...], "kernels": n, "device_functions": n, ...}``. A finding
has ``code``, ``name``, ``severity``, ``path``, ``line``, ``column``, ``end_line``, ``end_column`` (from 1, columns in
characters, the end exclusive), ``message``, ``remedy``, ``symbol``, ``related`` places and ``fixes``, each of which has
``title``, ``safe`` and ``edits``. Paths are relative to the repository's root.
"""

from __future__ import annotations

from typing import IO, Any

from kgate.report.formats.common import LintReport


def render(report: LintReport, stream: IO[str]) -> None:
    """Write the document."""
    import msgspec

    document = msgspec.to_builtins(report.result)
    write({"schema": document.pop("schema"), **document}, stream)


def write(document: Any, stream: IO[str]) -> None:
    """Write any document as indented JSON; names that are no valid text come with escapes."""
    import msgspec

    stream.write(msgspec.json.format(msgspec.json.encode(valid(document)), indent=2).decode() + "\n")


def valid(value: Any) -> Any:
    """The same with every text encodable as UTF-8."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {valid(key): valid(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [valid(item) for item in value]
    return value
