"""A tensor that is none: the dispatch reads tensors by what they answer, so its tests need no torch."""

from __future__ import annotations

import pytest

from kgate.contract.layouts import contiguous_strides


class FakeDevice:
    def __init__(self, type, index=None):
        self.type = type
        self.index = index

    def __eq__(self, other):
        return isinstance(other, FakeDevice) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class FakeTensor:
    def __init__(self, shape, dtype="float32", strides=None, device="cpu", address=4096):
        self.shape = tuple(shape)
        self.dtype = f"torch.{dtype}"
        self.device = FakeDevice(*device.split(":"))
        self._strides = contiguous_strides(self.shape) if strides is None else tuple(strides)
        self._address = address

    def stride(self):
        return self._strides

    def data_ptr(self):
        return self._address


@pytest.fixture
def tensor():
    return FakeTensor
