"""The words of a declaration: what the inputs, outputs, sizes and workloads of a kernel are said to be."""

from __future__ import annotations

from kgate.contract.dtypes import DTYPES
from kgate.contract.errors import DeclarationError, raise_all, suggestion
from kgate.contract.layouts import LAYOUTS
from kgate.contract.records import Record
from kgate.contract.shapes import AxisExpr, parse_length, parse_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Value = int | float | bool | str | None

TF32 = "tf32"
ABSOLUTE = "absolute"
NAN_RULES = ("propagate", "ignore", "unspecified")
SCALAR_KINDS = ("int", "float", "bool")


LARGEST = 2**63 - 1
"""The largest size that a tensor can have."""


class Dim(Record):
    """The range of a size; both ends are included."""

    __slots__ = ("hi", "lo")
    lo: int
    """Smallest size, 0 or more."""
    hi: int
    """Largest size."""

    def __init__(self, lo: int, hi: int) -> None:
        self._set(lo=lo, hi=hi)
        if type(lo) is not int or type(hi) is not int:
            example = f"Dim({_whole(lo, 0)}, {_whole(hi, 4096)})"
            raise_all([_wrong("bad-range", f"a range is two whole numbers, not {lo!r}, {hi!r}", (), example)])
        if lo < 0:
            raise_all([_wrong("bad-range", f"a size cannot be {lo}", ("lo",), f"Dim(0, {hi})")])
        if hi > LARGEST:
            message = "a size is at most 2**63 - 1, what a 64-bit integer holds"
            raise_all([_wrong("bad-range", message, ("hi",), f"Dim({min(lo, LARGEST)}, 2**63 - 1)")])
        if lo > hi:
            raise_all([_wrong("empty-range", f"no size is within {lo}..{hi}", (), f"Dim({hi}, {lo})")])


def _whole(value: object, otherwise: int) -> int:
    """The whole number that was written in another way (`3e2`, `"256"`); else a stand-in."""
    if isinstance(value, (int, float, str)):
        try:
            number = float(value)
        except ValueError:
            return otherwise
        return int(number) if number == number // 1 and 0 <= number <= LARGEST else otherwise
    return otherwise


class Numerics(Record):
    """How exact an output has to be, in terms of how it is computed."""

    __slots__ = ("acc", "c", "magnitude", "nan", "reduce", "roundings", "signed_zero")
    reduce: str
    """Number of terms that are summed for one element, as an expression of dims; empty for no reduction."""
    acc: str
    """Dtype that sums are accumulated in; `tf32` for float32 sums of products of float32 rounded to tf32."""
    roundings: int
    """How often an intermediate result is rounded to the storage dtype."""
    c: float
    """Factor on the allowed error, for what the other fields cannot say."""
    magnitude: float | str | None
    """Magnitude of the terms that cancel out: a number, or `absolute` for what the reference gives on the absolute
    values of the inputs (of a matrix product, the sum of its terms' magnitudes); None where the largest result of
    the row is the yardstick."""
    nan: str
    """`propagate` (as the reference), `ignore` (NaN inputs are never tried), `unspecified` (any result)."""
    signed_zero: bool
    """Whether the sign of a zero is part of the promise."""

    def __init__(
        self,
        reduce: str = "",
        acc: str = "float32",
        roundings: int = 0,
        c: float = 1.0,
        magnitude: float | str | None = None,
        nan: str = "propagate",
        signed_zero: bool = False,
    ) -> None:
        self._set(
            reduce=reduce,
            acc=acc,
            roundings=roundings,
            c=c,
            magnitude=magnitude,
            nan=nan,
            signed_zero=signed_zero,
        )
        raise_all(_numerics_mistakes(self))

    @property
    def terms(self) -> AxisExpr | None:
        """The reduction length as an expression; None without a reduction."""
        return parse_length(self.reduce) if self.reduce else None


