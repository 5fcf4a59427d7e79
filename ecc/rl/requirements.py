"""Packages of the extra `rl`, or an error that names it."""

from __future__ import annotations

from importlib import import_module

from ecc.errors import EccError, install_command

__all__ = ["require"]


def require(package: str) -> None:
    """Raise an error if a package of the extra `rl` is missing.

    Parameters
    ----------
    package : str
        For example "gymnasium".

    Raises
    ------
    EccError
        If it is not installed.
    """
    try:
        import_module(package)
    except ModuleNotFoundError:
        raise EccError(f"ecc.rl needs {package}, which is not installed: {install_command('rl')}") from None
