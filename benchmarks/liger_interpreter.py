"""Runs Liger-Kernel's operators forward on a CPU and compares them with float64 references.

Usage: ``python benchmarks/liger_interpreter.py FOLDER [--target cuda:sm_90] [--only NAME]``, where FOLDER is an
unzipped ``liger-kernel==0.8.5`` wheel (``pip download --no-deps liger-kernel==0.8.5``). Prints one line per operator
and dtype: the largest error relative to the largest reference value, the same in unit roundoffs of the dtype, launches,
seconds, and what was wrong. Exits 1 where an operator fails, is further off than its slack, or violates memory.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOFS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class Operator:
    """One operator: how to make its inputs, call it, and what it must equal."""

    name: str
    inputs: Callable[[Any], tuple[Any, ...]]
    """Gives the arguments in float64; floating ones are then cast to the dtype under test."""
    call: Callable[..., Any]
    reference: Callable[..., Any]
    """Takes the rounded arguments, in float64."""
    tf32: bool = False
    """float32 products are rounded to tf32 first, so float32 is judged by tf32's roundoff."""
    slack: float = 8.0
    """Allowed error in unit roundoffs of the dtype, relative to the largest reference value."""


def operators(ops: Any, torch: Any) -> list[Operator]:
    """List the operators under test; ``ops`` is the module ``liger_kernel.ops``."""
    functional = torch.nn.functional

    def randn(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.float64)

    def rotate(x: Any) -> Any:
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

    def angles(*shape: int) -> tuple[Any, Any]:
        angle = torch.rand(*shape[:-1], shape[-1] // 2, dtype=torch.float64) * 6
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()

    def rope(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return q * cos + rotate(q) * sin, k * cos + rotate(k) * sin

    def rms(x: Any, w: Any, eps: float = 1e-6, offset: float = 0.0) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * (w + offset)

    def poly(x: Any, w: Any, b: Any) -> Any:
        def norm(u: Any) -> Any:
            return u * torch.rsqrt((u * u).mean(-1, keepdim=True) + 1e-6)

        return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b

    def sparsemax(x: Any) -> Any:
        ordered = x.sort(-1, descending=True).values
        steps = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        sums = ordered.cumsum(-1) - 1
        support = (ordered * steps > sums).sum(-1, keepdim=True)
        return (x - sums.gather(-1, support - 1) / support).clamp(min=0)

    def jsd(log_q: Any, log_p: Any) -> Any:
        q, p = log_q.exp(), log_p.exp()
        log_m = (0.5 * p + 0.5 * q).log()
        return (0.5 * p * (log_p - log_m) + 0.5 * q * (log_q - log_m)).sum(-1).mean()

    def mrope(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        section = [4, 6, 6]

        def pick(table: Any) -> Any:
            halves = torch.split(table, section * 2, dim=-1)
            return torch.cat([part[i % 3] for i, part in enumerate(halves)], dim=-1).unsqueeze(1)

        return q * pick(cos) + rotate(q) * pick(sin), k * pick(cos) + rotate(k) * pick(sin)

    def llama4(q: Any, k: Any, real: Any, imaginary: Any) -> Any:
        table = torch.complex(real, imaginary)[None, :, None, :]

        def turn(x: Any) -> Any:
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
            return torch.view_as_real(pairs * table).flatten(-2)

        return turn(q), turn(k)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        place = torch.arange(q.shape[-2])
        near = (place[:, None] - place[None, :]).abs() <= 3
        return scores.masked_fill(~near, -math.inf).softmax(-1) @ v

    def residual(v: Any, w_query: Any, w_norm: Any) -> Any:
        keys = v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-6) * w_norm
        return ((keys * w_query).sum(-1, keepdim=True).softmax(0) * v).sum(0)

    def log_softmax(*shape: int) -> Any:
        return randn(*shape).log_softmax(-1)

    def tokens(count: int, below: int) -> Any:
        chosen = torch.randint(0, below, (count,))
        chosen[::5] = -100
        return chosen

    def fused_jsd(student: Any, w_student: Any, teacher: Any, w_teacher: Any) -> Any:
        return jsd((student @ w_student.T).log_softmax(-1), (teacher @ w_teacher.T).log_softmax(-1))

    return [
        Operator("swiglu", lambda t: (randn(4, 300), randn(4, 300)), ops.LigerSiLUMulFunction.apply,
                 lambda a, b: functional.silu(a) * b),
        Operator("swiglu_fused_gate_up", lambda t: (randn(4, 600),), ops.LigerFusedGateUpSiLUMulFunction.apply,
                 lambda y: functional.silu(y[:, :300]) * y[:, 300:]),
        Operator("geglu", lambda t: (randn(4, 300), randn(4, 300)), ops.LigerGELUMulFunction.apply,
                 lambda a, b: functional.gelu(a, approximate="tanh") * b),
        Operator("relu_squared", lambda t: (randn(4, 300),), ops.LigerReLUSquaredFunction.apply,
                 lambda x: x.clamp(min=0) ** 2),
        Operator("rms_norm_llama", lambda t: (randn(6, 300), randn(300)),
                 lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False), rms),
        Operator("rms_norm_gemma", lambda t: (randn(6, 300), randn(300)),
                 lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 1.0, "gemma", False),
                 lambda x, w: rms(x, w, offset=1.0)),
        Operator("rms_norm_none", lambda t: (randn(6, 300), randn(300)),
                 lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "none", False), rms, slack=16),
        Operator("fused_add_rms_norm", lambda t: (randn(6, 300), randn(6, 300), randn(300)),
                 lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, 0.0, "llama", False),
                 lambda x, r, w: (rms(x + r, w), x + r)),
        Operator("modulated_rms_norm", lambda t: (randn(6, 300), randn(300), randn(300), randn(300)),
                 lambda x, w, s, b: ops.LigerModulatedRMSNormFunction.apply(x, w, s, b, 1e-6, 0.0, "llama", False),
                 lambda x, w, s, b: (1 + s) * rms(x, w) + b),
        Operator("layer_norm", lambda t: (randn(6, 300), randn(300), randn(300)),
                 lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-6),
                 lambda x, w, b: functional.layer_norm(x, (300,), w, b, 1e-6)),
        Operator("group_norm", lambda t: (randn(2, 6, 50), randn(6), randn(6)),
                 lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-6),
                 lambda x, w, b: functional.group_norm(x, 3, w, b, 1e-6)),
        Operator("poly_norm", lambda t: (randn(6, 300), randn(3), randn(1)),
                 lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False), poly),
        Operator("dyt", lambda t: (randn(6, 300), randn(1), randn(300), randn(300)), ops.LigerDyTFunction.apply,
                 lambda x, a, g, b: g * torch.tanh(a * x) + b),
        Operator("softmax", lambda t: (randn(6, 300),), ops.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1)),
        Operator("sparsemax", lambda t: (randn(6, 300),), lambda x: ops.LigerSparsemaxFunction.apply(x, -1),
                 sparsemax),
        Operator("rope", lambda t: (randn(2, 4, 9, 32), randn(2, 2, 9, 32), *angles(1, 9, 32)),
                 ops.LigerRopeFunction.apply, rope),
        Operator("qwen2vl_mrope", lambda t: (randn(2, 4, 9, 32), randn(2, 2, 9, 32), *angles(3, 2, 9, 32)),
                 lambda q, k, c, s: ops.LigerQwen2VLMRopeFunction.apply(q, k, c, s, [4, 6, 6]), mrope),
        Operator("llama4_rope", lambda t: (randn(2, 9, 4, 32), randn(2, 9, 2, 32), randn(9, 16), randn(9, 16)),
                 lambda q, k, a, b: ops.LigerLlama4RopeFunction.apply(q, k, torch.complex(a.float(), b.float())),
                 llama4),
        Operator("cross_entropy", lambda t: (randn(10, 500), tokens(10, 500)),
                 lambda x, y: ops.LigerCrossEntropyFunction.apply(x, y, None, -100, 0.0, 0.1, "mean")[0],
                 lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1)),
        Operator("fused_linear_cross_entropy", lambda t: (randn(10, 48), randn(200, 48), tokens(10, 200)),
                 lambda x, w, y: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, y)[0],
                 lambda x, w, y: functional.cross_entropy(x @ w.T, y)),
        Operator("jsd", lambda t: (log_softmax(10, 300), log_softmax(10, 300)), ops.LigerJSDFunction.apply, jsd),
        Operator("fused_linear_jsd", lambda t: (randn(8, 32), randn(200, 32), randn(8, 32), randn(200, 32)),
                 ops.LigerFusedLinearJSDFunction.apply, fused_jsd, slack=16),
        Operator("kl_div", lambda t: (log_softmax(10, 300), log_softmax(10, 300).exp()),
                 ops.LigerKLDivLossFunction.apply,
                 lambda x, y: functional.kl_div(x, y, reduction="batchmean"), slack=16),
        Operator("tvd", lambda t: (log_softmax(10, 300).exp(), log_softmax(10, 300).exp()),
                 ops.LigerTVDLossFunction.apply, lambda p, q: (0.5 * (p - q).abs()).sum(-1).mean()),
        Operator("embedding", lambda t: (randn(40, 96), torch.randint(0, 40, (3, 7))),
                 ops.LigerEmbeddingFunction.apply, lambda e, i: e[i]),
        Operator("neighborhood_attention", lambda t: (randn(1, 2, 20, 32), randn(1, 2, 20, 32), randn(1, 2, 20, 32)),
                 lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1), attention,
                 tf32=True),
        Operator("attn_res", lambda t: (randn(3, 10, 64), randn(64), randn(64)),
                 lambda v, q, n: ops.LigerAttnResFunction.apply(v, q, n, 1e-6), residual, slack=16),
        Operator("multi_token_attention", lambda t: (randn(1, 2, 12, 12), randn(2, 2, 3, 3)),
                 lambda s, w: ops.LigerMultiTokenAttentionFunction.apply(s, w, None, 1, 1), multi_token(torch),
                 slack=32),
    ]  # fmt: skip


