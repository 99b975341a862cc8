"""``kgate lint``: what is wrong with the declarations of a tree, and which kernels have none; executes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.source.cache import Tree
from kgate.source.config import Config, ConfigError, load_config_from
from kgate.source.index import Index, build_index
from kgate.source.records import Declaration, DeviceFunction, Finding

UNDECLARED = "undeclared-kernel"


@dataclass(frozen=True)
class LintResult:
    """The findings of one run, and how much was looked at."""

    findings: tuple[Finding, ...]
    """Sorted by file and place."""
    notes: tuple[str, ...]
    """Sentences that concern the project as a whole."""
    kernels: int
    """Kernels declared."""
    device_functions: int
    """Device functions found."""
    schema: str = "kgate.lint/1"
    """Name and version of this document."""


def lint(folder: Path, paths: Sequence[str] = (), env: Mapping[str, str] | None = None) -> LintResult:
    """Check the declarations of the project that a folder lies in.

    Reads the working folder (in a hook: the staged tree) where it is a git repository, and the files as they lie there
    otherwise. ``paths`` narrows the findings to files or folders, relative to ``folder``. Raises ConfigError, also
    for a path outside the project, and GitError.
    """
    top, snapshot, config, cache = _tree(folder, os.environ if env is None else env)
    wanted = [_relative(folder, path, top) for path in paths]
    index = build_index(snapshot, config.roots, cache_dir=cache, exclude=config.exclude)
    findings, notes = findings_of(index, config)
    if wanted:
        findings = [item for item in findings if any(_inside(item.path, path) for path in wanted)]
    return LintResult(tuple(findings), tuple(notes), len(index.declarations), len(index.device_functions))


def findings_of(index: Index, config: Config, *, changed: bool = True) -> tuple[list[Finding], list[str]]:
    """The findings of an index under a configuration, and notes.

    A kernel without a declaration is an error inside ``require`` where the project has configured kgate; in a
    repository that has not, all of them are one note. Where nothing has ``changed``, they are not looked for,
    which takes most of the time in a large tree.
    """
    found = [item for item in index.findings if not config.excludes(item.path)]
    found_devices = index.undeclared if changed else ()
    bare = [item for item in found_devices if not config.excludes(item.path)]
    notes = []
    if config.configured and index.paths and not any(config.requires(path) for path in index.paths):
        patterns = ", ".join(config.require)
        notes.append(f"require ({patterns}) matches none of the {len(index.paths)} files that mention kernels")
    if config.configured:
        found += [_undeclared(item) for item in bare if config.requires(item.path)]
    elif bare:
        one = f"{bare[0].path}:{bare[0].line}"
        are = "kernel is" if len(bare) == 1 else "kernels are"
        notes.append(
            f"{len(bare)} {are} launched and not declared (first: {one}); "
            "add a [tool.kgate] table to pyproject.toml to have each of them reported"
        )
    found += [_outside(item) for item in index.declarations if not any(root.owns(item.path) for root in config.roots)]
    return sorted(found, key=lambda item: (item.path, item.line, item.column, item.code)), notes


def _outside(declaration: Declaration) -> Finding:
    return Finding(
        code="outside-roots",
        severity="error",
        path=declaration.path,
        line=declaration.line,
        column=declaration.column,
        end_line=declaration.line,
        end_column=declaration.column,
        message=f"{declaration.name} lies in no [[tool.kgate.root]], so that nothing says how to import it",
        remedy="add a root for its folder, or exclude the file",
        symbol=declaration.identity,
    )


def _undeclared(device: DeviceFunction) -> Finding:
    name = device.identity.rpartition("::")[2]
    place = device.launches[0]
    launcher = place.by.rpartition("::")[2]
    return Finding(
        code=UNDECLARED,
        severity="error",
        path=device.path,
        line=device.line,
        column=device.column,
        end_line=device.line,
        end_column=device.column + len(name),
        message=f"{name} is launched by {launcher} ({place.path}:{place.line}), and no @kernel reaches it",
        remedy=f"decorate {launcher} with @kernel(reference=..., fallback=..., envelope=...), or exclude the file",
        symbol=device.identity,
    )


def _tree(folder: Path, env: Mapping[str, str]) -> tuple[Path, Tree, Config, Path | None]:
    from kgate.source.config import load_config
    from kgate.source.git import GitError, Repository, index_snapshot, worktree_snapshot

    try:
        repository = Repository(folder, env=env)
        top = repository.toplevel
    except GitError as error:
        if "not in a git repository" not in error.message:
            raise
        from kgate.source.folder import FolderSnapshot

        return folder, FolderSnapshot(folder), load_config_from(folder), None
    hook = bool(env.get("PRE_COMMIT")) or bool(env.get("GIT_INDEX_FILE"))
    index_file = env.get("GIT_INDEX_FILE", "")
    snapshot = (
        index_snapshot(repository, Path(top / index_file) if index_file else None)
        if hook
        else worktree_snapshot(repository)
    )
    files = snapshot.files()
    config = load_config(lambda path: snapshot.read(path) if path in files else None)
    from kgate.baselines.workspace import workspace

    try:
        cache: Path | None = workspace(top) / "facts"
    except OSError:
        cache = None  # a tree that cannot be written is read without a cache
    return top, snapshot, config, cache


def _relative(folder: Path, path: str, top: Path) -> str:
    place = (folder / path).resolve()
    try:
        return place.relative_to(top.resolve()).as_posix()
    except ValueError:
        raise ConfigError("lies outside the project", path=path, remedy=f"name a path inside {top}") from None


def _inside(path: str, wanted: str) -> bool:
    return wanted == "." or path == wanted or path.startswith(wanted + "/")
