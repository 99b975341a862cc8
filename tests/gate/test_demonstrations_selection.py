"""The tour, first part: what a diff selects, in a clone of this repository. Nothing is executed."""

from __future__ import annotations

import json
from typing import Any

ALL = {"matmul", "rms_norm", "softmax", "swiglu"}


def selected(clone: Any) -> set[str]:
    done = clone.kgate("affected", "--format", "json")
    assert done.returncode == 0, done.stderr
    return {item["name"] for item in json.loads(done.stdout)["kernels"]}


def why(clone: Any, kernel: str) -> dict[str, Any]:
    document = json.loads(clone.kgate("why", kernel, "--format", "json").stdout)
    assert {"schema", "base", "head", "kernels"} <= set(document)
    (item,) = document["kernels"]
    return item


def append(clone: Any, path: str, text: str) -> None:
    file = clone.path / path
    file.write_text(file.read_text() + text)


def test_an_untouched_tree_selects_nothing_and_passes(clone: Any) -> None:
    code, report, _ = clone.check()
    assert (code, report["affected"], report["passed"]) == (0, [], 0)
    assert report["kernels"] == len(ALL)


def test_a_changed_comment_a_moved_line_and_a_reformatted_file_select_nothing(clone: Any) -> None:
    append(clone, "kernels/reduction/softmax.py", "\n\n# A remark.\n")
    file = clone.path / "kernels/elementwise/swiglu.py"
    file.write_text("# A remark on top moves every line.\n\n" + file.read_text())
    norm = clone.path / "kernels/normalization/rms_norm.py"
    norm.write_text(
        norm.read_text().replace('"""', "'''").replace("import triton\n", "import triton  # the compiler\n")
    )
    assert selected(clone) == set()
    assert clone.check()[0] == 0


def test_a_changed_helper_selects_exactly_its_kernels_and_why_prints_the_path(clone: Any) -> None:
    helper = clone.path / "kernels/normalization/_helpers.py"
    text = helper.read_text()
    name = text.split("@triton.jit\ndef ", 1)[1].split("(", 1)[0]
    head, body = text.split(f"def {name}(", 1)
    signature, rest = body.split(":\n", 1)
    helper.write_text(f"{head}def {name}({signature}:\n    tl.static_assert(True)\n{rest}")
    assert selected(clone) == {"rms_norm"}
    item = why(clone, "rms_norm")
    assert item["path"] == "kernels/normalization/rms_norm.py"
    first = item["reasons"][0]
    assert first["steps"][0]["symbol"].endswith(f"_helpers.py::{name}")
    assert first["steps"][0]["change"] == "changed"
    assert first["steps"][-1]["symbol"] == "kernels/normalization/rms_norm.py::rms_norm"
    told = clone.kgate("why", "rms_norm").stdout
    assert f"{name} (kernels/normalization/_helpers.py:" in told


def test_a_changed_constant_in_another_module_selects_its_kernels(clone: Any) -> None:
    config = clone.path / "kernels/elementwise/_config.py"
    lines = config.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("TILE_ELEMENTS"))
    lines[at] = "TILE_ELEMENTS = 1024"
    config.write_text("\n".join(lines) + "\n")
    assert selected(clone) == {"swiglu"}
    steps = why(clone, "swiglu")["reasons"][0]["steps"]
    assert steps[0]["symbol"] == "kernels/elementwise/_config.py::TILE_ELEMENTS"


def test_a_changed_autotune_config_selects_its_kernel(clone: Any) -> None:
    import re

    changed = []
    for path in sorted((clone.path / "kernels/matmul").glob("*.py")):
        text = path.read_text()
        new = re.sub(r"num_stages=(\d)", lambda found: f"num_stages={int(found[1]) + 1}", text, count=1)
        if new != text:
            path.write_text(new)
            changed.append(path)
            break
    assert changed
    assert selected(clone) == {"matmul"}


def test_a_deleted_helper_selects_its_kernels_and_says_so(clone: Any) -> None:
    (clone.path / "kernels/normalization/_helpers.py").unlink()
    assert selected(clone) == {"rms_norm"}
    (first, *_) = why(clone, "rms_norm")["reasons"]
    assert first["steps"][0]["change"] == "deleted"


def test_a_changed_reference_moves_the_oracle_alone(clone: Any) -> None:
    reference = clone.path / "kernels/references/elementwise.py"
    text = reference.read_text()
    body = text.split("def swiglu", 1)[1]
    statement = next(line for line in body.splitlines() if line.startswith("    return "))
    reference.write_text(text.replace(statement, f"    assert gate.ndim == 2\n{statement}", 1))
    assert selected(clone) == {"swiglu"}
    assert why(clone, "swiglu")["moved"] == ["oracle"]


def test_a_change_of_the_configuration_selects_everything(clone: Any) -> None:
    clone.replace("pyproject.toml", '"cuda:sm_80", "cuda:sm_90"', '"cuda:sm_89", "cuda:sm_90"')
    assert selected(clone) == ALL


def test_an_edited_baseline_selects_its_kernel(clone: Any) -> None:
    file = next((clone.path / "baselines").rglob("softmax/*sm_90.jsonl"))
    append(clone, str(file.relative_to(clone.path)), "\n")
    assert selected(clone) == {"softmax"}
