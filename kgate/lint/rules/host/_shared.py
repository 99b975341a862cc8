"""What host functions do for their tensors: the device they set, the layout they ensure, what they write to."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgate.lint.linking import HostKey, LinkedDevice, Project
    from kgate.lint.model.host import Host
    from kgate.lint.records import DeviceSummary

GUARDS = frozenset({"input_guard", "device_guard", "tensor_guard", "with_device", "on_device_of"})
"""Decorators, by their last name, that set the device of the arguments."""
CONTIGUOUS = frozenset({"ensure_contiguous", "input_guard", "contiguous", "tensor_guard", "make_contiguous"})
"""Decorators, by their last name, that make the arguments contiguous."""
_GUARD = re.compile(r"device|guard", re.IGNORECASE)
_ASIDE = re.compile(r"(^|/)(tests?|testing|benchmarks?|examples?|scripts?|tools|profiling|tutorials?)(/|$)")
_ASIDE_FILE = re.compile(r"(^|/)(test_|bench)[^/]*$|_test\.py$|(bench|benchmark)\.py$|(^|/)conftest\.py$")
_ROOT = re.compile(r"^(?:contiguous\(|view\()*([A-Za-z_]\w*)")
_PLAIN_ROOT = re.compile(r"^(?:view\()*([A-Za-z_]\w*)(?=[,)]|$)")
_CONVERSIONS = frozenset({"to", "float", "half", "bfloat16", "double", "cuda", "type", "reshape", "flatten"})
_DEPTH = 4


def is_aside(path: str) -> bool:
    """Whether a file is a test, a benchmark or an example."""
    return bool(_ASIDE.search(path) or _ASIDE_FILE.search(path))


def last(dotted: str) -> str:
    """The last name of a chain."""
    return dotted.rpartition(".")[2]


def root_of(form: str) -> str:
    """The name that a tensor is, or is a view or a copy of; empty for anything else."""
    found = _ROOT.match(form)
    if found is None or "." in form.partition(",")[0]:
        return ""
    name = found.group(1)
    return "" if name in ("new", "filled", "like", "cdiv", "min", "max", "next_power_of_2") else name


def same_memory(form: str) -> str:
    """The name that a tensor is, or is a view of; empty for a copy and anything else."""
    found = _PLAIN_ROOT.match(form)
    return found.group(1) if found is not None and "." not in form.partition(",")[0] else ""


def has_guard(host: Host) -> bool:
    """Whether a host function sets the device, by a decorator, a context or a call."""
    known = GUARDS | host.module.guard_decorators
    if any(last(name) in known for name in host.decorators):
        return True
    for statement in host.statements:
        if isinstance(statement, ast.With) and any(_sets_device(host, item.context_expr) for item in statement.items):
            return True
    if "set_device" not in host.module.text:
        return False
    return any(last(dotted) in ("set_device", "_set_device") for _, dotted in host.calls)


def _sets_device(host: Host, node: ast.expr) -> bool:
    node = host.value_of(node)
    if isinstance(node, ast.IfExp):
        return _sets_device(host, node.body) or _sets_device(host, node.orelse)
    if not isinstance(node, ast.Call):
        return isinstance(node, (ast.Name, ast.Attribute)) and bool(_GUARD.search(host.module.dotted(node)))
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return bool(_GUARD.search(name))


def makes_contiguous(host: Host) -> bool:
    """Whether a decorator makes the arguments contiguous."""
    known = CONTIGUOUS | host.module.contiguous_decorators
    return any(last(name) in known or "contiguous" in last(name) for name in host.decorators)


def looked_at(host: Host) -> list[str]:
    """Parameters that are made contiguous, or whose layout is looked at."""
    found: dict[str, None] = {}
    for node, dotted in host.calls:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        if isinstance(function, ast.Attribute) and (
            name in ("contiguous", "is_contiguous") or (name == "stride" and _is_tested(host, node))
        ):
            found[root_of(host.forms.of(function.value)) or _name(function.value)] = None
        elif "contiguous" in last(dotted):
            found.update(dict.fromkeys(root_of(host.forms.of(item)) or _name(item) for item in node.args))
    found.pop("", None)
    return list(found)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_tested(host: Host, node: ast.AST) -> bool:
    for outer in host.ancestors(node):
        if isinstance(outer, (ast.Compare, ast.Assert, ast.If, ast.BoolOp)):
            return True
        if isinstance(outer, ast.stmt):
            return False
    return False


# Written parameters


def written(project: Project, device: LinkedDevice) -> frozenset[str]:
    """Pointer parameters that a device function stores to or updates, by itself or through others that it calls."""
    known: dict[str, frozenset[str]] = project.memory.setdefault("_written_by_device", {})
    if device.identity not in known:
        known[device.identity] = frozenset()  # for one that calls itself
        found = {*device.summary.stores, *device.summary.atomics}
        for name, handed in device.summary.calls:
            for symbol in project.index.names.resolve(device.path, name).symbols:
                inner = project.devices.get(symbol)
                if inner is not None:
                    stored = written(project, inner)
                    found |= {own for given, own in handed if _parameter(inner.summary, given) in stored}
        known[device.identity] = frozenset(found)
    return known[device.identity]


def _parameter(summary: DeviceSummary, given: str) -> str:
    if not given.isdecimal():
        return given
    return summary.parameters[int(given)].name if int(given) < len(summary.parameters) else ""


def writes(
    project: Project, key: HostKey, notes_of: dict[HostKey, dict[str, Any]], depth: int = _DEPTH
) -> dict[str, str]:
    """Parameters of a host function that it writes in place, each with the name of what does it.

    ``notes_of`` gives under ``inplace`` what a function does itself, as torch methods, and under ``converted`` the
    parameters that may have been copied before they are written to.
    """
    host = project.hosts.get(key)
    own = notes_of.get(key, {})
    parameters = {item.name for item in host.parameters} if host is not None else set()
    parameters -= set(own.get("converted", ()))
    found: dict[str, str] = dict(own.get("inplace", {}))
    for device, launch in project.launches_by.get(key, ()):
        stored = written(project, device)
        for parameter, argument in launch.arguments.items():
            name = same_memory(argument.form)
            if parameter in stored and name in parameters:
                found.setdefault(name, device.summary.name)
    if depth:
        for callee, forms in project.calls_of(key):
            if callee == key:
                continue
            inner = writes(project, callee, notes_of, depth - 1)
            for parameter, by in inner.items():
                name = same_memory(forms.get(parameter, "?"))
                if name in parameters:
                    found.setdefault(name, by)
    return found


def inplace(host: Host) -> dict[str, str]:
    """Parameters that a host function changes by torch methods and assignments (``x.copy_(...)``, ``x[i] = ...``)."""
    found: dict[str, str] = {}
    for node in host.call_nodes:
        function = node.func
        if isinstance(function, ast.Attribute) and _changes(function.attr):
            name = same_memory(host.forms.of(function.value))
            if name in host.parameters:
                found.setdefault(name, f"{function.attr}()")
    for statement in host.statements:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign):
            targets = [statement.target]
        for target in targets:
            if isinstance(target, ast.Subscript):
                name = same_memory(host.forms.of(target.value))
                annotation = host.parameters[name].annotation if name in host.parameters else None
                if annotation is not None and "Tensor" in ast.unparse(annotation):
                    found.setdefault(name, "an assignment")
    return found


def _changes(method: str) -> bool:
    """Whether a method of a tensor changes its elements, as its name says."""
    return method.endswith("_") and not method.startswith("_") and method not in ("requires_grad_", "share_memory_")


def converted(host: Host) -> list[str]:
    """Parameters of which a copy of another type or on another device may be made."""
    found: dict[str, None] = {}
    for node in host.call_nodes:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _CONVERSIONS:
            name = same_memory(host.forms.of(function.value))
            if name in host.parameters:
                found[name] = None
    return list(found)
