"""Idioms of sound CUDA code that no rule reports, and variations of each mistake that its rule does."""

from __future__ import annotations

import textwrap

import pytest

from kgate.lint.cuda.source import cuda_files_of
from kgate.lint.registry import rules

RULES = [rule for rule in rules() if rule.family == "cuda"]


def _findings(source: str, name: str = "kernel.cu") -> list[tuple[str, int]]:
    found = []
    for file in cuda_files_of(name, textwrap.dedent(source).strip("\n").encode()):
        found += [(rule.code, hit.node[0]) for rule in RULES for run in rule.cuda_checks for hit in run(file)]
    return found


SOUND = {
    "a reduction over a row": """
        template <typename T>
        __device__ T sum_over_block(T v) {
          __shared__ T part[32];
          int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
          for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
          if (lane == 0) part[warp] = v;
          __syncthreads();
          return threadIdx.x < blockDim.x / 32 ? part[lane] : T(0);
        }

        __global__ void norms(const float* x, float* out, int width) {
          float v = 0;
          for (int c = threadIdx.x; c < width; c += blockDim.x) v += x[blockIdx.x * width + c];
          v = sum_over_block(v);
          if (threadIdx.x == 0) out[blockIdx.x] = v;
        }
        """,
    "one value for all from shared memory": """
        __global__ void search(const int* x, int n) {
          __shared__ int found;
          for (int r = 0; r < n; ++r) {
            if (threadIdx.x == 0) found = x[threadIdx.x + r];
            __syncthreads();
            if (found) break;
            __syncthreads();
          }
        }
        """,
    "a remainder of a product in 64 bits": """
        __global__ void wrap(float* x, int64_t stride, int ring) {
          int64_t row = blockIdx.x;
          int slot = (row * stride) % ring;
          if (threadIdx.x == 0) x[slot] = 0;
        }
        """,
    "a tiled product": """
        #define SIDE 32
        __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
          __shared__ float left[SIDE][SIDE], right[SIDE][SIDE];
          int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
          float sum = 0;
          for (int first = 0; first < k; first += SIDE) {
            left[threadIdx.y][threadIdx.x] = row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0;
            const int y = first + threadIdx.y;
            right[threadIdx.y][threadIdx.x] = col < n && y < k ? b[y * n + col] : 0;
            __syncthreads();
            for (int i = 0; i < SIDE; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
            __syncthreads();
          }
          if (row < m && col < n) c[row * n + col] = sum;
        }
        """,
    "the last block finishes": """
        __global__ void finish(int* done, const int* x, int* out, int n) {
          __shared__ bool last;
          if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;
          __syncthreads();
          if (last) {
            __shared__ int part[256];
            part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
            __syncthreads();
            if (threadIdx.x == 0) out[0] = part[0];
          }
        }
        """,
    "a loop over whole blocks": """
        __global__ void compact(const int* x, int* out, int n) {
          const int rounded = (n + blockDim.x - 1) / blockDim.x * blockDim.x;
          for (int i = threadIdx.x; i < rounded; i += blockDim.x) {
            int kept = __syncthreads_count(i < n && x[i] > 0);
            if (threadIdx.x == 0 && kept) atomicAdd(out, kept);
          }
        }
        """,
    "one name in two loops": """
        __global__ void twice(float* x, int n, int rounds) {
          for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 0;
          for (int i = 0; i < rounds; ++i) {
            __syncthreads();
            if (threadIdx.x < n) x[threadIdx.x] += i;
          }
        }
        """,
    "a barrier in both branches": """
        __global__ void roles(float* x) {
          __shared__ float tile[64];
          if (threadIdx.x < 32) {
            tile[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
          } else {
            __syncthreads();
            x[threadIdx.x] = tile[threadIdx.x - 32];
          }
        }
        """,
    "a check behind a dispatch": """
        void scale(at::Tensor x) {
          const c10::cuda::OptionalCUDAGuard guard(x.device());
          auto stream = at::cuda::getCurrentCUDAStream();
          AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
            if (x.dim() == 1) {
              one<scalar_t><<<1, 256, 0, stream>>>(x.data_ptr<scalar_t>());
            } else {
              many<scalar_t><<<1, 256, 0, stream.stream()>>>(x.data_ptr<scalar_t>());
            }
          });
          AT_CUDA_CHECK(cudaGetLastError());
        }
        """,
    "a check in a helper": """
        static void look(const char* what) {
          cudaError_t error = cudaPeekAtLastError();
          if (error != cudaSuccess) fprintf(stderr, "%s: %s", what, cudaGetErrorString(error));
        }
        void run(float* x, cudaStream_t s) {
          fill<<<1, 32, 0, s>>>(x);
          look("fill");
        }
        """,
    "a check behind a switch": """
        void run(int n, float* x, cudaStream_t s) {
          switch (n) {
            case 1: fill<1><<<1, 1, 0, s>>>(x); break;
            default: fill<2><<<1, 2, 0, s>>>(x); break;
          }
          CHECK_CUDA_KERNEL_LAUNCH();
        }
        """,
    "the error is returned": """
        cudaError_t run(float* x, cudaStream_t s) {
          fill<<<1, 32, 0, s>>>(x);
          return cudaGetLastError();
        }
        """,
    "callers check": """
        static void start(float* x, cudaStream_t s) { fill<<<1, 32, 0, s>>>(x); }
        void run(float* x, cudaStream_t s) {
          start(x, s);
          gpuErrchk(cudaPeekAtLastError());
        }
        """,
    "a loop macro": "__global__ void clear(float* x, int n) { CUDA_KERNEL_LOOP(i, n) { x[i] = 0; } }",
    "an index in 64 bits": """
        __global__ void clear(float* x, size_t n) {
          size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
          const auto step = 1LL * gridDim.x * blockDim.x;
          for (; i < n; i += step) x[i] = 0;
        }
        """,
    "strides are handed on": """
        torch::Tensor first(torch::Tensor x) {
          return take(x.data_ptr<float>(), x.stride(0), x.stride(1));
        }
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("first", &first); }
        """,
    "an optional tensor that is made contiguous": """
        void run(at::Tensor x) {
          x = x.contiguous();
          use(x.data_ptr<float>());
        }
        TORCH_LIBRARY(ops, m) { m.def("run", run); }
        """,
    "a dispatch on the tensor's type": """
        void run(at::Tensor x) {
          AT_DISPATCH_FLOATING_TYPES_AND2(
              at::kHalf, at::kBFloat16, x.scalar_type(), "run", [&] { use(x.data_ptr<scalar_t>()); });
        }
        TORCH_LIBRARY(ops, m) { m.def("run", run); }
        """,
    "a version switch": """
        #if CUDART_VERSION < 9000
        #define SHUFFLE(v, d) __shfl_down(v, d)
        #else
        #define SHUFFLE(v, d) __shfl_down_sync(0xffffffff, v, d)
        #endif
        __device__ float next(float v) { return SHUFFLE(v, 1); }
        """,
}


