"""A git repository: where it lies, and a fast reader of its objects."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from kgate.source.git.process import _SETTINGS, GitError, clean_env, failure, known_failure, missing, run_git

_ASKED_AT_ONCE = 256  # requests in flight: 41 bytes each, well under what a pipe holds


class Repository:
    """The repository that a path lies in.

    ``env`` is the environment that kgate was started with (os.environ where None); child gits see
    :func:`clean_env` of it. Raises :class:`GitError` where there is no repository, or no git.
    """

    def __init__(self, path: str | os.PathLike[str] = ".", *, env: Mapping[str, str] | None = None) -> None:
        self.environment = dict(os.environ if env is None else env)
        self._env = clean_env(self.environment)
        self._options: list[str | Path] = []
        self._cwd = Path(path).absolute()
        self._spare: tempfile.TemporaryDirectory[str] | None = None
        self._reader: _ObjectReader | None = None
        self._lock = threading.Lock()
        self._locate()

    def _locate(self) -> None:
        question = ["rev-parse", "--is-bare-repository"]
        done = run_git(question, cwd=self._cwd, env=self._env)
        if done.returncode and "GIT_DIR" in self.environment:
            # A repository that only its variables describe, such as dotfiles with a work tree of their own.
            self._options = self._options_from_environment()
            done = run_git([*self._options, *question], cwd=self._cwd, env=self._env)
        if done.returncode:
            raise failure(question, done, self._cwd)
        self.bare: bool = done.stdout.strip() == b"true"
        # One question each: a folder's name may hold a newline.
        self.git_dir: Path = Path(os.fsdecode(self.git("rev-parse", "--absolute-git-dir").removesuffix(b"\n")))
        common = os.fsdecode(self.git("rev-parse", "--git-common-dir").removesuffix(b"\n"))
        self.common_dir: Path = Path(os.path.normpath(self._cwd / common))
        self._toplevel = None if self.bare else self._find_toplevel()
        self._cwd = self._toplevel or self.git_dir

    def _options_from_environment(self) -> list[str | Path]:
        given = self.environment
        tree = given.get("GIT_WORK_TREE", "")
        options: list[str | Path] = [f"--git-dir={(self._cwd / given['GIT_DIR']).resolve()}"]
        return [*options, f"--work-tree={(self._cwd / tree).resolve()}"] if tree else options

    def _find_toplevel(self) -> Path | None:
        done = run_git([*self._options, "rev-parse", "--show-toplevel"], cwd=self._cwd, env=self._env)
        if done.returncode:
            known = known_failure(done.stderr.decode("utf-8", "replace"), self._cwd)
            if known:
                raise known
            return None  # asked from inside the git folder
        return Path(os.fsdecode(done.stdout.removesuffix(b"\n")))

    @property
    def toplevel(self) -> Path:
        """Root of the working tree. Raises :class:`GitError` in a bare repository, which has none."""
        if self._toplevel is None:
            raise GitError(f"{self.git_dir} has no working tree", "give --base and --head, or work in a clone")
        return self._toplevel

    def git(
        self,
        *arguments: str | Path,
        stdin: bytes = b"",
        extra: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Run git in the repository and give its output; raises :class:`GitError` where it fails."""
        done = self._run(arguments, stdin, extra, timeout)
        if done.returncode:
            raise failure(arguments, done, self._cwd)
        return done.stdout

    def ask(
        self, *arguments: str | Path, extra: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> str | None:
        """Run git where failing is an answer too: its output without the last newline, or None."""
        done = self._run(arguments, b"", extra, timeout)
        return None if done.returncode else os.fsdecode(done.stdout).rstrip("\n")

    def _run(
        self,
        arguments: tuple[str | Path, ...],
        stdin: bytes,
        extra: Mapping[str, str] | None,
        timeout: float | None,
    ) -> subprocess.CompletedProcess[bytes]:
        env = {**self._read_env(), **(extra or {})}
        return run_git([*self._options, *arguments], cwd=self._cwd, env=env, stdin=stdin, timeout=timeout)

    def _read_env(self) -> dict[str, str]:
        if self._spare is None:
            return self._env
        return {**self._env, "GIT_ALTERNATE_OBJECT_DIRECTORIES": self._spare.name}

    def spare_objects(self) -> dict[str, str]:
        """Variables that make git write new objects to a folder outside the repository.

        For a repository that may be read only. Later reads through this object see what was written; the
        folder goes when the process ends.
        """
        if self._spare is None:
            self._spare = tempfile.TemporaryDirectory(prefix="kgate-objects-")
            with self._lock:
                self._reader = None  # the next one knows the new folder
        objects = str(self.common_dir / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return {"GIT_OBJECT_DIRECTORY": self._spare.name, "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'}

    # What refs say ----------------------------------------------------------------------------------------

    def commit(self, revision: str) -> str | None:
        """Oid of the commit that a revision names; None where there is no such commit here."""
        return self._verify(f"{revision}^{{commit}}")

    def tree(self, revision: str) -> str | None:
        """Oid of the tree that a revision names; None where there is none."""
        return self._verify(f"{revision}^{{tree}}")

    def _verify(self, revision: str) -> str | None:
        return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", revision)

    def short(self, oid: str) -> str:
        """The first ten digits of an oid: for people to read, and stable, unlike git's own abbreviation."""
        return oid[:10]

    def shallow(self) -> bool:
        """Whether history was cut off when this repository was cloned."""
        return (self.common_dir / "shallow").is_file()

    def parents(self, commit: str) -> list[str]:
        """Oids of a commit's parents as it names them, also where a shallow clone does not have them."""
        header = self.git("cat-file", "commit", commit).partition(b"\n\n")[0]
        return [line[7:].decode() for line in header.split(b"\n") if line.startswith(b"parent ")]

    def merge_base(self, one: str, other: str) -> str | None:
        """Oid of the best common ancestor of two commits; None where none is to be found here."""
        found = self.ask("merge-base", one, other)
        return found.splitlines()[0] if found else None

    def distance(self, base: str, head: str) -> int | None:
        """Number of commits in ``head`` that ``base`` lacks; None where a shallow clone cannot say."""
        if self.shallow():
            return None
        count = self.ask("rev-list", "--count", f"{base}..{head}", "--")
        return int(count) if count else None

    def empty_tree(self) -> str:
        """Oid of the tree without entries, which git knows without having it."""
        return self.git("hash-object", "-t", "tree", "--stdin").decode().strip()

    # Objects ----------------------------------------------------------------------------------------------

    def read_objects(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Contents of objects, in the order asked, from one long-lived ``git cat-file --batch``.

        Raises :class:`GitError` for an oid that the repository lacks.
        """
        wanted = list(oids)
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            with self._lock:
                found = self._object_reader().read(wanted[start : start + _ASKED_AT_ONCE])
            yield from found

    def _object_reader(self) -> _ObjectReader:
        if self._reader is None or not self._reader.usable():
            self._reader = _ObjectReader(self._options, self._cwd, self._read_env())
        return self._reader

    def close(self) -> None:
        """End the reading process; a later read starts another."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None


class _ObjectReader:
    """One ``git cat-file --batch``; belongs to the process that started it, not to its forks."""

    def __init__(self, options: list[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        command = ["git", *_SETTINGS, *map(str, options), "cat-file", "--batch"]
        try:
            self._child = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise missing(cwd) from None
        self._owner = os.getpid()
        self.close = weakref.finalize(self, _end, self._child, self._owner)

    def usable(self) -> bool:
        return self._owner == os.getpid() and self._child.poll() is None

    def read(self, oids: list[str]) -> list[bytes]:
        asked, answers = self._child.stdin, self._child.stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write("".join(f"{oid}\n" for oid in oids).encode())
            asked.flush()
            return [self._answer(answers, oid) for oid in oids]
        except BaseException as error:
            self.close()  # half a conversation cannot be taken up again
            if isinstance(error, BrokenPipeError):
                raise _ended() from None
            raise

    def _answer(self, answers: IO[bytes], oid: str) -> bytes:
        header = answers.readline().split()
        if not header:
            raise _ended()
        if len(header) != 3:
            raise GitError(f"the repository lacks object {oid}", "run: git fsck, or fetch the history that is missing")
        size = int(header[2])
        content = answers.read(size + 1)
        if len(content) != size + 1:
            raise GitError(f"git ended in the middle of object {oid}", "run: git fsck")
        return content[:-1]


def _ended() -> GitError:
    return GitError("git ended while objects were read", "run it again; where that does not help: git fsck")


def _end(child: subprocess.Popen[bytes], owner: int) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if owner == os.getpid():
        child.wait()
