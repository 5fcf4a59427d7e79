"""What the compiled parts of the fluid engine share: a cache, plain pointers, and calls to functions by address.

Compiled code works on pointers: arrays that pass through many small functions cost more there than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
from llvmlite import ir

__all__ = ["FLOATS", "INTEGERS", "call", "compiled", "entry_point", "pointer_at", "shifted", "unpacker"]

types: Any = numba.types
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic

FLOATS = types.CPointer(types.float64)
INTEGERS = types.CPointer(types.int64)

# int32_t f(double at[], double y[], double lag[], double out[], double numbers[], int64_t indices[], int64_t held[])
SIGNATURE = types.int32(*[FLOATS] * 5, INTEGERS, INTEGERS)


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function compiled by Numba, from its cache where there is one.

    Parameters
        function : of numbers, arrays and pointers.
    """
    try:
        return numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to keep a cache
        return numba.njit(error_model="numpy")(function)


def entry_point(function: Callable[..., Any]) -> Any:
    """Return the function as a C callback of `SIGNATURE`; `.address` is what `call` takes.

    Parameters
        function : (at, y, lag, out, numbers, indices, held) -> status, 0 for fine.
    """
    try:
        return numba.cfunc(SIGNATURE, cache=True, error_model="numpy")(function)
    except RuntimeError:
        return numba.cfunc(SIGNATURE, error_model="numpy")(function)


@intrinsic
def call(typing_context: Any, address: Any, pointers: Any) -> Any:
    """Call the C function at an address with a tuple of pointers; returns its int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[1], i) for i in range(len(pointers))]
        kind = ir.FunctionType(ir.IntType(32), [value.type for value in values]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), values)

    return types.int32(types.int64, pointers), generate


@intrinsic
def shifted(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """Return the pointer, so many elements on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


@intrinsic
def pointer_at(typing_context: Any, address: Any) -> Any:
    """Return the pointer to int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(INTEGERS))

    return INTEGERS(address), generate


def unpacker(kinds: str) -> Any:
    """Return a compiled function that turns addresses, in an array or behind a pointer, into a tuple of pointers.

    Parameters
        kinds : "f" (to float64) or "i" (to int64) for each.
    """
    fields = types.Tuple([FLOATS if kind == "f" else INTEGERS for kind in kinds])

    @intrinsic
    def unpack(typing_context: Any, table: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = (
                arguments[0]
                if isinstance(table, types.CPointer)
                else context.make_array(table)(context, builder, arguments[0]).data
            )
            places = [builder.gep(data, [ir.Constant(ir.IntType(64), i)]) for i in range(len(kinds))]
            values = [
                builder.inttoptr(builder.load(place), context.get_value_type(field))
                for place, field in zip(places, fields, strict=True)
            ]
            return context.make_tuple(builder, fields, values)

        return fields(table), generate

    return unpack
