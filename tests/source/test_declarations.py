"""Declarations read from source: what can be read, and a finding with its place for everything that cannot."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import pytest

FUNCTIONS = "def ref(x):\n    return x\ndef eager(x):\n    return x\n"


@pytest.fixture
def read(trees):
    """The only declaration of ``k.py``, from its arguments; other files may be given."""

    def make(arguments: str, preamble: str = "", extra: dict | None = None, **options):
        source = f"{trees.HEADER}{preamble}\n{FUNCTIONS}@kernel({arguments})\ndef k(x):\n    return x\n"
        return trees.index({"k.py": source, **(extra or {})}, **options)

    return make


@pytest.fixture
def good(trees):
    return f"reference=ref, fallback=eager, envelope={trees.ENVELOPE}"


def codes(index) -> list[str]:
    return [finding.code for finding in index.findings]


def text_at(index, finding) -> str:
    """The source that a finding points at."""
    lines = index.store.tree.read(finding.path).decode().split("\n")
    if finding.line == finding.end_line:
        return lines[finding.line - 1][finding.column - 1 : finding.end_column - 1]
    first, last = lines[finding.line - 1][finding.column - 1 :], lines[finding.end_line - 1][: finding.end_column - 1]
    return "\n".join([first, *lines[finding.line : finding.end_line - 1], last])


def test_a_declaration_says_where_it_stands(read, good):
    (declaration,) = read(good).declarations
    assert (declaration.identity, declaration.name, declaration.op) == ("k.py::k", "k", "k")
    assert (declaration.module, declaration.qualname, declaration.root) == ("k", "k", ".")
    assert (declaration.reference, declaration.fallback) == ("k:ref", "k:eager")
    assert declaration.line == 10
    assert declaration.column == 2


def test_values_are_read_through_names_arithmetic_spreads_and_strings(read, good):
    preamble = (
        "from sizes import MAX, COMMON, Cfg\nHALF = ('float16', 'bfloat16')\n"
        "FLOATS = (*HALF, 'float32')\nWHO = 'llama'\n"
    )
    extra = {
        "sizes.py": "K = 2 ** 10\nMAX = 4 * K - 1\nCOMMON = {'N': None}\nclass Cfg:\n    TOP = 7\nDIMS = dict(M=1)\n"
    }
    arguments = """
        reference=ref, fallback=eager, op=f"{WHO}_op", name="n" + "m",
        envelope=Envelope(
            inputs={"x": Tensor("M N", "T")}, outputs={"y": Tensor("M N", "T")},
            dtypes={"T": FLOATS}, dims={"M": Dim(0, MAX), "N": Dim(*(1, Cfg.TOP))}, targets=("cuda:sm_80+",),
            where=("M * N < 2**31",),
        ),
        grad=("x",), workloads=[Workload(M=4, N=3, T=HALF[1], source=WHO), *()],
    """
    index = read(arguments, preamble, extra)
    assert codes(index) == []
    (declaration,) = index.declarations
    assert declaration.envelope.dims["M"].hi == 4095
    assert declaration.envelope.dims["N"].hi == 7
    assert declaration.envelope.dtypes["T"] == ("float16", "bfloat16", "float32")
    assert (declaration.op, declaration.name, declaration.grad) == ("llama_op", "nm", ("x",))
    assert declaration.workloads[0].values == {"M": 4, "N": 3, "T": "bfloat16"}


def test_an_envelope_and_arguments_may_be_shared(trees, read):
    extra = {
        "shared.py": f"from kgate import Dim, Envelope, Tensor\nENV = {trees.ENVELOPE}\nCOMMON = dict(envelope=ENV)\n"
    }
    index = read("reference=ref, fallback=eager, **COMMON", "from shared import COMMON", extra)
    assert codes(index) == []
    assert index.declarations[0].envelope.dims["N"].hi == 4096


def test_an_envelope_can_be_changed_with_replace(trees, read):
    preamble = f"BASE = {trees.ENVELOPE}\n"
    index = read("reference=ref, fallback=eager, envelope=BASE.replace(dims={'N': Dim(1, 9)})", preamble)
    assert codes(index) == []
    assert index.declarations[0].envelope.dims["N"].hi == 9


@pytest.mark.parametrize(
    "line",
    [
        "from kgate import kernel as declare\nkernel = None",
        "import kgate\ndeclare = kgate.kernel",
        "import kgate as kg\ndeclare = kg.kernel",
        "from compat import declare",
    ],
)
def test_kernel_is_recognised_under_any_name(trees, good, line):
    source = f"{trees.HEADER}{line}\n{FUNCTIONS}@declare({good})\ndef k(x):\n    return x\n"
    index = trees.index({"k.py": source, "compat.py": "from kgate import kernel as declare\n"})
    assert [declaration.identity for declaration in index.declarations] == ["k.py::k"]


def test_a_file_that_mentions_none_of_kgates_words_is_found_through_its_alias(trees):
    compat = f"from kgate import kernel as declare, Dim, Envelope, Tensor\nENV = {trees.ENVELOPE}\n"
    declaration = "@declare(reference=ref, fallback=eager, envelope=ENV)\ndef k(x):\n    return x\n"
    source = f"from compat import declare, ENV\n{FUNCTIONS}{declaration}"
    index = trees.index({"plain.py": source, "compat.py": compat})
    assert [declaration.identity for declaration in index.declarations] == ["plain.py::k"]


def test_something_else_called_kernel_is_no_declaration(trees):
    source = "from other import kernel\n@kernel(reference=1)\ndef k(x):\n    return x\n"
    index = trees.index({"k.py": source})
    assert (index.declarations, index.findings) == ((), ())


def test_other_peoples_functions_are_declared_from_outside(trees, good):
    source = f"{trees.HEADER}import theirs\n{FUNCTIONS}k = kernel({good})(theirs.run)\n"
    files = {"k.py": source, "theirs.py": "def run(x):\n    return helper(x)\ndef helper(x):\n    return 1\n"}
    index = trees.index(files)
    assert codes(index) == []
    assert index.declarations[0].identity == "k.py::k"
    assert set(index.closure("k.py::k").symbols["code"]) == {"k.py::k", "theirs.py::run", "theirs.py::helper"}
    assert trees.selected(files, {"theirs.py": ("return 1", "return 2")}) == {"k": ("code",)}


def test_functions_are_named_by_string_name_attribute_or_constant(read, good):
    extra = {"refs/norm.py": "def f(x):\n    return x\n", "refs/__init__.py": "from .norm import f as g\n"}
    for value, want in [
        ('"refs.norm:f"', "refs.norm:f"),
        ('"refs:g"', "refs:g"),
        ("refs.g", "refs.norm:f"),
        ("refs.norm.f", "refs.norm:f"),
        ("PLACE", "refs.norm:f"),
        ("torch.nn.functional.softmax", "torch:nn.functional.softmax"),
        ("F.softmax", "torch.nn.functional:softmax"),
        ('"torch.nn.functional:softmax"', "torch.nn.functional:softmax"),
    ]:
        preamble = "import refs.norm\nimport torch.nn.functional as F\nPLACE = 'refs.norm:f'\n"
        index = read(good.replace("reference=ref", f"reference={value}"), preamble, extra)
        assert codes(index) == [], value
        assert index.declarations[0].reference == want, value


def test_a_generator_registered_on_the_kernel_belongs_to_the_oracle(trees, good):
    source = (
        f"{trees.HEADER}{FUNCTIONS}@kernel({good})\ndef k(x):\n    return x\n"
        "@k.generator\ndef inputs(case):\n    return {}\n"
    )
    index = trees.index({"k.py": source})
    assert index.declarations[0].generator == "k:inputs"
    assert "k.py::inputs" in index.closure("k.py::k").symbols["oracle"]
    assert set(index.closure("k.py::k").symbols["code"]) == {"k.py::k"}
    assert trees.selected({"k.py": source}, {"k.py": ("return {}", "return {'x': 1}")}) == {"k": ("oracle",)}


def test_a_generator_may_stand_in_another_file_or_be_an_argument(trees, read, good):
    source = f"{trees.HEADER}{FUNCTIONS}@kernel({good})\ndef k(x):\n    return x\n"
    other = "from k import k\n@k.generator\ndef inputs(case):\n    return {}\n# kernel\n"
    assert trees.index({"k.py": source, "gen.py": other}).declarations[0].generator == "gen:inputs"
    index = read(
        good + ", generator=make, check=judge", "def make(case):\n    return {}\ndef judge(a, b):\n    return a\n"
    )
    assert (index.declarations[0].generator, index.declarations[0].check) == ("k:make", "k:judge")


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ('"float16"', '"float17"', "unknown-dtype", '"float17"'),
        ("Envelope(", 'Envelope(where=("N % 8 == Q",),', "bad-where", 'Q"'),
        ("Dim(0, 4096)", "Dim(9, 3)", "empty-range", "Dim(9, 3)"),
        ("Dim(0, 4096)", "Dim(-2, 3)", "bad-range", "-2"),
        ('inputs={"x": Tensor("N", "T")}', 'inputs={"x": Tensor("N Q", "T")}', "unknown-dim", '"N Q"'),
        ('"x": Tensor("N", "T")', '"x": Tensor("N", "T", layout="odd")', "unknown-layout", '"odd"'),
        ("Envelope(", 'Envelope(targets=("cuda:sm_90", "cuda:sm_1"),', "unknown-target", '"cuda:sm_1"'),
    ],
)
def test_a_mistake_is_found_at_its_own_expression(trees, read, good, old, new, code, place):
    assert old in good
    index = read(good.replace(old, new))
    assert index.declarations == ()
    assert code in codes(index)
    finding = next(finding for finding in index.findings if finding.code == code)
    assert (finding.severity, finding.path, finding.symbol) == ("error", "k.py", "k.py::k")
    assert place in text_at(index, finding)
    assert finding.remedy


def test_a_mistake_in_a_shared_constant_is_found_where_it_is_written(trees, read):
    extra = {"shared.py": f"from kgate import Dim, Envelope, Tensor\nENV = {trees.ENVELOPE.replace('4096', '-4')}\n"}
    index = read("reference=ref, fallback=eager, envelope=ENV", "from shared import ENV", extra)
    (finding,) = index.findings
    assert (finding.code, finding.path) == ("empty-range", "shared.py")
    assert text_at(index, finding) == "Dim(0, -4)"


def test_all_mistakes_are_found_at_once(read, good):
    text = (
        good.replace("Dim(0, 4096)", "Dim(9, 3)").replace("reference=ref", "reference=missing")
        + ", grad=[q for q in 'x']"
    )
    assert sorted(codes(read(text))) == ["empty-range", "unreadable-declaration", "unresolvable-reference"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("fallback=eager, envelope=ENV", "missing-reference"),
        ("reference=ref, envelope=ENV", "missing-fallback"),
        ("reference=ref, fallback=eager", "missing-envelope"),
        ("ref, fallback=eager, envelope=ENV", "bad-arguments"),
        ("reference=ref, fallback=eager, envelope=ENV, refrence=1", "unknown-parameter"),
        ("reference=lambda x: x, fallback=eager, envelope=ENV", "unreadable-declaration"),
        ("reference=make(), fallback=eager, envelope=ENV", "unreadable-declaration"),
        ("reference=nothing, fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference=ref, fallback=helpers.nothing, envelope=ENV", "unresolvable-fallback"),
        ("reference='helpers:nothing', fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference='helpers.deep:f', fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference='no colon', fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference=helpers, fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference=torch, fallback=eager, envelope=ENV", "unresolvable-reference"),
        ("reference=ref, fallback=eager, envelope=make()", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=3", "missing-envelope"),
        ("reference=ref, fallback=eager, envelope=ENV, name=3", "bad-arguments"),
        ("reference=ref, fallback=eager, envelope=TWICE", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=LOOP", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=ENV, grad=GROWN", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=ENV, grad=tuple(n for n in 'x')", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=ENV, grad=2 ** 10 ** 10", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=ENV, grad='x' * 10 ** 9", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=ENV, grad=SELF", "unreadable-declaration"),
        ("reference=ref, fallback=eager, envelope=Envelope(input={})", "bad-arguments"),
    ],
)
def test_what_cannot_be_read_is_a_finding_that_says_so(trees, read, arguments, code):
    preamble = (
        f"import helpers\nENV = {trees.ENVELOPE}\ndef make():\n    return ENV\nTWICE = ENV\nTWICE = ENV\n"
        "for LOOP in (ENV,):\n    pass\nGROWN = ['x']\nGROWN.append('y')\nSELF = SELF\n"
    )
    index = read(arguments, preamble, {"helpers.py": "def f(x):\n    return x\n"})
    assert index.declarations == ()
    assert codes(index) == [code]
    assert index.findings[0].symbol == "k.py::k"


@pytest.mark.parametrize(
    "source",
    [
        "def make(n):\n    @kernel(reference=ref)\n    def inner(x):\n        return x\n    return inner\n",
        "for f in (ref, eager):\n    kernel(reference=ref)(f)\n",
        "KERNELS = [kernel(reference=ref)(f) for f in (ref, eager)]\n",
    ],
)
def test_a_declaration_that_is_made_by_running_code_is_a_finding(trees, source):
    index = trees.index({"k.py": trees.HEADER + FUNCTIONS + source})
    assert set(codes(index)) == {"unreadable-declaration"}


def test_a_kernel_that_is_defined_twice_is_a_finding(trees, good):
    one = f"    @kernel({good})\n    def k(x):\n        return x\n"
    source = f"{trees.HEADER}{FUNCTIONS}if torch.cuda.is_available():\n{one}else:\n{one}"
    assert set(codes(trees.index({"k.py": source}))) == {"declared-twice"}


def test_a_signature_that_does_not_fit_is_found_at_the_function(trees, good):
    source = f"{trees.HEADER}{FUNCTIONS}@kernel({good})\ndef k(x, other):\n    return x\n"
    (finding,) = trees.index({"k.py": source}).findings
    assert finding.code == "parameter-undeclared"
    assert finding.line == source[: source.index("def k(")].count("\n") + 1


def test_a_method_is_no_kernel(trees, good):
    source = f"{trees.HEADER}{FUNCTIONS}class Op:\n    @kernel({good})\n    def run(self, x):\n        return x\n"
    assert codes(trees.index({"k.py": source})) == ["not-a-function"]


def test_columns_count_characters(trees):
    source = f'{trees.HEADER}{FUNCTIONS}é = "ü"; k = kernel(reference=ref, fallback=eager, envelope=nothing)(ref)\n'
    (finding,) = trees.index({"k.py": source}).findings
    assert text_at(trees.index({"k.py": source}), finding) == "nothing"


def test_several_roots_have_their_own_import_names(trees, good):
    source = f"{trees.HEADER}from lib.refs import ref, eager\n@kernel({good})\ndef k(x):\n    return x\n"
    files = {}
    for root in ("one", "two/src"):
        files[f"{root}/ops/k.py"] = source
        files[f"{root}/lib/refs.py"] = FUNCTIONS
    index = trees.index(files, roots=["one", "two"])
    assert [(d.root, d.module, d.reference) for d in index.declarations] == [
        ("one", "ops.k", "lib.refs:ref"),
        ("two", "ops.k", "lib.refs:ref"),
    ]
    assert trees.selected(
        files, {"two/src/lib/refs.py": ("return x\ndef eager", "return 2 * x\ndef eager")}, roots=["one", "two"]
    ) == {"k": ("oracle",)}


def test_kernels_are_found_by_name_identity_file_and_glob(trees):
    files = {f"ops/{name}.py": trees.HEADER + trees.declared(name) for name in ("scale", "shift", "norm")}
    index = trees.index(files)

    def names(pattern: str) -> list[str]:
        return [declaration.name for declaration in index.find(pattern)]

    assert names("scale") == ["scale"]
    assert names("ops/norm.py::norm") == ["norm"]
    assert names("ops/shift.py") == ["shift"]
    assert names("s*") == ["scale", "shift"]
    assert names("ops/*.py::n*") == ["norm"]
    assert names("nothing") == []


def test_excluded_files_declare_nothing_and_still_count_as_helpers(trees, good):
    files = {
        "k.py": trees.HEADER + "from vendor.h import f\n" + trees.declared("k", "return f(x)"),
        "vendor/h.py": trees.HEADER + "def f(x):\n    return 1\n" + trees.declared("theirs"),
    }
    options = {"exclude": ("vendor/**",)}
    assert [d.name for d in trees.index(files, **options).declarations] == ["k"]
    assert trees.selected(files, {"vendor/h.py": ("return 1", "return 2")}, **options) == {"k": ("code",)}


def test_what_was_read_is_what_the_code_says_when_it_runs(trees, tmp_path, monkeypatch):
    source = textwrap.dedent(
        """
        from kgate import Choice, Dim, Envelope, Numerics, Scalar, Tensor, Workload, kernel
        FLOATS = ("float16", "float32")
        def ref(x, weight=None, eps=1e-6, mode="a"):
            return x
        def eager(x, weight=None, eps=1e-6, mode="a"):
            return x
        @kernel(
            reference=ref,
            fallback="described:eager",
            op="norm",
            envelope=Envelope(
                inputs={"x": Tensor("M N", "T", layout="inner_contiguous"), "weight": Tensor("N", "T", optional=True),
                        "eps": Scalar("float", 0.0, 1.0), "mode": Choice("a", "b")},
                outputs={"y": Tensor("M N", "T", numerics=Numerics(reduce="N", roundings=1))},
                dtypes={"T": FLOATS}, dims={"M": Dim(0, 2**20), "N": Dim(1, 65536)},
                where=("M * N < 2**31",), targets=("cuda:sm_80+",),
            ),
            grad=("x",),
            workloads=(Workload(M=4, N=8, T="float16", source="here"),),
        )
        def norm(x, weight=None, eps=1e-6, mode="a"):
            return x
        """
    )
    index = trees.index({"described.py": source})
    assert index.findings == ()
    (tmp_path / "described.py").write_text(source)
    spec = importlib.util.spec_from_file_location("described", tmp_path / "described.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "described", module)
    spec.loader.exec_module(module)
    assert index.declarations[0].description == module.norm.describe()


def test_a_function_of_the_kernels_own_module_may_be_named_by_string(trees):
    body = trees.HEADER + trees.declared("k").replace("reference=k_reference", 'reference="ops.k:k_reference"')
    for files in ({"ops/k.py": body}, {"ops/__init__.py": "", "ops/k.py": body}):
        index = trees.index(files)
        assert codes(index) == []
        assert "ops/k.py::k_reference" in index.closure("ops/k.py::k").symbols["oracle"]


@pytest.mark.parametrize("wrong", ['"k:reff"', '"helpers:reff"', "reff", "helpers.reff", '"helper:ref"'])
def test_a_misspelt_function_is_named_with_the_nearest_name(read, good, wrong):
    extra = {"helpers/__init__.py": "def ref(x):\n    return x\n", "helpers/deep.py": ""}
    wrong = wrong.replace('"helper:ref"', '"helpers.deeep:ref"')
    (finding,) = read(good.replace("reference=ref", f"reference={wrong}"), "import helpers", extra).findings
    assert finding.code == "unresolvable-reference"
    missing, nearest = ("helpers.deeep", "helpers.deep") if "deeep" in wrong else ("reff", "ref")
    assert missing in finding.message
    assert finding.remedy == f"did you mean {nearest!r}?"


@pytest.mark.parametrize("part", ["reference", "fallback", "check", "generator"])
def test_a_module_that_is_nowhere_to_be_found_is_a_warning(trees, read, part):
    parts = {"reference": "ref", "fallback": "eager", "envelope": trees.ENVELOPE, part: "'helpres:f'"}
    index = read(", ".join(f"{k}={v}" for k, v in parts.items()), extra={"helpers.py": "def f(x):\n    return x\n"})
    (finding,) = index.findings
    assert (finding.code, finding.severity) == ("unknown-module", "warning")
    assert finding.message.startswith(f"{part}='helpres:f': there is no module helpres")
    assert "did you mean helpers?" in finding.remedy
    assert len(index.declarations) == 1


@pytest.mark.parametrize("name", ["../../x y", "", "a b", "a/b", ".a", "a..b", "a-", "3", "a\n"])
def test_a_name_that_is_none_is_a_finding_at_its_expression(read, good, name):
    for option in ("name", "op"):
        index = read(f"{good}, {option}={name!r}")
        (finding,) = index.findings
        assert (finding.code, text_at(index, finding)) == ("bad-name", repr(name))
        assert finding.remedy


@pytest.mark.parametrize("name", ["rms_norm", "ops.rms-norm", "norm-2.1", "größe"])
def test_a_name_may_have_dots_and_dashes(read, good, name):
    (declaration,) = read(f"{good}, name={name!r}").declarations
    assert declaration.name == name


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("async def k(x):\n    return x\n", "k is an async function"),
        ("def k(x):\n    yield x\n", "k is a generator"),
        ("def k(x):\n    def inner():\n        yield 1\n    return x\n", ""),
    ],
)
def test_a_launcher_that_its_call_does_not_run_is_a_finding(trees, good, function, said):
    source = f"{trees.HEADER}{FUNCTIONS}@kernel({good})\n{function}"
    outside = f"{trees.HEADER}import theirs\n{FUNCTIONS}run = theirs.k\nk = kernel({good})(run)\n"
    for files in ({"k.py": source}, {"k.py": outside, "theirs.py": function}):
        findings = trees.index(files).findings
        assert [finding.code for finding in findings] == (["not-a-function"] if said else [])
        assert all(finding.message.startswith(said) for finding in findings)


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "remedy"),
    [
        ("Dim(0, 4096)", "Dim(1, 2**200)", "bad-range", "2**200", "Dim(1, 2**63 - 1)"),
        ("Dim(0, 4096)", "Dim(1, 3e2)", "bad-range", "Dim(1, 3e2)", "write Dim(1, 300)"),
        ("Dim(0, 4096)", "Dim(low=1, hi=2)", "bad-arguments", "Dim(low=1, hi=2)", "write Dim(lo, hi)"),
        ("reference=ref, fallback=eager", "ref, fallback=eager", "bad-arguments", "ref", "write kernel(reference="),
    ],
)
def test_a_mistake_says_what_to_write_instead(read, good, old, new, code, place, remedy):
    index = read(good.replace(old, new))
    (finding,) = index.findings
    assert (finding.code, text_at(index, finding)) == (code, place)
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("more", "code", "place"),
    [
        (', depends=("k.py", "no.json")', "depends-missing", '"no.json"'),
        (', sources=("no.cu",)', "sources-missing", '"no.cu"'),
        (", sources=NONE", "sources-missing", '"none.cu"'),
        (", op=3", "bad-arguments", "3"),
    ],
)
def test_a_mistake_in_an_option_is_found_at_its_own_expression(read, good, more, code, place):
    index = read(good + more, 'NONE = ("none.cu",)')
    (finding,) = index.findings
    assert (finding.code, text_at(index, finding)) == (code, place)


def test_an_envelope_that_is_none_is_found_at_its_expression(read):
    index = read("reference=ref, fallback=eager, envelope=None")
    (finding,) = index.findings
    assert (finding.code, text_at(index, finding)) == ("missing-envelope", "None")


def test_a_condition_that_nothing_fulfils_is_found_at_its_expression(read, good):
    index = read(good.replace("Envelope(", 'Envelope(where=("N < 0",),'))
    (finding,) = index.findings
    assert (finding.code, text_at(index, finding)) == ("empty-envelope", '"N < 0"')


CONFLICT = "x = 1\n<<<<<<< HEAD\nfrom kgate import kernel\n=======\nfrom kgate import Dim\n>>>>>>> other\n"


def test_a_file_in_conflict_says_so_at_the_marker(trees):
    (finding,) = trees.index({"k.py": CONFLICT}).findings
    assert (finding.code, finding.line) == ("unreadable-file", 2)
    assert "conflict markers" in finding.message
    assert finding.remedy.startswith("resolve the conflict")
    (finding,) = trees.index({"k.py": "from kgate import kernel\nx = = 1\n"}).findings
    assert "conflict" not in finding.message


def test_the_index_says_why_a_kernel_may_be_missing_from_it(trees, good):
    bad = good.replace("Dim(0, 4096)", "Dim(9, 3)")
    files = {
        "a.py": f"{trees.HEADER}{FUNCTIONS}@kernel({bad})\ndef a(x):\n    return x\n",
        "b.py": CONFLICT,
        "c.py": "x = = 1\n",
        "d.py": f"{trees.HEADER}{FUNCTIONS}@kernel({good}, depends=('no',))\ndef d(x):\n    return x\n",
    }
    index = trees.index(files)
    assert index.find("a") == []
    assert [(f.path, f.code, f.symbol) for f in index.unreadable] == [
        ("a.py", "empty-range", "a.py::a"),
        ("b.py", "unreadable-file", ""),
    ]
