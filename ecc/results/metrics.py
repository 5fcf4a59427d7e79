"""Metrics of runs by name, for `ecc sweep` and the entries of the ledger.

A metric takes a run, its scenario and its own arguments, and returns one number in bit/s, bytes or seconds, or one
without a unit. `between` is (begin, end) in seconds, by default the whole run; it selects the samples that end in it.

A flow of the network is active from its start to its finish. Metrics of one flow over the samples (`lowest_rate`,
`rate_variation`, ...) take the samples during which it is active. Metrics that compare flows (`fairness`,
`least_share`) average each rate over the time for which the flow is active, and leave out flows that are never active
`between`. Losses and traffic of a link are counted in bytes on the link.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, nearest, shown
from ecc.results.frames import FRAME_FIELDS, Frames, frames
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.traffic.tmix import response_times

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FRAME_FIELDS", "METRICS", "Frames", "Metric", "frames", "percentiles"]

Span = Sequence[float] | None
FloatArray = NDArray[np.float64]
UNITS = {
    "bit/s": {"bit/s": 1.0, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9},
    "bytes": {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "s": {"s": 1.0, "ms": 1e-3, "µs": 1e-6},
    "": {"": 1.0, "%": 0.01},
}


@dataclass(frozen=True)
class Metric:
    """A metric: `function`, its `title` in tables, and the unit of its value, `kind` ("bit/s", "bytes", "s" or "").

    `selects_starts`: `between` selects transfers by their start; a sweep without `--between` counts all of them.
    `needs_histogram`: the run must count its queues (`histogram_from=`), which a sweep does if it is necessary.
    """

    function: Callable[..., float]
    title: str
    kind: str
    selects_starts: bool = False
    needs_histogram: bool = False

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters of the function by name, except the run and its scenario."""
        parameters = signature(self.function).parameters
        return {name: parameters[name] for name in parameters if name not in ("run", "scenario")}


METRICS: dict[str, Metric] = {}
OF_SWEEPS = ("flow", "flows", "link", "between")
"""Arguments that a sweep passes to all of its metrics; a metric may have other arguments of its own."""


def metric(title: str, kind: str = "", **properties: bool) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a metric under the name of its function.

    Parameters
    ----------
    title : str
        Title in tables.
    kind : str, optional
        Unit of the value: "bit/s", "bytes", "s" or "".
    **properties : bool
        `selects_starts` and `needs_histogram` of `Metric`.
    """

    def register(function: Callable[..., float]) -> Callable[..., float]:
        METRICS[function.__name__] = Metric(function, title, kind, **properties)
        return function

    return register


def get(name: str) -> Metric:
    """Return a metric.

    Parameters
    ----------
    name : str
        Name of a metric of this module, for example "fairness".

    Raises
    ------
    ValueError
        An unknown name.
    """
    if name not in METRICS:
        titles = {key: candidate.title for key, candidate in METRICS.items()}
        field = ": fields of states are series, recorded by --record" if "." in name else ""
        hint = field or nearest(name, titles)
        known = "a name that `ecc sweep --metric list` prints" if hint else f"one of {', '.join(titles)}"
        raise ValueError(f"metric must be {known}, got {name!r}{hint}")
    return METRICS[name]


def taken(metric: Metric, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a metric accepts, out of those given.

    Parameters
    ----------
    metric : Metric
    arguments : mapping
        Values by name.
    """
    parameters = metric.parameters
    return {name: value for name, value in arguments.items() if name in parameters}


def parameters_of(metric: Metric) -> dict[str, Parameter]:
    """Return the parameters of a metric by name, except the run and its scenario.

    Parameters
    ----------
    metric : Metric
    """
    return metric.parameters


def lacking(metric: Metric, arguments: Container[str]) -> list[str]:
    """Return the required arguments of a metric that are missing, except the run and its scenario.

    Parameters
    ----------
    metric : Metric
    arguments : container of str
        Names of the available arguments.
    """
    needed = [name for name, parameter in parameters_of(metric).items() if parameter.default is parameter.empty]
    return [name for name in needed if name not in arguments]


