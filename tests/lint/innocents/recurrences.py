"""State from step to step and between programs: decays, scans that look back, locks, scratch memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def decayed_sum_kernel(x_ptr, y_ptr, T, D, decay, BLOCK: tl.constexpr):
    sequence = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(T):
        at = (sequence * T + t) * D + d
        state = state * decay + tl.load(x_ptr + at, mask=d < D, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, state, mask=d < D)


@triton.jit
def outer_state_kernel(k_ptr, v_ptr, g_ptr, s_ptr, T, K: tl.constexpr, V: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    j = tl.arange(0, V)
    state = tl.zeros((K, V), dtype=tl.float32)
    for t in range(T):
        k = tl.load(k_ptr + (head * T + t) * K + i).to(tl.float32)
        v = tl.load(v_ptr + (head * T + t) * V + j).to(tl.float32)
        gate = tl.exp(tl.load(g_ptr + head * T + t).to(tl.float32))
        state = state * gate + k[:, None] * v[None, :]
    tl.store(s_ptr + head * K * V + i[:, None] * V + j[None, :], state)


@triton.jit
def look_back_kernel(x_ptr, y_ptr, flag_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    before = tl.zeros((), dtype=tl.float32)
    if pid > 0:
        while tl.atomic_cas(flag_ptr + pid - 1, 1, 1, sem="acquire") != 1:
            pass
        before = tl.load(sum_ptr + pid - 1, volatile=True)
    tl.store(sum_ptr + pid, before + tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    tl.store(y_ptr + i, before + tl.cumsum(x, axis=0), mask=i < n)


def running_total(x: torch.Tensor) -> torch.Tensor:
    """Each program waits for the one before it."""
    x = x.contiguous()
    y = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    programs = triton.cdiv(x.numel(), 1024)
    flags = torch.zeros((programs,), device=x.device, dtype=torch.int32)
    sums = torch.empty((programs,), device=x.device, dtype=torch.float32)
    look_back_kernel[(programs,)](x, y, flags, sums, x.numel(), BLOCK=1024)
    return y


@triton.jit
def locked_sum_kernel(x_ptr, lock_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows.to(tl.int64)[:, None] * N + cols[None, :], mask=mask, other=0.0)
    part = tl.sum(x.to(tl.float32), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    total = tl.load(y_ptr + cols, mask=cols < N, other=0.0)
    tl.store(y_ptr + cols, total + part, mask=cols < N)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def exchange_kernel(x_ptr, scratch_ptr, y_ptr, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * BLOCK
    i = tl.arange(0, BLOCK)
    tl.store(scratch_ptr + base + i, tl.load(x_ptr + base + i))
    tl.debug_barrier()
    tl.store(y_ptr + base + i, tl.load(scratch_ptr + base + (i ^ 1)))
