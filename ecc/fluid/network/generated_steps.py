"""The recurrence of one structure of network and laws as generated source, compiled by Numba: a kernel for ensembles.

The engine of single runs (`recurrence`) reads flows, links and routes from tables and calls laws by their addresses,
which costs more than their arithmetic. Here a step is written out: a variable for each quantity of each flow and link,
and the laws inlined. What members of an ensemble may vary stays a variable, so that one kernel serves all of them. The
operations and their order are those of the engine, without contraction or reordering, so that results have the same
bits.

If each route has one link, the kernel runs `LANES` members at once: while all of their flows have feedback, a step of
all is made of vectors (`vectors`), with one member in each lane. All other steps are made member by member. A law that
raises ends the call; `counter` then names the first of the members that ran.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, nan
from time import perf_counter
from typing import Any

import numba
import numpy as np

from ecc._support.cache import kept
from ecc.fluid.compiled import entry, unpacker
from ecc.fluid.network import vectors
from ecc.fluid.network.generated_lanes import VECTOR_ARGUMENTS, LanesSource
from ecc.fluid.network.generated_layout import MAX_CROSSINGS, POINTERS, Layout, Structure
from ecc.fluid.network.generated_source import Source
from ecc.jit.intermediate import to_intermediate_code
from ecc.jit.reach import digest_of_texts, jitable, lock, text_of
from ecc.laws.arguments import arguments_text

__all__ = ["MAX_CROSSINGS", "POINTERS", "Kernel", "Layout", "Structure", "kernel_of"]

_unpack = unpacker("f" * POINTERS.index("integers") + "i" * (len(POINTERS) - POINTERS.index("integers")))


@dataclass(frozen=True)
class Kernel:
    """Compiled members of a structure: `run(table, first, end)` runs members from `first` to `end` - 1.

    `seconds`: time that compiling or loading took [s].
    """

    run: Callable[..., None]
    layout: Layout
    seconds: float


_SIGNATURE = (numba.types.int64[::1], numba.types.int64, numba.types.int64)
_kernels: dict[Structure, Kernel] = {}


def kernel_of(structure: Structure, seconds: float) -> Kernel | None:
    """Return the kernel of a structure, or None if compiling or loading it would take longer than it can save.

    Parameters
    ----------
    structure : Structure
    seconds : float, s
        CPU time of the runs without a kernel.

    Raises
    ------
    TypeError
        If a law cannot be inlined.
    """
    with lock:
        if structure in _kernels:
            return _kernels[structure]
        if seconds < _SECONDS_TO_LOAD:
            return None
        began = perf_counter()
        made = entry(_function_of(structure))
        is_kept = kept(made._cache.name(_SIGNATURE, made.targetctx.codegen())) is not None
        if not is_kept and seconds < _SECONDS_TO_COMPILE * (1.0 + len(structure.crossings)):
            return None
        from numba.core.errors import NumbaError

        try:
            made.compile(_SIGNATURE)
        except NumbaError as error:
            raise TypeError(f"a law cannot be inlined: {error!s:.200}") from None
        _kernels[structure] = Kernel(made, Layout.of(structure), perf_counter() - began)
        return _kernels[structure]


_SECONDS_TO_LOAD, _SECONDS_TO_COMPILE = 0.5, 1.4  # the latter for each crossing, and once


@lru_cache(256)
def _record_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Parameters", names)


def _function_of(structure: Structure) -> Callable[..., None]:
    """Return the kernel of a structure, a plain function of compiled ones."""
    laws = {
        name: jitable(law, from_python=False, allocates=False)
        for name in ("router", "source", "announce", "priority")
        if (law := getattr(structure, name)) is not None
    }
    scope: dict[str, Any] = {
        **{f"{name}_law": law for name, law in laws.items()},
        **{name: getattr(vectors, name) for name in vectors.__all__},
        "unpack": _unpack,
        "Parameters": _record_of(structure.parameters),
        "isfinite": np.isfinite,
        "ceil": ceil,
        "nan": nan,
        "inf": inf,
        "__name__": __name__,
    }
    sources = sources_of(structure)
    version = digest_of_texts(*sources.values(), *(text_of(law.py_func, {}) for law in laws.values()))[:16]
    for name, text in sources.items():
        exec(text, scope)
        scope[name].__qualname__ += f"_{version}"  # a process links the functions of several kernels by their names
        if name != "members":
            scope[name] = to_intermediate_code(scope[name], error_model="numpy", _nrt=False)
    function: Callable[..., None] = scope["members"]
    return function


def sources_of(structure: Structure) -> dict[str, str]:
    """Return the sources of the functions of a kernel, in the order in which they call each other.

    Parameters
    ----------
    structure : Structure
    """
    if structure.lanes == 1:
        return Source(structure).functions()
    names = ("router", "source", "announce")
    laws = {name: law for name in names if (law := getattr(structure, name)) is not None}
    takes_vectors = {name: _takes_vectors(law, structure.parameters) for name, law in laws.items()}
    return LanesSource(structure, takes_vectors).functions()


def _takes_vectors(law: Callable[..., Any], parameters: tuple[str, ...]) -> bool:
    """Return whether a law can be compiled for vectors; it has no powers, for example."""
    from numba.core.errors import NumbaError

    types: Any = numba.types
    record = types.NamedUniTuple(vectors.PARAMETER, len(parameters), _record_of(parameters))

    def kind(argument: str) -> Any:
        return record if argument == "p" else vectors.VECTOR if argument in VECTOR_ARGUMENTS else types.float64

    arguments = tuple(kind(argument) for argument in arguments_text(law, lambda a: a).split(", "))
    made = jitable(law, from_python=False, allocates=False)
    try:
        made.compile(arguments)
    except NumbaError:
        return False
    return isinstance(made.overloads[arguments].signature.return_type, vectors.Vector)
