"""Facts are remembered by content, survive anything that happens to the cache, and are read only when needed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from kgate.source import cache, disk
from kgate.source.cache import FactsStore
from kgate.source.facts import facts_of
from kgate.source.index import build_index


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """No facts in the process's own memory."""
    monkeypatch.setattr(cache, "_MEMORY", {})


@pytest.fixture
def files(trees):
    kernel = trees.HEADER + "from lib.helpers import f\n" + trees.declared("k", "return f(x)")
    plain = {f"app/m{number}.py": f"x = {number}\n" for number in range(20)}
    return {
        "k.py": kernel,
        "lib/helpers.py": "from lib.deep import g\ndef f(x):\n    return g(x)\n",
        "lib/deep.py": "def g(x):\n    return x\n",
        **plain,
    }


def fingerprint(tree, folder):
    return build_index(tree, cache_dir=folder).closure("k.py::k").fingerprint


def test_only_files_that_a_kernel_can_reach_are_parsed(trees, files, tmp_path):
    index = build_index(trees.MemoryTree(files), cache_dir=tmp_path)
    index.closure("k.py::k")
    assert index.store.parsed == 3


def test_what_was_read_once_is_neither_parsed_nor_read_again(trees, files, tmp_path, monkeypatch):
    first = fingerprint(trees.MemoryTree(files), tmp_path)
    monkeypatch.setattr(cache, "_MEMORY", {})
    tree = trees.MemoryTree(files)
    index = build_index(tree, cache_dir=tmp_path)
    assert index.closure("k.py::k").fingerprint == first
    assert index.store.parsed == 0
    assert tree.reads == []


def test_the_same_content_under_another_name_is_not_parsed_again(trees, files, tmp_path):
    build_index(trees.MemoryTree(files), cache_dir=tmp_path)
    cache._MEMORY.clear()
    store = FactsStore(trees.MemoryTree({"other.py": files["k.py"]}), tmp_path)
    assert store.facts("other.py").definitions
    assert store.parsed == 0


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x00" * 400, None])
def test_a_damaged_cache_is_read_anew(trees, files, tmp_path, monkeypatch, damage):
    first = fingerprint(trees.MemoryTree(files), tmp_path)
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as stream:
                before = stream.read()
            with open(path, "wb") as stream:
                stream.write(before[:-3] + b"abc" if damage is None else damage)
    monkeypatch.setattr(cache, "_MEMORY", {})
    assert fingerprint(trees.MemoryTree(files), tmp_path) == first


def test_a_foreign_entry_with_a_right_checksum_is_read_anew(trees, files, tmp_path, monkeypatch):
    first = fingerprint(trees.MemoryTree(files), tmp_path)
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            body = b"\x93\x01\x02\x03"
            with open(os.path.join(folder, name), "wb") as stream:
                stream.write(disk._checksum(body) + body)
    monkeypatch.setattr(cache, "_MEMORY", {})
    assert fingerprint(trees.MemoryTree(files), tmp_path) == first


def test_a_folder_that_cannot_be_written_is_done_without(trees, files, tmp_path):
    place = tmp_path / "a file"
    place.write_text("")
    assert fingerprint(trees.MemoryTree(files), place) == fingerprint(trees.MemoryTree(files), None)
    assert place.read_text() == ""


def test_no_temporary_files_are_left(trees, files, tmp_path):
    build_index(trees.MemoryTree(files), cache_dir=tmp_path)
    names = [name for _, _, found in os.walk(tmp_path) for name in found]
    assert names
    assert not [name for name in names if name.startswith("tmp")]


def test_several_processes_may_share_a_folder(trees, tmp_path):
    script = textwrap.dedent(
        """
        import hashlib, sys
        from kgate.source.index import build_index
        class Tree:
            contents = {f"m{n}.py": b"import triton\\ndef f():\\n    return %d\\n" % n for n in range(40)}
            def files(self): return {p: hashlib.sha1(b).hexdigest() for p, b in self.contents.items()}
            def gitlinks(self): return {}
            def read(self, path): return self.contents[path]
            def read_many(self, paths): return {path: self.contents[path] for path in paths}
        for _ in range(3):
            assert len(build_index(Tree(), cache_dir=sys.argv[1]).paths) == 40
        """
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]


def test_facts_that_were_made_elsewhere_are_kept(trees, files, tmp_path, monkeypatch):
    store = FactsStore(trees.MemoryTree(files), tmp_path)
    facts = facts_of(store.tree.read("k.py"))
    store.put("k.py", facts)
    assert store.facts("k.py") is facts
    monkeypatch.setattr(cache, "_MEMORY", {})
    again = FactsStore(trees.MemoryTree(files), tmp_path)
    assert again.facts("k.py") == facts
    assert again.parsed == 0


def test_missing_are_the_files_that_would_have_to_be_parsed(trees, files, tmp_path, monkeypatch):
    files["copy.py"] = files["k.py"]
    store = FactsStore(trees.MemoryTree(files), tmp_path)
    store.facts("lib/deep.py")
    asked = ["k.py", "copy.py", "lib/deep.py", "lib/helpers.py"]
    assert store.missing(asked) == ["k.py", "lib/helpers.py"]
    store.facts("k.py")
    assert store.missing(asked) == ["lib/helpers.py"]
    monkeypatch.setattr(cache, "_MEMORY", {})
    assert FactsStore(trees.MemoryTree(files), tmp_path).missing(asked) == ["lib/helpers.py"]
    assert FactsStore(trees.MemoryTree(files), None).missing(["k.py"]) == []
    monkeypatch.setattr(cache, "_MEMORY", {})
    assert FactsStore(trees.MemoryTree(files), None).missing(["k.py"]) == ["k.py"]


def test_a_damaged_entry_is_missing(trees, files, tmp_path, monkeypatch):
    store = FactsStore(trees.MemoryTree(files), tmp_path)
    store.facts("k.py")
    for place in tmp_path.rglob("*"):
        if place.is_file():
            place.write_bytes(b"nonsense")
    monkeypatch.setattr(cache, "_MEMORY", {})
    assert store.missing(["k.py"]) == ["k.py"]


def test_a_literal_that_cannot_be_written_is_read_each_time(trees, tmp_path, monkeypatch):
    tree = trees.MemoryTree({"k.py": "import triton\nf('\\ud800')\n"})
    first = FactsStore(tree, tmp_path).facts("k.py")
    monkeypatch.setattr(cache, "_MEMORY", {})
    again = FactsStore(tree, tmp_path)
    assert again.facts("k.py") == first
    assert again.parsed == 1


def test_a_second_pack_of_a_run_keeps_what_the_first_one_took_in(tmp_path):
    first, second = ({f"{part}{at}": b"\x01" for at in range(disk.WORTH_PACKING)} for part in ("a", "b"))
    kept = disk.Disk(tmp_path)
    for entries in (first, second):
        for key, body in entries.items():
            kept.save(key, body, alone=False)
        kept.pack([*first, *second])
    again = disk.Disk(tmp_path)
    assert all(again.load(key) == b"\x01" for key in (*first, *second))
