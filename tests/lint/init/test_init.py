"""Which functions get a stub, where stubs are written, and what they refer to."""

from __future__ import annotations

import ast
import codecs
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from kgate.cli import main
from kgate.lint.init import InitError
from kgate.lint.run import contract_findings, lint
from kgate.source.config import load_config_from
from kgate.source.folder import FolderSnapshot
from kgate.source.index import build_index

PLAIN = """
def scale(x):
    M, N = x.shape
    y = torch.empty_like(x)
    _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
    return y
"""
EAGER = """
def scale_torch(x):
    return x * 2
"""


def source(*parts: str) -> str:
    return dedent(DEVICE) + "\n" + "\n\n".join(dedent(part) for part in parts)


DEVICE = """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * stride + cols, x * 2, mask=mask)
"""


def launchers(result):
    return {stub.launcher for stub in result.stubs}


# Which functions


def test_function_that_launches_is_drafted(repository):
    repository.write(ops=source(PLAIN))
    assert launchers(repository.init()) == {"ops.py::scale"}


def test_autograd_function_is_drafted_as_the_function_that_applies_it(repository):
    host = """
    def forward_impl(x):
        y = torch.empty_like(x)
        _scale_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=1024)
        return y


    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            M, N = x.shape
            return forward_impl(x)

        @staticmethod
        def backward(ctx, dy):
            return forward_impl(dy)


    def scale(x):
        return Scale.apply(x)
    """
    repository.write(ops=source(host))
    result = repository.init()
    assert launchers(result) == {"ops.py::scale"}
    (text,) = result.files.values()
    assert '"x": Tensor("M N", "T"' in text
    assert "Scale.backward" in text


def test_autograd_function_that_no_function_applies_gets_a_function_around_it(repository):
    host = """
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, eps=1e-6):
            M, N = x.shape
            y = torch.empty_like(x)
            _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
            return y
    """
    repository.write(ops=source(host))
    (text,) = repository.init().files.values()
    assert "def Scale(x, eps=1e-06):\n    return Scale_function.apply(x, eps)" in text


def test_parameter_called_self_is_renamed_in_a_function_around_the_launcher(repository):
    host = """
    def scale(self, *, fast=False):
        M, N = self.shape
        y = torch.empty_like(self)
        _scale_kernel[(M,)](self, y, N, self.stride(0), BLOCK=1024)
        return y
    """
    repository.write(ops=source(host))
    text = "".join(repository.init().files.values())
    assert '"input": Tensor("M N"' in text
    assert "def scale(input, *, fast=False):\n    return scale_launcher(input, fast=fast)" in text


def test_default_that_the_new_file_cannot_say_is_left_to_the_launcher(repository):
    host = """
    MODE = object()


    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, kind="row", mode=MODE, eps=1e-6):
            M, N = x.shape
            y = torch.empty_like(x)
            _scale_kernel[(M,)](x, y, N, x.stride(0), BLOCK=1024)
            return y
    """
    repository.write(ops=source(host))
    text = "".join(repository.init().files.values())
    assert 'def Scale(x, kind="row"):\n    return Scale_function.apply(x, kind)' in text


def test_private_launcher_is_drafted_as_its_public_caller(repository):
    host = """
    def _launch(x, y):
        _scale_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=1024)


    def scale(x):
        M, N = x.shape
        y = torch.empty_like(x)
        _launch(x, y)
        return y
    """
    repository.write(ops=source(host))
    assert launchers(repository.init()) == {"ops.py::scale"}


def test_exported_function_is_drafted_although_another_one_calls_it(repository):
    caller = "from pkg.ops import scale\n\n\ndef twice(x):\n    return scale(scale(x))\n"
    repository.write(pkg__INIT="from pkg.ops import scale\n", pkg__ops=source(PLAIN), pkg__more=caller)
    assert launchers(repository.init()) == {"pkg/ops.py::scale"}


def test_callers_in_tests_do_not_count(repository):
    repository.write(ops=source(PLAIN), tests__test_ops="from ops import scale\n\n\ndef check():\n    scale(None)\n")
    assert launchers(repository.init()) == {"ops.py::scale"}


