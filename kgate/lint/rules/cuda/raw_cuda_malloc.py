"""KG610 raw-cuda-malloc: device memory from cudaMalloc in a function that torch calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG610",
    name="raw-cuda-malloc",
    severity=WARNING,
    summary="A function that takes torch tensors allocates or frees device memory with the CUDA runtime.",
    why=(
        "The allocator of torch keeps freed memory, so that `cudaMalloc` can fail with memory to spare; `cudaMalloc` "
        "and `cudaFree` make the host wait for the device on every call; and neither can be captured into a graph."
    ),
    remedy="Take a workspace from `torch::empty` with the tensor's options; torch's allocator gives it back in order.",
    quiet="Functions that take no tensor, and the stream-ordered `cudaMallocAsync`.",
    sources=("https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management",),
    invalid=(
        Example(
            """
            // file: sum.cu
            void sum(at::Tensor x, at::Tensor out) {
              const at::cuda::OptionalCUDAGuard guard(device_of(x));
              float* part;
              cudaMalloc(&part, 1024 * sizeof(float));
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              auto stream = at::cuda::getCurrentCUDAStream();
              sum_kernel<<<1024, 256, 0, stream>>>(x.data_ptr<float>(), part, out.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
              cudaFree(part);
            }
            """,
        ),
    ),
    valid=(
        Example(
            """
            // file: sum.cu
            void sum(at::Tensor x, at::Tensor out) {
              const at::cuda::OptionalCUDAGuard guard(device_of(x));
              auto part = torch::empty({1024}, x.options());
              auto stream = at::cuda::getCurrentCUDAStream();
              sum_kernel<<<1024, 256, 0, stream>>>(x.data_ptr<float>(), part.data_ptr<float>(), x.numel());
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }
            """,
        ),
        Example(
            """
            // file: main.cu
            int main() {
              float* x;
              cudaMalloc(&x, 1024);
              cudaFree(x);
            }
            """,
            note="A program without torch",
        ),
    ),
)

_ALLOCATING = frozenset({"cudaMalloc", "cudaMallocManaged", "cudaMallocPitch", "hipMalloc", "hipMallocManaged"})
_FREEING = frozenset({"cudaFree", "hipFree"})


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """The first allocation of each function that takes tensors; the first release where it allocates nothing."""
    if "Tensor" not in file.text or not ("Malloc" in file.text or "Free" in file.text):
        return
    for function in file.functions:
        if not function.host or not function.takes_tensors:
            continue
        calls = [(file.callee(node), node) for node in function.nodes["call_expression"]]
        found = next((item for item in calls if item[0] in _ALLOCATING), None)
        found = found or next((item for item in calls if item[0] in _FREEING), None)
        if found is not None:
            name, node = found
            yield Hit(
                file.place(node),
                f"{function.name} calls {name} although its memory is torch's to give",
                "take the workspace from torch::empty(..., tensor.options())",
            )
