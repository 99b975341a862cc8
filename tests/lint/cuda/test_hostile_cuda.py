"""No bytes make the CUDA half raise, and no shape of text makes it lose its places."""

from __future__ import annotations

import ast
import random

import pytest

from kgate.lint.analysis import analyse
from kgate.lint.cuda.source import LARGEST, cuda_files_of, cuda_strings_of
from kgate.lint.examples import read
from kgate.lint.registry import rules

RULES = [rule for rule in rules() if rule.family == "cuda"]
SEEDS = [
    source
    for rule in RULES
    for example in (*rule.invalid, *rule.valid)
    for path, source in read(example.code, "kernel.cu").files.items()
    if path.endswith(".cu")
]
TOKENS = [
    "{",
    "}",
    "(",
    ")",
    "<<<",
    ">>>",
    "<",
    "#if A\n",
    "#else\n",
    "#endif\n",
    "__global__ ",
    '"',
    "/*",
    "\\\n",
    "é",
    "\0",
    ";",
]


def _mutated(seed: int) -> bytes:
    """A few examples in one file, with tokens dropped, doubled, put in, the file cut, bytes replaced."""
    chance = random.Random(seed)
    text = "\n".join(chance.sample(SEEDS, 3))
    for _ in range(chance.randint(1, 12)):
        at, other = sorted((chance.randrange(len(text)), chance.randrange(len(text))))
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:at] + text[min(other, at + 20) :]
        elif kind == 1:
            text = text[:at] + chance.choice(TOKENS) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at : at + 60] + text[at:]
        elif kind == 3:
            text = text[:at] + chance.choice(TOKENS) * chance.randint(2, 300) + text[at:]
        else:
            text = text[: max(at, 40)]
    raw = bytearray(text.encode())
    for _ in range(chance.randrange(4)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def _check(raw: bytes) -> None:
    """Every check runs to its end, and every place lies in the text."""
    for file in cuda_files_of("kernel.cu", raw):
        lines = file.text.split("\n")
        for rule in RULES:
            for run in rule.cuda_checks:
                for hit in run(file):
                    line, column, end_line, end_column = hit.node
                    assert 1 <= line <= end_line <= len(lines)
                    assert 1 <= column <= len(lines[line - 1]) + 1
                    assert 1 <= end_column <= len(lines[end_line - 1]) + 1
                    assert (line, column) <= (end_line, end_column)
                    file.symbol_at(hit.node)
        assert len(file.summaries) == len(file.kernels)


@pytest.mark.parametrize("start", range(0, 300, 30))
def test_mutated_files_are_read_to_the_end(start: int) -> None:
    for seed in range(start, start + 30):
        _check(_mutated(seed))


def test_mutated_strings_are_read_to_the_end() -> None:
    read_at_all = 0
    for seed in range(60):
        text = _mutated(seed).decode("utf-8", "replace").replace("\0", "").replace("\\", "").replace("'''", "")
        source = f"kernel = r'''{text}\n'''\n"
        for file in cuda_strings_of("kernel.py", ast.parse(source), source):
            read_at_all += 1
            for rule in RULES:
                for run in rule.cuda_checks:
                    assert all(1 <= hit.node[0] <= source.count("\n") for hit in run(file))
    assert read_at_all > 20


KERNEL = b"__global__ void k(float* x, int64_t n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
SHAPES = {
    "open braces": KERNEL + b"{" * 50_000,
    "open parentheses": KERNEL + b"x[i] = " + b"(" * 50_000,
    "open brackets": KERNEL + b"x[" * 25_000,
    "template arguments": b"__global__ void k() { a" + b"<a" * 50_000,
    "a long difference": KERNEL + b"i = " + b"i-" * 25_000 + b"1; if (i < n) __syncthreads(); }",
    "nested branches": KERNEL + b"if (i < n) {" * 5_000 + b"__syncthreads();" * 100,
    "nested assignments": KERNEL + b"i = (" * 20_000,
    "launches": b"void f(at::Tensor x) {" + b"k<<<1, 1>>>();" * 3_000 + b"}",
    "functions": b"void f(at::Tensor x) { k<<<1, 1>>>(x.data_ptr()); }\n" * 1_000,
    "open comments": b"AT_CHECK __global__ " + b"/*" * 50_000,
    "open conditionals": b"#if A\n" * 20_000 + b"__global__",
    "macros before kernels": b"A((" * 50 + b" __global__ " * 10_000,
    "one long word": b"__global__ <<< Tensor data_ptr THC " + b"w" * 200_000,
    "every byte": bytes(range(256)) * 500 + b"__global__",
    "variables in a row": KERNEL + b"".join(b"int a%d = a%d;" % (at, at + 1) for at in range(5_000)) + b"}",
    "empty": b"",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_text_of_an_unusual_shape_is_read_to_the_end(shape: str) -> None:
    _check(SHAPES[shape])


def test_a_file_larger_than_anybody_writes_is_left_alone() -> None:
    assert cuda_files_of("kernel.cu", b"__global__ " * (LARGEST // 10)) == []


def test_a_planted_mistake_is_found_behind_damage() -> None:
    damaged = b"void broken(int x) { \xff\x00 if ( }\n\nvoid run(float* x) {\n  scale<<<1, 32>>>(x);\n}\n"
    facts = analyse("kernel.cu", damaged)
    assert [(item.code, item.place[:2]) for item in facts.findings] == [("KG601", (4, 3))]


def test_findings_keep_their_place_after_a_long_line_of_other_letters() -> None:
    source = "/* " + "ü€" * 5_000 + " */ " + "void f(float* x) { k<<<1, 1>>>(x); }\n"
    [file] = cuda_files_of("kernel.cu", source.encode())
    line, column, _, end = file.place(file.launches[0].config)
    assert source.split("\n")[line - 1][column - 1 : end - 1] == "<<<1, 1>>>"
