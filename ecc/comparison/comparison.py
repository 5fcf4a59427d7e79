"""Packets, fluid, recurrence, equilibrium and linear model of one scenario: where they disagree, and by how much."""

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
from ecc._support.quantity import Quantity, as_number, as_time
from ecc.comparison.agreement import Phase, disagreements, linear_models, notes_of, phases
from ecc.linear import DelaySystem, SampledSystem
from ecc.results.trajectory import Trajectory
from ecc.results.transients import settling_time
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = ["Comparison", "compare"]

FloatArray = NDArray[np.float64]

_ROWS = 20  # of the table that notebooks show
_PACKETS = 10  # queues that differ by less than so many packets times the tolerance do not count as a discrepancy


@check_arguments
@dataclass(frozen=True, repr=False)
class Comparison:
    """A scenario run as fluid and as packets, and beside them its recurrence, equilibrium and linear model.

    Attributes
    ----------
    fluid, packet : Trajectory
        The runs, on the same samples.
    window : float
        Of the averages that are compared, s.
    tolerance : float
        By which they may differ, of the scale below.
    table : DataFrame
        A row for each flow (its sending rate, bit/s) and each link (its queue, bytes). Its columns: `fluid` and
        `packet` are means over the run; `fluid_peak` and `packet_peak` the largest values of the averages over
        `window`; `largest` their largest difference (packet - fluid), `at` when it is [s]; `first_discrepancy` the
        first time at which they differ by more than `tolerance` of the scale (the larger of the two peaks, for a queue
        at least ten packets), NaN if never; `discrepancy` the share of the time for which they do; `fluid_end` and
        `packet_end` means over the last sixth of the run; `fluid_settled` and `packet_settled` the time from which on
        averages stay within `tolerance` of the scale of that (`ecc.transients.settling_time`), inf where they do not.
    discrepancy : dict
        For "rate" and "queue" the samples, shape (n_times, n), at which fluid and packets differ by more.
    scenario, options : Scenario, mapping
        What was run, and with what.

    Notes
    -----
    `disagreements` is a DataFrame with a row for each value at the end of a phase (from one join or stop of a flow to
    the next) in which two of packets, fluid, recurrence and equilibrium differ, and for each linear verdict that a run
    contradicts, with causes that the runs show (`ecc.comparison.agreement` defines when two values differ).
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
        """The recurrence on the same samples, or why there is none."""
        from ecc import fluid

        time = self.fluid.data["time"].to_numpy()
        try:
            return fluid.simulate(self.scenario, sample=float(time[1] - time[0]), time="discrete", **self.options)
        except ValueError as error:
            return str(error)

    @property
    def recurrence(self) -> Trajectory | None:
        """The run of the papers' recurrence (`ecc.fluid.simulate(time="discrete")`); None where there is none."""
        return None if isinstance(self._recurrence, str) else self._recurrence

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """From one join or stop of a flow to the next: the equilibrium, and what each run does at the end."""
        start = self.options.get("start")
        return tuple(phases(self.scenario, self._runs, self.window, isinstance(start, str) and start == "equilibrium"))

    @cached_property
    def linear(self) -> tuple[dict[str, DelaySystem | SampledSystem | str], ...]:
        """The linear models of each phase: time -> system, or why there is none."""
        return tuple(linear_models(self.scenario, phase) for phase in self.phases)

    @cached_property
    def disagreements(self) -> pd.DataFrame:
        """A row for each disagreement at the end of a phase; see `ecc.comparison.agreement.disagreements`."""
        return disagreements(self.scenario, self._runs, self.phases, self.linear, self.tolerance)

    @property
    def refused(self) -> dict[str, str]:
        """What there is not for this scenario, and why, in one line each."""
        found = {"recurrence": self._recurrence} if isinstance(self._recurrence, str) else {}
        for phase, models in zip(self.phases, self.linear, strict=True):
            if phase.equilibrium is None:
                found["equilibrium"] = phase.refusal
            found |= {time: model for time, model in models.items() if isinstance(model, str)}
        return found

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """One line each: notes of the runs, disagreements, and when runs diverge before their end."""
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
        """Whether packets and fluid never diverge and both came to their end; `disagreements` has the other pairs."""
        whole = self.fluid.is_complete and self.packet.is_complete
        return bool(whole and self.table["first_discrepancy"].isna().all())

    def plot(self) -> go.Figure:
        """Return a Plotly figure: rates and queues of packets (lines) and fluid (dashes), shaded where they diverge."""
        from ecc.plot import comparison_figure

        time, (fluid, packet) = _common(self.fluid, self.packet)
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
        what = f"{self.packet.data.attrs.get('protocol', '')}: packets and fluid {verdict}"
        notes = first_notes(self.notes)
        return "\n".join([f"<Comparison of {what}, disagreements: {len(self.disagreements)}>",
                          *(f"note: {note}" for note in notes)])  # fmt: skip

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in first_notes(self.notes))
        table = self.table.to_html(float_format=lambda value: f"{value:.4g}", max_rows=_ROWS)
        return notes + str(table) + "<p>rates in bit/s, queues in bytes, times in s</p>"


