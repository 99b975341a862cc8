"""Kernels of other frameworks than Triton: recognised by where their decorators come from, launched in their ways."""

from __future__ import annotations

import pytest

CUTE = "import cutlass.cute as cute\n@cute.kernel\ndef k(x):\n    pass\n@cute.jit\ndef run(x):\n    "
CUTILE = "import cuda.tile as ct\n@ct.kernel\ndef k(x):\n    pass\ndef run(stream, x):\n    "
NUMBA = "from numba import cuda\n@cuda.jit\ndef k(x):\n    pass\ndef run(x):\n    "
PALLAS = "import functools\nimport jax\nfrom jax.experimental import pallas as pl\ndef k(x, o):\n    o[...] = x[...]\n"
TILELANG = "import tilelang\nimport tilelang.language as T\n"


def only(index):
    (function,) = index.device_functions
    return function


@pytest.mark.parametrize(
    ("framework", "source", "line"),
    [
        ("triton", "import triton\n@triton.jit\ndef k(x):\n    pass\ndef run(x):\n    k[(1,)](x)\n", 6),
        (
            "gluon",
            "from triton.experimental import gluon\n@gluon.jit\ndef k(x):\n    pass\ndef run(x):\n    k[1,](x)\n",
            6,
        ),
        ("cute", CUTE + "k(x).launch(grid=(1, 1, 1), block=(32, 1, 1))\n", 7),
        (
            "cute",
            "from cutlass import cute\n@cute.kernel()\ndef k(x):\n    pass\ndef run(x):\n    k(x).launch(grid=1)\n",
            6,
        ),
        ("cutile", CUTILE + "ct.launch(stream, (1,), k, (x,))\n", 6),
        ("cutile", CUTILE + "tuned = k\n    ct.launch(stream, (1,), tuned, (x,))\n", 7),
        ("numba", NUMBA + "k[1, 32](x)\n", 6),
        (
            "numba",
            "import numba.cuda\n@numba.cuda.jit('void(f4[:])')\ndef k(x):\n    pass\ndef run(x):\n    k[1, 2](x)\n",
            6,
        ),
        (
            "helion",
            "import helion\n@helion.kernel(config=None)\ndef k(x):\n    return x\ndef run(x):\n    return k(x)\n",
            6,
        ),
        ("tilelang", TILELANG + "@tilelang.jit(out_idx=[-1])\ndef k(M):\n    return M\ndef run(x):\n    k(4)(x)\n", 7),
        ("tilelang", TILELANG + "@T.prim_func\ndef k(A):\n    pass\ndef run(x):\n    tilelang.compile(k)(x)\n", 7),
        (
            "tilelang",
            TILELANG + "def k(M):\n    @T.prim_func\n    def main(A):\n        pass\n    return main\n"
            "def run(x):\n    tilelang.compile(k(4))(x)\n",
            9,
        ),
        ("pallas", PALLAS + "def run(x):\n    return pl.pallas_call(k, out_shape=x)(x)\n", 7),
        ("pallas", PALLAS + "def run(x):\n    return pl.pallas_call(functools.partial(k), out_shape=x)(x)\n", 7),
        ("pallas", PALLAS + "def run(x):\n    body = functools.partial(k)\n    return pl.pallas_call(body)(x)\n", 8),
        ("pallas", PALLAS + "@jax.jit\ndef run(x):\n    return pl.pallas_call(kernel=k, out_shape=x)(x)\n", 8),
    ],
)
def test_a_kernel_is_found_with_its_framework_and_launch(trees, framework, source, line):
    function = only(trees.index({"kernel.py": source}))
    assert (function.identity, function.framework) == ("kernel.py::k", framework)
    assert [(place.line, place.by) for place in function.launches] == [(line, "kernel.py::run")]


def test_a_launched_kernel_of_any_framework_needs_a_declaration(trees):
    index = trees.index({"a.py": CUTE + "k(x).launch(grid=1)\n", "b.py": NUMBA + "k[1, 2](x)\n"})
    assert [item.identity for item in index.undeclared] == ["a.py::k", "b.py::k"]


def test_a_declared_launcher_covers_its_kernel(trees):
    source = trees.HEADER + "from numba import cuda\n@cuda.jit\ndef k(x):\n    pass\n"
    source += trees.declared("scale", "k[1, 32](x)\nreturn x")
    index = trees.index({"k.py": source})
    assert only(index).declared_by == ("k.py::scale",)
    assert index.undeclared == ()


def test_a_method_may_be_a_kernel(trees):
    source = "import cutlass.cute as cute\nclass Gemm:\n    @cute.kernel\n    def kernel(self, a):\n        pass\n"
    source += "    @cute.jit\n    def __call__(self, a):\n        self.kernel(a).launch(grid=(1, 1, 1))\n"
    function = only(trees.index({"k.py": source}))
    assert (function.identity, function.framework) == ("k.py::Gemm.kernel", "cute")
    assert [(place.line, place.by) for place in function.launches] == [(8, "k.py::Gemm.__call__")]


@pytest.mark.parametrize(
    "source",
    [
        "from registry import kernel\n@kernel\ndef k(x):\n    pass\n",
        "import cute\n@cute.kernel\ndef k(x):\n    pass\n",
        "import cutlass.cute as cute\n@cute.jit\ndef run(x):\n    pass\n",
        "import numba\n@numba.njit(parallel=True)\ndef k(x):\n    pass\n",
        "import pl\ndef k(x):\n    pass\ndef run(x):\n    pl.pallas_call(k)(x)\n",
        "import rocket as ct\ndef k(x):\n    pass\ndef run(x):\n    ct.launch(0, 1, k, x)\n",
    ],
)
def test_the_spelling_alone_makes_no_kernel(trees, source):
    assert trees.index({"k.py": "# kernel\n" + source}).device_functions == ()


def test_a_framework_renamed_by_the_project_is_recognised(trees):
    files = {
        "compat.py": "from numba.cuda import jit as gpu\nimport cuda.tile as tile\n",
        "k.py": "from compat import gpu, tile\n@gpu\ndef a(x):\n    pass\n@tile.kernel\ndef b(x):\n    pass\n",
    }
    found = {item.identity: item.framework for item in trees.index(files).device_functions}
    assert found == {"k.py::a": "numba", "k.py::b": "cutile"}


def test_a_decorator_that_the_project_names_keeps_its_framework(trees):
    source = "import numba\n@numba.njit(parallel=True)\ndef k(x):\n    pass\n"
    assert only(trees.index({"k.py": source}, jit_aliases=("njit",))).framework == "numba"


def test_the_innermost_decorator_decides(trees):
    source = "from triton.experimental import gluon\nfrom tune import libentry\n"
    source += "@libentry()\n@gluon.jit\ndef k(x):\n    pass\n"
    assert only(trees.index({"k.py": source})).framework == "gluon"
