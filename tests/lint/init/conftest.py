"""A small repository to draft declarations for, and the drafts as objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import kgate
from kgate.lint.init import InitResult, Options, init

DEVICE = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * stride + cols, x * 2, mask=mask)
"""


class Repository:
    """A folder with files, and what `kgate init` makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> None:
        """Write files; `pkg__ops` is `pkg/ops.py`, and `pkg__INIT` is `pkg/__init__.py`."""
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/').replace('INIT', '__init__')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")

    def init(self, *paths: str, **options: Any) -> InitResult:
        """Run it without writing, unless `dry_run=False`."""
        return init(self.folder, Options(paths=paths, **{"dry_run": True, **options}), env={})

    def text(self, host: str, device: str = DEVICE) -> str:
        """The file that is drafted for host code beside a device function."""
        self.write(ops=dedent(device) + dedent(host))
        result = self.init()
        assert result.unexpected == ()
        return "\n".join(result.files.values())

    def parts(self, host: str, device: str = DEVICE) -> dict[str, Any]:
        """The single entries of the draft by name, as objects of the vocabulary; placeholders stay text."""
        return entries(self.text(host, device))


def entries(text: str) -> dict[str, Any]:
    """`"name": Word(...)` lines of a stub, evaluated; what holds a placeholder stays text."""
    found: dict[str, Any] = {}
    for name, source in re.findall(r'^ +"(\w+)": (.*?),(?:  # .*)?$', text, re.MULTILINE):
        found[name] = source if "TODO" in source else eval(source, vars(kgate))
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def parts(repository: Repository) -> Callable[..., dict[str, Any]]:
    return repository.parts
