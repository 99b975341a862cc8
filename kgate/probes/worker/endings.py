"""What became of a process or a call that did not end well, in words that name the line."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterable
from typing import Any

from kgate.probes.worker.children import Ended

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_WATCHDOG = re.compile(r"^Timeout \(\d+:\d\d:\d\d(\.\d+)?\)!$", re.MULTILINE)
"""What faulthandler prints first when a case's time is up; reading the stack of a running thread may then crash it."""
_DUMP = 1 << 16
"""How far back (bytes) its first line may lie: a crash prints the stack once more, and all extension modules."""
_MEMORY = ("can't allocate memory", "cannot allocate memory", "out of memory", "unable to allocate")


def answer_for(ended: Ended, what: str, tree: str) -> dict[str, Any]:
    """The answer for a job whose process ended without one: hang, crash, or memory exhaustion."""
    child = ended.child
    assert child is not None
    tail = child.tail()
    line = _last_line_inside(tail, tree)
    details: dict[str, Any] = {"log": tail, **({"line": line} if line else {})}
    at = f", at {line}" if line else ""
    dumping = ended.signal == signal.SIGSEGV and child.limit is not None and _WATCHDOG.search(child.tail(_DUMP))
    if child.late or dumping:
        limit = int(child.limit or 0)
        return {"status": "hang", "message": f"{what} did not finish within {limit} s{at}", "details": details}
    if ended.signal:
        name = signal.Signals(ended.signal).name
        hint = " (the system may have run out of memory)" if ended.signal == signal.SIGKILL else ""
        return {"status": "crash", "message": f"{what} was killed by {name}{hint}{at}", "details": details}
    message = f"{what} left its process with exit status {ended.status} and no result{at}"
    return {"status": "crash", "message": message, "details": details}


def describe(error: BaseException) -> str:
    """Type and first line of an exception; memory exhaustion said as such."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in _MEMORY):
        return f"out of memory: {type(error).__name__}{': ' + first if first else ''}"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def line_inside(frames: Iterable[traceback.FrameSummary], tree: str) -> str:
    """``path:line`` of the innermost frame whose file lies in the tree; empty where there is none."""
    found = ""
    for frame in frames:
        if frame.filename.startswith(tree.rstrip("/") + "/"):
            found = f"{frame.filename[len(tree.rstrip('/')) + 1 :]}:{frame.lineno}"
    return found


def _last_line_inside(text: str, tree: str) -> str:
    """The innermost line of the tree in a faulthandler dump, which prints the innermost frame first."""
    prefix = tree.rstrip("/") + "/"
    for path, line in _FRAME.findall(text):
        if path.startswith(prefix):
            return f"{path[len(prefix) :]}:{line}"
    return ""


def shown(place: tuple[str, int], tree: str) -> str:
    """``path:line`` with the path relative to the tree, where it lies in it."""
    path, line = place
    prefix = tree.rstrip("/") + "/"
    return f"{path.removeprefix(prefix)}:{line}"
