"""One file to facts: rules that need a word, nodes by class, and nothing kept alive afterwards."""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Iterator

import pytest

from kgate.lint import analysis
from kgate.lint.model import module as model
from kgate.lint.model.module import Module
from kgate.lint.registry import rules
from kgate.lint.rule import Hit, Rule

KERNEL = b"""
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)

def launch(x):
    double[(1,)](x, 128)
"""


def rule(**options: object) -> Rule:
    made = Rule("KG999", "needy", "note", "s", "w", "r", **options)  # type: ignore[arg-type]

    @made.module
    def check(module: Module) -> Iterator[Hit]:
        yield Hit((1, 1, 1, 1), "looked")

    return made


@pytest.mark.parametrize(
    ("needs", "looks"), [((), True), (("tl.load",), True), (("absent", "tl.store"), True), (("absent",), False)]
)
def test_a_rule_looks_only_at_files_that_hold_a_word_it_needs(
    needs: tuple[str, ...], looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "rules", lambda: (rule(needs=needs),))
    facts = analysis.analyse("k.py", KERNEL)
    assert [item.message for item in facts.findings] == (["looked"] if looks else [])


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.needs], ids=lambda rule: rule.code)
def test_every_invalid_example_holds_a_word_that_its_rule_needs(rule: Rule) -> None:
    for example in rule.invalid:
        assert any(word in example.code for word in rule.needs)


def test_nodes_by_class_are_those_of_the_tree() -> None:
    tree = ast.parse(KERNEL)
    module = Module("k.py", KERNEL.decode(), tree)
    for kind in (ast.Call, ast.Name, ast.BinOp, ast.Lambda):
        assert module.nodes(kind) == [node for node in ast.walk(tree) if isinstance(node, kind)]
    (device,) = module.devices
    assert set(device.nodes(ast.BinOp)) == {node for node in device.parents if isinstance(node, ast.BinOp)}


def test_a_file_is_freed_as_soon_as_it_is_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[object]] = []

    class Watched(Module):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            seen.extend([weakref.ref(self), *map(weakref.ref, self.devices), *map(weakref.ref, self.hosts)])

    monkeypatch.setattr(model, "Module", Watched)
    gc.disable()
    try:
        analysis.analyse("k.py", KERNEL)
        assert [item() for item in seen] == [None, None, None]
    finally:
        gc.enable()
