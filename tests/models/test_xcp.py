"""XCP: the law, the free-queue boundary, the equilibrium that is not max-min fair, and packets that keep to them."""

from math import cos, pi, sin, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import RCP, XCP
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, Workload

EQUAL = Network.dumbbell("1 Gb/s", rtts=[0.1, 0.1])
LINK, FLOW = XCP().link_hooks(), XCP().flow_hooks()


def test_law_by_hand():
    p = XCP(alpha=0.4, beta=0.2, gamma=0.1).namespace()
    C, d, T = 100.0, 0.5, 0.01
    phi = 0.4 * d * 20.0 - 0.2 * 5.0  # spare 20, queue 5
    h = 0.1 * 80.0 * d - phi
    given = {"y": 80.0, "q": 5.0, "N_all": 4.0, "C": C, "d": d, "T": T, "p": p}
    assert XCP.router_law(x=10.0, **given) == pytest.approx(T * ((h + phi) / 4 - h * 10 / 80) / d**2)
    shares = [XCP.router_law(x=x, **given) for x in (10.0, 20.0, 20.0, 30.0)]
    assert sum(shares) == pytest.approx(T * phi / d**2)  # shuffling moves no sum
    over = {**given, "y": 120.0, "q": 0.0}
    assert sum(XCP.router_law(x=x, **over) for x in (30.0, 50.0, 20.0, 20.0)) == pytest.approx(-T * 0.4 * 20.0 / d)


@pytest.mark.parametrize(
    "rtts, gamma", [([0.1], 0.1), ([0.1] * 3, 0.1), ([0.1] * 3, 0.4), ([0.05, 0.17, 0.4, 0.41], 0.0)]
)
@pytest.mark.parametrize(("rtt", "over"), [("mean", np.mean), ("max", np.max)])
def test_model_without_shuffling_or_with_equal_rtts(rtts, gamma, rtt, over):
    s = np.array([0.3 + 1j, 2j, -1 + 5j, 30j])
    d = over(rtts)
    loop = (0.4 * s / d + 0.226 / d**2) * np.exp(-np.outer(s, rtts)).mean(axis=1)
    system = linearize(XCP(rtt=rtt, gamma=gamma), Network.dumbbell("1 Gb/s", rtts))
    assert system.characteristic(s) == pytest.approx(s * s + loop, rel=1e-12)
    assert system.open_loop(s) == pytest.approx(loop / s**2, rel=1e-12)


# ---- shuffling: roots of a formula that is derived in the model's text, by means that are not in ecc ----------


def shuffled(s, rtts, alpha=0.4, beta=0.226, gamma=0.1):
    """1 + [(alpha - gamma)/d + beta/(d^2 s)] mean(exp(-s D)/(s + (gamma/d) exp(-s D))), and its poles' product."""
    s, d = np.asarray(s, dtype=complex)[..., None], np.mean(rtts)
    e = np.exp(-s * np.asarray(rtts))
    own = np.exp(-s * np.unique(rtts))
    poles = s[..., 0] * np.prod(s + gamma / d * own, axis=-1)
    return poles * (1.0 + ((alpha - gamma) / d + beta / (d * d * s[..., 0])) * (e / (s + gamma / d * e)).mean(axis=-1))


def right_half_plane(f, top, points=200_001):
    """Roots of f with Re s > 0 and |s| < top, by the argument principle on a fine half circle."""
    arc = top * np.exp(1j * np.linspace(-pi / 2, pi / 2, points))
    line = 1j * np.linspace(top, -top, points) + 1e-12
    phase = np.unwrap(np.angle(np.concatenate([f(arc), f(line)])))
    turns = (phase[-1] - phase[0]) / (2 * pi)
    assert np.abs(np.diff(phase)).max() < 1.0 and abs(turns - round(turns)) < 1e-3
    return round(turns)


MIXES = [[0.01] * 29 + [1.0], [0.01] * 20 + [0.3], [0.05, 0.17, 0.4, 0.41], [0.001, 0.133, 0.133, 0.133]]


