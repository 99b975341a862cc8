"""What is wrong with a declaration: one error per mistake, each with its place and its remedy."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType
    from typing import Any, NoReturn


class DeclarationError(ValueError):
    """A mistake in a declaration.

    All mistakes of one object are collected: the first is raised and carries the rest in `others`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        where: Sequence[str] = (),
        remedy: str = "",
        others: Sequence[DeclarationError] = (),
        *,
        column: int | None = None,
        location: str = "",
    ) -> None:
        super().__init__(code, message, tuple(where), remedy, tuple(others))
        self.code = code
        """Stable name of the mistake, for example `unknown-dtype`."""
        self.message = message
        """One sentence on what is wrong."""
        self.where = tuple(where)
        """Path inside the object that was being built, for example `("dims", "M")`."""
        self.remedy = remedy
        """What to write instead."""
        self.others = tuple(others)
        """The further mistakes of the same object."""
        self.column = column
        """Column, from 1, inside the where-expression or axis string; None for other mistakes."""
        self.location = location
        """`file:line` of the code that made the declaration; empty where it is not known."""

    def all(self) -> tuple[DeclarationError, ...]:
        """This mistake and the others, each without `others` of its own."""
        return (self.under(), *self.others)

    def under(self, *prefix: str) -> DeclarationError:
        """The same mistake seen from an enclosing object: `where` gets the prefix, `others` are dropped."""
        return DeclarationError(
            self.code,
            self.message,
            (*prefix, *self.where),
            self.remedy,
            column=self.column,
            location=self.location,
        )

    def __str__(self) -> str:
        lines = [_sentence(error) for error in self.all()]
        head = f"{self.location}: " if self.location else ""
        return head + "\n  also: ".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"column": self.column, "location": self.location}
        return DeclarationError, (self.code, self.message, self.where, self.remedy, self.others), state


def _sentence(error: DeclarationError) -> str:
    place = f"{'.'.join(error.where)}: " if error.where else ""
    remedy = f"; {error.remedy}" if error.remedy else ""
    return f"{place}{error.message}{remedy} [{error.code}]"


def raise_all(errors: Iterable[DeclarationError], location: str = "") -> None:
    """Raise the first of the mistakes with the rest as its `others`; do nothing where there is none."""
    flat = [single for error in errors for single in error.all()]
    if not flat:
        return
    fail(flat[0], flat[1:], location)


def fail(first: DeclarationError, others: Sequence[DeclarationError] = (), location: str = "") -> NoReturn:
    """Raise one mistake, told where in the user's code it was made."""
    raise DeclarationError(
        first.code,
        first.message,
        first.where,
        first.remedy,
        others,
        column=first.column,
        location=location or first.location or caller_location(),
    ) from None


def caller_location() -> str:
    """`file:line` of the nearest frame outside the contract; empty where that is kgate, reading source."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("kgate.contract"):
            inside = module == "kgate" or module.startswith("kgate.")
            return "" if inside else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """A remedy that names the closest candidate, or else all of them; empty without any."""
    from difflib import get_close_matches

    names = sorted(set(candidates))
    common = _COMMON_NAMES.get(word)
    close = [common] if common in names else get_close_matches(word, names, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    return "use one of " + ", ".join(names) if names else ""


_COMMON_NAMES = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "int": "int32",
    "long": "int64",
}


class DeclarationWarning(UserWarning):
    """What is wrong with a declaration and does not keep it from working, such as an unknown target."""
