"""Finds what a piece of code uses, in one pass over its syntax tree, by Python's scoping rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kgate.source.scopes import COMPREHENSIONS, Binder, WordLines, Words, assigned, bound_names, global_names
from kgate.source.uses import MUTATORS, Dynamic, Given, Import, LaunchSite, Uses, chain_of, integer, root_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NO_SIZES = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "num_buffers_warp_spec", "dim", "axis"})
_SIZE_RANGE = range(2, 2**20 + 1)
_READERS = frozenset({"get", "items", "keys", "values", "copy"})
_LOOKUPS = frozenset(
    {
        "getattr", "setattr", "delattr", "hasattr", "vars", "globals", "locals", "eval", "exec", "sys.modules.get",
        "pkgutil.resolve_name",
    }
)  # fmt: skip
_IMPORTERS = ("import_module", "__import__")
_LAUNCHERS = frozenset({"launch", "pallas_call"})
_TARGET_DEPTH = 4
_LIMITS = frozenset({"min", "max", "minimum", "maximum", "cdiv"})


def uses_of(
    *nodes: ast.AST, owner: bool = False, names: frozenset[str] = frozenset(), words: WordLines | None = None
) -> Uses:
    """What syntax trees at module level use.

    ``owner``: the trees are a method, whose first parameter stands for its class. ``names``: names that are bound by
    the statement itself, and count as local. ``words``: of the file, where they are known.
    """
    visitor = _Visitor(owner, names, words)
    visitor.visit_all(nodes)
    return visitor.result()


class _Scope:
    __slots__ = ("body", "globals", "is_class", "names", "owner", "parameters", "roots")

    def __init__(self, names: set[str], is_class: bool = False) -> None:
        self.names = names
        self.is_class = is_class
        self.owner = ""
        self.globals: set[str] = set()
        self.parameters: frozenset[str] = frozenset()
        self.body: list[ast.stmt] = []
        self.roots: dict[str, str] = {}
        """What names mean inside it, once they have been looked up: see :meth:`_Visitor.root`."""


class _Visitor:
    def __init__(self, owner: bool, names: frozenset[str], words: WordLines | None) -> None:
        self.owner = owner
        self.bound = names
        self.words = words
        self.scopes: list[_Scope] = []
        self.roots: dict[str, str] = {}
        self.outermost_roots = self.roots
        self.parameters: frozenset[str] = frozenset()
        """Of the outermost function; what is changed through them is an argument."""
        self.has_globals = False
        self.refs: dict[str, int] = {}
        self.imports: dict[Import, None] = {}
        self.imported: set[str] = set()
        self.writes: dict[str, None] = {}
        self.launches: dict[LaunchSite, None] = {}
        self.sizes: set[int] = set()
        self.dynamics: dict[Dynamic, None] = {}
        self.calls: dict[tuple[str, tuple[str, ...]], None] = {}
        self.occurrences: dict[str, int] = {}
        self.given: dict[str, list[Given]] = {}
        self.discarded: set[int] = set()
        self.commands: dict[str, None] = {}
        self.reading: set[int] = set()

    def result(self) -> Uses:
        return Uses(
            tuple(self.refs.items()),
            tuple(self.imports),
            tuple(self.writes),
            tuple(self.launches),
            tuple(sorted(self.sizes)),
            tuple(self.dynamics),
            tuple(self.calls),
            tuple(
                dict.fromkeys(
                    item
                    for chain, items in self.given.items()
                    if len(items) == self.occurrences.get(chain)
                    for item in items
                )
            ),
            tuple(self.commands),
        )

    # Scopes

    def enter(self, scope: _Scope) -> None:
        self.scopes.append(scope)
        if not scope.is_class:
            scope.roots = dict.fromkeys(scope.names, "")
            scope.roots.pop("__class__", None)
        self.roots = scope.roots
        self.parameters = self.scopes[0].parameters
        self.has_globals = self.has_globals or bool(scope.globals)

    def leave(self) -> None:
        self.scopes.pop()
        self.roots = self.scopes[-1].roots if self.scopes else self.outermost_roots
        if not self.scopes:
            self.parameters, self.has_globals = frozenset(), False

    def local(self, name: str) -> bool:
        last = len(self.scopes) - 1
        for depth in range(last, -1, -1):
            scope = self.scopes[depth]
            if scope.is_class and depth != last:
                continue
            if name in scope.globals:
                return False
            if name in scope.names:
                return True
        return name in self.bound

    def root(self, name: str) -> str:
        """What the first name of a chain becomes where the chain is kept; empty for a local name."""
        known = self.roots.get(name)
        if known is None:
            known = self.roots[name] = self._root(name)
        return known

    def _root(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if scope.owner == name:
                return "@"
            if name in scope.names and not scope.is_class:
                break
        if name == "__class__":
            return "@"
        return "" if self.local(name) else name

    def outside(self, chain: str) -> str:
        """The chain as it is kept; empty where it starts at a local name."""
        root, dot, rest = chain.partition(".")
        known = self.root(root)
        return f"{known}{dot}{rest}" if known else ""

    def add(self, chain: str, line: int) -> str:
        kept = self.outside(chain)
        if kept:
            self.note(kept, line)
        return kept

    def note(self, kept: str, line: int) -> None:
        self.refs.setdefault(kept, line)
        self.occurrences[kept] = self.occurrences.get(kept, 0) + 1

    # Visiting

    def visit(self, node: ast.AST) -> None:
        _HANDLERS[type(node)](self, node)

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            _HANDLERS[type(node)](self, node)

    def children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            _HANDLERS[type(child)](self, child)

    def nothing(self, node: ast.AST) -> None:
        """A literal, an operator, or another node that refers to nothing."""

    def name(self, node: ast.Name) -> None:
        name = node.id
        if type(node.ctx) is ast.Load:
            kept = self.roots.get(name)
            if kept is None:
                kept = self.root(name)
            if kept:
                self.note(kept, node.lineno)
        elif self.has_globals and any(name in scope.globals for scope in self.scopes):
            self.writes[name] = None

    def attribute(self, node: ast.Attribute) -> None:
        value = node.value
        if type(node.ctx) is not ast.Load:
            self.write(node)
        if type(value) is ast.Name and self.roots.get(value.id) == "":
            return
        if node.attr in _READERS:
            self.reading.add(id(value))
        chain = chain_of(node)
        if chain:
            self.add(chain, node.lineno)
        elif _is_super(value):
            self.refs.setdefault(f"@super.{node.attr}", node.lineno)
        else:
            _HANDLERS[type(value)](self, value)

    def binary(self, node: ast.BinOp) -> None:
        # most of what kernels compute with are local names, which need not be visited
        left, right, roots = node.left, node.right, self.roots
        if type(left) is not ast.Name or roots.get(left.id) != "":
            _HANDLERS[type(left)](self, left)
        if type(right) is not ast.Name or roots.get(right.id) != "":
            _HANDLERS[type(right)](self, right)

    def elements(self, node: ast.Tuple | ast.List) -> None:
        self.visit_all(node.elts)

    def value(self, node: ast.keyword | ast.Starred | ast.Return) -> None:
        if node.value is not None:
            self.visit(node.value)

    def augmented(self, node: ast.AugAssign) -> None:
        self.visit(node.target)
        self.visit(node.value)

    def choice(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def condition(self, node: ast.If) -> None:
        self.visit(node.test)
        self.visit_all(node.body)
        self.visit_all(node.orelse)

    def slice(self, node: ast.Slice) -> None:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.visit(part)

    def subscript(self, node: ast.Subscript) -> None:
        value, key = node.value, node.slice
        if type(node.ctx) is ast.Load:
            self.reading.add(id(value))
        else:
            self.write(node)
        self.launch(node, called=False)
        literal = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
        if isinstance(value, ast.Call) and chain_of(value.func) in ("globals", "vars") and not value.args and literal:
            self.refs.setdefault(literal, node.lineno)
        elif chain_of(value) == "sys.modules":
            self.module_by_name(key, node)
        else:
            self.visit(value)
            self.visit(key)

    def write(self, node: ast.AST) -> None:
        chain = root_of(node)
        root = chain.partition(".")[0]
        if not chain:
            return
        if root in self.parameters:
            self.writes["@param"] = None
            return
        kept = self.outside(chain)
        if kept.startswith("@") and root == "self" and isinstance(node, ast.Attribute):
            return  # an instance's own state; what keeps the instance is changed where it is kept
        if kept:
            self.writes[kept] = None
            if isinstance(node, ast.Attribute) and "." in kept:
                self.writes[kept.rpartition(".")[0]] = None  # ``a.b = v`` changes a as much as a.b

    def launch(self, node: ast.Subscript, called: bool) -> None:
        chain = root_of(node.value)
        kept = self.outside(chain) if chain else ""
        if kept:
            self.site(node, [kept], called)
        elif called:
            self.site(node, self.targets(node.value) or [""], called)

    def site(self, node: ast.expr, chains: Iterable[str], called: bool, via: str = "") -> None:
        for chain in chains:
            self.launches.setdefault(LaunchSite(chain, node.lineno, node.col_offset, called, via))

    def launching_call(self, node: ast.Call, chain: str) -> None:
        """Note ``launch(stream, grid, kernel, ...)``, ``kernel(...).launch(...)`` and ``pallas_call(kernel, ...)``."""
        function, args = node.func, node.args
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call) and not chain:
            self.site(node, self.targets(function.value.func), True, ".launch")
            return
        position = 2 if chain.endswith("launch") else 0
        kernel = next((keyword.value for keyword in node.keywords if keyword.arg == "kernel"), None)
        if kernel is None and len(args) > position:
            kernel = args[position]
        via = self.outside(chain)
        if kernel is not None and via:
            self.site(node, self.targets(kernel), True, via)

    def targets(self, node: ast.expr | None, depth: int = 0) -> list[str]:
        """Chains of what an expression can mean, through local names, choices, tables and calls that wrap it."""
        if node is None or depth > _TARGET_DEPTH:
            return []
        chain = chain_of(node)
        if chain:
            kept = self.outside(chain)
            return [kept] if kept else self._assigned(chain.partition(".")[0], depth)
        inner: Iterable[ast.expr | None] = ()
        if isinstance(node, ast.Call):
            if chain_of(node.func) == "getattr" and len(node.args) > 1 and (name := _literal(node.args[1])):
                kept = self.outside(f"{chain_of(node.args[0])}.{name}") if chain_of(node.args[0]) else ""
                return [kept] if kept else []
            inner = node.args[:1]
        elif isinstance(node, ast.IfExp):
            inner = (node.body, node.orelse)
        elif isinstance(node, (ast.BoolOp, ast.Dict)):
            inner = node.values
        elif isinstance(node, (ast.List, ast.Tuple)):
            inner = node.elts
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            inner = (node.value,)
        return list(dict.fromkeys(found for part in inner for found in self.targets(part, depth + 1)))

    def _assigned(self, name: str, depth: int) -> list[str]:
        for scope in reversed(self.scopes):
            if name in scope.names:
                values = assigned(scope.body, name)
                return list(dict.fromkeys(found for value in values for found in self.targets(value, depth + 1)))
        return []

    def call(self, node: ast.Call) -> None:
        function, arguments = node.func, node.args
        if node.keywords:
            arguments = [*arguments, *[keyword.value for keyword in node.keywords]]
        chain = chain_of(function)
        kept = self.outside(chain) if chain else ""
        if not self.scopes:
            self.calls[(kept, tuple(filter(None, map(self._given, _flat(arguments)))))] = None
        if type(function) is ast.Subscript:
            self.launch(function, called=True)
        elif (function.attr if type(function) is ast.Attribute else chain) in _LAUNCHERS:
            self.launching_call(node, chain)
        self._sizes_of_call(node, chain)
        if kept and self._looks_up(node, kept, arguments):
            return
        if type(function) is ast.Attribute and chain and function.attr in MUTATORS:
            self.write_chain(chain.rpartition(".")[0])
        if chain == "super":
            self.refs.setdefault("@super", node.lineno)
        elif kept:
            self.note(kept, function.lineno)
        elif not chain:
            _HANDLERS[type(function)](self, function)
        roots = self.roots
        for argument in arguments:
            if type(argument) is not ast.Name or roots.get(argument.id) != "":
                _HANDLERS[type(argument)](self, argument)

    def _looks_up(self, node: ast.Call, chain: str, arguments: list[ast.expr]) -> bool:
        """Note the literals given to a call, and look-ups by name; whether the call has been dealt with."""
        for argument in arguments:
            if type(argument) is ast.Constant:
                self._literals(node, chain)
                break
        if chain in _LOOKUPS or chain.endswith(_IMPORTERS):
            return self._special(node, chain)
        return False

    def _literals(self, node: ast.Call, chain: str) -> None:
        """Note a call that is given a literal string, where nothing else is spread into it."""
        spread = any(isinstance(part, ast.Starred) for part in node.args)
        positional = tuple(map(_literal, node.args))
        keywords = tuple((keyword.arg, _literal(keyword.value)) for keyword in node.keywords if keyword.arg)
        if not spread and any(value is not None for value in (*positional, *(value for _, value in keywords))):
            self.given.setdefault(chain, []).append(Given(chain, positional, keywords))

    def _given(self, node: ast.expr) -> str:
        chain = root_of(node)
        return self.outside(chain) if chain else ""

    def write_chain(self, chain: str) -> None:
        root = chain.partition(".")[0]
        if root in self.parameters:
            self.writes["@param"] = None
        else:
            kept = self.outside(chain)
            if kept:
                self.writes[kept] = None

    def _special(self, node: ast.Call, chain: str) -> bool:
        """Look-ups by name; whether the call has been dealt with."""
        args = node.args
        if chain in ("getattr", "setattr", "delattr", "hasattr", "vars") and args:
            what = chain_of(args[0])
            if chain in ("getattr", "hasattr"):
                self.reading.add(id(args[0]))
            literal = len(args) > 1 and isinstance(args[1], ast.Constant) and isinstance(args[1].value, str)
            if chain in ("setattr", "delattr") and root_of(args[0]):
                self.write_chain(root_of(args[0]))
            if what and literal:
                self.add(f"{what}.{args[1].value}", node.lineno)  # type: ignore[attr-defined]
                for extra in (*args[2:], *(keyword.value for keyword in node.keywords)):
                    self.visit(extra)
                return True
            if what and chain != "hasattr" and self.outside(what):
                self.dynamics[Dynamic("attribute", self.outside(what), node.lineno)] = None
        elif chain in ("globals", "vars", "locals") and not args and (chain != "locals" or not self.scopes):
            kind = "module" if id(node) in self.reading else "fill"
            self.dynamics[Dynamic(kind, "", node.lineno)] = None
        elif chain in ("eval", "exec"):
            self.dynamics[Dynamic("code", "", node.lineno)] = None
        elif chain == "sys.modules.get" and args:
            self.module_by_name(args[0], node)
        elif chain == "pkgutil.resolve_name" or chain.rpartition(".")[2] in _IMPORTERS:
            pattern = self.pattern(args[0]) if args else "*"
            kind = "run" if id(node) in self.discarded else "import"
            self.dynamics[Dynamic(kind, pattern, node.lineno)] = None
        return False

    def module_by_name(self, key: ast.expr, node: ast.expr) -> None:
        """``sys.modules[key]``."""
        if isinstance(key, ast.Name) and key.id == "__name__":
            kind = "module" if id(node) in self.reading else "fill"
            self.dynamics[Dynamic(kind, "", node.lineno)] = None
        else:
            self.dynamics[Dynamic("import", self.pattern(key), node.lineno)] = None

    def pattern(self, node: ast.expr, depth: int = 0) -> str:
        """The name of a module as far as it is known; see :class:`Dynamic`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return _joined(self.pattern(part, depth) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.pattern(node.value, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return _joined(self.pattern(part, depth) for part in (node.left, node.right))
        if isinstance(node, ast.Name) and node.id in ("__name__", "__package__"):
            return "{name}" if node.id == "__name__" else "{package}"
        chain = chain_of(node)
        if chain and self.outside(chain):
            return f"={self.outside(chain)}" if not chain.startswith("@") else "*"
        if isinstance(node, ast.Name) and depth < 3:
            for scope in reversed(self.scopes):
                if node.id in scope.names:
                    values = _assignments(scope.body, node.id)
                    if node.id in scope.parameters:
                        return "*" if values else f"${node.id}"
                    return self.pattern(values[0], depth + 1) if len(values) == 1 and values[0] is not None else "*"
        return "*"

    def _sizes_of_call(self, node: ast.Call, chain: str) -> None:
        if node.keywords:
            launching = type(node.func) is ast.Subscript
            for keyword in node.keywords:
                name = keyword.arg
                if name and (launching or name[0].isupper()) and name not in _NO_SIZES:
                    self._size(keyword.value)
        last = chain[chain.rfind(".") + 1 :]
        if last == "Config":
            for argument in (*node.args[:1], *(k.value for k in node.keywords if k.arg == "kwargs")):
                if isinstance(argument, ast.Dict):
                    for value in argument.values:
                        self._size(value)
        elif last in _LIMITS:
            for argument in node.args:
                self._size(argument)

    def _size(self, node: ast.AST) -> None:
        if type(node) is not ast.Constant and type(node) is not ast.BinOp:
            return
        value = integer(node)
        if value is not None and value in _SIZE_RANGE:
            self.sizes.add(value)

    def compare(self, node: ast.Compare) -> None:
        for side in (node.left, *node.comparators):
            self._size(side)
            self.reading.add(id(side))
            self.visit(side)

    def assign(self, node: ast.Assign) -> None:
        value, targets = node.value, node.targets
        if any(type(target) is ast.Name and target.id.isupper() for target in targets):
            for part in _flat([value]):
                self._size(part)
        _HANDLERS[type(value)](self, value)
        for target in targets:
            if type(target) is not ast.Name or self.has_globals:
                _HANDLERS[type(target)](self, target)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            if type(node.target) is ast.Name and node.target.id.isupper():
                for part in _flat([node.value]):
                    self._size(part)
            self.visit(node.value)
        self.visit(node.annotation)
        self.visit(node.target)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        outermost = not self.scopes
        if not isinstance(node, ast.Lambda):
            if not outermost:
                self.visit_all(node.decorator_list)
            if node.returns is not None:
                self.visit(node.returns)
        everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*everything, arguments.vararg, arguments.kwarg):
            if argument is not None and argument.annotation is not None:
                self.visit(argument.annotation)
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = zip(reversed(positional), reversed(arguments.defaults), strict=False)
        for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if default is not None:
                self.visit(default)
                if argument.arg[:1].isupper():
                    self._size(default)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        words = self.words.within(node) if self.words is not None else Words()
        binder = Binder(words)
        binder.visit_all(body)
        parameters = {argument.arg for argument in (*everything, arguments.vararg, arguments.kwarg) if argument}
        scope = _Scope((binder.names | parameters) - binder.globals)
        scope.globals = binder.globals & global_names(node, words)
        if outermost:
            scope.parameters = frozenset(parameters)
            if self.owner and positional and not isinstance(node, ast.Lambda):
                scope.owner = positional[0].arg
                scope.names.discard(positional[0].arg)
                scope.parameters = frozenset(parameters - {scope.owner})
        scope.body = [] if isinstance(node, ast.Lambda) else node.body
        self.enter(scope)
        self.visit_all(body)
        self.leave()

    def class_(self, node: ast.ClassDef) -> None:
        if self.scopes:
            self.visit_all(node.decorator_list)
        self.visit_all(node.bases)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self.enter(_Scope(bound_names(*node.body), is_class=True))
        self.visit_all(node.body)
        self.leave()

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        names = {
            child.id
            for generator in node.generators
            for child in ast.walk(generator.target)
            if isinstance(child, ast.Name)
        }
        self.visit(node.generators[0].iter)
        scope = _Scope(names)
        self.enter(scope)
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self.visit_all(generator.ifs)
            self.visit(generator.target)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)
        self.leave()

    def import_(self, node: ast.Import | ast.ImportFrom) -> None:
        for item in imports_of(node):
            self.imports[item] = None

    def expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.discarded.add(id(node.value))
            chain = chain_of(node.value.func)
            if chain and self.outside(chain):
                self.commands[self.outside(chain)] = None
        self.visit(node.value)


