"""Running git: the environment that a child git gets, and errors that name the remedy."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_KEPT = frozenset(
    {
        "GIT_ALLOW_PROTOCOL",
        "GIT_ASKPASS",
        "GIT_EXEC_PATH",
        "GIT_HTTP_PROXY_AUTHMETHOD",
        "GIT_PROXY_SSL_CAINFO",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
    }
)
_KEPT_PREFIXES = ("GIT_SSL_", "GIT_CONFIG_")

# Nothing that a user configured may run or be started by a reading git: no hooks, no file-system monitor. A
# split index would leave a second file beside the user's own.
_SETTINGS = (
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.fsmonitor=false",
    "-c", "core.splitIndex=false",
    "-c", "core.safecrlf=false",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "advice.addEmbeddedRepo=false",
)  # fmt: skip


class GitError(Exception):
    """Git could not do what was asked; ``message`` says what is wrong, ``remedy`` what to do about it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


def clean_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment for a child git, without the GIT_* variables that a surrounding git set for itself.

    Only what says how to reach a remote or where configuration lies is kept. With GIT_DIR or GIT_INDEX_FILE
    inherited from a hook, a child can write the index that is being committed, and lose the user's edit.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    kept.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_LITERAL_PATHSPECS="1", LC_ALL="C")
    return kept


def run_git(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end and give what it said, whatever its exit status.

    Raises :class:`GitError` where git is not installed, or took more than ``timeout`` seconds.
    """
    command = ["git", *_SETTINGS, *map(str, arguments)]
    try:
        return subprocess.run(
            command, cwd=cwd, env=dict(env), input=stdin, capture_output=True, check=False, timeout=timeout
        )
    except FileNotFoundError:
        raise missing(cwd) from None
    except NotADirectoryError:
        raise GitError(f"{cwd} is not a folder") from None
    except subprocess.TimeoutExpired:
        raise GitError(
            f"git {arguments[0]} did not end within {timeout:.0f} s", "try again, or check the network"
        ) from None


def missing(cwd: Path) -> GitError:
    """The error for a git, or a folder to run it in, that is not there."""
    if not cwd.exists():
        return GitError(f"there is no folder {cwd}")
    return GitError("git is not installed, or not on PATH", "install git 2.31 or later")


def failure(arguments: Sequence[str | Path], done: subprocess.CompletedProcess[bytes], cwd: Path) -> GitError:
    """The error for a git that failed: what it said, and a remedy for what is known to go wrong."""
    said = done.stderr.decode("utf-8", "replace").strip()
    verb = next((word for word in map(str, arguments) if re.fullmatch(r"[a-z][a-z-]+", word)), "")
    return known_failure(said, cwd) or GitError(f"git {verb} failed in {cwd}: {_short(said)}")


def known_failure(said: str, cwd: Path) -> GitError | None:
    """An error in kgate's words where git's message is one of those that users meet."""
    if "dubious ownership" in said:
        found = re.search(r"dubious ownership in repository at '([^']*)'", said)
        place = found.group(1) if found else str(cwd)
        return GitError(
            f"{place} belongs to another user, so git refuses to read it",
            f"run: git config --global --add safe.directory '{place}'",
        )
    if "not a git repository" in said.lower():
        return GitError(f"{cwd} is not in a git repository", "run: git init, or name a folder inside a repository")
    if "Unable to create" in said and ".lock" in said:
        return GitError(f"another git is at work: {_short(said)}", "wait for it to end, then try again")
    return None


def _short(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " / ".join(lines[:3]) or "it said nothing"