def multi_token(torch: Any) -> Callable[..., Any]:
    """Return the float64 reference of multi-token attention."""

    def reference(scores: Any, weight: Any) -> Any:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        probabilities = scores.masked_fill(~keep, -math.inf).softmax(-1)
        mixed = torch.nn.functional.conv2d(probabilities, weight, padding=1)
        return mixed.masked_fill(~keep, 0.0)

    return reference


def cast(values: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """Cast floating tensors to a dtype; everything is cloned."""
    return tuple(v.to(dtype).clone() if v.is_floating_point() else v.clone() for v in values)


def measure(operator: Operator, dtype: Any, torch: Any, interpreter: Any) -> dict[str, Any]:
    """Run one operator in one dtype; returns error, violations, launches and seconds."""
    torch.manual_seed(0)
    rounded = cast(operator.inputs(torch), dtype)
    wanted = operator.reference(*cast(rounded, torch.float64))
    begun = time.perf_counter()
    with interpreter.run({f"input {i}": v for i, v in enumerate(rounded)}) as log:
        got = operator.call(*rounded)
        log.check_outputs(got)
    seconds = time.perf_counter() - begun
    wanted, got = (v if isinstance(v, tuple) else (v,) for v in (wanted, got))
    pairs = [(g.detach().double(), w) for g, w in zip(got, wanted, strict=False)]
    error = max(((g - w).abs().max() / w.abs().max()).item() for g, w in pairs)
    return {"error": error, "violations": log.violations, "launches": len(log.launches), "seconds": seconds}


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="an unzipped liger-kernel wheel")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    sys.path.insert(0, str(options.folder))
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from kgate.probes import interpreter

    interpreter.install(target=options.target)
    import torch
    from liger_kernel import ops

    failed = 0
    print(f"{'operator':28}{'dtype':10}{'error':>10}{'roundoffs':>11}{'launches':>10}{'seconds':>9}  verdict")
    for operator in operators(ops, torch):
        if options.only and options.only not in operator.name:
            continue
        for name, roundoff in ROOFS.items():
            try:
                found = measure(operator, getattr(torch, name), torch, interpreter)
            except Exception as error:
                failed += 1
                print(f"{operator.name:28}{name:10}  {type(error).__name__}: {error}")
                continue
            share = found["error"] / (2.0**-11 if operator.tf32 and name == "float32" else roundoff)
            problems = [f"{v.kind}: {v.message}" for v in found["violations"]]
            if not share <= operator.slack:
                problems.append(f"error beyond {operator.slack:g} roundoffs")
            failed += bool(problems)
            print(
                f"{operator.name:28}{name:10}{found['error']:10.1e}{share:11.2f}{found['launches']:10}"
                f"{found['seconds']:9.3f}  {'; '.join(problems) or 'ok'}"
            )
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
