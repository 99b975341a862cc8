"""``kgate init``: draft declarations for a repository that has none, read from its code."""

from __future__ import annotations

from kgate.lint.init.files import InitError
from kgate.lint.init.run import InitResult, Options, Stub, init

__all__ = ["InitError", "InitResult", "Options", "Stub", "init"]
