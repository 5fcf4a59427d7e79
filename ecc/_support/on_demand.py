"""Arrays by name that are made when they are first used, as short runs are often asked for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

__all__ = ["ArraysOnDemand"]


class ArraysOnDemand(Mapping[str, NDArray[Any]]):
    """Arrays by name, each made when it is first used.

    Parameters
    ----------
    makers : dict
        Name -> function that returns the array.
    """

    def __init__(self, makers: dict[str, Callable[[], NDArray[Any]]]) -> None:
        self.makers = makers
        self._made: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._made:
            self._made[name] = self.makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)
