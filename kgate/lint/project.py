"""The project that a folder lies in: opened for a run, its files as they lie there for excerpts, and watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgate.source.config import (
    FILES,
    Config,
    ConfigError,
    check_file,
    check_folders,
    load_config,
    load_config_from,
)

if TYPE_CHECKING:
    from kgate.lint.changed import ChangedLines
    from kgate.source.git import Repository

WATCHED = (".py", ".pyi", ".cu", ".cuh", ".hip", ".h", ".hpp", ".cpp", ".cc", ".toml", ".json", ".jsonl")
"""Endings of files that can change what the linter says."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})


class OpenProject:
    """The project that a folder lies in: its tree, its configuration, and where facts are remembered."""

    def __init__(
        self, top: Path, config: Config, cache: Path | None, snapshot: Callable[[], Any], repository: Repository | None
    ) -> None:
        self.top = top
        self.config = config
        self.cache = cache
        self._snapshot = snapshot
        self.repository = repository
        self._first: Any = None

    def opened_with(self, tree: Any) -> OpenProject:
        """Hand over the snapshot that the configuration was read from, which is the first one that is asked for."""
        self._first = tree
        return self

    def snapshot(self) -> Any:
        """A snapshot of the tree as it is now; the first time, as it was when the project was opened."""
        first, self._first = self._first, None
        return self._snapshot() if first is None else first

    def changed_lines(self, base: str | None) -> ChangedLines:
        """What differs from a commit, or from what a check would compare with. Raises ConfigError without git."""
        from kgate.lint.changed import changed_lines

        if self.repository is None:
            raise ConfigError("is in no git repository", path=str(self.top), remedy="leave --changed out")
        return changed_lines(self.repository, base)


def open_project(folder: Path, env: Mapping[str, str], *, working: bool = False) -> OpenProject:
    """Open the project that a folder lies in; with ``working``, its working tree even in a hook."""
    from kgate.source.git import GitError, Repository, index_snapshot, worktree_snapshot

    try:
        repository = Repository(folder, env=env)
        top = repository.toplevel
    except GitError as error:
        if "not in a git repository" not in error.message:
            raise
        from kgate.source.folder import FolderSnapshot

        loose = FolderSnapshot(folder)
        config = load_config_from(folder)
        check_folders(config, loose.files(), "this folder")
        return OpenProject(folder, config, None, lambda: FolderSnapshot(folder), None).opened_with(loose)
    hook = not working and (bool(env.get("PRE_COMMIT")) or bool(env.get("GIT_INDEX_FILE")))
    index_file = env.get("GIT_INDEX_FILE", "")

    def snapshot() -> Any:
        if hook:
            return index_snapshot(repository, Path(top / index_file) if index_file else None)
        return worktree_snapshot(repository)

    tree = snapshot()
    files = tree.files()
    for name in FILES if not hook else ():
        if name not in files:
            check_file(top / name)
    config = load_config(lambda path: tree.read(path) if path in files else None)
    check_folders(config, files, tree.label)
    from kgate.baselines.workspace import workspace

    try:
        cache: Path | None = workspace(top) / "facts"
    except OSError:
        cache = None  # a tree that cannot be written is read without a cache
    return OpenProject(top, config, cache, snapshot, repository).opened_with(tree)


def relative(folder: Path, path: str, top: Path) -> str:
    """A path as given, relative to the top folder. Raises ConfigError for one outside."""
    place = (folder / path).resolve()
    try:
        return place.relative_to(top.resolve()).as_posix()
    except ValueError:
        raise ConfigError("lies outside the project", path=path, remedy=f"name a path inside {top}") from None


def top_of(folder: Path) -> Path:
    """Root of the repository that a folder lies in; the folder itself where there is none."""
    from kgate.source.git import GitError, Repository

    try:
        return Repository(folder).toplevel
    except GitError:
        return folder


def reader(folder: Path) -> Callable[[str], bytes | None]:
    """A function that reads a file of the project that a folder lies in; None for what cannot be read."""
    top: list[Path] = []

    def read(path: str) -> bytes | None:
        if not top:
            top.append(top_of(folder))
        place = top[0] / path
        try:
            return place.read_bytes() if place.is_file() else None
        except (OSError, ValueError):
            return None

    return read


def state(folder: Path, without: Path | None = None) -> dict[str, tuple[int, int]]:
    """Path to time of change and size of every file below a folder that can change what the linter says.

    Hidden folders, virtual environments and caches are passed over, and the file ``without``, by whatever name.
    """
    try:
        own = None if without is None else os.stat(without)
    except OSError:
        own = None
    return dict(_files(str(folder), own))


def _files(folder: str, own: os.stat_result | None) -> Iterator[tuple[str, tuple[int, int]]]:
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _PASSED_OVER:
                        waiting.append(entry.path)
                elif entry.name.endswith(WATCHED):
                    found = entry.stat()
                    if own is None or not os.path.samestat(found, own):
                        yield entry.path, (found.st_mtime_ns, found.st_size)
            except OSError:
                continue


def watch(
    folder: Path,
    run: Callable[[], object],
    wait: Callable[[], None],
    *,
    settle: Callable[[], None] | None = None,
    output: Path | None = None,
) -> None:
    """Run once, and again whenever a file of the project has changed; ends with KeyboardInterrupt.

    ``wait`` passes the time between two looks. After a change, ``settle`` passes the time until what writes several
    files is likely to be done with them. ``output`` is written by ``run`` itself and not looked at.
    """
    top = top_of(folder)
    before = state(top, output)
    run()
    while True:
        wait()
        now = state(top, output)
        if now != before:
            if settle is not None:
                settle()
            before = state(top, output)
            run()
