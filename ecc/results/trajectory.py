"""Results of all engines: labelled time series of rates and queues, a table of transfers, counts of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import first_notes
from ecc._support.files import replacing
from ecc._support.on_demand import ArraysOnDemand
from ecc._support.quantity import as_count, as_size
from ecc.errors import EccError
from ecc.scenario import MAX_SAMPLED_QUEUES

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import xarray as xr

__all__ = ["SERIES", "Trajectory"]

SERIES: Mapping[str, tuple[str, str, str]] = {
    "rate": ("flow", "bit/s", "sending rate, averaged over each sample"),
    "goodput": ("flow", "bit/s", "delivered, averaged over each sample"),
    "bottleneck": ("flow", "", "link at which the flow is bottlenecked, -1 before any feedback"),
    "rtt": ("flow", "s", "round-trip time, mean of the measurements in each sample, NaN without any"),
    "rtt_max": ("flow", "s", "longest round-trip time measured in each sample, NaN without any"),
    "queue": ("link", "bytes", "queue at the sample instant"),
    "queue_max": ("link", "bytes", "peak queue within each sample"),
    "queue_mean": ("link", "bytes", "queue averaged over the time of each sample"),
    "arrival": ("link", "bit/s", "arrival rate, averaged over each sample"),
    "drops": ("link", "packets", "dropped in each sample"),
    "dropped_bytes": ("link", "bytes", "dropped in each sample, bytes removed by trimming included"),
    "marks": ("link", "packets", "marked in each sample"),
    "paused": ("link priority", "", "share of each sample in which the link was paused (PFC), by priority"),
    "pauses": ("link priority", "frames", "PAUSE frames sent to the link in each sample, by priority"),
    "class_queue": ("class", "bytes", "in each queue of links with 2 to 64 queues, link by link"),
    "class_drops": ("class", "packets", "dropped in each sample by each of these queues"),
    "class_marks": ("class", "packets", "marked in each sample in each of these queues"),
}
"""Series of a trajectory: name -> (other dimensions, unit, meaning). The first dimension is `time`: end of sample."""


EVENTS = (
    "departure",
    "hop",
    "access",
    "ack",
    "send",
    "interval",
    "start",
    "stop",
    "timer",
    "timeout",
    "flush",
    "drop",
    "loss",
    "ack loss",
    "mark",
    "trim",
    "pause",
    "resume",
)
"""Names of the events of the packet engine in a trace, by number."""


RECORDED_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("env.rate", "flow.x"), "bit/s"),
    **dict.fromkeys(("env.rtt", "env.srtt", "env.min_rtt"), "s"),
    **dict.fromkeys(
        ("env.window", "env.in_flight", "env.delivered", "env.lost", "env.packet_size", "env.size", "env.header_bytes"),
        "bytes",
    ),
}
"""Units of recorded series that are the same for all protocols; other states have the unit of their `State`, if any."""

_MEASURED = ("env.rtt", "env.srtt", "env.min_rtt")
"""Recorded series that are NaN in results before the first measurement; hooks then see 0, fluids propagation."""


_CONTENTS, _FORMAT = "ecc_trajectory", 1
"""Attribute of a netCDF file with its table of contents, and the version of the format."""


def _description(over: str, unit: str, meaning: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the dimensions and attributes of a series."""
    return ("time", *over.split()), {"units": unit, "long_name": meaning}


_DESCRIPTIONS = {name: _description(*row) for name, row in SERIES.items()}

Variable = tuple[tuple[str, ...], NDArray[Any], Mapping[str, str]]
"""Dimensions, values and attributes of a series."""


