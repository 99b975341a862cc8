"""Every mistake in a declaration is found at once, with its code, its place and a remedy."""

from __future__ import annotations

import pickle

import pytest

from kgate import (
    Choice,
    DeclarationError,
    Dim,
    Envelope,
    Ignore,
    ListOf,
    Numerics,
    Offsets,
    Scalar,
    Tensor,
    Workload,
)
from kgate.contract import check_declaration, check_signature


def envelope(**changes):
    parts = {
        "inputs": {
            "x": Tensor("M N", "T"),
            "weight": Tensor("N", "T", optional=True),
            "mode": Choice("llama", "gemma"),
            "k": Scalar("int", 1, 8),
        },
        "outputs": {"y": Tensor("M N", "T")},
        "dtypes": {"T": ("float16", "float32")},
        "dims": {"M": Dim(0, 64), "N": Dim(1, 64)},
        "where": (),
        "targets": ("cuda:sm_80+",),
    }
    return Envelope(**{**parts, **changes})


def mistakes(make):
    with pytest.raises(DeclarationError) as caught:
        make()
    errors = caught.value.all()
    assert all(error.message and error.remedy for error in errors)
    return {(error.code, ".".join(error.where)) for error in errors}


X = {"x": Tensor("M N", "T")}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Dim(5, 2), {("empty-range", "")}),
        (lambda: Dim(-1, 2), {("bad-range", "lo")}),
        (lambda: Dim(1, "4"), {("bad-range", "")}),
        (lambda: Tensor("M,N", "T", layout="contigous"), {("bad-shape", "shape"), ("unknown-layout", "layout")}),
        (lambda: Tensor("M N", "T", layout="channels_last"), {("layout-rank", "layout")}),
        (lambda: Tensor("M", "T", mutated=1), {("bad-flag", "mutated")}),
        (lambda: Tensor("M", 32), {("unknown-dtype", "dtype")}),
        (lambda: Choice(), {("empty-choice", "values")}),
        (lambda: Choice(("a", "b")), {("bad-choice", "values")}),
        (lambda: Choice("a", "a"), {("duplicate-name", "1")}),
        (lambda: Choice("a", mutated=True), {("mutated-non-tensor", "mutated")}),
        (
            lambda: Scalar("int", mutated=True, layout="any"),
            {("mutated-non-tensor", "mutated"), ("unknown-parameter", "layout")},
        ),
        (lambda: Scalar("integer"), {("unknown-scalar", "kind")}),
        (lambda: Scalar("int", 3, 1), {("empty-range", "")}),
        (lambda: Scalar("int", 0.5), {("bad-range", "")}),
        (lambda: ListOf("x", "L L"), {("bad-list", "element"), ("bad-shape", "length")}),
        (lambda: Offsets("B+1", "S S", dtype="float32"), {("bad-shape", "total"), ("offsets-dtype", "dtype")}),
        (
            lambda: Numerics(reduce="N <", acc="fp32", roundings=-1, nan="skip", c=0),
            {
                ("bad-shape", "reduce"),
                ("unknown-dtype", "acc"),
                ("bad-numerics", "roundings"),
                ("bad-numerics", "nan"),
                ("bad-numerics", "c"),
            },
        ),
        (lambda: Workload(M=[1], source=3), {("bad-workload", "M"), ("bad-workload", "source")}),
        (lambda: Workload(absent="weight"), {("bad-workload", "absent")}),
    ],
)
def test_mistakes_in_a_word(make, expected):
    assert mistakes(make) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inputs": [Tensor("M", "T")]}, {("not-a-dict", "inputs")}),
        ({"where": "M < N", "dtypes": {"T": "float32"}}, {("not-a-tuple", "where"), ("not-a-tuple", "dtypes.T")}),
        (
            {"dtypes": {"T": ("float32", "fp16", "float32")}},
            {("unknown-dtype", "dtypes.T.1"), ("duplicate-name", "dtypes.T.2")},
        ),
        ({"dtypes": {"T": ("float32",), "U": ("int8",)}}, {("unused-dtype", "dtypes.U")}),
        ({"dtypes": {"T": ()}}, {("empty-dtypes", "dtypes.T")}),
        ({"outputs": {"y": Tensor("M N", "U")}}, {("unknown-dtype", "outputs.y.dtype")}),
        (
            {"outputs": {"y": Tensor("M N", "U")}, "dtypes": {"T": ("float32",), "U": ("int8", "bool")}},
            {("unbound-dtype", "dtypes.U")},
        ),
        (
            {"dims": {"M": Dim(0, 64)}},
            {
                ("unknown-dim", "inputs.x.shape"),
            },
        ),
        ({"dims": {"M": Dim(0, 64), "N": Dim(1, 64), "K": Dim(1, 2)}}, {("unused-dim", "dims.K")}),
        (
            {"outputs": {"y": Tensor("M K", "T")}, "dims": {"M": Dim(0, 1), "N": Dim(1, 2), "K": Dim(1, 2)}},
            {("unbound-dim", "dims.K")},
        ),
        ({"inputs": {"x": Tensor("M N//2", "T")}}, {("unbound-dim", "dims.N")}),
        ({"outputs": {"y": Tensor("M mode", "T")}}, {("unknown-dim", "outputs.y.shape")}),
        (
            {"outputs": {"y": Tensor("M N", "T", numerics=Numerics(reduce="K"))}},
            {("unknown-dim", "outputs.y.numerics.reduce")},
        ),
        ({"outputs": {"x": Tensor("M N", "T")}}, {("duplicate-name", "outputs.x")}),
        ({"outputs": {"y": Tensor("M N", "T", mutated=True)}}, {("mutated-output", "outputs.y.mutated")}),
        ({"outputs": {}}, {("no-promise", "outputs")}),
        ({"outputs": {"y": Ignore()}}, {("no-promise", "outputs")}),
        ({"outputs": {"y": Ignore}}, {("wrong-kind", "outputs.y")}),
        ({"outputs": {"y": Choice("a")}}, {("wrong-kind", "outputs.y")}),
        ({"inputs": {**X, "M": Scalar("int")}}, {("duplicate-name", "dims.M")}),
        ({"inputs": {**X, "class": Scalar("int")}}, {("bad-name", "inputs.class")}),
        ({"dims": {"M": Dim(0, 1), "N": Dim(1, 2), "min": Dim(1, 2)}}, {("bad-name", "dims.min")}),
        (
            {"where": ("M / N < 1", "K < 2", "M")},
            {("bad-where", "where.0"), ("bad-where", "where.1"), ("bad-where", "where.2")},
        ),
    ],
)
def test_mistakes_in_an_envelope(changes, expected):
    assert mistakes(lambda: envelope(**changes)) == expected


