"""The arguments of one case: tensors in the declared shapes, dtypes and layouts, filled with portable numbers."""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from typing import Any

import torch

from kgate.cases.layouts import CONTIGUOUS, Geometry, geometry
from kgate.cases.records import Case
from kgate.cases.space import accepted
from kgate.contract.dtypes import is_floating
from kgate.contract.vocabulary import Choice, Dim, ListOf, Offsets, Scalar, Tensor
from kgate.probes.worker import draw

LAZY_BYTES = 1 << 28
"""Buffers larger than this (bytes) are mapped and not filled, so that untouched pages cost nothing."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_MOST_INDEX = 100


def make_inputs(envelope: Any, case: Case, *, device: str = "cpu", data: bool = True) -> dict[str, Any]:
    """Argument name to value, in the order of ``envelope.inputs``.

    Tensors have the case's shapes, dtypes and layouts; around a tensor that does not fill its storage lies NaN (or
    the largest integer). Absent inputs are None; scalars that the case does not set are left out, so that the
    launcher's default holds. ``data=False`` fills nothing and lets ``device`` be a fake one.
    """
    maker = _Maker(envelope, case, device, data)
    made = {name: maker.make(name, item) for name, item in envelope.inputs.items()}
    return {name: value for name, value in made.items() if value is not _LEFT_OUT}


_LEFT_OUT = object()


class _Maker:
    """Makes the inputs of one case."""

    def __init__(self, envelope: Any, case: Case, device: str, data: bool) -> None:
        self.case, self.device, self.data = case, device, data
        self.variables: Mapping[str, tuple[str, ...]] = envelope.dtypes
        first = {n: item.values[0] for n, item in envelope.inputs.items() if isinstance(item, Choice)}
        self.choices = {**first, **case.choices}
        integers = {name: value for name, value in self.choices.items() if type(value) is int}
        self.sizes: dict[str, int] = {**case.dims, **integers}
        for name, item in envelope.inputs.items():
            if isinstance(item, Scalar) and item.kind == "int":
                self.sizes.setdefault(name, accepted(item))
        self.dims: Mapping[str, Dim] = envelope.dims

    def make(self, name: str, item: Any) -> Any:
        if name in self.case.absent:
            return None
        if isinstance(item, Choice):
            return self.choices[name]
        if isinstance(item, Scalar):
            return self.case.choices.get(name, _LEFT_OUT)
        if isinstance(item, ListOf):
            return [self.tensor(name, f"{name}[{at}]", item.element) for at in range(item.axis.evaluate(self.sizes))]
        return self.tensor(name, name, item)

    def tensor(self, name: str, label: str, item: Tensor | Offsets) -> Any:
        """One tensor; ``name`` is the input it belongs to, ``label`` what its numbers are drawn for."""
        shape = tuple(axis.evaluate(self.sizes) for axis in item.axes)
        place = geometry(self.case.layouts.get(name, CONTIGUOUS), shape)
        dtype = getattr(torch, self.case.dtypes.get(item.dtype, item.dtype))
        if not self.data:
            buffer = torch.empty(place.storage, dtype=dtype, device=self.device)
            return buffer.as_strided(shape, place.strides, place.offset)
        tensor = _buffer(place, dtype).as_strided(shape, place.strides, place.offset)
        self.fill(tensor, label, item)
        return tensor

    def fill(self, tensor: Any, label: str, item: Tensor | Offsets) -> None:
        """Write the case's values; an expanded axis is written once."""
        once = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]
        if not once.numel():
            return
        if isinstance(item, Offsets):
            once.copy_(self.offsets(tuple(once.shape), label, item))
        elif tensor.dtype.is_complex:
            parts = [self.floats(tuple(once.shape), f"{label}.{part}", torch.float64) for part in ("real", "imag")]
            once.copy_(torch.complex(*parts))
        elif tensor.dtype.is_floating_point:
            once.copy_(self.floats(tuple(once.shape), label, tensor.dtype))
        else:
            once.copy_(self.integers(tuple(once.shape), label, item, tensor.dtype))

    def floats(self, shape: tuple[int, ...], label: str, dtype: Any) -> Any:
        values = torch.from_numpy(draw.floats(shape, self.case.values, self.case.seed, label))
        largest = torch.finfo(dtype).max
        return values.clamp(-largest, largest).to(dtype)

    def integers(self, shape: tuple[int, ...], label: str, item: Tensor, dtype: Any) -> Any:
        low, high = self.integer_range(item, dtype)
        numbers = draw.integers(math.prod(shape), self.case.seed, label, low, high)
        return torch.from_numpy(numbers).reshape(shape).to(dtype)

    def integer_range(self, item: Tensor, dtype: Any) -> tuple[int, int]:
        """Small numbers; valid as an index into any axis where the dtype is fixed, and so likely to be one."""
        if dtype is torch.bool:
            return 0, 1
        arithmetic = any(is_floating(name) for name in self.variables.get(item.dtype, ()))
        if arithmetic or item.mutated:
            return (0 if not dtype.is_signed else -_MOST_INDEX), _MOST_INDEX
        smallest = min([size for size in self.case.dims.values() if size > 0], default=1)
        return 0, min(smallest - 1, _MOST_INDEX)

    def offsets(self, shape: tuple[int, ...], label: str, item: Offsets) -> Any:
        """Ascending from 0 to the total, sequences of any length, empty ones too."""
        from kgate.contract.shapes import parse_length

        count = shape[0]
        total = parse_length(item.total).evaluate(self.sizes) if item.total else 16 * max(count - 1, 0)
        inner = draw.integers(max(count - 2, 0), self.case.seed, label, 0, total)
        inner.sort()
        ends = [0, *inner.tolist(), total]
        return torch.tensor(ends[:count] if count < 2 else ends, dtype=torch.int64)


def _buffer(place: Geometry, dtype: Any) -> Any:
    """A flat buffer of poison; one that is too large to fill is mapped and reads as zeros."""
    size = place.storage * dtype.itemsize
    if size > LAZY_BYTES:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        return torch.frombuffer(pages, dtype=torch.uint8).view(dtype)
    return torch.full((place.storage,), _poison(dtype)).to(dtype)


def _poison(dtype: Any) -> Any:
    if dtype is torch.bool:
        return True
    if dtype.is_complex or dtype.is_floating_point:
        return float("nan")
    return torch.iinfo(dtype).max
