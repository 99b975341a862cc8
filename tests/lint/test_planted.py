"""The corpus is clean, and a mistake planted in a copy of it is found: one of every rule, and some in the kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgate.lint.examples import default_path, lint_files, read
from kgate.lint.registry import rules
from kgate.source.config import load_config, load_config_from

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "require = ['kernels/**']\nprobe-targets = ['cuda:sm_80', 'cuda:sm_90', 'cuda:sm_100', 'hip:gfx942']\n"


def corpus() -> dict[str, str]:
    """The corpus and its baselines: path to source."""
    files = [*sorted((ROOT / "kernels").rglob("*.py")), *sorted((ROOT / "baselines").rglob("*.jsonl"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


CORPUS = corpus()


def codes(files: dict[str, str], path: str) -> set[str]:
    """Codes of what is found in a file."""
    return {item.code for item in lint_files(files, CONFIG) if item.path == path}


def test_the_corpus_is_clean():
    active = {rule.code for rule in rules() if rule.default}
    assert [item for item in lint_files(CORPUS, CONFIG) if item.code in active] == []


@pytest.mark.parametrize(
    "rule", [rule for rule in rules() if rule.family not in ("files", "baselines")], ids=lambda rule: rule.code
)
def test_a_planted_mistake_of_every_rule_is_found_in_a_copy_of_the_corpus(rule):
    example = next((item for item in rule.invalid if not item.config), None)
    if example is None:
        pytest.skip("the rule needs a configuration of its own")
    snippet = read(example.code, default_path(rule))
    if len(snippet.files) > 1 and any("from kernel" in source for source in snippet.files.values()):
        pytest.skip("the files of the example import each other from the root")
    planted = {f"kernels/planted/{path}": source for path, source in snippet.files.items()}
    found = lint_files({**CORPUS, **planted}, CONFIG)
    wanted = {(f"kernels/planted/{path}", line, column) for path, line, column, _ in snippet.marks}
    assert wanted <= {(item.path, item.line, item.column) for item in found if item.code == rule.code}


SWIGLU = "kernels/elementwise/swiglu.py"
SOFTMAX = "kernels/reduction/softmax.py"
RMS_NORM = "kernels/normalization/rms_norm.py"
MATMUL = "kernels/matmul/matmul.py"


@pytest.mark.parametrize(
    ("path", "old", "new", "code"),
    [
        (SWIGLU, "rows = rows.to(tl.int64)[:, None]", "rows = rows[:, None]", "KG201"),
        (RMS_NORM, "rows = rows.to(tl.int64)[:, None]", "rows = rows[:, None]", "KG201"),
        (SOFTMAX, "row = tl.program_id(0).to(tl.int64)", "row = tl.program_id(0)", "KG201"),
        (SOFTMAX, "cols, y.to(y_ptr.dtype.element_ty), mask=mask)", "cols, y.to(y_ptr.dtype.element_ty))", "KG202"),
        (SOFTMAX, 'cols, mask=mask, other=-float("inf"))', "cols, mask=mask)", "KG203"),
        (SOFTMAX, 'cols, mask=mask, other=-float("inf"))', "cols, mask=mask, other=0.0)", "KG204"),
        (RMS_NORM, "[(triton.cdiv(n_rows, block_m),)]", "[(1, triton.cdiv(n_rows, block_m))]", "KG213"),
        (MATMUL, "acc, input_precision=INPUT_PRECISION)", "acc)", "KG306"),
        (MATMUL, "acc, input_precision=INPUT_PRECISION)", "acc, allow_tf32=True)", "KG307"),
        (MATMUL, "BLOCK_N), dtype=tl.float32)", "BLOCK_N), dtype=tl.float16)", "KG301"),
        (SWIGLU, "y.to(y_ptr.dtype.element_ty)", "y.to(tl.float16)", "KG308"),
        (MATMUL, 'key=["M", "N", "K",', 'key=["M", "N", "k",', "KG403"),
        (SWIGLU, "tl.arange(0, BLOCK_N)", "tl.arange(0, 96)", "KG408"),
        (RMS_NORM, "num_warps=warps_for(", "num_warps=6, maxnreg=warps_for(", "KG412"),
        (RMS_NORM, "[:, None] & (cols < n_cols)", "[:, None] and (cols < n_cols)", "KG415"),
        (SWIGLU, "kernels.references.elementwise:swiglu", "kernels.references.elementwise:swigul", "KG105"),
        (SWIGLU, "    fallback=swiglu_eager,\n", "", "KG104"),
        (SWIGLU, '"bfloat16", "float32")},', '"bfloat16", "float23")},', "KG108"),
        (SWIGLU, '"hip:gfx942"),', '"hip:gfx924"),', "KG109"),
        (SWIGLU, "return (F.silu", "return swiglu(gate, up) if gate.numel() else (F.silu", "KG120"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_kernel_of_the_corpus_is_found(path, old, new, code):
    assert old in CORPUS[path], "the kernel has changed; plant the mistake anew"
    assert code in codes({**CORPUS, path: CORPUS[path].replace(old, new, 1)}, path)


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        (lambda files, at: files.pop(at), SOFTMAX, "KG701"),
        (lambda files, at: files.update({SOFTMAX: files[SOFTMAX].replace("e / tl", "e * 1 / tl")}), SOFTMAX, "KG702"),
        (lambda files, at: files.update({at.replace("/softmax/", "/softmin/", 1): files.pop(at)}), None, "KG703"),
        (lambda files, at: files.update({at: "<<<<<<< ours\n" + files[at]}), None, "KG704"),
        (lambda files, at: files.update({at: files[at].replace('"registers": ', '"registers": 1', 1)}), None, "KG705"),
    ],
    ids=["missing", "stale", "obsolete", "conflicted", "edited"],
)  # fmt: skip
def test_a_mistake_in_the_baselines_is_found(change, path, code):
    files = dict(CORPUS)
    at = "baselines/kernels/reduction/softmax/softmax/cuda-sm_90.jsonl"
    change(files, at)
    found = [item for item in lint_files(files, CONFIG) if item.code == code]
    assert len(found) == 1
    assert found[0].path == path or path is None


def test_the_configuration_of_the_copy_is_the_one_of_this_repository():
    ours = load_config_from(ROOT)
    copied = load_config(lambda path: CONFIG.encode() if path == "kgate.toml" else None)
    assert (copied.require, copied.probe_targets) == (ours.require, ours.probe_targets)