def _numerics_mistakes(numerics: Numerics) -> list[DeclarationError]:
    errors = []
    if numerics.reduce:
        errors += _mistakes_of(parse_length, numerics.reduce, "reduce")
    if numerics.acc not in (*DTYPES, TF32):
        errors.append(_unknown("dtype", numerics.acc, DTYPES, ("acc",)))
    if not _is_count(numerics.roundings):
        errors.append(_wrong("bad-numerics", f"roundings is a count, not {numerics.roundings!r}", ("roundings",), "0"))
    if not _is_positive(numerics.c):
        errors.append(_wrong("bad-numerics", f"c is a positive factor, not {numerics.c!r}", ("c",), "c=1.0"))
    if numerics.magnitude not in (None, ABSOLUTE) and not _is_positive(numerics.magnitude):
        message = f"magnitude is a positive number or {ABSOLUTE!r}, not {numerics.magnitude!r}"
        errors.append(_wrong("bad-numerics", message, ("magnitude",), "magnitude=1.0"))
    if numerics.nan not in NAN_RULES:
        message = f"there is no rule {numerics.nan!r} for NaN"
        errors.append(DeclarationError("bad-numerics", message, ("nan",), suggestion(str(numerics.nan), NAN_RULES)))
    return errors


class Tensor(Record):
    """A tensor: its axes, its dtype, and what the kernel asks of its layout."""

    __slots__ = ("_axes", "dtype", "layout", "mutated", "numerics", "optional", "shape")
    shape: str
    """Axis string, such as `"M N"`; canonical."""
    dtype: str
    """A dtype (`"float32"`) or one of the envelope's dtype variables (`"T"`)."""
    optional: bool
    """Whether None may be passed (or, of an output, returned)."""
    mutated: bool
    """Whether the launcher writes to it; what it writes is then part of the promise."""
    layout: str
    """A name from `LAYOUTS`."""
    numerics: Numerics | None
    """How exact it has to be: of an output, of what is written in place, or of an input's gradient."""
    _axes: tuple[AxisExpr, ...]

    def __init__(
        self,
        shape: str,
        dtype: str,
        *,
        optional: bool = False,
        mutated: bool = False,
        layout: str = "any",
        numerics: Numerics | None = None,
    ) -> None:
        errors = _mistakes_of(parse_shape, shape, "shape")
        axes = () if errors else parse_shape(shape)
        self._set(
            shape=" ".join(axis.text for axis in axes),
            dtype=dtype,
            optional=optional,
            mutated=mutated,
            layout=layout,
            numerics=numerics,
            _axes=axes,
        )
        raise_all([*errors, *_tensor_mistakes(self)])

    @property
    def axes(self) -> tuple[AxisExpr, ...]:
        """The size of each axis, as expressions."""
        return self._axes

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self._axes)


def _tensor_mistakes(tensor: Tensor) -> list[DeclarationError]:
    errors = []
    if not isinstance(tensor.dtype, str) or not tensor.dtype.isidentifier():
        remedy = "name a dtype, or a variable of the envelope's dtypes"
        errors.append(DeclarationError("unknown-dtype", f"{tensor.dtype!r} is no dtype", ("dtype",), remedy))
    layout = LAYOUTS.get(tensor.layout) if isinstance(tensor.layout, str) else None
    if layout is None:
        errors.append(_unknown("layout", tensor.layout, LAYOUTS, ("layout",)))
    elif layout.ranks and tensor.rank not in layout.ranks:
        message = f"layout {layout.name!r} needs {_either(layout.ranks)} axes, not {tensor.rank}"
        errors.append(DeclarationError("layout-rank", message, ("layout",), "choose another layout"))
    errors += _flag_mistakes(optional=tensor.optional, mutated=tensor.mutated)
    numerics: object = tensor.numerics
    if numerics is not None and not isinstance(numerics, Numerics):
        message = f"numerics is a Numerics, not {type(numerics).__name__}"
        errors.append(_wrong("bad-numerics", message, ("numerics",), "numerics=Numerics(reduce=...)"))
    return errors


