"""``kgate init``: a draft declaration for every kernel of a repository that has none; executes nothing of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgate.lint.init.definitions import apply, definition_of, read_definitions
from kgate.lint.init.draft import Draft, Entry, draft
from kgate.lint.init.files import (
    CONFIGURATION,
    InitError,
    appended,
    check_place,
    configured,
    starts_with_function,
    table_for,
    write,
)
from kgate.lint.init.launchers import Launcher, Launchers, Skipped, aside
from kgate.lint.init.naming import files_for, import_of, importable, variable_names
from kgate.lint.init.project import Project
from kgate.lint.init.references import Candidate, References
from kgate.lint.init.registrations import Registrations
from kgate.lint.init.writing import file_source, function_lines, stub_source
from kgate.lint.project import open_project, relative
from kgate.source.cache import Tree
from kgate.source.config import Config
from kgate.source.index import Index, build_index
from kgate.source.records import DeviceFunction, Finding
from kgate.source.text import decode

PLACEHOLDER = "TODO"


class Progress:
    """Silence; the command line gives one that speaks."""

    def phase(self, name: str, total: int = 0) -> None:
        """A new phase begins."""

    def step(self, label: str, failed: bool = False) -> None:
        """One step is done."""


@dataclass(frozen=True)
class Stub:
    """One kernel that was drafted."""

    name: str
    """Name of the variable that declares it."""
    launcher: str
    """``path.py::qualname``."""
    line: int
    file: str
    """The file that its declaration is written to."""
    reference: str
    fallback: str
    inferred: tuple[str, ...]
    """What the code told, with the place: ``x: swiglu.py:41 assert x.dim() == 2``."""
    left: tuple[str, ...]
    """What a person has to complete."""
    device_functions: tuple[str, ...]


@dataclass(frozen=True)
class Unlisted:
    """A launching function that got no stub."""

    launcher: str
    line: int
    reason: str


@dataclass(frozen=True)
class InitResult:
    """What one run found and wrote."""

    stubs: tuple[Stub, ...]
    files: dict[str, str]
    """File to its new content."""
    written: bool
    declared: int
    """Launched device functions that a declaration reached before."""
    undeclared: int
    """Launched device functions that none reached, as far as PATHS has them."""
    skipped: tuple[Unlisted, ...]
    unexpected: tuple[Finding, ...]
    """Findings in the new files beside the placeholders; there should be none."""
    configuration: str
    """The table to add to pyproject.toml; empty where there is one."""
    configured: bool = False
    """Whether it was added."""
    notes: tuple[str, ...] = ()
    schema: str = "kgate.init/1"


@dataclass
class Options:
    """What the command line asks for."""

    paths: Sequence[str] = ()
    output: str = ""
    append: bool = False
    configure: bool = False
    dry_run: bool = False


@dataclass
class _Plan:
    drafts: list[Draft] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Launcher to its stub."""
    imports: dict[str, str] = field(default_factory=dict)
    files: dict[str, list[Launcher]] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    """Files with references that definitions carry."""
    skipped: dict[str, Skipped] = field(default_factory=dict)


def init(folder: Path, options: Options, progress: Any = None, env: Mapping[str, str] | None = None) -> InitResult:
    """Draft declarations for the kernels of the project that a folder lies in, and write them.

    Raises InitError where a file is in the way, ConfigError, and GitError.
    """
    shown = progress or Progress()
    shown.phase("reading the tree")
    opened = open_project(folder, os.environ if env is None else env, working=True)
    top, snapshot, config, cache = opened.top, opened.snapshot(), opened.config, opened.cache
    wanted = [relative(folder, path, top) for path in options.paths]
    output = relative(folder, options.output, top) if options.output else ""
    index = _index(snapshot, config, cache)
    project = Project(index)
    bare = [item for item in index.undeclared if not config.excludes(item.path)]
    chosen = [item for item in bare if _inside(item, wanted)]
    finder = Launchers(project)
    launchers = [item for item in finder.find(chosen) if importable(project, item)]
    plan = _plan(project, launchers, output, shown)
    files, taken = _contents(plan, top, options)
    unexpected = _verify(snapshot, config, files, cache) if files else ()
    launched = [item for item in index.device_functions if item.launched and _inside(item, wanted)]
    table = "" if config.configured else table_for(launched, config)
    configure = bool(options.configure and table)
    changed = files | ({CONFIGURATION: configured(top / CONFIGURATION, table)} if configure else {})
    if not options.dry_run:
        write(top, changed)
    return InitResult(
        tuple(_stub(item, plan, project) for item in plan.drafts),
        {path: decode(raw) for path, raw in files.items()},
        bool(files) and not options.dry_run,
        sum(1 for item in index.device_functions if item.launched and item.declared_by),
        len(chosen),
        tuple(Unlisted(item.symbol, item.line, item.reason) for item in _sorted(finder.skipped | plan.skipped)),
        unexpected,
        table,
        configure and not options.dry_run,
        tuple(taken),
    )


