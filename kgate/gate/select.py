"""What is compared with what, and the kernels that the diff between the two can have changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgate.baselines.store import Layout
from kgate.baselines.workspace import workspace
from kgate.gate.errors import UsageError
from kgate.source.affected import affected, removed_kernels, renamed_kernels
from kgate.source.config import Config, ConfigError, Root, check_folders, load_config
from kgate.source.git import Comparison, Repository, Snapshot, changed_paths, resolve
from kgate.source.index import Index, build_index
from kgate.source.records import Affected, Declaration, Finding, Reason, Removed, Step


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
    stray: tuple[str, ...]
    """Kernels that no declaration has, and whose baseline files the diff touches."""
    everything: str
    """Why every kernel was selected, where the configuration changed or it was asked for; else empty."""

    @property
    def state(self) -> Path:
        """The folder for caches and pending results; git ignores it."""
        return state_folder(self.repository)

    @property
    def changed(self) -> bool:
        """Whether head may hold anything that base does not."""
        base = self.comparison.base
        return bool(self.everything) or base is None or base.tree != self.comparison.head.tree

    @property
    def unreadable(self) -> tuple[Finding, ...]:
        """What hides kernels: declarations that do not hold, and files that mention kgate and cannot be read."""
        return tuple(item for item in self.head.findings if item.severity == "error")

    def declaration(self, identity: str) -> Declaration:
        """The declaration of an identity at head."""
        return next(item for item in self.head.declarations if item.identity == identity)


def state_folder(repository: Repository) -> Path:
    """``.kgate`` at the root of the working tree, or a temporary folder where that cannot be written."""
    top = repository.git_dir if repository.bare else repository.toplevel
    try:
        return workspace(top)
    except OSError:
        # A tree that cannot be written is judged all the same; nothing is remembered beside it.
        elsewhere = Path(tempfile.gettempdir()) / f"kgate-{os.getuid()}-{hashlib.sha256(bytes(top)).hexdigest()[:12]}"
        elsewhere.mkdir(mode=0o700, exist_ok=True)
        return workspace(elsewhere)


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
    check_folders(config, comparison.head.files(), comparison.head.label)
    state = state_folder(repository)
    before = comparison.base
    base_config = None if before is None else _base_config(before)
    same = before is not None and before.tree == comparison.head.tree
    now = index_of(comparison.head, config, state)
    then = None if before is None else now if same else index_of(before, base_config or config, state)
    why = _all_because(before, base_config, config, everything)
    chosen = () if same and not why else affected(then, now)
    if why:
        chosen = _every(chosen, now, why)
    edited = _edited_baselines(comparison, config)
    chosen = _with_baseline_edits(chosen, edited, now)
    gone = () if same or then is None else tuple(removed_kernels(then, now))
    moved = {} if same or then is None else renamed_kernels(then, now)
    stray = tuple(sorted(set(edited) - {item.identity for item in now.declarations}))
    picked = tuple(chosen)
    found = Selection(repository, comparison, config, base_config, then, now, picked, gone, moved, stray, why)
    return replace(found, affected=_narrow(found, kernels)) if kernels else found


def _base_config(base: Snapshot) -> Config | None:
    try:
        return config_of(base)
    except ConfigError:
        return None  # head may be what mends it; every kernel is then selected


def _all_because(before: Snapshot | None, base: Config | None, head: Config, everything: bool) -> str:
    if everything:
        return "all kernels were asked for"
    if before is not None and base is None:
        return "base's configuration could not be read"
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


def _edited_baselines(comparison: Comparison, config: Config) -> dict[str, str]:
    """Kernel to the baseline file of it that the diff touches."""
    if comparison.base is None or comparison.base.tree == comparison.head.tree:
        return {}
    edited: dict[str, str] = {}
    layouts = [baseline_layout(root) for root in config.roots]
    for _, *paths in changed_paths(comparison.base, comparison.head):
        for path in filter(None, paths):
            for parsed in (layout.parse(path) for layout in layouts):
                if parsed is not None:
                    edited.setdefault(parsed[0], path)
    return edited


def _with_baseline_edits(chosen: Sequence[Affected], edited: Mapping[str, str], index: Index) -> list[Affected]:
    """Kernels whose committed lines the diff edits are selected too: a line must be true."""
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


def _narrow(selection: Selection, kernels: Sequence[str]) -> tuple[Affected, ...]:
    wanted = {item.identity for name in kernels for item in find(selection, name)}
    return tuple(item for item in selection.affected if item.kernel in wanted)


def declarations_of(index: Index) -> dict[str, Declaration]:
    """Declarations by identity, named so that a command that is given the name means that one kernel."""
    count = Counter(item.name for item in index.declarations)
    return {
        item.identity: item if count[item.name] == 1 else replace(item, name=item.identity)
        for item in index.declarations
    }


def find(selection: Selection, name: str) -> list[Declaration]:
    """Declarations at head of a name, identity, file or glob; see :func:`find_in`."""
    gone = next((item for item in selection.removed if name in (item.name, item.kernel)), None)
    if gone is not None:
        raise UsageError(f"{gone.name} ({gone.path}) is no longer declared", "`kgate affected` lists what is")
    return find_in(selection.head, name, selection.repository)


def find_in(index: Index, name: str, repository: Repository | None = None) -> list[Declaration]:
    """Declarations of a name, identity, file or glob.

    A path is taken relative to the current folder where something lies there. Raises :class:`UsageError` for none,
    with what could not be read, or the nearest names.
    """
    import difflib

    found = index.find(name) or index.find(_repository_path(name, repository))
    if found:
        return found
    for broken in index.findings:
        if broken.severity == "error" and (broken.symbol.endswith(f"::{name}") or broken.symbol == name):
            place = f"{broken.path}:{broken.line}"
            raise UsageError(f"{name}: its declaration does not hold: {place}: {broken.message}", broken.remedy)
    unread = [item for item in index.findings if item.code == "unreadable-file" and item.severity == "error"]
    if unread:
        places = "; ".join(f"{item.path}:{item.line}: {item.message}" for item in unread[:3])
        raise UsageError(f"no kernel {name!r} is declared in what can be read", f"cannot be read: {places}")
    names = sorted({item.name for item in index.declarations})
    near = difflib.get_close_matches(name, names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"declared: {', '.join(names[:12]) or 'none'}"
    raise UsageError(f"no kernel {name!r} is declared", remedy)


def _repository_path(name: str, repository: Repository | None) -> str:
    """``name`` relative to the repository's root where it is a path from the current folder; folders as globs."""
    if repository is None or repository.bare or not os.path.exists(name):
        return name
    relative = os.path.relpath(os.path.realpath(name), os.path.realpath(repository.toplevel))
    path = "" if relative == "." else relative.replace(os.sep, "/")
    return (f"{path}/**" if path else "**") if os.path.isdir(name) else path
