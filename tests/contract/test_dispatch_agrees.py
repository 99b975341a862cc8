"""What the generated check serves is exactly what `explain` has no reason against."""

from __future__ import annotations

import random

import pytest

from kgate import Choice, Dim, Envelope, ListOf, Offsets, Scalar, Tensor
from kgate.contract.dispatch import Dispatch, facts_of_call, target_of_call
from kgate.contract.signature import ORDINARY, Parameter

OUT = {"out": Tensor("128", "float32")}
FLOATS = ("float16", "float32")

ENVELOPES = {
    "matmul": Envelope(
        inputs={
            "a": Tensor("M K", "T", layout="inner_contiguous"),
            "b": Tensor("K N", "T", layout="row_major"),
            "bias": Tensor("N", "T", optional=True, layout="contiguous"),
        },
        outputs=OUT,
        dtypes={"T": FLOATS},
        dims={"M": Dim(0, 4), "N": Dim(1, 3), "K": Dim(1, 4)},
        where=("M * N < 9", "stride(a, 0) % 2 == 0 or not K > 2", "present(bias) or M != 3"),
        targets=("cpu",),
    ),
    "varlen": Envelope(
        inputs={
            "q": Tensor("S 2*D", "T"),
            "k": Tensor("S D", "T", layout="dense"),
            "cu": Offsets("B+1", "S", dtype="I", optional=True),
            "causal": Choice(True, False),
        },
        outputs=OUT,
        dtypes={"T": FLOATS, "I": ("int32", "int64")},
        dims={"S": Dim(0, 4), "D": Dim(1, 2), "B": Dim(1, 2)},
        where=("B <= S", "not (causal and B == 2) or stride(cu, 0) == 1", 'dtype(q) == "float32" or S > B % S'),
    ),
    "grouped": Envelope(
        inputs={
            "w": Tensor("K N", "float32"),
            "scale": Tensor("K//G N", "float32", optional=True),
            "zeros": Tensor("cdiv(N,G) P*K", "float32", optional=True),
            "G": Choice(1, 2),
            "shift": Scalar("int", 0, 2, optional=True),
        },
        outputs=OUT,
        dims={"K": Dim(0, 4), "N": Dim(0, 4), "P": Dim(0, 2)},
        where=("K % (N - 1) == 0 or G == 2", "shift <= N", "align(w) >= 16 or P * N < 4", "not align(scale) < 8"),
        targets=("cuda:sm_80+", "cpu"),
    ),
    "foreach": Envelope(
        inputs={
            "params": ListOf(Tensor("M", "T", mutated=True), "L"),
            "grads": ListOf(Tensor("M+C", "T", layout="contiguous"), "L", optional=True),
            "other": Tensor("C C", "U", optional=True),
            "lr": Scalar("float", 0.0, 1.0),
        },
        dtypes={"T": FLOATS, "U": FLOATS},
        dims={"L": Dim(0, 2), "M": Dim(1, 3), "C": Dim(0, 2)},
        where=("L * M < 6", "present(grads) or L < 2", "max(C, M) >= 2"),
    ),
    "mostly optional": Envelope(
        inputs={"x": Tensor("A*B", "T", optional=True), "y": Tensor("A", "T", optional=True), "z": Tensor("B", "T")},
        outputs=OUT,
        dtypes={"T": FLOATS},
        dims={"A": Dim(0, 3), "B": Dim(0, 3)},
        where=("A < B or not present(y)",),
        targets=("cpu",),
    ),
}


def random_tensor(random, tensor, rank):
    shape = [random.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(rank)]
    strides = None
    if random.random() < 0.4:
        strides = [random.choice((0, 1, 1, 2, 3, 4, 8)) for _ in range(rank)]
    dtype = random.choice(("float32",) * 8 + ("float16", "int8"))
    device = random.choice(("cpu",) * 30 + ("meta", "cpu:1"))
    return tensor(shape, dtype, strides, device, random.choice((0, 8, 16, 4096)))


def likely_tensor(random, tensor, envelope, spec, sizes):
    """A tensor that fits the description for these sizes, now and then spoilt in one place."""
    try:
        shape = [axis.evaluate(sizes) for axis in spec.axes]
    except ZeroDivisionError:
        return random_tensor(random, tensor, spec.rank)
    if random.random() < 0.05 and shape:
        shape[random.randrange(len(shape))] += 1
    dtype = sizes["dtypes"].get(spec.dtype, spec.dtype)
    made = tensor(shape, dtype, device="cpu", address=random.choice((8, 16, 4096)))
    return random_tensor(random, tensor, spec.rank) if random.random() < 0.04 else made


def random_argument(random, tensor, envelope, name, sizes):
    spec = envelope.inputs[name]
    if random.random() < 0.02:
        return random.choice((None, 1, "text", [None], tensor((2, 2))))
    if isinstance(spec, Choice):
        return sizes[name]
    if isinstance(spec, Scalar):
        if name == "shift":
            return random.choice((None, 0, 1, 2, 3))
        return random.choice((0, 1, 1.0, 0.5, 2))
    if spec.optional and random.random() < 0.3:
        return None
    if isinstance(spec, ListOf):
        count = sizes[spec.length] if random.random() < 0.95 else 3
        return [likely_tensor(random, tensor, envelope, spec.element, sizes) for _ in range(count)]
    return likely_tensor(random, tensor, envelope, spec, sizes)


@pytest.mark.parametrize("name", ENVELOPES)
def test_dispatch_serves_exactly_where_explain_is_empty(name, tensor):
    envelope = ENVELOPES[name]
    dispatch = Dispatch(envelope, [Parameter(n, ORDINARY) for n in envelope.inputs], name)
    generator = random.Random(name)
    served, codes = 0, set()
    for _ in range(4000):
        sizes = {dim: generator.randint(max(r.lo - 1, 0), r.hi + 1) for dim, r in envelope.dims.items()}
        sizes |= {n: generator.choice((*spec.values, 3)) for n, spec in envelope.choices().items()}
        sizes["dtypes"] = {n: generator.choice(values) for n, values in envelope.dtypes.items()}
        arguments = {n: random_argument(generator, tensor, envelope, n, sizes) for n in envelope.inputs}
        reasons = envelope.reasons(facts_of_call(envelope, arguments), target_of_call(envelope, arguments))
        assert dispatch.serves(**arguments) is (reasons == ()), (arguments, reasons)
        served += not reasons
        codes.update(reason.code for reason in reasons)
    assert 100 < served < 3900
    assert {"shape-mismatch", "dim-range", "dtype-unsupported", "type"} <= codes
