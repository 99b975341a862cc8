"""What reading code gives: findings, declarations, fingerprints, closures, and what a diff touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgate.contract import Envelope, Workload

CODE, ORACLE, DISPATCH, NEW = "code", "oracle", "dispatch", "new"
ROLES = (CODE, ORACLE, DISPATCH)


@dataclass(frozen=True)
class Related:
    """A further place that a finding is about."""

    path: str
    """File, relative to the repository's root."""
    line: int
    """Line, from 1."""
    column: int
    """Column in characters, from 1."""
    message: str
    """What is there: ``launched here``."""


@dataclass(frozen=True)
class Edit:
    """One change of a file, in the file of its finding. Lines and columns as in a finding.

    The range is exactly that of the node acted on, as ``ast`` gives it. Of an expression: ``replace`` it by ``text``,
    or ``wrap`` it in ``text`` and ``name``; parentheses are added where the result needs them. Of a call:
    ``set-argument`` gives the keyword ``name`` the value ``text``, ``remove-argument`` takes the keyword away; one set
    by the fix that removes another takes its place. Of a definition: ``add-decorator`` (next to the ``def``; above all
    others where ``name`` is ``top``). Of a statement: ``insert-before``, ``insert-after``, ``remove``, and ``replace``.
    A parameter without its default and a keyword argument can be replaced too. Of a comment: ``replace-comment``,
    ``remove-comment``. Of the file, whatever the range: ``add-import``, skipped where the file has that import.
    """

    kind: str
    """What is done with the node that spans the range."""
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""
    """New source: of the node, of the argument's value, of the decorator, the statements, the comment or the import;
    statements start in the first column and are given the indentation of their place."""
    name: str = ""
    """The argument's name; for ``wrap``, what follows the node (``text`` is what precedes it)."""


@dataclass(frozen=True)
class Fix:
    """How a finding can be mended by changing its file."""

    title: str
    """Imperative phrase: ``Cast the program id to int64``."""
    safe: bool
    """Whether the meaning of the code stays what its author meant it to be, beyond doubt."""
    edits: tuple[Edit, ...]
    """Made together or not at all."""


@dataclass(frozen=True)
class Finding:
    """Something wrong at one place of the source. Lines and columns count from 1, columns in characters."""

    code: str
    """Stable code of the rule (``KG203``); the kebab-case name where reading the source itself found it."""
    severity: str
    """``error``, ``warning`` or ``note``."""
    path: str
    """File, relative to the repository's root, with forward slashes."""
    line: int
    """First line."""
    column: int
    """First column."""
    end_line: int
    """Last line."""
    end_column: int
    """Column after the last character."""
    message: str
    """One sentence: what is wrong, naming the thing."""
    remedy: str
    """One sentence: what to do about it; empty where the message says it."""
    symbol: str = ""
    """Identity of the symbol it is about, ``path.py::qualname``."""
    name: str = ""
    """Kebab-case name of the rule; empty where ``code`` is the name."""
    related: tuple[Related, ...] = ()
    """Further places that it is about."""
    fixes: tuple[Fix, ...] = ()
    """Ways to mend it, the best first."""


@dataclass(frozen=True)
class Declaration:
    """A kernel as declared, read from source without executing it."""

    identity: str
    """``path.py::qualname`` of the launcher."""
    name: str
    """Short name; the identity's qualname where the declaration gives none."""
    op: str
    """The mathematical function it implements."""
    path: str
    """File of the declaration."""
    line: int
    """Line of the ``@kernel`` decorator, or of the ``kernel(...)(...)`` call."""
    column: int
    """Column of it, from 1."""
    module: str
    """Import name of the file in its root."""
    qualname: str
    """Qualified name inside the module."""
    root: str
    """Folder of the project root that it belongs to (``.`` for the repository's own)."""
    envelope: Envelope
    """What it supports."""
    reference: str
    """``module:qualname`` of what defines the right answer."""
    fallback: str
    """``module:qualname`` of what serves inputs outside the envelope."""
    workloads: tuple[Workload, ...] = ()
    """Cases written down on purpose."""
    grad: tuple[str, ...] = ()
    """Inputs whose gradients are part of the promise."""
    check: str = ""
    """``module:qualname`` of the function that judges results with several right answers; empty without one."""
    depends: tuple[str, ...] = ()
    """Globs of further input files."""
    sources: tuple[str, ...] = ()
    """Files of CUDA C++ that it claims."""
    generator: str = ""
    """``module:qualname`` of its own input generator; empty without one."""
    description: dict[str, Any] = field(default_factory=dict)
    """The canonical form, as ``Kernel.describe()`` gives it when the code runs."""


