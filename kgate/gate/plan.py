"""From selected kernels to the cases that are due, probe by probe and target by target."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from kgate.baselines.store import Key
from kgate.cases.deriving import affordable, derive
from kgate.cases.records import FALLBACK, Case
from kgate.contract.targets import expand
from kgate.source.config import Config
from kgate.source.index import Index
from kgate.source.records import Affected, Declaration

ACCURACY, CODEGEN = "accuracy", "codegen"
INTERPRETER, COMPILER = "interpreter", "compiler"
PREFERRED = "cuda:sm_90"


@dataclass(frozen=True)
class Due:
    """One case of one kernel that one probe must look at."""

    declaration: Declaration
    case: Case
    probe: str
    target: str
    """What codegen compiles for; what the interpreter pretends to be."""
    code: str
    """The kernel's *code* fingerprint."""
    oracle: str
    """Its *oracle* fingerprint, where the probe asks the reference."""
    dispatch: str
    """Its *dispatch* fingerprint, where the case may reach the fallback."""

    @property
    def key(self) -> Key:
        """The baseline line that it would be compared with."""
        if self.probe == CODEGEN:
            return Key(self.declaration.identity, self.target, self.case.id, CODEGEN, COMPILER)
        return Key(self.declaration.identity, INTERPRETER, self.case.id, ACCURACY, INTERPRETER)

    @property
    def has_line(self) -> bool:
        """Whether a committed line is due for it: workloads alone have lines."""
        return self.case.origin in ("workload", "scaled")


def plan(
    affected: Sequence[Affected],
    head: Index,
    base: Index | None,
    config: Config,
    *,
    probes: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> list[Due]:
    """Every case that is due, kernel by kernel, the most telling first.

    *Code* moved: every probe. *Oracle* moved: accuracy. *Dispatch* moved alone: the cases that the fallback serves, and
    those that base did not have. A baseline edited: what has a line.
    """
    declared = {item.identity: item for item in head.declarations}
    due: list[Due] = []
    for item in affected:
        declaration = declared[item.kernel]
        every = due_for(declaration, head, config, targets)
        wanted = [one for one in every if not probes or one.probe in probes]
        due.extend(one for one in wanted if _moved(one, item, base))
    return due


def due_for(declaration: Declaration, index: Index, config: Config, targets: Sequence[str] = ()) -> list[Due]:
    """Every case of a kernel under every probe."""
    closure = index.closure(declaration.identity)
    prints = closure.fingerprint
    cases = cases_of(declaration, index)
    pretended = interpreter_target(declaration)
    due = [
        Due(declaration, case, ACCURACY, pretended, prints.code, prints.oracle, prints.dispatch)
        for case in cases
        if affordable(declaration, case)
    ]
    compiled = [case for case in cases if case.origin == "workload" and case.expect != FALLBACK]
    for target in compile_targets(declaration, config):
        if not targets or target in targets:
            due.extend(Due(declaration, case, CODEGEN, target, prints.code, "", "") for case in compiled)
    return due


_derived: weakref.WeakKeyDictionary[Index, dict[str, list[Case]]] = weakref.WeakKeyDictionary()


def cases_of(declaration: Declaration, index: Index) -> list[Case]:
    """Every case of a kernel; worked out once per tree, since several parts of a run ask for them."""
    known = _derived.setdefault(index, {})
    if declaration.identity not in known:
        sizes = index.closure(declaration.identity).block_sizes
        known[declaration.identity] = derive(declaration, block_sizes=sizes)
    return known[declaration.identity]


def compile_targets(declaration: Declaration, config: Config) -> tuple[str, ...]:
    """The configured targets that the kernel's envelope has."""
    supported = {str(target) for target in expand(declaration.envelope.targets)}
    return tuple(target for target in config.probe_targets if target in supported)


def interpreter_target(declaration: Declaration) -> str:
    """The target that the interpreter pretends to be: one that the envelope has, a Hopper where it can."""
    supported = [str(target) for target in expand(declaration.envelope.targets)]
    devices = [target for target in supported if target != "cpu"]
    return PREFERRED if PREFERRED in devices or not devices else devices[0]


def _moved(due: Due, affected: Affected, base: Index | None) -> bool:
    moved = set(affected.moved)
    if base is None or moved & {"code", "new"}:
        return True
    if "oracle" in moved and due.probe == ACCURACY:
        return True
    if "baseline" in moved and due.has_line:
        return True
    if "dispatch" in moved:
        return due.case.expect == FALLBACK or due.case.id not in _base_cases(affected, base)
    return False


def _base_cases(affected: Affected, base: Index) -> set[str]:
    identity = affected.was or affected.kernel
    found = next((item for item in base.declarations if item.identity == identity), None)
    if found is None:
        return set()
    return {case.id for case in cases_of(found, base)}
