"""Fluid and packets on one scenario: where they part, when, and by how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc.measures import settle_time
from ecc.quantity import Quantity, as_number, as_time
from ecc.scenario import Scenario
from ecc.trajectory import Trajectory

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = ["Comparison", "compare"]

FloatArray = NDArray[np.float64]

_PACKETS = 10  # queues that differ by less than so many packets times the tolerance do not part


@dataclass(frozen=True)
class Comparison:
    """A scenario run as fluid and as packets.

    `fluid`, `packet`: the runs, on the same samples. `table`: DataFrame with a row for each flow (its sending rate,
    bit/s) and each link (its queue, bytes):

    - fluid, packet: means over the run; fluid_peak, packet_peak: largest values of the averages over `window`
    - largest: largest difference of these averages (packet - fluid), and at [s] when it is
    - parted: first time at which they differ by more than `tolerance` of `scale`, NaN if never; apart: share of the
      time for which they do. The scale is the larger of the two peaks, for a queue at least ten packets.
    - fluid_end, packet_end: means over the last sixth of the run; fluid_settled, packet_settled: time from which on
      averages over `window` stay within `tolerance` of the scale of that (`ecc.measures.settle_time`), inf where they
      do not

    `apart`: for "rate" and "queue" the samples, shape (n_times, n), at which fluid and packets differ by more.
    """

    fluid: Trajectory
    packet: Trajectory
    window: float
    tolerance: float
    table: pd.DataFrame
    apart: dict[str, NDArray[np.bool_]]

    @property
    def agrees(self) -> bool:
        """Whether nothing ever parts and both runs came to their end."""
        whole = self.fluid.is_complete and self.packet.is_complete
        return bool(whole and self.table["parted"].isna().all())

    def plot(self) -> go.Figure:
        """Return a Plotly figure: rates and queues of packets (lines) and fluid (dashes), shaded where they part."""
        from ecc.plot import comparison_figure

        time, (fluid, packet) = _common(self.fluid, self.packet)
        return comparison_figure(
            time,
            packet["rate"],
            fluid["rate"],
            packet["queue"],
            fluid["queue"],
            apart_rates=self.apart["rate"].any(axis=1),
            apart_queues=self.apart["queue"].any(axis=1),
            title=f"{self.packet.data.attrs.get('protocol', '')}: packets and fluid",
        )

    def _repr_html_(self) -> str:
        return str(self.table.to_html(float_format=lambda value: f"{value:.4g}"))


def compare(
    scenario: Scenario,
    sample: Quantity = 0.1,
    window: Quantity = 1.0,
    tolerance: float = 0.05,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Comparison:
    """Return what fluid and packets make of one scenario, and where they part.

    Parameters
        scenario : Scenario that both engines can run.
        sample : float, s, > 0. Period of the samples.
        window : float, s, >= sample. Packets come one by one: values are averaged over this before they are compared.
        tolerance : float, > 0. Difference beyond which they part, of the scale of each series (see `Comparison`).
        progress : called with the share that is done.
        options : start and perturb, for both engines.
    Returns
        Comparison.
    Raises
        ValueError: a value out of range, or a scenario that the fluid engine refuses (transfers, impairments).
    Example
        >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
        >>> bool(ecc.compare(ecc.Scenario(net, ecc.models.QIRCP(), 10.0)).table["fluid"][0] > 9e6)
        True
    """
    import pandas as pd

    from ecc import fluid, packet

    period = as_time(sample, "sample", positive=True)
    width = as_time(window, "window", positive=True)
    if width < period:
        raise ValueError(f"window must be >= the sample ({period:g} s), got {width:g} s")
    bar = as_number(tolerance, "tolerance", positive=True)
    share = progress or (lambda done: None)
    as_fluid = fluid.simulate(scenario, sample=period, progress=lambda done: share(0.5 * done), **options)
    as_packets = packet.simulate(scenario, sample=period, progress=lambda done: share(0.5 + 0.5 * done), **options)
    time, (of_fluid, of_packets) = _common(as_fluid, as_packets)
    if len(time) < 2:
        raise ValueError(f"nothing to compare in {len(time)} samples: the fluid run ended with {as_fluid.stopped!r}")
    packet_size = float(max(np.max(flow.packet_size) for flow in scenario.network.flows))
    rows = []
    apart = {name: np.zeros(of_fluid[name].shape, dtype=bool) for name in ("rate", "queue")}
    for name in ("rate", "queue"):
        for index in range(of_fluid[name].shape[1]):
            a, b = of_fluid[name][:, index], of_packets[name][:, index]
            smooth = [_averaged(values, width / period) for values in (a, b)]
            gap = smooth[1] - smooth[0]
            peaks = [float(values.max()) for values in smooth]
            scale = max(*peaks, _PACKETS * packet_size if name == "queue" else 0.0)
            beyond = apart[name][:, index] = np.abs(gap) > bar * scale
            ends = [float(values[-(len(values) // 6 + 1) :].mean()) for values in (a, b)]
            settled = [
                float(time[0]) + settle_time(time, values, end, bar, scale or 1.0)  # of a flow that sends nothing
                for values, end in zip(smooth, ends, strict=True)
            ]
            at = int(np.argmax(np.abs(gap)))
            rows.append({
                "series": name, "index": index, "fluid": a.mean(), "packet": b.mean(), "fluid_peak": peaks[0],
                "packet_peak": peaks[1], "largest": gap[at], "at": time[at], "scale": scale,
                "parted": time[np.argmax(beyond)] if beyond.any() else np.nan, "apart": beyond.mean(),
                "fluid_end": ends[0], "packet_end": ends[1], "fluid_settled": settled[0], "packet_settled": settled[1],
            })  # fmt: skip
    share(1.0)
    return Comparison(as_fluid, as_packets, width, bar, pd.DataFrame(rows), apart)


def _common(*runs: Trajectory) -> tuple[FloatArray, list[dict[str, FloatArray]]]:
    """The samples that all runs have: times, and rates and queues of each run."""
    count = min(len(run.data["time"]) for run in runs)
    time = runs[0].data["time"].to_numpy()[:count]
    return time, [{name: run.data[name].to_numpy()[:count].astype(float) for name in ("rate", "queue")} for run in runs]


def _averaged(values: FloatArray, samples: float) -> FloatArray:
    """Means over the last `samples` samples, of fewer at the beginning."""
    width = max(1, round(samples))
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - width)
    means: FloatArray = (sums[ends] - sums[begins]) / (ends - begins)
    return means
