"""What passed before and need not be measured again: local, ignored by git, safe to delete."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgate.baselines.measurements import BadMeasurement, file_name, from_document, to_document
from kgate.baselines.records import OK, Measurement
from kgate.baselines.workspace import locked, workspace

SCHEMA = "kgate.pass/1"

KEPT = 64
"""Fingerprints of one kernel that are remembered; the ones used longest ago go first."""

_PLACES_ONLY = (
    "TRITON_CACHE_DIR",
    "TRITON_CACHE_MANAGER",
    "TRITON_DUMP_DIR",
    "TRITON_HOME",
    "TRITON_OVERRIDE_DIR",
)


@dataclass(frozen=True)
class PassKey:
    """Everything that a pass depends on. Where one of these is another, it must be measured again."""

    kernel: str
    """Identity of the kernel."""
    case: str
    """Id of the case."""
    probe: str
    """The probe."""
    target: str
    """The target."""
    executor: str
    """What measured it."""
    code: str
    """The *code* fingerprint."""
    oracle: str
    """The *oracle* fingerprint; empty for a probe that does not ask the reference."""
    dispatch: str
    """The *dispatch* fingerprint; empty for a case that does not reach the fallback."""
    toolchain: str
    """Versions that decide the figures."""
    policy: str
    """Version of the decision rule."""
    settings: str
    """TRITON_* settings, see :func:`triton_settings`."""
    kgate: str
    """Version of kgate."""


def triton_settings(env: Mapping[str, str]) -> str:
    """The TRITON_* settings that can change a result, sorted; where caches and dumps lie does not."""
    return " ".join(
        f"{name}={env[name]}" for name in sorted(env) if name.startswith("TRITON_") and name not in _PLACES_ONLY
    )


class Memory:
    """Passes of earlier runs. Several processes may use one folder; what cannot be read there is ignored."""

    def __init__(self, top: Path) -> None:
        """``top`` is the repository's root; the memory lies in its ``.kgate`` folder."""
        self._top = top
        self._read: dict[Path, dict[str, Measurement]] = {}

    def recall(self, key: PassKey) -> Measurement | None:
        """The measurement of an earlier pass; None where there is none for exactly this key."""
        path = self._path(key)
        if path not in self._read:
            self._read[path] = _read_passes(path)
            if self._read[path]:
                _touch(path)
        return self._read[path].get(_digest(key))

    def remember(self, key: PassKey, measurement: Measurement) -> bool:
        """Keep a pass for later runs; gives whether it was one. Anything but ``ok`` is not kept."""
        if measurement.status != OK:
            return False
        path = self._path(key)
        text = json.dumps({"key": asdict(key), "measurement": to_document(measurement)}, default=str)
        document = json.dumps({"schema": SCHEMA, "id": _digest(key), "sum": _sum(text), "text": text})
        try:
            new = not path.exists()
            _append(self._top, path, document)
            if new:
                _forget_oldest(path.parent)
        except OSError:
            return False  # a folder that cannot be written costs time, never the run
        self._read.setdefault(path, {})[_digest(key)] = measurement
        return True

    def _path(self, key: PassKey) -> Path:
        prints = f"{key.code} {key.oracle} {key.dispatch}"
        name = hashlib.sha256(prints.encode()).hexdigest()[:16]
        return self._top / ".kgate" / "passes" / file_name(key.kernel) / f"{name}.jsonl"


def _append(top: Path, path: Path, document: str) -> None:
    folder = workspace(top)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder / "passes" / "lock", exclusive=True):
        # Begins with an end of line: what a killed process left half-written then spoils its own line alone.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        with open(descriptor, "ab") as file:
            file.write(f"\n{document}\n".encode())


def _read_passes(path: Path) -> dict[str, Measurement]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        try:
            document = json.loads(line)
            if document["schema"] != SCHEMA or document["sum"] != _sum(document["text"]):
                continue
            said = json.loads(document["text"])
            if _digest(PassKey(**said["key"])) == document["id"]:
                found[document["id"]] = from_document(said["measurement"])
        except (ValueError, KeyError, TypeError, AttributeError, BadMeasurement):
            continue
    return {name: measurement for name, measurement in found.items() if measurement.status == OK}


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return  # only the order in which memories are forgotten depends on it


def _forget_oldest(folder: Path) -> None:
    found: list[tuple[int, Path]] = []
    for path in folder.glob("*.jsonl"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # another process has just forgotten it
    for _, path in sorted(found, reverse=True)[KEPT:]:
        path.unlink(missing_ok=True)


def _digest(key: PassKey) -> str:
    said: dict[str, Any] = asdict(key)
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
