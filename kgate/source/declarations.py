"""Declarations, read from source: every ``@kernel(...)`` and ``kernel(...)(function)`` of a tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kgate.source.evaluate import Evaluator, Findings, Place, Unreadable
from kgate.source.facts import Decorator, Definition
from kgate.source.names import OWN_PACKAGE, Names
from kgate.source.records import Declaration
from kgate.source.uses import Uses, chain_of

if TYPE_CHECKING:
    from kgate.contract import Envelope, Workload

WORD = "kernel"
_VALUES = ("op", "name", "grad", "depends", "sources")
_FUNCTIONS = ("reference", "fallback", "check", "generator")
PARAMETERS = frozenset({*_VALUES, *_FUNCTIONS, "envelope", "workloads"})


@dataclass(frozen=True)
class Declared:
    """A declaration, with the symbols that it starts from."""

    declaration: Declaration
    roots: dict[str, tuple[str, ...]]
    """``code``, ``reference``, ``fallback``, ``check``, ``generator`` to symbol ids, or external dotted names."""
    used: dict[str, int]
    """Symbols whose values went into the declaration, with the line of the use."""


@dataclass
class _Parts:
    """What the arguments of one ``kernel(...)`` call say."""

    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    failed: bool = False


class Declarations:
    """Finds and reads the declarations of one tree."""

    def __init__(self, names: Names, findings: Findings) -> None:
        self.names = names
        self.findings = findings
        self.found: dict[str, Declared] = {}
        self.sites: dict[str, tuple[str, Definition, Decorator]] = {}
        self._kernel_chains: dict[tuple[str, str], bool] = {}

    # Recognising

    def is_kernel(self, path: str, chain: str) -> bool:
        """Whether a chain means ``kgate.kernel``, under whatever name."""
        if not chain:
            return False
        key = (path, chain)
        if key not in self._kernel_chains:
            self._kernel_chains[key] = False  # for a name that is defined by itself
            self._kernel_chains[key] = self._is_kernel(path, chain)
        return self._kernel_chains[key]

    def _is_kernel(self, path: str, chain: str) -> bool:
        found = self.names.resolve(path, chain)
        if any(name.startswith(OWN_PACKAGE + ".") and name.endswith("." + WORD) for name in found.externals):
            return True
        for symbol in found.symbols:
            target = symbol.partition("::")[0]
            for definition in self.names.definitions(symbol):
                if definition.alias and self.is_kernel(target, definition.alias):
                    return True
        return False

    def is_generator(self, path: str, chain: str) -> str:
        """The kernel whose generator ``name.generator`` registers; empty for anything else."""
        owner, _, last = chain.rpartition(".")
        if last != "generator" or not owner:
            return ""
        return next((symbol for symbol in self.names.resolve(path, owner).symbols if symbol in self.sites), "")

    def declares(self, path: str, decorator: Decorator) -> bool:
        """Whether a decorator declares a kernel or registers a generator, and so is no part of the code."""
        return self.is_kernel(path, decorator.chain) or bool(self.is_generator(path, decorator.chain))

    # Finding

    def read(self, paths: Iterable[str]) -> None:
        """Read every declaration in the files."""
        paths = list(paths)
        for path in paths:
            self._find(path)
        generators = self._generators(paths)
        for identity in self.sites:
            self._read(identity, generators)

    def _find(self, path: str) -> None:
        facts = self.names.table(path).facts
        suspects = self._suspects(path)
        for definition in facts.definitions:
            for decorator in definition.decorators:
                if self.is_kernel(path, decorator.chain):
                    self._site(path, definition, decorator)
            if suspects:
                self._hidden(path, definition.uses, suspects, definition.line)
        for effect in facts.effects:
            if suspects:
                self._hidden(path, effect.uses, suspects, effect.line)

    def _suspects(self, path: str) -> set[str]:
        """First names of chains in a file that may mean ``kgate.kernel``."""
        return {
            item.name
            for item in self.names.table(path).facts.imports
            if item.attribute == WORD or item.module.partition(".")[0] == OWN_PACKAGE
        }

    def _site(self, path: str, definition: Definition, decorator: Decorator) -> None:
        identity = f"{path}::{definition.name}"
        place = (path, decorator.segment.parse())
        if identity in self.sites or len(self.names.definitions(identity)) > 1:
            self.findings.add(
                "declared-twice",
                place,
                f"{definition.name} is defined more than once in this file",
                "declare one function, and choose inside it",
                identity,
            )
        self.sites.setdefault(identity, (path, definition, decorator))

    def _hidden(self, path: str, uses: Uses, suspects: set[str], line: int) -> None:
        """A declaration that is made where it cannot be read: in a function, a loop or an expression."""
        for chain, where in uses.refs:
            if chain.partition(".")[0] in suspects and self.is_kernel(path, chain):
                if any(d.alias == chain and d.line == line for d in self.names.table(path).facts.definitions):
                    continue  # another name for it: ``declare = kgate.kernel``
                place = (path, ast.Name(chain, lineno=where, col_offset=0, end_lineno=where, end_col_offset=0))
                self.findings.add(
                    "unreadable-declaration",
                    place,
                    f"{chain} is used inside a function, a loop or an expression, where it cannot be read",
                    f"write @{chain}(...) on a function at module level, or name = {chain}(...)(function)",
                )

    def _generators(self, paths: list[str]) -> dict[str, list[tuple[str, str]]]:
        """Kernel to the functions that its ``.generator`` registers: (symbol, module:qualname)."""
        found: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            facts = self.names.table(path).facts
            for definition in facts.definitions:
                for decorator in definition.decorators:
                    kernel = self.is_generator(path, decorator.chain)
                    if kernel:
                        name = f"{self.names.modules.name_of(path)}:{definition.name}"
                        found.setdefault(kernel, []).append((f"{path}::{definition.name}", name))
            for effect in facts.effects:
                for callee, arguments in effect.uses.calls:
                    kernel = self.is_generator(path, callee)
                    for argument in arguments[:1] if kernel else ():
                        for symbol in self.names.resolve(path, argument).symbols:
                            found.setdefault(kernel, []).append((symbol, self._reference(symbol)))
        return found

    # Reading

    def _read(self, identity: str, generators: dict[str, list[tuple[str, str]]]) -> None:
        path, definition, decorator = self.sites[identity]
        call = decorator.segment.parse()
        evaluator = Evaluator(self.names, self.findings, identity)
        place = (path, call)
        if not isinstance(call, ast.Call):
            self.findings.add(
                "incomplete-declaration",
                place,
                f"{decorator.chain} is given nothing",
                f"write @{decorator.chain}(reference=..., fallback=..., envelope=Envelope(...))",
                identity,
            )
            return
        launched = self._launched(path, definition)
        if launched is not None and launched.runs:
            remedy = "declare a function that launches and returns"
            message = f"{launched.name} is {_RUNS[launched.runs]}: calling it launches nothing"
            self.findings.add("not-a-function", (path, _at(definition)), message, remedy, identity)
            return
        if "." in definition.name and definition.parameters[:1] in ((("self", False),), (("cls", False),)):
            remedy = "declare a function at module level that calls it"
            self.findings.add("not-a-function", place, f"{definition.name} is a method", remedy, identity)
            return
        arguments = self._arguments(evaluator, path, call)
        if arguments is None:
            return
        parts = self._evaluate(evaluator, place, arguments)
        self._add_generator(parts, place, identity, generators.get(identity, []))
        parameters = launched.parameters if launched is not None else None
        if not parts.failed:
            parts.failed = not self._check(evaluator, place, definition, parts, parameters)
        if not parts.failed:
            self.found[identity] = Declared(
                self._declaration(identity, path, definition, call, parts),
                {"code": (identity,), **{name: targets for name, (_, targets) in parts.functions.items()}},
                evaluator.used,
            )

    def place_of(self, identity: str, *where: str) -> Place:
        """The expression at a path inside a declaration, or the nearest one around it."""
        path, _, decorator = self.sites[identity]
        return Evaluator(self.names, self.findings, identity).locate((path, decorator.segment.parse()), where)

    def _arguments(self, evaluator: Evaluator, path: str, call: ast.Call) -> dict[str, Place] | None:
        """Keyword to expression; None where they cannot be told."""
        if call.args:
            remedy = f"write {chain_of(call.func)}(reference=..., fallback=..., envelope=Envelope(...))"
            message = "the parts of a declaration are given by name"
            evaluator.fail((path, call.args[0]), message, remedy, "bad-arguments")
            return None
        found: dict[str, Place] = {}
        ok = True
        for keyword in call.keywords:
            if keyword.arg is not None:
                found[keyword.arg] = (path, keyword.value)
                continue
            spread = self._spread(evaluator, (path, keyword.value))
            ok = ok and spread is not None
            found.update(spread or {})
        for name, place in list(found.items()):
            if name not in PARAMETERS:
                from kgate.contract.errors import suggestion

                evaluator.fail(
                    place, f"kernel has no parameter {name!r}", suggestion(name, PARAMETERS), "unknown-parameter"
                )
                ok = False
        return found if ok else None

    def _spread(self, evaluator: Evaluator, place: Place) -> dict[str, Place] | None:
        """The entries of ``**COMMON``, as expressions."""
        start = place
        try:
            while (meant := evaluator.constant(place)) is not None:
                place = meant
        except Unreadable:
            return None
        path, node = place
        if isinstance(node, ast.Call) and chain_of(node.func) == "dict" and not node.args:
            pairs: list[tuple[str | None, ast.expr]] = [(keyword.arg, keyword.value) for keyword in node.keywords]
        elif isinstance(node, ast.Dict):
            pairs = [
                (str(key.value) if isinstance(key, ast.Constant) else None if key is None else "", value)
                for key, value in zip(node.keys, node.values, strict=True)
            ]
        else:
            evaluator.fail(start, "only a dict that is written out can be spread here", "write the arguments out")
            return None
        found: dict[str, Place] = {}
        for name, value in pairs:
            if name is None:
                found.update(self._spread(evaluator, (path, value)) or {})
            else:
                found[str(name)] = (path, value)
        return found

    def _evaluate(self, evaluator: Evaluator, place: Place, arguments: dict[str, Place]) -> _Parts:
        parts = _Parts()
        for name in ("reference", "fallback", "envelope"):
            if name not in arguments:
                evaluator.fail(place, f"the declaration has no {name}", _WANTED[name], f"missing-{name}")
                parts.failed = True
        for name, where in arguments.items():
            if name in _FUNCTIONS:
                if _is_none(where[1]) and name not in ("reference", "fallback"):
                    continue
                target = self._function(evaluator, where, name)
                if target is None:
                    parts.failed = True
                else:
                    parts.functions[name] = target
                continue
            try:
                parts.values[name] = evaluator.value(where)
            except Unreadable:
                parts.failed = True
        return parts

    def _function(self, evaluator: Evaluator, place: Place, what: str) -> tuple[str, tuple[str, ...]] | None:
        """``module:qualname`` of a function, and the symbols or external names that it means."""
        path, node = place
        text: str | None = None
        chain = chain_of(node)
        if chain:
            found = self.names.resolve(path, chain)
            found_in_tree = [symbol for symbol in found.symbols if not symbol.endswith("::*")]
            if not found_in_tree and found.symbols:
                places = [symbol.removesuffix("::*") for symbol in found.symbols]
                last = chain.rpartition(".")[2]
                near = [name for place_ in places for name in self._callables(place_)]
                message = f"{what}={chain} does not resolve: {', '.join(places)} has no function {last}"
                evaluator.fail(place, message, _nearest(last, near), f"unresolvable-{what}")
                return None
            if not found_in_tree:
                return self._external(evaluator, place, chain, what)
            constant = self._string(evaluator, place, found_in_tree)
            if constant is None:
                return self._reference(found_in_tree[0]), tuple(found_in_tree)
            text = constant
        elif isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            try:
                value = evaluator.value(place)
            except Unreadable:
                return None
            text = value if isinstance(value, str) else None
        if text is None:
            evaluator.fail(
                place, f"{what} is neither a name nor a string", 'name a function, or write "module:function"'
            )
            return None
        return self._named(evaluator, place, text, what)

    def _string(self, evaluator: Evaluator, place: Place, symbols: list[str]) -> str | None:
        """The string that a name stands for; None where it stands for a function or an object."""
        kinds = {definition.kind for symbol in symbols for definition in self.names.definitions(symbol)}
        if kinds != {"constant"}:
            return None
        try:
            meant = evaluator.constant(place)
            value = evaluator.value(meant) if meant and isinstance(meant[1], (ast.Constant, ast.JoinedStr)) else None
        except Unreadable:
            return None
        return value if isinstance(value, str) else None

    def _external(
        self, evaluator: Evaluator, place: Place, chain: str, what: str
    ) -> tuple[str, tuple[str, ...]] | None:
        path = place[0]
        root = chain.partition(".")[0]
        imports = self.names.table(path).imports.get(root, ())
        stars = [star for star in self.names.table(path).stars if self.names.module(path, star) is None]
        builtin = f"builtins.{chain}" in self.names.resolve(path, chain).externals
        if not imports and not stars and not builtin:
            remedy = _nearest(chain, self._callables(path))
            message = f"{what}={chain} does not resolve: {path} has no {chain}"
            evaluator.fail(place, message, remedy, f"unresolvable-{what}")
            return None
        rest = chain.partition(".")[2]
        for item in imports:
            parts = [part for part in (item.attribute, rest) if part]
            if not parts:
                evaluator.fail(place, f"{what}={chain} is a module", _RESOLVE, f"unresolvable-{what}")
                return None
            return f"{item.module}:{'.'.join(parts)}", tuple(self.names.resolve(path, chain).externals)
        module = "builtins" if builtin else stars[0].module
        return f"{module}:{chain}", tuple(self.names.resolve(path, chain).externals)

    def _named(self, evaluator: Evaluator, place: Place, text: str, what: str) -> tuple[str, tuple[str, ...]] | None:
        """Resolve ``"module:qualname"``."""
        path = place[0]
        module, colon, qualname = text.partition(":")
        identifiers = [*module.split("."), *qualname.split(".")]
        if not colon or not all(part.isidentifier() for part in identifiers):
            evaluator.fail(
                place, f'{what}={text!r} is not of the form "module:function"', _RESOLVE, f"unresolvable-{what}"
            )
            return None
        modules = self.names.modules
        found = modules.absolute(module, path, itself=True)
        if found is None or found.endswith("/"):
            top = modules.absolute(module.partition(".")[0], path, itself=True)
            if top is None and not module.startswith(OWN_PACKAGE + "."):
                self._doubt(evaluator, place, text, what)
                return text, (f"{module}.{qualname}",)
            remedy = _nearest(module, map(modules.name_of, modules.files))
            message = f"{what}={text!r} does not resolve: there is no module {module}"
            evaluator.fail(place, message, remedy, f"unresolvable-{what}")
            return None
        symbols = self.names.in_module(found, qualname)
        if not symbols:
            remedy = _nearest(qualname, self._callables(found))
            message = f"{what}={text!r} does not resolve: {found} has no {qualname}"
            evaluator.fail(place, message, remedy, f"unresolvable-{what}")
            return None
        return text, tuple(symbols)

    def _callables(self, path: str) -> list[str]:
        """Names in a file that a function may be meant by."""
        table = self.names.table(path)
        return [*(d.name for d in table.facts.definitions if d.kind in ("function", "class")), *table.imports]

    def _doubt(self, evaluator: Evaluator, place: Place, text: str, what: str) -> None:
        """Warn of a module that is not in the tree, that no declaring file imports and that is not installed here.

        It may well be installed where the kernels run, so that this is no error.
        """
        top = text.partition(":")[0].partition(".")[0]
        if top in sys.stdlib_module_names or top in self._imported_tops or _installed(top):
            return
        tops = {self.names.modules.name_of(path).partition(".")[0] for path in self.names.modules.files}
        near = get_close_matches(top, sorted(tops), n=1)
        hint = f"did you mean {near[0]}?" if near else "check the spelling"
        evaluator.findings.add(
            "unknown-module",
            place,
            f"{what}={text!r}: there is no module {top} in the repository, nothing imports one, and none is installed",
            f"{hint} (or leave it, where only the environment of the kernels has that module)",
            evaluator.symbol,
            severity="warning",
        )

    @cached_property
    def _imported_tops(self) -> set[str]:
        """First parts of the modules that files with declarations import."""
        paths = {identity.partition("::")[0] for identity in self.sites}
        return {item.module.partition(".")[0] for path in paths for item in self.names.table(path).facts.imports}

    def _reference(self, symbol: str) -> str:
        path, _, name = symbol.partition("::")
        return f"{self.names.modules.name_of(path)}:{name}"

    def _add_generator(self, parts: _Parts, place: Place, identity: str, registered: list[tuple[str, str]]) -> None:
        if len(registered) + ("generator" in parts.functions) > 1:
            message = f"{identity.partition('::')[2]} has more than one input generator"
            self.findings.add("generator-twice", place, message, "keep one of them", identity)
            parts.failed = True
        elif registered:
            symbol, name = registered[0]
            parts.functions["generator"] = (name, (symbol,))

    def _launched(self, path: str, definition: Definition) -> Definition | None:
        """The function that is declared: the decorated one, or the one given to ``kernel(...)(...)``.

        None where it is not in the tree.
        """
        seen: set[tuple[str, str]] = set()
        while definition.kind != "function":
            chains = [definition.alias] if definition.alias else [chain for chain, _ in definition.uses.refs]
            symbols = list(self.names.resolve(path, chains[0]).symbols) if len(chains) == 1 else []
            targets = self.names.definitions(symbols[0]) if len(symbols) == 1 else ()
            if len(targets) != 1 or (path, definition.name) in seen:
                return None
            seen.add((path, definition.name))
            path, definition = symbols[0].partition("::")[0], targets[0]
        return definition

    def _check(
        self,
        evaluator: Evaluator,
        place: Place,
        definition: Definition,
        parts: _Parts,
        parameters: tuple[tuple[str, bool], ...] | None,
    ) -> bool:
        """The contract's own checks over the whole declaration; whether it passed."""
        from kgate.contract import Envelope
        from kgate.contract.validation import check_declaration

        values = parts.values
        if not isinstance(values["envelope"], Envelope):
            where = evaluator.argument(place, "envelope")
            evaluator.fail(where, "envelope is not an Envelope", _WANTED["envelope"], "missing-envelope")
            return False
        for name in ("op", "name"):
            if not isinstance(values.get(name), (str, type(None))):
                where = evaluator.argument(place, name)
                evaluator.fail(where, f"{name} is a string", f'write {name}="..."', "bad-arguments")
                return False
        errors = check_declaration(
            envelope=values["envelope"],
            name=values.get("name"),
            op=values.get("op"),
            workloads=values.get("workloads", ()),
            grad=values.get("grad", ()),
            parameters=parameters,
            depends=values.get("depends", ()),
            sources=values.get("sources", ()),
        )
        for error in errors:
            where = evaluator.locate(place, error.where)
            if error.where[:1] == ("parameters",):
                where = (place[0], _at(definition))
            self.findings.add(error.code, where, error.message, error.remedy, evaluator.symbol)
        return not errors

    def _declaration(
        self, identity: str, path: str, definition: Definition, call: ast.Call, parts: _Parts
    ) -> Declaration:
        values = parts.values
        name = values.get("name") or definition.name.rpartition(".")[2]
        envelope: Envelope = values["envelope"]
        workloads: tuple[Workload, ...] = tuple(values.get("workloads", ()))
        named = {key: text for key, (text, _) in parts.functions.items()}
        texts = {key: tuple(values.get(key) or ()) for key in ("grad", "depends", "sources")}
        op = values.get("op") or name
        return Declaration(
            identity=identity,
            name=name,
            op=op,
            path=path,
            line=call.lineno,
            column=self.sites[identity][2].segment.character + 1,
            module=self.names.modules.name_of(path),
            qualname=definition.name,
            root=self.names.modules.root_of(path).path,
            envelope=envelope,
            reference=named["reference"],
            fallback=named["fallback"],
            workloads=workloads,
            check=named.get("check", ""),
            generator=named.get("generator", ""),
            **texts,
            description=_description(name, op, envelope, workloads, named, texts),
        )


