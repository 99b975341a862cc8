"""One call of a launcher, judged: the dictionary that the worker sends back."""

from __future__ import annotations

import hashlib
from typing import Any

from kgate.probes.codegen import capturing
from kgate.probes.codegen.capturing import Capture, Launch
from kgate.probes.codegen.measuring import CANNOT_LAUNCH, OK, REFUSED, Measured, measure

ERROR = "error"
SKIPPED = "skipped"
NO_LAUNCH = "the launcher launched no kernel that could be captured"


def probe(fn: Any, args: Any, kwargs: Any, target: str) -> dict[str, Any]:
    """Capture ``fn(*args, **kwargs)`` on fake tensors, compile every launch for ``target`` and count.

    The answer is JSON-able: ``status`` (``ok``, ``refused``, ``cannot-launch``, ``skipped``, ``error``),
    ``figures`` (label to figure to value), ``message``, ``details`` (per launch, and ``trace``: a hash of the
    operators and launches in order) and ``toolchain``. Of an autotuned kernel one configuration that works is
    enough for ``ok``; each has its own ``status`` figure.
    """
    from kgate.probes import codegen

    answer: dict[str, Any] = {
        "status": OK,
        "figures": {},
        "message": "",
        "details": {},
        "toolchain": codegen.toolchain(),
    }
    try:
        caught = capturing.capture(fn, args, kwargs, target=target)
    except Exception as error:
        refused = _raised_by_triton(error)
        answer["status"] = REFUSED if refused else ERROR
        said = " ".join(str(error).split())[:400]
        place = capturing.user_place(error)
        answer["message"] = ": ".join(filter(None, (type(error).__name__, said))) + (f" (at {place})" if place else "")
        answer["details"] = {"line": place} if place else {}
        return answer
    if caught.skipped:
        answer.update(status=SKIPPED, message=caught.skipped)
        return answer
    if not caught.launches:
        answer.update(status=SKIPPED, message=NO_LAUNCH)
        return answer
    measured = [(launch, measure(launch, target)) for launch in caught.launches]
    answer["figures"] = {launch.label: result.figures for launch, result in measured}
    answer["status"], answer["message"] = _verdict(measured)
    answer["details"] = _details(caught, measured)
    return answer


def _verdict(measured: list[tuple[Launch, Measured]]) -> tuple[str, str]:
    """The worst status; configurations of one autotuned kernel count only where none of them works."""
    usable = {launch.name for launch, result in measured if launch.config is not None and result.status == OK}
    bad = [
        result
        for launch, result in measured
        if result.status != OK and not (launch.config is not None and launch.name in usable)
    ]
    for status in (REFUSED, CANNOT_LAUNCH):
        for result in bad:
            if result.status == status:
                return status, result.message
    return OK, ""


def _details(caught: Capture, measured: list[tuple[Launch, Measured]]) -> dict[str, Any]:
    identities = [result.details.get("identity", "") for _, result in measured]
    work = "\n".join([*caught.operators, *identities])
    complete = all(identities)
    return {
        "launches": {launch.label: result.details for launch, result in measured},
        "messages": {launch.label: result.message for launch, result in measured if result.message},
        "trace": hashlib.sha256(work.encode()).hexdigest()[:16] if complete else "",
        "operators": caught.operators[:200],
    }


def _raised_by_triton(error: BaseException) -> bool:
    """Whether Triton itself raised, while it looked at arguments and options."""
    trace = error.__traceback__
    module = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    return module.split(".", 1)[0] == "triton" and not isinstance(error, (TypeError, KeyError))
