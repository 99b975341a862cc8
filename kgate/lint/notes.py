"""Notes about a run as a whole: settings that do nothing, and paths that were named and not looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kgate.lint.selection import Selection
from kgate.source.config import Config, matches

_SHOWN = 3
"""Paths that a note names."""


def about_settings(config: Config, files: Collection[str], selection: Selection) -> list[str]:
    """One note for each setting that does nothing, or that turns everything off."""
    notes = list(_idle_globs(config, files))
    if config.shadowed:
        notes.append(f"{config.path} is used, and the configuration in {config.shadowed} is not")
    if files and all(config.excludes(path) for path in files):
        notes.append("exclude matches every file, so nothing is looked at")
    if not selection.everywhere:
        empty = "select is empty" if config.select == () else "ignore leaves none of what is selected"
        notes.append(f"no rule is on: {empty}")
    return notes


def _idle_globs(config: Config, files: Collection[str]) -> Iterator[str]:
    for pattern in config.exclude:
        if not any(matches(path, pattern) for path in files):
            yield f"exclude: {pattern!r} matches no file"
    for pattern, _ in config.per_file_ignores:
        if not any(config.ignores_in(path, pattern) for path in files):
            yield f"per-file-ignores: {pattern!r} matches no file"


def about_paths(wanted: Sequence[str], config: Config, files: Collection[str]) -> list[str]:
    """Which of the paths that were named hold no file to look at: one note for each reason."""
    reasons: dict[str, list[str]] = {}
    for path in wanted:
        why = _passed_over(path, config, files)
        if why:
            reasons.setdefault(why, []).append(path)
    notes = []
    for why, paths in reasons.items():
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        were = "was" if len(paths) == 1 else "were"
        notes.append(f"{', '.join(paths[:_SHOWN])}{more} {were} not looked at: {why}")
    return notes


def _passed_over(wanted: str, config: Config, files: Collection[str]) -> str:
    held = [wanted] if wanted in files else [path for path in files if inside(path, wanted)]
    if held:
        return "exclude matches" if all(config.excludes(path) for path in held) else ""
    return "" if wanted == "." else "ignored by git, or no part of the project"


def inside(path: str, wanted: str) -> bool:
    """Whether a path is one that was asked for, or lies below it."""
    return wanted == "." or path == wanted or path.startswith(wanted + "/")
