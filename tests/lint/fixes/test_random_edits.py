"""Random edits of real files: the tree changes as it would by hand, and nothing around the edit changes."""

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
FILES = sorted(
    file
    for folder in ("kernels", "kgate/contract", "kgate/probes", "kgate/gate")
    for file in (ROOT / folder).rglob("*.py")
)

REPLACEMENTS = (
    "a",
    "a + b",
    "-a",
    "a if b else c",
    "lambda: a",
    "f(a, b=1)",
    "(a, b)",
    "not a",
    "a ** b",
    "a.b",
    "[a]",
    "1",
)
WRAPPINGS = (
    ("f(", ")"),
    ("", ".to(tl.int64)"),
    ("", " * 2"),
    ("1 - ", ""),
    ("[", "]"),
    ("", " if a else b"),
    ("not ", ""),
)


def tried(file: Path, seed: int) -> tuple[str, ast.Module, ast.expr, Edit, ast.expr] | None:
    """A file, its tree, one expression of it, an edit of that, and what the expression becomes."""
    chance = random.Random(f"{file.name} {seed}")
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and id(node) not in inside
        and not isinstance(node, (ast.Starred, ast.Slice))
        and not (isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts))
        and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    ]
    if not nodes:
        return None
    node = chance.choice(nodes)
    place = place_of(node, text.split("\n"))
    if chance.random() < 0.5:
        new = chance.choice(REPLACEMENTS)
        return text, tree, node, Edit("replace", *place, new), ast.parse(new, mode="eval").body
    opening, closing = chance.choice(WRAPPINGS)
    old = ast.get_source_segment(text, node)
    new = ast.parse(f"({opening}({old}\n){closing})", mode="eval").body
    return text, tree, node, Edit("wrap", *place, opening, closing), new


class Exchange(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def comments(text: str) -> list[str]:
    return [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]


@pytest.mark.parametrize("part", range(4))
def test_random_edits_change_the_one_expression_and_nothing_else(part: int) -> None:
    made = refused = 0
    chance = random.Random(part)
    for seed, file in enumerate(chance.choices(FILES, k=25)):
        case = tried(file, seed)
        if case is None:
            continue
        text, tree, node, edit, new = case
        found = apply(text.encode(), [Fix("Try", False, (edit,))])
        if found.refused:
            refused += 1
            reason = found.refused[0][1]
            assert found.source == text.encode()
            subscript = isinstance(node, ast.Tuple)
            assert subscript or "comment" in reason, f"{file}: {edit}: {reason}"
            continue
        made += 1
        after = found.source.decode()
        assert ast.dump(ast.parse(after)) == ast.dump(Exchange(node, new).visit(tree)), f"{file}: {edit}"
        assert comments(after) == comments(text), f"{file}: {edit}"
        lines, others = text.split("\n"), after.split("\n")
        assert others[: edit.line - 1] == lines[: edit.line - 1]
        rest = len(lines) - edit.end_line
        assert others[len(others) - rest :] == lines[len(lines) - rest :]
    assert made > 5 * refused


@pytest.mark.parametrize("part", range(2))
def test_edits_of_many_expressions_at_once_are_all_made_or_named(part: int) -> None:
    chance = random.Random(part)
    for number, file in enumerate(chance.sample(FILES, 8)):
        cases = [case for seed in range(20) if (case := tried(file, number * 100 + seed)) is not None]
        if not cases:
            continue
        text = cases[0][0]
        fixes = [Fix(f"Fix {number}", False, (case[3],)) for number, case in enumerate(cases)]
        found = apply(text.encode(), fixes)
        assert len(found.applied) + len(found.refused) == len(fixes)
        tree = ast.parse(text)
        nodes = {
            (type(n).__name__, n.lineno, n.col_offset, n.end_lineno, n.end_col_offset): n for n in expressions(tree)
        }
        for _, _, node, _, new in (cases[fixes.index(fix)] for fix in found.applied):
            key = type(node).__name__, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            tree = Exchange(nodes[key], new).visit(tree)
        assert ast.dump(ast.parse(found.source)) == ast.dump(tree), file


def expressions(tree: ast.AST) -> list[ast.expr]:
    return [node for node in reversed(list(ast.walk(tree))) if isinstance(node, ast.expr)]
