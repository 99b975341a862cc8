"""The decorated function: what it is, where its calls go, and what it says about them."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import threading
import warnings

import pytest

from kgate import (
    Choice,
    DeclarationError,
    DeclarationWarning,
    Dim,
    Envelope,
    Kernel,
    ListOf,
    Numerics,
    Offsets,
    Scalar,
    Tensor,
    TensorFacts,
    Workload,
    kernel,
)
from kgate.contract.dispatch import launcher_only, target_of
from kgate.contract.serial import workload_from_dict, workload_to_dict

FLOATS = ("float16", "bfloat16", "float32")
ENVELOPE = Envelope(
    inputs={
        "x": Tensor("M N", "T", layout="inner_contiguous"),
        "weight": Tensor("N", "T", optional=True),
        "mode": Choice("llama", "gemma"),
    },
    outputs={"y": Tensor("M N", "T", numerics=Numerics(reduce="N", roundings=1))},
    dtypes={"T": FLOATS},
    dims={"M": Dim(0, 1024), "N": Dim(1, 512)},
    where=("M * N < 2**16", "stride(x, 0) % 8 == 0"),
    targets=("cpu",),
)


def reference(x, weight=None, eps=1e-6, mode="llama"):
    return "reference"


def fallback(x, weight=None, eps=1e-6, mode="llama"):
    return ("fallback", x, weight, eps, mode)


def declare(**changes):
    parts = {"reference": reference, "fallback": fallback, "envelope": ENVELOPE}
    return kernel(**{**parts, **changes})


@declare(grad=("x",), workloads=(Workload(M=4, N=8, T="float16", source="none"),), depends=("a/*.json",))
def rms_norm(x, weight=None, eps=1e-6, mode="llama"):
    """Root mean square."""
    return ("kernel", x, weight, eps, mode)


def theirs_forward(x):
    return "kernel"


def test_inside_the_envelope_the_launcher_runs(tensor):
    x, weight = tensor((4, 8)), tensor((8,))
    assert rms_norm(x, weight, mode="gemma") == ("kernel", x, weight, 1e-6, "gemma")
    assert rms_norm(x=x) == ("kernel", x, None, 1e-6, "llama")
    assert rms_norm.explain(x, weight) == ()


def test_outside_the_envelope_the_fallback_gets_the_same_arguments(tensor):
    x, weight = tensor((4, 8)), tensor((9,))
    assert rms_norm(x, weight, 0.5) == ("fallback", x, weight, 0.5, "llama")


@pytest.mark.parametrize(
    ("x", "kwargs", "code", "got", "want"),
    [
        ({"shape": (8,), "strides": (8,)}, {}, "rank", 1, 2),
        ({"shape": (4, 8), "dtype": "int8"}, {}, "dtype-unsupported", "int8", list(FLOATS)),
        ({"shape": (4, 8)}, {"weight": {"shape": (8,), "dtype": "float16"}}, "dtype-mismatch", "float16", "float32"),
        ({"shape": (4, 8)}, {"weight": {"shape": (7,)}}, "shape-mismatch", 7, "N"),
        ({"shape": (4, 1024)}, {}, "dim-range", 1024, [1, 512]),
        ({"shape": (1024, 512)}, {}, "where", {"M": 1024, "N": 512}, "M * N < 2**16"),
        ({"shape": (4, 8), "strides": (12, 1)}, {}, "where", {"stride(x, 0)": 12}, "stride(x, 0) % 8 == 0"),
        ({"shape": (4, 8), "strides": (8, 4)}, {}, "layout", [8, 4], "inner_contiguous"),
        ({"shape": (4, 8)}, {"mode": "gpt"}, "choice", "gpt", ["llama", "gemma"]),
        (None, {}, "missing", None, "a value"),
        ("text", {}, "type", "text", "tensor"),
        ({"shape": (4, 8), "device": "meta"}, {}, "target-unsupported", "meta", ["cpu"]),
        ({"shape": (4, 8)}, {"weight": {"shape": (8,), "device": "meta"}}, "device-mismatch", "meta", "cpu"),
    ],
)
def test_each_reason_has_its_code_and_its_values(tensor, x, kwargs, code, got, want):
    make = lambda spec: tensor(**spec) if isinstance(spec, dict) else spec  # noqa: E731
    arguments = {"x": make(x), **{name: make(spec) for name, spec in kwargs.items()}}
    (reason,) = rms_norm.explain(**arguments)
    assert (reason.code, reason.got, reason.want) == (code, got, want)
    assert reason.message
    assert rms_norm(**arguments)[0] == "fallback"


def test_explain_tells_every_reason_and_can_ask_about_another_target(tensor):
    reasons = rms_norm.explain(tensor((4, 8), "int8"), tensor((9,)), mode="gpt", target="cuda:sm_90")
    assert [reason.code for reason in reasons] == [
        "choice",
        "dtype-unsupported",
        "shape-mismatch",
        "target-unsupported",
    ]
    assert str(reasons[2]) == "axis 0 of weight is 9, not N with N = 8 [shape-mismatch]"


def test_explain_takes_facts_in_place_of_tensors():
    assert rms_norm.explain(TensorFacts((4, 8), "float16"), target="cpu") == ()
    (reason,) = rms_norm.explain(TensorFacts((4, 8), "int8"), target="cpu")
    assert reason.to_dict()["code"] == "dtype-unsupported"


def test_a_parameter_called_target_stays_the_launchers(tensor):
    envelope = ENVELOPE.replace(
        inputs={"x": Tensor("M N", "T"), "target": Tensor("M", "int64")}, where=(), outputs={"loss": Tensor("M", "T")}
    )

    @declare(envelope=envelope)
    def cross_entropy(x, target):
        return "kernel"

    assert cross_entropy.explain(tensor((2, 8)), target=tensor((2,), "int64")) == ()
    assert [r.code for r in cross_entropy.explain(tensor((2, 8)), tensor((2,), "int64"), target="hip:gfx942")] == [
        "target-unsupported"
    ]


def test_a_call_that_does_not_fit_is_a_type_error_that_names_the_kernel():
    with pytest.raises(TypeError, match=r"rms_norm\(\) missing 1 required positional argument: 'x'"):
        rms_norm()
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        rms_norm(1, scale=2)


def test_an_exception_of_the_launcher_is_not_hidden(tensor):
    @declare()
    def broken(x, weight=None, mode="llama"):
        raise RuntimeError("launch failed")

    with pytest.raises(RuntimeError, match="launch failed"):
        broken(tensor((4, 8)))


def test_launcher_only_passes_by_the_check_in_nested_calls_and_in_other_threads(tensor):
    outside = tensor((4, 8), "int8")

    @declare()
    def outer(x, weight=None, mode="llama"):
        return rms_norm(x)

    seen = []
    assert outer(outside)[0] == "fallback"
    with launcher_only():
        with launcher_only():
            assert outer(outside)[0] == "kernel"
        thread = threading.Thread(target=lambda: seen.append(outer(outside)[0]))
        thread.start()
        thread.join()
    assert seen == ["kernel"]
    assert outer(outside)[0] == "fallback"
    assert outer.unchecked is outer.launcher


def test_launcher_only_ends_with_an_exception(tensor):
    with pytest.raises(KeyError), launcher_only():
        raise KeyError("x")
    assert rms_norm(tensor((4, 8), "int8"))[0] == "fallback"


def test_dispatch_can_be_switched_off():
    program = (
        "from kgate import *\n"
        "def other(x): return 'fallback'\n"
        "t = Tensor('M', 'float32')\n"
        "e = Envelope(inputs={'x': t}, outputs={'y': t}, dims={'M': Dim(0, 1)})\n"
        "@kernel(reference=other, fallback=other, envelope=e)\n"
        "def f(x): return 'kernel'\n"
        "print(f(3))"
    )
    run = lambda **env: subprocess.run(  # noqa: E731
        [sys.executable, "-c", program], env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert run() == "fallback"
    assert run(KGATE_DISPATCH="off") == "kernel"


def test_it_looks_like_the_function_that_it_wraps():
    assert isinstance(rms_norm, Kernel)
    assert (rms_norm.__name__, rms_norm.__qualname__, rms_norm.__doc__) == ("rms_norm", "rms_norm", "Root mean square.")
    assert inspect.signature(rms_norm) == inspect.signature(rms_norm.launcher)
    assert (rms_norm.name, rms_norm.op, rms_norm.module, rms_norm.qualname) == (
        "rms_norm",
        "rms_norm",
        __name__,
        "rms_norm",
    )
    assert rms_norm.reference is reference
    assert rms_norm.check is None
    assert rms_norm.input_generator is None


def test_pickles_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules[rms_norm.launcher.__module__])
    assert pickle.loads(pickle.dumps(rms_norm)) is rms_norm


def test_code_of_others_is_declared_from_outside(tmp_path, monkeypatch, tensor):
    (tmp_path / "theirs_kg.py").write_text("def forward(x, eps=1e-6):\n    return 'kernel'\n")
    (tmp_path / "ours_kg.py").write_text(
        "import theirs_kg\nfrom kgate import *\n"
        "t, name = Tensor('M', 'float32'), 'theirs_kg:forward'\n"
        "e = Envelope(inputs={'x': t}, outputs={'y': t}, dims={'M': Dim(0, 9)})\n"
        "norm = kernel(reference=name, fallback=name, envelope=e, op='norm')(theirs_kg.forward)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import ours_kg

    norm = ours_kg.norm
    assert norm(tensor((3,))) == "kernel"
    assert (norm.name, norm.op, norm.module, norm.qualname) == ("norm", "norm", "ours_kg", "norm")
    assert norm.reference is ours_kg.theirs_kg.forward
    assert norm.describe()["reference"] == "theirs_kg:forward"
    assert pickle.loads(pickle.dumps(norm)) is norm


def test_strings_are_imported_on_first_use_only():
    lazy = declare(fallback="nowhere_kg.at_all:function", reference="os.path:join")(theirs_norm())
    assert lazy.reference is os.path.join
    assert lazy.describe()["fallback"] == "nowhere_kg.at_all:function"
    with pytest.raises(ModuleNotFoundError, match="nowhere_kg"):
        lazy(None)


def theirs_norm():
    def norm(x, weight=None, mode="llama"):
        return "kernel"

    return norm


def test_the_input_generator_is_registered_once():
    made = declare()(theirs_norm())

    @made.generator
    def inputs(case):
        return {"x": case}

    assert made.input_generator is inputs
    with pytest.raises(DeclarationError, match="already has an input generator"):
        made.generator(inputs)


def test_lists_offsets_scalars_and_in_place_results(tensor):
    envelope = Envelope(
        inputs={
            "params": ListOf(Tensor("M", "float32", mutated=True), "L"),
            "cu": Offsets("B+1", "M", optional=True),
            "lr": Scalar("float", 0.0, 1.0),
        },
        dims={"L": Dim(1, 4), "M": Dim(0, 8), "B": Dim(1, 3)},
    )

    def eager(params, lr, cu=None):
        return "fallback"

    @declare(envelope=envelope, fallback=eager)
    def step(params, lr, cu=None):
        return "kernel"

    good = [tensor((4,)), tensor((4,))]
    assert step(good, 0.1) == step(good, 1, tensor((3,), "int64")) == "kernel"
    for arguments in (
        ([], 0.1),
        (good, 2.0),
        (good, True),
        (good, "x"),
        (tensor((4,)), 0.1),
        ([*good, tensor((5,))], 0.1),
    ):
        assert step(*arguments) == "fallback"
    codes = [reason.code for reason in step.explain([*good, None], 3.0, tensor((6,), "int32"))]
    assert codes == ["type", "scalar", "dtype-unsupported", "dim-range"]


def test_a_launcher_may_have_any_kind_of_parameter(tensor):
    envelope = ENVELOPE.replace(inputs={"x": Tensor("M N", "T"), "weight": Tensor("N", "T")}, where=())

    @declare(envelope=envelope)
    def kinds(x, /, len=3, *, weight, type="t", **more):
        return (len, type, more)

    assert kinds(tensor((4, 8)), weight=tensor((8,)), type=5, other=1) == (3, 5, {"other": 1})
    assert kinds.explain(tensor((4, 8)), weight=tensor((9,)))[0].code == "shape-mismatch"


def test_a_compiled_binding_has_the_inputs_for_parameters(tensor):
    envelope = Envelope(
        inputs={"x": Tensor("M", "T")}, outputs={"y": Tensor("M", "T")}, dtypes={"T": FLOATS}, dims={"M": Dim(0, 9)}
    )
    made = declare(envelope=envelope, fallback=theirs_forward, sources=("copy.cu",))(vars)
    assert made.explain(tensor((10,)))[0].code == "dim-range"
    assert made(tensor((10,))) == "kernel"


class Layer:
    def method(self, x):
        return x

    @staticmethod
    def static(x, weight=None, mode="llama"):
        return "kernel"


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        (Layer, "not a plain function"),
        (Layer.method, "is a method"),
        (Layer().method, "not a plain function"),
        (staticmethod(theirs_forward), "not a plain function"),
        (rms_norm, "already a kernel"),
        (3, "is not a function"),
    ],
)
def test_only_functions_are_declared(launcher, message):
    with pytest.raises(DeclarationError, match=message) as caught:
        declare()(launcher)
    assert caught.value.code == "not-a-function"


def test_a_static_method_of_others_is_a_function(tensor):
    assert declare()(Layer.static)(tensor((4, 8))) == "kernel"


def test_mistakes_name_the_file_the_line_and_every_remedy():
    with pytest.raises(DeclarationError) as caught:

        @declare(grad=("y",), workloads=(Workload(M=4, N=8, T="int8"),))
        def wrong(x, weight, scale):
            return x

    text = str(caught.value)
    line = inspect.getsourcelines(test_mistakes_name_the_file_the_line_and_every_remedy)[1] + 3
    assert text.startswith(f"{__file__}:{line}: ")
    assert "grad.0: there is no input 'y'" in text
    assert "workloads.0.T: T = 'int8' is not supported" in text
    assert "declare 'scale' in inputs, or give it a default" in text
    assert "envelope.inputs.mode: the launcher has no parameter 'mode'" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reference": "references.norm"}, "bad-function"),
        ({"fallback": lambda x: x}, "bad-function"),
        ({"check": 3}, "bad-function"),
        ({"envelope": {}}, "wrong-kind"),
        ({"name": 3}, "bad-name"),
        ({"sources": "a.cu"}, "not-a-tuple"),
    ],
)
def test_mistakes_in_the_decorators_arguments(changes, code):
    with pytest.raises(DeclarationError) as caught:
        declare(**changes)(theirs_norm())
    assert caught.value.code == code
    assert caught.value.remedy


def test_an_unknown_target_is_a_warning_at_import():
    with pytest.warns(DeclarationWarning, match="no target 'cuda:sm_95'"):
        made = declare(envelope=ENVELOPE.replace(targets=("cuda:sm_95", "cpu")))(theirs_norm())
    assert made.envelope.concrete_targets() == ("cpu", "cuda:sm_95")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declare()(theirs_norm())


def test_the_description_is_canonical_and_reads_back():
    described = rms_norm.describe()
    assert described["envelope"]["where"] == ["M * N < 2**16", "stride(x, 0) % 8 == 0"]
    assert described["fallback"] == f"{__name__}:fallback"
    again = Envelope.from_dict(described["envelope"])
    assert again == ENVELOPE
    assert again.to_dict() == ENVELOPE.to_dict()
    respaced = ENVELOPE.replace(where=("M*N<2 ** 16", "(stride(x,0) % 8)==0"))
    assert respaced.to_dict() == ENVELOPE.to_dict()
    assert ENVELOPE.replace(targets=()) != ENVELOPE


def test_every_word_reads_back_from_its_description():
    envelope = Envelope(
        inputs={
            "a": ListOf(Tensor("M", "T", layout="dense", mutated=True, numerics=Numerics(c=2.0)), "L", optional=True),
            "cu": Offsets("B+1", "M", dtype="int32", optional=True),
            "k": Scalar("int", 1, optional=True),
            "flag": Choice(True, False, None),
            "z": Tensor("M", "T"),
        },
        outputs={"y": Tensor("M", "T", optional=True)},
        dtypes={"T": FLOATS},
        dims={"M": Dim(0, 3), "L": Dim(0, 3), "B": Dim(0, 3)},
    )
    assert Envelope.from_dict(envelope.to_dict()) == envelope
    workload = Workload(M=1, T="float16", source="s", layouts={"z": "strided"}, absent=("cu",))
    assert workload_from_dict(workload_to_dict(workload)) == workload


class FakeTorch:
    def __init__(self, hip=None, arch="", capability=(9, 0)):
        self.version = type("version", (), {"hip": hip})
        properties = type("properties", (), {"gcnArchName": arch})
        self.cuda = type(
            "cuda",
            (),
            {
                "get_device_capability": staticmethod(lambda device: capability),
                "get_device_properties": staticmethod(lambda device: properties),
            },
        )


@pytest.mark.parametrize(
    ("torch", "device", "target"),
    [
        (FakeTorch(), "cuda:0", "cuda:sm_90"),
        (FakeTorch(capability=(10, 0)), "cuda:0", "cuda:sm_100"),
        (FakeTorch(hip="6.2", arch="gfx942:sramecc+:xnack-"), "cuda:0", "hip:gfx942"),
        (FakeTorch(), "cpu", "cpu"),
        (None, "cuda:0", "cuda"),
    ],
)
def test_target_of_a_device(monkeypatch, tensor, torch, device, target):
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert target_of(tensor((1,), device=device).device) == target


def test_real_tensors_are_dispatched(tensor):
    torch = pytest.importorskip("torch")
    x = torch.ones(4, 8)
    assert rms_norm(x, torch.ones(8))[0] == "kernel"
    assert rms_norm(torch.ones(8, 4).t(), torch.ones(8))[0] == "fallback"
    assert [r.code for r in rms_norm.explain(x.double())] == ["dtype-unsupported"]
    assert rms_norm(x.bfloat16(), torch.ones(8, dtype=torch.bfloat16))[0] == "kernel"
    assert [r.code for r in rms_norm.explain(x, mode=torch.ones(1))] == ["choice"]


def test_a_kernel_declared_from_outside_goes_by_the_first_variable_that_it_is_bound_to(tmp_path, monkeypatch):
    (tmp_path / "outside_kg.py").write_text(
        "from kgate import *\n"
        "def fn(x):\n    return x\n"
        "t = Tensor('M', 'float32')\n"
        "e = Envelope(inputs={'x': t}, outputs={'y': t}, dims={'M': Dim(0, 9)})\n"
        "declare = kernel(reference=fn, fallback=fn, envelope=e)\n"
        "first = declare(fn)\nsecond = first\n"
        "@kernel(reference=fn, fallback=first, envelope=e)\ndef own(x):\n    return x\n"
        "made = [declare(fn)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import outside_kg

    assert (outside_kg.first.name, outside_kg.first.op, outside_kg.first.qualname) == ("first", "first", "first")
    assert (outside_kg.own.name, outside_kg.own.describe()["fallback"]) == ("own", "outside_kg:first")
    assert outside_kg.made[0].name == "fn"


@pytest.mark.parametrize("name", ["../../x y", "", "a..b", 3])
def test_a_name_that_is_none_is_refused_at_import(name):
    for option in ("name", "op"):
        with pytest.raises(DeclarationError) as caught:
            kernel(reference=ref, fallback=ref, envelope=rms_norm.envelope, **{option: name})(rms_norm.launcher)
        assert (caught.value.code, caught.value.where) == ("bad-name", (option,))


def test_a_launcher_that_its_call_does_not_run_is_refused_at_import():
    async def later(x):
        return x

    def pieces(x):
        yield x

    for launcher in (later, pieces):
        with pytest.raises(DeclarationError) as caught:
            kernel(reference=ref, fallback=ref, envelope=rms_norm.envelope)(launcher)
        assert caught.value.code == "not-a-function"
        assert "launches nothing" in caught.value.message


def ref(x):
    return x


def test_reasons_keep_a_launchers_own_target_apart_from_the_question():
    envelope = Envelope(
        inputs={"x": Tensor("N", "float32"), "target": Tensor("N", "int64")},
        outputs={"y": Tensor("N", "float32")},
        dims={"N": Dim(1, 8)},
        targets=("cuda:sm_90",),
    )

    def loss(x, target):
        return x

    declared = kernel(reference=loss, fallback=loss, envelope=envelope)(loss)
    facts = {"x": TensorFacts((4,), "float32", (1,)), "target": TensorFacts((4,), "int64", (1,))}
    assert declared.reasons((), facts, "cuda:sm_90") == ()
    assert [r.code for r in declared.reasons((), facts, "cuda:sm_80")] == ["target-unsupported"]
