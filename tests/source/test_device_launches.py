"""Launches are found however a kernel is taken: by name, from tables, attributes and modules, through wrappers."""

from __future__ import annotations

import pytest

DEVICE = """\
import triton
import triton.language as tl

@triton.jit
def helper(v):
    return v

@triton.jit
def _k(x, BLOCK: tl.constexpr):
    tl.store(x, helper(1))

@triton.jit
def _other(x, BLOCK: tl.constexpr):
    tl.store(x, helper(2))

"""
HOST = "import functools\nimport torch\nimport triton\n"


def launches(index, name="_k"):
    function = next(item for item in index.device_functions if item.identity == f"dev.py::{name}")
    return [(place.path, place.line, place.by.partition("::")[2]) for place in function.launches]


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("import dev\ndef run(x):\n    dev._k[(1,)](x, BLOCK=8)\n", 6),
        ("from dev import _k as go\ndef run(x):\n    go[(1,)](x, BLOCK=8)\n", 6),
        ("def run(x):\n    from dev import _k as go\n    go[(1,)](x, BLOCK=8)\n", 6),
        ("import names\ndef run(x):\n    names.short[(1,)](x, BLOCK=8)\n", 6),
        ("from dev import _k\nTABLE = {'a': _k}\ndef run(x, name):\n    TABLE[name][(1,)](x, BLOCK=8)\n", 7),
        ("from dev import _k\nTABLE = {}\nTABLE['a'] = _k\ndef run(x, name):\n    TABLE[name][(1,)](x, BLOCK=8)\n", 8),
        ("from tables import TABLE\ndef run(x, name):\n    TABLE[name][(1,)](x, BLOCK=8)\n", 6),
        ("from dev import _k\ndef run(x, name):\n    table = {'a': _k}\n    table[name][(1,)](x, BLOCK=8)\n", 7),
        ("from dev import _k, _other\ndef run(x):\n    k = _k if x.numel() else _other\n    k[(1,)](x, BLOCK=8)\n", 7),
        (
            "from dev import _k\ndef run(x):\n    try:\n        k = _k\n    except E:\n        k = 0\n    k[(1,)](x)\n",
            10,
        ),
        ("from dev import _k\ndef run(x):\n    k = functools.partial(_k, BLOCK=8)\n    k[(1,)](x)\n", 7),
        ("from dev import _k\nshort = functools.partial(_k, BLOCK=8)\ndef run(x):\n    short[(1,)](x)\n", 7),
        ("from dev import _k\ndef run(x):\n    torch.library.wrap_triton(_k)[(1,)](x, BLOCK=8)\n", 6),
        ("import dev\ndef run(x):\n    getattr(dev, '_k')[(1,)](x, BLOCK=8)\n", 6),
        ("import dev\ndef run(x, name):\n    getattr(dev, name)[(1,)](x, BLOCK=8)\n", 6),
        ("import dev\ndef run(x, name):\n    k = getattr(dev, name)\n    k[(1,)](x, BLOCK=8)\n", 7),
        ("from dev import _k\nclass Op:\n    kernel = _k\n    def run(self, x):\n        self.kernel[(1,)](x)\n", 8),
    ],
)
def test_a_launch_is_found_where_it_stands(trees, host, line):
    files = {
        "dev.py": DEVICE,
        "host.py": HOST + host,
        "names.py": "from dev import _k as short\n",
        "tables.py": "import dev\nTABLE = {'a': dev._k}\n",
    }
    index = trees.index(files)
    found = launches(index)
    assert ("host.py", line) in [(path, at) for path, at, _ in found]
    assert {by for _, _, by in found} <= {"run", "Op.run"}
    assert launches(index, "helper") == []


def test_a_kernel_kept_in_an_instance_counts_as_launched(trees):
    host = "from dev import _k\nclass Op:\n    def __init__(self):\n        self.kernel = _k\n"
    host += "    def run(self, x):\n        self.kernel[(1,)](x)\n"
    assert launches(trees.index({"dev.py": DEVICE, "host.py": HOST + host}))


def test_a_custom_op_launches_what_it_wraps(trees):
    host = "from dev import _k\n@torch.library.triton_op('a::b', mutates_args={'x'})\ndef op(x):\n"
    host += "    torch.library.wrap_triton(_k)[(1,)](x, BLOCK=8)\n"
    index = trees.index({"dev.py": DEVICE, "host.py": HOST + host})
    assert launches(index) == [("host.py", 7, "op")]
    assert [item.identity for item in index.undeclared] == ["dev.py::_k"]


@pytest.mark.parametrize(
    "value",
    [
        "triton.jit(raw)",
        "triton.autotune(configs=[], key=[])(triton.jit(raw))",
        "triton.jit(noinline=True)(raw)",
        "{'a': triton.jit(raw)}['a']",
    ],
)
def test_compiling_by_a_call_makes_that_function_alone_a_device_function(trees, value):
    source = f"import triton\ndef naming(spec):\n    return 'k'\ndef raw(x):\n    pass\nk = {value}\n"
    source += "def run(x):\n    k[(1,)](x)\n"
    (function,) = trees.index({"k.py": source}).device_functions
    assert (function.identity, function.launched) == ("k.py::raw", True)


def test_a_helper_that_names_a_compiled_kernel_is_none(trees):
    source = (
        "import triton\ndef naming(spec):\n    return 'k'\ndef raw(x):\n    pass\nk = triton.jit(raw, repr=naming)\n"
    )
    assert [item.identity for item in trees.index({"k.py": source}).device_functions] == ["k.py::raw"]


def test_a_name_given_in_a_file_that_mentions_no_kernel_is_followed(trees):
    files = {
        "pkg/dev.py": DEVICE,
        "pkg/__init__.py": "from .dev import _k as go\n",
        "host.py": HOST + "from pkg import go\ndef run(x):\n    go[(1,)](x, BLOCK=8)\n",
    }
    index = trees.index(files)
    assert "pkg/__init__.py" not in index.paths
    assert [item.identity for item in index.undeclared] == ["pkg/dev.py::_k"]


def test_indexing_something_else_of_the_same_name_launches_nothing(trees):
    host = "from elsewhere import _k\ndef run(x):\n    return _k[0]\n"
    files = {"dev.py": DEVICE, "host.py": HOST + host, "elsewhere.py": "_k = [1]\n"}
    assert launches(trees.index(files)) == []
