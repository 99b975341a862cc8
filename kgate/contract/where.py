"""The where-language: conditions that an envelope sets, readable by people and evaluable by anybody.

The grammar is published in docs/declaration.md. Parsing is kgate's own, so that what is accepted here is
exactly what is published, and nothing of Python's leaks in. Every expression can be evaluated, rendered as
canonical text, and rendered as Python source for the generated run-time check.

What is not known (the stride of an optional tensor that was left out, a size nobody gave) makes a comparison
neither true nor false; a condition fails only where it is certainly false. A division by zero makes the whole
condition false.
"""

from __future__ import annotations

from kgate.contract.errors import DeclarationError, suggestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import NoReturn, Protocol

    Value = int | float | bool | str | None

    class TensorLike(Protocol):
        """What an expression may ask of a tensor; None stands for what is not known."""

        @property
        def strides(self) -> Sequence[int] | None: ...
        @property
        def dtype(self) -> str | None: ...
        @property
        def align(self) -> int | None: ...

    class Atoms(Protocol):
        """How the generated check spells what an expression refers to."""

        def name(self, name: str) -> str: ...
        def call(self, function: str, tensor: str, index: int | None) -> str: ...
        def unknown(self, leaf: Expr) -> str: ...


TENSOR_FUNCTIONS = ("stride", "align", "dtype", "present")
NUMBER_FUNCTIONS = ("min", "max", "cdiv")
KEYWORDS = ("and", "or", "not", "True", "False", "None")
RESERVED = frozenset((*TENSOR_FUNCTIONS, *NUMBER_FUNCTIONS, *KEYWORDS))
"""Words that no dim, dtype variable or choice may have as its name."""

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_SYMBOLS = ("**", "//", "<=", ">=", "==", "!=", "+", "-", "*", "%", "<", ">", "(", ")", ",")
_STRENGTH = {
    "or": 1,
    "and": 2,
    "not": 3,
    "compare": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "//": 6,
    "%": 6,
    "neg": 7,
    "**": 8,
}
_ATOM = 9
_MAX_LENGTH = 2000
_MAX_DEPTH = 40
_MAX_POWER = 64


