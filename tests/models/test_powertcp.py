"""PowerTCP and theta-PowerTCP against their algorithms, played by hand, and in packets against their equilibrium."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.models import PowerTCP, ThetaPowerTCP
from ecc.network.network import Network
from ecc.scenario import Scenario

C, T = 100e9, 10e-6  # 12,500 bytes a us, 125,000 bytes in T
ONE = {"base_rtt": T, "line_rate": 4 * C, "gamma": 0.5, "beta": 1000, "initial": 100}
"""The first window is 100,000 bytes, the largest one 500,000."""


class Played:
    """One flow and its ACKs."""

    def __init__(self, protocol, hops=0):
        self.hooks, self.p = protocol.flow_hooks(), protocol.namespace()
        arrays = {name: [0.0] * hops for name in ("queue", "sent", "time")} if hops else {}
        self.flow = protocol.FlowState(**arrays)
        self.env = SimpleNamespace(
            transport=0, now=0.0, rtt=0.0, min_rtt=T, window=0.0, rate=0.0, packet_size=1000, delivered=0, in_flight=0
        )
        self.hooks["on_start"](self.flow, None, self.p, self.env)

    def ack(self, W_old, *links, **fields):
        """An ACK of a packet sent with W_old; of each link the time [us], bytes sent so far, queue [bytes]."""
        header = SimpleNamespace(hops=len(links), capacity=[C] * len(links), window=W_old)
        header.time = [1e-6 * time for time, _, _ in links]
        header.sent, header.queue = [sent for _, sent, _ in links], [queue for *_, queue in links]
        for name, value in fields.items():
            setattr(self.env, name, value)
        self.hooks["on_ack"](self.flow, header, self.p, self.env)
        return self.flow.power, self.env.window


def test_algorithm_1_played_by_hand():
    """Two links; Gamma is arrivals over 12,500 bytes a us, times 1 + queue/125,000 bytes.

    ======  ====================================================  ===========================  =====
    ACK     link 0                                                link 1                       power
    ======  ====================================================  ===========================  =====
    1       (25,000 + 5,000)/25,000 = 1.2; 1.2 (1 + 0.2) = 1.44   20,000/25,000 = 0.8          0.8 1 + 0.2 1.44
    2       (37,500 - 15,000)/37,500 = 0.6; 0.6 1.08 = 0.648      62,500/50,000 1.1 = 1.375    0.6 1.088 + 0.4 1.375
    3       75,000/150,000 1.08 = 0.54                            77,500/150,000 = 0.517       0.54
    ======  ====================================================  ===========================  =====

    The weight of Gamma is what has passed at its link, of 10 us: 2, 4, and 12, which is 10 at most.
    """
    one = Played(PowerTCP(**ONE), 2)
    assert one.env.window == 100_000
    rows = [  # W_old, link 0, link 1, P, W = (W_old/P + 1000)/2 + W/2
        (100_000.00, (5, 50_000, 20_000), (7, 80_000, 0), 1.0, 100_000),  # kept for the next one
        (100_000.00, (7, 75_000, 25_000), (9, 100_000, 0), 1.088, 96_455.88),
        (100_000.00, (10, 112_500, 10_000), (13, 150_000, 12_500), 1.2028, 90_297.61),
        (96_455.88, (22, 187_500, 10_000), (25, 240_000, 0), 0.54, 134_959.80),
        (96_455.88, (22, 187_500, 10_000), (25, 240_000, 0), 0.54, 157_290.90),  # nothing newer
    ]
    for W_old, link0, link1, P, W in rows:
        found = one.ack(W_old, link0, link1, delivered=1000)
        assert found == (pytest.approx(P), pytest.approx(W, abs=0.02))
        assert one.env.rate == pytest.approx(8.0 * one.env.window / T) or found[1] == 100_000


def test_the_window_that_the_host_remembers_is_divided_until_an_rtt_is_over():
    """The links of the test before; 100,000 bytes are remembered until more than 1,000 bytes are delivered."""
    one = Played(PowerTCP(**ONE, old_window="rtt"), 2)
    rows = [  # link 0, link 1, delivered, W = (W_old/P + 1000)/2 + W/2; windows of packets play no part
        ((5, 50_000, 20_000), (7, 80_000, 0), 1000, 100_000),
        ((7, 75_000, 25_000), (9, 100_000, 0), 1000, 96_455.88),
        ((10, 112_500, 10_000), (13, 150_000, 12_500), 1000, 90_297.61),
        ((22, 187_500, 10_000), (25, 240_000, 0), 2000, 138_241.40),  # of 100,000; this one is the next W_old
        ((22, 187_500, 10_000), (25, 240_000, 0), 2000, 197_622.01),
    ]
    for link0, link1, delivered, W in rows:
        assert one.ack(1e9, link0, link1, delivered=delivered)[1] == pytest.approx(W, abs=0.02)


def test_algorithm_2_played_by_hand():
    """Gamma is 1 + (RTT - RTT before)/(time between ACKs), times RTT/T; windows change once an RTT."""
    one = Played(ThetaPowerTCP(**ONE))
    rows = [  # now [us], RTT [us], delivered, P, W
        (20, 10, 1_000, 1.0, 100_000),  # kept; the RTT ends with what is beyond 1,000 + 100,000
        (22, 11, 3_000, 1.13, 100_000),  # (1 + 1/2) 1.1 = 1.65: 0.8 1 + 0.2 1.65
        (27, 11, 60_000, 1.115, 100_000),  # 1.1: 0.5 1.13 + 0.5 1.1
        (31, 12, 101_001, 1.269, 89_901.10),  # (1 + 1/4) 1.2 = 1.5: 0.6 1.115 + 0.4 1.5; (100,000/1.269 + 1000)/2 + ...
        (33, 11, 102_000, 1.1252, 89_901.10),  # (1 - 1/2) 1.1 = 0.55: 0.8 1.269 + 0.2 0.55; the next RTT
    ]
    for now, rtt, delivered, P, W in rows:
        found = one.ack(100_000, now=1e-6 * now, rtt=1e-6 * rtt, delivered=delivered, in_flight=100_000)
        assert found == (pytest.approx(P), pytest.approx(W, abs=0.01))


def test_the_simulators_form_played_by_hand():
    """0.9 (W_c 0.95/P + 188) + 0.1 W_c, with W_c the window of an RTT ago, at first 125,000 bytes; 150 Mb/s add 188."""
    one = Played(PowerTCP.ns3(C, T, min_rate="10 Gb/s"), 1)
    assert one.p.beta == 188.0 and one.env.window == pytest.approx(125_000)
    rows = [  # link, delivered, P, W
        ((0, 0, 0), 1_000, 1.0, 125_000),
        ((12, 150_000, 25_000), 2_000, 1.4, 89_008.49),  # (150 + 25)/150 1.2
        ((14, 175_000, 25_000), 3_000, 1.36, 91_253.76),  # 0.8 1.4 + 0.2 1.2
        ((16, 200_000, 25_000), 101_001, 1.328, 93_147.36),  # 0.8 1.36 + 0.2 1.2; this one is W_c
        ((26, 325_000, 25_000), 101_002, 1.2, 75_851.43),
    ]
    for link, delivered, P, W in rows:
        found = one.ack(0.0, link, delivered=delivered, in_flight=100_000)
        assert found == (pytest.approx(P), pytest.approx(W, abs=0.01))
    assert one.ack(0.0, (36, 10**12, 0), delivered=10**6)[1] == pytest.approx(12_500)  # 0.9 188 + 0.1 W_c is less


def test_the_simulators_theta_bounds_its_current_and_has_the_least_rtt():
    one = Played(ThetaPowerTCP.ns3(C, 2 * T))
    one.ack(0.0, now=0.0, rtt=2e-5, delivered=1000, in_flight=100_000)
    power, window = one.ack(0.0, now=2e-5, rtt=1e-5, delivered=2000)  # T is 10 us: P = 0.5 1
    assert power == pytest.approx(0.5)
    assert window == pytest.approx(250_000)  # 0.7 W_c 1.05/0.5 is more than the host can send
    assert one.p.gamma == 0.7 and one.flow.reference == pytest.approx(250_000)


@pytest.mark.parametrize("kind", [PowerTCP, ThetaPowerTCP])
def test_without_power_windows_are_what_the_host_can_send(kind):
    one = Played(kind(**ONE), 1 if kind is PowerTCP else 0)
    for now in range(10, 150, 10):  # us; next to nothing comes to the link, and the RTT falls by 1 us a us
        links = [(now, now // 10, 0)] if kind is PowerTCP else []
        one.ack(100_000, *links, now=1e-6 * now, rtt=1e-6 * (160 - now), delivered=10**6 * now)
    assert one.flow.power == pytest.approx(0.0, abs=1e-5) and one.env.window == pytest.approx(500_000)


def test_a_loss_ends_the_rtt():
    one = Played(ThetaPowerTCP(**ONE))
    one.ack(100_000, now=0.0, rtt=T, delivered=1000, in_flight=100_000)
    one.hooks["on_loss"](one.flow, None, one.p, one.env)
    assert one.ack(100_000, now=T, rtt=T, delivered=1000)[1] == pytest.approx(100_500)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gamma": 1.1}, "gamma must be <= 1, got 1.1"),
        ({"beta": 0}, "beta must be >= 1 bytes, got 0"),
        ({"target": 0}, "target must be > 0"),
        ({"least_current": 2}, "least_current must be <= 1, got 2"),
        ({"old_window": "ack"}, "old_window must be one of 'packet', 'rtt', got 'ack'"),
        ({"form": "both"}, "form must be one of 'window', 'rate', got 'both'"),
        ({"form": "rate", "min_rate": "200 Gb/s"}, r"min_rate must be <= line_rate \(1e\+11 bit/s\), got"),
    ],
)
def test_bad_parameters_get_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        PowerTCP(**fields)


@pytest.mark.parametrize("kind", [PowerTCP, ThetaPowerTCP])
@pytest.mark.parametrize(("flows", "beta"), [(2, 1000), (8, 1000), (8, 5000), (50, 2500)])
def test_at_the_equilibrium_of_one_link_the_queue_is_what_flows_add(kind, flows, beta):
    network = Network.dumbbell(C, [T] * flows)
    point = kind(base_rtt=T, line_rate=C, beta=beta).equilibrium(network)
    assert point.queue == pytest.approx([8.0 * flows * beta], rel=1e-6)
    assert point.rates == pytest.approx(np.full(flows, C / flows), rel=1e-6)
    with pytest.raises(ValueError, match=f"assignment must be None: flows of {kind.__name__} follow"):
        kind().equilibrium(network, np.zeros(flows, dtype=int))


def test_the_largest_window_leaves_one_flow_without_queue():
    for kind in (PowerTCP, ThetaPowerTCP):
        point = kind(base_rtt=T, line_rate=C).equilibrium(Network.dumbbell(C, [T]))
        assert point.rates == pytest.approx([C], rel=1e-9) and point.queue == pytest.approx([0.0], abs=1.0)


def late_run(protocol, flows):
    network = Network.dumbbell(C, [T] * flows, starts=list(np.arange(flows) * 1e-6))
    run = ecc.packet.simulate(Scenario(network, protocol, 3e-3), sample=2e-5)
    assert run.drops.sum() == 0
    return run.data.sel(time=slice(1.5e-3, None)), protocol.equilibrium(network)


@pytest.mark.parametrize(
    ("kind", "flows", "form", "least_current"),
    [
        (PowerTCP, 2, "window", 0.0),
        (PowerTCP, 8, "window", 0.0),
        (PowerTCP, 8, "window", 0.5),
        (PowerTCP, 8, "rate", 0.5),
        (ThetaPowerTCP, 2, "window", 0.0),
        (ThetaPowerTCP, 8, "window", 0.5),
        (ThetaPowerTCP, 8, "rate", 0.5),
    ],
)
def test_packets_come_to_the_equilibrium(kind, flows, form, least_current):
    protocol = kind(base_rtt=T, line_rate=C, beta=2500, form=form, least_current=least_current)
    late, point = late_run(protocol, flows)
    assert late["rate"].mean("time").to_numpy() == pytest.approx(point.rates, rel=0.07)
    assert float(late["queue"].mean()) == pytest.approx(point.queue[0] / 8.0, rel=0.1)


def test_theta_without_a_least_current_swings():
    """While a queue drains at full rate RTTs fall by 1 s a second: power is 0, and windows are the largest again."""
    late, point = late_run(ThetaPowerTCP(base_rtt=T, line_rate=C, beta=2500), 8)
    assert float(late["queue"].mean()) > 15.0 * point.queue[0] / 8.0
    assert float(late["queue"].max()) > 30.0 * point.queue[0] / 8.0


@pytest.mark.slow
def test_packets_on_a_parking_lot_load_its_links():
    lot = Network.parking_lot(["100 Gb/s", "80 Gb/s"], delay="1 us")
    protocol = PowerTCP(base_rtt=T, beta=5000)
    point = protocol.equilibrium(lot)
    run = ecc.packet.simulate(Scenario(lot, protocol, 3e-3), sample=1e-4)
    rates = run.rate.sel(time=slice(1.5e-3, None)).mean("time").to_numpy()
    assert point.rates @ lot.incidence == pytest.approx(lot.capacities, rel=1e-6)
    assert rates @ lot.incidence == pytest.approx(lot.capacities, rel=0.03)
    assert rates == pytest.approx(point.rates, rel=0.25)


@pytest.mark.parametrize("engine", [ecc.packet, ecc.fluid])
@pytest.mark.parametrize(
    ("old_window", "share", "stable"),
    [("packet", 0.5, False), ("packet", 1.0, True), ("rtt", 0.5, True), ("rtt", 1.0, False)],
)
def test_the_two_readings_of_the_old_window_lose_stability_on_different_paths(engine, old_window, share, stable):
    protocol = PowerTCP(base_rtt=T, line_rate=4 * C, beta=2500, old_window=old_window)
    network = Network.dumbbell(C, [share * T] * 4, packet_size=1000, starts=[1.37e-7 * k for k in range(4)])
    assert ecc.linearize(protocol, network).certify().stable is stable
    queue = engine.simulate(Scenario(network, protocol, 2e-3), sample=2e-7).queue[5000:, 0]
    assert (float(queue.std()) < 1500.0) is stable


def test_theta_has_one_old_window():
    network = Network.dumbbell(C, [T] * 4)
    digests = {
        ecc.packet.simulate(
            Scenario(network, ThetaPowerTCP(base_rtt=T, line_rate=C, beta=2500, old_window=one), 3e-4)
        ).stats["digest"]
        for one in ("packet", "rtt")
    }
    assert len(digests) == 1


def test_a_remembered_window_begins_as_the_window_and_rests_at_it():
    network = Network.dumbbell(C, [T] * 4)
    protocol = PowerTCP(base_rtt=T, line_rate=C, beta=2500, initial=10, old_window="rtt", gamma=0.2)
    point = protocol.equilibrium(network)
    D = T + point.queue[0] / C
    assert point.states["remembered"] == pytest.approx(point.rates * D)
    run = ecc.fluid.simulate(Scenario(network, protocol, 1e-3), sample=1e-6)
    assert float(run.rate[5].mean()) == pytest.approx(8e4 / T, rel=0.05)  # ten packets in T
    assert float(run.queue[-1, 0]) == pytest.approx(point.queue[0] / 8.0, rel=0.01)


class BeginsBadly(PowerTCP):
    @property
    def states(self):
        return super().states | {"remembered": super().states["remembered"]._replace(initial=lambda q: q)}


def test_a_state_of_a_host_may_begin_by_its_window_only():
    protocol = BeginsBadly(base_rtt=T, line_rate=C, old_window="rtt")
    with pytest.raises(
        ValueError, match="initial of state remembered of BeginsBadly may take w and p, got the argument 'q'"
    ):
        ecc.fluid.simulate(Scenario(Network.dumbbell(C, [T]), protocol, 1e-4))
