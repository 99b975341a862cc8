"""The memory that kernels see: every address is checked against the live tensors before it is touched.

Each storage gets an address range of its own, 2**48 bytes wide, with the data in the middle. Pointer
arithmetic in the kernel works on these addresses, so a pointer that runs out of its tensor lands in nobody's
memory, never in a neighbour's, and the top 16 bits still say which tensor it came from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from kgate.probes.interpreter.records import (
    INT32_OVERFLOW,
    OUT_OF_BOUNDS,
    STORE_CONFLICT,
    UNINITIALISED_READ,
    UNWRITTEN_OUTPUT,
    Log,
    flatten,
)

Array = Any

_SHIFT = np.uint64(48)
_CENTRE = 1 << 47
_ALIGNMENT_MASK = 0xFFF
_MOST_REGIONS = 0x7FFF
_TRACKING_LIMIT = 1 << 30
"""Storages larger than this (bytes) are bounds-checked, but writes to them are not tracked."""
_RESTRICTION_LIMIT = 1 << 28
"""For views of larger storages (bytes), the whole storage may be touched."""
_POISON_LIMIT = 1 << 28
"""Larger uninitialised storages (bytes) are not filled, so that lazily allocated pages stay untouched."""

POISON_BITS = {"bf16": 0x7FC0, "fp8e4nv": 0x7F, "fp8e5": 0x7F, "fp8e4b8": 0x80, "fp8e5b16": 0x80, "fp8e4b15": 0x7F}


def poison_value(dtype: Any, name: str = "") -> Any:
    """Give what uninitialised memory reads as: NaN for floats, the largest value for integers.

    ``dtype`` is the NumPy dtype of the bits, ``name`` Triton's name of the type where NumPy has none.
    """
    dtype = np.dtype(dtype)
    if name in POISON_BITS:
        return dtype.type(POISON_BITS[name])
    if dtype.kind in "fc":
        return dtype.type(float("nan"))
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.iinfo(dtype).max)


class Region:
    """One storage: its bytes, its place in the kernels' address space, and what has been written to it."""

    def __init__(self, number: int, storage: Any, name: str, first: int, itemsize: int) -> None:
        self.storage = storage
        self.nbytes: int = storage.nbytes()
        self.real: int = storage.data_ptr()
        self.base = (number << 48) + _CENTRE + (self.real & _ALIGNMENT_MASK)
        self.name = name
        self.first = first
        self.itemsize = itemsize
        self.named = False
        self.own: Array | None = None
        self.written: Array | None = None
        self.version: Callable[[], int] | None = None
        self._seen_version = 0
        self._views: dict[Any, Array] = {}
        self._owners: dict[int, Array] = {}
        buffer = (ctypes.c_char * self.nbytes).from_address(self.real) if self.nbytes else bytearray()
        self.bytes: Array = np.frombuffer(buffer, dtype=np.uint8)

    def moved(self) -> bool:
        """Tell whether the storage was resized since, and lies elsewhere now."""
        return bool(self.storage.data_ptr() != self.real or self.storage.nbytes() != self.nbytes)

    def view(self, dtype: Any) -> Array:
        """Return the storage as a flat array of a dtype (a tail that does not fill an element is left out)."""
        found = self._views.get(dtype)
        if found is None:
            whole = self.nbytes - self.nbytes % dtype.itemsize
            found = self._views[dtype] = self.bytes[:whole].view(dtype)
        return found

    def owners(self, itemsize: int) -> Array:
        """Return, per element, the number of the program that stored to it last (0: none)."""
        found = self._owners.get(itemsize)
        if found is None:
            found = self._owners[itemsize] = np.zeros(self.nbytes // itemsize + 1, dtype=np.uint32)
        return found

    def track(self, version: Callable[[], int]) -> None:
        """Begin to follow which bytes are written; ``version`` counts the writes that torch makes."""
        if self.nbytes <= _TRACKING_LIMIT:
            self.written = np.zeros(self.nbytes, dtype=np.bool_)
            self.version = version
            self._seen_version = version()

    def initialised_by_torch(self) -> None:
        """Forget about unwritten bytes once a torch operator has written to the storage."""
        if self.written is not None and self.version is not None and self.version() != self._seen_version:
            self.written = None

    def restrict(self, tensor: Any) -> None:
        """Allow only the elements of a view (and of the views that were given before) to be touched."""
        if self.nbytes > _RESTRICTION_LIMIT or (self.named and self.own is None):
            return
        own = np.zeros(self.nbytes, dtype=np.bool_) if self.own is None else self.own
        if tensor.numel() * tensor.element_size() <= _RESTRICTION_LIMIT:
            offsets = _elements(tensor) if tensor.numel() else np.zeros(0, dtype=np.int64)
            for step in range(tensor.element_size()):
                own[offsets + step] = True
            self.own = None if own.all() else own

    def allows(self, offsets: Array, itemsize: int) -> Array:
        """Tell which accesses of so many bytes lie inside the storage, and on elements that may be touched."""
        good = (offsets >= 0) & (offsets <= self.nbytes - itemsize)
        if self.own is not None:
            inside = np.where(good, offsets, 0)
            good &= self.own[inside] & self.own[inside + itemsize - 1]
        return good

    def element(self, offset: int) -> int:
        """Turn a byte offset in the storage into an element index of the tensor that was passed."""
        return (offset - self.first) // max(1, self.itemsize)


class Space:
    """The address space of one run: regions by storage, and the checks on every access."""

    def __init__(self, log: Log, *, poison: bool = True, overflow: bool = False) -> None:
        self.log = log
        self.poison = poison
        self.overflow = overflow
        self.line: Callable[[], tuple[str, int] | None] = lambda: None
        self.program = 0
        self.epoch = 0
        self.locked = False
        self._regions: dict[int, Region] = {}
        self._numbered: list[Region | None] = [None]
        self._conflicts: list[tuple[str, str, tuple[str, int] | None, int, int]] = []
        log._outputs = self.judge_outputs

    # regions

    def region_of(self, tensor: Any, name: str = "") -> Region:
        """Return the region of a CPU tensor's storage, made on first sight; a name is kept once given."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        region = self._regions.get(key)
        if region is None or region.moved():
            if len(self._numbered) > _MOST_REGIONS:
                raise MemoryError(f"more than {_MOST_REGIONS} storages in one run under the interpreter")
            itemsize = tensor.element_size()
            region = Region(len(self._numbered), storage, name, tensor.storage_offset() * itemsize, itemsize)
            self._regions[key] = region
            self._numbered.append(region)
        elif not region.name:
            region.name = name
        return region

    def name(self, tensor: Any, name: str) -> None:
        """Give the storage of a tensor the name that the launcher knows it by."""
        region = self.region_of(tensor, name)
        region.restrict(tensor)
        if region.named and name not in region.name.split("/"):
            region.name = f"{region.name}/{name}"
        elif not region.named:
            itemsize = tensor.element_size()
            region.name, region.first, region.itemsize = name, tensor.storage_offset() * itemsize, itemsize
        region.named = True

    def uninitialised(self, tensor: Any, name: str = "", *, whole: bool = True) -> None:
        """Fill a fresh tensor with poison and follow what is written to it.

        ``whole=False`` for a tensor that does not own its storage: only its own elements are filled.
        """
        region = self.region_of(tensor, name)
        if region.nbytes <= _POISON_LIMIT and self.poison:
            fill(tensor, region) if whole else _fill_elements(tensor, region)
        try:
            tensor._version  # noqa: B018 - inference tensors refuse
        except RuntimeError:
            return
        region.track(lambda: int(tensor._version))
        if not whole and region.written is not None:
            mask = _elements(tensor)
            region.written[:] = True
            region.written[mask] = False

    def written_by_torch(self, tensor: Any) -> None:
        """Note that a torch operator wrote to a tensor in a way that its version does not tell."""
        region = self._regions.get(tensor.untyped_storage()._cdata)
        if region is not None:
            region.written = None

    def address(self, tensor: Any, name: str) -> int:
        """Return the address of a tensor's first element, as kernels see it."""
        region = self.region_of(tensor, name)
        return int(region.base + tensor.storage_offset() * tensor.element_size())

    # launches

    def begin_launch(self, programs: int) -> None:
        """Prepare the bookkeeping of one launch of so many programs."""
        if self.epoch + programs >= 2**32 - 2:
            self.epoch = 0
            for region in self._regions.values():
                region._owners.clear()
        self.locked = False
        self._conflicts.clear()
        for region in self._regions.values():
            region.initialised_by_torch()

    def end_launch(self, programs: int) -> None:
        """Report the launch's store conflicts, unless the kernel ordered its programs with a lock."""
        self.epoch += programs
        if not self.locked:
            for name, message, line, index, count in self._conflicts:
                self.log.add(STORE_CONFLICT, message, device_line=line, argument=name, index=index, count=count)
        self._conflicts.clear()

    # access

    def load(self, addresses: Array, mask: Array | None, other: Array | None, dtype: Any, name: str) -> Array:
        """Read one element per lane; lanes masked off give ``other``, or poison where that is None.

        ``addresses``: uint64, any shape; ``mask``: bool or None (all lanes); returns ``dtype`` of that shape.
        """
        shape = addresses.shape
        flat = addresses.reshape(-1)
        active = None if mask is None else np.broadcast_to(mask, shape).reshape(-1)
        poison = poison_value(dtype, name) if self.poison else dtype.type(0)
        simple = self._simple(flat, active, dtype.itemsize)
        if simple is not None and active is None:
            region, offsets = simple
            self._check_written(region, offsets)
            return region.view(dtype)[offsets // dtype.itemsize].reshape(shape)
        out = np.empty(flat.shape, dtype=dtype)
        if other is None:
            out[...] = poison
        else:
            out[...] = np.broadcast_to(other, shape).reshape(-1)
        if active is not None and not active.any():
            return out.reshape(shape)
        if simple is not None:
            region, offsets = simple
            wanted = offsets[active]
            self._check_written(region, wanted)
            out[active] = region.view(dtype)[wanted // dtype.itemsize]
            return out.reshape(shape)
        lanes = np.arange(flat.size) if active is None else np.flatnonzero(active)
        out[lanes] = poison
        for region, where, offsets in self._resolve(flat, lanes, dtype.itemsize, "load from"):
            self._check_written(region, offsets)
            out[where] = _gather(region, offsets, dtype)
        return out.reshape(shape)

    def store(self, addresses: Array, values: Array, mask: Array | None, dtype: Any) -> None:
        """Write one element per lane that the mask allows; lanes out of bounds are dropped and recorded."""
        flat = addresses.reshape(-1)
        values = np.broadcast_to(values, addresses.shape).reshape(-1)
        active = None if mask is None else np.broadcast_to(mask, addresses.shape).reshape(-1)
        lanes = np.arange(flat.size) if active is None else np.flatnonzero(active)
        if not lanes.size:
            return
        for region, where, offsets in self._resolve(flat, lanes, dtype.itemsize, "store to"):
            wanted = values[where].astype(dtype, copy=False)
            if offsets.size and (offsets % dtype.itemsize).any():
                _scatter_bytes(region, offsets, wanted)
            else:
                self._put(region, offsets // dtype.itemsize, wanted, dtype)
            self._mark_written(region, offsets, dtype.itemsize)

    def update(
        self, addresses: Array, mask: Array | None, dtype: Any, name: str, lane: Callable[[Any, int], Any]
    ) -> Array:
        """Read-modify-write one element per lane, one lane after the other (atomics).

        ``lane(old, i)`` gives the new value for lane ``i``. Returns the old values.
        """
        flat = addresses.reshape(-1)
        active = None if mask is None else np.broadcast_to(mask, addresses.shape).reshape(-1)
        lanes = np.arange(flat.size) if active is None else np.flatnonzero(active)
        out = np.full(flat.shape, poison_value(dtype, name) if self.poison else 0, dtype=dtype)
        for region, where, offsets in self._resolve(flat, lanes, dtype.itemsize, "atomic on"):
            self._check_written(region, offsets)
            memory, positions = region.view(dtype), offsets // dtype.itemsize
            for number, position in zip(where.tolist(), positions.tolist(), strict=True):
                old = memory[position]
                out[number] = old
                memory[position] = lane(old, number)
            self._mark_written(region, offsets, dtype.itemsize)
        return out.reshape(addresses.shape)

    def update_all(
        self, addresses: Array, mask: Array | None, dtype: Any, name: str, every: Callable[[Array, Array], Array]
    ) -> Array | None:
        """Do :meth:`update` for all lanes at once; None (and nothing done) where two lanes share an address."""
        flat = addresses.reshape(-1)
        active = None if mask is None else np.broadcast_to(mask, addresses.shape).reshape(-1)
        lanes = np.arange(flat.size) if active is None else np.flatnonzero(active)
        if np.unique(flat[lanes]).size != lanes.size:
            return None
        out = np.full(flat.shape, poison_value(dtype, name) if self.poison else 0, dtype=dtype)
        for region, where, offsets in self._resolve(flat, lanes, dtype.itemsize, "atomic on"):
            self._check_written(region, offsets)
            memory, positions = region.view(dtype), offsets // dtype.itemsize
            old = memory[positions]
            out[where] = old
            memory[positions] = every(old, where)
            self._mark_written(region, offsets, dtype.itemsize)
        return out.reshape(addresses.shape)

    def overflowed(self, line: tuple[str, int] | None, addresses: Array, lanes: Array) -> None:
        """Record that active lanes form their address from a 32-bit result that wrapped around."""
        bad = int(np.count_nonzero(lanes))
        if bad:
            first = int(addresses.reshape(-1)[np.flatnonzero(lanes.reshape(-1))[0]])
            region = self._numbered[first >> 48] if first >> 48 < len(self._numbered) else None
            self.log.add(
                INT32_OVERFLOW,
                "an offset computed in 32-bit integers wraps around; widen it (.to(tl.int64)) before multiplying",
                device_line=line,
                argument=region.name if region else "",
                count=bad,
            )

    def judge_outputs(self, outputs: Any) -> None:
        """Record every element of the returned tensors that nothing ever wrote."""
        import torch

        with torch._C.DisableTorchFunction():
            for path, leaf in flatten(outputs):
                if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu":
                    self._judge_output(leaf, path)

    # inside

    def _simple(self, flat: Array, active: Array | None, itemsize: int) -> tuple[Region, Array] | None:
        """Give the region and byte offsets where all active lanes are aligned and inside one region, else None.

        Offsets of inactive lanes are meaningless.
        """
        if not flat.size:
            return None
        picked = flat if active is None else flat[active]
        if not picked.size:
            return None
        number = int(picked[0]) >> 48
        if not 0 < number < len(self._numbered):
            return None
        region = self._numbered[number]
        assert region is not None
        offsets = (flat - np.uint64(region.base)).view(np.int64)
        inside = offsets if active is None else offsets[active]
        if int(inside.min()) < 0 or int(inside.max()) > region.nbytes - itemsize:
            return None
        if itemsize > 1 and (inside % itemsize).any():
            return None
        if region.own is not None and not region.allows(inside, itemsize).all():
            return None
        return region, offsets

    def _resolve(self, flat: Array, lanes: Array, itemsize: int, verb: str) -> list[tuple[Region, Array, Array]]:
        """Sort lanes by region: (region, lanes, byte offsets); lanes out of bounds are recorded and left out."""
        numbers = (flat[lanes] >> _SHIFT).astype(np.int64)
        found: list[tuple[Region, Array, Array]] = []
        for number in np.unique(numbers).tolist():
            where = lanes[numbers == number]
            if number == 0:
                found += self._resolve_real(flat, where, itemsize, verb)
                continue
            region = self._numbered[number] if number < len(self._numbered) else None
            if region is None:
                self._wild(flat, where, verb)
                continue
            offsets = (flat[where] - np.uint64(region.base)).view(np.int64)
            good = region.allows(offsets, itemsize)
            if not good.all():
                self._outside(region, offsets[~good], itemsize, verb)
                where, offsets = where[good], offsets[good]
            if where.size:
                found.append((region, where, offsets))
        return found

    def _resolve_real(self, flat: Array, where: Array, itemsize: int, verb: str) -> list[tuple[Region, Array, Array]]:
        """Sort lanes with machine addresses (pointers that travelled as integers) by the region they lie in."""
        found: list[tuple[Region, Array, Array]] = []
        left = where
        for region in self._numbered[1:]:
            if region is None or not left.size:
                continue
            offsets = (flat[left] - np.uint64(region.real)).view(np.int64)
            good = (offsets >= 0) & (offsets <= region.nbytes - itemsize)
            if good.any():
                found.append((region, left[good], offsets[good]))
                left = left[~good]
        if left.size:
            self._wild(flat, left, verb)
        return found

    def _wild(self, flat: Array, where: Array, verb: str) -> None:
        address = int(flat[where[0]])
        message = f"{verb} address {address:#x}, which belongs to no tensor of this run"
        self.log.add(OUT_OF_BOUNDS, message, device_line=self.line(), count=int(where.size))

    def _outside(self, region: Region, offsets: Array, itemsize: int, verb: str) -> None:
        offset = int(offsets.min())
        if offset < 0:
            beyond = f"{-offset} bytes before its storage"
        elif offset <= region.nbytes - itemsize:
            beyond = "inside its storage, but no element of the view that was passed"
        else:
            beyond = f"byte {offset} of {region.nbytes}"
        index = region.element(offset)
        self.log.add(
            OUT_OF_BOUNDS,
            f"{verb} {region.name or 'a tensor'} at element {index} is out of bounds ({beyond})",
            device_line=self.line(),
            argument=region.name,
            index=index,
            count=int(offsets.size),
        )

    def _check_written(self, region: Region, offsets: Array) -> None:
        if region.written is None or not offsets.size:
            return
        missing = ~region.written[offsets]
        if missing.any():
            index = region.element(int(offsets[np.argmax(missing)]))
            self.log.add(
                UNINITIALISED_READ,
                f"load from {region.name or 'a tensor'} at element {index}, which nothing has written",
                device_line=self.line(),
                argument=region.name,
                index=index,
                count=int(np.count_nonzero(missing)),
            )

    def _mark_written(self, region: Region, offsets: Array, itemsize: int) -> None:
        if region.written is not None:
            for step in range(itemsize):
                region.written[offsets + step] = True

    def _put(self, region: Region, positions: Array, values: Array, dtype: Any) -> None:
        """Store values, and note where another program of this launch stored something else."""
        memory = region.view(dtype)
        if region.nbytes > _TRACKING_LIMIT:
            memory[positions] = values
            return
        bits = _bits(dtype)
        owners = region.owners(dtype.itemsize)
        mine = np.uint32(self.epoch + self.program + 1)
        before = owners[positions]
        contested = (before > self.epoch) & (before != mine)
        if contested.any():
            differs = contested & (memory[positions].view(bits) != values.view(bits))
            self._conflict(region, positions, differs, dtype, "two programs store different values")
        memory[positions] = values
        owners[positions] = mine
        kept = memory[positions].view(bits) != values.view(bits)
        if kept.any():
            self._conflict(region, positions, kept, dtype, "two lanes of one store write different values")

    def _conflict(self, region: Region, positions: Array, differs: Array, dtype: Any, what: str) -> None:
        count = int(np.count_nonzero(differs))
        if count:
            index = region.element(int(positions[np.argmax(differs)]) * dtype.itemsize)
            message = f"{what} to {region.name or 'a tensor'} at element {index}"
            self._conflicts.append((region.name, message, self.line(), index, count))

    def _judge_output(self, tensor: Any, path: str) -> None:
        region = self._regions.get(tensor.untyped_storage()._cdata)
        if region is None:
            return
        region.initialised_by_torch()
        if region.written is None or not tensor.numel():
            return
        missing = ~region.written[_elements(tensor)]
        if missing.any():
            index = int(np.argmax(missing))
            name = path or region.name or "the output"
            count = int(np.count_nonzero(missing))
            position = tuple(int(i) for i in np.unravel_index(index, tuple(tensor.shape)))
            where = "[" + ", ".join(map(str, position)) + "]"
            self.log.add(
                UNWRITTEN_OUTPUT,
                f"{count} of {missing.size} elements of {name} were never written, the first at {where}",
                argument=name,
                index=index,
                count=count,
            )


def fill(tensor: Any, region: Region) -> None:
    """Fill the whole storage of a tensor with poison of the tensor's dtype."""
    dtype, value = numpy_poison(tensor)
    region.view(dtype)[...] = value


def _fill_elements(tensor: Any, region: Region) -> None:
    dtype, value = numpy_poison(tensor)
    region.view(dtype)[_elements(tensor) // dtype.itemsize] = value


def numpy_poison(tensor: Any) -> tuple[Any, Any]:
    """Give the NumPy dtype of a tensor's bits, and the poison value in it."""
    import torch

    plain = {
        torch.float64: np.float64,
        torch.float32: np.float32,
        torch.float16: np.float16,
        torch.complex64: np.complex64,
        torch.complex128: np.complex128,
        torch.int8: np.int8,
        torch.int16: np.int16,
        torch.int32: np.int32,
        torch.int64: np.int64,
        torch.uint8: np.uint8,
        torch.bool: np.bool_,
    }
    if tensor.dtype in plain:
        dtype = np.dtype(plain[tensor.dtype])
        return dtype, poison_value(dtype)
    if tensor.dtype is torch.bfloat16:
        return np.dtype(np.uint16), np.uint16(POISON_BITS["bf16"])
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        fnuz = "fnuz" in str(tensor.dtype)
        return np.dtype(np.uint8), np.uint8(0x80 if fnuz else 0x7F)
    dtype = np.dtype(f"uint{8 * tensor.element_size()}")
    return dtype, poison_value(dtype)


def _elements(tensor: Any) -> Array:
    """Return the byte offset in the storage of every element of a tensor, in order."""
    itemsize = tensor.element_size()
    offsets = np.full((1,) * max(1, tensor.dim()), tensor.storage_offset() * itemsize, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = np.arange(size, dtype=np.int64) * (stride * itemsize)
        offsets = offsets + steps.reshape([-1 if i == axis else 1 for i in range(tensor.dim())])
    return offsets.reshape(-1)


def _bits(dtype: Any) -> Any:
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _gather(region: Region, offsets: Array, dtype: Any) -> Array:
    if not (offsets % dtype.itemsize).any():
        return region.view(dtype)[offsets // dtype.itemsize]
    raw = region.bytes[offsets[:, None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(raw).view(dtype).reshape(-1)


def _scatter_bytes(region: Region, offsets: Array, values: Array) -> None:
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(values.size, -1)
    region.bytes[offsets[:, None] + np.arange(raw.shape[1])] = raw
