"""Disagreements between engines, equilibrium and linear model of a scenario, by phase, with likely causes.

A phase lasts from one join or stop of a flow to the next. Values are averaged over the last quarter of a phase. Two
rates disagree if they differ by more than the tolerance times the larger one plus a packet in the averaging time. For
queues, the packet is replaced by one packet of every flow that crosses the link, because paced packets queue one after
another, unlike fluid. A run has converged if rates, averaged over the window, stay within the tolerance and four such
packets of their mean over the last quarter, and if their mean over the quarter before does. The equilibrium is compared
with converged runs only. A run contradicts a linear verdict if it converges although the model is unstable, or does not
although it is stable, and if the phase lasts for three or more e-folding times of the model.

Causes are derived from the runs. They are called likely, as a run can show that a cause was present but not that it was
the only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.display import Displayed, Rows, value_text
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import GrantedWindows
from ecc.contract.kinds import router_takes, sets_windows
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import EccError
from ecc.linear import DelaySystem, SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Phase", "disagreements", "growth_rate", "linear_models", "notes_of", "phases"]

FloatArray = NDArray[np.float64]

_FOLDS = 3.0  # e-folding times in a phase from which a linear verdict is compared with runs
_COLUMNS = ("begin", "end", "quantity", "index", "first", "second", "value_first", "value_second", "likely")


@dataclass(frozen=True, repr=False)
class Phase(Displayed):
    """The time between two changes of the active flows: `active` flows, their network, its equilibrium or `refusal`.

    For each run by name, `rate` and `queue` are means over the last quarter; `swing` is the maximum deviation of rates,
    averaged over the window, from that mean in this quarter; `drift` is the deviation of the mean in the quarter before
    it.
    """

    begin: float
    end: float
    active: NDArray[np.int64]
    network: Network
    equilibrium: Equilibrium | None
    refusal: str
    rate: Mapping[str, FloatArray]
    queue: Mapping[str, FloatArray]
    swing: Mapping[str, FloatArray]
    drift: Mapping[str, FloatArray]

    def _title(self) -> str:
        return f"Phase from {self.begin:g} to {self.end:g} s"

    def _rows(self) -> Rows:
        at = f"none: {self.refusal}" if self.equilibrium is None else value_text(self.equilibrium.rates, "bit/s")
        rates = [(f"rates, {name}", value_text(rate, "bit/s")) for name, rate in self.rate.items()]
        queues = [(f"queues, {name}", value_text(queue, "bytes")) for name, queue in self.queue.items()]
        return [("flows", value_text(self.active)), ("rates, equilibrium", at), *rates, *queues]

    @property
    def granularity(self) -> FloatArray:
        """Rate of one packet of each active flow per quarter of the phase [bit/s]."""
        sizes = np.array([flow.mean_packet for flow in self.network.flows])
        return np.asarray(8.0 * sizes / (0.25 * (self.end - self.begin)))


def phases(
    scenario: Scenario, runs: Mapping[str, Trajectory], window: float, at_equilibrium: bool = False
) -> list[Phase]:
    """Return the phases of a scenario that last for eight windows or more.

    Parameters
    ----------
    scenario : Scenario
    runs : mapping
        Runs of the scenario by name.
    window : float, s
        Averaging time of rates.
    at_equilibrium : bool, optional
        True: runs begin at an equilibrium, and all flows are active from the beginning.
    """
    flows, duration = scenario.network.flows, float(scenario.duration)
    starts = [0.0 if at_equilibrium else float(flow.start) for flow in flows]
    stops = [np.inf if flow.stop is None else float(flow.stop) for flow in flows]
    last = min([duration, *(float(run.data["time"][-1]) for run in runs.values())])
    edges = sorted({0.0, last, *(t for t in (*starts, *stops) if 0.0 < t < last)})
    phase_list = []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        active = np.array([i for i in range(len(flows)) if starts[i] <= begin < stops[i]], dtype=np.int64)
        if end - begin < 8.0 * window or not len(active):
            continue
        network = _network_of_active(scenario.network, active)
        point, refusal = _equilibrium(scenario, network, active)
        of_runs: dict[str, dict[str, FloatArray]] = {series: {} for series in ("rate", "queue", "swing", "drift")}
        for name, run in runs.items():
            time = run.data["time"].to_numpy()
            rate, queue = (run.data[series].to_numpy().astype(float) for series in ("rate", "queue"))
            late = (time > end - 0.25 * (end - begin)) & (time <= end)
            before = (time > begin + 0.5 * (end - begin)) & ~late & (time <= end)
            level = rate[late][:, active].mean(axis=0)
            width = max(1, round(window / float(time[1] - time[0])))
            smooth = np.array([np.convolve(x, np.full(width, 1.0 / width), "valid") for x in rate[late][:, active].T])
            of_runs["rate"][name] = level
            of_runs["queue"][name] = queue[late].mean(axis=0)
            of_runs["swing"][name] = np.abs(smooth - level[:, None]).max(axis=1)
            of_runs["drift"][name] = np.abs(rate[before][:, active].mean(axis=0) - level)
        phase_list.append(Phase(begin, end, active, network, point, refusal, **of_runs))
    return phase_list


def _network_of_active(network: Network, active: NDArray[np.int64]) -> Network:
    """Return the network with only the active flows."""
    if len(active) == network.n_flows:
        return network
    return network.with_flows([network.flows[i] for i in active])


def _no_models_reason(scenario: Scenario) -> str:
    """Return the reason why a scenario has neither equilibrium nor linear model; empty if it may have both."""
    if not isinstance(scenario.protocol, Protocol):
        return "the scenario has several protocols"
    if scenario.impairments:
        return "the scenario has impairments"
    if any(flow.size is not None for flow in scenario.network.flows):
        return "the scenario has flows that end when they have sent their size"
    return ""


def _equilibrium(scenario: Scenario, network: Network, active: NDArray[np.int64]) -> tuple[Equilibrium | None, str]:
    if unfit := _no_models_reason(scenario):
        return None, unfit
    assigned = scenario.assigned
    try:
        return equilibrium_of(scenario.protocol, network, None if assigned is None else assigned[active]), ""
    except (EccError, ValueError) as error:
        return None, str(error)


def linear_models(scenario: Scenario, phase: Phase) -> dict[str, DelaySystem | SampledSystem | str]:
    """Return the linear models of a phase by kind of time: the system, or the reason why it does not exist.

    Parameters
    ----------
    scenario : Scenario
    phase : Phase
        A phase of the scenario.
    """
    if unfit := _no_models_reason(scenario):
        return {"linear": unfit}
    protocol, assigned = scenario.protocol, scenario.assigned
    if protocol.linear_refusal is not None:
        return {"linear": protocol.linear_refusal}
    models: dict[str, DelaySystem | SampledSystem | str] = {}
    for time in protocol.times:
        try:
            bottlenecks = None if assigned is None else assigned[phase.active]
            models[time] = linearize(protocol, phase.network, time, assignment=bottlenecks)
        except (EccError, ValueError) as error:
            models[time] = str(error)
    return models


def growth_rate(model: DelaySystem | SampledSystem) -> float:
    """Return the growth rate of a linear model: the real part of its dominant root [1/s].

    Parameters
    ----------
    model : DelaySystem or SampledSystem
        Linear model. An unknown step of a SampledSystem counts as 1 s.
    """
    if isinstance(model, DelaySystem):
        return float(model.spectral_abscissa)
    radius, step = float(model.spectral_radius), model.dt or 1.0
    return float(np.log(radius) / step) if radius > 0.0 else -np.inf


def disagreements(
    scenario: Scenario,
    runs: Mapping[str, Trajectory],
    phase_list: Sequence[Phase],
    models: Sequence[Mapping[str, DelaySystem | SampledSystem | str]],
    tolerance: float,
) -> pd.DataFrame:
    """Return a table of all disagreements with values and likely causes.

    Parameters
    ----------
    scenario : Scenario
    runs : mapping
        Runs by name.
    phase_list : sequence of Phase
        Phases of the scenario.
    models : sequence of mapping
        Result of `linear_models` for each phase.
    tolerance : float, > 0
        Relative tolerance, for example 0.05.

    Returns
    -------
    DataFrame
        One row per disagreement. Columns: begin, end [s]; quantity: "rate" [bit/s], "queue" [bytes] or "stability"
        [1/s, and the swing of rates as a share]; index of the flow or link (-1: all); first, second: the names of the
        compared results; value_first, value_second; likely: tuple of causes that the runs show, which may be empty.
    """
    import pandas as pd

    rows: list[tuple[Any, ...]] = []
    reference = next(iter(runs))
    for phase, linear in zip(phase_list, models, strict=True):
        cause = _Causes(scenario, runs, phase, tolerance)
        for other in list(runs)[1:]:
            why = cause.between(reference, other)
            a, b = phase.rate[reference], phase.rate[other]
            rows += [
                (
                    phase.begin,
                    phase.end,
                    "rate",
                    int(phase.active[k]),
                    reference,
                    other,
                    a[k],
                    b[k],
                    (*why, *cause.granular(k, b[k] - a[k])),
                )
                for k in _indices_of_differences(a, b, tolerance, phase.granularity)
            ]
            a, b = phase.queue[reference], phase.queue[other]
            packets = np.array([flow.mean_packet for flow in phase.network.flows]) @ phase.network.incidence
            rows += [
                (
                    phase.begin,
                    phase.end,
                    "queue",
                    int(k),
                    reference,
                    other,
                    a[k],
                    b[k],
                    (*cause.queued(k, reference, other), *why),
                )
                for k in _indices_of_differences(a, b, tolerance, packets)
            ]
        if phase.equilibrium is not None:
            for name in runs:
                if not _has_converged(phase, name, tolerance):
                    continue
                why, a, b = cause.of_equilibrium(name), phase.rate[name], phase.equilibrium.rates
                rows += [
                    (
                        phase.begin,
                        phase.end,
                        "rate",
                        int(phase.active[k]),
                        name,
                        "equilibrium",
                        a[k],
                        b[k],
                        (*why, *(cause.granular(k, b[k] - a[k]) if name == "packets" else ())),
                    )
                    for k in _indices_of_differences(a, b, tolerance, phase.granularity)
                ]
        rows += _verdicts(runs, phase, linear, tolerance, cause)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _indices_of_differences(a: FloatArray, b: FloatArray, tolerance: float, granularity: FloatArray) -> list[int]:
    """Return the indices at which two arrays differ."""
    differs = np.abs(a - b) > tolerance * np.maximum(np.abs(a), np.abs(b)) + granularity
    return [int(k) for k in np.flatnonzero(differs)]


def _has_converged(phase: Phase, name: str, tolerance: float) -> bool:
    near = tolerance * phase.rate[name] + 4.0 * phase.granularity
    return bool((phase.drift[name] <= near).all() and (phase.swing[name] <= near).all())


def _verdicts(
    runs: Mapping[str, Trajectory], phase: Phase, models: Mapping[str, Any], tolerance: float, cause: _Causes
) -> Iterator[tuple[Any, ...]]:
    for time, model in models.items():
        if isinstance(model, str) or model.verdict == "undecided":
            continue
        rate = growth_rate(model)
        if abs(rate) * (phase.end - phase.begin) < _FOLDS:
            continue
        for name in runs:
            converges = _has_converged(phase, name, tolerance)
            if converges == model.is_stable:
                continue
            moved = np.maximum(phase.swing[name], phase.drift[name])
            share = float(np.max(moved / np.maximum(phase.rate[name], 1e-300)))
            why = (*model.notes, *cause.of_verdict(name, converges))
            yield phase.begin, phase.end, "stability", -1, time, name, rate, share, why


class _Causes:
    """Possible causes of a difference between results in a phase; each method returns the causes that apply."""

    def __init__(self, scenario: Scenario, runs: Mapping[str, Trajectory], phase: Phase, tolerance: float) -> None:
        self.protocol = scenario.protocol if isinstance(scenario.protocol, Protocol) else None
        self.runs, self.phase, self.tolerance = runs, phase, tolerance
        self.late = {
            name: (run.data["time"].to_numpy() > phase.end - 0.25 * (phase.end - phase.begin))
            & (run.data["time"].to_numpy() <= phase.end)
            for name, run in runs.items()
        }
        self.windows = self.protocol is not None and (sets_windows(self.protocol) or self.protocol.windowed)
        self.reads_queues = router_takes(self.protocol, "q") or router_takes(self.protocol, "q_flow")

    def between(self, first: str, second: str) -> tuple[str, ...]:
        """Return causes of a difference between two runs."""
        return (
            *self.stopped(first, second),
            *self.base_rtts(),
            *self.losses(first, second),
            *self.bottlenecks_differ(first, second),
            *(self.intervals() if second == "recurrence" else ()),
            *self.open_rest(),
            *self.moving(first),
            *self.moving(second),
        )

    def of_equilibrium(self, name: str) -> tuple[str, ...]:
        """Return causes of a difference between a run and the equilibrium."""
        granted = self.intervals() if name != "recurrence" else []
        return (*self.lost_on_the_way(name), *self.base_rtts(), *granted, *self.bottleneck_moved(name, "equilibrium"))

    def of_verdict(self, name: str, converges: bool) -> list[str]:
        """Return causes why a run does not converge although its linear model is stable; the model has notes too."""
        return (
            []
            if converges
            else [*self.moving(name), *self.bottleneck_moved(name, "linear model"), *self.lost_on_the_way(name)]
        )

    # ---- causes ------------------------------------------------------------------------------------------

    def stopped(self, *names: str) -> list[str]:
        """Report runs that ended early."""
        return [f"{name}: {self.runs[name].stopped}" for name in names if not self.runs[name].is_complete]

    def base_rtts(self) -> list[str]:
        """Report flows that measure delays and never saw their path empty."""
        run = self.runs.get("packets")
        if run is None or not self.windows or not self.reads_queues or "min_rtt" not in run.flows:
            return []
        network, active = self.phase.network, self.phase.active
        sent = np.array(
            [8.0 * flow.mean_packet * (1.0 / network.capacities[list(flow.route)]).sum() for flow in network.flows]
        )
        base = run.flows["idle_rtt"].to_numpy()[active] + sent
        over = run.flows["min_rtt"].to_numpy()[active] - base
        k = int(np.nanargmax(over / base)) if np.isfinite(over).any() else 0
        if not over[k] > 0.01 * base[k]:
            return []
        return [
            f"flow {active[k]} never saw its path empty: its minimum RTT was {1e3 * (base[k] + over[k]):.4g} "
            f"ms, not {1e3 * base[k]:.4g} ms"
        ]

    def losses(self, first: str, second: str) -> list[str]:
        """Report losses, which affect windows one by one in packets, and all at once in a fluid."""
        if not self.windows:
            return []
        drops = {n: self.runs[n].data["drops"].to_numpy()[self.late[n]].sum(axis=0) for n in (first, second)}
        if not (drops[first] + drops[second] > 0.0).any():
            return []
        link = int(np.argmax(drops[first] + drops[second]))
        return [
            f"windows jump at losses ({drops[first][link]:.4g} packets at link {link} in {first}, "
            f"{drops[second][link]:.4g} in {second}): those of single flows in packets, of all in proportion in a fluid"
        ]

    def lost_on_the_way(self, name: str) -> list[str]:
        """Report links with arrivals reduced by losses upstream."""
        run, network = self.runs[name], self.phase.network
        if not run.data["drops"].to_numpy()[self.late[name]].any():
            return []
        arrived = run.data["arrival"].to_numpy()[self.late[name]].mean(axis=0)
        sent = self.phase.rate[name] @ network.incidence
        short = 1.0 - arrived / np.maximum(sent, 1e-300)
        link = int(np.argmax(np.where(sent > 0.0, short, 0.0)))
        if not short[link] > 0.2 * self.tolerance:
            return []
        return [f"{short[link]:.2%} of the data for link {link} is lost upstream"]

    def intervals(self) -> list[str]:
        """Report routers that grant per interval the capacity that the last interval left over."""
        if self.protocol is None or not isinstance(self.protocol.fluid_form, GrantedWindows):
            return []
        return [
            "routers grant per interval the capacity that the last one left; equilibrium and recurrence at all times"
        ]

    def bottlenecks_differ(self, first: str, second: str) -> list[str]:
        """Report flows with different bottlenecks in two runs, or several in one."""
        for flow, a, b in zip(self.phase.active, self._links(first), self._links(second), strict=True):
            if a != b:
                return [f"flow {flow} is bottlenecked at link {_joined(a)} in {first}, {_joined(b)} in {second}"]
        return []

    def bottleneck_moved(self, name: str, reference: str) -> list[str]:
        """Report a flow with a bottleneck other than that at the equilibrium."""
        point = self.phase.equilibrium
        for k, links in enumerate(self._links(name)):
            expected = -1 if point is None else int(point.bottleneck[k])
            if links and expected >= 0 and links != [expected]:
                flow = self.phase.active[k]
                return [
                    f"flow {flow} is bottlenecked at link {_joined(links)} in {name}, {expected} in the {reference}"
                ]
        return []

    def _links(self, name: str) -> list[list[int]]:
        """Return the bottlenecks of each active flow at the end of the phase, in 1 % of the samples or more."""
        bottlenecks = self.runs[name].data["bottleneck"].to_numpy()[self.late[name]][:, self.phase.active].astype(int)
        bottlenecks_of_flows = []
        for column in bottlenecks.T:
            links, counts = np.unique(column, return_counts=True)
            bottlenecks_of_flows.append(
                [int(link) for link, n in zip(links, counts, strict=True) if link >= 0 and n >= 0.01 * len(bottlenecks)]
            )
        return bottlenecks_of_flows

    def open_rest(self) -> list[str]:
        """Report the reason that a protocol declares for having no single equilibrium."""
        reason = self.protocol.no_equilibrium if self.protocol and self.phase.equilibrium is None else ""
        return [f"no single equilibrium: {reason}"] if reason else []

    def moving(self, name: str) -> list[str]:
        """Report a run that has not converged within a fifth of the tolerance."""
        phase = self.phase
        if _has_converged(phase, name, 0.2 * self.tolerance):
            return []
        level = np.maximum(phase.rate[name], 1e-300)
        drift, swing = phase.drift[name] / level, phase.swing[name] / level
        k = int(np.argmax(np.maximum(drift, swing)))
        flow = phase.active[k]
        if drift[k] > 0.5 * swing[k]:
            return [f"flow {flow} has not converged in {name} ({drift[k]:.0%} between the last two quarters)"]
        return [f"flow {flow} oscillates by {swing[k]:.0%} in {name}"]

    def granular(self, k: int, more: float) -> list[str]:
        """Report rates that differ by a packet in an RTT, or by the effect of a queue of packets on a window.

        `more` [bit/s]: rate of the other result minus that of packets.
        """
        network = self.phase.network
        flow, rtt, rate = network.flows[k], float(network.rtts[k]), float(self.phase.rate["packets"][k])
        packet, route = 8.0 * flow.mean_packet, list(flow.route)
        if abs(more) <= packet / rtt:
            return [f"a packet in an RTT is {packet / rtt / max(rate, 1e-300):.0%} of its rate"]
        wait = float((8.0 * self.phase.queue["packets"][route] / network.capacities[route]).sum())
        if self.windows and rate * wait / rtt >= 0.5 * more > 0.0:
            return [f"packets queue for {1e3 * wait:.3g} ms in addition to its RTT of {1e3 * rtt:.4g} ms"]
        return []

    def queued(self, link: int, first: str, second: str) -> list[str]:
        """Report queues that persist at full load, or that are bursts of packets."""
        network, causes = self.phase.network, []
        a, b = self.phase.queue[first][link], self.phase.queue[second][link]
        loads = [
            float((self.phase.rate[name] @ network.incidence)[link] / network.capacities[link])
            for name in (first, second)
        ]
        if max(loads) > 0.995 and not self.windows:
            causes.append(f"at a load of {max(loads):.1%} a queue does not drain")
        through = network.incidence[:, link]
        packets = float(a - b) / float(np.mean([flow.mean_packet for flow in network.flows]))
        if first == "packets" and 0.0 < packets <= 4.0 * through.sum():
            causes.append(f"bursts of packets, {packets:.2g} of {through.sum()} flows, that a fluid does not have")
        return causes


def _joined(links: Sequence[int]) -> str:
    return " and ".join(map(str, links)) if links else "none"


def notes_of(table: pd.DataFrame, phase_list: Sequence[Phase]) -> tuple[str, ...]:
    """Return a line for each phase and quantity with a disagreement: the largest one, and likely causes.

    Parameters
    ----------
    table : DataFrame
        Result of `disagreements`.
    phase_list : sequence of Phase
        Phases of the table.
    """
    lines = []
    for (begin, quantity), rows in table.groupby(["begin", "quantity"], sort=False):
        phase = next(phase for phase in phase_list if phase.begin == begin)
        if quantity == "stability":
            for is_stable in (True, False):
                against = rows[(rows["value_first"] < 0.0) == is_stable]
                if len(against):
                    rates = against.drop_duplicates("first")
                    models = ", ".join(
                        f"{a} {b:+.3g} 1/s" for a, b in zip(rates["first"], rates["value_first"], strict=True)
                    )
                    who = ", ".join(against["second"].unique())
                    does = f"stable, but not converged in {who}" if is_stable else f"unstable, but converged in {who}"
                    lines.append(_line(phase, f"linear model {does} ({models})", against))
            continue
        a, b = rows["value_first"].to_numpy(), rows["value_second"].to_numpy()
        worst = rows["index"].iloc[int(np.argmax(np.abs(a - b) / np.maximum(np.maximum(a, b), 1e-300)))]
        if quantity == "rate":
            of, unit, k = "flow", "Mb/s", int(np.flatnonzero(phase.active == worst)[0])
            values = {name: 1e-6 * rate[k] for name, rate in phase.rate.items()}
            if phase.equilibrium is not None:
                values["equilibrium"] = 1e-6 * phase.equilibrium.rates[k]
        else:
            of, unit, values = "link", "kB", {name: 1e-3 * queue[worst] for name, queue in phase.queue.items()}
        shown = ", ".join(f"{value:.3g} in {name}" for name, value in values.items())
        n_others = rows["index"].nunique() - 1
        more = f" ({n_others} more {of}{'s' * (n_others > 1)})" if n_others else ""
        lines.append(_line(phase, f"{quantity} of {of} {worst} {unit}: {shown}{more}", rows[rows["index"] == worst]))
    return tuple(lines)


def _line(phase: Phase, text: str, rows: pd.DataFrame) -> str:
    causes = list(dict.fromkeys(cause for row in rows["likely"] for cause in row))
    return (
        f"{phase.begin:g} to {phase.end:g} s, {text}; {'likely: ' + '; '.join(causes) if causes else 'no cause found'}"
    )
