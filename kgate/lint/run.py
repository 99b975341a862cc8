"""``kgate lint``: what is wrong with the declarations of a tree, and which kernels have none; executes nothing."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgate.lint.analysis import CUDA_SUFFIXES, Settings, no_collection
from kgate.lint.judging import coded
from kgate.lint.judging import findings_of as judge
from kgate.lint.links import judged_elsewhere, names_of, under_own_names
from kgate.lint.notes import about_paths, about_settings, inside
from kgate.lint.project import open_project, relative
from kgate.lint.records import LintFacts
from kgate.lint.registry import rules
from kgate.lint.rule import NOTE
from kgate.lint.selection import Selection
from kgate.lint.store import LintStore
from kgate.lint.suppress import ABOUT_COMMENTS, add_ignores_to
from kgate.lint.suppress import apply as apply_suppressions
from kgate.lint.suppress import check as check_suppressions
from kgate.source.cache import FactsStore, Tree
from kgate.source.config import Config
from kgate.source.index import Index, build_index
from kgate.source.records import Finding

if TYPE_CHECKING:
    from kgate.lint.changed import ChangedLines

UNDECLARED = "KG101"
CUDA_ALWAYS = (".cu", ".cuh", ".hip")
"""Suffixes of files that are CUDA C++ whatever is in them."""


@dataclass(frozen=True)
class LintOptions:
    """What a run of the linter is asked to do."""

    paths: tuple[str, ...] = ()
    """Files or folders, relative to the folder it runs in; everything where empty."""
    select: tuple[str, ...] = ()
    """Rules that are on, instead of what the configuration selects."""
    extend_select: tuple[str, ...] = ()
    """Rules that are on besides."""
    ignore: tuple[str, ...] = ()
    """Rules that are off."""
    changed: bool = False
    """Whether only findings on changed lines are shown."""
    base: str | None = None
    """What ``changed`` compares with; None finds it as ``kgate check`` does."""
    fix: bool = False
    """Whether safe fixes are made."""
    unsafe_fixes: bool = False
    """Whether unsafe ones are made too, with ``fix``, or shown, with ``diff``."""
    diff: bool = False
    """Whether fixes are shown and not made."""
    add_ignore: str | None = None
    """The reason with which every finding gets an ignore; None adds none."""


@dataclass(frozen=True)
class LintResult:
    """The findings of one run, and how much was looked at."""

    findings: tuple[Finding, ...]
    """Sorted by file and place."""
    notes: tuple[str, ...]
    """Sentences that concern the project as a whole."""
    kernels: int
    """Kernels declared."""
    device_functions: int
    """Device functions found."""
    frameworks: dict[str, int] = field(default_factory=dict)
    """Device functions by what compiles them."""
    suppressed: int = 0
    """Findings that an ignore hides."""
    fixed: int = 0
    """Findings that were mended."""
    ignored: int = 0
    """Ignores that were added."""
    diff: str = ""
    """The changes that fixes would make, where they were asked for."""
    schema: str = "kgate.lint/2"
    """Name and version of this document."""


def lint(folder: Path, options: LintOptions | None = None, env: Mapping[str, str] | None = None) -> LintResult:
    """Check the kernels and the declarations of the project that a folder lies in; executes nothing of it.

    Reads the working folder (in a hook: the staged tree) where it is a git repository, and the files as they lie there
    otherwise. Raises ConfigError, also for a path outside the project or a rule that does not exist, and GitError.
    """
    return _Run(folder, options or LintOptions(), os.environ if env is None else env).result()


class _Run:
    """One run, which may look at the tree several times while it mends it."""

    def __init__(self, folder: Path, options: LintOptions, env: Mapping[str, str]) -> None:
        self.options, self.env = options, env
        writes = options.fix or options.add_ignore is not None
        self.project = open_project(folder, env, working=writes)
        self.wanted = [relative(folder, path, self.project.top) for path in options.paths]
        self.changed: ChangedLines | None = None
        self.index: Index | None = None
        self.suppressed = 0
        self.written: dict[str, bytes] = {}
        """What fixes that are only shown would make of files."""
        self.links: dict[str, str] = {}
        """Links to files that are judged under their own names."""
        self.about: list[str] = []
        """Notes about the settings, and about paths that were named."""

    def result(self) -> LintResult:
        options = self.options
        fixed, ignored, shown, notes = 0, 0, "", list[str]()
        if options.fix or options.diff:
            findings, fixed, shown, notes = self._fix()
        else:
            findings = self.look()
        if options.add_ignore is not None:
            hidden = self.suppressed
            notes += self._add_ignores(findings, options.add_ignore)
            findings = self.look()
            ignored = max(self.suppressed - hidden, 0)
        index = self.index
        assert index is not None
        frameworks: dict[str, int] = {}
        functions = [item for item in index.device_functions if item.path not in self.links]
        for function in functions:
            frameworks[function.framework] = frameworks.get(function.framework, 0) + 1
        if self.changed is not None:
            notes.append(f"only changed lines: {self.changed.explanation}")
        return LintResult(
            findings=tuple(findings),
            notes=(*notes_of(index, self.project.config, self.links), *self.about, *notes),
            kernels=sum(item.path not in self.links for item in index.declarations),
            device_functions=len(functions),
            frameworks=frameworks,
            suppressed=self.suppressed,
            fixed=fixed,
            ignored=ignored,
            diff=shown,
        )

    def look(self) -> list[Finding]:
        """The findings of the tree as it is now, in the order of file and place."""
        gc.unfreeze()  # what the look before has left
        with no_collection():
            try:
                return self._look()
            finally:
                gc.freeze()  # facts and index live on and hold no garbage: no collection has to go through them

    def _look(self) -> list[Finding]:
        project, options = self.project, self.options
        config = project.config
        tree = project.snapshot()
        links = tree.links()
        self.links = judged_elsewhere(links, config.excludes)
        snapshot: Tree = Overlay(tree, self.written, links) if self.written else tree
        selection = Selection.of(
            rules(), config, select=options.select, extend_select=options.extend_select, ignore=options.ignore
        )
        facts = FactsStore(snapshot, project.cache)
        self.about = about_settings(config, facts.oids, selection) + about_paths(self.wanted, config, facts.oids)
        store = LintStore(facts, project.cache, settings_of(config))
        store.read(first_paths(facts, config))  # parsed once for both, by several processes
        index = self.index = build_index(
            facts, config.roots, exclude=config.exclude, jit_aliases=config.device_decorators
        )
        files = store.read(lint_paths(index, config))
        facts.pack()
        store.pack()
        found = under_own_names(judge(index, config, files), self.links)
        own = {path: item for path, item in files.items() if path not in self.links}
        kept, self.suppressed = settle(found, own, selection)
        if self.wanted:
            kept = self._narrow(kept)
        if options.changed:
            if self.changed is None:
                self.changed = project.changed_lines(options.base)
            kept = self.changed.narrow(kept)
        return kept

    def _narrow(self, findings: list[Finding]) -> list[Finding]:
        """The findings of files that are asked for, by whichever of their names."""
        links = names_of(self.links)
        return [
            item
            for item in findings
            if any(inside(name, path) for name in (item.path, *links.get(item.path, ())) for path in self.wanted)
        ]

    def _fix(self) -> tuple[list[Finding], int, str, list[str]]:
        from kgate.lint.fixes import Folder, diff, fix_all

        folder = Folder(self.project.top)
        if self.options.diff:
            outcome = fix_all(self.look, self._read, self._keep, self.options.unsafe_fixes)
        else:
            outcome = fix_all(self.look, folder.read, folder.write, self.options.unsafe_fixes)
        shown = (
            "".join(diff(item.path, item.before, item.after) for item in outcome.changes) if self.options.diff else ""
        )
        notes = [f"{path} was left alone: {why}" for path, why in outcome.left]
        notes += [f"{item.path}:{item.line} {item.code} was not fixed: {why}" for item, why in outcome.refused]
        return list(outcome.remaining), len(outcome.fixed), shown, notes

    def _read(self, path: str) -> bytes:
        return self.written[path] if path in self.written else bytes(self.project.snapshot().read(path))

    def _keep(self, path: str, before: bytes, after: bytes) -> None:
        self.written[path] = after

    def _add_ignores(self, findings: Sequence[Finding], reason: str) -> list[str]:
        """Write an ignore for each finding; what was left alone, and why."""
        from kgate.lint.fixes import ChangedSince, Folder

        folder = Folder(self.project.top)
        notes: list[str] = []
        by_path: dict[str, list[Finding]] = {}
        undeclared = 0
        for item in findings:
            if item.code == UNDECLARED:
                undeclared += 1
            elif item.code not in ABOUT_COMMENTS and item.severity != NOTE:
                by_path.setdefault(item.path, []).append(item)
        if undeclared:
            notes.append(
                f"{undeclared} {UNDECLARED} got no ignore, as they tell how far a project has come; "
                f'`ignore = ["{UNDECLARED}"]` in [tool.kgate], or a shorter `require`, hides them'
            )
        for path, items in by_path.items():
            before = folder.read(path)
            after = add_ignores_to(before, items, reason)
            if after == before:
                notes.append(f"{path} was left alone: no comment can be put there")
                continue
            try:
                folder.write(path, before, after)
            except ChangedSince as why:
                notes.append(f"{path} was left alone: {why}")
        return notes


def settle(
    findings: Sequence[Finding], files: Mapping[str, LintFacts], selection: Selection
) -> tuple[list[Finding], int]:
    """The findings that are shown, in the order of file and place, and how many an ignore hides."""
    active = [item for item in findings if selection.active(item.code, item.path)]
    suppressions = {path: facts.suppressions for path, facts in files.items() if facts.suppressions}
    unable = () if selection.config.configured else ("KG101",)  # one note there, and no finding each
    kept, unused = apply_suppressions(active, suppressions, selection, unable=unable)
    hidden = len(active) - len(kept)
    kept += unused
    for path, items in suppressions.items():
        about = check_suppressions(path, items, selection.catalogue)
        kept += [item for item in about if selection.active(item.code, path)]
    return sorted(kept, key=lambda item: (item.path, item.line, item.column, item.code, item.message)), hidden


def contract_findings(index: Index, config: Config, *, changed: bool = True) -> tuple[list[Finding], list[str]]:
    """What is wrong with declarations alone, for the gate, and notes.

    Where nothing has ``changed``, undeclared kernels are not looked for, which takes most of the time in a large tree.
    """
    from kgate.lint.rules.contract.incomplete_draft import gathered
    from kgate.lint.rules.contract.outside_roots import outside
    from kgate.lint.rules.contract.undeclared_kernel import undeclared

    found = [coded(item, index) for item in index.findings]
    found += outside(index, config)
    if changed:
        found += undeclared(index, config)
    found = [item for item in gathered(found, index) if not config.excludes(item.path)]
    notes = notes_of(index, config) if changed else _require_notes(index, config)
    return sorted(found, key=lambda item: (item.path, item.line, item.column, item.code)), notes


def settings_of(config: Config) -> Settings:
    """What a file's own facts depend on in a configuration."""
    return Settings(config.device_decorators, config.guard_decorators, config.contiguous_decorators)


