"""Opens the tree that a folder lies in, as ``kgate lint`` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgate.source.cache import Tree
from kgate.source.config import Config, ConfigError, load_config, load_config_from


def open_tree(folder: Path, env: Mapping[str, str]) -> tuple[Path, Tree, Config, Path | None]:
    """The top folder, the working tree, its configuration, and where facts are remembered.

    Untracked files count, since a fresh checkout has none and a stub that was just written must be seen.
    """
    from kgate.source.git import GitError, Repository, worktree_snapshot

    try:
        repository = Repository(folder, env=env)
        top = repository.toplevel
    except GitError as error:
        if "not in a git repository" not in error.message:
            raise
        from kgate.source.folder import FolderSnapshot

        return folder, FolderSnapshot(folder), load_config_from(folder), None
    snapshot = worktree_snapshot(repository)
    files = snapshot.files()
    config = load_config(lambda path: snapshot.read(path) if path in files else None)
    from kgate.baselines.workspace import workspace

    try:
        cache: Path | None = workspace(top) / "facts"
    except OSError:
        cache = None
    return top, snapshot, config, cache


def relative(folder: Path, path: str, top: Path) -> str:
    """A path as given, relative to the top folder. Raises ConfigError for one outside."""
    place = (folder / path).resolve()
    try:
        return place.relative_to(top.resolve()).as_posix()
    except ValueError:
        raise ConfigError("lies outside the project", path=path, remedy=f"name a path inside {top}") from None
