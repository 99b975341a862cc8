"""Mutated and hostile kernel files: the linter answers every one, executes nothing, and does not hang."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import pytest

from kgate.lint.analysis import analyse
from kgate.lint.examples import default_path, lint_files, read
from kgate.lint.registry import rules

ROOT = Path(__file__).resolve().parents[2]


def _mutations():
    place = ROOT / "benchmarks" / "mutations.py"
    spec = importlib.util.spec_from_file_location("mutations", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


mutations = _mutations()
SOURCES = mutations.sources([ROOT / "kernels"])


@pytest.mark.parametrize("kind", mutations.KINDS)
def test_mutated_files_are_answered(kind):
    for seed in range(12):
        path, raw = mutations.mutate(SOURCES, kind, seed)
        facts = analyse(path, raw)
        assert [item.message for item in facts.findings if item.code == "KG005" and "failed here" in item.message] == []


def test_a_file_is_not_executed(tmp_path):
    witness = tmp_path / "executed"
    source = f"import triton\nopen({str(witness)!r}, 'w').close()\n@triton.jit\ndef kernel(x):\n    ...\n"
    lint_files({"kernel.py": source})
    assert not witness.exists()


def test_time_is_linear_in_the_size_of_a_kernel():
    def seconds(lines):
        body = "".join(f"    v{at} = tl.load(x + {at}) * v{at - 1}\n" for at in range(1, lines))
        head = "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y):\n    v0 = 0.0\n"
        source = head + body + f"    tl.store(y, v{lines - 1})\n"
        start = time.process_time()
        analyse("kernel.py", source.encode())
        return time.process_time() - start

    seconds(500)
    assert seconds(16_000) < 100 * seconds(1_000)  # 16 times the lines; 256 times would be quadratic


@pytest.mark.parametrize(
    "body",
    [
        "x = " + "(" * 150 + "1" + ")" * 150,
        "x = " + "+".join(["tl.load(p)"] * 3000),
        "x = " + "-" * 3000 + "1",
        "".join("    " * depth + "if a:\n" for depth in range(1, 90)) + "    " * 90 + "pass",
        "\n    ".join(["x = x + x"] * 4000),
        "\n    ".join(f"x{at} = x{at - 1} + x{at - 1}" for at in range(1, 2000)),
        "for i in range(3):\n        " + "\n        ".join(f"x += y\n        y += x * {at}" for at in range(300)),
    ],
    ids=["parentheses", "long-sum", "minus", "nested-if", "reassigned", "doubled", "carried"],
)
def test_deep_and_long_bodies_are_answered(body):
    head = "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(p, a, x, y):\n    x0 = 1\n    "
    source = head + body.lstrip() + "\n"
    start = time.process_time()
    analyse("kernel.py", source.encode())
    assert time.process_time() - start < 20


@pytest.mark.parametrize("part", ["decisions", "project_checks"])
def test_a_rule_that_fails_in_the_linked_phase_costs_no_other_finding(monkeypatch, part):
    def fails(*arguments):
        raise RuntimeError("a mistake of ours")

    rule = next(rule for rule in rules() if getattr(rule, part))
    example = rule.invalid[0]
    monkeypatch.setattr(rule, part, [fails])
    files = read(example.code, default_path(rule)).files
    bare = "import triton\n\n@triton.jit\ndef k(x):\n    ...\n\ndef launch(x):\n    k[(1,)](x)\n"
    found = lint_files({**files, "bare.py": bare}, example.config)
    told = [item for item in found if item.code == "KG005"]
    assert told
    assert rule.code in told[0].message
    assert "a mistake of ours" in told[0].message
    assert len(found) > len(told) or rule.code == "KG101"
