"""Which rules are on, and where: ``--select``, ``--ignore``, the configuration, ``per-file-ignores``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kgate.lint.rule import Rule
from kgate.source.config import Config, ConfigError

ALL = "ALL"
_PREFIX = re.compile(r"KG\d{0,2}")
_NUMBERED = re.compile(r"KG\d+", re.IGNORECASE)
_EXACT = 6
"""Specificity of a rule's own code or name; that of a prefix is its length, that of ALL is 0."""
_NARROW = 4
"""Characters that a prefix needs to turn on rules that are off by default: ``KG20``."""


class Catalogue:
    """The rules that there are, and what a code, a prefix or a name stands for."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: dict[str, Rule] = {rule.code: rule for rule in sorted(rules, key=lambda rule: rule.code)}
        """By code, in the order of codes."""
        self._named: dict[str, str] = {}
        for rule in self.rules.values():
            for name in (*rule.covers, rule.name):
                self._named[name] = rule.code
        self._known: dict[str, frozenset[str]] = {}

    def codes(self, selector: str) -> frozenset[str]:
        """Codes of the rules that a code, a prefix, a name or ``ALL`` stands for; empty where it stands for none."""
        found = self._known.get(selector)
        if found is None:
            found = self._known[selector] = self._find(selector)
        return found

    def _find(self, selector: str) -> frozenset[str]:
        if selector in self.rules:
            return frozenset({selector})
        if selector in self._named:
            return frozenset({self._named[selector]})
        if selector == ALL:
            return frozenset(self.rules)
        if _PREFIX.fullmatch(selector):
            return frozenset(code for code in self.rules if code.startswith(selector))
        return frozenset()

    def rule(self, code_or_name: str) -> Rule | None:
        """The one rule of a code or a name; None where there is none."""
        found = self.rules.get(code_or_name) or self.rules.get(self._named.get(code_or_name, ""))
        return found or self.rules.get(code_or_name.upper())

    def nearest(self, wrong: str) -> str:
        """``did you mean ...?`` for a selector that stands for no rule; no number is a misspelt other one."""
        if _NUMBERED.fullmatch(wrong) and wrong.upper() not in self.rules:
            return "codes are KG0xx to KG7xx; `kgate rule --all` lists them"
        known = [*self.rules, *self._named]
        near = difflib.get_close_matches(wrong, known, n=1) or difflib.get_close_matches(wrong.upper(), known, n=1)
        if not near and "-" in wrong:
            near = difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=0.5)
        if not near:
            return "`kgate rule --all` lists the rules"
        rule = self.rules.get(near[0])
        return f"did you mean {near[0]}{f' ({rule.name})' if rule else ''}?"


@dataclass(frozen=True)
class Layer:
    """What one place (the configuration, the command line) selects."""

    select: tuple[str, ...] | None
    """What is on instead of the default; None leaves the default."""
    extend: tuple[str, ...]
    """What is on besides."""
    ignore: tuple[str, ...]
    """What is off."""


@dataclass(frozen=True)
class Selection:
    """The rules that are on in one run, file by file."""

    catalogue: Catalogue
    layers: tuple[Layer, ...]
    """The configuration, then the command line; of two equally specific selectors the later layer's counts."""
    config: Config
    """Where ``per-file-ignores`` comes from."""
    _by_ignored: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        rules: Iterable[Rule] | Catalogue,
        config: Config,
        *,
        select: Sequence[str] = (),
        extend_select: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> Selection:
        """The selection of a configuration and a command line.

        ``select`` replaces what the configuration selects; ``extend_select`` and ``ignore`` add to it. Raises
        ConfigError for a code, prefix or name that stands for no rule, naming where it is written and the nearest.
        """
        catalogue = rules if isinstance(rules, Catalogue) else Catalogue(rules)
        _check_config(catalogue, config)
        for option, given in (("--select", select), ("--extend-select", extend_select), ("--ignore", ignore)):
            _check(catalogue, given, option, "")
        own = select or None
        written = Layer(None, (), config.ignore) if own else Layer(config.select, config.extend_select, config.ignore)
        asked = Layer(tuple(own) if own else None, tuple(extend_select), tuple(ignore))
        return cls(catalogue, (written, asked), config)

    @cached_property
    def everywhere(self) -> frozenset[str]:
        """Codes that are on, before ``per-file-ignores``."""
        chosen = any(layer.select is not None for layer in self.layers)
        on: dict[str, tuple[tuple[int, int, int], bool]] = {
            code: ((-1, 0, 0), rule.default and not chosen) for code, rule in self.catalogue.rules.items()
        }
        for number, layer in enumerate(self.layers):
            for selector in (*(layer.select or ()), *layer.extend):
                self._mark(on, selector, number, True)
            for selector in layer.ignore:
                self._mark(on, selector, number, False)
        return frozenset(code for code, (_, active) in on.items() if active)

    def _mark(self, on: dict[str, tuple[tuple[int, int, int], bool]], selector: str, layer: int, active: bool) -> None:
        specificity = _specificity(selector)
        weight = (specificity, layer, 0 if active else 1)
        for code in self.catalogue.codes(selector):
            shy = active and not self.catalogue.rules[code].default and 0 < specificity < _NARROW
            if not shy and weight >= on[code][0]:
                on[code] = (weight, active)

    def codes(self, path: str) -> frozenset[str]:
        """Codes that are on in a file."""
        ignored = self.config.ignored_in(path)
        found = self._by_ignored.get(ignored)
        if found is None:
            off = frozenset().union(*(self.catalogue.codes(selector) for selector in ignored))
            found = self._by_ignored[ignored] = self.everywhere - off
        return found

    def active(self, code: str, path: str) -> bool:
        """Whether a rule is on in a file; what no rule governs, such as a failed check, always is."""
        return code in self.codes(path) or code not in self.catalogue.rules


def _specificity(selector: str) -> int:
    if selector == ALL:
        return 0
    return len(selector) if _PREFIX.fullmatch(selector) else _EXACT


def _check_config(catalogue: Catalogue, config: Config) -> None:
    prefix = "tool.kgate." if config.path == "pyproject.toml" else ""
    written: Mapping[str, Sequence[str]] = {
        "select": config.select or (),
        "extend-select": config.extend_select,
        "ignore": config.ignore,
        **{f"per-file-ignores.{glob!r}": rules for glob, rules in config.per_file_ignores},
    }
    for key, selectors in written.items():
        _check(catalogue, selectors, config.path, f"{prefix}{key}: ")


def _check(catalogue: Catalogue, selectors: Sequence[str], place: str, key: str) -> None:
    for selector in selectors:
        if not catalogue.codes(selector):
            raise ConfigError(f"{key}{selector!r} is no rule", path=place, remedy=catalogue.nearest(selector))