class Scalar(Record):
    """A number that is passed by value."""

    __slots__ = ("hi", "kind", "lo", "optional")
    kind: str
    """`int`, `float` (an int will do as well) or `bool`."""
    lo: float | None
    """Smallest value; None for no limit."""
    hi: float | None
    """Largest value; None for no limit."""
    optional: bool
    """Whether None may be passed."""

    def __init__(
        self,
        kind: str = "float",
        lo: float | None = None,
        hi: float | None = None,
        *,
        optional: bool = False,
        **unknown: object,
    ) -> None:
        self._set(kind=kind, lo=lo, hi=hi, optional=optional)
        raise_all([*_unknown_parameters("Scalar", unknown), *_scalar_mistakes(self)])

    def accepts(self, value: object) -> bool:
        """Whether a run-time value is within the promise."""
        if value is None:
            return self.optional
        if self.kind == "bool":
            return isinstance(value, bool)
        numbers = int if self.kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, numbers):
            return False
        return (self.lo is None or value >= self.lo) and (self.hi is None or value <= self.hi)


def _scalar_mistakes(scalar: Scalar) -> list[DeclarationError]:
    if scalar.kind not in SCALAR_KINDS:
        return [_unknown("kind of scalar", scalar.kind, SCALAR_KINDS, ("kind",), code="unknown-scalar")]
    errors = _flag_mistakes(optional=scalar.optional)
    ends = [end for end in (scalar.lo, scalar.hi) if end is not None]
    wanted = (int,) if scalar.kind == "int" else (int, float)
    if ends and scalar.kind == "bool":
        errors.append(_wrong("bad-range", "a bool has no range", (), 'Scalar("bool")'))
    elif any(isinstance(end, bool) or not isinstance(end, wanted) for end in ends):
        message = f"the range {scalar.lo!r}..{scalar.hi!r} is not one of {scalar.kind}s"
        errors.append(_wrong("bad-range", message, (), f'Scalar("{scalar.kind}", 0, 1)'))
    elif len(ends) == 2 and not ends[0] <= ends[1]:
        message = f"no value is within {ends[0]}..{ends[1]}"
        errors.append(_wrong("empty-range", message, (), f'Scalar("{scalar.kind}", {ends[1]}, {ends[0]})'))
    return errors


class Choice(Record):
    """A parameter with a fixed set of values: a mode, a flag, a block size."""

    __slots__ = ("_pairs", "values")
    values: tuple[Value, ...]
    """What may be passed; the first is taken where a workload does not say."""
    _pairs: frozenset[tuple[type, Value]]

    def __init__(self, *values: Value, **unknown: object) -> None:
        errors = [*_unknown_parameters("Choice", unknown), *_choice_mistakes(values)]
        pairs = frozenset() if errors else frozenset((type(value), value) for value in values)
        self._set(values=values, _pairs=pairs)
        raise_all(errors)

    def accepts(self, value: object) -> bool:
        """Whether a run-time value is one of the choices; True is not 1, and a str enum's member is its value."""
        if isinstance(value, str):
            return (str, str.__str__(value)) in self._pairs
        kind = type(value)
        return kind in _CHOICE_TYPES and (kind, value) in self._pairs

    def numbers(self) -> bool:
        """Whether all its values are integers, so that expressions can compute with it."""
        return all(type(value) is int for value in self.values)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.values))})"

    def replace(self, **changes: object) -> Choice:
        values = changes.pop("values", self.values)
        return Choice(*values, **changes)  # type: ignore[misc]


_CHOICE_TYPES = (str, bool, int, float, type(None))


def _choice_mistakes(values: Sequence[object]) -> list[DeclarationError]:
    if not values:
        return [_wrong("empty-choice", "a Choice needs its values", ("values",), 'Choice("sum", "mean")')]
    errors = []
    if len(values) == 1 and isinstance(values[0], (tuple, list, set)):
        return [_wrong("bad-choice", "the values are given one by one", ("values",), "Choice(*VALUES)")]
    seen: list[tuple[type, object]] = []
    for at, value in enumerate(values):
        if type(value) not in _CHOICE_TYPES:
            message = f"{value!r} is not a string, a number, True, False or None"
            errors.append(_wrong("bad-choice", message, (str(at),), 'Choice("sum", "mean")'))
        elif (type(value), value) in seen:
            remedy = "name every value once"
            errors.append(DeclarationError("duplicate-name", f"{value!r} is there twice", (str(at),), remedy))
        seen.append((type(value), value))
    return errors


