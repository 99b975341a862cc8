"""Launch arguments in terms of a kernel's envelope: sizes as terms over its dims, and sizes at which a term gets large.

A :class:`Term` is an integer expression over variables: dims, integer scalars and choices by their names, and strides
that the envelope leaves open as ``stride(x, 0)``. A :class:`Scope` gives the parameters of one host function, reached
from a declared launcher, their values. :class:`Sizes` looks for sizes that the envelope allows and that make a term as
large as can be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

from kgate.contract import Choice, Envelope, Offsets, Scalar, Tensor
from kgate.contract.where import Apply, Arithmetic, Expr, Literal, Name, Negative

Text = dict[str, int]
"""Variable to value."""

INT32 = 2**31
GLOBAL = "_global_"
"""Stands before the name of a module's constant in what is parsed of a form."""
_STEPS = (1, 8, 16, 128, 1024)
"""Multiples to try where conditions ask for some."""
_UNBOUNDED = 2**40


class Term:
    """An integer expression over the variables of an envelope. Immutable; equal where the text is."""

    __slots__ = ("_code", "factors", "less", "names", "number", "over", "source", "text")

    def __init__(
        self, text: str, source: str, names: frozenset[str], number: int | None = None, factors: tuple[Term, ...] = ()
    ) -> None:
        self.text = text
        """As the where-language writes it."""
        self.source = source
        """As Python writes it, over a mapping ``v`` of variables."""
        self.names = names
        """Variables that it depends on."""
        self.number = number
        """Its value, where it depends on none."""
        self.factors = factors or (self,)
        """What it is a product of."""
        self.less: tuple[Term, int] | None = None
        """Of ``M - 1`` what it is less than, and by how much."""
        self.over: tuple[Term, Term] | None = None
        """Of ``cdiv(M, 128)`` what is divided, and by what."""
        self._code: Any = None

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for these variables. Raises KeyError for a missing one, ZeroDivisionError."""
        if self.number is not None:
            return self.number
        if self._code is None:
            self._code = eval(f"lambda v: {self.source}", dict(_FUNCTIONS))  # our own text
        return int(self._code(values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Term({self.text!r})"


@dataclass(frozen=True)
class View:
    """A tensor: what is known of its sizes and strides."""

    name: str
    """The input that it is, or that it is made of; empty for a new one."""
    sizes: tuple[Term | None, ...] | None
    """None where the number of axes is not known."""
    strides: tuple[Term | None, ...] | None
    elements: Term | None
    """Number of elements."""
    filled: bool = False
    """Whether a new one is given values when it is made."""


@dataclass(frozen=True)
class Constant:
    """A value that is no integer: a string, None, True."""

    value: object


Value = Term | View | Constant | tuple["Term | None", ...]
"""What a form may stand for; a tuple is a shape."""


def power_of_two(value: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(value - 1, 0).bit_length()


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


_FUNCTIONS: dict[str, Any] = {
    "cdiv": _cdiv,
    "next_power_of_2": power_of_two,
    "min": min,
    "max": max,
    "__builtins__": {},
}


@lru_cache(maxsize=4096)
def number(value: int) -> Term:
    """A constant."""
    return Term(str(value), str(value), frozenset(), value)


@lru_cache(maxsize=4096)
def variable(name: str) -> Term:
    """A dim, or another variable of the envelope."""
    return Term(name, f"v[{name!r}]", frozenset((name,)))


def combine(operator: str, left: Term | None, right: Term | None) -> Term | None:
    """Two terms under ``+ - * // % **``; None where that is not known."""
    if left is None or right is None:
        return None
    if left.number is not None and right.number is not None:
        return _folded(operator, left.number, right.number)
    if operator == "*":
        if 0 in (left.number, right.number):
            return number(0)
        if left.number == 1:
            return right
        if right.number == 1:
            return left
        factors = (*left.factors, *right.factors)
        return Term(
            " * ".join(_inside(item) for item in factors),
            "*".join(f"({item.source})" for item in factors),
            left.names | right.names,
            None,
            factors,
        )
    if operator == "**" and (right.number is None or not 0 <= right.number <= 8 or "**" in left.source):
        return None  # numbers of millions of digits are nobody's size
    if operator in ("+", "-") and right.number == 0:
        return left
    if operator == "+" and left.number == 0:
        return right
    if operator == "+" and left.less is not None and left.less[1] == right.number:
        return left.less[0]
    if operator in ("//", "cdiv"):
        rest = _without(left, right)
        if rest is not None:
            return rest
    return _plain(operator, left, right)


