"""Compiling a recorded kernel for its target, and what the assembler says about it."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LOG_KEY = "kgate_ptxas_log"
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?")
_LOG_TAIL = 4000


class Refused(Exception):
    """The compiler, or the assembler behind it, did not accept the kernel."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.message = message
        """One sentence: what it said."""
        self.log = log
        """The end of everything it said."""


@dataclass(frozen=True)
class Usage:
    """What ptxas reports for one kernel."""

    registers: int
    """Per thread."""
    stack_bytes: int
    """Stack frame per thread; a frame alone is not a spill."""
    spill_bytes: int
    """Bytes of spill stores and loads together, per thread."""
    barriers: int
    """Named barriers used."""


def install() -> None:
    """Keep the assembler's log, which Triton drops, in the metadata of each compiled kernel."""
    from triton import knobs
    from triton.backends.nvidia import compiler

    backend: Any = compiler.CUDABackend
    make_cubin = backend.make_cubin

    @functools.wraps(make_cubin)
    def with_log(self: Any, src: Any, metadata: Any, *args: Any) -> Any:
        log = io.StringIO()
        with knobs.nvidia.scope(), contextlib.redirect_stdout(log):
            knobs.nvidia.dump_ptxas_log = True
            cubin = make_cubin(self, src, metadata, *args)
        metadata[_LOG_KEY] = log.getvalue()
        return cubin

    backend.make_cubin = with_log


def compile_kernel(kernel: Any) -> Any:
    """Compile a RecordedKernel for its target; the answer is Triton's CompiledKernel.

    Raises Refused where the compiler does not accept it.
    """
    import triton
    from triton import knobs

    source = kernel.fn.ASTSource(kernel.fn, kernel.signature, kernel.constexprs, kernel.attrs)
    options = dict(kernel.options.__dict__)
    with _diagnostics() as said:
        try:
            compiled = triton.compile(source, target=kernel.target, options=options)
            if kernel.target.backend == "cuda" and not hasattr(compiled.metadata, _LOG_KEY):
                with knobs.compilation.scope():  # cached by someone who did not keep the log
                    knobs.compilation.always_compile = True
                    compiled = triton.compile(source, target=kernel.target, options=options)
        except Exception as error:  # whatever it raises, the compiler did not accept the kernel
            raise Refused(_summary(error, said()), (said() + str(error))[-_LOG_TAIL:]) from error
    return compiled


def usage(compiled: Any) -> Usage:
    """What ptxas reported for a kernel compiled for an NVIDIA target."""
    log = getattr(compiled.metadata, _LOG_KEY)
    spills, registers = _SPILLS.findall(log), _REGISTERS.findall(log)
    if not spills or not registers:
        raise ValueError(f"ptxas did not report registers and spills; it said: {log[-400:]!r}")
    # Functions that are not inlined have entries of their own: the kernel needs what they need, too.
    return Usage(
        registers=max(int(count) for count, _ in registers),
        stack_bytes=max(int(frame) for frame, _, _ in spills),
        spill_bytes=sum(int(stores) + int(loads) for _, stores, loads in spills),
        barriers=max(int(barriers or 0) for _, barriers in registers),
    )


def toolchain(backend: str, arch: int | str) -> dict[str, str]:
    """Versions of what decides the figures: triton (which holds LLVM), and ptxas on NVIDIA targets."""
    import triton

    versions = {"triton": triton.__version__}
    if backend == "cuda":
        versions["ptxas"] = _ptxas_version(int(arch))
    return versions


@functools.cache
def _ptxas_version(arch: int) -> str:
    from triton.backends.nvidia import compiler

    path = compiler.get_ptxas(arch).path
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"\bV(\d+\.\d+(?:\.\d+)?)", said)
    return match[1] if match else said.strip().splitlines()[-1]


def _summary(error: Exception, said: str) -> str:
    """The line that says why: MLIR's own error where there is one, else the exception's last line."""
    for line in said.splitlines():
        at = line.find("error: ")
        if at >= 0:
            return line[at + len("error: ") :].strip()
    if type(error).__name__ == "PTXASError":
        lines = [line for line in str(error).splitlines() if re.search("error|fatal", line, re.IGNORECASE)]
        return (lines or [str(error)])[-1].strip()[:400]
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(getattr(cause, "error_message", None) or cause).strip()
    where = _place(error)
    return f"{where}{type(cause).__name__}: {text.splitlines()[-1] if text else 'no reason given'}"[:400]


def _place(error: Exception) -> str:
    """Where in the kernel a front-end error stands: ``file.py:12: ``, or nothing."""
    node, source = getattr(error, "node", None), str(error)
    match = re.match(r"at (\d+):(\d+):", source)
    if node is None and match is None:
        return ""
    return f"at line {match[1]} of the kernel: " if match else ""


@contextlib.contextmanager
def _diagnostics() -> Iterator[Any]:
    """Collect what the compiler writes on standard error; MLIR's messages come no other way."""
    with tempfile.TemporaryFile() as sink:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(sink.fileno(), 2)
        position = [0]

        def said() -> str:
            sink.seek(position[0])
            return sink.read().decode("utf-8", "replace")

        try:
            yield said
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
