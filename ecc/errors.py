"""Errors of `ecc`: bad values raise `ValueError`, wrong kinds `TypeError`, everything else one of these."""

from __future__ import annotations

__all__ = ["ConvergenceError", "EccError", "LinearizationError", "NativeError", "OutOfMemoryError", "UndecidedError"]


class EccError(Exception):
    """Base class of the errors that are not plain bad arguments."""


class ConvergenceError(EccError):
    """An iteration ended without an answer; `last` is its last iterate and `residual` what was left."""

    def __init__(self, message: str, last: object = None, residual: float = float("nan")) -> None:
        super().__init__(message)
        self.last = last
        self.residual = residual


class LinearizationError(EccError):
    """The laws have no derivative, or the network no equilibrium, where a linear model is wanted."""


class NativeError(EccError):
    """The packet engine stopped with an error; `code` is the engine's own number."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class OutOfMemoryError(EccError, MemoryError):
    """A call needs more memory than there is, or than there can be."""


class UndecidedError(EccError):
    """A yes or no is wanted where neither is proven; the message has what is known."""
