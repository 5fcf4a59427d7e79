"""Linear models of windows: by hand, against fluid runs and packets, and where there is none."""

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.contract.equilibrium import Equilibrium
from ecc.errors import LinearizationError
from ecc.loops.closed_loop import linearize
from ecc.models import BIC, FAST, QIRCP, NewReno, Vegas
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Network
from ecc.results.transients import decay
from ecc.scenario import Scenario

ONE = Network.dumbbell("100 Mb/s", rtts=[0.1], packet_size=1000)
LOT = Network.parking_lot(["20 Mb/s", "20 Mb/s"], delay="10 ms")
S = 1j * np.array([0.3, 2.0, 9.0, 40.0]) + np.array([0.0, 0.1, -0.1, 0.3])


def test_one_flow_by_hand():
    """alpha packets of 8000 bit at 100 Mb/s wait for 8 ms."""
    D, gamma = 0.108, 0.8
    a, lag = 0.1 / D, np.exp(-S * D)
    fast = FAST(alpha=100.0, gamma=gamma)
    windows = S * D + gamma * (1.0 - a)
    assert linearize(fast, ONE).open_loop(S) == pytest.approx(gamma * a * lag / windows, rel=1e-12)
    integrator = linearize(fast, ONE, clocking="rate")
    assert integrator.characteristic(S) == pytest.approx(((S * D + lag) * windows + gamma * a * lag) / D**2, rel=1e-12)
    assert integrator.open_loop(S) == pytest.approx(gamma * a * lag / windows / (S * D + lag), rel=1e-12)


@pytest.mark.slow
def test_clocked_by_acks_it_is_stable_and_over_an_integrator_only_below_a_gain():
    """With nearly empty queues the integrator is lost at gamma = w/tan w, w sin w = 1."""
    w = brentq(lambda w: w * np.sin(w) - 1.0, 1.0, 1.5)
    small = FAST(alpha=1e-4)
    loss = ecc.stability.critical_gain(small, ONE, "gamma", clocking="rate", certify=True)
    assert loss.value == pytest.approx(w / np.tan(w), rel=1e-5)
    assert 0.0 < loss.certified[0] <= loss.value <= loss.certified[1] < loss.certified[0] + 1e-8
    assert ecc.stability.critical_gain(small, ONE, "gamma").value == np.inf
    certificate = linearize(FAST(alpha=100.0, gamma=1.0), ONE).certify()
    assert certificate.stable and certificate.at_most == 0
    assert not linearize(FAST(alpha=100.0, gamma=0.6), ONE, clocking="rate").is_stable


@pytest.mark.parametrize(
    ("network", "fast", "clocking", "end"),
    [
        (ONE, FAST(alpha=100.0, gamma=0.8), "ack", 2.0),
        (Network.dumbbell("100 Mb/s", rtts=[0.1] * 3, packet_size=1000), FAST(alpha=30.0, gamma=0.3), "ack", 2.0),
        (Network.dumbbell("100 Mb/s", [0.1, 0.16], packet_size=1000), FAST(alpha=50.0, gamma=0.3), "rate", 4.0),
        (LOT, FAST(alpha=10.0, gamma=0.05), "rate", 6.0),
    ],
    ids=["one", "three", "unlike", "lot"],
)
def test_fluid_runs_decay_as_their_linear_model(network, fast, clocking, end):
    expected = linearize(fast, network, clocking=clocking).spectral_abscissa
    scenario = Scenario(network, fast, end)
    run = ecc.fluid.simulate(scenario, sample=0.005, start="equilibrium", perturbation=1e-5, clocking=clocking)
    late = run.queue.sel(time=slice(0.15 * end, None))
    found = decay(late["time"].to_numpy(), late.to_numpy()[:, 0] * 8.0 / fast.equilibrium(network).queue[0] - 1.0)
    assert found.rate == pytest.approx(expected, rel=0.01)


