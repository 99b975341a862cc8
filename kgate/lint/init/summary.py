"""What ``kgate init`` tells: the kernels found, what was inferred of each, and what is left to complete."""

from __future__ import annotations

from collections import Counter
from typing import IO

from kgate.lint.init.run import InitResult, Stub

SHOWN = 40
"""Kernels listed one by one; the files say the rest."""

NEAREST = 5
"""Drafts that are named as nearest to complete."""


def render_init(result: InitResult, stream: IO[str], style: str, *, dry_run: bool = False) -> None:
    """Write the result as ``text`` or as the JSON document ``kgate.init/1``."""
    if style == "json":
        import msgspec

        stream.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
        return
    if dry_run:
        for name, text in result.files.items():
            stream.write(f"# file: {name}\n{text}\n")
    for line in _lines(result, dry_run):
        stream.write(line + "\n")


def _lines(result: InitResult, dry_run: bool) -> list[str]:
    mark = "# " if dry_run else ""
    if not result.stubs:
        return [mark + _none(result), *_skipped(result, mark)]
    lines = [f"{mark}{_count(len(result.stubs), 'kernel')} drafted, for {_reached(result)}"]
    stubs = sorted(result.stubs, key=lambda stub: len(stub.left))
    for stub in stubs[:SHOWN]:
        lines += [mark + line for line in _stub(stub)]
    if len(result.stubs) > SHOWN:
        lines.append(f"{mark}... and {len(result.stubs) - SHOWN} more")
    lines += _skipped(result, mark)
    for finding in result.unexpected:
        lines.append(f"{mark}{finding.path}:{finding.line}: {finding.message} (a fault of this draft: correct it)")
    complete = sum(not stub.left for stub in result.stubs)
    left = sum(len(stub.left) for stub in result.stubs)
    lines.append(f"{mark}{complete} complete; {_count(left, 'part')} left to complete, each marked TODO")
    nearest = [f"{stub.name} ({len(stub.left)})" for stub in stubs if stub.left][:NEAREST]
    if len(stubs) > 1 and nearest:
        lines.append(f"{mark}nearest to complete, with the parts left: {', '.join(nearest)}")
    if not dry_run:
        lines += [f"wrote {name}" for name in result.files]
    if result.configured:
        lines.append("added [tool.kgate] to pyproject.toml")
    elif result.configuration:
        lines += [f"{mark}add this to pyproject.toml (or run with --configure):"]
        lines += [f"{mark}    {line}" for line in result.configuration.rstrip("\n").split("\n")]
    if not dry_run:
        lines.append("next: kgate lint, which says of each draft what is left; then kgate run KERNEL")
    return lines


def _none(result: InitResult) -> str:
    if result.undeclared:
        return "no function to declare was found for the kernels here"
    return "every launched kernel is declared" if result.declared else "no launched kernel was found here"


def _reached(result: InitResult) -> str:
    functions = {device for stub in result.stubs for device in stub.device_functions}
    return f"{len(functions)} of {_count(result.undeclared, 'undeclared device function')}"


def _stub(stub: Stub) -> list[str]:
    place = f"{stub.launcher.partition('::')[0]}:{stub.line}"
    reference = f"reference {stub.reference}" if stub.reference else "no reference"
    lines = [f"{stub.name}  {place}  {_count(len(stub.inferred), 'fact')} from the code, {reference}"]
    if stub.left:
        lines.append(f"    left: {'; '.join(stub.left)}")
    return lines


def _skipped(result: InitResult, mark: str) -> list[str]:
    counts = Counter(item.reason for item in result.skipped)
    rare_first = sorted(result.skipped, key=lambda item: (counts[item.reason], item.reason))
    lines = [f"{mark}not drafted: {item.launcher}:{item.line}: {item.reason}" for item in rare_first[:SHOWN]]
    if len(result.skipped) > SHOWN:
        lines.append(f"{mark}... and {len(result.skipped) - SHOWN} more not drafted")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
