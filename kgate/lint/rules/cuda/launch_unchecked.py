"""KG601 launch-unchecked: a kernel launch with no look at its error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from tree_sitter import Node

    from kgate.lint.cuda.records import CudaFunction
    from kgate.lint.cuda.source import CudaFile

RULE = Rule(
    code="KG601",
    name="launch-unchecked",
    severity=WARNING,
    summary="A kernel is launched and nothing looks at the launch's error.",
    why=(
        "A launch returns nothing. One that asks for too many threads or too much shared memory does not run at all, "
        "and the error surfaces at some later, innocent call, or never: the output keeps what memory held."
    ),
    remedy="Check `cudaGetLastError()` right after the launch; in torch code, `C10_CUDA_KERNEL_LAUNCH_CHECK()` does.",
    quiet=(
        "A check before the function ends, by `cudaGetLastError`, `cudaPeekAtLastError` or a synchronising call whose "
        "result is used; a macro or function of the file that does so; one from elsewhere whose name says so; "
        "and callers in the same file that all check."
    ),
    sources=("pytorch/pytorch#46474", "pytorch/pytorch#49269", "pytorch/pytorch#49365"),
    invalid=(
        Example(
            """
            // file: scale.cu
            #include <torch/extension.h>

            __global__ void scale(const float* x, float* y, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = 2.0f * x[i];
            }

            void launch(const float* x, float* y, int n, cudaStream_t stream) {
              scale<<<(n + 1023) / 1024, 1024, 0, stream>>>(x, y, n);
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            }
            """,
            note="pytorch#46474, before",
        ),
        Example(
            """
            // file: reduce.cu
            #define RUN(kernel, n) kernel<<<((n) + 255) / 256, 256>>>(out, n)

            __global__ void fill(float* out, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) out[i] = 0.0f;
            }

            int main() {
              float* out;
              cudaMalloc(&out, 4096);
              RUN(fill, 1024);
              ^^^^^^^^^^^^^^^
              cudaDeviceSynchronize();
              return 0;
            }
            """,
            note="A launch inside a macro, and a result that is dropped (pytorch#49269 and #49365, before)",
        ),
    ),
    valid=(
        Example(
            """
            // file: scale.cu
            #include <torch/extension.h>

            __global__ void scale(const float* x, float* y, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = 2.0f * x[i];
            }

            void launch(const float* x, float* y, int n, cudaStream_t stream) {
              scale<<<(n + 1023) / 1024, 1024, 0, stream>>>(x, y, n);
              C10_CUDA_KERNEL_LAUNCH_CHECK();
            }
            """,
            note="pytorch#46474, after",
        ),
        Example(
            """
            // file: reduce.cu
            #define RUN(kernel, n)                              \\
              do {                                              \\
                kernel<<<((n) + 255) / 256, 256>>>(out, n);     \\
                if (cudaGetLastError() != cudaSuccess) abort(); \\
              } while (0)

            __global__ void fill(float* out, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) out[i] = 0.0f;
            }

            void run(float* out) { RUN(fill, 1024); }
            """,
            note="The macro checks (pytorch#49269 and #49365, after)",
        ),
    ),
)


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Launches, and macros that launch, with no check behind them."""
    if "<<<" not in file.text:
        return
    for launch in file.launches:
        function = launch.function
        if function is not None and function.host and not _checked(file, launch.node, function):
            end = launch.config.end_byte
            yield _hit(file, launch.node.start_byte, end, f"the launch of {launch.kernel or 'a kernel'}", function)
    launching = {name for name, macro in file.macros.items() if "<<<" in macro.value and not _checks(file, macro.value)}
    for name in sorted(launching):
        for node, function in file.calls.get(name, ()):
            if function.host and not _checked(file, node, function):
                yield _hit(file, node.start_byte, node.end_byte, f"the launch in {name}", function)


def _checked(file: CudaFile, node: Node, function: CudaFunction) -> bool:
    return file.checks.follow(node, function) or file.checks.callers_check(function)


def _checks(file: CudaFile, macro: str) -> bool:
    return file.checks.written_in(macro.partition(">>>")[2])


def _hit(file: CudaFile, start: int, end: int, what: str, function: CudaFunction) -> Hit:
    torch = function.takes_tensors or "torch" in file.text or "ATen" in file.text
    how = "add C10_CUDA_KERNEL_LAUNCH_CHECK(); after it" if torch else "check cudaGetLastError() after it"
    return Hit(file.place_between(start, end), f"nothing looks at the error of {what}", how)
