"""Distributions of flow sizes by quantiles: tables of published measurements, of files, and user-defined ones.

A table has sizes and, for each, the share of flows up to that size. Between two sizes the distribution is uniform, and
a first share above 0 is that of flows of exactly the first size, as in simulations in the literature.

name          measured by                                          table                              mean
web-search    Alizadeh et al. 2010 (DCTCP), fig. 4                 HPCC (Li et al. 2019), bytes       1,711,250 bytes
data-mining   Greenberg et al. 2009 (VL2), fig. 2                  PIAS (Bai et al. 2015), packets    7,470,236 bytes
hadoop        Roy et al. 2015, fig. 6 (Facebook)                   HPCC, bytes                        120,421 bytes

The authors of these simulators have read the numbers off the figures. Each table was compared with a second source.
web-search: WebSearch_distribution.txt of HPCC's simulator. PIAS has the same table in packets, to within one packet of
1500 bytes, with a stated mean of 1138 packets of 1460 bytes, 1.66 MB.
data-mining: CDF_vl2 of PIAS, in packets of 1460 bytes; its mean is 5117 packets, as stated. The table of Opera
(Mellette et al. 2020) for the same figure has the same 80th, 90th and 99th percentiles within 3 %, but 1.85 MB instead
of 3.1 MB at the 95th, and minimum sizes of 100 bytes instead of a packet; its mean is 5.0 MB.
hadoop: FbHdp_distribution.txt of HPCC's simulator. Homa's table of the same figure (Facebook_HadoopDist_All) has the
same shares of flows at all of these sizes within 0.06, and a mean of 134,854 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, nearest, shown
from ecc._support.files import checked_digest, read_bytes
from ecc._support.quantity import as_number, as_size

__all__ = ["FLOW_SIZES", "FlowSizes", "flow_sizes", "read_flow_sizes"]

_MAX_SIZE = 2**24
"""Maximum size of a file with a table [bytes]."""


@check_arguments
@dataclass(frozen=True)
class FlowSizes:
    """A distribution of sizes by its quantiles.

    Parameters
    ----------
    table : sequence of (int, float)
        Pairs of a size, bytes, and the share of flows up to that size. Neither decreases, and the last share is 1.
        Sizes between two pairs are uniformly distributed. If two pairs have the same share, no flows are between them;
        if they have the same size, the difference of the shares is that of flows of this size. The first size may be 0,
        with the share 0.

    Raises
    ------
    ValueError, TypeError
        Pairs that do not meet these conditions.

    Examples
    --------
    >>> FlowSizes([(1000, 0.5), ("3 kB", 1)]).mean
    1500.0

    Two sizes, 9 out of 10 flows and 1 out of 10:

    >>> FlowSizes([("1 kB", 0.9), ("1 MB", 0.9), ("1 MB", 1)]).mean
    100900.0
    """

    table: Sequence[tuple[Any, float]]

    def __post_init__(self) -> None:
        table = self.table
        if isinstance(table, str) or not isinstance(table, Iterable):
            raise TypeError(f"table must be pairs (size, share), got {shown(table)}")
        pairs: list[tuple[int, float]] = []
        for pair in table:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise ValueError(f"table must be pairs (size, share), got {shown(pair)}")
            share = as_number(pair[1], "table", minimum=0.0)
            is_zero = not pairs and share == 0.0 and not isinstance(pair[0], str) and pair[0] == 0
            pairs.append((0 if is_zero else as_size(pair[0], "table"), share))
        for (size, share), (larger, more) in zip(pairs, pairs[1:], strict=False):
            if larger < size or more < share:
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
        """Return quantiles: the sizes that given shares of the flows do not exceed.

        Parameters
        ----------
        shares : float or sequence of float, from 0 to 1

        Returns
        -------
        NDArray[float64], bytes
            Sizes, in the shape of `shares`.

        Raises
        ------
        ValueError
            A share out of range.
        """
        values = np.asarray(shares, dtype=float)
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise ValueError(f"shares must be from 0 to 1, got {shown(shares)}")
        sizes, known = self._columns
        above = np.minimum(np.searchsorted(known, values, side="left"), len(known) - 1)
        below = np.maximum(above - 1, 0)
        width = known[above] - known[below]
        slope = np.divide(sizes[above] - sizes[below], width, out=np.zeros_like(width), where=width > 0.0)
        between = slope * (values - known[below]) + sizes[below]
        return np.asarray(np.where(values < known[above], between, sizes[above]))

    def draw(self, rng: np.random.Generator, n: int, mean: float | None = None) -> NDArray[np.int64]:
        """Return random sizes.

        Parameters
        ----------
        rng : random.Generator
            NumPy generator.
        n : int, >= 0
        mean : float, bytes, optional
            Mean to which sizes are scaled; default: that of the table.

        Returns
        -------
        NDArray[int64], shape (n,), bytes, > 0
        """
        drawn = self.quantile(rng.random(n)) * (1.0 if mean is None else mean / self.mean)
        return np.clip(np.rint(drawn), 1.0, 2.0**62).astype(np.int64)


FLOW_SIZES: Mapping[str, FlowSizes] = {
    "web-search": FlowSizes(
        [
            (1, 0.0),
            (10_000, 0.15),
            (20_000, 0.2),
            (30_000, 0.3),
            (50_000, 0.4),
            (80_000, 0.53),
            (200_000, 0.6),
            (1_000_000, 0.7),
            (2_000_000, 0.8),
            (5_000_000, 0.9),
            (10_000_000, 0.97),
            (30_000_000, 1.0),
        ]
    ),
    "data-mining": FlowSizes(
        [
            (1460 * packets, share)
            for packets, share in (
                (1, 0.5),
                (2, 0.6),
                (3, 0.7),
                (7, 0.8),
                (267, 0.9),
                (2107, 0.95),
                (66_667, 0.99),
                (666_667, 1.0),
            )
        ]
    ),
    "hadoop": FlowSizes(
        [
            (1, 0.0),
            (100, 0.01),
            (200, 0.02),
            (300, 0.05),
            (350, 0.15),
            (400, 0.2),
            (500, 0.3),
            (600, 0.4),
            (700, 0.5),
            (1000, 0.6),
            (2000, 0.67),
            (7000, 0.7),
            (30_000, 0.72),
            (50_000, 0.82),
            (80_000, 0.87),
            (120_000, 0.9),
            (300_000, 0.95),
            (1_000_000, 0.975),
            (2_000_000, 0.99),
            (10_000_000, 1.0),
        ]
    ),
}
"""Tables of published measurements, by name."""


def flow_sizes(given: Any) -> FlowSizes:
    """Return a distribution given by name, as an object, or by a table.

    Parameters
    ----------
    given : str, FlowSizes, or sequence of (int, float)

    Raises
    ------
    ValueError, TypeError
        An unknown name, or an invalid table.
    """
    if isinstance(given, FlowSizes):
        return given
    if isinstance(given, str):
        if given not in FLOW_SIZES:
            raise ValueError(
                f"sizes must be one of {', '.join(map(repr, FLOW_SIZES))}, or a table, got {shown(given)}"
                f"{nearest(given, dict.fromkeys(FLOW_SIZES, ''))}"
            )
        return FLOW_SIZES[given]
    if isinstance(given, Mapping):
        file = given.get("file")
        if not isinstance(file, str | Path) or set(given) - {"file", "unit", "digest"}:
            raise ValueError(f"a table of sizes must be pairs, or have a file and maybe a unit, got {shown(given)}")
        if given.get("digest") is not None:
            checked_digest(file, "file", given["digest"])
        return read_flow_sizes(file, given.get("unit", 1))
    return FlowSizes(given)


@check_arguments
def read_flow_sizes(file: str | Path, unit: int = 1) -> FlowSizes:
    """Return the distribution of sizes in a file, in one of the formats of simulators.

    Parameters
    ----------
    file : str or Path
        Text with one line for each size. Two columns: size, and share of flows up to that size, from 0 to 1
        (TrafficGenerator's `DCTCP_CDF.txt`) or in percent (HPCC's `WebSearch_distribution.txt`). Three columns: the
        middle one is ignored (ns-2's `loadCDF`, for example pFabric's `CDF_search.tcl`). Columns are separated by
        spaces or commas; "#" begins a comment.
    unit : int, bytes, > 0, optional
        Unit of the sizes: 1 for bytes, or for example 1460 for packets of that size, as in pFabric and PIAS.

    Returns
    -------
    FlowSizes

    Raises
    ------
    ValueError
        A line with other columns, or an invalid table. The message has the number of the line.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> read_flow_sizes("WebSearch_distribution.txt").mean  # doctest: +SKIP
    1711250.0
    """
    if unit < 1:
        raise ValueError(f"unit must be >= 1 byte, got {unit}")
    text = read_bytes(file, "file", _MAX_SIZE).decode("utf-8", errors="replace")
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            values = [float(word) for word in words]
        except ValueError:
            values = []
        if len(values) not in (2, 3) or not np.isfinite(values).all() or min(values) < 0.0:
            raise ValueError(
                f"a line must be a size and a share, or both with a number between, got {shown(line.strip())} "
                f"(line {number} of {str(file)!r})"
            )
        rows.append((values[0] * unit, values[-1]))
    if not rows or rows[-1][1] not in (1.0, 100.0):
        last = f"{rows[-1][1]:g}" if rows else "none"
        raise ValueError(f"the last share must be 1, or 100 percent, got {last} ({str(file)!r})")
    total = rows[-1][1]
    if len(rows) > 1 and rows[0][1] == 0.0:  # no flow has the first size, so it need not be a whole byte
        rows[0] = (float(int(rows[0][0])), 0.0)
    try:
        return FlowSizes([(size, share / total) for size, share in rows])
    except ValueError as error:
        raise ValueError(f"{error} ({str(file)!r})") from None
