"""Transfers of a run: drawn before their starts, and kept in memory or written to a file when they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import shown
from ecc._support.on_demand import ArraysOnDemand
from ecc.native import TRANSFER_RESULT
from ecc.packet.checkpoint import Checkpoint
from ecc.packet.setup import Setup
from ecc.packet.transfer_rows import FlowsFile, columns, label_columns, next_name
from ecc.scenario import Scenario
from ecc.traffic.workload import DRAWN, LABELS

__all__ = ["Transfers"]

CHUNK = 1_000
"""Minimum number of transfers drawn at a time; it never changes the result."""


class Transfers:
    """Transfers of a run: those to come, and the results of those that ended.

    Parameters
    ----------
    scenario : Scenario
    setup : Setup
    path : Path or None
        Parquet file for the rows of ended transfers, created by `open_file`; None: rows stay in memory.

    Raises
    ------
    EccError
        If a path is given and pyarrow is missing.
    """

    def __init__(self, scenario: Scenario, setup: Setup, path: Path | None) -> None:
        self._scenario, self._setup = scenario, setup
        self._has_labels = scenario.workload is not None and len(scenario.workload.tmix) > 0
        self._arriving = self._chunks()
        self._n_drawn = 0
        self._labels = [np.zeros(0, LABELS)]
        self._rows = [np.zeros(0, TRANSFER_RESULT)]
        self._file = None if path is None else FlowsFile(path, self.columns)
        self.has_file = path is not None
        """True if rows are or were written to a file."""

    def _chunks(self, skipped: int = 0) -> Iterator[NDArray[np.void]]:
        """Yield drawn transfers, CHUNK or more at a time, without the first `skipped`."""
        waiting: list[NDArray[np.void]] = []
        workload = self._scenario.workload
        for block in workload.blocks(self._scenario.seed, self._scenario.duration) if workload else ():
            waiting.append(block[skipped:])
            skipped = max(0, skipped - len(block))
            if sum(map(len, waiting)) >= CHUNK:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)

    def draw(self) -> NDArray[np.void]:
        """Return the next transfers in the format of the engines, dtype TRANSFER; empty after the last one."""
        drawn = next(self._arriving, np.zeros(0, DRAWN))
        self._n_drawn += len(drawn)
        if self._has_labels:
            self._labels.append(drawn["label"].copy())
        return self._setup.transfers(drawn)

    # ---- ended transfers -------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file to which further rows are written, or None."""
        return None if self._file is None else self._file.path

    def open_file(self) -> None:
        """Create the file, if rows are written to one and it is not open."""
        if self._file is not None:
            self._file.open()

    def keep(self, rows: NDArray[np.void]) -> None:
        """Store the results of ended transfers, or write them to the file.

        Parameters
        ----------
        rows : NDArray[void], shape (n,)
            Dtype TRANSFER_RESULT.
        """
        if len(rows) and self._file is not None:
            self._file.write(rows)
        elif len(rows):
            self._rows.append(rows)

    @property
    def is_open(self) -> bool:
        """True if rows are written to a file that is not finished."""
        return self._file is not None

    def close_file(self, alive: NDArray[np.void]) -> None:
        """Finish the file.

        Parameters
        ----------
        alive : NDArray[void], shape (n,)
            Results so far of the transfers that have not ended, which are written too.
        """
        assert self._file is not None
        self._file.write(alive)
        self._file.close()
        self._file = None

    @property
    def rows(self) -> NDArray[np.void]:
        """Results of ended transfers in memory, dtype TRANSFER_RESULT."""
        if len(self._rows) > 1:
            self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    @property
    def labels(self) -> NDArray[np.void]:
        """Connections of the drawn transfers, dtype LABELS; empty if the workload has no connections."""
        self._labels = [np.concatenate(self._labels)]
        return self._labels[0]

    def columns(self, rows: NDArray[np.void]) -> ArraysOnDemand:
        """Return the columns of rows, by name.

        Parameters
        ----------
        rows : NDArray[void], shape (n,)
            Dtype TRANSFER_RESULT.
        """
        return self.columns_of()(rows)

    def columns_of(self) -> Callable[[NDArray[np.void]], ArraysOnDemand]:
        """Return a function like `columns`, which does not change when the run continues."""
        return partial(_columns, self._setup, self.labels if self._has_labels else None)

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fields and arrays of a checkpoint; later rows go to another file."""
        if self._file is not None and self._file.is_open:
            self._file.close()
            self._file = FlowsFile(next_name(self._file.path), self.columns, is_new=True)
        about = {
            "handed": self._n_drawn,
            "has_file": self.has_file,
            "file": None if self._file is None else self._file.path.name,
        }
        return about, {"rows": self.rows, "labels": self.labels}

    def restore(self, saved: Checkpoint, path: Path | None = None) -> None:
        """Continue from a checkpoint.

        Parameters
        ----------
        saved : Checkpoint
        path : Path, optional
            File for further rows; None: the file named in the checkpoint.

        Raises
        ------
        ValueError
            If the transfers of the checkpoint are inconsistent, or if a path is given and rows stay in memory.
        """
        if path is not None and not saved.has_file:
            raise ValueError(f"flows_to must not be given: the run was started without it, got {shown(str(path))}")
        n_flows, n_templates = self._setup.n_flows, len(self._setup.flows) - self._setup.n_flows
        rows, labels = saved.array("rows", TRANSFER_RESULT), saved.array("labels", LABELS)
        number, template = rows["number"] - n_flows, rows["template_index"]
        if not ((number >= 0) & (number < saved.handed) & (template >= 0) & (template < n_templates)).all():
            raise ValueError("rows must be of existing transfers")
        if self._has_labels and len(labels) != saved.handed:
            raise ValueError(f"labels must be of {saved.handed} transfers, got {len(labels)}")
        self._rows, self._labels, self._n_drawn = [rows], [labels], saved.handed
        self._arriving = self._chunks(saved.handed)
        self.has_file = saved.has_file
        self._file = None if saved.file is None else FlowsFile(path or saved.file, self.columns, is_new=True)


def _columns(setup: Setup, labels: NDArray[np.void] | None, rows: NDArray[np.void]) -> ArraysOnDemand:
    """Return the columns of rows, with those on connections if there are labels."""
    table = columns(rows)
    number, n_flows = rows["number"], setup.n_flows

    def ideal_times() -> NDArray[Any]:
        index = np.where(number < n_flows, number, n_flows + rows["template_index"])
        return setup.ideal_times(index, table["size"], table["idle_rtt"])

    labeled = {} if labels is None else label_columns(rows, n_flows, labels).makers
    return ArraysOnDemand(table.makers | {"ideal_time": ideal_times} | labeled)
