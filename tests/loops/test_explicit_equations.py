"""Continuous and hybrid models with a state for each flow, against a play of the laws in time and closed forms."""

from dataclasses import replace
from inspect import signature
from math import ceil, log, pi

import numpy as np
import pytest

from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, EMKCAVQ, MKC, XCP, JetMax, Kelly, MaxNet
from ecc.network.network import Flow, Link, Network

LINE = Network.parking_lot(["10 Mb/s", "8 Mb/s"], delay="22 ms")


def call(law, known):
    return law(**{name: known[name] for name in signature(law).parameters})


class Played:
    """The laws of a protocol in time: routers at their ticks, hosts in their ways, rates on a grid of `fine` seconds.

    It is written without the module under test: rates and prices are arrays, delays are grid points.
    """

    def __init__(self, protocol, net, fine, horizon, ticks, kick=1e-5):
        self.protocol, self.net, self.fine = protocol, net, fine
        self.point = protocol.equilibrium(net)
        self.p = protocol.namespace()
        n, width = round(horizon / fine), 1 + max(round(2 * float(net.rtts.max()) / fine), 2 * max(ticks))
        self.start, self.end = width, n + width
        self.ticks = ticks  # grid points between two ticks of each router
        self.x = np.tile(self.point.rates, (self.end + 1, 1))
        self.x[:width] *= 1.0 + kick * np.random.default_rng(3).normal(size=net.n_flows)
        receives = protocol.combine == "sum"
        self.receives = net.incidence if receives else self.point.bottleneck[:, None] == np.arange(net.n_links)
        self.links = np.flatnonzero(self.receives.any(axis=0))
        self.R = self.point.fair_rate.copy()
        self.price = np.zeros((self.end + 1, net.n_links))
        self.q = np.zeros(net.n_links)
        y = self.point.rates @ net.incidence
        for link in self.links:
            self.price[: width + 1, link] = self.announced(
                link, y[link], y[link], 0.0, self.others(link, self.point.rates)
            )
        self.points = [[round(float(d) / fine) for d in row] for row in np.nan_to_num(net.forward_delays)]
        self.back = [[round(float(d) / fine) for d in row] for row in np.nan_to_num(net.backward_delays)]
        self.rtt = [round(float(d) / fine) for d in net.rtts]

    def others(self, link, rates):
        return float(rates[self.net.incidence[:, link] & ~self.receives[:, link]].sum())

    def known(self, link):
        through = self.net.incidence[:, link]
        rtts = self.net.rtts[through]
        d = rtts.max() if self.protocol.scaling_rtt == "max" else rtts.mean()
        N = float(self.receives[:, link].sum())
        T = self.ticks[link] * self.fine
        return {"C": self.net.capacities[link], "d": d, "N": N, "N_all": float(through.sum()), "T": T, "p": self.p}

    def announced(self, link, y, y_prev, q, u):
        law = self.protocol.router_law
        known = self.known(link) | {"y": y, "y_prev": y_prev, "q": q, "u": u, "R": self.R[link], "x": 0.0}
        if isinstance(self.protocol, XCP):
            return 0.0
        moved = call(law, known)
        self.R[link] = moved
        if self.protocol.announce_law is not None:
            return call(self.protocol.announce_law, known | {"R": moved})
        return moved

    def act(self, now, link):
        """Close the interval of a router."""
        width = self.ticks[link]
        mean = np.zeros(self.net.n_flows)
        for flow in np.flatnonzero(self.net.incidence[:, link]):
            late = self.points[flow][link]
            mean[flow] = self.x[now - late - width : now - late, flow].mean()
        y = float(mean.sum())
        self.price[now:, link] = self.announced(link, y, y, 0.0, self.others(link, mean))

    def run(self, hosts):
        for now in range(self.start, self.end):
            for link in self.links:
                if (now - self.start) % self.ticks[link] == 0:
                    self.act(now, link)
            hosts(self, now)
        return self.x[self.start :] / self.point.rates - 1.0


def on_feedback(play, now):
    """MKC: step as the price of a tick arrives, from the mean rate that the tick has measured."""
    for flow, link in enumerate(play.point.bottleneck):
        tick, width = now - play.back[flow][link], play.ticks[link]
        play.x[now, flow] = play.x[now - 1, flow]
        if tick >= play.start and (tick - play.start) % width == 0:
            ahead = play.points[flow][link]
            mean = play.x[tick - ahead - width : tick - ahead, flow].mean()
            play.x[now, flow] = play.protocol.source_law(mean, play.price[tick, link], play.p)


