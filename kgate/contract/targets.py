"""Where a kernel runs: `cuda:sm_90`, `cuda:sm_80+`, `hip:gfx942`, `cpu`."""

from __future__ import annotations

from kgate.contract.errors import DeclarationError, suggestion
from kgate.contract.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CUDA_KNOWN = (70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
"""Compute capabilities that exist, as `sm_` numbers."""
HIP_KNOWN = (
    "gfx908",
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1030",
    "gfx1100",
    "gfx1101",
    "gfx1102",
    "gfx1150",
    "gfx1151",
    "gfx1200",
    "gfx1201",
)
"""AMD architectures that exist."""
CONCRETE: tuple[str, ...] = (
    "cuda:sm_80",
    "cuda:sm_86",
    "cuda:sm_89",
    "cuda:sm_90",
    "cuda:sm_100",
    "cuda:sm_120",
    "hip:gfx942",
    "hip:gfx950",
    "hip:gfx1100",
    "cpu",
)
"""The targets that kgate compiles for and that an open-ended target such as `cuda:sm_80+` expands to."""


class Target(Record):
    """One target, or an open range of them (`plus`): this CUDA capability and every later one."""

    __slots__ = ("arch", "kind", "plus")
    kind: str
    """`cuda`, `hip` or `cpu`."""
    arch: str
    """`sm_90`, `gfx942`; empty for `cpu`."""
    plus: bool
    """Whether later capabilities are meant too; CUDA only."""

    def __init__(self, kind: str, arch: str = "", plus: bool = False) -> None:
        self._set(kind=kind, arch=arch, plus=plus)

    @property
    def capability(self) -> int:
        """The number of a CUDA target (90 for `sm_90`); -1 for any other."""
        return int(self.arch[3:]) if self.kind == "cuda" else -1

    def matches(self, other: Target | str) -> bool:
        """Whether `other`, a concrete target, is this one or within this range."""
        concrete = _parse(other) if isinstance(other, str) else other
        if concrete is None or concrete.kind != self.kind:
            return False
        if self.plus and self.kind == "cuda":
            return concrete.capability >= self.capability
        return concrete.arch == self.arch

    def exists(self) -> bool:
        """Whether this is a target that kgate knows of."""
        if self.kind == "cuda":
            return self.capability in CUDA_KNOWN
        return self.kind == "cpu" or (self.arch in HIP_KNOWN and not self.plus)

    def __str__(self) -> str:
        return (f"{self.kind}:{self.arch}" if self.arch else self.kind) + ("+" if self.plus else "")


def parse_target(text: str) -> Target:
    """Read a target as it is written in a declaration.

    Raises DeclarationError (`unknown-target`) for a text that names no target. A well-formed CUDA or HIP
    architecture that kgate has not heard of is read all the same; see `Target.exists`.
    """
    target = _parse(text) if isinstance(text, str) else None
    if target is None:
        raise unknown_target(text)
    return target


def unknown_target(text: object) -> DeclarationError:
    """The error for a target that does not exist."""
    known = [*CONCRETE, *(f"cuda:sm_{n}" for n in CUDA_KNOWN), *(f"hip:{arch}" for arch in HIP_KNOWN)]
    if isinstance(text, str) and text.startswith("hip:") and text.endswith("+"):
        return DeclarationError(
            "unknown-target",
            f"target {text!r}: AMD architectures have no order",
            remedy="name each one, without '+'",
        )
    remedy = suggestion(str(text), known)
    if "did you mean" not in remedy:
        remedy = "write cuda:sm_NN, cuda:sm_NN+, hip:gfxNNN or cpu"
    return DeclarationError("unknown-target", f"there is no target {text!r}", remedy=remedy)


def _parse(text: str) -> Target | None:
    kind, _, arch = text.partition(":")
    plus = arch.endswith("+")
    arch = arch[:-1] if plus else arch
    if text == "cpu":
        return Target("cpu")
    if kind == "cuda" and arch.startswith("sm_") and arch[3:].isascii() and arch[3:].isdigit():
        return Target(kind, arch, plus)
    if kind == "hip" and arch.startswith("gfx") and arch[3:].isascii() and arch[3:].isalnum() and not plus:
        return Target(kind, arch)
    return None


def known(text: object) -> bool:
    """Whether a declaration may name this target."""
    target = _parse(text) if isinstance(text, str) else None
    return target is not None and target.exists()


def expand(targets: Iterable[str]) -> tuple[str, ...]:
    """The concrete targets that declared ones stand for, in the order of `CONCRETE`, then as declared.

    An open range gives its own first capability and every later one that kgate compiles for. What names no
    target is left out. No targets at all means every target, and gives `CONCRETE`.
    """
    declared = [target for target in map(_parse, targets) if target is not None]
    if not declared:
        return CONCRETE
    found = [name for name in CONCRETE if any(target.matches(name) for target in declared)]
    exact = [str(Target(target.kind, target.arch)) for target in declared]
    return (*found, *dict.fromkeys(name for name in exact if name not in found))
