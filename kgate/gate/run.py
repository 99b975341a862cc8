"""``kgate run`` and ``kgate cases``: the cases of one kernel, in the working folder as it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.baselines.records import OK, SKIPPED, Measurement
from kgate.cases.deriving import affordable
from kgate.cases.ids import parse_case
from kgate.cases.records import FALLBACK, Case
from kgate.contract.targets import expand
from kgate.gate import records
from kgate.gate.errors import UsageError
from kgate.gate.explain import Shared, shared_by
from kgate.gate.measure import Bench, measure
from kgate.gate.plan import ACCURACY, CODEGEN, Due, cases_of, interpreter_target
from kgate.gate.progress import Progress
from kgate.gate.select import config_of, declarations_of, find_in, index_of, state_folder
from kgate.source.config import Config
from kgate.source.git import Repository, Snapshot, worktree_snapshot
from kgate.source.index import Index
from kgate.source.records import Declaration


@dataclass(frozen=True)
class RunOutcome:
    """What came of running cases by hand."""

    kernel: str
    """Identity of the kernel."""
    path: str
    line: int
    measurements: tuple[Measurement, ...]
    """One per case, in the order of the cases."""
    purposes: dict[str, str]
    """Case id to what the case is there to try."""
    outside: dict[str, str]
    """Case id to the reason why the kernel does not serve it; the fallback does."""
    shared: str
    """What failing cases have in common; empty where none fails or nothing separates them."""
    exit_code: int
    problem: str = ""
    """Why not all of it ran; empty where all did."""
    schema: str = "kgate.run/1"


@dataclass(frozen=True)
class CaseList:
    """The cases of one kernel."""

    kernel: str
    cases: tuple[Case, ...]
    schema: str = "kgate.cases/1"


@dataclass(frozen=True)
class Workplace:
    """The working folder, read."""

    repository: Repository
    snapshot: Snapshot
    config: Config
    index: Index
    state: Path


def workplace(folder: Path) -> Workplace:
    """Read the working folder that a path lies in."""
    repository = Repository(folder, env=os.environ)
    snapshot = worktree_snapshot(repository)
    config = config_of(snapshot)
    state = state_folder(repository)
    return Workplace(repository, snapshot, config, index_of(snapshot, config, state), state)


def one_kernel(place: Workplace, name: str) -> Declaration:
    """The one declaration that a name means; raises UsageError where it means none or several."""
    found = find_in(place.index, name, place.repository)
    if len(found) > 1:
        names = ", ".join(item.identity for item in found[:6])
        raise UsageError(f"{name!r} means {len(found)} kernels", f"use one of {names}")
    return declarations_of(place.index)[found[0].identity]


def list_cases(folder: Path, name: str) -> CaseList:
    """Every case of a kernel, with what each is there to try."""
    place = workplace(folder)
    declaration = one_kernel(place, name)
    return CaseList(declaration.identity, tuple(_derived(place.index, declaration)))


def _derived(index: Index, declaration: Declaration) -> list[Case]:
    return cases_of(declaration, index)


def run_cases(
    folder: Path, name: str, case: str | None, target: str | None, timeout: float | None, progress: Progress
) -> RunOutcome:
    """Run one case, or every case, of a kernel in the working folder.

    With ``target`` its compiled code is looked at, else the interpreter runs it. ``timeout`` is in seconds. Raises
    UsageError for a target or kernel that does not exist, CaseError for a case id that cannot be read.
    """
    place = workplace(folder)
    declaration = one_kernel(place, name)
    _check_target(declaration, target)
    cases = _chosen(place.index, declaration, case, target)
    prints = place.index.closure(declaration.identity).fingerprint
    probe = CODEGEN if target else ACCURACY
    where = target or interpreter_target(declaration)
    due = [Due(declaration, one, probe, where, prints.code, prints.oracle, prints.dispatch) for one in cases]
    config = place.config if timeout is None else _with_timeout(place.config, timeout)
    bench = Bench(place.repository, config, place.repository.toplevel, place.state)
    outcome = measure(due, bench, progress, phase=f"running {declaration.name}")
    found = {one.case.id: measurement for one, measurement in outcome.results}
    measurements = tuple(found[one.id] for one in cases if one.id in found)
    return RunOutcome(
        kernel=declaration.identity,
        path=declaration.path,
        line=declaration.line,
        measurements=measurements,
        purposes={one.id: one.purpose for one in cases},
        outside={one.id: one.reason for one in cases if one.expect == FALLBACK},
        shared=_shared(place.index, declaration, cases, found),
        exit_code=_exit_code(measurements, outcome.infrastructure, len(cases), outcome.interrupted),
        problem=outcome.infrastructure or ("interrupted" if outcome.interrupted else ""),
    )


def _with_timeout(config: Config, seconds: float) -> Config:
    from dataclasses import replace

    return replace(config, case_timeout=seconds, compile_timeout=seconds)


def _check_target(declaration: Declaration, target: str | None) -> None:
    supported = [str(item) for item in expand(declaration.envelope.targets) if str(item) != "cpu"]
    if target is not None and target not in supported:
        raise UsageError(
            f"{target!r} is no target that {declaration.name} can be compiled for",
            f"use one of {', '.join(supported)}",
        )


def _chosen(index: Index, declaration: Declaration, case: str | None, target: str | None) -> list[Case]:
    every = _derived(index, declaration)
    if case is not None:
        exact = [one for one in every if one.id == case] or [parse_case(declaration, case)]
        if target is not None and exact[0].expect == FALLBACK:
            raise UsageError(
                f"{exact[0].id} is outside the envelope ({exact[0].reason}): the fallback serves it",
                "leave --target out to run it, or name a case inside the envelope",
            )
        return exact
    if target is not None:
        return [one for one in every if one.origin == "workload" and one.expect != FALLBACK]
    return [one for one in every if affordable(declaration, one)]


def _shared(index: Index, declaration: Declaration, cases: Sequence[Case], found: dict[str, Measurement]) -> str:
    inside = [one for one in cases if one.id in found and one.expect != FALLBACK]
    failing = [one for one in inside if found[one.id].status not in (OK, SKIPPED)]
    passing = [one for one in inside if found[one.id].status == OK]
    shared: Shared | None = shared_by(failing, passing, index.closure(declaration.identity).block_sizes)
    return "" if shared is None else str(shared)


def _exit_code(found: Sequence[Measurement], infrastructure: str, due: int, interrupted: bool) -> int:
    if any(item.status not in (OK, SKIPPED) for item in found):
        return records.EXIT_FINDING
    if interrupted:
        return 130
    ran = sum(1 for item in found if item.status != SKIPPED)
    return records.EXIT_INFRASTRUCTURE if infrastructure or (due and not ran) else records.EXIT_OK
