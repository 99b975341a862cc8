"""The parameters of a launcher, without `inspect` where that can be: it is slow to import."""

from __future__ import annotations

from kgate.contract.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kgate.contract.envelope import Envelope

POSITIONAL_ONLY, ORDINARY, STAR, KEYWORD_ONLY, DOUBLE_STAR = range(5)
REQUIRED: Any = object()
"""Stands for the default of a parameter that has none."""
_VARARGS, _VARKEYWORDS = 0x04, 0x08


class Parameter(Record):
    """One parameter: its name, its kind (as above), and its default or REQUIRED."""

    __slots__ = ("default", "kind", "name")
    name: str
    """Without stars."""
    kind: int
    """POSITIONAL_ONLY, ORDINARY, STAR, KEYWORD_ONLY or DOUBLE_STAR."""
    default: Any
    """The default, or REQUIRED."""

    def __init__(self, name: str, kind: int, default: Any = REQUIRED) -> None:
        self._set(name=name, kind=kind, default=default)


def parameters_of(function: Callable[..., Any], envelope: Envelope) -> tuple[Parameter, ...]:
    """Parameters of a launcher; a binding of compiled code that does not tell has the envelope's inputs."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__signature__") and not hasattr(function, "__self__"):
        return tuple(_from_code(function, code))
    try:
        return tuple(_from_inspect(function))
    except (ValueError, TypeError):
        optional = envelope.optional()
        return tuple(Parameter(n, ORDINARY, None if n in optional else REQUIRED) for n in envelope.inputs)


def _from_code(function: Any, code: Any) -> Iterable[Parameter]:
    names = code.co_varnames
    defaults = function.__defaults__ or ()
    first_default = code.co_argcount - len(defaults)
    for at in range(code.co_argcount):
        kind = POSITIONAL_ONLY if at < code.co_posonlyargcount else ORDINARY
        yield Parameter(names[at], kind, defaults[at - first_default] if at >= first_default else REQUIRED)
    at = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & _VARARGS:
        yield Parameter(names[at], STAR)
        at += 1
    keyword_defaults = function.__kwdefaults__ or {}
    for name in names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
        yield Parameter(name, KEYWORD_ONLY, keyword_defaults.get(name, REQUIRED))
    if code.co_flags & _VARKEYWORDS:
        yield Parameter(names[at], DOUBLE_STAR)


def _from_inspect(function: Callable[..., Any]) -> Iterable[Parameter]:
    import inspect

    for parameter in inspect.signature(function).parameters.values():
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        yield Parameter(parameter.name, int(parameter.kind), default)


def plain(parameters: Iterable[Parameter]) -> list[tuple[str, bool]]:
    """As `check_signature` wants them: (name with its stars, has a default)."""
    stars = {STAR: "*", DOUBLE_STAR: "**"}
    return [(stars.get(p.kind, "") + p.name, p.default is not REQUIRED) for p in parameters]


def source(parameters: Iterable[Parameter]) -> str:
    """Python source of the parameter list; the default of `x` is called `_kg_default_x`."""
    pieces: list[str] = []
    slash = star = False
    for parameter in parameters:
        if slash and parameter.kind != POSITIONAL_ONLY:
            pieces.append("/")
            slash = False
        if parameter.kind == KEYWORD_ONLY and not star:
            pieces.append("*")
            star = True
        slash = slash or parameter.kind == POSITIONAL_ONLY
        star = star or parameter.kind == STAR
        prefix = {STAR: "*", DOUBLE_STAR: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is REQUIRED else f"=_kg_default_{parameter.name}"
        pieces.append(f"{prefix}{parameter.name}{default}")
    return ", ".join([*pieces, "/"] if slash else pieces)
