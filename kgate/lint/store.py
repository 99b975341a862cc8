"""LintFacts by content: analysed once per blob and rule set, remembered on disk, two processes for what is missing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kgate.lint.analysis import CUDA_SUFFIXES, Settings, analyse
from kgate.lint.records import LintFacts
from kgate.source.cache import FactsStore
from kgate.source.disk import Disk
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
        # the largest first, dealt out in turn, so that the processes end together
        jobs.sort(key=lambda job: -len(job.raw))
        if processes < 2 or len(jobs) < _TOGETHER or not hasattr(os, "fork"):
            results = _work(jobs, self.settings)
        else:
            results = _in_processes(jobs, self.settings, processes)
        paths = {job.key: job.path for job in jobs}
        for key, body, facts in results:
            self.disk.save(key, body)
            self._known[key] = msgspec.msgpack.decode(body, type=LintFacts)
            if facts:
                self.store.put(paths[key], msgspec.msgpack.decode(facts, type=FileFacts))


class _Job(NamedTuple):
    key: str
    path: str
    raw: bytes
    facts: bool
    """Whether the file's facts are wanted as well."""


def _work(jobs: Iterable[_Job], settings: Settings) -> list[tuple[str, bytes, bytes]]:
    """Key, encoded lint facts and encoded facts (empty where not wanted) of each file, which is parsed once."""
    done = []
    for job in jobs:
        if job.path.endswith(CUDA_SUFFIXES):
            done.append((job.key, msgspec.msgpack.encode(analyse(job.path, job.raw, settings)), b""))
            continue
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
        done.append((job.key, body, facts))
    return done


def _in_processes(jobs: list[_Job], settings: Settings, processes: int) -> list[tuple[str, bytes, bytes]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from kgate.lint.registry import rules

    rules()  # imported before the fork, once
    share = processes * 4
    parts = [jobs[start::share] for start in range(share) if jobs[start::share]]
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        return [item for part in pool.map(_work, parts, [settings] * len(parts)) for item in part]


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
