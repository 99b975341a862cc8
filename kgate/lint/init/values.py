"""What the tracer knows of run-time values (sizes, arrays, dtypes, literals), and the facts that it gathers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Evidence:
    """The place in the code that says so."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}:{self.line} {self.text}"


@dataclass(frozen=True)
class Value:
    """Something of which nothing is known."""


UNKNOWN = Value()


@dataclass(frozen=True)
class Known(Value):
    """A literal, or a parameter of the launcher that has its default."""

    value: Any
    parameter: str = ""
    """The launcher's parameter whose default it is."""

    def __hash__(self) -> int:
        return hash((repr(self.value), self.parameter))


@dataclass(frozen=True)
class Parameter(Value):
    """A parameter of the launcher of which it is not known whether it is a tensor."""

    name: str


@dataclass(frozen=True)
class Size(Value):
    """The size of an axis of an input; -1 is the last axis."""

    root: str
    axis: int


@dataclass(frozen=True)
class Rows(Value):
    """The product of all axes of an input but the last."""

    root: str


@dataclass(frozen=True)
class Count(Value):
    """The number of elements of an input."""

    root: str


@dataclass(frozen=True)
class Formula(Value):
    """Arithmetic on other values: ``+``, ``-``, ``*``, ``//``, ``%``, ``cdiv``, ``min``, ``max``, ``pow2``."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Rank(Value):
    """The number of axes of an input."""

    root: str


@dataclass(frozen=True)
class Dtype(Value):
    """A dtype by name, or that of an input."""

    name: str = ""
    root: str = ""


@dataclass(frozen=True)
class Device(Value):
    """The device of an input, or its kind (``x.device.type``)."""

    root: str
    kind: bool = False


@dataclass(frozen=True)
class Stride(Value):
    """The stride of an axis of an array that is an input; ``axis`` is None for all of them."""

    root: str
    axis: int | None


@dataclass(frozen=True)
class Ask(Value):
    """A yes-or-no question about an input: ``contiguous``, ``cuda``, ``floating``."""

    root: str
    what: str


@dataclass(frozen=True)
class Array(Value):
    """A tensor."""

    root: str = ""
    """The input whose memory it is; empty for a new one."""
    shape: str | tuple[Value, ...] | Items | None = None
    """An input of the same shape, the sizes (with starred parts, where their number is not known yet), or None where
    nothing is known."""
    dtype: Value = UNKNOWN
    dense: bool = False
    """Whether it is contiguous whatever the input was."""
    evidence: Evidence | None = None
    """Where it was made."""


@dataclass(frozen=True)
class Shape(Value):
    """A part of the shape of an array: axes ``start`` to ``stop``, as in a slice."""

    array: Array
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class Items(Value):
    """A tuple or list; an item in ``spread`` is starred."""

    items: tuple[Value, ...]
    spread: tuple[int, ...] = ()


@dataclass(frozen=True)
class Named(Value):
    """A function, class or module of the tree, or something from outside, by its dotted name."""

    symbols: tuple[str, ...] = ()
    external: str = ""


@dataclass(frozen=True)
class Local(Value):
    """A function or lambda inside a function, with the place it stands in."""

    node: Any = field(compare=False, hash=False)


@dataclass
class Launched:
    """One launch of a device function."""

    device: str
    evidence: Evidence
    layouts: dict[str, str] = field(default_factory=dict)
    """Input to what this launch asks of its layout: ``any``, ``inner_contiguous`` or ``contiguous``."""


@dataclass
class Facts:
    """Everything that one trace of a launcher found out."""

    ranks: dict[str, list[tuple[int, Evidence]]] = field(default_factory=dict)
    """Input to numbers of axes that the code insists on, the first being the first in the code."""
    soft_ranks: dict[str, list[tuple[int, Evidence]]] = field(default_factory=dict)
    """Input to numbers of axes that the code can do with, among others."""
    names: list[tuple[Value, str, int]] = field(default_factory=list)
    """Sizes, the local names given to them, and the frame (a function's run) that did."""
    same: list[tuple[Value, Value, Evidence]] = field(default_factory=list)
    """Sizes that have to be equal."""
    same_shape: list[tuple[str, str, Evidence]] = field(default_factory=list)
    caps: list[tuple[Value, int, Evidence]] = field(default_factory=list)
    """Sizes and the largest value that they may have."""
    limits: list[tuple[Value, int, Evidence]] = field(default_factory=list)
    """Sizes and the largest value that the grid can have."""
    floors: list[tuple[Value, int, Evidence]] = field(default_factory=list)
    members: list[tuple[Value, tuple[int, ...], Evidence]] = field(default_factory=list)
    """Sizes and the values that they may have."""
    multiples: list[tuple[Value, int, Evidence]] = field(default_factory=list)
    covered: list[tuple[Value, Evidence]] = field(default_factory=list)
    """Sizes that device code compares its indices with, or that the grid is made of: any size will do."""
    flat: list[tuple[str, Value, Evidence]] = field(default_factory=list)
    """Inputs that are read as one row of so many elements."""
    alike: list[tuple[str, Array, Evidence]] = field(default_factory=list)
    """Inputs that device code addresses in the same way as another array."""
    whole: list[tuple[Value, bool, Evidence]] = field(default_factory=list)
    """Sizes that a single block has to hold, and whether in a product of matrices."""
    dtypes: dict[str, list[tuple[tuple[str, ...], Evidence]]] = field(default_factory=dict)
    """Input to sets of dtypes that the code insists on."""
    not_dtypes: dict[str, list[tuple[str, Evidence]]] = field(default_factory=dict)
    """Inputs and dtypes that the code refuses."""
    divides: list[tuple[Value, Value, Evidence]] = field(default_factory=list)
    """Sizes that have to be a multiple of another size."""
    grids: list[tuple[Value, Evidence]] = field(default_factory=list)
    """Numbers of programs along the second and third axis of a grid, which end at 65,535."""
    same_dtype: list[tuple[str, str, Evidence]] = field(default_factory=list)
    wide: dict[str, Evidence] = field(default_factory=dict)
    """Inputs whose elements the device code converts to float32."""
    floating: dict[str, Evidence] = field(default_factory=dict)
    """Inputs whose elements have to be floating-point numbers."""
    raw: set[str] = field(default_factory=set)
    """Inputs whose elements go into mathematical functions as they are stored."""
    stride_axes: dict[str, set[int | None]] = field(default_factory=dict)
    """Inputs and the axes whose strides are handed to device code."""
    index: dict[str, Evidence] = field(default_factory=dict)
    """Inputs whose elements are used as indices."""
    tensors: dict[str, Evidence] = field(default_factory=dict)
    """Parameters that are used as tensors."""
    numbers: dict[str, tuple[str, Evidence]] = field(default_factory=dict)
    """Parameters that are numbers, with the kind."""
    literals: dict[str, list[tuple[tuple[Any, ...], Evidence]]] = field(default_factory=dict)
    """Parameters and the literals that the code insists on."""
    axes: dict[str, Evidence] = field(default_factory=dict)
    """Parameters that choose an axis, counted from the end where they are negative."""
    flags: dict[str, Evidence] = field(default_factory=dict)
    """Parameters that a branch depends on."""
    layouts: dict[str, tuple[str, Evidence]] = field(default_factory=dict)
    """Inputs and the layout that the code insists on."""
    dense: dict[str, Evidence] = field(default_factory=dict)
    """Inputs that are made contiguous."""
    strided: dict[str, Evidence] = field(default_factory=dict)
    """Inputs whose strides are handed to the device code."""
    mutated: dict[str, Evidence] = field(default_factory=dict)
    cuda: list[Evidence] = field(default_factory=list)
    launches: list[Launched] = field(default_factory=list)
    returns: list[tuple[Value, Evidence]] = field(default_factory=list)
    backward: Evidence | None = None
    """The ``autograd.Function`` that gives gradients."""
    truncated: bool = False
    """Whether the trace was given up before its end."""
