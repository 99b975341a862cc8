"""Comments and logical lines of Python and of CUDA C++: what suppressions are read from and written to."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Comment:
    """One comment. Lines and columns from 1, columns in characters, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    """As written, with its ``#``, ``//`` or ``/* */``."""
    alone: bool
    """Whether nothing but blanks stands before it on its line."""


@dataclass(frozen=True)
class Layout:
    """The comments of a file, and its statements."""

    comments: tuple[Comment, ...]
    """In their order."""
    statements: tuple[tuple[int, int], ...]
    """First and last physical line of each logical line, in their order: of a compound statement, of its header."""
    headers: dict[int, int]
    """First line of a decorated definition (its first decorator) to the last line of its header."""
    code: tuple[int, ...]
    """Lines on which something other than a comment stands, ascending."""
    exact: bool = True
    """Whether it could be read to its end; without, lines stand for statements and comments are guessed."""

    def statement_at(self, line: int) -> tuple[int, int] | None:
        """The last statement that a line belongs to; None on a line without any."""
        place = bisect_right(self.statements, (line, 1 << 62)) - 1
        if place < 0:
            return None
        first, last = self.statements[place]
        return (first, last) if first <= line <= last else None

    def first_on(self, line: int) -> int:
        """First line of the first of the statements that a line belongs to: of several on one line, the leftmost."""
        place = bisect_right(self.statements, (line, 1 << 62)) - 1
        while place > 0 and self.statements[place - 1][1] >= line:
            place -= 1
        return min(line, self.statements[place][0]) if place >= 0 else line

    def covered_by(self, comment: Comment) -> tuple[int, int]:
        """First and last line of what a comment speaks of; an empty range where nothing follows it.

        After code: the whole statement. Alone on its line: the next statement, with the decorators of a definition;
        between the parts of a statement the next line of it.
        """
        if not comment.alone:
            here = self.statement_at(comment.line)
            return (self.first_on(comment.line), max(here[1], comment.line)) if here else (comment.line, comment.line)
        around = self.statement_at(comment.line)
        if around is not None and around[0] < comment.line and around[1] > comment.end_line:
            following = _after(self.code, comment.end_line)
            return (following, following)
        place = bisect_left(self.statements, (comment.end_line, 0))
        if place == len(self.statements):
            return (comment.line, comment.line)
        first, last = self.statements[place]
        return (first, max(last, self.headers.get(first, 0)))


def _after(lines: tuple[int, ...], line: int) -> int:
    place = bisect_right(lines, line)
    return lines[place] if place < len(lines) else line


# Python ---------------------------------------------------------------------------------------------------

