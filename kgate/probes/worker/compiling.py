"""The codegen probe of one case: fake tensors of full size, launches captured and compiled."""

from __future__ import annotations

from typing import Any

from kgate.cases.records import KERNEL, Case
from kgate.probes.worker.calling import Call
from kgate.probes.worker.inputs import make_inputs

Answer = dict[str, Any]


def run(kernel: Any, case: Case, target: str, tree: str) -> Answer:
    """Capture what the launcher launches for the case, and measure it compiled for ``target``.

    Paths in the answer are relative to ``tree``. A case that the kernel serves and launches nothing for is an error:
    nothing would have been looked at. Where there is nothing to compute, or where the device code is CUDA C++ that is
    launched past Triton, it is skipped.
    """
    from kgate.contract.dispatch import launcher_only
    from kgate.probes import codegen
    from kgate.probes.codegen.probing import NO_LAUNCH

    with codegen.fake_tensors(), launcher_only():
        inputs = make_inputs(kernel.envelope, case, device="cuda", data=False)
        call = Call.of(kernel, inputs)
        answer: Answer = codegen.probe(kernel.launcher, call.args, call.kwargs, target)
    excused = kernel.sources or case.expect != KERNEL or 0 in case.dims.values()
    if answer["message"] == NO_LAUNCH and not excused:
        answer.update(status="error", message="the launcher launched no kernel")
    inside = f"{tree.rstrip('/')}/"
    return {**answer, "message": _within(answer["message"], inside), "details": _within(answer["details"], inside)}


def _within(value: Any, prefix: str) -> Any:
    """A message or details with paths as seen from the tree."""
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, dict):
        return {key: _within(item, prefix) for key, item in value.items()}
    return [_within(item, prefix) for item in value] if isinstance(value, (list, tuple)) else value
