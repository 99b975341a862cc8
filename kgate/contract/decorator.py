"""`@kernel`: ties a launcher to its envelope, its reference and its fallback, and makes it callable."""

from __future__ import annotations

import sys

from kgate.contract.envelope import Envelope
from kgate.contract.errors import DeclarationError, DeclarationWarning, fail, raise_all
from kgate.contract.signature import parameters_of, plain
from kgate.contract.switch import SWITCH
from kgate.contract.validation import check_declaration, name_mistakes, unknown_targets
from kgate.contract.vocabulary import Workload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kgate.contract.dispatch import Dispatch
    from kgate.contract.reasons import Reason

    Function = Callable[..., Any]


def kernel(
    *,
    reference: Function | str,
    fallback: Function | str,
    envelope: Envelope,
    op: str | None = None,
    name: str | None = None,
    grad: Sequence[str] = (),
    check: Function | str | None = None,
    depends: Sequence[str] = (),
    workloads: Sequence[Workload] = (),
    generator: Function | str | None = None,
    sources: Sequence[str] = (),
) -> Callable[[Function], Kernel]:
    """Declare the decorated function, a launcher, as a kernel.

    `reference` defines the right answer, and `fallback` serves what is outside the `envelope`; both are
    called like the launcher, and are functions or `"module:qualname"`, which is imported on first use. `op`
    names the function that several kernels may implement (default: the name). `grad` names the inputs that a
    gradient is promised for, `check` a function that judges results where several are right, `depends` globs of files
    that the kernel reads, `sources` the CUDA files behind a binding, `generator` the input generator.

    Raises DeclarationError, with file, line and remedy, and carrying every mistake that was found.
    """
    parts = {"reference": reference, "fallback": fallback, "check": check, "generator": generator}
    options = {"op": op, "name": name}
    lists: dict[str, Any] = {"grad": grad, "depends": depends, "workloads": workloads, "sources": sources}

    def declare(launcher: Function) -> Kernel:
        frame = sys._getframe(1)
        location = _location(launcher, frame)
        raise_all(_launcher_mistakes(launcher), location)
        raise_all([*_part_mistakes(parts), *_option_mistakes(options, envelope)], location)
        parameters = parameters_of(launcher, envelope)
        raise_all(
            [
                error
                for error in check_declaration(envelope=envelope, parameters=plain(parameters), **lists)
                if error.code != "unknown-target"
            ],
            location,
        )
        _warn_of_targets(envelope, location)
        return Kernel(launcher, envelope, parts, options, lists, str(frame.f_globals.get("__name__", "")))

    return declare


