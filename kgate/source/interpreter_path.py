"""Finding the Python of the user's project: the one whose torch and triton the kernels are written for.

A hook that pre-commit installs runs in an environment of its own, and PATH and VIRTUAL_ENV point to that one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENTS = (".venv", "venv")
_NAMES = ("python3", "python")
_POETRY_SECONDS = 20.0


class InterpreterError(Exception):
    """There is no interpreter where one was named, or none at all; ``remedy`` says what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class FoundPython:
    """The interpreter of a project."""

    path: Path
    """The executable. Not resolved: an environment's python is a link that must be run by its own name."""
    source: str
    """Where it was found, for people: ``.venv``, ``KGATE_PYTHON``, ``PATH``."""


def find_python(root: Path, env: Mapping[str, str], setting: str = "") -> FoundPython:
    """The interpreter of the project in ``root``.

    ``setting`` is what its configuration names (a path, relative to ``root``, or a command), ``env`` the
    environment that kgate was started with. In order: the setting, KGATE_PYTHON, ``.venv`` or ``venv`` in the
    project or a folder above it inside the same repository, an active conda or virtual environment that is
    not kgate's own, poetry's, kgate's own where it has torch and triton, and PATH without kgate's own.

    Raises :class:`InterpreterError` where the setting or KGATE_PYTHON names none, or there is none at all.
    """
    for value, name in ((setting, "the setting python"), (env.get("KGATE_PYTHON", ""), "KGATE_PYTHON")):
        if value:
            return FoundPython(_named(value, name, root, env), name)
    for found in _candidates(root, env):
        if _runs(found.path):
            return found
    raise InterpreterError(
        f"no Python was found for the project in {root}",
        "make one in .venv, or name it: python = '...' in [tool.kgate], or KGATE_PYTHON",
    )


def _named(value: str, name: str, root: Path, env: Mapping[str, str]) -> Path:
    wanted = Path(value).expanduser()
    if len(wanted.parts) == 1 and not (root / wanted).exists():
        command = shutil.which(value, path=env.get("PATH", os.defpath))
        if command:
            return Path(command)
    place = Path(os.path.abspath(root / wanted))
    if place.is_dir():
        place = _python_of(place)
    if not _runs(place):
        raise InterpreterError(f"{name} names {value}, and {place} is no Python", "correct it, or remove it")
    return place


def _candidates(root: Path, env: Mapping[str, str]) -> Iterator[FoundPython]:
    for folder in _up_to_repository(root):
        for name in ENVIRONMENTS:
            yield FoundPython(_python_of(folder / name), str(folder / name))
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        prefix = env.get(variable, "")
        if prefix and not _is_own(Path(prefix)):
            yield FoundPython(_python_of(Path(prefix)), variable)
    yield from _poetry(root, env)
    if all(importlib.util.find_spec(name) for name in ("torch", "triton")):
        yield FoundPython(Path(sys.executable), "the Python that runs kgate")
    for folder_name in env.get("PATH", os.defpath).split(os.pathsep):
        folder = Path(folder_name)
        if folder_name and not _is_own(folder.parent):
            yield from (FoundPython(folder / name, "PATH") for name in _NAMES)


def _up_to_repository(root: Path) -> list[Path]:
    root = Path(os.path.abspath(root))
    folders = [root, *root.parents]
    inside = next((place for place, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    return folders[: inside + 1]


def _poetry(root: Path, env: Mapping[str, str]) -> Iterator[FoundPython]:
    if not (root / "poetry.lock").exists():
        return
    poetry = shutil.which("poetry", path=env.get("PATH", os.defpath))
    if not poetry:
        return
    question = [poetry, "env", "info", "--executable", "--no-ansi"]
    clean = {name: value for name, value in env.items() if name != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(
            question, cwd=root, env=clean, capture_output=True, text=True, check=True, timeout=_POETRY_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return
    yield FoundPython(Path(done.stdout.strip()), "poetry")


def _python_of(prefix: Path) -> Path:
    return prefix / "Scripts" / "python.exe" if os.name == "nt" else prefix / "bin" / "python"


def _is_own(prefix: Path) -> bool:
    """Whether an environment is the one that kgate itself runs in."""
    return os.path.realpath(prefix) in (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix))


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
