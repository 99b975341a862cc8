"""What is compared with what, and the kernels that the diff between the two can have changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgate.baselines.store import Layout
from kgate.gate.errors import UsageError
from kgate.source.affected import affected, removed_kernels, renamed_kernels
from kgate.source.config import Config, Root, load_config
from kgate.source.git import Comparison, Repository, Snapshot, changed_paths, resolve
from kgate.source.index import Index, build_index
from kgate.source.records import Affected, Declaration, Reason, Removed, Step

STATE = ".kgate"


@dataclass(frozen=True)
class Selection:
    """Two trees read, and the kernels selected between them."""

    repository: Repository
    comparison: Comparison
    config: Config
    """The configuration of the tree under test."""
    base_config: Config | None
    """Base's configuration; None where there is no base."""
    base: Index | None
    head: Index
    affected: tuple[Affected, ...]
    """In the order of their paths."""
    removed: tuple[Removed, ...]
    renamed: Mapping[str, str]
    """Identity at head to identity at base of kernels that moved or have another name."""
    everything: str
    """Why every kernel was selected, where the configuration changed or it was asked for; else empty."""

    @property
    def state(self) -> Path:
        """The folder for caches and pending results; git ignores it."""
        return state_folder(self.repository)

    def declaration(self, identity: str) -> Declaration:
        """The declaration of an identity at head."""
        return next(item for item in self.head.declarations if item.identity == identity)


def state_folder(repository: Repository) -> Path:
    """``.kgate`` at the root of the working tree, made with a .gitignore of its own."""
    folder = (repository.git_dir if repository.bare else repository.toplevel) / STATE
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def config_of(snapshot: Snapshot) -> Config:
    """The configuration that a tree holds."""
    files = snapshot.files()
    return load_config(lambda path: snapshot.read(path) if path in files else None)


def index_of(snapshot: Snapshot, config: Config, state: Path) -> Index:
    """The index of a tree, with facts cached per content."""
    return build_index(snapshot, config.roots, cache_dir=state / "facts", exclude=config.exclude)


def select(
    folder: Path,
    *,
    base: str | None = None,
    head: str | None = None,
    staged: bool = False,
    kernels: Sequence[str] = (),
    everything: bool = False,
    env: Mapping[str, str] | None = None,
) -> Selection:
    """Decide what to compare, read both trees, and select.

    ``kernels`` narrows to names, identities or globs. Raises :class:`~kgate.source.git.GitError` where git cannot
    answer, :class:`~kgate.source.config.ConfigError` for a mistake in the configuration, and :class:`UsageError`
    where a name in ``kernels`` matches nothing.
    """
    environment = os.environ if env is None else env
    repository = Repository(folder, env=environment)
    comparison = resolve(repository, base, head, environment, staged=True if staged else None)
    config = config_of(comparison.head)
    state = state_folder(repository)
    before = comparison.base
    base_config = None if before is None else _base_config(before)
    same = before is not None and before.tree == comparison.head.tree
    now = index_of(comparison.head, config, state)
    then = None if before is None else now if same else index_of(before, base_config or config, state)
    why = _all_because(base_config, config, everything)
    chosen = () if same and not why else affected(then, now)
    if why:
        chosen = _every(chosen, now, why)
    chosen = _with_baseline_edits(chosen, comparison, config, now)
    gone = () if same or then is None else tuple(removed_kernels(then, now))
    moved = {} if same or then is None else renamed_kernels(then, now)
    picked = _narrow(tuple(chosen), now, kernels)
    return Selection(repository, comparison, config, base_config, then, now, picked, gone, moved, why)


def _base_config(base: Snapshot) -> Config | None:
    from kgate.source.config import ConfigError

    try:
        return config_of(base)
    except ConfigError:
        return None  # head may be what mends it; every kernel is then selected


def _all_because(base: Config | None, head: Config, everything: bool) -> str:
    if everything:
        return "all kernels were asked for"
    if base is not None and _relevant(base) != _relevant(head):
        return "kgate's configuration changed"
    return ""


def _relevant(config: Config) -> tuple[object, ...]:
    return (config.exclude, config.probe_targets, config.roots)


def _every(chosen: Sequence[Affected], index: Index, why: str) -> list[Affected]:
    known = {item.kernel: item for item in chosen}
    found = []
    for declaration in index.declarations:
        step = Step(declaration.identity, declaration.path, declaration.line)
        plain = Affected(
            declaration.identity,
            declaration.name,
            declaration.path,
            ("code",),
            (Reason("code", (step,), why),),
        )
        found.append(known.get(declaration.identity, plain))
    return found


def _with_baseline_edits(
    chosen: Sequence[Affected], comparison: Comparison, config: Config, index: Index
) -> list[Affected]:
    """Kernels whose committed lines the diff edits are selected too: a line must be true."""
    if comparison.base is None or comparison.base.tree == comparison.head.tree:
        return list(chosen)
    edited: dict[str, str] = {}
    layouts = [baseline_layout(root) for root in config.roots]
    for _, *paths in changed_paths(comparison.base, comparison.head):
        for path in filter(None, paths):
            for parsed in (layout.parse(path) for layout in layouts):
                if parsed is not None:
                    edited.setdefault(parsed[0], path)
    known = {item.kernel for item in chosen}
    found = list(chosen)
    for declaration in index.declarations:
        path = edited.get(declaration.identity, "")
        if path and declaration.identity not in known:
            reason = Reason("baseline", (Step(path, path, 0, "changed"),), f"its baseline {path} changed")
            found.append(Affected(declaration.identity, declaration.name, declaration.path, ("baseline",), (reason,)))
    return sorted(found, key=lambda item: item.kernel)


def root_of(config: Config, declaration: Declaration) -> Root:
    """The configured root that a kernel belongs to."""
    return config.root_of(declaration.path)


def baseline_layout(root: Root) -> Layout:
    """Where the baselines of a root lie."""
    return Layout(root.join(root.baselines), root.path)


def _narrow(chosen: tuple[Affected, ...], index: Index, kernels: Sequence[str]) -> tuple[Affected, ...]:
    if not kernels:
        return chosen
    wanted: set[str] = set()
    for name in kernels:
        wanted |= {item.identity for item in find(index, name)}
    return tuple(item for item in chosen if item.kernel in wanted)


def find(index: Index, name: str) -> list[Declaration]:
    """Declarations of a name, identity or glob; raises :class:`UsageError`, with the nearest names, for none."""
    import difflib

    found = index.find(name)
    if found:
        return found
    broken = [item for item in index.findings if item.symbol.endswith(f"::{name}") or item.symbol == name]
    if broken:
        first = broken[0]
        raise UsageError(
            f"{name}: its declaration does not hold: {first.path}:{first.line}: {first.message}", first.remedy
        )
    names = sorted({item.name for item in index.declarations})
    near = difflib.get_close_matches(name, names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"declared: {', '.join(names[:12]) or 'none'}"
    raise UsageError(f"no kernel {name!r} is declared", remedy)
