"""Entry point of the worker, run by path in the interpreter of the project whose kernels are judged.

Needs the standard library alone until it is told to import more. ``kgate`` resolves to the package that this
file belongs to, whatever else is installed; the project's roots come first on ``sys.path``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any


class _OwnPackage(importlib.abc.MetaPathFinder):
    """Finds ``kgate`` in the controller's package, never in the tree under test or in site-packages."""

    def __init__(self, package: Path) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.package.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.package / "__init__.py", submodule_search_locations=[str(self.package)]
        )


def _private_streams() -> tuple[int, int]:
    """Take stdin and stdout for the protocol, so that what user code reads or prints cannot disturb it."""
    commands, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, answers


def main() -> None:
    """Set up paths and streams, then serve jobs until the controller closes its end."""
    settings = json.loads(sys.argv[1])
    package = Path(__file__).resolve().parents[2]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [
        *settings["roots"],
        *(entry for entry in sys.path if entry and os.path.abspath(entry) not in (here, str(package.parent))),
    ]
    sys.meta_path.insert(0, _OwnPackage(package))
    sys.dont_write_bytecode = True
    commands, answers = _private_streams()
    os.chdir(settings["tree"])
    sys.argv = [sys.argv[0]]

    from kgate.probes.worker import server

    server.serve(settings, commands, answers)


if __name__ == "__main__":
    main()
