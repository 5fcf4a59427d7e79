"""Comparison of packets, fluid, recurrence, equilibrium and linear model of one scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import first_notes
from ecc._support.quantity import Quantity, as_choice, as_number, as_time
from ecc._support.reports import ProgressCallback, Share
from ecc.comparison.agreement import Phase, disagreements, linear_models, notes_of, phases
from ecc.contract.kinds import sets_windows
from ecc.linear import DelaySystem, SampledSystem
from ecc.results.trajectory import Trajectory
from ecc.results.transients import settling_time
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = ["Comparison", "compare"]

FloatArray = NDArray[np.float64]

_ROWS = 20  # maximum rows of the table in notebooks
_PACKETS = 10  # minimum scale of queues [packets]: smaller ones are not compared relative to their peak


@check_arguments
@dataclass(frozen=True, repr=False)
class Comparison:
    """A scenario run as fluid and as packets, with its recurrence, equilibrium and linear model.

    Attributes
    ----------
    fluid, packet : Trajectory
        The runs, on the same samples.
    window : float
        Averaging time of the compared values, s.
    tolerance : float
        Maximum difference, as a share of the scale below.
    table : DataFrame
        One row for each flow (its sending rate, bit/s) and each link (its queue, bytes). Columns: `fluid` and `packet`,
        means over the run; `fluid_peak` and `packet_peak`, maxima of the averages over `window`; `largest`, the largest
        difference of these averages (packet - fluid), and `at`, its time [s]; `scale`, the larger of the two peaks, and
        for a queue ten packets or more; `first_discrepancy`, the first time at which the averages differ by more than
        `tolerance` times the scale, NaN if never; `discrepancy`, the share of the time for which they do; `fluid_end`
        and `packet_end`, means over the last sixth of the run; `fluid_settled` and `packet_settled`, the times after
        which averages stay within `tolerance` times the scale of these means (`ecc.transients.settling_time`), or inf.
    discrepancy : dict
        For "rate" and "queue" the samples, shape (n_times, n), at which fluid and packets differ by more than that.
    scenario, options : Scenario, mapping
        Scenario of the runs, and their options.

    Notes
    -----
    `disagreements` is a DataFrame. It has a row for each value at the end of a phase (from one join or stop of a flow
    to the next) in which two of packets, fluid, recurrence and equilibrium differ, and for each linear verdict that a
    run contradicts, with the causes that the runs show (`ecc.comparison.agreement` defines when two values differ).
    `notes`, in the repr, has a line for each phase and quantity, with the worst value and likely causes, and one if
    packets and fluid differ at any time. `refused` names missing models with their reasons: name ("equilibrium",
    "recurrence", ...) -> reason.
    """

    fluid: Trajectory
    packet: Trajectory
    window: float
    tolerance: float
    table: pd.DataFrame
    discrepancy: dict[str, NDArray[np.bool_]]
    scenario: Scenario
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _recurrence(self) -> Trajectory | str:
        """The recurrence on the same samples, or the reason why it does not exist."""
        from ecc import fluid

        if any(sets_windows(protocol) for protocol in self.scenario.deployment.protocols):
            return "windows have no recurrence: ecc.simulate(..., time='discrete') runs them round by round"
        time = self.fluid.data["time"].to_numpy()
        try:
            return fluid.simulate(self.scenario, sample=float(time[1] - time[0]), time="discrete", **self.options)
        except ValueError as error:
            return str(error)

    @property
    def recurrence(self) -> Trajectory | None:
        """The run of the papers' recurrence (`ecc.fluid.simulate(time="discrete")`), or None."""
        return None if isinstance(self._recurrence, str) else self._recurrence

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Phases, from one join or stop of a flow to the next, with their equilibria and the ends of runs."""
        start = self.options.get("start")
        return tuple(phases(self.scenario, self._runs, self.window, isinstance(start, str) and start == "equilibrium"))

    @cached_property
    def linear(self) -> tuple[dict[str, DelaySystem | SampledSystem | str], ...]:
        """Linear models of each phase by kind of time: the system, or the reason why it does not exist."""
        return tuple(linear_models(self.scenario, phase) for phase in self.phases)

    @cached_property
    def disagreements(self) -> pd.DataFrame:
        """A row for each disagreement at the end of a phase; see `ecc.comparison.agreement.disagreements`."""
        return disagreements(self.scenario, self._runs, self.phases, self.linear, self.tolerance)

    @property
    def refused(self) -> dict[str, str]:
        """Models that do not exist for this scenario, each with the reason in one line."""
        reasons = {"recurrence": self._recurrence} if isinstance(self._recurrence, str) else {}
        for phase, models in zip(self.phases, self.linear, strict=True):
            if phase.equilibrium is None:
                reasons["equilibrium"] = phase.refusal
            reasons |= {time: model for time, model in models.items() if isinstance(model, str)}
        return reasons

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes of one line: those of the runs, divergence of packets and fluid, and disagreements."""
        noted = [f"{name}: {note}" for name, run in self._runs.items() for note in run.notes]
        discrepant = self.table[self.table["first_discrepancy"].notna()]
        if len(discrepant):
            row = discrepant.loc[(discrepant["largest"].abs() / discrepant["scale"]).idxmax()]
            scale, unit, of = (1e-6, "Mb/s", "flow") if row["series"] == "rate" else (1e-3, "kB", "link")
            noted.append(
                f"packets and fluid differ by {self.tolerance:.0%} for some time in {len(discrepant)} of "
                f"{len(self.table)} "
                f"series, most in the {row['series']} of {of} {row['index']}, by {scale * row['largest']:.3g} {unit} "
                f"at {row['at']:.4g} s"
            )
        return (*noted, *notes_of(self.disagreements, self.phases))

    @property
    def _runs(self) -> dict[str, Trajectory]:
        of_papers = {} if self.recurrence is None else {"recurrence": self.recurrence}
        return {"packets": self.packet, "fluid": self.fluid, **of_papers}

    @property
    def agrees(self) -> bool:
        """True if packets and fluid never diverge and both runs are complete; `disagreements` has the other pairs."""
        complete = self.fluid.is_complete and self.packet.is_complete
        return bool(complete and self.table["first_discrepancy"].isna().all())

    def plot(self) -> go.Figure:
        """Return a Plotly figure: rates and queues of packets (lines) and fluid (dashes); divergence is shaded."""
        from ecc.plot import comparison_figure

        time, (fluid, packet) = _common_samples(self.fluid, self.packet)
        return comparison_figure(
            time,
            packet["rate"],
            fluid["rate"],
            packet["queue"],
            fluid["queue"],
            discrepant_rates=self.discrepancy["rate"].any(axis=1),
            discrepant_queues=self.discrepancy["queue"].any(axis=1),
            title=f"{self.packet.data.attrs.get('protocol', '')}: packets and fluid",
        )

    def __repr__(self) -> str:
        verdict = "agree" if self.agrees else "differ"
        subject = f"{self.packet.data.attrs.get('protocol', '')}: packets and fluid {verdict}"
        notes = first_notes(self.notes)
        return "\n".join(
            [
                f"<Comparison of {subject}, disagreements: {len(self.disagreements)}>",
                *(f"note: {note}" for note in notes),
            ]
        )

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in first_notes(self.notes))
        table = self.table.to_html(float_format=lambda value: f"{value:.4g}", max_rows=_ROWS)
        return notes + str(table) + "<p>rates in bit/s, queues in bytes, times in s</p>"