def _index(tree: Tree, config: Config, cache: Path | None) -> Index:
    aliases = config.device_decorators
    return build_index(tree, config.roots, cache_dir=cache, exclude=config.exclude, jit_aliases=aliases)


def _sorted(skipped: dict[str, Skipped]) -> list[Skipped]:
    return sorted(skipped.values(), key=lambda item: (item.symbol.partition("::")[0], item.line))


def _inside(device: DeviceFunction, wanted: Sequence[str]) -> bool:
    paths = [device.path, *(launch.path for launch in device.launches)]
    if not wanted:
        return not all(aside(launch.path) for launch in device.launches)
    return any(path == want or want == "." or path.startswith(f"{want}/") for path in paths for want in wanted)


def _plan(project: Project, launchers: list[Launcher], output: str, shown: Any) -> _Plan:
    plan = _Plan()
    shown.phase(f"drafting {len(launchers):,} kernels")
    registrations, references = Registrations(project), References(project)
    definitions = read_definitions(project)
    taken = {identity.rpartition("::")[2] for identity in project.index.sites}
    names = variable_names(launchers, taken)
    for launcher in launchers:
        name = names[launcher.symbol]
        registered = registrations.of(launcher.symbol)
        made = draft(project, launcher, name, registered)
        if not _takes_tensors(made):
            reason = "it takes no tensors: declare a function that does, or this one by hand if it is a kernel"
            own = project.definition(launcher.symbol)
            line = own.line if own is not None else 0
            plan.skipped[launcher.symbol] = Skipped(launcher.symbol, line, reason)
            continue
        definition = definition_of(definitions, made)
        if definition is not None:
            plan.extra |= apply(definition, made)
        inputs = [entry.name for entry in made.inputs]
        tensors = [entry.name for entry in made.inputs if entry.source.startswith("Tensor(")]
        if not made.reference.source:
            _refer(made, references.of(launcher, inputs, tensors, registered))
        statement, callee = import_of(project, launcher, name)
        plan.drafts.append(made)
        plan.imports[launcher.symbol] = statement
        plan.texts[launcher.symbol] = stub_source(made, callee)

    left = {made.launcher.symbol for made in plan.drafts if made.todos()}
    launchers = [made.launcher for made in plan.drafts]
    for path, items in (files_for(launchers, output) if launchers else {}).items():
        complete = [item for item in items if item.symbol not in left]
        rest = [item for item in items if item.symbol in left]
        plan.files[path] = complete or rest
        if complete and rest:
            plan.files[f"{path.removesuffix('.py')}_todo.py"] = rest
    return plan


def _takes_tensors(made: Draft) -> bool:
    """Whether some input is a tensor, or may be one."""
    return any(
        entry.source.startswith(("Tensor(", "ListOf(", "Offsets(", "TODO", 'Scalar("TODO')) for entry in made.inputs
    )


def _refer(made: Draft, candidates: list[Candidate]) -> None:
    """The best candidate that takes the same arguments; the others go into a comment."""
    usable = [item for item in candidates if item.callable_alike]
    todo = f"the plain implementation that defines {made.name}"
    if usable and usable[0].why == "registration":
        name = f"{made.name}_reference"
        made.helper = _operator(name, usable[0].target.replace(":", "."), [entry.name for entry in made.inputs])
        made.reference = Entry("reference", name, ["registered for it"])
        made.fallback = Entry("fallback", name)
    elif usable:
        made.reference = Entry("reference", f'"{usable[0].target}"', [_found(usable[0])])
        production = not aside(usable[0].path)
        made.fallback = Entry("fallback", f'"{usable[0].target}"') if production else _no_fallback(made)
    else:
        made.reference = Entry("reference", f'"{PLACEHOLDER}: {todo}"', [], todo)
        made.fallback = _no_fallback(made)
    others = [item for item in candidates if not usable or item is not usable[0]]
    if others:
        made.notes.append(f"Other candidates for the reference: {'; '.join(map(str, others))}")


def _no_fallback(made: Draft) -> Entry:
    what = f"what serves inputs outside the envelope of {made.name}"
    return Entry("fallback", f'"{PLACEHOLDER}: {what}"', [], what)


