"""Results of a sweep as plain arrays, until a Dataset is needed: a command that prints them imports neither xarray nor
pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.intervals import mean_with_interval

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["SweepTable"]


@dataclass(frozen=True)
class SweepTable:
    """Values of each point of a sweep.

    Parameters
    ----------
    shape : mapping
        Number of values by the name of the axis.
    coordinates : mapping
        Name -> axis and values, an array.
    variables : mapping
        Name -> array of this shape. NaN marks points without a result.
    attributes : mapping
        Name of a variable or coordinate -> its attributes, such as units; "": attributes of the table.
    """

    shape: Mapping[str, int]
    coordinates: Mapping[str, tuple[str, NDArray[Any]]]
    variables: Mapping[str, NDArray[Any]]
    attributes: Mapping[str, Mapping[str, str]]

    def dataset(self) -> xr.Dataset:
        """Return the values as a Dataset."""
        import xarray as xr

        dims = list(self.shape)
        return xr.Dataset(
            {name: (dims, values, self.attributes.get(name)) for name, values in self.variables.items()},
            {name: (axis, values, self.attributes.get(name)) for name, (axis, values) in self.coordinates.items()},
            self.attributes.get(""),
        )

    def without(self, names: Iterable[str]) -> SweepTable:
        """Return the table without some variables.

        Parameters
        ----------
        names : iterable of str
            Names that the table may lack.
        """
        left_out = set(names)
        return replace(self, variables={name: a for name, a in self.variables.items() if name not in left_out})

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Return the variables that are numbers, not texts."""
        return {name: values for name, values in self.variables.items() if values.dtype.kind == "f"}

    def axis(self, name: str) -> int:
        """Return the number of an axis.

        Parameters
        ----------
        name : str
        """
        return list(self.shape).index(name)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the coordinates and values of each point as plain Python objects; the last axis varies fastest."""
        dims = list(self.shape)
        columns: dict[str, list[Any]] = {}
        for name, (axis, values) in self.coordinates.items():
            across = [-1 if dim == axis else 1 for dim in dims]
            columns[name] = np.broadcast_to(values.reshape(across), tuple(self.shape.values())).ravel().tolist()
        columns |= {name: values.ravel().tolist() for name, values in self.variables.items()}
        for row in zip(*columns.values(), strict=True):
            yield dict(zip(columns, row, strict=True))

    def means(self, name: str, confidence: float = 0.95) -> SweepTable:
        """Return the mean of each variable over one axis, and as NAME_interval the half-width of its interval.

        Parameters
        ----------
        name : str
            Name of the axis.
        confidence : float, in (0, 1), optional
            Probability with which the interval contains the mean.
        """
        axis = self.axis(name)
        means: dict[str, NDArray[Any]] = {}
        half_widths: dict[str, NDArray[Any]] = {}
        for variable, values in self.numbers().items():
            means[variable], half_widths[f"{variable}_interval"] = mean_with_interval(values, axis, confidence)
        return replace(
            self,
            shape={dim: size for dim, size in self.shape.items() if dim != name},
            coordinates={key: item for key, item in self.coordinates.items() if item[0] != name},
            variables=means | half_widths,
        )
