"""What to compare with what: the base and the head of a check, in a hook, before a push, in CI or by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgate.source.git.ci import ZEROS, Event, in_ci, read_event
from kgate.source.git.history import History
from kgate.source.git.process import GitError
from kgate.source.git.repository import Repository
from kgate.source.git.snapshot import Snapshot, commit_snapshot, index_snapshot, worktree_snapshot

HOOK, PRE_PUSH, CI, INTERACTIVE, EXPLICIT = "hook", "pre-push", "ci", "worktree", "explicit"


@dataclass(frozen=True)
class Comparison:
    """Two trees, and why these two."""

    base: Snapshot | None
    """What was there before; None where nothing was, so that everything is new."""
    head: Snapshot
    """What is under test."""
    mode: str
    """``hook``, ``pre-push``, ``ci``, ``worktree`` or ``explicit``."""
    explanation: str
    """One sentence for people: both trees, why this base, and how far away it is."""
    distance: int | None
    """Commits between base and head; None where there is no base or a shallow clone cannot say."""


@dataclass(frozen=True)
class _Question:
    repository: Repository
    base: str | None
    head: str | None
    env: Mapping[str, str]
    staged: bool | None
    history: History
    event: Event


def resolve(
    repository: Repository,
    base: str | None = None,
    head: str | None = None,
    env: Mapping[str, str] | None = None,
    *,
    staged: bool | None = None,
) -> Comparison:
    """Decide what to compare with what.

    ``base`` and ``head`` are what the user asked for, ``env`` the environment that kgate was started with
    (that of the repository where None). ``staged`` says whether a commit is being made; None finds it out.

    Raises :class:`GitError` where the base cannot be found, with the command that brings it here. It never
    falls back to comparing a tree with itself.
    """
    env = repository.environment if env is None else env
    history = History(repository, may_fetch=in_ci(env), remote=_remote(repository))
    question = _Question(repository, base, head, env, staged, history, read_event(env))
    for rule in _RULES:
        found = rule(question)
        if found is not None:
            return found
    return _interactive(question)


# In the order in which they are asked ---------------------------------------------------------------------


def _explicit(q: _Question) -> Comparison | None:
    if q.base is None and q.head is None:
        return None
    head = commit_snapshot(q.repository, q.head) if q.head is not None else _default_head(q)
    tip = head.commit or q.repository.commit("HEAD")
    if q.base is None:
        if tip is None:
            raise GitError(f"--head {q.head} is a tree without history", "give --base too")
        found, why = _upstream_base(q, tip)
        if found is None or found == tip:
            found, why = _first_parent(q, tip), "its first parent"
        return _compare(q, found, head, EXPLICIT, why)
    if q.repository.tree(q.base) is None and q.history.may_fetch:
        q.history.need(q.base, "--base")
    base = commit_snapshot(q.repository, q.base)
    if base.commit is None or tip is None:
        return Comparison(base, head, EXPLICIT, f"{head.label} against {base.label}, as asked", None)
    common = q.history.merge_base(base.commit, tip)
    if common is None:
        return _compare(q, base.commit, head, EXPLICIT, f"{q.base}, with which it shares no history")
    why = f"{q.base}, as asked" if common == base.commit else f"where it left {q.base}"
    return _compare(q, common, head, EXPLICIT, why)


def _merge_group(q: _Question) -> Comparison | None:
    if not q.event.queue_base:
        return None
    base = q.history.need(q.event.queue_base, "the merge queue's base")
    head = commit_snapshot(q.repository, q.event.queue_head or "HEAD", "the queue's commit")
    return _compare(q, base, head, CI, "the base of the merge queue's group")


def _push_refs(q: _Question) -> Comparison | None:
    """What pre-commit and prek say about a push, or about ``--from-ref`` and ``--to-ref``."""
    before, after = q.env.get("PRE_COMMIT_FROM_REF", ""), q.env.get("PRE_COMMIT_TO_REF", "")
    if not before and not after:
        return _root_push(q)
    if ZEROS.fullmatch(after):
        head = commit_snapshot(q.repository, "HEAD")
        return Comparison(head, head, PRE_PUSH, "the push deletes a ref: there is nothing to check", 0)
    head = commit_snapshot(q.repository, after or "HEAD")
    if head.commit is None:
        raise GitError(f"{after} is pushed, which is not a commit", "give --base and --head")
    if before and not ZEROS.fullmatch(before):
        start = q.history.need(before, "the remote's commit")
        base = q.history.merge_base(start, head.commit)
        if base is not None:
            return _compare(q, base, head, PRE_PUSH, f"where it left what the remote has ({start[:10]})")
    return _new_branch(q, head)


def _root_push(q: _Question) -> Comparison | None:
    """A push of history that the remote has nothing of: pre-commit gives a branch, but no refs to compare."""
    branch = q.env.get("PRE_COMMIT_LOCAL_BRANCH", "")
    if not branch or not q.env.get("PRE_COMMIT"):
        return None
    return _new_branch(q, commit_snapshot(q.repository, branch))


def _new_branch(q: _Question, head: Snapshot) -> Comparison:
    tip = head.commit or head.tree
    remote = q.env.get("PRE_COMMIT_REMOTE_NAME", "") or q.history.remote
    base, why = _remote_base(q, tip, remote)
    return _compare(q, base, head, PRE_PUSH, why)


def _remote_base(q: _Question, tip: str, remote: str) -> tuple[str | None, str]:
    """Where a new branch left what its remote has; None where the remote has none of its history."""
    tips = _refs(q.repository, f"refs/remotes/{remote}/")
    found = [(base, name) for name in tips if (base := q.repository.merge_base(tips[name], tip))]
    if found:
        nearest, name = min(found, key=lambda pair: q.repository.distance(pair[0], tip) or 0)
        return nearest, f"where it left {name}"
    if tips and q.repository.shallow():
        q.history.merge_base(next(iter(tips.values())), tip)  # raises, with the command
    return None, "the remote has none of its history"


def _hook(q: _Question) -> Comparison | None:
    index = _hook_index(q)
    if not _in_hook(q, index):
        return None
    head = index_snapshot(q.repository, index)
    commit = q.repository.commit("HEAD")
    if commit is None:
        return Comparison(None, head, HOOK, f"{head.label}, the first commit: everything is new", None)
    merging = (q.repository.git_dir / "MERGE_HEAD").exists()
    certain = q.staged is True or index is not None
    if not certain and head.tree == q.repository.tree("HEAD"):
        return None  # run by hand with nothing staged, as `pre-commit run --all-files` is: not "nothing changed"
    why = "what is being merged into" if merging else "the commit it follows"
    base = commit_snapshot(q.repository, commit, "HEAD")
    return Comparison(base, head, HOOK, f"{head.label} against {base.label}, {why}", 0)


def _pull_request(q: _Question) -> Comparison | None:
    event, commit = q.event, q.repository.commit("HEAD")
    if not q.history.may_fetch or not event.pull_request or commit is None:
        return None
    head = commit_snapshot(q.repository, commit, "HEAD")
    parents = q.repository.parents(commit)
    if event.merge_ref and len(parents) > 1:
        base = q.history.need(parents[0], "the merge commit's first parent")
        return _compare(q, base, head, CI, f"the tip of {event.target} that it is merged with")
    if event.diff_base:
        base = q.history.need(event.diff_base, "the merge request's base")
        return _compare(q, base, head, CI, f"where it left {event.target}")
    found = q.history.merge_base(q.history.branch(event.target), commit, event.target)
    if found == commit:
        raise GitError(
            f"HEAD ({commit[:10]}) is part of {event.target} already: the pull request is not checked out",
            "check out the pull request's own commit, or give --base and --head",
        )
    return _compare(q, found, head, CI, f"where it left {q.history.remote}/{event.target}")


def _push_build(q: _Question) -> Comparison | None:
    """CI without a pull request: a branch against the default branch, that against what it was."""
    event, commit = q.event, q.repository.commit("HEAD")
    if not q.history.may_fetch or commit is None:
        return None
    head = commit_snapshot(q.repository, commit, "HEAD")
    target = event.default_branch or _default_branch(q.repository, q.history.remote)
    if target and target != event.branch:
        base = q.history.merge_base(q.history.branch(target), commit, target)
        if base != commit:
            return _compare(q, base, head, CI, f"where it left {q.history.remote}/{target}")
    if event.before:
        base = q.history.merge_base(q.history.need(event.before, "the push's earlier commit"), commit)
        if base is not None and base != commit:
            return _compare(q, base, head, CI, "what the branch was before the push")
    return _compare(q, _first_parent(q, commit), head, CI, "its first parent")


_RULES: tuple[Callable[[_Question], Comparison | None], ...] = (
    _explicit, _merge_group, _push_refs, _hook, _pull_request, _push_build,
)  # fmt: skip


def _interactive(q: _Question) -> Comparison:
    head = worktree_snapshot(q.repository)
    commit = q.repository.commit("HEAD")
    if commit is None:
        return Comparison(None, head, INTERACTIVE, f"{head.label}, before the first commit: everything is new", None)
    base, why = _upstream_base(q, commit)
    return _compare(q, base or commit, head, INTERACTIVE, why)


# Parts ----------------------------------------------------------------------------------------------------


def _compare(q: _Question, base: str | None, head: Snapshot, mode: str, why: str) -> Comparison:
    if base is None:
        return Comparison(None, head, mode, f"{head.label}, {why}: everything is new", None)
    snapshot = commit_snapshot(q.repository, base)
    tip = head.commit or q.repository.commit("HEAD")
    distance = q.repository.distance(base, tip) if tip else None
    far = "" if not distance else f", {distance} commit{'' if distance == 1 else 's'} back"
    return Comparison(snapshot, head, mode, f"{head.label} against {snapshot.label}, {why}{far}", distance)


def _default_head(q: _Question) -> Snapshot:
    index = _hook_index(q)
    if q.staged or index is not None:
        return index_snapshot(q.repository, index)
    if q.history.may_fetch:
        return commit_snapshot(q.repository, "HEAD")
    return worktree_snapshot(q.repository)


def _in_hook(q: _Question, index: Path | None) -> bool:
    if q.staged is not None:
        return q.staged
    return index is not None or bool(q.env.get("PRE_COMMIT"))


def _hook_index(q: _Question) -> Path | None:
    """The index file being committed: not the repository's own for ``commit -a`` and ``commit PATH``."""
    given = q.env.get("GIT_INDEX_FILE", "")
    if not given or q.staged is False:
        return None
    # Git means a path relative to the working tree's root, whatever folder the hook has moved to since.
    for path in (Path(given), q.repository.toplevel / given, Path.cwd() / given):
        if path.is_absolute() and path.is_file():
            return path
    raise GitError(f"GIT_INDEX_FILE={given} does not exist", "unset it, or give --base and --head")


