"""What stubs are called, where they are written, and how they import what they declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from kgate.lint.init.launchers import Launcher
from kgate.lint.init.project import Project
from kgate.lint.init.writing import WORDS

DEFAULT = "kgate_kernels"
MANY = 24
"""More kernels than this are written to a folder, one file for each module."""


def variable_names(launchers: Sequence[Launcher], taken: Iterable[str]) -> dict[str, str]:
    """Launcher to the name of its stub: its own, made unique by its module's."""
    used = {*taken, *WORDS}
    found: dict[str, str] = {}
    for launcher in sorted(launchers, key=lambda item: (item.symbol.count("/"), item.kind != "function")):
        path, _, name = launcher.symbol.partition("::")
        stem = name.lstrip("_") or "kernel_"
        folders = [part for part in PurePosixPath(path).with_suffix("").parts if part not in ("src", "__init__")]
        telling = [part.strip("_") for part in reversed(folders) if part not in _PLAIN and part.strip("_") not in stem]
        wishes = [stem, *(f"{stem}_{part}" for part in telling)]
        wishes += [f"{'_'.join(folders[-count:])}_{stem}" for count in range(1, len(folders) + 1)]
        wishes += [f"{stem}_{number}" for number in range(2, len(launchers) + 3)]
        wish = next(wish for wish in map(_identifier, wishes) if wish not in used)
        used.add(wish)
        found[launcher.symbol] = wish
    return found


_PLAIN = frozenset({"ops", "kernels", "backends", "runtime", "backend", "fused", "utils", "modules", "common"})


def _identifier(text: str) -> str:
    return "".join(character if character.isalnum() or character == "_" else "_" for character in text)


def import_of(project: Project, launcher: Launcher, name: str) -> tuple[str, str]:
    """The import statement for what is declared, and the expression that the stub calls it by."""
    path, _, qualname = launcher.symbol.partition("::")
    module = project.names.modules.name_of(path)
    alias = f"{name}_launcher" if launcher.kind != "apply" else f"{name}_function"
    callee = f"{alias}.apply" if launcher.kind == "apply" else alias
    return f"from {module} import {qualname} as {alias}", callee


def importable(project: Project, launcher: Launcher) -> bool:
    """Whether the file of a launcher has a name that an import statement can say."""
    module = project.names.modules.name_of(launcher.symbol.partition("::")[0])
    return bool(module) and all(part.isidentifier() for part in module.split("."))


def files_for(launchers: Sequence[Launcher], output: str) -> dict[str, list[Launcher]]:
    """File to the launchers declared in it: one file, or one for each module below a folder where there are many."""
    if output.endswith(".py"):
        return {output: list(launchers)}
    if not output and len(launchers) <= MANY:
        return {f"{DEFAULT}.py": list(launchers)}
    folder = (output or DEFAULT).rstrip("/")
    common = _common([item.symbol.partition("::")[0] for item in launchers])
    found: dict[str, list[Launcher]] = {}
    for launcher in launchers:
        path = PurePosixPath(launcher.symbol.partition("::")[0])
        inner = path.relative_to(common) if common else path
        if inner.name == "__init__.py":
            inner = inner.parent / "package.py"
        found.setdefault(f"{folder}/{inner.as_posix()}", []).append(launcher)
    return found


def _common(paths: Sequence[str]) -> str:
    """The folder that all files lie in."""
    parents = [PurePosixPath(path).parent.parts for path in paths]
    shared: list[str] = []
    for parts in zip(*parents, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)