@pytest.mark.parametrize(
    ("condition", "message", "remedy"),
    [
        ("MM < 3", "nothing called 'MM'", '"M"'),
        ("x < 3", "'x' is a tensor", "stride(x, 0)"),
        ('T == "float32"', "dtype variable", "dtype(x)"),
        ("stride(z, 0) == 1", "no input 'z'", "x"),
        ("stride(mode, 0) == 1", "not a single tensor", "Tensor"),
        ("stride(x, 2) == 1", "no axis 2", "0 to 1"),
        ("present(x)", "always there", "optional=True"),
        ('dtype(x) == "bf16"', 'no dtype "bf16"', "bfloat16"),
        ("dtype(x) < dtype(weight)", "no order", "=="),
        ("dtype(x) == 3", "cannot be compared", "numbers"),
        ('mode == "gema"', 'never "gema"', "'gemma'"),
        ("mode", "is not a condition", "compare it"),
        ('mode < "llama"', "no order", "=="),
        ("M and N < 3", "M is not a condition", "condition"),
        ("(M < 3) + 1 < 2", "is not a number", "number"),
        ("M % 0 == 0", "division by zero", "something else"),
        ("k + mode < 2", "mode is not a number", "number"),
    ],
)
def test_conditions_about_what_is_not_there(condition, message, remedy):
    with pytest.raises(DeclarationError) as caught:
        envelope(where=(condition,))
    assert caught.value.code == "bad-where"
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_conditions_of_every_kind_are_accepted():
    found = envelope(
        where=(
            "M * N < 2**31 and k <= N",
            'mode == "llama" or not present(weight)',
            "stride(x, 0) % 8 == 0",
            "align(x) >= 16",
            'dtype(x) != "float16" or dtype(x) == dtype(weight)',
        )
    )
    assert len(found.conditions) == 5


def test_a_parameter_can_be_a_size():
    found = envelope(outputs={"y": Tensor("M k", "T")})
    assert found.outputs["y"].axes[1].names() == {"k"}


def test_message_names_file_line_place_and_remedy():
    with pytest.raises(DeclarationError) as caught:
        envelope(dims={"M": Dim(0, 64), "N": Dim(1, 64), "K": Dim(0, 1)}, where=("K",))
    text = str(caught.value)
    assert text.startswith(f"{__file__}:")
    assert "dims.K: no tensor has the dim K; use it, or drop it [unused-dim]" in text
    assert "also: where.0: column 1: K is not a condition" in text


def test_errors_survive_pickling():
    error = DeclarationError(
        "bad-where", "no", ("where", "0"), "yes", (DeclarationError("b", "c"),), column=3, location="f:1"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.column == 3


W = {"M": 4, "N": 8, "T": "float16"}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (Workload(**W), set()),
        (Workload(**W, mode="gemma", k=2, absent=("weight",), layouts={"x": "transposed"}), set()),
        (Workload(**{**W, "M": 65}), {("workload-range", "M")}),
        (Workload(**{**W, "M": "many"}), {("workload-range", "M")}),
        (Workload(**{**W, "T": "bfloat16"}), {("workload-dtype", "T")}),
        (Workload(**W, mode="gpt", k=9), {("workload-choice", "mode"), ("workload-choice", "k")}),
        (Workload(**W, K=3, x=1), {("workload-unknown", "K"), ("workload-unknown", "x")}),
        (Workload(M=4), {("workload-incomplete", "")}),
        (Workload(**W, absent=("x",)), {("workload-unknown", "absent")}),
        (Workload(**W, layouts={"mode": "strided"}), {("workload-unknown", "layouts.mode")}),
        (Workload(M=64, N=64, T="float32"), {("workload-outside", "")}),
    ],
)
def test_mistakes_in_a_workload(workload, expected):
    errors = check_declaration(envelope=envelope(where=("M * N < 4096",)), workloads=(workload,))
    assert {(e.code, ".".join(e.where[2:])) for e in errors} == expected
    assert all(error.where[:2] == ("workloads", "0") and error.message for error in errors)