class Kernel:
    """A declared kernel. Calling it runs the launcher inside the envelope, and the fallback outside of it."""

    def __init__(
        self,
        launcher: Function,
        envelope: Envelope,
        parts: dict[str, Function | str | None],
        options: dict[str, str | None],
        lists: dict[str, Sequence[Any]],
        module: str,
    ) -> None:
        self.launcher = launcher
        """The launcher itself; calling it checks nothing."""
        self.envelope = envelope
        self._name, self._op = options["name"], options["op"]
        self._variable = ""
        self.workloads: tuple[Workload, ...] = tuple(lists["workloads"])
        self.grad: tuple[str, ...] = tuple(lists["grad"])
        self.depends: tuple[str, ...] = tuple(lists["depends"])
        self.sources: tuple[str, ...] = tuple(lists["sources"])
        self.module = module
        """The module that declares it, which for other people's code is not the launcher's."""
        self._parts: dict[str, Any] = dict(parts)
        self._dispatch: Dispatch | None = None
        self._serves: Callable[..., bool] = self._first_call
        self._fallback: Function = self._first_fallback
        self.__wrapped__ = launcher
        self.__name__ = self._name or launcher.__name__
        self.__doc__ = launcher.__doc__
        self.__module__ = module
        self._owned = module == launcher.__module__
        self.__qualname__ = launcher.__qualname__ if self._owned else self.__name__

    # -- calling ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the launcher where the kernel serves these inputs, else the fallback, on the same arguments."""
        if SWITCH.bypass or self._serves(*args, **kwargs):
            return self.launcher(*args, **kwargs)
        return self._fallback(*args, **kwargs)

    @property
    def unchecked(self) -> Function:
        """The launcher, for a caller that knows its inputs to be inside the envelope."""
        return self.launcher

    def explain(self, *args: Any, target: Any = None, **kwargs: Any) -> tuple[Reason, ...]:
        """Why the kernel would not serve this call; empty where it would.

        `target` asks about another one (`"cuda:sm_90"`) than the tensors' own. Should the launcher have a
        parameter of that name, anything but a string is taken as its argument.
        """
        if target is not None and not isinstance(target, str):
            kwargs["target"], target = target, None
        return self.reasons(args, kwargs, target)

    def reasons(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: str | None = None) -> tuple[Reason, ...]:
        """The same as `explain`, with the call's arguments apart from the question: no name can stand for both."""
        from kgate.contract.dispatch import facts_of_call, target_of_call

        arguments = self.dispatch.bind(*args, **kwargs)
        wanted = target_of_call(self.envelope, arguments) if target is None else target
        return self.envelope.reasons(facts_of_call(self.envelope, arguments), wanted)

    @property
    def dispatch(self) -> Dispatch:
        """The generated check; made on first use."""
        if self._dispatch is None:
            from kgate.contract.dispatch import Dispatch

            self._dispatch = Dispatch(self.envelope, parameters_of(self.launcher, self.envelope), self.name)
        return self._dispatch

    def _first_call(self, *args: Any, **kwargs: Any) -> bool:
        self._serves = self.dispatch.serves
        return self._serves(*args, **kwargs)

    def _first_fallback(self, *args: Any, **kwargs: Any) -> Any:
        self._fallback = self.fallback
        return self._fallback(*args, **kwargs)

    # -- what it was declared with ---------------------------------------------------------------------

    @property
    def reference(self) -> Function:
        """The function that defines the right answer; imports the module that a string names."""
        return self._part("reference")  # type: ignore[return-value]

    @property
    def fallback(self) -> Function:
        """The function that serves what is outside the envelope; imports the module that a string names."""
        return self._part("fallback")  # type: ignore[return-value]

    @property
    def check(self) -> Function | None:
        """The function that judges results where several are right; None for a plain comparison."""
        return self._part("check")

    @property
    def input_generator(self) -> Function | None:
        """The function that makes the inputs of a case; None for random ones by the envelope."""
        return self._part("generator")

    def generator(self, function: Function) -> Function:
        """Decorator: `@rms_norm.generator` makes a function the input generator, called with the case."""
        if self._parts["generator"] is not None:
            message = f"{self.name} already has an input generator"
            fail(DeclarationError("generator-twice", message, ("generator",), "keep one of them"))
        raise_all(_part_mistakes({"generator": function}))
        self._parts["generator"] = function
        return function

    def _part(self, part: str) -> Function | None:
        value = self._parts[part]
        if isinstance(value, str):
            value = self._parts[part] = _Resolved(value, _import(value, self.name, part))
        found: Function | None = value.function if isinstance(value, _Resolved) else value
        return found

    @property
    def name(self) -> str:
        """The short name: as given, else that of the decorated function, else of the variable that it is bound to."""
        return self._name or self.qualname.rpartition(".")[2]

    @property
    def op(self) -> str:
        """The function that it implements, which several kernels may; the name where the declaration gives none."""
        return self._op or self.name

    @property
    def qualname(self) -> str:
        """The name that it goes by in its module; the function's until `name = kernel(...)(function)` has run."""
        if self._variable:
            return self._variable
        own = str(self.launcher.__qualname__)
        module = sys.modules.get(self.module)
        names: dict[str, Any] = vars(module) if module is not None else {}
        if self._owned and ("." in own or names.get(own) is self):
            self._variable = own
        else:
            self._variable = next((name for name, value in list(names.items()) if value is self), "")
        return self._variable or (own if self._owned else self.__name__)

    def describe(self) -> dict[str, Any]:
        """The declaration as plain data, in the canonical form that reading its source gives too."""
        from kgate.contract.serial import describe

        return describe(
            name=self.name,
            op=self.op,
            envelope=self.envelope,
            reference=_spell(self._parts["reference"]),
            fallback=_spell(self._parts["fallback"]),
            grad=self.grad,
            check=_spell(self._parts["check"]),
            depends=self.depends,
            sources=self.sources,
            workloads=self.workloads,
        )

    def __reduce__(self) -> str:
        return self.qualname

    def __repr__(self) -> str:
        return f"<kernel {self.name} ({self.module}:{self.qualname})>"


