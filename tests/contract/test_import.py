"""What production code pays for `import kgate`: the standard library alone, and little of that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kgate

HEAVY = {
    "torch",
    "triton",
    "numpy",
    "ast",
    "inspect",
    "dataclasses",
    "typing",
    "re",
    "enum",
    "warnings",
    "difflib",
    "click",
}


ROOT = str(Path(kgate.__file__).parents[1])


def loaded_by(program):
    """Modules that a program loads in a bare interpreter, without what site-packages load at start."""
    start = f"import sys; sys.path.insert(0, {ROOT!r}); before = set(sys.modules)"
    code = f"{start}\n{program}\nprint(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("program", ["import kgate", "from kgate import Envelope, kernel"])
def test_import_loads_nothing_heavy(program):
    loaded = loaded_by(program)
    assert "kgate" in loaded
    assert not loaded & HEAVY


def test_import_of_the_package_loads_the_contract_on_first_use():
    assert not any(name.startswith("kgate.contract") for name in loaded_by("import kgate"))


def test_the_contract_is_the_standard_library_alone():
    program = "import kgate.contract, kgate.contract.dispatch, kgate.contract.serial"
    foreign = {name.partition(".")[0] for name in loaded_by(program)} - set(sys.stdlib_module_names)
    assert foreign == {"kgate"}


def test_public_names_are_there():
    for name in kgate.__all__:
        assert getattr(kgate, name) is not None
    assert set(kgate.__all__) <= set(dir(kgate))
    with pytest.raises(AttributeError, match="no attribute 'Kernels'"):
        kgate.Kernels  # noqa: B018