def _description(
    name: str,
    op: str,
    envelope: Envelope,
    workloads: tuple[Workload, ...],
    named: dict[str, str],
    texts: dict[str, tuple[str, ...]],
) -> dict[str, Any]:
    from kgate.contract.serial import describe

    return describe(
        name=name,
        op=op,
        envelope=envelope,
        workloads=workloads,
        reference=named["reference"],
        fallback=named["fallback"],
        check=named.get("check", ""),
        **texts,
    )


def _at(definition: Definition) -> ast.expr:
    column = definition.column
    name = definition.name.rpartition(".")[2]
    line = definition.line
    return ast.Name(name, lineno=line, col_offset=column, end_lineno=line, end_col_offset=column)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _installed(top: str) -> bool:
    """Whether a module can be found where kgate runs; nothing is imported for that."""
    import importlib.util

    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _nearest(name: str, known: Iterable[str]) -> str:
    """A remedy with the closest name that there is."""
    near = get_close_matches(name, sorted(set(known)), n=1)
    return f"did you mean {near[0]!r}?" if near else _RESOLVE


_RESOLVE = 'name a function that exists, or write "module:function"'
_RUNS = {"coroutine": "an async function", "generator": "a generator"}
_WANTED = {
    "reference": "add reference=..., the plain implementation that defines the right answer",
    "fallback": "add fallback=..., what serves inputs outside the envelope",
    "envelope": "add envelope=Envelope(...), the inputs that the kernel supports",
}
