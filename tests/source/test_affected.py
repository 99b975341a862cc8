"""What an edit selects: the statements of the design's "Selecting what is affected", each on a real tree."""

from __future__ import annotations

import pytest

from kgate.source.affected import affected, removed_kernels, renamed_kernels


@pytest.fixture
def files(trees):
    scale = trees.declared("scale", "_scale_kernel[(1,)](x, BLOCK=BLOCK)\nreturn x")
    shift = trees.declared("shift", "_shift_kernel[(1,)](x, BLOCK=64)\nreturn x")
    return {
        "ops/__init__.py": "from .scale import scale\nfrom .shift import shift\n",
        "ops/scale.py": trees.HEADER
        + "from ops.constants import BLOCK\nfrom ops.helpers import double\n\n"
        + "@triton.autotune(configs=[triton.Config({'BLOCK': 256}, num_warps=4)], key=['n'])\n"
        + "@triton.heuristics({'EVEN': lambda args: args['n'] % 16 == 0})\n"
        + "@triton.jit\ndef _scale_kernel(x, n, BLOCK: tl.constexpr):\n"
        + "    # twice\n    tl.store(x, double(x))\n\n"
        + scale,
        "ops/shift.py": trees.HEADER
        + "from .helpers import double, triple\n\n"
        + "@triton.jit\ndef _shift_kernel(x, BLOCK: tl.constexpr):\n    tl.store(x, triple(x) + 1)\n\n"
        + shift,
        "ops/helpers.py": "import triton\n\n"
        + '@triton.jit\ndef double(x):\n    """Twice."""\n    return x * 2\n\n'
        + "@triton.jit\ndef triple(x):\n    return x * 3\n",
        "ops/constants.py": "BLOCK = 1024\nOTHER = 3\n",
        "README.md": "words",
    }


def test_an_unchanged_tree_selects_nothing(trees, files):
    assert trees.selected(files, {}) == {}


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("ops/scale.py", ("# twice", "# two times")),
        ("ops/scale.py", ("    # twice\n", "")),
        ("ops/scale.py", ("    tl.store(x, double(x))", "    tl.store(\n        x,\n        double(x),\n    )")),
        ("ops/scale.py", ("import torch\n", "import torch\n\n\n\n# moved down\n")),
        ("ops/scale.py", ("'BLOCK'", '"BLOCK"')),
        ("ops/helpers.py", ('"""Twice."""', '"""Two\n    times."""')),
        ("ops/helpers.py", ('    """Twice."""\n', "")),
        ("ops/constants.py", ("1024", "1_024")),
        ("ops/constants.py", ("OTHER = 3", "OTHER = 4")),
        ("README.md", ("words", "other words")),
    ],
)
def test_what_changes_no_behaviour_selects_nothing(trees, files, path, edit):
    assert trees.selected(files, {path: edit}) == {}


def test_functions_in_another_order_select_nothing(trees, files):
    one, two = files["ops/helpers.py"].removeprefix("import triton\n\n").split("\n\n")
    assert trees.selected(files, {"ops/helpers.py": f"import triton\n\n{two}\n\n{one}\n"}) == {}


def test_windows_line_endings_select_nothing(trees, files):
    crlf = files["ops/helpers.py"].replace("\n", "\r\n").encode()
    assert trees.selected(files, {"ops/helpers.py": crlf}) == {}


def test_a_changed_helper_selects_exactly_its_kernels(trees, files):
    assert trees.selected(files, {"ops/helpers.py": ("x * 2", "x * 2.5")}) == {"scale": ("code",)}
    assert trees.selected(files, {"ops/helpers.py": ("x * 3", "x * 3.5")}) == {"shift": ("code",)}


def test_the_reason_is_the_path_from_the_helper_to_the_kernel(trees, files):
    (reason,) = trees.why(files, {"ops/helpers.py": ("x * 2", "x * 2.5")}, "scale")
    assert reason.sentence == "double (ops/helpers.py:4) changed"
    assert [(step.symbol, step.change) for step in reason.steps] == [
        ("ops/helpers.py::double", "changed"),
        ("ops/scale.py::_scale_kernel", ""),
        ("ops/scale.py::scale", ""),
    ]
    lines = files["ops/scale.py"].split("\n")
    assert "double(x)" in lines[reason.steps[1].line - 1]
    assert "_scale_kernel[(1,)]" in lines[reason.steps[2].line - 1]


def test_a_changed_constant_of_another_module_selects_its_kernels(trees, files):
    assert trees.selected(files, {"ops/constants.py": ("1024", "2048")}) == {"scale": ("code",)}


def test_a_changed_annotation_selects(trees, files):
    assert trees.selected(files, {"ops/shift.py": ("BLOCK: tl.constexpr", "BLOCK: int")}) == {"shift": ("code",)}


