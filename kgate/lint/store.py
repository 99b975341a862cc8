"""LintFacts by content: analysed once per blob and rule set, remembered on disk, several processes for many files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kgate.lint.analysis import CUDA_SUFFIXES, Settings, analyse, no_collection
from kgate.lint.records import LintFacts
from kgate.source.cache import FactsStore
from kgate.source.disk import WORTH_PACKING, Disk
from kgate.source.facts import FileFacts, facts_of, parse_source

_TOGETHER = 24
"""Files that one process analyses faster alone than two that have to be started."""


class LintStore:
    """The lint facts of one tree's files."""

    def __init__(self, store: FactsStore, cache_dir: str | os.PathLike[str] | None, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.analysed = 0
        """Files that were analysed, not remembered."""
        version = f"lint-{rule_set_version()}-py{sys.version_info[0]}.{sys.version_info[1]}"
        own = hashlib.blake2b(msgspec.json.encode(settings), digest_size=6).hexdigest()
        self.disk = Disk(Path(cache_dir) / f"{version}-{own}" if cache_dir is not None else None)
        self._known: dict[str, LintFacts] = {}

    def read(self, paths: Sequence[str], processes: int = 0) -> dict[str, LintFacts]:
        """The lint facts of files of the tree, in the order given; facts of Python files are remembered on the way.

        Where there are many files to analyse and ``processes`` (by default one per core) allows it, several processes
        share them.
        """
        keys = {path: self._key(path) for path in paths}
        missing: dict[str, str] = {}
        for path, key in keys.items():
            if key not in self._known and key not in missing:
                known = self._load(key)
                if known is None:
                    missing[key] = path
                else:
                    self._known[key] = known
        if missing:
            self._analyse(missing, processes or os.cpu_count() or 1)
            self.analysed += len(missing)
        return {path: self._known[key] for path, key in keys.items()}

    def pack(self) -> None:
        """Put what was read together on disk, where many entries were read one by one."""
        self.disk.pack(self._known)

    def _key(self, path: str) -> str:
        kind = "cuda" if path.endswith(CUDA_SUFFIXES) else "py"
        return f"{self.store.oids[path]}-{kind}"

    def _load(self, key: str) -> LintFacts | None:
        body = self.disk.load(key)
        if body is None:
            return None
        try:
            return msgspec.msgpack.decode(body, type=LintFacts)
        except msgspec.MsgspecError:
            return None

    def _analyse(self, missing: dict[str, str], processes: int) -> None:
        contents = self.store.tree.read_many(list(missing.values()))
        python = [path for path in missing.values() if not path.endswith(CUDA_SUFFIXES)]
        without_facts = set(self.store.missing(python))
        jobs = [_Job(key, path, contents[path], path in without_facts) for key, path in missing.items()]
        # the largest first, so that the processes end together
        jobs.sort(key=lambda job: -len(job.raw))
        alone, facts_alone = len(jobs) < WORTH_PACKING, len(without_facts) < WORTH_PACKING
        try:
            for job, body, facts in _results(jobs, self.settings, processes):
                self.disk.save(job.key, body, alone=alone)
                self._known[job.key] = msgspec.msgpack.decode(body, type=LintFacts)
                if facts:
                    self.store.put(job.path, msgspec.msgpack.decode(facts, type=FileFacts), facts, alone=facts_alone)
        finally:  # what is done stays done, also where the rest is interrupted
            self.pack()
            self.store.pack()


class _Job(NamedTuple):
    key: str
    path: str
    raw: bytes
    facts: bool
    """Whether the file's facts are wanted as well."""


def _results(jobs: list[_Job], settings: Settings, processes: int) -> Iterator[tuple[_Job, bytes, bytes]]:
    """Each file with its encoded lint facts, and its encoded facts (empty where they are not wanted)."""
    from kgate.lint.workers import available, shared

    left = dict.fromkeys(range(len(jobs)))
    if processes > 1 and len(jobs) >= _TOGETHER and available():
        from kgate.lint.registry import rules

        rules()  # imported before the fork, once
        for at, pair in shared(lambda at: msgspec.msgpack.encode(_work(jobs[at], settings)), len(jobs), processes):
            del left[at]
            yield jobs[at], *msgspec.msgpack.decode(pair, type=tuple[bytes, bytes])
    for at in left:  # all of them, or those whose process died
        yield jobs[at], *_work(jobs[at], settings)


def _work(job: _Job, settings: Settings) -> tuple[bytes, bytes]:
    """Encoded lint facts and encoded facts (empty where they are not wanted) of one file, which is parsed once."""
    with no_collection():  # the tree is gone before anything is collected
        return _encoded(job, settings)


def _encoded(job: _Job, settings: Settings) -> tuple[bytes, bytes]:
    if job.path.endswith(CUDA_SUFFIXES):
        return msgspec.msgpack.encode(analyse(job.path, job.raw, settings)), b""
    parsed = parse_source(job.raw)
    facts = b""
    if job.facts:
        with contextlib.suppress(UnicodeEncodeError):  # half a surrogate pair: read anew by who needs it
            facts = msgspec.msgpack.encode(facts_of(job.raw, parsed))
    found = analyse(job.path, job.raw, settings, parsed)
    try:
        body = msgspec.msgpack.encode(found)
    except UnicodeEncodeError:
        body = msgspec.msgpack.encode(without_surrogates(found))
    return body, facts


@cache
def rule_set_version() -> str:
    """A digest of the linter's own files: what was remembered under another rule set is not used."""
    seen = hashlib.blake2b(digest_size=8)
    folder = Path(__file__).parent
    for place in sorted(folder.rglob("*.py")):
        state = place.stat()
        seen.update(f"{place.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return seen.hexdigest()


def without_surrogates(facts: LintFacts) -> LintFacts:
    """Lint facts whose texts can be encoded: halves of surrogate pairs are written as escapes."""
    return msgspec.convert(_escaped(msgspec.to_builtins(facts)), LintFacts)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return value
