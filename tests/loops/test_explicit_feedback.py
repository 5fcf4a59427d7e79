"""Linear models from the laws, against the equations of the papers written out by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ecc.errors import LinearizationError
from ecc.fluid import simulate
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize, linearize_laws, steps_of
from ecc.models import MKC, PIQIRCP, QIRCP, RCP, Equilibrium, Kelly
from ecc.models.shared.equilibria import shared_fair_rate
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

RTTS = np.array([0.12, 0.3, 0.205])
NET = Network.dumbbell("1 Gb/s", rtts=RTTS.tolist())
S = 1j * np.array([0.3, 2.0, 9.0, 40.0]) + np.array([0.0, 0.1, -0.1, 0.3])
Z = np.exp(1j * np.array([0.02, 0.3, 1.5, 3.0])) * np.array([1.0, 1.1, 0.95, 1.0])
T, MEAN = 0.01, RTTS.mean()
SPREAD = np.exp(-S[:, None] * RTTS).mean(axis=1)


def test_continuous_qi_rcp_is_4_23():
    system = linearize(QIRCP(alpha=0.7), NET)
    assert system.open_loop(S) == pytest.approx(0.7 * SPREAD / (S * MEAN), rel=1e-12)
    other = linearize(QIRCP(alpha=0.7, interval=0.05, gamma=0.6), NET)  # neither plays a part
    assert other.open_loop(S) == pytest.approx(system.open_loop(S), rel=1e-12)


def test_continuous_piqi_rcp_is_4_56_times_4_62():
    protocol = PIQIRCP(alpha=0.5, alpha2=0.3, tau1=0.02, tau2=0.15)
    lag = np.exp(-S * T)
    router = (0.5 + 0.3 * lag) / (S * MEAN)
    source = (0.17 - 0.15 * lag) / (S * T + 0.02 * lag)
    assert linearize(protocol, NET).open_loop(S) == pytest.approx(router * source * SPREAD, rel=1e-10)


def test_published_reductions_of_piqi_rcp():
    protocol = PIQIRCP(alpha=0.5)
    t1, t2 = protocol.tau1, protocol.tau2
    neutral = 0.5 * (2 - S * T) * (t1 + t2 * S * T) / (S * T * (1 - t1) + t1) * SPREAD / (S * MEAN)
    assert linearize(protocol, NET, approximation="4.64").open_loop(S) == pytest.approx(neutral, rel=1e-10)
    assert linearize(protocol, NET, approximation="4.75").open_loop(S) == pytest.approx(SPREAD / (S * MEAN), rel=1e-12)


def test_discrete_models_are_4_42_and_4_85():
    steps = np.array([12, 30, 21])
    back = 1.0 / Z
    spread = np.mean(back[:, None] ** steps, axis=1) / steps.mean()
    qi = linearize(QIRCP(alpha=0.7), NET, time="discrete")
    assert qi.open_loop(Z) == pytest.approx(0.7 * spread / (1 - back), rel=1e-12)
    assert qi.dt == T
    protocol = PIQIRCP(alpha1=0.5, alpha2=0.3)
    t1, t2 = protocol.tau1, protocol.tau2
    loop = (0.5 + 0.3 * back) / (1 - back) * (t1 + t2 - t2 * back) / (1 - (1 - t1) * back) * spread
    assert linearize(protocol, NET, time="discrete").open_loop(Z) == pytest.approx(loop, rel=1e-10)


def test_hybrid_sees_two_steps_of_every_staircase():
    net = Network.dumbbell("1 Gb/s", rtts=[0.12, 0.123])
    back = 1.0 / Z
    seen = (back**13 + 0.7 * back**13 + 0.3 * back**14) / 2
    loop = 0.7 * T / net.rtts.mean() * seen / (1 - back)
    assert linearize(QIRCP(alpha=0.7), net, time="hybrid").open_loop(Z) == pytest.approx(loop, rel=1e-9)


def test_rcp_with_its_queue_as_free_integrator():
    loop = (0.4 / (S * MEAN) + 0.3 / (S * MEAN) ** 2) * SPREAD
    assert linearize(RCP(alpha=0.4, beta=0.3), NET).open_loop(S) == pytest.approx(loop, rel=1e-12)
    assert linearize(RCP(alpha=0.4, queue_term=False), NET).size == 1
    back, steps = 1.0 / Z, np.array([12, 30, 21])
    spread = np.mean(back[:, None] ** steps, axis=1)
    k = 1.0 / steps.mean()
    loop = (0.4 * k / (1 - back) + 0.3 * k * k / (1 - back) ** 2) * spread
    assert linearize(RCP(alpha=0.4, beta=0.3), NET, time="discrete").open_loop(Z) == pytest.approx(loop, rel=1e-9)


def test_rcp_2_scales_by_the_largest_rtt():
    loop = 0.4 * SPREAD / (S * RTTS.max())
    assert linearize(RCP(alpha=0.4, queue_term=False, rtt="max"), NET).open_loop(S) == pytest.approx(loop, rel=1e-12)


def test_unresponsive_traffic_lowers_the_gain():
    """R* = (gamma C - u)/N: a flow held at another link takes its share out of the loop."""
    net = Network([Link("100 Mb/s", 0.05), Link("10 Mb/s")], [Flow([0]), Flow([0, 1])])
    protocol = QIRCP(alpha=0.7, gamma=1.0)
    point = protocol.equilibrium(net)
    assert point.rates == pytest.approx([90e6, 10e6])
    both = linearize(protocol, net)
    gain = 0.7 / 0.1
    l0 = gain * 0.9 * np.exp(-0.1 * S) / S  # flow 0 alone answers link 0, at R*/C = 0.9
    l1 = gain * np.exp(-0.1 * S) / S
    assert both.open_loop(S) == pytest.approx((1 + l0) * (1 + l1) - 1, rel=1e-9)


def test_phases_of_two_routers_move_the_hybrid_model_but_not_its_size():
    links = [Link("97 Mb/s", "13 ms"), Link("80 Mb/s", "13 ms")]
    net = Network(links, [Flow([0, 1]), Flow([1, 0]), Flow([0]), Flow([1])])
    crossed = [0, 1, 0, 1]  # each router hears flows of the other
    a = linearize(QIRCP(alpha=1.2), net, time="hybrid", assignment=crossed)
    b = linearize(QIRCP(alpha=1.2), net, time="hybrid", assignment=crossed, phases=[0.9, 0.1])
    assert a.size == b.size
    assert a.spectral_radius != b.spectral_radius
    assert a.spectral_radius == pytest.approx(b.spectral_radius, abs=0.02)
    one = Network.dumbbell("1 Gb/s", rtts=[0.123])
    assert linearize(QIRCP(), one, "hybrid", phases=[0.4]).spectral_radius == pytest.approx(
        linearize(QIRCP(), one, "hybrid").spectral_radius, abs=1e-12
    )


@pytest.mark.parametrize("protocol", [QIRCP(alpha=1.2), PIQIRCP(alpha=1.1), RCP(alpha=0.4, beta=0.2)])
def test_routers_with_their_own_intervals(protocol):
    """A step is the least common multiple; routers that do not meet keep their own loops."""
    first, second = Link("100 Mb/s", 0.031), Link("300 Mb/s", 0.055)
    apart = Network([first, second], [Flow([0]), Flow([1])])
    alone = [Network([first], [Flow([0])]), Network([second], [Flow([0])])]
    for intervals, steps in (([0.01, 0.01], (1, 1)), ([0.01, 0.015], (3, 2)), ([0.02, 0.01], (1, 2))):
        both = linearize(protocol, apart, "hybrid", intervals=intervals, phases=[0.3, 0.8])
        assert both.dt == pytest.approx(intervals[0] * steps[0])
        radii = [
            linearize(replace(protocol, interval=T), net, "hybrid").spectral_radius ** n
            for T, n, net in zip(intervals, steps, alone, strict=True)
        ]
        assert both.spectral_radius == pytest.approx(max(radii), rel=1e-9)


def test_a_slower_second_router_on_the_path():
    """Two bottlenecks with intervals 10 and 30 ms, against the recurrence of ticks played through in time."""
    net = Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="21 ms")
    protocol = QIRCP(alpha=1.0)
    system = linearize(protocol, net, "hybrid", intervals=[0.01, 0.03], phases=[0.5, 0.25])
    growth = np.log(system.spectral_radius) / system.dt
    assert growth == pytest.approx(_played_growth(protocol, net, [0.01, 0.03], [0.5, 0.25]), rel=1e-3)


def _played_growth(protocol, net, intervals, phases, fine=0.00025, horizon=40.0):
    """Growth rate of a small deviation: rates as step functions on a fine grid, routers acting at their ticks."""
    point = protocol.equilibrium(net)
    steps = round(horizon / fine)
    rng = np.random.default_rng(1)
    fair = np.zeros((steps + 2000, net.n_links))  # deviation announced, from 2000 grid points before time 0
    fair[:2000] = rng.normal(size=net.n_links)
    for now in range(2000, steps + 2000):
        fair[now] = fair[now - 1]
        for link, (T, phase) in enumerate(zip(intervals, phases, strict=True)):
            width, at = round(T / fine), round(phase * T / fine)
            if (now - 2000 - at) % width:
                continue
            y = 0.0
            for flow, b in enumerate(point.bottleneck):
                if net.incidence[flow, link]:
                    back = round((net.backward_delays[flow, b] + net.forward_delays[flow, link]) / fine)
                    y += fair[now - width - back : now - back, b].mean()
            through = net.incidence[:, link]
            C, R, d = net.capacities[link], point.fair_rate[link], net.rtts[through].mean()
            fair[now, link] -= protocol.alpha * T * R * y / (protocol.gamma * C * d)
    level = np.abs(fair[2000:]).max(axis=1)[steps // 4 :]
    peaks = level[: len(level) // 1200 * 1200].reshape(-1, 1200).max(axis=1)  # windows of ten least common multiples
    return np.polyfit(1200 * fine * np.arange(len(peaks)), np.log(peaks), 1)[0]


def test_wrong_rtt_estimate_scales_the_gain():
    low = linearize(QIRCP(alpha=0.7), NET, mean_rtt=[MEAN / 2])
    assert low.open_loop(S) == pytest.approx(2 * linearize(QIRCP(alpha=0.7), NET).open_loop(S), rel=1e-12)


def test_eigenvalues_without_delay_do_not_depend_on_capacity_or_flows():
    radii = [
        np.sort_complex(linearize(PIQIRCP(), Network.dumbbell(c, [0.0] * n), time="discrete").roots(3))
        for c in (1e6, 1e12)
        for n in (1, 50)
    ]
    for radius in radii[1:]:
        assert radius == pytest.approx(radii[0], rel=1e-10)


def test_steps_of_rounds_up_but_not_past_a_multiple():
    assert [steps_of(d, 0.01) for d in (0.0, 0.01, 0.1, 0.10000000000000002, 0.101, 0.07)] == [1, 1, 10, 10, 11, 7]


def test_intervals_that_never_repeat_are_refused():
    net = Network.parking_lot(["97 Mb/s", "80 Mb/s"])
    with pytest.raises(ValueError, match="intervals must have ratios of whole numbers up to 1000"):
        linearize(QIRCP(), net, "hybrid", intervals=[0.01, 0.01 * 2**0.5])
    with pytest.raises(ValueError, match="intervals must repeat within 1000 ticks, got 1996"):
        linearize(QIRCP(), net, "hybrid", intervals=[0.01, 0.01 * 997 / 999])


def test_models_that_do_not_exist_say_why():
    with pytest.raises(ValueError, match="update must be 'interval' for a linear model, got 'ack'"):
        linearize(PIQIRCP(update="ack"), NET)
    with pytest.raises(LinearizationError, match=r"the router law divides by the RTT, which is 0\.0 s \(link 0\)"):
        linearize(QIRCP(), Network.dumbbell("1 Gb/s", rtts=[0.0]))


class Elsewhere(QIRCP):
    """Claims to rest where links carry 90 % of what the law asks for."""

    def equilibrium(self, network, assignment=None):
        point = super().equilibrium(network, assignment)
        return Equilibrium(0.9 * point.rates, 0.9 * point.fair_rate, point.bottleneck)


BEHIND = Network([Link("100 Mb/s", 0.05), Link("10 Mb/s")], [Flow([0, 1]), Flow([0])])


@pytest.mark.parametrize(
    ("protocol", "net", "assignment", "reason"),
    [
        (
            QIRCP(gamma=1.2),
            Network.dumbbell("1 Gb/s", [0.1]),
            None,
            r"the router of link 0 would have to announce 1\.2e\+09, outside its range from 0 to 1e\+09",
        ),
        (QIRCP(gamma=1.2), NET, None, r"arrivals of 1\.2e\+09 bit/s would fill the queue of link 0"),
        (QIRCP(), BEHIND, [0, 0], r"arrivals of 4\.75e\+07 bit/s would fill the queue of link 1 \(1e\+07 bit/s\)"),
        (Elsewhere(), NET, None, r"the router of link 0 would move from 2\.85e\+08 to .*, with arrivals of 8\.55e\+08"),
    ],
)
def test_a_point_that_is_no_equilibrium_is_refused_with_the_reason(protocol, net, assignment, reason):
    for time in ("continuous", "discrete", "hybrid"):
        with pytest.raises(LinearizationError, match=f"^no equilibrium: {reason}"):
            linearize(protocol, net, time=time, assignment=assignment)


@pytest.mark.parametrize("time", ["discrete", "hybrid"])
@pytest.mark.parametrize("protocol", [QIRCP(), PIQIRCP(), PIQIRCP(alpha=0.7, tau1=0.3), RCP(alpha=0.4, beta=0.2)])
@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_any_number_of_roots_equals_the_poles_of_python_control(protocol, time, k):
    """Deep roots too, where they lie too close for a count between them."""
    net = Network.dumbbell("1 Gb/s", rtts=[0.1, 0.2])
    system = linearize(protocol, net, time)
    roots = system.roots(k)
    poles = system.to_control().poles()
    assert len(roots) == k
    assert max(np.abs(poles - root).min() for root in roots) < 1e-9
    largest = poles[np.abs(poles) > np.abs(roots[-1]) + 1e-9]
    assert max((np.abs(roots - pole).min() for pole in largest), default=0.0) < 1e-9


# ---- equilibria with queues ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StandingQueue(RCP):
    """RCP that holds a queue of `wait` seconds."""

    wait: float = 0.05

    @staticmethod
    def router_law(R, y, q, C, d, T, p):
        return R * (1.0 + T * (p.alpha * (C - y) - p.beta * (q - p.wait * C) / d) / (d * C))

    def params(self):
        return super().params() | {"wait": self.wait}

    def equilibrium(self, network, assignment=None):
        point = shared_fair_rate(network, network.capacities, assignment)
        queue = np.where(np.isfinite(point.fair_rate), self.wait * network.capacities, 0.0)
        return replace(point, queue=queue)


@pytest.mark.parametrize("stamping", ["departure", "arrival"])
def test_a_queue_at_the_equilibrium_is_live_and_part_of_the_rtt(stamping):
    protocol = StandingQueue(alpha=0.3, beta=0.15, stamping=stamping)
    d = MEAN + 0.05
    around = RTTS + (0.05 if stamping == "arrival" else 0.0)  # a header stamped at departure skips its own queue
    loop = (0.3 / (S * d) + 0.15 / (S * d) ** 2) * np.exp(-S[:, None] * around).mean(axis=1)
    assert linearize(protocol, NET).open_loop(S) == pytest.approx(loop, rel=1e-12)
    for _ in range(2):  # networks are left as they are
        sampled = linearize(protocol, NET, "discrete")
        assert np.log(sampled.spectral_radius) / sampled.dt == pytest.approx(
            linearize(protocol, NET).spectral_abscissa, rel=0.1
        )


@pytest.mark.parametrize("stamping", ["departure", "arrival"])
def test_queues_in_a_row_pass_on_what_they_serve_as_in_the_fluid(stamping):
    net = Network.parking_lot(["100 Mb/s", "80 Mb/s"], delay="25 ms")
    protocol = StandingQueue(alpha=0.3, beta=0.15, stamping=stamping)
    d = [(0.4 * 0.2 + 0.6 * 0.1), 0.15]  # over packets, as the fluid's routers have it
    root = linearize(protocol, net, mean_rtt=d).roots(1)[0]
    run = simulate(Scenario(net, protocol, 10.0), sample=0.01, start="equilibrium", perturbation=0.001)
    waits = 8.0 * run.queue.to_numpy() / net.capacities - 0.05
    seen = waits[300::5]  # from 3 s on: the dominant pair alone
    n, half = len(seen), len(seen) // 3
    for link in range(2):
        rows = np.array([seen[i : i + half, link] for i in range(n - half)])
        basis = np.linalg.svd(rows, full_matrices=False)[2][:6]
        step = np.linalg.lstsq(basis[:, :-1].T, basis[:, 1:].T, rcond=None)[0]
        modes = np.log(np.linalg.eigvals(step).astype(complex)) / 0.05
        assert np.abs(modes - root).min() < 0.006


def test_what_a_queue_passes_on_comes_later_by_its_wait():
    laws = linearize_laws(StandingQueue(), Network.parking_lot(["100 Mb/s", "80 Mb/s"], delay="25 ms"), 0.01)
    assert laws.passed_on == [(1, 0, pytest.approx(0.025 + 0.05), pytest.approx(0.4))]


def test_queues_without_a_linear_model_are_refused():
    flows = [Flow([0, 1]), Flow([1, 0]), Flow([0]), Flow([1])]
    crossed = Network([Link("97 Mb/s", "13 ms"), Link("80 Mb/s", "13 ms")], flows)
    with pytest.raises(LinearizationError, match="the queue of link 0 has no linear model: it is downstream of itself"):
        linearize(StandingQueue(), crossed, assignment=[0, 1, 0, 1])
    row = Network.parking_lot(["100 Mb/s", "80 Mb/s"])
    with pytest.raises(LinearizationError, match="the queue of link 0 is upstream of another router: no linear model"):
        linearize(StandingQueue(), row, "hybrid")

    class Elsewhere(StandingQueue):
        def equilibrium(self, network, assignment=None):
            return replace(super().equilibrium(network, assignment), queue=self.wait * network.capacities)

    slack = Network([Link("100 Mb/s", "10 ms"), Link("1 Gb/s", "10 ms")], [Flow([0, 1])])
    with pytest.raises(LinearizationError, match=r"no equilibrium: arrivals of 1e\+08 bit/s would drain the queue of"):
        linearize(Elsewhere(), slack)
    tied = Network([Link("100 Mb/s", "10 ms"), Link("100 Mb/s", "10 ms")], [Flow([0, 1])])
    with pytest.raises(
        LinearizationError, match="the queue of link 1 has no linear model: no flow is bottlenecked there"
    ):
        linearize(Elsewhere(), tied)


# ---- differences between flows ---------------------------------------------------------------------------


def every_flow(protocol, rtts):
    """Continuous PIQI-RCP with a state for R and one for each flow, by hand."""
    n, T, d = len(rtts), protocol.interval, float(np.mean(rtts))
    alpha, tau1, tau2 = protocol.alpha, protocol.tau1, protocol.tau2
    at = {}

    def add(delay, row, column, value):
        at.setdefault(delay, np.zeros((n + 1, n + 1)))[row, column] += value

    for i, rtt in enumerate(rtts):
        add(T, 1 + i, 1 + i, -tau1 / T)
        add(0.0, 1 + i, 0, (tau1 + tau2) / T)
        add(T, 1 + i, 0, -tau2 / T)
        add(rtt, 0, 1 + i, -alpha / (d * n))
        add(rtt + T, 0, 1 + i, -alpha / (d * n))
    return DelaySystem(list(at.values()), list(at))


@pytest.mark.parametrize("spread", [(1.0, 1.0), (1.0, 1.05), (1.0, 1.0, 1.02)])
@pytest.mark.parametrize(
    ("tau1", "tau2", "rtt", "alpha"),
    [(1.9, 0.0115, 0.018, 0.576), (1.621, 0.907, 0.0219, 0.0829), (1.751, 2.5, 0.0169, 0.119), (1.5, 0.01, 0.02, 0.2)],
)
def test_differences_between_flows_that_grow_are_counted(tau1, tau2, rtt, alpha, spread):
    """T x' = -tau1 x(t - T) is lost at tau1 = pi/2, of which the sum of the flows need show nothing."""
    protocol, rtts = PIQIRCP(alpha=alpha, tau1=tau1, tau2=tau2), [rtt * share for share in spread]
    whole, ours = every_flow(protocol, rtts), linearize(protocol, Network.dumbbell("1 Gb/s", rtts))
    assert ours.certify().stable is whole.certify().stable is (tau1 < np.pi / 2)
    if tau1 > np.pi / 2:
        assert ours.spectral_abscissa == pytest.approx(whole.spectral_abscissa, rel=1e-6)
    assert any(note.startswith("differences between flows of one link grow") for note in ours.notes) is (tau1 > 1.57)
    assert linearize(protocol, Network.dumbbell("1 Gb/s", [rtt])).is_stable


