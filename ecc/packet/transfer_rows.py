"""Rows of transfers: columns of the engine's results, and the Parquet file to which they are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.files import unfinished
from ecc._support.on_demand import ArraysOnDemand
from ecc.errors import EccError, install_command
from ecc.traffic.workload import LABELS

__all__ = ["FlowsFile", "columns", "flow_rows", "label_columns", "next_name"]

ROWS = 65_536
"""Number of rows written at once, as a row group of the file."""


def flow_rows(flows: NDArray[np.void], results: NDArray[np.void]) -> NDArray[np.void]:
    """Return the results of a network's flows in the form of results of transfers.

    Parameters
    ----------
    flows : NDArray[void], shape (n,)
        Dtype FLOW.
    results : NDArray[void], shape (n,)
        Dtype FLOW_RESULT, of the same flows.
    """
    from ecc.native import TRANSFER_RESULT

    rows = np.zeros(len(flows), TRANSFER_RESULT)
    rows["end"] = -1
    rows["number"], rows["start"], rows["size"], rows["flow"] = (
        range(len(flows)),
        flows["start"],
        flows["size"],
        results,
    )
    return rows


def columns(rows: NDArray[np.void]) -> ArraysOnDemand:
    """Return the columns of `Trajectory.flows`: times in s, NaN if undefined; sizes in bytes.

    Parameters
    ----------
    rows : NDArray[void], shape (n,)
        Dtype TRANSFER_RESULT.
    """
    flow = rows["flow"]
    return ArraysOnDemand(
        {
            "start": lambda: rows["start"] * 1e-12,
            "finish": lambda: np.where(flow["finish"] >= 0, flow["finish"] * 1e-12, np.nan),
            "size": lambda: np.where(rows["size"] >= 0, rows["size"].astype(float), np.nan),
            "completion_time": lambda: np.where(
                flow["completed"] == 1, (flow["finish"] - rows["start"]) * 1e-12, np.nan
            ),
            "delivered": lambda: flow["delivered"].copy(),
            "lost": lambda: flow["lost"].copy(),
            "retransmitted": lambda: flow["retransmitted"].copy(),
            "marked": lambda: flow["marked"].copy(),
            "min_rtt": lambda: np.where(flow["min_rtt"] > 0.0, flow["min_rtt"], np.nan),
            "idle_rtt": lambda: flow["idle_rtt"] * 1e-12,
        }
    )


def label_columns(rows: NDArray[np.void], n_flows: int, labels: NDArray[np.void]) -> ArraysOnDemand:
    """Return the columns on the connections of transfers.

    They are connection and unit (-1: none), wait [s] (-1: the transfer does not follow another one), and last, which is
    1 for the last transfer of a chain.

    Parameters
    ----------
    rows : NDArray[void], shape (n,)
        Dtype TRANSFER_RESULT.
    n_flows : int
        Number of flows of the network.
    labels : NDArray[void]
        Dtype LABELS, by transfer.
    """

    @cache
    def selected() -> NDArray[np.void]:
        unlabeled = np.array([(-1, -1, -1, -1.0, -1)], LABELS)
        chosen: NDArray[np.void] = np.concatenate([labels, unlabeled])[np.maximum(rows["number"] - n_flows, -1)]
        return chosen

    return ArraysOnDemand({name: partial(lambda name: selected()[name].copy(), name) for name in LABELS.names or ()})


class FlowsFile:
    """A Parquet file of the rows of transfers, in the order of their ends and numbers.

    Parameters
    ----------
    path : Path
        File to write, for example "flows.parquet". Until it is closed, its rows are in a hidden file.
    columns : callable
        Function that converts rows to columns by name.
    is_new : bool, optional
        Whether to keep an existing file and write to the first free name of the form "...-1", "...-2" instead.

    Raises
    ------
    EccError
        If pyarrow is not installed.
    """

    def __init__(
        self,
        path: Path,
        columns: Callable[[NDArray[np.void]], Mapping[str, NDArray[Any]]],
        is_new: bool = False,
    ) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise EccError(f"flows_to needs pyarrow, which is not installed: {install_command('parquet')}") from None
        self._arrow, self._columns, self.path, self._is_new = pyarrow, columns, path, is_new
        self._writer: Any = None
        self._waiting: list[NDArray[np.void]] = []

    @property
    def is_open(self) -> bool:
        """True if the file has been created."""
        return self._writer is not None

    def open(self) -> None:
        """Create the file if it is not open.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from ecc.native import TRANSFER_RESULT

        if not self.is_open:
            self._choose_name()
            is_special = self.path.exists() and not self.path.is_file()  # a device or pipe is written directly
            self._part = self.path if is_special else unfinished(self.path)
            self._file = self._part.open("wb")
            schema = self._table(np.zeros(0, TRANSFER_RESULT)).schema
            self._writer = self._arrow.parquet.ParquetWriter(self._file, schema)

    def _choose_name(self) -> None:
        while self._is_new and os.path.lexists(self.path):
            self.path = next_name(self.path)

    def write(self, rows: NDArray[np.void]) -> None:
        """Add rows, which are written in groups.

        Parameters
        ----------
        rows : NDArray[void], shape (n,)
            Dtype TRANSFER_RESULT.
        """
        self._waiting.append(rows)
        if self.is_open and sum(map(len, self._waiting)) >= ROWS:
            self._flush()

    def _table(self, rows: NDArray[np.void]) -> Any:
        return self._arrow.table({"transfer": rows["number"].copy(), **self._columns(rows)})

    def _flush(self) -> None:
        self._writer.write_table(self._table(np.concatenate(self._waiting)))
        self._waiting = []

    def close(self) -> None:
        """Write the remaining rows and finish the file."""
        self.open()
        if self._waiting:
            self._flush()
        self._writer.close()
        self._file.flush()
        if self._part != self.path:
            os.fsync(self._file.fileno())
        self._file.close()
        if self._part != self.path:
            self._choose_name()
            os.replace(self._part, self.path)


def next_name(path: Path) -> Path:
    """Return the next name of a file: flows-1.parquet after flows.parquet, then flows-2.parquet.

    Parameters
    ----------
    path : Path
    """
    stem, _, number = path.stem.rpartition("-")
    if stem and number.isdecimal():
        return path.with_stem(f"{stem}-{int(number) + 1}")
    return path.with_stem(f"{path.stem}-1")
