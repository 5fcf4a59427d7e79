"""What the compiled parts of the fluid engine share: how they are compiled and kept, plain pointers, calls by address.

Compiled code works on pointers: arrays that pass through many small functions cost more there than the arithmetic.

Only what Python calls (an `entry`, an `entry_point`) becomes machine code. What it reaches (`compiled`) is lowered to
LLVM's intermediate code, linked into it as it is, and optimized there, once: to optimize each function, and again in
all that call it, takes more than twice as long and ends in the same, but where arrays are passed (`optimized`). The
code is kept in the user's cache, under a digest of all that it was made of. What the package was built with is in
`SHIPPED`; that is compiled again only on another processor, or under other versions of Python and Numba.
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
    "FLOATS", "INTEGERS", "SHIPPED", "FloatRows", "Floats", "IntegerRows", "Integers", "call", "code_of", "compiled",
    "entry", "entry_point", "inlined", "optimized", "pointer_at", "shifted", "unpacker",
]  # fmt: skip

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
    "int": types.int64, "Integers": types.int64[::1], "IntegerRows": types.int64[:, ::1],
    "float": types.float64, "Floats": types.float64[::1], "FloatRows": types.float64[:, ::1],
}  # fmt: skip

_ARRAYS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""How functions of arrays are compiled: they make none, so that no references are counted."""

SHIPPED = Path(__file__).with_name("kernels.zip")
"""What `ecc.fluid.ahead` compiled when the package was built: digest -> code."""


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function as other compiled functions call it; Python cannot.

    Parameters
    ----------
    function : callable
        Of numbers, arrays and pointers. Numbers are not specialized by value: those that are constants become so where
        it is inlined.
    """
    return to_intermediate_code(function, error_model="numpy")


def optimized(function: Callable[..., Any]) -> Any:
    """Return the function as other compiled functions call it, optimized before it is inlined there.

    Where arrays, rather than pointers, are passed to small functions, code that is optimized only as a whole runs up to
    1.4 times as long.

    Parameters
    ----------
    function : callable
        Of numbers and arrays.
    """
    return numba.njit(**_ARRAYS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function as other compiled functions call it, its statements put in place of each call.

    To pass a record of twenty arrays costs more than what a small function does with them.

    Parameters
    ----------
    function : callable
        Of numbers, arrays and NamedTuples of these.
    """
    return numba.njit(inline="always", **_ARRAYS)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Return the function compiled by Numba, for Python to call in any thread, from where it is kept if it is.

    Parameters
    ----------
    function : callable
        Of numbers, arrays and NamedTuples of these, which its annotations name: what is compiled when the package is
        built.
    """
    made: Any = numba.njit(nogil=True, **_ARRAYS)(function)
    made._cache = _Kept(function)
    return made


def entry_point(function: Callable[..., Any]) -> Any:
    """Return the function as a C callback of `SIGNATURE`, for others to `call`; `.address` is where it is.

    Parameters
    ----------
    function : callable
        (at, y, lag, out, numbers, indices, held) -> status, 0 for fine.
    """
    made: Any = numba.core.ccallback.CFunc(
        function, (SIGNATURE.args, SIGNATURE.return_type), {}, {"error_model": "numpy"}
    )
    made._cache = _Kept(function)
    made.compile()
    return made


def code_of(made: Any) -> tuple[str, bytes]:
    """Return the digest and the code of an `entry`, for the types of its annotations, or of an `entry_point`.

    Parameters
    ----------
    made : object
        What either returned.

    Raises
    ------
    OSError
        There is no folder to keep it in.
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
    """The Numba type that an annotation means: a number, an array, or a NamedTuple of these."""
    name = getattr(annotation, "__forward_arg__", annotation)  # as NamedTuple keeps them
    if name in _TYPES:
        return _TYPES[name]
    record = scope[name]
    inner = vars(import_module(record.__module__))
    return types.NamedTuple([_type_of(kind, inner) for kind in record.__annotations__.values()], record)


_OURS = Path(__file__).read_text(encoding="utf-8")


class _Kept(caching._Cache):
    """Where Numba finds the code of a function, and leaves it."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.names: list[str] = []  # of the requested code

    @property
    def cache_path(self) -> str:
        return str(SHIPPED.parent)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        self.names.append(name)
        data = kept(name) or _shipped(name)
        if data is None:
            report_compiling()
            return None
        rebuild: Any = compiler.CompileResult._rebuild
        return rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig: Any, data: Any) -> None:
        dumps: Any = serialize.dumps
        keep(self._name(sig, data.codegen), dumps(data._reduce()))

    def _name(self, sig: Any, code_generator: Any) -> str:
        module = self._function.__module__  # which Numba imports where it loads the code
        return digest_of(self._function, _known, _OURS, module, repr(sig), repr(code_generator.magic_tuple()))

    def enable(self) -> None:
        pass

    def disable(self) -> None:
        pass

    def flush(self) -> None:
        pass


def _known(value: object) -> str | FunctionType | None:
    """What represents a value in the digest of a function that reaches it."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, type) and issubclass(value, tuple):
        return f"{value.__name__} {getattr(value, '_fields', ())}"
    if isinstance(value, types.Type):
        return repr(value)
    made = getattr(value, "_defn", None)  # of an intrinsic
    return made if isinstance(made, FunctionType) else None


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
    ----------
    kinds : str
        "f" (to float64) or "i" (to int64) for each.
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