def on_timer(play, now):
    """Kelly: step every T with the prices of the moment and the rate of the packet acknowledged last."""
    width = round(play.protocol.interval / play.fine)
    for flow, own in enumerate(play.net.flows):
        play.x[now, flow] = play.x[now - 1, flow]
        if (now - play.start) % width == 0:
            total = sum(play.price[now - 1 - play.back[flow][link], link] for link in own.route)
            earlier = play.x[now - 1 - play.rtt[flow], flow]
            play.x[now, flow] = play.protocol.source_law(play.x[now - 1, flow], earlier, total, play.p)


def at_all_times(play, now):
    """MaxNet: T x' = law(x(t - T), P(t), P(t - T)) - x(t - T), by Heun's rule in its delayed arguments."""
    lag, T = round(play.protocol.interval / play.fine), play.protocol.interval
    for flow, link in enumerate(play.point.bottleneck):
        D = float(play.net.rtts[flow])
        slopes = []
        for at in (now - 1, now):
            R, R_prev = (play.price[now - 1 - late - play.back[flow][link], link] for late in (0, lag))
            x = play.x[at - lag, flow]
            slopes.append((play.protocol.source_law(x, R, R_prev, D, T, play.p) - x) / T)
        play.x[now, flow] = play.x[now - 1, flow] + play.fine * sum(slopes) / 2.0


