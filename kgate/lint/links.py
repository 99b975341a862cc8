"""Symbolic links in a tree: a file with several names is judged once, under its own."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterable, Mapping

from kgate.source.records import Finding


def judged_elsewhere(links: Mapping[str, str], excludes: Callable[[str], bool]) -> dict[str, str]:
    """Those of a tree's links whose file is judged under its own name: it has the same suffix, and is not excluded."""
    return {
        link: file
        for link, file in links.items()
        if posixpath.splitext(link)[1] == posixpath.splitext(file)[1] and not excludes(file)
    }


def under_own_names(findings: Iterable[Finding], links: Mapping[str, str]) -> list[Finding]:
    """Findings with every linked file under its own name, each of them once."""
    findings = list(findings)
    kept = [item for item in findings if item.path not in links]
    seen = {_key(item) for item in kept}
    for item in findings:
        if item.path in links:
            moved = _moved(item, links)
            if _key(moved) not in seen:
                seen.add(_key(moved))
                kept.append(moved)
    return kept


def names_of(links: Mapping[str, str]) -> dict[str, list[str]]:
    """File to the links that stand for it."""
    found: dict[str, list[str]] = {}
    for link, file in links.items():
        found.setdefault(file, []).append(link)
    return found


def _moved(item: Finding, links: Mapping[str, str]) -> Finding:
    path, separator, name = item.symbol.partition("::")
    return dataclasses.replace(
        item,
        path=links[item.path],
        symbol=f"{links.get(path, path)}{separator}{name}",
        related=tuple(dataclasses.replace(one, path=links.get(one.path, one.path)) for one in item.related),
    )


def _key(item: Finding) -> tuple[str, int, int, str, str]:
    return item.path, item.line, item.column, item.code, item.message