@pytest.mark.parametrize(
    "edit", [("256", "128"), ("num_warps=4", "num_warps=8"), ("key=['n']", "key=['m']"), ("% 16", "% 32")]
)
def test_a_changed_autotune_config_or_heuristic_selects(trees, files, edit):
    assert trees.selected(files, {"ops/scale.py": edit}) == {"scale": ("code",)}


def test_a_deleted_helper_selects_its_kernels_and_says_so(trees, files):
    without = files["ops/helpers.py"].split("\n\n")
    edits = {"ops/helpers.py": "\n\n".join([without[0], *without[2:]])}
    assert trees.selected(files, {**edits, "ops/shift.py": ("double, ", "")})["scale"] == ("code",)
    assert any("double" in r.sentence and "was deleted" in r.sentence for r in trees.why(files, edits, "scale"))


def test_a_deleted_helper_selects_a_kernel_whose_module_still_imports_it(trees, files):
    without = files["ops/helpers.py"].split("\n\n")
    edits = {"ops/helpers.py": "\n\n".join([without[0], *without[2:]])}
    assert trees.selected(files, edits) == {"scale": ("code",), "shift": ("code",)}


def test_a_deleted_module_selects_what_imported_it(trees, files):
    selected = trees.selected(files, {"ops/helpers.py": None})
    assert selected == {"scale": ("code",), "shift": ("code",)}
    reasons = trees.why(files, {"ops/helpers.py": None}, "shift")
    step = reasons[0].steps[-1]
    assert step.symbol == "ops/shift.py::shift"


def test_a_changed_reference_moves_the_oracle_alone(trees, files):
    assert trees.selected(files, {"ops/scale.py": ("x * 2\n", "x * 2.0\n")}) == {"scale": ("oracle",)}


def test_a_changed_fallback_moves_the_dispatch_alone(trees, files):
    assert trees.selected(files, {"ops/scale.py": ("return x + x", "return 2 * x")}) == {"scale": ("dispatch",)}


def test_a_changed_envelope_moves_the_dispatch_alone(trees, files):
    assert trees.selected(files, {"ops/scale.py": ("Dim(0, 4096)", "Dim(0, 8192)")}) == {"scale": ("dispatch",)}
    (reason,) = trees.why(files, {"ops/scale.py": ("Dim(0, 4096)", "Dim(0, 8192)")}, "scale")
    assert reason.sentence.startswith("the envelope of scale (ops/scale.py:")


def test_changed_numerics_move_the_oracle_alone(trees, files):
    edit = ('outputs={"y": Tensor("N", "T")}', 'outputs={"y": Tensor("N", "T", numerics=Numerics(roundings=1))}')
    assert trees.selected(files, {"ops/scale.py": edit}) == {"scale": ("oracle",)}


def test_a_reformatted_declaration_selects_nothing(trees, files):
    edits = {"ops/scale.py": ('dims={"N": Dim(0, 4096)}', 'dims={"N": Dim(0, 2**12)}')}
    assert trees.selected(files, edits) == {}


def test_a_new_workload_moves_the_dispatch_and_its_source_moves_nothing(trees, files):
    with_one = trees.changed(
        files,
        {
            "ops/scale.py": (
                "envelope=Envelope",
                'workloads=(Workload(N=8, T="float16", source="a"),), envelope=Envelope',
            )
        },
    )
    (item,) = affected(trees.index(files), trees.index(with_one))
    assert item.moved == ("dispatch",)
    assert trees.selected(with_one, {"ops/scale.py": ('source="a"', 'source="b"')}) == {}


def test_a_new_kernel_is_new(trees, files):
    more = trees.HEADER + trees.declared("negate", "return -x")
    assert trees.selected(files, {"ops/negate.py": more}) == {"negate": ("new",)}


def test_without_a_base_every_kernel_is_new(trees, files):
    assert [(item.name, item.moved) for item in affected(None, trees.index(files))] == [
        ("scale", ("new",)),
        ("shift", ("new",)),
    ]


def test_a_removed_kernel_is_listed_apart(trees, files):
    edits = {"ops/shift.py": None, "ops/__init__.py": ("from .shift import shift\n", "")}
    base, head = trees.index(files), trees.index(trees.changed(files, edits))
    assert affected(base, head) == []
    assert [kernel.kernel for kernel in removed_kernels(base, head)] == ["ops/shift.py::shift"]


def test_a_kernel_whose_declaration_broke_is_not_removed(trees, files):
    broken = trees.changed(files, {"ops/shift.py": ('"float16"', '"float17"')})
    head = trees.index(broken)
    assert removed_kernels(trees.index(files), head) == []
    assert [finding.code for finding in head.findings] == ["unknown-dtype"]


def test_a_kernel_in_a_file_that_does_not_parse_is_not_removed(trees, files):
    head = trees.index(trees.changed(files, {"ops/shift.py": ("import torch\n", "import torch (\n")}))
    assert removed_kernels(trees.index(files), head) == []
    assert [(finding.code, finding.severity) for finding in head.findings] == [("unreadable-file", "error")]