@pytest.mark.parametrize("gamma", [0.1, *(pytest.param(gamma, marks=pytest.mark.slow) for gamma in (0.02, 0.4, 0.5))])
@pytest.mark.parametrize("rtts", [MIXES[0], *(pytest.param(rtts, marks=pytest.mark.slow) for rtts in MIXES[1:])])
def test_shuffling_is_in_the_model(rtts, gamma):
    system = linearize(XCP(gamma=gamma), Network.dumbbell("1 Gb/s", rtts))
    s = np.array([0.3 + 1j, 2j, -0.5 + 5j, 30j])
    wanted = shuffled(s, rtts, gamma=gamma)
    assert system.characteristic(s) == pytest.approx(wanted, rel=1e-9)
    top = 40.0 / np.mean(rtts)
    count = right_half_plane(lambda s: shuffled(s, rtts, gamma=gamma), top)
    assert system.is_stable is (count == 0)
    assert system.certify().stable is (count == 0)


def test_one_long_flow_among_short_ones():
    """0.4, 0.226, gamma = 0.1: a root at +0.3016 +- 1.7i that a model without shuffling has at -2.27."""
    rtts = MIXES[0]
    root = linearize(XCP(), Network.dumbbell("1 Gb/s", rtts)).roots(1)[0]
    assert abs(shuffled(root, rtts)) < 1e-9 * abs(shuffled(root + 0.01, rtts))
    assert root.real == pytest.approx(0.30164, abs=1e-5)
    assert linearize(XCP(gamma=0.0), Network.dumbbell("1 Gb/s", rtts)).spectral_abscissa == pytest.approx(
        -2.2749, abs=1e-4
    )


def test_rtts_above_a_limit_count_as_the_limit():
    """T1 of JETMAX: packets swing by half of the load with ns-2's limit of 1 s, and not without it."""
    net = Network.dumbbell("10 Mb/s", [0.22, 2.02])
    limited, full = linearize(XCP(rtt_limit=1.0), net), linearize(XCP(), net)
    assert limited.certify().stable is False and full.certify().stable is True
    by_hand = linearize(XCP(), net, mean_rtt=[0.61])
    np.testing.assert_array_equal(limited.matrices, by_hand.matrices)
    largest = linearize(XCP(rtt="max", rtt_limit=1.0), net)
    np.testing.assert_array_equal(largest.matrices, linearize(XCP(), net, mean_rtt=[1.0]).matrices)
    assert linearize(XCP(rtt_limit=3.0), net).spectral_abscissa == full.spectral_abscissa


def test_differences_between_flows_of_one_long_rtt():
    """s + (gamma/d) exp(-s D) = 0 is unstable from gamma D/d = pi/2 on, though the sum of two such flows is not."""
    for gamma, stable in ((1.55, True), (1.59, False)):
        assert linearize(XCP(gamma=gamma), EQUAL).certify().stable is stable
    assert linearize(XCP(gamma=1.59), Network.dumbbell("1 Gb/s", [0.1])).is_stable  # one flow has none


def test_gain_equal_to_the_share_that_is_shuffled_and_small_gains():
    """alpha = gamma makes the slope in y cancel, and a small alpha the load: neither is a switch, nor a full queue."""
    for alpha in (0.1, 1e-9):
        rtts = [0.05, 0.06, 0.11]
        system = linearize(XCP(alpha=alpha), Network.dumbbell("1 Gb/s", rtts))
        assert system.characteristic(3j) == pytest.approx(shuffled(3j, rtts, alpha), rel=1e-9)


def test_many_kinds_of_flows():
    rtts = np.linspace(0.05, 0.06, 201).tolist()
    system = linearize(XCP(), Network.dumbbell("1 Gb/s", rtts))
    assert system.is_stable and system.size == 202
    checked = ecc.linearize(XCP(), Network.dumbbell("1 Gb/s", rtts))
    assert any("for at most 40 different RTTs, not 201" in note for note in checked.notes)
    with pytest.raises(LinearizationError, match="a state for each kind of flow: at most 200, got 201"):
        linearize(XCP(), Network.dumbbell("1 Gb/s", rtts), time="hybrid")
    assert linearize(XCP(gamma=0.0), Network.dumbbell("1 Gb/s", rtts)).is_stable


