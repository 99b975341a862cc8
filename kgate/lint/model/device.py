"""A device function as rules see it: parameters, decorators, Triton calls, and what is known of its values."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from kgate.lint.model.calls import ATOMICS, METHODS, REDUCTIONS, Call
from kgate.lint.model.flow import Binding, Function
from kgate.lint.records import Autotune, DeviceSummary, Parameter
from kgate.source.uses import integer

if TYPE_CHECKING:
    from kgate.lint.model.module import FunctionNode, Module
    from kgate.lint.model.tiles import Tiles

POINTER_NAME = re.compile(r"(^|_)(ptrs?|pointers?)(_|\d|$)|Ptr|^[A-Z][A-Za-z]{0,2}$")
INT64 = frozenset({"int64", "uint64"})
FLOATS = ("float8e4nv", "float8e5", "float16", "bfloat16", "float32", "float64")
INTEGERS = ("int1", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SAME_TYPE = frozenset(
    {
        "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "maximum", "minimum", "sum", "max", "min", "cumsum",
        "trans", "reshape", "view", "broadcast_to", "expand_dims", "sigmoid", "softmax", "fma", "where", "floor",
        "ceil", "sin", "cos", "erf", "tanh", "flip", "sort", "permute", "ravel", "clamp", "div_rn", "fdiv", "pow",
    }
)  # fmt: skip
_AUTOTUNERS = ("autotune", "libtuner", "cache_autotune", "autotune_with")


class Decorator:
    """One decorator of a device function."""

    __slots__ = ("call", "dotted", "name", "node")

    def __init__(self, node: ast.expr, dotted: str) -> None:
        self.node = node
        self.dotted = dotted
        self.name = dotted.rpartition(".")[2]
        self.call = node if isinstance(node, ast.Call) else None

    def argument(self, name: str, position: int = -1) -> ast.expr | None:
        """An argument of the decorator's call."""
        if self.call is None:
            return None
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        return self.call.args[position] if 0 <= position < len(self.call.args) else None


