"""What a device function does with its parameters: loads, stores, masks, conversions, indices. Read from ``ast``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from kgate.lint.init.values import Evidence
from kgate.source.uses import chain_of

_STORES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg", "atomic_or", "atomic_and")
_POINTERS = ("make_block_ptr", "advance", "multiple_of", "max_contiguous", "make_tensor_descriptor", "max_constancy")
_FLOAT_MATH = frozenset(
    [
        "exp",
        "exp2",
        "log",
        "log2",
        "sqrt",
        "rsqrt",
        "sigmoid",
        "sin",
        "cos",
        "tanh",
        "erf",
        "dot",
        "dot_scaled",
        "softmax",
        "pow",
        "floor",
        "ceil",
        "fma",
    ]
)
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass
class DeviceFacts:
    """One device function, by parameter name."""

    parameters: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set)
    loads: dict[str, Evidence] = field(default_factory=dict)
    stores: dict[str, Evidence] = field(default_factory=dict)
    masked: dict[str, Evidence] = field(default_factory=dict)
    """Sizes that indices are compared with, or that a loop runs to."""
    wide: dict[str, Evidence] = field(default_factory=dict)
    floating: dict[str, Evidence] = field(default_factory=dict)
    raw: dict[str, Evidence] = field(default_factory=dict)
    """Pointers whose elements go into such functions as they are stored."""
    index: dict[str, Evidence] = field(default_factory=dict)
    flat: dict[str, tuple[str, Evidence]] = field(default_factory=dict)
    """Pointers that are read as ``pointer + i`` with ``i < size``: the size."""
    fixed: dict[str, tuple[str, Evidence]] = field(default_factory=dict)
    bits: set[str] = field(default_factory=set)
    """Pointers whose elements are taken apart bit by bit: packed numbers, whatever they are converted to."""
    patterns: dict[str, dict[str, Evidence]] = field(default_factory=dict)
    """Pointers and the ways in which they are addressed, with the pointer's and the strides' names taken out."""
    dots: Evidence | None = None
    """A product of matrices, whose operands lie in shared memory."""
    modern: Evidence | None = None
    """A construct that needs sm_90 or later."""


Lookup = Callable[[str], "DeviceFacts | None"]


def read_device(path: str, node: ast.FunctionDef, lines: list[str], helper: Lookup) -> DeviceFacts:
    """Read one device function; ``helper`` gives the facts of another one by the name it is called by."""
    arguments = node.args
    names = tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    reader = _Reader(path, lines, names, helper)
    reader.whole_numbers = any(chain_of(n).endswith((".int8", ".uint8")) for n in ast.walk(node) if _is_chain(n))
    for argument in (*arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None and chain_of(argument.annotation).endswith("constexpr"):
            reader.constants.add(argument.arg)
    reader.body(node.body)
    return reader.facts


class _Reader:
    def __init__(self, path: str, lines: list[str], parameters: tuple[str, ...], helper: Lookup) -> None:
        self.path, self.lines, self.helper = path, lines, helper
        self.facts = DeviceFacts(parameters)
        self.whole_numbers = False
        """Whether products may be of whole numbers: the function speaks of 8-bit integers."""
        self.constants: set[str] = set()
        self.values: dict[str, ast.expr] = {}
        self.bases: dict[str, str] = {name: name for name in parameters}
        self.moved: set[str] = set()
        self.moves: dict[str, list[str]] = {}
        self.loaded: dict[str, set[str]] = {}
        """Local name to the pointers whose elements its value is made of."""
        self.unconverted: dict[str, set[str]] = {}
        """The same, as far as they are not converted to float32."""
        self.widened: set[str] = set()
        """Local names whose values are float32 whatever floats were loaded."""
        self.values_given = set(parameters)

    def evidence(self, node: ast.AST) -> Evidence:
        line = getattr(node, "lineno", 1)
        return Evidence(self.path, line, self.lines[line - 1].strip())

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.For, ast.While, ast.If, ast.With)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.expression(child)
            if isinstance(node, ast.For):
                self._loop(node)
            self.body(node.body)
            self.body(getattr(node, "orelse", []))
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            self.moved.add(name)
            self.moves.setdefault(name, []).append(_plain_text(node.value, name))
            self.loaded.setdefault(name, set()).update(self.sources(node.value))
            self.unconverted.setdefault(name, set()).update(self.raw(node.value))
            if self.widens(node.value):
                self.widened.add(name)
            if name in self.widened:
                self.unconverted[name] = set()

    def _loop(self, node: ast.For) -> None:
        """``range(0, N, BLOCK)`` covers N."""
        if isinstance(node.iter, ast.Call) and chain_of(node.iter.func).rpartition(".")[2] in ("range", "static_range"):
            stop = node.iter.args[0] if len(node.iter.args) == 1 else node.iter.args[1] if node.iter.args else None
            for child in ast.walk(stop) if stop is not None else ():
                if isinstance(child, ast.Name) and child.id in self.facts.parameters:
                    self.facts.masked.setdefault(child.id, self.evidence(node))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for part, item in zip(target.elts, value.elts, strict=True):
                    self.assign(part, item)
                return
            for part in target.elts:
                if isinstance(part, ast.Name):
                    self.values.pop(part.id, None)
                    self.bases[part.id] = ""
                    self.unconverted[part.id], self.loaded[part.id] = self.raw(value), self.sources(value)
                    self.widened.discard(part.id)
            return
        if not isinstance(target, ast.Name):
            return
        base, moved = self.base(value)
        self.unconverted[target.id], self.loaded[target.id] = self.raw(value), self.sources(value)
        (self.widened.add if self.widens(value) else self.widened.discard)(target.id)
        self.bases[target.id] = base
        (self.moved.add if moved else self.moved.discard)(target.id)
        self.values[target.id] = value

    def base(self, node: ast.expr) -> tuple[str, bool]:
        """The pointer parameter that an address starts from, and whether it has moved; empty for no pointer."""
        if isinstance(node, ast.Name):
            return self.bases.get(node.id, ""), node.id in self.moved
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            for side in (node.left, node.right):
                found, _ = self.base(side)
                if found:
                    return found, True
        if isinstance(node, ast.Call):
            last = chain_of(node.func).rpartition(".")[2]
            if last in _POINTERS and node.args:
                return self.base(node.args[0])[0], True
            if last == "to" and isinstance(node.func, ast.Attribute):
                return self.base(node.func.value)
        return "", False

    def sources(self, node: ast.expr) -> set[str]:
        """The pointers whose elements go into a value."""
        found: set[str] = set()
        for child in ast.walk(node):
            if isinstance(child, ast.Call) and chain_of(child.func).rpartition(".")[2] == "load" and child.args:
                found.add(self.base(child.args[0])[0])
            elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr == "load":
                found.add(self.base(child.func.value)[0])
            elif isinstance(child, ast.Name):
                own = {child.id} if child.id in self.values_given and child.id not in self.loaded else set()
                found |= self.loaded.get(child.id, own)
        return found - {""}

    def raw(self, node: ast.expr) -> set[str]:
        """The pointers whose elements go into a value as they are stored, not converted to float32."""
        if self.widens(node):
            return set()
        if isinstance(node, ast.Call):
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if attribute == "to" and node.args and chain_of(node.args[0]).endswith("float32"):
                return set()
            if attribute == "load" and node.args:
                return {self.base(node.args[0])[0]} - {""}
        if isinstance(node, ast.Name):
            own = {node.id} if node.id in self.values_given and node.id not in self.unconverted else set()
            return self.unconverted.get(node.id, own)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return set().union(*map(self.raw, children)) if children else set()

    def widens(self, node: ast.expr) -> bool:
        """Whether a value is float32 whatever floats go into it: converted, or together with something that is.

        ``tl.max`` and ``tl.min`` give float32 for the half types.
        """
        if isinstance(node, ast.Name):
            return node.id in self.widened
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _ARITHMETIC) and (self.widens(node.left) or self.widens(node.right))
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub) and self.widens(node.operand)
        if isinstance(node, ast.Subscript):
            return self.widens(node.value)
        if not isinstance(node, ast.Call) or not node.args:
            return False
        last = chain_of(node.func).rpartition(".")[2] or (
            node.func.attr if isinstance(node.func, ast.Attribute) else ""
        )
        if last in ("to", "cast"):
            return chain_of(node.args[-1]).endswith("float32")
        if last in ("max", "min"):
            return isinstance(node.func, ast.Attribute) and not any(k.arg == "return_indices" for k in node.keywords)
        return last in ("maximum", "minimum", "where") and any(map(self.widens, node.args[last == "where" :]))

    def expression(self, node: ast.expr) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and child.id in self.facts.parameters:
                self.facts.used.add(child.id)
            elif isinstance(child, ast.Compare):
                self.compare(child)
            elif isinstance(child, ast.BinOp) and isinstance(child.op, (ast.LShift, ast.RShift, ast.BitXor)):
                self.facts.bits |= self.sources(child.left)
            elif isinstance(child, ast.Call):
                self.call(child)

    def compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Lt, ast.LtE)):
            right = node.comparators[0]
            if (
                isinstance(right, ast.Name) and right.id in self.facts.parameters and right.id not in self.constants
            ) or (isinstance(right, ast.Name) and right.id in self.constants and not _numbers_only(node.left)):
                self.facts.masked.setdefault(right.id, self.evidence(node))

    def call(self, node: ast.Call) -> None:
        chain = chain_of(node.func)
        last = chain.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        address = node.args[0] if node.args else None
        if last == "load" and address is not None:
            self.load(node, address)
        elif last in _STORES and address is not None:
            self.store(node, address)
        elif last in ("load", "store") and isinstance(node.func, ast.Attribute):
            base, _ = self.base(node.func.value)
            (self.facts.loads if last == "load" else self.facts.stores).setdefault(base, self.evidence(node))
        elif last == "to" and isinstance(node.func, ast.Attribute) and address is not None:
            self.convert(node, node.func.value, address)
        elif last == "make_block_ptr" and address is not None and len(node.args) > 1:
            self._block_shape(node.args[1], node)
        elif last in _FLOAT_MATH and chain:
            if last.startswith("dot"):
                self.facts.dots = self.facts.dots or self.evidence(node)
                if self.whole_numbers:
                    for argument in node.args:
                        self.facts.bits |= self.sources(argument)
                    return
            for argument in node.args:
                widens = not last.startswith("dot") and self.widens(argument)
                for pointer in self.sources(argument):
                    self.facts.floating.setdefault(pointer, self.evidence(node))
                    if widens:
                        self.facts.wide.setdefault(pointer, self.evidence(node))
                for pointer in self.raw(argument):
                    self.facts.raw.setdefault(pointer, self.evidence(node))
        elif chain:
            self.nested(node, chain)
        if last in ("make_tensor_descriptor", "warp_specialize", "async_task"):
            self.facts.modern = self.facts.modern or self.evidence(node)
        if last == "make_block_ptr":
            for keyword in node.keywords:
                if keyword.arg == "shape":
                    self._block_shape(keyword.value, node)

    def _block_shape(self, shape: ast.expr, node: ast.Call) -> None:
        """A block pointer checks its sizes where a boundary check is asked for."""
        for child in ast.walk(shape):
            if isinstance(child, ast.Name) and child.id in self.facts.parameters:
                self.facts.masked.setdefault(child.id, self.evidence(node))

    def load(self, node: ast.Call, address: ast.expr) -> None:
        base, _ = self.base(address)
        if base:
            self.facts.loads.setdefault(base, self.evidence(node))
            self._flat(base, address, node)
            self._pattern(base, address, node)
        self._indices(address, base, node)

    def store(self, node: ast.Call, address: ast.expr) -> None:
        base, _ = self.base(address)
        if base:
            self.facts.stores.setdefault(base, self.evidence(node))
            self._flat(base, address, node)
            self._pattern(base, address, node)
        self._indices(address, base, node)

    def _pattern(self, base: str, address: ast.expr, node: ast.Call) -> None:
        """How a pointer is addressed; two that are addressed alike point to tensors of one shape."""
        parts: list[str] = []
        current: ast.expr | None = address
        for _ in range(4):
            name = current.id if isinstance(current, ast.Name) else ""
            if current is None or name == base:
                break
            parts.append(_plain_text(current, base))
            parts += self.moves.get(name, [])
            current = self.values.get(name) if name else None
            first = (
                next((n for n in ast.walk(current) if isinstance(n, ast.Name)), None) if current is not None else None
            )
            if current is None and first is None:
                break
        for child in ast.walk(address):
            if isinstance(child, ast.Name) and child.id != base and self.bases.get(child.id) == base:
                value = self.values.get(child.id)
                parts += [_plain_text(value, base)] if value is not None else []
                parts += self.moves.get(child.id, [])
        parts += self.moves.get(base, [])
        mask = next((k.value for k in node.keywords if k.arg == "mask"), None)
        checked = mask is not None or any(k.arg == "boundary_check" for k in node.keywords)
        if not checked and "make_block_ptr" not in " ".join(parts):
            return
        text = " | ".join([*parts, _plain_text(mask, base) if mask is not None else ""])
        if len(text) > 4:
            self.facts.patterns.setdefault(base, {}).setdefault(text, self.evidence(node))

    def _indices(self, address: ast.expr, base: str, node: ast.Call) -> None:
        """Elements that go into an address are indices."""
        for pointer in self._direct(address, 0) - {base}:
            self.facts.index.setdefault(pointer, self.evidence(node))

    def _direct(self, node: ast.expr, depth: int) -> set[str]:
        """The pointers whose elements are added up to an address as they are, or times a stride."""
        if depth > 12:
            return set()
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            return self._direct(node.left, depth + 1) | self._direct(node.right, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._direct(node.value, depth + 1)
        if isinstance(node, ast.Name):
            value = self.values.get(node.id)
            return self._direct(value, depth + 1) if value is not None else set()
        if isinstance(node, ast.Call):
            last = chain_of(node.func).rpartition(".")[2]
            if last == "load" and node.args:
                return {self.base(node.args[0])[0]} - {""}
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if attribute == "to" and isinstance(node.func, ast.Attribute) and not node.keywords:
                return self._direct(node.func.value, depth + 1)
            if last in _POINTERS and node.args:
                return self._direct(node.args[0], depth + 1)
        return set()

    def _flat(self, base: str, address: ast.expr, node: ast.Call) -> None:
        """``x_ptr + i`` under ``i < n``, with an ``i`` that counts elements: x is one row of n."""
        if not (isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add)):
            return
        left, right = address.left, address.right
        if not (isinstance(left, ast.Name) and left.id == base and base not in self.moved):
            return
        mask = next((k.value for k in node.keywords if k.arg == "mask"), None)
        if mask is None:
            position = 2 if chain_of(node.func).endswith("store") else 1
            mask = node.args[position] if len(node.args) > position else None
        if isinstance(mask, ast.Name):
            mask = self.values.get(mask.id)
        if not (isinstance(right, ast.Name) and isinstance(mask, ast.Compare) and len(mask.ops) == 1):
            return
        size = mask.comparators[0]
        same = isinstance(mask.left, ast.Name) and mask.left.id == right.id and isinstance(mask.ops[0], ast.Lt)
        if same and isinstance(size, ast.Name) and size.id in self.facts.parameters and self._counts(right, 0):
            self.facts.flat.setdefault(base, (size.id, self.evidence(node)))

    def _counts(self, node: ast.expr, depth: int) -> bool:
        """Whether an index counts elements: block ids, block sizes and ``arange`` alone."""
        for child in ast.walk(node):
            if not isinstance(child, ast.Name) or child.id in ("tl", "triton", "tle", "language"):
                continue
            if child.id in self.constants:
                continue
            value = self.values.get(child.id)
            if value is None or depth > 5 or child.id in self.moved or not self._counts(value, depth + 1):
                return False
        return not any(
            isinstance(child, ast.Call) and chain_of(child.func).rpartition(".")[2] not in _COUNTING
            for child in ast.walk(node)
        )

    def convert(self, node: ast.Call, value: ast.expr, dtype: ast.expr) -> None:
        name = chain_of(dtype).rpartition(".")[2]
        if name == "float32":
            for pointer in self.sources(value):
                self.facts.wide.setdefault(pointer, self.evidence(node))
        elif name in _FLOATS:
            for pointer in self.sources(value):
                self.facts.fixed.setdefault(pointer, (name, self.evidence(node)))

    def nested(self, node: ast.Call, chain: str) -> None:
        """A device function called by this one: what it does to pointers handed on."""
        inner = self.helper(chain)
        if inner is None:
            return
        given = dict(zip(inner.parameters, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        for name, argument in given.items():
            base, _ = self.base(argument)
            if not base:
                for pointer in self.sources(argument):
                    for kind in ("wide", "floating"):
                        if name in getattr(inner, kind):
                            getattr(self.facts, kind).setdefault(pointer, getattr(inner, kind)[name])
                for pointer in self.raw(argument):
                    if name in inner.raw:
                        self.facts.raw.setdefault(pointer, inner.raw[name])
                continue
            if name in inner.bits:
                self.facts.bits.add(base)
            for field_name in ("loads", "stores", "masked", "wide", "floating", "raw", "index", "fixed"):
                table = getattr(inner, field_name)
                if name in table:
                    getattr(self.facts, field_name).setdefault(base, table[name])
        self.facts.modern = self.facts.modern or inner.modern
        self.facts.dots = self.facts.dots or inner.dots


def _is_chain(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute)


def _plain_text(node: ast.expr, base: str) -> str:
    """An address without the names of its pointer and of strides."""
    import copy

    class _Rename(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.Name:
            if name.id == base:
                return ast.Name("P", name.ctx)
            return ast.Name("S", name.ctx) if "stride" in name.id else name

    return ast.unparse(_Rename().visit(copy.deepcopy(node)))


def _numbers_only(node: ast.expr) -> bool:
    return all(isinstance(child, (ast.Constant, ast.operator, ast.BinOp)) for child in ast.walk(node))


_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_COUNTING = ("program_id", "arange", "to", "max_contiguous", "multiple_of", "cast")
