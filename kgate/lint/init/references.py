"""Candidates for the reference: plain implementations near a launcher, ranked, each with the place it stands in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgate.lint.init.launchers import Launcher
from kgate.lint.init.project import Project
from kgate.lint.init.registrations import Registered
from kgate.source.facts import Definition

_BEFORE = ("naive", "ref", "reference", "torch", "native", "eager", "pytorch", "golden")
_AFTER = (*_BEFORE, "baseline")
_DECORATION = frozenset(
    (
        *_AFTER,
        *("triton", "liger", "fused", "fwd", "forward", "kernel", "impl", "op", "func", "function", "apply"),
        *("chunk", "parallel", "recurrent", "test", "for", "cuda", "gpu"),
    )
)
_RANDOM = frozenset(
    {"normal", "exponential", "uniform", "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "dropout"}
)
"""Operators of which two calls give two results."""
_STEMS = frozenset({"naive", "reference", "references", "ref", "torch_ref", "torch_impl", "native", "eager"})


@dataclass(frozen=True)
class Candidate:
    """A function that may define the right answer."""

    target: str
    """``module:qualname``."""
    path: str
    line: int
    callable_alike: bool
    """Whether it takes the launcher's arguments."""
    score: float
    why: str

    def __str__(self) -> str:
        place = f" ({self.path}:{self.line})" if self.path else ""
        return f"{self.target}{place}" + ("" if self.callable_alike else ", which takes other arguments")


class References:
    """Finds candidates in one tree."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._plain: list[tuple[str, Definition, frozenset[str]]] | None = None

    @property
    def plain(self) -> list[tuple[str, Definition, frozenset[str]]]:
        """Functions that are plain implementations by their name or their module's: path, definition, words."""
        if self._plain is None:
            self._plain = []
            for path in sorted(self.project.names.modules.files):
                stem = path.rpartition("/")[2].removesuffix(".py")
                folder = path.rpartition("/")[0].rpartition("/")[2]
                by_module = stem in _STEMS or stem.endswith(("_ref", "_reference", "_naive")) or folder in _STEMS
                for definition in self.project.names.table(path).facts.definitions:
                    if definition.kind != "function" or "." in definition.name or definition.runs:
                        continue
                    if f"{path}::{definition.name}" in self.project.devices or definition.name.startswith("test"):
                        continue
                    words = _words(definition.name)
                    if by_module or (words[:1] and words[0] in _BEFORE) or (words[-1:] and words[-1] in _AFTER):
                        self._plain.append((path, definition, frozenset(words) - _DECORATION))
        return self._plain

    def of(self, launcher: Launcher, inputs: list[str], tensors: list[str], registered: Registered) -> list[Candidate]:
        """Candidates for a launcher, the best first; ``inputs`` are the parameters that are declared."""
        found = [self._aten(name, at, inputs, tensors) for at, (name, _) in enumerate(registered.aten[:6])]
        path, _, name = launcher.symbol.partition("::")
        wanted = frozenset(_words(name)) - _DECORATION
        every = frozenset(_words(name))
        for place, definition, words in self.plain:
            symbol = f"{place}::{definition.name}"
            if symbol == launcher.symbol or symbol in launcher.launching or not words:
                continue
            common = len(wanted & words) / max(len(wanted | words), 1)
            if common < 0.5:
                continue
            near = 1.0 if place == path else 0.6 if _folder(place) == _folder(path) else 0.0
            closer = len(every & frozenset(_words(definition.name))) / 20
            alike = self._alike(definition, inputs)
            score = common + 0.5 * near + closer + 0.5 * alike
            module = self.project.names.modules.name_of(place)
            found.append(Candidate(f"{module}:{definition.name}", place, definition.line, alike, score, "name"))
        return sorted(found, key=lambda item: (-item.score, item.target))[:5]

    def _aten(self, name: str, at: int, inputs: list[str], tensors: list[str]) -> Candidate:
        """An overridden operator; one that writes to ``out``, or takes numbers for tensors, is called otherwise."""
        target = f"torch:ops.aten.{name if '.' in name else name + '.default'}"
        overload = name.partition(".")[2]
        out = overload.endswith("out") and not any("out" in item for item in inputs)
        scalar = "Scalar" in overload and len(inputs) > 1 and len(tensors) > 1
        more = overload.endswith("_mode")  # takes an argument that has no default there
        random = not _RANDOM.isdisjoint(_words(name.partition(".")[0]))
        alike = not (out or scalar or more or random)
        return Candidate(target, "", 0, alike, 3.0 - at / 10, "registration")

    def _alike(self, definition: Definition, inputs: list[str]) -> bool:
        """Whether a function takes the declared inputs, in their order, and needs nothing else."""
        names = [name for name, _ in definition.parameters if not name.startswith("*")]
        if any(not default and name not in inputs for name, default in definition.parameters if name in names):
            return False
        return [name for name in names if name in inputs] == inputs


def _words(name: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return [word for word in spaced.split("_") if word]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
