"""KG607 unchecked-data-ptr: a tensor's memory is handed to a kernel with no check of its layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.records import CudaFunction, CudaParameter
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG607",
    name="unchecked-data-ptr",
    severity=WARNING,
    summary="A bound function takes a tensor's data pointer without a check of its layout.",
    why=(
        "A data pointer knows nothing of strides: a transposed or sliced tensor is read as if it were contiguous, and "
        "the result is wrong without an error. Cast from void, it does not know its dtype either."
    ),
    remedy='Begin with `TORCH_CHECK(x.is_contiguous(), "x must be contiguous")`, or take `x.contiguous()` first.',
    quiet=(
        "A check macro or `TORCH_CHECK` on the tensor, a dispatch on its scalar type, `.contiguous()`, strides that "
        "are handed on, tensors made in the function, and functions that are not bound where they stand."
    ),
    sources=("https://docs.pytorch.org/tutorials/advanced/cpp_extension.html",),
    invalid=(
        Example(
            """
            // file: gelu.cu
            #include <torch/extension.h>

            torch::Tensor gelu(torch::Tensor x) {
              auto y = torch::empty_like(x);
              run_gelu(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
                       ^^^^^^^^^^^^^^^^^^^
              return y;
            }

            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gelu", &gelu); }
            """,
        ),
        Example(
            """
            # file: add_one.py
            source = r'''
            __global__ void add_one_kernel(float* x, int n) {
              if (threadIdx.x < n) x[threadIdx.x] += 1.0f;
            }

            void add_one(at::Tensor x) {
              add_one_kernel<<<1, 256>>>((float*)x.data_ptr(), x.numel());
                                                 ^^^^^^^^^^^^
            }
            '''
            """,
            note="In a string, and without a dtype",
        ),
    ),
    valid=(
        Example(
            """
            // file: gelu.cu
            #include <torch/extension.h>

            torch::Tensor gelu(torch::Tensor x) {
              TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
              auto y = torch::empty_like(x);
              run_gelu(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
              return y;
            }

            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gelu", &gelu); }
            """,
        ),
        Example(
            """
            // file: gelu.cu
            #include <torch/extension.h>
            #define CHECK_INPUT(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

            torch::Tensor gelu(torch::Tensor x) {
              CHECK_INPUT(x);
              auto y = torch::empty_like(x);
              run_gelu(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
              return y;
            }

            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gelu", &gelu); }
            """,
            note="Through a macro",
        ),
    ),
)

_POINTERS = frozenset({"data_ptr", "mutable_data_ptr", "const_data_ptr", "data"})
_LAYOUT = re.compile(
    r"\b(\w+)\s*(?:\.|->)\s*(?:(?:value|toTensor)\(\)\s*\.\s*)?(?:is_contiguous|contiguous|strides?|"
    r"is_non_overlapping_and_dense|expect_contiguous|suggest_memory_format)\b"
)
_WORD = re.compile(r"\w+")
_REBOUND = re.compile(r"\b(\w+)\s*=[^=]")
_DISPATCH = re.compile(r"DISPATCH\w{0,60}\(\s*(?:[\w:]+,\s*)*(\w+)\s*(?:\.|->)\s*(?:scalar_type|dtype)\(")
_CHECK = re.compile(
    r"(?:CHECK|check|ENFORCE|ASSERT|assert|VALIDATE|validate|VERIFY|contiguous|CONTIGUOUS)\w{0,40}\s*\(([^;]{0,400})"
)


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Data pointers of tensor parameters in entries."""
    if "data_ptr" not in file.text:
        return
    for function in file.functions:
        tensors = {item.name: item for item in function.parameters if item.tensor and item.name}
        if not tensors or not function.host or not file.entry(function):
            continue
        answered: set[str] | None = None
        for node in function.nodes["call_expression"]:
            name = _owner(file, node)
            parameter = tensors.get(name)
            if parameter is None:
                continue
            answered = _answered(file, function) if answered is None else answered
            if name not in answered:
                answered.add(name)
                yield _hit(file, function, node, parameter)


def _owner(file: CudaFile, call: Node) -> str:
    """The variable whose data pointer a call takes; empty for any other call."""
    function = call.child_by_field_name("function")
    if function is None or function.type != "field_expression":
        return ""
    if file.last_name(function) not in _POINTERS:
        return ""
    owner = function.child_by_field_name("argument")
    return file.code(owner) if owner is not None and owner.type == "identifier" else ""


def _answered(file: CudaFile, function: CudaFunction) -> set[str]:
    """Variables whose layout a function checks, makes so, or hands on."""
    code = file.code(function.body)
    found = {*_LAYOUT.findall(code), *_REBOUND.findall(code)}
    found.update(_DISPATCH.findall(code))
    for text in _CHECK.findall(code):
        found.update(_WORD.findall(text))
    for node in function.nodes["call_expression"]:
        macro = file.macros.get(file.callee(node))
        if macro is not None and "contiguous" in macro.value:
            found.update(_WORD.findall(file.code(node)))
    return found


def _hit(file: CudaFile, function: CudaFunction, node: Node, parameter: CudaParameter) -> Hit:
    name = parameter.name
    typed = "<" in file.code(node)
    what = "layout" if typed else "layout or dtype"
    return Hit(
        file.place(node),
        f"{function.name} takes the data pointer of {name} and checks nothing of its {what}",
        f'add TORCH_CHECK({name}.is_contiguous(), "{name} must be contiguous") before it, or hand its strides on',
    )
