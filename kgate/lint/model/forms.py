"""Host values written in terms of the host function's parameters: ``x.shape[0]``, ``cdiv(x.shape[0], 128)``.

The grammar is a subset of Python's expressions. ``x`` is a parameter, ``x.shape[i]``, ``x.stride(i)``, ``x.numel()``,
``x.dim()``, ``x.dtype`` are its; ``contiguous(x)``, ``view(x)``, ``like(x)`` stand for a copy with standard strides, a
tensor of other shape over the same or copied elements, and a new tensor of the same shape and type.
``view(x, -1, n)`` is a view of a known shape, ``transposed(x, 0, 1)`` and ``permuted(x, 1, 0, 2)`` have their axes in
another order, ``new(m, n)`` is a new tensor with standard strides, ``filled(m, n)`` and ``filled(x.shape)`` one that is
given values, ``_`` an axis that is not known, and ``meta('BLOCK')`` a compile-time constant of the launch in its grid.
``cdiv``, ``next_power_of_2``, ``min``, ``max`` and the operators ``+ - * // % **`` combine integers. ``?`` is what is
not known; a name with ``$`` in front is a global.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kgate.lint.model.flow import Binding
from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.model.host import Host

UNKNOWN = "?"
_LIMIT = 240
_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Div: "/",
}
_COPIES = {"contiguous", "clone"}
_VIEWS = {
    "view",
    "reshape",
    "flatten",
    "transpose",
    "permute",
    "expand",
    "squeeze",
    "unsqueeze",
    "t",
    "view_as",
    "unflatten",
}
_SAME = {"to", "detach", "float", "half", "cuda", "requires_grad_", "bfloat16"}
_LIKE = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "new_empty_like"}
_SIZES = {"cdiv": "cdiv", "ceil_div": "cdiv", "ceildiv": "cdiv", "next_power_of_2": "next_power_of_2"}
"""Functions that mean the same whichever module they are from."""
_NEW = {"empty", "zeros", "ones", "full", "new_empty", "new_zeros", "empty_strided"}


class Forms:
    """Forms of the values of one host function."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._known: dict[ast.expr, str] = {}

    def of(self, node: ast.expr) -> str:
        """The form of a value."""
        known = self._known.get(node)
        if known is None:
            self._known[node] = UNKNOWN
            known = self._form(node)
            if len(known) > _LIMIT:
                known = UNKNOWN
            self._known[node] = known
        return known

    def grid(self, node: ast.expr) -> tuple[str, ...]:
        """The form of each axis of a grid; empty where it cannot be read."""
        for _ in range(5):
            if isinstance(node, ast.Name):
                found = self.host.reached.get(node, ())
                if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None:
                    node = found[0].value
                    continue
                if len(found) == 1 and isinstance(found[0].statement, ast.FunctionDef):
                    inner = [item for item in ast.walk(found[0].statement) if isinstance(item, ast.Return)]
                    if len(inner) == 1 and inner[0].value is not None:
                        node = inner[0].value
                        continue
            elif isinstance(node, ast.Lambda):
                node = node.body
                continue
            break
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.of(item) for item in node.elts)
        return ()

    def _form(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return repr(node.value) if isinstance(node.value, (int, float, str, bool, type(None))) else UNKNOWN
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.of(node.left), self.of(node.right)
            if UNKNOWN in (left, right):
                return UNKNOWN
            return f"({left} {_OPERATORS[type(node.op)]} {right})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.of(node.operand)
            return UNKNOWN if inner == UNKNOWN else f"(-{inner})"
        if isinstance(node, ast.Attribute):
            if node.attr in ("shape", "dtype", "device", "ndim", "is_cuda"):
                base = self.of(node.value)
                return UNKNOWN if base == UNKNOWN else f"{base}.{node.attr}"
            if node.attr in ("T", "data", "mT"):
                base = self.of(node.value)
                if base == UNKNOWN or node.attr == "data":
                    return base
                return f"transposed({base}, {'0, 1' if node.attr == 'T' else '-2, -1'})"
            return UNKNOWN
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp):
            one, other = self.of(node.body), self.of(node.orelse)
            return one if one == other else UNKNOWN
        return UNKNOWN

    def _name(self, node: ast.Name) -> str:
        reached = self.host.reached.get(node)
        if not reached:
            return self._global(node.id) if node.id not in self.host.bindings else UNKNOWN
        forms = {self._binding(binding) for binding in reached}
        return next(iter(forms)) if len(forms) == 1 else self._joined(forms)

    def _global(self, name: str) -> str:
        values = self.host.module.constants.get(name, ())
        number = integer(values[0]) if len(values) == 1 and values[0] is not None else None
        return f"${name}" if number is None else str(number)

    def _joined(self, forms: set[str]) -> str:
        """``x`` and ``contiguous(x)`` are one tensor, sometimes copied."""
        bases = {
            form.removeprefix("contiguous(").removesuffix(")") if form.startswith("contiguous(") else form
            for form in forms
        }
        return next(iter(bases)) if len(bases) == 1 and UNKNOWN not in bases else UNKNOWN

    def _binding(self, binding: Binding) -> str:
        if binding.kind == "parameter":
            return binding.name
        if binding.kind == "assign" and binding.value is not None:
            return self.of(binding.value)
        if binding.kind == "unpack" and binding.value is not None and binding.index is not None:
            if isinstance(binding.value, (ast.Tuple, ast.List)):
                return self._element(binding)
            whole = self._sliced(binding)
            if whole:
                return whole
            whole = self.of(binding.value)
            if whole.endswith((".shape", ".stride()")):
                return f"{whole[:-2]}({binding.index})" if whole.endswith("()") else f"{whole}[{binding.index}]"
        return UNKNOWN

    def _element(self, binding: Binding) -> str:
        """One name of ``a, b, c = *x.shape, n``."""
        elements = binding.value.elts  # type: ignore[union-attr]
        position = binding.index or 0
        targets = next(
            (t.elts for t in getattr(binding.statement, "targets", ()) if isinstance(t, (ast.Tuple, ast.List))), []
        )
        stars = [at for at, item in enumerate(elements) if isinstance(item, ast.Starred)]
        if len(stars) != 1 or not targets:
            return UNKNOWN
        spread = len(targets) - len(elements) + 1
        if position < stars[0]:
            return self.of(elements[position])
        if position >= stars[0] + spread:
            return self.of(elements[position - spread + 1])
        whole = self.of(elements[stars[0]].value)
        if not whole.endswith((".shape", ".stride()")):
            return UNKNOWN
        at = position - stars[0]
        return f"{whole[:-2]}({at})" if whole.endswith("()") else f"{whole}[{at}]"

    def _sliced(self, binding: Binding) -> str:
        """One name of ``a, b = x.shape[-2:]``; empty for anything else."""
        value = binding.value
        if not (isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and value.slice.step is None):
            return ""
        whole = self.of(value.value)
        if not whole.endswith((".shape", ".stride()")):
            return ""
        start = 0 if value.slice.lower is None else integer(value.slice.lower)
        if start is None:
            return ""
        at = start + (binding.index or 0)
        return f"{whole[:-2]}({at})" if whole.endswith("()") else f"{whole}[{at}]"

    def _subscript(self, node: ast.Subscript) -> str:
        base = self.of(node.value)
        if base == UNKNOWN:
            return UNKNOWN
        index = node.slice
        if (
            base.startswith("$")
            and base[1:].isidentifier()
            and isinstance(index, ast.Constant)
            and isinstance(index.value, str)
        ):
            return f"meta({index.value!r})"
        if (
            isinstance(index, ast.UnaryOp)
            and isinstance(index.op, ast.USub)
            and isinstance(index.operand, ast.Constant)
        ):
            position = f"-{index.operand.value!r}"
        elif isinstance(index, ast.Constant) and isinstance(index.value, int):
            position = str(index.value)
        else:
            return f"view({base})" if not base.endswith((".shape", ".stride()")) else UNKNOWN
        if base.endswith(".shape"):
            return f"{base}[{position}]"
        if base.endswith(".stride()"):
            return f"{base[:-2]}({position})"
        return f"view({base})"

    def _call(self, node: ast.Call) -> str:
        function = node.func
        dotted = self.host.module.dotted(function)
        last = dotted.rpartition(".")[2]
        if isinstance(function, ast.Attribute) and (not dotted or dotted.partition(".")[0] in self.host.bindings):
            return self._method(function, node)
        if last in _SIZES and not node.keywords and node.args:
            arguments = [self.of(item) for item in node.args]
            return UNKNOWN if UNKNOWN in arguments else f"{_SIZES[last]}({', '.join(arguments)})"
        if dotted.startswith("triton.") or not dotted.count("."):
            if last in ("cdiv", "next_power_of_2", "min", "max", "int") and not node.keywords:
                arguments = [self.of(item) for item in node.args]
                if UNKNOWN in arguments:
                    return UNKNOWN
                return arguments[0] if last == "int" and len(arguments) == 1 else f"{last}({', '.join(arguments)})"
            if last == "len" and len(node.args) == 1:
                base = self.of(node.args[0])
                return UNKNOWN if base == UNKNOWN else f"len({base})"
        if last in _NEW and node.args and dotted.startswith("torch."):
            return self._new(node.args[:1] if last == "full" else node.args, "empty" in last)
        if last in _LIKE and node.args:
            base = self.of(node.args[0])
            if base == UNKNOWN:
                return UNKNOWN
            return f"like({base})" if "empty" in last else f"filled({base}.shape)"
        return UNKNOWN

    def _method(self, function: ast.Attribute, node: ast.Call) -> str:
        base = self.of(function.value)
        name = function.attr
        if base == UNKNOWN:
            return UNKNOWN
        arguments = [self.of(item) for item in node.args]
        if name in ("stride", "size"):
            whole = f"{base}.stride()" if name == "stride" else f"{base}.shape"
            if not arguments:
                return whole
            if len(arguments) == 1 and arguments[0].lstrip("(-").rstrip(")").isdecimal():
                position = arguments[0].strip("()")
                return f"{base}.stride({position})" if name == "stride" else f"{base}.shape[{position}]"
            return UNKNOWN
        if name in ("numel", "dim", "element_size") and not arguments:
            return f"{base}.{name}()"
        if name in _COPIES:
            return base if base.startswith("contiguous(") else f"contiguous({base})"
        if name in ("view", "reshape") and node.args:
            axes = self._axes(node.args)
            return f"view({base}, {', '.join(axes)})" if axes and "_" not in axes else f"view({base})"
        if name in _VIEWS:
            order = [str(at) for item in node.args if (at := _position(item)) is not None]
            if name == "t" or (name == "transpose" and len(order) == 2):
                return f"transposed({base}, {', '.join(order) or '0, 1'})"
            if name == "permute" and order and len(order) == len(node.args):
                return f"permuted({base}, {', '.join(order)})"
            return f"view({base})"
        if name in ("new_empty", "new_zeros", "new_ones", "new_full") and node.args:
            return self._new(node.args[:1] if name == "new_full" else node.args, name == "new_empty")
        if name in _SAME:
            return base
        return UNKNOWN

    def _axes(self, nodes: list[ast.expr]) -> list[str]:
        """Sizes given one by one or as one tuple, ``_`` for one that is not known; empty where their number is not."""
        if len(nodes) == 1:
            only = nodes[0]
            if isinstance(only, ast.Name):
                found = self.host.reached.get(only, ())
                if len(found) == 1 and found[0].kind == "assign" and isinstance(found[0].value, (ast.Tuple, ast.List)):
                    only = found[0].value
            if isinstance(only, (ast.Tuple, ast.List)):
                nodes = only.elts
        if any(isinstance(item, ast.Starred) for item in nodes):
            return []
        return ["_" if form == UNKNOWN else form for form in map(self.of, nodes)]

    def _new(self, nodes: list[ast.expr], empty: bool) -> str:
        axes = self._axes(nodes)
        if len(axes) == 1 and axes[0] == "_":
            return UNKNOWN  # one size, or a whole shape
        return f"{'new' if empty else 'filled'}({', '.join(axes)})" if axes else UNKNOWN


def _position(node: ast.expr) -> int | None:
    """The number of an axis, which may be negative."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = integer(node.operand)
        return None if inner is None else -inner
    return integer(node)
