"""The committed baseline lines: where they lie, how they are written, and reading them without trusting them.

``baselines/kernels/norm/rms_norm/rms_norm/cuda-sm_90.jsonl`` holds the lines of the kernel
``kernels/norm/rms_norm.py::rms_norm`` on ``cuda:sm_90``. Each is a title (a JSON string, for people and for
git), the line itself (a JSON object that needs nothing around it) and an empty line: with a title of its
own around every line, git merges branches that bless different lines, also neighbouring ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from kgate.baselines import journal
from kgate.baselines.records import Figures, Line
from kgate.source.git import Snapshot

SCHEMA = "kgate.line/1"

MISSING = "baseline-missing"
UNREADABLE = "baseline-unreadable"
TRUNCATED = "baseline-truncated"
EDITED = "baseline-edited"
CONFLICT = "baseline-conflict"
DUPLICATE = "baseline-duplicate"
SCHEMA_UNKNOWN = "baseline-schema"
INTERRUPTED = "baseline-interrupted"

_SUFFIX = ".jsonl"
_MARKER = re.compile(r"(<{7}|={7}|>{7}|\|{7})( |$)")
_TEXTS = ("case", "probe", "executor", "code", "toolchain", "note")
_FIELDS = {**dict.fromkeys(_TEXTS, str), "figures": dict}


class Key(NamedTuple):
    """What a line is the yardstick for."""

    kernel: str
    """Identity of the kernel, ``path.py::qualname``."""
    target: str
    """For example ``cuda:sm_90``, or ``interpreter``."""
    case: str
    """Id of the workload."""
    probe: str
    """``accuracy``, ``codegen``, ``traffic`` or ``latency``."""
    executor: str
    """What measured it."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with the baselines, for people and for exit status 2."""

    code: str
    """Kebab-case name: ``baseline-missing``, ``-unreadable``, ``-truncated``, ``-edited`` (the checksum does
    not match), ``-conflict``, ``-duplicate``, ``-schema`` or ``-interrupted``."""
    path: str
    """File, relative to the repository's root."""
    line: int
    """Line of the file, counted from 1; 0 where the whole file is meant."""
    message: str
    """One sentence: what is wrong."""
    remedy: str
    """What to do about it."""
    kernel: str = ""
    """Identity of the kernel that the file is for."""
    target: str = ""
    """Target that the file is for."""
    key: Key | None = None
    """The line that it is about, where that can be told."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}  {self.message}; {self.remedy}"


@dataclass(frozen=True)
class Record:
    """One line of a baseline file as it stands there, usable or not."""

    text: str
    """The line as written, without its end."""
    number: int
    """Its number in the file, counted from 1."""
    key: Key | None
    """What it is for, where that can be told."""
    line: Line | None
    """What it says; None where it cannot be used."""


@dataclass(frozen=True)
class File:
    """One baseline file: one kernel on one target."""

    path: str
    """Relative to the repository's root."""
    kernel: str
    """Identity of the kernel."""
    target: str
    """The target."""
    content: bytes
    """What it holds."""
    records: tuple[Record, ...]
    """Its lines, in their order there."""
    problems: tuple[Problem, ...]
    """What is wrong with it."""


@dataclass(frozen=True)
class Layout:
    """Where a project's baselines lie; both paths are relative to the repository's root."""

    folder: str = "baselines"
    """Folder of the baselines."""
    root: str = "."
    """Folder of the project: kernels are filed by their path relative to it."""

    def path(self, kernel: str, target: str) -> str:
        """The file for a kernel on a target."""
        source, _, qualname = kernel.partition("::")
        if self.root != "." and source.startswith(self.root + "/"):
            source = source[len(self.root) + 1 :]
        source = source.removesuffix(".py")
        return f"{self.folder}/{source}/{_quote(qualname)}/{_target_name(target)}{_SUFFIX}"

    def parse(self, path: str) -> tuple[str, str] | None:
        """Kernel and target that a file is for; None where it is no baseline file."""
        inside = path.removeprefix(self.folder + "/")
        parts = inside.removesuffix(_SUFFIX).split("/")
        if inside == path or not path.endswith(_SUFFIX) or len(parts) < 3:
            return None
        prefix = "" if self.root == "." else self.root + "/"
        kernel = f"{prefix}{'/'.join(parts[:-2])}.py::{unquote(parts[-2])}"
        return kernel, unquote(parts[-1].replace("-", ":"))


