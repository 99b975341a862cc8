"""The findings of ``kgate lint``, as text, JSON or GitHub annotations."""

from __future__ import annotations

from typing import IO

from kgate.lint.run import LintResult
from kgate.report.github import annotation
from kgate.report.text import finding, plural


def render_findings(result: LintResult, stream: IO[str], style: str) -> None:
    """Write every finding, then one line that counts them."""
    if style == "json":
        import msgspec

        stream.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
        return
    for item in result.findings:
        if style == "github":
            stream.write(annotation(item) + "\n")
        else:
            stream.write("\n".join(finding(item)) + "\n")
    for note in result.notes:
        stream.write(f"note: {note}\n")
    looked = f"{plural(result.kernels, 'kernel')} declared, {plural(result.device_functions, 'device function')}"
    stream.write(f"{plural(len(result.findings), 'finding')} ({looked})\n")
