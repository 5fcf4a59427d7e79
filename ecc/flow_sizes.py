"""Distributions of flow sizes by quantiles: tables of published measurements, and tables of one's own.

A table has sizes and, for each, the share of flows that are at most so large; between them sizes are uniformly
distributed, and a first share above 0 is that of flows of just the first size. Simulations in the literature draw these
tables so.

name          measured by                                          table                              mean
web-search    Alizadeh et al. 2010 (DCTCP), fig. 4                 HPCC (Li et al. 2019), bytes       1,711,250 bytes
data-mining   Greenberg et al. 2009 (VL2), fig. 2                  PIAS (Bai et al. 2015), packets    7,470,236 bytes
hadoop        Roy et al. 2015, fig. 6 (Facebook)                   HPCC, bytes                        120,421 bytes

The authors of these simulators have read the numbers off the figures. Each was compared with a second source.
web-search: WebSearch_distribution.txt of HPCC's simulator. PIAS has the same table in packets, within one of 1500
bytes, with a stated mean of 1138 packets of 1460 bytes, 1.66 MB.
data-mining: CDF_vl2 of PIAS, in packets of 1460 bytes, with a stated mean of 5117 packets, which it has. The table of
Opera (Mellette et al. 2020) for the same figure has the same 80th, 90th and 99th percentiles within 3 %, but 1.85 MB
for 3.1 MB at the 95th, and sizes from 100 bytes on where this one has a packet; its mean is 5.0 MB.
hadoop: FbHdp_distribution.txt of HPCC's simulator. Homa's table of the same figure (Facebook_HadoopDist_All) has the
same shares of flows at all of these sizes within 0.06, and a mean of 134,854 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.arguments import check_arguments, shown
from ecc.quantity import as_number, as_size

__all__ = ["FLOW_SIZES", "FlowSizes", "flow_sizes"]


@check_arguments
@dataclass(frozen=True)
class FlowSizes:
    """A distribution of sizes by its quantiles.

    Parameters
    ----------
    table : sequence of (int, float)
        Pairs of a size, bytes, and the share of flows that are at most so large: both ascending, the last share 1.

    Raises
    ------
    ValueError, TypeError
        No such pairs.

    Examples
    --------
    >>> FlowSizes([(1000, 0.5), ("3 kB", 1)]).mean
    1500.0
    """

    table: Sequence[tuple[Any, float]]

    def __post_init__(self) -> None:
        given = self.table
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"table must be pairs (size, share), got {shown(given)}")
        pairs = []
        for pair in given:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise ValueError(f"table must be pairs (size, share), got {shown(pair)}")
            pairs.append((as_size(pair[0], "table"), as_number(pair[1], "table", minimum=0.0)))
        for (size, share), (larger, more) in zip(pairs, pairs[1:], strict=False):
            if larger < size or more <= share:
                raise ValueError(f"table must ascend in sizes and shares, got {(larger, more)} after {(size, share)}")
        if not pairs or pairs[-1][1] != 1.0:
            raise ValueError(f"table must end with the share 1, got {shown(pairs[-1:])}")
        object.__setattr__(self, "table", tuple(pairs))

    @cached_property
    def _columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        sizes, shares = np.array(self.table, dtype=float).T
        return sizes, shares

    @property
    def mean(self) -> float:
        """Mean size, bytes."""
        sizes, shares = self._columns
        return float(shares[0] * sizes[0] + np.diff(shares) @ (sizes[1:] + sizes[:-1]) / 2.0)

    def quantile(self, shares: Any) -> NDArray[np.float64]:
        """Return the sizes that these shares of the flows do not exceed.

        Parameters
        ----------
        shares : float or sequence of float, from 0 to 1

        Returns
        -------
        NDArray[float64], bytes
            Of the shape of `shares`.

        Raises
        ------
        ValueError
            A share out of range.
        """
        given = np.asarray(shares, dtype=float)
        if not ((given >= 0.0) & (given <= 1.0)).all():
            raise ValueError(f"shares must be from 0 to 1, got {shown(shares)}")
        sizes, known = self._columns
        return np.asarray(np.interp(given, known, sizes))

    def draw(self, rng: np.random.Generator, n: int, mean: float | None = None) -> NDArray[np.int64]:
        """Return random sizes.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        n : int, >= 0
        mean : float, bytes, optional
            Sizes are scaled from the mean of the table to this one.

        Returns
        -------
        NDArray[int64], shape (n,), bytes, > 0
        """
        drawn = self.quantile(rng.random(n)) * (1.0 if mean is None else mean / self.mean)
        return np.clip(np.rint(drawn), 1.0, 2.0**62).astype(np.int64)


FLOW_SIZES: Mapping[str, FlowSizes] = {
    "web-search": FlowSizes([
        (1, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53), (200_000, 0.6),
        (1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9), (10_000_000, 0.97), (30_000_000, 1.0),
    ]),
    "data-mining": FlowSizes([
        (1460 * packets, share) for packets, share in (
            (1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66_667, 0.99), (666_667, 1.0),
        )
    ]),
    "hadoop": FlowSizes([
        (1, 0.0), (100, 0.01), (200, 0.02), (300, 0.05), (350, 0.15), (400, 0.2), (500, 0.3), (600, 0.4), (700, 0.5),
        (1000, 0.6), (2000, 0.67), (7000, 0.7), (30_000, 0.72), (50_000, 0.82), (80_000, 0.87), (120_000, 0.9),
        (300_000, 0.95), (1_000_000, 0.975), (2_000_000, 0.99), (10_000_000, 1.0),
    ]),
}  # fmt: skip
"""The tables of published measurements, by name."""


def flow_sizes(given: Any) -> FlowSizes:
    """Return a distribution by its name, as it is, or from a table.

    Parameters
    ----------
    given : str, FlowSizes, or sequence of (int, float)

    Raises
    ------
    ValueError, TypeError
        An unknown name, or no table.
    """
    if isinstance(given, FlowSizes):
        return given
    if isinstance(given, str):
        if given not in FLOW_SIZES:
            raise ValueError(f"sizes must be one of {', '.join(map(repr, FLOW_SIZES))}, or a table, got {shown(given)}")
        return FLOW_SIZES[given]
    return FlowSizes(given)