def _plain(operator: str, left: Term, right: Term) -> Term:
    names = left.names | right.names
    if operator == "cdiv":
        term = Term(f"cdiv({left.text}, {right.text})", f"cdiv({left.source}, {right.source})", names)
        term.over = (left, right)
        return term
    text = f"{_inside(left) if operator not in '+-' else left.text} {operator} {_inside(right)}"
    term = Term(text, f"({left.source}){operator}({right.source})", names)
    if operator == "-" and right.number is not None:
        term.less = (left, right.number)
    return term


def _inside(term: Term) -> str:
    return f"({term.text})" if " " in term.text and not term.text.endswith(")") else _wrapped(term.text)


def _wrapped(text: str) -> str:
    """Text that ends in a parenthesis: as it is where that is the call's own."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == " " and depth == 0 and at:
            return f"({text})"
    return text


def _folded(operator: str, left: int, right: int) -> Term | None:
    try:
        if operator == "**" and not (0 <= right < 64 and abs(left) < 2**64):
            return None
        return number(_OPERATIONS[operator](left, right))
    except (ZeroDivisionError, ValueError, OverflowError):
        return None


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "cdiv": _cdiv,
}


def _without(term: Term, divisor: Term) -> Term | None:
    """A product without the factors of a divisor; None where it does not have them all."""
    left = list(term.factors)
    for factor in divisor.factors:
        if factor.number == 1:
            continue
        if factor not in left:
            return None
        left.remove(factor)
    return product(left)


def product(terms: Iterable[Term | None]) -> Term | None:
    """The product of terms; None where one is not known."""
    result: Term | None = number(1)
    for term in terms:
        result = combine("*", result, term)
    return result


def apply(function: str, terms: Sequence[Term | None]) -> Term | None:
    """``min``, ``max``, ``cdiv`` or ``next_power_of_2`` of terms; None where one is not known."""
    known = [term for term in terms if term is not None]
    if len(known) < len(terms) or not known:
        return None
    if function == "cdiv":
        return combine("cdiv", *known) if len(known) == 2 else None
    if function == "next_power_of_2" and len(known) != 1:
        return None
    if all(term.number is not None for term in known):
        values = [term.number or 0 for term in known]
        return number(
            power_of_two(values[0]) if function == "next_power_of_2" else (min if function == "min" else max)(values)
        )
    if len(known) == 1 and function != "next_power_of_2":
        return known[0]
    inner = ", ".join(term.text for term in known)
    source = ", ".join(term.source for term in known)
    return Term(f"{function}({inner})", f"{function}({source})", frozenset().union(*(term.names for term in known)))


def term_of(expression: Expr) -> Term | None:
    """A term of what an axis string or a condition writes; None for what is no integer."""
    if isinstance(expression, Literal):
        return number(expression.value) if type(expression.value) is int else None
    if isinstance(expression, Name):
        return variable(expression.name)
    if isinstance(expression, Negative):
        return combine("-", number(0), term_of(expression.operand))
    if isinstance(expression, Arithmetic):
        return combine(expression.operator, term_of(expression.left), term_of(expression.right))
    if isinstance(expression, Apply):
        return apply(expression.function, [term_of(item) for item in expression.arguments])
    return None


def evaluated(term: Term | None, values: Mapping[str, int]) -> int | None:
    """The value of a term; None where it depends on what is not given, or divides by zero."""
    if term is None:
        return None
    try:
        return term.evaluate(values)
    except (KeyError, ZeroDivisionError):
        return None


def extent(term: Term) -> Term:
    """A simpler term that is about as large: ``M * N`` for ``(M - 1) * N``, ``M`` for ``(cdiv(M, 128) - 1) * 128``."""
    factors = [item.less[0] if item.less is not None else item for item in term.factors]
    for item in list(factors):
        if item.over is not None and item.over[1] in factors:
            factors.remove(item.over[1])
            factors[factors.index(item)] = item.over[0]
    return product(factors) or term


# Tensors


def contiguous_strides(sizes: Sequence[Term | None]) -> tuple[Term | None, ...]:
    """Strides of a row-major tensor without gaps."""
    strides: list[Term | None] = []
    step: Term | None = number(1)
    for size in reversed(sizes):
        strides.append(step)
        step = combine("*", size, step)
    return tuple(reversed(strides))


def stride_name(tensor: str, axis: int) -> str:
    """The variable that stands for a stride that the envelope leaves open."""
    return f"stride({tensor}, {axis})"


def input_view(name: str, spec: Tensor | Offsets) -> View:
    """An input as declared."""
    sizes = tuple(term_of(axis.expr) for axis in spec.axes)
    standard = contiguous_strides(sizes)
    strides: list[Term | None] = list(standard)
    if spec.layout not in ("contiguous",):
        strides = [variable(stride_name(name, axis)) for axis in range(len(sizes))]
        if sizes and spec.layout in ("inner_contiguous", "row_major"):
            strides[-1] = number(1)
        if len(sizes) > 1 and spec.layout == "column_major":
            strides[-2] = number(1)
    return View(name, sizes, tuple(strides), product(sizes))


def usual_strides(envelope: Envelope) -> dict[str, Term]:
    """Variables that stand for strides, to what they are in a tensor without gaps that the layout allows."""
    found: dict[str, Term] = {}
    for name, spec in envelope.tensors().items():
        sizes = tuple(term_of(axis.expr) for axis in spec.axes)
        order = list(range(len(sizes)))
        if spec.layout == "column_major" and len(order) > 1:
            order[-1], order[-2] = order[-2], order[-1]
        elif spec.layout == "channels_last":
            order = [0, *order[2:], 1]
        step: Term | None = number(1)
        for axis in reversed(order):
            if step is not None:
                found[stride_name(name, axis)] = step
            step = combine("*", sizes[axis], step)
    return found


# Forms


class Scope:
    """The parameters of one host function, reached from a declared launcher, and what they are."""

    def __init__(
        self,
        values: Mapping[str, Value | None],
        forms: Mapping[str, str],
        outer: Scope | None,
        host: tuple[str, str],
        constants: Callable[[str], Value | None],
    ) -> None:
        self._values: dict[str, Value | None] = dict(values)
        self._constants = constants
        self._forms = forms
        self.outer = outer
        """The caller's."""
        self.host = host
        """File and qualified name of the function."""

    @classmethod
    def of_envelope(cls, envelope: Envelope, host: tuple[str, str], constants: Callable[[str], Value | None]) -> Scope:
        """The scope of the declared launcher."""
        values: dict[str, Value | None] = {}
        for name, spec in envelope.inputs.items():
            if isinstance(spec, (Tensor, Offsets)):
                values[name] = input_view(name, spec)
            elif (isinstance(spec, Scalar) and spec.kind == "int") or (isinstance(spec, Choice) and spec.numbers()):
                values[name] = variable(name)
        return cls(values, {}, None, host, constants)

    def parameter(self, name: str) -> Value | None:
        """The value of a parameter; None where it is not known."""
        if name not in self._values:
            self._values[name] = None  # for one that is made of itself
            form = self._forms.get(name)
            if name.startswith(GLOBAL):
                self._values[name] = self._constants(name.removeprefix(GLOBAL))
            elif form is not None and self.outer is not None:
                self._values[name] = self.outer.value(form)
        return self._values[name]

    def value(self, form: str) -> Value | None:
        """What a form stands for; None where it is not known."""
        return read(form, self.parameter)


