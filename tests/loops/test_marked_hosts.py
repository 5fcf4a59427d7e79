"""Linear models of hosts over queue disciplines: by hand, against delay equations and packets; where there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.contract.assignment import parameter_names, read_protocol, with_parameter
from ecc.contract.forms import Queues
from ecc.contract.parameters import check_number
from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.fluid import solve_dde
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_equations import MarkedLoop
from ecc.loops.marked_equilibrium import equilibria_of_a_family
from ecc.loops.marked_hosts import equilibrium_of_marks
from ecc.models import BIC, CUBIC, DCTCP, ConstantRate, NewReno
from ecc.models.shared.windows import EndToEndProtocol
from ecc.network.network import Flow, Link, Network
from ecc.queues import AVQ, PI, PI2, PIE, RED, REM, DropTail, RampMarking, StepMarking
from ecc.queues.discipline import QueueDiscipline, congested_at_random
from ecc.results.transients import decay
from ecc.stability import analyze, critical_gain, stability_map, stable_interval

S = 8000.0  # bit, a packet
N, C, BASE = 60, 3750.0, 0.2  # flows, packets/s, s
NET = Network.dumbbell(C * S, rtts=[BASE] * N, packet_size=1000)
DISCIPLINES = {
    "PI": lambda k: PI(mark=True, a=1.822e-5 * k, b=1.816e-5 * k, reference=200.0),
    "RED": lambda k: RED(mark=True, min_threshold=50.0, max_threshold=400.0, p_max=0.05, weight=2e-5 * k),
    "PI2": lambda k: PI2(mark=True, alpha=0.3125 * k, beta=3.125 * k, interval=0.032),
}
BOUNDARIES = {"PI": 3.5454, "RED": 8.6185, "PI2": 0.3892}  # of k, by bisection of the equations below


def over(discipline, host=None):
    return {"flows": host or NewReno(ecn=True), "links": discipline}


def at_rest(discipline, network=NET, host=None):
    return equilibrium_of_marks(read_protocol(over(discipline, host)).deploy(network), network)


# ---- by hand -----------------------------------------------------------------------------------------------


def test_pi_is_the_linear_model_of_hollot_misra_towsley_gong_but_for_the_spacing_of_acks():
    """Their 2001 example: 3750 packets/s, 60 flows, R = 0.246 s. Ours and theirs differ in x(t - R)' only."""
    reference = 200.0
    R = 0.246
    network = Network.dumbbell(C * S, rtts=[R - reference / C] * N, packet_size=1000)
    pi = PI(mark=True, reference=reference)
    system = linearize(over(pi), network, clocking="rate")
    s = 1j * np.array([0.05, 0.5, 3.0, 20.0]) + 0.1
    W, lag, T = R * C / N, np.exp(-s * R), pi.interval
    rate, halves = N / (R * R * C), R * C * C / (2.0 * N * N)
    # packets: W' = -rate W - q/(R^2 C) - halves p(t - R); q' = N/R W(t - F) - q(t - R)/R; the queue is at the sender
    ours = np.array(
        [
            [s + rate, lag / (R * R * C), halves * lag],
            [np.full_like(s, -N / R), s + lag / R, np.zeros_like(s)],
            [np.zeros_like(s), -(pi.a - pi.b * np.exp(-s * T)) / T, s],
        ]
    ).transpose(2, 0, 1)
    assert network.forward_delays[0, 0] == 0.0
    assert system.characteristic(s) == pytest.approx(np.linalg.det(ours), rel=1e-9)
    # theirs has rate W(t - R) - q(t - R)/(R^2 C) more, of x(t - R), and the queue delays nothing in D
    published = np.array(
        [
            [s + rate * (1.0 + lag), (1.0 - lag) / (R * R * C), halves * lag],
            [np.full_like(s, -N / R), s + 1.0 / R, np.zeros_like(s)],
            [np.zeros_like(s), -(pi.a - pi.b * np.exp(-s * T)) / T, s],
        ]
    ).transpose(2, 0, 1)
    theirs, slow = np.linalg.det(published), np.abs(s) < 1.0
    assert system.characteristic(s)[slow] == pytest.approx(theirs[slow], rel=0.2)
    assert at_rest(pi, network).windows == pytest.approx(W * S)
    assert at_rest(pi, network).probabilities == pytest.approx([2.0 / W**2])


