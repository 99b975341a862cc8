"""The worker's process tree: torch imported once; each target, each module and each case in a fork of its own."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kgate.probes.worker import endings
from kgate.probes.worker.children import Child, Ended, Line, Nursery, send

Job = dict[str, Any]
Answer = dict[str, Any]

READY = b'{"ready": true}'
PREPARE, IMPORT = "prepare", "import"
"""Where a job ended that never began: in kgate's own preparation, or in the import of the user's module."""


def serve(settings: dict[str, Any], commands: int, answers: int) -> None:
    """Import torch, say which versions there are, and pass jobs on to one fork per kind of mode."""
    try:
        hello = _preload(settings)
    except ImportError as error:
        send(answers, json.dumps({"unavailable": str(error), "missing": error.name or ""}).encode())
        return
    send(answers, json.dumps({"ready": True, "toolchain": hello}).encode())
    _Relay(
        commands,
        answers,
        key=lambda job: job["mode"].partition(":")[0],
        enter=lambda job, channel: _kind(settings, job["mode"].partition(":")[0], channel),
        limit=float(settings["import_limit"]),
        what=lambda job: f"preparing the probe {job['probe']}",
        tree=settings["tree"],
        stage=PREPARE,
    ).run()


def _preload(settings: dict[str, Any]) -> dict[str, str]:
    import numpy
    import torch

    torch.set_num_threads(1)  # before the first fork: threads do not survive one
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": str(torch.__version__),
        "numpy": str(numpy.__version__),
        "triton": _triton_version(),
    }


def _triton_version() -> str:
    """Version of the installed Triton, which must not be imported yet; raises ``ModuleNotFoundError`` without one."""
    import importlib.metadata

    for distribution in ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    raise ModuleNotFoundError("No module named 'triton'", name="triton")


def _warm_fake_tensors() -> None:
    """Pull in what fake tensors need (a second of imports), once for all forks."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.empty(2) + 1


def _kind(settings: dict[str, Any], kind: str, channel: int) -> None:
    """Import what all targets of one kind share, then pass jobs on to one fork per target."""
    if kind == "codegen":
        _warm_fake_tensors()
    send(channel, READY)
    _Relay(
        channel,
        channel,
        key=lambda job: job["mode"],
        enter=lambda job, inner: _mode(settings, job["mode"], inner),
        limit=float(settings["import_limit"]),
        what=lambda job: f"preparing {job['mode']}",
        tree=settings["tree"],
        stage=PREPARE,
    ).run()


def _mode(settings: dict[str, Any], mode: str, channel: int) -> None:
    """Fake the device for ``mode``, then pass jobs on to one fork per user module."""
    install(mode)
    send(channel, READY)
    _Relay(
        channel,
        channel,
        key=lambda job: job["module"],
        enter=lambda job, inner: _module(settings, job["module"], inner),
        limit=float(settings["import_limit"]),
        what=lambda job: f"importing {job['module']}",
        tree=settings["tree"],
        stage=IMPORT,
    ).run()


def install(mode: str) -> None:
    """Prepare this process for ``interpret:<target>`` or ``codegen:<target>``; before any user module."""
    kind, _, target = mode.partition(":")
    if kind == "interpret":
        from kgate.probes import interpreter

        interpreter.install(target=target)
    elif kind == "codegen":
        from kgate.probes import codegen

        codegen.install(target)
    else:
        raise ValueError(f"unknown mode {mode!r}")
    _load_probe(kind)


def _load_probe(kind: str) -> None:
    """Import the probe once, so that no fork has to."""
    import importlib

    for name in ("running", "judging" if kind == "interpret" else "compiling"):
        importlib.import_module(f"kgate.probes.worker.{name}")


def _module(settings: dict[str, Any], module: str, channel: int) -> None:
    """Import one user module, then run each job in a fork."""
    from kgate.probes.worker import loading

    loaded = loading.load(module, settings["tree"], settings["elsewhere"])
    gc.collect()
    gc.freeze()  # what is shared with the forks stays shared
    send(channel, READY)
    _Runner(channel, loaded, settings["tree"]).run()


def _failure(error: BaseException, tree: str, what: str) -> Answer:
    line = endings.line_inside(traceback.extract_tb(error.__traceback__), tree)
    message = f"{what}: {endings.describe(error)}"
    details: dict[str, Any] = {"line": line} if line else {}
    return {"status": "error", "message": message, "details": details}


