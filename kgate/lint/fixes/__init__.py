"""Fixes made: edits turned into new source, conflicts between them, the difference they make, files written."""

from kgate.lint.fixes.apply import Applied, apply, apply_each
from kgate.lint.fixes.diff import diff
from kgate.lint.fixes.rounds import Change, Fixing, fix_all
from kgate.lint.fixes.writing import ChangedSince, Folder

__all__ = ["Applied", "Change", "ChangedSince", "Fixing", "Folder", "apply", "apply_each", "diff", "fix_all"]
