"""Device functions: what is one, who launches it, and which kernels reach it."""

from __future__ import annotations

import pytest

BODY = "def _k(x, BLOCK: tl.constexpr):\n    tl.store(x, 1)\n"


def device(index, name="_k"):
    return next((function for function in index.device_functions if function.identity.endswith(f"::{name}")), None)


@pytest.mark.parametrize(
    "decorators",
    [
        "import triton\n@triton.jit\n",
        "import triton as t\n@t.jit\n",
        "from triton import jit\n@jit\n",
        "from triton import jit as compile_it\n@compile_it\n",
        "import triton\n@triton.jit(do_not_specialize=['n'])\n",
        "import triton\n@triton.autotune(configs=[], key=[])\n@triton.heuristics({})\n@triton.jit\n",
        "from triton.runtime.jit import jit\n@jit\n",
        "from triton.experimental import gluon\n@gluon.jit\n",
        "from compat import triton_jit\n@triton_jit\n",
        "from compat import libentry\nimport triton\n@libentry()\n@triton.jit\n",
        "import triton\nmy_jit = triton.jit\n@my_jit\n",
        "import triton, functools\nfast_jit = functools.partial(triton.jit, noinline=True)\n@fast_jit\n",
        "from own import wrapped_jit\n@wrapped_jit\n",
        "from cache import fla_cache_autotune\nimport triton\n"
        "@fla_cache_autotune(configs=[], key=['N'])\n@triton.jit(do_not_specialize=['n'])\n",
        "import triton\nfrom tune import libentry, libtuner\n"
        "@libentry()\n@libtuner(configs=[], key=['N'])\n@triton.heuristics({'B': pick})\n@triton.jit\n",
        "import triton, triton_dejavu\n@triton_dejavu.autotune(configs=[], key=[])\n@triton.jit\n",
        "import triton\n@triton.jit\n@checked\n",
        "from compat import jit_of_the_day\n@jit_of_the_day\n",
    ],
)
def test_what_makes_a_device_function(trees, decorators):
    files = {
        "k.py": f"import triton.language as tl\n{decorators}{BODY}",
        "own.py": "import triton\ndef wrapped_jit(fn):\n    return triton.jit(fn)\n",
        "compat.py": "from triton import jit as jit_of_the_day\n",
    }
    assert device(trees.index(files)) is not None


@pytest.mark.parametrize(
    "decorators", ["import numba\n@numba.jit\n", "import torch\n@torch.jit.script\n", "import jax\n@jax.jit\n", ""]
)
def test_what_makes_none(trees, decorators):
    files = {"k.py": f"import triton.language as tl\n{decorators}{BODY}"}
    assert trees.index(files).device_functions == ()


def test_a_decorator_of_the_projects_own_can_be_named(trees):
    files = {
        "k.py": f"from own import device_code\nimport triton\n@device_code\n{BODY}",
        "own.py": "def device_code(f):\n    return f\n",
    }
    assert trees.index(files).device_functions == ()
    assert device(trees.index(files, jit_aliases=("device_code",))) is not None


def test_a_function_that_is_compiled_by_a_call(trees):
    files = {
        "k.py": "import triton\nimport triton.language as tl\n" + BODY + "compiled = triton.jit(_k)\n"
        "def run(x):\n    compiled[(1,)](x, BLOCK=8)\n"
    }
    assert device(trees.index(files)).launched


@pytest.mark.parametrize(
    "host",
    [
        "def run(x):\n    _k[(1,)](x, BLOCK=8)\n",
        "def run(x):\n    grid = (1,)\n    _k[grid](x, BLOCK=8)\n",
        "def run(x):\n    kern = _k if x.numel() else _k\n    kern[(1,)](x, BLOCK=8)\n",
        "TABLE = {'a': _k}\ndef run(x):\n    TABLE['a'][(1,)](x, BLOCK=8)\n",
        "import functools\ndef run(x):\n    functools.partial(_k[(1,)], x)(BLOCK=8)\n",
        "def launch(kern, x):\n    kern[(1,)](x)\ndef run(x):\n    launch(_k, x)\n",
        "def run(x):\n    _k.run(x, grid=(1,), warmup=False)\n",
        "class Op:\n    @staticmethod\n    def run(x):\n        _k[(1,)](x, BLOCK=8)\n",
    ],
)
def test_what_is_a_launch(trees, host):
    index = trees.index({"k.py": "import triton\nimport triton.language as tl\n@triton.jit\n" + BODY + host})
    function = device(index)
    assert function.launched
    assert index.undeclared == (function,)
    lines = index.store.tree.read("k.py").decode().split("\n")
    names = ("_k", "TABLE", "kern")
    assert all(any(name in lines[launch.line - 1] for name in names) for launch in function.launches)


def test_a_launch_says_where_it_is_and_who_does_it(trees):
    files = {
        "dev.py": "import triton\nimport triton.language as tl\n@triton.jit\n" + BODY,
        "host.py": "import triton\nfrom dev import _k as kern\n\ndef run(x):\n    if x:\n        kern[(1,)](x)\n",
    }
    (launch,) = device(trees.index(files)).launches
    assert (launch.path, launch.line, launch.column, launch.by) == ("host.py", 6, 9, "host.py::run")


def test_a_helper_of_another_device_function_is_not_launched(trees):
    source = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef helper(x):\n    return x\n"
        "@triton.jit\n" + BODY.replace("1", "helper(1)") + "def run(x):\n    _k[(1,)](x)\n"
    )
    index = trees.index({"k.py": source})
    assert not device(index, "helper").launched
    assert [function.identity for function in index.undeclared] == ["k.py::_k"]


def test_a_declared_kernel_declares_what_its_code_reaches(trees):
    source = (
        trees.HEADER
        + "@triton.jit\ndef helper(x):\n    return x\n@triton.jit\n"
        + BODY.replace("1", "helper(1)")
        + trees.declared("scale", "_k[(1,)](x, BLOCK=8)\nreturn x")
    )
    index = trees.index({"k.py": source})
    assert device(index).declared_by == ("k.py::scale",)
    assert device(index, "helper").declared_by == ("k.py::scale",)
    assert index.undeclared == ()


def test_a_reference_or_fallback_that_launches_declares_nothing(trees):
    source = trees.HEADER + "@triton.jit\n" + BODY + trees.declared("scale").replace("return x + x", "_k[(1,)](x)")
    assert [function.identity for function in trees.index({"k.py": source}).undeclared] == ["k.py::_k"]


def test_a_broken_declaration_still_claims_its_device_functions(trees):
    source = trees.HEADER + "@triton.jit\n" + BODY + trees.declared("scale", "_k[(1,)](x)\nreturn x")
    index = trees.index({"k.py": source.replace('"float16"', '"float17"')})
    assert index.declarations == ()
    assert index.undeclared == ()


def test_autograd_functions_are_followed_through_apply(trees):
    source = (
        trees.HEADER
        + "@triton.jit\n"
        + BODY
        + "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        + "        _k[(1,)](x)\n        return x\n"
        + trees.declared("scale", "return F.apply(x)")
    )
    assert device(trees.index({"k.py": source})).declared_by == ("k.py::scale",)
