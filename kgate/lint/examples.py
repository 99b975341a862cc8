"""The examples of rules: read into files and marked ranges, and linted as a project of their own in memory."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgate.lint.rule import Example, Rule
from kgate.source.records import Finding

_FILE = re.compile(r"^(?:#|//) file: (\S+)\s*$")
_CARETS = re.compile(r"^[ \t]*(?:(?:#|//)[ \t]*)?(\^+)[ \t]*$")
DEFAULT_CONFIG = 'require = ["**"]\n'


@dataclass(frozen=True)
class Snippet:
    """An example taken apart."""

    files: dict[str, str]
    """Path to source, without the lines of carets."""
    marks: tuple[tuple[str, int, int, int], ...]
    """Path, line, column and end column (exclusive) of each marked range."""


def read(code: str, default: str = "kernel.py") -> Snippet:
    """Take an example apart."""
    files: dict[str, list[str]] = {}
    marks: list[tuple[str, int, int, int]] = []
    path = default
    for line in textwrap.dedent(code).strip("\n").split("\n"):
        named = _FILE.match(line)
        carets = _CARETS.match(line)
        if named is not None:
            path = named.group(1)
            files.setdefault(path, [])
        elif carets is not None and files.get(path):
            start = carets.start(1) + 1
            marks.append((path, len(files[path]), start, start + len(carets.group(1))))
        else:
            files.setdefault(path, []).append(line)
    return Snippet({name: "\n".join(lines).rstrip("\n") + "\n" for name, lines in files.items()}, tuple(marks))


def default_path(rule: Rule) -> str:
    """The file that a rule's examples stand in where they name none."""
    return "kernel.cu" if rule.family == "cuda" else "kernel.py"


def check(rule: Rule, example: Example) -> tuple[Snippet, list[Finding]]:
    """An example, and what the rule finds in it."""
    snippet = read(example.code, default_path(rule))
    return snippet, [item for item in lint_files(snippet.files, example.config) if item.code == rule.code]


def lint_files(files: Mapping[str, str], config: str = "") -> list[Finding]:
    """Every finding of every rule in a project that is held in memory. ``config``: lines of ``[tool.kgate]``."""
    from kgate.lint.analysis import analyse
    from kgate.lint.judging import findings_of
    from kgate.lint.registry import rules
    from kgate.lint.run import lint_paths, settings_of, settle
    from kgate.lint.selection import Selection
    from kgate.source.config import load_config
    from kgate.source.index import build_index

    tree = MemoryTree({path: source.encode("utf-8", "surrogatepass") for path, source in files.items()})
    own = tree.contents.get("kgate.toml", (config or DEFAULT_CONFIG).encode())
    parsed = load_config(lambda path: own if path == "kgate.toml" else None)
    index = build_index(tree, parsed.roots, exclude=parsed.exclude, jit_aliases=parsed.device_decorators)
    settings = settings_of(parsed)
    facts = {path: analyse(path, tree.contents[path], settings) for path in lint_paths(index, parsed)}
    selection = Selection.of(rules(), parsed, select=("ALL",))
    return settle(findings_of(index, parsed, facts), facts, selection)[0]


class MemoryTree:
    """Files in memory, as the index reads a tree."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(contents)

    def files(self) -> dict[str, str]:
        """Path to a digest of the content."""
        return {path: hashlib.sha1(raw).hexdigest() for path, raw in self.contents.items()}

    def gitlinks(self) -> dict[str, str]:
        """No submodules."""
        return {}

    def read(self, path: str) -> bytes:
        """The bytes of one file. Raises KeyError."""
        return self.contents[path]

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Path to bytes of several files."""
        return {path: self.contents[path] for path in paths}
