"""``kgate init``: draft declarations for a repository that has none, read from its code."""

from __future__ import annotations

from kgate.lint.init.run import InitError, InitResult, Options, Stub, init

__all__ = ["InitError", "InitResult", "Options", "Stub", "init"]
