"""Writing a snapshot out to a folder, for workers that import it: atomic and reused."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from kgate.source.git.process import GitError
from kgate.source.git.repository import Repository
from kgate.source.git.snapshot import Snapshot

KEPT = 4
"""Exported trees that stay in the folder for the next run."""

_ABANDONED = 24 * 3600
"""Seconds after which half an export must be that of a process that was killed."""

_held: list[int] = []
"""Locks on the trees that this process uses, open until it ends."""


def export(snapshot: Snapshot, destination: Path, carry: Sequence[str] = ()) -> Path:
    """Write a snapshot to a folder of its own below ``destination``, and give that folder.

    ``carry`` names what git ignores and the code needs (a generated ``_version.py``, built extensions), as
    paths or globs relative to the repository's root: files are copied from the working tree, whole folders
    linked; what the tree holds itself is never replaced. Submodules are filled from the working tree's own.

    The folder appears complete or not at all, is reused by later runs, and is not taken away while this
    process lives. Raises :class:`GitError` for a ``carry`` path that does not exist.
    """
    carried = list(_carried(snapshot, carry))
    destination = destination.absolute()
    destination.mkdir(parents=True, exist_ok=True)
    final = destination / _name(snapshot, carried)
    _hold(final)
    if not final.is_dir():
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=destination))
        try:
            tree = work / "tree"
            _write_tree(snapshot, tree, work / "index")
            for path, source in carried:
                _carry(source, tree / path)
            _move(tree, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    os.utime(final)
    _prune(destination, keep=final)
    return final


def _write_tree(snapshot: Snapshot, tree: Path, index: Path) -> None:
    tree.mkdir()
    repository = snapshot.repository
    options = ["-c", "core.sparseCheckout=false", "-c", "core.bare=false", f"--git-dir={repository.git_dir}"]
    extra = {"GIT_INDEX_FILE": str(index)}
    repository.git(*options, "read-tree", snapshot.tree, extra=extra)
    repository.git(*options, f"--work-tree={tree}", "-C", tree, "checkout-index", "--all", "--force", extra=extra)
    for path, commit in snapshot.gitlinks().items():
        _fill_submodule(repository, path, commit, tree / path)


def _fill_submodule(repository: Repository, path: str, commit: str, place: Path) -> None:
    """Give an exported tree the submodule's files, where the working tree has that submodule."""
    source = None if repository.bare else repository.toplevel / path
    if source is None or not (source / ".git").exists():
        return
    module = Repository(source, env=repository.environment)
    tree = module.tree(commit)
    if tree is None:
        return
    if place.is_dir():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    if module.commit("HEAD") == commit and not module.git("status", "--porcelain"):
        place.symlink_to(source, target_is_directory=True)
        return
    with tempfile.TemporaryDirectory(prefix="kgate-index-") as folder:
        _write_tree(Snapshot(module, tree, commit, path), place, Path(folder) / "index")


def _carried(snapshot: Snapshot, carry: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for pattern in carry:
        top = snapshot.repository.toplevel
        if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts or not pattern.strip("./"):
            raise GitError(
                f"carry names {pattern!r}, which is not inside the repository",
                "give a path relative to its root",
            )
        found = sorted(top.glob(pattern)) if any(char in pattern for char in "*?[") else [top / pattern]
        found = [path for path in found if path.exists()]
        if not found:
            raise GitError(f"carry names {pattern!r}, which is not in {top}", "build it first, or remove it from carry")
        for path in found:
            yield from _missing_parts(snapshot, path.relative_to(top).as_posix(), path)


def _missing_parts(snapshot: Snapshot, path: str, source: Path) -> Iterator[tuple[str, Path]]:
    """The parts of a carried path that the tree does not hold itself."""
    if path in snapshot.entries:
        return
    inside = f"{path}/"
    if source.is_dir() and not source.is_symlink() and any(known.startswith(inside) for known in snapshot.entries):
        for child in sorted(source.iterdir()):
            yield from _missing_parts(snapshot, inside + child.name, child)
    else:
        yield path, source


def _carry(source: Path, place: Path) -> None:
    if place.exists() or place.is_symlink():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        place.symlink_to(source, target_is_directory=True)
    else:
        shutil.copy2(source, place)


def _name(snapshot: Snapshot, carried: Sequence[tuple[str, Path]]) -> str:
    if not carried and not snapshot.gitlinks():
        return snapshot.tree
    state = hashlib.sha256()
    for path, source in carried:
        found = source.stat()
        stamp = "folder" if source.is_dir() else f"{found.st_size} {found.st_mtime_ns}"
        state.update(f"{path}\0{source}\0{stamp}\0".encode("utf-8", "surrogateescape"))
    for path in snapshot.gitlinks():
        state.update(_submodule_state(snapshot.repository, path).encode("utf-8", "surrogateescape"))
    return f"{snapshot.tree}-{state.hexdigest()[:12]}"


def _submodule_state(repository: Repository, path: str) -> str:
    if repository.bare or not (repository.toplevel / path / ".git").exists():
        return f"{path} empty\0"
    module = Repository(repository.toplevel / path, env=repository.environment)
    dirty = bool(module.git("status", "--porcelain"))
    return f"{path} {module.commit('HEAD')} {dirty}\0"


def _move(tree: Path, final: Path) -> None:
    try:
        tree.rename(final)
    except OSError:
        if not final.is_dir():
            raise  # otherwise another process has just finished the same tree


def _prune(destination: Path, keep: Path) -> None:
    trees = [path for path in destination.iterdir() if path.is_dir() and not path.name.startswith(".")]
    trees.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in trees[KEPT:]:
        if old != keep:
            _remove_unused(old)
    for left in [*destination.glob(".new-*"), *destination.glob(".old-*")]:
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)


def _remove_unused(tree: Path) -> None:
    lock = _lock(tree, exclusive=True)
    if lock is None:
        return
    try:
        doomed = Path(tempfile.mkdtemp(prefix=".old-", dir=tree.parent))
        tree.rename(doomed / "tree")
        shutil.rmtree(doomed, ignore_errors=True)
        _lock_file(tree).unlink(missing_ok=True)
    except OSError:
        pass  # another process was faster
    finally:
        os.close(lock)


def _hold(tree: Path) -> None:
    while True:
        lock = _lock(tree, exclusive=False)
        if lock is None:
            continue  # its removal is under way: it ends in a moment, and takes the lock file along
        if _same_file(lock, _lock_file(tree)):
            _held.append(lock)
            return
        os.close(lock)


def _lock(tree: Path, *, exclusive: bool) -> int | None:
    import fcntl

    descriptor = os.open(_lock_file(tree), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock_file(tree: Path) -> Path:
    return tree.parent / f".{tree.name}.lock"
