"""KG603 default-stream: a launch on the default stream where torch has a current one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.records import CudaFunction, CudaLaunch
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG603",
    name="default-stream",
    severity=WARNING,
    summary="A kernel is launched on the default stream although there is a current one.",
    why=(
        "Work that torch put on its current stream is not ordered with such a launch: under `torch.cuda.stream` the "
        "kernel reads what is not yet written, it cannot be captured into a graph, and it makes other streams wait."
    ),
    remedy="Give `at::cuda::getCurrentCUDAStream()` as the launch's fourth argument.",
    quiet="A fourth argument that is a stream; functions that take neither tensors nor a stream.",
    sources=("NVIDIA/cudnn-frontend#483", "openvdb/fvdb-core#587"),
    invalid=(
        Example(
            """
            // file: scale.cu
            void scale(at::Tensor x) {
              const at::cuda::OptionalCUDAGuard guard(device_of(x));
              scale_kernel<<<4, 256>>>(x.data_ptr<float>(), x.numel());
                          ^^^^^^^^^^^^
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }
            """,
            note="fvdb-core#587 and cudnn-frontend#483, before",
        ),
        Example(
            """
            // file: copy.cu
            void copy(const float* x, float* y, int n, cudaStream_t stream) {
              copy_kernel<<<4, 256, 0, 0>>>(x, y, n);
                         ^^^^^^^^^^^^^^^^^^
              CUDA_CHECK(cudaGetLastError());
            }
            """,
            note="The stream that is handed in is not used",
        ),
    ),
    valid=(
        Example(
            """
            // file: scale.cu
            void scale(at::Tensor x) {
              const at::cuda::OptionalCUDAGuard guard(device_of(x));
              scale_kernel<<<4, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }
            """,
            note="fvdb-core#587 and cudnn-frontend#483, after",
        ),
        Example(
            """
            // file: main.cu
            int main() {
              float* x = make();
              scale_kernel<<<4, 256>>>(x, 1024);
              return cudaDeviceSynchronize();
            }
            """,
            note="A program of its own has the default stream to itself",
        ),
    ),
)

_DEFAULT = re.compile(
    r"0|NULL|nullptr|cudaStream(?:Default|Legacy)|(?:\(\s*cudaStream_t\s*\)|cudaStream_t\s*)[({]?0?[)}]?"
)
_STREAM = re.compile(r"\b(?:cudaStream_t|hipStream_t|CUDAStream|getCurrentCUDAStream)\b")


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Launches without a stream in functions that have one, or that take tensors."""
    if "<<<" not in file.text:
        return
    for launch in file.launches:
        function = launch.function
        if function is None or not function.host or not _default(file, launch):
            continue
        name = launch.kernel or "the kernel"
        if function.takes_tensors or "getCurrentCUDAStream" in file.code(function.body):
            yield Hit(
                file.place(launch.config),
                f"{name} is launched on the default stream, not on torch's current one",
                "give at::cuda::getCurrentCUDAStream() as the fourth launch argument",
            )
        elif stream := _stream(function):
            yield Hit(
                file.place(launch.config),
                f"{name} is launched on the default stream, not on {stream}",
                f"give {stream} as the fourth launch argument",
            )


def _default(file: CudaFile, launch: CudaLaunch) -> bool:
    given = launch.configuration
    if not 2 <= len(given) <= 4:
        return False
    return len(given) < 4 or _DEFAULT.fullmatch(file.code(given[3])) is not None


def _stream(function: CudaFunction) -> str:
    """Name of the parameter that is a stream."""
    return next((item.name for item in function.parameters if item.name and _STREAM.search(item.type)), "")
