"""What a kernel rests on: everything that the closure has to follow, and what it does where it cannot."""

from __future__ import annotations

import pytest


@pytest.fixture
def selects(trees):
    """Whether an edit selects the kernel ``k`` of ``k.py``, made of a preamble and a body."""

    def check(preamble: str, body: str, edits: dict, extra: dict | None = None, **options) -> tuple[str, ...]:
        files = {"k.py": trees.HEADER + preamble + "\n" + trees.declared("k", body), **(extra or {})}
        return trees.selected(files, edits, **options).get("k", ())

    return check


CODE = ("code",)
NOTHING = ()


def test_attributes_of_an_imported_module(selects):
    extra = {"lib/__init__.py": "", "lib/dev.py": "def f(x):\n    return x\ndef g(x):\n    return 1\n"}
    for line, name in [
        ("import lib.dev", "lib.dev.f"),
        ("import lib.dev as d", "d.f"),
        ("from lib import dev", "dev.f"),
        ("from lib.dev import f as h", "h"),
    ]:
        assert selects(line, f"return {name}(x)", {"lib/dev.py": ("return x", "return x + 1")}, extra) == CODE
        assert selects(line, f"return {name}(x)", {"lib/dev.py": ("return 1", "return 2")}, extra) == NOTHING


def test_imports_inside_functions(selects):
    extra = {"dev.py": "def f(x):\n    return x\ndef g(x):\n    return 1\n"}
    body = "from dev import f\nreturn f(x)"
    assert selects("", body, {"dev.py": ("return x", "return x + 1")}, extra) == CODE
    assert selects("", body, {"dev.py": ("return 1", "return 2")}, extra) == NOTHING
    assert selects("", "import dev\nreturn dev.f(x)", {"dev.py": ("return x", "return x + 1")}, extra) == CODE


def test_re_exports_over_several_files(selects):
    extra = {
        "lib/__init__.py": "from .api import f\n",
        "lib/api.py": "from lib.impl import g as f\n",
        "lib/impl.py": "def g(x):\n    return x\n",
    }
    assert selects("from lib import f", "return f(x)", {"lib/impl.py": ("return x", "return -x")}, extra) == CODE
    assert selects("import lib", "return lib.f(x)", {"lib/impl.py": ("return x", "return -x")}, extra) == CODE


def test_star_imports(selects):
    extra = {
        "lib/__init__.py": "from .impl import *\n",
        "lib/impl.py": "__all__ = ['f']\ndef f(x):\n    return x\ndef g(x):\n    return 1\n",
    }
    assert selects("from lib import *", "return f(x)", {"lib/impl.py": ("return x", "return -x")}, extra) == CODE
    assert selects("from lib import *", "return f(x)", {"lib/impl.py": ("return 1", "return 2")}, extra) == NOTHING


def test_a_star_import_without_all_gives_public_names(selects):
    extra = {"impl.py": "def f(x):\n    return x\ndef _hidden(x):\n    return 1\n"}
    assert selects("from impl import *", "return f(x)", {"impl.py": ("return x", "return -x")}, extra) == CODE
    assert selects("from impl import *", "return _hidden(x)", {"impl.py": ("return 1", "return 2")}, extra) == NOTHING


def test_a_later_star_import_may_shadow_a_name(selects):
    extra = {"impl.py": "def f(x):\n    return x\n"}
    preamble = "def f(x):\n    return 0\nfrom impl import *"
    assert selects(preamble, "return f(x)", {"impl.py": ("return x", "return -x")}, extra) == CODE


def test_both_sides_of_a_conditional_definition(selects):
    preamble = (
        "if torch.cuda.is_available():\n    def f(x):\n        return 1\nelse:\n    def f(x):\n        return 2\n"
    )
    for edit in [("return 1", "return 3"), ("return 2", "return 3"), ("is_available", "is_initialized")]:
        assert selects(preamble, "return f(x)", {"k.py": edit}) == CODE