class _OnDemand:
    """Dataset, table and notes of a trajectory, made from arrays when first used.

    They take several times as long as a short packet run, and many runs are only asked for one number.
    """

    _make_columns: Callable[[], Mapping[str, Any]]
    _make_attributes: Callable[[], Mapping[str, Any]]
    _make_notes: Callable[[], Iterable[str]]
    _time: NDArray[np.float64]
    _arrays: Mapping[str, Any]
    _units: Mapping[str, str]
    _classes: Any
    _counts: Mapping[str, Any]

    @cached_property
    def data(self) -> xr.Dataset:
        import xarray as xr

        variables = {name: self._variable(name) for name in self._arrays}
        coordinates = _coordinates(self._time, variables.values(), self._classes)
        return xr.Dataset(variables, coordinates, dict(self._attributes))

    @cached_property
    def flows(self) -> pd.DataFrame:
        return _table(self._columns)

    @cached_property
    def stats(self) -> Mapping[str, Any]:
        return {"notes": tuple(self._make_notes()), **self._counts}

    @cached_property
    def _columns(self) -> Mapping[str, Any]:
        return self._make_columns()

    @cached_property
    def _attributes(self) -> Mapping[str, Any]:
        return self._make_attributes()

    def _variable(self, name: str) -> Variable:
        """Return the dimensions, values and attributes of a series."""
        dims, about = _DESCRIPTIONS.get(name) or _description(*_recorded(name, self._units))
        values = np.asarray(self._arrays[name])
        if name in _MEASURED:
            values = _measured(values.astype(float), self._time, self._columns.get("start"))
        return dims, values, about

    @cached_property
    def _labeled(self) -> dict[str, xr.DataArray]:
        """Labeled series that have been used."""
        return {}

    def _attribute(self, name: str) -> Any:
        """Return an attribute of `data`, for example "engine", or None; it need not label the series for this.

        Parameters
        ----------
        name : str
            "engine", "protocol", "scenario", "seed" or "version".
        """
        return (self.data.attrs if "data" in self.__dict__ else self._attributes).get(name)

    @cached_property
    def _spans(self) -> dict[tuple[float, ...], NDArray[np.bool_]]:
        """Samples that end in spans of time; most metrics of a run have the same span."""
        return {}


