"""The nodes of a file by the range that they span, found with libcst."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kgate.lint.fixes.text import Refusal, SourceText

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

_DEEPEST = 900
"""Levels of syntax that libcst can follow within the usual limit of recursion."""

_PAGE = re.compile(r"[ \t\f]*\f")
"""Blanks with form feeds at the start of a line: Python starts counting columns anew after each."""


@dataclass(frozen=True)
class Spot:
    """An expression."""

    node: cst.CSTNode
    start: int
    end: int
    """Its characters; of a tuple or a generator, with the parentheses that are part of it."""
    outer: int
    outer_end: int
    """With all parentheses around it."""

    @property
    def own(self) -> tuple[int, int]:
        """The characters that give way when it is replaced; parentheses of a call stay the call's."""
        return max(self.start, self.outer), min(self.end, self.outer_end)

    def holds(self, other: Spot) -> bool:
        """Whether another expression lies inside this one, or is it."""
        return self.outer <= other.outer and other.outer_end <= self.outer_end


@dataclass(frozen=True)
class Statement:
    """A statement: a simple one, or a compound one with its body."""

    node: cst.CSTNode
    start: int
    end: int
    """Its characters, decorators not included."""
    top: int
    """Where it starts with its decorators."""
    body: tuple[cst.CSTNode, ...]
    """The statements of the body that it is part of, itself included."""
    top_level: bool
    """Whether that body is the module's."""
    compound: bool
    continued: bool
    """Whether it is the ``elif`` of another."""


