"""From the bytes of a Python file to text, as Python itself would decode them."""

from __future__ import annotations

import codecs
import re

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:[#\r\n]|$)")


class UnreadableText(ValueError):
    """The bytes are no Python source; ``line`` says where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


def decode(raw: bytes) -> str:
    r"""Decode a Python file: byte order mark, coding cookie, any line ending.

    The result has ``\n`` line endings only. Raises :class:`UnreadableText` for an unknown encoding, bytes that do not
    belong to it, or a NUL byte.
    """
    marked = raw.startswith(codecs.BOM_UTF8)
    body = raw[len(codecs.BOM_UTF8) :] if marked else raw
    encoding = "utf-8" if marked else _encoding(body)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise UnreadableText(f"byte 0x{body[error.start]:02x} is not {encoding}", line) from None
    if "\0" in text:
        raise UnreadableText("there is a NUL byte in it", text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _encoding(body: bytes) -> str:
    for number, line in enumerate(body.split(b"\n", 2)[:2], start=1):
        found = _COOKIE.match(line)
        if found is not None:
            name = found.group(1).decode("ascii")
            try:
                info = codecs.lookup(name)
                known = bool(getattr(info, "_is_text_encoding", True))
            except LookupError:
                known = False
            if not known:
                raise UnreadableText(f"unknown encoding {name!r}", number)
            return name
        if not _BLANK.match(line):
            break
    return "utf-8"
