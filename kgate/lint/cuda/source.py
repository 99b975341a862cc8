"""A piece of CUDA C++ as rules see it: a file, or a string in a Python file; parsed by tree-sitter when a rule asks."""

from __future__ import annotations

import ast
import codecs
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from kgate.lint.cuda.checks import ErrorChecks
from kgate.lint.cuda.flow import Flow
from kgate.lint.cuda.preprocess import readable
from kgate.lint.cuda.reader import Reader
from kgate.lint.cuda.records import CudaFunction, CudaLaunch, Macro
from kgate.lint.records import DeviceSummary, Range
from kgate.lint.records import Parameter as SummaryParameter

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

SUFFIXES = (".cu", ".cuh", ".cu.in", ".hip")
"""Files that are CUDA C++ by their name."""
HEADERS = (".h", ".hpp", ".hh", ".hxx", ".inl", ".cpp", ".cc", ".cxx")
"""Files that are read where they hold device code."""
LARGEST = 1 << 20
"""Size in bytes above which a file is generated code or data, which nobody reviews line by line."""
DEEPEST = 400
"""Levels of nesting above a node that are looked at."""

_DEVICE_CODE = re.compile(r"__global__|<<<")
_STRING_CODE = re.compile(r"__global__|<<<[^<>]*>>>\s*\(")
_BLOCK = 4096
_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_LITERAL = re.compile(r"[rRuU]?(?P<quotes>\"\"\"|''')")
_ESCAPES = re.compile(r"(?:\\[\\'\"])+")
_NAMES = frozenset({"identifier", "field_identifier", "type_identifier", "namespace_identifier", "primitive_type"})
_NOISE = frozenset({"const", "volatile", "__restrict__", "restrict", "struct", "typename", "constexpr", "static"})