class _Resolved:
    """A function that was imported, with the text that names it."""

    __slots__ = ("function", "text")

    def __init__(self, text: str, function: Function) -> None:
        self.text = text
        self.function = function


def _import(text: str, kernel_name: str, part: str) -> Function:
    """The function that `module:qualname` names; ImportError and AttributeError say which and where."""
    from importlib import import_module

    module, _, qualname = text.partition(":")
    value: Any = import_module(module)
    for step in qualname.split("."):
        value = getattr(value, step)
    if not callable(value):
        raise TypeError(f"the {part} of {kernel_name}, {text}, is not callable")
    return value  # type: ignore[no-any-return]


def _spell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Kernel):
        return f"{value.module}:{value.qualname}"
    return value.text if isinstance(value, _Resolved) else f"{value.__module__}:{value.__qualname__}"


def _location(launcher: Any, frame: Any) -> str:
    """Where the declaration stands: the launcher's own lines if it is declared there, else the call's."""
    code = getattr(launcher, "__code__", None)
    if code is not None and code.co_filename == frame.f_code.co_filename:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_GENERATOR, _COROUTINE = 0x20, 0x80 | 0x100 | 0x200


def _launcher_mistakes(launcher: Any) -> list[DeclarationError]:
    where = ("launcher",)
    remedy = "declare a function at module level that calls it"
    if isinstance(launcher, Kernel):
        return [DeclarationError("not-a-function", f"{launcher.name} is already a kernel", where, "declare it once")]
    if isinstance(launcher, (staticmethod, classmethod, type)) or hasattr(launcher, "__self__"):
        builtin = type(launcher).__name__ == "builtin_function_or_method"
        if not builtin:
            return [DeclarationError("not-a-function", "the launcher is not a plain function", where, remedy)]
    if not callable(launcher) or not hasattr(launcher, "__name__") or not hasattr(launcher, "__qualname__"):
        return [DeclarationError("not-a-function", f"{launcher!r} is not a function", where, remedy)]
    code = getattr(launcher, "__code__", None)
    first = code.co_varnames[:1] if code is not None else ()
    if first in (("self",), ("cls",)):
        return [DeclarationError("not-a-function", f"{launcher.__qualname__} is a method", where, remedy)]
    flags = code.co_flags if code is not None else 0
    if flags & (_COROUTINE | _GENERATOR):
        what = "an async function" if flags & _COROUTINE else "a generator"
        message = f"{launcher.__qualname__} is {what}: calling it launches nothing"
        return [DeclarationError("not-a-function", message, where, "declare a function that launches and returns")]
    return []


def _part_mistakes(parts: dict[str, Any]) -> list[DeclarationError]:
    errors = []
    for part, value in parts.items():
        if value is None and part in ("check", "generator"):
            continue
        remedy = f'write {part}=function or {part}="package.module:function"'
        if isinstance(value, str):
            module, colon, qualname = value.partition(":")
            if not colon or not all(piece.isidentifier() for piece in (*module.split("."), *qualname.split("."))):
                errors.append(DeclarationError("bad-function", f"{value!r} names no function", (part,), remedy))
        elif not callable(value) or not hasattr(value, "__module__") or not hasattr(value, "__qualname__"):
            errors.append(DeclarationError("bad-function", f"{value!r} is not a function", (part,), remedy))
        elif "<lambda>" in value.__qualname__:
            errors.append(DeclarationError("bad-function", "a lambda has no name", (part,), "write a function"))
    return errors


def _option_mistakes(options: dict[str, Any], envelope: object) -> list[DeclarationError]:
    errors = name_mistakes(options)
    if not isinstance(envelope, Envelope):
        message = f"envelope is an Envelope, not {type(envelope).__name__}"
        errors.append(DeclarationError("wrong-kind", message, ("envelope",), "write envelope=Envelope(...)"))
    return errors


def _warn_of_targets(envelope: Envelope, location: str) -> None:
    for error in unknown_targets(envelope):
        import warnings

        path, _, line = location.rpartition(":")
        warnings.warn_explicit(f"{error.message}; {error.remedy}", DeclarationWarning, path, int(line))