def test_mistakes_between_the_parts():
    inputs = {"x": Tensor("M N", "T", numerics=Numerics()), "i": Tensor("N", "int32"), "mode": Choice("a")}
    errors = check_declaration(
        envelope=envelope(inputs=inputs, targets=("cuda:sm_80", "cuda:sm90")),
        workloads=(Workload(**W), Workload(**W)),
        grad=("i", "mode", "weigth"),
        depends="configs/*.json",
        parameters=(("x", False), ("i", False), ("out", False), ("*rest", False), ("eps", True), ("**more", False)),
    )
    assert {(e.code, ".".join(e.where)) for e in errors} == {
        ("unknown-target", "envelope.targets.1"),
        ("not-a-tuple", "depends"),
        ("grad-not-floating", "grad.0"),
        ("grad-not-tensor", "grad.1"),
        ("grad-unknown", "grad.2"),
        ("numerics-unused", "envelope.inputs.x.numerics"),
        ("duplicate-name", "workloads.1"),
        ("parameter-undeclared", "parameters.out"),
        ("star-parameter", "parameters.*rest"),
        ("input-unknown", "envelope.inputs.mode"),
    }
    assert all(error.remedy for error in errors)


def test_parameters_with_a_default_need_no_promise():
    names = [("x", False), ("weight", True), ("mode", True), ("k", False), ("eps", True)]
    assert check_signature(envelope(), names) == []


def test_words_are_frozen_comparable_and_can_be_changed_in_a_copy():
    tensor = Tensor("M  N", "T")
    with pytest.raises(AttributeError, match="frozen"):
        tensor.layout = "any"
    assert tensor == Tensor("M N", "T") != Tensor("M N", "T", optional=True)
    assert tensor.replace(layout="contiguous").layout == "contiguous"
    assert pickle.loads(pickle.dumps(tensor)) == tensor
    assert repr(Choice("a", 1)) == "Choice('a', 1)"
    with pytest.raises(DeclarationError, match="no layout"):
        tensor.replace(layout="tidy")


def test_a_size_beyond_64_bits_is_refused():
    with pytest.raises(DeclarationError) as caught:
        Dim(1, 2**63)
    assert (caught.value.code, caught.value.where) == ("bad-range", ("hi",))
    assert Dim(1, 2**63 - 1).hi == 2**63 - 1


@pytest.mark.parametrize(
    ("ends", "remedy"),
    [
        ((1, 3e2), "write Dim(1, 300)"),
        ((1, "256"), "write Dim(1, 256)"),
        ((1, None), "write Dim(1, 4096)"),
        ((0.5, 8), "write Dim(0, 8)"),
        ((1, float("inf")), "write Dim(1, 4096)"),
        ((1, float("nan")), "write Dim(1, 4096)"),
    ],
)
def test_the_remedy_for_a_range_is_the_range_that_was_meant(ends, remedy):
    with pytest.raises(DeclarationError) as caught:
        Dim(*ends)
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("values", "said", "remedy"),
    [
        ({"N": "32"}, "N is a size, a whole number, not '32'", "write N=32"),
        ({"N": 32.0}, "N is a size, a whole number, not 32.0", "write N=32"),
        ({"N": "many"}, "N is a size, a whole number, not 'many'", "write N=64"),
        ({"N": 32, "T": 16}, "T is a dtype's name, a string, not 16", 'write T="float16"'),
        ({"N": 65}, "N = 65 is not within 1..64", "change the workload, or widen the range"),
    ],
)
def test_a_workloads_value_of_the_wrong_kind_is_told_by_its_kind(values, said, remedy):
    workload = Workload(**{"M": 4, "T": "float16", "k": 1, **values})
    (error,) = check_declaration(envelope=envelope(), workloads=(workload,))
    assert (error.message, error.remedy) == (said, remedy)


def test_a_size_or_dtype_variable_that_many_tensors_have_is_reported_once():
    tensors = {name: Tensor("M N", "T") for name in ("x", "y", "z")}
    with pytest.raises(DeclarationError) as caught:
        Envelope(inputs=tensors, outputs={"o": Tensor("M N", "T")}, dims={}, dtypes={})
    assert sorted(error.code for error in caught.value.all()) == ["unknown-dim", "unknown-dim", "unknown-dtype"]
