"""ExpressPass: its law by hand, its map of two RTTs in fractions, and credits and data in packets."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.cycles.signals import period_of
from ecc.linear import SampledSystem
from ecc.models import ExpressPass, expresspass
from ecc.network.demands import permutation
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.stability import limit_cycle

C, SHARE = 10e9, 1538 / 1622
"""Of a link, and what data can have of it."""
STARTS = [0.0, 31.7e-6, 57.41e-6, 101.93e-6]
DUMBBELL = ExpressPass.on(Network.dumbbell(C, ["40 us"] * 4, buffer="100 kB", starts=STARTS))
PARKING_LOT = ExpressPass.on(Network.parking_lot([C, C], delay="5 us", buffer="100 kB", starts=STARTS[:3]))
FAT_TREE = ExpressPass.on(Network.fat_tree(4, permutation(16, seed=3), C, "3 us", buffer="400 kB"))
NETWORKS = {"dumbbell": DUMBBELL, "parking lot": PARKING_LOT, "fat tree": FAT_TREE}
every_network = pytest.mark.parametrize(
    "network", [DUMBBELL, PARKING_LOT, pytest.param(FAT_TREE, marks=pytest.mark.slow)], ids=NETWORKS.keys()
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExpressPass(0.0), "line_rate must be > 0 bit/s, got 0.0"),
        (lambda: ExpressPass(target=1.0), "target must be < 1, got 1.0"),
        (lambda: ExpressPass(w_min=0.6), "w_min must be <= 0.5, got 0.6"),
        (lambda: ExpressPass(alpha=1.5), "alpha must be <= 1, got 1.5"),
        (lambda: ExpressPass(jitter=1.0), "jitter must be < 1, got 1.0"),
        (lambda: ExpressPass().cycle(1), "flows must be >= 2, got 1"),
        (lambda: ExpressPass().cycle(2, delay=2), "delay must be 0 or 1, got 2"),
        (
            lambda: ExpressPass().synchronized([0.5, 2.0], 3),
            r"rates must be numbers > 0 and <= 1, one for each flow, got \[",
        ),
        (
            lambda: ExpressPass.on(Network([Link(C)] * 2, [Flow([0], alternatives=[[1]])])),
            r"alternatives must be empty with credits, got 1 \(flow 0\)",
        ),
        (
            lambda: ExpressPass.on(Network([Link(C)], [Flow([0], writes="1 Mb/s")])),
            r"writes must be None with credits, got 1000000.0 \(flow 0\)",
        ),
        (lambda: ExpressPass().equilibrium(DUMBBELL), "ExpressPass has no equilibrium: rates of credits alternate"),
        (lambda: ecc.fluid.simulate(Scenario(DUMBBELL, ExpressPass(), 1e-3)), "ExpressPass has no fluid model"),
        (
            lambda: ecc.linearize(ExpressPass(), DUMBBELL, time="hybrid"),
            "ExpressPass has no hybrid model: time must be",
        ),
        (
            lambda: ecc.linearize(ExpressPass(), PARKING_LOT, time="discrete"),
            "ExpressPass has no map per round for different RTTs, got 1e-05 to 2e-05 s: a round is an RTT of all flows",
        ),
        (
            lambda: ExpressPass().round_map(Network([Link(C)] * 2, [Flow([0, 1]), Flow([1, 0])])),
            "ExpressPass has no map per round here: routes must pass links in one order, and links 0, 1 have none",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError, ecc.errors.EccError), match=f"^{message}"):
        make()


def test_an_ack_of_another_size_has_a_place_in_buffers_and_in_packet_runs_alone():
    flow = Flow([0], reverse=[1], ack_size="1538 B")
    with pytest.raises(
        ValueError, match=r"^buffer must be >= an ACK of flow 0 \(1538 bytes\), got 1500 bytes \(link 1"
    ):
        Network([Link(C), Link(C, buffer=1500)], [flow])
    with pytest.raises(ValueError, match=r"^ack_size must be 40 bytes except in packet runs, got 1538 \(flow 0\)"):
        ecc.fluid.simulate(Scenario(Network([Link(C, "1 ms"), Link(C)], [flow]), ecc.models.RCP(), 1.0))
    with pytest.raises(ValueError, match="^ack_size must be >= 1 bytes, got 0"):
        Flow([0], ack_size=0)


def test_a_network_of_credits_is_that_of_data_with_each_link_twice():
    network = Network([Link(C, "1 us", "9 kB"), Link(4e9, "2 us")], [Flow([0, 1], 1.0, 2.0, 14601, 3e-6)])
    found = ExpressPass.on(network, buffer_packets=8)
    assert [link.capacity for link in found.links] == pytest.approx(
        [C * SHARE, 4e9 * SHARE, C * 84 / 1622, 4e9 * 84 / 1622]
    )
    assert [(link.delay, link.buffer, link.buffer_packets) for link in found.links] == [
        (1e-6, 9000, None),
        (2e-6, None, None),
        (1e-6, None, 8),
        (2e-6, None, 8),
    ]
    assert found.flows == (Flow([3, 2], 1.0, 2.0, 11 * 84, 3e-6, 84, [0, 1], ack_size=1538),)
    assert found.rtts == pytest.approx(network.rtts)
    assert Network.from_dict(found.to_dict()) == found


def test_the_largest_rate_is_the_published_one():
    assert ExpressPass().max_rate / 8.0 == pytest.approx(64_734_895, abs=1.0)


def played(flow, p, delivered, lost, now, u=0.5):
    env = SimpleNamespace(
        now=now, delivered=delivered, lost=lost, rtt=1e-5, packet_size=84, random=u, size=-1, rate=0.0
    )
    expresspass.flow_on_ack(flow, None, p, env)
    expresspass.flow_on_send(flow, None, p, env)
    return env.rate


def test_the_law_by_hand():
    """Credits of 84 bytes, X = 1 Gb/s, RTTs of 10 us: one without losses, one more, and one with them."""
    protocol = ExpressPass(1e9 * 1622 / 84)
    p, flow = protocol.namespace(), expresspass.FlowState()
    env = SimpleNamespace(now=0.0, size=84 * 20, packet_size=84, rate=0.0)
    expresspass.flow_on_start(flow, None, p, env)
    assert env.rate == pytest.approx(250e6)  # 20 packets, half of 40
    assert played(flow, p, 0, 0, 5e-6) == pytest.approx(250e6)  # no RTT is over
    flow.x = 800e6
    assert played(flow, p, 840, 0, 1.1e-5) == pytest.approx(900e6)  # w = 0.5: half of what is missing
    assert (flow.w, flow.was_low) == (0.5, 1)
    flow.w = 0.2
    assert played(flow, p, 1680, 0, 2.2e-5) == pytest.approx(925e6) and flow.w == pytest.approx(0.25)
    assert played(flow, p, 2100, 0, 2.5e-5) == pytest.approx(925e6)  # before the RTT is over
    # 840 bytes came in 11 us, 84 did not; accepted is 0.125 of 7.5 percent
    assert played(flow, p, 2520, 84, 3.3e-5) == pytest.approx(8 * 840 / 1.1e-5 * (1 + 0.125 * 0.075))
    assert (flow.w, flow.was_low) == (0.125, 0)
    assert played(flow, p, 2520, 84, 9e-5) == pytest.approx(flow.x)  # nothing was learned
    assert played(flow, p, 2520, 168, 9.1e-5) == pytest.approx(8 * 84 / 1e-5)  # all are lost: a credit an RTT
    assert played(flow, p, 2520, 168, 9.2e-5, u=1.0) == pytest.approx(flow.x / 1.1)


@pytest.mark.parametrize("delay", [0, 1])
def test_the_cycle_is_stable_for_any_number_of_flows(delay):
    """In fractions: that the law does go round so, and what is left of a deviation."""
    for n in [*range(2, 100), 10**4, 10**9]:
        found = ExpressPass().cycle(n, delay)
        assert found.holds and -1 < found.sum_multiplier < 0 < found.difference_multiplier < 1
        assert found.rtts == 2 + 2 * delay
        assert found.w == (Fraction(1, 30) if delay else Fraction(0.01))


@pytest.mark.parametrize("delay", [0, 1])
def test_flows_come_to_the_cycle_from_anywhere(delay):
    """With its length, its sums and its w; differences fall by its multiplier."""
    rng, protocol = np.random.default_rng(5), ExpressPass()
    for n in (2, 3, 8, 40):
        found = protocol.cycle(n, delay)
        for _ in range(2):
            x, w = protocol.synchronized(rng.uniform(0.001, 1.0, n), 600, delay=delay)
            late = x[-found.rtts :].sum(axis=1)
            assert (late.min(), late.max()) == pytest.approx((float(found.low), float(found.high)), rel=1e-6)
            assert w[-found.rtts :].mean() == pytest.approx(float(found.w))
            assert np.ptp(x[-1]) < 1e-4 * x[-1].mean()
            apart = x[:, 0] - x[:, 1]
            if n == 3:
                assert (apart[200] / apart[160]) ** (found.rtts / 40) == pytest.approx(
                    float(found.difference_multiplier), rel=1e-3
                )


def test_the_matrix_of_two_rtts_has_the_multipliers_as_eigenvalues_and_is_certified():
    n, found = 4, ExpressPass().cycle(4, delay=0)
    w, target, high = Fraction(0.01), Fraction(0.125), found.high
    own = (1 - w) * (1 + target * (1 - 2 * high / n)) / high  # of a flow's own rate, while the loss stays
    common = -(1 - w) * (1 + target * (1 - high / n)) / (n * high)  # of any, by the loss that it makes
    matrix = np.array([[float(own * (i == k) + common) for k in range(n)] for i in range(n)])
    values = np.sort(np.linalg.eigvals(matrix).real)
    assert values == pytest.approx([float(found.sum_multiplier)] + [float(found.difference_multiplier)] * (n - 1))
    assert SampledSystem([matrix], [0]).certify().stable


def simulate(network, duration=4e-3, protocol=None, **options):
    return ecc.packet.simulate(Scenario(network, protocol or ExpressPass(), duration), **options)


def data_rates(run):
    """Of the second half of a run [bit/s]."""
    return run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy() * 1538 / 84


@pytest.mark.parametrize("flows", [2, 4, 10, 40])
def test_in_continuous_time_flows_slide_at_a_point_within_the_cycle_of_losses_known_at_once(flows):
    network = ExpressPass.on(Network.dumbbell(C, ["40 us"] * flows, buffer="100 kB"))
    hosts, form = ExpressPass(C), ExpressPass(C).round_map(network).averaged
    rate, w = form.state[:2]
    xi, cycle = rate / hosts.max_rate, hosts.cycle(flows, delay=0)
    accepted = expresspass.accepted(rate, form.p)
    assert cycle.low < flows * xi < cycle.high
    assert 1.0 - 1.0 / (flows * xi) == pytest.approx(accepted, rel=1e-12)  # L = T
    assert hosts.w_min < w < 2.0 * hosts.w_min
    share = accepted**2 * xi / (accepted**2 * xi + w * (1.0 - xi))  # of RTTs with few losses, but for the step of w
    assert expresspass.decreased((1.0 - accepted) * rate, rate, form.p) == pytest.approx((1.0 - accepted**2) * rate)
    assert 0.02 < share < 0.35
    system = ecc.linearize(hosts, network)
    assert system.is_stable and -1.0 < system.spectral_abscissa * 40e-6 < -0.8
    assert system.certify().unstable == 0


@pytest.mark.slow
def test_the_sliding_point_attracts_flows_whose_losses_are_known_at_once():
    """Steps of a hundredth of an RTT, from unequal rates: all flows reach the surface L = T and stay near it."""
    form = ExpressPass(C).round_map(DUMBBELL).averaged
    target, w, step = form.p.target, form.state[1], 0.01
    x = np.array([0.9, 0.5, 0.1, 0.3])
    for _ in range(60_000):
        loss, allowed = max(1.0 - 1.0 / x.sum(), 0.0), target * (1.0 - x)
        after = np.where(loss > allowed, np.minimum((1.0 - loss) * x * (1.0 + allowed), x), w + (1.0 - w) * x)
        x = x + step * (after - x)
    assert x == pytest.approx(np.full(4, form.state[0] / form.p.max_rate), rel=2e-3)


def test_flows_fill_a_link_with_data_and_no_queue():
    run = simulate(DUMBBELL, 20e-3, sample=1e-4)
    data = data_rates(run)
    assert data.sum() == pytest.approx(C * SHARE, rel=0.01)
    assert data.sum() ** 2 / (4 * (data**2).sum()) > 0.9
    assert run.queue_max[:, 0].max() == 1538 and run.drops[:, 0].sum() == 0  # data
    assert run.queue_max[:, 1].max() == 840 and run.drops[:, 1].sum() > 0  # credits
    lost = run.flows["lost"] / (run.flows["lost"] + run.flows["delivered"])
    assert (lost < 0.25).all()


@pytest.mark.parametrize("name", ["parking lot", "fat tree"])
def test_each_flow_has_a_link_that_is_used(name):
    network = NETWORKS[name]
    run = simulate(network, 10e-3, sample=1e-4)
    data, n = data_rates(run), network.n_links // 2
    loads = np.zeros(n)
    for rate, flow in zip(data, network.flows, strict=True):
        loads[list(flow.reverse)] += rate / (C * SHARE)
    assert loads.max() < 1.005 and data.min() > 0.0
    assert all(loads[list(flow.reverse)].max() > 0.95 for flow in network.flows)
    assert run.drops[:, :n].sum() == 0 and (run.flows["retransmitted"] == 0).all()


def test_a_flow_of_finite_size_ends_with_its_data():
    """40 packets at half the rate, and the RTT: what it has to send in credits is what it gets in data."""
    network = ExpressPass.on(Network.dumbbell(C, ["40 us"], sizes=["58400 B"]))
    run = simulate(network, 1e-3, ExpressPass(jitter=0.0))
    assert run.flows["delivered"][0] == 40 * 84
    gap, last = 84 * 8 / (0.5 * ExpressPass().max_rate), 1538 * 8 / (C * SHARE)
    assert run.flows["finish"][0] <= 40e-6 + 39 * gap + 84 * 8 / (C * 84 / 1622) + last + 1e-9


def test_flows_end_whose_last_credits_are_lost():
    """All of a burst: the engine's timeout is that of the protocol, not 1 s."""
    network = ExpressPass.on(Network.dumbbell(C, ["40 us"] * 20, buffer="1 MB", sizes=["20 kB"] * 20))
    run = simulate(network, 0.02)
    assert (run.flows["delivered"] == 14 * 84).all() and run.flows["finish"].max() < 0.01
    slow = simulate(network, 0.02, ExpressPass(min_rto="1 s"))
    assert slow.flows["finish"].isna().any()


