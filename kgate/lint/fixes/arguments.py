"""Keyword arguments of a call set and taken away, in the style in which the call is written."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kgate.lint.fixes.nodes import Nodes, Spot, parse
from kgate.lint.fixes.text import ADDED, CLOSING, OPENING, Refusal, Splice


@dataclass(frozen=True)
class Argument:
    """One argument as written."""

    name: str
    """Keyword; empty for a positional one."""
    star: str
    start: int
    end: int
    """With its star or keyword, without the comma."""
    value: int
    """Where its value starts."""
    comma: int | None
    """Where its comma stands."""
    generator: bool
    """Whether it is a generator that has no parentheses of its own."""

    @property
    def last(self) -> int:
        """Where it ends with its comma."""
        return self.end if self.comma is None else self.comma + 1


@dataclass
class Changes:
    """What is done to the arguments of one call, by several fixes perhaps."""

    set: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


class Call:
    """A call and its arguments."""

    def __init__(self, nodes: Nodes, spot: Spot) -> None:
        import libcst as cst

        if not isinstance(spot.node, cst.Call):
            raise Refusal("the node of the range is no call")
        if any(item.start < spot.start and spot.end < item.end for item in nodes.strings):
            raise Refusal("it lies inside a formatted string")
        self.nodes, self.source = nodes, nodes.source
        self.opening = self.source.skip(nodes.spot(spot.node.func).outer_end) + 1
        self.closing = spot.end - 1
        self.arguments = [self._argument(item) for item in spot.node.args]
        self.key = (spot.start, spot.end)

    def _argument(self, arg: object) -> Argument:
        import libcst as cst

        assert isinstance(arg, cst.Arg)
        value = self.nodes.spot(arg.value)
        start = value.outer
        if arg.keyword is not None:
            start = self.nodes.span_of(arg.keyword)[0]
        elif arg.star:
            start = self.source.text.rindex(arg.star, 0, start)
        following = self.source.skip(value.outer_end)
        comma = following if self.source.text.startswith(",", following) else None
        generator = isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar
        name = arg.keyword.value if arg.keyword is not None else ""
        return Argument(name, arg.star, start, value.outer_end, value.outer, comma, generator)

    def named(self, name: str) -> Argument | None:
        """The argument given under a keyword."""
        return next((item for item in self.arguments if item.name == name), None)

    def check(self, name: str, *, removed: bool) -> None:
        """Refuse what cannot be known of the call."""
        if self.named(name) is not None:
            return
        if removed:
            raise Refusal(f"the call has no argument {name}=")
        spread = next((item for item in self.arguments if item.star == "**"), None)
        if spread is not None:
            handed = self.source.text[spread.start : spread.end]
            raise Refusal(f"the call hands on {handed}, which may hold {name}")

    def render(self, changes: Changes) -> list[Splice]:
        """The splices that make all changes of the call."""
        gone = [item for name in changes.removed if (item := self.named(name)) is not None]
        splices, added = [], []
        for name, text in changes.set.items():
            written = _value(text)
            old = self.named(name)
            if old is not None:
                splices.append(Splice(*self._keep_comments(old.value, old.end, written), written))
            elif gone:  # the new argument stands where an old one stood
                old = gone.pop(0)
                splices.append(Splice(*self._keep_comments(old.start, old.end, written), f"{name}={written}"))
            else:
                added.append(f"{name}={written}")
        return splices + self._removed(gone) + self._added(added)

    def _keep_comments(self, start: int, end: int, text: str) -> tuple[int, int]:
        lost = [item for item in self.nodes.comments_in(start, end) if item not in text]
        if lost:
            raise Refusal(f"it would lose the comment {lost[0]!r}")
        return start, end

    def _added(self, written: list[str]) -> list[Splice]:
        if not written:
            return []
        if not self.arguments:
            return [Splice(self.opening, self.opening, ", ".join(written))]
        last = self.arguments[-1]
        splices = []
        if last.generator:
            length = last.end - last.start
            splices.append(Splice(last.start, last.start, "(", OPENING, -length))
            splices.append(Splice(last.end, last.end, ")", CLOSING, length))
        indentation = self._indentation()
        joint = " " if indentation is None else f"\n{indentation}"
        at = last.last
        if indentation is not None and self.source.skip(at) > self.source.line_end(at):
            at = self.source.line_end(at)  # behind the comment of the last argument
        if last.comma is not None:
            return [*splices, Splice(at, at, "".join(f"{joint}{item}," for item in written))]
        if at == last.end:
            return [*splices, Splice(at, at, "".join(f",{joint}{item}" for item in written))]
        text = ",".join(f"{joint}{item}" for item in written)
        return [*splices, Splice(last.end, last.end, ","), Splice(at, at, text, ADDED, 1)]

    def _indentation(self) -> str | None:
        """What precedes each argument where every one has a line of its own; None where they share lines."""
        firsts = [item.start for item in self.arguments]
        hanging = not self.source.before(firsts[0]).strip()
        if not hanging and len(firsts) == 1:
            return None
        if any(self.source.before(item).strip() for item in firsts[1:]):
            return None
        return self.source.before(firsts[-1])

    def _removed(self, gone: list[Argument]) -> list[Splice]:
        if not gone:
            return []
        kept = [item for item in self.arguments if item not in gone]
        splices = []
        for item in gone:
            alone = self._own_lines(item)
            after = [other for other in self.arguments if other.start > item.start]
            before = [other for other in self.arguments if other.start < item.start]
            if alone is not None:
                splices.append(alone)
            elif any(other in kept for other in after):
                splices.append(Splice(item.start, self._up_to(item, after[0]), ""))
            elif any(other in kept for other in before):
                splices.append(Splice(*self._keep_comments(before[-1].end, item.end, ""), ""))
            else:
                splices.append(Splice(item.start, after[0].start if after else item.last, ""))
        return splices + self._comma_left_over(gone, kept)

    def _comma_left_over(self, gone: list[Argument], kept: list[Argument]) -> list[Splice]:
        """The comma that would end the arguments where none did, because the lines of the last ones went."""
        last = self.arguments[-1]
        if not kept or last not in gone or last.comma is not None:
            return []
        following = self.arguments[self.arguments.index(kept[-1]) + 1]
        comma = kept[-1].comma
        if comma is None or self._own_lines(following) is None or self._own_lines(last) is None:
            return []
        return [Splice(comma, comma + 1, "")]

    def _up_to(self, item: Argument, following: Argument) -> int:
        """Up to where an argument goes that another follows: comments between them stay."""
        if not self.nodes.comments_in(item.last, following.start):
            return following.start
        return item.last

    def _own_lines(self, item: Argument) -> Splice | None:
        """The whole lines of an argument that shares them with nothing but a comment of its own."""
        rest = self.source.after(item.last).strip()
        if self.source.before(item.start).strip() or (rest and not rest.startswith("#")):
            return None
        return Splice(self.source.line_start(item.start), self.source.next_line(item.last), "")


def touching(first: Changes, second: Changes) -> bool:
    """Whether changes of one call by different fixes get in each other's way."""
    return bool(first.removed or second.removed or first.set.keys() & second.set.keys())


def merged(changes: list[Changes]) -> Changes:
    """All changes of one call together."""
    whole = Changes()
    for item in changes:
        whole.set.update(item.set)
        whole.removed += item.removed
    return whole


def _value(text: str) -> str:
    """A value as it can stand behind ``name=``."""
    wanted = parse(f"(\n{text}\n)")
    for written in (text, f"({text})"):
        module = parse(f"f(_={written}\n)")
        if module is None or wanted is None or len(module.body) != 1 or len(wanted.body) != 1:
            continue
        made, meant = module.body[0], wanted.body[0]
        if not (isinstance(made, ast.Expr) and isinstance(made.value, ast.Call) and isinstance(meant, ast.Expr)):
            continue
        keywords = made.value.keywords
        if len(keywords) == 1 and not made.value.args and ast.dump(keywords[0].value) == ast.dump(meant.value):
            return written
    raise Refusal(f"{text!r} is no value of an argument")
