"""Running what is due: remembered passes first, then workers, each root with its own interpreter and tree."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kgate._version import __version__
from kgate.baselines.memory import Memory, PassKey, triton_settings
from kgate.baselines.records import OK, SKIPPED, Measurement
from kgate.gate.plan import ACCURACY, CODEGEN, COMPILER, INTERPRETER, Due
from kgate.gate.progress import Progress
from kgate.gate.select import Selection
from kgate.probes.workers import NOT_RUN, Job, WorkerError, run_jobs
from kgate.source.config import Config, Root
from kgate.source.git import Repository, Snapshot, export
from kgate.source.interpreter_path import find_python

POLICY = "1"
"""Version of the decision rules: a remembered pass under other rules is no pass."""

_DECIDES = {ACCURACY: ("numpy", "torch", "triton"), CODEGEN: ("ptxas", "triton")}
"""Parts of the toolchain that decide a probe's figures."""

_ASK = """
import importlib.metadata as m, sys
for name in ("torch", "triton", "numpy"):
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        pass
print("python", sys.version.split()[0])
"""


@dataclass
class Measured:
    """What came of running what was due."""

    results: list[tuple[Due, Measurement]] = field(default_factory=list)
    """Each due case with its measurement; what did not run is not here."""
    remembered: int = 0
    """Passes that an earlier run had proved."""
    not_run: list[Due] = field(default_factory=list)
    """What was due and did not run."""
    not_run_why: str = ""
    """``budget``, ``interrupted`` or ``infrastructure``."""
    infrastructure: str = ""
    """Why no worker could run, with the remedy; empty where they could."""
    interrupted: bool = False
    """Whether the user stopped it."""

    @property
    def ran(self) -> int:
        """Cases that were judged, skipped ones left out."""
        return sum(1 for _, found in self.results if found.status != SKIPPED)


@dataclass(frozen=True)
class Bench:
    """Where measurements are made: a tree per root, the project's interpreter, what is remembered."""

    repository: Repository
    config: Config
    tree: Path
    """The repository's files, as they are to be judged."""
    state: Path
    """The local state folder."""
    memory: Memory | None = None
    """Passes of earlier runs; None where they must not be used."""

    def python(self, root: Root) -> str:
        """The interpreter of a root's project."""
        top = self.repository.git_dir if self.repository.bare else self.repository.toplevel
        return str(find_python(top / root.path, os.environ, root.python).path)


def bench_for(selection: Selection, snapshot: Snapshot, *, remember: bool = True) -> Bench:
    """A bench on one of a selection's trees, written out with what the configuration says to carry along."""
    carry = [root.join(path) for root in selection.config.roots for path in root.carry]
    tree = export(snapshot, selection.state / "trees", carry)
    memory = Memory(selection.state.parent) if remember else None
    return Bench(selection.repository, selection.config, tree, selection.state, memory)


def measure(
    due: Sequence[Due],
    bench: Bench,
    progress: Progress,
    *,
    deadline: float | None = None,
    phase: str = "judging",
    on_result: Callable[[Due, Measurement], None] | None = None,
) -> Measured:
    """Run what is due, streaming progress; a lack of infrastructure, a spent budget or Ctrl-C is in the result."""
    outcome = Measured()
    progress.phase(phase, len(due))
    for root, items in _by_root(due, bench.config).items():
        todo = _recalled(items, root, bench, outcome, progress)
        if todo and not outcome.interrupted and not _spent(deadline):
            _run_root(root, todo, bench, outcome, progress, deadline, on_result)
    place = {id(one): number for number, one in enumerate(due)}
    outcome.results.sort(key=lambda pair: place[id(pair[0])])  # whatever finished first: the report repeats
    done = {id(one) for one, _ in outcome.results}
    outcome.not_run = [one for one in due if id(one) not in done]
    if outcome.not_run and not outcome.not_run_why:
        outcome.not_run_why = _why_not(outcome)
    return outcome


def _why_not(outcome: Measured) -> str:
    if outcome.interrupted:
        return "interrupted"
    return "infrastructure" if outcome.infrastructure else "budget"


