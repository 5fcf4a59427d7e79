"""Functions of a shared object that hooks may call with arrays of their records."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

__all__ = ["CFunction"]

_known: dict[str, CFunction] = {}
_ENTRY: dict[type, Any] = {int: ctypes.c_int64, float: ctypes.c_double}
_MARGIN = 64  # entries of 8 bytes before and after a copy, to detect whether the function writes outside the array
_FILL = 0x5A


class CFunction:
    """A C function that takes arrays and returns nothing or a double.

    Hooks call it as `f(flow.memory, p_values, ...)` with fields that are arrays, int64 or float64, which it receives as
    pointers.

    Parameters
    ----------
    symbol : str
        Name of the function: two functions that differ must have different symbols, also in other processes.
    function : object
        Function of a `ctypes.CDLL`, which lives as long as this object does.
    n_arrays : int
        Number of arrays that the function takes, from 1 to 3.
    returns : bool
        Whether the function returns a double.
    """

    def __init__(self, symbol: str, function: Any, n_arrays: int, *, returns: bool = False) -> None:
        import llvmlite.binding as llvm

        self.symbol, self._function, self._n_arrays, self._returns = symbol, function, n_arrays, returns
        function.argtypes = [ctypes.c_void_p] * n_arrays
        function.restype = ctypes.c_double if returns else None
        llvm.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)  # compiled hooks are linked with it

        _known[symbol] = self

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Pickle the function by its symbol; the same library must be loaded in the process that unpickles it."""
        return _function_of_symbol, (self.symbol,)

    def __call__(self, *arrays: list[Any]) -> float | None:
        """Call the function from a hook that runs as Python, with lists as arrays.

        Raises
        ------
        RuntimeError
            The function has written outside an array, within 512 bytes of it.
        """
        margin = bytes([_FILL]) * (8 * _MARGIN)
        copies = [bytearray(margin + bytes((_ENTRY[type(array[0])] * len(array))(*array)) + margin) for array in arrays]
        views = [(ctypes.c_char * len(copy)).from_buffer(copy) for copy in copies]
        result: float | None = self._function(*(ctypes.byref(view, len(margin)) for view in views))
        for array, copy in zip(arrays, copies, strict=True):
            if copy[: len(margin)] != margin or copy[-len(margin) :] != margin:
                raise RuntimeError("a C function has written outside an array that it was given")
            array[:] = list((_ENTRY[type(array[0])] * len(array)).from_buffer(copy, len(margin)))
        return result

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the function for compiled hooks, as a Numba dispatcher."""
        from numba import njit, types

        signature = (types.float64 if self._returns else types.void)(*[types.voidptr] * self._n_arrays)
        external = types.ExternalFunction(self.symbol, signature)
        if self._n_arrays == 1:
            return njit(lambda a: external(a.ctypes))
        if self._n_arrays == 2:
            return njit(lambda a, b: external(a.ctypes, b.ctypes))
        return njit(lambda a, b, c: external(a.ctypes, b.ctypes, c.ctypes))


def _function_of_symbol(symbol: str) -> CFunction:
    return _known[symbol]
