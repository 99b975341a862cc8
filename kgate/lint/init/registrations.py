"""What registrations say of a launcher: operator names, overridden ATen operators, capabilities, mutated arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kgate.lint.init.project import Project
from kgate.lint.init.values import Evidence
from kgate.source.uses import chain_of

_ATEN = ("aten::",)


@dataclass
class Registered:
    """What one launcher is registered as."""

    op: str = ""
    aten: list[tuple[str, Evidence]] = field(default_factory=list)
    """Overridden ATen operators, as ``softmax.int``."""
    capabilities: list[tuple[int, Evidence]] = field(default_factory=list)
    mutated: dict[str, Evidence] = field(default_factory=dict)
    pure: Evidence | None = None
    """Where the registration says that nothing is mutated."""


class Registrations:
    """Reads the registrations of a tree."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._tables: dict[str, list[tuple[str, Evidence]]] | None = None

    def of(self, symbol: str) -> Registered:
        """What a function is registered as."""
        found = Registered()
        definition = self.project.definition(symbol)
        path = symbol.partition("::")[0]
        for decorator in definition.decorators if definition is not None else ():
            node = decorator.segment.parse()
            last = decorator.chain.rpartition(".")[2]
            evidence = Evidence(path, decorator.segment.line, f"@{decorator.chain}(...)")
            if isinstance(node, ast.Call):
                self._decorator(found, last, node, evidence)
        found.aten += self.tables.get(symbol, [])
        return found

    def _decorator(self, found: Registered, last: str, node: ast.Call, evidence: Evidence) -> None:
        if last in ("custom_op", "triton_op"):
            name = _text(node.args[0]) if node.args else ""
            found.op = found.op or name.rpartition("::")[2]
            for keyword in node.keywords:
                if keyword.arg == "mutates_args":
                    names = _texts(keyword.value)
                    found.mutated |= dict.fromkeys(names, evidence)
                    found.pure = evidence if not names and _empty(keyword.value) else found.pure
        elif last == "impl":
            name = next((text for text in map(_text, node.args) if text), "")
            if name.startswith("aten::"):
                found.aten.append((name.removeprefix("aten::"), evidence))
        elif last in ("backend_requirement", "supported_compute_capability"):
            for child in ast.walk(node):
                is_list = isinstance(child, (ast.List, ast.Tuple, ast.Set))
                numbers = [item.value for item in getattr(child, "elts", ()) if isinstance(item, ast.Constant)]
                if is_list and numbers and all(type(number) is int and 50 <= number <= 130 for number in numbers):
                    found.capabilities += [(number, evidence) for number in numbers if type(number) is int]

    @property
    def tables(self) -> dict[str, list[tuple[str, Evidence]]]:
        """Function to ATen operators, from tables such as ``(("softmax.int", softmax), ...)``."""
        if self._tables is None:
            self._tables = {}
            for path in sorted(self.project.names.modules.files):
                for definition in self.project.names.table(path).facts.definitions:
                    if definition.kind == "constant" and definition.value is not None and not definition.conditional:
                        text = definition.value.text
                        if text[:1] in "([{" and text.count('"') + text.count("'") >= 4 and "," in text:
                            self._table(path, definition.value.parse())
            for path in sorted(self.project.names.modules.files):
                self._impl_calls(path)
        return self._tables

    def _table(self, path: str, node: ast.expr) -> None:
        assert self._tables is not None
        for child in ast.walk(node):
            pair: tuple[ast.expr, ast.expr] | None = None
            if isinstance(child, ast.Tuple) and len(child.elts) in (2, 3):
                pair = child.elts[0], child.elts[1]
            if pair is None or not _is_operator(_text(pair[0])) or not chain_of(pair[1]):
                continue
            name = _text(pair[0]).removeprefix("aten::")
            evidence = Evidence(path, pair[0].lineno, f'("{name}", {chain_of(pair[1])})')
            for symbol in self.project.resolve(path, chain_of(pair[1])).symbols:
                self._tables.setdefault(symbol, []).append((name, evidence))

    def _impl_calls(self, path: str) -> None:
        """``lib.impl("softmax.int", softmax, "CUDA")`` at module level."""
        assert self._tables is not None
        for effect in self.project.names.table(path).facts.effects:
            if not any(chain.endswith(".impl") for chain, _ in effect.uses.refs):
                continue
            lines = self.project.file(path)[1]
            try:
                node = ast.parse(lines[effect.line - 1].strip(), mode="eval").body
            except (SyntaxError, IndexError, ValueError):
                continue
            if isinstance(node, ast.Call) and len(node.args) >= 2 and _is_operator(_text(node.args[0])):
                name = _text(node.args[0]).removeprefix("aten::")
                evidence = Evidence(path, effect.line, lines[effect.line - 1].strip())
                for symbol in self.project.resolve(path, chain_of(node.args[1])).symbols:
                    self._tables.setdefault(symbol, []).append((name, evidence))


def _is_operator(text: str) -> bool:
    name = text.removeprefix("aten::")
    return bool(name) and all(part.isidentifier() for part in name.split(".")) and name.count(".") <= 1


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(node: ast.expr) -> list[str]:
    parts = getattr(node, "elts", None) or [node]
    return [text for text in map(_text, parts) if text and text.isidentifier() and text != "unknown"]


def _empty(node: ast.expr) -> bool:
    return (
        (isinstance(node, (ast.Tuple, ast.List, ast.Set)) and not node.elts)
        or (isinstance(node, ast.Call) and not node.args)
        or (isinstance(node, ast.Dict) and not node.keys)
    )