@dataclass(frozen=True)
class Baselines:
    """Every line of a project, and what is wrong with its files."""

    layout: Layout
    """Where they lie."""
    files: Mapping[str, File]
    """Path to file."""
    problems: tuple[Problem, ...]
    """What is wrong, file by file."""
    lines: Mapping[Key, Line]
    """The lines that can be used."""

    def line(self, key: Key) -> Line | None:
        """The line for a key; None where there is none that can be used."""
        return self.lines.get(key)

    def problems_of(self, kernels: Collection[str]) -> list[Problem]:
        """Problems in the files of some kernels, and those of no kernel in particular."""
        return [problem for problem in self.problems if not problem.kernel or problem.kernel in kernels]

    def missing(self, expected: Iterable[Key]) -> list[Problem]:
        """A problem for each expected line that is not there at all.

        A line that is there but cannot be used has its own problem already.
        """
        said = {problem.key for problem in self.problems if problem.key} | set(self.lines)
        whole = {problem.path for problem in self.problems if problem.key is None}
        found = []
        for key in expected:
            path = self.layout.path(key.kernel, key.target)
            if key in said or path in whole:
                continue
            message = f"has no {key.probe} line for {key.case}"
            if path not in self.files:
                message = f"is missing: it would hold the {key.probe} line for {key.case}"
            found.append(Problem(MISSING, path, 0, message, _bless(key.kernel), key.kernel, key.target, key))
        return found


def load(source: Snapshot | Path, layout: Layout | None = None, *, kernels: Collection[str] | None = None) -> Baselines:
    """Read the baselines of a tree, or of a repository's working folder.

    ``kernels`` restricts it to some identities. Whatever the files hold, the result is lines and problems,
    never an exception: a line that cannot be trusted is not among the lines. A bless that was killed half-way
    is seen as finished, except in a staged or committed tree, where half of it is a problem.
    """
    layout = layout or Layout()
    contents, problems = _contents(source, layout)
    files = {}
    for path, content in sorted(contents.items()):
        parsed = layout.parse(path)
        if parsed is not None and (kernels is None or parsed[0] in kernels):
            files[path] = read_file(path, *parsed, content)
    for file in files.values():
        problems.extend(file.problems)
    lines = {
        record.key: record.line
        for file in files.values()
        for record in file.records
        if record.key is not None and record.line is not None
    }
    return Baselines(layout, files, tuple(problems), lines)


def _contents(source: Snapshot | Path, layout: Layout) -> tuple[dict[str, bytes], list[Problem]]:
    if isinstance(source, Path):
        with journal.reading(source) as pending:
            return _overlaid(_folder_contents(source, layout), pending, layout), []
    inside = [path for path in source.files() if layout.parse(path) is not None]
    contents = source.read_many(inside)
    pending = {} if source.repository.bare else journal.pending(source.repository.toplevel)
    if source.kind == "worktree":
        return _overlaid(contents, pending, layout), []
    return contents, _half_blessed(contents, pending)


def _folder_contents(top: Path, layout: Layout) -> dict[str, bytes]:
    found = {}
    for folder, _, names in os.walk(top / layout.folder):
        for name in names:
            path = (Path(folder) / name).relative_to(top).as_posix()
            if layout.parse(path) is not None:
                found[path] = _read_bytes(top / path)
    return found


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b"\xff"  # no text: told apart from an empty file, and reported as unreadable


def _overlaid(contents: dict[str, bytes], pending: Mapping[str, bytes | None], layout: Layout) -> dict[str, bytes]:
    for path, content in pending.items():
        if layout.parse(path) is None:
            continue
        if content is None:
            contents.pop(path, None)
        else:
            contents[path] = content
    return contents


def _half_blessed(contents: Mapping[str, bytes], pending: Mapping[str, bytes | None]) -> list[Problem]:
    new = [path for path, content in pending.items() if contents.get(path) == content]
    old = [path for path in pending if path not in new]
    if not new or not old:
        return []
    message = "is from before a bless that was interrupted, and other files are from after it"
    return [Problem(INTERRUPTED, path, 0, message, "run: kgate bless, then stage its files again") for path in old]


# One file -------------------------------------------------------------------------------------------------