def test_clocked_by_acks_the_queue_is_what_the_windows_leave():
    pi = DISCIPLINES["PI"](1.0)
    system = linearize(over(pi), NET)
    s = 1j * np.array([0.05, 0.5, 3.0, 20.0]) + 0.1
    R = BASE + 200.0 / C
    lag, T = np.exp(-s * R), pi.interval
    loop = N * R * C * C / (2.0 * N * N) * lag * (pi.a - pi.b * np.exp(-s * T)) / T / s
    assert system.characteristic(s) == pytest.approx(s * (s + 2.0 * N / (R * R * C) + loop), rel=1e-9)
    assert system.size == 2


def test_rem_by_hand():
    """Its price integrates queue and rate, its probability is exponential in it."""
    rem = REM(mark=True)
    system, rest = linearize(over(rem), NET), at_rest(rem)
    s = 1j * np.array([0.05, 0.5, 3.0, 20.0]) + 0.1
    D, T, p = rest.rtts[0], rem.interval, rest.probabilities[0]
    W, lag = rest.windows[0] / S, np.exp(-s * D)
    steep = np.log(rem.phi) * (1.0 - p)
    arrivals = rem.weight * s * T / (rem.weight + s * T) * N  # of a window: the rate is C + q'
    loop = 0.5 * W * W / D * lag * steep * rem.gamma * (rem.alpha * N + arrivals) / T / s
    acks = 2.0 / (W * D)
    assert linearize(over(rem), NET).size == 3
    hand = s * (s + rem.weight / T) * (s + acks + loop)
    assert system.characteristic(s) == pytest.approx(hand, rel=1e-9)


def test_the_equilibrium_is_that_of_every_law():
    """Half a window at every mark, a packet an RTT: w = s sqrt(2/p), whatever chooses; what each discipline wants."""
    for discipline in (*(make(1.0) for make in DISCIPLINES.values()), REM(mark=True), PIE(mark=True)):
        found = at_rest(discipline)
        assert found.windows == pytest.approx(S * np.sqrt(2.0 / found.probabilities[0]))
        assert found.rates.sum() == pytest.approx(NET.capacities[0])
    assert at_rest(PI2(mark=True)).queues == pytest.approx(PI2().target * NET.capacities)
    assert at_rest(PIE(mark=True)).queues == pytest.approx(PIE().target * NET.capacities)
    assert at_rest(REM(mark=True)).queues == pytest.approx([20.0 * S])
    avq = at_rest(AVQ(mark=True))
    assert avq.queues == [0.0] and avq.rates.sum() == pytest.approx(0.98 * NET.capacities[0])
    red = at_rest(RED(mark=True, min_threshold=50.0, max_threshold=400.0, p_max=0.05))
    assert red.states[0]["average"] * S == pytest.approx(red.queues[0])


@pytest.mark.parametrize("p", 10.0 ** -np.arange(1.0, 10.0))
def test_an_equilibrium_just_above_the_threshold_of_red_is_found(p):
    """Below the threshold nothing is chosen, and no slope leads beyond it."""
    network = Network.dumbbell(10 * np.sqrt(2.0 / p) * S / 0.1, rtts=[0.1] * 10, packet_size=1000)
    for red in (RED(mark=True), DISCIPLINES["RED"](1.0), RED(mark=True, min_threshold=20.0, max_threshold=200.0)):
        found = at_rest(red, network)
        chosen = found.probabilities[0]
        above = (found.queues[0] / S - red.min_threshold) / (red.max_threshold - red.min_threshold)
        assert found.windows == pytest.approx(S * np.sqrt(2.0 / chosen), rel=1e-6)
        assert chosen == pytest.approx(2.0 * red.p_max * above / (1.0 + red.p_max * above), rel=1e-4)
        assert found.rates.sum() == pytest.approx(network.capacities[0])


