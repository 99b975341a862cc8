"""What an edit of import statements selects: whatever can break or change the kernel's module when it is imported."""

from __future__ import annotations

import pytest

CODE = ("code",)
NOTHING = ()


@pytest.fixture
def selects(trees):
    """What an edit of ``ops/k.py``, or of any other file, moves of the kernel ``k``."""

    def check(edits: dict, extra: dict | None = None) -> tuple[str, ...]:
        body = trees.HEADER + "from ops.helpers import double\n\nSIZE = 3\n\n" + trees.declared("k", "return double(x)")
        files = {
            "ops/k.py": body,
            "ops/helpers.py": "import torch\n\ndef double(x):\n    return x + x\n\ndef other(x):\n    return x\n",
            **(extra or {}),
        }
        return trees.selected(files, edits).get("k", ())

    return check


def importing(line: str) -> dict:
    return {"ops/k.py": ("import torch\n", f"import torch\n{line}\n")}


@pytest.mark.parametrize(
    "line",
    ["import nosuchmodule", "from torch import nosuchname", "import math", "import torch.fx", "from . import helpers"],
)
def test_an_added_import_statement_in_the_kernels_module_selects_it(selects, line):
    assert selects(importing(line)) == CODE


def test_an_import_added_to_a_statement_selects(selects):
    assert selects({"ops/k.py": ("import torch\n", "import torch, nosuchmodule\n")}) == CODE


def test_a_removed_import_statement_selects(selects):
    assert selects({"ops/k.py": ("import torch\n", "")}) == CODE


def test_an_import_of_a_module_that_raises_selects(selects):
    for raising in ("raise RuntimeError\n", "raise RuntimeError('no')\n", "assert False\n", "boom()\n", "x = = 1\n"):
        assert selects(importing("import ops.b"), {"ops/b.py": raising})[:1] == CODE, raising


@pytest.mark.parametrize(
    "effect",
    [
        "raise RuntimeError",
        "raise RuntimeError('no')",
        "assert len(X) == 3",
        "if len(X) > 1:\n    raise ValueError('no')",
        "for x in X:\n    assert x",
        "check()",
        "import nosuchmodule",
        "from . import nosuchname",
        "from ops.k import double",
        "x = = 1",
        "exit(1)",
        "TABLE = check()",
        "X += check(),",
        "import importlib\nimportlib.import_module('nosuchmodule')",
    ],
)
def test_what_an_imported_module_begins_to_do_selects_although_nothing_of_it_is_used(selects, effect):
    extra = {"ops/b.py": "X = 1, 2\ndef check():\n    assert X\n"}
    extra["ops/a.py"] = "import ops.b\n"
    imported = {"ops/helpers.py": "import ops.a\ndef double(x):\n    return x + x\n"}
    assert "code" in selects(
        {"ops/b.py": (extra["ops/b.py"], extra["ops/b.py"] + effect + "\n")}, {**extra, **imported}
    )


def test_an_import_that_makes_a_circle_selects(selects):
    extra = {"ops/b.py": "from ops.k import k_eager\nX = 1\n"}
    assert selects(importing("from ops.b import X"), extra) == CODE


def test_a_name_that_vanishes_from_a_module_that_is_imported_selects(selects):
    extra = {
        "ops/b.py": "from ops.c import gone\n",
        "ops/c.py": "def gone():\n    return 1\n",
        "ops/helpers.py": "import ops.b\ndef double(x):\n    return x + x\n",
    }
    assert selects({"ops/c.py": ("gone", "here")}, extra) == CODE
    assert selects({"ops/c.py": None}, extra) == CODE
    assert selects({"ops/c.py": ("return 1", "return 2")}, extra) == NOTHING


def test_an_import_statement_in_a_module_of_the_closure_selects(selects):
    assert selects({"ops/helpers.py": ("import torch\n", "import torch\nimport math\n")}) == CODE


def test_an_import_statement_in_the_references_module_moves_the_oracle(trees):
    reference = "def ref(x):\n    return x\n"
    body = trees.HEADER + trees.declared("k", "return x").replace("reference=k_reference", 'reference="refs:ref"')
    files = {"k.py": body, "refs.py": reference}
    assert trees.selected(files, {"refs.py": f"import math\n{reference}"}) == {"k": ("oracle",)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\nimport triton\n", "import triton\nimport torch\n"),
        ("import torch\nimport triton\n", "import torch, triton\n"),
        ("import torch\n", "import torch  # tensors\n"),
        ("import torch\n", "import torch\nimport torch\n"),
        ("from ops.helpers import double", "from ops.helpers import (\n    double,\n)"),
        (
            "import torch\n",
            "from typing import TYPE_CHECKING\nimport torch\nif TYPE_CHECKING:\n    import nosuchmodule\n",
        ),
        ("import torch\n", "import typing\nimport torch\nif typing.TYPE_CHECKING:\n    import ops.raising\n"),
        ("import torch\n", "import torch\nfrom kgate import Scalar\n"),
    ],
)
def test_imports_in_another_order_or_form_and_those_for_type_checkers_select_nothing(selects, old, new):
    assert selects({"ops/k.py": (old, new)}, {"ops/raising.py": "raise RuntimeError\n"}) == NOTHING


def test_a_helper_that_is_added_to_an_imported_module_selects_nothing(selects):
    edit = ("def other", "def third(x):\n    raise RuntimeError\n\ndef other")
    assert selects({"ops/helpers.py": edit}) == NOTHING


def test_a_new_kernel_in_the_packages_init_selects_none_of_the_others(trees):
    files = {
        "ops/__init__.py": "from .a import a\n",
        "ops/a.py": trees.HEADER + trees.declared("a", "return x * 7"),
    }
    edits = {
        "ops/__init__.py": "from .a import a\nfrom .b import b\n",
        "ops/b.py": trees.HEADER + "import math\n" + trees.declared("b", "return x * 9"),
    }
    assert trees.selected(files, edits) == {"b": ("new",)}


def test_the_reason_names_the_file_whose_imports_changed(trees):
    files = {"k.py": trees.HEADER + trees.declared("k", "return x")}
    reasons = trees.why(files, {"k.py": ("import torch\n", "import torch, nosuchmodule\n")}, "k")
    assert reasons[0].sentence == "the import statements of k.py changed"
    assert [step.symbol for step in reasons[0].steps] == ["k.py::<statements>", "k.py::k"]


def test_the_reason_names_the_module_that_begins_to_raise(trees):
    files = {"k.py": trees.HEADER + "import b\n" + trees.declared("k", "return x"), "b.py": "X = 1\n"}
    reasons = trees.why(files, {"b.py": "X = 1\nraise RuntimeError\n"}, "k")
    assert "b.py now acts when it is imported" in [reason.sentence for reason in reasons]


def test_a_value_made_by_a_function_that_begins_to_raise_selects_and_one_by_any_other_does_not(selects):
    extra = {
        "ops/b.py": "def make():\n    return 1\n\ndef other():\n    return 2\n\nTABLE = make()\n",
        "ops/helpers.py": "import ops.b\ndef double(x):\n    return x + x\n",
    }
    assert selects({"ops/b.py": ("return 1", "raise RuntimeError")}, extra) == CODE
    assert selects({"ops/b.py": ("return 1", "return 3")}, extra) == NOTHING
    assert selects({"ops/b.py": ("return 2", "raise RuntimeError")}, extra) == NOTHING