def read_file(path: str, kernel: str, target: str, content: bytes) -> File:
    """Read one baseline file; never raises."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        problem = Problem(UNREADABLE, path, 0, "is not text", f"delete it, then {_bless(kernel)}", kernel, target)
        return File(path, kernel, target, content, (), (problem,))
    lines = text.split("\n")  # not splitlines: a note may hold other separators
    for number, written in enumerate(lines, 1):
        if _MARKER.match(written):
            remedy = f"take either side, then {_bless(kernel)}"
            problem = Problem(CONFLICT, path, number, "holds conflict markers", remedy, kernel, target)
            return File(path, kernel, target, content, (), (problem,))
    records, problems = [], []
    last = max((number for number, written in enumerate(lines, 1) if written.strip()), default=0)
    for number, written in enumerate(lines, 1):
        found = _read_line(written, number, kernel, target)
        if isinstance(found, Record):
            records.append(found)
        elif found is not None:
            code, message, key = found
            if code == UNREADABLE and number == last:
                code, message = TRUNCATED, "ends in the middle of a line"
            problems.append(_problem(code, path, number, message, kernel, target, key))
            records.append(Record(written, number, key, None))
    records, twice = _unique(records)
    problems += [
        _problem(DUPLICATE, path, record.number, _twice(record), kernel, target, record.key) for record in twice
    ]
    return File(path, kernel, target, content, tuple(records), tuple(problems))


def _problem(code: str, path: str, number: int, message: str, kernel: str, target: str, key: Key | None) -> Problem:
    remedy = "upgrade kgate" if code == SCHEMA_UNKNOWN else f"restore it with git, or {_bless(kernel)}"
    return Problem(code, path, number, message, remedy, kernel, target, key)


def _bless(kernel: str) -> str:
    return f"run: kgate bless '{kernel}'"


def _twice(record: Record) -> str:
    key = record.key
    return f"two different {key.probe} lines for {key.case}" if key else "a line stands here twice"


def _unique(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """Records without exact repetitions; and those that contradict another one, which are then not usable."""
    texts: dict[Key, set[str]] = {}
    for record in records:
        if record.key is not None:
            texts.setdefault(record.key, set()).add(record.text)
    kept, twice, seen = [], [], set()
    for record in records:
        if record.key is not None and len(texts[record.key]) > 1:
            twice.append(record)
            record = replace(record, line=None)
        elif record.text in seen:
            continue
        seen.add(record.text)
        kept.append(record)
    return kept, twice


def _read_line(written: str, number: int, kernel: str, target: str) -> Record | tuple[str, str, Key | None] | None:
    """A record; or code, message and key of what is wrong; or None for a line that says nothing."""
    text = written.strip()
    if not text:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return UNREADABLE, "is not a line that kgate wrote", None
    if isinstance(document, str):
        return None
    if not isinstance(document, dict):
        return UNREADABLE, "is not a line that kgate wrote", None
    schema = document.get("schema")
    if schema != SCHEMA:
        return SCHEMA_UNKNOWN, f"is written as {schema!r}, and this kgate reads {SCHEMA}", None
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(document.get(name, ""), kind)]
    wrong += [name for name in _FIELDS if name != "note" and name not in document]
    if not wrong and not _are_figures(document["figures"]):
        wrong = ["figures"]
    if wrong:
        return UNREADABLE, f"has no usable {wrong[0]}", None
    line = Line(**{name: document.get(name, "") for name in _FIELDS})
    key = Key(kernel, target, line.case, line.probe, line.executor)
    if document.get("sum") != checksum(line, target):
        return (
            EDITED,
            f"{key.probe} line for {key.case} was changed by hand, or belongs to another target: "
            "its checksum does not match",
            key,
        )
    return Record(text, number, key, line)


def _are_figures(value: Mapping[str, Any]) -> bool:
    return all(isinstance(group, dict) and all(_is_figure(item) for item in group.values()) for group in value.values())


def _is_figure(value: Any) -> bool:
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))


# Writing --------------------------------------------------------------------------------------------------


def normal_figures(figures: Figures) -> Figures:
    """Figures as a line holds them: sorted, floats to nine digits.

    Raises :class:`ValueError` for a float that is not finite, which no yardstick can be.
    """
    return {
        label: {name: _normal(figures[label][name], name) for name in sorted(figures[label])}
        for label in sorted(figures)
    }


def _normal(value: Any, name: str) -> Any:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    return float(f"{value:.9g}")


def checksum(line: Line, target: str) -> str:
    """Eight digits over all that a line says, and the target whose file it belongs into."""
    said = json.dumps([target, _document(line)], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()[:8]


def _document(line: Line) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "case": line.case,
        "probe": line.probe,
        "executor": line.executor,
        "toolchain": line.toolchain,
        "code": line.code,
        "figures": normal_figures(line.figures),
    }
    if line.note:
        document["note"] = line.note
    return document


def write_line(line: Line, target: str) -> str:
    """One line as text, without its end."""
    document = {**_document(line), "sum": checksum(line, target)}
    return json.dumps(document, ensure_ascii=False, separators=(", ", ": "))


def write_file(records: Iterable[tuple[Key | None, str]]) -> bytes:
    """A whole file from keys and the text of their lines, sorted; lines of unknown key stand at the end."""

    def place(record: tuple[Key | None, str]) -> tuple[bool, tuple[str, ...], str]:
        key, text = record
        return key is None, (key.case, key.probe, key.executor) if key else (), text

    parts = []
    for key, text in sorted(records, key=place):
        title = f"{key.probe}  {key.case}  {key.executor}" if key else "unreadable"
        parts.append(f"{json.dumps(title, ensure_ascii=False)}\n{text}\n\n")
    return "".join(parts).encode("utf-8", "surrogateescape")


def toolchain_text(toolchain: Mapping[str, str]) -> str:
    """Versions as a line holds them: ``ptxas 13.1, triton 3.7.1``."""
    return ", ".join(f"{name} {toolchain[name]}" for name in sorted(toolchain))


def _target_name(target: str) -> str:
    kind, colon, arch = target.partition(":")
    return f"{_quote(kind)}-{_quote(arch)}" if colon else _quote(kind)


def _quote(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