@pytest.mark.slow
@pytest.mark.parametrize("packets", [30, 300, 1000, 10_000])
def test_the_equilibrium_of_cubic_is_found_for_windows_of_any_size(packets):
    """What a window gains in an RTT, by RFC 9438 secs. 4.2 and 4.3, is what marks take: 0.3 w for each."""
    network = Network.dumbbell(10 * packets * S / 0.1, rtts=[0.1] * 10, packet_size=1000)
    for discipline in (PI2(mark=True), PI(mark=True), RED(mark=True, min_threshold=5.0, max_threshold=5000.0)):
        found = at_rest(discipline, network, CUBIC(ecn=True))
        w, D, p = found.windows[0] / S, found.rtts[0], found.probabilities[0]
        r = w / D * p
        cubic = min(max(0.4 * (1.0 / r - np.cbrt(0.3 * w / 0.4)) ** 3 + w, w), 1.5 * w)
        friendly = [0.7 * w + step / (D * r) for step in (1.0, 3.0 * 0.3 / 1.7)]
        reno = friendly[0] if friendly[0] >= w else friendly[1]
        assert max(cubic, reno) - w == pytest.approx(0.3 * w * D * r, abs=1e-7 * w)  # a difference of windows
        assert found.rates.sum() == pytest.approx(network.capacities[0], rel=1e-9)


@pytest.mark.parametrize("alpha", [0.15, 1.0, 20.0, 100.0])
@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize(("rate", "flows", "rtt"), [("1 Mb/s", 4, 0.1), ("1 Gb/s", 100, 0.05), ("30 Mb/s", 60, 0.2)])
def test_the_equilibrium_of_avq_is_found_for_any_gain(rate, flows, rtt, mark, alpha):
    """V = (1 - p) y at y = gamma C, or, where a packet's alpha is more than C - V, V = C - alpha; no queue at all."""
    network = Network.dumbbell(rate, rtts=[rtt] * flows, packet_size=1000)
    host, discipline = NewReno(ecn=mark), AVQ(alpha=alpha, mark=mark)
    found = at_rest(discipline, network, host)
    C, y, V = network.capacities[0] / S, found.rates.sum() / S, found.states[0]["V"]
    p = found.probabilities[0]
    assert found.queues == [0.0] and V == pytest.approx((1.0 - p) * y)
    w = found.windows[0] / S
    assert p * w * min(0.5 * w, w - 2.0) == pytest.approx(1.0)  # a mark leaves two packets at least
    assert y == pytest.approx(0.98 * C) or V == pytest.approx(C - alpha)
    assert linearize(over(discipline, host), network, clocking="rate").size == 2


def test_delayed_acks_matter_only_where_acks_count():
    """W = s sqrt(2/p) by bytes; by ACKs of two packets each W = s sqrt(1/p), and the loop is another one."""
    delayed = NET.with_flows([replace(flow, delayed_acks=(2, "40 ms")) for flow in NET.flows])
    systems = {}
    for L, moved in ((2.0, 1.0), (0.0, 0.5)):
        host = NewReno(ecn=True, L=L)
        usual, here = (at_rest(PI(mark=True), network, host) for network in (NET, delayed))
        assert here.windows == pytest.approx(usual.windows, rel=1e-9)
        assert here.probabilities == pytest.approx(moved * usual.probabilities, rel=1e-9)
        systems[L] = [ecc.linearize(over(PI(mark=True), host), network) for network in (NET, delayed)]
    assert np.array_equal(systems[2.0][0].matrices, systems[2.0][1].matrices)
    assert not np.allclose(systems[0.0][0].matrices, systems[0.0][1].matrices)


