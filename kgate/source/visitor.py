"""Finds what a piece of code uses, in one pass over its syntax tree, by Python's scoping rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kgate.source.uses import MUTATORS, Dynamic, Given, Import, LaunchSite, Uses, chain_of, integer, root_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NO_SIZES = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "num_buffers_warp_spec", "dim", "axis"})
_SIZE_RANGE = range(2, 2**20 + 1)


def uses_of(*nodes: ast.AST, owner: bool = False, names: frozenset[str] = frozenset()) -> Uses:
    """What syntax trees at module level use.

    ``owner``: the trees are a method, whose first parameter stands for its class. ``names``: names that are bound by
    the statement itself, and count as local.
    """
    visitor = _Visitor(owner, names)
    for node in nodes:
        visitor.visit(node)
    return visitor.result()


class _Scope:
    __slots__ = ("body", "globals", "is_class", "names", "owner", "parameters")

    def __init__(self, names: set[str], is_class: bool = False) -> None:
        self.names = names
        self.is_class = is_class
        self.owner = ""
        self.globals: set[str] = set()
        self.parameters: frozenset[str] = frozenset()
        self.body: list[ast.stmt] = []


class _Binder:
    """The names that one scope binds, without looking into the scopes nested in it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.globals: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self.names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.names.add(node.name)
            for decorator in node.decorator_list:
                self.visit(decorator)
        elif isinstance(node, ast.Lambda):
            pass
        elif isinstance(node, _COMPREHENSIONS):
            self._walrus(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.globals.update(node.names)
        else:
            if (isinstance(node, ast.ExceptHandler) and node.name) or (
                isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
            ):
                self.names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                self.names.add(node.rest)
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def _walrus(self, node: ast.AST) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.names.add(child.target.id)


def bound_names(*nodes: ast.AST) -> set[str]:
    """Names that statements bind in their own scope, imports apart."""
    binder = _Binder()
    for node in nodes:
        binder.visit(node)
    return binder.names - binder.globals


class _Visitor:
    def __init__(self, owner: bool, names: frozenset[str]) -> None:
        self.owner = owner
        self.bound = names
        self.scopes: list[_Scope] = []
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

    def outside(self, chain: str) -> str:
        """The chain as it is kept; empty where it starts at a local name."""
        root, _, rest = chain.partition(".")
        for scope in reversed(self.scopes):
            if scope.owner == root:
                return f"@.{rest}" if rest else "@"
            if root in scope.names and not scope.is_class:
                break
        if root == "__class__":
            return f"@.{rest}" if rest else "@"
        return "" if self.local(root) else chain

    def add(self, chain: str, line: int) -> str:
        kept = self.outside(chain)
        if kept:
            self.refs.setdefault(kept, line)
            self.occurrences[kept] = self.occurrences.get(kept, 0) + 1
        return kept

    # Visiting

    def visit(self, node: ast.AST) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.add(node.id, node.lineno)
        elif any(node.id in scope.globals for scope in self.scopes):
            self.writes[node.id] = None

    def attribute(self, node: ast.Attribute) -> None:
        chain = chain_of(node)
        if node.attr in ("get", "items", "keys", "values", "copy"):
            self.reading.add(id(node.value))
        if not isinstance(node.ctx, ast.Load):
            self.write(node)
        if chain:
            self.add(chain, node.lineno)
        elif _is_super(node.value):
            self.refs.setdefault(f"@super.{node.attr}", node.lineno)
        else:
            self.visit(node.value)

    def subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.write(node)
        self.launch(node, called=False)
        value, key = node.value, node.slice
        if isinstance(node.ctx, ast.Load):
            self.reading.add(id(value))
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
        if any(root in scope.parameters for scope in self.scopes):
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
        if kept or called:
            self.launches.setdefault(LaunchSite(kept, node.lineno, node.col_offset, called))

    def call(self, node: ast.Call) -> None:
        chain = chain_of(node.func)
        kept = self.outside(chain) if chain else ""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not self.scopes:
            self.calls[(kept, tuple(filter(None, map(self._given, _flat(arguments)))))] = None
        if isinstance(node.func, ast.Subscript):
            self.launch(node.func, called=True)
        if kept:
            self._literals(node, kept)
        self._sizes_of_call(node, chain)
        if kept and self._special(node, kept):
            return
        owner, _, method = chain.rpartition(".")
        if owner and method in MUTATORS:
            self.write_chain(owner)
        if _is_super(node):
            self.refs.setdefault("@super", node.lineno)
        else:
            self.visit(node.func)
        for argument in arguments:
            self.visit(argument)

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
        if any(root in scope.parameters for scope in self.scopes):
            self.writes["@param"] = None
        else:
            kept = self.outside(chain)
            if kept:
                self.writes[kept] = None

    def _special(self, node: ast.Call, chain: str) -> bool:
        """Look-ups by name; whether the call has been dealt with."""
        name = chain.rpartition(".")[2]
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
        elif name in ("import_module", "__import__") or chain == "pkgutil.resolve_name":
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
        launching = isinstance(node.func, ast.Subscript)
        for keyword in node.keywords:
            if keyword.arg and keyword.arg not in _NO_SIZES and (launching or keyword.arg[:1].isupper()):
                self._size(keyword.value)
        last = chain.rpartition(".")[2]
        if last == "Config":
            for argument in (*node.args[:1], *(k.value for k in node.keywords if k.arg == "kwargs")):
                if isinstance(argument, ast.Dict):
                    for value in argument.values:
                        self._size(value)
        elif last in ("min", "max", "minimum", "maximum", "cdiv"):
            for argument in node.args:
                self._size(argument)

    def _size(self, node: ast.AST) -> None:
        value = integer(node)
        if value is not None and value in _SIZE_RANGE:
            self.sizes.add(value)

    def compare(self, node: ast.Compare) -> None:
        for side in (node.left, *node.comparators):
            self._size(side)
            self.reading.add(id(side))
            self.visit(side)

    def assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is not None:
            if any(isinstance(target, ast.Name) and target.id.isupper() for target in targets):
                for part in _flat([node.value]):
                    self._size(part)
            self.visit(node.value)
        if isinstance(node, ast.AnnAssign):
            self.visit(node.annotation)
        self.visit_all(targets)

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
        binder = _Binder()
        for statement in body:
            binder.visit(statement)
        parameters = {argument.arg for argument in (*everything, arguments.vararg, arguments.kwarg) if argument}
        scope = _Scope((binder.names | parameters) - binder.globals)
        scope.globals = binder.globals & self._module_names(node)
        if outermost:
            scope.parameters = frozenset(parameters)
            if self.owner and positional and not isinstance(node, ast.Lambda):
                scope.owner = positional[0].arg
                scope.names.discard(positional[0].arg)
                scope.parameters = frozenset(parameters - {scope.owner})
        scope.body = [] if isinstance(node, ast.Lambda) else node.body
        self.scopes.append(scope)
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    @staticmethod
    def _module_names(node: ast.AST) -> set[str]:
        return {name for child in ast.walk(node) if isinstance(child, ast.Global) for name in child.names}

    def class_(self, node: ast.ClassDef) -> None:
        if self.scopes:
            self.visit_all(node.decorator_list)
        self.visit_all(node.bases)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self.scopes.append(_Scope(bound_names(*node.body), is_class=True))
        self.visit_all(node.body)
        self.scopes.pop()

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        names = {
            child.id
            for generator in node.generators
            for child in ast.walk(generator.target)
            if isinstance(child, ast.Name)
        }
        self.visit(node.generators[0].iter)
        scope = _Scope(names)
        self.scopes.append(scope)
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self.visit_all(generator.ifs)
            self.visit(generator.target)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)
        self.scopes.pop()

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

    def string(self, node: ast.Constant) -> None:
        """A literal refers to nothing."""


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


_HANDLERS: dict[type[ast.AST], Callable[[_Visitor, Any], None]] = {
    ast.Name: _Visitor.name,
    ast.Attribute: _Visitor.attribute,
    ast.Subscript: _Visitor.subscript,
    ast.Call: _Visitor.call,
    ast.Compare: _Visitor.compare,
    ast.Assign: _Visitor.assign,
    ast.AnnAssign: _Visitor.assign,
    ast.ClassDef: _Visitor.class_,
    ast.Import: _Visitor.import_,
    ast.ImportFrom: _Visitor.import_,
    ast.Constant: _Visitor.string,
    ast.Expr: _Visitor.expression,
    **dict.fromkeys(_FUNCTIONS, _Visitor.function),
    **dict.fromkeys(_COMPREHENSIONS, _Visitor.comprehension),
}
