"""Reductions and scans: trees of whole-block combines, rounded step by step as the hardware does.

Triton's own interpreter calls a custom combine function once per element. Here it is called on whole blocks,
log2(n) times, in the order of a halving tree; the combine functions are elementwise by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.runtime import interpreter as upstream

from kgate.probes.interpreter import builder as values

Array = Any
Block = Any
"""A ``tl.tensor``."""


def install(tl: Any) -> None:
    """Replace ``tl.reduce``, ``tl.associative_scan`` and ``tl.map_elementwise``."""
    simple = _Simple(tl)

    def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **ignored: Any) -> Any:
        return _per_input(
            tl,
            input,
            lambda blocks: _reduce(tl, simple, blocks, _plain(tl, axis), combine_fn, bool(_plain(tl, keep_dims))),
        )

    def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **ignored: Any) -> Any:
        return _per_input(
            tl, input, lambda blocks: _scan(tl, simple, blocks, _plain(tl, axis), combine_fn, bool(_plain(tl, reverse)))
        )

    def map_elementwise(scalar_fn: Any, *args: Any, pack: int = 1, **ignored: Any) -> Any:
        return _map(tl, scalar_fn, args, int(_plain(tl, pack)))

    for owner in (tl, tl.core):
        owner.reduce, owner.associative_scan = reduce, associative_scan
        if hasattr(owner, "map_elementwise"):
            owner.map_elementwise = map_elementwise
    tl.core.tensor.reduce, tl.core.tensor.associative_scan = reduce, associative_scan


def _plain(tl: Any, value: Any) -> Any:
    if isinstance(value, tl.constexpr):
        value = value.value
    return int(value.handle.data.reshape(-1)[0]) if isinstance(value, tl.tensor) else value


def _per_input(tl: Any, given: Any, work: Callable[[list[Block]], list[Block]]) -> Any:
    if isinstance(given, tl.tensor):
        return work([given])[0]
    results = work(list(given))
    return tuple(results)


def block(tl: Any, data: Array, scalar: Any) -> Block:
    """Wrap an array of a type's bits as a tensor (a scalar where it has no axes)."""
    if data.ndim == 0:
        return tl.tensor(values.make(data.reshape(1), scalar), scalar)
    return tl.tensor(values.make(np.ascontiguousarray(data), scalar), tl.block_type(scalar, list(data.shape)))


class _Simple:
    """Combine functions of Triton's standard library that NumPy does in one call."""

    def __init__(self, tl: Any) -> None:
        standard = tl.standard

        def named(name: str) -> Any:
            return getattr(standard, name, None)

        self.binary: dict[int, Callable[[Array, Array], Array]] = {}
        for name, op in (
            ("_sum_combine", np.add),
            ("_elementwise_max", np.fmax),
            ("_elementwise_min", np.fmin),
            ("_xor_combine", np.bitwise_xor),
            ("_or_combine", np.bitwise_or),
            ("_prod_combine", np.multiply),
        ):
            if named(name) is not None:
                self.binary[id(named(name))] = op
        self.arg: dict[int, tuple[Any, Any]] = {}
        for kind, functions in (("max", (np.max, np.argmax)), ("min", (np.min, np.argmin))):
            for tie in ("left", "fast"):
                found = named(f"_arg{kind}_combine_tie_break_{tie}")
                if found is not None:
                    self.arg[id(found)] = functions


def _reduce(tl: Any, simple: _Simple, blocks: list[Block], axis: Any, combine: Any, keep: bool) -> list[Block]:
    shape = blocks[0].handle.data.shape
    arrays = [b.handle.data.reshape(-1) if axis is None else b.handle.data for b in blocks]
    where = 0 if axis is None else int(axis) % len(shape)
    scalars = [b.dtype for b in blocks]
    reduced = _reduce_known(simple, arrays, scalars, where, combine)
    if reduced is None:
        reduced = _tree(tl, arrays, scalars, where, combine)
    if keep:
        reduced = [r.reshape((1,) * len(shape)) if axis is None else np.expand_dims(r, where) for r in reduced]
    return [block(tl, np.asarray(r), s) for r, s in zip(reduced, scalars, strict=True)]


def _reduce_known(
    simple: _Simple, arrays: list[Array], scalars: list[Any], axis: int, combine: Any
) -> list[Array] | None:
    op = simple.binary.get(id(combine))
    if op is not None and len(arrays) == 1:
        return [_halve(arrays[0], scalars[0], axis, op)]
    functions = simple.arg.get(id(combine))
    if functions is None or len(arrays) != 2:
        return None
    data = values.decode(values.make(arrays[0], scalars[0]))
    if data.dtype.kind == "f" and np.isnan(data).any():
        return None
    position = np.expand_dims(functions[1](data, axis=axis), axis)
    return [np.take_along_axis(a, position, axis=axis).squeeze(axis) for a in arrays]


def _halve(bits: Array, scalar: Any, axis: int, op: Callable[[Array, Array], Array]) -> Array:
    """Reduce by halves, rounding to the element type at each step."""
    data = np.moveaxis(bits, axis, 0)
    if not scalar.is_floating():
        while data.shape[0] > 1:
            half = data.shape[0] // 2
            rest = data[2 * half :]
            data = np.concatenate([op(data[:half], data[half : 2 * half]).astype(bits.dtype, copy=False), rest])
        return data[0]
    work = values.decode(values.make(data, scalar))
    narrow = work.dtype != bits.dtype
    while work.shape[0] > 1:
        half = work.shape[0] // 2
        step = op(work[:half], work[half : 2 * half])
        if narrow:
            step = values.decode(values.make(values.encode(step, scalar), scalar))
        work = np.concatenate([step, work[2 * half :]]) if work.shape[0] % 2 else step
    return values.encode(work[0], scalar)


