"""Counting in compiled text."""

from __future__ import annotations

import struct

import pytest

from kgate.probes.codegen.assembly import count_amdgcn, count_ptx, in_loops, sass_instructions


def ptx(*lines):
    return "\n".join([".visible .entry kernel(", ".param .u64 p", ")", "{", ".reg .b32 %r<9>;", *lines, "}"])


@pytest.mark.parametrize(
    ("instruction", "figure"),
    [
        ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "load_128"),
        ("@%p1 ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%r1, %r2}, [%rd1], %rd2;", "load_64"),
        ("ld.volatile.global.u16 %rs1, [%rd1];", "load_16"),
        ("ld.global.nc.v8.f32 {%f1}, [%rd1];", "load_256"),
        ("ld.relaxed.gpu.global.s8 %rs1, [%rd1];", "load_8"),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", "load_128"),
        ("cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;", "load_32"),
        ("st.global.b64 [%rd1], %rd2;", "store_64"),
        ("atom.global.gpu.acq_rel.add.f32 %r1, [%rd1], %r2;", "atomics"),
        ("red.relaxed.gpu.global.add.f32 [%rd1], %f1;", "atomics"),
        ("bar.sync 0;", "barriers"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2};", "mma"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier [%r1], [%rd1, {%r2}];", "tma"),
    ],
)
def test_ptx_instruction_is_counted_once(instruction, figure):
    assert count_ptx(ptx(instruction))[figure] == 1


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];",
        "ld.param.b64 %rd1, [p];",
        "st.shared::cluster.b32 [%r1], %r2;",
        "atom.shared.add.u32 %r1, [%r2], 1;",
        "cp.async.commit_group;",
        "cp.async.bulk.commit_group;",
        "// ld.global.b32 %r1, [%rd1];",
    ],
)
def test_ptx_instruction_is_not_a_global_access(instruction):
    counts = count_ptx(ptx(instruction))
    assert {name: value for name, value in counts.items() if value not in (0, "none")} == {}


def test_only_what_can_be_reached_again_is_in_a_loop():
    text = ptx(
        "bar.sync 0;",
        "@%p1 bra $L__BB0_3;",
        "$L__BB0_1: // loop",
        "bar.sync 0;",
        "@%p2 bra $L__BB0_4;",
        "$L__BB0_2:",
        "@%p3 bra $L__BB0_1;",
        "$L__BB0_3:",
        "bar.sync 0;",
        "ret;",
        "$L__BB0_4:  // laid out last, and still in the loop",
        "bar.sync 0;",
        "bra $L__BB0_2;",
    )
    counts = count_ptx(text)
    assert (counts["barriers"], counts["barriers_in_loop"]) == (4, 2)


def test_a_branch_back_to_the_exit_is_no_loop():
    text = ptx("@%p1 bra $L__BB0_2;", "$L__BB0_1:", "bar.sync 0;", "ret;", "$L__BB0_2:", "bra $L__BB0_1;")
    assert count_ptx(text)["barriers_in_loop"] == 0


@pytest.mark.parametrize(
    ("instruction", "figure"),
    [
        ("buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen", "load_128"),
        ("global_load_b128 v[0:3], v4, s[0:1]", "load_128"),
        ("global_load_short_d16_hi v1, v2, s[0:1]", "load_16"),
        ("global_load_d16_u8 v1, v2, s[0:1]", "load_8"),
        ("global_store_dwordx2 v0, v[1:2], s[0:1]", "store_64"),
        ("flat_store_byte v[0:1], v2", "store_8"),
        ("buffer_atomic_add_f32 v1, v2, s[0:3], 0 offen", "atomics"),
        ("s_barrier", "barriers"),
        ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]", "mma"),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "mma"),
    ],
)
def test_amdgcn_instruction_is_counted_once(instruction, figure):
    counts = count_amdgcn(f"kernel:\n\t{instruction} ; comment\n\ts_endpgm\n.Lfunc_end0:\n\t.size kernel, 4\n")
    assert counts[figure] == 1
    assert counts["instructions"] == 2


def test_amdgcn_loop_is_found():
    text = "kernel:\n.LBB0_1:\n\ts_barrier\n\ts_cbranch_scc1 .LBB0_1\n\ts_barrier\n\ts_endpgm\n"
    counts = count_amdgcn(text)
    assert (counts["barriers"], counts["barriers_in_loop"]) == (2, 1)


def test_loops_of_a_graph():
    assert in_loops([[1], [2, 3], [1], []]) == {1, 2}
    assert in_loops([[0]]) == {0}
    assert in_loops([[1, 2], [2], []]) == set()


def test_sass_counts_sixteen_byte_words_without_padding():
    body = b"".join(struct.pack("<QQ", opcode, 0) for opcode in (0x7A02, 0x794D, 0x7947, 0x7918, 0x7918))
    names = b"\0.text.kernel\0.names\0"
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    table = 64 + len(body) + len(names)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    sections = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(body), 0, 0, 0, 0)
    sections += struct.pack("<IIQQQQIIQQ", 14, 3, 0, 0, 64 + len(body), len(names), 0, 0, 0, 0)
    assert sass_instructions(header + body + names + sections) == 3


def test_what_is_no_elf_file_is_refused():
    with pytest.raises(ValueError, match="not a 64-bit ELF"):
        sass_instructions(b"hello, world")