def test_flows_part_in_the_fluid_while_their_sum_stays():
    protocol = PIQIRCP(alpha=0.576, tau1=1.9, tau2=0.0115)
    net = Network.dumbbell("1 Gb/s", [0.018, 0.019])
    run = simulate(Scenario(net, protocol, 1.0), sample=0.002, start="equilibrium", perturbation=1e-6)
    apart = np.abs(np.diff(run.rate.to_numpy(), axis=1)[:, 0]).reshape(10, -1).max(axis=1)
    growth = np.polyfit(np.arange(2, 10) * 0.1, np.log(apart[2:]), 1)[0]
    assert growth == pytest.approx(linearize(protocol, net).spectral_abscissa, rel=0.05)


class Additive(MKC):
    """x + alpha - beta R: a price that takes the same from each flow, whatever its rate."""

    def __init__(self, kept=1.0):
        super().__init__(alpha=2e5, beta=0.5)
        object.__setattr__(self, "kept", kept)

    def params(self):
        return super().params() | {"kept": self.kept}

    @staticmethod
    def router_law(y, C, p):
        return y / C

    @staticmethod
    def source_law(x_rtt, R, p):
        return p.kept * x_rtt + p.alpha - p.beta * R * 1e6

    def equilibrium(self, network, assignment=None):
        n, C = network.n_flows, float(network.capacities[0])
        x = self.alpha / (1.0 - self.kept + 0.5e6 * n / C)
        return Equilibrium(np.full(n, x), np.array([n * x / C]), np.zeros(n, dtype=np.int64))


def test_differences_between_flows_that_step_from_their_own_rate():
    net, one = (Network.dumbbell("10 Mb/s", [0.1] * n) for n in (2, 1))
    lasting, growing = linearize(Additive(), net, "discrete"), linearize(Additive(1.02), net, "discrete")
    assert lasting.is_stable and any("stay constant" in note for note in lasting.notes)
    assert linearize(Additive(1.02), one, "discrete").is_stable
    assert growing.certify().stable is False
    steps = steps_of(0.1, Additive().interval)
    assert growing.spectral_radius == pytest.approx(1.02 ** (1.0 / steps), rel=1e-9)


def test_a_model_is_not_counted_before_anyone_asks():
    """Differences between flows decay here, which equations of one state show: the whole model is not counted."""
    model = linearize(Kelly(interval=0.05), Network.dumbbell("10 Mb/s", [0.1, 0.1]), "discrete")
    assert "verdict" not in vars(model) and model.verdict == "stable"
