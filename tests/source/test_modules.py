"""Import names and files: roots, source folders, packages, namespace packages, scripts."""

from __future__ import annotations

import pytest

from kgate.source.config import Root
from kgate.source.modules import Modules


def test_the_repository_and_its_src_folder_are_searched_by_default():
    modules = Modules(["src/lib/a.py", "src/lib/__init__.py", "tools/t.py"], [Root()])
    assert modules.absolute("lib.a", "tools/t.py") == "src/lib/a.py"
    assert modules.absolute("tools.t", "src/lib/a.py") == "tools/t.py"
    assert modules.name_of("src/lib/a.py") == "lib.a"
    assert modules.name_of("src/lib/__init__.py") == "lib"
    assert modules.name_of("tools/t.py") == "tools.t"


def test_source_folders_can_be_named():
    modules = Modules(["python/lib/a.py", "lib/a.py"], [Root(src=("python",))])
    assert modules.absolute("lib.a", "x.py") == "python/lib/a.py"
    assert modules.name_of("python/lib/a.py") == "lib.a"


def test_a_package_in_an_unlisted_folder_is_still_found():
    modules = Modules(["python/lib/__init__.py", "python/lib/a.py"], [Root()])
    assert modules.absolute("lib.a", "tests/t.py") == "python/lib/a.py"


def test_a_namespace_package_is_a_folder_without_init():
    modules = Modules(["ns/a.py", "ns/deep/b.py"], [Root()])
    assert modules.absolute("ns", "x.py") == "ns/"
    assert modules.absolute("ns.deep.b", "x.py") == "ns/deep/b.py"
    assert modules.child("ns/", "a") == "ns/a.py"


def test_a_regular_package_wins_over_a_namespace_folder_of_another_source_folder():
    modules = Modules(["triton_ops/x.py", "src/triton_ops/__init__.py"], [Root()])
    assert modules.absolute("triton_ops", "x.py") == "src/triton_ops/__init__.py"


def test_a_package_wins_over_a_module_of_the_same_name():
    modules = Modules(["lib.py", "lib/__init__.py"], [Root()])
    assert modules.absolute("lib", "x.py") == "lib/__init__.py"


@pytest.mark.parametrize(
    ("name", "level", "want"),
    [
        ("", 1, "a/b/__init__.py"),
        ("d", 1, "a/b/d.py"),
        ("", 2, "a/__init__.py"),
        ("e", 2, "a/e.py"),
        ("top", 3, "top.py"),
        ("x", 9, None),
    ],
)
def test_relative_names(name, level, want):
    modules = Modules(["a/__init__.py", "a/b/__init__.py", "a/b/c.py", "a/b/d.py", "a/e.py", "top.py"], [Root()])
    assert modules.relative(name, level, "a/b/c.py") == want


def test_a_script_finds_what_lies_beside_it_and_a_module_of_a_package_does_not():
    modules = Modules(["bench/run.py", "bench/util.py", "lib/__init__.py", "lib/torch.py", "lib/k.py"], [Root()])
    assert modules.absolute("util", "bench/run.py") == "bench/util.py"
    assert modules.absolute("torch", "lib/k.py") is None


def test_each_root_looks_at_home_first():
    modules = Modules(["one/lib/a.py", "two/lib/a.py"], [Root(path="one"), Root(path="two")])
    assert modules.absolute("lib.a", "one/k.py") == "one/lib/a.py"
    assert modules.absolute("lib.a", "two/k.py") == "two/lib/a.py"
    assert modules.name_of("two/lib/a.py") == "lib.a"


def test_patterns_span_dots_and_every_source_folder():
    modules = Modules(["src/lib/a/x.py", "src/lib/b.py", "lib/c.py", "other.py"], [Root()])
    assert modules.matching("lib.*") == ["lib/c.py", "src/lib/a/x.py", "src/lib/b.py"]
    assert modules.matching("lib.*.x") == ["src/lib/a/x.py"]
    assert modules.matching("other") == ["other.py"]
    assert modules.matching("nothing") == []


def test_an_import_never_means_the_file_that_it_stands_in():
    modules = Modules(["tools/tilelang.py"], [Root()])
    assert modules.absolute("tilelang", "tools/tilelang.py") is None
