"""Rules about compilation, tuning and launches: what the examples of the rules cannot say."""

from __future__ import annotations

import importlib
import importlib.util
import textwrap

import pytest

from kgate.lint.analysis import analyse
from kgate.lint.examples import MemoryTree, lint_files
from kgate.lint.judging import findings_of
from kgate.lint.model import triton_api as api
from kgate.source.config import Config
from kgate.source.index import build_index

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
TUNER = '@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])\n'


def found(code, source, config=""):
    """Messages of one rule in a file."""
    return [
        item.message for item in lint_files({"kernel.py": HEAD + textwrap.dedent(source)}, config) if item.code == code
    ]


def kernel(body, parameters="x_ptr, y_ptr, n, B: tl.constexpr", decorators=""):
    """A device function with a body."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{decorators}@triton.jit\ndef k({parameters}):\n{lines}\n"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("try:\n    tl.store(y_ptr, n)\nexcept ValueError:\n    pass", "try"),
        ("f = lambda a: a + 1\ntl.store(y_ptr, f(n))", "lambda"),
        ("def f(a):\n    return a\ntl.store(y_ptr, f(n))", "nested function"),
        ("d = {1: 2}\ntl.store(y_ptr, d[1])", "dict"),
        ("for i in range(n):\n    continue", "continue"),
        ("global G\ntl.store(y_ptr, n)", "global"),
        ("a = n\ndel a", "del"),
        ("import math\ntl.store(y_ptr, math.pi)", "import"),
        ("for i in (1, 2):\n    tl.store(y_ptr, i)", "anything but range"),
        ("for i in range(n):\n    tl.store(y_ptr, i)\nelse:\n    tl.store(y_ptr, 0)", "else after a loop"),
        ("for i in range(n):\n    if tl.load(x_ptr + i) > 0:\n        return", "return inside a loop"),
        ("a = tl.arange(0, B)\na[0] = 3", "elements"),
        ("a = b = n\ntl.store(y_ptr, a + b)", "a = b"),
        ("if B in (1, 2):\n    tl.store(y_ptr, n)", "`in`"),
        ("a = tl.arange(0, B)\ntl.store(y_ptr + a, a ** 2)", "`**`"),
        ("a = [i + j for i in (1, 2) for j in (1, 2)]", "nested comprehension"),
        ("tl.store(y_ptr, sum((1, 2)))", "Python's sum"),
    ],
)
def test_construct_that_triton_refuses_is_named(body, what):
    assert [message for message in found("KG416", kernel(body)) if what in message]


@pytest.mark.parametrize(
    "body",
    [
        "tl.store(y_ptr, max(n, 1) + min(n, 2) + len((1, 2)))",
        "if B == 1:\n    tl.store(y_ptr, n)\nelse:\n    raise ValueError('B')",
        "for i in tl.static_range(4):\n    tl.store(y_ptr + i, n)",
        "a = [i + 1 for i in (1, 2)]\ntl.store(y_ptr, a[0])",
        "assert n > 0, 'n'\nprint('n', n)",
        "if n is not None:\n    tl.store(y_ptr, n)",
        "if n > 3:\n    return\ntl.store(y_ptr, n)",
    ],
)
def test_construct_that_triton_compiles_is_not_reported(body):
    assert found("KG416", kernel(body)) == []


@pytest.mark.parametrize(
    "body", ["if 0 < n < 3:\n    tl.store(y_ptr, n)", "if (m := n + 1) > 3:\n    tl.store(y_ptr, m)"]
)
def test_construct_of_a_newer_triton_is_reported_where_an_older_one_is_supported(body):
    assert found("KG416", kernel(body), 'triton = ">=3.7"')
    assert found("KG416", kernel(body), 'triton = ">=3.9"') == []


def test_operators_that_join_blocks_are_one_note_in_a_configured_project_and_none_in_another():
    joined = "tl.store(y_ptr + i, n, mask=i < n and i > 2)\n"
    source = HEAD + kernel(f"i = tl.arange(0, B)\n{joined}{joined}")
    assert len(found("KG415", source.removeprefix(HEAD))) == 1
    tree = MemoryTree({"kernel.py": source.encode()})
    facts = {"kernel.py": analyse("kernel.py", source.encode())}
    findings = findings_of(build_index(tree, ()), Config(configured=False), facts)
    assert [item for item in findings if item.code == "KG415"] == []


def test_one_finding_for_each_construct_of_a_function():
    turn = "    if tl.load(x_ptr + i) > 0:\n        break\n"
    body = f"for i in range(n):\n{turn}{turn}"
    assert len(found("KG416", kernel(body))) == 1


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("0", "a + 1.5", ("int32", "float32")),
        ("0", "a + tl.program_id(0).to(tl.int64)", ("int32", "int64")),
        ("1", "a / 2", ("int32", "float32")),
        ("0", "i > 3", ("int32", "int1")),
        ("0.0", "tl.load(x_ptr + i).to(tl.float16)", ("float32", "float16")),
        ("tl.zeros((16,), dtype=tl.float16)", "a + tl.zeros((16,), dtype=tl.float32)", ("float16", "float32")),
        ("0", "a + tl.sum((tl.load(x_ptr + tl.arange(0, B)) > 2).to(tl.int64))", ("int32", "int64")),
        ("0.0", "a + tl.load(x_ptr + tl.arange(0, B))", ("single value", "block")),
    ],
)
def test_carried_name_that_changes_its_type_is_reported_with_both(before, after, kinds):
    messages = found("KG417", kernel(f"a = {before}\nfor i in range(n):\n    a = {after}\ntl.store(y_ptr, a)"))
    assert len(messages) == 1
    assert all(kind in messages[0] for kind in kinds)


@pytest.mark.parametrize(
    "loop",
    [
        "a = 0\nfor i in tl.static_range(3):\n    a = a + 1.5",  # unrolled
        "a = 0\nfor i in range(n):\n    a = a + i",
        "a = 0.0\nfor i in range(n):\n    a = tl.maximum(a, tl.load(x_ptr + i).to(tl.float16))",
        "a = float('-inf')\nfor i in range(n):\n    a = tl.maximum(a, tl.load(x_ptr + i))",
        "a = 0.0\nfor i in range(n):\n    a += tl.sum(tl.load(x_ptr + tl.arange(0, B)).to(tl.float32))",
        "a = tl.zeros((16,), dtype=tl.float32)\nfor i in range(n):\n    a += tl.zeros((16,), dtype=tl.float16)",
        "a = 0\nfor i in range(n):\n    a = tl.load(x_ptr + i)",  # of unknown type
        "for i in range(n):\n    i = i.to(tl.int64)\n    tl.store(x_ptr + i, 1)",
        "for i in range(n):\n    a = 0\n    a = a + 1.5\n    tl.store(y_ptr, a)",  # new in each turn
    ],
)
def test_carried_name_that_keeps_its_type_is_not_reported(loop):
    assert found("KG417", kernel(loop)) == []


def test_helper_that_adds_counts_for_the_function_that_tunes():
    helper = "@triton.jit\ndef add(out, value):\n    tl.atomic_add(out, value)\n\n\n"
    source = helper + kernel("add(y_ptr, tl.load(x_ptr))", decorators=TUNER)
    assert ["y_ptr" in message for message in found("KG401", source)] == [True]


@pytest.mark.parametrize(
    "tuner",
    [
        '@triton.autotune([triton.Config({"B": 64})], key=["n"])\n',
        TUNER.replace("key=", "pre_hook=clear, key="),
        TUNER.replace("key=", "reset_to_zero=['y_ptr'], key="),
        TUNER.replace('{"B": 64}', '{"B": 64}, pre_hook=clear'),
    ],
)
def test_tuner_that_does_not_repeat_or_clears_is_not_reported(tuner):
    assert found("KG401", kernel("tl.atomic_add(y_ptr, tl.load(x_ptr))", decorators=tuner)) == []


def test_scratch_that_is_written_first_is_not_reported():
    body = "tl.store(y_ptr, n)\ntl.store(y_ptr, tl.load(y_ptr) + 1)"
    assert found("KG401", kernel(body, decorators=TUNER)) == []


def test_restored_names_are_kept_by_the_fix():
    from kgate.lint.fixes import apply

    tuner = TUNER.replace("key=", 'restore_value=["x_ptr"], key=')
    source = HEAD + kernel("tl.atomic_add(y_ptr, tl.load(x_ptr))", decorators=tuner)
    finding = next(item for item in lint_files({"kernel.py": source}) if item.code == "KG401")
    assert 'restore_value=["x_ptr", "y_ptr"]' in apply(source.encode(), list(finding.fixes)).source.decode()


def test_global_that_host_code_reads_too_is_reported_without_a_fix():
    source = "BLOCK = 64\n\n\n" + kernel("tl.store(y_ptr + BLOCK, n)") + "\n\ndef grid(n):\n    return (n // BLOCK,)\n"
    findings = [item for item in lint_files({"kernel.py": HEAD + source}) if item.code == "KG406"]
    assert [item.fixes for item in findings] == [()]


@pytest.mark.parametrize("value", ["tl.constexpr(3)", "tl.float32", "unknown()", "None", "triton.cdiv"])
def test_global_that_triton_takes_or_that_is_not_known_is_not_reported(value):
    assert found("KG406", f"G = {value}\n\n\n" + kernel("tl.store(y_ptr, G)")) == []


def test_permission_for_plain_globals_silences_them():
    source = 'import os\n\nos.environ["TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"] = "1"\nG = 3\n\n\n' + kernel(
        "tl.store(y_ptr, G)"
    )
    assert found("KG406", source) == []


def test_import_of_a_module_that_is_gone_is_reported_unless_it_is_tried():
    body = kernel("tl.store(y_ptr, n)")
    assert found("KG418", "from triton.ops.matmul_perf_model import early_config_prune\n\n\n" + body)
    assert found("KG418", "try:\n    import triton.ops\nexcept ImportError:\n    pass\n\n\n" + body) == []


def test_version_check_in_the_file_silences_api_rules():
    body = kernel("tl.store(y_ptr, tl.math.tanh(tl.load(x_ptr)))")
    assert found("KG418", body)
    assert found("KG418", 'NEW = triton.__version__ >= "3.0"\n\n\n' + body) == []


def test_function_defined_under_a_test_of_the_version_is_not_reported():
    body = kernel("tl.store(y_ptr, tl.math.tanh(tl.load(x_ptr)))")
    inner = textwrap.indent(body, "    ")
    assert found("KG418", f"if OLD_VERSION:\n\n{inner}") == []
    assert found("KG418", f"if torch.cuda.is_available():\n\n{inner}")


def test_api_that_came_later_is_reported_for_a_declared_range_only():
    body = kernel("tl.store(y_ptr + tl.arange(0, B), tl.squeeze(tl.load(x_ptr + tl.arange(0, B))[:, None], 1))")
    assert found("KG418", body) == []
    assert "3.6" in found("KG418", body, 'triton = ">=3.6"')[0]
    assert found("KG418", body, 'triton = ">=3.7"') == []


def test_project_without_a_range_supports_the_versions_that_kgate_does():
    assert api.versions(Config()) == api.SUPPORTED
    assert api.versions(Config(triton=">=3.7,<3.9")) == ((3, 7), (3, 8))
    assert api.versions(Config(triton="<3.2")) == ((3, 0), (3, 1))


def _installed():
    """The installed Triton's version and language, where there is one."""
    triton = pytest.importorskip("triton")
    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)), importlib.import_module("triton.language")


