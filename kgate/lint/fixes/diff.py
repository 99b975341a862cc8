"""The difference that fixes make, as a unified diff that ``git apply`` and ``patch`` take."""

from __future__ import annotations

import difflib
import os

_END = "\t"
"""Ends a name with a blank in it, where one stands alone on its line."""


def diff(path: str, before: bytes, after: bytes) -> str:
    """The unified diff of one file; empty where nothing differs.

    Bytes that are not UTF-8 are kept as surrogates: write the text with ``errors="surrogateescape"``.
    """
    if before == after:
        return ""
    old, new = _name("a/", path), _name("b/", path)
    lines = list(difflib.unified_diff(_lines(before), _lines(after), old, new))
    # with git's own first line, names count from the root also where it is applied in a folder below
    lines[:2] = [f"diff --git {old.rstrip(_END)} {new.rstrip(_END)}\n", f"--- {old}\n", f"+++ {new}\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(raw: bytes) -> list[str]:
    r"""Lines with their endings; only ``\n`` ends one, as in git."""
    parts = raw.decode("utf-8", "surrogateescape").split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _name(side: str, path: str) -> str:
    """A file's name as git writes it: in quotes where it holds odd characters, with a tab where it holds a blank."""
    raw = os.fsencode(path)
    if any(byte < 32 or byte == 127 or byte in b'"\\' for byte in raw):
        return '"' + side + "".join(_ESCAPES.get(byte, _escaped(byte)) for byte in raw) + '"'
    return side + raw.decode("utf-8", "surrogateescape") + (_END if b" " in raw else "")


_ESCAPES = {0x07: "\\a", 0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0B: "\\v", 0x0C: "\\f", 0x0D: "\\r"}
_ESCAPES |= {0x22: '\\"', 0x5C: "\\\\"}


def _escaped(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