def _spent(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _by_root(due: Sequence[Due], config: Config) -> dict[Root, list[Due]]:
    groups: dict[Root, list[Due]] = defaultdict(list)
    for one in due:
        groups[config.root_of(one.declaration.path)].append(one)
    return groups


def _recalled(due: Sequence[Due], root: Root, bench: Bench, outcome: Measured, progress: Progress) -> list[Due]:
    if bench.memory is None:
        return list(due)
    versions = toolchain_of(bench.python(root))
    todo = []
    for one in due:
        found = bench.memory.recall(_pass_key(one, versions))
        if found is None:
            todo.append(one)
        else:
            outcome.results.append((one, found))
            outcome.remembered += 1
            progress.step(_label(one))
    return todo


def _run_root(
    root: Root,
    due: Sequence[Due],
    bench: Bench,
    outcome: Measured,
    progress: Progress,
    deadline: float | None,
    on_result: Callable[[Due, Measurement], None] | None,
) -> None:
    config = bench.config
    jobs = []
    by_job: dict[tuple[str, str, str, str], Due] = {}
    for one in due:
        limit = config.compile_timeout if one.probe == CODEGEN else config.case_timeout
        jobs.append(Job(one.declaration, one.case, one.probe, one.target, limit, one.code))
        by_job[_job_key(jobs[-1])] = one
    python = bench.python(root)
    versions = toolchain_of(python)

    def take(job: Job, measurement: Measurement) -> None:
        if measurement.status == NOT_RUN:
            return
        one = by_job[_job_key(job)]
        found = replace(
            measurement,
            toolchain=deciding(one.probe, measurement.toolchain),
            code=one.code,
            message=measurement.message.replace(f"{bench.tree}/", ""),
        )
        outcome.results.append((one, found))
        if bench.memory is not None:
            bench.memory.remember(_pass_key(one, versions), found)
        progress.step(_label(one), failed=found.status not in (OK, SKIPPED))
        if on_result is not None:
            on_result(one, found)

    top = bench.repository.git_dir if bench.repository.bare else bench.repository.toplevel
    elsewhere = [] if bench.tree == top else [str(top)]
    try:
        run_jobs(
            jobs, tree=bench.tree, python=python, on_result=take, deadline=deadline,
            src=root.src, elsewhere=elsewhere, scratch=bench.state / "triton",
        )  # fmt: skip
    except WorkerError as error:
        outcome.infrastructure = f"{error.message}; {error.remedy}" if error.remedy else error.message
    except KeyboardInterrupt:
        outcome.interrupted = True


def _job_key(job: Job) -> tuple[str, str, str, str]:
    return (job.declaration.identity, job.case.id, job.probe, job.target)


def _label(due: Due) -> str:
    return f"{due.declaration.name} {due.probe} {due.case.id}"[:70]


def deciding(probe: str, toolchain: Mapping[str, str]) -> dict[str, str]:
    """The part of a toolchain that decides a probe's figures, as a baseline line keeps it."""
    return {name: toolchain[name] for name in _DECIDES[probe] if name in toolchain}


def toolchain_of(python: str) -> dict[str, str]:
    """Versions of torch, triton, numpy and Python in an interpreter, read without importing them."""
    if python not in _versions:
        try:
            done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
            _versions[python] = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        except (OSError, subprocess.TimeoutExpired):
            _versions[python] = {}
    return _versions[python]


_versions: dict[str, dict[str, str]] = {}


def _pass_key(due: Due, versions: Mapping[str, str]) -> PassKey:
    return PassKey(
        kernel=due.declaration.identity,
        case=due.case.id,
        probe=due.probe,
        target=due.target,
        executor=COMPILER if due.probe == CODEGEN else INTERPRETER,
        code=due.code,
        oracle=due.oracle,
        dispatch=due.dispatch,
        toolchain=", ".join(f"{name} {versions[name]}" for name in sorted(versions)),
        policy=POLICY,
        settings=triton_settings(os.environ),
        kgate=build(),
    )


@functools.cache
def build() -> str:
    """This kgate: its version, and a digest of its files as they lie on disk, so that an edited one is another."""
    import hashlib

    state = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    for path in sorted(package.rglob("*.py")):
        found = path.stat()
        state.update(f"{path.relative_to(package)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return f"{__version__}+{state.hexdigest()[:12]}"