def test_flows_of_unlike_rtts_share_as_one_over_their_rtt():
    network = Network.dumbbell("30 Mb/s", rtts=[0.05] * 10 + [0.2] * 10)
    found = at_rest(PI(mark=True, reference=50.0), network)
    assert found.rates * found.rtts == pytest.approx(found.windows[0])
    assert found.rates.sum() == pytest.approx(30e6)
    assert linearize(over(PI(mark=True, reference=50.0)), network, clocking="rate").size == 4


def test_marks_of_several_links_combine():
    links = [Link("10 Mb/s", "5 ms"), Link("8 Mb/s", "5 ms")]
    flows = (
        [Flow([0, 1], access_delay=0.01)] * 4 + [Flow([0], access_delay=0.01)] * 4 + [Flow([1], access_delay=0.01)] * 4
    )
    network = Network(links=links, flows=flows)
    found = at_rest(PI(mark=True, reference=30.0), network)
    one, two = found.probabilities
    assert found.windows[0] == pytest.approx(S * np.sqrt(2.0 / (1.0 - (1.0 - one) * (1.0 - two))))
    assert found.windows[4] == pytest.approx(S * np.sqrt(2.0 / one))
    assert found.queues == pytest.approx([30.0 * S] * 2)
    assert linearize(over(PI(mark=True, reference=30.0)), network, clocking="rate").verdict in ("stable", "unstable")


def test_what_is_dropped_does_not_queue():
    """Windows send C/(1 - p) then."""
    found = at_rest(PI(reference=200.0), host=NewReno())
    assert found.rates.sum() * (1.0 - found.probabilities[0]) == pytest.approx(NET.capacities[0])


# ---- against the delay equations themselves ----------------------------------------------------------------


def growth(name, k, end, push):
    """The decay of the queue in the nonlinear equations, written here in packets and integrated."""
    discipline = DISCIPLINES[name](k)
    rest = at_rest(discipline)
    q0, w0, (z0,) = rest.queues[0] / S, rest.windows[0] / S, rest.states[0].values()
    D = BASE + q0 / C
    T = discipline.interval

    def probability(z):
        if name == "PI":
            return z
        if name == "PI2":
            return z * z
        p_b = 0.05 * (z - 50.0) / 350.0
        return 2.0 * p_b / (1.0 + p_b)

    def moves(z, q, q_prev, y):
        if name == "PI":
            return (discipline.a * (q - 200.0) - discipline.b * (q_prev - 200.0)) / T
        if name == "PI2":
            return (discipline.alpha * (q / C - discipline.target) + discipline.beta * (q - q_prev) / C) / T
        return discipline.weight * y * (q - z)

    def f(t, u, lag):
        w, q, z = u
        y = N * w / (BASE + lag[0, 1] / C)
        sent = N * lag[0, 0] / (BASE + lag[1, 1] / C)  # an RTT ago
        acked = sent / N * (1.0 - (sent - C) / C)
        return np.array(
            [1.0 / (BASE + lag[0, 1] / C) - acked * probability(lag[0, 2]) * 0.5 * w, y - C, moves(z, q, lag[2, 1], y)]
        )

    at = np.linspace(0.0, end, 2000)
    history = [w0 * (1.0 + push), q0, z0]
    run = solve_dde(f, (0.0, end), history, [D, 2.0 * D, T], t_eval=at, rtol=1e-10, atol=1e-13, jit=False)
    late = at > 0.25 * end
    return decay(at[late], run.y[1][late] / q0 - 1.0).rate


