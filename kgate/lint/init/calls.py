"""Calls of a launcher: into functions of the tree, through ``apply``, of the library, and launches."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from kgate.lint.init.expressions import Expressions
from kgate.lint.init.frames import DEPTH, Frame, dtype_called, pow2, returned
from kgate.lint.init.values import (
    UNKNOWN,
    Array,
    Evidence,
    Items,
    Known,
    Local,
    Named,
    Parameter,
    Shape,
    Value,
)
from kgate.source.uses import chain_of

GUARDS = frozenset({"input_guard", "ensure_contiguous", "contiguous", "make_contiguous"})
"""Decorators, by their last name, that make every tensor contiguous before the function runs."""
_CHECKS = frozenset({"torch._check", "torch._assert", "torch._check_value", "torch._check_type"})


class Calls(Expressions):
    """Gives the value of a call, and goes into what is called."""

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Subscript):
            launched = self._launch(node, frame)
            if launched:
                return UNKNOWN
        if isinstance(node.func, ast.Attribute):
            chain = chain_of(node.func)
            if not chain or chain.partition(".")[0] in frame.env:
                return self._method(node, node.func, frame)
        function = self.value(node.func, frame)
        positional, keywords, certain = self._arguments(node, frame)
        if isinstance(function, Named):
            return self.call(function, node, positional, keywords, certain, frame)
        if isinstance(function, Local) and isinstance(function.node, ast.FunctionDef) and frame.depth < DEPTH:
            return self._local(function.node, positional, keywords, frame)
        return UNKNOWN

    def _arguments(self, node: ast.Call, frame: Frame) -> tuple[list[Value], dict[str, Value], bool]:
        """Positional and keyword arguments, and whether these are all."""
        positional: list[Value] = []
        certain = True
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = self.value(argument.value, frame)
                if isinstance(value, Items) and not value.spread:
                    positional += value.items
                else:
                    opened = self._spread(Items((value,), (0,)), None, self.evidence(frame, node))
                    if opened is None:
                        certain = False
                        positional.append(value)
                    else:
                        positional += opened
            else:
                positional.append(self.value(argument, frame))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            if keyword.arg is None:
                certain = False
            else:
                keywords[keyword.arg] = value
        return positional, keywords, certain

    def call(
        self,
        function: Named,
        node: ast.Call,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
    ) -> Value:
        """The value of a call of something named."""
        if function.symbols:
            return self._own(function.symbols, node, positional, keywords, certain, frame)
        from kgate.lint.init.library import library_call

        chain = function.external or chain_of(node.func)
        if chain in _CHECKS and node.args:
            from kgate.lint.init.checks import insist

            insist(self, frame, node.args[0], True, self.evidence(frame, node))
            return UNKNOWN
        return library_call(self, frame, node, chain, positional, keywords)

    def _own(
        self,
        symbols: Sequence[str],
        node: ast.Call,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
    ) -> Value:
        """A call of a function of the tree, or of ``Function.apply``."""
        symbol = symbols[0]
        last = symbol.rpartition("::")[2]
        if self.project.device(list(symbols)):
            return self._called_device(symbol, node, positional, keywords, frame)
        if len(symbols) != 1 or symbol.endswith("::*"):
            return UNKNOWN
        definition = self.project.definition(symbol)
        if definition is None:
            return UNKNOWN
        if definition.kind == "class" and chain_of(node.func).endswith(".apply"):
            return self._apply(symbol, positional, keywords, certain, frame)
        if definition.kind != "function" or definition.runs or "." in last:
            return self._helper(last, positional)
        return self.follow(symbol, positional, keywords, certain, frame, 0)

    def _apply(
        self, symbol: str, positional: list[Value], keywords: dict[str, Value], certain: bool, frame: Frame
    ) -> Value:
        forward = self.project.function(f"{symbol}.forward")
        if forward is None:
            return UNKNOWN
        if self.project.function(f"{symbol}.backward") is not None:
            path, _, name = symbol.partition("::")
            backward = self.project.function(f"{symbol}.backward")
            line = backward.lineno if backward is not None else 1
            self.facts.backward = self.facts.backward or Evidence(path, line, f"{name}.backward")
        skip = 1 if (forward.args.args and forward.args.args[0].arg == "ctx") or len(forward.args.args) else 0
        return self.follow(f"{symbol}.forward", positional, keywords, certain, frame, skip)

    def _helper(self, name: str, positional: list[Value]) -> Value:
        return pow2(positional[0]) if "next_power_of_2" in name and positional else UNKNOWN

    def follow(
        self,
        symbol: str,
        positional: list[Value],
        keywords: dict[str, Value],
        certain: bool,
        frame: Frame,
        skip: int,
    ) -> Value:
        """Go into a function of the tree with what it is given."""
        node = self.project.function(symbol)
        if node is None or frame.depth >= DEPTH or symbol in self.active:
            return self._helper(symbol.rpartition("::")[2], positional)
        if "next_power_of_2" in node.name and positional:
            return pow2(positional[0])
        env = self._bound_arguments(node, positional, keywords, certain, skip)
        if self._guards(symbol, list(env.values())):
            env = {name: _dense(value) for name, value in env.items()}
        inner = self.frame(symbol, env, frame.depth + 1)
        self.active.append(symbol)
        self.block(node.body, inner)
        self.active.pop()
        return returned(inner)

    def _bound_arguments(
        self, node: ast.FunctionDef, positional: list[Value], keywords: dict[str, Value], certain: bool, skip: int
    ) -> dict[str, Value]:
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][skip:]
        env: dict[str, Value] = {}
        defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
        for name in names:
            if name in defaults:
                env[name] = _literal(defaults[name]) if certain else UNKNOWN
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            env[argument.arg] = _literal(default) if default is not None and certain else UNKNOWN
        for name in names:
            env.setdefault(name, UNKNOWN)
        env |= dict(zip(names, positional, strict=False))
        env |= {name: value for name, value in keywords.items() if name in env}
        if arguments.vararg is not None:
            env[arguments.vararg.arg] = Items(tuple(positional[len(names) :]))
        if arguments.kwarg is not None:
            env[arguments.kwarg.arg] = UNKNOWN
        if skip:
            env[next(a.arg for a in arguments.args)] = UNKNOWN
        return env

    def _guards(self, symbol: str, values: list[Value]) -> bool:
        """Whether a decorator makes every tensor contiguous; noted for each input among the values."""
        definition = self.project.definition(symbol)
        for decorator in definition.decorators if definition is not None else ():
            if decorator.chain.rpartition(".")[2] in GUARDS:
                path = symbol.partition("::")[0]
                evidence = Evidence(path, decorator.segment.line, f"@{decorator.chain}")
                for value in values:
                    if isinstance(value, Array) and value.root:
                        self.facts.dense.setdefault(value.root, evidence)
                if symbol.rpartition("::")[2] and not self.active:
                    for name, value in self.given.items():
                        self.given[name] = _dense(value)
                return True
        return False

    def _local(self, node: ast.FunctionDef, positional: list[Value], keywords: dict[str, Value], frame: Frame) -> Value:
        key = f"{frame.path}::<local>{node.lineno}"
        if key in self.active:
            return UNKNOWN
        env = {**frame.env, **self._bound_arguments(node, positional, keywords, True, 0)}
        self.frames += 1
        inner = Frame(frame.path, self.frames, frame.uses, frame.owner, frame.lines, env, frame.depth + 1)
        self.active.append(key)
        self.block(node.body, inner)
        self.active.pop()
        return returned(inner)

    def _method(self, node: ast.Call, func: ast.Attribute, frame: Frame) -> Value:
        owner = self.value(func.value, frame)
        positional, keywords, _ = self._arguments(node, frame)
        if isinstance(owner, Parameter) and func.attr in _TENSOR_METHODS:
            owner = self.as_tensor(owner, frame, node)
        if isinstance(owner, Array):
            from kgate.lint.init.library import array_method

            if owner.root and owner.root in self.given:
                self.facts.tensors.setdefault(owner.root, self.evidence(frame, node))
            return array_method(self, frame, node, func.attr, owner, positional, keywords)
        if isinstance(owner, Shape) and func.attr == "numel":
            return self.count(owner.array)
        return UNKNOWN

    def _launch(self, node: ast.Call, frame: Frame) -> bool:
        """``kernel[grid](...)``: note what the device function does with what it is given."""
        assert isinstance(node.func, ast.Subscript)
        named = self.value(node.func.value, frame)
        if not isinstance(named, Named) or not named.symbols:
            return False
        device = self.project.device(named.symbols)
        if not device:
            return False
        from kgate.lint.init.launches import note_launch

        positional, keywords, certain = self._arguments(node, frame)
        grid = self._grid(node.func.slice, frame)
        note_launch(self, device, grid, positional, keywords, certain, self.evidence(frame, node))
        return True

    def _grid(self, node: ast.expr, frame: Frame) -> list[Value]:
        value = self.value(node, frame)
        if isinstance(value, Local):
            body = value.node.body
            if isinstance(value.node, ast.FunctionDef):
                last = body[-1]
                names = {a.arg for a in value.node.args.args}
                body = last.value if isinstance(last, ast.Return) else None
            else:
                names = {a.arg for a in value.node.args.args}
            hidden = {name: frame.env.pop(name) for name in names if name in frame.env}
            frame.env |= dict.fromkeys(names, UNKNOWN)
            value = self.value(body, frame)
            for name in names:
                frame.env.pop(name, None)
            frame.env |= hidden
        return list(value.items) if isinstance(value, Items) else [value]

    def _called_device(
        self, symbol: str, node: ast.Call, positional: list[Value], keywords: dict[str, Value], frame: Frame
    ) -> Value:
        """A device function that is called like a host function: a wrapper turns it into an elementwise operation."""
        definition = self.project.definition(symbol)
        chains = [d.chain.rpartition(".")[2] for d in definition.decorators] if definition is not None else []
        if "pointwise_dynamic" not in chains:
            return UNKNOWN
        from kgate.lint.init.launches import note_elementwise

        return note_elementwise(self, positional, keywords, self.evidence(frame, node), symbol)


def _dense(value: Value) -> Value:
    return replace(value, dense=True) if isinstance(value, Array) else value


def _literal(node: ast.expr) -> Value:
    try:
        return Known(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError):
        return dtype_called(chain_of(node))


_TENSOR_METHODS = frozenset(
    (
        *("size", "dim", "numel", "nelement", "stride", "contiguous", "is_contiguous", "is_floating_point", "data_ptr"),
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "expand", "clone", "detach"),
        *("to", "float", "half", "bfloat16", "new_empty", "new_zeros", "element_size", "copy_", "zero_", "fill_"),
    )
)
