"""Compilation and caching of the fluid engine's kernels, plain pointers, and calls by address.

Compiled code works on pointers: passing arrays through many small functions costs more than the arithmetic.

Only functions that Python calls (an `entry`, an `entry_point`) become machine code. The functions that they reach
(`compiled`) are lowered to LLVM's intermediate code, linked without optimization, and optimized once, together with
their caller. Optimizing each function, and again each caller, takes more than twice as long with the same result,
unless functions pass arrays (`optimized`). The code is stored in the user's cache, under a digest of all its sources.
`SHIPPED` holds the code compiled when the package was built; it is compiled again only on another processor, or under
other versions of Python and Numba.
"""

from __future__ import annotations

import functools
import pickle
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import numba
import numba.core.ccallback
import numba.extending
import numpy as np
from llvmlite import ir
from numba.core import caching, compiler, registry, serialize

from ecc._support.cache import keep, kept
from ecc.jit import digest_of, report_compiling
from ecc.jit.intermediate import to_intermediate_code

__all__ = [
    "FLOATS",
    "INTEGERS",
    "SHIPPED",
    "FloatRows",
    "Floats",
    "IntegerRows",
    "Integers",
    "call",
    "code_of",
    "compiled",
    "entry",
    "entry_point",
    "inlined",
    "optimized",
    "pointer_at",
    "shifted",
    "unpacker",
]

types: Any = numba.types
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic

FLOATS = types.CPointer(types.float64)
INTEGERS = types.CPointer(types.int64)

# int32_t f(double at[], double y[], double lag[], double out[], double numbers[], int64_t indices[], int64_t held[])
SIGNATURE = types.int32(*[FLOATS] * 5, INTEGERS, INTEGERS)

# Arrays of one and of two dimensions, C-contiguous, in the annotations of an `entry`.
Floats: TypeAlias = Any
FloatRows: TypeAlias = Any
Integers: TypeAlias = Any
IntegerRows: TypeAlias = Any

_TYPES: dict[str, Any] = {
    "int": types.int64,
    "Integers": types.int64[::1],
    "IntegerRows": types.int64[:, ::1],
    "float": types.float64,
    "Floats": types.float64[::1],
    "FloatRows": types.float64[:, ::1],
}

_ARRAYS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""Options for compiling functions of arrays: they allocate none, so that reference counting is off."""

SHIPPED = Path(__file__).with_name("kernels.zip")
"""Code that `ecc.fluid.ahead` compiled when the package was built: digest -> code."""


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function in a form that other compiled functions can call, but Python cannot.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and pointers. It is not specialized by the values of constants; inlining it in its
        caller does that.
    """
    return to_intermediate_code(function, error_model="numpy")


def optimized(function: Callable[..., Any]) -> Any:
    """Return the function for calls from other compiled functions, optimized before it is inlined there.

    If small functions take arrays instead of pointers, code that is optimized only as a whole runs up to 1.4 times as
    long.

    Parameters
    ----------
    function : callable
        Function of numbers and arrays.
    """
    return numba.njit(**_ARRAYS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function for calls from other compiled functions, with each call replaced by its statements.

    Passing a record of twenty arrays costs more than the work of a small function.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and NamedTuples of these.
    """
    return numba.njit(inline="always", **_ARRAYS)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Return the function compiled by Numba, for Python to call in any thread, loaded from the cache if it is there.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and NamedTuples of these. Its annotations name the types that are compiled when the
        package is built.
    """
    dispatcher: Any = numba.njit(nogil=True, **_ARRAYS)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher


def entry_point(function: Callable[..., Any]) -> Any:
    """Return the function as a C callback of `SIGNATURE`, which compiled code can `call` by its `.address`.

    Parameters
    ----------
    function : callable
        Function (at, y, lag, out, numbers, indices, held) -> status, 0 if all is well.
    """
    callback: Any = numba.core.ccallback.CFunc(
        function, (SIGNATURE.args, SIGNATURE.return_type), {}, {"error_model": "numpy"}
    )
    callback._cache = _Cache(function)
    callback.compile()
    return callback


def code_of(made: Any) -> tuple[str, bytes]:
    """Return the digest and the code of an `entry`, for the types of its annotations, or of an `entry_point`.

    Parameters
    ----------
    made : object
        Result of `entry` or `entry_point`.

    Raises
    ------
    OSError
        If the cache has no writable folder.
    """
    if isinstance(made, registry.CPUDispatcher) and not made.signatures:
        scope = made.py_func.__globals__
        kinds = [_type_of(kind, scope) for name, kind in made.py_func.__annotations__.items() if name != "return"]
        made.compile(tuple(kinds))
    name = made._cache.names[0]
    code = kept(name)
    if code is None:
        raise OSError(f"no folder to keep compiled code in: ECC_CACHE_DIR must name one ({made.__name__})")
    return name, code


def _type_of(annotation: Any, scope: dict[str, Any]) -> Any:
    """Return the Numba type of an annotation: a number, an array, or a NamedTuple of these."""
    name = getattr(annotation, "__forward_arg__", annotation)  # a NamedTuple holds forward references
    if name in _TYPES:
        return _TYPES[name]
    record = scope[name]
    inner = vars(import_module(record.__module__))
    return types.NamedTuple([_type_of(kind, inner) for kind in record.__annotations__.values()], record)


_THIS_MODULE = Path(__file__).read_text(encoding="utf-8")


class _Cache(caching._Cache):
    """Store that Numba reads the code of one function from, and writes it to."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.names: list[str] = []  # digests of the requested code

    @property
    def cache_path(self) -> str:
        return str(SHIPPED.parent)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self.name(sig, target_context.codegen())
        self.names.append(name)
        data = kept(name) or _shipped(name)
        if data is None:
            report_compiling()
            return None
        rebuild: Any = compiler.CompileResult._rebuild
        return rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig: Any, data: Any) -> None:
        dumps: Any = serialize.dumps
        keep(self.name(sig, data.codegen), dumps(data._reduce()))

    def name(self, sig: Any, code_generator: Any) -> str:
        """Return the digest of the code for a signature."""
        module = self._function.__module__  # Numba imports this module when it loads the code
        return digest_of(
            self._function, _representation, _THIS_MODULE, module, repr(sig), repr(code_generator.magic_tuple())
        )

    def enable(self) -> None:
        pass

    def disable(self) -> None:
        pass

    def flush(self) -> None:
        pass


def _representation(value: object) -> str | FunctionType | None:
    """Return the representation of a value in the digest of a function that reaches it."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, type) and issubclass(value, tuple):
        return f"{value.__name__} {getattr(value, '_fields', ())}"
    if isinstance(value, types.Type):
        return repr(value)
    definition = getattr(value, "_defn", None)  # attribute of an intrinsic
    version: str | None = getattr(definition, "version", None)
    return version or (definition if isinstance(definition, FunctionType) else None)


@functools.lru_cache
def _shipped(name: str) -> bytes | None:
    try:
        with zipfile.ZipFile(SHIPPED) as archive:
            return archive.read(name)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


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
    """Return the pointer advanced by a number of elements."""

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
    ----------
    kinds : str
        One letter for each pointer, "f" (to float64) or "i" (to int64); for example "ffi".
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
            slots = [builder.gep(data, [ir.Constant(ir.IntType(64), i)]) for i in range(len(kinds))]
            values = [
                builder.inttoptr(builder.load(slot), context.get_value_type(field))
                for slot, field in zip(slots, fields, strict=True)
            ]
            return context.make_tuple(builder, fields, values)

        return fields(table), generate

    return unpack