@pytest.mark.slow
@pytest.mark.parametrize("name", DISCIPLINES)
def test_growth_on_both_sides_of_the_boundary_is_that_of_the_delay_equations(name):
    def abscissa(k):
        return linearize(over(DISCIPLINES[name](k)), NET, clocking="rate").spectral_abscissa

    boundary = brentq(abscissa, 0.9 * BOUNDARIES[name], 1.1 * BOUNDARIES[name], rtol=1e-6)
    for k, end, push in ((0.7 * boundary, 10.0, 1e-5), (1.3 * boundary, 6.0, 1e-8)):
        assert growth(name, k, end, push) == pytest.approx(abscissa(k), rel=0.01)
    assert abscissa(0.7 * boundary) < 0.0 < abscissa(1.3 * boundary)


# ---- a host and a discipline of one's own ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Share(EndToEndProtocol):
    """A host that averages the share of its packets which is marked, as DCTCP does, and falls by half of that."""

    gain: float = 0.0625
    ecn: bool = True
    no_equilibrium = "it needs marks"

    @staticmethod
    def source_law(w, share, marked, s):
        return w + s - 0.5 * share * marked * w

    @staticmethod
    def mark_response_law(w):
        return w

    @property
    def states(self):
        return {"share": State(share_law, "rtt", lowest=0.0, highest=1.0)}

    def params(self):
        return {"gain": self.gain, **super().params()}


def share_law(share, marked, p):
    return share + p.gain * (marked - share)


@dataclass(frozen=True)
class Slope(QueueDiscipline):
    """Marks in proportion to the queue, which keeps no state."""

    slope: float = 1e-4
    required_env = frozenset({"random"})

    def __post_init__(self):
        super().__post_init__()
        check_number(self, slope=None)

    @staticmethod
    def probability_law(q, p):
        return min(p.slope * q, 1.0)

    def link_hooks(self):
        return {"on_arrival": on_arrival}


def on_arrival(link, header, p, env):
    congested_at_random(min(p.slope * env.queue / p.packet_size, 1.0), p, env)


@pytest.mark.slow
def test_halves_of_ones_own_compose():
    """At rest s = p p w/2 for the host, p = slope q for the queue."""
    found = at_rest(Slope(mark=True, slope=1e-3), host=Share())
    p = found.probabilities[0]
    assert found.windows == pytest.approx(2.0 * S / p**2) and found.queues == pytest.approx([1e3 * p * S])
    system = linearize(over(Slope(mark=True, slope=1e-3), Share()), NET)
    assert system.size == 2 and system.verdict == "stable"
    assert linearize(over(PI2(mark=True), Share()), NET).size == 3
    assert linearize(over(Slope(mark=True, slope=1e-4)), NET).verdict == "stable"
    loss = critical_gain(over(Slope(mark=True)), NET, "links.slope")
    s = 1j * loss.frequency
    at = at_rest(Slope(mark=True, slope=loss.value))
    D, w, q = at.rtts[0], at.windows[0] / S, at.queues[0] / S
    lag = np.exp(-s * D)
    here = s + 2.0 / (w * D) + 0.5 * w * w / D * loss.value * N * lag
    assert q == pytest.approx(at.probabilities[0] / loss.value) and abs(here) < 1e-5 * abs(s)


# ---- questions on pairs ------------------------------------------------------------------------------------


def test_parameters_of_either_half_have_names():
    pair = read_protocol(over(DISCIPLINES["PI2"](1.0)))
    assert {"links.alpha", "links.beta", "links.target", "flows.min_rto"} <= set(parameter_names(pair))
    moved = with_parameter(pair, "links.alpha", 0.1)
    assert moved.links["default"][0].alpha == 0.1 and pair.links["default"][0].alpha == 0.3125
    with pytest.raises(ValueError, match=r"parameter must be one of flows.initial, .*links.beta.*, got 'alpha'"):
        critical_gain(pair, NET, "alpha")


