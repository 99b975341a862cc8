"""All rules: every module below ``rules/`` that has a ``RULE``, by code and by name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from kgate.lint.rule import Rule


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the order of codes. Raises ValueError where two share a code or a name."""
    import kgate.lint.rules as package

    found: dict[str, Rule] = {}
    names: dict[str, str] = {}
    for family in pkgutil.iter_modules(package.__path__):
        folder = importlib.import_module(f"{package.__name__}.{family.name}")
        for item in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{item.name}")
            rule = getattr(module, "RULE", None)
            if rule is None:
                continue
            if rule.code in found or rule.name in names:
                raise ValueError(f"{module.__name__}: {rule.code} {rule.name} is there already")
            if rule.family != family.name:
                raise ValueError(f"{module.__name__}: {rule.code} belongs into rules/{rule.family}")
            found[rule.code] = rule
            names[rule.name] = rule.code
    return tuple(found[code] for code in sorted(found))


@cache
def by_code() -> dict[str, Rule]:
    """Rules by code."""
    return {rule.code: rule for rule in rules()}


@cache
def by_name() -> dict[str, Rule]:
    """Rules by name, and by the names of the findings that they cover."""
    found = {rule.name: rule for rule in rules()}
    for rule in rules():
        for name in rule.covers:
            found.setdefault(name, rule)
    return found