@check_arguments
@dataclass(frozen=True, repr=False)
class Trajectory(_OnDemand):
    """The result of a run.

    `data` is an xarray Dataset with dimensions time [s, end of each sample], flow and link, and the series of `SERIES`,
    which are properties of this object, too (`run.rate`, `run.queue`, ...). `flows` is a DataFrame with one row a
    transfer: start, finish, size, completion_time, delivered, lost, retransmitted [s, bytes]; in packet runs also
    min_rtt, the minimum of the measured RTTs, idle_rtt, without queues and transmission, and ideal_time, the completion
    time without other flows; and protocol, if there are several.
    `stats` holds counts and costs of the run, for example `stopped`, the reason why it ended, and `notes`, a tuple of
    remarks of one line each. Optional: `trace`, a DataFrame of the first events (time [s], event, entity: index of the
    flow or link, value), and `queues`, histograms of the queue lengths, for `queue_quantiles`.
    """

    data: xr.Dataset = field()
    flows: pd.DataFrame = field()
    stats: Mapping[str, Any] = field(default_factory=dict)
    queues: xr.Dataset | None = None
    trace: pd.DataFrame | None = None

    @classmethod
    def build(
        cls,
        time: Any,
        series: Mapping[str, Any],
        flows: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        stats: Mapping[str, Any],
        attributes: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        histogram: tuple[Any, Any] | None = None,
        trace: Any = None,
        classes: Any = None,
        units: Mapping[str, str] | None = None,
        notes: Callable[[], Iterable[str]] | None = None,
    ) -> Trajectory:
        """Return a trajectory from plain arrays.

        Parameters
        ----------
        time : object, shape (n_times,), s
        series : mapping
            Arrays (n_times, n_flows or n_links) by name: of `SERIES`, or of a recorded field, for example "flow.x"
            (prefix "link.", "flow." or "env."). Those of `ArraysOnDemand` are made when they are used, without checks.
        flows : mapping or callable
            Columns by name, each with one entry per transfer (`transfer`: its number); or a function that returns them,
            called when `flows` is first used.
        stats : mapping
            Counts and costs of the run.
        attributes : mapping or callable
            Description of the run (scenario as TOML, seed, version, engine); or a function that returns it, called when
            `data` is first used.
        histogram : tuple of two object, optional
            Edges of n bins, shape (n + 1,), bytes, and shape (n_links, 2, n): time [s] and arrivals by bin.
        trace : object, optional
            Structured array with time [ps], kind, entity and value.
        classes : object, optional
            Shape (2, n_classes): link of each class, and index of its queue at the link.
        units : mapping, optional
            Units of recorded states by name of the series.
        notes : callable, optional
            Function that returns the notes of `stats`, called when `stats` is first used.

        Raises
        ------
        KeyError
            A series that is neither in `SERIES` nor recorded.
        ValueError
            Series with different numbers of samples, flows or links.
        """
        run = object.__new__(cls)
        run.__dict__.update(
            queues=None if histogram is None else _histograms(*map(np.asarray, histogram)),
            trace=None if trace is None else _events(trace),
            _make_columns=flows if callable(flows) else partial(dict, flows),
            _make_attributes=attributes if callable(attributes) else partial(dict, attributes),
            _make_notes=notes or tuple,
            _time=np.asarray(time, dtype=float),
            _arrays=series if isinstance(series, ArraysOnDemand) else dict(series),
            _units=units or {},
            _classes=classes,
            _counts=dict(stats),
        )
        if not isinstance(series, ArraysOnDemand):
            _check_sizes(run._time, {name: run._variable(name) for name in series})
        return run

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a copy or another process, with the dataset and the table."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def __getitem__(self, name: str) -> xr.DataArray:
        """Return a series by name.

        Parameters
        ----------
        name : str
            Name in `SERIES`, or of a recorded field, for example "flow.x".
        """
        if (series := self._find(name)) is not None:
            return series
        raise KeyError(f"this run has no series {name!r}; it has {', '.join(map(str, self.data))}")

    def _find(self, name: str) -> xr.DataArray | None:
        """Return a series by name, or None; the first use of one does not label the others."""
        if "data" in self.__dict__:
            return self.data[name] if name in self.data.data_vars else None
        if name not in self._arrays:
            return None
        if name not in self._labeled:
            import xarray as xr

            variable = dims, values, about = self._variable(name)
            coordinates = _coordinates(self._time, [variable], self._classes)
            self._labeled[name] = xr.DataArray(values, coordinates, dims, name, about)
        return self._labeled[name]

    def has(self, name: str) -> bool:
        """Return whether the run has a series.

        Parameters
        ----------
        name : str
            Name in `SERIES`, or of a recorded field.
        """
        return name in (self.data.data_vars if "data" in self.__dict__ else self._arrays)

    def values(self, name: str) -> NDArray[Any]:
        """Return a series as an array without labels, which takes much less time than a series with labels.

        Parameters
        ----------
        name : str
            Name in `SERIES`, or of a recorded field; "time" for the ends of the samples.

        Returns
        -------
        ndarray, shape (n_times, n_flows or n_links)
            Array that shares its memory with the labeled series; (n_times,) for "time".

        Raises
        ------
        ValueError
            If the run has no such series.

        Examples
        --------
        >>> run = ecc.packet.simulate(ecc.Scenario(ecc.Network.dumbbell("1 Mb/s", [0.1]), ecc.models.QIRCP(), 1.0))
        >>> run.values("rate").shape
        (10, 1)
        """
        return self._values(name)

    def _values(self, name: str) -> NDArray[Any]:
        """Return a series like `values`, without a check of the argument, which takes longer."""
        if "data" not in self.__dict__:
            if name == "time":
                return self._time
            if name in self._arrays:
                return self._variable(name)[1]
        if name != "time" and not self.has(name):
            raise ValueError(f"name must be a series of this run, {', '.join(map(str, self.data))}, got {shown(name)}")
        array: NDArray[Any] = self.data[name].to_numpy()
        return array

    def column(self, name: str) -> NDArray[Any] | None:
        """Return a column of `flows` as an array without labels, or None if the run has no such column.

        Parameters
        ----------
        name : str
            Name of the column, for example "finish".
        """
        return self._column(name)

    def _column(self, name: str) -> NDArray[Any] | None:
        """Return a column like `column`, without a check of the argument."""
        if "flows" in self.__dict__:
            return self.flows[name].to_numpy() if name in self.flows else None
        column = self._columns.get(name)
        return None if column is None else np.asarray(column)

    def _series(self, name: str) -> xr.DataArray:
        if (series := self._find(name)) is not None:
            return series
        needs = f" (links with 2 to {MAX_SAMPLED_QUEUES} queues have one)" if name.startswith("class_") else ""
        raise AttributeError(f"this run has no series {name!r}{needs}; it has {', '.join(map(str, self.data))}")

    @property
    def rate(self) -> xr.DataArray:
        """Sending rate, averaged over each sample [bit/s], over (time, flow)."""
        return self._series("rate")

    @property
    def goodput(self) -> xr.DataArray:
        """Delivery rate, averaged over each sample [bit/s], over (time, flow)."""
        return self._series("goodput")

    @property
    def bottleneck(self) -> xr.DataArray:
        """Index of the link at which the flow is bottlenecked, -1 before any feedback, over (time, flow)."""
        return self._series("bottleneck")

    @property
    def rtt(self) -> xr.DataArray:
        """Round-trip time [s], mean of the sender's measurements in each sample, over (time, flow); in packet runs.

        NaN in samples without acknowledgments, for example before the flow starts.
        """
        return self._series("rtt")

    @property
    def rtt_max(self) -> xr.DataArray:
        """Longest round-trip time that the sender measured in each sample [s], over (time, flow); in packet runs."""
        return self._series("rtt_max")

    @property
    def queue(self) -> xr.DataArray:
        """Queue at the sample instant [bytes], over (time, link)."""
        return self._series("queue")

    @property
    def queue_max(self) -> xr.DataArray:
        """Peak queue within each sample [bytes], over (time, link)."""
        return self._series("queue_max")

    @property
    def queue_mean(self) -> xr.DataArray:
        """Queue averaged over the time of each sample [bytes], over (time, link); in packet runs."""
        return self._series("queue_mean")

    @property
    def arrival(self) -> xr.DataArray:
        """Arrival rate, averaged over each sample [bit/s], over (time, link)."""
        return self._series("arrival")

    @property
    def drops(self) -> xr.DataArray:
        """Packets dropped in each sample, over (time, link)."""
        return self._series("drops")

    @property
    def dropped_bytes(self) -> xr.DataArray:
        """Bytes dropped in each sample, including those that trimming removed, over (time, link)."""
        return self._series("dropped_bytes")

    @property
    def marks(self) -> xr.DataArray:
        """Packets marked (ECN) in each sample, over (time, link); in packet runs."""
        return self._series("marks")

    @property
    def paused(self) -> xr.DataArray:
        """Share of each sample in which a link was paused (PFC), over (time, link, priority)."""
        return self._series("paused")

    @property
    def pauses(self) -> xr.DataArray:
        """PAUSE frames (PFC) sent to a link in each sample, over (time, link, priority)."""
        return self._series("pauses")

    @property
    def class_queue(self) -> xr.DataArray:
        """Bytes in each queue of links with 2 to 64 queues, over (time, class).

        The coordinates `class_link` and `class_index` of a class are its link and the index of its queue there.
        """
        return self._series("class_queue")

    @property
    def class_drops(self) -> xr.DataArray:
        """Packets dropped in each sample, over (time, class), like `class_queue`."""
        return self._series("class_drops")

    @property
    def class_marks(self) -> xr.DataArray:
        """Packets marked (ECN) in each sample, over (time, class), like `class_queue`."""
        return self._series("class_marks")

    @property
    def transfers(self) -> pd.DataFrame:
        """Rows of `flows` for transfers of a workload, without the flows of the network, which have series too."""
        return self.flows.iloc[int(self.data.sizes.get("flow", 0)) :]

    @property
    def stopped(self) -> str:
        """Reason why the run ended; "completed" if it reached its duration."""
        stats = self._counts if "_counts" in self.__dict__ else self.stats
        return str(stats.get("stopped", "completed"))

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run, one line each: `stats["notes"]`."""
        return tuple(self.stats.get("notes", ()))

    @property
    def is_complete(self) -> bool:
        """False for a run that was interrupted or failed, which has its results up to then."""
        return self.stopped == "completed"

    def raise_if_incomplete(self, samples: int | None = None) -> None:
        """Raise an error with the reason if the run ended early or is void, for callers that need all of it.

        Parameters
        ----------
        samples : int or None
            Number of samples that suffice. None: the run must be complete.

        Raises
        ------
        EccError
            A hook or law failed, memory ran out, or the run was canceled; or it is a void live run.
        KeyboardInterrupt
            Ctrl-C ended the run.
        """
        stats = self._counts if "_counts" in self.__dict__ else self.stats
        if void := stats.get("void"):
            raise EccError(f"live runs are void, {stats['attempts']} of {stats['attempts']}: {void}")
        if self.is_complete or (samples is not None and self.data.sizes["time"] >= samples):
            return
        if self.stopped == "interrupted":
            raise KeyboardInterrupt
        engine = self.data.attrs.get("engine", "")
        raise EccError(
            f"the {engine} run ended early: {self.stopped}" if engine else f"run ended early: {self.stopped}"
        )

    def queue_quantiles(self, quantiles: ArrayLike, by: str = "time") -> xr.DataArray:
        """Return quantiles of the queues: exact below 256 bytes, within 1/128 above.

        Parameters
        ----------
        quantiles : float or sequence of float, from 0 to 1
        by : str, optional
            "time": quantiles over time; "arrivals": quantiles over the packets at their arrival.

        Returns
        -------
        DataArray, shape (n_quantiles, n_links), bytes

        Raises
        ------
        ValueError
            If queues were not counted (`histogram_from=`), a quantile is out of range, or `by` is unknown.
        """
        import xarray as xr

        shares, queues = np.atleast_1d(np.asarray(quantiles, float)), self._counted(by)
        if not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise ValueError(f"quantiles must be from 0 to 1, got {shown(quantiles)}")
        counts = queues[by].to_numpy()
        reached = np.cumsum(counts, axis=1)
        bins = [np.searchsorted(row, shares * row[-1] * (1.0 - 1e-12), side="left") for row in reached]
        values = queues["lowest"].to_numpy()[np.minimum(np.array(bins).T, counts.shape[1] - 1)]
        return xr.DataArray(values, dims=("quantile", "link"), coords={"quantile": shares}, attrs={"units": "bytes"})

    def queue_below(self, size: Any, by: str = "time") -> xr.DataArray:
        """Return the share of the time, or of the arrivals, with a queue below a size.

        Parameters
        ----------
        size : int, bytes, > 0
        by : str, optional
            See `queue_quantiles`.

        Returns
        -------
        DataArray, shape (n_links,)
            Share from 0 to 1. The bin that contains the size is interpolated linearly.

        Raises
        ------
        ValueError
            If queues were not counted, or `by` is unknown.
        """
        import xarray as xr

        queues, limit = self._counted(by), as_size(size, "size")
        lowest, above = queues["lowest"].to_numpy(), queues["above"].to_numpy()
        part = np.clip((limit - lowest) / (above - lowest), 0.0, 1.0)
        counts = queues[by].to_numpy()
        return xr.DataArray((counts * part).sum(axis=1) / counts.sum(axis=1), dims=("link",))

    def _counted(self, by: str) -> xr.Dataset:
        if self.queues is None:
            raise ValueError("queues were not counted in this run: simulate(..., histogram_from=0.0) does so")
        if by not in ("time", "arrivals"):
            raise ValueError(f"by must be 'time' or 'arrivals', got {shown(by)}")
        return self.queues

    def to_dataframe(self, series: str) -> pd.DataFrame:
        """Return one series as a DataFrame: time down, flows or links across.

        Parameters
        ----------
        series : str
            Name in `SERIES`, or of a recorded field.

        Raises
        ------
        ValueError
            If the run has no such series.
        """
        if series not in self.data.data_vars:
            raise ValueError(f"series must be one of {', '.join(map(str, self.data))}, got {shown(series)}")
        frame: pd.DataFrame = self[series].to_pandas()
        return frame

    # ---- files -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the whole run to a netCDF file, for `Trajectory.load` and any reader of netCDF.

        Series keep their names; flows, counts of queues and trace are the variables "flows.*", "queues.*" and
        "trace.*". The attribute "scenario" is the TOML of the scenario.

        Parameters
        ----------
        path : str or Path
            File. An existing one is replaced when the new one is complete.

        Raises
        ------
        WriteError
            The file cannot be written.
        """
        import xarray as xr

        variables: dict[str, Any] = {}
        about: dict[str, Any] = {
            "format": _FORMAT,
            "stats": dict(self.stats),
            "attrs": dict(self.data.attrs),
            "kinds": {},
        }
        for part, table in (("", self.data), ("flows", self.flows), ("queues", self.queues), ("trace", self.trace)):
            if table is None:
                continue
            prefix = f"{part}." if part else ""
            dataset = (
                table
                if isinstance(table, xr.Dataset)
                else table.rename_axis(index=table.index.name or "row").to_xarray()
            )
            about[part] = [list(map(str, dataset.data_vars)), list(map(str, dataset.coords))]
            for name, variable in dataset.variables.items():
                values = variable.to_numpy()
                about["kinds"][f"{prefix}{name}"] = str(values.dtype)
                over = [f"{prefix}{dimension}" for dimension in variable.dims]
                variables[f"{prefix}{name}"] = (over, _as_netcdf3(values), variable.attrs, {"_FillValue": None})
        text = {key: str(value) for key, value in self.data.attrs.items()}
        attributes = text | {_CONTENTS: json.dumps(about, default=lambda value: value.tolist())}
        with replacing(path) as part_of_it:
            xr.Dataset(variables, attrs=attributes).to_netcdf(part_of_it, engine="scipy")

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Return the run that `save` wrote.

        Parameters
        ----------
        path : str or Path
            File.

        Raises
        ------
        ValueError
            If the file is of another kind, or incomplete.
        OSError
            If the file cannot be read.
        """
        import xarray as xr

        with Path(path).open("rb"):  # a missing or unreadable file raises its own error
            pass
        try:
            dataset = xr.load_dataset(path, engine="scipy", decode_times=False)
            about = json.loads(dataset.attrs[_CONTENTS])
            if about["format"] != _FORMAT:
                raise ValueError
            parts = {
                part: _read_part(dataset, part, about) for part in ("", "flows", "queues", "trace") if part in about
            }
        except (ValueError, KeyError, TypeError, OSError, EOFError):
            raise ValueError(f"path must be a run that Trajectory.save wrote, got {shown(str(path))}") from None
        stats = {key: tuple(value) if isinstance(value, list) else value for key, value in about["stats"].items()}
        tables = {name: parts[name].to_dataframe() for name in ("flows", "trace") if name in parts}
        if "trace" in tables:
            tables["trace"] = tables["trace"].reset_index(drop=True)
        return cls(
            parts[""].assign_attrs(about["attrs"]), tables["flows"], stats, parts.get("queues"), tables.get("trace")
        )

    def slowdowns(self, bins: int | Sequence[Any] = 10, quantiles: Sequence[float] = (0.5, 0.95, 0.99)) -> pd.DataFrame:
        """Return the slowdowns of flows in bins of their size.

        The slowdown of a flow is its completion time over its ideal one (defined by `ecc.packet.ideal_times`): that of
        a flow that has all its data at the start and the network to itself.

        Parameters
        ----------
        bins : int, or sequence of int, bytes, optional
            Number of bins, with about equal numbers of flows; or the edges of the bins, ascending. A bin contains its
            lower edge; the last one contains both. Bins without a flow are left out.
        quantiles : sequence of float, from 0 to 1, optional
            Quantiles, interpolated linearly between order statistics.

        Returns
        -------
        DataFrame
            One row per bin: "smallest", "largest" and median ("size") of the sizes [bytes], numbers of "completed" and
            "unfinished" flows, and of the completed ones the "mean" and the quantiles "p50", "p95", "p99" of the
            slowdown.

        Raises
        ------
        ValueError
            If the run is not a packet run, no flow of finite size has completed, edges do not ascend, or a quantile is
            out of range.
        """
        import pandas as pd

        if "ideal_time" not in self.flows:
            raise ValueError("run must be a packet run for slowdowns, whose flows have an ideal_time")
        shares = np.asarray(quantiles, dtype=float)
        if not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise ValueError(f"quantiles must be from 0 to 1, got {shown(quantiles)}")
        rows = self.flows[self.flows["size"].notna()]
        slowdown = rows["completion_time"].to_numpy() / rows["ideal_time"].to_numpy()
        sizes, done = rows["size"].to_numpy(), np.isfinite(slowdown)
        if not done.any():
            raise ValueError(
                f"run must have a flow of finite size that completed for slowdowns, got {len(rows)} without"
            )
        edges = _edges(bins, sizes[done])
        bin_of = np.searchsorted(edges, sizes, side="right") - 1
        bin_of[sizes == edges[-1]] = len(edges) - 2
        table = []
        for index in range(len(edges) - 1):
            bin_sizes, bin_slowdowns = sizes[(bin_of == index) & done], slowdown[(bin_of == index) & done]
            if not len(bin_sizes):
                continue
            row = {
                "smallest": bin_sizes.min(),
                "size": np.median(bin_sizes),
                "largest": bin_sizes.max(),
                "completed": len(bin_sizes),
                "unfinished": int(((bin_of == index) & ~done).sum()),
                "mean": bin_slowdowns.mean(),
            }
            names = [f"p{100.0 * share:g}" for share in shares]
            table.append(row | dict(zip(names, np.quantile(bin_slowdowns, shares).tolist(), strict=True)))
        return pd.DataFrame(table)

    def plot_slowdowns(self, bins: int | Sequence[Any] = 10) -> go.Figure:
        """Return a Plotly figure: median, 95th and 99th percentile of the slowdown over flow size.

        Parameters
        ----------
        bins : int, or sequence of int, bytes, optional
            See `slowdowns`.
        """
        from ecc.plot import slowdown_figure

        return slowdown_figure({str(self.data.attrs.get("protocol", "")): self.slowdowns(bins)})

    def plot(self) -> go.Figure:
        """Return a Plotly figure: rates of the flows above, queues of the links and recorded series below.

        Queues are averaged over each sample if the run has this series: single readings of a short queue alternate
        between 0 and one packet.
        """
        from ecc.plot import trajectory_figure

        title = f"{self.data.attrs.get('protocol', '')} ({self.data.attrs.get('engine', '')})"
        recorded = [name for name in map(str, self.data) if "." in name]
        queue = next((name for name in ("queue_mean", "queue") if name in self.data), None)
        rtts = self.flows["idle_rtt"][: self.data.sizes["flow"]] if "idle_rtt" in self.flows else None
        return trajectory_figure(
            self.data["time"].to_numpy(),
            rates=self.data["rate"].to_numpy(),
            queues=None if queue is None else self.data[queue].to_numpy(),
            title=title if self.is_complete else f"{title}: {self.stopped}",
            flows=self._names_of_flows(),
            groups=self._protocols_of_flows(),
            recorded={name: self.data[name].to_numpy() for name in recorded},
            units={name: str(self.data[name].attrs.get("units", "")) for name in recorded},
            rtts=None if rtts is None or not np.all(np.isfinite(rtts)) else rtts.to_numpy(),
        )

    def _names_of_flows(self) -> list[str] | None:
        """Return names of flows with their protocol if there are several; None: default names."""
        protocols = self._protocols_of_flows()
        if protocols is None or len(set(protocols)) < 2:
            return None
        return [f"flow {k}, {name}" for k, name in enumerate(protocols)]

    def _protocols_of_flows(self) -> list[str] | None:
        """Return the protocol of each flow; None: unknown."""
        if "protocol" not in self.flows:
            return None
        return [str(name) for name in self.flows["protocol"][: self.data.sizes["flow"]]]

    def __repr__(self) -> str:
        sizes, about, time = self.data.sizes, self.data.attrs, self.data["time"].to_numpy()
        counts = ", ".join(f"{name}: {sizes[name]}" for name in ("time", "flow", "link") if name in sizes)
        transfers = self.transfers
        completed = int(transfers["completion_time"].notna().sum()) if "completion_time" in transfers else 0
        rows = {
            "Dimensions": f"({counts})",
            "Time": f"{time[0]:g} to {time[-1]:g} s" if len(time) else "no samples",
            "Series": " ".join(map(str, self.data)),
            **({"Transfers": f"{len(transfers)}, {completed} completed"} if len(transfers) else {}),
            "Run": ", ".join(f"{key} {about[key]}" for key in ("engine", "seed", "version") if key in about),
        }
        lines = [f"{name + ':':<12}{value}" for name, value in rows.items()]
        notes = (f"note: {note}" for note in first_notes(self.notes))
        return "\n".join([f"<Trajectory {about.get('protocol', '')}, {self.stopped}>", *lines, *notes])

    def _repr_html_(self) -> str:
        """Return what `repr` has in its first lines, the notes, and the dataset with its attributes folded."""
        import xarray as xr

        name, *lines = repr(self).splitlines()
        about = " ".join(" ".join(line.split()) for line in lines if line.startswith(("Time:", "Run:", "Transfers:")))
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in first_notes(self.notes))
        with xr.set_options(display_expand_attrs=False):  # type: ignore[no-untyped-call]
            table = str(self.data._repr_html_())
        return f"<p><b>{escape(name.strip('<>'))}</b> {escape(about)}</p>{notes}{table}"


def _coordinates(time: NDArray[np.float64], variables: Iterable[Variable], classes: Any) -> xr.Coordinates:
    """Return the coordinates of series; see `Trajectory.build`."""
    sizes: dict[str, int] = {}
    for over, values, _ in variables:
        sizes |= zip(over, values.shape, strict=True)
    of_classes = None if classes is None or "class" not in sizes else np.asarray(classes)
    sizes = {name: size for name, size in sizes.items() if name in ("flow", "link")}
    if of_classes is None and len(time) + sum(sizes.values()) <= _MAX_KEPT_LABELS:
        return _kept_coordinates(time.tobytes(), tuple(sizes.items()))
    return _new_coordinates(time, sizes, of_classes)


def _new_coordinates(time: NDArray[np.float64], sizes: Mapping[str, int], classes: Any) -> xr.Coordinates:
    import xarray as xr

    coordinates: dict[str, Any] = {"time": ("time", time, {"units": "s"})}
    coordinates |= {name: np.arange(size) for name, size in sizes.items()}
    if classes is not None:
        coordinates |= {"class_link": ("class", classes[0]), "class_index": ("class", classes[1])}
    return xr.Coordinates(coordinates)


_MAX_KEPT_LABELS = 1_000


@lru_cache(8)
def _kept_coordinates(time: bytes, sizes: tuple[tuple[str, int], ...]) -> xr.Coordinates:
    """Return coordinates, which series copy: to make them takes longer than the series of a short run."""
    return _new_coordinates(np.frombuffer(time), dict(sizes), None)


def _table(flows: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of transfers as a DataFrame; see `Trajectory.build`."""
    import pandas as pd

    rows = dict(flows)
    table = pd.DataFrame(rows, index=pd.Index(rows.pop("transfer"), name="transfer") if "transfer" in rows else None)
    table.index.name = "transfer"
    return table


