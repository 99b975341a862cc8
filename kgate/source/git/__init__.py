"""Git as kgate uses it: trees to read, what to compare with what, and a tree written out to a folder.

Every child git runs with :func:`clean_env`, never writes the user's index, and never touches the working
tree.
"""

from __future__ import annotations

from kgate.source.git.ci import in_ci
from kgate.source.git.export import export
from kgate.source.git.process import GitError, clean_env
from kgate.source.git.repository import Repository
from kgate.source.git.resolve import Comparison, resolve
from kgate.source.git.snapshot import (
    Entry,
    Snapshot,
    changed_paths,
    commit_snapshot,
    index_snapshot,
    worktree_snapshot,
)

__all__ = [
    "Comparison",
    "Entry",
    "GitError",
    "Repository",
    "Snapshot",
    "changed_paths",
    "clean_env",
    "commit_snapshot",
    "export",
    "in_ci",
    "index_snapshot",
    "resolve",
    "worktree_snapshot",
]