class CudaFile:
    """One piece of CUDA C++."""

    def __init__(self, path: str, text: str, line: int = 1, column: int = 1, embedded: bool = False) -> None:
        self.path = path
        """The file that it is, or that holds it."""
        self.text = text
        self.line, self.column = line, column
        """Where it begins in that file."""
        self.embedded = embedded
        """Whether it is a string in a Python file."""
        self._flows: dict[int, Flow] = {}
        self.parents: dict[int, Node] = {}
        """Node id to the node that holds it; filled with the functions."""

    @cached_property
    def raw(self) -> bytes:
        """The bytes that are parsed."""
        return self.text.encode("utf-8", "replace")

    @cached_property
    def tree(self) -> Tree:
        """The syntax tree; its offsets are those of ``raw``."""
        return _parser().parse(readable(self.raw))

    @cached_property
    def functions(self) -> list[CudaFunction]:
        """Function definitions in source order, without those inside another one."""
        return self._read[0]

    @cached_property
    def launches(self) -> list[CudaLaunch]:
        """Launches in source order."""
        return self._read[1]

    @cached_property
    def macros(self) -> dict[str, Macro]:
        """Macros that it defines, by name."""
        return self._read[2]

    @cached_property
    def constants(self) -> dict[str, list[Node]]:
        """Names that are initialised as ``const`` or ``constexpr`` outside functions, to their values."""
        return self._read[3]

    @cached_property
    def kernels(self) -> list[CudaFunction]:
        """Functions marked ``__global__``."""
        return [item for item in self.functions if item.kernel]

    @cached_property
    def calls(self) -> dict[str, list[tuple[Node, CudaFunction]]]:
        """Last part of a name to the calls of it, each with the function that it stands in; launches are calls too."""
        found: dict[str, list[tuple[Node, CudaFunction]]] = defaultdict(list)
        for function in self.functions:
            for node in function.nodes["call_expression"]:
                found[self.callee(node)].append((node, function))
        return found

    @cached_property
    def registered(self) -> frozenset[str]:
        """Names that the file binds to Python or to the dispatcher."""
        names: set[str] = set()
        for function in self.functions:
            if function.name.startswith(("PYBIND11_MODULE", "TORCH_LIBRARY", "STABLE_TORCH_LIBRARY", "NB_MODULE")):
                names.update(_IDENTIFIER.findall(self.code(function.body)))
        return frozenset(names)

    @cached_property
    def checks(self) -> ErrorChecks:
        """Where its host code looks at the error of a launch."""
        return ErrorChecks(self)

    def flow(self, function: CudaFunction) -> Flow:
        """What the variables of a function hold, read once."""
        known = self._flows.get(function.node.start_byte)
        if known is None:
            known = self._flows[function.node.start_byte] = Flow(self, function)
        return known

    def entry(self, function: CudaFunction) -> bool:
        """Whether callers outside can reach a function without passing another one of this file, as far as is seen."""
        if function.name in self.registered:
            return True
        if self.embedded and not function.internal:
            return function.name not in self.calls
        return False

    def code(self, node: Node) -> str:
        """The source of a node."""
        return self.raw[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def code_before(self, node: Node, inner: Node) -> str:
        """The source of a node up to one inside it."""
        return self.raw[node.start_byte : inner.start_byte].decode("utf-8", "replace")

    def type_of(self, node: Node) -> str:
        """A type as written, without qualifiers and in single spaces."""
        return " ".join(word for word in self.code(node).split() if word not in _NOISE)

    def line_of(self, node: Node) -> str:
        """The source of a node in one line, shortened."""
        text = " ".join(
            self.raw[node.start_byte : min(node.end_byte, node.start_byte + 400)].decode("utf-8", "replace").split()
        )
        return text if len(text) <= 60 else text[:57] + "..."

    def callee(self, call: Node) -> str:
        """Last part of the name that a call calls; empty for anything but a name."""
        function = call.child_by_field_name("function")
        return "" if function is None else self.last_name(function)

    def last_name(self, node: Node) -> str:
        """Last part of a name, without template arguments: ``scale`` of ``ns::scale<float>``."""
        steps = 0
        while steps < 64:
            steps += 1
            kind = node.type
            if kind in _NAMES:
                return self.code(node)
            inner = node.child_by_field_name("field" if kind == "field_expression" else "name")
            if inner is None:
                return ""
            node = inner
        return ""

    def place(self, node: Node) -> Range:
        """The range of a node in the file that holds it; columns in characters."""
        return self.place_between(node.start_byte, node.end_byte)

    def place_between(self, start: int, end: int) -> Range:
        """The range between two offsets of ``raw``."""
        return (*self._position(start), *self._position(end))

    def symbol_at(self, place: Range) -> str:
        """Qualified name of the function that a place lies in; empty outside functions."""
        starts = self._function_places
        index = bisect_right(starts, (place[:2], (1 << 62, 0), "")) - 1
        if index >= 0 and place[:2] <= starts[index][1]:
            return starts[index][2]
        return ""

    def inside(self, node: Node, until: Node | None = None) -> Iterator[tuple[Node, Node]]:
        """The way up from a node: each node that holds it, with the child that one comes from.

        Ends at ``until`` or the root, or where no person nests so deeply.
        """
        child = node
        for _ in range(DEEPEST):
            parent = self.parents.get(child.id)
            if parent is None:
                return
            yield parent, child
            if until is not None and parent.id == until.id:
                return
            child = parent

    def under(self, node: Node) -> Iterator[Node]:
        """A node and all named nodes below it, in no particular order."""
        stack = [node]
        while stack:
            item = stack.pop()
            yield item
            stack += item.named_children

    @cached_property
    def summaries(self) -> list[DeviceSummary]:
        """Its kernels, for the linker."""
        return [
            DeviceSummary(
                name=kernel.qualified,
                place=self.place(kernel.name_node),
                parameters=tuple(SummaryParameter(item.name, annotation=item.type) for item in kernel.parameters),
                framework="cuda",
            )
            for kernel in (self.kernels if "__global__" in self.text else ())
        ]

    def _position(self, offset: int) -> tuple[int, int]:
        index = bisect_right(self._starts, offset) - 1
        start = self._starts[index]
        column = self._characters(offset) - self._characters(start) + 1
        return self.line + index, column if index else self.column + column - 1

    @cached_property
    def _function_places(self) -> list[tuple[tuple[int, int], tuple[int, int], str]]:
        places = [(self.place(item.node), item.qualified) for item in self.functions]
        return sorted((place[:2], place[2:], name) for place, name in places)

    def _characters(self, offset: int) -> int:
        """Characters before an offset."""
        if self._plain:
            return offset
        block = offset // _BLOCK
        return self._counts[block] + len(self.raw[block * _BLOCK : offset].translate(None, _CONTINUATIONS))

    @cached_property
    def _plain(self) -> bool:
        return self.raw.isascii()

    @cached_property
    def _counts(self) -> list[int]:
        """Characters before each block of bytes."""
        counts = [0]
        for start in range(0, len(self.raw), _BLOCK):
            counts.append(counts[-1] + len(self.raw[start : start + _BLOCK].translate(None, _CONTINUATIONS)))
        return counts

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer(rb"\n", self.raw))]

    @cached_property
    def _read(self) -> tuple[list[CudaFunction], list[CudaLaunch], dict[str, Macro], dict[str, list[Node]]]:
        return Reader(self).read()