@pytest.mark.parametrize("protocol", [XCP, RCP])
@pytest.mark.parametrize("omega", [0.2, 0.6, pi / 4, 1.1, 1.4])
def test_boundary_is_omega_sin_omega_and_omega_squared_cos_omega(protocol, omega):
    alpha, beta = omega * sin(omega), omega * omega * cos(omega)
    for factor in (0.999, 1.001):
        system = linearize(protocol(alpha=factor * alpha, beta=factor * beta), EQUAL)
        assert system.is_stable == (factor < 1.0)


@pytest.mark.claim
def test_xcp_1_pi_over_4_sqrt_2():
    (bound,) = XCP().published_bounds(EQUAL)
    assert bound.value == pytest.approx(pi / (4 * sqrt(2)))
    for factor in (0.999, 1.001):
        alpha = factor * bound.value
        assert linearize(XCP(alpha=alpha, beta=sqrt(2) * alpha**2), EQUAL).is_stable == (factor < 1.0)
    assert linearize(XCP(), EQUAL).is_stable
    assert XCP().published_bounds(Network.dumbbell("1 Gb/s", [0.1, 0.2])) == []


def test_one_link_is_shared_equally_and_networks_are_not_max_min_fair():
    """EVAL 4.3, fig. 6: the short flow gets less and less of its max-min rate C/n."""
    assert XCP().equilibrium(EQUAL).rates == pytest.approx([5e8, 5e8])
    ratios = []
    for n in (2, 4, 8, 16):
        net = Network.xcp_unfair(n)
        point = XCP().equilibrium(net)
        fair = max_min(net)
        assert fair[0] == pytest.approx(155e6 / n)
        assert point.rates[1:] == pytest.approx(fair[1:])  # held at the link that only they share
        y = point.rates.sum()
        assert point.rates[0] == pytest.approx(0.1 * y * y / (n * n * (0.5 * y - 0.4 * 155e6)), rel=1e-9)
        ratios.append(point.rates[0] / fair[0])
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 0.5 and ratios[-1] < 0.1
    assert XCP(gamma=0.0).equilibrium(net).rates == pytest.approx(max_min(net))


def test_utilization_stays_above_alpha_over_alpha_plus_gamma():
    point = XCP().equilibrium(Network.T_u())
    load = point.rates.sum() / 155e6
    assert 0.8 < load < 0.9


def test_several_links():
    """Flows that a link holds back elsewhere stay; those that follow it see a router whose queue stays empty."""
    network = Network(
        [Link("100 Mb/s", 0.001), Link("1 Mb/s", 0.001)],
        [Flow([0], access_delay=0.499)] + [Flow([0, 1], access_delay=0.003) for _ in range(9)],
    )
    p, point = XCP(), XCP().equilibrium(network)
    C, y, x, d = 1e8, float(point.rates.sum()), float(point.rates[0]), float(network.rtts.mean())
    assert y < C and point.bottleneck.tolist() == [0] + [1] * 9

    def law(x, y):  # of the long flow: phi > 0
        phi = p.alpha * d * (C - y)
        return ((p.gamma * y * d) / 10 - (p.gamma * y * d - phi) * x / y) / d**2

    slope = (law(x + 1.0, y + 1.0) - law(x - 1.0, y - 1.0)) / 2.0
    assert law(x, y) == pytest.approx(0.0, abs=1e-6 * x)
    alone = DelaySystem([slope], [1.0])
    system = linearize(p, network)
    assert system.spectral_abscissa == pytest.approx(alone.spectral_abscissa, rel=1e-6) and not system.is_stable
    assert linearize(XCP(), Network.T_u()).certify().stable


def test_where_the_law_switches_there_is_no_linear_model():
    with pytest.raises(LinearizationError, match="the law switches at the equilibrium"):
        linearize(XCP(gamma=0.0), Network.T_u())  # increases are equal, decreases in proportion to unequal rates
    with pytest.raises(LinearizationError, match="no equilibrium without a standing queue at link 1"):
        XCP().equilibrium(Network.parking_lot(["970 Mb/s", "800 Mb/s"], delay="10 ms"), np.array([0, 0, 1]))


def test_a_router_whose_state_follows_the_rate_of_each_flow_is_refused():
    class Shuffled(RCP):
        @staticmethod
        def router_law(R, x, y, N_all, C, d, T, p):
            return R + T * (p.alpha * (C - y) / d / N_all - p.beta * (x - y / N_all) / d)

    for time in ("continuous", "hybrid"):
        with pytest.raises(ValueError, match=f"Shuffled has no {time} model: its router law takes R and x"):
            linearize(Shuffled(), EQUAL, time)


