"""The tour, third part: baselines that are accepted, damaged, or measured by another toolchain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TARGET = "cuda:sm_90"
FASTER = ("--probe", "codegen", "--target", TARGET)


def line_file(clone: Any, kernel: str = "swiglu") -> Path:
    return next((clone.path / "baselines").rglob(f"{kernel}/cuda-sm_90.jsonl"))


def widen(clone: Any) -> None:
    """A change that costs registers or occupancy, and leaves results right."""
    clone.replace("kernels/elementwise/_config.py", "TILE_ELEMENTS = 2048", "TILE_ELEMENTS = 65536")


def test_bless_needs_a_reason_then_accepts_and_the_next_check_passes(clone: Any) -> None:
    widen(clone)
    assert clone.check(*FASTER)[0] == 1
    before = line_file(clone).read_bytes()
    refused = clone.kgate("bless", "swiglu", "--target", TARGET)
    assert refused.returncode == 2
    assert "--reason" in refused.stdout
    assert line_file(clone).read_bytes() == before
    done = clone.kgate("bless", "swiglu", "--target", TARGET, "--reason", "wider tiles")
    assert done.returncode == 0, done.stdout
    assert " -> " in done.stdout
    assert '"note": "wider tiles"' in line_file(clone).read_text()
    assert clone.check(*FASTER)[0] == 0
    assert "nothing to bless" in clone.kgate("bless", "swiglu", "--target", TARGET).stdout


def test_bless_refuses_in_ci(clone: Any) -> None:
    before = line_file(clone).read_bytes()
    done = clone.kgate("bless", "swiglu", CI="true")
    assert done.returncode == 2
    assert "this is CI" in done.stdout
    assert line_file(clone).read_bytes() == before


def test_a_dry_run_writes_nothing(clone: Any) -> None:
    widen(clone)
    before = line_file(clone).read_bytes()
    done = clone.kgate("bless", "swiglu", "--target", TARGET, "--dry-run")
    assert "dry run" in done.stdout
    assert line_file(clone).read_bytes() == before


def hand_edited(text: str) -> str:
    new, count = re.subn(r'"registers": (\d+)', lambda found: f'"registers": {int(found[1]) + 9}', text, count=1)
    assert count == 1
    return new


DAMAGE = {
    "hand-edited": (hand_edited, "checksum"),
    "conflicted": (lambda text: f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n", "conflict"),
    "truncated": (lambda text: text.rstrip()[:-40], "ends in the middle"),
    "not-text": (lambda text: "\x00\udcff" + text, "not"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_baseline_gives_exit_2_and_a_sentence(clone: Any, kind: str) -> None:
    damage, said = DAMAGE[kind]
    file = line_file(clone)
    file.write_bytes(damage(file.read_text()).encode("utf-8", "surrogateescape"))
    code, report, told = clone.check(*FASTER)
    assert code == 2, told
    problems = [item for item in report["verdicts"] if item["verdict"] == "baseline"]
    assert any(said in item["headline"] for item in problems), problems
    assert all("kgate bless" in " ".join(item["notes"]) for item in problems)


def test_a_missing_baseline_gives_exit_2_and_the_command(clone: Any) -> None:
    line_file(clone).unlink()
    code, report, _ = clone.check("swiglu", *FASTER)
    assert code == 2
    new = [item for item in report["verdicts"] if item["verdict"] == "new"]
    assert new
    assert all(item["accept"].startswith("kgate bless swiglu") for item in new)


def test_a_removed_workload_leaves_an_obsolete_line_that_is_an_error_until_blessed(clone: Any) -> None:
    text = (clone.path / "kernels/elementwise/swiglu.py").read_text()
    line = next(row for row in text.splitlines(keepends=True) if "Workload(M=1, N=14336" in row)
    clone.replace("kernels/elementwise/swiglu.py", line, "")
    code, report, _ = clone.check(*FASTER)
    assert code == 2
    assert any("obsolete" in item["headline"] for item in report["verdicts"])
    assert clone.kgate("bless", "swiglu").returncode == 0
    assert clone.check(*FASTER)[0] == 0


def test_lines_of_another_toolchain_are_no_failure_base_and_head_are_compared(clone: Any) -> None:
    from kgate.baselines.store import Key, load, write_file, write_line

    loaded = load(clone.path)
    for path, file in loaded.files.items():
        if path.endswith("swiglu/cuda-sm_90.jsonl"):
            records: list[tuple[Key | None, str]] = []
            for record in file.records:
                assert record.line is not None
                assert record.key is not None
                from dataclasses import replace

                figures = {label: {**group, "registers": 7} for label, group in record.line.figures.items()}
                line = replace(record.line, toolchain="triton 3.0.0", figures=figures)
                records.append((record.key, write_line(line, file.target)))
            (clone.path / path).write_bytes(write_file(records))
    clone.commit("lines of an old toolchain")
    code, report, told = clone.check("swiglu", *FASTER)
    assert code == 0, told
    assert any("triton 3.0.0" in note for note in report["notes"])
    widen(clone)
    code, report, told = clone.check(*FASTER)
    assert code == 1, told
    failed = [item for item in report["verdicts"] if item["verdict"] == "fail"]
    assert failed
    assert {item["against"] for item in failed} == {"base"}


def test_a_renamed_kernel_keeps_its_lines_until_bless_moves_them(clone: Any) -> None:
    clone.git("mv", "kernels/elementwise/swiglu.py", "kernels/elementwise/gated.py")
    code, report, told = clone.check(*FASTER)
    assert code == 2, told
    (headline,) = {item["headline"] for item in report["verdicts"]}
    assert "former name" in headline
    done = clone.kgate("bless", "swiglu")
    assert done.returncode == 0, done.stdout
    assert not (clone.path / "baselines/kernels/elementwise/swiglu").exists()
    assert list((clone.path / "baselines/kernels/elementwise/gated").rglob("*.jsonl"))
    clone.git("add", "-A")
    code, _, told = clone.check(*FASTER)
    assert code == 0, told


def test_a_removed_kernel_leaves_obsolete_lines_that_bless_removes(clone: Any) -> None:
    (clone.path / "kernels/elementwise/swiglu.py").unlink()
    code, report, told = clone.check()
    assert code == 2, told
    assert any("is obsolete" in item["headline"] for item in report["verdicts"])
    assert any("no longer declared" in note for note in report["notes"])
    done = clone.kgate("bless")
    assert done.returncode == 0, done.stdout
    assert not list((clone.path / "baselines").rglob("swiglu/*.jsonl"))
    assert clone.check()[0] == 0