def _histograms(edges: NDArray[Any], counts: NDArray[Any]) -> xr.Dataset:
    """Return the histograms of queues without the empty bins at their end."""
    import xarray as xr

    n = 1 + max(np.flatnonzero(counts.any(axis=(0, 1))), default=0)
    by_bin = {name: (("link", "bin"), counts[:, k, :n]) for k, name in enumerate(("time", "arrivals"))}
    return xr.Dataset(by_bin, coords={"lowest": ("bin", edges[:n]), "above": ("bin", edges[1 : n + 1])})


def _events(trace: NDArray[np.void]) -> pd.DataFrame:
    """Return the events of a trace as a DataFrame."""
    import pandas as pd

    return pd.DataFrame(
        {
            "time": trace["time"] * 1e-12,
            "event": np.array(EVENTS)[trace["kind"]],
            "entity": trace["entity"],
            "value": trace["value"],
        }
    )


def _measured(values: NDArray[np.float64], time: NDArray[np.float64], starts: Any) -> NDArray[np.float64]:
    """Return a recorded round-trip time with NaN before the first measurement."""
    starts = np.zeros(values.shape[1]) if starts is None else np.asarray(starts)[: values.shape[1]]
    return np.where((values > 0.0) & (time[:, None] > starts), values, np.nan)


