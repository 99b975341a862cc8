"""Importing the module under test, and proof that it is the one in the tree."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType


class WrongTree(ImportError):
    """A module came from somewhere else than the tree under test."""


def load(module: str, tree: str, elsewhere: Iterable[str] = ()) -> ModuleType:
    """Import ``module`` and make sure that it, and what it drew in, belongs to ``tree``.

    ``elsewhere`` are folders of the same project outside the tree, usually the working folder: a helper found
    there is missing from what is being judged (an editable install or an untracked file). Raises ``WrongTree``.
    """
    loaded = importlib.import_module(module)
    file = os.path.realpath(loaded.__file__) if loaded.__file__ else "no file at all"
    if not _inside(file, tree):
        raise WrongTree(
            f"module {module} was imported from {file}, outside the tree under test {tree}; "
            "check the root's path in kgate's configuration, and that no installed package has this name"
        )
    for name, other in list(sys.modules.items()):
        place = os.path.realpath(str(getattr(other, "__file__", None) or "/"))
        if name != "__main__" and _astray(place, tree, elsewhere):
            raise WrongTree(
                f"module {name} was imported from {place}, which is not in the tree under test; "
                "`git add` the file, or name it in `carry` where git ignores it"
            )
    return loaded


def _astray(place: str, tree: str, elsewhere: Iterable[str]) -> bool:
    if _inside(place, tree) or "site-packages" in place or "dist-packages" in place:
        return False
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, own)
    return any(_inside(place, folder) for folder in elsewhere) and not any(_inside(place, p) for p in prefixes)


def _inside(path: str, folder: str) -> bool:
    return path.startswith(os.path.realpath(folder).rstrip("/") + "/")