@pytest.mark.slow
def test_boundaries_are_found_and_certified():
    pair = over(DISCIPLINES["PI2"](0.2))
    loss = critical_gain(pair, NET, "links.beta", clocking="rate", certify=True)
    assert loss.certified[0] <= loss.value <= loss.certified[1]
    inside, outside = (with_parameter(read_protocol(pair), "links.beta", f * loss.value) for f in (0.99, 1.01))
    assert linearize(inside, NET, clocking="rate").is_stable and not linearize(outside, NET, clocking="rate").is_stable
    grid = {"links.beta": [0.99 * loss.value, 1.01 * loss.value]}
    assert (stability_map(pair, NET, grid, clocking="rate") < 0.0).values.tolist() == [True, False]
    found = stable_interval(pair, NET, "links.beta", certify=False, clocking="rate")
    assert found.upper == pytest.approx(loss.value)
    said = analyze(pair, NET, clocking="rate")
    assert "gain margin" in repr(said) and "NewReno over PI2" in repr(said)
    assert any("spread evenly" in note for note in said.notes)


# ---- where there is none -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lacking(QueueDiscipline):
    """Hooks alone."""

    def link_hooks(self):
        return {"on_arrival": on_arrival}


@dataclass(frozen=True)
class Several(Slope):
    """Several queues."""

    queues = Queues("priority", (1, 1))


@dataclass(frozen=True)
class Asking(Slope):
    """A law that asks for what there is not."""

    @staticmethod
    def probability_law(q, N):
        return q / N


# ---- unresponsive flows as a load --------------------------------------------------------------------------

LOAD = 0.2 * C  # packets/s
LOADED = Network.dumbbell(C * S, rtts=[BASE] * (N + 1), packet_size=1000)


def under_load(discipline, host=None):
    return {"flows": {f"0-{N - 1}": host or NewReno(ecn=True), N: ConstantRate(LOAD * S)}, "links": discipline}


def test_the_model_under_load_is_that_of_the_equations_by_hand():
    """Packets of the load are dropped with the probability with which those of the other flows are marked."""
    pi = PI(mark=True, reference=200.0)
    R = BASE + 200.0 / C
    W = brentq(lambda w: N * w / R + LOAD * (1.0 - 2.0 / w**2) - C, 2.0, C)
    x, p = W / R, 2.0 / W**2
    system = linearize(under_load(pi), LOADED, clocking="rate")
    s = 1j * np.array([0.05, 0.5, 3.0, 20.0]) + 0.1
    lag, T = np.exp(-s * R), pi.interval
    wait = lag / C  # of the RTT, for a packet more in the queue that the acknowledged packet met
    half = p * W / 2.0
    ours = np.array(
        [
            [
                s + x * p / 2.0 + half * lag / R,
                wait / R**2 - half * x / R * lag * wait - half * x * s * wait,
                x * W / 2.0 * lag,
            ],
            [np.full_like(s, -N / R), s + N * x / R * wait, np.full_like(s, LOAD)],
            [np.zeros_like(s), -(pi.a - pi.b * np.exp(-s * T)) / T, s],
        ]
    ).transpose(2, 0, 1)
    assert system.characteristic(s) == pytest.approx(np.linalg.det(ours), rel=1e-9)
    rest = equilibrium_of_marks(read_protocol(under_load(pi)).deploy(LOADED), LOADED)
    assert rest.rates[:N] == pytest.approx(x * S) and rest.rates[N] == pytest.approx(LOAD * S)
    assert rest.chosen[:, 0] == pytest.approx(p)


def test_a_load_in_an_analysis_gives_paced_models_with_a_note():
    found = analyze(under_load(PI(mark=True)), LOADED, times=["continuous"], certify=False)
    assert found.models[0].verdict in ("stable", "unstable") and found.models[0].other is None
    assert any(note.startswith("windows are paced in this model") for note in found.notes)
    with pytest.raises(LinearizationError, match="2 kinds and 1 queues: use clocking='rate'"):
        linearize(under_load(PI(mark=True)), LOADED, clocking="ack")


