"""Public reports and the rules that answer to them: every one is a rule's source, and a pair of its examples.

A report that has no pair says why not.
"""

from __future__ import annotations

import re

import pytest

from kgate.lint.registry import by_code
from kgate.lint.rule import Rule

NOT_A_BUG = "closed as no bug: an example shows that the rule is quiet about it"
OWN_WORDS = "the code in question is not Triton: a template in CUDA C++, and inside the library"
FLOW = "the undefined lanes reach an index and an assertion, and no reduction"
GUARDED = "the launcher looks at one stride and forgets another; a look at the layout keeps the rule quiet"
EXTENT = "which elements a mask over two indices leaves out is not decided"
LENGTHS = "rows beyond the last offset are left out by lengths that are loaded, which is how packed sequences work"
CONSTANT = "the missing size is a compile-time constant, and no bound of a loop"
SPECIALISED = "a stride of 1 that was specialised; today's Triton compiles it"
NO_BEFORE = "the code before the change is not at hand"

REPORTS = {
    # Memory and indices
    "triton-lang/triton#6748": "KG201",
    "triton-lang/triton#1058": "KG201",
    "linkedin/Liger-Kernel#251": "KG201",
    "linkedin/Liger-Kernel#803": "KG201",
    "linkedin/Liger-Kernel#804": "KG201",
    "linkedin/Liger-Kernel#1248": "KG201",
    "linkedin/Liger-Kernel#1296": "KG201",
    "linkedin/Liger-Kernel#1335": "KG201",
    "fla-org/flash-linear-attention#818": "KG201",
    "fla-org/flash-linear-attention#1082": "KG201",
    "databricks/megablocks#185": "KG201",
    "flagos-ai/FlagGems#327": "KG201",
    "triton-lang/triton#1088": "KG202",
    "triton-lang/triton#630": "KG202",
    "flagos-ai/FlagGems#3716": "KG203",
    "vllm-project/vllm#9014": "KG203",
    "pytorch/pytorch#126535": ("KG203", FLOW),
    "triton-lang/triton#10448": ("KG203", NOT_A_BUG),
    "kakaobrain/trident#143": "KG204",
    "flagos-ai/FlagGems#494": "KG204",
    "pytorch/pytorch#93538": "KG205",
    "apple/ml-cross-entropy#59": "KG205",
    "ModelTC/LightLLM#1467": "KG206",
    "unslothai/unsloth#10617": "KG207",
    "state-spaces/mamba#537": "KG208",
    "triton-lang/triton#10924": "KG209",
    "triton-lang/triton#9887": "KG210",
    "ByteDance-Seed/Triton-distributed#182": "KG211",
    "triton-lang/triton#2183": "KG211",
    "fla-org/flash-linear-attention#892": ("KG212", LENGTHS),
    "fla-org/flash-linear-attention#1158": ("KG212", EXTENT),
    "flashinfer-ai/flashinfer#4724": "KG212",
    "fla-org/flash-linear-attention#172": "KG213",
    "fla-org/flash-linear-attention#1077": "KG213",
    "fla-org/flash-linear-attention#1097": "KG213",
    "triton-lang/triton#3299": "KG213",
    "NVIDIA/apex#411": "KG213",
    "triton-lang/triton-ascend#984": "KG214",
    # Numerics
    "triton-lang/triton#1960": "KG301",
    "triton-lang/triton#6961": "KG301",
    "pytorch/pytorch#141052": "KG301",
    "linkedin/Liger-Kernel#950": "KG301",
    "linkedin/Liger-Kernel#582": "KG302",
    "NVIDIA/TensorRT-LLM#17477": ("KG303", OWN_WORDS),
    "flashinfer-ai/flashinfer#4401": "KG303",
    "pytorch/pytorch#133882": "KG303",
    "triton-lang/triton#230": "KG304",
    "flagos-ai/FlagGems#424": "KG305",
    "triton-lang/triton#6265": "KG306",
    "triton-lang/triton#9080": "KG306",
    "LMCache/LMCache#3092": "KG308",
    "Dao-AILab/flash-attention#429": "KG310",
    "state-spaces/mamba#827": "KG310",
    # Compilation, tuning, launch
    "triton-lang/triton#4217": "KG401",
    "triton-lang/triton#781": "KG401",
    "lucidrains/lion-pytorch#36": "KG401",
    "triton-lang/triton#6547": "KG402",
    "pytorch/ao#4880": "KG403",
    "fla-org/flash-linear-attention#1147": "KG404",
    "fla-org/flash-linear-attention#1154": "KG404",
    "Dao-AILab/flash-attention#911": "KG404",
    "triton-lang/triton#4046": ("KG405", CONSTANT),
    "linkedin/Liger-Kernel#1275": "KG406",
    "flagos-ai/FlagGems#118": "KG406",
    "triton-lang/triton#10872": "KG407",
    "vllm-project/vllm#25030": "KG408",
    "vllm-project/vllm#49157": "KG408",
    "triton-lang/triton#4197": "KG409",
    "triton-lang/triton#2266": "KG409",
    "fla-org/flash-linear-attention#556": "KG409",
    "unslothai/unsloth#7": "KG410",
    "triton-lang/triton#2596": "KG411",
    "triton-lang/triton#8182": "KG411",
    "triton-lang/triton#4128": "KG412",
    "triton-lang/triton#6125": "KG412",
    "vllm-project/vllm#54280": "KG413",
    "vllm-project/vllm#40127": "KG413",
    "unslothai/unsloth#10790": "KG414",
    "fla-org/flash-linear-attention#940": "KG414",
    "linkedin/Liger-Kernel#991": "KG415",
    "fla-org/flash-linear-attention#1188": "KG417",
    "triton-lang/triton#9547": ("KG417", SPECIALISED),
    "bitsandbytes-foundation/bitsandbytes#909": "KG418",
    "openai/gpt-oss#137": ("KG418", NO_BEFORE),
    "ROCm/aiter#5428": "KG420",
    "AMD-AGI/Primus-Turbo#286": ("KG420", NO_BEFORE),
    "ROCm/TransformerEngine#464": "KG420",
    # Host side and torch
    "triton-lang/triton#2441": "KG501",
    "triton-lang/triton#5205": "KG501",
    "NVIDIA/TransformerEngine#2746": ("KG502", GUARDED),
    "vllm-project/vllm#42739": "KG503",
    "Dao-AILab/flash-attention#355": "KG504",
    "NVIDIA/apex#1601": "KG504",
    "linkedin/Liger-Kernel#272": "KG505",
    "linkedin/Liger-Kernel#1251": "KG505",
    "pytorch/pytorch#120802": "KG506",
    "pytorch/pytorch#153389": "KG507",
    "axolotl-ai-cloud/axolotl#3788": "KG507",
    "meta-pytorch/tritonbench#477": "KG508",
    "flashinfer-ai/flashinfer-bench-starter-kit#21": "KG509",
    # CUDA C++
    "pytorch/pytorch#46474": "KG601",
    "pytorch/pytorch#49269": "KG601",
    "pytorch/pytorch#49365": "KG601",
    "pytorch/pytorch#48894": "KG602",
    "openvdb/fvdb-core#587": "KG603",
    "NVIDIA/cudnn-frontend#483": "KG603",
    "PaddlePaddle/Paddle#76303": "KG604",
    "vllm-project/vllm#5781": "KG604",
    "proteneer/timemachine#1218": "KG605",
    "NVIDIA/cuCollections#522": "KG605",
}
"""Report to the code of its rule, or to the code and why there is no pair."""