class ListOf(Record):
    """A list or tuple of tensors that all fit one description."""

    __slots__ = ("_axis", "element", "length", "optional")
    element: Tensor
    """What each of them is; dims mean the same size in all of them."""
    length: str
    """How many there are: a dim of the envelope, or an expression of dims."""
    optional: bool
    """Whether None may be passed for the whole list."""
    _axis: AxisExpr | None

    def __init__(self, element: Tensor, length: str, *, optional: bool = False, **unknown: object) -> None:
        errors = _unknown_parameters("ListOf", unknown)
        given: object = element
        if not isinstance(given, Tensor):
            errors.append(_wrong("bad-list", "a list is one of tensors", ("element",), 'ListOf(Tensor("M", "T"), "L")'))
        elif given.optional:
            message = "an element cannot be optional"
            errors.append(_wrong("bad-list", message, ("element",), "ListOf(..., optional=True) for the list"))
        wrong = _mistakes_of(parse_length, length, "length")
        errors += [*wrong, *_flag_mistakes(optional=optional)]
        axis = None if wrong else parse_length(length)
        text = axis.text if axis else length
        self._set(element=element, length=text, optional=optional, _axis=axis)
        raise_all(errors)

    @property
    def axis(self) -> AxisExpr:
        """The length as an expression."""
        return self._axis or parse_length(self.length)

    @property
    def mutated(self) -> bool:
        """Whether the launcher writes to the tensors."""
        return self.element.mutated


class Offsets(Record):
    """Where each sequence of a packed batch starts: a 1-d tensor of ascending integers, from 0 to `total`.

    That its values ascend shapes the generated inputs and never the dispatch, which looks at no value.
    """

    __slots__ = ("_axes", "dtype", "optional", "shape", "total")
    shape: str
    """Its one axis, such as `"B+1"` for B sequences."""
    total: str
    """The last value, as an expression of dims (the packed length); empty where nothing is promised of it."""
    dtype: str
    """`int32`, `int64`, or a dtype variable over them."""
    optional: bool
    """Whether None may be passed."""
    _axes: tuple[AxisExpr, ...]

    def __init__(
        self,
        shape: str,
        total: str = "",
        *,
        dtype: str = "int64",
        optional: bool = False,
        **unknown: object,
    ) -> None:
        errors = [*_unknown_parameters("Offsets", unknown), *_mistakes_of(parse_length, shape, "shape")]
        axes = () if errors else (parse_length(shape),)
        if total:
            errors += _mistakes_of(parse_length, total, "total")
        if not isinstance(dtype, str) or not dtype.isidentifier() or (dtype in DTYPES and dtype not in INDEX_DTYPES):
            message = f"offsets are int32 or int64, not {dtype!r}"
            errors.append(_wrong("offsets-dtype", message, ("dtype",), 'dtype="int64"'))
        errors += _flag_mistakes(optional=optional)
        text = axes[0].text if axes else str(shape)
        self._set(shape=text, total=total, dtype=dtype, optional=optional, _axes=axes)
        raise_all(errors)

    @property
    def axes(self) -> tuple[AxisExpr, ...]:
        """The size of its one axis."""
        return self._axes

    @property
    def rank(self) -> int:
        """Always 1."""
        return 1

    @property
    def mutated(self) -> bool:
        """Never."""
        return False

    @property
    def layout(self) -> str:
        """Any; a kernel that needs them packed says `stride(offsets, 0) == 1`."""
        return "any"


INDEX_DTYPES = ("int32", "int64")


class Ignore(Record):
    """An output that is not part of the promise (saved statistics, a workspace)."""

    __slots__ = ()


