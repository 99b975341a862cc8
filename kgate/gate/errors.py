"""Errors that a user can cause or mend: what they say, and the exit code they give."""

from __future__ import annotations


class UsageError(Exception):
    """Something asked for that cannot be done; ``remedy`` says what to do instead."""

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class InfrastructureError(UsageError):
    """The machine cannot do what is asked: no interpreter, no Triton, a full disk."""

    exit_code = 4


def as_user_error(error: Exception) -> tuple[int, str, str] | None:
    """Exit code, message and remedy of an error that a user can mend; None for a fault of kgate itself."""
    from kgate.cases.ids import CaseError
    from kgate.probes.workers import WorkerError
    from kgate.source.config import ConfigError
    from kgate.source.git import GitError
    from kgate.source.interpreter_path import InterpreterError

    if isinstance(error, UsageError):
        return error.exit_code, error.message, error.remedy
    if isinstance(error, ConfigError):
        return 2, f"{error.path}: {error.message}", error.remedy
    if isinstance(error, GitError):
        return 2, error.message, error.remedy
    if isinstance(error, (WorkerError, InterpreterError)):
        return 4, error.message, error.remedy
    if isinstance(error, CaseError):
        return 2, error.message, error.remedy
    if isinstance(error, OSError):
        return 4, f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), ""
    return None
