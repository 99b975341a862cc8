"""Kernels that are right and look suspicious: nothing that is on by default accuses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgate.lint.examples import lint_files
from kgate.lint.registry import rules
from kgate.lint.rule import ERROR, WARNING

FILES = sorted((Path(__file__).parent / "innocents").glob("*.py"))
CONFIG = "require = []\n"


def accusations(name: str, source: str) -> list[str]:
    """Errors and warnings of the rules that are on by default, as text."""
    default = {rule.code for rule in rules() if rule.default}
    return [
        f"{item.path}:{item.line} {item.code} {item.message}"
        for item in lint_files({name: source}, CONFIG)
        if item.code in default and item.severity in (ERROR, WARNING)
    ]


def test_the_innocents_are_many():
    assert sum(path.read_text().count("@triton.jit") for path in FILES) >= 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_innocent_is_accused(path):
    assert accusations(path.name, path.read_text()) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("tilings", ", mask=k[None, :] < left, other=0.0)", ", mask=k[None, :] < left)", "KG203"),
        ("tilings", "c = torch.zeros((a.shape[0], b.shape[1])", "c = torch.empty((a.shape[0], b.shape[1])", "KG211"),
        ("tilings", "tl.store(y_ptr + m[:, None] * N + n[None, :], x * 2, mask=mask)", None, "KG202"),
        ("reductions", "centered = tl.where(inside, x - mean, 0.0)", "centered = x - mean", "KG302"),
        ("reductions", 'mask=cols < N, other=-float("inf"))', "mask=cols < N, other=0.0)", "KG204"),
        ("pointwise", ', restore_value=["p_ptr", "m_ptr"]', "", "KG401"),
        ("recurrences", "    tl.debug_barrier()\n    tl.store(y_ptr + base", "    tl.store(y_ptr + base", "KG209"),
        ("pointwise", "y = tl.where(size < beta,", "y = x if x > 0 else tl.where(size < beta,", "KG415"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_innocent_is_accused(name, old, new, code):
    path = next(path for path in FILES if path.stem == name)
    source = path.read_text()
    assert old in source, "the kernel has changed; plant the mistake anew"
    new = old.replace(", mask=mask)", ")") if new is None else new
    found = accusations(path.name, source.replace(old, new, 1))
    assert [item for item in found if re.search(rf" {code} ", item)]
