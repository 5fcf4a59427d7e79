"""s-PERC: a trace by hand, rounds in fractions, and packets, all against water-filling."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ecc
from ecc.models import SPERC, sperc
from ecc.network.allocation import max_min
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

C = 10e9
TWO = Network([Link(10.0), Link(6.0)], [Flow([0, 1]), Flow([0]), Flow([1])])
ROUTES = [[3, 0], [2, 1, 0], [0, 1, 3, 2], [1, 2, 0, 3], [3, 1, 2]]
EQUAL = Network([Link(4e9, "5 us")] * 4, [Flow(route) for route in ROUTES])
"""Each link has four flows, hence all rates are a quarter of a link."""


@st.composite
def networks(draw):
    """Links of 20 to 80 Gb/s, many of them equal, and flows over some, in any order, that start within 0.1 ms."""
    links = draw(st.lists(st.integers(2, 8), min_size=1, max_size=6))
    route = st.lists(st.integers(0, len(links) - 1), min_size=1, max_size=4, unique=True)
    flows = draw(st.lists(st.tuples(route, st.integers(0, 100), st.integers(1, 30)), min_size=1, max_size=10))
    return Network(
        [Link(1e10 * capacity, "5 us") for capacity in links],
        [Flow(route, start=1e-6 * start, access_delay=1e-6 * delay) for route, start, delay in flows],
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SPERC(gamma=0.0), "gamma must be > 0, got 0.0"),
        (lambda: SPERC(gamma=1.1), "gamma must be <= 1, got 1.1"),
        (lambda: SPERC(margin=0.5), "margin must be >= 1"),
        (lambda: SPERC(patience=0.5), "patience must be >= 1"),
        (lambda: SPERC(floor=0.0), "floor must be > 0, got 0.0"),
        (lambda: SPERC(tolerance=0.2), "tolerance must be <= 0.1, got 0.2"),
        (lambda: SPERC(ignore=2), "ignore must be one of True, False, got 2"),
        (lambda: SPERC(transport="tcp"), "transport must be one of "),
        (lambda: SPERC().exact_rounds(TWO, joins=[0]), "joins must have 3 entries, one for each flow, got 1"),
        (lambda: SPERC().exact_rounds(TWO, leaves=[-1, None, None]), "leaves must be >= 0"),
        (
            lambda: SPERC().exact_rounds(Network([Link(C)] * 2, [Flow([0], alternatives=[[1]])])),
            r"alternatives must be empty in rounds, got 1 \(flow 0\)",
        ),
        (lambda: SPERC().exact_rounds(TWO, most=0), "most must be >= 1, got 0"),
        (lambda: SPERC().equilibrium(TWO, np.array([0, 0, 1])), "assignment must be None: flows of SPERC"),
        (lambda: ecc.fluid.simulate(Scenario(EQUAL, SPERC(), 1e-3)), "SPERC has no fluid model"),
        (lambda: ecc.linearize(SPERC(), EQUAL, time="hybrid"), "SPERC has no hybrid model: time must be 'continuous'"),
        (
            lambda: ecc.linearize(SPERC(), Network([Link(C)] * 2, [Flow([0], alternatives=[[1]])])),
            r"alternatives must be empty in rounds, got 1 \(flow 0\)",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError, ecc.errors.EccError), match=f"^{message}"):
        make()


class Links:
    """Two links of 10 and 6 bit/s, and the control packets of flows over some of them."""

    def __init__(self, **parameters):
        self.p = SPERC(gamma=1.0, **parameters).namespace()
        self.links = [sperc.LinkState(), sperc.LinkState()]
        self.headers = {}

    def trip(self, flow, *route, kind=sperc.STAYS):
        """What a control packet has at each link: b, x, s and i."""
        arrays = {name: [0] * len(route) for name in ("link", "round", "b", "x", "s", "counts")}
        header = self.headers.setdefault(flow, SimpleNamespace(**arrays, links=0))
        header.kind, header.trip, header.hops = kind, 0.0, 0
        for link in route:
            env = SimpleNamespace(now=0.0, kind=0, link=link, capacity=(10.0, 6.0)[link])
            sperc.link_on_departure(self.links[link], header, self.p, env)
        return [(b, x, "EB"[s], 1 - c) for b, x, s, c in zip(header.b, header.x, header.s, header.counts, strict=True)]

    def end(self):
        """The end of a round: SumE, NumB and MaxE of both links."""
        for link in self.links:
            sperc.close_round(link)
        return [(link.sum_e, link.num_b, link.max_e) for link in self.links]


def test_a_trace_by_hand():
    """Flow 0 over both links, flow 1 over the first, flow 2 over the second; three more come to the first."""
    net = Links()
    assert net.trip(0, 0, 1) == [(10, 10, "B", 0), (6, 6, "B", 0)]
    assert net.trip(1, 0) == [(5, 5, "B", 0)]
    assert net.trip(2, 1) == [(3, 3, "B", 0)]
    assert net.end() == [(0, 2, 0), (0, 2, 0)]
    assert net.trip(0, 0, 1) == [(5, 5, "B", 0), (3, 3, "B", 0)]  # at link 0 the other b is 6 still
    assert net.trip(1, 0) == [(5, 5, "B", 0)] and net.trip(2, 1) == [(3, 3, "B", 0)]
    assert net.end() == [(0, 2, 0), (0, 2, 0)]
    assert net.trip(0, 0, 1) == [(5, 3, "E", 0), (3, 3, "B", 0)]
    assert net.trip(1, 0) == [(7, 7, "B", 0)] and net.trip(2, 1) == [(3, 3, "B", 0)]
    assert net.end() == [(3, 1, 3), (0, 2, 0)]
    assert net.trip(0, 0, 1) == [(5, 3, "E", 0), (3, 3, "B", 0)]  # 3, 7 and 3: at rest
    assert net.trip(1, 0) == [(7, 7, "B", 0)] and net.trip(2, 1) == [(3, 3, "B", 0)]

    assert net.trip(3, 0) == [(3.5, 3.5, "B", 0)]
    assert net.trip(4, 0) == [(7 / 3, 7 / 3, "B", 1)]  # less than flow 0 has elsewhere: too low
    assert net.end() == [(3, 3, 3), (0, 2, 0)]
    assert net.trip(0, 0, 1) == [(2.5, 2.5, "B", 1), (3, 3, "B", 0)]  # of which link 1 learns nothing yet
    for flow in (1, 3, 4):
        assert net.trip(flow, 0) == [(2.5, 2.5, "B", 1)]
    assert net.trip(2, 1) == [(3, 3, "B", 0)]
    assert net.end() == [(0, 4, 0), (0, 2, 0)]
    assert net.trip(0, 0, 1) == [(2.5, 2.5, "B", 0), (3, 2.5, "E", 0)]
    assert net.trip(2, 1) == [(3.5, 3.5, "B", 0)]


def test_what_a_flow_takes_back_and_what_is_forgotten():
    net = Links()
    for flow, route in ((0, (0, 1)), (1, (0,)), (2, (1,))) * 3:
        net.trip(flow, *route)
    link = net.links[0]
    assert (link.sum_e, link.num_b) == (3, 1)
    net.trip(0, 0, 1, kind=sperc.LEAVES)
    assert (link.sum_e, link.num_b, link.seen_sum_e, link.seen_num_b) == (0, 1, 0, 1)
    assert net.end() == [(0, 1, 3), (0, 1, 0)]  # MaxE lasts a round longer
    assert net.end() == [(0, 0, 0), (0, 0, 0)]  # a round without packets
    assert net.trip(1, 0) == [(10, 10, "B", 0)] and link.num_b == 1 and link.late == 1
    assert net.trip(1, 0) == [(10, 10, "B", 0)] and link.num_b == 1 and link.late == 1


def test_without_ignore_bits_low_rates_are_passed_on():
    net = Links(ignore=False)
    for flow, route in ((0, (0, 1)), (1, (0,)), (2, (1,))) * 3:
        net.trip(flow, *route)
    net.trip(3, 0)
    assert net.trip(4, 0) == [(7 / 3, 7 / 3, "B", 0)]


def test_rounds_begin_when_the_longest_trip_says_so():
    p, link = SPERC(margin=2.0).namespace(), sperc.LinkState()
    for trip, now, count in (
        (0.0, 1.0, 1),
        (0.0, 5.0, 1),
        (2.5, 5.5, 1),
        (1.0, 6.0, 2),
        (1.0, 10.0, 2),
        (1.0, 11.1, 3),
        (1.0, 13.2, 4),
        (1.0, 17.3, 6),
    ):
        sperc.keep_rounds(link, trip, p, now)
        assert link.round == count, now
    # 1.0 s is the longest of the last two rounds from 11.1 s on; by 17.3 s two rounds have passed


def test_rounds_of_a_parking_lot():
    found = SPERC(gamma=1.0).exact_rounds(TWO)
    assert found.fair == (3, 7, 3) and found.iterations == 2
    assert found.rates[:3] == ((6, 5, 3), (3, 5, 3), (3, 7, 3))
    assert (found.converged, found.period) == (3, 1)
    left = SPERC(gamma=1.0).exact_rounds(TWO, joins=[0, 0, 4], leaves=[10, None, None])
    assert left.fair == (0, 10, 6) and left.rates[9] == (3, 7, 3) and left.rates[-1] == left.fair
    assert left.converged <= 6 * left.iterations
    half = SPERC(gamma=0.5).exact_rounds(TWO)
    assert half.fair == (Fraction(3, 2), Fraction(7, 2), Fraction(3, 2))


def test_links_that_do_not_touch_are_filled_at_once():
    """Four links of four rates are one iteration; a chain of them with flows over neighbors is more."""
    apart = sperc.two_water_filling([[0], [1], [2], [3]], [Fraction(k + 1) for k in range(4)])
    assert apart == (1, (1, 2, 3, 4))
    chain = [[0], [0, 1], [1], [1, 2], [2], [2, 3], [3]]
    n, rates = sperc.two_water_filling(chain, [Fraction(10 * (k + 1)) for k in range(4)])
    assert n == 4
    assert [float(one) for one in rates] == pytest.approx(
        max_min(Network([Link(10.0 * (k + 1)) for k in range(4)], [Flow(one) for one in chain]))
    )


@pytest.mark.property
@settings(max_examples=60)
@given(network=networks(), seed=st.none() | st.integers(0, 2**32 - 1), data=st.data())
def test_rounds_come_to_max_min_rates_within_six_times_n(network, seed, data):
    """Exactly, in any order, and after flows have come and gone."""
    rounds = st.lists(st.integers(0, 9), min_size=network.n_flows, max_size=network.n_flows)
    joins = data.draw(rounds)
    leaves = [None, *(data.draw(st.none() | st.integers(one + 1, one + 9)) for one in joins[1:])]
    found = SPERC(gamma=1.0).exact_rounds(network, seed, joins, leaves)
    assert found.converged <= 6 * found.iterations and found.period == 1
    stay = [k for k, one in enumerate(leaves) if one is None]
    kept = Network(network.links, [network.flows[k] for k in stay])
    assert [float(found.fair[k]) for k in stay] == pytest.approx(max_min(kept), rel=1e-12)
    assert found.rates[-1] == found.fair


def test_without_ignore_bits_rates_are_not_fair_after_six_times_n_rounds():
    """And not after 100, though they come near: by the same factor in each five rounds, as fractions show."""
    fair = SPERC(gamma=1.0).exact_rounds(EQUAL)
    assert fair.iterations == 1 and fair.converged <= 6 and set(fair.fair) == {10**9}
    found = SPERC(gamma=1.0, ignore=False).exact_rounds(EQUAL, most=100)
    assert found.period is None and found.converged is None and len(found.rates) == 100
    for k in range(20, 95):
        for before, after in zip(found.rates[k], found.rates[k + 5], strict=True):
            assert after - 10**9 == (before - 10**9) / 18
    assert all(set(one) != {10**9} for one in found.rates)


@pytest.mark.slow
def test_without_ignore_bits_differences_without_end_make_rates_jump():
    """Four equal links: flow 3 should have a third, and has a fifth in some of each ten rounds."""
    routes = [[2, 1, 3], [3], [3, 1, 0], [2, 0], [0, 3, 2, 1], [2, 0, 3], [2, 3, 1, 0], [1], [1]]
    network = Network([Link(6.0)] * 4, [Flow(route) for route in routes])
    fair = SPERC(gamma=1.0).exact_rounds(network)
    assert fair.fair == (1, 1, 1, 2, 1, 1, 1, 1, 1) and fair.converged <= 6 * fair.iterations == 12
    found = SPERC(gamma=1.0, ignore=False).exact_rounds(network, most=120)
    assert found.period is None
    assert all(min(one[3] for one in found.rates[k : k + 10]) < 1.3 for k in range(20, 120, 10))
    assert all(max(abs(one[k] - 1) for k in (0, 1, 2, 4, 5, 6, 7, 8)) < 1e-20 for one in found.rates[60:])
    in_packets = Network([Link(C, "5 us")] * 4, [Flow(route, start=1e-6 * k) for k, route in enumerate(routes)])
    for tolerance in (0.0, 1e-9):  # floating-point numbers are equal after some rounds
        run = simulate(in_packets, 2e-3, SPERC(ignore=False, tolerance=tolerance))
        assert run.data["flow.x"][-1].to_numpy() == pytest.approx(max_min(in_packets, 0.94 * in_packets.capacities))


def simulate(network, duration, protocol=None, **options):
    options = {"sample": 1e-5, "record": ["flow.x", "link.num_b", "link.late", "link.round"]} | options
    return ecc.packet.simulate(Scenario(network, protocol or SPERC(), duration), **options)


@pytest.mark.property
@settings(max_examples=15)
@given(network=networks())
def test_packets_come_to_max_min_rates_exactly(network):
    run = simulate(network, 3e-3)
    expected = max_min(network, 0.94 * network.capacities)
    assert run.data["flow.x"][-100:].to_numpy() == pytest.approx(np.tile(expected, (100, 1)), rel=1e-12)
    assert run.rate[-100:].mean("time").to_numpy() == pytest.approx(expected, abs=2 * 8000 / 1e-3)
    assert SPERC().equilibrium(network).rates == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.property
@settings(max_examples=10)
@given(network=networks())
def test_the_twin_runs_the_same_events(network):
    c, python = (simulate(network, 5e-4, engine=engine) for engine in ("c", "python"))
    assert c.stats["digest"] == python.stats["digest"] and c.stats["events"] == python.stats["events"]


def shares(run):
    """What flows have of the link [bit/s], over time."""
    return run.data["flow.x"].to_numpy()


def test_a_flow_that_ends_gives_its_share_back_and_one_that_is_stopped_is_forgotten():
    ends = Network.dumbbell(C, ["40 us"] * 4, starts=[0.0, 3e-5, 6e-5, 1e-4], sizes=[None, None, "300 kB", None])
    run = simulate(ends, 2e-3)
    finish = float(run.flows["finish"][2])
    assert shares(run)[round(finish * 1e5) + 4][[0, 1, 3]] == pytest.approx(np.full(3, 0.94 * C / 3))  # an RTT later
    assert run.queue_max[100:].max() <= 6000  # though it sent on for most of a trip

    stops = Network.dumbbell(C, ["40 us"] * 4, starts=[0.0, 3e-5, 6e-5, 1e-4], stops=[None, None, 1e-3, None])
    run = simulate(stops, 2e-3)
    rounds, counted = (run.data[name][:, 0].to_numpy() for name in ("link.round", "link.num_b"))
    forgotten = np.flatnonzero(counted[100:] == 3)[0] + 100
    assert rounds[forgotten] - rounds[99] == 2 and (counted[forgotten:] == 3).all()
    assert shares(run)[forgotten + 10][[0, 1, 3]] == pytest.approx(np.full(3, 0.94 * C / 3), rel=1e-12)


def test_many_short_flows_leave_nothing_behind():
    """Of flows that have passed a link knows nothing, though some sent one packet and some lost their last one."""
    sizes = [60, 1000, 5000, 30_000, 200_000] * 8
    starts = (1e-6 * np.arange(1, 41)).tolist()
    network = Network.dumbbell(C, ["40 us"] * 41, starts=[0.0, *starts], sizes=[None, *sizes], buffer="20 kB")
    run = simulate(network, 6e-3)
    assert run.flows["finish"][1:].notna().all()
    assert shares(run)[-1, 0] == pytest.approx(0.94 * C, rel=1e-12) and run.data["link.num_b"][-1, 0] == 1


def test_lost_control_packets_are_sent_anew_and_counted_twice_for_two_rounds_at_most():
    network = Network.dumbbell(C, ["40 us"] * 4, starts=[0.0, 3e-5, 6e-5, 1e-4])
    scenario = Scenario(network, SPERC(), 0.02, impairments=[RandomLoss(2e-3, link=0)])
    run = ecc.packet.simulate(scenario, sample=1e-5, record=["flow.x", "link.num_b", "flow.sequence"])
    counted = run.data["link.num_b"][100:, 0].to_numpy()
    assert set(counted) >= {4.0, 5.0} and counted.min() >= 4.0 and (counted == 4.0).mean() > 0.5
    assert set(np.round(0.94 * C / shares(run)[100:].ravel(), 9)) >= {4.0, 5.0}
    assert run.data["flow.sequence"][-1].min() > 300


def test_a_flow_with_a_longer_rtt_than_all_others_makes_rounds_longer():
    """It comes too late for the links' rounds once, after its first trip."""
    network = Network.dumbbell(C, ["20 us", "20 us", "1 ms"], starts=[0.0, 3e-6, 1e-3])
    run = simulate(network, 0.02)
    assert run.data["link.late"][-1, 0] == 1
    assert shares(run)[-1] == pytest.approx(np.full(3, 0.94 * C / 3), rel=1e-12)


def test_the_first_packet_is_a_small_one_and_it_is_sent_again_when_lost():
    network = Network.dumbbell(C, ["40 us"], buffer="1 MB")
    scenario = Scenario(network, SPERC(), 0.02, impairments=[RandomLoss(0.5, link=0)], seed=4)
    run = ecc.packet.simulate(scenario, sample=1e-5)
    assert run.rate[0].item() == pytest.approx(64 * 8 / 1e-5) and run.flows["delivered"][0] > 1_000_000


@pytest.mark.parametrize("transport", ["newreno", "sack"])
def test_what_is_lost_is_sent_again(transport):
    network = Network.dumbbell(C, ["40 us"] * 2, sizes=["1 MB", "1 MB"], buffer="1 MB", starts=[0.0, 1e-5])
    scenario = Scenario(network, SPERC(transport=transport), 0.1, impairments=[RandomLoss(5e-3, link=0)])
    run = ecc.packet.simulate(scenario)
    assert (run.flows["delivered"] == 1_000_000).all() and run.flows["retransmitted"].min() > 0
