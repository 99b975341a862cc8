"""docs/declaration.md says what the code does: its example runs, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kgate
from kgate.contract.dtypes import DTYPES
from kgate.contract.layouts import LAYOUTS
from kgate.contract.reasons import CODES
from kgate.contract.where import NUMBER_FUNCTIONS, TENSOR_FUNCTIONS, parse

PACKAGE = Path(kgate.__file__).parent
TEXT = (PACKAGE.parent / "docs" / "declaration.md").read_text()


def test_the_example_is_a_valid_declaration():
    code = TEXT.split("```python\n")[1].split("```")[0]
    scope = {"rms_norm_eager": test_the_example_is_a_valid_declaration}
    exec(code, scope)
    assert scope["rms_norm"].describe()["envelope"]["where"] == ["M * N < 2**31", "stride(x, 0) % 8 == 0"]


@pytest.mark.parametrize("line", TEXT.split("Examples:\n\n```\n")[1].split("```")[0].splitlines())
def test_the_examples_of_conditions_are_in_the_language(line):
    parse(line.split("   ")[0])


@pytest.mark.parametrize("words", [CODES, LAYOUTS, TENSOR_FUNCTIONS, NUMBER_FUNCTIONS])
def test_every_word_has_its_line(words):
    assert [word for word in words if not re.search(rf"[`\"]{re.escape(word)}\b", TEXT)] == []


def test_every_dtype_is_named():
    assert TEXT.split("### Dtypes\n\n`")[1].split("`")[0].split() == list(DTYPES)


def test_every_mistake_has_its_line():
    sources = "".join(path.read_text() for path in (PACKAGE / "contract").glob("*.py"))
    raised = set(re.findall(r"(?:DeclarationError|_wrong)\(\s*\"([a-z-]+)\"", sources))
    assert len(raised) > 30
    assert {code for code in raised if f"`{code}`" not in TEXT} == set()