def test_a_moved_kernel_is_followed_and_not_selected(trees, files):
    moved = trees.changed(
        files, {"ops/shift.py": None, "ops/more/shift.py": files["ops/shift.py"].replace(".helpers", "ops.helpers")}
    )
    moved["ops/more/__init__.py"] = ""
    moved["ops/__init__.py"] = files["ops/__init__.py"].replace(".shift", ".more.shift")
    base, head = trees.index(files), trees.index(moved)
    assert affected(base, head) == []
    assert removed_kernels(base, head) == []
    assert renamed_kernels(base, head) == {"ops/more/shift.py::shift": "ops/shift.py::shift"}


def test_a_renamed_kernel_is_followed(trees, files):
    text = files["ops/shift.py"].replace("def shift(x)", "def shift_by_one(x)")
    base, head = trees.index(files), trees.index(trees.changed(files, {"ops/shift.py": text}))
    assert renamed_kernels(base, head) == {"ops/shift.py::shift_by_one": "ops/shift.py::shift"}
    assert removed_kernels(base, head) == []


def test_a_kernel_that_was_moved_and_changed_is_not_new(trees, files):
    text = files["ops/shift.py"].replace(".helpers", "ops.helpers").replace("triple(x) + 1", "triple(x) + 2")
    package = files["ops/__init__.py"].replace(".shift", ".more.shift")
    moved = trees.changed(files, {"ops/shift.py": None, "ops/more/shift.py": text, "ops/__init__.py": package})
    (item,) = affected(trees.index(files), trees.index(moved))
    assert (item.moved, item.was) == (("code",), "ops/shift.py::shift")


def test_a_moved_helper_selects_nothing(trees, files):
    helpers = files["ops/helpers.py"]
    edits = {
        "ops/helpers.py": None,
        "ops/device.py": helpers,
        "ops/scale.py": ("ops.helpers", "ops.device"),
        "ops/shift.py": (".helpers", ".device"),
    }
    assert trees.selected(files, edits) == {}


def test_two_helpers_of_one_name_that_change_places_select(trees):
    files = {
        "a.py": "def pick(x):\n    return x + 1\n",
        "b.py": "def pick(x):\n    return x + 2\n",
        "k.py": trees.HEADER
        + "from a import pick as one\nfrom b import pick as two\n"
        + trees.declared("both", "return one(x) - two(x)"),
    }
    edits = {"k.py": ("from a import pick as one\nfrom b import", "from b import pick as one\nfrom a import")}
    assert trees.selected(files, edits) == {"both": ("code",)}
    (reason,) = trees.why(files, edits, "both")
    assert "now means" in reason.sentence


def test_the_same_helpers_taken_from_deeper_places_select(trees):
    files = {
        "a/__init__.py": "", "b/__init__.py": "",
        "a/n.py": "STEP = 1\n", "b/n.py": "STEP = 2\n",
        "a/h.py": "from .n import STEP\ndef pick(x):\n    return x + STEP\n",
        "b/h.py": "from .n import STEP\ndef pick(x):\n    return x + STEP\n",
        "k.py": trees.HEADER
        + "from a.h import pick as one\nfrom b.h import pick as two\n"
        + trees.declared("both", "return one(x) - two(x)"),
    }  # fmt: skip
    edits = {"k.py": ("from a.h import pick as one\nfrom b.h import", "from b.h import pick as one\nfrom a.h import")}
    assert trees.selected(files, edits) == {"both": ("code",)}


def test_an_import_that_leads_elsewhere_outside_the_tree_selects(trees):
    files = {"k.py": trees.HEADER + "from torch import sin as f\n" + trees.declared("wave", "return f(x)")}
    assert trees.selected(files, {"k.py": ("import sin", "import cos")}) == {"wave": ("code",)}


def test_one_kernel_that_calls_another_depends_on_its_code_and_not_on_its_envelope(trees):
    files = {
        "a.py": trees.HEADER + trees.declared("inner", "return x * 7"),
        "b.py": trees.HEADER + "from a import inner\n" + trees.declared("outer", "return inner(x)"),
    }
    assert trees.selected(files, {"a.py": ("x * 7", "x * 8")}) == {"inner": ("code",), "outer": ("code",)}
    assert trees.selected(files, {"a.py": ("4096", "2048")}) == {"inner": ("dispatch",)}


def test_the_selected_set_is_in_order_and_the_same_every_time(trees, files):
    base = trees.index(files)
    head = trees.index(trees.changed(files, {"ops/helpers.py": "import triton\n"}))
    first = affected(base, head)
    assert [item.kernel for item in first] == ["ops/scale.py::scale", "ops/shift.py::shift"]
    again = affected(trees.index(files), trees.index(trees.changed(files, {"ops/helpers.py": "import triton\n"})))
    assert again == first