def first_paths(store: FactsStore, config: Config) -> list[str]:
    """Files that mention kernels at all; nearly all that the index will ask for."""
    python = [path for path in store.oids if path.endswith(".py") and not config.excludes(path)]
    return store.mentioning(sorted(python))


def lint_paths(index: Index, config: Config) -> list[str]:
    """Files that rules look at: those that mention kernels, and CUDA C++."""
    paths = [path for path in index.store.oids if path.endswith(CUDA_SUFFIXES) and not config.excludes(path)]
    cuda = [path for path in paths if path.endswith(CUDA_ALWAYS)]
    if cuda:
        cuda += index.store.containing([path for path in paths if not path.endswith(CUDA_ALWAYS)], b"__global__")
    return sorted({*index.paths, *cuda})


def notes_of(index: Index, config: Config, links: Container[str] = ()) -> list[str]:
    """What concerns the project as a whole. ``links``: further names of files, which do not count."""
    notes = _require_notes(index, config)
    undeclared = () if config.configured else index.undeclared
    bare = [item for item in undeclared if item.path not in links and not config.excludes(item.path)]
    if bare:
        one = f"{bare[0].path}:{bare[0].line}"
        are = "kernel is" if len(bare) == 1 else "kernels are"
        notes.append(
            f"{len(bare)} {are} launched and not declared (first: {one}); "
            "add a [tool.kgate] table to pyproject.toml to have each of them reported"
        )
    return notes