def test_a_load_beyond_the_capacity_is_refused():
    pair = {"flows": {0: NewReno(ecn=True), "default": ConstantRate("20 Mb/s")}, "links": PI(mark=True)}
    network = Network.dumbbell("30 Mb/s", [0.1] * 3)
    with pytest.raises(LinearizationError, match="unresponsive flows send 4e.07 bit/s through link 0, whose capacity"):
        linearize(pair, network, clocking="rate")


@pytest.mark.slow
def test_packets_lose_the_share_of_a_load_that_the_equilibrium_has():
    network = Network.dumbbell("50 Mb/s", ["40 ms"] * 9, packet_size=1000)
    pair = {"flows": {"0-7": NewReno(), 8: ConstantRate("20 Mb/s")}, "links": PI2()}
    rest = equilibrium_of_marks(read_protocol(pair).deploy(network), network)
    run = ecc.packet.simulate(ecc.Scenario(network, pair, 120.0, seed=3))
    half = run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy()
    assert half[8] == pytest.approx(20e6 * (1.0 - rest.probabilities[0]), rel=0.003)
    assert half[:8].sum() == pytest.approx(8.0 * rest.rates[0], rel=0.02)


@dataclass(frozen=True)
class Counting(NewReno):
    """A host whose law asks for what no host knows."""

    @staticmethod
    def source_law(w, N):
        return w / N


@pytest.mark.parametrize(
    ("pair", "network", "options", "message"),
    [
        (
            over(Lacking(mark=True)),
            NET,
            {},
            "Lacking has no linear model: hooks choose its packets, and it has no probability_law",
        ),
        (over(Several(mark=True)), NET, {}, "Several has no linear model: it has several queues at a link"),
        (over(Asking(mark=True)), NET, {}, "its probability_law takes N; available arguments: q, y, C"),
        (over(DropTail()), NET, {}, "windows over links without a queue discipline have no linear model"),
        (over(PI(mark=True), BIC(ecn=True)), NET, {}, "BIC has no linear model over queue disciplines: its law needs"),
        (over(PI(mark=True), Counting(ecn=True)), NET, {}, "Counting has no linear model .* its source_law takes N"),
        (over(PI(mark=True)), NET, {"mean_rtt": "flows"}, "must be None for hosts over queue disciplines"),
        (over(PI(mark=True)), NET, {"clocking": "self"}, "clocking must be 'ack' or 'rate', got 'self'"),
        (over(PI(mark=True)), Network.dumbbell("30 Mb/s", [0.1, 0.2]), {}, "2 kinds and 1 queues: use clocking='rate'"),
        (over(StepMarking()), NET, {}, "no equilibrium was found: even without delays, windows and queues"),
        (
            over(PI(mark=True)),
            Network.dumbbell("10 Mb/s", [0.03] * 100),
            {},
            "prob of PI at link 0 stays at its limit 1, with windows of 2.41 packets",
        ),
        (
            over(PI(mark=True, reference=2000.0)),
            Network.dumbbell("30 Mb/s", [0.2] * 60, buffer="1 MB"),
            {},
            "the queue of link 0 would be 2e.06 bytes, more than its buffer",
        ),
    ],
)
def test_what_has_no_linear_model_is_refused_in_one_line(pair, network, options, message):
    with pytest.raises((ValueError, LinearizationError), match=message) as error:
        linearize(pair, network, **options)
    assert "\n" not in str(error.value)


def test_adaptive_red_rests_anywhere_between_its_bounds():
    with pytest.raises(LinearizationError, match="no single equilibrium: these laws have a line of equilibria"):
        linearize(over(RED(mark=True, adaptive=True, min_threshold=50.0, max_threshold=400.0)), NET)


class HalfAPacket(NewReno):
    """A scalable host: half a packet for each mark, s = (w/s) P s/2 an RTT."""

    @staticmethod
    def mark_response_law(w, s):
        return w - 0.5 * s


