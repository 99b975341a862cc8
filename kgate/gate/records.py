"""What the gate concludes: verdicts, and the report of one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kgate.baselines.records import Change
from kgate.source.records import Affected, Finding

PASS, WARN, FAIL, NEW = "pass", "warn", "fail", "new"
INCONCLUSIVE, SKIPPED, BASELINE, ERROR = "inconclusive", "skipped", "baseline", "error"

EXIT_OK, EXIT_FINDING, EXIT_USAGE, EXIT_UNDECIDED, EXIT_INFRASTRUCTURE = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Failing:
    """One case that failed, with what was seen at its worst."""

    case: str
    """Id of the case."""
    status: str
    """The measurement's status."""
    message: str
    """One sentence on what went wrong."""
    details: dict[str, Any] = field(default_factory=dict)
    """Evidence: worst element with got, want, allowed; the device line; the log's tail."""


@dataclass(frozen=True)
class Verdict:
    """What is concluded of one kernel by one probe, on one target."""

    kernel: str
    """Identity of the kernel."""
    name: str
    """Its short name."""
    path: str
    """File of the kernel."""
    line: int
    """Line of its declaration."""
    probe: str
    """``accuracy`` or ``codegen``."""
    target: str
    """The target; empty for what the interpreter found."""
    verdict: str
    """``pass``, ``warn``, ``fail``, ``new`` (no baseline yet), ``baseline`` (a line unusable), ``inconclusive``,
    ``skipped`` (with why) or ``error`` (the probe could not run)."""
    headline: str
    """One line: what failed, in how many cases."""
    cases: int = 0
    """Cases judged."""
    failing: tuple[Failing, ...] = ()
    """Failing cases, the smallest first."""
    shared: str = ""
    """What failing cases have in common, with counts."""
    changes: tuple[Change, ...] = ()
    """Figures that moved, old and new."""
    case: str = ""
    """The case, where the verdict is about one."""
    against: str = ""
    """What the figures were compared with: ``baseline`` or ``base``."""
    notes: tuple[str, ...] = ()
    """Further sentences: toolchain drift, a place in the source."""
    reproduce: str = ""
    """Command that shows the failure again."""
    accept: str = ""
    """Command that accepts the new figures."""


@dataclass(frozen=True)
class Report:
    """The outcome of one ``kgate check``; its JSON is the public format."""

    schema: str
    """``kgate.report/1``."""
    base: str
    """What was compared with: a commit, and how it was found."""
    head: str
    """What was judged."""
    explanation: str
    """How base and head were chosen, in words."""
    findings: tuple[Finding, ...]
    """Static findings in declarations and baselines."""
    affected: tuple[Affected, ...]
    """The kernels that the diff can have changed."""
    verdicts: tuple[Verdict, ...]
    """What was concluded of them."""
    kernels: int
    """Kernels declared in the tree."""
    passed: int
    """Cases that passed, remembered ones included."""
    failed: int
    """Cases that failed."""
    remembered: int
    """Cases whose pass was remembered from an earlier run."""
    not_run: int
    """Cases that were due and did not run."""
    not_run_why: str
    """``budget``, ``interrupted`` or ``infrastructure``; empty where all ran."""
    skipped: dict[str, int]
    """Reason to number of cases that cannot be judged here."""
    notes: tuple[str, ...]
    """Sentences that concern the run as a whole."""
    seconds: float
    """Wall time in seconds."""
    exit_code: int
    """0 pass or warn, 1 a finding, 2 usage, configuration or baseline, 3 could not decide, 4 infrastructure."""
