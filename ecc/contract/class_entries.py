"""The entries of the classes of protocols, to recognize later whether a class has changed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import is_

from ecc.contract.protocol import Protocol

__all__ = ["ClassEntries"]


class ClassEntries:
    """All entries of the classes of protocols and of their base classes: some hundred.

    Parameters
    ----------
    protocols : iterable of Protocol
    """

    def __init__(self, protocols: Iterable[Protocol]) -> None:
        self._kinds = list(dict.fromkeys(map(type, protocols)))
        self._orders = [kind.__mro__ for kind in self._kinds]
        self._namespaces = [vars(cls) for order in self._orders for cls in order if cls is not object]
        self._entries = list(chain.from_iterable(namespace.values() for namespace in self._namespaces))

    def are_current(self) -> bool:
        """Return whether the classes have the same entries now."""
        return (
            all(kind.__mro__ is order for kind, order in zip(self._kinds, self._orders, strict=True))
            and sum(map(len, self._namespaces)) == len(self._entries)
            and all(map(is_, self._entries, chain.from_iterable([names.values() for names in self._namespaces])))
        )
