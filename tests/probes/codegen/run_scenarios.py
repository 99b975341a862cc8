"""Run scenarios in a process whose device is faked, and print their results as one JSON object."""

from __future__ import annotations

import json
import os
import sys

from kgate.probes import codegen

TARGET = sys.argv[1]
NAMES = sys.argv[2].split(",")
codegen.install(TARGET)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import edits  # noqa: E402
import subjects  # noqa: E402
import torch  # noqa: E402


def fake(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def square(dtype=torch.float32):
    return fake(1024, 1024, dtype=dtype), fake(1024, 1024, dtype=dtype)


def probe(fn, *args, **kwargs):
    return codegen.probe(fn, args, kwargs, TARGET)


HALF = torch.float16
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
    "edits": lambda: {
        kernel.__name__: probe(edits.layer_norm, kernel, fake(4096, 4096, dtype=HALF), fake(4096), fake(4096))
        for kernel in edits.EDITS
    },
}

with codegen.fake_tensors():
    results = {name: SCENARIOS[name]() for name in NAMES}
print(json.dumps(results))
