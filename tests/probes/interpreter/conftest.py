"""Collects ``inside_*.py`` files, whose tests run in one process each that stands in for a device.

``install()`` patches the process that it is called in, so these tests may not run in pytest's own. A file may name the
target that its process stands in for (``TARGET = "hip:gfx942"``); every ``test_*`` function is an item of its own.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).with_name("runner.py")
ROOT = Path(__file__).resolve().parents[3]


def pytest_collect_file(file_path: Path, parent: Any) -> Any:
    """Take over the files that must run in a process of their own."""
    if _inside(file_path) and not parent.session.isinitpath(file_path):
        return InsideFile.from_parent(parent, path=file_path)
    return None


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
    """Take them over as well where one is named on the command line, which pytest would import otherwise."""
    return InsideFile.from_parent(parent, path=module_path) if _inside(module_path) else None


def _inside(path: Path) -> bool:
    return path.suffix == ".py" and path.name.startswith("inside_")


class InsideFile(pytest.File):
    """A file whose functions run in one separate process."""

    _results: dict[str, Any] | None = None

    def collect(self) -> Iterator[Any]:
        """Find the tests without importing the file."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield InsideItem.from_parent(self, name=node.name, lineno=node.lineno)

    def results(self) -> dict[str, Any]:
        """Run the file once; returns what each function did."""
        if self._results is None:
            command = [sys.executable, str(RUNNER), str(self.path)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"test"')]
            self._results = {entry["test"]: entry for entry in map(json.loads, lines)}
            self._results[""] = {"error": f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"}
        return self._results


class InsideFailure(Exception):
    """A test failed in its process; holds the traceback from there."""


class InsideItem(pytest.Item):
    """One test function of such a file."""

    def __init__(self, *, lineno: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lineno = lineno

    def runtest(self) -> None:
        """Report what happened to the function in its process."""
        results = self.parent.results()
        found = results.get(self.name, results[""])
        if found["error"]:
            raise InsideFailure(found["error"])

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show the traceback from the other process alone."""
        if isinstance(excinfo.value, InsideFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the test stands."""
        return self.path, self.lineno - 1, self.name