class Expr:
    """A node of an expression; what `parse` returns is the topmost one."""

    __slots__ = ("column",)
    column: int
    """Where it starts in the text, from 1."""

    def children(self) -> tuple[Expr, ...]:
        """The expressions directly inside this one."""
        return ()

    def walk(self) -> Iterator[Expr]:
        """This expression and all inside it, outermost first."""
        yield self
        for child in self.children():
            yield from child.walk()

    def names(self) -> frozenset[str]:
        """Dims, choices and scalars that are referred to by their bare names."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Name))

    def tensors(self) -> frozenset[str]:
        """Tensors that are asked for a stride, an alignment, a dtype or their presence."""
        return frozenset(node.tensor for node in self.walk() if isinstance(node, Ask))

    def asked(self) -> tuple[tuple[str, str, int | None], ...]:
        """Every (function, tensor, axis) that is asked; the axis is None for all but `stride`."""
        return tuple((node.function, node.tensor, node.index) for node in self.walk() if isinstance(node, Ask))

    def divides(self) -> bool:
        """Whether evaluating can meet a division by zero: some divisor is not a positive constant."""
        return any(not (isinstance(d, Literal) and d.value) for node in self.walk() for d in node.divisors())

    def divisors(self) -> tuple[Expr, ...]:
        """What this very node divides by."""
        return ()

    def evaluate(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None] | None = None) -> Value:
        """Value for these sizes, choices and scalars; None where it depends on what is not known.

        What is missing in `env` is not known, and neither is a tensor that is missing in `tensors`; a tensor
        that is None there was left out. Raises ZeroDivisionError for a division by zero.
        """
        known = {} if tensors is None else tensors
        return None if self.unknown(env, known) else self.compute(env, known)

    def unknown(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        """Whether the value depends on what is not known."""
        return any(node.unknown_here(env, tensors) for node in self.walk())

    def unknown_here(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        """Whether this very node refers to what is not known."""
        return False

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        """Value where everything it depends on is known."""
        raise NotImplementedError

    def may(self, wanted: bool, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        """Whether the condition can have this truth value, given what is known."""
        return self.unknown(env, tensors) or bool(self.compute(env, tensors)) is wanted

    def holds(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None] | None = None) -> bool:
        """Whether the condition is fulfilled: it is not certainly false, and divides by no zero."""
        try:
            return self.may(True, env, tensors or {})
        except ZeroDivisionError:
            return False

    def python(self, atoms: Atoms) -> str:
        """Python source of the value; see `Expr.python_may` for conditions."""
        raise NotImplementedError

    def python_may(self, wanted: bool, atoms: Atoms) -> str:
        """Python source of `may(wanted, ...)`."""
        source = self.python(atoms) if wanted else f"not {self.python(atoms)}"
        unknown = atoms.unknown(self)
        return f"({unknown} or {source})" if unknown else f"({source})"

    def strength(self) -> int:
        """How tightly it binds, for rendering with as few parentheses as can be."""
        return _ATOM

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"


class Literal(Expr):
    """An integer, a string, True, False or None."""

    __slots__ = ("value",)

    def __init__(self, value: Value, column: int) -> None:
        self.value = value
        self.column = column

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        return self.value

    def python(self, atoms: Atoms) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return f'"{self.value}"' if isinstance(self.value, str) else str(self.value)


class Name(Expr):
    """A dim, a choice or a scalar."""

    __slots__ = ("name",)

    def __init__(self, name: str, column: int) -> None:
        self.name = name
        self.column = column

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        return env[self.name]

    def unknown_here(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        return self.name not in env

    def python(self, atoms: Atoms) -> str:
        return atoms.name(self.name)

    def __str__(self) -> str:
        return self.name


class Negative(Expr):
    """`-a`."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expr, column: int) -> None:
        self.operand = operand
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        value = self.operand.compute(env, tensors)
        return -value  # type: ignore[operator]

    def python(self, atoms: Atoms) -> str:
        return f"(-{self.operand.python(atoms)})"

    def strength(self) -> int:
        return _STRENGTH["neg"]

    def __str__(self) -> str:
        return "-" + _inside(self.operand, self.strength())


