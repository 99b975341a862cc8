"""LintFacts by content: analysed once per blob and rule set, remembered on disk, two processes for what is missing."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from kgate.lint.analysis import CUDA_SUFFIXES, Settings, analyse
from kgate.lint.records import LintFacts
from kgate.source.cache import FactsStore

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
        self.disk = _Disk(Path(cache_dir) / f"{version}-{own}" if cache_dir is not None else None)

    def read(self, paths: Sequence[str], processes: int = 0) -> dict[str, LintFacts]:
        """The facts of files of the tree, in the order given."""
        found: dict[str, LintFacts] = {}
        missing: dict[str, str] = {}
        for path in paths:
            key = self._key(path)
            known = self.disk.load(key)
            if known is None:
                missing.setdefault(key, path)
            else:
                found[path] = known
        if missing:
            fresh = self._analyse(missing, processes or os.cpu_count() or 1)
            self.analysed += len(missing)
            for path in paths:
                if path not in found:
                    found[path] = fresh[self._key(path)]
        return {path: found[path] for path in paths}

    def _key(self, path: str) -> str:
        kind = "cuda" if path.endswith(CUDA_SUFFIXES) else "py"
        return f"{self.store.oids[path]}-{kind}"

    def _analyse(self, missing: dict[str, str], processes: int) -> dict[str, LintFacts]:
        contents = self.store.tree.read_many(list(missing.values()))
        jobs = [(key, path, contents[path]) for key, path in missing.items()]
        # the largest first, dealt out in turn, so that the processes end together
        jobs.sort(key=lambda job: -len(job[2]))
        if processes < 2 or len(jobs) < _TOGETHER or not hasattr(os, "fork"):
            results = _work(jobs, self.settings)
        else:
            results = _in_processes(jobs, self.settings, processes)
        for key, body in results:
            self.disk.save(key, body)
        return {key: msgspec.msgpack.decode(body, type=LintFacts) for key, body in results}


def _work(jobs: Iterable[tuple[str, str, bytes]], settings: Settings) -> list[tuple[str, bytes]]:
    return [(key, msgspec.msgpack.encode(analyse(path, raw, settings))) for key, path, raw in jobs]


def _in_processes(jobs: list[tuple[str, str, bytes]], settings: Settings, processes: int) -> list[tuple[str, bytes]]:
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


class _Disk:
    """One file per key, with a checksum; files appear atomically, and a folder that cannot be written is ignored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def load(self, key: str) -> LintFacts | None:
        if self.folder is None:
            return None
        try:
            raw = (self.folder / key[:2] / key[2:]).read_bytes()
        except OSError:
            return None
        body = raw[16:]
        if hashlib.blake2b(body, digest_size=16).digest() != raw[:16]:
            return None
        try:
            return msgspec.msgpack.decode(body, type=LintFacts)
        except msgspec.MsgspecError:
            return None

    def save(self, key: str, body: bytes) -> None:
        if self.folder is None:
            return
        place = self.folder / key[:2] / key[2:]
        temporary = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(hashlib.blake2b(body, digest_size=16).digest() + body)
            os.replace(temporary, place)
        except OSError:
            return