def _upstream_base(q: _Question, tip: str) -> tuple[str | None, str]:
    """Where a commit left the default branch of its remote, or the local one; None where it never did."""
    refs = _refs(q.repository, "refs/remotes/", "refs/heads/")
    current = q.repository.ask("symbolic-ref", "--quiet", "--short", "HEAD") or ""
    shared = [f"{q.history.remote}/{name}" for name in ("HEAD", "main", "master", "trunk")]
    local = [name for name in ("main", "master", "trunk") if name != current]
    for name in shared + local:
        target = refs.get(name)
        if target is None:
            continue
        base = q.history.merge_base(target, tip, name.partition("/")[2] if name in shared[1:] else "")
        if base is not None:
            known = next((other for other in shared[1:] if refs.get(other) == target), name)
            return base, f"where it left {known}" if base != tip else "the last commit"
    return tip, "the last commit"


def _first_parent(q: _Question, commit: str) -> str | None:
    parents = q.repository.parents(commit)
    return q.history.need(parents[0], "the first parent") if parents else None


def _refs(repository: Repository, *prefixes: str) -> dict[str, str]:
    listing = repository.git("for-each-ref", "--format=%(refname) %(objectname) %(objecttype)", *prefixes).decode()
    found = {}
    for line in listing.splitlines():
        ref, oid, kind = line.split()
        if kind == "commit":
            found[ref.removeprefix("refs/remotes/").removeprefix("refs/heads/")] = oid
    return found


def _default_branch(repository: Repository, remote: str) -> str:
    head = repository.ask("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
    if head:
        return head.removeprefix(f"refs/remotes/{remote}/")
    refs = _refs(repository, f"refs/remotes/{remote}/")
    return next((name for name in ("main", "master", "trunk") if f"{remote}/{name}" in refs), "")


def _remote(repository: Repository) -> str:
    remotes = (repository.ask("remote") or "").split("\n")
    return "origin" if "origin" in remotes or not remotes[0] else remotes[0]