@pytest.mark.slow
def test_packets_with_many_credits_per_rtt_have_the_cycle_of_four_rtts():
    """20 ms, 15,000 credits: the sum of rates repeats after 4 RTTs, as on the map of `cycle_loop` with 40 us."""
    rtt, host = 0.02, ExpressPass(min_rto=0.2)
    loop = host.cycle_loop
    assert loop.buffer == 840
    assert limit_cycle(host, time="discrete").period == pytest.approx(4.0 * loop.rtts[0])
    network = Network.dumbbell(loop.capacity, [rtt] * 2, buffer=loop.buffer, packet_size=loop.packet_size)
    run = ecc.packet.simulate(Scenario(network, host, 120 * rtt, seed=1), rtt / 10)
    total = run.rate.to_numpy().sum(axis=1)[400:]
    assert period_of(total, 0.8) == pytest.approx(40.0, rel=0.01)


@every_network
def test_the_twin_runs_the_same_events(network):
    duration = 1e-4 if network is FAT_TREE else 2e-4
    c, python = (simulate(network, duration, engine=engine) for engine in ("c", "python"))
    assert c.stats["digest"] == python.stats["digest"]
    assert c.stats["events"] == python.stats["events"] > 100


@pytest.mark.slow
def test_in_packets_w_is_that_of_losses_an_rtt_late_and_shares_are_equal_over_seconds_alone():
    """400 us at 10 Gb/s, four flows: not w_min; for hundreds of RTTs one flow has little."""
    network = ExpressPass.on(Network.dumbbell(C, ["400 us"] * 4, starts=[0.0, 4e-4, 6.5e-4, 8.6e-4]))
    run = simulate(network, 2.0, sample=0.05, record=["flow.w"])
    w = run.data["flow.w"][10:].mean().item()
    assert w == pytest.approx(float(ExpressPass().cycle(4).w), rel=0.5) and w > 2.0 * ExpressPass().w_min
    shares = run.goodput[10:].to_numpy() * 1538 / 84 / (C * SHARE) * 4
    assert shares.mean(axis=0) == pytest.approx(np.ones(4), abs=0.25)
    assert shares.min() < 0.5
