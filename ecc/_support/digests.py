"""Digests of the code that a result depends on, so that stored results are used only while they are valid."""

from __future__ import annotations

import ast
import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from ecc._support.moved import HOMES

__all__ = ["code_digest", "digest", "function_digest", "is_installed", "package_digest", "surroundings"]

ROOT = Path(__file__).resolve().parent.parent
"""Folder of the package `ecc`."""
_STDLIB = sysconfig.get_path("stdlib")
PACKAGES = ("numpy", "scipy", "numba")
"""Packages with versions that can change a number."""


def digest(*texts: str) -> str:
    """Return the SHA-256 of some texts, as 64 hexadecimal digits."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@cache
def code_digest(*modules: str) -> str:
    """Return a digest of modules of `ecc` and of all modules of `ecc` that they import, recursively.

    If a name is imported from a package, only the module of the name counts: a change of XCP does not affect RCP.

    Parameters
    ----------
    *modules : str
        Names of modules, for example "ecc.packet.simulation".
    """
    reached: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += _imports(name)
    return digest(surroundings(), *(text for name in sorted(reached) for text in (name, _text(name))))


def function_digest(*functions: Any) -> str:
    """Return a digest of everything that the results of functions, or other callables and values, can depend on.

    The digest covers the bytecode, constants, default values and closure of a function, and the globals that it names,
    recursively. Modules of `ecc` count by their source, installed packages by name and version. So the digest changes
    if a function is redefined, but not if a comment is reworded.

    Parameters
    ----------
    *functions : object
        Functions, lambdas, methods, partials, classes, objects with `__call__`, or plain data.

    Raises
    ------
    TypeError
        If an object without a digest is reached, for example an open file.
    """
    return _Reader(functions).digest


class _Reader:
    """Traversal of all objects that functions reach; functions of their own modules are read one by one."""

    def __init__(self, functions: tuple[Any, ...]) -> None:
        self._homes = {name for function in functions if _is_of_ecc(name := str(getattr(function, "__module__", "")))}
        self._modules: set[str] = set()
        self._installed: set[str] = set()
        self._seen: dict[int, tuple[Any, str]] = {}  # keeps objects alive, so that no id is reused
        texts = [self._read(function) for function in functions]
        self.digest = digest(*texts, *sorted(map(_version, self._installed)), code_digest(*sorted(self._modules)))

    def _read(self, thing: Any) -> str:
        if thing is None or thing is ... or isinstance(thing, bool | int | float | complex | str | bytes):
            return f"{type(thing).__name__} {thing!r}"
        if id(thing) in self._seen:
            return self._seen[id(thing)][1]
        self._seen[id(thing)] = thing, f"the {len(self._seen)}th"  # for objects that contain themselves
        text = digest(type(thing).__qualname__, *self._parts(thing))
        self._seen[id(thing)] = thing, text
        return text

    def _parts(self, thing: Any) -> Iterator[str]:
        if isinstance(thing, FunctionType):
            yield from self._function(thing)
        elif isinstance(thing, CodeType):
            yield from self._code(thing)
        elif isinstance(thing, type):
            yield from self._class(thing)
        elif isinstance(thing, ModuleType):
            yield self._text_of_name(thing, set())
        elif isinstance(thing, MethodType):
            yield from map(self._read, (thing.__self__, thing.__func__))
        elif isinstance(thing, staticmethod | classmethod):
            yield self._read(thing.__func__)
        elif isinstance(thing, property):
            yield from map(self._read, (thing.fget, thing.fset))
        elif isinstance(thing, BuiltinFunctionType | MethodDescriptorType | MemberDescriptorType | np.ufunc):
            yield f"{getattr(thing, '__module__', '')} {thing.__name__}"
        elif callable(getattr(thing, "__wrapped__", None)):  # a cache around a function
            yield self._read(thing.__wrapped__)
        elif callable(getattr(thing, "py_func", None)):  # a function that Numba has compiled
            yield self._read(thing.py_func)
        elif isinstance(thing, list | tuple):
            yield from map(self._read, thing)
        elif isinstance(thing, Mapping):
            yield from (self._read(part) for item in thing.items() for part in item)
        elif isinstance(thing, set | frozenset):
            yield from sorted(map(self._read, thing))
        elif isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
            yield f"{thing.dtype} {thing.shape} {hashlib.sha256(np.ascontiguousarray(thing).data).hexdigest()}"
        elif is_dataclass(thing):
            yield self._read(type(thing))
            yield from (self._read(getattr(thing, field.name)) for field in fields(thing))
        elif isinstance(thing, CellType):
            try:
                yield self._read(thing.cell_contents)
            except ValueError:
                yield "empty"
        elif type(thing).__module__ != "_thread":  # results do not depend on locks
            yield from self._state(thing)

    def _function(self, function: FunctionType) -> Iterator[str]:
        if self._is_known(function):
            yield function.__qualname__
        else:
            yield self._read(function.__code__)
            names = _names(function.__code__)
            for name in sorted(names & set(function.__globals__)):
                yield f"{name} {self._text_of_name(function.__globals__[name], names)}"
            for name in sorted(_imported(function.__code__)):
                yield f"{name} {self._import(name, names)}"
        yield from map(self._read, (function.__defaults__, function.__kwdefaults__, function.__closure__))

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"{code.co_flags} {code.co_argcount} {code.co_kwonlyargcount} {code.co_varnames} {code.co_names}"
        yield code.co_code.hex()
        yield code.co_exceptiontable.hex()
        yield from map(self._read, code.co_consts)

    def _class(self, thing: type) -> Iterator[str]:
        yield thing.__qualname__
        if self._is_known(thing):
            return
        yield from map(self._read, thing.__bases__)
        for name, value in sorted(vars(thing).items()):
            special = name.startswith("__") or name == "_abc_impl"
            if not special or isinstance(value, FunctionType | staticmethod | classmethod):
                yield f"{name} {self._read(value)}"

    def _text_of_name(self, thing: Any, names: set[str], within: tuple[str, ...] = ()) -> str:
        """Return a text for the object of a name; for a user's module, for the members that the code may name."""
        if not isinstance(thing, ModuleType):
            return self._read(thing)
        if thing.__name__ in within or self._is_known(thing):
            return thing.__name__
        inner, within = vars(thing), (*within, thing.__name__)
        return digest(
            *(f"{name} {self._text_of_name(inner[name], names, within)}" for name in sorted(names & set(inner)))
        )

    def _import(self, name: str, names: set[str]) -> str:
        """Return a text for a module that a function imports when it is called."""
        top = name.partition(".")[0]
        if _is_of_ecc(name):
            self._modules |= _module_and_submodules(name)
        elif top not in sys.stdlib_module_names:
            try:
                return self._text_of_name(sys.modules.get(name) or import_module(name), names)
            except ImportError:  # calls of the function will raise it
                pass
        return name

    def _is_known(self, thing: Any) -> bool:
        """Return True if an object counts by its module: one of `ecc`, or one of an installed package, by version."""
        name = thing.__name__ if isinstance(thing, ModuleType) else str(thing.__module__)
        if name in self._homes:
            return False
        if _is_of_ecc(name):
            self._modules |= _module_and_submodules(name)
            return True
        if is_installed(name):
            self._installed.add(name.partition(".")[0])
            return True
        return False

    def _state(self, thing: Any) -> Iterator[str]:
        """Yield texts for the class of an object and for its state, as pickle would save it."""
        try:
            reduced = thing.__reduce_ex__(4)
        except Exception as error:
            kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
            message = f"function must use only what can be compared with a later call's, got a {kind} in it: {error}"
            raise TypeError(message) from None
        yield self._read(type(thing))
        yield from map(self._read, [list(part) if isinstance(part, Iterator) else part for part in _sequence(reduced)])