class Nodes:
    """Looks up the nodes of one parsed file."""

    def __init__(self, source: SourceText) -> None:
        import libcst as cst
        from libcst.metadata import MetadataWrapper, PositionProvider

        self.source = source
        text, self._shifts = _readable(source.text)
        _check_depth(text)
        try:
            self.module = cst.parse_module(text)
            if self.module.code != text:
                raise Refusal("libcst does not give the file back as it is")
            places = MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(PositionProvider)
        except (cst.ParserSyntaxError, RecursionError) as error:
            raise Refusal(f"libcst cannot read the file: {type(error).__name__}") from None
        self._places: Mapping[cst.CSTNode, CodeRange] = places

    @property
    def indent(self) -> str:
        """What one level of the file's indentation is."""
        return self.module.default_indent

    def span_of(self, node: cst.CSTNode) -> tuple[int, int]:
        """The characters of a node, parentheses around it not included."""
        place = self._places[node]
        return self._offset(place.start), self._offset(place.end)

    def _offset(self, position: Any) -> int:
        shift = self._shifts.get(position.line, 0)
        return self.source.offset(position.line, position.column + 1 + shift)

    @cached_property
    def expressions(self) -> Mapping[tuple[int, int], Spot]:
        """Expressions by range; of several with one range the outermost."""
        import libcst as cst

        found: dict[tuple[int, int], Spot] = {}
        for node in self._places:
            if isinstance(node, cst.BaseExpression):
                spot = self.spot(node)
                found.setdefault((spot.start, spot.end), spot)
        return found

    def spot(self, node: cst.CSTNode) -> Spot:
        """Where an expression lies."""
        import libcst as cst

        start, end = self.span_of(node)
        left: Sequence[cst.CSTNode] = getattr(node, "lpar", ())
        right: Sequence[cst.CSTNode] = getattr(node, "rpar", ())
        outer, outer_end = start, end
        if left:
            outer, outer_end = self.span_of(left[0])[0], self.span_of(right[-1])[1]
        if isinstance(node, (cst.Tuple, cst.GeneratorExp)):
            if left:
                start, end = self.span_of(left[-1])[0], self.span_of(right[0])[1]
            elif isinstance(node, cst.GeneratorExp):
                # The parentheses are those of the call, which ast counts as the generator's too.
                start, end = self.source.text.rindex("(", 0, start), self.source.skip(end) + 1
        return Spot(node, start, end, outer, outer_end)

    @cached_property
    def strings(self) -> tuple[Spot, ...]:
        """Formatted strings."""
        import libcst as cst

        kinds: tuple[type[cst.CSTNode], ...] = (cst.FormattedString,)
        if hasattr(cst, "TemplatedString"):
            kinds += (cst.TemplatedString,)
        return tuple(self.spot(node) for node in self._places if isinstance(node, kinds))

    @cached_property
    def patterns(self) -> tuple[tuple[int, int], ...]:
        """Ranges of the patterns of ``match`` statements."""
        import libcst as cst

        return tuple(self.span_of(node) for node in self._places if isinstance(node, cst.MatchPattern))

    @cached_property
    def statements(self) -> Mapping[tuple[int, int], Statement]:
        """Statements by range, decorators not included."""
        import libcst as cst

        elifs = {id(node.orelse) for node in self._places if isinstance(node, cst.If) and node.orelse is not None}
        found = {}
        for body, top_level in self._bodies():
            for node in body:
                start, end = self.span_of(node)
                decorators: Sequence[cst.CSTNode] = getattr(node, "decorators", ())
                found[start, end] = Statement(
                    node,
                    start,
                    end,
                    self.span_of(decorators[0])[0] if decorators else start,
                    body,
                    top_level,
                    isinstance(node, cst.BaseCompoundStatement),
                    id(node) in elifs,
                )
        return found

    def _bodies(self) -> list[tuple[tuple[cst.CSTNode, ...], bool]]:
        import libcst as cst

        found: list[tuple[tuple[cst.CSTNode, ...], bool]] = []
        for node in self._places:
            if isinstance(node, (cst.Module, cst.IndentedBlock)):
                found.append((flat(node.body), isinstance(node, cst.Module)))
            elif isinstance(node, cst.SimpleStatementSuite):
                found.append((tuple(node.body), False))
            elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
                found.append(((node.orelse,), False))
        return found

    @cached_property
    def comments(self) -> frozenset[tuple[int, int]]:
        """Ranges of all comments."""
        import libcst as cst

        return frozenset(self.span_of(node) for node in self._places if isinstance(node, cst.Comment))

    @cached_property
    def parameters(self) -> Mapping[tuple[int, int], cst.Param]:
        """Parameters by range, annotation included, default not."""
        import libcst as cst

        found = {}
        for node in self._places:
            if isinstance(node, cst.Param):
                last = (
                    self.spot(node.annotation.annotation).outer_end if node.annotation else self.span_of(node.name)[1]
                )
                found[self.span_of(node.name)[0], last] = node
        return found

    @cached_property
    def keywords(self) -> Mapping[tuple[int, int], cst.Arg]:
        """Arguments given by keyword, by range."""
        import libcst as cst

        found = {}
        for node in self._places:
            if isinstance(node, cst.Arg) and node.keyword is not None:
                found[self.span_of(node.keyword)[0], self.spot(node.value).outer_end] = node
        return found

    def root_of(self, spot: Spot) -> Spot:
        """The outermost expression that holds another."""
        return max(
            (item for item in self.expressions.values() if item.holds(spot)),
            key=lambda item: item.outer_end - item.outer,
        )

    def comments_in(self, start: int, end: int) -> list[str]:
        """The comments inside a stretch of text."""
        return [self.source.text[first:last] for first, last in sorted(self.comments) if start <= first < end]


def flat(body: Sequence[cst.CSTNode]) -> tuple[cst.CSTNode, ...]:
    """The statements of a body, those that share a line one by one."""
    import libcst as cst

    found: list[cst.CSTNode] = []
    for node in body:
        found += node.body if isinstance(node, cst.SimpleStatementLine) else [node]
    return tuple(found)


def parse(source: str | bytes) -> ast.Module | None:
    """The tree of a source, None where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _readable(text: str) -> tuple[str, dict[int, int]]:
    """The text as libcst can read it, and by how many characters columns of a line were moved."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shifts = {}
    if "\f" in text:
        for number, line in enumerate(lines, start=1):
            if (found := _PAGE.match(line)) is not None:
                lines[number - 1], shifts[number] = line[found.end() :], found.end()
    return "\n".join(lines), shifts


def _check_depth(text: str) -> None:
    """Keep away what would overflow libcst's stack, for that ends the process."""
    tree = parse(text)
    level: list[ast.AST] = [tree] if tree is not None else []
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise Refusal("the file's syntax is nested too deeply")
