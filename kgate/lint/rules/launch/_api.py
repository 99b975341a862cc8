"""Uses of Triton's API that some version lacks or deprecates, found in one file and judged with the supported range."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgate.lint.model import triton_api as api
from kgate.lint.rules.launch._shared import in_static_branch

if TYPE_CHECKING:
    from kgate.lint.model.calls import Call
    from kgate.lint.model.device import Device
    from kgate.lint.model.module import Module

_LANGUAGE = "triton.language."
_VERSION_CHECKS = (
    "triton.__version__",
    "hasattr(tl",
    "hasattr(triton",
    "getattr(tl",
    'version("triton")',
    "version('triton')",
)
_VERSION_CALL = re.compile(r"version\w*\(\s*[\"']triton[\"']")

_TESTS = re.compile(r"version|experimental|hasattr|has_triton_|has_tl_|supports?_|_support", re.IGNORECASE)


@dataclass(frozen=True)
class Use:
    """One use of something that came, is deprecated or went."""

    node: ast.AST
    name: str
    """As one writes it: ``tl.make_block_ptr``, ``the argument boundary_check of tl.load``."""
    change: api.Change
    device: Device | None = None


def grouped(uses: Iterator[Use]) -> list[list[Use]]:
    """Uses by what changed, in source order."""
    groups: dict[api.Change, list[Use]] = {}
    for use in uses:
        groups.setdefault(use.change, []).append(use)
    return [
        sorted(group, key=lambda use: (use.node.lineno, use.node.col_offset))  # type: ignore[attr-defined]
        for group in groups.values()
    ]


def removed(module: Module) -> Iterator[Use]:
    """Functions, modules and arguments that are gone from some version."""
    if _asks_version(module):
        return
    for device in _always(module):
        yield from _called(device, _REMOVED_NAMES, api.REMOVED)
        yield from _given(device, api.REMOVED_ARGUMENTS)
        for call in _at(device, api.MOVED_FROM_MATH):
            dotted = module.dotted(call.node.func)
            if dotted.startswith((_LANGUAGE + "math.", _LANGUAGE + "libdevice.")):
                yield Use(call.node, f"tl.math.{call.name}", api.MOVED, device)
    yield from _host_arguments(module, "Config", api.REMOVED_ARGUMENTS)
    yield from _modules(module)


def deprecated(module: Module) -> Iterator[Use]:
    """Functions and arguments that warn."""
    if _asks_version(module):
        return
    for device in _always(module):
        for use in _called(device, _DEPRECATED_NAMES, api.DEPRECATED):
            yield use
        for use in _given(device, api.DEPRECATED_ARGUMENTS):
            if "can_reorder" not in use.name or _is_true(use.node, "can_reorder"):
                yield use
    yield from _host_arguments(module, "autotune", api.DEPRECATED_ARGUMENTS)


def added(module: Module) -> Iterator[Use]:
    """Functions and arguments that older versions lack."""
    if _asks_version(module):
        return
    for device in _always(module):
        yield from _called(device, _ADDED_NAMES, api.ADDED)
        yield from _given(device, api.ADDED_ARGUMENTS)


def _always(module: Module) -> list[Device]:
    """Device functions that are not defined under a test of what Triton has: ``if has_experimental_tma():``."""
    known: list[Device] | None = module.memory.get("always")
    if known is not None:
        return known
    gated: set[ast.AST] = set()
    for statement in module.tree.body:
        for node in ast.walk(statement) if isinstance(statement, ast.If) else ():
            if isinstance(node, ast.If) and _TESTS.search(ast.unparse(node.test)):
                gated.update(ast.walk(node))
    found = module.memory["always"] = [device for device in module.devices if device.node not in gated]
    return found


def _last_names(table: dict[str, api.Change]) -> dict[str, str]:
    return {dotted.rpartition(".")[2]: dotted for dotted in table}


_REMOVED_NAMES = _last_names(api.REMOVED)
_DEPRECATED_NAMES = _last_names(api.DEPRECATED)
_ADDED_NAMES = _last_names(api.ADDED)


def _asks_version(module: Module) -> bool:
    """Whether a file looks which Triton it has."""
    return any(text in module.text for text in _VERSION_CHECKS) or bool(_VERSION_CALL.search(module.text))


def _at(device: Device, names: frozenset[str] | dict[str, str]) -> Iterator[Call]:
    for name in device.calls:
        if name in names:
            for call in device.calls[name]:
                if not in_static_branch(device, call.node):
                    yield call


def _called(device: Device, names: dict[str, str], table: dict[str, api.Change]) -> Iterator[Use]:
    for call in _at(device, names):
        if not call.method and device.module.dotted(call.node.func) == names[call.name]:
            yield Use(call.node, f"tl.{call.name}", table[names[call.name]], device)


def _given(device: Device, table: dict[tuple[str, str], api.Change]) -> Iterator[Use]:
    for (function, argument), change in table.items():
        for call in device.calls.get(function, ()):
            for keyword in call.node.keywords:
                if keyword.arg == argument and _language(device, call) and not in_static_branch(device, call.node):
                    yield Use(call.node, f"{argument}= of tl.{function}", change, device)


def _language(device: Device, call: Call) -> bool:
    return call.method or device.module.dotted(call.node.func).startswith(_LANGUAGE)


def _is_true(node: ast.AST, argument: str) -> bool:
    assert isinstance(node, ast.Call)
    for keyword in node.keywords:
        if keyword.arg == argument:
            return isinstance(keyword.value, ast.Constant) and keyword.value.value is True
    return False


def _host_arguments(module: Module, function: str, table: dict[tuple[str, str], api.Change]) -> Iterator[Use]:
    names = {argument: change for (owner, argument), change in table.items() if owner == function}
    if not any(f"{argument}=" in module.text for argument in names):
        return
    for node in module.nodes(ast.Call):
        dotted = module.dotted(node.func)
        if dotted.startswith("triton.") and dotted.rpartition(".")[2] == function:
            for keyword in node.keywords:
                if keyword.arg in names and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is None
                ):
                    yield Use(keyword.value, f"{keyword.arg}= of triton.{function}", names[keyword.arg])


def _modules(module: Module) -> Iterator[Use]:
    """Imports of modules that are gone, outside ``try``."""
    gone = [name for name in api.REMOVED_MODULES if any(_below(origin, name) for origin in module.imports.values())]
    if not gone:
        return
    for statement in module.tree.body:
        found = []
        if isinstance(statement, ast.Import):
            found = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            found = [f"{statement.module}.{alias.name}" for alias in statement.names]
        for name in gone:
            if any(_below(origin, name) for origin in found):
                yield Use(statement, name, api.REMOVED_MODULES[name])


def _below(origin: str, name: str) -> bool:
    return origin == name or origin.startswith(name + ".")
