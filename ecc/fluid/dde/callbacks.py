"""Python functions of a user as C callbacks: compiled if Numba can compile them, called back if not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Callback", "callback"]

_POINTERS = [ctypes.c_void_p] * 7
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, *_POINTERS)
_compiled: dict[tuple[Any, ...], Any] = {}


class Callback:
    """A C function of `compiled.SIGNATURE`: its `address`, and the `error` that the Python function raised, if any."""

    def __init__(self, address: int, owner: Any, is_compiled: bool) -> None:
        self.address = address
        self.is_compiled = is_compiled
        self.error: BaseException | None = None
        self._owner = owner


def callback(
    function: Callable[..., Any],
    shapes: tuple[tuple[int, ...], ...],
    size: int,
    scalar: bool,
    jit: bool = True,
    args: tuple[float, ...] = (),
) -> Callback:
    """Return a C callback for a function of t and arrays; a call fails if the function does not return `size` numbers.

    Parameters
    ----------
    function : callable
        Function (t, y[, ylag[, dylag]], *args) -> `size` numbers, or one number if `scalar`.
    shapes : tuple of tuples of int
        Shapes of its arrays, the first len(shapes) of (y, ylag, dylag).
    size : int
        Number of results.
    scalar : bool
        Whether the function returns a number instead of a sequence.
    jit : bool, optional
        Whether to compile it; a function that Numba cannot compile is called back.
    args : tuple of float, optional
        Further arguments. Compiled code reads them from `numbers`, so that it is the same for any values.

    Returns
    -------
    Callback
        Callback to keep for as long as the address is used.
    """
    if jit:
        compiled_function = _jitted(function, shapes, size, scalar, len(args))
        if compiled_function is not None:
            return Callback(compiled_function.address, compiled_function, True)
    return _called_back(function, shapes, size, args)


def _jitted(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], size: int, scalar: bool, extra: int
) -> Any:
    """Return the function as a compiled C callback, or None if Numba cannot compile it."""
    import numba

    from ecc.jit import jitable

    try:
        inner = jitable(function, from_python=False)
        key: tuple[Any, ...] | None = (inner, shapes, size, scalar, extra)
    except TypeError:  # it reaches arrays, which are compiled as constants, so each call compiles again
        try:
            inner, key = numba.njit(function), None
        except TypeError:
            return None
    if key in _compiled:
        return _compiled[key]
    cfunc = _cfunc(inner, shapes, size, scalar, extra)
    if key is not None and cfunc is not None:
        _compiled[key] = cfunc
    return cfunc


def _cfunc(inner: Any, shapes: tuple[tuple[int, ...], ...], size: int, scalar: bool, extra: int) -> Any:
    """Return a C callback of a compiled function, or None for any error of Numba, including failed assertions."""
    import numba

    from ecc.fluid.compiled import SIGNATURE
    from ecc.jit.intermediate import returning_tuples

    for version in (returning_tuples(inner), inner):  # a tuple may hold numbers of only one type
        entry = _entry(_with_pointers(version, shapes, _reader_of_numbers(extra)), size, scalar)
        try:
            return numba.cfunc(SIGNATURE)(entry)
        except Exception:
            continue
    return None


def _reader_of_numbers(count: int) -> Any:
    """Return a compiled function from a pointer to the tuple of the numbers there."""
    import numba
    from numba.np.unsafe import ndarray

    from ecc.jit.intermediate import to_intermediate_code

    carray: Any = numba.carray  # type: ignore[attr-defined]
    to_fixed_tuple: Any = ndarray.to_fixed_tuple
    if count:

        def read(numbers: Any) -> Any:
            return to_fixed_tuple(carray(numbers, (count,)), count)

    else:

        def read(numbers: Any) -> Any:
            return ()

    return to_intermediate_code(read)


def _with_pointers(inner: Any, shapes: tuple[tuple[int, ...], ...], read: Any) -> Any:
    """Return a compiled function that calls `inner` with arrays of these shapes, which it takes as pointers."""
    import numba

    from ecc.fluid.compiled import shifted
    from ecc.jit.intermediate import to_intermediate_code

    carray: Any = numba.carray  # type: ignore[attr-defined]
    if len(shapes) == 0:

        def evaluate(at: Any, y: Any, lag: Any, numbers: Any) -> Any:
            return inner(at[0], *read(numbers))

    elif len(shapes) == 1:
        (shape,) = shapes

        def evaluate(at: Any, y: Any, lag: Any, numbers: Any) -> Any:
            return inner(at[0], carray(y, shape), *read(numbers))

    elif len(shapes) == 2:
        shape, lag_shape = shapes

        def evaluate(at: Any, y: Any, lag: Any, numbers: Any) -> Any:
            return inner(at[0], carray(y, shape), carray(lag, lag_shape), *read(numbers))

    else:
        shape, lag_shape, _ = shapes
        lags = lag_shape[0] * lag_shape[1]

        def evaluate(at: Any, y: Any, lag: Any, numbers: Any) -> Any:
            lagging = carray(shifted(lag, lags), lag_shape)
            return inner(at[0], carray(y, shape), carray(lag, lag_shape), lagging, *read(numbers))

    return to_intermediate_code(evaluate)


def _entry(value: Any, size: int, scalar: bool) -> Callable[..., int]:
    """Return a function of `compiled.SIGNATURE` that writes a value of `size` numbers and returns whether it failed."""

    def write_number(at: Any, y: Any, lag: Any, out: Any, numbers: Any, indices: Any, held: Any) -> int:
        try:
            out[0] = value(at, y, lag, numbers)
        except Exception:
            return 1
        return 0

    def write_sequence(at: Any, y: Any, lag: Any, out: Any, numbers: Any, indices: Any, held: Any) -> int:
        try:
            result = value(at, y, lag, numbers)
            if len(result) != size:
                return 1
            for i in range(size):
                out[i] = result[i]
        except Exception:
            return 1
        return 0

    return write_number if scalar else write_sequence


def _called_back(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], size: int, args: tuple[float, ...]
) -> Callback:
    views: dict[tuple[int, tuple[int, ...]], NDArray[np.float64]] = {}
    slopes = (
        8 * int(np.prod(shapes[2])) if len(shapes) > 2 else 0
    )  # bytes: slopes follow the lags, which have the same size

    def view(address: int, shape: tuple[int, ...]) -> NDArray[np.float64]:
        key = (address, shape)
        if key not in views:
            count = int(np.prod(shape))
            if len(views) > 100:
                views.clear()
            views[key] = np.ctypeslib.as_array((ctypes.c_double * count).from_address(address)).reshape(shape)
        return views[key]

    def entry(at: int, y: int, lag: int, out: int, numbers: int, indices: int, held: int) -> int:
        try:
            addresses = (y, lag, lag + slopes)
            arrays = [view(address, shape) for address, shape in zip(addresses, shapes, strict=False)]
            results = np.asarray(function(float(view(at, (1,))[0]), *arrays, *args), dtype=float)
            if results.size != size:
                return 1
            view(out, (size,))[:] = results
        except BaseException as error:  # the solver raises it later: no exception may leave a C callback
            result.error = error
            return 1
        return 0

    prototype = _PROTOTYPE(entry)
    address = ctypes.cast(prototype, ctypes.c_void_p).value
    assert address is not None
    result = Callback(address, prototype, False)
    return result
