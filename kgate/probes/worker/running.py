"""One job in its own process: the kernel found, its declaration checked, the probe run."""

from __future__ import annotations

import importlib
import traceback
from types import ModuleType
from typing import Any

from kgate.cases.records import Case
from kgate.probes.worker import endings, memory

Answer = dict[str, Any]


def run(job: dict[str, Any], module: ModuleType, tree: str) -> Answer:
    """The answer for one job: ``status``, ``message``, ``figures``, ``details`` and, of the compiler, ``toolchain``."""
    case = read_case(job["case"])
    try:
        kernel = find(module, job["qualname"])
        moved = difference(job["description"], _same_functions(job["description"], kernel))
        if moved:
            return {"status": "error", "message": moved, "details": {"stage": "declaration"}}
        memory.limit(kernel.envelope, case)
        return _probe(job, kernel, case, tree)
    except BaseException as error:  # whatever the user's code raises is an answer, SystemExit too
        return _raised(error, tree)


def read_case(data: dict[str, Any]) -> Case:
    """A case as it came over the pipe."""
    return Case(**{**data, "absent": tuple(data["absent"])})


def find(module: ModuleType, qualname: str) -> Any:
    """The declared kernel by its qualified name; raises ``LookupError`` with what is there instead."""
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    if not (hasattr(found, "launcher") and hasattr(found, "describe")):
        what = "nothing" if found is None else type(found).__name__
        raise LookupError(f"{qualname} in {module.__name__} is {what} at run time, a declared kernel was expected")
    return found


def _same_functions(read: dict[str, Any], kernel: Any) -> dict[str, Any]:
    """What ran, with a function named as the source names it where that name means the very same object.

    A function may go by several names: an alias, a re-export, compiled code that says another module of itself.
    """
    ran = dict(kernel.describe()) if read else {}
    for part in ("reference", "fallback", "check"):
        text = read.get(part)
        if not text or text == ran.get(part):
            continue
        meant = _meant(text)
        if meant is not None and meant is getattr(kernel, part):
            ran[part] = text
    return ran


def _meant(text: str) -> Any:
    """The object that ``module:qualname`` means; None where there is none."""
    module, _, qualname = text.partition(":")
    try:
        found = importlib.import_module(module)
        for name in qualname.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return found


def difference(read: Any, ran: Any, path: str = "") -> str:
    """Where what was executed differs from what was read from source, in one sentence; empty where nowhere."""
    if isinstance(read, dict) and isinstance(ran, dict):
        for key in [*read, *(key for key in ran if key not in read)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in ran or key not in read:
                return _differs(inner, read.get(key), ran.get(key))
            found = difference(read[key], ran[key], inner)
            if found:
                return found
        return ""
    if isinstance(read, (list, tuple)) and isinstance(ran, (list, tuple)) and len(read) == len(ran):
        pairs = enumerate(zip(read, ran, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{at}]") for at, (a, b) in pairs)), "")
    same = type(read) is type(ran) or isinstance(read, (list, tuple)) or not isinstance(read, bool | str)
    return "" if same and read == ran else _differs(path, read, ran)


def _differs(path: str, read: Any, ran: Any) -> str:
    return (
        f"the declaration that ran is not the one in the source: {path} reads {read!r} and is {ran!r} at run time; "
        "write the value as a literal or a constant that is bound once"
    )


def _probe(job: dict[str, Any], kernel: Any, case: Case, tree: str) -> Answer:
    if job["probe"] == "codegen":
        from kgate.probes.worker import compiling

        return compiling.run(kernel, case, job["target"], tree)
    from kgate.probes.worker import judging

    return judging.run(kernel, case, job["target"], tree)


def _raised(error: BaseException, tree: str) -> Answer:
    frames = traceback.extract_tb(error.__traceback__)
    line = endings.line_inside(frames, tree)
    device = getattr(error, "device_line", None)
    if device:
        line = endings.shown(device, tree)
    status = {"Unsupported": "skipped", "CannotLaunch": "cannot-launch"}.get(type(error).__name__, "error")
    details: dict[str, Any] = {"traceback": "".join(traceback.format_exception(error))[-4000:]}
    if line:
        details["line"] = line
    message = endings.describe(error)
    return {"status": status, "message": f"{message} (at {line})" if line else message, "details": details}
