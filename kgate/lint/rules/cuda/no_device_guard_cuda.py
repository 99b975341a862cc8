"""KG602 no-device-guard-cuda: a function that takes tensors launches on whatever device is current."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG602",
    name="no-device-guard-cuda",
    severity=WARNING,
    summary="A function that takes torch tensors launches a kernel without making their device the current one.",
    why=(
        "The launch goes to the current device, `cuda:0` unless somebody changed it. With tensors on `cuda:1` it ends "
        "in an illegal memory access, or in wrong results where the devices can reach each other's memory."
    ),
    remedy="Begin the function with `const at::cuda::OptionalCUDAGuard guard(device_of(tensor))`.",
    quiet=(
        "A guard of any kind or `cudaSetDevice` in the function; callers in the same file that all have one; "
        "templates, functions in headers and those that are handed a stream, whose callers choose; functions "
        "that take no tensor."
    ),
    sources=("pytorch/pytorch#48894", "openvdb/fvdb-core#587", "NVIDIA/cudnn-frontend#483"),
    invalid=(
        Example(
            """
            // file: scale.cu
            #include <torch/extension.h>

            torch::Tensor scale(torch::Tensor x) {
                          ^^^^^
              auto y = torch::empty_like(x);
              auto stream = at::cuda::getCurrentCUDAStream();
              scale_kernel<<<4, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
              return y;
            }
            """,
            note="pytorch#48894, before",
        ),
        Example(
            """
            # file: fill.py
            from torch.utils.cpp_extension import load_inline

            source = '''
            __global__ void fill_kernel(float* out, float value, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) out[i] = value;
            }

            void fill(at::Tensor out, double value) {
                 ^^^^
              fill_kernel<<<4, 256, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>(), value, out.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }
            '''
            declared = "void fill(at::Tensor, double);"
            ops = load_inline("ops", cpp_sources=declared, cuda_sources=source, functions=["fill"])
            """,
            note="In a string",
        ),
    ),
    valid=(
        Example(
            """
            // file: scale.cu
            #include <torch/extension.h>

            torch::Tensor scale(torch::Tensor x) {
              const at::cuda::OptionalCUDAGuard guard(device_of(x));
              auto y = torch::empty_like(x);
              auto stream = at::cuda::getCurrentCUDAStream();
              scale_kernel<<<4, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
              return y;
            }
            """,
            note="pytorch#48894, after",
        ),
        Example(
            """
            // file: scale.cu
            static void run(const at::Tensor& x, cudaStream_t stream) {
              scale_kernel<<<4, 256, 0, stream>>>(x.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }

            void scale(at::Tensor x) {
              c10::cuda::CUDAGuard guard(x.device());
              run(x, at::cuda::getCurrentCUDAStream());
            }
            """,
            note="The caller guards",
        ),
    ),
)

_STREAM = re.compile(r"\b(?:cudaStream_t|hipStream_t|CUDAStream)\b")
_GUARD = re.compile(r"[gG]uard|DEVICE_GUARD|\b(?:cuda|hip)SetDevice\b|set_device|\bDeviceScope\b")


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Functions with a tensor parameter and a launch, and no guard."""
    if "<<<" not in file.text or "Tensor" not in file.text:
        return
    seen: set[int] = set()
    for launch in file.launches:
        function = launch.function
        if function is None or not function.host or not function.takes_tensors or id(function) in seen:
            continue
        seen.add(id(function))
        if not _answers(file, function) or _guards(file, function) or _callers_guard(file, function):
            continue
        yield Hit(
            file.place(function.name_node),
            f"{function.name} launches {launch.kernel or 'a kernel'} on the current device, not on its tensors'",
            f"begin {function.name} with const at::cuda::OptionalCUDAGuard guard(device_of({_tensor(function)}));",
            related=((file.place_between(launch.node.start_byte, launch.config.end_byte), "launched here"),),
        )


def _answers(file: CudaFile, function: CudaFunction) -> bool:
    """Whether it is the function's part to choose the device: templates, functions in headers and those that are
    handed a stream are called by others that do."""
    if function.name in file.registered:
        return True
    header = not file.embedded and not file.path.endswith((".cu", ".hip"))
    return not header and not function.template and not any(_STREAM.search(item.type) for item in function.parameters)


def _guards(file: CudaFile, function: CudaFunction) -> bool:
    return _GUARD.search(file.code(function.body)) is not None


def _callers_guard(file: CudaFile, function: CudaFunction, depth: int = 3) -> bool:
    callers = {id(caller): caller for _, caller in file.calls.get(function.name, ()) if caller is not function}
    return 0 < len(callers) <= 50 and all(
        _guards(file, caller) or (depth > 0 and _callers_guard(file, caller, depth - 1)) for caller in callers.values()
    )


def _tensor(function: CudaFunction) -> str:
    return next((item.name for item in function.parameters if item.tensor and item.name), "tensor")
