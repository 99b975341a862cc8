"""Snapshots: a commit, the index or the working tree, each as a git tree, read without a checkout."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kgate.source.git.process import GitError
from kgate.source.git.repository import Repository

COMMIT, INDEX, WORKTREE, TREE = "commit", "index", "worktree", "tree"

LARGEST_UNTRACKED = 32 * 2**20
"""Bytes; a larger untracked file is not taken into the object store, and is reported as left out."""

_LINK, _GITLINK = "120000", "160000"


@dataclass(frozen=True)
class Entry:
    """One entry of a tree."""

    mode: str
    """Git's mode: ``100644``, ``100755``, ``120000`` (symlink) or ``160000`` (gitlink)."""
    oid: str
    """Oid of the blob, or of the submodule's commit."""


@dataclass(frozen=True)
class Snapshot:
    """A tree of files as git stores it. Paths are relative to the repository's root, with forward slashes."""

    repository: Repository
    """Where its objects lie."""
    tree: str
    """Oid of the tree."""
    commit: str | None
    """Oid of the commit that it is the tree of; None for the index, the working tree and bare trees."""
    label: str
    """What to call it: ``HEAD (1a2b3c4d5e)``, ``the staged tree``, ``the working tree``."""
    kind: str = COMMIT
    """``commit``, ``index``, ``worktree`` or ``tree``."""
    untracked: tuple[str, ...] = ()
    """Files in it that git does not track yet (working tree only)."""
    left_out: tuple[str, ...] = ()
    """Untracked things that it does not hold: very large files, repositories inside the repository."""

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry that is not a folder, sorted by path."""
        listing = self.repository.git("ls-tree", "-r", "-z", "--full-tree", self.tree)
        found = {}
        for record in listing.split(b"\0")[:-1]:
            meta, _, path = record.partition(b"\t")
            mode, _kind, oid = meta.decode().split()
            found[os.fsdecode(path)] = Entry(mode, oid)
        return dict(sorted(found.items()))

    def files(self) -> dict[str, str]:
        """Path to blob oid of every file; a symlink to a file inside the tree counts as that file."""
        return dict(self._files)

    @cached_property
    def _files(self) -> dict[str, str]:
        links = self.symlinks()
        found = {}
        for path, entry in self.entries.items():
            if entry.mode not in (_LINK, _GITLINK):
                found[path] = entry.oid
            elif path in links:
                target = self._follow(path, links)
                if target is not None:
                    found[path] = self.entries[target].oid
        return found

    def links(self) -> dict[str, str]:
        """Path to the file of the tree that it stands for, of every symlink to one."""
        links = self.symlinks()
        return {path: file for path in links if (file := self._follow(path, links)) is not None}

    def _follow(self, path: str, links: Mapping[str, str]) -> str | None:
        for _ in range(32):  # more hops than that is a loop
            entry = self.entries.get(path)
            if entry is None or entry.mode == _GITLINK:
                return None
            if entry.mode != _LINK:
                return path
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), links[path]))
        return None

    def symlinks(self) -> dict[str, str]:
        """Path to target, as written, of every symlink."""
        return dict(self._symlinks)

    @cached_property
    def _symlinks(self) -> dict[str, str]:
        paths = [path for path, entry in self.entries.items() if entry.mode == _LINK]
        targets = self.repository.read_objects(self.entries[path].oid for path in paths)
        return {path: os.fsdecode(target) for path, target in zip(paths, targets, strict=True)}

    def gitlinks(self) -> dict[str, str]:
        """Path to commit oid of every submodule."""
        return {path: entry.oid for path, entry in self.entries.items() if entry.mode == _GITLINK}

    def read(self, path: str) -> bytes:
        """Contents of a file. Raises :class:`GitError` where the snapshot has no such file."""
        return next(iter(self.read_many([path]).values()))

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Contents of several files, in one go; see :meth:`read`."""
        wanted = list(paths)
        for path in wanted:
            if path not in self._files:
                raise GitError(f"{path} is not a file in {self.label}")
        contents = self.repository.read_objects(self._files[path] for path in wanted)
        return dict(zip(wanted, contents, strict=True))