def test_tables_agree_with_the_installed_triton():
    version, language = _installed()
    for dotted, change in api.REMOVED.items():
        name = dotted.removeprefix("triton.language.")
        if "." not in name and change is not api.BLOCK_POINTERS:
            assert hasattr(language, name) == (version < change.version), dotted
    for dotted, change in api.ADDED.items():
        assert hasattr(language, dotted.removeprefix("triton.language.")) == (version >= change.version), dotted
    for name in api.MOVED_FROM_MATH:
        assert not hasattr(language.math, name), name
    for module, change in api.REMOVED_MODULES.items():
        assert _exists(module) == (version < change.version), module


def _exists(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_libdevice_has_what_left_the_language():
    _installed()
    libdevice = importlib.import_module("triton.language.extra.libdevice")
    missing = {name for name in api.MOVED_FROM_MATH if not hasattr(libdevice, name)}
    assert missing == set()


@pytest.mark.parametrize(("warps", "wrong"), [(1, False), (32, False), (3, True), (64, True), (0, True)])
def test_number_of_warps_is_a_power_of_two_up_to_32(warps, wrong):
    assert bool(found("KG412", f"C = triton.Config({{}}, num_warps={warps})\n")) == wrong


def test_wide_lanes_halve_the_number_of_warps_of_a_configuration():
    source = """
    from kgate import Dim, Envelope, Tensor, kernel

    @triton.autotune([triton.Config({"B": 64}, num_warps=4), triton.Config({"B": 128}, num_warps=32)], key=["n"])
    @triton.jit
    def k(x_ptr, y_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

    def eager(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @kernel(
        reference=eager,
        fallback=eager,
        envelope=Envelope(
            inputs={"x": Tensor("N", "T", layout="contiguous")},
            outputs={"y": Tensor("N", "T", layout="contiguous")},
            dtypes={"T": ("float32",)},
            dims={"N": Dim(1, 2**20)},
            targets=(TARGET,),
        ),
    )
    def copy(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 64),)](x, y, x.numel())
        return y
    """
    assert found("KG412", source.replace("TARGET", '"cuda:sm_90"')) == []
    assert "2,048 threads on hip:gfx942" in found("KG412", source.replace("TARGET", '"hip:gfx942"'))[0]


def test_a_global_above_the_import_of_the_language_gets_no_fix():
    source = (
        "SIZE = 4\n\nimport triton\nimport triton.language as tl\n\n\n"
        "@triton.jit\ndef fill(y_ptr):\n    tl.store(y_ptr + tl.program_id(0), SIZE)\n"
    )
    (finding,) = (item for item in lint_files({"kernel.py": source}) if item.code == "KG406")
    assert finding.fixes == ()


def test_constant_of_each_call_is_shown_as_written():
    source = """
    @triton.jit
    def k(x_ptr, n_rows: tl.constexpr):
        tl.store(x_ptr, n_rows)

    def launch(x):
        flat = x.view(-1, x.shape[-1])
        n_rows, _ = {of}.shape
        k[(1,)](x, n_rows)
    """
    for of, counted in (("x", "x.shape[0]"), ("flat", "a count of rows")):
        (message,) = found("KG407", source.format(of=of))
        assert message == (f"n_rows of k is a tl.constexpr and gets n_rows ({counted}): one compilation for each value")


def test_what_a_function_stores_before_it_adds_to_it_needs_no_reset():
    source = """
        import triton
        import triton.language as tl

        @triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
        @triton.jit
        def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
            i = tl.program_id(0)
            tl.store(y_ptr + i, tl.load(x_ptr + i))
            tl.atomic_add(y_ptr + i, 1.0)
    """
    assert "KG401" not in {item.code for item in lint_files({"kernel.py": textwrap.dedent(source)})}