_WINDOW = 1.0  # s


@check_arguments
def compare(
    scenario: Scenario,
    sample: Quantity | None = None,
    window: Quantity | None = None,
    tolerance: float = 0.05,
    progress: Callable[[float], None] | None = None,
    *,
    start: str = "empty",
    perturbation: float = 0.0,
    cancel: Callable[[], bool] | None = None,
) -> Comparison:
    """Return what fluid and packets make of one scenario, and where they and the models disagree.

    Parameters
    ----------
    scenario : Scenario
        Scenario that both engines can run.
    sample : float, s, optional
        > 0 and <= duration. Period of the samples; None: 0.1 s, at most a tenth of the duration.
    window : float, s, >= sample, optional
        None: 1 s, at most a fifth of the duration. Packets come one by one: values are averaged over this before they
        are compared.
    tolerance : float, > 0, optional
        Difference beyond which they diverge, of the scale of each series (see `Comparison`).
    progress : callable, optional
        Called with the share that is done.
    start, perturbation, cancel
        As in `ecc.packet.simulate`, for both engines.

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
        report(before + 0.5 * done)

    options: dict[str, Any] = {"start": start, "perturbation": perturbation}
    as_fluid, as_packets = (
        engine.simulate(scenario, sample=period, progress=partial(progressed, before), cancel=cancel, **options)
        for engine, before in ((fluid, 0.0), (packet, 0.5))
    )
    time, (of_fluid, of_packets) = _common(as_fluid, as_packets)
    if len(time) < 2:
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
            beyond = discrepancy[name][:, index] = np.abs(gap) > bar * scale
            ends = [float(values[-(len(values) // 6 + 1) :].mean()) for values in (a, b)]
            settled = [
                float(time[0]) + settling_time(time, values, end, bar, scale or 1.0)  # of a flow that sends nothing
                for values, end in zip(smooth, ends, strict=True)
            ]
            at = int(np.argmax(np.abs(gap)))
            rows.append({
                "series": name, "index": index, "fluid": a.mean(), "packet": b.mean(), "fluid_peak": peaks[0],
                "packet_peak": peaks[1], "largest": gap[at], "at": time[at], "scale": scale,
                "first_discrepancy": time[np.argmax(beyond)] if beyond.any() else np.nan, "discrepancy": beyond.mean(),
                "fluid_end": ends[0], "packet_end": ends[1], "fluid_settled": settled[0], "packet_settled": settled[1],
            })  # fmt: skip
    report(1.0)
    return Comparison(as_fluid, as_packets, width, bar, pd.DataFrame(rows), discrepancy, scenario, options)


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
