"""Public names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy", "no_attribute"]


def no_attribute(package: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error on an unknown name of a package, with similar names.

    Parameters
    ----------
    package : str
        Name of the package.
    name : str
        Unknown name.
    known : iterable of str
        Public names of the package.
    """
    hint = ""
    if not name.startswith("_"):  # libraries probe modules for special names
        from ecc._support.arguments import nearest

        hint = nearest(name, dict.fromkeys(known, ""))
    return AttributeError(
        f"module {package!r} has no attribute {name!r}{hint}", name=name
    )  # Python adds no second hint


def lazy(
    package: str, homes: Mapping[str, str | None], hidden: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `dir()` lists its public names only.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping
        Public name -> the module of the package that defines it; None: the name is a module.
    hidden : collection of str, optional
        Names that `dir()` does not list.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise no_attribute(package, name, set(homes) - set(hidden))
        home = homes[name]
        if home is None:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        special = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*homes, *special} - set(hidden))

    return get, names