class Arithmetic(Expr):
    """`a + b`, `a - b`, `a * b`, `a // b` (rounds down), `a % b` (sign of b), `a ** 3`."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, operator: str, left: Expr, right: Expr, column: int) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def divisors(self) -> tuple[Expr, ...]:
        return (self.right,) if self.operator in ("//", "%") else ()

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        return _ARITHMETIC[self.operator](self.left.compute(env, tensors), self.right.compute(env, tensors))

    def python(self, atoms: Atoms) -> str:
        return f"({self.left.python(atoms)} {self.operator} {self.right.python(atoms)})"

    def strength(self) -> int:
        return _STRENGTH[self.operator]

    def __str__(self) -> str:
        own = self.strength()
        if self.operator == "**":
            return f"{_inside(self.left, own + 1)}**{_inside(self.right, own)}"
        return f"{_inside(self.left, own)} {self.operator} {_inside(self.right, own + 1)}"


class Apply(Expr):
    """`min(a, b, ...)`, `max(a, b, ...)`, `cdiv(a, b)`: division that rounds up."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: str, arguments: Sequence[Expr], column: int) -> None:
        self.function = function
        self.arguments = tuple(arguments)
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    def divisors(self) -> tuple[Expr, ...]:
        return (self.arguments[1],) if self.function == "cdiv" else ()

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        values = [argument.compute(env, tensors) for argument in self.arguments]
        if self.function == "cdiv":
            return -(-values[0] // values[1])  # type: ignore[operator]
        return (min if self.function == "min" else max)(values)  # type: ignore[type-var]

    def python(self, atoms: Atoms) -> str:
        sources = [argument.python(atoms) for argument in self.arguments]
        if self.function == "cdiv":
            return f"(-(-{sources[0]} // {sources[1]}))"
        return f"_kg_{self.function}({', '.join(sources)})"

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


class Ask(Expr):
    """What a tensor is asked: `stride(x, 0)`, `align(x)`, `dtype(x)`, `present(x)`."""

    __slots__ = ("function", "index", "tensor")

    def __init__(self, function: str, tensor: str, index: int | None, column: int) -> None:
        self.function = function
        self.tensor = tensor
        self.index = index
        self.column = column

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        tensor = tensors[self.tensor]
        if self.function == "present" or tensor is None:
            return tensor is not None
        if self.function == "stride":
            return None if tensor.strides is None else tensor.strides[self.index or 0]
        return tensor.align if self.function == "align" else tensor.dtype

    def unknown_here(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        if self.tensor not in tensors:
            return True
        tensor = tensors[self.tensor]
        if self.function == "present":
            return False
        if tensor is None or getattr(tensor, _FACTS[self.function]) is None:
            return True
        rank, index = len(tensor.strides or ()), self.index or 0
        return self.function == "stride" and not -rank <= index < rank

    def python(self, atoms: Atoms) -> str:
        return atoms.call(self.function, self.tensor, self.index)

    def __str__(self) -> str:
        return f"{self.function}({self.tensor}{'' if self.index is None else f', {self.index}'})"


class Compare(Expr):
    """`a < b <= c`: every neighbouring pair has to be so."""

    __slots__ = ("first", "rest")

    def __init__(self, first: Expr, rest: Sequence[tuple[str, Expr]], column: int) -> None:
        self.first = first
        self.rest = tuple(rest)
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return (self.first, *(operand for _, operand in self.rest))

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        values = [child.compute(env, tensors) for child in self.children()]
        return all(
            _COMPARE[operator](left, right)
            for (operator, _), left, right in zip(self.rest, values, values[1:], strict=False)
        )

    def python(self, atoms: Atoms) -> str:
        source = self.first.python(atoms)
        for operator, operand in self.rest:
            source += f" {operator} {operand.python(atoms)}"
        return f"({source})"

    def strength(self) -> int:
        return _STRENGTH["compare"]

    def __str__(self) -> str:
        tighter = self.strength() + 1
        tail = "".join(f" {operator} {_inside(operand, tighter)}" for operator, operand in self.rest)
        return _inside(self.first, tighter) + tail


class Not(Expr):
    """`not a`."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expr, column: int) -> None:
        self.operand = operand
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def evaluate(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None] | None = None) -> Value:
        return _truth(self, env, {} if tensors is None else tensors)

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        return _truth(self, env, tensors)

    def may(self, wanted: bool, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        return self.operand.may(not wanted, env, tensors)

    def python(self, atoms: Atoms) -> str:
        return self.python_may(True, atoms)

    def python_may(self, wanted: bool, atoms: Atoms) -> str:
        return self.operand.python_may(not wanted, atoms)

    def strength(self) -> int:
        return _STRENGTH["not"]

    def __str__(self) -> str:
        return "not " + _inside(self.operand, self.strength())


class Junction(Expr):
    """`a and b and ...`, `a or b or ...`; the left one first, the right one only where it matters."""

    __slots__ = ("operands", "word")

    def __init__(self, word: str, operands: Sequence[Expr], column: int) -> None:
        self.word = word
        self.operands = tuple(operands)
        self.column = column

    def children(self) -> tuple[Expr, ...]:
        return self.operands

    def evaluate(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None] | None = None) -> Value:
        return _truth(self, env, {} if tensors is None else tensors)

    def compute(self, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> Value:
        return _truth(self, env, tensors)

    def may(self, wanted: bool, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool:
        # "a and b" may be true if both may be; it may be false if either may be. "or" is the mirror image.
        together = all if (self.word == "and") is wanted else any
        return together(operand.may(wanted, env, tensors) for operand in self.operands)

    def python(self, atoms: Atoms) -> str:
        return self.python_may(True, atoms)

    def python_may(self, wanted: bool, atoms: Atoms) -> str:
        word = " and " if (self.word == "and") is wanted else " or "
        return f"({word.join(operand.python_may(wanted, atoms) for operand in self.operands)})"

    def strength(self) -> int:
        return _STRENGTH[self.word]

    def __str__(self) -> str:
        return f" {self.word} ".join(_inside(operand, self.strength() + 1) for operand in self.operands)


_ARITHMETIC: dict[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
_FACTS = {"stride": "strides", "align": "align", "dtype": "dtype"}
_COMPARE: dict[str, Callable[..., bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _truth(expr: Expr, env: Mapping[str, Value], tensors: Mapping[str, TensorLike | None]) -> bool | None:
    if not expr.may(True, env, tensors):
        return False
    return None if expr.may(False, env, tensors) else True


def _inside(expr: Expr, at_least: int) -> str:
    return str(expr) if expr.strength() >= at_least else f"({expr})"


def bad(message: str, column: int, remedy: str = "") -> DeclarationError:
    """A `bad-where` error at a column (from 1)."""
    return DeclarationError("bad-where", f"column {column}: {message}", remedy=remedy, column=column)


def parse(text: str) -> Expr:
    """Read a condition; raises DeclarationError (`bad-where`) with the column and a remedy."""
    return _Parser(text).whole(_Parser.condition)


def parse_number(text: str) -> Expr:
    """Read an integer expression (an axis, a reduction length); raises like `parse`."""
    return _Parser(text).whole(_Parser.number)


_REMEDIES = {
    "/": 'write "//"; division rounds down',
    "=": 'write "==" to compare',
    "&": 'write "and"',
    "|": 'write "or"',
    "!": 'write "not" or "!="',
    ".": "write stride(x, 0), dtype(x), align(x) or present(x) in place of an attribute, and whole numbers",
    "[": "name the sizes in dims and use their names",
    "~": 'write "not"',
    "^": 'write "**" for powers',
}


class _Parser:
    """Recursive descent over the tokens (kind, text, column)."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise bad(f"a condition is a string, not {type(text).__name__}", 1, 'write where=("M < N",)')
        if len(text) > _MAX_LENGTH:
            raise bad(f"longer than {_MAX_LENGTH} characters", _MAX_LENGTH, "split it into several conditions")
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0

    def whole(self, rule: Callable[[_Parser], Expr]) -> Expr:
        """The expression, which has to be all there is."""
        expr = rule(self)
        if self.kind != "end":
            self.refuse()
        return expr

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    @property
    def column(self) -> int:
        return self.tokens[self.at][2]

    def refuse(self) -> NoReturn:
        if self.kind == "end":
            raise bad("the expression ends too early", self.column, "complete it, or drop the last operator")
        if self.text in ("if", "else", "in", "is", "lambda"):
            raise bad(f'"{self.text}" is not part of the language', self.column, 'use and, or, not, "==", "!="')
        raise bad(f"{self.text!r} does not fit here", self.column, "see the grammar in docs/declaration.md")

    def take(self, *texts: str) -> str | None:
        """The next token's text, if it is one of these symbols or words."""
        if self.kind in ("symbol", "word") and self.text in texts:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def need(self, symbol: str) -> None:
        if not self.take(symbol):
            if self.kind == "end":
                raise bad(f'"{symbol}" is missing', self.column, f'add "{symbol}"')
            raise bad(f'"{symbol}" is missing before {self.text!r}', self.column, f'add "{symbol}"')

    def condition(self) -> Expr:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise bad("nested too deeply", self.column, "split it into several conditions")
        expr = self.junction("or", lambda: self.junction("and", self.negation))
        self.depth -= 1
        return expr

    def junction(self, word: str, inner: Callable[[], Expr]) -> Expr:
        column = self.column
        operands = [inner()]
        while self.take(word):
            operands.append(inner())
        return operands[0] if len(operands) == 1 else Junction(word, operands, column)

    def negation(self) -> Expr:
        column = self.column
        negations = 0
        while self.take("not"):
            negations += 1
        expr = self.comparison()
        for _ in range(negations):
            expr = Not(expr, column)
        return expr

    def comparison(self) -> Expr:
        column = self.column
        first = self.number()
        rest: list[tuple[str, Expr]] = []
        while operator := self.take(*COMPARISONS):
            rest.append((operator, self.number()))
        return Compare(first, rest, column) if rest else first

    def number(self) -> Expr:
        column = self.column
        left = self.product()
        while operator := self.take("+", "-"):
            left = Arithmetic(operator, left, self.product(), column)
        return left

    def product(self) -> Expr:
        column = self.column
        left = self.sign()
        while operator := self.take("*", "//", "%"):
            left = Arithmetic(operator, left, self.sign(), column)
        return left

    def sign(self) -> Expr:
        column = self.column
        if not self.take("-"):
            return self.power()
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise bad("nested too deeply", column, "drop the signs that cancel out")
        expr = Negative(self.sign(), column)
        self.depth -= 1
        return expr

    def power(self) -> Expr:
        column = self.column
        base = self.atom()
        if not self.take("**"):
            return base
        exponent_column = self.column
        exponent = self.atom()
        if not (isinstance(exponent, Literal) and type(exponent.value) is int and exponent.value <= _MAX_POWER):
            raise bad("the exponent is not a small constant", exponent_column, f"write a number up to {_MAX_POWER}")
        return Arithmetic("**", base, exponent, column)

    def atom(self) -> Expr:
        kind, text, column = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return Literal(int(text.replace("_", "")), column)
        if kind == "string":
            self.at += 1
            return Literal(text, column)
        if self.take("("):
            expr = self.condition()
            self.need(")")
            return expr
        if kind != "word" or text in ("and", "or", "not", "if", "else", "in", "is", "lambda"):
            self.refuse()
        self.at += 1
        if text in ("True", "False", "None"):
            return Literal({"True": True, "False": False, "None": None}[text], column)
        return self.call(text, column) if self.take("(") else Name(text, column)

    def call(self, function: str, column: int) -> Expr:
        if function in TENSOR_FUNCTIONS:
            return self.ask(function, column)
        if function not in NUMBER_FUNCTIONS:
            remedy = suggestion(function, (*TENSOR_FUNCTIONS, *NUMBER_FUNCTIONS))
            raise bad(f"there is no function {function!r}", column, remedy)
        arguments = [self.number()]
        while self.take(","):
            arguments.append(self.number())
        self.need(")")
        if len(arguments) < 2 or (function == "cdiv" and len(arguments) != 2):
            wanted = "two arguments" if function == "cdiv" else "two or more arguments"
            raise bad(f"{function} takes {wanted}", column, f"write {function}(M, 128)")
        return Apply(function, arguments, column)

    def ask(self, function: str, column: int) -> Expr:
        remedy = f"write {function}(x, 0)" if function == "stride" else f"write {function}(x)"
        if self.kind != "word" or self.text in KEYWORDS:
            raise bad(f"{function} is asked of an input by its name", self.column, remedy)
        tensor = self.text
        self.at += 1
        index = None
        if function == "stride":
            if not self.take(","):
                raise bad("stride needs an axis", self.column, remedy)
            sign = -1 if self.take("-") else 1
            if self.kind != "number":
                raise bad("the axis of a stride is a constant", self.column, remedy)
            index = sign * int(self.text)
            self.at += 1
        self.need(")")
        return Ask(function, tensor, index, column)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t\r\n":
            at += 1
            continue
        kind, end = _scan(text, at)
        inner = text[at + 1 : end - 1] if kind == "string" else text[at:end]
        tokens.append((kind, inner, at + 1))
        at = end
    return [*tokens, ("end", "", len(text) + 1)]


def _scan(text: str, at: int) -> tuple[str, int]:
    """Kind and end of the token that starts here."""
    char = text[at]
    if char.isascii() and char.isdigit():
        return "number", _number_end(text, at)
    if char.isidentifier():
        end = at + 1
        while end < len(text) and text[at : end + 1].isidentifier():
            end += 1
        return "word", end
    if char in "\"'":
        end = text.find(char, at + 1)
        if end < 0:
            raise bad("the string does not end", at + 1, f"close it with {char}")
        return "string", end + 1
    for symbol in _SYMBOLS:
        if text.startswith(symbol, at):
            return "symbol", at + len(symbol)
    raise bad(f"{char!r} is not part of the language", at + 1, _REMEDIES.get(char, "see the grammar in docs"))


def _number_end(text: str, at: int) -> int:
    end = at
    while end < len(text) and text[end].isascii() and (text[end].isdigit() or text[end] == "_"):
        end += 1
    if end < len(text) and (text[end].isidentifier() or text[end] == "."):
        raise bad(f"{text[at : end + 1]!r} is not a whole number", at + 1, "write whole numbers, such as 65536")
    if end - at > 40:
        raise bad("the number is too long", at + 1, "sizes and strides fit 64 bits")
    return end