def test_packets_decay_as_their_linear_model_where_steps_are_small():
    """Packets step an RTT later than the fluid, which tells by about gamma: 4.6 % here."""
    network, fast = Network.dumbbell("1 Gb/s", rtts=[0.1], packet_size=1000), FAST(alpha=1000.0, gamma=0.05)
    drop = CapacitySchedule(link=0, times=[0.0, 25.0], capacities=[1.02e9, 1e9])
    run = ecc.packet.simulate(Scenario(network, fast, 40.0, impairments=[drop]), sample=0.05)
    queue = run.queue[:, 0].to_numpy()
    at = run.data["time"].to_numpy()
    moving = (at > 25.25) & (at < 30.0)
    slope = np.polyfit(at[moving], np.log(np.abs(queue[moving] - queue[-10:].mean())), 1)[0]
    assert slope == pytest.approx(1.046 * linearize(fast, network).spectral_abscissa, rel=0.03)


def test_equal_flows_are_one_and_their_order_does_not_count():
    three = linearize(FAST(), Network.dumbbell("1 Gb/s", rtts=[0.1] * 3))
    assert three.size == 1
    networks = [Network.dumbbell("1 Gb/s", rtts=rtts) for rtts in ([0.1, 0.17], [0.17, 0.1])]
    one, other = (linearize(FAST(), network, clocking="rate") for network in networks)
    assert one.open_loop(S) == pytest.approx(other.open_loop(S), rel=1e-9)


def pattern(guess, rtts, wait, gamma):
    """A root of sum_i x_i [1 + e^(-s D) gamma a/(s D + gamma (1 - a))]/(1 - e^(-s D)), a = 1 - b/D, x equal."""
    D = np.array(rtts)
    a = 1.0 - wait / D

    def unlike(s):
        lag = np.exp(-s * D)
        return ((1.0 + lag * gamma * a / (s * D + gamma * (1.0 - a))) / (1.0 - lag)).sum()

    s = guess
    for _ in range(50):
        s -= unlike(s) / ((unlike(s + 1e-5) - unlike(s - 1e-5)) / 2e-5)
    assert abs(unlike(s)) < 1e-9
    return s


def test_patterns_of_unlike_rtts_last_or_grow():
    assert pattern(63.0j, [0.1, 0.199], 0.01, 0.5) == pytest.approx(0.00087947 + 63.041994j, abs=1e-6)
    network, fast = Network.dumbbell("100 Mb/s", rtts=[0.1, 0.16], packet_size=1000), FAST(alpha=50.0, gamma=0.3)
    run = ecc.fluid.simulate(Scenario(network, fast, 2.0), sample=0.005, start="equilibrium", perturbation=1e-4)
    late = run.queue.sel(time=slice(1.0, None))
    found = decay(late["time"].to_numpy(), late.to_numpy()[:, 0] / 100_000.0 - 1.0, modes=10)
    expected = pattern(-0.3 + 113.8j, [0.108, 0.168], 0.008, 0.3)
    assert expected == pytest.approx(-0.2787 + 113.798j, abs=1e-3)
    assert found.frequency == pytest.approx(expected.imag, rel=1e-3)
    assert found.rate == pytest.approx(expected.real, abs=0.05)  # the next modes are at -1.1 and -2.6


class Restless(FAST):
    def equilibrium(self, network, assignment=None):
        point = super().equilibrium(network)
        return Equilibrium(1.01 * point.rates, point.fair_rate, point.bottleneck, point.queue)


class Empty(FAST):
    def equilibrium(self, network, assignment=None):
        point = super().equilibrium(network)
        return Equilibrium(point.rates, point.fair_rate, point.bottleneck)


class Curious(FAST):
    @staticmethod
    def router_law(q, N):
        return q / N


class NoWindow(FAST):
    @staticmethod
    def source_law(w, R):
        w + R


class NoFeedback(FAST):
    @staticmethod
    def router_law(q, C):
        q / C


