"""The globals that a plain function reaches, which determine its compiled code: as a text, as a digest, compiled.

A function reaches other functions, modules and constants through its globals and its closure. If two functions have the
same text, then under the same versions and on the same processor they compile to the same code.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter, is_
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from ecc.jit.c_function import CFunction

__all__ = [
    "digest_of",
    "digest_of_texts",
    "instructions",
    "is_plain",
    "jitable",
    "lock",
    "python_function",
    "reach",
    "reached_functions",
    "replace_functions",
    "snapshot_of",
    "surroundings",
    "text_of",
    "uses_field",
    "where",
]

_KNOWN_TO_NUMBA = ("numpy", "numba", "math", "builtins")  # packages with functions that Numba replaces

lock = threading.RLock()
_dispatchers: dict[tuple[str, bool, bool], Any] = {}


_held_locks: list[Any] = []
"""Locks that are held while the process forks."""


def _hold_locks() -> None:
    """Wait until no thread compiles; otherwise a child could wait for a lock held by a thread that it does not have.

    Threads may take the two locks in either order, so this function never waits for one while it holds the other.
    """
    compiler = sys.modules.get("numba.core.compiler_lock")
    locks = [lock, *([compiler.global_compiler_lock._lock] if compiler is not None else [])]
    while len(_held_locks) < len(locks):
        for each in locks:
            if not each.acquire(timeout=0.05):
                _release_locks()
                break
            _held_locks.append(each)


def _release_locks() -> None:
    while _held_locks:
        _held_locks.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks)


def where(function: Callable[..., Any]) -> str:
    """Return the name of a function, its file and its line, in the form used by messages."""
    assert isinstance(function, FunctionType)
    return f"{function.__name__} ({Path(function.__code__.co_filename).name}:{function.__code__.co_firstlineno})"


@functools.lru_cache(4096)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Return the instructions of a code object, disassembled once."""
    return tuple(dis.get_instructions(code))


