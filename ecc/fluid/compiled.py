"""What the compiled parts of the fluid engine share: a cache, plain pointers, and calls to functions by address.

Compiled code works on pointers: arrays that pass through many small functions cost more there than the arithmetic.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.core.ccallback
import numba.extending
from llvmlite import ir
from numba.core import caching

from ecc.native.compile import cache_folders

__all__ = ["FLOATS", "INTEGERS", "call", "compiled", "entry", "entry_point", "pointer_at", "shifted", "unpacker"]

types: Any = numba.types
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic

FLOATS = types.CPointer(types.float64)
INTEGERS = types.CPointer(types.int64)

# int32_t f(double at[], double y[], double lag[], double out[], double numbers[], int64_t indices[], int64_t held[])
SIGNATURE = types.int32(*[FLOATS] * 5, INTEGERS, INTEGERS)


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function compiled by Numba, for other compiled functions to call.

    Parameters
        function : of numbers, arrays and pointers.
    """
    return numba.njit(error_model="numpy")(function)


def entry(function: Callable[..., Any]) -> Any:
    """Return the function compiled by Numba, for Python to call in any thread, from the cache where it is there.

    Parameters
        function : of numbers and arrays.
    """
    made: Any = numba.njit(error_model="numpy", nogil=True)(function)
    made._cache = _cache(function) or made._cache
    return made


def entry_point(function: Callable[..., Any]) -> Any:
    """Return the function as a C callback of `SIGNATURE`, for others to `call`; `.address` is where it is.

    Parameters
        function : (at, y, lag, out, numbers, indices, held) -> status, 0 for fine.
    """
    made: Any = numba.core.ccallback.CFunc(
        function, (SIGNATURE.args, SIGNATURE.return_type), {}, {"error_model": "numpy"}
    )
    made._cache = _cache(function) or made._cache
    made.compile()
    return made


def _cache(function: Callable[..., Any]) -> Any:
    """A cache that follows all sources of this package, as Numba's own follows the function's file alone; or None."""
    folder = _folder()
    return None if folder is None else _Cache(function)  # type: ignore[no-untyped-call]


class _Locator(caching._CacheLocator):
    def get_cache_path(self) -> str:
        return str(_folder())

    def get_source_stamp(self) -> str:
        return _sources()

    def get_disambiguator(self) -> str:
        return _sources()[:16]  # versions that are used side by side keep their code side by side

    @classmethod
    def from_function(cls, function: Any, file: Any) -> Any:
        return cls()


class _Saved(caching.CompileResultCacheImpl):
    _locator_classes: Any = (_Locator,)


class _Cache(caching.FunctionCache):
    _impl_class = _Saved


@functools.cache
def _folder() -> Path | None:
    """Where compiled code may be kept, if anywhere."""
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


@functools.cache
def _sources() -> str:
    """A digest of the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


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
