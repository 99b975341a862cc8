"""Reading compiled text: PTX and AMDGCN to counts of accesses, tensor-core work, barriers and atomics."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_GUARD = re.compile(r"@!?%\w+\s+")
_OPCODE = re.compile(r"[a-z][\w.:]*")
_PTX_BARRIERS = ("bar.sync", "bar.red", "barrier.sync", "barrier.cta.sync", "barrier.cluster.wait")
_PTX_LABEL = re.compile(r"(\$\w+):")
_PTX_GLOBAL = re.compile(r"(ld|st)\.(?:\w+(?:::\w+)*\.)*?global(?:\.[\w:]+?)*?(?:\.v(\d))?\.[busf](\d+)\Z")
_PTX_TARGET = re.compile(r"(\$\w+);?\s*$")
_PTX_COPY_SIZE = re.compile(r"\],\s*\[[^\]]*\],\s*(0x[0-9a-f]+|\d+)")

_GCN_LABEL = re.compile(r"(\.LBB\w+):")
_GCN_TARGET = re.compile(r"(\.LBB\w+)")
_GCN_ACCESS = re.compile(r"(?:global|buffer|flat)_(load|store)_(?:lds_)?(\w+)")
_GCN_WIDTHS = (
    ("dwordx4", 128),
    ("b128", 128),
    ("dwordx3", 96),
    ("b96", 96),
    ("dwordx2", 64),
    ("b64", 64),
    ("dword", 32),
    ("b32", 32),
    ("byte", 8),
    ("ubyte", 8),
    ("sbyte", 8),
    ("b8", 8),
    ("u8", 8),
    ("i8", 8),
    ("short", 16),
    ("ushort", 16),
    ("sshort", 16),
    ("b16", 16),
    ("u16", 16),
    ("i16", 16),
    ("d16", 16),
)

_NOP = 0x918


@dataclass(frozen=True)
class Instruction:
    """One instruction of the text, and whether it stands inside a loop."""

    opcode: str
    """With its suffixes, without predicate and operands."""
    text: str
    """The whole instruction."""
    in_loop: bool
    """Whether control can come back to it."""


def count_ptx(ptx: str) -> dict[str, int | str]:
    """Counts of one PTX kernel: accesses by width, mma, barriers, atomics, cp.async, TMA, loop instructions.

    An asynchronous copy (cp.async) reads global memory, so it counts as a load of its width too.
    """
    counts = _Counts()
    for instruction in _instructions(_ptx_lines(ptx), _PTX_LABEL, _ptx_branch):
        _count_ptx(instruction, counts)
    return counts.figures(("cp_async", "tma"))


def count_amdgcn(text: str) -> dict[str, int | str]:
    """Counts of one AMDGCN kernel, by the same names, and ``instructions``."""
    counts = _Counts()
    total = 0
    for instruction in _instructions(_gcn_lines(text), _GCN_LABEL, _gcn_branch):
        total += 1
        _count_amdgcn(instruction, counts)
    return {**counts.figures(()), "instructions": total}


class _Counts:
    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.tensor_cores: set[str] = set()

    def add(self, name: str, instruction: Instruction | None = None) -> None:
        self.values[name] = self.values.get(name, 0) + 1
        if instruction is not None and instruction.in_loop:
            self.add(f"{name}_in_loop")

    def access(self, direction: str, bits: int) -> None:
        self.add(f"{direction}_{bits}")

    def figures(self, extra: tuple[str, ...]) -> dict[str, int | str]:
        always = [f"{direction}_{bits}" for direction in ("load", "store") for bits in (128, 64, 32, 16, 8)]
        always += ["mma", "barriers", "barriers_in_loop", "atomics", "atomics_in_loop", "loop_instructions"]
        result: dict[str, int | str] = {name: self.values.get(name, 0) for name in (*always, *extra)}
        for direction in ("load", "store"):  # widths that most targets lack are given only where they occur
            for bits in (256, 96):
                if self.values.get(f"{direction}_{bits}"):
                    result[f"{direction}_{bits}"] = self.values[f"{direction}_{bits}"]
        result["mma_kind"] = "+".join(sorted(self.tensor_cores)) or "none"
        return result


def _count_ptx(instruction: Instruction, counts: _Counts) -> None:
    opcode = instruction.opcode
    if instruction.in_loop:
        counts.add("loop_instructions")
    if opcode.startswith(("ld.", "st.")):
        match = _PTX_GLOBAL.match(opcode)
        if match:
            bits = int(match[2] or 1) * int(match[3])
            counts.access("load" if match[1] == "ld" else "store", bits)
    elif opcode.startswith(("cp.async.bulk", "cp.reduce.async.bulk")):
        if "group" not in opcode:
            counts.add("tma")
    elif opcode.startswith(("cp.async.ca", "cp.async.cg")):
        counts.add("cp_async")
        size = _PTX_COPY_SIZE.search(instruction.text)
        if size:
            counts.access("load", 8 * int(size[1], 0))
    elif opcode.startswith(("mma.", "wgmma.mma_async", "tcgen05.mma")):
        counts.add("mma")
        counts.tensor_cores.add(opcode.split(".", 1)[0])
    elif opcode.startswith(_PTX_BARRIERS):
        counts.add("barriers", instruction)
    elif opcode.startswith(("atom.", "red.")) and ".shared" not in opcode:
        counts.add("atomics", instruction)


def _count_amdgcn(instruction: Instruction, counts: _Counts) -> None:
    opcode = instruction.opcode
    if instruction.in_loop:
        counts.add("loop_instructions")
    if opcode.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")):
        counts.add("mma")
        counts.tensor_cores.add("mfma" if "mfma" in opcode else "wmma")
    elif opcode in ("s_barrier", "s_barrier_wait"):
        counts.add("barriers", instruction)
    elif re.match(r"(global|buffer|flat)_atomic_", opcode):
        counts.add("atomics", instruction)
    else:
        match = _GCN_ACCESS.match(opcode)
        if match:
            bits = next((bits for suffix, bits in _GCN_WIDTHS if suffix in match[2].split("_")), 0)
            if bits:
                counts.access(match[1], bits)


def _ptx_lines(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.split("//", 1)[0].strip()
        if line and not line.startswith((".", "{", "}", ")")):  # directives and brackets
            yield line


def _gcn_lines(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.split(";", 1)[0].strip()
        if line.startswith(".Lfunc_end"):
            return  # what follows is the kernel descriptor and metadata
        if line.startswith(".LBB") or (line and line[0] != "." and line[-1] != ":"):
            yield line


@dataclass(frozen=True)
class _Branch:
    """Where control goes after an instruction that may not fall through to the next."""

    target: str | None
    """Label, None where it leaves the kernel or is not written in the instruction."""
    falls_through: bool
    """Whether the next instruction may run as well: a conditional branch."""


def _ptx_branch(line: str) -> _Branch | None:
    body = _GUARD.sub("", line, count=1) if line.startswith("@") else line
    if body.startswith("bra"):
        match = _PTX_TARGET.search(body)
        return _Branch(match[1] if match else None, line.startswith("@"))
    if body.startswith(("ret", "exit", "trap")):
        return _Branch(None, line.startswith("@"))
    return None


def _gcn_branch(line: str) -> _Branch | None:
    if line.startswith(("s_cbranch", "s_branch")):
        match = _GCN_TARGET.search(line)
        return _Branch(match[1] if match else None, line.startswith("s_cbranch"))
    if line.startswith(("s_endpgm", "s_setpc")):
        return _Branch(None, False)
    return None


def _instructions(
    lines: Iterator[str], label: re.Pattern[str], branch: Callable[[str], _Branch | None]
) -> list[Instruction]:
    blocks, edges = _flow(lines, label, branch)
    looping = in_loops(edges)
    result = []
    for number, block in enumerate(blocks):
        for line in block:
            body = _GUARD.sub("", line, count=1) if line.startswith("@") else line
            opcode = _OPCODE.match(body)
            if opcode is not None:
                result.append(Instruction(opcode[0], body, number in looping))
    return result


def _flow(
    lines: Iterator[str], label: re.Pattern[str], branch: Callable[[str], _Branch | None]
) -> tuple[list[list[str]], list[list[int]]]:
    """Basic blocks in the order of the text, and for each the blocks that may follow it."""
    blocks: list[list[str]] = [[]]
    starts: dict[str, int] = {}
    exits: dict[int, _Branch] = {}
    for line in lines:
        at = label.match(line)
        if at:
            if blocks[-1] or len(blocks) - 1 in starts.values():
                blocks.append([])
            starts[at[1]] = len(blocks) - 1
            continue
        blocks[-1].append(line)
        leaves = branch(line)
        if leaves is not None:
            exits[len(blocks) - 1] = leaves
            blocks.append([])
    edges: list[list[int]] = []
    for number in range(len(blocks)):
        leaves = exits.get(number)
        falls = number + 1 < len(blocks) and (leaves is None or leaves.falls_through)
        following = [number + 1] if falls else []
        if leaves is not None and leaves.target in starts:
            following.append(starts[leaves.target])
        edges.append(following)
    return blocks, edges


def in_loops(edges: list[list[int]]) -> set[int]:
    """Numbers of the blocks that can be reached again from themselves.

    ``edges[i]`` are the successors of block i. A block is in a loop when it shares a strongly connected
    component (found with Tarjan's algorithm) with another one, or follows itself.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    result: set[int] = set()
    for root in range(len(edges)):
        work = [(root, iter(edges[root]))] if root not in index else []
        while work:
            node, successors = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for successor in successors:
                if successor not in index:
                    work.append((successor, iter(edges[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = {stack.pop()}
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1 or node in edges[node]:
                        result |= component
    return result


def sass_instructions(cubin: bytes) -> int:
    """Machine instructions in a cubin's code sections, without the padding (NOP).

    Every instruction since Volta takes 16 bytes, the low 12 bits being its opcode; no disassembler is needed.
    """
    total = 0
    for name, body in _sections(cubin):
        if name.startswith(".text."):
            words = struct.iter_unpack("<QQ", body)
            total += sum(1 for low, _ in words if low & 0xFFF != _NOP)
    return total


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    if elf[:4] != b"\x7fELF" or elf[4] != 2:
        raise ValueError("the compiled binary is not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + index * size) for index in range(count)]
    names = headers[names_at][4]
    for header in headers:
        start = names + header[0]
        name = elf[start : elf.index(b"\0", start)].decode("utf-8", "replace")
        if header[1] != 8:  # SHT_NOBITS occupies no bytes
            yield name, elf[header[4] : header[4] + header[5]]