def reach(function: FunctionType) -> dict[tuple[str, ...], object]:
    """Return the values that the function takes from its globals and closure: dotted name as a tuple -> value."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    reached: dict[tuple[str, ...], object] = {}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        path: tuple[str, ...] = ()
        for step in instructions(code):
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (
                step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in cells
            ):
                raise TypeError(f"{where(function)} writes the outer variable {step.argval!r}: keep it in the state")
            if step.opname == "LOAD_GLOBAL" and step.argval in function.__globals__:
                path = (step.argval,)
                reached[path] = function.__globals__[step.argval]
            elif step.opname == "LOAD_DEREF" and step.argval in cells:
                path = (step.argval,)
                try:
                    reached[path] = cells[step.argval].cell_contents
                except ValueError:
                    raise TypeError(f"{where(function)} reads {step.argval!r} before it has a value") from None
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(reached.get(path), ModuleType):
                module = reached.pop(path)
                path = (*path, step.argval)
                if not hasattr(module, step.argval):
                    raise TypeError(f"{where(function)} uses {'.'.join(path)}, which does not exist")
                reached[path] = getattr(module, step.argval)
            else:
                path = ()
    return reached


def is_plain(value: object) -> TypeGuard[FunctionType]:
    """Return whether the value is a Python function that has to be compiled before Numba can call it."""
    return isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] not in _KNOWN_TO_NUMBA


def python_function(value: object) -> object:
    """Return the Python function under a Numba dispatcher, or the value itself."""
    return getattr(value, "py_func", value)


def reached_functions(function: Callable[..., Any]) -> list[FunctionType]:
    """Return the function and all plain functions that it reaches, directly or through others, each once.

    Parameters
    ----------
    function : callable
        Plain function.
    """
    assert isinstance(function, FunctionType)
    functions, waiting = [function], [function]
    while waiting:
        for value in map(python_function, reach(waiting.pop()).values()):
            if is_plain(value) and all(value is not function for function in functions):
                functions.append(value)
                waiting.append(value)
    return functions


def uses_field(hook: Callable[..., Any], field: str) -> bool:
    """Return whether a hook, or a function that it reaches, reads or writes a field of `env`.

    Parameters
    ----------
    hook : FunctionType
        Hook with the arguments state, header, params, env; functions that it reaches must name that record `env`.
    field : str
        Name of the field.
    """
    assert isinstance(hook, FunctionType)
    names = {"env", hook.__code__.co_varnames[3]} if hook.__code__.co_argcount > 3 else {"env"}
    for function in reached_functions(hook):
        previous = None
        for step in instructions(function.__code__):
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR") and step.argval == field and previous in names:
                return True
            previous = step.argval if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None
    return False


def replace_functions(
    function: FunctionType, replacements: Mapping[FunctionType, FunctionType], used: set[int] | None = None
) -> FunctionType:
    """Return a copy of a function with some of the functions that it reaches replaced; itself if it reaches none.

    Parameters
    ----------
    function : callable
        Plain function.
    replacements : mapping
        Function -> its replacement, which is not copied itself.
    used : set of int, optional
        Receives the `id` of each function that was replaced.
    """
    reached = reached_functions(function)
    calls = {id(member): [python_function(value) for value in reach(member).values()] for member in reached}
    affected: set[int] = set()
    changed = True
    while changed:
        changed = False
        for member in reached:
            if id(member) in affected or any(member is old for old in replacements):
                continue
            if any(id(value) in affected or any(value is old for old in replacements) for value in calls[id(member)]):
                affected.add(id(member))
                changed = True
    if id(function) not in affected:
        return function
    copies: dict[int, FunctionType] = {}

    def substitute(value: object) -> object:
        plain = python_function(value)
        for old, new in replacements.items():
            if plain is old:
                if used is not None:
                    used.add(id(old))
                return new
        return copy_of(plain) if isinstance(plain, FunctionType) and id(plain) in affected else value

    def copy_of(member: FunctionType) -> FunctionType:
        if id(member) in copies:
            return copies[id(member)]
        scope = dict(member.__globals__)
        cells = {name: CellType() for name in member.__code__.co_freevars}
        for name, cell in zip(member.__code__.co_freevars, member.__closure__ or (), strict=True):
            cells[name].cell_contents = cell.cell_contents
        copy = FunctionType(member.__code__, scope, member.__name__, member.__defaults__, tuple(cells.values()) or None)
        copy.__kwdefaults__, copy.__qualname__ = member.__kwdefaults__, member.__qualname__
        copy.__module__ = member.__module__
        copies[id(member)] = copy  # before the functions that it reaches, since it may be recursive
        modules: dict[tuple[str, ...], ModuleType] = {}
        for path, value in reach(member).items():
            new = substitute(value)
            if new is value:
                continue
            for depth in range(1, len(path)):  # a copy of the module, in which the function is replaced
                if path[:depth] not in modules:
                    owner: Any = vars(modules[path[: depth - 1]]) if depth > 1 else scope
                    module = ModuleType(owner[path[depth - 1]].__name__)
                    vars(module).update(vars(owner[path[depth - 1]]))
                    owner[path[depth - 1]] = modules[path[:depth]] = module
            if len(path) > 1:
                setattr(modules[path[:-1]], path[-1], new)
            elif path[0] in cells:
                cells[path[0]].cell_contents = new
            else:
                scope[path[0]] = new
        return copy

    return copy_of(function)


class Snapshot:
    """The values that functions reach now, to recognize later whether compiled code is up to date.

    The comparison by identity is much faster than a comparison of texts (`text_of`), and never misses a change of a
    variable. It may report a change if an equal value was assigned.

    Parameters
    ----------
    functions : iterable of function
        Plain functions.
    """

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self._functions: list[FunctionType] = []
        self._cells: list[CellType] = []
        self._places: dict[tuple[int, str], tuple[Mapping[str, object], str]] = {}
        waiting = list(functions)
        while waiting:
            function = waiting.pop()
            if all(function is not other for other in self._functions):
                self._functions.append(function)
                self._cells += function.__closure__ or ()
                reached = [*self._globals_of(function), *map(_content, function.__closure__ or ())]
                waiting += filter(is_plain, map(python_function, reached))
        self._namespaces = [namespace for namespace, _ in self._places.values()]
        self._names = [name for _, name in self._places.values()]
        self._values = list(self._now())

    def _globals_of(self, function: FunctionType) -> Iterator[object]:
        """Note the globals of a function, and the attributes of modules among them, and yield their values."""
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        namespaces: list[Mapping[str, object]] = [function.__globals__]
        for namespace in namespaces:
            for name in names:
                self._places[id(namespace), name] = namespace, name
                value = namespace.get(name)
                if isinstance(value, ModuleType) and all(vars(value) is not other for other in namespaces):
                    namespaces.append(vars(value))
                yield value

    def _now(self) -> Iterator[object]:
        return chain(
            map(dict.get, self._namespaces, self._names),  # type: ignore[arg-type]  # namespaces are dicts
            map(attrgetter("__code__"), self._functions),
            map(attrgetter("__defaults__"), self._functions),
            map(attrgetter("__kwdefaults__"), self._functions),
            map(_content, self._cells),
        )

    def is_current(self) -> bool:
        """Return whether the functions reach the same values now."""
        return all(map(is_, self._values, self._now()))


_snapshots: dict[tuple[FunctionType, ...], Snapshot] = {}
_MAX_SNAPSHOTS = 64


def snapshot_of(functions: Iterable[FunctionType]) -> Snapshot:
    """Return a snapshot of the values that functions reach now: a kept one if it is current.

    Parameters
    ----------
    functions : iterable of function
        See `Snapshot`.
    """
    key = tuple(functions)
    snapshot = _snapshots.get(key)
    if snapshot is None or not snapshot.is_current():
        if len(_snapshots) >= _MAX_SNAPSHOTS:
            _snapshots.clear()
        snapshot = _snapshots[key] = Snapshot(key)
    return snapshot


def _content(cell: CellType) -> object:
    """Return the content of a cell, or the cell itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions that it defines."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _is_constant(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(item) for item in value)
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic)