_SKIPPED = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_DEFINES = ("def", "class", "async")
_PYTHON = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<comment>\#[^\n]*)
  | (?P<string>
        '{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
      | "{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3}
      | '(?!'')[^'\\\n]*(?:\\.[^'\\\n]*)*'
      | "(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"
    )
  | (?P<continued>\\\n)
  | (?P<stray>['"])
    """,
    re.VERBOSE | re.DOTALL,
)


def python_layout(text: str) -> Layout:
    r"""The layout of a Python file whose lines end in ``\n``; line by line where it cannot be tokenised."""
    found = _scanned(text)
    if found is not None:
        return found
    try:
        return _Python(text).layout()
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return _line_by_line(text)


def _scanned(text: str) -> Layout | None:
    """The layout by a scan for what ends lines and statements, several times as fast as tokens.

    None where only tokens can tell: a string that does not end, brackets that do not match, quotes inside the braces
    of an f-string.
    """
    return _Scan(text).layout()


class _Scan:
    """One pass over the line ends, brackets, strings and comments of a file; what lies between is code."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line, self.start = 1, 0
        """Number and offset of the current line."""
        self.first, self.word = 0, ""
        """First line of the current statement, and how it begins; 0 between statements."""
        self.depth = 0
        self.comments: list[Comment] = []
        self.statements: list[tuple[int, int]] = []
        self.words: list[str] = []
        self.code: set[int] = set()

    def layout(self) -> Layout | None:
        before = 0
        for match in _PYTHON.finditer(self.text):
            kind, start, end = match.lastgroup, match.start(), match.end()
            gap = self.text[before:start]
            before = end
            if gap and not gap.isspace():
                self._begin(gap)
            if kind == "newline":
                if self.first and not self.depth:
                    self._end()
                self._next_line(1, end)
            elif kind == "comment":
                self._comment(match.group(), start, end)
            elif kind == "continued":
                self._next_line(1, end)
            elif kind == "stray" or not self._take(kind, match.group(), gap, start):
                return None
        return None if self.depth else self._finished(self.text[before:])

    def _begin(self, word: str) -> None:
        self.code.add(self.line)
        if not self.first:
            self.first, self.word = self.line, word

    def _end(self) -> None:
        self.statements.append((self.first, self.line))
        self.words.append(self.word)
        self.first = 0

    def _next_line(self, count: int, start: int) -> None:
        self.line, self.start = self.line + count, start

    def _comment(self, found: str, start: int, end: int) -> None:
        column, end_column = start - self.start + 1, end - self.start + 1
        self.comments.append(Comment(self.line, column, self.line, end_column, found, self.line not in self.code))

    def _take(self, kind: str | None, found: str, gap: str, start: int) -> bool:
        """Take a bracket or a string; False where it cannot be what it seems."""
        self._begin(found)
        if kind == "open":
            self.depth += 1
        elif kind == "close":
            self.depth -= 1
        elif _is_nested(gap, found):
            return False
        elif "\n" in found:
            breaks = found.count("\n")
            self.code.update(range(self.line, self.line + breaks + 1))
            self._next_line(breaks, start + found.rfind("\n") + 1)
        return self.depth >= 0

    def _finished(self, rest: str) -> Layout:
        if rest.strip():
            self._begin(rest)
        if self.first:
            self._end()
        headers = _headers(self.statements, self.words)
        return Layout(tuple(self.comments), tuple(self.statements), headers, tuple(sorted(self.code)))


def _is_nested(gap: str, string: str) -> bool:
    """Whether a string seems to end inside the braces of an f-string: by the braces that it leaves open."""
    prefix = gap[-2:].lower()
    if "{" not in string or not ("f" in prefix or "t" in prefix):
        return False
    plain = string.replace("{{", "").replace("}}", "")
    return plain.count("{") != plain.count("}")


def _headers(statements: list[tuple[int, int]], words: list[str]) -> dict[int, int]:
    """First line of each decorated definition to the last line of its header, by how statements begin."""
    found: dict[int, int] = {}
    start = 0
    for (first, last), word in zip(statements, words, strict=True):
        word = word.lstrip()
        if word.startswith("@"):
            start = start or first
            continue
        if start and word.split(None, 1)[:1] and word.split(None, 1)[0] in _DEFINES:
            found[start] = last
        start = 0
    return found


class _Python:
    """One pass over the tokens of a file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments: list[Comment] = []
        self.statements: list[tuple[int, int]] = []
        self.words: list[str] = []
        self.code: set[int] = set()

    def layout(self) -> Layout:
        first, word = 0, ""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                self._comment(token)
            elif token.type == tokenize.NEWLINE:
                if first:
                    self.statements.append((first, token.start[0]))
                    self.words.append(word)
                first, word = 0, ""
            elif token.type not in _SKIPPED:
                if not first:
                    first, word = token.start[0], token.string
                self.code.update(range(token.start[0], token.end[0] + 1))
        headers = _headers(self.statements, self.words)
        return Layout(tuple(self.comments), tuple(self.statements), headers, tuple(sorted(self.code)))

    def _comment(self, token: tokenize.TokenInfo) -> None:
        (line, column), (end_line, end_column) = token.start, token.end
        alone = line not in self.code
        self.comments.append(Comment(line, column + 1, end_line, end_column + 1, token.string, alone))


def _line_by_line(text: str) -> Layout:
    """Every line a statement, everything after a ``#`` a comment: for files that are no Python."""
    comments, code = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        before, mark, _ = line.partition("#")
        if mark:
            column = len(before) + 1
            comments.append(Comment(number, column, number, len(line) + 1, line[len(before) :], not before.strip()))
        if before.strip():
            code.append(number)
    return Layout(tuple(comments), tuple((line, line) for line in code), {}, tuple(code), exact=False)


# CUDA C++ -------------------------------------------------------------------------------------------------

_CUDA = re.compile(
    r"""
    (?P<line>//[^\n]*(?:(?<=\\)\n[^\n]*)*)
  | (?P<block>/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
  | (?P<string>"(?:\\.|[^"\\\n])*"?)
  | (?P<number>(?<![\w.])\.?\d(?:'?[\w.])*)
  | (?P<char>'(?:\\.|[^'\\\n])*'?)
  | (?P<directive>(?:(?<=\n)|\A)[^\S\n]*\#(?:[^\n\\/"']|\\.|/(?![/*])|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')*)
  | (?P<word>\w+)
  | (?P<newline>\n)
  | (?P<blank>[^\S\n]+)
  | (?P<mark_of_code>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def cuda_layout(text: str) -> Layout:
    r"""The layout of CUDA C++ whose lines end in ``\n``; never fails."""
    return _Cuda(text).layout()


class _Cuda:
    """One pass over the tokens of a file; statements end at ``;``, ``{`` and ``}`` outside parentheses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line, self.start = 1, 0
        self.first, self.last = 0, 0
        self.depth = [0]
        self.comments: list[Comment] = []
        self.statements: list[tuple[int, int]] = []
        self.code: set[int] = set()

    def layout(self) -> Layout:
        for match in _CUDA.finditer(self.text):
            kind, found = match.lastgroup or "", match.group()
            line = self.line
            breaks = found.count("\n")
            end_line = line + breaks
            end_start = match.start() + found.rfind("\n") + 1 if breaks else self.start
            if kind in ("line", "block"):
                column, end_column = match.start() - self.start + 1, match.end() - end_start + 1
                alone = line not in self.code
                self.comments.append(Comment(line, column, end_line, end_column, found, alone))
            elif kind == "directive":
                self._directive(line, end_line)
            elif kind not in ("newline", "blank"):
                self._code(found, line, end_line)
            self.line, self.start = end_line, end_start
        self._end()
        return Layout(tuple(self.comments), tuple(sorted(self.statements)), {}, tuple(sorted(self.code)))

    def _directive(self, line: int, end_line: int) -> None:
        self._end()
        self.code.update(range(line, end_line + 1))
        self.statements.append((line, end_line))

    def _code(self, found: str, line: int, end_line: int) -> None:
        self.first = self.first or line
        self.last = end_line
        self.code.update(range(line, end_line + 1))
        if found in "([":
            self.depth[-1] += 1
        elif found in ")]":
            self.depth[-1] = max(0, self.depth[-1] - 1)
        elif found == "{":
            self._end()
            self.depth.append(0)
        elif found == "}":
            self._end()
            if len(self.depth) > 1:
                self.depth.pop()
        elif found == ";" and not self.depth[-1]:
            self._end()

    def _end(self) -> None:
        if self.first:
            self.statements.append((self.first, self.last))
        self.first = 0


def cuda_strings(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, column and text of the string literals of a Python file that seem to hold CUDA C++ over several lines."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            held = token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
            if held and "\n" in token.string and ("__global__" in token.string or "<<<" in token.string):
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
