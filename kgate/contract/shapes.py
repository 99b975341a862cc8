"""Axis strings: the shape of a tensor, axis by axis, in terms of the envelope's dims.

`"B H S D"`, `"M N+1"`, `"2*N"`, `"cdiv(N, 128)"`, `"128"`, and `""` for a tensor without axes. The grammar is
published in docs/declaration.md; an axis is an integer expression of the where-language that asks no tensor
anything.
"""

from __future__ import annotations

from kgate.contract.errors import DeclarationError
from kgate.contract.where import Apply, Arithmetic, Expr, Literal, Name, Negative, parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NUMBER_NODES = (Literal, Name, Negative, Arithmetic, Apply)


class AxisExpr:
    """The size of one axis: a dim, a constant, or arithmetic over dims."""

    __slots__ = ("_names", "expr", "text")
    expr: Expr
    """The parsed expression."""
    text: str
    """Canonical text, without spaces outside of parentheses."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.text = _compact(expr)
        self._names = expr.names()

    def names(self) -> frozenset[str]:
        """The dims (and integer parameters) it depends on."""
        return self._names

    @property
    def dim(self) -> str | None:
        """The dim that it is, where it is a plain name."""
        return self.expr.name if isinstance(self.expr, Name) else None

    @property
    def constant(self) -> int | None:
        """Its size, where it depends on nothing."""
        return None if self._names else self.evaluate({})

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """Size of the axis for these dims.

        Raises KeyError for a dim that is missing, ZeroDivisionError for a division by zero.
        """
        missing = self._names - dims.keys()
        if missing:
            raise KeyError(f"size of {', '.join(sorted(missing))} is needed for the axis {self.text}")
        return int(self.expr.evaluate(dims))  # type: ignore[arg-type]

    def solve(
        self, size: int, dims: Mapping[str, int], solvable: Collection[str] | None = None
    ) -> dict[str, int] | None:
        """What a run-time size says about the dims that are not yet known.

        Gives the dims it settles: `{}` where it settles none, or where all are known and the size is right.
        None means that the size cannot be: it differs, or no whole number from 0 fits. Only names in
        `solvable` (None: any) are settled; a name that stands anywhere but in a linear term is not.
        """
        unknown = self._names - dims.keys()
        if not unknown:
            try:
                return {} if self.evaluate(dims) == size else None
            except ZeroDivisionError:
                return None
        name = next(iter(unknown))
        if len(unknown) > 1 or (solvable is not None and name not in solvable) or not linear_in(self.expr, name):
            return {}
        return self._settle(name, size, dims)

    def _settle(self, name: str, size: int, dims: Mapping[str, int]) -> dict[str, int] | None:
        try:
            offset = self.evaluate({**dims, name: 0})
            slope = self.evaluate({**dims, name: 1}) - offset
        except ZeroDivisionError:
            return None
        if slope == 0:
            return {} if offset == size else None
        value, rest = divmod(size - offset, slope)
        return None if rest or value < 0 else {name: value}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"AxisExpr({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxisExpr) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        return _parse_axis, (self.text,)


def linear_in(expr: Expr, name: str) -> bool:
    """Whether an expression is linear in this name, so that a size can be solved for it."""
    if name not in expr.names():
        return True
    if isinstance(expr, Name):
        return True
    if isinstance(expr, Negative):
        return linear_in(expr.operand, name)
    if isinstance(expr, Arithmetic):
        if expr.operator in ("+", "-"):
            return linear_in(expr.left, name) and linear_in(expr.right, name)
        if expr.operator == "*" and not (name in expr.left.names() and name in expr.right.names()):
            return linear_in(expr.left, name) and linear_in(expr.right, name)
    return False


def parse_shape(text: str) -> tuple[AxisExpr, ...]:
    """Read an axis string; raises DeclarationError (`bad-shape`) with the column and a remedy."""
    if not isinstance(text, str):
        raise DeclarationError("bad-shape", f"a shape is a string of axes, not {text!r}", remedy='write it as "M N"')
    return tuple(_parse_axis(piece, start) for piece, start in _pieces(text))


def parse_length(text: str) -> AxisExpr:
    """Read a single axis (a list's length, a reduction's length); raises like `parse_shape`."""
    axes = parse_shape(text)
    if len(axes) != 1:
        raise DeclarationError("bad-shape", f"{text!r} is not one size", remedy='write one size, such as "N"')
    return axes[0]


def _parse_axis(text: str, start: int = 0) -> AxisExpr:
    try:
        expr = parse_number(text)
    except DeclarationError as error:
        raise _bad(text, error.message.partition(": ")[2], start + (error.column or 1), error.remedy) from None
    for node in expr.walk():
        if not isinstance(node, NUMBER_NODES) or (isinstance(node, Literal) and type(node.value) is not int):
            remedy = "axes are built of dims and whole numbers"
            raise _bad(text, f"{node} is not a size", start + node.column, remedy)
    return AxisExpr(expr)


def _bad(text: str, message: str, column: int, remedy: str) -> DeclarationError:
    if text in ("...", "…", "*"):
        remedy = "write one declaration per rank, or flatten the leading axes in the launcher"
        message = "a shape has a fixed number of axes"
    elif "," in text and "(" not in text:
        remedy = 'separate axes by spaces: "M N"'
    return DeclarationError("bad-shape", f"column {column}: {message}", remedy=remedy, column=column)


def _pieces(text: str) -> list[tuple[str, int]]:
    """The axes and where each starts, split at the spaces outside of parentheses."""
    pieces: list[tuple[str, int]] = []
    depth = 0
    start: int | None = None
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char.isspace() and depth <= 0:
            if start is not None:
                pieces.append((text[start:at], start))
            start = None
        elif start is None:
            start = at
    return pieces if start is None else [*pieces, (text[start:], start)]


def _compact(expr: Expr) -> str:
    """Canonical text without spaces, save within the parentheses of a function."""
    text, depth, out = str(expr), 0, []
    for char in text:
        depth += (char == "(") - (char == ")")
        if char != " " or depth > 0:
            out.append(char)
    return "".join(out)