def _code_text(code: CodeType) -> str:
    """Return all of a code object that determines its result, without its file, lines and name."""
    consts = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            consts.append(_code_text(const))
        elif isinstance(const, frozenset):
            consts.append(repr(sorted(map(repr, const))))
        else:
            consts.append(repr(const))
    return repr(
        (
            code.co_code,
            consts,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_flags,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_exceptiontable,
        )
    )


Known = Callable[[object], "str | FunctionType | None"]


def text_of(function: FunctionType, seen: dict[int, int], known: Known = lambda value: None) -> str:
    """Return a text that is equal for two functions only if they, and all functions that they reach, are equivalent.

    `known` may return a text, or a function, as a substitute for a value that hooks cannot reach otherwise.
    """
    if id(function) in seen:
        return f"function {seen[id(function)]}"
    seen[id(function)] = len(seen)
    parts = [_code_text(function.__code__), repr(function.__defaults__), repr(function.__kwdefaults__)]
    for path, value in sorted(reach(function).items(), key=lambda item: item[0]):
        substitute, name = known(value), ".".join(path)
        inner = substitute or python_function(value)
        if isinstance(substitute, str):
            parts.append(f"{name}: {substitute}")
        elif is_plain(inner):
            parts.append(f"{name}: {text_of(inner, seen, known)}")
        elif isinstance(value, CFunction):
            parts.append(f"{name}: C {value.symbol}")
        elif _is_constant(value):
            parts.append(f"{name}: {type(value)} {value!r}")
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            parts.append(f"{name}: {list(value)!r}")
        elif isinstance(value, type | BuiltinFunctionType | FunctionType | np.ufunc | ModuleType):
            parts.append(f"{name}: {getattr(value, '__module__', '')} {value.__name__}")
        else:
            raise TypeError(
                f"{where(function)} reaches {name}, a {type(value).__name__}: only functions, modules and constants "
                "(numbers, strings, tuples) can be compiled"
            )
    return "\n".join(parts)


