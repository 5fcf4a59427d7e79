"""Rows of transfers: columns from what the engine hands out, and the Parquet file that they stream to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.errors import EccError

__all__ = ["COLUMNS", "FlowsFile", "columns", "flow_rows"]

COLUMNS = ("start", "finish", "size", "completion_time", "delivered", "lost", "retransmitted")
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
    }


class FlowsFile:
    """Rows of transfers, in the order of their ends, on their way to a Parquet file.

    Parameters
        path : file to write. It holds rows only once it is closed.
    Raises
        EccError: pyarrow is not installed. OSError: the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise EccError("flows_to needs pyarrow, which is not installed: pip install 'ecc[parquet]'") from None
        types = [(name, pyarrow.int64() if name in COLUMNS[4:] else pyarrow.float64()) for name in COLUMNS]
        self._arrow = pyarrow
        self._schema = pyarrow.schema([("transfer", pyarrow.int64()), *types])
        self._writer = pyarrow.parquet.ParquetWriter(str(path), self._schema)
        self._waiting: list[NDArray[np.void]] = []

    def write(self, rows: NDArray[np.void]) -> None:
        """Take rows; they are written when there are many.

        Parameters
            rows : shape (n,), dtype TRANSFER_RESULT.
        """
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        rows = np.concatenate(self._waiting)
        table = self._arrow.table({"transfer": rows["number"].copy(), **columns(rows)}, schema=self._schema)
        self._writer.write_table(table)
        self._waiting = []

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        if self._waiting:
            self._flush()
        self._writer.close()
