"""Case ids: written so that a person reads them, and read back so that any of them can be run again."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kgate.cases.layouts import LAYOUTS
from kgate.cases.records import FALLBACK, KERNEL, Case
from kgate.contract.dtypes import DTYPES
from kgate.contract.vocabulary import LARGEST, Choice, Scalar

if TYPE_CHECKING:
    from kgate.cases.space import Space

ABSENT = "absent"
VALUES = ("normal", "mean300", "low", "equal", "outlier", "zeros", "negative")
"""Distributions of input values that cases can name; the worker's generator knows what they mean."""
_WORDS = {"True": True, "False": False, "None": None}


class CaseError(ValueError):
    """A case id that cannot be read: ``message`` names the part, ``remedy`` what could stand there."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"


def case_id(space: Space, case: Case) -> str:
    """The readable, stable name of a case: sizes, dtypes, and whatever differs from the defaults."""
    parts = [f"{name}={size}" for name, size in case.dims.items()]
    parts += [f"{k}={v}" for k, v in case.dtypes.items() if len(space.dtypes[k]) > 1 or v not in space.dtypes[k]]
    for name in space.inputs:
        if name in case.absent:
            parts.append(f"{name}={ABSENT}")
        elif name in case.layouts:
            parts.append(f"{name}={case.layouts[name]}")
        elif name in case.choices and case.choices[name] != space.default_choices.get(name, _NOTHING):
            parts.append(f"{name}={_written(case.choices[name])}")
    if case.values != "normal":
        parts.append(f"{_key(space, 'values')}={case.values}")
    if case.seed:
        parts.append(f"{_key(space, 'seed')}={case.seed}")
    return ",".join(parts) or "default"


def parse_case(declaration: Any, text: str) -> Case:
    """The case that ``text`` names; what it leaves out takes the envelope's defaults.

    ``declaration`` needs ``identity``, ``envelope`` and ``workloads``. The path that must serve the case is worked
    out from the envelope. Raises :class:`CaseError` for an unknown name, a size that is no number, a dtype or layout
    that does not exist.
    """
    from kgate.cases.space import Space

    space = Space(declaration)
    found: dict[str, dict[str, Any]] = {"dims": {}, "dtypes": {}, "layouts": {}, "choices": {}, "absent": {}, "": {}}
    given: dict[str, str] = {}
    for part in text.split(","):
        if part.strip() and part.strip() != "default":
            _take(space, part.strip(), found, given)
    return _complete(space, found)


def _complete(space: Space, found: dict[str, dict[str, Any]]) -> Case:
    attributes: dict[str, Any] = {
        "dtypes": found["dtypes"],
        "layouts": found["layouts"],
        "choices": found["choices"],
        "absent": tuple(found["absent"]),
    }
    named = found["dims"]
    dims = named if len(named) == len(space.dims) else space.fit(named, **attributes)
    dims = dims or {**space.default_dims, **named}
    reasons = space.broken(space.case(dims, **attributes))
    case = space.case(
        dims,
        **attributes,
        **found[""],
        expect=FALLBACK if reasons else KERNEL,
        reason=reasons[0] if reasons else "",
        purpose="asked for by name",
        origin="outside" if reasons else "edge",
    )
    _check_layouts(space, case)
    return case


def _check_layouts(space: Space, case: Case) -> None:
    for name in space.tensors:
        try:
            space.geometry(name, case)
        except (ValueError, ZeroDivisionError) as error:
            message = f"input {name!r} cannot be made for {case.id}: {error}"
            raise CaseError(message, "choose another layout or other sizes") from None


def _take(space: Space, part: str, found: dict[str, dict[str, Any]], given: dict[str, str]) -> None:
    name, sign, value = (piece.strip() for piece in part.partition("="))
    if not sign:
        raise CaseError(f"{part!r} is not of the form NAME=VALUE", "write parts such as N=127, separated by commas")
    if name in given:
        raise CaseError(f"{name} is there twice, as {given[name]} and as {value}", "keep one of them")
    given[name] = value
    if name in space.dims:
        found["dims"][name] = _size(name, value)
    elif name in space.dtypes:
        found["dtypes"][name] = _one_of("dtype", name, value, DTYPES)
    elif name in space.tensors:
        _take_tensor(name, value, found)
    elif name in space.inputs:
        found["choices"][name] = _read(space.inputs[name], name, value)
    elif name == _key(space, "values"):
        found[""]["values"] = _one_of("value distribution", name, value, VALUES)
    elif name == _key(space, "seed"):
        found[""]["seed"] = _size(name, value)
    else:
        known = [*space.dims, *space.dtypes, *space.inputs, "values", "seed"]
        raise CaseError(f"{name!r} is no dim, dtype variable or input of {space.identity}", _hint(name, known))


def _take_tensor(name: str, value: str, found: dict[str, dict[str, Any]]) -> None:
    if value == ABSENT:
        found["absent"][name] = True
    else:
        found["layouts"][name] = _one_of("layout", name, value, (*LAYOUTS, ABSENT))


def _size(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise CaseError(f"{name}={value}: {name} takes a whole number, 0 or more", f"write {name}=127")
    if len(value) > _DIGITS or int(value) > LARGEST:
        shown = value if len(value) <= 2 * _DIGITS else f"{value[:_DIGITS]}..."
        raise CaseError(f"{name}={shown}: no tensor can have that size", "name a size up to 2**63 - 1")
    return int(value)


def _one_of(what: str, name: str, value: str, known: Iterable[str]) -> str:
    options = list(known)
    if value not in options:
        raise CaseError(f"{name}={value}: there is no {what} {value!r}", _hint(value, options))
    return value


def _hint(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"


def _read(item: Any, name: str, value: str) -> Any:
    text = value.replace("%2C", ",").replace("%3D", "=").replace("%25", "%")
    if isinstance(item, Choice):
        return next((known for known in item.values if _written(known) == value), _literal(text))
    if isinstance(item, Scalar):
        read = _literal(text)
        if isinstance(read, str):
            raise CaseError(f"{name}={value}: {name} takes a number", f"write {name}=1")
        return float(read) if item.kind == "float" and isinstance(read, int) and type(read) is not bool else read
    return text


def _literal(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _written(value: Any) -> str:
    return str(value).replace("%", "%25").replace(",", "%2C").replace("=", "%3D")


def _key(space: Space, word: str) -> str:
    """``values`` or ``seed``, marked where the kernel has a parameter or dim of that name."""
    taken = word in space.dims or word in space.dtypes or word in space.inputs
    return f"@{word}" if taken else word


_DIGITS = len(str(LARGEST))
_NOTHING = object()