@dataclass(frozen=True)
class Fingerprint:
    """Three hashes of 16 hexadecimal digits; they depend on no path, position, comment or docstring."""

    code: str
    """Launcher, device functions, helpers, constants, decorators, files depended on."""
    oracle: str
    """Reference, input generator, check, numerics and gradients."""
    dispatch: str
    """Envelope, fallback and workloads."""


@dataclass(frozen=True)
class Edge:
    """One symbol refers to another."""

    target: str
    """Id of the symbol referred to."""
    line: int
    """Line of the reference, in the referring symbol's file."""
    chain: str
    """The name as written (``ops.helper``)."""


@dataclass(frozen=True)
class Closure:
    """Everything a kernel rests on.

    A symbol's id is ``path.py::qualname``. ``path.py::*`` is a whole file, ``path.py::<module>`` what running a file
    does to things outside the tree, ``path.py::<imports>`` the same of all files that importing it runs,
    ``path.py::<names>`` the names that it gets from code that runs then, ``path.py::Class.<class>`` a class without
    its members, and ``*`` every Python file.
    """

    identity: str
    """The kernel."""
    symbols: dict[str, dict[str, str]]
    """Role (``code``, ``oracle``, ``dispatch``) to symbol id to hash of the symbol alone."""
    files: dict[str, str]
    """Other files that count as code (``depends``, ``sources``, submodules): path to blob or commit id."""
    fingerprint: Fingerprint
    """The three hashes over all of it."""
    block_sizes: tuple[int, ...] = ()
    """Sizes at which the code may change its mind: block sizes, caps and thresholds, ascending."""
    unresolved: tuple[str, ...] = ()
    """Sentences: what could not be followed, and what counts as reached instead."""


@dataclass(frozen=True)
class Launch:
    """A place that launches a device function."""

    path: str
    line: int
    column: int
    by: str
    """Id of the launching function."""


@dataclass(frozen=True)
class DeviceFunction:
    """A function that is compiled for the device (``@triton.jit`` and its like)."""

    identity: str
    """``path.py::qualname``."""
    path: str
    line: int
    column: int
    end_line: int
    launches: tuple[Launch, ...]
    """Where it is launched; empty for a helper of other device functions, and for an orphan."""
    declared_by: tuple[str, ...]
    """Kernels whose code reaches it."""
    framework: str = "triton"
    """What compiles it: ``triton``, ``gluon``, ``cute``, ``cutile``, ``tilelang``, ``helion``, ``numba`` or
    ``pallas``."""

    @property
    def launched(self) -> bool:
        """Whether some host code launches it."""
        return bool(self.launches)


@dataclass(frozen=True)
class Step:
    """One stop on the way from the diff to a kernel."""

    symbol: str
    """Symbol id, or a file's path."""
    path: str
    """File at head; at base where it was deleted."""
    line: int
    """Where it stands, or where it refers to the stop before; 0 for a file as a whole."""
    change: str = ""
    """``changed``, ``added``, ``deleted`` or ``renamed``; empty for a stop that did not change itself."""


@dataclass(frozen=True)
class Reason:
    """One path from the diff to a kernel: the changed symbol first, the kernel last."""

    role: str
    """``code``, ``oracle`` or ``dispatch``."""
    steps: tuple[Step, ...]
    """The stops; the first one is what changed."""
    sentence: str
    """The same in words: ``_row_mean (kernels/_helpers.py:12) changed``."""


@dataclass(frozen=True)
class Affected:
    """A kernel that the diff can have changed."""

    kernel: str
    """Identity at head."""
    name: str
    """Short name."""
    path: str
    """File at head."""
    moved: tuple[str, ...]
    """Which of ``code``, ``oracle``, ``dispatch`` moved; ``new`` where base does not have the kernel."""
    reasons: tuple[Reason, ...]
    """The paths from the diff to it, one for each changed symbol, nearest first."""
    was: str = ""
    """Identity at base, where it was renamed."""


@dataclass(frozen=True)
class Removed:
    """A kernel that base declares and head does not."""

    kernel: str
    """Identity at base."""
    name: str
    """Short name."""
    path: str
    """File at base."""