def test_launchers_in_tests_are_left_alone(repository):
    repository.write(tests__ops=source(PLAIN))
    assert repository.init().stubs == ()


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("class Scale:\n    def run(self, x):\n        _scale_kernel[(1,)](x, x, 8, 8, BLOCK=8)\n", "a method"),
        ("def scale(*args):\n    _scale_kernel[(1,)](*args, BLOCK=8)\n", r"\*args"),
    ],
)
def test_what_cannot_be_declared_is_said(repository, host, reason):
    repository.write(ops=source(host))
    result = repository.init()
    assert result.stubs == ()
    assert [item for item in result.skipped if reason.replace("\\", "") in item.reason]


def test_declared_kernels_are_skipped(repository):
    repository.write(ops=source(PLAIN))
    repository.init(dry_run=False)
    again = repository.init()
    assert (again.stubs, again.files, again.declared) == ((), {}, 1)


def test_paths_narrow(repository):
    repository.write(one__ops=source(PLAIN), two__ops=source(PLAIN))
    assert launchers(repository.init("two")) == {"two/ops.py::scale"}


def test_functions_of_one_name_get_names_of_their_own(repository):
    repository.write(one__ops=source(PLAIN), two__ops=source(PLAIN))
    assert {stub.name for stub in repository.init().stubs} == {"scale", "scale_two"}


# Nothing is executed


def test_launchers_for_forks_of_triton_are_listed_with_the_reason(repository):
    repository.write(ops=source(PLAIN), backends___ascend__ops=source(PLAIN))
    result = repository.init()
    assert launchers(result) == {"ops.py::scale"}
    (skipped,) = result.skipped
    assert skipped.launcher == "backends/_ascend/ops.py::scale"
    assert "vendor's own compiler" in skipped.reason


def test_function_without_tensors_is_listed_with_the_reason(repository):
    patcher = """
    def apply_patches(fast: bool = True):
        if fast:
            import somewhere
            somewhere.scale = scale
    """
    repository.write(ops=source(PLAIN, patcher))
    result = repository.init()
    assert launchers(result) == set()
    assert [(item.launcher, item.reason.partition(":")[0]) for item in result.skipped] == [
        ("ops.py::apply_patches", "it takes no tensors")
    ]


AUTOGRAD = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _scale_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=1024)
        return y


def scale(x):
    return Scale.apply(x)
