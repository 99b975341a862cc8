"""Run scenarios in a process whose device is faked, and print their results as one JSON object."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile

from kgate.probes import codegen

TARGET = sys.argv[1]
NAMES = sys.argv[2].split(",")
IS_CUDA = TARGET.startswith("cuda")
codegen.install(TARGET)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import edits  # noqa: E402
import subjects  # noqa: E402
import torch  # noqa: E402
from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability  # noqa: E402

from kgate.probes.codegen import compiler  # noqa: E402


def fake(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def square(dtype=torch.float32):
    return fake(1024, 1024, dtype=dtype), fake(1024, 1024, dtype=dtype)


def probe(fn, *args, **kwargs):
    return codegen.probe(fn, args, kwargs, TARGET)


HALF = torch.float16


def launches_of(fn, *args, **kwargs):
    return codegen.capture(fn, args, kwargs, target=TARGET).launches


def cross_checked():
    """The same kernels, by the vendor's own tools: what they report beside what was counted."""
    launches = [
        *launches_of(subjects.add, fake(4096)),
        *launches_of(subjects.sine, fake(128)),
        *launches_of(subjects.softmax, fake(4096, 32768 if IS_CUDA else 8192), num_warps=4),
        *launches_of(subjects.row_sum, fake(4096, 8192)),
        *launches_of(subjects.matmul, *square(HALF)),
    ]
    check = vendor_cuda if IS_CUDA else vendor_amd
    return [{"figures": codegen.measure(launch, TARGET).figures, "vendor": check(launch)} for launch in launches]


def vendor_cuda(launch):
    compiled = compiler.compile_kernel(launch.kernel)
    arch = launch.kernel.target.arch
    ptxas = get_ptxas(arch).path
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (
            ("kernel.ptx", compiled.asm["ptx"].encode()),
            ("kernel.cubin", compiled.asm["cubin"]),
        ):
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
        command = [
            ptxas,
            "-v",
            "--regAllocOptLevel=2",
            f"--gpu-name={sm_arch_from_capability(arch)}",
            "kernel.ptx",
        ]
        log = subprocess.run([*command, "-o", "other.o"], cwd=folder, capture_output=True, text=True).stderr
        nvdisasm = os.path.join(os.path.dirname(ptxas), "nvdisasm")
        sass = subprocess.run([nvdisasm, "-c", "kernel.cubin"], cwd=folder, capture_output=True, text=True).stdout
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    return {
        "registers": int(re.search(r"Used (\d+) registers", log)[1]),
        "stack_bytes": int(frame[1]),
        "spill_bytes": int(frame[2]) + int(frame[3]),
        "instructions": len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?!\s|NOP)", sass, re.M)),
    }


def vendor_amd(launch):
    text = compiler.compile_kernel(launch.kernel).asm["amdgcn"]
    return {"waves_per_simd": int(re.search(r"; Occupancy: (\d+)", text)[1])}


def forked():
    """The same probe in this process and in a child of it."""
    here = probe(subjects.add, fake(4096))
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(send, json.dumps(probe(subjects.add, fake(4096))).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        there = json.loads(pipe.read())
    return {"here": here, "there": there, "code": os.waitpid(child, 0)[1]}


def addresses():
    x = fake(64, 64, dtype=HALF)
    return {
        "base": x.data_ptr() % 256,
        "second_row": x[1].data_ptr() - x.data_ptr(),
        "second_column": x[:, 1].data_ptr() - x.data_ptr(),
        "view_shares": x.view(-1).data_ptr() == x.data_ptr(),
        "other_differs": fake(64).data_ptr() != x.data_ptr(),
        "empty": fake(0).data_ptr(),
    }


SCENARIOS = {
    "add": lambda: probe(subjects.add, fake(2**20, dtype=HALF)),
    "add_unaligned": lambda: probe(subjects.add, fake(2**20 + 16, dtype=HALF)[1:-15]),
    "add_odd_length": lambda: probe(subjects.add, fake(2**20 + 1, dtype=HALF)),
    "add_one": lambda: probe(subjects.add, fake(1, dtype=HALF)),
    "add_huge": lambda: probe(subjects.add, fake(2**33, dtype=HALF)),
    "add_twice": lambda: probe(subjects.add_twice, fake(4096)),
    "add_both_sizes": lambda: probe(subjects.add_both_sizes, fake(4096)),
    "add_after_reading": lambda: probe(subjects.add_after_reading, fake(4096)),
    "add_contiguous": lambda: probe(subjects.add_contiguous, fake(64, 32)),
    "add_on_current_device": lambda: probe(subjects.add_on_current_device, fake(4096)),
    "add_custom": lambda: probe(subjects.add_custom, fake(4096)),
    "add_custom_by_name": lambda: probe(torch.ops.codegen_subjects.add, fake(4096)),
    "add_persistent": lambda: probe(subjects.add_persistent, fake(4096)),
    "add_in_rows": lambda: probe(subjects.add_in_rows, fake(4096)),
    "add_with_block_of_1000": lambda: probe(subjects.add_with_block_of_1000, fake(4096)),
    "launches_nothing": lambda: probe(subjects.launches_nothing, fake(4096)),
    "launcher_raises": lambda: probe(lambda x: x.no_such_method(), fake(4096)),
    "sine": lambda: probe(subjects.sine, fake(128)),
    "softmax": lambda: probe(subjects.softmax, fake(4096, 32768)),
    "softmax_4_warps": lambda: probe(subjects.softmax, fake(4096, 32768), num_warps=4),
    "row_sum": lambda: probe(subjects.row_sum, fake(4096, 8192)),
    "row_sum_in_loop": lambda: probe(subjects.row_sum, fake(4096, 8192), in_loop=True),
    "matmul": lambda: probe(subjects.matmul, *square(HALF)),
    "matmul_tf32": lambda: probe(subjects.matmul, *square()),
    "matmul_ieee": lambda: probe(subjects.matmul, *square(), precision="ieee"),
    "matmul_2_stages": lambda: probe(subjects.matmul, *square(HALF), blocks=(128, 128, 64), num_stages=2),
    "matmul_5_stages": lambda: probe(subjects.matmul, *square(HALF), blocks=(128, 128, 64), num_stages=5),
    "tuned_matmul": lambda: probe(subjects.tuned_matmul, *square(HALF)),
    "tuned_matmul_twice": lambda: probe(subjects.tuned_matmul_twice, *square(HALF)),
    "at_import": lambda: subjects.AT_IMPORT,
    "cross_checked": cross_checked,
    "forked": forked,
    "addresses": addresses,
    "toolchain": codegen.toolchain,
    "edits": lambda: {
        kernel.__name__: probe(edits.layer_norm, kernel, fake(4096, 4096, dtype=HALF), fake(4096), fake(4096))
        for kernel in edits.EDITS
    },
}

with codegen.fake_tensors():
    results = {name: SCENARIOS[name]() for name in NAMES}
print(json.dumps(results))