def _tree(tl: Any, arrays: list[Array], scalars: list[Any], axis: int, combine: Any) -> list[Array]:
    """Reduce with any combine function, on whole blocks, by halves."""
    parts = [np.moveaxis(a, axis, 0) for a in arrays]
    try:
        while parts[0].shape[0] > 1:
            half = parts[0].shape[0] // 2
            done = _combine(tl, [p[:half] for p in parts], [p[half : 2 * half] for p in parts], scalars, combine)
            parts = [np.concatenate([d, p[2 * half :]]) for d, p in zip(done, parts, strict=True)]
    except TypeError:
        return _sequential(tl, arrays, scalars, axis, combine)
    return [p[0] for p in parts]


def _sequential(tl: Any, arrays: list[Array], scalars: list[Any], axis: int, combine: Any) -> list[Array]:
    """Reduce element by element, for combine functions with branches."""
    parts = [np.moveaxis(a, axis, 0) for a in arrays]
    out = [p[0].copy() for p in parts]
    for index in np.ndindex(out[0].shape):
        so_far = [o[index] for o in out]
        for step in range(1, parts[0].shape[0]):
            item = [p[(step, *index)] for p in parts]
            so_far = [d.reshape(-1)[0] for d in _combine(tl, so_far, item, scalars, combine)]
        for o, value in zip(out, so_far, strict=True):
            o[index] = value
    return out


def _combine(tl: Any, left: list[Array], right: list[Array], scalars: list[Any], combine: Any) -> list[Array]:
    arguments = [block(tl, np.asarray(d), s) for d, s in zip([*left, *right], [*scalars, *scalars], strict=True)]
    result = combine(*arguments)
    results = result if isinstance(result, (tuple, list)) else (result,)
    semantic = upstream.interpreter_semantic
    out = []
    for value, scalar, like in zip(results, scalars, left, strict=True):
        made = semantic.cast(semantic.to_tensor(value), scalar)
        out.append(np.broadcast_to(made.handle.data.reshape(np.shape(like) or (1,)), np.shape(like) or (1,)))
    return out


def _scan(tl: Any, simple: _Simple, blocks: list[Block], axis: Any, combine: Any, reverse: bool) -> list[Block]:
    shape = blocks[0].handle.data.shape
    where = int(axis) % len(shape)
    scalars = [b.dtype for b in blocks]
    parts = [np.moveaxis(b.handle.data, where, 0) for b in blocks]
    if reverse:
        parts = [p[::-1] for p in parts]
    op = simple.binary.get(id(combine)) if len(parts) == 1 else None
    distance = 1
    while distance < parts[0].shape[0]:
        # Whole blocks, because device code refuses sizes that are no power of two; the first lanes are dropped.
        left = [np.concatenate([p[:distance], p[:-distance]]) for p in parts]
        if op is not None:
            done = [_apply(op, left[0], parts[0], scalars[0])]
        else:
            done = _combine(tl, left, parts, scalars, combine)
        parts = [np.concatenate([p[:distance], d[distance:]]) for p, d in zip(parts, done, strict=True)]
        distance *= 2
    if reverse:
        parts = [p[::-1] for p in parts]
    return [block(tl, np.moveaxis(p, 0, where), s) for p, s in zip(parts, scalars, strict=True)]


def _apply(op: Callable[[Array, Array], Array], left: Array, right: Array, scalar: Any) -> Array:
    if not scalar.is_floating():
        return op(left, right).astype(left.dtype, copy=False)
    decoded = [values.decode(values.make(side, scalar)) for side in (left, right)]
    return values.encode(op(*decoded), scalar)


def _map(tl: Any, function: Any, args: Any, pack: int) -> Any:
    """Call a scalar function for each element (or group of ``pack``) of broadcast blocks."""
    semantic = upstream.interpreter_semantic
    blocks = semantic.broadcast_tensors(*[semantic.to_tensor(a) for a in args]) if len(args) > 1 else list(args)
    shape = blocks[0].handle.data.shape
    flat = [b.handle.data.reshape(-1) for b in blocks]
    columns: list[list[Any]] = []
    scalars: list[Any] = []
    single = True
    for start in range(0, flat[0].size, pack):
        scalar_args = [
            tl.tensor(values.make(f[start + j : start + j + 1].copy(), b.dtype), b.dtype)
            for f, b in zip(flat, blocks, strict=True)
            for j in range(pack)
        ]
        result = function(*scalar_args)
        single = not isinstance(result, (tuple, list))
        items = [semantic.to_tensor(r) for r in ((result,) if single else result)]
        if not columns:
            columns, scalars = [[] for _ in items[::pack]], [i.dtype for i in items[::pack]]
        for number, item in enumerate(items):
            columns[number // pack].append(item.handle.data.reshape(-1)[0])
    out = [block(tl, np.array(c).reshape(shape), s) for c, s in zip(columns, scalars, strict=True)]
    return out[0] if single and pack == 1 else tuple(out)
