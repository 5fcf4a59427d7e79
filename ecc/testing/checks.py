"""Checks of one property of a protocol on one scenario; `ecc.testing.suite` searches scenarios that violate them.

Each function takes a protocol, a pair of hosts and queue discipline, or a scenario, and returns nothing if the property
holds. It raises `PropertyError` with the numbers that differ, or `NotApplicable` with the reason. An error of an engine
that refuses the protocol is passed on.

Runs are compared in rates relative to the capacity, and queues in packets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet
from ecc.contract.assignment import ProtocolAssignment, read_protocol, with_parameter
from ecc.contract.kinds import Kind, kind_of_laws, sets_windows
from ecc.contract.protocol import Protocol
from ecc.contract.values import equilibrium_of
from ecc.errors import EccError, LinearizationError
from ecc.linear import DelaySystem, SampledSystem, StabilityLimit
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.network.network import Flow, Network
from ecc.packet.simulation import Run, resume
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.stability import critical_gain
from ecc.testing import transforms
from ecc.testing.strategies import example_network, operating_range
from ecc.testing.transforms import Transformed

__all__ = [
    "NotApplicable",
    "PropertyError",
    "agreement",
    "checkpoint",
    "conservation",
    "fixed_point",
    "fluid_run",
    "idle_parts",
    "linearization",
    "packet_run",
    "relabeling",
    "scaling",
    "stability_limit",
    "twin",
]

FloatArray = NDArray[np.float64]
Subject = Protocol | ProtocolAssignment | Mapping[str, Any] | Scenario

ROUNDING = 1e-6
"""Relative differences up to this are due to the order of floating-point additions in fluid runs."""
RATE_TOLERANCE, QUEUE_TOLERANCE, PACKETS_PER_FLOW = 0.1, 0.25, 6.0
"""Allowed differences of fluid and packets: of rates, of queues, and packets of each flow, absent from a fluid."""
FLOW_TOLERANCE = 0.25
"""Allowed difference of the rates of flows between two packet runs, which may differ in single packets."""
SMALL, LARGE = 1e-2, 0.05
"""Relative deviations from an equilibrium: the maximum for a run at rest, and the maximum for a run close to it."""
NOT_IN_MODEL = 0.02
"""Maximum relative distance between a mode of a run and a root of the linear model."""
MAX_RTTS = 300.0
"""Duration of a fluid run that measures a mode, in RTTs."""
TOO_SLOW = "deviations of the fluid grow or decay too slowly to measure"
TWIN_PACKETS = 1500
"""Number of packets in a run of the engine in Python, which is hundreds of times slower than the C engine."""


class PropertyError(EccError, AssertionError):
    """A protocol violates a property; the message has the numbers in one line."""


class NotApplicable(EccError):
    """A property cannot be checked; the message says why."""


class Refused(NotApplicable):
    """An equilibrium or linear model is refused on this network: a fault if it is refused on all networks."""


# ---- runs ----------------------------------------------------------------------------------------------------


def packet_run(subject: Subject) -> None:
    """Check that the packet engine accepts the declarations of a protocol, and that its hooks run without an error.

    The engine rejects a class that replaces a law which its inherited hooks do not use, or declares ECN without reading
    marks (`ecc.contract.packet_hooks`).

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the run ended early, or delivered nothing.
    NotApplicable
        If the protocol has no packet hooks.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> packet_run(NewReno())
    """
    scenario = _scenario(subject, buffer=1.0)
    _require_packets(scenario.protocol)
    run = packet.simulate(scenario)
    _require_complete(run, "packet run")
    if not float(run.goodput.sum()) > 0.0:
        raise PropertyError("packet run: no flow delivered any data")


def fluid_run(subject: Subject) -> None:
    """Check that a fluid run ends at its horizon, with rates that are finite and not negative.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the run ended early, if a rate or queue is negative or not finite, or if no data was sent.
    NotApplicable
        If the protocol declares no laws, or declares why it has no fluid model.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> fluid_run(NewReno())
    """
    scenario = _scenario(subject, buffer=1.0, rtts=200.0)
    _require_fluid(scenario.protocol)
    run = fluid.simulate(scenario)
    _require_complete(run, "fluid run")
    for name, unit in (("rate", "bit/s"), ("queue", "bytes")):
        values = run.data[name].to_numpy()
        if not np.isfinite(values).all() or values.min() < 0.0:
            time, index = np.argwhere(~(values >= 0.0) | ~np.isfinite(values))[0]
            at = float(run.data["time"][time])
            raise PropertyError(f"fluid run: {name} must be >= 0 {unit}, got {values[time, index]:g} at {at:g} s")
    if not float(run.rate.sum()) > 0.0:
        raise PropertyError("fluid run: no flow sent any data")


def twin(subject: Subject) -> None:
    """Check that hooks compute the same in the C engine, compiled, and in the engine in Python, event by event.

    They differ if a hook keeps state outside the declared records, or uses an operation that Python and compiled code
    compute differently, for example a power with a constant exponent.

    Parameters
    ----------
    subject : Protocol, pair or Scenario
        A scenario is cut to a few thousand packets.

    Raises
    ------
    PropertyError
        If the runs differ.
    NotApplicable
        If the protocol has no packet hooks.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> twin(NewReno())
    """
    scenario = _scenario(subject, buffer=1.0)
    _require_packets(scenario.protocol)
    network = scenario.network
    rate = float(network.capacities.sum()) / (8.0 * operating_range(scenario.protocol).packet_size)
    short = scenario.with_(
        duration=min(float(scenario.duration), TWIN_PACKETS / rate + 2.0 * float(network.rtts.max()))
    )
    compiled, python = (packet.simulate(short, engine=engine) for engine in ("c", "python"))
    for run in (compiled, python):
        _require_complete(run, "packet run")
    _require_same_digest(compiled, python, "the C engine", "the engine in Python")


def checkpoint(subject: Subject) -> None:
    """Check that a packet run repeats, and that it continues from a checkpoint to the identical end.

    Both fail if a hook keeps state outside the declared records (`Header`, `LinkState`, `FlowState`).

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the runs differ.
    NotApplicable
        If the protocol has no packet hooks.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> checkpoint(NewReno())
    """
    scenario = _scenario(subject, buffer=1.0)
    _require_packets(scenario.protocol)
    run, repeated = packet.simulate(scenario), packet.simulate(scenario)
    _require_complete(run, "packet run")
    _require_same_digest(run, repeated, "a run", "the same run again")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        Run(scenario).advance(0.4 * float(scenario.duration)).save(path)
        resumed = resume(path, scenario).advance()
        resumed.close()
    _require_same_digest(run, resumed.trajectory(), "a run", "the run that was resumed from a checkpoint at 40 %")


def conservation(subject: Subject) -> None:
    """Check that bytes sent are delivered, dropped, queued or on the way, in packet runs and in fluid runs.

    On links without a buffer limit the routers of a protocol must not drop packets; queue disciplines may.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If bytes are missing or were created, if a router drops packets from an unlimited buffer, or if a link delivers
        more than its capacity.
    NotApplicable
        If the protocol has neither packet hooks nor laws.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> conservation(NewReno())
    """
    scenario = _scenario(subject)
    engines = [engine for engine, has in ((packet, _has_packets), (fluid, _has_fluid)) if has(scenario.protocol)]
    if not engines:
        raise NotApplicable("the protocol has neither packet hooks nor laws")
    for engine in engines:
        name = "packet run" if engine is packet else "fluid run"
        run = engine.simulate(scenario)
        _require_complete(run, name)
        _require_conserved(scenario, run, name)


def _require_conserved(scenario: Scenario, run: Trajectory, name: str) -> None:
    network = scenario.network
    time = run.data["time"].to_numpy()
    period = float(time[1] - time[0])
    sent, received = (float(run.data[key].sum()) * period / 8.0 for key in ("rate", "goodput"))
    queued = float(run.queue[-1].sum())
    packets = np.array([flow.mean_packet for flow in network.flows])
    dropped = float(
        run.data["dropped_bytes"].sum() if "dropped_bytes" in run.data else run.drops.sum() * packets.mean()
    )
    way = sent - received - queued - dropped  # or sent twice, or at the receiver, waiting for a gap to be filled
    late = min(len(time), 2 + int(np.ceil(float(network.rtts.max()) / period)))
    bound = float(run.rate[-late:].sum()) * period / 8.0 if dropped == 0.0 or name == "fluid run" else sent
    slack = 1e-6 * sent + 4.0 * float(packets.sum())
    if not -slack <= way <= bound + slack:
        raise PropertyError(
            f"{name}: {sent:.6g} bytes were sent, {received:.6g} received, {dropped:.6g} dropped, and {queued:.6g} are "
            f"queued; the difference, {way:.6g} bytes on the way, must be from 0 to {bound:.6g}"
        )
    carried = run.goodput.to_numpy().mean(axis=0) @ network.incidence
    room = network.capacities * (1.0 + ROUNDING) + 8.0 * packets.sum() / float(scenario.duration)
    if (carried > room).any():
        link = int(np.argmax(carried / room))
        raise PropertyError(
            f"{name}: link {link} of {network.capacities[link]:g} bit/s delivered {carried[link]:g} bit/s"
        )
    if isinstance(scenario.protocol, Protocol):
        endless = np.isinf(network.buffers)
        lost = run.drops.sum("time").to_numpy()
        if (lost[endless] > 0).any():
            raise PropertyError(f"{name}: {lost[endless].sum():g} packets were dropped by links without a buffer limit")


# ---- labels and units ----------------------------------------------------------------------------------------


def relabeling(subject: Subject) -> None:
    """Check that the labels of flows and links have no effect: another order permutes the results.

    Fluid runs must be equal. Packet runs may differ in single packets, because the engine handles events of one instant
    in the order of their labels: means of loads and queues are compared as in `agreement`, and those of rates within
    25 % of the capacity. Packet runs of hooks that draw random numbers are not compared.

    Parameters
    ----------
    subject : Protocol, pair or Scenario
        Subject with two flows or more.

    Raises
    ------
    PropertyError
        If the rate of a flow depends on its label.
    NotApplicable
        If no engine runs the protocol.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> relabeling(NewReno())
    """
    scenario = _scenario(subject, apart=True)
    network = scenario.network
    changed = transforms.relabel_flows(scenario, [*range(1, network.n_flows), 0])
    _require_same_results(scenario, changed, "flows in another order")
    if network.n_links > 1:
        changed = transforms.permute_links(scenario, range(network.n_links)[::-1])
        _require_same_results(scenario, changed, "links in another order")


def idle_parts(subject: Subject) -> None:
    """Check that a flow which never sends, and a link which no flow crosses, change nothing.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If they change the rate of a flow.
    NotApplicable
        If no engine runs the protocol.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> idle_parts(NewReno())
    """
    scenario = _scenario(subject)
    _require_same_results(scenario, transforms.add_idle_flow(scenario, index=0), "an additional flow that never sends")
    _require_same_results(scenario, transforms.add_unused_link(scenario, index=0), "an additional link without flows")


def scaling(subject: Subject) -> None:
    """Check that the units of size and time have no effect: twice all sizes and rates, or twice all times.

    The sizes, rates and times among the parameters of the protocol are scaled, too (`Protocol.dimensions`). Results can
    then differ only if a law or hook has a number with a unit, for example a threshold of 10,000 bytes. Fluid runs must
    be equal. For packet runs, means are compared as in `relabeling`.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the rate of a flow does not scale.
    NotApplicable
        If no engine runs the protocol.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> scaling(NewReno())
    """
    scenario = _scenario(subject)
    _require_same_results(scenario, transforms.scale_sizes(scenario, 0.5), "half of all sizes and rates")
    _require_same_results(scenario, transforms.scale_times(scenario, 2.0), "twice all times")


def _require_same_results(scenario: Scenario, changed: Transformed, change: str) -> None:
    """Run a scenario and a transformed one in both engines, and compare rates and queues in the original units."""
    if not (_has_fluid(scenario.protocol) or _has_packets(scenario.protocol)):
        raise NotApplicable("the protocol has neither packet hooks nor laws")
    draws = any("random" in each.required_env for each in _protocols(scenario.protocol))
    if draws and not _has_fluid(scenario.protocol):
        raise NotApplicable("no fluid model, and packet hooks that draw random numbers")
    if _has_packets(scenario.protocol) and not draws:
        run, other = _runs_of_both(scenario, changed, packet, change)
        names = ("in packets", f"in packets with {change}")
        _require_same_means(scenario.network, run, other, names)
        _require_same_rates(scenario.network, run, other, names, FLOW_TOLERANCE)
    if _has_fluid(scenario.protocol):
        _require_same_series(scenario.network, *_runs_of_both(scenario, changed, fluid, change), change)


def _runs_of_both(scenario: Scenario, changed: Transformed, engine: Any, change: str) -> tuple[Trajectory, Trajectory]:
    period = float(scenario.duration) / 20.0
    original, transformed = (_without_randomness(case, engine) for case in (scenario, changed.scenario))
    run, other = engine.simulate(original, sample=period), engine.simulate(transformed, sample=period * changed.time)
    _require_complete(run, "packet run" if engine is packet else "fluid run")
    _require_complete(other, f"{'packet' if engine is packet else 'fluid'} run with {change}")
    return run, changed.restored(other)


def _require_same_series(network: Network, run: Trajectory, other: Trajectory, change: str) -> None:
    for series, scale, unit in _compared_series(network):
        first, second = (trajectory.data[series].to_numpy() for trajectory in (run, other))
        off = np.abs(first - second) / scale
        if off.max() > ROUNDING:
            time, index = np.unravel_index(int(off.argmax()), off.shape)
            at = float(run.data["time"][time])
            raise PropertyError(
                f"with {change}, {series} {index} is {second[time, index]:.6g} instead of {first[time, index]:.6g} "
                f"{unit} at {at:g} s as fluid"
            )


def _without_randomness(scenario: Scenario, engine: Any) -> Scenario:
    """Return the scenario without the random phases of senders; for fluid, with the ACK size that fluids assume."""
    if engine is packet:
        return scenario.with_(phase_jitter=False)
    flows = [replace(flow, ack_size=Flow([0]).ack_size) for flow in scenario.network.flows]
    return scenario.with_(network=scenario.network.with_flows(flows))


def _compared_series(network: Network) -> Iterator[tuple[str, float, str]]:
    yield "goodput", float(network.capacities.max()), "bit/s"
    yield "queue", float(network.capacities.max() * network.rtts.max()) / 8.0 + 1.0, "bytes"


# ---- fluid against packets -----------------------------------------------------------------------------------


def agreement(subject: Subject) -> None:
    """Check that fluid and packets agree in the load and the queue of each link, after the initial transient.

    Loads are compared within 10 % of the capacity, mean queues within 25 % and six packets of each flow, which the
    fluid does not have. The rates of flows are compared as well if the protocol has an equilibrium, except for
    protocols that switch like relays or overload their links: they do not determine the shares of flows. The engines
    differ if the hooks do not implement the laws; `ecc.compare` shows the two runs.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the engines disagree.
    NotApplicable
        If one of the engines does not run the protocol.

    Examples
    --------
    >>> from ecc.models import NewReno
    >>> agreement(NewReno())
    """
    scenario = _scenario(subject, buffer=1.0, rtts=3.0 * _range_of(subject).convergence, apart=True)
    _require_packets(scenario.protocol)
    _require_fluid(scenario.protocol)
    network = scenario.network
    sample = float(scenario.duration) / 200.0
    run, packets = (engine.simulate(scenario, sample=sample) for engine in (fluid, packet))
    _require_complete(run, "fluid run")
    _require_complete(packets, "packet run")
    names = ("as fluid", "in packets")
    _require_same_means(network, run, packets, names)
    if _equilibrium(scenario) is not None and not _is_undetermined(scenario.protocol):
        _require_same_rates(network, run, packets, names, RATE_TOLERANCE)


def _require_same_rates(
    network: Network, run: Trajectory, other: Trajectory, names: tuple[str, str], tolerance: float
) -> None:
    """Compare mean rates of flows."""
    allowed = tolerance * float(network.capacities.min()) + _granularity(network, run)
    for flow, (rate, other_rate) in enumerate(zip(_late_means(run)[0], _late_means(other)[0], strict=True)):
        if abs(rate - other_rate) > allowed:
            raise PropertyError(f"flow {flow} has {rate:.4g} bit/s {names[0]} and {other_rate:.4g} bit/s {names[1]}")


def _require_same_means(network: Network, run: Trajectory, other: Trajectory, names: tuple[str, str]) -> None:
    """Compare loads and mean queues of links."""
    (rates, queues), (other_rates, other_queues) = _late_means(run), _late_means(other)
    loads, other_loads = rates @ network.incidence, other_rates @ network.incidence
    packets = np.array([flow.mean_packet for flow in network.flows]) @ network.incidence
    granularity = _granularity(network, run)
    for link, capacity in enumerate(network.capacities):
        if abs(loads[link] - other_loads[link]) > RATE_TOLERANCE * capacity + granularity:
            raise PropertyError(
                f"link {link} of {capacity:g} bit/s delivers {loads[link]:.4g} bit/s {names[0]} and "
                f"{other_loads[link]:.4g} bit/s {names[1]}"
            )
        low, high = sorted((queues[link], other_queues[link]))
        if high - low > QUEUE_TOLERANCE * high + PACKETS_PER_FLOW * packets[link]:
            raise PropertyError(
                f"the mean queue of link {link} is {queues[link]:.4g} bytes {names[0]} and "
                f"{other_queues[link]:.4g} bytes {names[1]}"
            )


def _granularity(network: Network, run: Trajectory) -> float:
    """Return the rate of one packet of each flow in the duration of a run [bit/s]."""
    return 8.0 * sum(flow.mean_packet for flow in network.flows) / float(run.data["time"][-1])


def _late_means(run: Trajectory) -> tuple[FloatArray, FloatArray]:
    """Return means over the last two thirds of a run: goodputs of flows [bit/s], and queues of links [bytes]."""
    begin = len(run.data["time"]) // 3
    queue = run.data["queue_mean"] if "queue_mean" in run.data else run.queue
    return run.goodput[begin:].to_numpy().mean(axis=0), queue[begin:].to_numpy().mean(axis=0)


# ---- equilibrium and linear models ---------------------------------------------------------------------------


def fixed_point(subject: Subject) -> None:
    """Check that runs which start at the declared equilibrium stay there.

    Fluid runs must stay within 1 % of the rates. Packet runs must be within 5 % on average; so must fluid runs of
    protocols that switch like relays, because they cycle around their equilibrium. The queues must be those of the
    equilibrium within 25 % and six packets of each flow.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If a run leaves the equilibrium.
    Refused
        If no equilibrium is found on this network, although the fluid converges.
    NotApplicable
        If the protocol declares no equilibrium, or declares why it has none.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> fixed_point(QIRCP())
    """
    scenario = _scenario(subject)
    point = _required_equilibrium(scenario)
    rates, queues = point
    _require_fluid(scenario.protocol)
    network = scenario.network
    sample = float(scenario.duration) / 20.0
    run = fluid.simulate(scenario, sample=sample, start="equilibrium")
    _require_complete(run, "fluid run from the equilibrium")
    half = len(run.data["time"]) // 2
    if _is_relay(scenario.protocol):
        _require_at(run.rate.to_numpy()[half:].mean(axis=0, keepdims=True), rates, LARGE, "as fluid, on average")
    else:
        _require_at(run.rate.to_numpy(), rates, SMALL, "as fluid")
    _require_queues(network, run, queues, "as fluid")
    if not (_has_packets(scenario.protocol) and _starts_at_equilibrium(scenario)):
        return
    run = packet.simulate(scenario, sample=sample, start="equilibrium")
    _require_complete(run, "packet run from the equilibrium")
    _require_at(run.rate.to_numpy()[half:].mean(axis=0, keepdims=True), rates, LARGE, "in packets, on average")
    _require_queues(network, run, queues, "in packets")


def _require_at(values: FloatArray, rates: FloatArray, tolerance: float, how: str) -> None:
    off = np.abs(values / rates - 1.0)
    if not off.max() <= tolerance:
        time, flow = np.unravel_index(int(np.nanargmax(off)), off.shape)
        raise PropertyError(
            f"the equilibrium of flow {flow} is {rates[flow]:.5g} bit/s, and a run from there leaves it for "
            f"{values[time, flow]:.5g} bit/s {how}"
        )


def _require_queues(network: Network, run: Trajectory, queues: FloatArray | None, how: str) -> None:
    if queues is None:  # the protocol declares nothing about queues that are not empty
        return
    packets = np.array([flow.mean_packet for flow in network.flows]) @ network.incidence
    ends = run.queue[-1].to_numpy()
    off = np.abs(ends - queues) - QUEUE_TOLERANCE * np.maximum(ends, queues) - PACKETS_PER_FLOW * packets
    if off.max() > 0.0:
        link = int(off.argmax())
        raise PropertyError(
            f"the equilibrium has a queue of {queues[link]:.5g} bytes at link {link}, and a run from there ends with "
            f"{ends[link]:.5g} bytes {how}"
        )


def linearization(subject: Subject) -> None:
    """Check that each linear model has the mode that dominates small deviations of the fluid.

    The derivative of the fluid trajectory with respect to the initial rates is taken by finite differences: two runs
    from the equilibrium, perturbed by a small amount up and down. Its strongest mode, found by the matrix pencil (Hua
    and Sarkar, 1990), must be a characteristic root of the linear model within 2 %.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the mode is not among the roots of the model, or if there is an equilibrium without a linear model.
    NotApplicable
        If the protocol declares no equilibrium, or declares why it has no linear model; if deviations of the fluid
        decay too fast to measure a mode; or if the queue can be negative in the linear model.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> linearization(QIRCP(alpha=1.2))
    """
    scenario = _scenario(subject)
    _require_fluid(scenario.protocol)
    reasons = []
    compared = 0
    for time in _times(scenario):
        model = _linear_model(scenario, time)
        if isinstance(model, str):
            reasons.append(model)
            continue
        roots = _continuous_roots(model)
        mode = _dominant_mode(scenario, time, model, roots[0])
        if isinstance(mode, str):
            reasons.append(mode)
            continue
        compared += 1
        nearest = roots[np.abs(roots - mode).argmin()]
        if abs(nearest - mode) > NOT_IN_MODEL * abs(mode):
            raise PropertyError(
                f"{time} model: small deviations of the fluid move as exp(st) with s = {_complex(mode)} 1/s, and the "
                f"nearest characteristic root is {_complex(nearest)} 1/s"
            )
    if not compared:
        raise NotApplicable(reasons[0] if reasons else "the protocol has only hybrid models")


def stability_limit(subject: Subject) -> None:
    """Check that the fluid is stable below a stability limit of the main parameter and unstable above, or vice versa.

    The limit is that of `ecc.stability.critical_gain`. Fluid runs at 0.8 and 1.25 times the limit start at the
    equilibrium with a small perturbation, which must decay on one side and grow on the other as the linear model does.
    Without a limit, the verdict of the model at the current value is checked.

    Parameters
    ----------
    subject : Protocol, pair or Scenario

    Raises
    ------
    PropertyError
        If the fluid contradicts the linear model.
    NotApplicable
        If the main parameter or the linear model is missing, if the queue can be negative in the model, or if a mode
        grows or decays too slowly.

    Examples
    --------
    >>> from ecc.models import QIRCP
    >>> stability_limit(QIRCP())
    """
    scenario = _scenario(subject)
    _require_fluid(scenario.protocol)
    parameter = _main_parameter(scenario.protocol)
    if not parameter:
        raise NotApplicable("no main_parameter is declared")
    reasons = []
    compared = 0
    for time in _times(scenario):
        model = _linear_model(scenario, time)
        if isinstance(model, str):
            reasons.append(model)
            continue
        if _is_slow(scenario, _continuous_roots(model)[0]):
            reasons.append(TOO_SLOW)
            continue
        try:
            limit = critical_gain(scenario.protocol, scenario.network, parameter, time)
        except (EccError, ValueError) as error:  # for example, no model at another value of the parameter
            reasons.append(f"no limit of {parameter} is found: {error}")
            continue
        for at in _sides(limit):
            changed = (
                scenario if at is None else scenario.with_(protocol=with_parameter(scenario.protocol, parameter, at))
            )
            value = "its value" if at is None else f"{at:.4g}"
            model = _linear_model(changed, time)
            verdict = model if isinstance(model, str) else _measured_verdict(changed, time, model)
            if verdict in ("stable", "unstable"):
                compared += 1
                predicted = "stable" if model.is_stable else "unstable"  # type: ignore[union-attr]
                if verdict != predicted:
                    raise PropertyError(
                        f"{time} model: {parameter} has the limit {limit.value:.4g}; at {value} the model is "
                        f"{predicted}, and the fluid {verdict}"
                    )
            else:
                reasons.append(verdict)
    if not compared:
        raise NotApplicable(reasons[0] if reasons else "the protocol has only hybrid models")


def _sides(limit: StabilityLimit) -> tuple[float | None, ...]:
    """Return values of a parameter on both sides of its limit; None stands for the current value."""
    return (0.8 * limit.value, 1.25 * limit.value) if 0.0 < limit.value < np.inf else (None,)


def _main_parameter(protocol: Protocol | ProtocolAssignment) -> str:
    if isinstance(protocol, Protocol):
        return protocol.main_parameter
    names = [
        f"{half}.{member.main_parameter}"
        for half, member in protocol.halves
        if half == "links" and member.main_parameter
    ]
    return names[0] if names else ""


def _times(scenario: Scenario) -> tuple[str, ...]:
    """Return the kinds of linear models that have a fluid; the hybrid one is compared with packets elsewhere."""
    _required_equilibrium(scenario)
    if isinstance(scenario.protocol, Protocol) and scenario.protocol.linear_refusal is not None:
        raise NotApplicable(scenario.protocol.linear_refusal)
    hosts = scenario.protocol if isinstance(scenario.protocol, Protocol) else scenario.protocol.protocols[0]
    kind = kind_of_laws(hosts)
    without = {"hybrid"}
    if sets_windows(hosts) or kind is Kind.HOST_RATES:
        without |= {"discrete"}  # the fluid in steps has exact delays
    if kind in (Kind.SAMPLED_PRICES, Kind.STEPPED_RATES):
        without |= {"continuous"}  # the fluid acts at ticks; averaged runs have tests of their own
    return tuple(time for time in scenario.protocol.times if time not in without)


def _linear_model(scenario: Scenario, time: str) -> DelaySystem | SampledSystem | str:
    """Return the linear model, or the reason why it is not that of the fluid.

    An equilibrium without a model is a fault.
    """
    try:
        model = linearize(scenario.protocol, scenario.network, time)
    except (EccError, ValueError) as error:
        raise Refused(f"{time} model: there is an equilibrium, and linearize refuses it: {error}") from None
    if model.switched is not None:
        return "in the linear model the queue can be negative, and the fluid switches at the empty queue"
    return model


def _continuous_roots(model: DelaySystem | SampledSystem) -> NDArray[np.complex128]:
    """Return the dominant characteristic roots [1/s], the rightmost first."""
    roots = np.asarray(model.roots(16), dtype=complex)
    if isinstance(model, SampledSystem):
        roots = np.log(roots[np.abs(roots) > 1e-12]) / (model.dt or 1.0)
    order: NDArray[np.complex128] = roots[np.argsort(-roots.real)]
    return order


def _response(
    scenario: Scenario, time: str, model: DelaySystem | SampledSystem, root: complex, decades: float
) -> tuple[float, FloatArray]:
    """Return the sampling period, and the derivative of the fluid with respect to the size of a perturbation.

    The series begins after the first transients, and ends when the deviation is no longer small.
    """
    rtt = float(scenario.network.rtts.max())
    growth = max(abs(root.real), 1.0 / (MAX_RTTS * rtt))
    skip = 5.0 * rtt if root.real < 0.0 else min(5.0 * rtt, 2.0 / growth + rtt)
    horizon = skip + min(max(decades / growth, 20.0 * rtt), MAX_RTTS * rtt)
    period = rtt / 8.0
    if isinstance(model, SampledSystem) and model.dt:
        period = model.dt * max(1, round(period / model.dt))
    hosts = scenario.protocol if isinstance(scenario.protocol, Protocol) else scenario.protocol.protocols[0]
    windows = sets_windows(hosts)
    size = 1e-4 if root.real < 0.0 else 1e-6
    long = scenario.with_(duration=horizon)
    options: dict[str, Any] = {"rtol": 1e-9} if time == "continuous" else {}
    ends = []
    for perturbation in (size, -size):
        run = fluid.simulate(
            long,
            sample=period,
            start="equilibrium",
            perturbation=perturbation,
            time=time,
            record=["env.window"] if windows else (),
            **options,
        )
        _require_complete(run, "fluid run from a perturbed equilibrium")
        ends.append(run)
    capacity = float(scenario.network.capacities.min())
    scale = capacity * rtt / 8.0 if windows else capacity
    upper, lower = (run.data["env.window" if windows else "rate"].to_numpy().sum(axis=1) for run in ends)
    derivative = (upper - lower) / (2.0 * size * scale)
    derivative = derivative[ends[0].data["time"].to_numpy() > skip]
    large = np.flatnonzero(np.abs(derivative) * size > SMALL)
    return period, derivative[: large[0]] if len(large) else derivative


def _dominant_mode(scenario: Scenario, time: str, model: DelaySystem | SampledSystem, root: complex) -> complex | str:
    """Return the strongest mode of small deviations of the fluid [1/s], or the reason why it cannot be measured."""
    period, derivative = _response(scenario, time, model, root, decades=3.0)
    large = np.abs(derivative).max(initial=0.0)
    if large > 0.0:  # drop the decayed end of the series, which is rounding
        derivative = derivative[: 1 + np.flatnonzero(np.abs(derivative) > 1e-3 * large)[-1]]
    if len(derivative) < 8 or large < 1e-6:
        return "deviations of the fluid decay within a few RTTs, too fast to measure a mode"
    step = max(1, len(derivative) // 160)
    modes, energies, residual = _matrix_pencil(derivative[::step])
    if residual > 1e-2:
        return "deviations of the fluid are not a sum of a few modes"
    strongest = complex(np.log(complex(modes[energies.argmax()])) / (period * step))
    return strongest if strongest.imag >= 0.0 else strongest.conjugate()


def _matrix_pencil(values: FloatArray, order: int = 8) -> tuple[NDArray[np.complex128], FloatArray, float]:
    """Return the factors per sample of the modes of a series, their energies as shares, and the residual."""
    rows = np.lib.stride_tricks.sliding_window_view(values, len(values) // 2 + 1)
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    rank = min(order, int((singular > 1e-5 * singular[0]).sum()))
    basis = right[:rank].T
    factors = np.linalg.eigvals(np.linalg.lstsq(basis[:-1], basis[1:], rcond=None)[0]).astype(complex)
    factors = factors[np.abs(factors) > 1e-6]
    powers = factors[None, :] ** np.arange(len(values))[:, None]
    weights = np.linalg.lstsq(powers, values.astype(complex), rcond=None)[0]
    size = float(np.linalg.norm(values))
    residual = float(np.linalg.norm(values - (powers @ weights).real)) / size
    return factors, np.linalg.norm(powers * weights, axis=0) / size, residual


def _measured_verdict(scenario: Scenario, time: str, model: DelaySystem | SampledSystem) -> str:
    """Return "stable" if small deviations of the fluid decay, "unstable" if they grow, or why neither is seen."""
    root = complex(_continuous_roots(model)[0])
    if _is_slow(scenario, root):
        return TOO_SLOW
    _, derivative = _response(scenario, time, model, root, decades=4.0)
    third = len(derivative) // 3
    if third < 4:
        return "unstable" if root.real > 0.0 else "deviations of the fluid leave the linear range at once"
    early, late = (float(np.abs(part).max()) for part in (derivative[:third], derivative[-third:]))
    if late < 0.7 * early:
        return "stable"
    return "unstable" if late > 1.4 * early else TOO_SLOW


def _is_slow(scenario: Scenario, root: complex) -> bool:
    return abs(root.real) * MAX_RTTS * float(scenario.network.rtts.max()) < 1.0


def _complex(number: complex) -> str:
    if abs(number.imag) < 1e-9 * abs(number):
        return f"{number.real:.4g}"
    return f"{number.real:.4g} + {abs(number.imag):.4g}i"


# ---- applicability -------------------------------------------------------------------------------------------


def _range_of(subject: Subject) -> Any:
    return operating_range(subject.protocol if isinstance(subject, Scenario) else read_protocol(subject))


def _scenario(subject: Subject, buffer: float | None = None, rtts: float = 30.0, *, apart: bool = False) -> Scenario:
    """Return the subject if it is a scenario, or the simplest scenario of a protocol."""
    if isinstance(subject, Scenario):
        return subject
    protocol = read_protocol(subject)
    network = example_network(protocol, buffer=buffer, apart=apart)
    return Scenario(network, protocol, rtts * float(network.rtts.max()), phases="equal")


def _has_packets(protocol: Protocol | ProtocolAssignment) -> bool:
    return all(type(member).has_packet_hooks() for member in _protocols(protocol))


def _has_fluid(protocol: Protocol | ProtocolAssignment) -> bool:
    return _without_fluid(protocol) is None


def _without_fluid(protocol: Protocol | ProtocolAssignment) -> str | None:
    """Return the declared reason for the lack of a fluid model, or None if a fluid run must be possible."""
    for member in _protocols(protocol):
        if member.fluid_refusal is not None:
            return member.fluid_refusal
        if member.has_hosts() and getattr(member, "source_law", None) is None and member.fluid_form is None:
            return f"{type(member).__name__} has no laws"
        if not member.has_hosts() and member.probability_law is None and member.link_hooks():
            return f"{type(member).__name__} has no probability_law"
    return None


def _protocols(protocol: Protocol | ProtocolAssignment) -> list[Protocol]:
    return [protocol] if isinstance(protocol, Protocol) else protocol.protocols


def _is_relay(protocol: Protocol | ProtocolAssignment) -> bool:
    return any(type(member).has_relay() for member in _protocols(protocol))


def _is_undetermined(protocol: Protocol | ProtocolAssignment) -> bool:
    """Return whether the equilibrium leaves the shares of flows open: relays, and links that drop packets there."""
    return _is_relay(protocol) or any(member.overloads_at_equilibrium for member in _protocols(protocol))


def _require_packets(protocol: Protocol | ProtocolAssignment) -> None:
    for member in _protocols(protocol):
        if not type(member).has_packet_hooks():
            raise NotApplicable(f"{type(member).__name__} has no packet hooks")


def _require_fluid(protocol: Protocol | ProtocolAssignment) -> None:
    reason = _without_fluid(protocol)
    if reason is not None:
        raise NotApplicable(f"no fluid model: {reason}")


def _require_complete(run: Trajectory, name: str) -> None:
    if not run.is_complete:
        raise PropertyError(f"{name} stopped: {run.stopped}")


def _require_same_digest(run: Trajectory, other: Trajectory, first: str, second: str) -> None:
    for name in ("events", "data_packets", "digest"):
        if run.stats[name] != other.stats[name]:
            raise PropertyError(f"{name} of {first} and of {second}: {run.stats[name]} and {other.stats[name]}")


def _equilibrium(scenario: Scenario) -> tuple[FloatArray, FloatArray | None] | None:
    """Return rates [bit/s] and queues [bytes] of the equilibrium, or None without an equilibrium."""
    try:
        return _point(scenario)
    except (EccError, ValueError):
        return None


def _point(scenario: Scenario) -> tuple[FloatArray, FloatArray | None]:
    protocol = scenario.protocol
    if isinstance(protocol, Protocol):
        point = equilibrium_of(protocol, scenario.network)
        empty = None if protocol.overloads_at_equilibrium else np.zeros(scenario.network.n_links)
        return point.rates, empty if point.queue is None else point.queue / 8.0
    marks = equilibrium_of_marks(scenario.deployment, scenario.network)
    return marks.rates, marks.queues / 8.0


def _required_equilibrium(scenario: Scenario) -> tuple[FloatArray, FloatArray | None]:
    """Return the equilibrium. A refusal on all networks counts as a fault if the fluid converges nevertheless."""
    protocol = scenario.protocol
    if isinstance(protocol, Protocol):
        if protocol.no_equilibrium:
            raise NotApplicable(f"no equilibrium: {protocol.no_equilibrium}")
        if type(protocol).equilibrium is Protocol.equilibrium:
            raise NotApplicable("no equilibrium is declared")
    try:
        return _point(scenario)
    except (LinearizationError, ValueError) as error:
        rest = _rest_of_fluid(scenario)
        if rest is None:
            raise NotApplicable(str(error)) from None
        raise Refused(f"no equilibrium is found ({error}), and the fluid rests {rest}") from None


def _rest_of_fluid(scenario: Scenario) -> str | None:
    """Return the state in which the fluid rests at the end of a long run; None if it moves, or does not run."""
    if not _has_fluid(scenario.protocol):
        return None
    long = 2.0 * operating_range(scenario.protocol).convergence * float(scenario.network.rtts.max())
    run = fluid.simulate(scenario.with_(duration=long), sample=long / 60.0)
    rates, queues = run.rate[-20:].to_numpy(), run.queue[-20:].to_numpy()
    if not run.is_complete or np.ptp(rates, axis=0).max() > 1e-3 * rates.mean():
        return None
    return f"at {rates[-1, 0]:.5g} bit/s, with a queue of {queues[-1].max():.5g} bytes"


def _starts_at_equilibrium(scenario: Scenario) -> bool:
    """Return whether packet runs can start at the equilibrium.

    Routers and hosts must have a state for it, and queues must be empty.
    """
    protocol = scenario.protocol
    if not isinstance(protocol, Protocol) or not protocol.equilibrium_is_static:
        return False
    if sets_windows(protocol):
        return False
    queues = _point(scenario)[1]
    return type(protocol).flow_at is not Protocol.flow_at and (queues is None or not queues.any())
