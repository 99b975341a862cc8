"""Running the reference as an oracle: in float64, also where it asks for float32 itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Widened(TorchFunctionMode):  # type: ignore[misc]
    """Turns casts to float32, and factories that ask for it, into float64."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.float:
            return args[0].double(**kwargs)
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        if function in (torch.Tensor.to, torch.Tensor.type):
            args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        return function(*args, **kwargs)


@contextmanager
def widened() -> Iterator[None]:
    """While this lasts, float32 means float64: explicit casts, ``dtype=`` arguments and the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(before)


def widen(value: Any) -> Any:
    """A plain CPU copy of ``value`` with floating-point tensors in float64; lists and tuples alike."""
    if isinstance(value, torch.Tensor):
        copy = plain(value)
        if copy.is_complex():
            return copy.to(torch.complex128)
        return copy.to(torch.float64) if copy.is_floating_point() else copy
    return type(value)(map(widen, value)) if isinstance(value, (list, tuple)) else value


def plain(value: Any) -> Any:
    """A contiguous copy of ``value`` without history, in its own dtype; lists and tuples alike."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value