def cuda_files_of(path: str, raw: bytes) -> list[CudaFile]:
    """The CUDA C++ of a file that is not Python: the file itself, or nothing where it holds none."""
    lower = path.lower()
    device = lower.endswith(SUFFIXES)
    if len(raw) > LARGEST or not (device or lower.endswith(HEADERS)):
        return []
    if not device and b"__global__" not in raw and b"<<<" not in raw:
        return []
    return [CudaFile(path, decode(raw))]


def cuda_strings_of(path: str, tree: ast.Module, text: str) -> list[CudaFile]:
    """The CUDA C++ in the strings of a Python file; ``text`` has ``\\n`` line endings, as ``tree`` was parsed from it.

    Only literals in triple quotes are read, as only these keep their lines; formatted ones and docstrings are not.
    """
    if len(text) > LARGEST or _DEVICE_CODE.search(text) is None:
        return []
    found, lines = [], text.split("\n")
    for node in _strings(tree):
        if _STRING_CODE.search(node.value) is not None:
            piece = _embedded(path, node, lines)
            if piece is not None:
                found.append(piece)
    return found


def decode(raw: bytes) -> str:
    r"""The text of a file of CUDA C++: ``\n`` line endings, no byte order mark, no NUL; never raises."""
    body = raw[len(codecs.BOM_UTF8) :] if raw.startswith(codecs.BOM_UTF8) else raw
    text = body.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def _strings(tree: ast.Module) -> list[Any]:
    """String literals that are values, in source order."""
    found: list[Any] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                found.append(node)
            continue
        stack += ast.iter_child_nodes(node)
    return sorted(found, key=lambda item: (item.lineno, item.col_offset))


def _embedded(path: str, node: Any, lines: list[str]) -> CudaFile | None:
    """The piece in one literal, at its own offsets in the file; None for a literal that is not a single one."""
    first, last = node.lineno - 1, node.end_lineno - 1
    if last >= len(lines):
        return None
    part = lines[first : last + 1]
    part[-1] = _bytes(part[-1], 0, node.end_col_offset)
    column = len(_bytes(lines[first], 0, node.col_offset))
    part[0] = part[0][column:]
    literal = "\n".join(part)
    opening = _LITERAL.match(literal)
    if opening is None:
        return None
    quotes = opening["quotes"]
    body = literal[opening.end() : -len(quotes)]
    if not literal.endswith(quotes) or quotes in body.replace("\\" + quotes[0], "  "):
        return None  # several literals side by side
    if literal[0] not in "rR":
        # The text as written stands for the value, so that offsets stay; only escaped backslashes and quotes become
        # what they stand for, as the former continue macros.
        body = _ESCAPES.sub(lambda found: found[0][1::2].rjust(len(found[0])), body)
    return CudaFile(path, body, first + 1, column + opening.end() + 1, embedded=True)


def _bytes(line: str, start: int, end: int) -> str:
    return line[start:end] if line.isascii() else line.encode("utf-8", "replace")[start:end].decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