def evaluated(
    run: Trajectory,
    scenario: Scenario,
    chosen: Mapping[str, tuple[str, Mapping[str, Any]]],
    arguments: Mapping[str, Any],
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the metrics of a run by name, and the reasons for those that cannot be computed.

    Parameters
    ----------
    run : Trajectory
    scenario : Scenario
        Scenario of the run.
    chosen : mapping
        Name of each result -> name of its metric, and the metric's own arguments.
    arguments : mapping
        Arguments of all metrics that accept them. `between` is by default the last half of the run, and the whole run
        for metrics that select transfers by their start.

    Raises
    ------
    ValueError
        An unknown name.
    """
    late = {"between": (0.5 * scenario.duration, scenario.duration)} | dict(arguments)
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, (metric_name, own_arguments) in chosen.items():
        metric = get(metric_name)
        selected = taken(metric, arguments if metric.selects_starts else late)
        selected |= own_arguments
        try:
            value = float(metric.function(run, scenario, **selected))
        except (ValueError, AttributeError) as error:
            reasons[name] = str(error)
        except Exception as error:
            reasons[name] = f"{type(error).__name__}: {error}"
        else:
            if isnan(value):
                reasons[name] = "not defined for this run: there is nothing to average"
            else:
                values[name] = value
    return values, reasons


def scale(metric: Metric, unit: str, scenario: Scenario) -> float:
    """Return a unit in bit/s, bytes or seconds; the unit "packets" is the mean size of the flows' packets.

    Parameters
    ----------
    metric : Metric
        Metric to convert.
    unit : str
        Unit as in the ledger, for example "Mb/s"; "": the unit of the metric.
    scenario : Scenario
        Scenario of the run.

    Raises
    ------
    ValueError
        A unit of another kind of quantity, or packets if flows have packets of different sizes.
    """
    units = UNITS[metric.kind]
    if metric.kind == "bytes":
        units = units | {"packets": _packet_size(scenario) if unit == "packets" else 1.0}
    if unit and unit not in units:
        raise ValueError(f"unit must be one of {', '.join(units)}, got {unit!r} for {metric.title}")
    return units[unit] if unit else 1.0


# ---- rates -----------------------------------------------------------------------------------------------


@metric("sending rate", "bit/s")
def rate(run: Trajectory, scenario: Scenario, flow: int, between: Span = None) -> float:
    """Mean sending rate of a flow over the whole time `between`, with 0 while it is not active."""
    return float(_selected(run, between, run._values("rate")[:, flow]).mean())


@metric("goodput", "bit/s")
def goodput(run: Trajectory, scenario: Scenario, flow: int, between: Span = None) -> float:
    """Mean rate at which data of a flow arrive, over the whole time `between`, with 0 while it is not active."""
    return float(_selected(run, between, run._values("goodput")[:, flow]).mean())


@metric("throughput", "bit/s")
def throughput(
    run: Trajectory, scenario: Scenario, flow: int, between: Span = None, payload: float = 1448 / 1514
) -> float:
    """Mean rate of application data of a flow: its goodput times `payload`, the share of a frame that they take."""
    return payload * goodput(run, scenario, flow, between)


@metric("total goodput", "bit/s")
def total_goodput(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """Sum of the goodputs of the flows of the network, or of `flows`, for example of one class."""
    numbers = _flow_indices(scenario, flows)
    return float(_selected(run, between, run._values("goodput")[:, numbers]).sum(axis=1).mean())


@metric("ratio of rates")
def share(run: Trajectory, scenario: Scenario, flow: int, of: int, between: Span = None) -> float:
    """Ratio of the mean rate of a flow to that of another."""
    return rate(run, scenario, flow, between) / rate(run, scenario, of, between)


def jain_index(rates: FloatArray, axis: int = -1) -> Any:
    """Return (sum x)^2 / (n sum x^2) of n rates x along an axis: 1 if all are equal, 1/n if one flow has everything.

    Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination", DEC-TR-301, 1984. nan if all are 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return rates.sum(axis=axis) ** 2 / (rates.shape[axis] * (rates**2).sum(axis=axis))


@metric("Jain's fairness index")
def fairness(run: Trajectory, scenario: Scenario, between: Span = None, flows: Sequence[int] | None = None) -> float:
    """Jain's index of the mean rates of flows of the network while they are active: all flows, or `flows`.

    (sum x)^2 / (n sum x^2) of n rates x: 1 if all are equal, 1/n if one flow has everything (Jain, Chiu and Hawe 1984).
    Flows that are not active `between` are left out.
    """
    x = _active_rates(run, scenario, between, flows)
    if not x.any():
        raise ValueError("fairness needs a flow that sends in the time between, got none")
    return float(jain_index(x))


@metric("minimum rate over the mean")
def least_share(run: Trajectory, scenario: Scenario, between: Span = None, flows: Sequence[int] | None = None) -> float:
    """Minimum over the mean of the mean rates of the flows of the network, or of `flows`, each while it is active."""
    x = _active_rates(run, scenario, between, flows)
    if not x.any():
        raise ValueError("least_share needs a flow that sends in the time between, got none")
    return float(x.min() / x.mean())


@metric("lowest rate", "bit/s")
def lowest_rate(run: Trajectory, scenario: Scenario, flow: int, between: Span = None, over: int = 1) -> float:
    """Lowest rate of a flow, averaged over `over` samples."""
    return float(_smooth(_active_samples(run, scenario, flow, between), over).min())


@metric("highest rate", "bit/s")
def highest_rate(run: Trajectory, scenario: Scenario, flow: int, between: Span = None, over: int = 1) -> float:
    """Highest rate of a flow, averaged over `over` samples."""
    return float(_smooth(_active_samples(run, scenario, flow, between), over).max())


@metric("flows that a JetMax router counts")
def counted_flows(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Number of flows that a JetMax router must have counted: gamma C over the mean rate of the flows on its link."""
    on = [k for k, flow in enumerate(scenario.network.flows) if any(link in route for route in flow.routes)]
    x = _selected(run, between, run._values("rate")[:, on]).mean(axis=0)
    return float(scenario.protocol.params()["gamma"] * scenario.network.links[link].capacity / x[x > 0.0].mean())


@metric("coefficient of variation of the rate")
def rate_variation(run: Trajectory, scenario: Scenario, flow: int, between: Span = None, over: int = 1) -> float:
    """Ratio of the standard deviation of a flow's rate, averaged over `over` samples, to its mean."""
    x = _smooth(_active_samples(run, scenario, flow, between), over)
    return float(x.std() / x.mean())


@metric("largest fall of the rate below its running maximum")
def drawdown(run: Trajectory, scenario: Scenario, flow: int, between: Span = None, over: int = 1) -> float:
    """Largest fall of a flow's rate below its running maximum, as a share of its highest: 0 if it only grows."""
    x = _smooth(_active_samples(run, scenario, flow, between), over)
    return float((np.maximum.accumulate(x) - x).max() / x.max())


@metric("time until the rate first passes a share of its maximum", "s")
def startup_delay(run: Trajectory, scenario: Scenario, flow: int, share: float = 0.05) -> float:
    """Time from a flow's start until its rate first exceeds a share of its maximum."""
    above = np.flatnonzero(run._values("rate")[:, flow] > share * run._values("rate")[:, flow].max())
    if not len(above):
        raise ValueError(f"startup_delay needs a flow that sends, got flow {flow}, which does not")
    return float(run._values("time")[above[0]]) - float(scenario.network.flows[flow].start)


@metric("time until the rates stay equal", "s")
def convergence_time(
    run: Trajectory, scenario: Scenario, after: float, close: float = 0.1, over: int = 1, until: float | None = None
) -> float:
    """Time from `after` until the rates of all flows, averaged over `over` samples, stay within `close` of each other.

    Each time, the rates of the active flows are compared. Infinite if rates differ by more at the end.
    """
    time = run._values("time")
    inside = _in_span(time, (after, float(time[-1]) if until is None else until))
    rates = np.where(_overlap(run, scenario) > (1.0 - 1e-9) * _period(run), run._values("rate"), np.nan)
    x = np.apply_along_axis(_smooth, 0, rates[inside], over)
    active = np.isfinite(x)
    spread = np.where(active, x, -np.inf).max(axis=1) - np.where(active, x, np.inf).min(axis=1)
    mean = np.where(active, x, 0.0).sum(axis=1) / np.maximum(active.sum(axis=1), 1)
    unequal = np.flatnonzero(spread > close * mean)
    if not len(unequal):
        return 0.0
    return float(time[inside][over - 1 :][unequal[-1]]) - after if unequal[-1] + 1 < len(x) else float("inf")


@metric("rate over the fair share of those active")
def share_of_active(run: Trajectory, scenario: Scenario, flow: int, link: int = 0, between: Span = None) -> float:
    """Ratio of a flow's mean rate to the mean of capacity / active flows and transfers, all assumed on the link."""
    return rate(run, scenario, flow, between) / float(_fair_share(run, scenario, link, between).mean())


@metric("highest fair share of those active", "bit/s")
def highest_fair_share(
    run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None, over: int = 1
) -> float:
    """Maximum fair share, which is capacity / active flows and transfers, averaged over `over` samples."""
    return float(_smooth(_fair_share(run, scenario, link, between), over).max())


@metric("share of the time with an active flow")
def active_share(run: Trajectory, scenario: Scenario, between: Span = None) -> float:
    """Share of the samples in which a flow or transfer is active for some time."""
    ends = run.flows["finish"].to_numpy(float).copy()
    stops = [np.nan if flow.stop is None else flow.stop for flow in scenario.network.flows]
    ends[: len(stops)] = np.fmin(ends[: len(stops)], stops)
    return float((_active_counts(run, ends + _period(run), between) > 0).mean())


@metric("share of the time that the flow is bottlenecked at the link")
def bottlenecked_share(run: Trajectory, scenario: Scenario, flow: int, link: int = 0, between: Span = None) -> float:
    """Share of the samples with an active flow in which the flow is bottlenecked at a link."""
    return float((_active_samples(run, scenario, flow, between, "bottleneck") == link).mean())


@metric("settling time", "s")
def settling_time(
    run: Trajectory,
    scenario: Scenario,
    flow: int,
    after: float,
    target: float | None = None,
    close: float = 0.1,
    until: float | None = None,
    over: int = 1,
) -> float:
    """Time from `after` until a flow's rate, averaged over `over` samples, stays within `close` of `target` (bit/s).

    Without a target, it is the mean over the last tenth of the time up to `until`. Infinite if the rate is outside at
    the end.
    """
    return _settling(run, run._values("rate")[:, flow], after, target, close, until, over)


@metric("mean settling time of joining flows", "s")
def mean_settling_time(run: Trajectory, scenario: Scenario, until: float, close: float = 0.1) -> float:
    """Mean `settling_time` of all flows of the network after the first, each from its start to the next start."""
    starts = sorted((flow.start, k) for k, flow in enumerate(scenario.network.flows))[1:]
    ends = [start for start, _ in starts[1:]] + [until]
    times = [
        settling_time(run, scenario, k, start, None, close, end) for (start, k), end in zip(starts, ends, strict=True)
    ]
    return float(np.mean(times))


# ---- links -----------------------------------------------------------------------------------------------


@metric("utilization")
def utilization(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Bytes that leave the queue of a link, as a share of its capacity over the same time."""
    inside = np.flatnonzero(_inside(run, between))
    first, last = int(inside[0]), int(inside[-1]) + 1
    queue = np.concatenate([[0.0], run._values("queue")[:, link]])
    lost = _dropped(run, link, between).sum()
    carried = _offered(run, link, between).sum() - lost - (queue[last] - queue[first])
    return float(8.0 * carried / (scenario.network.links[link].capacity * _period(run) * (last - first)))


@metric("arrival rate", "bit/s")
def arrival(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Mean rate that arrives at a link."""
    return float(_selected(run, between, run._values("arrival")[:, link]).mean())


@metric("peak arrival rate", "bit/s")
def peak_arrival(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None, over: int = 1) -> float:
    """Maximum rate that arrives at a link, averaged over `over` samples."""
    return float(_smooth(_selected(run, between, run._values("arrival")[:, link]), over).max())


@metric("load")
def load(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Mean rate that arrives at a link, as a share of its capacity."""
    return arrival(run, scenario, link, between) / float(scenario.network.links[link].capacity)


@metric("peak load")
def peak_load(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None, over: int = 1) -> float:
    """Maximum rate that arrives at a link, averaged over `over` samples, as a share of its capacity."""
    return peak_arrival(run, scenario, link, between, over) / float(scenario.network.links[link].capacity)


@metric("time above capacity", "s")
def overload_time(
    run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None, by: float = 0.01, over: int = 1
) -> float:
    """Time for which the arrival rate of a link, averaged over `over` samples, exceeds (1 + `by`) times capacity."""
    load = _smooth(_selected(run, between, run._values("arrival")[:, link]), over)
    return float((load > (1.0 + by) * scenario.network.links[link].capacity).sum() * _period(run))


@metric("variance of the load")
def load_variance(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Variance of the arrival rate of a link, as a share of its capacity."""
    return float(
        (_selected(run, between, run._values("arrival")[:, link]) / scenario.network.links[link].capacity).var()
    )


@metric("settling time of the arrival rate", "s")
def arrival_settling_time(
    run: Trajectory,
    scenario: Scenario,
    after: float,
    link: int = 0,
    target: float | None = None,
    close: float = 0.1,
    until: float | None = None,
    over: int = 1,
) -> float:
    """Settling time of the arrival rate of a link; see `settling_time`."""
    return _settling(run, run._values("arrival")[:, link], after, target, close, until, over)


@metric("coefficient of variation of the arrival rate")
def arrival_variation(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None, over: int = 1) -> float:
    """Ratio of the standard deviation of a link's arrival rate, averaged over `over` samples, to its mean."""
    x = _smooth(_selected(run, between, run._values("arrival")[:, link]), over)
    return float(x.std() / x.mean())


@metric("peak queue", "bytes")
def peak_queue(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Longest queue of a link."""
    return float(_selected(run, between, run._values("queue_max")[:, link]).max())


@metric("mean queue", "bytes")
def mean_queue(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Mean queue of a link."""
    queue = run._values("queue_mean" if run.has("queue_mean") else "queue")
    return float(_selected(run, between, queue[:, link]).mean())


@metric("swing of the queue", "bytes")
def queue_swing(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Peak of the queue of a link minus its minimum at the ends of samples."""
    return peak_queue(run, scenario, link, between) - float(
        _selected(run, between, run._values("queue")[:, link]).min()
    )


@metric("mean queueing delay of the link", "s")
def link_delay(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Mean queue of a link over its capacity: the mean wait in a link with one queue and a constant capacity."""
    return 8.0 * mean_queue(run, scenario, link, between) / float(scenario.network.links[link].capacity)


@metric("mean queueing delay", "s")
def queueing_delay(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """Mean RTT minus propagation, of the flows of the network or of `flows`, over their samples; see `round_trip`.

    In packet runs it includes the transmission of the packet and of its ACK. With several queues at a link
    it is the delay of the queues that the flows use.
    """
    return float(_queueing_delays(run, scenario, flows, between).mean())


@metric("99th percentile of the queueing delay", "s")
def p99_queueing_delay(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """99th percentile of the queueing delay of flows; see `queueing_delay`."""
    return float(np.quantile(_queueing_delays(run, scenario, flows, between), 0.99))


@metric("mean round-trip time", "s")
def round_trip(
    run: Trajectory, scenario: Scenario, flow: int = 0, link: int | None = None, between: Span = None
) -> float:
    """Mean RTT of a flow; in packet runs as measured by its sender, averaged over the samples with measurements.

    In other runs it is the propagation RTT plus queue over capacity of each link of the route, or only of `link`.
    """
    return float(_round_trips(run, scenario, flow, link, between, "rtt").mean())


@metric("longest round-trip time", "s")
def peak_round_trip(
    run: Trajectory, scenario: Scenario, flow: int = 0, link: int | None = None, between: Span = None
) -> float:
    """Maximum RTT of a flow; in packet runs as measured by its sender.

    In other runs it is the maximum over samples, computed as for `round_trip` from the peaks of the queues.
    """
    return float(_round_trips(run, scenario, flow, link, between, "rtt_max").max())


def _round_trip_quantile(
    run: Trajectory, scenario: Scenario, quantile: float, flows: Sequence[int] | None, between: Span
) -> float:
    values = [_round_trips(run, scenario, k, None, between, "rtt") for k in _flow_indices(scenario, flows)]
    return float(np.quantile(np.concatenate(values), quantile))


@metric("median round-trip time", "s")
def median_round_trip(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """Median RTT of the flows of the network, or of `flows`, over their samples; see `round_trip`."""
    return _round_trip_quantile(run, scenario, 0.5, flows, between)


@metric("95th percentile of the round-trip time", "s")
def p95_round_trip(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """95th percentile of the RTT of the flows of the network, or of `flows`; see `median_round_trip`."""
    return _round_trip_quantile(run, scenario, 0.95, flows, between)


@metric("99th percentile of the round-trip time", "s")
def p99_round_trip(
    run: Trajectory, scenario: Scenario, flows: Sequence[int] | None = None, between: Span = None
) -> float:
    """99th percentile of the RTT of the flows of the network, or of `flows`; see `median_round_trip`."""
    return _round_trip_quantile(run, scenario, 0.99, flows, between)


@metric("time until the queue stays short", "s")
def queue_drain_time(
    run: Trajectory, scenario: Scenario, after: float, link: int = 0, below: float = 0.0, until: float | None = None
) -> float:
    """Time from `after` until the queue of a link stays at or below `below` [bytes]."""
    time = run._values("time")
    inside = (time > after) & (time <= (np.inf if until is None else until))
    late = np.flatnonzero(run._values("queue_max")[inside, link] > below)
    return 0.0 if not len(late) else float(time[inside][late[-1]]) - after if late[-1] + 1 < inside.sum() else np.inf


@metric("share of the time with a shorter queue", needs_histogram=True)
def queue_below(run: Trajectory, scenario: Scenario, packets: float, link: int = 0) -> float:
    """Share of the time, from `histogram_from` on, with fewer than `packets` packets in the queue."""
    return float(run.queue_below(packets * _packet_size(scenario))[link])


@metric("loss")
def loss(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Share of the bytes arriving at a link that its queues drop; 0 without arrivals. `lost_share` has all losses."""
    return float(_lost_share(_dropped(run, link, between).sum(), _offered(run, link, between).sum()))


@metric("largest loss")
def peak_loss(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Maximum over samples of the share of the bytes arriving at a link that it drops.

    The share is 1 if more bytes are dropped than arrive in a sample: some disciplines drop waiting packets.
    """
    return float(_lost_share(_dropped(run, link, between), _offered(run, link, between)).max())


@metric("time with losses", "s")
def lossy_time(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Time, in whole samples, during which a link drops packets or parts of them."""
    return float((_dropped(run, link, between) > 0).sum() * _period(run))


@metric("dropped", "bytes")
def dropped(run: Trajectory, scenario: Scenario, link: int = 0, between: Span = None) -> float:
    """Bytes that a link drops, including those that trimming removes."""
    return float(_dropped(run, link, between).sum())


@metric("dropped at all links", "bytes")
def dropped_anywhere(run: Trajectory, scenario: Scenario) -> float:
    """Bytes that all links drop, including those that trimming removes."""
    return float(run.dropped_bytes.sum())


@metric("lost by flows", selects_starts=True)
def lost_share(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """Share of the bytes of all flows and transfers, or of `flows`, that were lost; 0 if nothing was sent.

    It counts losses in queues and by impairments such as `RandomLoss`, as senders know them: over a transport, the
    bytes sent again. `sizes` is a range of sizes [bytes]; `between` is a range of the starts of transfers [s].
    """
    rows, _ = _rows(run, flows, sizes, between)
    lost = float(rows["lost"].sum())
    return lost / max(lost + float(rows["delivered"].sum()), 1.0)


# ---- transfers -------------------------------------------------------------------------------------------


@metric("unfinished flows", selects_starts=True)
def unfinished(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """Number of flows and transfers of finite size that start and do not finish in the run, or that of `flows`.

    Completion times and slowdowns leave them out: if it is not 0, their means and percentiles are too small.
    """
    rows, _ = _rows(run, flows, sizes, between)
    has_started = rows["size"].notna() & (rows["start"] < float(run.data["time"][-1]))
    return float((has_started & rows["completion_time"].isna()).sum())


@metric("mean completion time", "s", selects_starts=True)
def mean_completion_time(
    run: Trajectory,
    scenario: Scenario,
    sizes: Sequence[float] | None = None,
    between: Span = None,
    flows: Sequence[int] | None = None,
) -> float:
    """Mean completion time of the completed transfers of the workload, or of `flows`; without a workload of all flows.

    `sizes` is a range of sizes [bytes].
    """
    if flows is None and scenario.workload is not None:
        flows = run.transfers.index.tolist()
    return float(_completed(run, flows, sizes, between)["completion_time"].mean())


@metric("median completion time", "s", selects_starts=True)
def median_completion_time(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """Median completion time of all completed flows and transfers of finite size, or of `flows`."""
    return _completion_quantile(run, 0.5, flows, sizes, between)


@metric("95th percentile of the completion time", "s", selects_starts=True)
def p95_completion_time(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """95th percentile of completion times; see `median_completion_time`."""
    return _completion_quantile(run, 0.95, flows, sizes, between)


@metric("99th percentile of the completion time", "s", selects_starts=True)
def p99_completion_time(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """99th percentile of completion times; see `median_completion_time`."""
    return _completion_quantile(run, 0.99, flows, sizes, between)


@metric("mean slowdown", selects_starts=True)
def mean_slowdown(
    run: Trajectory,
    scenario: Scenario,
    sizes: Sequence[float] | None = None,
    between: Span = None,
    flows: Sequence[int] | None = None,
) -> float:
    """Mean slowdown of completed flows in packet runs: completion time over that of the same flow alone.

    `flows` selects flows, and `sizes` a range of sizes [bytes].
    """
    return float(_slowdowns(run, flows, sizes, between).mean())


@metric("median slowdown", selects_starts=True)
def median_slowdown(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """Median slowdown of completed flows; see `mean_slowdown`."""
    return float(_slowdowns(run, flows, sizes, between).quantile(0.5))


@metric("95th percentile of the slowdown", selects_starts=True)
def p95_slowdown(
    run: Trajectory,
    scenario: Scenario,
    flows: Sequence[int] | None = None,
    sizes: Sequence[float] | None = None,
    between: Span = None,
) -> float:
    """95th percentile of the slowdown of completed flows; see `mean_slowdown`."""
    return float(_slowdowns(run, flows, sizes, between).quantile(0.95))


@metric("99th percentile of the slowdown", selects_starts=True)
def p99_slowdown(
    run: Trajectory,
    scenario: Scenario,
    sizes: Sequence[float] | None = None,
    between: Span = None,
    flows: Sequence[int] | None = None,
) -> float:
    """99th percentile of the slowdown of completed flows; see `mean_slowdown`."""
    return float(_slowdowns(run, flows, sizes, between).quantile(0.99))


def _slowdowns(run: Trajectory, flows: Sequence[int] | None, sizes: Sequence[float] | None, between: Span) -> pd.Series:
    if "ideal_time" not in run.flows:
        raise ValueError("run must be a packet run for slowdowns, whose flows have an ideal_time")
    rows = _completed(run, flows, sizes, between)
    return rows["completion_time"] / rows["ideal_time"]


def _completion_quantile(
    run: Trajectory, quantile: float, flows: Sequence[int] | None, sizes: Sequence[float] | None, between: Span
) -> float:
    return float(_completed(run, flows, sizes, between)["completion_time"].quantile(quantile))


def _rows(
    run: Trajectory, flows: Sequence[int] | None, sizes: Sequence[float] | None, between: Span
) -> tuple[pd.DataFrame, str]:
    """Return the rows of `run.flows` in ranges of sizes [bytes] and starts [s], and the words for these ranges."""
    rows, which = run.flows if flows is None else run.flows[run.flows.index.isin(list(flows))], ""
    if sizes is not None:
        rows = rows[(rows["size"] >= sizes[0]) & (rows["size"] < sizes[1])]
        which += f" with a size from {sizes[0]:g} to {sizes[1]:g} bytes"
    if between is not None:
        rows = rows[(rows["start"] >= between[0]) & (rows["start"] < between[1])]
        which += f" with a start between {between[0]:g} and {between[1]:g} s"
    return rows, which


def _completed(
    run: Trajectory, flows: Sequence[int] | None, sizes: Sequence[float] | None, between: Span
) -> pd.DataFrame:
    """Return the rows of completed flows and transfers in ranges of sizes and starts; refuse an empty result."""
    rows, which = _rows(run, flows, sizes, between)
    completed = rows[np.isfinite(rows["completion_time"].to_numpy(float))]
    if not len(completed):
        raise ValueError(f"completion times need a transfer{which} that completed, got none of {len(rows)}")
    return completed


@check_arguments
def percentiles(
    run: Trajectory,
    of: str = "completion_time",
    classes: str | Mapping[str, Sequence[int]] | None = None,
    quantiles: Sequence[float] = (0.5, 0.95, 0.99),
    between: Span = None,
) -> pd.DataFrame:
    """Return percentiles of delays or completion times for each class of flows.

    Parameters
    ----------
    run : Trajectory
        Packet run for delays and slowdowns; any engine for completion times.
    of : str, optional
        "completion_time" [s] or "slowdown" (completion time over that of the flow alone), for completed transfers and
        flows of finite size; or "rtt" [s], for the samples of `run.rtt`, that is for flows of the network.
    classes : str, or mapping of name to sequence of int, or None
        Column of `run.flows` that holds the class, for example "protocol"; or name of each class with the numbers of
        its flows (rows of `run.flows`). None: one class "all".
    quantiles : sequence of float, from 0 to 1, optional
        Linear between the order statistics.
    between : (float, float), s, optional
        Range of times: of the starts of flows for completion times and slowdowns, of the ends of samples for RTTs.
        Default: all.

    Returns
    -------
    DataFrame
        One row a class, with its name as index: "count" of values, "mean", and "p50", "p95", ...; NaN for a class
        without values.

    Raises
    ------
    ValueError
        An unknown `of` or column, a flow that does not exist, a quantile out of range, a run without the values.

    Examples
    --------
    >>> percentiles(run, "rtt", {"call": [0], "downloads": [1, 2]})  # doctest: +SKIP
    """
    import pandas as pd

    sources = {"completion_time": "completion_time", "slowdown": "ideal_time", "rtt": "rtt"}
    if of not in sources:
        raise ValueError(f"of must be one of {', '.join(sources)}, got {shown(of)}")
    if sources[of] not in (run.data if of == "rtt" else run.flows):
        raise ValueError(f"run must be a packet run for percentiles of the {of}, got one without {sources[of]}")
    shares = np.asarray(quantiles, dtype=float)
    if not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise ValueError(f"quantiles must be from 0 to 1, got {shown(quantiles)}")
    table = {}
    for name, numbers in _classes(run, classes).items():
        rows = run.flows.loc[numbers]
        if of == "rtt":
            columns = [k for k in numbers if k < run.data.sizes["flow"]]
            values = _selected(run, between, run._values("rtt")[:, columns]).ravel()
        else:
            if between is not None:
                rows = rows[(rows["start"] >= between[0]) & (rows["start"] < between[1])]
            times = rows["completion_time"]
            values = (times / rows["ideal_time"] if of == "slowdown" else times).to_numpy(float)
        values = values[np.isfinite(values)]
        row_values = np.quantile(values, shares).tolist() if len(values) else [np.nan] * len(shares)
        mean = values.mean() if len(values) else np.nan
        names = [f"p{100.0 * share:g}" for share in shares]
        table[name] = {"count": len(values), "mean": mean} | dict(zip(names, row_values, strict=True))
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("class")


def _classes(run: Trajectory, classes: str | Mapping[str, Sequence[int]] | None) -> dict[str, list[int]]:
    """Return the numbers of the flows of each class."""
    if classes is None:
        return {"all": run.flows.index.tolist()}
    if isinstance(classes, str):
        if classes not in run.flows:
            raise ValueError(f"classes must be a column of run.flows ({', '.join(run.flows)}), got {classes!r}")
        return {str(name): rows.index.tolist() for name, rows in run.flows.groupby(classes)}
    for name, numbers in classes.items():
        strange = [k for k in numbers if k not in run.flows.index]
        if strange:
            raise ValueError(f"classes must have numbers of flows of the run, got {shown(strange[0])} in {name!r}")
    return {name: list(numbers) for name, numbers in classes.items()}


@metric("queue found by arriving packets", "bytes", needs_histogram=True)
def queue_found(run: Trajectory, scenario: Scenario, link: int = 0, quantile: float | None = None) -> float:
    """Queue of a link at arrivals of packets, in packet runs: the mean, or a quantile.

    It covers the time from the beginning of `--between` in a sweep, or from `histogram_from` in Python, to the end.
    """
    queues = run.queues
    if queues is None:
        raise ValueError("queue_found needs a packet run that counts queues (histogram_from=), got one that does not")
    if quantile is not None:
        return float(run.queue_quantiles([quantile], by="arrivals").isel(link=link)[0])
    arrivals = queues["arrivals"].isel(link=link).to_numpy()
    if not arrivals.any():
        raise ValueError(f"queue_found needs packets that arrive at link {link}, got none")
    middle = (queues["lowest"] + queues["above"] - 1).to_numpy() / 2.0
    return float(arrivals @ middle / arrivals.sum())


@metric("mean response time", "s")
def response_time(run: Trajectory, scenario: Scenario, after: float = 0.0, larger: float = 0.0) -> float:
    """Mean response time of ended connections that start after `after` [s] and are larger than `larger` [bytes]."""
    times = response_times(run.flows)
    times = times[(times["start"] > after) & (times["size"] > larger) & times["response_time"].notna()]
    return float(times["response_time"].mean())


@metric("median response time", "s")
def median_response_time(run: Trajectory, scenario: Scenario, after: float = 0.0, larger: float = 0.0) -> float:
    """Median response time of connections that start after `after` [s] and are larger than `larger` [bytes]."""
    times = response_times(run.flows)
    times = times[(times["start"] > after) & (times["size"] > larger)]["response_time"].fillna(np.inf)
    return float(times.median())


@metric("ratio of baseRTT to the RTT of propagation")
def base_rtt(run: Trajectory, scenario: Scenario, quantile: float, after: float = 0.0) -> float:
    """Quantile, over transfers, of the ratio of the minimum RTT of a sender to the RTT without queues."""
    rows = run.flows[(run.flows["start"] > after) & run.flows["min_rtt"].notna() & (run.flows["idle_rtt"] > 0.0)]
    return float((rows["min_rtt"] / rows["idle_rtt"]).quantile(quantile))


@metric("connections with a high baseRTT")
def base_rtt_above(run: Trajectory, scenario: Scenario, ratio: float, after: float = 0.0) -> float:
    """Share of the transfers with a minimum RTT above `ratio` times the RTT without queues."""
    rows = run.flows[(run.flows["start"] > after) & run.flows["min_rtt"].notna() & (run.flows["idle_rtt"] > 0.0)]
    return float((rows["min_rtt"] > ratio * rows["idle_rtt"]).mean())


@metric("quantile of the size", "bytes")
def size_quantile(run: Trajectory, scenario: Scenario, quantile: float) -> float:
    """Quantile of the sizes of connections, both directions together."""
    return float(response_times(run.flows)["size"].quantile(quantile))


@metric("share of large connections in the load")
def large_share(run: Trajectory, scenario: Scenario, larger: float) -> float:
    """Share of all bytes that belong to connections larger than `larger` [bytes]."""
    sizes = response_times(run.flows)["size"].to_numpy(float)
    return float(sizes[sizes > larger].sum() / sizes.sum())


@metric("median RTT", "s")
def median_rtt(run: Trajectory, scenario: Scenario) -> float:
    """Median, over connections, of the RTT without queues."""
    rows = run.flows[run.flows["connection"] >= 0]
    return float(rows.groupby("connection")["idle_rtt"].first().median())


# ---- frames of media -------------------------------------------------------------------------------------


@metric("mean delay of frames", "s")
def frame_delay(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """Mean time from capture to complete arrival of the frames of a flow; the run has recorded `FRAME_FIELDS`."""
    return float(_frames(run, flow, between).delay.mean())


@metric("95th percentile of the delay of frames", "s")
def p95_frame_delay(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """95th percentile of the delay of frames; see `frame_delay`."""
    return float(np.quantile(_frames(run, flow, between).delay, 0.95))


@metric("complete frames per second")
def frame_rate(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """Complete frames of a flow, of those captured `between`, per second [1/s]."""
    begin, end = (0.0, scenario.duration) if between is None else between
    return len(frames(run, flow).between(begin, end).delay) / (end - begin)


@metric("share of lost frames")
def lost_frames(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """Share of the frames of a flow that never became complete, because a packet was lost."""
    chosen = _frames(run, flow, between)
    return chosen.lost / (chosen.lost + len(chosen.delay))


@metric("number of freezes")
def freezes(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """Number of gaps between complete frames of 3 intervals or more, and 150 ms longer than an interval or more."""
    return float(len(_frames(run, flow, between).freezes))


@metric("time in freezes", "s")
def freeze_time(run: Trajectory, scenario: Scenario, flow: int = 0, between: Span = None) -> float:
    """Sum of the gaps that count in `freezes`."""
    return float(_frames(run, flow, between).freezes.sum())


# ---- shared by several metrics ---------------------------------------------------------------------------


def _frames(run: Trajectory, flow: int, between: Span) -> Frames:
    """Return the frames of a flow that were captured `between`, of which there is at least one."""
    chosen = frames(run, flow)
    chosen = chosen if between is None else chosen.between(*between)
    if len(chosen.delay) == 0:
        raise ValueError(f"metrics of frames need a complete frame of flow {flow} in the given time, got 0")
    return chosen


def _in_span(time: FloatArray, between: Span) -> NDArray[np.bool_]:
    if between is None:
        return np.ones(len(time), dtype=bool)
    inside = (time > between[0] + 1e-9) & (time <= between[1] + 1e-9)
    if not inside.any():
        raise ValueError(f"between must hold samples of the run, which ends at {time[-1]:g} s, got {list(between)}")
    return inside


def _inside(run: Trajectory, between: Span) -> NDArray[np.bool_]:
    if (span := () if between is None else (*between,)) not in run._spans:
        run._spans[span] = _in_span(run._values("time"), between)
    return run._spans[span]


def _selected(run: Trajectory, between: Span, values: FloatArray) -> FloatArray:
    return values[_inside(run, between)]


def _smooth(values: FloatArray, over: int) -> FloatArray:
    return np.convolve(values, np.full(over, 1.0 / over), mode="valid") if over > 1 else values


def _settling(
    run: Trajectory,
    values: FloatArray,
    after: float,
    target: float | None,
    close: float,
    until: float | None,
    over: int,
) -> float:
    time = run._values("time")
    inside = _in_span(time, (after, float(time[-1]) if until is None else until))
    times, x = time[inside][over - 1 :], _smooth(values[inside], over)
    level = float(x[-max(1, len(x) // 10) :].mean()) if target is None else target
    outside = np.flatnonzero(np.abs(x - level) > close * level)
    if not len(outside):
        return 0.0
    return float(times[outside[-1]]) - after if outside[-1] + 1 < len(x) else float("inf")


def _fair_share(run: Trajectory, scenario: Scenario, link: int, between: Span) -> FloatArray:
    """Return the capacity of a link over the active flows and transfers, all assumed to use it, at each sample."""
    active = _active_counts(run, run.flows["finish"].to_numpy(float), between)
    return np.asarray(scenario.network.links[link].capacity / np.maximum(active, 1))


def _active_counts(run: Trajectory, ends: FloatArray, between: Span) -> NDArray[np.int64]:
    """Return the number of flows and transfers that have started, and not ended, at the end of each sample."""
    times = _selected(run, between, run._values("time"))
    starts, ends = np.sort(run.flows["start"].to_numpy(float)), np.sort(np.nan_to_num(ends, nan=np.inf))
    counts: NDArray[np.int64] = np.searchsorted(starts, times) - np.searchsorted(ends, times)
    return counts


def _offered(run: Trajectory, link: int, between: Span) -> FloatArray:
    """Return the bytes that arrive at a link in each sample."""
    return _selected(run, between, run._values("arrival")[:, link]) * _period(run) / 8.0


def _dropped(run: Trajectory, link: int, between: Span) -> FloatArray:
    """Return the bytes that a link drops in each sample."""
    return _selected(run, between, run._values("dropped_bytes")[:, link])


def _lost_share(dropped: Any, offered: Any) -> Any:
    """Return dropped bytes over arriving bytes, at most 1; 0 without arrivals and drops."""
    return dropped / np.maximum(np.maximum(offered, dropped), 1e-9)


def _period(run: Trajectory) -> float:
    """Return the sampling period [s]."""
    time = run._values("time")
    return float(time[1] - time[0] if len(time) > 1 else time[0])


def _packet_size(scenario: Scenario) -> float:
    """Return the mean packet size of the flows [bytes]; refuse flows with different ones."""
    sizes = sorted({float(flow.mean_packet) for flow in scenario.network.flows})
    if len(sizes) != 1:
        text = f"from {sizes[0]:g} to {sizes[-1]:g} bytes" if sizes else "no flows"
        raise ValueError(f"a unit of packets needs flows with packets of one size, got {text}")
    return sizes[0]


def _flow_indices(scenario: Scenario, flows: Sequence[int] | None) -> list[int]:
    """Return the indices of the selected flows of the network, all by default."""
    numbers = list(range(scenario.network.n_flows)) if flows is None else list(flows)
    if not numbers or not all(0 <= k < scenario.network.n_flows for k in numbers):
        raise ValueError(f"flows must be from 0 to {scenario.network.n_flows - 1}, got {shown(flows)}")
    return numbers


def _overlap(run: Trajectory, scenario: Scenario) -> FloatArray:
    """Return the time in each sample for which each flow of the network is active, shape (n_times, n_flows), s."""
    ends, n = run._values("time")[:, None], scenario.network.n_flows
    starts = np.array([flow.start for flow in scenario.network.flows], dtype=float)
    finish = run._column("finish")
    stops = np.full(n, np.inf) if finish is None else np.where(np.isnan(finish[:n]), np.inf, finish[:n])
    seconds: FloatArray = np.maximum(0.0, np.minimum(ends, stops) - np.maximum(ends - _period(run), starts))
    return seconds


def _active_rates(run: Trajectory, scenario: Scenario, between: Span, flows: Sequence[int] | None = None) -> FloatArray:
    """Return the mean sending rates of flows over the time for which they are active; others are left out."""
    numbers = _flow_indices(scenario, flows)
    active = _selected(run, between, _overlap(run, scenario)[:, numbers]).sum(axis=0)
    sent = _selected(run, between, run._values("rate")[:, numbers]).sum(axis=0) * _period(run)
    is_active = active > 1e-9
    rates: FloatArray = sent[is_active] / active[is_active]
    return rates


def _active_samples(run: Trajectory, scenario: Scenario, flow: int, between: Span, series: str = "rate") -> FloatArray:
    """Return a series of a flow in the samples in which it is active throughout."""
    active = _selected(run, between, _overlap(run, scenario)[:, flow]) > (1.0 - 1e-9) * _period(run)
    if not active.any():
        raise ValueError(f"the flow must be active for a sample of the time between, got flow {flow}, which is not")
    values: FloatArray = _selected(run, between, run._values(series)[:, flow])[active]
    return values


def _round_trips(
    run: Trajectory, scenario: Scenario, flow: int, link: int | None, between: Span, series: str
) -> FloatArray:
    """Return the RTTs of a flow [s], "rtt" or "rtt_max": the measured ones, or those computed from queues."""
    if not run.has(series):
        return _round_trips_from_queues(run, scenario, flow, link, between, series)
    values = _selected(run, between, run._values(series)[:, flow])
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError(f"the flow must measure an RTT in the time between, got flow {flow}, which does not")
    return values


def _queueing_delays(run: Trajectory, scenario: Scenario, flows: Sequence[int] | None, between: Span) -> FloatArray:
    """Return the RTTs of flows minus their propagation, over all samples of all flows [s]."""
    rtts = scenario.network.rtts if "idle_rtt" not in run.flows else run.flows["idle_rtt"].to_numpy(float)
    numbers = _flow_indices(scenario, flows)
    return np.concatenate([_round_trips(run, scenario, k, None, between, "rtt") - rtts[k] for k in numbers])


def _round_trips_from_queues(
    run: Trajectory, scenario: Scenario, flow: int, link: int | None, between: Span, series: str
) -> FloatArray:
    """Return the propagation RTT of a flow plus queues over capacities on its route, at each sample [s]."""
    network = scenario.network
    route = network.flows[flow].route
    if link is not None and link not in route:
        raise ValueError(f"link must be on the route of flow {flow} ({', '.join(map(str, route))}), got {link}")
    links = list(route) if link is None else [link]
    several = set(run.data["class_link"].to_numpy().tolist()) if "class_link" in run.data.coords else set()
    if several & set(links):
        raise ValueError(f"a packet run is needed for the RTT over link {min(several)}, which has several queues")
    queue = run._values("queue_max" if series == "rtt_max" else "queue")
    waits = [8.0 * queue[:, k] / network.links[k].capacity for k in links]
    return _selected(run, between, float(network.rtts[flow]) + np.sum(waits, axis=0))


# ---- figures ---------------------------------------------------------------------------------------------


def series(run: Trajectory, scenario: Scenario, most: int, points: int = 400) -> dict[str, Any]:
    """Return rates and queues for a figure as plain data.

    If there are too many flows or links, those in the middle of the list are left out. A point shows the mean of rates
    and the peak of queues over its samples, so that no peak is lost.

    Parameters
    ----------
    run : Trajectory
    scenario : Scenario
        Scenario of the run.
    most : int
        Maximum number of flows, and of links.
    points : int, optional
        Approximate number of times.
    """
    time = run._values("time")
    step = max(1, len(time) // points)
    n = len(time) // step * step
    flows, links = _shown_indices(run.rate.shape[1], most), _shown_indices(run.queue_max.shape[1], most)
    rates = run._values("rate")[:n, flows].reshape(-1, step, len(flows)).mean(axis=1)
    queues = run._values("queue_max")[:n, links].reshape(-1, step, len(links)).max(axis=1)
    hidden = run.rate.shape[1] - len(flows)
    sizes = {float(flow.mean_packet) for flow in scenario.network.flows}
    text = f"Rates averaged and queues at their peak over {step * (time[1] - time[0]):.3g} s"
    rest = " Transfers that come and go are not drawn." if scenario.workload is not None else ""
    return {
        "time": _plain(time[:n].reshape(-1, step)[:, -1]),
        "rates": [_plain(x) for x in rates.T],
        "queues": [_plain(x) for x in queues.T],
        "flows": [f"x{k + 1}" for k in flows],
        "links": [f"l{k + 1}" for k in links],
        "packet_size": sizes.pop() if len(sizes) == 1 else None,
        "said": f"{text}{f'; {hidden} flows between them are left out' if hidden else ''}.{rest}",
    }


def _shown_indices(count: int, most: int) -> list[int]:
    """Return all indices, or the first and last halves of `most` of them."""
    return list(range(count)) if count <= most else [*range(most - most // 2), *range(count - most // 2, count)]


def _plain(values: FloatArray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