# ---- packets -----------------------------------------------------------------------------------------------


def at_link(link, hook, header=None, protocol=None, **env):
    """Call a hook of a link by hand and return its env."""
    given = {"now": 0.0, "capacity": 1e8, "queue": 0, "queue_low": 0, "packet_size": 1000, "kind": 0, "link": 5}
    seen = SimpleNamespace(**given, next_interval=0.0)
    seen.__dict__.update(env)
    LINK[hook](link, header, (protocol or XCP()).namespace(), seen)
    return seen


def header(rtt, rate, feedback=1e300):
    return XCP.Header(rtt=rtt, spacing=8000.0 / rate, feedback=feedback)


@pytest.mark.parametrize(("total", "queue"), [(60e6, 0), (97e6, 20_000), (100e6, 0), (130e6, 50_000), (99e6, 200_000)])
@pytest.mark.parametrize("largest", [None, 0.05])
def test_feedback_of_packets_adds_up_to_the_law(total, queue, largest):
    protocol = XCP(largest_interval=largest)
    rtts = np.array([0.05, 0.12, 0.1, 0.2])
    d = rtts.mean()
    T = min(d, largest or d)
    counts = np.round(total * T / 8000.0 * np.array([0.4, 0.3, 0.2, 0.1])).astype(int)
    rates = 8000.0 * counts / T
    flows = [flow for _, flow in sorted((when, flow) for flow, n in enumerate(counts) for when in np.arange(n) / n)]
    link = XCP.LinkState()
    at_link(link, "on_interval", queue=queue, queue_low=queue)
    for flow in flows:
        at_link(link, "on_arrival", header(rtts[flow], rates[flow]))
    env = at_link(link, "on_interval", protocol=protocol, now=T, queue=queue, queue_low=queue)
    assert link.d == pytest.approx(d) and env.next_interval <= T
    gained = np.zeros(4)
    for flow in flows:
        granted = header(rtts[flow], rates[flow])
        at_link(link, "on_departure", granted)
        gained[flow] += granted.feedback
    given = {"y": rates.sum(), "q": 8.0 * queue, "N_all": 4.0, "C": 1e8, "d": d, "T": T, "p": protocol.namespace()}
    assert gained == pytest.approx([XCP.router_law(x=x, **given) for x in rates], rel=1e-9)
    assert abs(link.up_left) + abs(link.down_left) < 1e-6
    spent = header(0.05, 4e7)
    at_link(link, "on_departure", spent)
    assert abs(spent.feedback) < 1e-6  # nothing is given twice


class Counting(float):
    """A number that counts the additions and multiplications it takes part in."""

    count = {"+": 0, "*": 0}

    def _binary(self, operator, value):
        Counting.count[operator] += 1
        return Counting(value)

    def __add__(self, other):
        return self._binary("+", float(self) + float(other))

    def __sub__(self, other):
        return self._binary("+", float(self) - float(other))

    def __mul__(self, other):
        return self._binary("*", float(self) * float(other))


@pytest.mark.claim
def test_ops_six_additions_and_three_multiplications_a_packet():
    """EVAL 4.8: a router's work on a packet that it grants its share to."""
    values = {
        "arrived": 1e5,
        "spacing": 1.0,
        "rtt_spacing": 0.1,
        "up": 1e6,
        "down": 1e2,
        "up_left": 1e7,
        "down_left": 1e7,
    }
    link = XCP.LinkState(**{name: Counting(value) for name, value in values.items()})
    packet = XCP.Header(rtt=Counting(0.1), spacing=Counting(1e-4), feedback=1e300)
    Counting.count = {"+": 0, "*": 0}
    at_link(link, "on_arrival", packet, packet_size=Counting(1000.0))
    at_link(link, "on_departure", packet, packet_size=Counting(1000.0))
    assert Counting.count == {"+": 6, "*": 3}


