"""Finding the project's Python, also from inside a hook's own environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgate.source import interpreter_path
from kgate.source.interpreter_path import InterpreterError, find_python


def environment(place: Path) -> Path:
    """Something that looks like an environment; gives its Python."""
    python = place / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """kgate runs in a hook's environment that has no triton."""
    python = environment(tmp_path / "hook-env")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "hook-env"))
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path / "hook-env"))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(interpreter_path.importlib.util, "find_spec", lambda name: None)
    return python


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def hook_variables(own: Path, *more: Path) -> dict[str, str]:
    path = ":".join(str(folder) for folder in (own.parent, *more))
    return {"PRE_COMMIT": "1", "VIRTUAL_ENV": str(own.parent.parent), "PATH": path}


def test_order_of_places(project, tmp_path, own):
    on_path = environment(tmp_path / "system")
    env = hook_variables(own, on_path.parent)
    assert find_python(project, env).path == on_path
    conda = environment(tmp_path / "conda")
    env["CONDA_PREFIX"] = str(tmp_path / "conda")
    assert find_python(project, env).path == conda
    old_style = environment(project / "venv")
    assert find_python(project, env).path == old_style
    usual = environment(project / ".venv")
    assert find_python(project, env).path == usual
    named = environment(tmp_path / "named")
    env["KGATE_PYTHON"] = str(named)
    assert find_python(project, env) == interpreter_path.FoundPython(named, "KGATE_PYTHON")
    setting = environment(project / "envs/gpu")
    assert find_python(project, env, "envs/gpu/bin/python").path == setting
    assert find_python(project, env, "envs/gpu").path == setting


def test_the_hooks_own_environment_is_never_taken(project, own):
    with pytest.raises(InterpreterError, match="no Python was found") as caught:
        find_python(project, hook_variables(own))
    assert "KGATE_PYTHON" in caught.value.remedy


def test_kgates_own_python_is_taken_where_it_has_triton(project, own, monkeypatch):
    monkeypatch.setattr(interpreter_path.importlib.util, "find_spec", lambda name: object())
    assert find_python(project, hook_variables(own)).path == own


def test_an_active_environment_of_the_user_is_taken(project, own, tmp_path):
    active = environment(tmp_path / "active")
    assert find_python(project, {"VIRTUAL_ENV": str(tmp_path / "active"), "PATH": ""}).path == active


def test_a_subproject_uses_the_environment_of_its_repository_but_of_none_above(project, own, tmp_path):
    environment(tmp_path / ".venv")
    (project / "sub").mkdir()
    with pytest.raises(InterpreterError):
        find_python(project / "sub", hook_variables(own))
    python = environment(project / ".venv")
    assert find_python(project / "sub", hook_variables(own)).path == python


def test_a_command_is_looked_up_on_path(project, own, tmp_path):
    python = environment(tmp_path / "system").rename(tmp_path / "system/bin/python3.12")
    assert find_python(project, hook_variables(own, python.parent), "python3.12").path == python


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_a_named_python_that_is_not_there_is_an_error_not_another_python(project, own, how):
    environment(project / ".venv")
    env = hook_variables(own)
    if how == "variable":
        env["KGATE_PYTHON"] = "/nowhere/python"
    with pytest.raises(InterpreterError, match="/nowhere/python"):
        find_python(project, env, "/nowhere/python" if how == "setting" else "")


def test_poetrys_environment_is_asked_for(project, own, tmp_path):
    python = environment(tmp_path / "poetry-env")
    poetry = tmp_path / "tools" / "poetry"
    poetry.parent.mkdir()
    poetry.write_text(f"#!/bin/sh\necho {python}\n")
    poetry.chmod(0o755)
    (project / "poetry.lock").write_text("")
    found = find_python(project, hook_variables(own, poetry.parent))
    assert (found.path, found.source) == (python, "poetry")