_WINDOW = 1.0  # default averaging time [s]
_TIMES = ("continuous", "averaged")


@check_arguments
def compare(
    scenario: Scenario,
    sample: Quantity | None = None,
    window: Quantity | None = None,
    tolerance: float = 0.05,
    progress: ProgressCallback | None = None,
    *,
    start: str = "empty",
    perturbation: float = 0.0,
    cancel: Callable[[], bool] | None = None,
    time: str = "continuous",
    clocking: str = "ack",
) -> Comparison:
    """Run a scenario as fluid and as packets, and compare the runs and the models.

    Parameters
    ----------
    scenario : Scenario
        Scenario that both engines accept.
    sample : float, s, optional
        Period of the samples, > 0 and <= duration. None: 0.1 s, or a tenth of the duration if that is shorter.
    window : float, s, >= sample, optional
        Time over which values are averaged before the comparison, as packets arrive one by one. None: 1 s, or a fifth
        of the duration if that is shorter.
    tolerance : float, > 0, optional
        Maximum difference, as a share of the scale of each series (see `Comparison`).
    progress : callable, optional
        Called regularly with a `Progress`: the completed `share` of both runs.
    start, perturbation, cancel
        See `ecc.packet.simulate`; they apply to both engines.
    time : str, optional
        Time of the fluid run (`ecc.fluid.simulate`): "continuous", or "averaged", with every action spread evenly over
        its interval, as in continuous linear models.
    clocking : str, optional
        Clocking of windows in the fluid run, "ack" or "rate" (`ecc.fluid.simulate`).

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        A value out of range, or a scenario that the fluid engine refuses (transfers, impairments).

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> bool(ecc.compare(ecc.Scenario(net, ecc.models.QIRCP(), 10.0)).table["fluid"][0] > 9e6)
    True
    """
    import pandas as pd

    from ecc import fluid, packet

    period = scenario.sample_period(sample)
    width = min(_WINDOW, 0.2 * scenario.duration) if window is None else as_time(window, "window", positive=True)
    if width < period:
        raise ValueError(f"window must be >= the sample ({period:g} s), got {width:g} s")
    bar = as_number(tolerance, "tolerance", positive=True)
    report = progress or (lambda done: None)

    def progressed(before: float, done: float) -> None:
        report(Share(before + 0.5 * done))

    as_choice(time, "time", _TIMES)
    options: dict[str, Any] = {"start": start, "perturbation": perturbation}
    of_engine: list[tuple[Any, float, dict[str, Any]]] = [
        (fluid, 0.0, {"time": time, "clocking": clocking}),
        (packet, 0.5, {}),
    ]
    as_fluid, as_packets = (
        engine.simulate(scenario, sample=period, progress=partial(progressed, before), cancel=cancel, **options, **own)
        for engine, before, own in of_engine
    )
    ends, (of_fluid, of_packets) = _common_samples(as_fluid, as_packets)
    if len(ends) < 2:
        for run in (as_fluid, as_packets):
            run.raise_if_incomplete(samples=2)
        raise ValueError(f"sample must be at most half the duration ({scenario.duration:g} s), got {period:g} s")
    packet_size = float(max(np.max(flow.packet_size) for flow in scenario.network.flows))
    rows = []
    discrepancy = {name: np.zeros(of_fluid[name].shape, dtype=bool) for name in ("rate", "queue")}
    for name in ("rate", "queue"):
        for index in range(of_fluid[name].shape[1]):
            a, b = of_fluid[name][:, index], of_packets[name][:, index]
            smooth = [_averaged(values, width / period) for values in (a, b)]
            gap = smooth[1] - smooth[0]
            peaks = [float(values.max()) for values in smooth]
            scale = max(*peaks, _PACKETS * packet_size if name == "queue" else 0.0)
            apart = discrepancy[name][:, index] = np.abs(gap) > bar * scale
            finals = [float(values[-(len(values) // 6 + 1) :].mean()) for values in (a, b)]
            settled = [
                float(ends[0])
                + settling_time(ends, values, final, bar, scale or 1.0)  # scale 0: the flow sends nothing
                for values, final in zip(smooth, finals, strict=True)
            ]
            at = int(np.argmax(np.abs(gap)))
            rows.append(
                {
                    "series": name,
                    "index": index,
                    "fluid": a.mean(),
                    "packet": b.mean(),
                    "fluid_peak": peaks[0],
                    "packet_peak": peaks[1],
                    "largest": gap[at],
                    "at": ends[at],
                    "scale": scale,
                    "first_discrepancy": ends[np.argmax(apart)] if apart.any() else np.nan,
                    "discrepancy": apart.mean(),
                    "fluid_end": finals[0],
                    "packet_end": finals[1],
                    "fluid_settled": settled[0],
                    "packet_settled": settled[1],
                }
            )
    report(Share(1.0))
    return Comparison(as_fluid, as_packets, width, bar, pd.DataFrame(rows), discrepancy, scenario, options)


def _common_samples(*runs: Trajectory) -> tuple[FloatArray, list[dict[str, FloatArray]]]:
    """Return the samples that all runs have: times, and rates and queues of each run."""
    count = min(len(run.data["time"]) for run in runs)
    time = runs[0].data["time"].to_numpy()[:count]
    return time, [{name: run.data[name].to_numpy()[:count].astype(float) for name in ("rate", "queue")} for run in runs]


def _averaged(values: FloatArray, samples: float) -> FloatArray:
    """Return means over the last `samples` samples, over fewer at the beginning."""
    width = max(1, round(samples))
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - width)
    means: FloatArray = (sums[ends] - sums[begins]) / (ends - begins)
    return means