PAIRED = [(report, code) for report, code in REPORTS.items() if isinstance(code, str)]
EXCUSED = [(report, *found) for report, found in REPORTS.items() if not isinstance(found, str)]
_NAMED = re.compile(r"([\w./-]+)?#(\d+)")


def named(note: str) -> set[str]:
    """The reports that a note names, as repository and number; a bare number belongs to the repository before it."""
    found, repository = set(), ""
    for match in _NAMED.finditer(note):
        repository = (match.group(1) or repository).rpartition("/")[2].lower()
        found.add(f"{repository}#{match.group(2)}")
    return found


def short(report: str) -> str:
    """A report as notes name it."""
    return report.rpartition("/")[2].lower()


def shown(rule: Rule, report: str) -> tuple[bool, bool]:
    """Whether an example before the repair, and one after it, name a report."""
    before = [item for item in rule.invalid if short(report) in named(item.note)]
    after = [item for item in rule.valid if short(report) in named(item.note)]
    return bool(before), bool(after) or any(item.fixed for item in before)


@pytest.mark.parametrize(("report", "found"), REPORTS.items(), ids=list(REPORTS))
def test_a_report_is_a_source_of_its_rule(report, found):
    code = found if isinstance(found, str) else found[0]
    assert report in by_code()[code].sources


@pytest.mark.parametrize(("report", "code"), PAIRED, ids=[report for report, _ in PAIRED])
def test_a_report_has_its_code_before_and_after_the_repair(report, code):
    assert shown(by_code()[code], report) == (True, True)


@pytest.mark.parametrize(("report", "code", "why"), EXCUSED, ids=[report for report, _, _ in EXCUSED])
def test_a_report_that_is_excused_has_no_pair(report, code, why):
    assert why
    assert shown(by_code()[code], report) != (True, True)


def test_what_notes_name_is_in_the_table():
    known = {short(report) for report in REPORTS}
    unknown = {
        f"{rule.code}: {name}"
        for rule in by_code().values()
        for item in (*rule.invalid, *rule.valid)
        for name in named(item.note) - known
    }
    assert unknown == {"KG403: triton#11602"}  # the change that made the mistake an error
