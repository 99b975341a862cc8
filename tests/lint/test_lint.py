"""``kgate lint``: declarations and undeclared kernels, read without executing anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgate.lint.run import LintOptions, lint

UNDECLARED = "KG101"
ROOT = Path(__file__).resolve().parents[2]

DEVICE = """\
import triton
import triton.language as tl

@triton.jit
def _double(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

"""
BARE = DEVICE + "def double(x):\n    _double[(1,)](x, x.numel(), BLOCK=128)\n"
DECLARED = (
    "from kgate import Dim, Envelope, Tensor, kernel\n"
    + DEVICE
    + """\
def plain(x):
    return 2 * x

@kernel(
    reference=plain,
    fallback=plain,
    envelope=Envelope(
        inputs={"x": Tensor("N", "T", mutated=True, layout="contiguous")},
        outputs={},
        dtypes={"T": ("float32",)},
        dims={"N": Dim(1, 128)},
        targets=("cuda:sm_90",),
    ),
)
def double(x):
    _double[(1,)](x, x.numel(), BLOCK=128)
"""
)


def project(tmp_path: Path, source: str, config: str = "") -> Path:
    (tmp_path / "ops.py").write_text(source)
    if config:
        (tmp_path / "kgate.toml").write_text(config)
    return tmp_path


CONFIGURED = "require = ['**']\n"


def test_a_declared_kernel_is_silent(tmp_path: Path) -> None:
    result = lint(project(tmp_path, DECLARED, CONFIGURED))
    assert result.findings == ()
    assert result.kernels == 1


def test_an_undeclared_kernel_is_an_error_where_the_project_is_configured(tmp_path: Path) -> None:
    (finding,) = (item for item in lint(project(tmp_path, BARE, CONFIGURED)).findings if item.code == UNDECLARED)
    assert (finding.code, finding.severity, finding.path, finding.line) == (UNDECLARED, "error", "ops.py", 5)
    assert "launched by `double` (ops.py:10)" in finding.message
    assert "@kernel(" in finding.remedy


def test_a_repository_that_never_configured_kgate_gets_one_note(tmp_path: Path) -> None:
    result = lint(project(tmp_path, BARE + BARE.replace("double", "triple")))
    assert result.findings == ()
    (note,) = result.notes
    assert "2 kernels are launched and not declared" in note


@pytest.mark.parametrize("config", ["require = ['other/**']\n", "exclude = ['ops.py']\n"])
def test_files_outside_require_or_inside_exclude_are_left_alone(tmp_path: Path, config: str) -> None:
    assert lint(project(tmp_path, BARE, config)).findings == ()


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ('("float32",)', '("float23",)', "unknown-dtype", 19),
        ("Dim(1, 128)", "Dim(5, 4)", "empty-envelope", 20),
        ('"cuda:sm_90"', '"cuda:sm_91"', "unknown-target", 21),
        ('Tensor("N"', 'Tensor("N K"', "bad-shape", 17),
        ("targets=(", 'where=("N %% 8 ==",), targets=(', "bad-where-clause", 21),
    ],
)
def test_a_mistake_in_a_declaration_has_its_place_and_a_remedy(
    tmp_path: Path, old: str, new: str, rule: str, line: int
) -> None:
    findings = lint(project(tmp_path, DECLARED.replace(old, new.replace("%%", "%")), CONFIGURED)).findings
    found = {item.name: item for item in findings if item.code != UNDECLARED}
    assert rule in found, findings
    assert found[rule].line == line
    assert found[rule].remedy


def test_paths_narrow_the_findings(tmp_path: Path) -> None:
    project(tmp_path, BARE, CONFIGURED)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.py").write_text(BARE)
    assert [item.path for item in lint(tmp_path, LintOptions(paths=("sub",))).findings] == ["sub/more.py"]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    blocked = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert name.partition('.')[0] not in ('torch', 'triton', 'numpy'), name\n"
        "sys.meta_path.insert(0, Block())\n"
        "from kgate.cli import main\n"
        f"main({list(arguments)!r}, prog_name='kgate')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", blocked]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_command_imports_neither_torch_nor_triton_nor_numpy(tmp_path: Path) -> None:
    done = run(project(tmp_path, BARE, CONFIGURED), "lint", "--format", "json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "kgate.lint/2"
    assert UNDECLARED in [item["code"] for item in document["findings"]]


def test_a_path_that_does_not_exist_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    done = run(project(tmp_path, BARE), "lint", "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_configuration_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    done = run(project(tmp_path, BARE, "requir = []\n"), "lint")
    assert done.returncode == 2
    assert "did you mean 'require'?" in done.stderr


def test_a_file_that_does_not_parse_is_a_finding(tmp_path: Path) -> None:
    (finding, *_) = lint(project(tmp_path, "import triton\ndef (:\n", CONFIGURED)).findings
    assert (finding.path, finding.line) == ("ops.py", 2)


def test_this_repository_is_sound() -> None:
    result = lint(ROOT)
    assert result.findings == ()
    assert result.kernels >= 4


def test_a_kernel_outside_every_root_is_an_error(tmp_path: Path) -> None:
    project(tmp_path, DECLARED, "[[root]]\npath = 'sub'\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "empty.py").write_text("")
    (finding, *_) = lint(tmp_path).findings
    assert finding.code == "KG115"
    assert finding.path == "ops.py"


CUDA_STRING = """\
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
__global__ void z(float* x) { x[threadIdx.x] = 1; }
void zz(float* x) { z<<<1, 2048>>>(x); }
'''
module = load_inline(name="m", cpp_sources="", cuda_sources=SOURCE, functions=["zz"])
"""


@pytest.mark.parametrize("more", ["", "# a kernel\n"])
def test_cuda_in_a_string_is_looked_at_whatever_words_stand_beside_it(tmp_path, more):
    (tmp_path / "m.py").write_text(CUDA_STRING + more)
    result = lint(tmp_path, LintOptions(select=("KG601", "KG609")))
    assert [(item.code, item.line) for item in result.findings] == [("KG601", 5), ("KG609", 5)]
