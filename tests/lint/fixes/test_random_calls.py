"""Random arguments set and removed and random statements removed in real files, as it would be done by hand."""

from __future__ import annotations

import ast
import io
import random
import tokenize
from pathlib import Path

import pytest

from kgate.lint.fixes import apply
from kgate.lint.rule import place_of
from kgate.source.records import Edit, Fix

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(file for folder in ("kernels", "kgate/contract", "kgate/gate") for file in (ROOT / folder).rglob("*.py"))


def comments(text: str) -> list[str]:
    return [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]


def calls(tree: ast.Module) -> list[ast.Call]:
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in inside]
    return [node for node in found if all(keyword.arg for keyword in node.keywords)]


def changed_call(chance: random.Random, text: str) -> tuple[list[Edit], str] | None:
    """Edits of one call of a file, and the dump of the tree that they should give."""
    tree = ast.parse(text)
    found = calls(tree)
    if not found:
        return None
    call = chance.choice(found)
    place = place_of(call, text.split("\n"))
    edits = []
    for keyword in list(call.keywords):
        drawn = chance.random()
        if drawn < 0.4:
            edits.append(Edit("remove-argument", *place, "", keyword.arg or ""))
            call.keywords.remove(keyword)
        elif drawn < 0.6:
            edits.append(Edit("set-argument", *place, "u if v else w", keyword.arg or ""))
            keyword.value = ast.parse("u if v else w", mode="eval").body
    for number in range(chance.choice((0, 1, 1, 2))):
        edits.append(Edit("set-argument", *place, "u", f"new{number}"))
        call.keywords.append(ast.keyword(f"new{number}", ast.parse("u", mode="eval").body))
    return (edits, dump(tree)) if edits else None


def dump(tree: ast.AST) -> str:
    """The tree, the order of keywords in calls not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda keyword: keyword.arg or "")
    return ast.dump(tree)


@pytest.mark.parametrize("part", range(3))
def test_random_changes_of_arguments_change_the_call_and_nothing_else(part: int) -> None:
    chance = random.Random(part)
    made = 0
    for file in chance.choices(FILES, k=15):
        text = file.read_text("utf-8")
        case = changed_call(chance, text)
        if case is None:
            continue
        edits, expected = case
        found = apply(text.encode(), [Fix("Try", False, tuple(edits))])
        if found.refused:
            assert "comment" in found.refused[0][1], f"{file}: {edits}: {found.refused[0][1]}"
            continue
        made += 1
        assert dump(ast.parse(found.source)) == expected, f"{file}: {edits}"
        assert set(comments(found.source.decode())) <= set(comments(text))
    assert made > 5


@pytest.mark.parametrize("part", range(3))
def test_random_statements_removed_leave_all_others(part: int) -> None:
    chance = random.Random(part)
    made = 0
    for file in chance.choices(FILES, k=15):
        text = file.read_text("utf-8")
        tree = ast.parse(text)
        bodies = [
            body
            for node in ast.walk(tree)
            for name in ("body", "orelse", "finalbody")
            if isinstance(body := getattr(node, name, None), list) and body and not text_of_elif(text, body)
        ]
        if not bodies:
            continue
        body = chance.choice(bodies)
        gone = chance.sample(body, min(len(body), chance.choice((1, 1, 2))))
        edits = [Edit("remove", *place_of(node, text.split("\n"))) for node in gone]
        body[:] = [node for node in body if node not in gone] or ([ast.Pass()] if body is not tree.body else [])
        found = apply(text.encode(), [Fix("Try", False, tuple(edits))])
        if found.refused == ():
            made += 1
            assert ast.dump(ast.parse(found.source)) == ast.dump(tree), f"{file}: {edits}"
        else:
            assert "valid Python" in found.refused[0][1]
    assert made > 5


def text_of_elif(text: str, body: list[ast.stmt]) -> bool:
    first = body[0]
    return isinstance(first, ast.If) and text.split("\n")[first.lineno - 1].lstrip().startswith("elif")
