"""kgate: a linter and merge gate for compute kernels. What a production module needs to declare one is here.

Standard library only, and each name is loaded on first use, so that `import kgate` costs next to nothing.
"""

from __future__ import annotations

from kgate._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgate.contract import (
        Choice,
        DeclarationError,
        DeclarationWarning,
        Dim,
        Envelope,
        Ignore,
        Kernel,
        ListOf,
        Numerics,
        Offsets,
        Reason,
        Scalar,
        Tensor,
        TensorFacts,
        Workload,
        kernel,
    )

__all__ = [
    "Choice",
    "DeclarationError",
    "DeclarationWarning",
    "Dim",
    "Envelope",
    "Ignore",
    "Kernel",
    "ListOf",
    "Numerics",
    "Offsets",
    "Reason",
    "Scalar",
    "Tensor",
    "TensorFacts",
    "Workload",
    "__version__",
    "kernel",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'kgate' has no attribute {name!r}")
    from kgate import contract

    value = globals()[name] = getattr(contract, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