class Workload(Record):
    """A case written down on purpose: sizes, dtypes and choices from a real model, or an awkward one.

    `Workload(M=4096, N=4096, T="bfloat16", source="Llama-3-8B, prefill of 4,096 tokens")`
    """

    __slots__ = ("absent", "layouts", "source", "values")
    values: dict[str, Value]
    """Size of each dim, dtype of each dtype variable, value of the choices and scalars that it sets."""
    source: str
    """Where it is from: the model or trace, or what makes it awkward."""
    layouts: dict[str, str]
    """How the tensors lie that are not contiguous, by input: `{"x": "transposed"}`."""
    absent: tuple[str, ...]
    """Optional inputs that are left out."""

    def __init__(
        self,
        *,
        source: str = "",
        layouts: Mapping[str, str] | None = None,
        absent: Sequence[str] = (),
        **values: Value,
    ) -> None:
        errors = []
        given: object = source
        if not isinstance(given, str):
            errors.append(_wrong("bad-workload", "source is a string", ("source",), 'source="Llama-3-8B, decode"'))
        if isinstance(absent, str) or not all(isinstance(name, str) for name in absent):
            errors.append(_wrong("bad-workload", "absent is a tuple of names", ("absent",), 'absent=("weight",)'))
        if layouts is not None and not _is_text_map(layouts):
            message = "layouts maps inputs to layouts"
            errors.append(_wrong("bad-workload", message, ("layouts",), 'layouts={"x": "transposed"}'))
        for name, value in values.items():
            if type(value) not in _CHOICE_TYPES:
                message = f"{value!r} is not a size, a dtype's name or a choice"
                errors.append(DeclarationError("bad-workload", message, (name,), "write a number or a string"))
        self._set(values=dict(values), source=source, layouts={}, absent=())
        raise_all(errors)
        self._set(layouts=dict(layouts or {}), absent=tuple(absent))

    def replace(self, **changes: object) -> Workload:
        values = changes.pop("values", self.values)
        fields: dict[str, object] = {
            "source": self.source,
            "layouts": self.layouts,
            "absent": self.absent,
            **changes,
        }
        return Workload(**fields, **values)  # type: ignore[arg-type]


Input = Tensor | Scalar | Choice | ListOf | Offsets
Output = Tensor | ListOf | Ignore
INPUT_TYPES = (Tensor, Scalar, Choice, ListOf, Offsets)
OUTPUT_TYPES = (Tensor, ListOf, Ignore)


def _wrong(code: str, message: str, where: tuple[str, ...], example: str) -> DeclarationError:
    return DeclarationError(code, message, where, f"write {example}")


def _unknown(
    what: str,
    word: object,
    known: Mapping[str, object] | Sequence[str],
    where: tuple[str, ...],
    code: str = "",
) -> DeclarationError:
    return DeclarationError(
        code or f"unknown-{what}", f"there is no {what} {word!r}", where, suggestion(str(word), known)
    )


def _unknown_parameters(owner: str, unknown: Mapping[str, object]) -> list[DeclarationError]:
    """Mistakes for keywords that a word does not have; `mutated` has its own, since only tensors can be."""
    errors = []
    for name in unknown:
        if name == "mutated":
            message = f"a {owner} is not a tensor and cannot be mutated"
            errors.append(DeclarationError("mutated-non-tensor", message, (name,), "drop it, or declare a Tensor"))
        else:
            errors.append(DeclarationError("unknown-parameter", f"{owner} has no {name!r}", (name,), "drop it"))
    return errors


def _flag_mistakes(**flags: object) -> list[DeclarationError]:
    return [
        DeclarationError("bad-flag", f"{name} is True or False, not {value!r}", (name,), f"write {name}=True")
        for name, value in flags.items()
        if not isinstance(value, bool)
    ]


def _mistakes_of(parse: object, text: str, *where: str) -> list[DeclarationError]:
    try:
        parse(text)  # type: ignore[operator]
    except DeclarationError as error:
        return [error.under(*where)]
    return []


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))