@pytest.mark.parametrize("idiom", SOUND)
def test_sound_code_is_left_alone(idiom: str) -> None:
    assert _findings(SOUND[idiom]) == []


MISTAKES = [
    (
        "KG601",
        3,
        """
        void f(float* x, bool a, cudaStream_t s) {
          if (a) {
            k<<<1, 1, 0, s>>>(x);
          } else {
            CUDA_KERNEL_CHECK();
          }
        }
        """,
    ),
    (
        "KG601",
        3,
        """
        void f(float* x, bool a, cudaStream_t s) {
          if (a) {
            k<<<1, 1, 0, s>>>(x);
            return;
          }
          CUDA_KERNEL_CHECK();
        }
        """,
    ),
    (
        "KG601",
        2,
        """
        void f(float* x, cudaStream_t s) {
          k<<<1, 1, 0, s>>>(x);
          cudaGetLastError();
        }
        """,
    ),
    (
        "KG601",
        2,
        """
        void f(float* x, cudaStream_t s) {
          k<<<1, 1, 0, s>>>(x);
          // C10_CUDA_KERNEL_LAUNCH_CHECK();
        }
        """,
    ),
    (
        "KG601",
        2,
        """
        void f(at::Tensor y, float* x, cudaStream_t s) {
          k<<<1, 1, 0, s>>>(x);
          CHECK_CUDA(y);
        }
        """,
    ),
    (
        "KG602",
        1,
        """
        void f(std::vector<at::Tensor> x) {
          k<<<1, 1, 0, s>>>(x);
          CUDA_KERNEL_CHECK();
        }
        """,
    ),
    (
        "KG603",
        2,
        """
        void f(float* x, c10::cuda::CUDAStream s) {
          k<<<1, 1, 0, nullptr>>>(x);
          CUDA_KERNEL_CHECK();
        }
        """,
    ),
    (
        "KG604",
        2,
        """
        __global__ void k(float* x, long n) {
          long i = threadIdx.x + blockIdx.x * blockDim.x;
          if (i >= n) return;
          x[i] = 0;
        }
        """,
    ),
    (
        "KG604",
        3,
        """
        __global__ void k(float* x, int a, int b) {
          const int64_t n = (int64_t)a * b;
          unsigned i = blockIdx.x * 256 + threadIdx.x;
          if (n > i) x[i] = 0;
        }
        """,
    ),
    (
        "KG605",
        2,
        """
        __global__ void k(float* x) {
          switch (threadIdx.x / 32) { case 0: __syncthreads(); }
        }
        """,
    ),
    (
        "KG605",
        4,
        """
        __global__ void k(float* x, int n) {
          for (int r = 0; r < n; ++r) {
            if (x[threadIdx.x] > 0) continue;
            __syncthreads();
          }
        }
        """,
    ),
    (
        "KG605",
        5,
        """
        __device__ void wait() { __syncthreads(); }
        __global__ void k(float* x, int n) {
          const bool mine = threadIdx.x < n;
          if (mine)
            wait();
        }
        """,
    ),
    (
        "KG605",
        4,
        """
        __global__ void k(float* x, int n) {
          auto block = cooperative_groups::this_thread_block();
          if (block.thread_rank() < n)
            block.sync();
        }
        """,
    ),
    (
        "KG606",
        4,
        """
        __global__ void k(const float* x, float* y, int numel) {
          const int t = threadIdx.x;
          const int i = blockIdx.x * 256 + t;
          y[i * 2] = x[i];
        }
        """,
    ),
    (
        "KG604",
        3,
        """
        __global__ void k(const float* x, float* y, int width) {
          const int64_t row = blockIdx.x;
          const int start = row * width + threadIdx.x;
          if (threadIdx.x < width) y[start] = x[start];
        }
        """,
    ),
    ("KG608", 1, "void f(float* x, cudaStream_t s) { k<<<1, 1, 0xC001, s>>>(x); CUDA_KERNEL_CHECK(); }"),
    ("KG609", 1, "void f(float* x, cudaStream_t s) { k<<<1, dim3(32, 32, 2), 0, s>>>(x); CUDA_KERNEL_CHECK(); }"),
    ("KG611", 1, "__global__ void k(int* x) { if (__any(x[threadIdx.x])) x[0] = 1; }"),
    ("KG612", 1, "void f(at::Tensor x) { AT_CHECK(x.dim() == 2); }"),
]


@pytest.mark.parametrize(
    ("code", "line", "source"), MISTAKES, ids=[f"{item[0]}-{at}" for at, item in enumerate(MISTAKES)]
)
def test_variations_of_a_mistake_are_reported(code: str, line: int, source: str) -> None:
    assert [item for item in _findings(source) if item[0] == code] == [(code, line)]


def test_a_template_in_a_header_leaves_the_device_to_its_callers() -> None:
    source = "void f(at::Tensor x) { k<<<1, 1, 0, s>>>(x); CUDA_KERNEL_CHECK(); }"
    assert _findings(source, "kernel.cuh") == []
    assert _findings("template <typename T> " + source) == []


def test_one_condition_is_reported_once_for_all_barriers_under_it() -> None:
    source = "__global__ void k(int n) { if (threadIdx.x < n) { __syncthreads(); __syncthreads(); } }"
    assert _findings(source) == [("KG605", 1)]