def test_both_sides_of_an_import_with_a_fallback(selects):
    preamble = "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\n"
    extra = {"fast.py": "def f(x):\n    return 1\n", "slow.py": "def f(x):\n    return 2\n"}
    assert selects(preamble, "return f(x)", {"fast.py": ("1", "3")}, extra) == CODE
    assert selects(preamble, "return f(x)", {"slow.py": ("2", "3")}, extra) == CODE


def test_a_flag_set_by_try_and_except(selects):
    preamble = "try:\n    import apex\n    HAS = True\nexcept ImportError:\n    HAS = False\n"
    assert selects(preamble, "return HAS", {"k.py": ("HAS = False", "HAS = None")}) == CODE


def test_constants_in_terms_of_others(selects):
    extra = {"sizes.py": "WARP = 32\nBLOCK = WARP * 4\n"}
    assert selects("from sizes import BLOCK", "return BLOCK", {"sizes.py": ("= 32", "= 64")}, extra) == CODE


def test_default_arguments_and_annotations_are_looked_at(selects):
    preamble = "LIMIT = 4\ndef f(x, n=LIMIT):\n    return n\n"
    assert selects(preamble, "return f(x)", {"k.py": ("LIMIT = 4", "LIMIT = 5")}) == CODE


def test_tables_of_functions(selects):
    preamble = "from dev import f, g\nTABLE = {'f': f, 'g': g}\n"
    extra = {"dev.py": "def f(x):\n    return 1\ndef g(x):\n    return 2\n"}
    assert selects(preamble, "return TABLE['f'](x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE
    assert selects(preamble, "return TABLE['f'](x)", {"k.py": ("{'f': f,", "{'f': g,")}, extra) == CODE


def test_partials_and_tuples(selects):
    preamble = "import functools\nfrom dev import f\nFAST = functools.partial(f, n=2)\nALL = (FAST, 1)\n"
    extra = {"dev.py": "def f(x, n):\n    return 1\n"}
    assert selects(preamble, "return ALL[0](x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE
    assert selects(preamble, "return FAST(x)", {"k.py": ("n=2", "n=3")}, extra) == CODE


def test_aliases(selects):
    extra = {"dev.py": "def f(x):\n    return 1\ndef g(x):\n    return 2\n"}
    preamble = "import dev\nd = dev\nfirst = dev.f\nsecond = first\n"
    assert selects(preamble, "return second(x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE
    assert selects(preamble, "return second(x)", {"dev.py": ("return 2", "return 3")}, extra) == NOTHING
    assert selects(preamble, "return d.f(x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE


def test_class_attributes_by_themselves(selects):
    preamble = "class Cfg:\n    A = 1\n    B = 2\n"
    assert selects(preamble, "return Cfg.A", {"k.py": ("A = 1", "A = 3")}) == CODE
    assert selects(preamble, "return Cfg.A", {"k.py": ("B = 2", "B = 3")}) == NOTHING


def test_class_attributes_from_a_base(selects):
    preamble = "class Base:\n    A = 1\n    B = 2\nclass Cfg(Base):\n    pass\n"
    assert selects(preamble, "return Cfg.A", {"k.py": ("A = 1", "A = 3")}) == CODE
    assert selects(preamble, "return Cfg.A", {"k.py": ("B = 2", "B = 3")}) == NOTHING
    assert selects(preamble, "return Cfg.A", {"k.py": ("(Base)", "(Base, metaclass=Meta)")}) == CODE


def test_an_enum_counts_as_a_whole(selects):
    preamble = "import enum\nclass Mode(enum.Enum):\n    A = enum.auto()\n    B = 2\n"
    assert selects(preamble, "return Mode.B", {"k.py": ("    A = enum.auto()\n", "")}) == CODE


def test_methods_that_call_each_other_through_self(selects):
    preamble = (
        "class Op:\n    scale = 2\n    @classmethod\n    def run(cls, x):\n        return cls.inner(x)\n"
        "    @classmethod\n    def inner(cls, x):\n        return x * cls.scale\n"
        "    def other(self):\n        return 5\n"
    )
    assert selects(preamble, "return Op.run(x)", {"k.py": ("x * cls.scale", "x + cls.scale")}) == CODE
    assert selects(preamble, "return Op.run(x)", {"k.py": ("scale = 2", "scale = 3")}) == CODE
    assert selects(preamble, "return Op.run(x)", {"k.py": ("return 5", "return 6")}) == NOTHING
    assert selects(preamble, "return Op().run(x)", {"k.py": ("return 5", "return 6")}) == CODE


def test_super_leads_to_the_base(selects):
    preamble = (
        "class Base:\n    def run(self, x):\n        return 1\n"
        "class Op(Base):\n    def run(self, x):\n        return super().run(x)\n"
    )
    assert selects(preamble, "return Op().run(x)", {"k.py": ("return 1", "return 2")}) == CODE


def test_an_autograd_function_through_apply(selects):
    preamble = (
        "from dev import fwd, bwd\nclass F(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return fwd(x)\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return bwd(g)\n"
    )
    extra = {"dev.py": "def fwd(x):\n    return 1\ndef bwd(x):\n    return 2\n"}
    assert selects(preamble, "return F.apply(x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE
    assert selects(preamble, "return F.apply(x)", {"dev.py": ("return 2", "return 3")}, extra) == CODE


def test_decorators_of_helpers_and_of_the_launcher(trees, selects):
    preamble = "from guards import guard\n@guard\ndef f(x):\n    return x\n"
    extra = {"guards.py": "def guard(fn):\n    return fn\n"}
    assert selects(preamble, "return f(x)", {"guards.py": ("return fn", "return -fn")}, extra) == CODE
    files = {
        "k.py": trees.HEADER
        + "from guards import guard\n"
        + trees.declared("k").replace("def k(x)", "@guard\ndef k(x)"),
        **extra,
    }
    assert trees.selected(files, {"guards.py": ("return fn", "return -fn")}) == {"k": CODE}


def test_statements_that_change_a_symbol_belong_to_it(selects):
    for statement, edit in [
        ("CONFIGS.append(64)", ("append(64)", "append(32)")),
        ("CONFIGS += [64]", ("+= [64]", "+= [32]")),
        ("CONFIGS[0] = 64", ("= 64", "= 32")),
        ("for i in (1, 2):\n    CONFIGS.append(i)", ("(1, 2)", "(1, 3)")),
        ("for c in CONFIGS:\n    c.size = 64", ("= 64", "= 32")),
        ("if torch.cuda.is_available():\n    CONFIGS.append(64)", ("is_available", "is_initialized")),
        ("setattr(CONFIGS, 'size', 64)", ("64", "32")),
    ]:
        assert selects(f"CONFIGS = [1]\n{statement}\n", "return CONFIGS", {"k.py": edit}) == CODE, statement
        assert selects(f"CONFIGS = [1]\n{statement}\n", "return 1", {"k.py": edit}) == NOTHING, statement


def test_what_a_table_is_filled_with_belongs_to_it(selects):
    extra = {"dev.py": "def f(x):\n    return 1\n"}
    edit = {"dev.py": ("return 1", "return 2")}
    preamble = "from dev import f\nTABLE = {}\nTABLE['f'] = f\n"
    assert selects(preamble, "return TABLE['f'](x)", edit, extra) == CODE
    preamble = "from dev import f\nTABLE = {}\nfor n in ('a', 'b'):\n    TABLE[n] = f\n"
    assert selects(preamble, "return TABLE['a'](x)", edit, extra) == CODE


def test_a_decorator_that_registers_fills_its_table(selects):
    preamble = (
        "TABLE = {}\ndef register(name):\n    def keep(fn):\n        TABLE[name] = fn\n"
        "        return fn\n    return keep\n"
        "@register('f')\ndef f(x):\n    return 1\n"
    )
    assert selects(preamble, "return TABLE['f'](x)", {"k.py": ("return 1", "return 2")}) == CODE
    preamble = (
        "class Registry:\n    def register(self, fn):\n        return fn\nOPS = Registry()\n"
        "@OPS.register\ndef f(x):\n    return 1\n"
    )
    assert selects(preamble, "return OPS.get('f')(x)", {"k.py": ("return 1", "return 2")}) == CODE
    preamble = preamble.replace(
        "@OPS.register\n", "def register(fn):\n    OPS.register(fn)\n    return fn\n@register\n"
    )
    assert selects(preamble, "return OPS.get('f')(x)", {"k.py": ("return 1", "return 2")}) == CODE
    preamble = (
        "class Registry:\n    table = {}\n    @classmethod\n    def register(cls, fn):\n"
        "        cls.table[fn.__name__] = fn\n"
        "        return fn\n@Registry.register\ndef f(x):\n    return 1\n"
    )
    assert selects(preamble, "return Registry.table['f'](x)", {"k.py": ("return 1", "return 2")}) == CODE


def test_an_attribute_set_on_a_function_of_another_module(selects):
    extra = {"dev.py": "def f(x):\n    return 1\n"}
    preamble = "import dev\ndev.f.cache = 3\n"
    assert selects(preamble, "return dev.f(x)", {"k.py": ("= 3", "= 4")}, extra) == CODE


def test_a_patch_in_a_module_that_is_imported(selects):
    extra = {
        "dev.py": "LIMIT = 1\ndef f(x):\n    return LIMIT\n",
        "patches.py": "import dev\ndev.LIMIT = 5\n",
    }
    preamble = "import dev, patches\n"
    assert selects(preamble, "return dev.f(x)", {"patches.py": ("= 5", "= 6")}, extra) == CODE
    extra["patches.py"] = "import dev, values\ndev.LIMIT = values.FIVE\ndev.NEW = values.SIX\n"
    extra["values.py"] = "FIVE = 5\nSIX = 6\n"
    assert selects(preamble, "return dev.f(x)", {"values.py": ("FIVE = 5", "FIVE = 7")}, extra) == CODE
    assert selects(preamble, "return dev.f(x)", {"values.py": ("SIX = 6", "SIX = 7")}, extra) == NOTHING
    assert selects(preamble, "return dev.NEW", {"values.py": ("SIX = 6", "SIX = 7")}, extra) == CODE


def test_a_patch_in_a_module_that_nothing_imports_selects_nothing(selects):
    extra = {"dev.py": "LIMIT = 1\n", "script.py": "import dev\ndev.LIMIT = 5\n"}
    assert selects("import dev", "return dev.LIMIT", {"script.py": ("= 5", "= 6")}, extra) == NOTHING


def test_flags_set_outside_the_tree_when_a_module_is_imported(selects):
    extra = {
        "pkg/__init__.py": "import os\nos.environ['TRITON_F32_DEFAULT'] = 'ieee'\n",
        "pkg/dev.py": "def f(x):\n    return 1\n",
    }
    assert selects("from pkg.dev import f", "return f(x)", {"pkg/__init__.py": ("ieee", "tf32")}, extra)[:1] == CODE
    extra["flags.py"] = "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
    extra["pkg/__init__.py"] = "import flags\n"
    assert selects("from pkg.dev import f", "return f(x)", {"flags.py": ("True", "False")}, extra)[:1] == CODE


def test_printing_warnings_and_main_blocks_select_nothing(selects):
    tail = "print('a')\nimport warnings\nwarnings.filterwarnings('ignore')\nif __name__ == '__main__':\n    k(1)\n"
    for edit in [("'a'", "'b'"), ("'ignore'", "'error'"), ("k(1)", "k(2)")]:
        assert selects(tail, "return x", {"k.py": edit}) == NOTHING


def test_registering_several_kernels_at_once_does_not_tie_them_together(trees):
    files = {
        "ops/__init__.py": "from .a import a\nfrom .b import b\nfrom .reg import note\nnote([a, b])\n",
        "ops/reg.py": "def note(items):\n    for item in items:\n        print(item)\n",
        "ops/a.py": trees.HEADER + trees.declared("a", "return x * 7"),
        "ops/b.py": trees.HEADER + trees.declared("b", "return x * 9"),
    }
    assert trees.selected(files, {"ops/a.py": ("x * 7", "x * 8")}) == {"a": CODE}


def test_globals_and_eval_count_the_whole_module(trees, selects):
    preamble = "def f(x):\n    return 1\n"
    for body in [
        "return globals()[str(x)](x)",
        "return eval(x)",
        "import sys\nreturn getattr(sys.modules[__name__], x)",
    ]:
        assert selects(preamble, body, {"k.py": ("return 1", "return 2")}) == CODE, body
    files = {"k.py": trees.HEADER + preamble + trees.declared("k", "return globals()[str(x)](x)")}
    (note,) = trees.index(files).closure("k.py::k").unresolved
    assert note.endswith("looks names up in its own module; all of k.py counts")


def test_a_literal_look_up_in_globals_is_followed_exactly(selects):
    preamble = "def f(x):\n    return 1\ndef g(x):\n    return 2\n"
    body = "return globals()['f'](x)"
    assert selects(preamble, body, {"k.py": ("return 1", "return 3")}) == CODE
    assert selects(preamble, body, {"k.py": ("return 2", "return 3")}) == NOTHING


def test_getattr_on_a_module(selects):
    extra = {"dev.py": "def f(x):\n    return 1\ndef g(x):\n    return 2\n"}
    assert selects("import dev", "return getattr(dev, 'f')(x)", {"dev.py": ("return 1", "return 3")}, extra) == CODE
    assert selects("import dev", "return getattr(dev, 'f')(x)", {"dev.py": ("return 2", "return 3")}, extra) == NOTHING
    assert selects("import dev", "return getattr(dev, str(x))", {"dev.py": ("return 2", "return 3")}, extra) == CODE


def test_importlib_by_a_known_name_a_prefix_and_an_unknown_name(selects):
    extra = {"lib/a.py": "def f(x):\n    return 1\n", "far.py": "Z = 1\n"}
    edit = {"lib/a.py": ("return 1", "return 3")}
    far = {"far.py": ("Z = 1", "Z = 2")}
    preamble = "import importlib\n"
    assert selects(preamble, "return importlib.import_module('lib.a').f(x)", edit, extra) == CODE
    assert selects(preamble, "return importlib.import_module('lib.a').f(x)", far, extra) == NOTHING
    assert selects(preamble, "return importlib.import_module(f'lib.{x}').f(x)", edit, extra) == CODE
    assert selects(preamble, "return importlib.import_module(f'lib.{x}').f(x)", far, extra) == NOTHING
    assert selects(preamble, "return importlib.import_module(x).f(x)", far, extra) == CODE


def test_a_package_with_module_getattr_counts_what_is_below_it(selects):
    extra = {
        "lib/__init__.py": (
            "import importlib\ndef __getattr__(name):\n    return importlib.import_module('.' + name, __name__)\n"
        ),
        "lib/a.py": "def f(x):\n    return 1\n",
    }
    assert selects("import lib", "return lib.thing(x)", {"lib/a.py": ("return 1", "return 3")}, extra) == CODE


def test_a_helper_in_a_file_that_does_not_parse_selects(trees, selects):
    extra = {"dev.py": "def f(x):\n    return 1\n"}
    assert selects("from dev import f", "return f(x)", {"dev.py": "def f(x:\n"}, extra) == CODE
    broken = {"dev.py": "from deep import g\ndef f(x:\n", "deep.py": "def g(x):\n    return 1\n"}
    assert selects("from dev import f", "return f(x)", {"deep.py": ("return 1", "return 2")}, broken) == CODE


def test_a_name_that_vanished_from_a_module_of_the_tree_is_unresolved(trees):
    files = {
        "dev.py": "def g(x):\n    return 1\n",
        "k.py": trees.HEADER + "from dev import f\n" + trees.declared("k", "return f(x)"),
    }
    assert trees.index(files).closure("k.py::k").unresolved == ("dev.py has no 'f'; all of it counts",)


def test_local_names_do_not_reach_globals_of_the_same_name(selects):
    preamble = "def f(x):\n    return 1\n"
    edit = {"k.py": ("return 1", "return 2")}
    assert selects(preamble, "f = x\nreturn f", edit) == NOTHING
    assert selects(preamble, "return [f for f in x]", edit) == NOTHING
    assert selects(preamble, "return (lambda f: f)(x)", edit) == NOTHING
    assert selects(preamble, "return [f(y) for y in x]", edit) == CODE
    assert selects(preamble, "def inner(y):\n    return f(y)\nreturn inner(x)", edit) == CODE


def test_functions_that_call_each_other_have_a_fingerprint(trees):
    def code(one: str) -> str:
        source = f"def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n != {one} and even(n - 1)\n"
        files = {"k.py": trees.HEADER + source + trees.declared("k", "return even(x)")}
        return trees.index(files).closure("k.py::k").fingerprint.code

    assert code("0") == code("0x0")
    assert code("0") != code("1")


def test_fingerprints_are_16_hexadecimal_digits_and_depend_on_no_path(trees):
    source = trees.HEADER + "from dev import f\n" + trees.declared("k", "return f(x)")
    one = trees.index({"k.py": source, "dev.py": "def f(x):\n    return 1\n"}).closure("k.py::k").fingerprint
    other = trees.index({"a/k.py": source, "a/dev.py": "\n\ndef f(x):\n    return 1\n"}, roots=["a"])
    assert other.closure("a/k.py::k").fingerprint == one
    assert all(len(value) == 16 and int(value, 16) >= 0 for value in (one.code, one.oracle, one.dispatch))


def test_depends_globs_count_as_code(trees):
    files = {
        "k.py": trees.HEADER + trees.declared("k", more=', depends=("configs/*.json", "data/**")'),
        "configs/a.json": "1",
        "configs/deep/b.json": "1",
        "data/x/y.bin": "1",
    }
    index = trees.index(files)
    assert list(index.closure("k.py::k").files) == ["configs/a.json", "data/x/y.bin"]
    assert trees.selected(files, {"configs/a.json": "2"}) == {"k": CODE}
    assert trees.selected(files, {"configs/c.json": "2"}) == {"k": CODE}
    assert trees.selected(files, {"data/x/y.bin": None, "data/z": "1"}) == {"k": CODE}
    assert trees.selected(files, {"configs/deep/b.json": "2"}) == {}
    (reason,) = trees.why(files, {"configs/a.json": "2"}, "k")
    assert reason.sentence == "configs/a.json changed"


def test_depends_may_lie_beside_the_declaration(trees):
    files = {"pkg/k.py": trees.HEADER + trees.declared("k", more=', depends=("tuned.json",)'), "pkg/tuned.json": "1"}
    assert trees.selected(files, {"pkg/tuned.json": "2"}) == {"k": CODE}


def test_sources_and_what_they_include_count_as_code(trees):
    files = {
        "k.py": trees.HEADER + trees.declared("k", more=', sources=("csrc/k.cu",)'),
        "csrc/k.cu": '#include "util.cuh"\n#include <vector>\n#include "deep/math.h"\n',
        "csrc/util.cuh": "// nothing\n",
        "include/deep/math.h": '#include "../other.h"\n',
        "include/other.h": "int x;\n",
    }
    assert list(trees.index(files).closure("k.py::k").files) == [
        "csrc/k.cu", "csrc/util.cuh", "include/deep/math.h", "include/other.h",
    ]  # fmt: skip
    assert trees.selected(files, {"include/other.h": "int y;\n"}) == {"k": CODE}


def test_depends_that_match_nothing_are_a_finding(trees):
    (finding,) = trees.index({"k.py": trees.HEADER + trees.declared("k", more=', depends=("no/*.json",)')}).findings
    assert (finding.code, finding.symbol) == ("depends-missing", "k.py::k")
    assert "'no/*.json'" in finding.message


def test_a_submodule_that_an_import_can_lead_into_counts(trees):
    source = trees.HEADER + "import fast_ops.core\n" + trees.declared("k", "return fast_ops.core.f(x)")
    other = trees.HEADER + trees.declared("other")

    def codes(oid: str) -> list[str]:
        links = {"third_party/fast-ops": oid, "third_party/unrelated": oid}
        index = trees.index({"k.py": source, "other.py": other}, links)
        return [index.closure(name).fingerprint.code for name in ("k.py::k", "other.py::other")]

    before, after = codes("1" * 40), codes("2" * 40)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_changed_submodule_is_named_as_the_reason(trees):
    from kgate.source.affected import affected

    files = {"k.py": trees.HEADER + trees.declared("k", more=', sources=("lib/cutlass/gemm.cu",)')}
    base, head = (trees.index(files, {"lib/cutlass": digit * 40}) for digit in "12")
    (item,) = affected(base, head)
    assert [reason.sentence for reason in item.reasons] == ["submodule lib/cutlass changed"]


def test_block_sizes_are_gathered_from_launches_configs_constants_and_thresholds(trees):
    source = (
        trees.HEADER
        + "BLOCK = 1 << 9\nCAP = 65536\n"
        + "@triton.autotune(configs=[triton.Config({'BLOCK_M': 96}, num_warps=4, num_stages=3)], key=['n'])\n"
        + "@triton.jit\ndef _k(x, BLOCK_M: tl.constexpr, B: tl.constexpr = 48):\n    tl.store(x, 1)\n"
        + trees.declared(
            "k",
            "if x.numel() <= 4096:\n    size = min(2048, triton.next_power_of_2(x.numel()))\n"
            "GROUP = 24\n_k[(1,)](x, SPLIT=160, num_warps=8)\nreturn BLOCK + CAP",
        )
    )
    assert trees.index({"k.py": source}).closure("k.py::k").block_sizes == (24, 48, 96, 160, 512, 2048, 4096, 65536)


def test_a_function_that_imports_what_it_is_given_is_judged_by_its_calls(selects):
    helper = "import importlib\ndef load(name):\n    module = importlib.import_module(name)\n    return module\n"
    extra = {"load.py": helper, "lib/a.py": "def f(x):\n    return 1\n", "far.py": "Z = 1\n"}
    edit, far = {"lib/a.py": ("return 1", "return 3")}, {"far.py": ("Z = 1", "Z = 2")}
    preamble = "from load import load\n"
    assert selects(preamble, "return load('torch').sin(x)", far, extra) == NOTHING
    assert selects(preamble, "return load('lib.a').f(x)", edit, extra) == CODE
    assert selects(preamble, "return load(name='lib.a').f(x)", edit, extra) == CODE
    assert selects(preamble, "return load('lib.a').f(x)", far, extra) == NOTHING
    assert selects(preamble, "return load(x).f(x)", far, extra) == CODE
    assert selects(preamble, "return [g('torch') for g in (load,)]", far, extra) == CODE


def test_plug_ins_that_are_imported_by_name_and_register_belong_to_their_table(selects):
    extra = {
        "ops/__init__.py": (
            "import importlib, pkgutil\nfor _, name, _ in pkgutil.iter_modules(__path__):\n"
            "    importlib.import_module(f'{__name__}.{name}')\n"
        ),
        "ops/table.py": "TABLE = {}\ndef register(fn):\n    TABLE[fn.__name__] = fn\n    return fn\n",
        "ops/plug.py": ("from .table import register\n@register\ndef f(x):\n    return 1\ndef g(x):\n    return 2\n"),
        "far/plug.py": "def f(x):\n    return 1\n",
    }
    preamble, body = "from ops.table import TABLE\n", "return TABLE['f'](x)"
    assert selects(preamble, body, {"ops/plug.py": ("return 1", "return 3")}, extra) == CODE
    assert selects(preamble, body, {"ops/plug.py": ("return 2", "return 3")}, extra) == NOTHING
    assert selects(preamble, body, {"far/plug.py": ("return 1", "return 3")}, extra) == NOTHING
    preamble, body = "from ops.plug import g\n", "return g(x)"
    assert selects(preamble, body, {"ops/plug.py": ("return 1", "return 3")}, extra) == NOTHING


def test_names_that_a_package_is_given_by_running_code_select_more(selects):
    extra = {
        "ops/__init__.py": (
            "from .default import f\nimport importlib\ndef replace():\n"
            "    better = importlib.import_module('ops.better')\n"
            "    for name in better.NAMES:\n        globals()[name] = getattr(better, name)\nreplace()\n"
        ),
        "ops/default.py": "def f(x):\n    return 1\n",
        "ops/better.py": "NAMES = ['f']\ndef f(x):\n    return 2\n",
    }
    edit = {"ops/better.py": ("return 2", "return 3")}
    assert selects("from ops import f\n", "return f(x)", edit, extra) == CODE
    assert selects("from ops.default import f\n", "return f(x)", edit, extra) == NOTHING


def test_a_new_import_without_effects_changes_nothing_for_the_others(selects):
    extra = {
        "dev.py": "import side\ndef f(x):\n    return 1\n",
        "side.py": "def h(x):\n    return 2\n",
        "more.py": "def g(x):\n    return 2\n",
    }
    for more in ("import more\n", "from more import g\n", "import math\n", "def another(x):\n    return 3\n"):
        edit = {"side.py": ("def h", f"{more}def h")}
        assert selects("from dev import f\n", "return f(x)", edit, extra) == NOTHING, more


def test_a_changed_guard_at_the_top_of_a_file_selects_what_uses_the_file(selects):
    extra = {"dev.py": "import triton\nassert triton.__version__ > '3.0'\ndef f(x):\n    return 1\n"}
    assert selects("from dev import f\n", "return f(x)", {"dev.py": ("'3.0'", "'3.1'")}, extra) == CODE


def test_loggers_tie_nothing_together(selects):
    extra = {
        "log.py": "import logging\nlogger = logging.getLogger(__name__)\n",
        "dev.py": (
            "from log import logger\ndef note(fn):\n    logger.info(fn)\n    return fn\n"
            "@note\ndef f(x):\n    return 1\n@note\ndef g(x):\n    return 2\n"
        ),
    }
    assert selects("from dev import f\n", "return f(x)", {"dev.py": ("return 2", "return 3")}, extra) == NOTHING


def test_a_name_rebound_to_an_attribute_of_what_it_was_ends(selects):
    extra = {"lib.py": "class Device:\n    pass\ndevice = Device()\ndef f(x):\n    return x\n"}
    preamble = "from lib import device\nfrom lib import f\ndevice = device.name\nvendor = device.vendor_name\n"
    assert selects(preamble, "return f(x)", {"lib.py": ("return x", "return -x")}, extra) == CODE
    other = preamble + "other = device.a.b\n"
    assert selects(other, "return other", {"lib.py": ("return x", "return -x")}, extra) == NOTHING
