"""What a rule is: its text, its examples, and the functions that look for it. A rule is one file under ``rules/``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kgate.lint.cuda.source import CudaFile
    from kgate.lint.linking import Project
    from kgate.lint.model.device import Device
    from kgate.lint.model.host import Host
    from kgate.lint.model.module import Module
    from kgate.lint.records import Candidate
    from kgate.source.records import Finding, Fix

ERROR, WARNING, NOTE = "error", "warning", "note"
SAFE, UNSAFE, EITHER = "safe", "unsafe", "safe or unsafe"
ASCEND = frozenset({"ascend", "npu", "cann"})
"""Names of files for Triton-Ascend, which fills masked lanes with zeros unless it is told otherwise."""
FORKS = ASCEND | {
    "cambricon", "mlu", "kunlunxin", "enflame", "gcu", "iluvatar", "corex", "metax", "maca", "mthreads", "musa",
    "moore", "hygon", "tsingmicro", "txda", "sunrise", "ptpu", "aipu", "spacemit", "thead",
}  # fmt: skip
"""Names of files for any fork of Triton: they have ranges of any length or assign to elements, and lag behind."""


@dataclass(frozen=True)
class Example:
    """A snippet that a rule reports, or one that it must not report.

    In a snippet that is reported, a line of carets (``^^^^``) under a line marks the reported range; it is taken out
    before the snippet is read. ``# file: name.py`` on a line of its own starts another file; without one the snippet
    is ``kernel.py``.
    """

    code: str
    """The source, dedented when it is read."""
    fixed: str = ""
    """The same after the rule's fixes (safe or unsafe, as the rule says); empty where it has none here."""
    note: str = ""
    """One sentence: what the example shows, for the documentation."""
    config: str = ""
    """Lines of ``[tool.kgate]`` that the example needs."""


@dataclass(frozen=True)
class Hit:
    """What a local check found: a finding, or a candidate that the linked project decides about."""

    node: Any
    """Where: an ``ast`` node, or a range ``(line, column, end_line, end_column)`` (from 1, columns in characters)."""
    message: str
    """One sentence that names the thing; the decision may write its own."""
    remedy: str = ""
    """One sentence: what to do about it."""
    severity: str = ""
    """Where it differs from the rule's."""
    fixes: tuple[Fix, ...] = ()
    """Ways to mend it."""
    related: tuple[tuple[Any, str], ...] = ()
    """Further places in the same file: an ``ast`` node, and what is there."""
    data: dict[str, Any] | None = None
    """Of a candidate: what its decision needs, as JSON can hold it. None makes the hit final."""


@dataclass
class Rule:
    """One rule. Its file makes one, named ``RULE``, and attaches the checks to it."""

    code: str
    """Stable code: KG0xx files, KG1xx contract, KG2xx memory and indices, KG3xx numerics, KG4xx launch and tuning,
    KG5xx host and torch, KG6xx CUDA C++, KG7xx baselines."""
    name: str
    """Kebab-case name."""
    severity: str
    """``error`` for what the semantics leave undefined or what contradicts the declaration; else ``warning`` or
    ``note``."""
    summary: str
    """What is reported: one sentence in the present tense."""
    why: str
    """Why it is bad, and what it did to people."""
    remedy: str
    """How to mend it."""
    quiet: str = ""
    """What keeps it quiet: the declared bound, the pattern, the annotation."""
    sources: tuple[str, ...] = ()
    """Public reports, as ``owner/repository#number`` or an address."""
    default: bool = True
    """Whether it is on without being selected."""
    off_because: str = ""
    """Why it is off by default."""
    lowered: str = ""
    """When a finding has another severity: ``a warning where only an unbounded stride is to blame``."""
    fix: str = ""
    """``safe`` or ``unsafe`` where the rule can mend what it finds, ``safe or unsafe`` where that depends on the
    finding; empty where it cannot."""
    except_in: frozenset[str] = frozenset()
    """Vendors' compilers of which it does not hold (``FORKS``, ``ASCEND``): files for them, by their names, are left
    alone."""
    covers: tuple[str, ...] = ()
    """Names of findings made while declarations are read, which are reported under this code."""
    needs: tuple[str, ...] = ()
    """Words of which a Python file has to hold one for the rule to look at it at all; any file where empty."""
    invalid: tuple[Example, ...] = ()
    """Snippets that are reported."""
    valid: tuple[Example, ...] = ()
    """Snippets that are not."""
    device_checks: list[Callable[[Device], Iterator[Hit]]] = field(default_factory=list, repr=False)
    host_checks: list[Callable[[Host], Iterator[Hit]]] = field(default_factory=list, repr=False)
    module_checks: list[Callable[[Module], Iterator[Hit]]] = field(default_factory=list, repr=False)
    cuda_checks: list[Callable[[CudaFile], Iterator[Hit]]] = field(default_factory=list, repr=False)
    decisions: list[Callable[[Candidate, Project], Iterator[Finding]]] = field(default_factory=list, repr=False)
    project_checks: list[Callable[[Project], Iterator[Finding]]] = field(default_factory=list, repr=False)

    def device(self, check: Check) -> Check:
        """Attach a check that sees one device function alone."""
        self.device_checks.append(check)
        return check

    def host(self, check: Check) -> Check:
        """Attach a check that sees one host function alone."""
        self.host_checks.append(check)
        return check

    def module(self, check: Check) -> Check:
        """Attach a check that sees one Python file alone."""
        self.module_checks.append(check)
        return check

    def cuda(self, check: Check) -> Check:
        """Attach a check that sees one piece of CUDA C++ alone: a file, or a string in a Python file."""
        self.cuda_checks.append(check)
        return check

    def decide(self, decision: Check) -> Check:
        """Attach the decision about the rule's candidates, made with launchers and declarations linked."""
        self.decisions.append(decision)
        return decision

    def project(self, check: Check) -> Check:
        """Attach a check that sees the linked project."""
        self.project_checks.append(check)
        return check

    @property
    def family(self) -> str:
        """Folder of the rule: ``memory``."""
        return FAMILIES[self.code[2]]


Check = TypeVar("Check", bound=Callable[..., Any])

FAMILIES = {
    "0": "files",
    "1": "contract",
    "2": "memory",
    "3": "numerics",
    "4": "launch",
    "5": "host",
    "6": "cuda",
    "7": "baselines",
}
"""First digit of a code to the folder that holds its rules."""


def place_of(node: ast.AST, lines: list[str]) -> tuple[int, int, int, int]:
    """The range of a node: lines and columns from 1, columns in characters, the end exclusive."""
    line, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    return (
        line,
        _characters(lines[line - 1], node.col_offset) + 1,  # type: ignore[attr-defined]
        end,
        _characters(lines[end - 1], node.end_col_offset or 0) + 1,  # type: ignore[attr-defined]
    )


def _characters(line: str, offset: int) -> int:
    return offset if line.isascii() else len(line.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace"))