@lru_cache(maxsize=20_000)
def _parsed(form: str) -> ast.expr | None:
    if "?" in form:
        return None
    try:
        return ast.parse(form.replace("$", GLOBAL), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read(form: str, lookup: Callable[[str], Value | None]) -> Value | None:
    """What a form stands for, with its names looked up; None where it is not known."""
    node = _parsed(form)
    return None if node is None else _value(node, lookup)


def as_term(value: Value | None) -> Term | None:
    """A value that is an integer."""
    return value if isinstance(value, Term) else None


_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}


def _value(node: ast.expr, lookup: Callable[[str], Value | None]) -> Value | None:
    if isinstance(node, ast.Constant):
        return number(node.value) if type(node.value) is int else Constant(node.value)
    if isinstance(node, ast.Name):
        return lookup(node.id)
    if isinstance(node, ast.BinOp):
        left, right = as_term(_value(node.left, lookup)), as_term(_value(node.right, lookup))
        operator = _OPERATORS.get(type(node.op))
        return _shifted(node.op, left, right) if operator is None else combine(operator, left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return combine("-", number(0), as_term(_value(node.operand, lookup)))
    if isinstance(node, ast.Attribute):
        base = _value(node.value, lookup)
        return base.sizes if isinstance(base, View) and node.attr == "shape" else None
    if isinstance(node, ast.Subscript):
        whole = _value(node.value, lookup)
        return _item(whole, node.slice) if isinstance(whole, tuple) else None
    if isinstance(node, ast.Call):
        return _called(node, lookup)
    return None


def _shifted(operator: ast.operator, left: Term | None, right: Term | None) -> Term | None:
    if left is None or right is None or right.number is None or not 0 <= right.number < 63:
        return None
    if isinstance(operator, ast.LShift):
        return combine("*", left, number(1 << right.number))
    return combine("//", left, number(1 << right.number)) if isinstance(operator, ast.RShift) else None


def _item(whole: tuple[Term | None, ...], index: ast.expr) -> Term | None:
    at = _constant(index)
    return whole[at] if at is not None and -len(whole) <= at < len(whole) else None


def _constant(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _called(node: ast.Call, lookup: Callable[[str], Value | None]) -> Value | None:
    if isinstance(node.func, ast.Attribute):
        return _asked(_value(node.func.value, lookup), node.func.attr, node.args)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in ("min", "max", "cdiv", "next_power_of_2"):
        return apply(name, [as_term(_value(item, lookup)) for item in node.args])
    if name in ("new", "filled"):
        return _new(node.args, lookup, name == "filled")
    if name == "meta" and node.args and isinstance(node.args[0], ast.Constant):
        return lookup(f"meta:{node.args[0].value!s}")
    base = _value(node.args[0], lookup) if node.args else None
    if not isinstance(base, View):
        return None
    if name in ("contiguous", "like"):
        strides = None if base.sizes is None else contiguous_strides(base.sizes)
        return View("" if name == "like" else base.name, base.sizes, strides, base.elements)
    if name == "view":
        return _viewed(base, [_value(item, lookup) for item in node.args[1:]])
    if name in ("transposed", "permuted"):
        return _reordered(base, name, [at for at in map(_constant, node.args[1:]) if at is not None])
    if name == "len" and base.sizes:
        return base.sizes[0]
    return None


def _asked(base: Value | None, what: str, arguments: list[ast.expr]) -> Value | None:
    if not isinstance(base, View):
        return None
    if what == "numel":
        return base.elements
    if what == "dim":
        return None if base.sizes is None else number(len(base.sizes))
    if what == "stride" and base.strides is not None:
        return _item(base.strides, arguments[0]) if arguments else base.strides
    return None


def _new(arguments: list[ast.expr], lookup: Callable[[str], Value | None], filled: bool) -> View | None:
    if len(arguments) == 1:
        whole = _value(arguments[0], lookup)
        if isinstance(whole, tuple):
            return View("", whole, contiguous_strides(whole), product(whole), filled)
    sizes = tuple(as_term(_value(item, lookup)) for item in arguments)
    return View("", sizes, contiguous_strides(sizes), product(sizes), filled)


def _viewed(base: View, axes: list[Value | None]) -> View:
    if not axes:
        return View(base.name, None, None, base.elements, base.filled)
    if len(axes) == 1 and isinstance(axes[0], tuple):
        axes = list(axes[0])
    sizes = [as_term(item) for item in axes]
    inferred = [at for at, size in enumerate(sizes) if size is not None and size.number == -1]
    if len(inferred) == 1:
        rest = product(size for at, size in enumerate(sizes) if at != inferred[0])
        sizes[inferred[0]] = combine("//", base.elements, rest)
    known = tuple(sizes)
    strides = base.strides if known == base.sizes else contiguous_strides(known)
    return View(base.name, known, strides, base.elements, base.filled)


def _reordered(base: View, name: str, axes: list[int]) -> View | None:
    """A tensor with its axes in another order."""
    if base.sizes is None or base.strides is None:
        return View(base.name, None, None, base.elements, base.filled)
    rank = len(base.sizes)
    if any(not -rank <= at < rank for at in axes):
        return None
    order = [at % rank for at in axes]
    if name == "transposed" and len(order) == 2:
        one, other = order
        order = list(range(rank))
        order[one], order[other] = other, one
    if sorted(order) != list(range(rank)):
        return None
    sizes, strides = tuple(base.sizes[at] for at in order), tuple(base.strides[at] for at in order)
    return View(base.name, sizes, strides, base.elements, base.filled)


# Sizes


@dataclass(frozen=True)
class Strided:
    """A tensor as conditions ask it."""

    strides: tuple[int, ...] | None
    dtype: str | None = None
    align: int | None = None


@dataclass(frozen=True)
class Witness:
    """Sizes that an envelope allows, and what a term comes to there."""

    value: int
    sizes: dict[str, int]
    """The variables that the term depends on."""
    strided: bool = False
    """Whether it takes strides beyond those of a tensor without gaps."""

    def __str__(self) -> str:
        shown = [f"{name} = {value}" for name, value in self.sizes.items()]
        return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


class Sizes:
    """What one envelope allows."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.usual = usual_strides(envelope)
        self.ranges: dict[str, tuple[int, int]] = {name: (dim.lo, dim.hi) for name, dim in envelope.dims.items()}
        for name, scalar in envelope.scalars().items():
            if scalar.kind == "int":
                low = 0 if scalar.lo is None else int(scalar.lo)
                self.ranges[name] = (low, _UNBOUNDED if scalar.hi is None else int(scalar.hi))
        self.choices: dict[str, tuple[int, ...]] = {}
        for name, choice in envelope.choices().items():
            if choice.numbers():
                self.choices[name] = tuple(sorted(int(value) for value in choice.values))  # type: ignore[arg-type]
                self.ranges[name] = (self.choices[name][0], self.choices[name][-1])
        self._found: dict[tuple[Any, ...], Witness | None] = {}
        self._ranks = {name: spec.rank for name, spec in envelope.tensors().items()}

    def range_of(self, name: str) -> tuple[int, int]:
        """The range of a variable."""
        return self.ranges.get(name, (0, _UNBOUNDED))

    def allows(self, values: Mapping[str, int]) -> bool:
        """Whether sizes, and strides where they are given, fulfil every condition as far as they say."""
        if not self.envelope.conditions:
            return True
        tensors = {}
        for name, rank in self._ranks.items():
            strides = []
            for axis in range(rank):
                key = stride_name(name, axis)
                stride = values.get(key)
                if stride is None:
                    usual = self.usual.get(key)
                    try:
                        stride = None if usual is None else usual.evaluate(values)
                    except (KeyError, ZeroDivisionError):
                        stride = None
                strides.append(stride)
            known = None if None in strides else tuple(item for item in strides if item is not None)
            tensors[name] = Strided(known)
        return all(condition.holds(values, tensors) for condition in self.envelope.conditions)

    def largest(self, term: Term, limit: int, below: tuple[Term, ...] = ()) -> Witness | None:
        """Sizes that make a term reach a limit, others below 2**31; None where none are found."""
        key = (term.text, limit, tuple(item.text for item in below))
        if key not in self._found:
            self._found[key] = self._largest(term, limit, below, False) or self._largest(term, limit, below, True)
        return self._found[key]

    def example(self, term: Term, test: Callable[[int], bool]) -> Witness | None:
        """Sizes that are allowed and whose term passes a test, among small, large and odd ones; None without."""
        names = self._variables(term, (), False)
        if not names:
            return Witness(term.number, {}) if term.number is not None and test(term.number) else None
        first, rest = names[0], names[1:]
        for others in (1, None):
            for value in self._samples(first):
                values = {
                    name: high if others is None and name in rest else min(max(low, 1), high)
                    for name, (low, high) in self.ranges.items()
                }
                values[first] = value
                found = self._judged(term, values, names, test)
                if found is not None:
                    return found
        return None

    def _judged(self, term: Term, values: Text, names: list[str], test: Callable[[int], bool]) -> Witness | None:
        try:
            full = {
                **{name: usual.evaluate(values) for name, usual in self.usual.items() if name in term.names},
                **values,
            }
            result = term.evaluate(full)
        except (KeyError, ZeroDivisionError):
            return None
        if not test(result) or not self.allows(values):
            return None
        return Witness(result, {name: values.get(name, 1) for name in names})

    def _samples(self, name: str) -> list[int]:
        """Sizes to try for a variable: a choice's values, or the least ones, multiples, and the largest."""
        if name in self.choices:
            return list(self.choices[name])
        low, high = self.range_of(name)
        found = [*range(low, min(low + 20, high) + 1)]
        found += [step * times for step in (8, 16, 64, 128, 256, 1024) for times in (1, 3, 5, 7)]
        found += [high - 1, high]
        return [value for value in dict.fromkeys(found) if low <= value <= high]

    def _largest(self, term: Term, limit: int, below: tuple[Term, ...], strided: bool) -> Witness | None:
        names = self._variables(term, below, strided)
        strides = [name for name in names if name not in self.ranges]
        if strided and not strides:
            return None
        search = _Search(self, term, below, strided)
        best = search.run(names, limit)
        if best is None or best.value < limit:
            return None
        return search.nearest(best, limit) if strided else best

    def _variables(self, term: Term, below: tuple[Term, ...], strided: bool) -> list[str]:
        names: dict[str, None] = {}
        for item in (term, *below):
            for name in sorted(item.names):
                usual = self.usual.get(name)
                if usual is None or (strided and self.free(name)):
                    names[name] = None
                elif usual is not None:
                    names.update(dict.fromkeys(sorted(usual.names)))
        return list(names)

    def free(self, name: str) -> bool:
        """Whether a stride may be larger than that of a tensor without gaps."""
        tensor = name[7:].partition(",")[0]
        spec = self.envelope.tensors().get(tensor)
        return spec is not None and spec.layout not in ("contiguous", "dense", "channels_last")

    def smallest(self, name: str) -> int:
        """The least value of a variable, strides at least 1."""
        return self.ranges[name][0] if name in self.ranges else 1


def _orders(names: list[str]) -> Iterable[Sequence[str]]:
    """Orders in which to raise variables: all of them for up to three, else each one first."""
    return permutations(names) if len(names) <= 3 else [names[at:] + names[:at] for at in range(len(names))]


class _Search:
    """Raises the variables of a term one after the other, as far as the conditions let them."""

    def __init__(self, sizes: Sizes, term: Term, below: tuple[Term, ...], strided: bool) -> None:
        self.sizes = sizes
        self.term = term
        self.below = below
        self.strided = strided
        multiples = any("%" in text for text in sizes.envelope.where)
        self.steps: tuple[int, ...] = _STEPS if multiples else (1,)

    def run(self, names: list[str], limit: int) -> Witness | None:
        top = self._start(names, None)
        if self._value(top) is None:
            return None
        if self._fits(top):
            return self._witness(top, names)
        best: Witness | None = None
        for start in self._starts(names):
            for order in _orders(names):
                values = dict(start)
                for name in order:
                    self._raise(values, name)
                found = self._witness(values, names)
                if found is not None and (best is None or found.value > best.value):
                    best = found
            if best is not None and best.value >= limit:
                break
        return best

    def _starts(self, names: list[str]) -> Iterable[Text]:
        """Small sizes that the conditions allow, to raise from."""
        for step in self.steps:
            for others in (step, None):
                values = self._start(names, step, others)
                if self._fits(values):
                    yield values
        for power in range(40, 2, -1):  # conditions on sums are met best by sizes that are alike
            values = self._start(names, 1 << power)
            if self._fits(values):
                yield values
                return

    def _start(self, names: list[str], step: int | None, others: int | None = 1) -> Text:
        """Every variable at its least multiple of a step, or at its largest value where that is None."""
        values: Text = {}
        for name, (low, high) in self.sizes.ranges.items():
            chosen = step if name in names else others
            values[name] = high if chosen is None else min(_cdiv(max(low, 1), chosen) * chosen, high)
        for name in names:
            if name not in values:  # a stride
                usual = self.sizes.usual.get(name)
                values[name] = INT32 - 1 if step is None or usual is None else max(usual.evaluate(values), 1)
        return values

    def _full(self, values: Text) -> Text:
        """The values with strides that are not variables of the search."""
        full = dict(values)
        for name in {*self.term.names, *(name for item in self.below for name in item.names)} - values.keys():
            usual = self.sizes.usual.get(name)
            if usual is not None:
                full[name] = usual.evaluate(values)
        return full

    def _value(self, values: Text) -> int | None:
        try:
            return self.term.evaluate(self._full(values))
        except (KeyError, ZeroDivisionError):
            return None

    def _fits(self, values: Text) -> bool:
        try:
            full = self._full(values)
            if any(item.evaluate(full) >= INT32 for item in self.below):
                return False
        except (KeyError, ZeroDivisionError):
            return False
        return self.sizes.allows(values)

    def _raise(self, values: Text, name: str) -> None:
        low = values[name]
        high = self.sizes.ranges[name][1] if name in self.sizes.ranges else INT32 - 1
        choices = self.sizes.choices.get(name)
        if choices is not None:
            for choice in reversed(choices):
                if choice > low and self._fits({**values, name: choice}):
                    values[name] = choice
                    return
            return
        if self._fits({**values, name: high}):
            values[name] = high
            return
        for step in self.steps:
            below, above = low // step, high // step + 1
            if low % step and not self._fits({**values, name: (below + 1) * step}):
                continue
            while above - below > 1:
                middle = (below + above) // 2
                if self._fits({**values, name: middle * step}):
                    below = middle
                else:
                    above = middle
            values[name] = max(values[name], below * step)

    def nearest(self, witness: Witness, limit: int) -> Witness:
        """The same with strides that are no larger than they need be."""
        values = self._start(list(witness.sizes), 1) | witness.sizes
        for name in witness.sizes:
            if name in self.sizes.ranges:
                continue
            low, high = 0, values[name]
            while high - low > 1:
                middle = (low + high) // 2
                tried = {**values, name: middle}
                if self._fits(tried) and (self._value(tried) or 0) >= limit:
                    high = middle
                else:
                    low = middle
            values[name] = high
        return self._witness(values, list(witness.sizes)) or witness

    def _witness(self, values: Text, names: list[str]) -> Witness | None:
        value = self._value(values)
        if value is None or not self._fits(values):
            return None
        return Witness(value, {name: values[name] for name in names}, self.strided)
