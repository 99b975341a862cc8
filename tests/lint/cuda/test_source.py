"""What rules see of CUDA C++: kernels, launches, macros, and places in files and in strings."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import pytest

from kgate.lint.cuda.source import CudaFile, cuda_files_of, cuda_strings_of

SOURCE = textwrap.dedent(
    """
    #define THREADS 256
    #define RUN(k, n) \\
      k<<<1, THREADS>>>(n)

    namespace ops {
    namespace {
    template <typename T, int N>
    __global__ void __launch_bounds__(THREADS) scale(const T* __restrict__ x, T* y, const int64_t n) { y[0] = x[0]; }
    }  // namespace

    at::Tensor run(at::Tensor x, const c10::optional<at::Tensor>& bias, int size) {
      AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] {
        scale<scalar_t, 4><<<dim3(1, 2), THREADS, 0, stream>>>(x.data_ptr<scalar_t>(), nullptr, size);
      });
      return x;
    }
    }  // namespace ops
    """
)


def _one(source: str, name: str = "kernel.cu") -> CudaFile:
    [file] = cuda_files_of(name, source.encode())
    return file


def test_kernels_are_told_from_host_functions() -> None:
    file = _one(SOURCE)
    assert [(item.qualified, item.kernel, item.host) for item in file.functions] == [
        ("ops::scale", True, False),
        ("ops::run", False, True),
    ]
    assert file.functions[0].internal
    assert file.functions[0].values == ("N",)


def test_parameters_have_types_without_qualifiers() -> None:
    kernel, host = _one(SOURCE).functions
    assert [(item.name, item.type, item.pointer) for item in kernel.parameters] == [
        ("x", "T", True),
        ("y", "T", True),
        ("n", "int64_t", False),
    ]
    assert [item.tensor for item in host.parameters] == [True, True, False]


def test_launches_know_their_kernel_configuration_and_function() -> None:
    file = _one(SOURCE)
    [launch] = file.launches
    assert launch.kernel == "scale"
    assert [file.code(item) for item in launch.configuration] == ["dim3(1, 2)", "THREADS", "0", "stream"]
    assert launch.function is file.functions[1]


def test_macros_keep_what_follows_a_continuation() -> None:
    macros = _one(SOURCE).macros
    assert macros["THREADS"].value == "256"
    assert "<<<1, THREADS>>>" in macros["RUN"].value


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void k(float* x, int n)",
        'extern "C" __global__ void k(float* x, int n)',
        "template <typename T> __global__ void __launch_bounds__(256, 2) k(float* x, int n)",
        "static __global__ __launch_bounds__(256) void k(float* x, int n)",
        "__global__ static void k(float* __restrict__ x, const int n)",
        "template <class F, std::enable_if_t<F::value, int> = 0> __global__ void k(float* x, int n)",
        "C10_LAUNCH_BOUNDS_1(block_size())\n__global__ void k(float* x, int n)",
        "template <typename T>\nMY_BOUNDS(512, (1 + 3))\n__global__ static void k(float* x, int n)",
        "__global__ void C10_LAUNCH_BOUNDS_2(256, 4) k(float* x, int n)",
        "#if DEBUG\n__global__ void k(float* x, int n) { }\n#endif\nstatic void f()",
        "__attribute__((global)) __global__ void k(float *x, int n)",
    ],
)
def test_kernels_are_found_however_they_are_marked(head: str) -> None:
    file = _one(head + " { x[n] = 1.0f; }")
    assert [(item.name, [p.name for p in item.parameters]) for item in file.kernels] == [("k", ["x", "n"])]


def test_summaries_name_each_kernel_for_the_linker() -> None:
    [summary] = _one(SOURCE).summaries
    assert (summary.name, summary.framework) == ("ops::scale", "cuda")
    assert summary.place == (9, 44, 9, 49)
    assert [item.name for item in summary.parameters] == ["x", "y", "n"]


def test_headers_are_read_only_where_they_hold_device_code() -> None:
    assert cuda_files_of("a.h", b"int f(int);") == []
    assert cuda_files_of("a.py", b"__global__") == []
    assert len(cuda_files_of("a.hpp", b"__global__ void k() {}")) == 1
    assert len(cuda_files_of("a.CU", b"int main() {}")) == 1


def test_columns_count_characters() -> None:
    file = _one("/* Größe */ __global__ void k(int n) {}")
    assert file.place(file.kernels[0].name_node) == (1, 29, 1, 30)


def test_line_endings_and_byte_order_mark_move_no_place() -> None:
    plain = _one("\n\n__global__ void k(int n) {}\n")
    [marked] = cuda_files_of("k.cu", b"\xef\xbb\xbf\r\n\r\n__global__ void k(int n) {}\r\n")
    assert plain.place(plain.kernels[0].node) == marked.place(marked.kernels[0].node) == (3, 1, 3, 28)


def test_unbalanced_conditionals_hide_no_function() -> None:
    source = """
    void run(float* x, bool a) {
    #ifdef FAST
      if (a) {
    #else
      if (!a) {
    #endif
        k<<<1, 1>>>(x);
      }
    }
    __global__ void last(float* x) {}
    """
    file = _one(source)
    assert [item.name for item in file.functions] == ["run", "last"]
    assert file.launches[0].function is file.functions[0]


def test_both_branches_of_balanced_conditionals_are_read() -> None:
    source = "void f() {\n#ifdef A\n  a<<<1, 1>>>();\n#else\n  b<<<1, 1>>>();\n#endif\n}\n"
    assert [item.kernel for item in _one(source).launches] == ["a", "b"]


PYTHON = """
import cupy
# größer
ä = cupy.RawKernel(r'''
extern "C" __global__ void first(float* x) { x[0] = 1; }
''', "first")


def build():
    source = \"\"\"__global__ void second(int n) { printf("\\\\n \\"%d\\"", n); }
#define M(a) \\\\
  a
__global__ void third() {}\"\"\"
    return source
"""


def test_strings_are_read_at_their_place_in_the_python_file() -> None:
    pieces = cuda_strings_of("ops.py", ast.parse(PYTHON), PYTHON)
    lines = PYTHON.split("\n")
    found = {}
    for piece in pieces:
        for kernel in piece.kernels:
            line, start, _, end = piece.place(kernel.name_node)
            found[kernel.name] = lines[line - 1][start - 1 : end - 1]
    assert found == {"first": "first", "second": "second", "third": "third"}
    assert all(piece.embedded for piece in pieces)


def test_a_continued_macro_in_a_string_stays_one() -> None:
    [_, piece] = cuda_strings_of("ops.py", ast.parse(PYTHON), PYTHON)
    assert piece.macros["M"].value.split() == ["a"]


@pytest.mark.parametrize(
    "source",
    [
        '"""Kernels are marked __global__ and launched with <<<1, 1>>>()."""',
        "f'''__global__ void {name}() {{}}'''",
        "x = '__global__ void k() {}'",
        "x = '''<<<<<<< ours'''",
        "x = '''__global__ void k() {}''' '''more'''",
    ],
)
def test_other_strings_are_left_alone(source: str) -> None:
    assert cuda_strings_of("ops.py", ast.parse(source), source) == []


def test_the_symbol_of_a_place_is_the_function_around_it() -> None:
    file = _one(SOURCE)
    assert file.symbol_at(file.place(file.launches[0].node)) == "ops::run"
    assert file.symbol_at((1, 1, 1, 2)) == ""


def test_the_parser_is_loaded_only_for_what_needs_it() -> None:
    code = (
        "import sys, ast\n"
        "from kgate.lint.cuda.source import cuda_files_of, cuda_strings_of\n"
        "import kgate.lint.rules.cuda.launch_unchecked\n"
        "cuda_strings_of('a.py', ast.parse('x = 1'), 'x = 1'); cuda_files_of('a.h', b'int x;')\n"
        "assert not any(name.startswith('tree_sitter') for name in sys.modules)\n"
        "cuda_files_of('a.cu', b'int x;')[0].functions\n"
        "assert 'tree_sitter_cuda' in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