def commit_snapshot(repository: Repository, revision: str, label: str = "") -> Snapshot:
    """The tree of a commit, a tag or anything else that names one.

    ``label`` is what to call it; the revision where empty. Raises :class:`GitError` where the repository
    has no such revision.
    """
    commit = repository.commit(revision)
    tree = repository.tree(commit or revision)
    if tree is None:
        raise GitError(
            f"there is no commit {revision!r} in {repository.common_dir}",
            f"check the spelling, or run: git fetch origin {revision}",
        )
    label = label or revision
    if commit is None:
        return Snapshot(repository, tree, None, label, TREE)
    short = repository.short(commit)
    return Snapshot(repository, tree, commit, short if commit.startswith(label) else f"{label} ({short})")


def index_snapshot(repository: Repository, index: Path | None = None) -> Snapshot:
    """What is staged: the tree that a commit from this index would have.

    ``index`` is the index file, the repository's own where None. It is only read. Raises :class:`GitError`
    where it holds unresolved conflicts.
    """
    with _copied_index(repository, index) as env:
        try:
            tree = _write(repository, env, "write-tree")
        except GitError:
            unmerged = repository.ask("diff", "--name-only", "--diff-filter=U", "--cached", "-z", extra=env)
            if not unmerged:
                raise
            names = ", ".join(unmerged.rstrip("\0").split("\0")[:5])
            raise GitError(f"unresolved conflicts are staged in {names}", "resolve them, then: git add") from None
    return Snapshot(repository, tree.decode().strip(), None, "the staged tree", INDEX)


def worktree_snapshot(repository: Repository) -> Snapshot:
    """The working tree as it stands, untracked files included, ignored ones not.

    The user's index is copied, never written; blobs of edited files go to the object store, where git's own
    clean-up takes them away in time.
    """
    with _copied_index(repository, None) as env:
        repository.toplevel  # noqa: B018  (a bare repository has none, and says so)
        _write(repository, env, "add", "--update", "--", ".")
        untracked, left_out = _untracked(repository, env)
        if untracked:
            listing = b"".join(os.fsencode(path) + b"\0" for path in untracked)
            _write(
                repository,
                env,
                "update-index",
                "--add",
                "--remove",
                "--replace",
                "-z",
                "--stdin",
                stdin=listing,
            )
        tree = _write(repository, env, "write-tree").decode().strip()
    return Snapshot(repository, tree, None, "the working tree", WORKTREE, tuple(untracked), tuple(left_out))


def _untracked(repository: Repository, env: Mapping[str, str]) -> tuple[list[str], list[str]]:
    listing = repository.git("ls-files", "--others", "--exclude-standard", "-z", extra=env)
    taken: list[str] = []
    left: list[str] = []
    for raw in listing.split(b"\0")[:-1]:
        path = os.fsdecode(raw)
        (taken if _takable(repository.toplevel / path) and not path.endswith("/") else left).append(path)
    return taken, left


def _takable(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):
        return True
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_UNTRACKED and os.access(path, os.R_OK)


@contextmanager
def _copied_index(repository: Repository, index: Path | None) -> Iterator[dict[str, str]]:
    source = index or repository.git_dir / "index"
    with tempfile.TemporaryDirectory(prefix="kgate-index-") as folder:
        copy = Path(folder) / "index"
        if source.exists():
            # With its time: git trusts an entry's size and time only where the file is older than the index.
            shutil.copy2(source, copy)
        yield {"GIT_INDEX_FILE": str(copy)}


def _write(repository: Repository, env: Mapping[str, str], *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a git that may add objects; those of a repository that is read only go to a folder outside."""
    try:
        return repository.git(*arguments, stdin=stdin, extra=env)
    except GitError as error:
        if not any(hint in error.message for hint in ("insufficient permission", "Read-only file system")):
            raise
    return repository.git(*arguments, stdin=stdin, extra={**env, **repository.spare_objects()})


def changed_paths(base: Snapshot | None, head: Snapshot) -> list[tuple[str, str, str]]:
    """What differs: ``(status, old path, new path)`` with status ``A``, ``D``, ``M``, ``R`` or ``T``.

    An added file has no old path (``""``), a deleted one no new path; of a rename both are given, so that a
    caller can select on either. Gitlinks are listed like files.
    """
    repository = head.repository
    before = base.tree if base is not None else repository.empty_tree()
    raw = repository.git("diff-tree", "-r", "-z", "-M", "--name-status", before, head.tree)
    fields = iter(os.fsdecode(field) for field in raw.split(b"\0")[:-1])
    changes = []
    for status in fields:
        path = next(fields)
        if status[0] in "RC":
            changes.append((status[0], path, next(fields)))
        else:
            changes.append((status[0], "" if status == "A" else path, "" if status == "D" else path))
    return changes
