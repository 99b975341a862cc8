"""The tree as the tracer sees it: functions as ``ast``, names resolved, device functions read once."""

from __future__ import annotations

import ast
import warnings
from collections import deque
from collections.abc import Sequence

from kgate.lint.init.device import DeviceFacts, read_device
from kgate.source.facts import Definition
from kgate.source.index import Index
from kgate.source.names import Found
from kgate.source.text import UnreadableText, decode
from kgate.source.uses import EMPTY, Import, Uses

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Project:
    """One indexed tree, and the parts of it that have been parsed."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.names = index.names
        self.devices = {device.identity: device for device in index.device_functions}
        self._files: dict[str, tuple[dict[str, ast.AST], list[str]]] = {}
        self._device_facts: dict[str, DeviceFacts | None] = {}

    def file(self, path: str) -> tuple[dict[str, ast.AST], list[str]]:
        """Qualified name to function or class (the last definition), and the lines of a file."""
        known = self._files.get(path)
        if known is None:
            known = self._files[path] = self._parse(path)
        return known

    def _parse(self, path: str) -> tuple[dict[str, ast.AST], list[str]]:
        try:
            text = decode(self.index.store.tree.read(path))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (UnreadableText, SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
            return {}, []
        found: dict[str, ast.AST] = {}
        queue: deque[tuple[ast.AST, str]] = deque([(tree, "")])
        while queue:
            node, prefix = queue.popleft()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (*FUNCTION, ast.ClassDef)):
                    found[prefix + child.name] = child
                    if isinstance(child, ast.ClassDef):
                        queue.append((child, f"{prefix}{child.name}."))
                elif isinstance(child, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)):
                    queue.append((child, prefix))
        return found, text.splitlines()

    def function(self, symbol: str) -> ast.FunctionDef | None:
        """The function that a symbol names; None where it names something else."""
        path, _, name = symbol.partition("::")
        node = self.file(path)[0].get(name) if path in self.names.modules.files else None
        return node if isinstance(node, ast.FunctionDef) else None

    def definition(self, symbol: str) -> Definition | None:
        """The last definition of a symbol."""
        if symbol.endswith("::*"):
            return None
        found = self.names.definitions(symbol)
        return found[-1] if found else None

    def uses(self, symbol: str) -> Uses:
        """What the definition of a symbol uses."""
        definition = self.definition(symbol)
        return definition.uses if definition is not None else EMPTY

    def resolve(self, path: str, chain: str, imports: Sequence[Import] = (), owner: str = "") -> Found:
        """Where a chain leads, aliases (``name = other``) followed."""
        found = self.names.resolve(path, chain, imports, owner)
        for symbol in list(found.symbols):
            definition = self.definition(symbol)
            if definition is not None and definition.kind == "constant" and definition.alias:
                inner = self.names.resolve(symbol.partition("::")[0], definition.alias)
                if inner.symbols and symbol not in inner.symbols:
                    result = Found()
                    result.symbols.update(inner.symbols)
                    return result
        return found

    def device(self, symbols: Sequence[str]) -> str:
        """The device function among some symbols, through wrappers such as ``kernel = autotune(...)(function)``."""
        seen: set[str] = set()
        queue = list(symbols)
        for symbol in queue:
            if symbol in self.devices:
                return symbol
            definition = self.definition(symbol)
            if symbol in seen or definition is None or definition.kind not in ("constant", "bound"):
                continue
            seen.add(symbol)
            for chain, _ in definition.uses.refs:
                queue.extend(self.names.resolve(symbol.partition("::")[0], chain).symbols)
        return ""

    def device_facts(self, symbol: str) -> DeviceFacts | None:
        """What a device function does with its parameters."""
        if symbol not in self._device_facts:
            self._device_facts[symbol] = None  # for one that calls itself
            node = self.function(symbol)
            if node is not None:
                path = symbol.partition("::")[0]

                def helper(chain: str) -> DeviceFacts | None:
                    inner = self.device(list(self.names.resolve(path, chain).symbols))
                    return self.device_facts(inner) if inner else None

                self._device_facts[symbol] = read_device(path, node, self.file(path)[1], helper)
        return self._device_facts[symbol]
