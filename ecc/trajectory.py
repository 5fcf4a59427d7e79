"""What every engine returns: labelled time series of rates and queues, a table of transfers, counts of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import xarray as xr

__all__ = ["SERIES", "Trajectory"]

SERIES: Mapping[str, tuple[str, str, str]] = {
    "rate": ("flow", "bit/s", "sending rate, averaged over each sample"),
    "goodput": ("flow", "bit/s", "delivered, averaged over each sample"),
    "bottleneck": ("flow", "", "link whose feedback the flow follows, -1 before any"),
    "queue": ("link", "bytes", "queue at the sample instant"),
    "queue_max": ("link", "bytes", "peak queue within each sample"),
    "arrival": ("link", "bit/s", "arrival rate, averaged over each sample"),
    "drops": ("link", "packets", "dropped in each sample"),
}
"""Series of a trajectory: name -> (second dimension, unit, meaning). The first dimension is `time`: end of sample."""


@dataclass(frozen=True)
class Trajectory:
    """The result of a run.

    `data` is an xarray Dataset with dimensions time [s, end of each sample], flow and link, and the series of `SERIES`
    as attributes of this object (`run.rate`, `run.queue`, ...). `flows` is a DataFrame with one row a transfer: start,
    finish, size, completion_time, delivered, lost, retransmitted, and protocol where there are several. `stats` holds
    counts and costs of the run, among them `stopped`: why it ended.
    """

    data: xr.Dataset
    flows: pd.DataFrame
    stats: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        time: Any,
        series: Mapping[str, Any],
        flows: Mapping[str, Any],
        stats: Mapping[str, Any],
        attributes: Mapping[str, Any],
    ) -> Trajectory:
        """Return a trajectory from plain arrays.

        Parameters
            time : shape (n_times,), s. series : name of `SERIES` -> array (n_times, n_flows or n_links).
            flows : column -> array with one entry a transfer. stats : counts and costs.
            attributes : what was run (scenario as TOML, seed, version, engine).
        Raises
            KeyError: a series that is not in `SERIES`.
        """
        import pandas as pd
        import xarray as xr

        variables = {}
        for name, values in series.items():
            over, unit, meaning = SERIES[name]
            variables[name] = (("time", over), np.asarray(values), {"units": unit, "long_name": meaning})
        data = xr.Dataset(variables, coords={"time": ("time", np.asarray(time, dtype=float), {"units": "s"})})
        data = data.assign_coords({d: np.arange(data.sizes[d]) for d in ("flow", "link") if d in data.sizes})
        table = pd.DataFrame(dict(flows))
        table.index.name = "transfer"
        return cls(data.assign_attrs(dict(attributes)), table, dict(stats))

    def __getattr__(self, name: str) -> xr.DataArray:
        if name in SERIES and "data" in self.__dict__:
            if name in self.data:
                return self.data[name]
            raise AttributeError(f"this run has no series {name!r}; it has {', '.join(map(str, self.data))}")
        raise AttributeError(f"Trajectory has no attribute {name!r}")

    @property
    def stopped(self) -> str:
        """Why the run ended; "completed" when it reached its horizon."""
        return str(self.stats.get("stopped", "completed"))

    @property
    def is_complete(self) -> bool:
        """False for a run that was interrupted or failed: what it had until then is here."""
        return self.stopped == "completed"

    def to_dataframe(self, series: str) -> pd.DataFrame:
        """Return one series as a DataFrame: time down, flows or links across.

        Parameters
            series : name in `SERIES`.
        """
        frame: pd.DataFrame = getattr(self, series).to_pandas()
        return frame

    def plot(self) -> go.Figure:
        """Return a Plotly figure: rates of the flows above, queues of the links below."""
        from ecc.plot import trajectory_figure

        title = f"{self.data.attrs.get('protocol', '')} ({self.data.attrs.get('engine', '')})"
        return trajectory_figure(
            self.data["time"].to_numpy(),
            rates=self.data["rate"].to_numpy(),
            queues=self.data["queue"].to_numpy() if "queue" in self.data else None,
            title=title if self.is_complete else f"{title}: {self.stopped}",
        )

    def _repr_html_(self) -> str:
        return str(self.data._repr_html_())
