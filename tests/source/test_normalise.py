"""Hashes of code stay what they are: committed baselines hold them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kgate.source import normalise
from kgate.source.normalise import hash_of

FUNCTION = """\
def f(x, *, n: int = 3) -> int:
    '''doc'''
    return x[1:, ::2].sum() * -n if x else (n, [])
"""
CLASS = "class A(B, k=1):\n    x: int = 1\n    def f(self): return {**self.x}\n"
SAMPLES = sorted(Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize(
    ("source", "own", "whole"),
    [
        (FUNCTION, "40cffc3dbf2f007b", "2c8df4426e5d7cb6"),
        (CLASS, "6e079e5628d104d1", "d5894aff292cbbd8"),
        ("try:\n    x += 1\nexcept E as e:\n    del x\n", "fbbdeac7fa4e93a0", "e2977f5311efea90"),
    ],
)
def test_a_hash_is_the_same_in_every_version_of_kgate(source, own, whole):
    tree = ast.parse(source)
    assert (hash_of(tree.body[0]), hash_of(tree)) == (own, whole)


@pytest.mark.parametrize("place", SAMPLES, ids=lambda place: place.stem)
def test_every_node_is_written_as_its_description_says(place):
    for node in ast.walk(ast.parse(place.read_text())):
        if not isinstance(node, ast.Constant):
            assert normalise._text(node) == normalise._any(node)


def test_the_hash_of_a_whole_does_not_depend_on_what_was_hashed_before():
    tree, other = ast.parse(FUNCTION + CLASS), ast.parse(FUNCTION + CLASS)
    for node in ast.walk(tree):
        hash_of(node)
    assert hash_of(tree) == hash_of(other)


@pytest.mark.parametrize(
    "changed",
    [
        FUNCTION.replace("doc", "other words"),
        FUNCTION.replace("def f", "def g"),
        "@decorated\n" + FUNCTION,
        "\n\n" + FUNCTION.replace("return", "return  # why\\\n").replace("# why", ""),
    ],
)
def test_name_decorators_docstring_and_layout_do_not_count(changed):
    assert hash_of(ast.parse(changed).body[0]) == hash_of(ast.parse(FUNCTION).body[0])


@pytest.mark.parametrize(("old", "new"), [("3", "4"), ("-n", "+n"), ("::2", ":2"), ("int = ", "bool = "), ("*, ", "")])
def test_everything_else_counts(old, new):
    assert hash_of(ast.parse(FUNCTION.replace(old, new)).body[0]) != hash_of(ast.parse(FUNCTION).body[0])
