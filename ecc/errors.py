"""Errors of `ecc`. Bad values raise `ValueError`, wrong types `TypeError`; other errors are defined here."""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "ConvergenceError",
    "EccError",
    "LinearizationError",
    "NativeError",
    "OutOfMemoryError",
    "UndecidedError",
    "install_command",
    "warn",
]


class EccError(Exception):
    """Base class of errors other than bad arguments."""


class ConvergenceError(EccError):
    """An iteration did not converge; `last` is its last iterate and `residual` the residual there."""

    def __init__(self, message: str, last: object = None, residual: float = float("nan")) -> None:
        super().__init__(message)
        self.last = last
        self.residual = residual


class LinearizationError(EccError):
    """A linear model does not exist: the laws have no derivative, or the network has no equilibrium."""


class NativeError(EccError):
    """The packet engine stopped with an error; `code` is its error code."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class OutOfMemoryError(EccError, MemoryError):
    """A call needs more memory than is available, or than can be addressed."""


class UndecidedError(EccError):
    """A yes or no was requested, but neither is proven; the message reports the partial result."""


def warn(message: str) -> None:
    """Issue a RuntimeWarning that shows the line of the user's code that called the package.

    Parameters
    ----------
    message : str
    """
    package, level, frame = __name__.partition(".")[0], 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def install_command(extra: str) -> str:
    """Return the command that installs the optional dependencies of an extra, such as "parquet"."""
    return f"pip install 'congestion-control[{extra}]'"