@functools.cache
def surroundings() -> str:
    """Return all that determines compiled code in addition to the functions: this compiler, versions and processor."""
    from importlib.metadata import version

    import llvmlite.binding as llvm

    compiler_sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    versions = [version(package) for package in ("numba", "llvmlite")]
    features = llvm.get_host_cpu_features().flatten()
    return repr((compiler_sources, sys.version, versions, llvm.get_host_cpu_name(), features))


def digest_of_texts(*texts: str) -> str:
    """Return one digest for several texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def digest_of(function: FunctionType, known: Known, *texts: str) -> str:
    """Return a digest of all inputs of compiled code: the code that a function reaches, versions, processor, texts.

    Parameters
    ----------
    function : callable
        Plain function.
    known : Known
        Function that may return a text, or a function, as a substitute for a value that hooks cannot reach otherwise.
    *texts : str
        Further inputs.
    """
    return digest_of_texts(surroundings(), text_of(function, {}, known), *texts)


def jitable(function: Callable[..., Any], from_python: bool = True, allocates: bool = True) -> Any:
    """Return a Numba-compiled version of a plain function, with the functions that it reaches compiled too.

    Functions are reached through globals, through the attributes of modules and through closures. Numba itself handles
    `math`, NumPy and the builtins. The function itself is not changed.

    Parameters
    ----------
    function : callable
        Plain Python function of the language of laws, or a Numba dispatcher, which is returned.
    from_python : bool, optional
        Whether Python may call it, too; a function that is called from compiled code only compiles twice as fast.
    allocates : bool, optional
        Whether it may create arrays and lists; if not, a function with `from_python=False` that does so is refused.

    Returns
    -------
    dispatcher : object
        Numba dispatcher (`njit`); the same object if the function and all that it reaches are the same.

    Raises
    ------
    TypeError
        It is not a plain function, writes a variable outside it, or reaches a value that can change.

    Notes
    -----
    Compilation takes place at the first call. Exceptions behave as in Python (`error_model="python"`).

    Examples
    --------
    >>> jitable(lambda x: 2.0 * x)(1.5)
    3.0
    """
    if hasattr(function, "py_func"):
        return function
    if not isinstance(function, FunctionType):
        raise TypeError(f"can only compile a plain function, got a {type(function).__name__}: {function!r}")
    import numba

    from ecc.jit.intermediate import to_intermediate_code

    with lock:
        key = digest_of_texts(text_of(function, {})), from_python, allocates
        if key in _dispatchers:
            return _dispatchers[key]
        scope: dict[str, Any] = {name: function.__globals__.get(name) for name in ("__name__", "__builtins__")}
        cells = {name: CellType() for name in function.__code__.co_freevars}
        copy = FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, tuple(cells.values()) or None
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = function.__qualname__
        if not from_python:  # code that is loaded from the cache may contain another function of this name
            copy.__qualname__ += f"_{key[0][:16]}"
        if from_python:
            dispatcher = numba.njit(boundscheck=True)(copy)
        else:
            dispatcher = to_intermediate_code(copy, boundscheck=True, _nrt=allocates)
        _dispatchers[key] = dispatcher  # before the functions that it reaches, since it may be recursive
        for (name, *attributes), value in reach(function).items():
            if is_plain(value):
                compiled = jitable(value, from_python, allocates)
            else:
                compiled = value.compiled if isinstance(value, CFunction) else value
            if attributes:  # a substitute for the module that contains the compiled functions
                owner = scope.setdefault(name, ModuleType(name))
                for part in attributes[:-1]:
                    owner = owner.__dict__.setdefault(part, ModuleType(part))
                setattr(owner, attributes[-1], compiled)
            elif name in cells:
                cells[name].cell_contents = compiled
            else:
                scope[name] = compiled
        return dispatcher