def _require_notes(index: Index, config: Config) -> list[str]:
    if config.configured and index.paths and not any(config.requires(path) for path in index.paths):
        patterns = ", ".join(config.require)
        return [f"require ({patterns}) matches none of the {len(index.paths)} files that mention kernels"]
    return []


class Overlay:
    """A tree with some files replaced, which fixes that are only shown are looked for in."""

    def __init__(self, tree: Tree, contents: Mapping[str, bytes], links: Mapping[str, str]) -> None:
        behind = {link: contents[file] for link, file in links.items() if file in contents}
        self.tree, self.contents = tree, {**behind, **contents}

    def files(self) -> dict[str, str]:
        """Path to an id of the content."""
        own = {path: hashlib.sha1(raw, usedforsecurity=False).hexdigest() for path, raw in self.contents.items()}
        return {**self.tree.files(), **own}

    def gitlinks(self) -> Any:
        """Those of the tree."""
        return self.tree.gitlinks()

    def read(self, path: str) -> bytes:
        """Contents of a file."""
        return self.contents[path] if path in self.contents else self.tree.read(path)

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Contents of several files."""
        wanted = list(paths)
        found = dict(self.tree.read_many([path for path in wanted if path not in self.contents]))
        return {path: self.contents[path] if path in self.contents else found[path] for path in wanted}
