"""The files that ``kgate init`` writes: where they may go, what is added to those that exist, and the configuration."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from kgate.lint.init.launchers import aside
from kgate.lint.init.writing import folded_import, used_words, wrapped_import
from kgate.source.config import Config
from kgate.source.records import DeviceFunction
from kgate.source.text import UnreadableText, decode

CONFIGURATION = "pyproject.toml"


class InitError(Exception):
    """Something that a user asked for and that is not done; ``remedy`` says what to do instead."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def check_place(top: Path, path: str) -> None:
    """Raises InitError where something that is no folder, or that leads out of the project, is in a file's way."""
    remedy = "name another place with --output"
    for folder in Path(path).parents:
        place = top / folder
        if os.path.lexists(place) and not place.is_dir():
            raise InitError(f"{folder.as_posix()} is in the way of {path}: it is no folder", remedy)
    if not Path(os.path.realpath(top / path)).is_relative_to(os.path.realpath(top)):
        raise InitError(f"{path} leads out of the project through a link", remedy)
    if os.path.lexists(top / path) and not (top / path).is_file():
        raise InitError(f"{path} is in the way: it is no file", remedy)


def write(top: Path, files: Mapping[str, bytes]) -> None:
    """Write files, each whole or not at all; links stay links."""
    from kgate.lint.fixes.writing import write_new, write_whole

    for name, content in files.items():
        place = Path(os.path.realpath(top / name))
        if place.exists():
            write_whole(place, content)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_new(place, content)


# Modules --------------------------------------------------------------------------------------------------


def appended(path: str, raw: bytes, stubs: list[str], imports: list[str]) -> bytes:
    """A file with stubs at its end, and what they import after its imports; every other byte stays as it is.

    Raises InitError for a file that cannot be read, or whose encoding cannot hold the stubs.
    """
    from kgate.lint.fixes.text import Refusal, SourceText, Splice

    remedy = "name another file with --output"
    try:
        tree = ast.parse(decode(raw))
        source = SourceText(raw)
        new = "".join(f"{line}\n" for line in _missing_imports(tree, stubs, imports))
        last = _last_line_before(tree, decode(raw))
        end = len(source.text.rstrip("\r\n"))
        at = min(source.next_line(source.offset(last, 1)), end) if last else 0
        block = f"\n\n{_block(stubs)}"
        if at < end:
            splices = [Splice(at, at, new), Splice(end, len(source.text), block)]
        else:
            splices = [Splice(end, len(source.text), ("\n" if end else "") + new.rstrip() + block)]
        result = source.encode(source.spliced(splices))
        ast.parse(decode(result))
    except UnreadableText as error:
        raise InitError(f"{path} cannot be read: {error.message} (line {error.line})", remedy) from None
    except Refusal as error:
        raise InitError(f"nothing can be added to {path}: {error}", remedy) from None
    except (SyntaxError, ValueError) as error:
        raise InitError(f"{path} cannot be read: {error}", remedy) from None
    return result


def _missing_imports(tree: ast.Module, stubs: list[str], imports: list[str]) -> list[str]:
    bound = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    missing = [word for word in used_words("\n".join(stubs)) if word not in bound]
    new = [part for line in sorted(imports) if line.rpartition(" ")[2] not in bound for part in folded_import(line)]
    return [*new, *(wrapped_import("kgate", missing) if missing else [])]


def _last_line_before(tree: ast.Module, text: str) -> int:
    """The line after which further imports go: of the imports, else the docstring, else the comments on top; or 0."""
    first = tree.body[0] if tree.body else None
    before: list[ast.stmt] = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not before and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        before = [first]
    if not before:
        return len(list(takewhile(lambda line: line.lstrip().startswith("#"), text.split("\n"))))
    last = max(node.end_lineno or 0 for node in before)
    return max(node.end_lineno or 0 for node in tree.body if node.lineno <= last)  # `import a; b = (` goes on


def _block(stubs: list[str]) -> str:
    """Stubs as they stand at the end of a file: two blank lines before a function."""
    text = "\n".join([stubs[0].lstrip("\n"), *stubs[1:]]).rstrip("\n")
    return ("\n" if starts_with_function(text) else "") + text + "\n"


def starts_with_function(stub: str) -> bool:
    """Whether the first line that is no comment belongs to a function."""
    first = next((line for line in stub.split("\n") if not line.startswith("#")), "")
    return first.startswith(("def ", "@"))


# Configuration --------------------------------------------------------------------------------------------


def table_for(devices: Iterable[DeviceFunction], config: Config) -> str:
    """The table that requires declarations in all folders that launch a device function, declared or not."""
    paths = {launch.path for device in devices for launch in device.launches}
    kept = [path for path in paths if not aside(path) and not config.excludes(path)]
    folders = sorted({path.partition("/")[0] for path in kept})
    whole = not folders or any("/" not in path for path in kept)
    globs = ["**"] if whole else [f"{folder}/**" for folder in folders]
    return f"[tool.kgate]\nrequire = {json.dumps(globs, ensure_ascii=False)}\n"


def configured(place: Path, table: str) -> bytes:
    """The configuration file with a table at its end, in its own line endings; InitError where it cannot take one."""
    raw = place.read_bytes() if place.exists() else b""
    newline = b"\r\n" if b"\r\n" in raw else b"\n"
    gap = b"" if not raw else newline if raw.endswith(b"\n") else newline * 2
    if raw.endswith(newline * 2):
        gap = b""
    result = raw + gap + table.encode("utf-8").replace(b"\n", newline)
    before, after = _parsed(raw), _parsed(result)
    if before is None or after is None or _without_table(after) != _without_table(before):
        raise InitError(
            f"{place.name} cannot take a [tool.kgate] table at its end",
            "leave --configure out, and write the table as the file needs it, or in kgate.toml",
        )
    return result


def _parsed(raw: bytes) -> dict[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - the interpreter decides
        import tomli as tomllib
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except ValueError:
        return None


def _without_table(document: dict[str, Any]) -> dict[str, Any]:
    tool = {name: table for name, table in document.get("tool", {}).items() if name != "kgate"}
    return {**{name: table for name, table in document.items() if name != "tool"}, **({"tool": tool} if tool else {})}
