"""Runs jobs in worker processes: two at a time, each with a time limit, whatever the kernels do to them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from kgate.baselines.records import SKIPPED, Measurement
from kgate.cases.records import Case

ACCURACY, CODEGEN = "accuracy", "codegen"
INTERPRETER, COMPILER = "interpreter", "compiler"
NOT_RUN = "not-run"
"""Status of a job that was due and did not run (deadline, interruption)."""

PARALLEL = 2
_START_LIMIT = 180.0
_IMPORT_LIMIT = 60.0
_GRACE = 20.0
_DEATHS = 2
_HANGS = 3
"""Cases of one kernel that may hang before the rest of them is not waited for."""
_BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"

OnResult = Callable[["Job", Measurement], None]


class WorkerError(RuntimeError):
    """No worker can run here: ``message`` says what is missing, ``remedy`` what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Job:
    """One case of one kernel to be looked at by one probe."""

    declaration: Any
    """The kernel's ``Declaration``."""
    case: Case
    probe: str
    """``accuracy`` or ``codegen``."""
    target: str
    """Concrete target: what codegen compiles for, and what the interpreter pretends to be."""
    limit_s: float = 60.0
    """Seconds that the case may take."""
    code: str = ""
    """The kernel's *code* fingerprint, handed through to the measurement."""

    @property
    def mode(self) -> str:
        """How the worker's process is prepared for it."""
        return f"{'codegen' if self.probe == CODEGEN else 'interpret'}:{self.target}"

    @property
    def executor(self) -> str:
        """What runs it: ``compiler`` or ``interpreter``."""
        return COMPILER if self.probe == CODEGEN else INTERPRETER


def run_jobs(
    jobs: Sequence[Job],
    *,
    tree: Path | str,
    python: str,
    on_result: OnResult | None = None,
    deadline: float | None = None,
    src: Sequence[str] = (),
    elsewhere: Sequence[str] = (),
    scratch: Path | str | None = None,
) -> list[Measurement]:
    """Run ``jobs`` against the files in ``tree`` with the interpreter ``python``; one measurement per job, in order.

    ``on_result`` is called as each comes in. ``deadline`` is a ``time.monotonic()`` value: what has not finished by
    then comes back with status ``not-run``. ``src`` are import folders relative to the root's folder (empty: the
    folder itself and its ``src``). ``elsewhere`` are folders of the project outside the tree, from which nothing
    may be imported. ``scratch`` holds Triton's cache (default: ``.kgate/triton`` in the tree).

    Raises :class:`WorkerError` where the interpreter cannot run a worker at all (no such file, no torch, no triton).
    """
    if not jobs:
        return []
    place = Path(tree).resolve()
    cache = Path(scratch) if scratch else place / ".kgate" / "triton"
    cache.mkdir(parents=True, exist_ok=True)
    roots = _import_folders(place, sorted({job.declaration.root for job in jobs}), src)
    settings = {
        "tree": str(place),
        "roots": roots,
        "elsewhere": [str(Path(folder).resolve()) for folder in elsewhere],
        "import_limit": _IMPORT_LIMIT,
    }
    start = _Start(python, settings, worker_environment(os.environ, cache.resolve(), elsewhere))
    return _Run(jobs, start, on_result or (lambda job, result: None), deadline).go()


def _import_folders(tree: Path, roots: Sequence[str], src: Sequence[str]) -> list[str]:
    folders: list[str] = []
    for root in roots:
        base = tree / root
        wanted = [base / item for item in src] if src else [base, *([base / "src"] if (base / "src").is_dir() else [])]
        folders += [str(folder.resolve()) for folder in wanted]
    return folders


def worker_environment(environ: Mapping[str, str], cache: Path, elsewhere: Sequence[str]) -> dict[str, str]:
    """The worker's environment: nothing of git's, no import path into the working folder, one thread, own cache."""
    dropped = ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONPATH", "TRITON_INTERPRET", "TRITON_KERNEL_DUMP")
    kept = {key: value for key, value in environ.items() if not key.startswith("GIT_") and key not in dropped}
    here = [os.path.realpath(folder) for folder in (os.getcwd(), *elsewhere)]
    paths = [
        entry
        for entry in environ.get("PYTHONPATH", "").split(os.pathsep)
        if os.path.isabs(entry) and not any((os.path.realpath(entry) + "/").startswith(f + "/") for f in here)
    ]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    kept.update(
        TRITON_CACHE_DIR=str(cache),
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        PYTHONHASHSEED="0",
        PYTHONUNBUFFERED="1",
        CUDA_VISIBLE_DEVICES="",
        HIP_VISIBLE_DEVICES="",
    )
    return kept