def modes(deviations, every, fine, order):
    """Return exponents of the oscillations in the deviations of all flows, sampled once per frame."""
    samples = deviations[len(deviations) // 5 :: every]
    n = len(samples)
    half = n // 2
    rows = np.concatenate([[samples[i : i + half, c] for i in range(n - half)] for c in range(samples.shape[1])])
    basis = np.linalg.svd(rows, full_matrices=False)[2][:order]
    step = np.linalg.lstsq(basis[:, :-1].T, basis[:, 1:].T, rcond=None)[0]
    return np.log(np.linalg.eigvals(step).astype(complex)) / (every * fine)


SLOW = pytest.mark.slow
PLAYED = [
    (MKC(interval=0.05), Network.dumbbell("10 Mb/s", [0.103, 0.236]), on_feedback),
    (EMKCAVQ(alpha=1e6, tau=0.4, interval=0.05), LINE, on_feedback),
    (Kelly(kappa=0.2, omega=2e6, interval=0.05), Network.dumbbell("10 Mb/s", [0.124, 0.202]), on_timer),
    (MaxNet(price_scale=0.1), LINE, at_all_times),
]
PLAYED += [
    pytest.param(*case, marks=SLOW)
    for case in (
        (MKC(interval=0.05, beta=3.0, steepness=3.0), LINE, on_feedback),
        (EMKC(beta=1.8, alpha=1e6, interval=0.05), Network.dumbbell("10 Mb/s", [0.124, 0.202]), on_feedback),
        (EMKCAVQ(alpha=1e6, tau=0.4, interval=0.05), Network.dumbbell("10 Mb/s", [0.124, 0.2]), on_feedback),
        (Kelly(kappa=0.2, omega=2e6, interval=0.05), LINE, on_timer),
        (MaxNet(price_scale=0.2), Network.dumbbell("10 Mb/s", [0.073]), at_all_times),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "net", "hosts"), PLAYED)
def test_hybrid_models_are_the_laws_played_in_time(protocol, net, hosts):
    """The dominant root is an exponent of the deviations, up to the grid: 3e-3 relative, 1e-5 in most cases."""
    T = protocol.interval
    fine = T / (20.0 if hosts is at_all_times else 50.0)
    system = linearize(protocol, net, "hybrid")
    assert system.dt == pytest.approx(T)
    root = np.log(complex(system.roots(1)[0])) / T
    ticks = [round(T / fine)] * net.n_links
    deviations = Played(protocol, net, fine, min(6.0 / abs(root.real), 25.0), ticks).run(hosts)
    every = ticks[0] * max(1, round(0.02 / T))
    assert np.abs(modes(deviations, every, fine, 8) - root).min() < 0.003 * abs(root)


def test_hybrid_jetmax_steps_once_routers_have_reported_a_complete_interval():
    """JETMAX sec. 7.4, fig. 18: RTTs of 220 ms, intervals of 100 ms; six steps take 2.4 s of 1.92 to 2.52 s."""
    system = linearize(JetMax(), Network.dumbbell("100 Mb/s", [0.22]), "hybrid")
    assert system.dt == pytest.approx(0.4)
    assert system.spectral_radius == pytest.approx(0.4, rel=1e-12)
    steps = ceil(log(0.01) / log(system.spectral_radius))
    assert steps == 6 and steps * system.dt == pytest.approx(2.4)
    naive = linearize(JetMax(switching="naive"), Network.dumbbell("100 Mb/s", [0.22]), "hybrid")
    assert naive.dt == pytest.approx(0.3)


def test_hybrid_jetmax_is_a_recurrence_of_its_own_steps():
    """Two links in a row, a neighbor with other steps: flow 0 limits what link 0 offers to flow 1."""
    protocol, net = JetMax(tau=0.45), Network([Link("10 Mb/s", 0.02), Link("4 Mb/s", 0.02)], [Flow([0, 1]), Flow([0])])
    point, p = protocol.equilibrium(net), protocol.namespace()
    fine, width = 0.001, 100
    steps = [width * (2 + int(rtt / 0.1)) for rtt in net.rtts]
    n = 12_000
    x = np.tile(point.rates, (n, 1))
    x[:500] *= [1.0001, 0.9998]
    offer = np.tile(point.fair_rate, (n, 1))
    late, back = np.nan_to_num(net.forward_delays) / fine, np.nan_to_num(net.backward_delays) / fine
    for now in range(500, n):
        offer[now] = offer[now - 1]
        if now % width == 0:
            m = round(late[0, 0])
            offer[now, 0] = protocol.router_law(x[now - m - width : now - m, 0].mean(), 1.0, 10e6, p)
        for flow, link in enumerate(point.bottleneck):
            tick = now - round(back[flow, link])
            x[now, flow] = x[now - 1, flow]
            if tick % steps[flow] == 0:
                x[now, flow] = protocol.source_law(x[now - 1, flow], offer[tick, link], p)
    system = linearize(protocol, net, "hybrid")
    frame = round(system.dt / fine)
    root = log(system.spectral_radius) / system.dt
    assert np.abs(modes(x / point.rates - 1.0, frame, fine, 3) - root).min() < 1e-3 * abs(root)
    assert log(system.spectral_radius) == pytest.approx(log(0.55) * frame / max(steps), rel=1e-9)


def test_jm_th2_and_mkc_hold_in_hybrid_and_continuous_time():
    """JETMAX Theorems 1 and 2: their bounds on gains apply to routers at their ticks, and to averaged steps, too."""
    links = [Link("10 Mb/s", 0.013), Link("8 Mb/s", 0.05)]
    net = Network(links, [Flow([0, 1]), Flow([0]), Flow([1], access_delay=0.02)])
    for time in ("hybrid", "continuous"):
        assert linearize(JetMax(tau=1.998), net, time).certify().stable is True
        assert linearize(EMKC(beta=1.998), net, time).certify().stable is True
    assert linearize(JetMax(tau=2.002), net, "hybrid").certify().stable is False
    whole = Network.dumbbell("10 Mb/s", [0.3] * 3)  # no interval straddles two steps of a rate
    (bound,) = MKC(alpha="1 Mb/s", steepness=2.0).published_bounds(whole)
    for factor in (0.999, 1.001):
        protocol = MKC(alpha="1 Mb/s", beta=factor * bound.value, steepness=2.0)
        assert linearize(protocol, whole, "hybrid").certify().stable is (factor < 1.0)


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_continuous_kelly_is_stable_up_to_half_pi(steps):
    """T s + kappa (p + y p') exp(-s D) = 0 has the limit kappa (p + y p') D/T = pi/2, for equal RTTs of one link."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.01 * steps] * 3)
    price = Kelly().equilibrium(net).fair_rate[0]
    for factor in (0.999, 1.001):
        protocol = Kelly(kappa=factor * pi / (2.0 * steps) / (2.0 * price))
        # arrivals are averaged over T: a lag that moves the limit, so short intervals come near it
        short = replace(protocol, interval=1e-5, kappa=protocol.kappa * 1e-3)
        assert linearize(short, net, "continuous").certify().stable is (factor < 1.0)
    s = np.array([0.3 + 2j, 5j, 40j])
    lagged = 0.01 * s + Kelly().kappa * price * np.exp(-s * 0.01 * steps) * (1.0 + 1.0 / (1.0 + 0.01 * s))
    system = linearize(Kelly(), net, "continuous")
    assert system.characteristic(s) == pytest.approx(lagged * (1.0 + 0.01 * s) / 1e-4, rel=1e-9)


def test_continuous_maxnet_and_emkc_avq_by_hand():
    s = np.array([0.3 + 2j, 5j, 40j])
    rtts, C, T = [0.07, 0.11], 10e6, 0.01
    net = Network.dumbbell("10 Mb/s", rtts)
    p, x = MaxNet().namespace(), 0.96 * C / 2
    total = 0.0
    for D in rtts:
        n = x * D / p.segment_bits * T / D  # ACKs in an interval
        P = p.p1 * p.segment_bits / (p.p2 * p.scale * x)
        a = (
            -p.p1 * p.segment_bits / (x * D) * T * n
            + (p.p1 * p.segment_bits / (x * D) - p.p2 * p.scale * P / D) * T * n
        )
        assert p.p1 * p.segment_bits / (x * D) == pytest.approx(p.p2 * p.scale * P / D)
        lag = np.exp(-s * T)
        to_rate = -x * (p.p2 * p.scale * T * n / D + p.p4 * p.scale / D * (1.0 - lag)) / (s * T - a * lag)
        total += to_rate * np.exp(-s * D)
    assert linearize(MaxNet(), net).open_loop(s) == pytest.approx(-total / (s * C), rel=1e-9)
    avq = EMKCAVQ(alpha=1e6)
    x, D = C / 2, 0.11
    y, V = C, C - 2 * avq.alpha / avq.beta
    price = (y - V) / y
    d_price = (V / y**2) / (1 + 0.1 * s) + avq.tau / (D * y * s)  # by y averaged over T, and by V
    loop = 2 * avq.beta * x * d_price * np.exp(-s * D) / (1 + 0.1 * s - (1 - avq.beta * price) * np.exp(-s * D))
    system = linearize(avq, Network.dumbbell("10 Mb/s", [D, D]))
    assert system.open_loop(s) == pytest.approx(loop, rel=1e-9)


def scaled(protocol, factor):
    """Return the protocol with its interval, and the gains of its steps, times a factor."""
    changed = {"interval": protocol.interval * factor}
    if isinstance(protocol, Kelly):
        changed["kappa"] = protocol.kappa * factor
    if isinstance(protocol, MaxNet):
        changed |= {"p1": protocol.p1 / factor, "p2": protocol.p2 / factor}
    return replace(protocol, **changed)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["discrete", "hybrid"])
@pytest.mark.parametrize(
    ("protocol", "rtts", "longest"),
    [
        (MKC(alpha=1e6), [0.08, 0.16], 0.005),
        (EMKC(alpha=2e6), [0.08, 0.16], 0.005),
        (EMKCAVQ(alpha=2e6), [0.08, 0.16], 0.005),
        (Kelly(), [0.08, 0.16], 0.02),
        (MaxNet(), [0.08, 0.16], 0.02),
        (JetMax(tau=0.4), [0.08, 0.08], 0.01),
    ],
)
def test_models_tend_to_the_continuous_one_as_intervals_shrink(protocol, rtts, longest, time):
    """The distance of the dominant roots is of first order in the interval; RTTs are whole intervals."""
    net, protocol = Network.dumbbell("10 Mb/s", rtts, delay=0.02), scaled(protocol, longest / protocol.interval)
    shares, distances = [1.0, 0.5, 0.25, 0.125], []
    for share in shares:
        tried = scaled(protocol, share)
        system, wanted = linearize(tried, net, time), linearize(tried, net).roots(1)[0]
        roots = np.log(system.roots(8).astype(complex)) / system.dt
        if wanted.imag == 0.0:  # the discrete JetMax has a ring of roots, one of which is real
            roots = np.append(roots, log(system.spectral_radius) / system.dt)
        distances.append(np.abs(roots - wanted).min() / abs(wanted))
    order = np.log2(distances[-2] / distances[-1])
    assert order == pytest.approx(1.0, abs=0.15), distances
    assert distances[-1] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("rtts", [[0.1], [0.1, 0.16]])
def test_hybrid_xcp_is_the_law_played_in_time(rtts):
    """Routers measure over the mean RTT and grant changes over the next: x' = law(x(t - D), y and q of the tick)/T."""
    protocol, net = XCP(alpha=0.3, beta=0.02), Network.dumbbell("10 Mb/s", rtts)
    p, n, C = protocol.namespace(), len(rtts), 10e6
    d = float(np.mean(rtts))
    system = linearize(protocol, net, "hybrid")
    assert system.dt == pytest.approx(d)
    fine = 0.0005
    width, late = round(d / fine), [round(D / 2 / fine) for D in net.rtts - net.rtts.min()]
    back, start = [round(D / fine) - m for D, m in zip(rtts, late, strict=True)], 1000
    x = np.tile([C / n] * n, (round(8.0 / fine), 1))
    x[:start] *= 1.0 + 1e-5 * np.arange(1, n + 1)
    grants, q = np.zeros((len(x) + 1, 2)), 0.0
    grants[:] = C, 0.0
    for now in range(start, len(x)):
        if now % width == 0:
            y = sum(x[now - m - width : now - m, i].mean() for i, m in enumerate(late))
            q += (y - C) * d
            grants[now:] = y, q
        for i in range(n):
            slope = 0.0
            for at in (now - 1, now):  # the change over a grid step
                y, held = grants[at - back[i]]
                slope += protocol.router_law(x[at - back[i] - late[i], i], y, held, float(n), C, d, d, p) / d / 2.0
            x[now, i] = x[now - 1, i] + fine * slope
    root = np.log(complex(system.roots(1)[0])) / d
    near = np.abs(modes(x / C - 1.0 / n, width, fine, 6) - root).min()
    assert near < 0.01 * abs(root)


def test_discrete_xcp_of_one_flow_has_its_limit_at_2_minus_half_beta():
    """x[n] = x[n - 1] - alpha (x[n - 1] - C) - beta q[n - 1]/d, q[n] = q[n - 1] + d (x[n] - C): 2 alpha + beta < 4."""
    net = Network.dumbbell("100 Mb/s", [0.1])
    for alpha, stable in ((1.886, True), (1.888, False)):
        system = linearize(XCP(alpha=alpha, beta=0.226), net, "discrete")
        assert system.dt == pytest.approx(0.1) and system.certify().stable is stable
        wanted = np.roots([1.0, alpha + 0.226 - 2.0, 1.0 - alpha])
        assert np.sort_complex(system.roots(2)) == pytest.approx(np.sort_complex(wanted.astype(complex)), rel=1e-9)


@pytest.mark.slow
def test_hybrid_xcp_tends_to_the_continuous_model():
    """With shorter intervals of routers than XCP has, in first order."""
    net, distances = Network.dumbbell("10 Mb/s", [0.1, 0.2]), []
    wanted = linearize(XCP(), net).roots(1)[0]
    for T in (0.02, 0.01, 0.005):
        system = linearize(XCP(), net, "hybrid", intervals=[T])
        distances.append(np.abs(np.log(system.roots(4).astype(complex)) / T - wanted).min())
    assert np.log2(distances[-2] / distances[-1]) == pytest.approx(1.0, abs=0.15)


def test_differences_between_equal_flows_in_hybrid_and_continuous_models():
    """EMKC-AVQ with fair shares below alpha/2: the sum converges, differences grow."""
    net = Network.dumbbell("10 Mb/s", [0.2] * 4)
    growing, kept = EMKCAVQ(alpha=6e6, beta=0.2, interval=0.05), EMKCAVQ(alpha=1e6, beta=0.2, interval=0.05)
    for time in ("continuous", "hybrid"):
        system = linearize(growing, net, time)
        assert any(note.startswith("differences between flows of one link grow") for note in system.notes)
        assert not system.is_stable and linearize(kept, net, time).is_stable
    lasting = linearize(XCP(gamma=0.0, alpha=0.3, beta=0.02), net, "hybrid")
    assert any(note.startswith("differences between flows of one link stay constant") for note in lasting.notes)


@pytest.mark.parametrize("protocol", [JetMax(), MKC(), EMKCAVQ(alpha=1e6), Kelly(), MaxNet(), XCP(beta=0.02)])
def test_certificates_of_all_three_models(protocol):
    net = Network.dumbbell("10 Mb/s", [0.1, 0.15])
    for time in ("continuous", "discrete", "hybrid"):
        system = linearize(protocol, net, time)
        assert system.certify().stable is system.is_stable


def test_steps_that_do_not_repeat_soon_are_refused():
    net = Network.dumbbell("10 Mb/s", [0.31, 0.47, 0.93, 1.73, 2.31])
    with pytest.raises(ValueError, match="intervals must repeat within 1000 ticks, got"):
        linearize(JetMax(interval=0.01), net, "hybrid")
