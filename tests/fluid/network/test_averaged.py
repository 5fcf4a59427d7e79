"""Fluid runs with `time` "averaged": every action is spread evenly over its interval, as in linear models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.batch.sweeps import ScenarioRuns
from ecc.contract.assignment import read_protocol
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.forms import SampledPrices
from ecc.contract.protocol import Protocol
from ecc.fluid import simulate
from ecc.laws.arguments import law_arguments
from ecc.laws.jets import gradient
from ecc.linear import DelaySystem
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import (
    BBR,
    EMKC,
    EMKCAVQ,
    FAST,
    MKC,
    PIQIRCP,
    QIRCP,
    RCP,
    XCP,
    JetMax,
    Kelly,
    MaxNet,
    NewReno,
    PatchedTIMELY,
)
from ecc.models.shared.windows import WindowProtocol
from ecc.network.network import Flow, Link, Network
from ecc.queues import PI2, RED, CoDel
from ecc.scenario import Scenario

BUFFER = 1000  # bytes: overloaded links keep their delay
EQUAL = Network.dumbbell("10 Gb/s", [0.1, 0.1], buffer=BUFFER)
UNEQUAL = Network.dumbbell("10 Gb/s", [0.06, 0.1, 0.17], buffer=BUFFER)
LOT = Network(
    [Link("10 Gb/s", 0.01, buffer=BUFFER), Link("8 Gb/s", 0.01, buffer=BUFFER)],
    [Flow([0, 1], access_delay=0.02), Flow([0], access_delay=0.01), Flow([1], access_delay=0.03)],
)
SLOW = Network.dumbbell("30 Mb/s", [0.06, 0.1, 0.17], buffer=BUFFER)


# ---- the equations, written out for each flow and link, without `ecc.loops` ----------------------------------


def slopes(law: Any, values: dict[str, Any]) -> dict[str, float]:
    """Derivatives of a law with respect to its numbers."""
    at = {name: values[name] for name in law_arguments(law)}
    return gradient(law, at, [name for name in at if name != "p"])


class Reference:
    """Linear form of the averaged equations: rates x_i, then routers' states R_l, then averages m_l of their prices.

    T x_i' = x_x x_i(t - T) - x_i(t - T) + x_R sum_l P_l(t - B_il), or x_xrtt x_i(t - D_i) - x_i(t) instead
    T R_l' = (R_R - 1) R_l + R_y y_l,  P_l = R_l, or P_l = P_R R_l + m_l with T m_l' = P_y y_l + P_u u_l - m_l
    """

    def __init__(self, protocol: Protocol, network: Network) -> None:
        self.protocol, self.network = protocol, network
        self.point = protocol.equilibrium(network)
        self.T, self.p = float(protocol.params()["interval"]), protocol.namespace()
        receives = [
            network.incidence[:, link] if protocol.combine == "sum" else self.point.bottleneck == link
            for link in range(network.n_links)
        ]
        self.receives = {link: mine for link, mine in enumerate(receives) if mine.any()}
        self.terms: list[tuple[float, str, int, str, int, float]] = []
        self.price = {link: self.router(link) for link in self.receives}
        for flow in range(network.n_flows):
            self.source(flow)

    def router(self, link: int) -> float:
        """Add the equations of a router; return its price at the equilibrium."""
        protocol, network, point = self.protocol, self.network, self.point
        crossing, mine = network.incidence[:, link], self.receives[link]
        rtts = network.rtts[crossing]
        at = {
            "R": float(point.fair_rate[link]),
            "y": float(point.rates[crossing].sum()),
            "u": float(point.rates[crossing & ~mine].sum()),
            "N": float(mine.sum()),
            "C": float(network.capacities[link]),
            "d": float(rtts.max() if protocol.scaling_rtt == "max" else rtts.mean()),
            "T": self.T,
            "p": self.p,
        }
        remembers = "R" in law_arguments(protocol.router_law)
        law = protocol.announce_law or protocol.router_law
        if remembers:
            of_state = slopes(protocol.router_law, at)
            self.terms.append((0.0, "R", link, "R", link, (of_state["R"] - 1.0) / self.T))
            self.arrivals("R", link, of_state)
        if not remembers or protocol.announce_law is not None:
            self.terms.append((0.0, "m", link, "m", link, -1.0 / self.T))
            self.arrivals("m", link, slopes(law, at))
            return float(law(**{name: at[name] for name in law_arguments(law)}))
        return at["R"]

    def arrivals(self, kind: str, link: int, by: dict[str, float]) -> None:
        """Add the effect of the arrivals at a link, and of those whose feedback is from another link."""
        for flow in np.flatnonzero(self.network.incidence[:, link]).tolist():
            gain = by.get("y", 0.0) + (0.0 if self.receives[link][flow] else by.get("u", 0.0))
            self.terms.append((float(self.network.forward_delays[flow, link]), kind, link, "x", flow, gain / self.T))

    def source(self, flow: int) -> None:
        """Add the equation of the rate of a flow."""
        protocol, T, rtt = self.protocol, self.T, float(self.network.rtts[flow])
        links = [link for link, mine in self.receives.items() if mine[flow]]
        R, x = sum(self.price[link] for link in links), float(self.point.rates[flow])
        by = slopes(protocol.source_law, {"x": x, "x_rtt": x, "R": R, "R_prev": R, "D": rtt, "T": T, "p": self.p})
        self.terms.append((T if "x" in by else 0.0, "x", flow, "x", flow, (by.get("x", 0.0) - 1.0) / T))
        self.terms.append((rtt, "x", flow, "x", flow, by.get("x_rtt", 0.0) / T))
        for link in links:
            back = float(self.network.backward_delays[flow, link])
            for gain, delay in ((by["R"], back), (by.get("R_prev", 0.0), back + T)):
                if protocol.announce_law is not None:
                    to_state = slopes(protocol.announce_law, self.at_link(link))["R"]
                    self.terms.append((delay, "x", flow, "R", link, gain * to_state / T))
                kind = "R" if "R" in law_arguments(protocol.router_law) and protocol.announce_law is None else "m"
                self.terms.append((delay, "x", flow, kind, link, gain / T))

    def at_link(self, link: int) -> dict[str, Any]:
        load = float(self.point.rates[self.network.incidence[:, link]].sum())
        return {"R": float(self.point.fair_rate[link]), "y": load}

    def system(self) -> DelaySystem:
        states = list(dict.fromkeys((kind, index) for _, kind, index, *_ in self.terms))
        matrices = []
        for _, kind, index, of, other, gain in self.terms:
            matrices.append(np.zeros((len(states),) * 2))
            matrices[-1][states.index((kind, index)), states.index((of, other))] = gain
        return DelaySystem(matrices, [delay for delay, *_ in self.terms])


def dominant(system: DelaySystem) -> complex:
    """The rightmost root that oscillates."""
    return next(complex(root) for root in system.roots(8) if root.imag > 1e-6)


def mode_near(expected: complex, protocol: Protocol, network: Network, **options: Any) -> complex:
    """The mode of a perturbed run that is nearest to an expected one, by one recurrence of the rates of all flows."""
    period, order = 2.0 * np.pi / expected.imag, 4
    perturbation = 1e-4 if expected.real < 0.0 else 1e-6
    scenario = Scenario(network, protocol, 30.0 * period)
    run = simulate(
        scenario,
        period / 24.0,
        "equilibrium",
        perturbation,
        time="averaged",
        rtol=1e-11,
        **options,
    )
    assert run.is_complete, run.stopped
    late = (run.rate.to_numpy() / protocol.equilibrium(network).rates - 1.0)[360::4]
    rows = np.concatenate([late[order - 1 - k : len(late) - 1 - k].T.ravel()[:, None] for k in range(order)], axis=1)
    steps, *_ = np.linalg.lstsq(rows, late[order:].T.ravel(), rcond=None)
    modes = np.log(np.roots([1.0, *-steps]).astype(complex)) * 6.0 / period
    return complex(modes[np.argmin(abs(modes - expected))])


GAINS: dict[str, tuple[Protocol, str, float, float]] = {
    "MKC": (MKC(alpha=1e9, steepness=3.0, interval=0.02), "beta", 3.0, 20.0),
    "EMKC": (EMKC(interval=0.05, alpha=1e6), "beta", 1.5, 4.0),
    "EMKC-AVQ": (EMKCAVQ(interval=0.05, alpha=1e6), "beta", 1.2, 4.0),
    "Kelly": (Kelly(omega=1e9, steepness=3.0), "kappa", 0.05, 0.3),
    "JetMax": (JetMax(), "tau", 2.0, 4.5),
    "MaxNet": (MaxNet(), "price_scale", 0.05, 0.3),
}
"""Protocol, gain, and two values of the gain with the limit between them."""
LOOPS = [(name, place) for name in GAINS for place in ("equal", "unequal")]
LOOPS += [(name, "lot") for name in ("MKC", "Kelly", "JetMax")]  # overloads of the others lose data on the way


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), LOOPS)
def test_perturbations_move_as_the_equations_written_out_on_both_sides_of_the_limit(name, place):
    protocol, gain, low, high = GAINS[name]
    network = {"equal": EQUAL, "unequal": UNEQUAL, "lot": LOT}[place]
    if name == "MaxNet":
        network = Network.dumbbell("30 Mb/s", network.rtts.tolist(), buffer=BUFFER)

    def root(value: float) -> complex:
        return dominant(Reference(replace(protocol, **{gain: value}), network).system())

    limit = brentq(lambda value: root(value).real, low, high, rtol=1e-6)
    for factor in (0.95, 1.05):
        expected = root(factor * limit)
        found = mode_near(expected, replace(protocol, **{gain: factor * limit}), network)
        assert found.real == pytest.approx(expected.real, rel=1e-3)
        assert found.imag == pytest.approx(expected.imag, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAINS)
@pytest.mark.parametrize("network", [EQUAL, UNEQUAL, LOT], ids=["equal", "unequal", "lot"])
def test_the_linear_model_has_the_roots_of_the_equations_written_out(name, network):
    protocol, gain, low, high = GAINS[name]
    for value in (low, high):
        tuned = replace(protocol, **{gain: value})
        expected = dominant(Reference(tuned, network).system())
        roots = np.asarray(ecc.linearize(tuned, network, "continuous").roots(16))
        assert np.abs(roots - expected).min() < 1e-9 * abs(expected)


@pytest.mark.parametrize(("alpha", "grows"), [(1.9, False), (2.2, True)])
def test_paced_windows_that_routers_grant_move_as_the_linear_model(alpha, grows):
    """Links so fast that queues, which are empty in the linear model, delay nothing."""
    network = Network.dumbbell(1e16, [0.06, 0.1, 0.17], buffer=BUFFER)
    protocol = XCP(alpha=alpha, beta=0.0)
    expected = dominant(ecc.linearize(protocol, network))
    assert (expected.real > 0.0) == grows
    found = mode_near(expected, protocol, network, clocking="rate")
    assert found.real == pytest.approx(expected.real, rel=1e-3)
    assert found.imag == pytest.approx(expected.imag, rel=1e-4)


# ---- windows: routers and disciplines with intervals -----------------------------------------------------------


@dataclass(frozen=True)
class MeasuredLoad(WindowProtocol):
    """Windows paced over more than an RTT, by the load that routers average over an interval."""

    gain: float = 1.0
    interval: float = 0.1
    slow_start_law = None
    loss_response_law = None
    paced_over = 0.125
    combine = "max"

    @staticmethod
    def router_law(y: Any, C: Any) -> Any:
        return y / C

    @staticmethod
    def source_law(w: Any, R: Any, p: Any) -> Any:
        return w + p.gain * w * (0.8 - R)

    def params(self) -> dict[str, float]:
        return {**super().params(), "gain": self.gain, "interval": self.interval}

    def equilibrium(self, network: Network, assignment: Any = None) -> Equilibrium:
        rates = np.full(network.n_flows, 0.8 * network.capacities[0] / network.n_flows)
        return Equilibrium(rates, np.array([0.8]), np.zeros(network.n_flows, dtype=np.int64))


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_routers_of_windows_average_evenly(factor):
    """0.125 w' = -0.8 gain m(t - 0.1), 0.1 m' = w - m: w and m relative to the equilibrium."""

    def root(gain: float) -> complex:
        own, back = np.array([[0.0, 0.0], [10.0, -10.0]]), np.array([[0.0, -6.4 * gain], [0.0, 0.0]])
        return dominant(DelaySystem([own, back], [0.0, 0.1]))

    gain = factor * brentq(lambda value: root(value).real, 0.3, 3.0)
    expected, point = root(gain), MeasuredLoad().equilibrium(Network.dumbbell("1 Gb/s", [0.1]))
    period = 2.0 * np.pi / expected.imag
    scenario = Scenario(Network.dumbbell("1 Gb/s", [0.1]), MeasuredLoad(gain=gain), 20.0 * period)
    run = simulate(scenario, period / 24.0, "equilibrium", 1e-4, time="averaged")
    late = run.rate.to_numpy()[240:, 0] / point.rates[0] - 1.0
    found = oscillation(late, period / 24.0)
    assert found == pytest.approx(expected, rel=3e-3)  # the grid, a 200th of the RTT, adds damping


@pytest.mark.parametrize(("factor", "documented"), [(0.9, (-0.258, -0.271)), (1.1, (0.234, 0.213))])
def test_disciplines_move_evenly_or_at_ticks_as_the_continuous_or_hybrid_linear_model(factor, documented):
    """An interval longer than half the RTT; sampled once an interval, as ticks make ripples."""
    network, interval = Network.dumbbell("30 Mb/s", [0.2] * 60, packet_size=1000), 0.128
    host, options = NewReno(ecn=True), ecc.LinearOptions(clocking="ack")

    def pair(gain: float) -> dict[str, Protocol]:
        return {"flows": host, "links": PI2(mark=True, alpha=0.3125 * gain, beta=3.125 * gain, interval=interval)}

    def root(gain: float) -> complex:
        return dominant(ecc.linearize(pair(gain), network, options=options))

    gain = factor * brentq(lambda value: root(value).real, 1.0, 1.5, rtol=1e-6)
    at_ticks = ecc.linearize(pair(gain), network, "hybrid", options=options)
    multiplier = next(complex(z) for z in at_ticks.roots(2) if z.imag > 0.0)
    expected = {"averaged": root(gain), "continuous": np.log(multiplier) / at_ticks.dt}
    queue, scenario = queue_at_equilibrium(pair(gain), network), Scenario(network, pair(gain), 16.0)
    for (time, root_of_model), growth in zip(expected.items(), documented, strict=True):
        run = simulate(scenario, interval, "equilibrium", 1e-6, time=time)
        found = oscillation(run.queue.to_numpy()[50:, 0] - queue, interval)
        assert found == pytest.approx(root_of_model, rel=1e-3)
        assert found.real == pytest.approx(growth, abs=6e-4)


def queue_at_equilibrium(pair: dict[str, Protocol], network: Network) -> float:
    return float(equilibrium_of_marks(read_protocol(pair).deploy(network), network).queues[0] / 8.0)


def oscillation(signal: Any, step: float) -> complex:
    """The mode of a signal that has one, by the recurrence of its samples."""
    (a, b), *_ = np.linalg.lstsq(np.column_stack([signal[1:-1], signal[:-2]]), signal[2:], rcond=None)
    z = np.roots([1.0, -a, -b]).astype(complex)
    return complex(np.log(z[np.argmax(z.imag)]) / step)


# ---- the same runs, and runs that come together as the interval shrinks ----------------------------------------

SAME: dict[str, Any] = {
    "RCP": RCP(),
    "QI-RCP": QIRCP(),
    "PIQI-RCP": PIQIRCP(),
    "MaxNet": MaxNet(),
    "PatchedTIMELY": PatchedTIMELY(),
    "FAST": FAST(),
    "NewReno": NewReno(),
    "NewReno, RED": {"flows": NewReno(), "links": RED()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_without_ticks_nothing_changes(name):
    network = Network.dumbbell("30 Mb/s", [0.05, 0.08], starts=[0.0, 1.0], buffer="100 kB", packet_size=1000)
    scenario = Scenario(network, SAME[name], 6.0)
    plain, averaged = simulate(scenario), simulate(scenario, time="averaged")
    assert averaged.data.attrs["time"] == "averaged"
    assert plain.data.drop_attrs().identical(averaged.data.drop_attrs())


def difference(protocol: Protocol, **options: Any) -> float:
    """The largest difference of the data sent by two flows, with even and with exact timing, as a share of all data."""
    network = Network.dumbbell("100 Mb/s", [0.1, 0.16], buffer="20 kB")
    sent = [
        np.cumsum(simulate(Scenario(network, protocol, 8.0), 0.02, time=time, **options).rate.to_numpy(), axis=0)
        for time in ("averaged", "continuous")
    ]
    return float(np.abs(sent[0] - sent[1]).max() / sent[1][-1].max())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda T: MKC(alpha=2e6, interval=T), {}),
        (lambda T: Kelly(kappa=0.5 * T, interval=T), {"start": "equilibrium", "perturbation": -0.2}),
    ],
    ids=["MKC", "Kelly"],
)
def test_even_and_exact_timing_come_together_as_the_interval_shrinks(make, options):
    """In proportion to the interval, nearly."""
    intervals = np.array([0.08, 0.04, 0.02, 0.01])
    differences = [difference(make(float(T)), **options) for T in intervals]
    order = np.polyfit(np.log(intervals), np.log(differences), 1)[0]
    assert 0.8 < order < 1.3
    assert differences[-1] < 4e-3


def test_rates_in_steps_decay_as_with_even_timing_as_the_interval_shrinks():
    """Both rates tend to log(1 - tau)/D, and to each other in proportion to the interval."""
    network, differences = Network.dumbbell("10 Gb/s", [0.1]), []
    for T, documented in ((0.01, (-3.238, -2.968)), (0.0025, (-3.479, -3.393))):
        protocol = JetMax(tau=0.3, interval=T)
        run = simulate(Scenario(network, protocol, 3.0), 0.01, "equilibrium", -0.1)
        away = np.abs(run.rate.to_numpy()[:, 0] / protocol.equilibrium(network).rates[0] - 1.0)
        inside = (away < 0.05) & (away > 1e-5)
        in_steps = np.polyfit(run.data["time"].to_numpy()[inside], np.log(away[inside]), 1)[0]
        even = Reference(protocol, network).system().roots(1)[0].real
        assert np.log(0.7) / 0.1 < even < in_steps < 0.0
        assert (even, in_steps) == pytest.approx(documented, abs=6e-4)
        differences.append(in_steps - even)
    assert 0.8 < np.log(differences[0] / differences[1]) / np.log(4.0) < 1.1


def test_even_timing_overshoots_far_from_the_equilibrium():
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1, 0.1]), EMKC(), 30.0)
    peaks = [float(simulate(scenario, time=time).arrival.max()) for time in ("averaged", "continuous")]
    assert peaks == pytest.approx([14.3e6, 10.8e6], rel=5e-3)


# ---- custom protocols, recorded states, refusals ---------------------------------------------------------------


@dataclass(frozen=True)
class SquaredPrice(Protocol):
    """Prices are squared loads, and hosts respond once to each; `interval` and `gain` are parameters."""

    gain: float = 0.4
    interval: float = 0.05
    combine = "max"
    stamping = "arrival"
    fluid_form = SampledPrices()

    @staticmethod
    def router_law(y: Any, C: Any) -> Any:
        return (y / C) ** 2.0

    @staticmethod
    def source_law(x: Any, R: Any, p: Any) -> Any:
        return x * (1.0 + p.gain * (0.64 - R))

    def params(self) -> dict[str, float]:
        return {"gain": self.gain, "interval": self.interval}

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, np.inf

    def equilibrium(self, network: Network, assignment: Any = None) -> Equilibrium:
        rates = np.full(network.n_flows, 0.8 * network.capacities[0] / network.n_flows)
        return Equilibrium(rates, np.array([0.64]), np.zeros(network.n_flows, dtype=np.int64))


@pytest.mark.parametrize(("gain", "grows"), [(0.45, False), (0.5, True)])
def test_a_custom_protocol_moves_as_its_equations(gain, grows):
    protocol = SquaredPrice(gain)
    expected = dominant(Reference(protocol, UNEQUAL).system())
    assert (expected.real > 0.0) == grows
    assert mode_near(expected, protocol, UNEQUAL) == pytest.approx(expected, rel=1e-3)


def test_recorded_states_and_notes():
    network = Network.dumbbell("10 Mb/s", [0.1, 0.2])
    run = simulate(Scenario(network, EMKCAVQ(), 20.0), time="averaged", record=["flow.x", "link.R"])
    assert run["flow.x"].to_numpy()[-1] == pytest.approx(run.rate.to_numpy()[-1], rel=1e-3)
    assert run["link.R"].to_numpy()[-1, 0] < 10e6
    assert any("time='continuous' has their timing" in note for note in run.notes)
    assert simulate(Scenario(network, RCP(), 1.0), time="averaged").notes == ()


def test_flows_begin_with_the_rate_that_they_have_in_steps():
    network = Network.dumbbell("10 Mb/s", [0.1], packet_size=1000)
    run = simulate(Scenario(network, JetMax(interval=0.2, floor=2.0), 1.0), 0.05, time="averaged")
    assert run.rate.to_numpy()[0, 0] == pytest.approx(2.0 * 8000.0 / 0.2)


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        (
            XCP(),
            {},
            "clocking must be 'rate' for time='averaged' of XCP, got 'ack': its routers respond to present arrivals, "
            "and windows that ACKs clock arrive in trains",
        ),
        (BBR(), {}, "time must be 'continuous' for hosts that are machines of states, got 'averaged'"),
        (
            {"flows": NewReno(), "links": CoDel()},
            {},
            "time must be 'continuous' over CoDel, which chooses departures, got 'averaged'",
        ),
        (MKC(), {"delays": (0, 1)}, "delays belong to time='discrete', got time='averaged'"),
        (MKC(), {"time": "mean"}, "time must be one of 'continuous', 'averaged', 'discrete', got 'mean'"),
    ],
)
def test_refusals(protocol, options, message):
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1]), protocol, 1.0)
    with pytest.raises(ValueError) as error:
        simulate(scenario, **{"time": "averaged", **options})
    assert str(error.value) == message


def test_an_ensemble_may_be_averaged():
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1]), MKC(), 5.0)
    runs = ecc.fluid.ensemble(scenario, {"beta": [0.4, 0.5]}, time="averaged")
    assert runs.attrs["time"] == "averaged"
    alone = simulate(scenario, time="averaged")
    assert np.array_equal(runs.rate.sel(beta=0.5).to_numpy(), alone.rate.to_numpy())


def test_sweeps_and_comparisons_take_the_time():
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1, 0.2]), JetMax(), 20.0)
    runs = ScenarioRuns(scenario.to_dict(), ["utilization"], "fluid", options={"time": "averaged"})
    alone = simulate(scenario, time="averaged")
    assert runs()["utilization"] == pytest.approx(alone.arrival.to_numpy()[100:, 0].mean() / 10e6, rel=1e-6)
    compared = ecc.compare(scenario, time="averaged")
    assert compared.fluid.data.attrs["time"] == "averaged"
    assert np.array_equal(compared.fluid.rate.to_numpy(), alone.rate.to_numpy())
    assert compared.recurrence is not None and compared.recurrence.data.attrs["time"] == "discrete"
    granted = ecc.compare(replace(scenario, protocol=XCP(), duration=2.0), time="averaged", clocking="rate")
    assert granted.fluid.is_complete


def test_sweeps_and_comparisons_refuse_other_options():
    scenario = Scenario(Network.dumbbell("10 Mb/s", [0.1]), JetMax(), 2.0)
    with pytest.raises(ValueError, match=r"options must be None for engine='packet', got \{'time': 'averaged'\}"):
        ScenarioRuns(scenario.to_dict(), ["utilization"], options={"time": "averaged"})
    with pytest.raises(ValueError, match="time must be one of 'continuous', 'averaged', got 'discrete'"):
        ecc.compare(scenario, time="discrete")
