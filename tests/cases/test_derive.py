"""Cases: what is tried follows from the envelope, in a stable order, and each case can be named and run again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kgate import Choice, Dim, Envelope, ListOf, Numerics, Offsets, Scalar, Tensor, Workload
from kgate.cases import CaseError, affordable, derive, parse_case
from kgate.cases.layouts import FAR, LAYOUTS, geometry
from kgate.cases.space import MOST_ELEMENTS, Space

FLOATS = ("float16", "bfloat16", "float32")


def declared(envelope, *workloads):
    return SimpleNamespace(identity="k.py::k", envelope=envelope, workloads=workloads)


def rms(where=(), **changes):
    parts = {
        "inputs": {
            "x": Tensor("M N", "T", layout="inner_contiguous"),
            "weight": Tensor("N", "T", optional=True),
            "eps": Scalar("float", 0, 1),
            "mode": Choice("llama", "gemma"),
        },
        "outputs": {"y": Tensor("M N", "T", numerics=Numerics(reduce="N"))},
        "dtypes": {"T": FLOATS},
        "dims": {"M": Dim(0, 2**20), "N": Dim(1, 65536)},
        "where": where,
        "targets": ("cuda:sm_80+",),
    }
    return declared(Envelope(**{**parts, **changes}), Workload(M=4096, N=4096, T="bfloat16", source="Llama-3-8B"))


def matmul(where=("M * N < 2**31",)):
    envelope = Envelope(
        inputs={"a": Tensor("M K", "T"), "b": Tensor("K N", "T")},
        outputs={"c": Tensor("M N", "T", numerics=Numerics(reduce="K"))},
        dtypes={"T": FLOATS},
        dims={"M": Dim(1, 65536), "N": Dim(1, 65536), "K": Dim(1, 65536)},
        where=where,
        targets=("cuda:sm_80+",),
    )
    return declared(envelope, Workload(M=4096, N=14336, K=4097, T="float16"))


ALL = [rms(), rms(where=("stride(x, 0) % 8 == 0",)), rms(where=("N % 16 == 0", "M * N < 2**31")), matmul()]


def ids(cases):
    return [case.id for case in cases]


@pytest.mark.parametrize("declaration", ALL)
def test_deriving_twice_gives_the_same_cases_in_the_same_order(declaration):
    assert derive(declaration, block_sizes=(64, 1024)) == derive(declaration, block_sizes=(1024, 64, 64))


@pytest.mark.parametrize("declaration", ALL)
def test_every_id_is_unique_and_reads_back_as_the_same_case(declaration):
    cases = derive(declaration, block_sizes=(64, 1024))
    assert len(set(ids(cases))) == len(cases)
    for case in cases:
        again = parse_case(declaration, case.id)
        for part in ("id", "dims", "dtypes", "layouts", "choices", "absent", "values", "seed", "expect", "reason"):
            assert getattr(again, part) == getattr(case, part), (case.id, part)


@pytest.mark.parametrize("declaration", ALL)
def test_cases_for_the_kernel_lie_inside_the_envelope_and_the_others_outside(declaration):
    space = Space(declaration)
    for case in derive(declaration, block_sizes=(64, 1024)):
        reasons = space.broken(case)
        assert reasons == ([] if case.expect == "kernel" else [case.reason]), case.id


@pytest.mark.parametrize("declaration", ALL)
def test_all_but_full_size_workloads_fit_the_interpreter(declaration):
    for case in derive(declaration, block_sizes=(64, 1024)):
        if case.origin != "workload":
            assert affordable(declaration, case)
            assert Space(declaration).elements(case.dims) <= MOST_ELEMENTS
    assert not affordable(declaration, derive(declaration)[0])


@pytest.mark.parametrize("declaration", ALL)
def test_the_number_of_cases_stays_within_the_budget(declaration):
    cases = derive(declaration, block_sizes=tuple(range(16, 512, 16)), budget=40)
    assert len([case for case in cases if case.origin != "workload"]) <= 40
    assert len(derive(declaration, block_sizes=(64, 1024))) >= 40


def test_a_workload_appears_in_full_and_scaled_with_its_remainders():
    declaration = matmul()
    cases = derive(declaration, block_sizes=(32, 64))
    assert cases[0].origin == "workload"
    assert cases[0].dims == {"M": 4096, "N": 14336, "K": 4097}
    (scaled,) = [case for case in cases if case.origin == "scaled"]
    assert {name: size % 64 for name, size in scaled.dims.items()} == {"M": 0, "N": 0, "K": 1}
    assert all(size >= 64 for size in scaled.dims.values())
    assert "K 4097 -> " in scaled.purpose


def test_scaling_shrinks_batch_like_dims_first():
    (scaled,) = [case for case in derive(rms(), block_sizes=(1024,)) if case.origin == "scaled"]
    assert scaled.dims == {"M": 4, "N": 4096}


def test_every_dtype_meets_a_tail_and_the_widest_is_always_there():
    cases = [case for case in derive(rms(), block_sizes=(64,)) if case.expect == "kernel" and not case.layouts]
    for dtype in FLOATS:
        assert any(case.dtypes["T"] == dtype and case.dims["N"] % 64 for case in cases)
        assert any(case.dtypes["T"] == dtype and case.dims["N"] % 64 == 0 for case in cases)


def test_both_sides_of_a_block_and_both_ends_of_the_range_are_tried():
    sizes = {case.dims["N"] for case in derive(rms(), block_sizes=(1024,), budget=80)}
    assert {1, 67, 1023, 1024, 1025, 2051, 65536} <= sizes
    assert 0 in {case.dims["M"] for case in derive(rms(), block_sizes=(1024,))}


def test_each_layout_that_the_envelope_admits_is_tried_on_each_tensor():
    tried = {(name, layout) for case in derive(matmul(), budget=80) for name, layout in case.layouts.items()}
    for name in ("a", "b"):
        for layout in ("transposed", "sliced", "expanded", "offset", "rows", "strided", FAR):
            assert (name, layout) in tried
    kernel_side = [c for c in derive(rms(), budget=80) if c.expect == "kernel"]
    admitted = {layout for case in kernel_side for name, layout in case.layouts.items() if name == "x"}
    assert {"sliced", "expanded", "offset", "rows"} <= admitted
    assert not {"transposed", "strided"} & admitted


def test_choices_and_absent_inputs_each_have_a_case():
    cases = derive(rms())
    assert any(case.choices["mode"] == "gemma" and case.expect == "kernel" for case in cases)
    assert any(case.absent == ("weight",) for case in cases)


def test_a_divisibility_condition_moves_edges_to_the_nearest_size_that_is_allowed():
    cases = [case for case in derive(rms(where=("N % 16 == 0",)), block_sizes=(64,)) if case.expect == "kernel"]
    assert cases
    assert all(case.dims["N"] % 16 == 0 for case in cases)
    assert any(case.dims["N"] == 80 for case in cases)


def test_a_condition_on_strides_is_met_by_padding_rows_instead_of_giving_up_the_size():
    cases = derive(rms(where=("stride(x, 0) % 8 == 0",)), block_sizes=(64,))
    assert any(case.dims["N"] == 65 and case.layouts.get("x") == "padded" for case in cases)


def test_outside_cases_cover_every_kind_of_promise_with_its_reason():
    cases = derive(rms(where=("N % 4 == 0",)))
    reasons = {case.reason for case in cases if case.origin == "outside"}
    assert reasons == {"dtype-unsupported", "dim-range", "layout", "where", "choice"}
    assert all(case.expect == "fallback" for case in cases if case.origin == "outside")


def test_offsets_past_int32_are_tried_only_where_the_envelope_allows_such_a_tensor():
    assert any(FAR in case.layouts.values() for case in derive(rms()))
    bounded = derive(rms(where=("M * N < 2**31",)))
    assert not any(FAR in case.layouts.values() for case in bounded)


def test_a_mutated_tensor_is_never_expanded():
    envelope = Envelope(
        inputs={"x": Tensor("M N", "T", mutated=True)}, dtypes={"T": FLOATS}, dims={"M": Dim(0, 64), "N": Dim(0, 64)}
    )
    assert all(case.layouts.get("x") != "expanded" for case in derive(declared(envelope)))


def test_lists_offsets_and_odd_shapes_have_cases():
    envelope = Envelope(
        inputs={
            "parts": ListOf(Tensor("M N", "T"), "L"),
            "cu_seqlens": Offsets("B+1", total="M"),
            "block": Choice(16, 32),
            "scale": Tensor("cdiv(N,block)", "float32"),
        },
        outputs={"y": Tensor("L*M N", "T")},
        dtypes={"T": FLOATS},
        dims={"M": Dim(0, 4096), "N": Dim(1, 4096), "L": Dim(1, 4), "B": Dim(1, 64)},
    )
    cases = derive(declared(envelope))
    assert len(cases) > 20
    assert all(Space(declared(envelope)).broken(case) == [] for case in cases if case.expect == "kernel")


def test_an_envelope_without_dims_or_dtype_variables_has_cases():
    envelope = Envelope(inputs={"x": Tensor("128", "float32")}, outputs={"y": Tensor("128", "float32")})
    cases = derive(declared(envelope))
    assert cases[0].id == "default"
    assert parse_case(declared(envelope), "default").id == "default"


def test_an_id_may_name_only_what_matters():
    case = parse_case(rms(), "N=127, x=sliced")
    assert (case.dims["N"], case.layouts, case.expect) == (127, {"x": "sliced"}, "kernel")
    assert case.id == f"M={case.dims['M']},N=127,T=float32,x=sliced"


def test_an_id_may_set_scalars():
    case = parse_case(rms(), "N=8,eps=0.25")
    assert case.choices["eps"] == 0.25
    assert parse_case(rms(), case.id) == case
    assert parse_case(rms(), "N=8,eps=2").reason == "scalar"


def test_an_id_outside_the_envelope_expects_the_fallback_and_says_why():
    case = parse_case(rms(), "M=2,N=8,T=float64")
    assert (case.expect, case.reason, case.origin) == ("fallback", "dtype-unsupported", "outside")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M=2,W=3", "'W' is no dim, dtype variable or input of k.py::k"),
        ("M", "not of the form NAME=VALUE"),
        ("N=many", "N takes a whole number"),
        ("T=float31", "did you mean 'float32'?"),
        ("x=slized", "did you mean 'sliced'?"),
        ("values=nice", "no value distribution 'nice'"),
        ("weight=transposed", "'transposed' needs 2 or more axes"),
        ("eps=much", "eps takes a number"),
        ("N=1,N=2", "N is there twice, as 1 and as 2"),
        ("N=1,x=sliced,x=sliced", "x is there twice"),
        ("weight=absent,weight=sliced", "weight is there twice"),
        ("T=float16,T=bfloat16", "T is there twice"),
        ("seed=1,seed=2", "seed is there twice"),
        ("N=99999999999999999999", "no tensor can have that size"),
        ("N=9223372036854775808", "no tensor can have that size"),
        (f"N={'9' * 5000}", "no tensor can have that size"),
    ],
)
def test_an_id_that_cannot_be_read_says_which_part_and_what_could_stand_there(text, said):
    with pytest.raises(CaseError) as error:
        parse_case(rms(), text)
    assert said in str(error.value)
    assert str(error.value) == f"{error.value.message}; {error.value.remedy}"
    assert error.value.message
    assert error.value.remedy
    assert len(str(error.value)) < 400


def test_a_name_that_is_also_a_word_of_ids_is_told_apart():
    envelope = Envelope(
        inputs={"values": Tensor("N", "T"), "seed": Scalar("int", 0, 9)},
        outputs={"y": Tensor("N", "T")},
        dtypes={"T": FLOATS},
        dims={"N": Dim(1, 64)},
    )
    case = parse_case(declared(envelope), "N=8,values=offset,@values=mean300,@seed=3,seed=4")
    assert (case.layouts, case.values, case.seed, case.choices) == ({"values": "offset"}, "mean300", 3, {"seed": 4})
    assert parse_case(declared(envelope), case.id) == case


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (2, 3, 4, 5), (1, 1), (0, 4)])
def test_a_layout_stays_inside_its_storage_and_gives_each_element_its_place(layout, shape):
    if len(shape) < layout.least_rank:
        pytest.skip("no such layout for this rank")
    place = geometry(layout.name, shape)
    last = place.offset + sum((n - 1) * s for n, s in zip(shape, place.strides, strict=True))
    assert 0 in shape or last < place.storage
    if layout.name != "expanded" and 0 not in shape:
        places = {place.offset}
        for size, stride in zip(shape, place.strides, strict=True):
            places = {p + i * stride for p in places for i in range(size)}
        count = 1
        for size in shape:
            count *= size
        assert len(places) == count


def test_far_rows_start_beyond_int32():
    place = geometry(FAR, (3, 64))
    assert 2 * place.strides[0] >= 2**31


def test_every_scalar_is_given_a_value_of_its_own_so_that_ignoring_it_shows():
    scalars = {
        "eps": Scalar("float", 0, 1),
        "scale": Scalar("float"),
        "seed": Scalar("int", 0, 2**31 - 1),
        "last": Scalar("int", None, 5),
        "round": Scalar("bool"),
    }
    envelope = Envelope(
        inputs={"x": Tensor("N", "T"), **scalars},
        outputs={"y": Tensor("N", "T")},
        dtypes={"T": FLOATS},
        dims={"N": Dim(1, 64)},
    )
    cases = derive(declared(envelope))
    given = {name: {case.choices[name] for case in cases if name in case.choices} for name in scalars}
    assert given == {"eps": {0.375}, "scale": {0.375}, "seed": {3}, "last": {2}, "round": {False, True}}
    assert all(parse_case(declared(envelope), case.id).choices == case.choices for case in cases)


def test_rows_apart_are_tried_in_a_long_reduction_too():
    # the code for long rows may be another kernel, which forgets the stride or computes it in 32 bits
    cases = derive(rms(), block_sizes=(512,))
    assert {case.layouts.get("x") for case in cases if case.dims["N"] > 1024} >= {"sliced", FAR}


def test_rows_that_may_have_a_program_each_stay_few_enough_for_a_cpu_where_a_vector_has_one_number_per_row():
    envelope = Envelope(
        inputs={"x": Tensor("M N", "T")},
        outputs={"y": Tensor("M", "T", numerics=Numerics(reduce="N"))},
        dtypes={"T": FLOATS},
        dims={"M": Dim(0, 65536), "N": Dim(1, 65536)},
    )
    served = [case for case in derive(declared(envelope), block_sizes=(64,)) if case.expect == "kernel"]
    sizes = {name: {case.dims[name] for case in served} for name in "MN"}
    assert max(sizes["M"]) <= 8192
    assert {63, 64, 65} <= sizes["M"]
    assert 65536 in sizes["N"]


def test_a_long_reduction_is_found_where_every_other_size_has_to_shrink_for_it():
    # attention: T alone nearly uses up what the interpreter can afford, six other dims then take their least
    head = {"q": Tensor("B T HQ K", "F"), "k": Tensor("B T H K", "F"), "v": Tensor("B T H V", "F")}
    envelope = Envelope(
        inputs={**head, "cu": Offsets("N+1", total="T", optional=True)},
        outputs={"o": Tensor("B T HQ V", "F", numerics=Numerics(reduce="T"))},
        dtypes={"F": ("float16", "bfloat16")},
        dims={
            "B": Dim(1, 8),
            "T": Dim(1, 2**16),
            "HQ": Dim(1, 64),
            "H": Dim(1, 64),
            "K": Dim(16, 256),
            "V": Dim(16, 256),
            "N": Dim(1, 128),
        },
        where=("HQ % H == 0", "not present(cu) or B == 1"),
    )
    found = Space(declared(envelope)).fit({"T": 4099})
    assert found is not None
    assert found["HQ"] % found["H"] == 0
    assert Space(declared(envelope)).fit({"T": 64, "H": 3})["HQ"] == 3
