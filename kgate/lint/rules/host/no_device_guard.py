"""KG501 no-device-guard: a launch on the current device, whichever device its tensors are on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule
from kgate.lint.rules.host import _shared

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, Project
    from kgate.lint.model.host import Host
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding

RULE = Rule(
    code="KG501",
    name="no-device-guard",
    severity=WARNING,
    summary="A launcher does not set the device of its tensors, though most in its file do.",
    why=(
        "Triton launches on the current device and its current stream. With tensors on another one it refuses the "
        "pointer, or reads memory that it cannot reach; with peer access it works, slowly and on the wrong stream. "
        "Nothing shows on a machine with one GPU."
    ),
    remedy="Launch inside `with torch.cuda.device(x.device):`, or give the launcher the decorator that does so.",
    quiet=(
        "Files in which few or no launchers set a device; launchers whose callers all do; backward "
        "passes, for which autograd "
        "sets it; decorators that are known or listed in `guard-decorators`."
    ),
    sources=("triton-lang/triton#2441", "triton-lang/triton#5205", "pytorch/pytorch#48894"),
    invalid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _copy(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def copy(x):
                y = torch.empty_like(x)
                with torch.cuda.device(x.device):
                    _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y

            def copy_out(x, y):
                _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            note="triton#2441 and #5205, before: a tensor on the second device cannot be accessed.",
        ),
        Example(
            """
            import triton
            from mylib.runtime import guarded

            @triton.jit
            def _negate(x_ptr, n, BLOCK: "tl.constexpr"):
                ...

            @guarded
            def negate_(x):
                _negate[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)

            def negate_all_(xs):
                for x in xs:
                    _negate[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            """,
            config='require = ["**"]\nguard-decorators = ["guarded"]',
            note="The decorator is the project's own.",
        ),
    ),
    valid=(
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _copy(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def _launch(x, y):
                _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)

            def copy(x):
                y = torch.empty_like(x)
                with torch.cuda.device(x.device):
                    _launch(x, y)
                return y
            """,
            note="triton#2441 and #5205, after: the only caller sets the device.",
        ),
        Example(
            """
            import torch
            import triton

            @triton.jit
            def _copy(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):
                ...

            def copy(x):
                y = torch.empty_like(x)
                _copy[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
                return y
            """,
            note="A library that never sets a device leaves that to those who call it.",
        ),
    ),
)
_DEPTH = 4


@RULE.host
def check(host: Host) -> Iterator[Hit]:
    """Launches without a guard; of functions with one, a note for the decisions."""
    if _shared.has_guard(host):
        place = host.module.name_place(host.node)
        shows = bool(host.launches) and not host.autograd
        yield Hit(place, "", data={"host": host.name, "launches": shows})
    elif host.launches and host.autograd != "backward" and not _shared.is_aside(host.module.path):
        launch = host.launches[0]
        yield Hit(
            launch.node,
            f"{host.name} launches {launch.callees[0]} on the current device, whichever device its tensors are on",
            "launch inside {guard} as {other} does",
            data={"unguarded": host.name, "kernel": launch.callees[0]},
        )


@RULE.decide
def decide(candidate: Candidate, project: Project) -> Iterator[Finding]:
    """Reported where as many launchers of the file set the device as do not, and the callers leave it."""
    name = candidate.data.get("unguarded")
    if name is None:
        return
    guarded = project.notes(RULE.code)
    own = [item.data for item in project.files[candidate.path].candidates if item.code == RULE.code]
    others = {data["host"] for data in own if "host" in data and guarded[candidate.path, data["host"]]["launches"]}
    bare = [data for data in own if "unguarded" in data]
    if len(others) >= len(bare) and not _is_covered(project, (candidate.path, name), guarded, _DEPTH):
        other = min(others)
        yield project.confirm(
            RULE,
            candidate,
            f"{candidate.message}; {other} sets the device",
            candidate.remedy.replace("{other}", other).replace("{guard}", _guard(project, (candidate.path, name))),
        )


def _guard(project: Project, key: HostKey) -> str:
    """The statement to write, with a tensor that the launch is given."""
    for device, launch in project.launches_by.get(key, ()):
        summary = device.summary
        pointers = {*summary.stores, *summary.loads, *summary.atomics}
        texts = {name: argument.text for name, argument in launch.arguments.items()}
        names = [text for name, text in texts.items() if name in pointers]
        names += [text for text in texts.values() if any(other.startswith(f"{text}.") for other in texts.values())]
        for name in names:
            if name.isidentifier():
                return f"`with torch.cuda.device({name}.device):`, or"
    return "a `with` that sets the device of its tensors,"


def _is_covered(project: Project, key: HostKey, guarded: dict[HostKey, dict[str, object]], depth: int) -> bool:
    """Whether every caller sets the device, or is a backward pass, or is called by such ones only."""
    if key in guarded or key[1].endswith(".backward"):
        return True
    found = [caller for caller, _ in project.callers.get(key, ()) if caller != key]
    if not found and _shared.last(key[1]).startswith("_"):
        return True  # private, so something that is not seen calls it
    return bool(found) and depth > 0 and all(_is_covered(project, caller, guarded, depth - 1) for caller in found)