@pytest.mark.parametrize("clocking", ["ack", "rate"])
def test_a_law_without_a_number_is_named(clocking):
    for protocol, law in ((NoWindow(), "source_law"), (NoFeedback(), "router_law")):
        with pytest.raises(TypeError, match=f"^{law} of {type(protocol).__name__} must return a number, got None$"):
            linearize(protocol, ONE, clocking=clocking)


@pytest.mark.parametrize(
    ("protocol", "network", "options", "message"),
    [
        (FAST(), Network.dumbbell("1 Gb/s", [0.1, 0.2]), {}, "no ACK-clocked linear model with heterogeneous RTTs"),
        (FAST(), LOT, {}, "if a path has several queues, got 2: use clocking='rate'"),
        (FAST(), ONE, {"clocking": "static"}, "clocking must be 'ack' or 'rate', got 'static'"),
        (QIRCP(), ONE, {"clocking": "rate"}, "clocking applies to window protocols only, got 'rate'"),
        (FAST(), ONE, {"mean_rtt": [0.1]}, "mean_rtt must be None for windows: no router scales by it"),
        (FAST(), ONE, {"time": "hybrid"}, "FAST has no hybrid model: time must be 'continuous' or 'discrete'"),
        (Curious(), ONE, {}, "Curious has no linear model: its router law takes N"),
        (NewReno(), ONE, {}, "NewReno has no equilibrium to linearize at: its windows grow until a queue overflows"),
        (BIC(), ONE, {}, "BIC has no equilibrium to linearize at: its windows grow until a queue overflows"),
        (Vegas(2.0, 2.0), ONE, {}, "Vegas's source law is a relay, which has no slope to linearize"),
        (Vegas(), ONE, {}, "Vegas has no equilibrium to linearize at: with alpha < beta any window"),
    ],
)
def test_what_has_no_linear_model_is_refused(protocol, network, options, message):
    with pytest.raises((ValueError, LinearizationError), match=message):
        linearize(protocol, network, **options)


def test_what_is_no_equilibrium_is_refused():
    with pytest.raises(
        LinearizationError, match=r"^no equilibrium: flow 0 would move from its window of \S+ bit to \S+ bit"
    ):
        linearize(Restless(alpha=100.0), ONE)
    with pytest.raises(
        LinearizationError,
        match="^Empty has no linear model: windows must have an equilibrium with queues, and R be their sum .combine",
    ):
        linearize(Empty(alpha=100.0), ONE)


class Splitting(FAST):
    """FAST with a window law whose slope in w is 1 + k: differences between flows change by k per RTT."""

    k = 0.0

    @staticmethod
    def source_law(w, R, p):
        return w + p.gamma * p.w_at_rest * (p.wait - R) + p.k * (w - p.w_at_rest)

    def params(self):
        return super().params() | {
            "k": self.k,
            "wait": self.alpha * 8e3 / 1e8 * 2,
            "w_at_rest": 0.5e8 * self.rtt_at_rest,
        }

    @property
    def rtt_at_rest(self):
        return 0.1 + self.alpha * 8e3 / 1e8 * 2


@pytest.mark.parametrize(("k", "stable"), [(-0.1, True), (0.0, False), (0.02, False)])
@pytest.mark.parametrize("clocking", ["ack", "rate"])
def test_differences_between_flows_that_do_not_decay_are_part_of_the_model(k, stable, clocking):
    pair = type("Pair", (Splitting,), {"k": k})(alpha=50.0, gamma=0.05)
    two = Network.dumbbell("100 Mb/s", rtts=[0.1] * 2, packet_size=1000)
    system = linearize(pair, two, clocking=clocking)
    assert system.is_stable is stable
    assert any("differences between equal flows do not decay" in note for note in system.notes) is not stable
    if k > 0.0:
        assert system.spectral_abscissa == pytest.approx(k / pair.rtt_at_rest)
    assert linearize(pair, two, time="discrete", clocking=clocking).is_stable is stable
