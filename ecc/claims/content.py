"""What a result depends on: digests of the code that makes it, so that stored results serve only while they hold."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = ["code_digest", "digest", "function_digest"]

ROOT = Path(__file__).resolve().parents[1]
OTHERS = ("numpy", "scipy", "numba")
"""Packages of others whose version can change a number."""


def digest(*texts: str) -> str:
    """Return the SHA-256 of some texts, as 64 hexadecimal digits."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def code_digest(*modules: str) -> str:
    """Return a digest of modules of `ecc` and of all modules of `ecc` that they import, and theirs.

    A package counts by the names that are taken from it: a check of RCP does not change when XCP does.

    Parameters
        modules : names such as "ecc.packet.simulation".
    """
    reached: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += _imports(name)
    return digest(_surroundings(), *(text for name in sorted(reached) for text in (name, _text(name))))


def function_digest(function: Callable[..., Any]) -> str:
    """Return a digest of a function, of what it uses of its own module, and of the modules of `ecc` it uses.

    Parameters
        function : of a module of `ecc`, not a closure.
    """
    texts: dict[str, str] = {}
    modules: set[str] = set()
    home = sys.modules[function.__module__]
    todo: list[Any] = [function]
    while todo:
        item = todo.pop()
        item = inspect.unwrap(item)
        texts[item.__qualname__] = inspect.getsource(item)
        for name in _names(item):
            used = vars(home).get(name)
            owner = getattr(used, "__module__", None)
            if isinstance(used, ModuleType):
                modules |= {used.__name__} & _ours(used.__name__)
            elif owner == home.__name__ and callable(used):
                if used.__qualname__ not in texts:
                    todo.append(used)
            elif owner and callable(used):
                modules |= _ours(owner)
            elif used is not None:
                texts[name] = repr(used)
    return digest(*(f"{key}\n{text}" for key, text in sorted(texts.items())), code_digest(*sorted(modules)))


def _ours(name: str) -> set[str]:
    return {name} if name.partition(".")[0] == "ecc" else set()


def _names(item: Any) -> set[str]:
    """Global names that a function, or the functions of a class, use."""
    functions = [item] if not inspect.isclass(item) else [f for f in vars(item).values() if inspect.isfunction(f)]
    found: set[str] = set()
    todo: list[CodeType] = [f.__code__ for f in functions]
    while todo:
        code = todo.pop()
        found |= set(code.co_names)
        todo += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


@cache
def _surroundings() -> str:
    return " ".join([*map(str, sys.version_info[:2]), *(f"{name} {version(name)}" for name in OTHERS)])


def _file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _text(name: str) -> str:
    """The source of a module; of the engine's package, all that is in it."""
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
    """Modules of `ecc` that a module imports; none of a package, which is a list of names."""
    path = _file(name)
    if path is None or path.name == "__init__.py":
        return ()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(dict.fromkeys(module for node in ast.walk(tree) for module in _of_import(node)))


def _of_import(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _ours(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module and _ours(node.module):
        yield node.module
        for alias in node.names:
            yield from _home(node.module, alias.name)


def _home(package: str, name: str) -> Iterator[str]:
    """Where a name that is imported from a package or module is written."""
    inside = f"{package}.{name}"
    path = _file(inside)
    if path is None:
        owner = getattr(getattr(import_module(package), name, None), "__module__", None)
        if owner and _ours(owner):
            yield owner
    elif path.name == "__init__.py":  # `from ecc import plot`: all that it offers
        yield inside
        for offered in getattr(import_module(inside), "__all__", ()):
            yield from _home(inside, offered)
    else:
        yield inside
