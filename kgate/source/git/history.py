"""Commits that a shallow clone lacks: fetched in CI; elsewhere an error with the command to run."""

from __future__ import annotations

from dataclasses import dataclass

from kgate.source.git.process import GitError
from kgate.source.git.repository import Repository

_STEPS = (50, 200, 1000)
_SECONDS = 300.0


@dataclass(frozen=True)
class History:
    """A repository's history, and whether more of it may be fetched."""

    repository: Repository
    may_fetch: bool
    """True in CI only: elsewhere kgate does not touch the network."""
    remote: str = "origin"

    def need(self, commit: str, why: str) -> str:
        """A commit that must be here, fetched where that is allowed; :class:`GitError` where it is not."""
        found = self.repository.commit(commit)
        if found is None and self.may_fetch:
            self._fetch("--depth=1", commit)
            found = self.repository.commit(commit)
        if found is None:
            raise GitError(
                f"{why} {commit[:10]} is not in this clone",
                f"run: git fetch --depth=1 {self.remote} {commit}",
            )
        return found

    def branch(self, name: str) -> str:
        """Oid of the tip of a branch at the remote, fetched anew where that is allowed.

        Raises :class:`GitError` where the clone has no such remote branch.
        """
        ref = f"refs/remotes/{self.remote}/{name}"
        if self.may_fetch:
            depth = ["--depth=1"] if self.repository.shallow() and self.repository.commit(ref) is None else []
            self._fetch(*depth, self._refspec(name))
        found = self.repository.commit(ref)
        if found is None:
            raise GitError(
                f"the target branch {self.remote}/{name} is not in this clone",
                f"run: git fetch {self.remote} {self._refspec(name)}",
            )
        return found

    def merge_base(self, target: str, head: str, branch: str = "") -> str | None:
        """Best common ancestor of two commits, deepening a shallow clone until it is in sight.

        None where the histories have nothing in common. Raises :class:`GitError` where the clone is too
        shallow to tell, with the command that cures it.
        """
        base = self.repository.merge_base(target, head)
        if base is None and self.may_fetch:
            base = self._deepen(target, head, branch)
        if base is None and self.repository.shallow():
            what = f" {self._refspec(branch)}" if branch else ""
            raise GitError(
                "this clone is too shallow to hold the commit where the two histories part",
                f"run: git fetch --unshallow {self.remote}{what}, or check out with fetch-depth: 0",
            )
        return base

    def _deepen(self, target: str, head: str, branch: str) -> str | None:
        tips = [self._refspec(branch) if branch else target, head]
        for step in [f"--deepen={count}" for count in _STEPS] + ["--unshallow"]:
            if not self.repository.shallow():
                return self.repository.merge_base(target, head)
            # A server may refuse to be asked for a commit that is no branch's tip.
            if not self._fetch(step, *tips) and not self._fetch(step, tips[0]):
                return None
            base = self.repository.merge_base(target, head)
            if base is not None:
                return base
        return None

    def _refspec(self, branch: str) -> str:
        return f"+refs/heads/{branch}:refs/remotes/{self.remote}/{branch}"

    def _fetch(self, *arguments: str) -> bool:
        options = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
        depth = [argument for argument in arguments if argument.startswith("--")]
        wanted = [argument for argument in arguments if not argument.startswith("--")]
        return self.repository.ask("fetch", *options, *depth, self.remote, *wanted, timeout=_SECONDS) is not None
