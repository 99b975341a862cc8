"""Runs the tests of one ``inside_*.py`` file in a process that stands in for a device; one JSON line per test."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path


def main() -> int:
    """Run the file named on the command line."""
    root = Path(__file__).resolve().parents[3]
    sys.path[:0] = [str(root), str(Path(__file__).parent)]
    path = Path(sys.argv[1])
    from kgate.probes import interpreter

    interpreter.install(target=target_of(path))
    import torch

    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    wanted = os.environ.get("KGATE_INSIDE", "test_")
    for name, function in list(vars(module).items()):
        if name.startswith(wanted) and callable(function):
            error = ""
            torch.manual_seed(0)
            try:
                function()
            except Exception:
                error = traceback.format_exc()
            print(json.dumps({"test": name, "error": error}), flush=True)
    return 0


def target_of(path: Path) -> str:
    """Read the file's ``TARGET``, without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TARGET":
            return str(ast.literal_eval(node.value))
    return "cuda:sm_90"


if __name__ == "__main__":
    raise SystemExit(main())
