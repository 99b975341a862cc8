"""Calls of Triton's language in a device function, with their arguments by name."""

from __future__ import annotations

import ast

_SIGNATURES = {
    "load": "pointer mask other boundary_check padding_option cache_modifier eviction_policy volatile",
    "store": "pointer value mask boundary_check cache_modifier eviction_policy",
    "atomic_cas": "pointer cmp val sem scope",
    "dot": "input other acc input_precision allow_tf32 max_num_imprecise_acc out_dtype",
    "dot_scaled": "lhs lhs_scale lhs_format rhs rhs_scale rhs_format acc fast_math",
    "sum": "input axis keep_dims dtype",
    "max": "input axis return_indices return_indices_tie_break_left keep_dims",
    "min": "input axis return_indices return_indices_tie_break_left keep_dims",
    "argmax": "input axis tie_break_left keep_dims",
    "argmin": "input axis tie_break_left keep_dims",
    "xor_sum": "input axis keep_dims",
    "reduce": "input axis combine_fn keep_dims",
    "cumsum": "input axis reverse dtype",
    "cumprod": "input axis reverse",
    "associative_scan": "input axis combine_fn reverse",
    "sort": "x dim descending",
    "topk": "x k dim",
    "softmax": "x dim keep_dims ieee_rounding",
    "arange": "start end",
    "zeros": "shape dtype",
    "full": "shape value dtype",
    "zeros_like": "input",
    "where": "condition x y",
    "program_id": "axis",
    "num_programs": "axis",
    "cdiv": "x div",
    "make_block_ptr": "base shape strides offsets block_shape order",
    "make_tensor_descriptor": "base shape strides block_shape",
    "advance": "base offsets",
    "multiple_of": "input values",
    "max_contiguous": "input values",
    "max_constancy": "input values",
    "assume": "cond",
    "to": "input dtype fp_downcast_rounding bitcast",
    "cast": "input dtype fp_downcast_rounding bitcast",
    "static_assert": "cond msg",
    "device_assert": "cond msg mask",
    "view": "input shape",
    "reshape": "input shape",
    "broadcast_to": "input shape",
    "expand_dims": "input axis",
    "trans": "input",
    "maximum": "x y propagate_nan",
    "minimum": "x y propagate_nan",
    "fma": "x y z",
    "clamp": "x min max propagate_nan",
    "gather": "src index axis",
    "div_rn": "x y",
    "fdiv": "x y ieee_rounding",
    "exp": "x",
    "exp2": "x",
    "log": "x",
    "log2": "x",
    "sqrt": "x",
    "rsqrt": "x",
    "sigmoid": "x",
}
_ATOMIC = ("pointer", "val", "mask", "sem", "scope")
SIGNATURES: dict[str, tuple[str, ...]] = {name: tuple(text.split()) for name, text in _SIGNATURES.items()}
ATOMICS = frozenset(f"atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "xchg", "cas"))
for _name in ATOMICS - {"atomic_cas"}:
    SIGNATURES[_name] = _ATOMIC
REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce"})
SCANS = frozenset({"cumsum", "cumprod", "associative_scan"})
METHODS = frozenset(SIGNATURES) - {
    "arange", "zeros", "full", "program_id", "num_programs", "where", "static_assert", "device_assert",
    "make_block_ptr", "make_tensor_descriptor", "load", "store", "dot", "assume", "advance",
}  # fmt: skip
"""Functions of the language that are methods of tensors too."""


class Call:
    """One call: the language's function that it means, and its arguments."""

    __slots__ = ("method", "name", "node", "spread")

    def __init__(self, node: ast.Call, name: str, method: bool) -> None:
        self.node = node
        self.name = name
        """Name in ``triton.language``: ``load``, ``sum``, ``to``. Of a tensor descriptor ``descriptor_load`` and
        ``descriptor_store``."""
        self.method = method
        """Whether it is written as a method (``x.to(...)``), whose object is the first argument."""
        self.spread = any(isinstance(item, ast.Starred) for item in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        )

    def argument(self, name: str) -> ast.expr | None:
        """An argument by the name of its parameter; None where it is not given."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        signature = SIGNATURES.get(self.name, ())
        if name not in signature:
            return None
        position = signature.index(name)
        if self.method:
            if position == 0:
                return self.node.func.value  # type: ignore[attr-defined,no-any-return]
            position -= 1
        if position < len(self.node.args):
            found = self.node.args[position]
            return None if isinstance(found, ast.Starred) else found
        return None

    @property
    def first(self) -> ast.expr | None:
        """The first argument, whatever its name: what is loaded, reduced, cast."""
        if self.method:
            return self.node.func.value  # type: ignore[attr-defined,no-any-return]
        if self.node.args:
            return self.node.args[0]
        signature = SIGNATURES.get(self.name, ())
        return self.argument(signature[0]) if signature else None
