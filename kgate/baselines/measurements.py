"""Measurements as JSON: what ``check`` leaves for ``bless``, here or on another machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from kgate.baselines.records import Measurement
from kgate.baselines.store import Problem
from kgate.baselines.workspace import workspace, write_atomically

SCHEMA = "kgate.pending/1"

_KINDS: dict[str, type | tuple[type, ...]] = {"figures": dict, "details": dict, "toolchain": dict}
_KINDS["seconds"] = (int, float)


class BadMeasurement(ValueError):
    """A document is no measurement."""


def to_document(measurement: Measurement) -> dict[str, Any]:
    """A measurement as plain JSON values."""
    return asdict(measurement)


def from_document(document: Any) -> Measurement:
    """A measurement from plain JSON values. Raises :class:`BadMeasurement` for anything else."""
    if not isinstance(document, dict):
        raise BadMeasurement("is no object")
    known = {field.name for field in fields(Measurement)}
    for name, value in document.items():
        if name not in known or not isinstance(value, _KINDS.get(name, str)):
            raise BadMeasurement(f"has an unusable {name}")
    for group in document.get("figures", {}).values():
        if not isinstance(group, dict):
            raise BadMeasurement("has unusable figures")
    try:
        return Measurement(**document)
    except TypeError:
        raise BadMeasurement("lacks a field") from None


def default_folder(top: Path) -> Path:
    """Where a check by hand leaves its measurements; ignored by git."""
    return workspace(top) / "pending"


def write_pending(
    folder: Path, measurements: Iterable[Measurement], about: Mapping[str, str] | None = None
) -> list[Path]:
    """Leave measurements for ``bless``: one file per kernel, which replaces the one that is there.

    ``about`` says what was measured (the tree, the machine, kgate's version), for people. Gives the files.
    """
    kernels: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        kernels.setdefault(measurement.kernel, []).append(measurement)
    written = []
    for kernel, found in sorted(kernels.items()):
        document = {
            "schema": SCHEMA,
            "kernel": kernel,
            "about": dict(about or {}),
            "measurements": [to_document(measurement) for measurement in found],
        }
        path = folder / f"{file_name(kernel)}.json"
        write_atomically(path, json.dumps(document, indent=1, default=str).encode())
        written.append(path)
    return written


def read_pending(folder: Path) -> tuple[list[Measurement], list[Problem]]:
    """Measurements that were left in a folder, and what cannot be read there; never raises."""
    measurements: list[Measurement] = []
    problems: list[Problem] = []
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        remedy = "run: kgate check --pending DIR, then kgate bless --from DIR"
        return [], [Problem("pending-missing", str(folder), 0, "holds no measurements", remedy)]
    for path in paths:
        try:
            measurements += _read(path)
        except (OSError, ValueError) as error:
            what = f"is not what kgate check wrote: {error}"
            problems.append(Problem("pending-unreadable", str(path), 0, what, "run kgate check again"))
    return measurements, problems


def _read(path: Path) -> list[Measurement]:
    document = json.loads(path.read_bytes())
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadMeasurement(f"its schema is not {SCHEMA}")
    found = document.get("measurements")
    if not isinstance(found, list):
        raise BadMeasurement("it has no measurements")
    return [from_document(item) for item in found]


def file_name(kernel: str) -> str:
    """A file name for a kernel: readable, and different for every kernel."""
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", kernel.rpartition("::")[2] or kernel).strip("-")[:60]
    return f"{readable}-{hashlib.sha256(kernel.encode('utf-8', 'surrogateescape')).hexdigest()[:10]}"