class Device(Function):
    """One device function."""

    def __init__(self, module: Module, node: FunctionNode, name: str) -> None:
        self.module = module
        self.name = name
        """Qualified name."""
        super().__init__(node)
        self.calls: dict[str, list[Call]] = {}
        """Calls of Triton's language by the function's name, in source order; others under ``""``."""
        self.call_of: dict[ast.Call, Call] = {}
        for call_node in self.call_nodes:
            call = self._classify(call_node)
            self.call_of[call_node] = call
            self.calls.setdefault(call.name, []).append(call)
        for calls in self.calls.values():
            calls.sort(key=lambda call: (call.node.lineno, call.node.col_offset))
        self._pointers: dict[ast.expr, frozenset[str]] = {}
        self._sources: dict[ast.expr, frozenset[str]] = {}
        self._types: dict[ast.expr, str] = {}

    def _classify(self, node: ast.Call) -> Call:
        function = node.func
        dotted = self.module.dotted(function)
        if dotted:
            last = dotted.rpartition(".")[2]
            if dotted.startswith("triton."):
                return Call(node, last, False)
            if last in ("program_id", "num_programs"):
                return Call(node, last, False)
            if "libdevice" in dotted or "tl_extra_shim" in dotted:
                return Call(node, last, False)
        if isinstance(function, ast.Attribute):
            attr = function.attr
            root = function.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if not (isinstance(root, ast.Name) and root.id in self.module.imports and root.id not in self.bindings):
                if attr in METHODS or attr in ATOMICS:
                    return Call(node, attr, True)
                if attr in ("load", "store", "gather", "scatter"):
                    return Call(node, f"descriptor_{attr}", True)
        elif isinstance(function, ast.Name) and function.id in _BUILTIN_CALLS and function.id not in self.bindings:
            return Call(node, _BUILTIN_CALLS[function.id], False)
        return Call(node, "", False)

    def called(self, *names: str) -> list[Call]:
        """The calls of some functions of the language, in source order."""
        if len(names) == 1:
            return self.calls.get(names[0], [])
        found = [call for name in names for call in self.calls.get(name, ())]
        return sorted(found, key=lambda call: (call.node.lineno, call.node.col_offset))

    @cached_property
    def accesses(self) -> list[Call]:
        """Loads, stores and atomics through pointers, in source order."""
        return self.called("load", "store", *sorted(ATOMICS))

    # Parameters and decorators

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters by name, in order."""
        arguments = self.node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        found = {}
        for argument, default in pairs:
            annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
            found[argument.arg] = Parameter(
                argument.arg,
                "constexpr" in annotation,
                annotation,
                ast.unparse(default) if default is not None else None,
            )
        return found

    @cached_property
    def constexprs(self) -> frozenset[str]:
        """Parameters that are compile-time constants: annotated, or set by autotune or heuristics."""
        return frozenset(name for name, item in self.parameters.items() if item.constexpr)

    @cached_property
    def decorators(self) -> list[Decorator]:
        """Decorators, outermost first."""
        return [
            Decorator(node, self.module.dotted(node.func if isinstance(node, ast.Call) else node))
            for node in self.node.decorator_list
        ]

    @cached_property
    def tuner(self) -> Decorator | None:
        """``@triton.autotune`` or its like."""
        for decorator in self.decorators:
            if decorator.call is not None and decorator.name.endswith(_AUTOTUNERS):
                return decorator
        return None

    @cached_property
    def autotune(self) -> Autotune | None:
        """What the autotuner is told, as far as it can be read."""
        tuner = self.tuner
        if tuner is None:
            return None
        configs = tuner.argument("configs", 0)
        names, values = self._configurations(configs)
        return Autotune(
            self.module.place(tuner.node),
            self.strings(tuner.argument("key", 1)),
            names,
            values,
            self.strings(tuner.argument("reset_to_zero")) or (),
            self.strings(tuner.argument("restore_value")) or (),
        )

    def _configurations(self, configs: ast.expr | None) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
        """Names and integers in ``triton.Config({...})`` below an expression, names of the module followed once."""
        values: dict[str, dict[int, None]] = {}
        roots: list[ast.AST] = [configs] if configs is not None else []
        seen: set[str] = set()
        while roots:
            for node in ast.walk(roots.pop()):
                if isinstance(node, ast.Call) and self.module.dotted(node.func).rpartition(".")[2] == "Config":
                    table = node.args[0] if node.args else None
                    for keyword in node.keywords:
                        if keyword.arg == "kwargs":
                            table = keyword.value
                        elif keyword.arg in ("num_warps", "num_stages", "num_ctas"):
                            number = integer(keyword.value)
                            values.setdefault(keyword.arg, {}).update({number: None} if number is not None else {})
                    if isinstance(table, ast.Dict):
                        for key, value in zip(table.keys, table.values, strict=True):
                            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                                number = integer(value)
                                values.setdefault(key.value, {}).update({number: None} if number is not None else {})
                elif isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    roots += [value for value in self.module.constants.get(node.id, ()) if value is not None]
                    function = self.module.functions.get(node.id)
                    if function is not None:
                        roots += function.body
        return tuple(values), {name: tuple(numbers) for name, numbers in values.items() if numbers}

    def strings(self, node: ast.expr | None) -> tuple[str, ...] | None:
        """The strings of a list, a module's list followed; None where they cannot be read."""
        if node is None:
            return ()
        if isinstance(node, ast.Name):
            known = self.module.constants.get(node.id, [])
            node = known[0] if len(known) == 1 and known[0] is not None else node
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            found = tuple(
                item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )
            return found if len(found) == len(node.elts) else None
        return None

    @cached_property
    def heuristics(self) -> tuple[str, ...]:
        """Parameters that ``@triton.heuristics`` sets."""
        found: list[str] = []
        for decorator in self.decorators:
            if decorator.name == "heuristics":
                table = decorator.argument("values", 0)
                if isinstance(table, ast.Name):
                    known = self.module.constants.get(table.id, [])
                    table = known[0] if len(known) == 1 else None
                if isinstance(table, ast.Dict):
                    found += [
                        key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                    ]
        return tuple(found)

    # Values

    @cached_property
    def tiles(self) -> Tiles:
        """Axes of its tiles, masks and equal values."""
        from kgate.lint.model.tiles import Tiles

        return Tiles(self)

    def pointers(self, node: ast.expr) -> frozenset[str]:
        """Parameters that an address may be based on: the leftmost one of a sum that looks like a pointer."""
        known = self._pointers.get(node)
        if known is None:
            self._pointers[node] = frozenset()
            known = self._pointers[node] = self._pointers_of(node)
        return known

    def _pointers_of(self, node: ast.expr) -> frozenset[str]:
        if isinstance(node, ast.Name):
            found: set[str] = set()
            for binding in self.origins_of(node)[0]:
                if binding.kind == "parameter":
                    if binding.name not in self.constexprs:
                        found.add(binding.name)
                elif binding.kind == "assign" and binding.value is not None:
                    found |= self.pointers(binding.value)
            return frozenset(found)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self.pointers(node.left), self.pointers(node.right)
            if right and isinstance(node.op, ast.Add):
                if not left:
                    return right
                if any(map(POINTER_NAME.search, right)) and not any(map(POINTER_NAME.search, left)):
                    return right
            return left
        if isinstance(node, ast.Call):
            call = self.call_of.get(node)
            if call is None:
                return frozenset()
            if call.name == "where":
                parts = [call.argument("x"), call.argument("y")]
            elif call.name in ("to", "cast", "multiple_of", "max_contiguous", "advance", "broadcast_to", "expand_dims"):
                parts = [call.first]
            elif call.name in ("make_block_ptr", "make_tensor_descriptor"):
                parts = [call.argument("base")]
            else:
                parts = []
            return frozenset().union(*(self.pointers(part) for part in parts if part is not None))
        if isinstance(node, ast.IfExp):
            return self.pointers(node.body) | self.pointers(node.orelse)
        if isinstance(node, ast.Subscript):
            return self.pointers(node.value)
        return frozenset()

    def sources(self, node: ast.expr) -> frozenset[str]:
        """What a value is made from: ``param:x``, ``constexpr:B``, ``pid``, ``arange``, ``load:x`` (loaded through
        pointer ``x``), ``loop`` (a loop's variable), ``global:N``, ``call:f``."""
        known = self._sources.get(node)
        if known is None:
            self._sources[node] = frozenset()
            known = self._sources[node] = self._sources_of(node)
        return known

    def _sources_of(self, node: ast.AST) -> frozenset[str]:
        if isinstance(node, ast.Name):
            if not self.reached.get(node):
                return frozenset({f"global:{node.id}"}) if node.id not in self.bindings else frozenset()
            plain, augmented = self.origins_of(node)
            return frozenset().union(
                *map(self._sources_of_binding, plain),
                *(self.sources(item.value) for item in augmented if item.value is not None),
            )
        if isinstance(node, ast.Constant):
            return frozenset()
        if isinstance(node, ast.Call):
            call = self.call_of.get(node)
            name = call.name if call is not None else ""
            if name == "program_id":
                return frozenset({"pid"})
            if name in ("load", "descriptor_load"):
                base = call.first if call is not None else None
                return (
                    frozenset(f"load:{pointer}" for pointer in self.pointers(base)) if base is not None else frozenset()
                )
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
            if call is not None and call.method:
                parts.append(node.func.value)  # type: ignore[attr-defined]
            found = frozenset().union(*(self.sources(part) for part in parts))
            if name == "arange":
                return found | {"arange"}
            return found | {f"call:{ast.unparse(node.func)}"} if not name else found
        found = frozenset()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                found |= self.sources(child)
        return found

    def _sources_of_binding(self, binding: Binding) -> frozenset[str]:
        if binding.kind == "parameter":
            return frozenset({f"{'constexpr' if binding.name in self.constexprs else 'param'}:{binding.name}"})
        found = self.sources(binding.value) if binding.value is not None else frozenset()
        return found | {"loop"} if binding.kind == "loop" else found

    def type_of(self, node: ast.expr) -> str:
        """The element type of a value: a name of Triton's (``float32``, ``int64``), ``elem:x`` for what pointer ``x``
        points to, ``param:n`` for a scalar parameter's, ``number`` for a literal; empty where it is not known."""
        known = self._types.get(node)
        if known is None:
            self._types[node] = ""
            known = self._types[node] = self._type_of(node)
        return known

    def _type_of(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return "int1" if isinstance(node.value, bool) else "number" if isinstance(node.value, (int, float)) else ""
        if isinstance(node, ast.Name):
            plain, augmented = self.origins_of(node)
            types = {self._type_of_binding(binding) for binding in plain}
            result = next(iter(types)) if len(types) == 1 else self._joined(types)
            for binding in augmented:
                result = promote(result, self.type_of(binding.value)) if binding.value is not None else ""
            return result
        if isinstance(node, ast.UnaryOp):
            return "int1" if isinstance(node.op, ast.Not) else self.type_of(node.operand)
        if isinstance(node, (ast.Compare, ast.BoolOp)):
            return "int1"
        if isinstance(node, ast.BinOp):
            left, right = self.type_of(node.left), self.type_of(node.right)
            if isinstance(node.op, ast.Div) and left in (*INTEGERS, "number") and right in (*INTEGERS, "number"):
                return "float32"
            return promote(left, right)
        if isinstance(node, ast.IfExp):
            return promote(self.type_of(node.body), self.type_of(node.orelse))
        if isinstance(node, ast.Subscript):
            return self.type_of(node.value)
        if isinstance(node, ast.Attribute):
            return self.type_of(node.value) if node.attr == "T" else ""
        if isinstance(node, ast.Call):
            return self._type_of_call(node)
        return ""

    def _joined(self, types: set[str]) -> str:
        """The type of a name that has several: known only where the others are literals."""
        strong = types - {"number"}
        return next(iter(strong)) if len(strong) == 1 else ""

    def _type_of_binding(self, binding: Binding) -> str:
        if binding.kind == "parameter":
            return f"param:{binding.name}"
        if binding.kind == "loop":
            return "int32"
        return self.type_of(binding.value) if binding.kind == "assign" and binding.value is not None else ""

    def _type_of_call(self, node: ast.Call) -> str:
        call = self.call_of.get(node)
        if call is None:
            return ""
        name = call.name
        if name in ("to", "cast"):
            return self.named_type(call.argument("dtype"))
        if name in ("zeros", "full"):
            return self.named_type(call.argument("dtype"))
        if name == "load":
            base = call.first
            pointers = self.pointers(base) if base is not None else frozenset()
            return f"elem:{next(iter(pointers))}" if len(pointers) == 1 else ""
        if name in ("program_id", "num_programs", "arange"):
            return "int32"
        if name == "dot":
            given = call.argument("out_dtype")
            return self.named_type(given) if given is not None else "float32"
        if name in ("argmax", "argmin"):
            return "int32"
        if name in ("where", "maximum", "minimum", "fma", "pow"):
            arguments = node.args[1:] if name == "where" else node.args
            result = "number"
            for argument in arguments:
                result = promote(result, self.type_of(argument))
            return result
        if name in REDUCTIONS | {"cumsum"} and call.argument("dtype") is not None:
            return self.named_type(call.argument("dtype"))
        if name in SAME_TYPE or name in ("zeros_like", "multiple_of", "max_contiguous", "cumprod", "associative_scan"):
            return self.type_of(call.first) if call.first is not None else ""
        return ""

    def named_type(self, node: ast.expr | None) -> str:
        """The type that ``tl.float32``, ``x_ptr.dtype.element_ty`` or a constexpr parameter names."""
        if node is None:
            return ""
        node = self.value_of(node)
        dotted = self.module.dotted(node)
        last = dotted.rpartition(".")[2]
        if last in FLOATS or last in INTEGERS:
            return last
        if isinstance(node, ast.Attribute) and node.attr == "element_ty":
            inner = node.value
            if isinstance(inner, ast.Attribute) and inner.attr == "dtype":
                pointers = self.pointers(inner.value)
                return f"elem:{next(iter(pointers))}" if len(pointers) == 1 else ""
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            return self.type_of(node.value)
        if isinstance(node, ast.Name) and node.id in self.constexprs:
            return f"type:{node.id}"
        return ""

    def wide(self, node: ast.expr) -> bool | None:
        """Whether an integer is computed in 64 bits; None where that cannot be known (a loaded value)."""
        kind = self.type_of(node)
        if kind in INT64:
            return True
        if kind.startswith("elem:") or not kind:
            return True if self._casts(node) else None
        if kind.startswith("param:"):
            annotation = self.parameters[kind[6:]].annotation if kind[6:] in self.parameters else ""
            return "64" in annotation
        return False

    def _casts(self, node: ast.expr) -> bool:
        """Whether some operand of a sum or product is cast to 64 bits."""
        node = self.value_of(node)
        if isinstance(node, ast.BinOp):
            return self._casts(node.left) or self._casts(node.right)
        return self.type_of(node) in INT64

    # For the linker

    @cached_property
    def summary(self) -> DeviceSummary:
        """What the linker needs to know."""
        touched: dict[str, dict[str, None]] = {"load": {}, "store": {}, "atomic": {}}
        for call in self.accesses:
            base = call.first
            if base is not None:
                kind = "atomic" if call.name in ATOMICS else call.name
                touched[kind].update(dict.fromkeys(sorted(self.pointers(base))))
        for call in self.called("descriptor_load", "descriptor_store"):
            base = call.first
            if base is not None:
                touched[call.name.removeprefix("descriptor_")].update(dict.fromkeys(sorted(self.pointers(base))))
        return DeviceSummary(
            self.name,
            self.module.name_place(self.node),
            tuple(self.parameters.values()),
            self.module.framework(self.node),
            tuple(touched["store"]),
            tuple(touched["load"]),
            tuple(touched["atomic"]),
            tuple(self._handed_on()),
            self.autotune,
            self.heuristics,
        )

    def _handed_on(self) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        found = []
        for call in self.calls.get("", ()):
            function = call.node.func
            if not isinstance(function, (ast.Name, ast.Attribute)):
                continue
            handed = []
            arguments = [(str(index), value) for index, value in enumerate(call.node.args)]
            arguments += [(keyword.arg, keyword.value) for keyword in call.node.keywords if keyword.arg]
            for name, value in arguments:
                pointers = self.pointers(value)
                if len(pointers) == 1:
                    handed.append((name, next(iter(pointers))))
            if handed:
                found.append((ast.unparse(function), tuple(handed)))
        return found


_BUILTIN_CALLS = {"max": "maximum", "min": "minimum", "range": "range"}
_ORDER = {name: rank for rank, name in enumerate((*INTEGERS, *FLOATS))}


def promote(left: str, right: str) -> str:
    """The type of an operation on two types; empty where that is not known."""
    if left == right or right == "number":
        return left
    if left == "number":
        return right
    if left in _ORDER and right in _ORDER:
        if {left, right} == {"float16", "bfloat16"}:
            return "float32"
        return left if _ORDER[left] > _ORDER[right] else right
    known, unknown = (left, right) if left in _ORDER else (right, left)
    if known in ("float32", "float64") and (unknown.startswith(("elem:", "param:"))):
        return known if known == "float64" else "float32"
    if known in INTEGERS and unknown.startswith("elem:"):
        return unknown
    if known in INTEGERS and unknown.startswith("param:"):
        return known
    return ""