def test_differences_of_windows_decay_though_the_jump_does_not_grow_with_the_window():
    """A flow with a larger window has more of the ACKs, and of the marks; their sum is clocked by the queue."""
    for clocking in ("ack", "rate"):
        system = linearize(over(PI2(mark=True), HalfAPacket(ecn=True)), NET, clocking=clocking)
        assert system.size == 3 - (clocking == "ack") and system.is_stable
        assert not any("differences" in note for note in system.notes)


@pytest.mark.parametrize("clocking", ["ack", "rate"])
def test_rem_has_a_linear_model(clocking):
    """Its law is an exponential in the price, which laws write with exp and log."""
    system = linearize(over(REM(mark=True)), NET, clocking=clocking)
    assert system.is_stable and system.certify().stable


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.15])
def test_what_leaves_a_limit_is_no_equilibrium(alpha):
    """AVQ rests at y = gamma C, for any gain, not where a window or a virtual capacity at 0 grows from there."""
    network = Network.dumbbell(1250.0 * S, rtts=[0.1] * 41, packet_size=1000)
    found = at_rest(AVQ(mark=True, alpha=alpha), network, Halving(ecn=True))
    assert found.rates.sum() == pytest.approx(0.98 * 1250.0 * S) and found.states[0]["V"] == pytest.approx(
        950.551, rel=1e-5
    )


class Halving(NewReno):
    """A mark halves the window, however small it is."""

    @staticmethod
    def mark_response_law(w):
        return 0.5 * w


@pytest.mark.slow
def test_equilibria_of_a_family_start_at_that_of_the_previous_member(monkeypatch):
    evaluations = []
    moves = MarkedLoop.moves

    def counted(self, *arguments, **options):
        evaluations.append(1)
        return moves(self, *arguments, **options)

    monkeypatch.setattr(MarkedLoop, "moves", counted)
    network = Network.dumbbell("100 Mb/s", [0.1] * 10)
    by_threshold = {"flows": DCTCP(), "links": RampMarking()}
    for pair, name, values in (
        ({"flows": CUBIC(), "links": PI2()}, "links.beta", (1.0, 2.0, 1.5)),
        (by_threshold, "links.max_threshold", (30.0, 60.0, 40.0)),
    ):
        members = [with_parameter(read_protocol(pair), name, value) for value in values]
        alone = [linearize(member, network) for member in members]
        evaluations.clear()
        with equilibria_of_a_family():
            family = [linearize(member, network) for member in members[:1]]
            first = len(evaluations)
            family += [linearize(member, network) for member in members[1:]]
        assert len(evaluations) - first < 0.3 * first
        for system, other in zip(family, alone, strict=True):
            np.testing.assert_allclose(
                system.matrices, other.matrices, rtol=1e-8, atol=1e-8 * np.abs(other.matrices).max()
            )


def test_a_diverged_start_at_the_previous_member_is_not_an_equilibrium():
    """Newton's method from the equilibrium at 100 ms passes a switch of CUBIC's law and diverges."""
    pair = {"flows": CUBIC(), "links": PIE()}
    networks = [Network.dumbbell("100 Mb/s", [rtt] * 4, packet_size=1500) for rtt in (0.1, 0.03)]
    with equilibria_of_a_family():
        systems = [linearize(pair, network) for network in networks]
    np.testing.assert_allclose(systems[1].matrices, linearize(pair, networks[1]).matrices, rtol=1e-6)


def test_a_search_that_rests_at_a_limit_ends(monkeypatch):
    """All later steps return the same states, one of which is at its limit."""
    evaluations = []
    moves = MarkedLoop.moves

    def counted(self, *arguments, **options):
        evaluations.append(1)
        return moves(self, *arguments, **options)

    monkeypatch.setattr(MarkedLoop, "moves", counted)
    with pytest.raises(LinearizationError, match="prob of PI at link 0 stays at its limit 1"):
        linearize(over(PI(mark=True)), Network.dumbbell("10 Mb/s", [0.03] * 100))
    assert len(evaluations) < 1500
