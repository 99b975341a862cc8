"""Where host code looks at the error of a launch, directly or through macros and functions whose name says so."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

RUNTIME = re.compile(
    r"\b(?:(?:cuda|hip)(?:GetLastError|PeekAtLastError|(?:Device|Stream|Event|Thread)Synchronize)|synchronize)\b"
)
"""Calls that report what a launch before them did."""
_NAMED = re.compile(r"check|error|assert|verify|ensure|enforce|sync", re.IGNORECASE)
_SUBJECT = re.compile(r"cuda|gpu|hip|kernel|launch|last|device", re.IGNORECASE)
_HARMLESS = re.compile(r"\s*(?:\"[^\"]*\"|__[A-Za-z]+__|\w*[sS]tream(?:\(\))?)?\s*")
_KNOWN = re.compile(r"KERNEL_LAUNCH_CHECK|POST_KERNEL_CHECK|KERNEL_CHECK")
_LONGEST = 200
"""Size in bytes of arguments that can be those of a check."""
_MOST = 50
"""Calls of a function that are looked at."""
_BRANCHES = frozenset({"if_statement", "conditional_expression"})
_ENDINGS = frozenset({"return_statement", "throw_statement"})
_LEAVERS = _ENDINGS | {"break_statement"}


class ErrorChecks:
    """The places of one piece of CUDA C++ that report launch errors."""

    def __init__(self, file: CudaFile) -> None:
        self.file = file
        self.names = self._checking_names()
        self._offsets: dict[int, list[int]] = {}
        self._leavers: dict[int, list[Node]] = {}

    def follow(self, node: Node, function: CudaFunction) -> bool:
        """Whether a check is reached from a node before its function ends."""
        offsets = self._in(function)
        if not offsets:
            return False
        for start, end in self._reached(node, function):
            index = bisect_left(offsets, start)
            if index < len(offsets) and offsets[index] < end:
                return True
        return False

    def written_in(self, text: str) -> bool:
        """Whether a text, such as what a macro stands for, has a check in it."""
        return bool(RUNTIME.search(text) or _KNOWN.search(text)) or not self.names.isdisjoint(re.findall(r"\w+", text))

    def callers_check(self, function: CudaFunction, depth: int = 3) -> bool:
        """Whether every call of a function in this piece is followed by a check."""
        calls = [item for item in self.file.calls.get(function.name, ()) if item[1] is not function]
        return 0 < len(calls) <= _MOST and all(
            self.follow(node, caller) or (depth > 0 and self.callers_check(caller, depth - 1)) for node, caller in calls
        )

    def _checking_names(self) -> frozenset[str]:
        """Macros and functions of this piece that check, also through one another."""
        launching = {launch.function.node.start_byte for launch in self.file.launches if launch.function is not None}
        texts = {macro.name: macro.value for macro in self.file.macros.values()}
        for function in self.file.functions:
            size = function.body.end_byte - function.body.start_byte
            if function.host and size < 4000 and function.node.start_byte not in launching:
                texts.setdefault(function.name, self.file.code(function.body))
        found = {name for name, text in texts.items() if RUNTIME.search(text) or _KNOWN.search(text)}
        words = {name: set(re.findall(r"\w+", text)) for name, text in texts.items()} if found else {}
        while True:
            more = {name for name, used in words.items() if name not in found and not found.isdisjoint(used)}
            if not more:
                return frozenset(found)
            found |= more

    def _in(self, function: CudaFunction) -> list[int]:
        """Offsets of the checks of a function, ascending."""
        known = self._offsets.get(function.node.start_byte)
        if known is None:
            known = [node.start_byte for node in function.nodes["call_expression"] if self._checks(node)]
            known += [node.start_byte for node in function.nodes["expression_statement"] if self._bare(node)]
            known.sort()
            self._offsets[function.node.start_byte] = known
        return known

    def _checks(self, call: Node) -> bool:
        name = self.file.callee(call)
        if RUNTIME.fullmatch(name):
            parent = self.file.parents.get(call.id)
            return name == "synchronize" or (parent is not None and parent.type != "expression_statement")
        if name in self.names or _KNOWN.search(name):
            return True
        if not (_NAMED.search(name) and _SUBJECT.search(name)):
            return False
        arguments = call.child_by_field_name("arguments")
        if arguments is None or arguments.end_byte - arguments.start_byte > _LONGEST:
            return False
        return all(_HARMLESS.fullmatch(item) for item in self.file.code(arguments)[1:-1].split(","))

    def _bare(self, node: Node) -> bool:
        """A macro without parentheses, as a statement of its own."""
        if node.end_byte - node.start_byte > _LONGEST or "(" in (name := self.file.code(node).rstrip("; \n")):
            return False
        return name in self.names or _KNOWN.search(name) is not None

    def _reached(self, node: Node, function: CudaFunction) -> list[tuple[int, int]]:
        """The stretches of the function that run after a node, innermost first."""
        spans: list[tuple[int, int]] = []
        left = False
        for parent, child in self.file.inside(node, function.node):
            if parent.type in _BRANCHES or left:
                left = False  # another branch does not run after this one, nor a case after a break
                continue
            last = self._leaving(parent, child)
            spans.append((child.end_byte, parent.end_byte if last is None else last.end_byte))
            if last is not None and last.type in _ENDINGS:
                break
            left = last is not None and parent.type == "case_statement"
        return spans

    def _leaving(self, parent: Node, child: Node) -> Node | None:
        """The first statement of a block, after one of its statements, that leaves it always."""
        if parent.type not in ("compound_statement", "case_statement"):
            return None
        known = self._leavers.get(parent.id)
        if known is None:
            known = [item for item in parent.named_children if item.type in _LEAVERS]
            self._leavers[parent.id] = known
        index = bisect_left(known, child.end_byte, key=lambda item: item.start_byte)
        return known[index] if index < len(known) else None