"""


def test_function_nearest_the_launch_is_drafted_of_several_that_wrap_one_autograd_function(repository):
    wrapper = "from ops import Scale\n\n\ndef public_scale(x):\n    return Scale.apply(x)\n"
    repository.write(ops=source(AUTOGRAD), api=wrapper)
    result = repository.init()
    assert launchers(result) == {"ops.py::scale"}
    (skipped,) = result.skipped
    assert skipped.launcher == "api.py::public_scale"
    assert "applies Scale as ops.py::scale does" in skipped.reason


def test_functions_that_apply_different_autograd_functions_are_all_drafted(repository):
    other = AUTOGRAD.replace("Scale", "Grow").replace("def scale", "def grow")
    repository.write(ops=source(AUTOGRAD, other))
    assert launchers(repository.init()) == {"ops.py::scale", "ops.py::grow"}


@pytest.mark.parametrize("place", ["pkg__testing__helpers", "tests__helpers"])
def test_function_for_tests_is_a_reference_and_never_the_fallback(repository, place):
    repository.write(ops=source(PLAIN), **{place: "def scale_reference(x):\n    return x * 2\n"})
    (stub,) = repository.init().stubs
    assert stub.reference.endswith("helpers:scale_reference")
    assert stub.fallback == ""
    assert stub.left == ("what serves inputs outside the envelope of scale",)


def test_lint_has_one_finding_for_a_draft_and_it_names_what_is_left(repository):
    repository.write(ops=source(PLAIN))
    repository.init(dry_run=False)
    found = lint(repository.folder, env={}).findings
    (draft,) = [item for item in found if item.path == "kgate_kernels.py"]
    assert (draft.code, draft.name, draft.severity) == ("KG117", "incomplete-draft", "error")
    assert "scale is a draft: 2 places say TODO (the plain implementation that defines scale, " in draft.message
    assert len(draft.related) == 2
    index = build_index(FolderSnapshot(repository.folder))
    gate, _ = contract_findings(index, load_config_from(repository.folder))
    assert [item.code for item in gate if item.path == "kgate_kernels.py"] == ["KG117"]


def test_mistakes_beside_a_draft_are_still_found(repository):
    repository.write(ops=source(PLAIN))
    repository.init(dry_run=False)
    broken = """
    from kgate import Dim, Envelope, Tensor, kernel

    from ops import scale

    broken = kernel(
        reference="nowhere:nothing",
        fallback="nowhere:nothing",
        envelope=Envelope(inputs={"x": Tensor("N", "float32")}, outputs={"y": Tensor("N", "float32")}, dims={}),
    )(scale)
    """
    repository.write(more=broken)
    codes = {item.code for item in lint(repository.folder, env={}).findings if item.path == "more.py"}
    assert codes
    assert "KG117" not in codes


def test_code_is_never_run(repository):
    repository.write(ops=source("raise SystemExit('imported')\n", PLAIN))
    assert launchers(repository.init()) == {"ops.py::scale"}


# The file


def test_written_file_is_read_with_no_finding_but_its_placeholders(repository):
    repository.write(ops=source(PLAIN))
    repository.init(dry_run=False)
    found = build_index(FolderSnapshot(repository.folder)).findings
    assert {item.code for item in found} == {"unresolvable-reference", "unresolvable-fallback"}
    assert all("TODO" in item.message and item.path == "kgate_kernels.py" for item in found)


def test_complete_stub_is_a_declaration(repository):
    repository.write(ops=source(PLAIN, EAGER))
    result = repository.init(dry_run=False)
    assert result.stubs[0].left == ()
    (declaration,) = build_index(FolderSnapshot(repository.folder)).declarations
    assert (declaration.name, declaration.reference) == ("scale", "ops:scale_torch")


def test_written_file_is_formatted_as_ruff_does(repository):
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed here")
    wrapper = """
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            M, N = x.shape
            y = torch.empty_like(x)
            _scale_kernel[(M, N)](x, y, N, x.stride(0), BLOCK=1024)
            return y, M
    """
    long = PLAIN.replace("scale(x)", f"scale_{'long_' * 18}name(x, mode: int)")
    repository.write(ops=source(PLAIN, wrapper, long))
    repository.init(dry_run=False)
    (repository.folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 120\n")
    check = [ruff, "format", "--check", "--isolated", "--line-length", "120", "kgate_kernels.py"]
    done = subprocess.run(check, cwd=repository.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernels_that_are_complete_stand_in_a_file_of_their_own(repository):
    repository.write(one=source(PLAIN, EAGER), two=source(PLAIN.replace("def scale", "def other")))
    files = repository.init().files
    assert "TODO:" not in files["kgate_kernels.py"]
    assert "other = kernel(" in files["kgate_kernels_todo.py"]


def test_every_inferred_part_names_its_line(repository):
    repository.write(ops=source(PLAIN))
    (text,) = repository.init().files.values()
    assert "# ops.py:17 M, N = x.shape" in text


def test_existing_file_is_left_as_it_is(repository):
    repository.write(ops=source(PLAIN), kgate_kernels="KEEP = 1\n")
    with pytest.raises(InitError, match="is left as it is"):
        repository.init(dry_run=False)
    assert (repository.folder / "kgate_kernels.py").read_text() == "KEEP = 1\n"


def test_append_adds_what_is_not_declared_yet_and_keeps_the_rest(repository):
    repository.write(one=source(PLAIN, EAGER))
    repository.init(dry_run=False)
    file = repository.folder / "kgate_kernels.py"
    edited = file.read_text().replace('"T": ("float16", "bfloat16", "float32")', '"T": ("bfloat16",)  # ours')
    file.write_text(edited)
    repository.write(two=source(PLAIN.replace("def scale", "def scale_again")))
    result = repository.init(dry_run=False, append=True)
    text = file.read_text()
    assert launchers(result) == {"two.py::scale_again"}
    assert "# ours" in text
    assert text.index("from two import") < text.index("scale = kernel(") < text.index("scale_again = kernel(")
    ast.parse(text)
    assert len(build_index(FolderSnapshot(repository.folder)).sites) == 2


def test_many_kernels_go_to_a_folder_with_a_file_per_module(repository):
    host = "\n\n".join(PLAIN.strip().replace("def scale", f"def scale_{n}") for n in range(25))
    repository.write(pkg__one=source(host), pkg__two=source(PLAIN))
    files = repository.init(dry_run=False).files
    assert set(files) == {"kgate_kernels/__init__.py", "kgate_kernels/one.py", "kgate_kernels/two.py"}
    assert repository.init().stubs == ()


def test_dry_run_writes_nothing(repository):
    repository.write(ops=source(PLAIN))
    repository.init(dry_run=True)
    assert not (repository.folder / "kgate_kernels.py").exists()


def test_configuration_is_added_only_when_asked_for(repository):
    repository.write(pkg__ops=source(PLAIN))
    (repository.folder / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    assert repository.init(dry_run=False, output="first.py").configuration == '[tool.kgate]\nrequire = ["pkg/**"]\n'
    assert "tool.kgate" not in (repository.folder / "pyproject.toml").read_text()
    (repository.folder / "first.py").unlink()
    repository.init(dry_run=False, configure=True)
    text = (repository.folder / "pyproject.toml").read_text()
    assert text.startswith('[project]\nname = "theirs"\n')
    assert '[tool.kgate]\nrequire = ["pkg/**"]' in text


@pytest.mark.parametrize("before", ['[project]\r\nname = "x"', '[project]\r\nname = "x"\r\n', "\r\n", ""])
def test_configuration_keeps_every_byte_of_the_file(repository, before):
    repository.write(pkg__ops=source(PLAIN))
    place = repository.folder / "pyproject.toml"
    place.write_bytes(before.encode())
    repository.init(dry_run=False, configure=True)
    after = place.read_bytes()
    assert after.startswith(before.encode())
    assert not before or b"\n" not in after.replace(b"\r\n", b"")
    assert load_config_from(repository.folder).require == ("pkg/**",)


def test_configuration_that_cannot_take_a_table_is_refused_before_anything_is_written(repository):
    repository.write(ops=source(PLAIN))
    (repository.folder / "pyproject.toml").write_text("tool = {}\n")
    with pytest.raises(InitError, match="cannot take a"):
        repository.init(dry_run=False, configure=True)
    assert sorted(path.name for path in repository.folder.iterdir()) == ["ops.py", "pyproject.toml"]


def test_interrupted_configuration_leaves_the_old_one(repository, monkeypatch):
    repository.write(ops=source(PLAIN))
    (repository.folder / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr("kgate.lint.fixes.writing.os.fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        repository.init(dry_run=False, configure=True)
    assert (repository.folder / "pyproject.toml").read_text() == "[project]\n"
    assert not list(repository.folder.glob("*.tmp")) + list(repository.folder.glob(".*.tmp"))


def test_proposed_configuration_does_not_depend_on_what_is_declared(repository):
    repository.write(one__ops=source(PLAIN), two__ops=source(PLAIN.replace("def scale", "def again")))
    proposed = repository.init(dry_run=False).configuration
    assert proposed == '[tool.kgate]\nrequire = ["one/**", "two/**"]\n'
    assert repository.init().stubs == ()
    assert repository.init().configuration == proposed


def test_proposed_configuration_covers_kernels_beside_the_folders(repository):
    repository.write(pkg__ops=source(PLAIN), top=source(PLAIN.replace("def scale", "def again")))
    assert repository.init().configuration == '[tool.kgate]\nrequire = ["**"]\n'


@pytest.mark.parametrize(
    ("before", "first"),
    [
        (b"#!/usr/bin/env python\r\n# Licence.\r\n\r\nX = 1\r\n", b"#!/usr/bin/env python\r\n# Licence.\r\nfrom "),
        (b"# coding: latin-1\n# \xe9\nX = '\xe9'\n", b"# coding: latin-1\n# \xe9\nfrom "),
        (b"\xef\xbb\xbfX = 1\n", b"\xef\xbb\xbffrom "),
        (b'"""Ours."""; X = (\n1,)\n', b'"""Ours."""; X = (\n1,)\nfrom '),
        (b"# only this", b"# only this\nfrom "),
        (b"import os; X = (\n1,)\n\x0c\nY = '\xe2\x80\xa8'\n", b"import os; X = (\n1,)\nfrom "),
        (b"", b"from "),
    ],
    ids=["crlf", "latin-1", "mark", "docstring", "comment", "form-feed", "empty"],
)
def test_append_keeps_every_byte_and_puts_imports_below_the_head(repository, before, first):
    repository.write(ops=source(PLAIN))
    file = repository.folder / "kernels.py"
    file.write_bytes(before)
    repository.init(dry_run=False, append=True, output="kernels.py")
    after = file.read_bytes()
    assert after.startswith(first)
    kept = [line for line in before.removeprefix(codecs.BOM_UTF8).splitlines() if line.strip()]
    assert [line for line in after.removeprefix(codecs.BOM_UTF8).splitlines() if line in kept] == kept
    assert after.count(b"\n") == after.count(b"\r\n") or b"\r\n" not in after
    compile(after, "kernels.py", "exec")
    assert len(build_index(FolderSnapshot(repository.folder)).sites) == 1


def test_append_to_a_file_that_cannot_hold_it_is_refused(repository):
    repository.write(ops=source(PLAIN).replace("M, N = x.shape", "M, N = x.shape  # \u00e9\u2192"))
    file = repository.folder / "kernels.py"
    for content in (b"# coding: latin-1\n", b"# \xff\n", b"def broken(:\n"):
        file.write_bytes(content)
        with pytest.raises(InitError) as caught:
            repository.init(dry_run=False, append=True, output="kernels.py")
        assert "kernels.py" in caught.value.message
        assert "--output" in caught.value.remedy
        assert file.read_bytes() == content


@pytest.mark.parametrize("kind", ["folder", "dangling", "outside"])
def test_what_is_in_the_way_is_named_and_another_place_proposed(repository, tmp_path_factory, kind):
    repository.write(ops=source(PLAIN))
    place = repository.folder / "kgate_kernels.py"
    if kind == "folder":
        place.mkdir()
    else:
        place.symlink_to((repository.folder if kind == "dangling" else tmp_path_factory.mktemp("other")) / "none")
    with pytest.raises(InitError, match="kgate_kernels") as caught:
        repository.init(dry_run=False)
    assert "--output" in caught.value.remedy
    assert not (repository.folder / "none").exists()


def test_file_in_the_way_of_a_folder_is_named(repository):
    host = "\n\n".join(PLAIN.strip().replace("def scale", f"def scale_{n}") for n in range(25))
    repository.write(pkg__one=source(host), pkg__two=source(PLAIN))
    (repository.folder / "kgate_kernels").write_text("")
    with pytest.raises(InitError, match="kgate_kernels is in the way") as caught:
        repository.init(dry_run=False)
    assert "--output" in caught.value.remedy


# References and registrations


def test_plain_implementation_near_by_is_the_reference(repository):
    repository.write(pkg__ops=source(PLAIN), pkg__naive="def naive_scale(x):\n    return x * 2\n")
    (stub,) = repository.init().stubs
    assert stub.reference == stub.fallback == "pkg.naive:naive_scale"


def test_candidate_that_takes_other_arguments_is_named_and_not_used(repository):
    repository.write(ops=source(PLAIN, "def scale_ref(rows, factor):\n    return rows * factor\n"))
    result = repository.init()
    assert result.stubs[0].reference == ""
    assert "ops:scale_ref (ops.py:23), which takes other arguments" in "".join(result.files.values())


def test_overridden_aten_operator_is_the_reference(repository):
    table = "from ops import scale\n\nTABLE = (\n    ('relu', scale),\n    ('other.int', scale),\n)\n"
    repository.write(ops=source(PLAIN), table=table)
    result = repository.init(dry_run=False)
    assert result.stubs[0].left == ()
    text = "".join(result.files.values())
    assert "def scale_reference(x):\n    return torch.ops.aten.relu.default(x)\n" in text
    (declaration,) = build_index(FolderSnapshot(repository.folder)).declarations
    assert declaration.reference == "kgate_kernels:scale_reference"


def test_operator_that_writes_to_out_is_not_called_like_its_launcher(repository):
    repository.write(ops=source(PLAIN), table="from ops import scale\n\nTABLE = [('relu.out', scale), ('x', 1)]\n")
    assert repository.init().stubs[0].reference == ""


def test_capabilities_of_a_decorator_are_the_targets(repository):
    decorator = "def supported_compute_capability(numbers):\n    return lambda function: function\n"
    repository.write(ops=source(decorator, "@supported_compute_capability([80, 90])\n" + PLAIN.strip()))
    text = "".join(repository.init().files.values())
    assert '"cuda:sm_80",' in text
    assert '"cuda:sm_90",' in text


def test_custom_operator_is_wrapped_and_its_mutated_arguments_are_marked(repository):
    host = """
    @torch.library.custom_op("ns::scale_into", mutates_args={"out"})
    def scale_into(x: torch.Tensor, out: torch.Tensor) -> None:
        M, N = x.shape
        assert out.shape == x.shape
        _scale_kernel[(M,)](x, out, N, x.stride(0), BLOCK=1024)
    """
    repository.write(ops=source(host))
    text = "".join(repository.init().files.values())
    assert "mutated=True" in text
    assert "@kernel(" in text
    assert "return scale_into_launcher(x, out)" in text


def test_definition_says_the_envelope_and_carries_the_reference(repository):
    definition = {
        "name": "scale_n128",
        "op_type": "scale",
        "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 128}},
        "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
        "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
        "reference": "def run(x):\n    return x * 2",
    }
    repository.write(ops=source(PLAIN))
    folder = repository.folder / "definitions" / "scale"
    folder.mkdir(parents=True)
    (folder / "scale_n128.json").write_text(json.dumps(definition))
    result = repository.init(dry_run=False)
    assert result.unexpected == ()
    assert result.stubs[0].reference == "kgate_references.scale_n128:run"
    (declaration,) = build_index(FolderSnapshot(repository.folder)).declarations
    assert declaration.envelope.inputs["x"].shape == "batch 128"
    assert declaration.envelope.inputs["x"].dtype == "bfloat16"


@pytest.mark.parametrize("text", ["[", '{"name": "x"}', '{"name": 1, "inputs": []}', '{"name":"x","inputs":{"a":1}}'])
def test_file_that_is_no_definition_is_passed_over(repository, text):
    repository.write(ops=source(PLAIN))
    (repository.folder / "definitions").mkdir()
    (repository.folder / "definitions" / "x.json").write_text(text)
    assert len(repository.init().stubs) == 1


# The command


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str):
    monkeypatch.chdir(folder)
    return CliRunner().invoke(main, ["init", *arguments])


def test_command_says_what_it_wrote_and_what_is_left(repository, monkeypatch):
    repository.write(ops=source(PLAIN))
    result = run(repository.folder, monkeypatch)
    assert result.exit_code == 0
    assert "1 kernel drafted" in result.output
    assert "wrote kgate_kernels.py" in result.output
    assert "left: the plain implementation that defines scale" in result.output


def test_command_names_the_drafts_that_are_nearest_to_complete_and_lists_them_first(repository, monkeypatch):
    repository.write(far=source(PLAIN.replace("scale(x)", "far(x, eps: float)")), near=source(PLAIN, EAGER, ""))
    output = run(repository.folder, monkeypatch).output
    assert output.index("near.py") < output.index("far.py")
    assert "far (3)" in output


def test_command_refuses_to_overwrite(repository, monkeypatch):
    repository.write(ops=source(PLAIN), kgate_kernels="KEEP = 1\n")
    result = run(repository.folder, monkeypatch)
    assert result.exit_code == 2
    assert "--append" in result.output


def test_command_prints_json(repository, monkeypatch):
    repository.write(ops=source(PLAIN))
    document = json.loads(run(repository.folder, monkeypatch, "--dry-run", "--format", "json").stdout)
    assert document["schema"] == "kgate.init/1"
    assert document["stubs"][0]["launcher"] == "ops.py::scale"


def test_dry_run_prints_a_file_that_can_be_read(repository, monkeypatch):
    repository.write(ops=source(PLAIN))
    ast.parse(run(repository.folder, monkeypatch, "--dry-run").stdout)


def test_second_run_has_nothing_to_do(repository, monkeypatch):
    repository.write(ops=source(PLAIN))
    run(repository.folder, monkeypatch)
    result = run(repository.folder, monkeypatch)
    assert result.exit_code == 0
    assert "every launched kernel is declared" in result.output
