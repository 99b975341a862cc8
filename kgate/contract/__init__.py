"""What a kernel promises: the vocabulary of a declaration, `@kernel`, and the run-time dispatch.

Standard library only. The public names are re-exported from `kgate`.
"""

from __future__ import annotations

from kgate.contract.decorator import Kernel, kernel
from kgate.contract.dtypes import DTYPES
from kgate.contract.envelope import Envelope
from kgate.contract.errors import DeclarationError, DeclarationWarning
from kgate.contract.reasons import Reason, TensorFacts
from kgate.contract.validation import check_declaration, check_signature
from kgate.contract.vocabulary import (
    Choice,
    Dim,
    Ignore,
    ListOf,
    Numerics,
    Offsets,
    Scalar,
    Tensor,
    Workload,
)

__all__ = [
    "DTYPES",
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
    "check_declaration",
    "check_signature",
    "kernel",
]