def _check_sizes(time: NDArray[np.float64], variables: Mapping[str, Variable]) -> None:
    """Refuse series of different sizes."""
    sizes = {"time": len(time)}
    for name, (over, values, _) in variables.items():
        if values.ndim != len(over):
            raise ValueError(f"series {name} must have the dimensions {', '.join(over)}, got shape {values.shape}")
        for dimension, size in zip(over, values.shape, strict=True):
            if sizes.setdefault(dimension, size) != size:
                raise ValueError(f"series {name} must have {sizes[dimension]} along {dimension}, got {size}")


def _edges(bins: Any, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges of bins: the given ones, or those of a number of bins with about equal numbers of sizes."""
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        inner = np.quantile(sizes, np.linspace(0.0, 1.0, as_count(bins, "bins", minimum=1, bits=20) + 1))
        edges = np.unique(np.ceil(inner))
        return edges if len(edges) > 1 else np.repeat(edges, 2)
    edges = np.array([float(as_size(edge, "bins")) for edge in bins])
    if len(edges) < 2 or not (np.diff(edges) > 0.0).all():
        raise ValueError(f"bins must be a number, or two or more edges that ascend, got {shown(bins)}")
    return edges


def _recorded(name: str, units: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the second dimension, unit and meaning of a recorded series."""
    owner, dot, field = name.partition(".")
    over = {"link": "link", "flow": "flow", "env": "flow"}[owner if dot else name]
    record = "the environment of a flow's hooks" if owner == "env" else f"the state of a {over}"
    return over, units.get(name) or RECORDED_UNITS.get(name, ""), f"{field} of {record}, at the sample instant"


def _as_netcdf3(values: Any) -> Any:
    """Convert an array to a type of netCDF 3, which has no 64-bit integers; those above 2^53 become text."""
    if values.dtype.kind == "b":
        return values.astype(np.int8)
    if values.dtype.kind in "iu" and values.dtype.itemsize > 4:
        exact = np.all(np.abs(values.astype(float)) < 2.0**53)
        return values.astype(float) if exact else values.astype(str)
    return values.astype(str) if values.dtype.kind == "O" else values


def _read_part(dataset: xr.Dataset, part: str, about: Mapping[str, Any]) -> xr.Dataset:
    import xarray as xr

    prefix = f"{part}." if part else ""
    names, coordinates = about[part]
    variables: dict[str, Any] = {}
    for name in (*names, *coordinates):
        variable = dataset.variables[prefix + name]
        kind = np.dtype(about["kinds"][prefix + name])
        over = [str(dimension).removeprefix(prefix) for dimension in variable.dims]
        values = variable.to_numpy().astype(kind)
        variables[name] = (over, values, {key: value for key, value in variable.attrs.items() if key != "dtype"})
    return xr.Dataset({name: variables[name] for name in names}, {name: variables[name] for name in coordinates})