def test_a_router_keeps_what_another_did_not_let_it_give():
    link = XCP.LinkState(up=1e9, down=1e2, up_left=1e7, down_left=1e7)
    packet = header(0.1, 4e7, feedback=3e4)
    at_link(link, "on_departure", packet)
    assert packet.feedback == 3e4 and packet.link == -1
    assert link.up_left == pytest.approx(1e7 - 2e5)  # as if it had been given ...
    assert link.down_left == pytest.approx(1e7 - 1.7e5)  # ... and the rest taken back: 2e5 - 1.7e5 = 3e4
    lower = header(0.1, 4e7, feedback=2e5)
    at_link(link, "on_departure", lower)
    assert lower.feedback == pytest.approx(1e5) and lower.link == 5
    opening = XCP.Header(feedback=0.0)
    at_link(link, "on_departure", opening)
    assert opening.feedback == 0.0 and opening.link == -1


def test_books_of_an_interval():
    def after(**options):
        protocol, link = XCP(**options), XCP.LinkState()
        at_link(link, "on_start", protocol=protocol)
        at_link(link, "on_interval", protocol=protocol)
        for rtt in (0.1, 0.5, 3.0):
            at_link(link, "on_arrival", header(rtt, 1e7), protocol=protocol, now=0.01)
        at_link(link, "on_arrival", header(0.1, 1e7), protocol=protocol, kind=1)  # an ACK: bytes only
        at_link(link, "on_interval", protocol=protocol, now=2.1)
        return link.d, link.control_due - 2.1, link.arrived

    assert after() == pytest.approx((1.2, 1.2, 0.0))
    assert after(rtt="max")[:2] == pytest.approx((3.0, 3.0))
    assert after(rtt_limit=1.0)[:2] == pytest.approx((1.6 / 3, 1.6 / 3))
    assert after(largest_interval=0.5)[:2] == pytest.approx((1.2, 0.5))
    assert after(least_interval=2.0)[:2] == pytest.approx((1.2, 2.0))
    link = XCP.LinkState(d=0.05)
    at_link(link, "on_arrival", XCP.Header(), packet_size=40)  # a handshake: shared out by one second of spacing
    at_link(link, "on_interval", now=0.1)
    assert (link.d, link.control_due) == (0.05, pytest.approx(0.15))
    assert link.up == link.up_left == pytest.approx((0.4 * (1e8 - 3200.0) - 0.0) * 0.05 / 0.05)
    link = XCP.LinkState(d=0.1, queue_due=0.3, control_due=0.25, lowest=9000.0)
    assert at_link(link, "on_interval", now=0.25, queue_low=7000, queue=8000).next_interval == pytest.approx(0.05)
    assert link.q == 0.0 and link.lowest == 7000
    assert at_link(link, "on_interval", now=0.3, queue_low=8000, queue=12_500).next_interval == pytest.approx(0.0495)
    assert link.q == 56_000.0 and link.lowest == 12_500
    assert link.queue_due == pytest.approx(0.3 + (0.1 - 0.001) / 2)


def at_host(flow, hook, packet=None, protocol=None, **env):
    given = {"now": 0.0, "packet_size": 1000, "rtt": 0.1, "srtt": 0.1, "in_flight": 0, "delivered": 0, "lost": 0}
    seen = SimpleNamespace(**given, kind=0, rate=0.0, window=8000.0, timer=-1.0, limited_by=1)
    seen.__dict__.update(env)
    FLOW[hook](flow, packet, (protocol or XCP()).namespace(), seen)
    return seen


def test_a_host_opens_follows_feedback_and_halves_once_an_rtt():
    flow, packet = XCP.FlowState(), XCP.Header()
    assert at_host(flow, "on_start", packet_size=40, window=0.0).window == 40
    at_host(flow, "on_send", packet, srtt=0.0, window=40.0)
    assert packet.rtt == 0.0 and packet.feedback == 0.0  # nothing asked for before the RTT is known
    assert at_host(flow, "on_loss", kind=1, window=40.0).window == 40
    assert at_host(flow, "on_ack", packet, packet_size=40, window=40.0).timer == 0.0
    opened = at_host(flow, "on_timer", window=40.0, protocol=XCP(paced=True))
    assert opened.window == 2000.0 and opened.rate == pytest.approx(8 * 2000 / 0.1)
    at_host(flow, "on_send", packet)
    assert packet.rtt == 0.1 and packet.spacing == pytest.approx(0.1 / 8) and packet.feedback > 1e100
    at_host(flow, "on_send", packet, window=2750.0)
    assert packet.spacing == pytest.approx(0.05)  # of the whole packets that a window holds
    again = at_host(XCP.FlowState(), "on_timer", in_flight=40)
    assert again.window == 2040.0  # a handshake sent twice leaves room for both packets
    packet.link, packet.feedback = 3, 16_000.0
    assert at_host(flow, "on_ack", packet).window == pytest.approx(8000 + 200) and flow.bottleneck == 3
    packet.feedback = -1e6
    assert at_host(flow, "on_ack", packet).window == 1000.0  # at least one packet
    assert at_host(flow, "on_loss", delivered=5000, lost=1000, in_flight=7000).window == 4000.0
    assert at_host(flow, "on_loss", delivered=10_000, lost=3000).window == 8000.0  # of the same window
    assert at_host(flow, "on_loss", delivered=11_000, lost=3000).window == 4000.0
    assert at_host(flow, "on_loss", kind=1).window == 1000.0


