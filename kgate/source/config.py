"""Configuration: ``[tool.kgate]`` in pyproject.toml, or kgate.toml, read from a file or from a git tree."""

from __future__ import annotations

import codecs
import difflib
import os
import posixpath
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

FILES = ("kgate.toml", "pyproject.toml")
DEFAULT_PROBE_TARGETS = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "hip:gfx942")


class ConfigError(ValueError):
    """A mistake in the configuration; ``remedy`` says what to write instead."""

    def __init__(self, message: str, *, path: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {message}")
        self.message = message
        self.path = path
        self.remedy = remedy


@dataclass(frozen=True)
class Root:
    """One project inside the repository: its folder, its interpreter, its baselines."""

    path: str = "."
    """Folder relative to the repository's root, with forward slashes."""
    src: tuple[str, ...] = ()
    """Import roots relative to ``path``; empty: ``.`` and, where it exists, ``src``."""
    python: str = ""
    """Interpreter of the project; empty: found (KGATE_PYTHON, .venv, PATH)."""
    baselines: str = "baselines"
    """Folder of the committed baselines, relative to ``path``."""
    carry: tuple[str, ...] = ()
    """Paths that git ignores and the tree under test needs, relative to ``path``."""

    def owns(self, path: str) -> bool:
        """Whether a repository path lies in this root."""
        return self.path == "." or path == self.path or path.startswith(self.path + "/")

    def join(self, relative: str) -> str:
        """A repository path for one relative to this root."""
        return relative if self.path == "." else str(PurePosixPath(self.path) / relative)


@dataclass(frozen=True)
class Config:
    """What a project has configured; every field has a default that works without a file."""

    configured: bool = False
    """Whether the project has a ``[tool.kgate]`` table at all."""
    path: str = ""
    """The file it came from; empty where there is none."""
    shadowed: str = ""
    """Another file with a configuration, which does not count beside it."""
    require: tuple[str, ...] = ("**",)
    """Globs of files in which every launched kernel must be declared."""
    exclude: tuple[str, ...] = ()
    """Globs of files that kgate does not look at."""
    probe_targets: tuple[str, ...] = DEFAULT_PROBE_TARGETS
    """Targets that the codegen probe compiles for, where a kernel's envelope has them."""
    case_timeout: float = 60.0
    """Seconds that one case may take before it counts as hanging."""
    compile_timeout: float = 120.0
    """Seconds that compiling one case for one target may take."""
    roots: tuple[Root, ...] = field(default_factory=lambda: (Root(),))
    """The projects inside the repository."""
    select: tuple[str, ...] | None = None
    """Rules that are on: codes, prefixes of codes (``KG2``), names, or ``ALL``; None: those on by default."""
    extend_select: tuple[str, ...] = ()
    """Rules that are on besides ``select`` or the default."""
    ignore: tuple[str, ...] = ()
    """Rules that are off."""
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Glob of files to the rules that are off in them; a glob without a slash matches a file's name anywhere."""
    device_decorators: tuple[str, ...] = ()
    """Further decorators that make device functions, as dotted names."""
    guard_decorators: tuple[str, ...] = ()
    """Further decorators that set the device of the tensors, as dotted names."""
    contiguous_decorators: tuple[str, ...] = ()
    """Further decorators that make tensors contiguous, as dotted names."""
    triton: str = ""
    """Versions of Triton that the project supports, such as ``>=3.6,<4``; empty: any."""

    def root_of(self, path: str) -> Root:
        """The innermost root that holds a repository path; the first root where none does."""
        owners = [root for root in self.roots if root.owns(path)]
        return max(owners, key=lambda root: len(root.path)) if owners else self.roots[0]

    def excludes(self, path: str) -> bool:
        """Whether the project asked kgate not to look at a file."""
        return any(matches(path, pattern) for pattern in self.exclude)

    def requires(self, path: str) -> bool:
        """Whether kernels launched from this file must be declared."""
        return any(matches(path, pattern) for pattern in self.require) and not self.excludes(path)

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """What ``per-file-ignores`` turns off in a file, as written there."""
        return tuple(rule for glob, rules in self.per_file_ignores if self.ignores_in(path, glob) for rule in rules)

    @staticmethod
    def ignores_in(path: str, glob: str) -> bool:
        """Whether a glob of ``per-file-ignores`` matches a file; without a slash, its name anywhere."""
        return matches(path, glob) or ("/" not in glob and matches(path.rpartition("/")[2], glob))

    def allows_triton(self, *version: int) -> bool:
        """Whether the project supports a version of Triton: ``allows_triton(3, 6)``."""
        return all(_holds(version, *clause) for clause in _clauses(self.triton))


def matches(path: str, pattern: str) -> bool:
    """Whether a repository path matches a glob; ``**`` spans folders, a folder's name matches all below it."""
    pattern = pattern.removeprefix("./").rstrip("/")
    if pattern in ("", ".", "**"):
        return True
    return _match(path.split("/"), pattern.split("/"))


def _match(parts: list[str], globs: list[str]) -> bool:
    import fnmatch

    if not globs:
        return True  # what is left lies below a folder that matched
    if globs[0] == "**":
        return any(_match(parts[start:], globs[1:]) for start in range(len(parts) + 1)) if globs[1:] else True
    return bool(parts) and fnmatch.fnmatchcase(parts[0], globs[0]) and _match(parts[1:], globs[1:])


_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*(\d+(?:\.\d+)*)(\.\*)?")


def _clauses(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Comparisons of a version range; raises ValueError, with the part that is none."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _CLAUSE.fullmatch(part)
        if match is None or (match.group(3) and match.group(1) not in ("==", "!=")):
            raise ValueError(part)
        found.append((match.group(1), tuple(int(number) for number in match.group(2).split("."))))
    return found


def _satisfiable(clauses: list[tuple[str, tuple[int, ...]]]) -> bool:
    """Whether some release satisfies all comparisons: one of those at, just below or just above their versions."""
    near: set[tuple[int, ...]] = {(0, 0, 0), (1 << 20, 0, 0)}
    for _, bound in clauses:
        padded = (*bound, 0, 0, 0)[: max(3, len(bound))]
        near.add(padded)
        for place, number in enumerate(padded):
            rest = len(padded) - place - 1
            near.add((*padded[:place], number + 1, *(0,) * rest))
            if number:
                near.add((*padded[:place], number - 1, *(1 << 20,) * rest))
    return any(all(_holds(version, *clause) for clause in clauses) for version in near)


def _holds(version: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    """Whether some release that begins with ``version`` can satisfy a comparison: 3.6 can be 3.6.2."""
    length = min(len(version), len(bound))
    near = (version[:length] > bound[:length]) - (version[:length] < bound[:length])
    if operator == "~=":
        return near >= 0 and version[: len(bound) - 1] == bound[:-1][: len(version)]
    open_above = near == 0 and len(version) < 3  # of 3.6 there may be a 3.6.1
    open_below = near == 0 and len(version) < len(_stripped(bound))
    return {
        ">=": near >= 0,
        "<=": near <= 0,
        "==": near == 0,
        "!=": near != 0 or len(version) < len(bound),
        ">": near > 0 or open_above,
        "<": near < 0 or open_below,
    }[operator]


def _stripped(version: tuple[int, ...]) -> tuple[int, ...]:
    return _stripped(version[:-1]) if version and version[-1] == 0 else version


def load_config(read: Callable[[str], bytes | None]) -> Config:
    """Read the configuration of a tree.

    ``read`` gives the bytes of a path relative to the repository's root, or None where there is no such file.
    Raises :class:`ConfigError`, naming the file, for TOML that does not parse, an unknown key (with the nearest known
    one) or a value of the wrong type.
    """
    for name in FILES:
        raw = read(name)
        if raw is None:
            continue
        table = _table(raw, name)
        if table is not None:
            return _config(table, name, _shadowed(read, name))
    return Config()


def _shadowed(read: Callable[[str], bytes | None], used: str) -> str:
    """A file after the one that is used which holds a configuration too; empty where there is none."""
    for name in FILES[FILES.index(used) + 1 :]:
        raw = read(name)
        try:
            if raw is not None and _table(raw, name) is not None:
                return name
        except ConfigError:  # it is not used, so its mistakes are not this run's
            continue
    return ""


def load_config_from(folder: Path) -> Config:
    """Read the configuration that lies in a folder; see :func:`load_config`."""

    def read(name: str) -> bytes | None:
        path = folder / name
        if path.is_file():
            return path.read_bytes()
        check_file(path)
        return None

    return load_config(read)


def check_file(path: Path) -> None:
    """Raises ConfigError where what should be a configuration file is a folder, or a link to nothing."""
    if os.path.lexists(path) and not path.is_file():
        what = "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else "no regular file"
        raise ConfigError(f"is {what}", path=path.name, remedy="make it a file, or remove it")


def check_folders(config: Config, files: Collection[str], label: str) -> None:
    """Raises ConfigError for a configured folder that a tree has not: it would hide what lies in the right one."""
    for root in config.roots:
        for written in [root.path, *(root.join(item) for item in root.src)]:
            folder = posixpath.normpath(written)
            if folder == "." or not files:
                continue
            if not any(path.startswith(f"{folder}/") for path in files):
                raise ConfigError(
                    f"there is no folder {written!r} in {label}", path=config.path, remedy="correct it, or remove it"
                )


def _table(raw: bytes, name: str) -> Mapping[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - the interpreter decides
        import tomli as tomllib
    if raw.startswith(codecs.BOM_UTF8):
        remedy = "save it as UTF-8 without one"
        raise ConfigError("begins with a byte order mark, which TOML does not allow", path=name, remedy=remedy)
    try:
        document = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8, which TOML has to be", path=name, remedy="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not valid TOML: {error}", path=name, remedy="correct that line") from None
    if name == "kgate.toml":
        return document
    tool = document.get("tool", {})
    table = tool.get("kgate") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError("[tool.kgate] is not a table", path=name)
    return table


def _config(table: Mapping[str, Any], name: str, shadowed: str = "") -> Config:
    reader = _Reader(table, name, "tool.kgate" if name == "pyproject.toml" else "")
    known = {
        "require", "exclude", "probe-targets", "case-timeout", "compile-timeout",
        "root", "src", "python", "baselines", "carry", "select", "extend-select", "ignore", "per-file-ignores",
        "device-decorators", "guard-decorators", "contiguous-decorators", "triton",
    }  # fmt: skip
    reader.only(known)
    roots = reader.tables("root")
    if roots:
        alone = sorted({"src", "python", "baselines", "carry"} & set(table))
        if alone:
            raise ConfigError(
                f"{alone[0]} stands beside [[tool.kgate.root]]",
                path=name,
                remedy="move it into the root it is for",
            )
        prefix = f"{reader.prefix}.root" if reader.prefix else "root"
        parsed = tuple(_root(item, name, prefix) for item in roots)
        _check_roots(parsed, roots, name)
    else:
        own = {key: table[key] for key in ("src", "python", "baselines", "carry") if key in table}
        parsed = (_root(own, name, reader.prefix),)
    targets = reader.strings("probe-targets", DEFAULT_PROBE_TARGETS)
    _check_targets(targets, name)
    return Config(
        configured=True,
        path=name,
        shadowed=shadowed,
        require=reader.globs("require", ("**",)),
        exclude=reader.globs("exclude", ()),
        probe_targets=targets,
        case_timeout=reader.seconds("case-timeout", 60.0),
        compile_timeout=reader.seconds("compile-timeout", 120.0),
        roots=parsed,
        select=reader.strings("select", ()) if "select" in table else None,
        extend_select=reader.strings("extend-select", ()),
        ignore=reader.strings("ignore", ()),
        per_file_ignores=reader.lists("per-file-ignores"),
        device_decorators=reader.dotted("device-decorators"),
        guard_decorators=reader.dotted("guard-decorators"),
        contiguous_decorators=reader.dotted("contiguous-decorators"),
        triton=reader.versions("triton"),
    )


def _root(table: Mapping[str, Any], name: str, prefix: str) -> Root:
    reader = _Reader(table, name, prefix)
    reader.only({"path", "src", "python", "baselines", "carry"})
    return Root(
        path=reader.folder("path", "."),
        src=reader.strings("src", ()),
        python=reader.string("python", ""),
        baselines=reader.folder("baselines", "baselines", own=True),
        carry=reader.strings("carry", ()),
    )


def _check_roots(parsed: tuple[Root, ...], tables: list[Mapping[str, Any]], name: str) -> None:
    for table in tables:
        if "path" not in table:
            raise ConfigError("a [[tool.kgate.root]] has no path", path=name, remedy="say which folder it is for")
    seen: set[str] = set()
    for root in parsed:
        if root.path in seen:
            raise ConfigError(f"two roots have the path {root.path!r}", path=name, remedy="merge them, or correct one")
        seen.add(root.path)


def _check_targets(targets: tuple[str, ...], name: str) -> None:
    from kgate.contract.targets import CONCRETE

    known = [str(target) for target in CONCRETE]
    for target in targets:
        if target not in known:
            raise ConfigError(
                f"probe-targets: {target!r} is not a target that kgate can compile for",
                path=name,
                remedy=f"use one of {', '.join(known)}",
            )


class _Reader:
    """Typed access to one TOML table, with errors that name the key."""

    def __init__(self, table: Mapping[str, Any], path: str, prefix: str) -> None:
        self.table, self.path, self.prefix = table, path, prefix

    def only(self, known: set[str]) -> None:
        for key in self.table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(known))}"
                raise ConfigError(f"unknown key {self._name(key)!r}", path=self.path, remedy=hint)

    def string(self, key: str, default: str) -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return value

    def strings(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.table.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of strings", value)
        return tuple(value)

    def globs(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of globs of files, each of which can match one."""
        found = self.strings(key, default)
        for pattern in found:
            self._check_glob(key, pattern)
        return found

    def _check_glob(self, key: str, pattern: str) -> None:
        if not pattern.strip() or pattern.startswith("/") or ".." in pattern.split("/"):
            message = f"{self._name(key)}: {pattern!r} is no glob of files in the repository"
            remedy = "write it relative to the repository's top, such as 'tests/**'; '**' is every file"
            raise ConfigError(message, path=self.path, remedy=remedy)

    def folder(self, key: str, default: str, *, own: bool = False) -> str:
        """A folder inside the repository; with ``own`` one below the root, for kgate's files alone."""
        value = self.string(key, default)
        path = PurePosixPath(value)
        inside = value and not path.is_absolute() and not {"..", ".git"} & set(path.parts)
        if not inside or (own and str(path) == "."):
            where = "below the project's root" if own else "inside the repository"
            raise ConfigError(
                f"{self._name(key)} = {value!r} is not a folder {where}",
                path=self.path,
                remedy=f"give a relative path, such as {key} = {default!r}" if own else "give a relative path",
            )
        return str(path)

    def seconds(self, key: str, default: float) -> float:
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise self._wrong(key, "a number of seconds above 0", value)
        return float(value)

    def lists(self, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """A table of lists of strings, in its order."""
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table of lists of strings", value)
        for name, given in value.items():
            self._check_glob(key, name)
            if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
                message = f"{self._name(key)}.{name} must be a list of strings, not {given!r}"
                shown = given if isinstance(given, str) else "KG203"
                raise ConfigError(message, path=self.path, remedy=f'write "{name}" = ["{shown}"]')
        return tuple((name, tuple(given)) for name, given in value.items())

    def dotted(self, key: str) -> tuple[str, ...]:
        """A list of dotted names; what stands before a decorator's parentheses."""
        names = self.strings(key, ())
        for name in names:
            if not all(part.isidentifier() for part in name.split(".")):
                message = f"{self._name(key)}: {name!r} is not a dotted name"
                remedy = f"write it as in the code, without @ and parentheses: {key} = ['package.decorator']"
                raise ConfigError(message, path=self.path, remedy=remedy)
        return names

    def versions(self, key: str) -> str:
        """A range of versions: comparisons with commas between them."""
        value = self.string(key, "")
        try:
            clauses = _clauses(value)
        except ValueError as error:
            message = f"{self._name(key)}: {str(error)!r} is not a comparison of versions"
            raise ConfigError(message, path=self.path, remedy=f"write {key} = '>=3.6' or '>=3.6,<4'") from None
        if not _satisfiable(clauses):
            message = f"{self._name(key)}: no version satisfies {value!r}"
            raise ConfigError(message, path=self.path, remedy=f"write {key} = '>=3.6' or '>=3.6,<4'")
        return value

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, f"tables: [[{self.prefix}.{key}]]", value)
        return value

    def _wrong(self, key: str, want: str, got: object) -> ConfigError:
        message = f"{self._name(key)} must be {want}, not {got!r}"
        return ConfigError(message, path=self.path, remedy=f"the README lists what {key} takes")

    def _name(self, key: str) -> str:
        return f"{self.prefix}.{key}" if self.prefix else key
