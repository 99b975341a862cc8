"""The base of the contract's records: frozen, comparable and cheap to import.

The standard library's dataclasses bring `inspect`, `re` and `ast` with them, which is most of what
`import kgate` may cost in a production process; the contract therefore has its own, much smaller base.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    R = TypeVar("R", bound="Record")


class Record:
    """A frozen record: its annotations are its fields, in the order of its constructor's parameters."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **values: Any) -> None:
        """Fill the slots; for constructors only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of the fields, without what is derived from them (which starts with `_`)."""
        return tuple(name for name in cls.__annotations__ if not name.startswith("_"))

    def replace(self: R, **changes: Any) -> R:
        """A copy with some fields changed, validated like a new one."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.fields()}
        return type(self)(**{**values, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; use .replace({name}=...) for a changed copy")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields())

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.fields())})"

    def __reduce__(self) -> tuple[Any, ...]:
        slots = [slot for base in type(self).__mro__ for slot in base.__dict__.get("__slots__", ())]
        return _restore, (type(self), {slot: getattr(self, slot) for slot in slots})


def _restore(cls: type[Record], values: dict[str, Any]) -> Record:
    record = cls.__new__(cls)
    record._set(**values)
    return record