NETWORKS = {
    "dumbbell": Network.dumbbell("50 Mb/s", rtts=[0.05, 0.12, 0.08]),
    "parking_lot": Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="10 ms"),
    **{f"xcp_unfair-{n}": Network.xcp_unfair(n, delay="60 ms") for n in (2, 4, 6)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("start", ["empty", "equilibrium"])
def test_packets_settle_at_the_equilibrium(name, start):
    network = NETWORKS[name]
    run = simulate(Scenario(network, XCP(), 60.0), sample=1.0, start=start)
    expected = XCP().equilibrium(network).rates
    rates = run.rate[10 if start == "equilibrium" else 40 :].mean("time").to_numpy()
    assert rates == pytest.approx(expected, rel=0.02)
    assert run.drops.sum() == 0


@pytest.mark.parametrize("n", [2, 4])
def test_a_router_behind_the_bottleneck_takes_less_back(n):
    """With l2 first, l1 sees packets that ask for nothing, and pays for them with what it would take from the others.

    Of an interval's decrease h, (N - 1)(h + phi)/N goes to the long flows, so flow 0 pays its share h x/y only in
    the part theta = (N h - u)/((N - 1) u) of the interval until h is used up, with N = n^2 and u = h + phi.
    """
    network = Network.xcp_unfair(n, delay="30 ms", long_link_first=True)
    run = simulate(Scenario(network, XCP(), 60.0), sample=1.0)
    rates = run.rate[30:].mean("time").to_numpy()
    C, N, y = 155e6, n * n, float(rates.sum())
    phi = 0.4 * (C - y)
    u, h = 0.1 * y, 0.1 * y - phi
    theta = (N * h - u) / ((N - 1) * u)
    assert rates[1:] == pytest.approx(max_min(network)[1:], rel=0.02)
    assert rates[0] == pytest.approx(u / N * y / (theta * h), rel=0.02)
    assert rates[0] > 1.1 * XCP().equilibrium(network).rates[0]


def test_bursts_and_pacing():
    network = Network.dumbbell("100 Mb/s", rtts=[0.05] * 3, starts=[0.0, 5.0, 10.0])
    runs = [simulate(Scenario(network, XCP(paced=paced), 20.0), sample=0.5) for paced in (False, True)]
    for run in runs:
        assert run.rate[-1].to_numpy() == pytest.approx([1e8 / 3] * 3, rel=0.02)
    assert runs[0].queue_max.max() > 1.3 * runs[1].queue_max.max()


@pytest.mark.parametrize("capacity, rtt", [("1 Gb/s", 1e-4), ("10 Gb/s", 1e-6)])
def test_rtts_below_the_least_interval_overload_nothing(capacity, rtt):
    """What an interval grants acts for an interval: by the RTT it would be 10 and 1000 times too much."""
    network = Network.dumbbell(capacity, rtts=[rtt] * 3)
    run = simulate(Scenario(network, XCP(), 0.2), sample=0.005)
    load = run.arrival[:, 0] / network.capacities[0]
    assert load.max() < 1.01 and load[20:].min() > 0.98
    assert run.queue_max.max() < 10_000


def test_an_interval_must_be_on_the_clock():
    with pytest.raises(ValueError, match=r"interval must be < 1e\+06 s, which the clock holds, got 100000000.0"):
        XCP(interval=1e8)


def test_windows_of_one_packet_hold_the_largest():
    network = Network([Link("10 Mb/s", "20 ms")], [Flow([0], packet_size=(40, 1500)) for _ in range(60)])
    run = simulate(Scenario(network, XCP(), 20.0), sample=1.0)
    assert run.rate[10:].mean("time").to_numpy() == pytest.approx([1e7 / 60] * 60, rel=0.1)


def test_losses_are_survived():
    network = Network.dumbbell("10 Mb/s", rtts=[0.05] * 2, buffer="20 kB", sizes=["8 MB", "2 MB"])
    mice = Workload([], [Arrivals([0], 0.1, 30_000, stop=10.0)])
    run = simulate(Scenario(network, XCP(), 30.0, workload=mice), sample=1.0)
    assert run.drops.sum() > 0 and run.flows["retransmitted"].sum() > 0
    assert (run.flows["delivered"] == run.flows["size"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rtt": "median"}, "rtt must be one of 'mean', 'max', got 'median'"),
        ({"paced": 2}, "paced must be one of True, False, got 2"),
        ({"rtt_limit": 0.0}, "rtt_limit must be > 0"),
        ({"least_interval": 0.0}, "least_interval must be > 0"),
        ({"largest_interval": 1e-4}, r"largest_interval must be >= least_interval \(0.001 s\), got 0.0001 s"),
        ({"initial": -1.0}, "initial must be > 0"),
    ],
)
def test_bad_parameters_get_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        XCP(**options)


def played(network, step, horizon):
    """Rates after a small deviation from the equilibrium: the laws, delays and signed queues in small steps of time."""
    p, point, crosses = XCP().namespace(), XCP().equilibrium(network), network.incidence
    around = np.rint(network.rtts / step).astype(int)
    back, ahead = (
        np.nan_to_num(np.rint(a / step)).astype(int) for a in (network.backward_delays, network.forward_delays)
    )
    d = [network.rtts[through].mean() for through in crosses.T]
    full = point.rates @ crosses > network.capacities * (1.0 - 1e-9)
    start, n = around.max() + 2, round(horizon / step)
    x, y = np.tile(point.rates, (start + n, 1)), np.tile(point.rates @ crosses, (start + n, 1))
    q = np.zeros(y.shape)
    x[:start] *= 1.0 + 1e-4 * np.arange(1, network.n_flows + 1)
    for t in range(start, start + n):
        for k in range(network.n_links):
            y[t, k] = sum(x[t - 1 - ahead[i, k], i] for i in np.flatnonzero(crosses[:, k]))
        q[t] = q[t - 1] + step * (y[t] - network.capacities) * full
        for i, flow in enumerate(network.flows):
            granted = [
                XCP.router_law(
                    x[t - around[i], i],
                    y[t - back[i, k], k],
                    q[t - back[i, k], k],
                    crosses[:, k].sum(),
                    network.capacities[k],
                    d[k],
                    1.0,
                    p,
                )
                for k in flow.route
            ]
            x[t, i] = x[t - 1, i] + step * min(granted)
    return x[start:]


def test_bottlenecks_that_are_not_full_have_a_linear_model():
    """There it said "no equilibrium": without shuffling, a link with room to spare has none."""
    net = Network.parking_lot(["100 Mb/s", "50 Mb/s"])
    loads = XCP().equilibrium(net).rates @ net.incidence / net.capacities
    assert loads == pytest.approx([0.92693, 1.0], abs=1e-5)
    system = linearize(XCP(), net)
    seen = played(net, 0.001, 9.0)[2000::50, 0]
    half = len(seen) // 3
    rows = np.array([seen[i : i + half] / seen[-1] - 1.0 for i in range(len(seen) - half)])
    basis = np.linalg.svd(rows, full_matrices=False)[2][:4]
    step = np.linalg.lstsq(basis[:, :-1].T, basis[:, 1:].T, rcond=None)[0]
    modes = np.log(np.linalg.eigvals(step).astype(complex)) / 0.05
    for root in system.roots(3):
        assert np.abs(modes - root).min() < 0.005
    unfair = linearize(XCP(), Network.xcp_unfair(3))
    assert unfair.is_stable and unfair.spectral_abscissa == pytest.approx(-2.1358, abs=1e-4)