@dataclass
class _Relay:
    """Passes each job to the child that serves its key, and that child's answers back."""

    commands: int
    answers: int
    key: Callable[[Job], str]
    enter: Callable[[Job, int], None]
    limit: float
    what: Callable[[Job], str]
    tree: str
    stage: str
    outstanding: dict[int, dict[int, Job]] = field(default_factory=dict)
    refused: dict[str, Answer] = field(default_factory=dict)
    """Answer to every job of a key that could not be prepared."""

    def run(self) -> None:
        """Serve until the commands end."""
        nursery = Nursery(self.commands)
        while True:
            for event in nursery.events():
                if isinstance(event, Ended) and event.child is None:
                    nursery.close()
                    return
                self._handle(nursery, event)

    def _handle(self, nursery: Nursery, event: Line | Ended) -> None:
        if event.child is None:
            assert isinstance(event, Line)
            self._dispatch(nursery, json.loads(event.text), event.text)
        elif isinstance(event, Line):
            self._answered(event.child, event.text)
        else:
            self._lost(event)

    def _dispatch(self, nursery: Nursery, job: Job, text: bytes) -> None:
        key = self.key(job)
        if key in self.refused:
            self._answer(job, self.refused[key])
            return
        child = next((child for child in nursery.children if child.key == key), None)
        if child is None:
            child = nursery.fork(key, lambda channel: self._start(job, channel), limit=self.limit)
            self.outstanding[child.pid] = {}
        self.outstanding[child.pid][job["id"]] = job
        send(child.channel.fileno(), text)

    def _start(self, job: Job, channel: int) -> None:
        os.close(self.answers) if self.answers != self.commands else None
        try:
            self.enter(job, channel)
        except BaseException as error:  # whatever user code raises while it is imported, SystemExit too
            answer = _failure(error, self.tree, self.what(job))
            answer.setdefault("details", {})["traceback"] = traceback.format_exc()[-4000:]
            send(channel, json.dumps({"refuse": answer}).encode())

    def _answered(self, child: Child, text: bytes) -> None:
        answer = json.loads(text)
        if answer.get("ready"):
            child.limit = None
        elif "refuse" in answer:
            self._refuse(child, answer["refuse"])
        else:
            self.outstanding[child.pid].pop(answer["id"], None)
            send(self.answers, text)

    def _refuse(self, child: Child, answer: Answer) -> None:
        answer.setdefault("details", {}).setdefault("log", child.tail())
        answer["details"].setdefault("stage", self.stage)
        self.refused[child.key] = answer
        self._answer_all(child, answer)

    def _answer_all(self, child: Child, answer: Answer) -> None:
        for job in self.outstanding[child.pid].values():
            self._answer(job, answer)
        self.outstanding[child.pid] = {}

    def _lost(self, ended: Ended) -> None:
        child = ended.child
        assert child is not None
        preparing = child.limit is not None
        for job in self.outstanding[child.pid].values():
            what = self.what(job) if preparing else "the process of its module"
            answer = endings.answer_for(ended, what, self.tree)
            if preparing:
                self._refuse(child, answer)
                break
            self._answer(job, answer)
        del self.outstanding[child.pid]

    def _answer(self, job: Job, answer: Answer) -> None:
        send(self.answers, json.dumps({"id": job["id"], "seconds": 0.0, **answer}).encode())


@dataclass
class _Runner:
    """Runs each job of one imported module in a fork with a time limit."""

    channel: int
    loaded: Any
    tree: str

    def run(self) -> None:
        """Serve until the commands end."""
        nursery = Nursery(self.channel)
        while True:
            for event in nursery.events():
                if event.child is not None:
                    self._result(event)
                elif isinstance(event, Ended):
                    nursery.close()
                    return
                else:
                    self._launch(nursery, json.loads(event.text))

    def _launch(self, nursery: Nursery, job: Job) -> None:
        nursery.fork(job, lambda channel: self._case(job, channel), limit=float(job["limit"]) + 0.5)

    def _case(self, job: Job, channel: int) -> None:
        import faulthandler

        faulthandler.dump_traceback_later(float(job["limit"]), exit=False, file=2)
        from kgate.probes.worker import running

        send(channel, json.dumps(running.run(job, self.loaded, self.tree), default=str).encode())
        faulthandler.cancel_dump_traceback_later()

    def _result(self, event: Line | Ended) -> None:
        child = event.child
        assert child is not None
        if isinstance(event, Line):
            child.meta["answer"] = json.loads(event.text)
            return
        answer = child.meta.get("answer")
        if answer is None:
            answer = endings.answer_for(event, "the case", self.tree)
        if answer["status"] != "ok":
            answer.setdefault("details", {}).setdefault("log", child.tail())
        seconds = round(time.monotonic() - child.started, 3)
        send(self.channel, json.dumps({**answer, "id": child.key["id"], "seconds": seconds}).encode())
