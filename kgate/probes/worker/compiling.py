"""The codegen probe of one case: fake tensors of full size, launches captured and compiled."""

from __future__ import annotations

from typing import Any

from kgate.cases.records import Case
from kgate.probes.worker.calling import Call
from kgate.probes.worker.inputs import make_inputs

Answer = dict[str, Any]


def run(kernel: Any, case: Case, target: str) -> Answer:
    """Capture what the launcher launches for the case, and measure it compiled for ``target``."""
    from kgate.contract.dispatch import launcher_only
    from kgate.probes import codegen

    with codegen.fake_tensors(), launcher_only():
        inputs = make_inputs(kernel.envelope, case, device="cuda", data=False)
        call = Call.of(kernel, inputs)
        answer: Answer = codegen.probe(kernel.launcher, call.args, call.kwargs, target)
    return answer