@dataclass(frozen=True)
class _Start:
    """How a worker is started."""

    python: str
    settings: dict[str, Any]
    environment: dict[str, str]


@dataclass
class _Worker:
    """One live worker process tree."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    toolchain: dict[str, str] = field(default_factory=dict)
    rest: bytes = b""

    @classmethod
    def launch(cls, start: _Start) -> _Worker:
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        command = [start.python, str(_BOOTSTRAP), json.dumps(start.settings)]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=start.environment,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerError(
                f"cannot start {start.python}: {error.strerror or error}",
                "name the project's interpreter: `python` in [tool.kgate], or KGATE_PYTHON",
            ) from None
        worker = cls(process, log)
        try:
            worker._greet(start.python)
        except BaseException:
            worker.stop()
            raise
        return worker

    def _greet(self, python: str) -> None:
        hello = self.read(_START_LIMIT)
        if hello and hello[0].get("ready"):
            self.toolchain = hello[0]["toolchain"]
            return
        if hello and "unavailable" in hello[0]:
            missing = hello[0]["missing"] or "torch and triton"
            raise WorkerError(
                f"{python} cannot import what the probes need: {hello[0]['unavailable']}",
                f"install {missing} in that environment, or name the project's "
                "interpreter: `python` in [tool.kgate], or KGATE_PYTHON",
            )
        last = self.tail().strip().splitlines()
        raise WorkerError(
            f"a worker of {python} ended before it was ready{': ' + last[-1] if last else ''}",
            "check that this interpreter runs `import torch, triton, numpy`",
        )

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def read(self, patience: float) -> list[dict[str, Any]] | None:
        """Answers that arrived, waiting up to ``patience`` seconds for one; None when the worker is gone."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], max(patience, 0.0))[0]:
            return []
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        if not chunk:
            return None
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def tail(self) -> str:
        """The end of what the worker itself printed."""
        self.log.seek(0, os.SEEK_END)
        self.log.seek(max(self.log.tell() - 4000, 0))
        return self.log.read().decode("utf-8", "replace")

    def stop(self) -> None:
        """End the worker; what it forked dies with it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@dataclass
class _Flight:
    """A job that a worker is busy with."""

    job: Job
    until: float
    """When the worker itself must be taken for dead."""


@dataclass
class _Run:
    """One call of :func:`run_jobs`."""

    jobs: Sequence[Job]
    start: _Start
    on_result: OnResult
    deadline: float | None
    worker: _Worker | None = None
    flights: dict[int, _Flight] = field(default_factory=dict)
    results: dict[int, Measurement] = field(default_factory=dict)
    deaths: dict[int, int] = field(default_factory=dict)
    hangs: dict[tuple[str, str], int] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)

    def go(self) -> list[Measurement]:
        self.waiting.extend(self._order())
        try:
            while (self.waiting or self.flights) and not self._over():
                self._turn()
        finally:
            if self.worker is not None:
                self.worker.stop()
        for number, job in enumerate(self.jobs):
            if number not in self.results:
                self.results[number] = _measurement(job, NOT_RUN, "not run: the time was up")
        return [self.results[number] for number in range(len(self.jobs))]

    def _order(self) -> list[int]:
        """Jobs in the order given, but those of one mode and module beside each other."""
        groups: dict[tuple[str, str], list[int]] = {}
        for number, job in enumerate(self.jobs):
            groups.setdefault((job.mode, job.declaration.module), []).append(number)
        return [number for group in groups.values() for number in group]

    def _over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _turn(self) -> None:
        if self.worker is None:
            self.worker = _Worker.launch(self.start)
        while self.waiting and self._may_take_off(self.waiting[0]):
            self._take_off(self.waiting.popleft())
        ends = [flight.until for flight in self.flights.values()]
        patience = min([*ends, *([self.deadline] if self.deadline is not None else [])]) - time.monotonic()
        answers = self.worker.read(patience)
        if answers is None:
            self._buried("crash", "the worker process died")
        for answer in answers or []:
            self._check_prepared(answer)
            flight = self.flights.pop(answer["id"], None)
            if flight is not None:
                self._land(answer["id"], flight.job, answer)
        if any(time.monotonic() > flight.until for flight in self.flights.values()):
            self._buried("hang", "the worker process stopped answering")

    def _may_take_off(self, number: int) -> bool:
        """Two at once; but what was in flight when a worker died flies alone, so that the culprit is known."""
        if any(other in self.deaths for other in (number, *self.flights)):
            return not self.flights
        return len(self.flights) < PARALLEL

    def _check_prepared(self, answer: dict[str, Any]) -> None:
        """What fails before any of the user's code is reached is nobody's kernel's fault."""
        if answer.get("details", {}).get("stage") == "prepare":
            remedy = f"check that torch and triton in {self.start.python} are versions that kgate supports"
            raise WorkerError(answer["message"], remedy)

    def _take_off(self, number: int) -> None:
        assert self.worker is not None
        job = self.jobs[number]
        limit = job.limit_s + 2 * _IMPORT_LIMIT + _GRACE
        self.flights[number] = _Flight(job, time.monotonic() + limit)
        self.worker.send(
            {
                "id": number,
                "mode": job.mode,
                "probe": job.probe,
                "target": job.target,
                "limit": job.limit_s,
                "module": job.declaration.module,
                "qualname": job.declaration.qualname,
                "description": job.declaration.description,
                "case": asdict(job.case),
            }
        )

    def _land(self, number: int, job: Job, answer: dict[str, Any]) -> None:
        assert self.worker is not None
        measurement = _measurement(
            job,
            answer["status"],
            answer.get("message", ""),
            figures=answer.get("figures", {}),
            details=answer.get("details", {}),
            toolchain={**self.worker.toolchain, **answer.get("toolchain", {})},
            seconds=answer.get("seconds", 0.0),
        )
        self.results[number] = measurement
        self.on_result(job, measurement)
        if measurement.status == "hang":
            self._give_up_on(job)

    def _give_up_on(self, job: Job) -> None:
        """After a few hangs of a kernel its other cases are not waited for: each would take its whole time limit."""
        key = (job.declaration.identity, job.mode)
        self.hangs[key] = self.hangs.get(key, 0) + 1
        if self.hangs[key] != _HANGS:
            return
        for number in [n for n in self.waiting if (self.jobs[n].declaration.identity, self.jobs[n].mode) == key]:
            self.waiting.remove(number)
            found = _measurement(self.jobs[number], SKIPPED, f"not run after {_HANGS} cases of the kernel hung")
            self.results[number] = found
            self.on_result(self.jobs[number], found)

    def _buried(self, status: str, why: str) -> None:
        """The worker is gone: its jobs get a second chance in a new one, then an answer."""
        assert self.worker is not None
        tail = self.worker.tail()
        worker, flights = self.worker, self.flights
        self.flights = {}
        for number, flight in flights.items():
            self.deaths[number] = self.deaths.get(number, 0) + 1
            if self.deaths[number] < _DEATHS:
                self.waiting.appendleft(number)
            else:
                self._land(number, flight.job, {"status": status, "message": why, "details": {"log": tail}})
        worker.stop()
        self.worker = None


def _measurement(job: Job, status: str, message: str, **rest: Any) -> Measurement:
    bare = Measurement(
        kernel=job.declaration.identity,
        case=job.case.id,
        probe=job.probe,
        target=job.target if job.probe == CODEGEN else INTERPRETER,
        executor=job.executor,
        status=status,
        message=message,
        code=job.code,
    )
    return replace(bare, **rest)


__all__ = [
    "ACCURACY",
    "CODEGEN",
    "NOT_RUN",
    "SKIPPED",
    "Job",
    "WorkerError",
    "run_jobs",
    "worker_environment",
]