def imports_of(node: ast.Import | ast.ImportFrom) -> list[Import]:
    """The names that an import statement binds."""
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return [
            Import("", module, "*", node.level, node.lineno)
            if alias.name == "*"
            else Import(alias.asname or alias.name, module, alias.name, node.level, node.lineno)
            for alias in node.names
        ]
    found = []
    for alias in node.names:
        if alias.asname:
            found.append(Import(alias.asname, alias.name, "", 0, node.lineno))
        else:
            # ``import a.b`` binds a, and makes a.b available
            found.append(Import(alias.name.partition(".")[0], alias.name.partition(".")[0], "", 0, node.lineno))
            if "." in alias.name:
                found.append(Import(alias.name, alias.name, "", 0, node.lineno))
    return found


def _flat(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    for node in nodes:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            yield from _flat(node.elts)
        elif isinstance(node, ast.Dict):
            yield from _flat([value for value in node.values if value is not None])
        elif isinstance(node, ast.Starred):
            yield from _flat([node.value])
        else:
            yield node


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _joined(parts: Iterator[str]) -> str:
    """Patterns one after the other; what stands for a parameter or a constant is unknown inside a longer name."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    return "".join("*" if part[:1] in ("$", "=") else part for part in found)


def _assignments(body: list[ast.stmt], name: str) -> list[ast.expr | None]:
    """What a local name is bound to: the values of plain assignments, None for any other binding."""
    found: list[ast.expr | None] = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                found.append(None)
            elif isinstance(node, ast.Assign) and [chain_of(target) for target in node.targets] == [name]:
                found.append(node.value)
    plain = [value for value in found if value is not None]
    # the target of a plain assignment is met as a name too
    return plain + [None] * (len(found) - 2 * len(plain))


def _types(base: type[ast.AST]) -> Iterator[type[ast.AST]]:
    yield base
    for child in base.__subclasses__():
        yield from _types(child)


_HANDLERS: dict[type[ast.AST], Callable[[_Visitor, Any], None]] = {
    **dict.fromkeys(_types(ast.AST), _Visitor.children),
    **dict.fromkeys(_types(ast.expr_context), _Visitor.nothing),
    **dict.fromkeys(_types(ast.operator), _Visitor.nothing),
    **dict.fromkeys(_types(ast.unaryop), _Visitor.nothing),
    **dict.fromkeys(_types(ast.boolop), _Visitor.nothing),
    ast.Constant: _Visitor.nothing,
    ast.Pass: _Visitor.nothing,
    ast.Name: _Visitor.name,
    ast.Attribute: _Visitor.attribute,
    ast.BinOp: _Visitor.binary,
    ast.Tuple: _Visitor.elements,
    ast.List: _Visitor.elements,
    ast.keyword: _Visitor.value,
    ast.Starred: _Visitor.value,
    ast.Return: _Visitor.value,
    ast.Subscript: _Visitor.subscript,
    ast.Slice: _Visitor.slice,
    ast.Call: _Visitor.call,
    ast.Compare: _Visitor.compare,
    ast.IfExp: _Visitor.choice,
    ast.Assign: _Visitor.assign,
    ast.AnnAssign: _Visitor.annotated,
    ast.AugAssign: _Visitor.augmented,
    ast.If: _Visitor.condition,
    ast.ClassDef: _Visitor.class_,
    ast.Import: _Visitor.import_,
    ast.ImportFrom: _Visitor.import_,
    ast.Expr: _Visitor.expression,
    **dict.fromkeys(_FUNCTIONS, _Visitor.function),
    **dict.fromkeys(COMPREHENSIONS, _Visitor.comprehension),
}