def _operator(name: str, operator: str, inputs: list[str]) -> list[str]:
    """A function that calls an operator of torch, whose parameters go by other names, as the launcher is called."""
    return function_lines(name, inputs, operator, inputs)


def _found(candidate: Candidate) -> str:
    return f"{candidate.path.rpartition('/')[2]}:{candidate.line}"


def _contents(plan: _Plan, top: Path, options: Options) -> tuple[dict[str, bytes], list[str]]:
    """File to its content; nothing that exists is replaced."""
    for path in plan.files:
        check_place(top, path)
    existing = [path for path in plan.files if (top / path).exists()]
    if existing and not options.append and not options.dry_run:
        count = sum(len(plan.files[path]) for path in existing)
        raise InitError(
            f"{existing[0]} exists and is left as it is; {count} kernels that would go there are not declared",
            "add them to it with --append, or name another file with --output",
        )
    files: dict[str, bytes] = {}
    helpers = {made.launcher.symbol: made.helper for made in plan.drafts}
    for path, launchers in plan.files.items():
        stubs = [plan.texts[item.symbol] for item in launchers]
        imports = [plan.imports[item.symbol] for item in launchers]
        imports += (
            ["import torch"] if any("torch." in line for item in launchers for line in helpers[item.symbol]) else []
        )
        spaced = _spaced(stubs)
        if path in existing and options.append:
            files[path] = appended(path, (top / path).read_bytes(), spaced, imports)
        else:
            files[path] = file_source(spaced, imports).encode("utf-8")
    files |= {path: text.encode("utf-8") for path, text in plan.extra.items() if not (top / path).exists()}
    for path in list(files):
        for parent in Path(path).parents:
            package = (parent / "__init__.py").as_posix()
            if parent.name and not (top / package).exists() and len(Path(path).parts) > 1:
                files.setdefault(package, b'"""Declarations of the kernels of this project."""\n')
    return files, [f"{path} exists" for path in existing]


def _spaced(stubs: list[str]) -> list[str]:
    """Stubs with the blank lines between them: two around functions, one otherwise."""
    spaced: list[str] = []
    for at, stub in enumerate(stubs):
        function = starts_with_function(stub)
        after_function = (at > 0 and stubs[at - 1].startswith("@")) or (at > 0 and "\n@kernel(" in stubs[at - 1])
        if at == 0:
            spaced.append(("\n" if function else "") + stub)
        else:
            spaced.append(("\n\n" if function or after_function else "\n") + stub)
    return spaced


class _Overlay:
    """A tree with some files more."""

    def __init__(self, tree: Tree, files: dict[str, bytes]) -> None:
        import hashlib

        self.tree = tree
        self.raw = files
        self._files = dict(tree.files()) | {
            path: hashlib.sha1(b"overlay" + raw, usedforsecurity=False).hexdigest() for path, raw in self.raw.items()
        }

    def files(self) -> Any:
        """Path to content id."""
        return self._files

    def gitlinks(self) -> Any:
        """Those of the tree."""
        return self.tree.gitlinks()

    def read(self, path: str) -> bytes:
        """The bytes of one file."""
        return self.raw[path] if path in self.raw else self.tree.read(path)

    def read_many(self, paths: Any) -> Any:
        """Path to bytes of several files."""
        paths = list(paths)
        rest = self.tree.read_many([path for path in paths if path not in self.raw])
        return {**dict(rest), **{path: self.raw[path] for path in paths if path in self.raw}}


def _verify(tree: Tree, config: Config, files: dict[str, bytes], cache: Path | None) -> tuple[Finding, ...]:
    """Read the new files as the linter will: what it finds there that is no placeholder."""
    index = _index(_Overlay(tree, files), config, cache)
    return tuple(item for item in index.findings if item.path in files and not _intended(item))


def _intended(finding: Finding) -> bool:
    return PLACEHOLDER in finding.message


def _stub(made: Draft, plan: _Plan, project: Project) -> Stub:
    symbol = made.launcher.symbol
    file = next(path for path, items in plan.files.items() if any(item.symbol == symbol for item in items))
    definition = project.definition(symbol)
    parts = (*made.inputs, *made.outputs, *made.dims, *made.where)
    return Stub(
        made.name,
        symbol,
        definition.line if definition is not None else 0,
        file,
        made.reference.source.strip('"') if not made.reference.todo else "",
        made.fallback.source.strip('"') if not made.fallback.todo else "",
        tuple(f"{entry.name or entry.source}: {why}" for entry in parts for why in entry.evidence),
        tuple(made.todos()),
        tuple(sorted(made.launcher.devices)),
    )