def _sequence(reduced: Any) -> tuple[Any, ...]:
    return reduced if isinstance(reduced, tuple) else (reduced,)


def _names(code: CodeType) -> set[str]:
    """Return the names that code and the functions in it use."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


@lru_cache(4096)  # reading instructions dominates the time of a digest
def _imported(code: CodeType) -> frozenset[str]:
    """Return the modules that code and the functions in it import."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    imported = frozenset(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
    return imported.union(*map(_imported, inner))


def _version(name: str) -> str:
    return f"{name} {getattr(sys.modules.get(name), '__version__', '')}"


def _is_of_ecc(name: str) -> bool:
    return name.partition(".")[0] == "ecc"


@cache
def _module_and_submodules(name: str) -> frozenset[str]:
    """Return the name of a module of `ecc`; for a package, the names of all its modules."""
    path = _file(name)
    if path is None or path.name != "__init__.py":
        return frozenset({name})
    inner = (file.relative_to(ROOT.parent).with_suffix("") for file in path.parent.rglob("*.py"))
    return frozenset(".".join(file.parts).removesuffix(".__init__") for file in inner)


@cache
def is_installed(name: str) -> bool:
    """Return True if a module belongs to the interpreter or to an installed package.

    Parameters
    ----------
    name : str
        Name of an imported module.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    if name in ("__main__", "__mp_main__"):
        return False
    if file is None:
        return name.partition(".")[0] in sys.stdlib_module_names
    parts = Path(file).parts
    return "site-packages" in parts or "dist-packages" in parts or Path(file).is_relative_to(_STDLIB)


@cache
def package_digest() -> str:
    """Return a digest of all installed files of `ecc`, except the file with the name of the commit."""
    files = sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "commit.txt"
    )
    return digest(*(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files))


@cache
def surroundings() -> str:
    """Return the versions of Python and of the packages that numbers depend on, as text."""
    return " ".join([*map(str, sys.version_info[:2]), *(f"{name} {version(name)}" for name in PACKAGES)])


def _file(name: str) -> Path | None:
    path = ROOT.joinpath(*HOMES.get(name, name).split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _text(name: str) -> str:
    """Return the source of a module; for the engine's package, a digest of all its files."""
    path = _file(name)
    if path is None:
        return ""
    if name == "ecc.native":
        module = import_module("ecc.native._engine").__file__
        files = sorted(path.parent.glob("*.py")) + ([Path(module)] if module else [])
        return digest(*(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))
    return path.read_text(encoding="utf-8")


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Return the modules of `ecc` that a module imports; () for a package, which only lists names."""
    path = _file(name)
    if path is None or path.name == "__init__.py":
        return ()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(module for node in _statements(tree) for module in _of_import(node)))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements, including nested ones; expressions are skipped, as they contain no imports."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, field, ())


def _of_import(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_of_ecc(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module and _is_of_ecc(node.module):
        yield node.module
        for alias in node.names:
            yield from _defining_modules(node.module, alias.name)


def _defining_modules(package: str, name: str) -> Iterator[str]:
    """Yield the module that defines a name imported from a package or module."""
    inside = f"{package}.{name}"
    path = _file(inside)
    if path is None:
        owner = getattr(getattr(import_module(package), name, None), "__module__", None)
        if owner and _is_of_ecc(owner):
            yield owner
    elif path.name == "__init__.py":  # `from ecc import plot`: all its public names
        yield inside
        for offered in getattr(import_module(inside), "__all__", ()):
            yield from _defining_modules(inside, offered)
    else:
        yield inside
