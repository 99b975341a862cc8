"""What is remembered of one file between runs: its findings, its candidates, and summaries for the linker."""

from __future__ import annotations

from typing import Any

import msgspec

from kgate.source.records import Fix

Range = tuple[int, int, int, int]
"""Line, column, end line, end column; from 1, columns in characters, the end exclusive."""


class LocalFinding(msgspec.Struct, frozen=True, array_like=True):
    """A finding that one file alone decides."""

    code: str
    severity: str
    place: Range
    message: str
    remedy: str = ""
    symbol: str = ""
    """Qualified name of the function that it is in; empty for the module."""
    fixes: tuple[Fix, ...] = ()
    related: tuple[tuple[Range, str], ...] = ()
    """Further places in the same file, each with what is there."""


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A finding that depends on launchers, declarations or other files; the rule's decision makes it one or not."""

    code: str
    severity: str
    place: Range
    message: str
    remedy: str
    symbol: str
    """Qualified name of the device or host function that it is in."""
    fixes: tuple[Fix, ...]
    related: tuple[tuple[Range, str], ...]
    data: dict[str, Any]
    """What the rule's own check put there."""
    path: str = ""
    """File; filled in when it is linked."""


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """A parameter of a device or host function."""

    name: str
    constexpr: bool = False
    annotation: str = ""
    """As written."""
    default: str | None = None
    """As written; None without one."""


class Autotune(msgspec.Struct, frozen=True, array_like=True):
    """``@triton.autotune`` or its like on a device function."""

    place: Range
    keys: tuple[str, ...] | None
    """Names in ``key=``; None where they cannot be read."""
    configured: tuple[str, ...]
    """Parameters that the configurations set, as far as they can be read."""
    values: dict[str, tuple[int, ...]]
    """Integers that configurations give to parameters, as far as they can be read."""
    reset: tuple[str, ...] = ()
    """``reset_to_zero``."""
    restore: tuple[str, ...] = ()
    """``restore_value``."""


class DeviceSummary(msgspec.Struct, frozen=True, array_like=True):
    """What the linker needs to know of a device function."""

    name: str
    """Qualified name."""
    place: Range
    """Of its name in the ``def`` line."""
    parameters: tuple[Parameter, ...]
    framework: str = "triton"
    stores: tuple[str, ...] = ()
    """Pointer parameters that it stores to."""
    loads: tuple[str, ...] = ()
    """Pointer parameters that it loads from."""
    atomics: tuple[str, ...] = ()
    """Pointer parameters that it updates atomically."""
    calls: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Calls of other functions: the name as written, and parameter (name or position) to the parameter of this
    function that is handed on."""
    autotune: Autotune | None = None
    heuristics: tuple[str, ...] = ()
    """Parameters that ``@triton.heuristics`` sets."""


class Argument(msgspec.Struct, frozen=True, array_like=True):
    """An argument of a launch or a call."""

    name: str
    """Keyword, or the position as decimal digits."""
    place: Range
    text: str
    """As written, in one line."""
    form: str
    """What it is in terms of the host function's parameters, as :mod:`kgate.lint.model.forms` writes it:
    ``x.shape[0]``,
    ``x.stride(0)``, ``cdiv(x.shape[0], 128)``, ``128``; with ``?`` for what is not known."""


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """A place that launches a device function, or calls another host function of the project."""

    callees: tuple[str, ...]
    """Names as written that may be what is launched or called; local names are followed."""
    place: Range
    by: str
    """Qualified name of the host function."""
    arguments: tuple[Argument, ...]
    grid: tuple[str, ...] | None = None
    """Form of each axis of the grid; empty where it cannot be read; None for a plain call."""
    spread: bool = False
    """Whether ``*args`` or ``**kwargs`` are handed on too."""


class HostSummary(msgspec.Struct, frozen=True, array_like=True):
    """What the linker needs to know of a host function that launches or calls."""

    name: str
    place: Range
    parameters: tuple[Parameter, ...]
    decorators: tuple[str, ...] = ()
    """Chains as written, outermost first."""
    autograd: str = ""
    """``forward`` or ``backward`` of an ``autograd.Function``; empty for any other function."""
    contiguous: tuple[str, ...] = ()
    """Parameters that are made contiguous, or whose strides are checked or handed on."""
    facts: dict[str, Any] = {}
    """Further facts that rules gather, by the rule's name."""


class Suppression(msgspec.Struct, frozen=True, array_like=True):
    """``# kgate: ignore[KG203] reason``."""

    place: Range
    """Of the comment."""
    first: int
    """First line that it covers."""
    last: int
    """Last line that it covers; 0 for a whole file."""
    codes: tuple[str, ...]
    reason: str
    error: str = ""
    """Why it cannot be read; empty where it can."""
    comment: str = ""
    """The comment as written."""


class LintFacts(msgspec.Struct, frozen=True, array_like=True):
    """Everything remembered of one file."""

    findings: tuple[LocalFinding, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    devices: tuple[DeviceSummary, ...] = ()
    launches: tuple[Launch, ...] = ()
    hosts: tuple[HostSummary, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    lines: int = 0
