"""Autotuned kernels without a device: one configuration is chosen, none is timed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from triton.runtime.autotuner import Autotuner

_chosen: int | Mapping[str, int] = 0


def configs(fn: Any) -> list[Any]:
    """Return the ``triton.Config`` objects of an autotuned kernel, in order; empty for any other kernel."""
    while fn is not None:
        if isinstance(fn, Autotuner):
            return list(fn.configs)
        fn = getattr(fn, "fn", None)
    return []


@contextlib.contextmanager
def use_config(index: int | Mapping[str, int]) -> Iterator[None]:
    """Run autotuned kernels with another configuration than their first one.

    ``index`` counts the configurations that pruning leaves for the launch, for every kernel, or is a mapping from the
    device function's name to its index. An index past the end raises IndexError at the launch.
    """
    global _chosen
    before, _chosen = _chosen, index
    try:
        yield
    finally:
        _chosen = before


def install() -> None:
    """Make autotuners, and the subclasses that libraries make of them, take a configuration and time none."""
    Autotuner.run = _run

    def no_timing(cls: Any, /, **options: Any) -> None:
        if "run" in cls.__dict__:
            cls.run = _run

    Autotuner.__init_subclass__ = classmethod(no_timing)


def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    perf_model, self.perf_model = self.perf_model, None
    try:
        left = self.prune_configs(kwargs)
    finally:
        self.perf_model = perf_model
    name = self.base_fn.__name__
    index = _chosen if isinstance(_chosen, int) else _chosen.get(name, 0)
    if not 0 <= index < len(left):
        raise IndexError(f"{name} has {len(left)} configurations for these arguments; there is no number {index}")
    config = self.best_config = left[index]
    clashing = sorted(kwargs.keys() & config.kwargs.keys())
    if clashing:
        raise ValueError(f"{name}: {', '.join(clashing)} given at the launch and by the autotuner")
    if config.pre_hook is not None:
        config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
    try:
        return self.fn.run(*args, **kwargs, **config.all_kwargs())
    finally:
        self.nargs = None
