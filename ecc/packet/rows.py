"""Rows of transfers: columns from what the engine hands out, and the Parquet file that they stream to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import EccError
from ecc.workload import LABELS

__all__ = ["FlowsFile", "columns", "flow_rows", "label_columns"]

ROWS = 65_536
"""Rows that are written at a time: a row group of the file."""


def flow_rows(flows: NDArray[np.void], results: NDArray[np.void]) -> NDArray[np.void]:
    """Return the results of a network's flows like those of transfers.

    Parameters
        flows : shape (n,), dtype FLOW. results : shape (n,), dtype FLOW_RESULT, of the same flows.
    """
    from ecc.native import TRANSFER_RESULT

    rows = np.zeros(len(flows), TRANSFER_RESULT)
    rows["number"], rows["start"], rows["size"], rows["flow"] = (
        range(len(flows)),
        flows["start"],
        flows["size"],
        results,
    )
    return rows


def columns(rows: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return the columns of `Trajectory.flows`: times in s, nan where there is none; sizes in bytes.

    Parameters
        rows : shape (n,), dtype TRANSFER_RESULT.
    """
    flow = rows["flow"]
    start = rows["start"] * 1e-12
    finish = np.where(flow["finish"] >= 0, flow["finish"] * 1e-12, np.nan)
    return {
        "start": start,
        "finish": finish,
        "size": np.where(rows["size"] >= 0, rows["size"].astype(float), np.nan),
        "completion_time": np.where(flow["completed"] == 1, finish - start, np.nan),
        "delivered": flow["delivered"].copy(),
        "lost": flow["lost"].copy(),
        "retransmitted": flow["retransmitted"].copy(),
        "min_rtt": np.where(flow["min_rtt"] > 0.0, flow["min_rtt"], np.nan),
        "idle_rtt": flow["idle_rtt"] * 1e-12,
    }


def label_columns(rows: NDArray[np.void], n_flows: int, labels: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return the columns that say of which connections transfers are: connection and unit, -1: none; wait [s], -1:
    it does not follow another; last: of those that follow one another.

    Parameters
        rows : shape (n,), dtype TRANSFER_RESULT. n_flows : of the network. labels : dtype LABELS, by transfer.
    """
    none = np.array([(-1, -1, -1, -1.0, -1)], LABELS)
    found = np.concatenate([labels, none])[np.maximum(rows["number"] - n_flows, -1)]
    return {name: found[name].copy() for name in LABELS.names or ()}


class FlowsFile:
    """Rows of transfers, in the order of their ends, on their way to a Parquet file.

    Parameters
        path : file to write. It holds rows only once it is closed.
        columns : what makes rows columns, by name.
    Raises
        EccError: pyarrow is not installed. OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path, columns: Callable[[NDArray[np.void]], Mapping[str, NDArray[Any]]]) -> None:
        from ecc.native import TRANSFER_RESULT

        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise EccError("flows_to needs pyarrow, which is not installed: pip install 'ecc[parquet]'") from None
        self._arrow, self._columns = pyarrow, columns
        self._writer = pyarrow.parquet.ParquetWriter(str(path), self._table(np.zeros(0, TRANSFER_RESULT)).schema)
        self._waiting: list[NDArray[np.void]] = []

    def write(self, rows: NDArray[np.void]) -> None:
        """Take rows; they are written when there are many.

        Parameters
            rows : shape (n,), dtype TRANSFER_RESULT.
        """
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= ROWS:
            self._flush()

    def _table(self, rows: NDArray[np.void]) -> Any:
        return self._arrow.table({"transfer": rows["number"].copy(), **self._columns(rows)})

    def _flush(self) -> None:
        self._writer.write_table(self._table(np.concatenate(self._waiting)))
        self._waiting = []

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        if self._waiting:
            self._flush()
        self._writer.close()
