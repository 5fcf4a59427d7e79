"""VCP, UTIL, EDN and PEDN: their laws and hooks by hand, and what small runs show."""

from types import SimpleNamespace

import numpy as np
import pytest

import ecc
from ecc.contract.records import record_dtype
from ecc.errors import LinearizationError
from ecc.models import EDN, FAST, PEDN, UTIL, VCP, NewReno, Vegas, edn, pedn, util, vcp
from ecc.network.network import Flow, Link, Network
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.packet.twin.state import Record
from ecc.scenario import Scenario

S = 1500


def record(protocol, kind, **values):
    first = protocol.link_record() if kind == "link" else getattr(protocol, kind)()
    made = np.zeros(1, record_dtype(first))[0]
    for name in made.dtype.names or ():
        made[name] = getattr(first, name)
    state = Record.of(made)
    for name, value in values.items():
        setattr(state, name, value)
    return state


def ack(**values):
    given = {
        "packet_size": S,
        "acked": S,
        "recovering": 0,
        "recovered": 0,
        "ece": 0,
        "limited_by": 1,
        "now": 1.0,
        "srtt": 0.1,
        "in_flight": 10 * S,
        "window": 10.0 * S,
    }
    return SimpleNamespace(transport=0, **given | values)


# ---- EDN -------------------------------------------------------------------------------------------------------------


def test_edn_laws():
    """A queue of 25,000 bytes delays by 2 ms at 100 Mb/s: no longer less than A."""
    p = EDN(quantized=False).namespace()
    assert EDN.router_law(8 * 25_000.0, 100e6, p) == pytest.approx(0.002, rel=1e-15)
    assert [EDN.source_law(10.0, R, 1.0, p) for R in (0.0019, 0.002, 0.5)] == [11.0, 9.0, 9.0]
    assert EDN.source_law(1.0, 0.5, 1.0, p) == 1.0
    units = EDN().namespace()
    assert (units.A, units.B, units.levels) == (2.0, 3.0, 127.0)


@pytest.mark.parametrize(
    ("protocol", "queues", "told"),
    [
        (EDN(quantized=False), [25_000, 12_500], 0.003),
        (EDN(), [37_400, 24_900], 3.0),  # 2.992 and 1.992 ms: each is rounded down
        (EDN(), [1_300_000, 1_300_000], 127.0),  # 208 ms
        (EDN(unit="4 ms", A="8 ms", B="12 ms"), [112_500], 2.0),
    ],
)
def test_edn_routers_add_up_delays(protocol, queues, told):
    header = record(protocol, "Header")
    for queue in queues:
        edn.link_on_arrival(None, header, protocol.namespace(), SimpleNamespace(queue=queue, capacity=100e6))
    assert header.forward == pytest.approx(told, rel=1e-14)


def test_edn_fields_go_there_and_back():
    protocol = EDN()
    flow, header = record(protocol, "FlowState"), record(protocol, "Header", forward=3.0)
    edn.on_receive(flow, header, None, None)
    assert (header.forward, header.reverse) == (0.0, 3.0)
    header.forward = 5.0  # on the way back
    edn.on_ack(flow, header, protocol.namespace(), ack())
    following = record(protocol, "Header")
    edn.on_send(flow, following, None, None)
    assert (following.forward, following.reverse) == (0.0, 5.0)
    assert edn.EDNField(forward=3, reverse=5).encode() == bytes([0b0100_0010, 0b1000_0011])


@pytest.mark.parametrize(("L", "moved"), [(2.0, 3.0), (0.0, 1.0)])
def test_delayed_acks_count_by_what_they_acknowledge(L, moved):
    """An ACK of three packets moves EDN's count, and VCP's window, as three ACKs do, unless ACKs count."""
    edn, vcp, env = EDN(L=L), VCP(L=L), ack()
    flow = record(edn, "FlowState", ssthresh=1.0)
    env.acked = 3 * S
    edn.flow_hooks()["on_ack"](flow, record(edn, "Header", reverse=0.001), edn.namespace(), env)
    assert flow.count == moved
    gains = []
    for acked in (S, 3 * S):
        at = ack(now=1.0)
        at.acked = acked
        vcp.flow_hooks()["on_ack"](record(vcp, "FlowState"), record(vcp, "Header", load=1), vcp.namespace(), at)
        gains.append(at.window - 10.0 * S)
    assert gains[1] == pytest.approx(moved * gains[0])


def test_edn_counts_a_window_of_acks_to_move_by_a_packet():
    protocol = EDN()
    flow, env = record(protocol, "FlowState", ssthresh=1.0), ack()
    little, much = record(protocol, "Header", reverse=1.0), record(protocol, "Header", reverse=2.0)
    for k in range(10):
        assert (env.window, flow.count) == (10.0 * S, k)
        edn.on_ack(flow, little, protocol.namespace(), env)
    assert (env.window, flow.count) == (11.0 * S, 0)
    for header in [much] * 4 + [little] * 4 + [much] * 11:
        edn.on_ack(flow, header, protocol.namespace(), env)
    assert (env.window, flow.count) == (10.0 * S, 0)
    edn.on_ack(flow, little, protocol.namespace(), ack(acked=0, window=env.window))
    edn.on_ack(flow, little, protocol.namespace(), ack(recovering=1, window=env.window))
    assert flow.count == 0


def test_edn_leaves_slow_start_beyond_B():
    protocol = EDN()
    flow, env = record(protocol, "FlowState"), ack()
    edn.on_ack(flow, record(protocol, "Header", reverse=3.0), protocol.namespace(), env)
    assert env.window == 11.0 * S
    edn.on_ack(flow, record(protocol, "Header", reverse=4.0), protocol.namespace(), env)
    assert flow.ssthresh == env.window == 11.0 * S


def test_edn_halves_at_a_loss_and_counts_anew():
    protocol = EDN()
    flow, env = (
        record(protocol, "FlowState", count=5),
        ack(kind=0, acked=0, in_flight=8 * S),
    )  # as the engine calls on_loss: S-102
    edn.on_loss(flow, None, protocol.namespace(), env)
    assert (env.window, flow.ssthresh, flow.count) == (4.0 * S, 4.0 * S, 0)


def test_edn_on_one_link_delays_by_A_whatever_the_load_of_long_flows():
    """The queue swings about A C by N packets, and the link is full."""
    for n in (2, 8):
        net = Network.dumbbell("100 Mb/s", rtts=[0.02] * n, packet_size=S)
        run = ecc.packet.simulate(Scenario(net, EDN(), 20.0), sample=0.002)
        queue = run.queue[5000:, 0].to_numpy()
        assert queue.mean() == pytest.approx(25_000, rel=0.1)
        assert np.ptp(queue) / 2.0 == pytest.approx(n * S, abs=3 * S)
        assert float(run.goodput[-1000:].sum("flow").mean()) == pytest.approx(100e6, rel=1e-3)


def test_edn_in_packets_turns_every_three_rtts():
    """The count is unwound before a window turns: 6 D instead of the 4 D of the averaged law, with the same swing."""
    net = Network.dumbbell("100 Mb/s", rtts=[0.05] * 4, packet_size=S)
    run = ecc.packet.simulate(Scenario(net, EDN(), 60.0), sample=0.005)
    queue = run.queue[2000:, 0].to_numpy()
    lines = np.abs(np.fft.rfft((queue - queue.mean()) * np.hanning(len(queue))))
    period = 0.005 * len(queue) / int(np.argmax(lines))
    assert period == pytest.approx(6 * 0.052, rel=0.05)
    assert np.ptp(queue) / 2.0 == pytest.approx(4 * S, abs=2 * S)


def test_edn_equilibrium_and_refusals():
    net = Network.dumbbell("100 Mb/s", rtts=[0.098, 0.048])
    point = EDN().equilibrium(net)
    assert point.rates == pytest.approx([100e6 / 3, 200e6 / 3], rel=1e-12)
    assert point.queue == pytest.approx([200e3])
    with pytest.raises(LinearizationError, match="^EDN's equilibrium is known for one link, got 2$"):
        EDN().equilibrium(Network.parking_lot(["10 Mb/s", "10 Mb/s"]))
    for protocol in (EDN(), PEDN()):
        with pytest.raises(
            ValueError, match="source law is a relay, which has no slope to linearize; see the result of"
        ):
            ecc.linearize(protocol, net)
    with pytest.raises(ValueError, match=r"^B must be >= A \(0.002 s\), got 0.001 s$"):
        EDN(B=0.001)
    with pytest.raises(ValueError, match=r"^quantized must be one of True, False, got 7$"):
        EDN(quantized=7)


# ---- PEDN ------------------------------------------------------------------------------------------------------------


def test_pedn_counts_the_packets_of_a_flow():
    protocol = PEDN()
    link, p = record(protocol, "link"), protocol.namespace()
    told = []
    for flow, kind in [(0, 0), (1, 0), (0, 0), (0, 1), (0, 0)]:
        header = record(protocol, "Header")
        pedn.link_on_arrival(link, header, p, SimpleNamespace(flow=flow, kind=kind))
        told.append(header.forward)
    assert told == [0.0, 0.0, 1.0, 0.0, 2.0]
    pedn.leave(link, None, p, SimpleNamespace(flow=0, kind=0))
    header = record(protocol, "Header", forward=126.0)
    pedn.link_on_arrival(link, header, p, SimpleNamespace(flow=0, kind=0))
    assert header.forward == 127.0
    assert sum(link.counts) == 5


def test_pedn_flows_that_share_a_slot_are_told_of_each_other():
    protocol = PEDN(slots=1)
    link, p, header = record(protocol, "link"), protocol.namespace(), record(protocol, "Header")
    for flow in range(3):
        pedn.link_on_arrival(link, header, p, SimpleNamespace(flow=flow, kind=0))
    assert (header.forward, link.counts) == (3.0, [3])


def test_pedn_slots_are_spread():
    """As Fibonacci hashing does it: nearly a slot for each."""
    p = PEDN().namespace()
    filled = {pedn.slot(p, SimpleNamespace(flow=flow, kind=0)) for flow in range(1000)}
    assert len(filled) > 800
    assert all(0 <= slot < 1024 for slot in filled)


@pytest.mark.parametrize("slots", [1, 64])
def test_pedn_tables_are_empty_when_queues_are(slots):
    """Also after drops: what went in came out."""
    net = Network.dumbbell("5 Mb/s", rtts=[0.03] * 3, buffer="9 kB", packet_size=S, sizes=[200_000] * 3)
    twin = build_twin(prepare(Scenario(net, PEDN(slots=slots, initial=8), 10.0)), seed=1)
    link = twin.links[0]
    twin.advance(0.05)
    assert sum(link.routers[0].state.counts) == link.n_queued > 0
    twin.advance(10.0)
    assert link.routers[0].state.counts == [0] * slots
    assert link.dropped > 0
    assert [twin.flows[k].received for k in range(3)] == [200_000] * 3


def test_pedn_equilibrium():
    net = Network.dumbbell("60 Mb/s", rtts=[0.03, 0.09, 0.2], packet_size=S)
    point = PEDN().equilibrium(net)
    assert point.rates == pytest.approx([20e6] * 3, rel=1e-9)
    assert point.queue == pytest.approx([8.0 * 3 * 2 * S], rel=1e-9)
    lot = PEDN().equilibrium(Network.parking_lot(["30 Mb/s", "30 Mb/s"]))
    assert lot.rates == pytest.approx([10e6, 20e6, 20e6], rel=1e-6)  # proportional fairness
    assert lot.queue == pytest.approx([8.0 * 2 * 1000 * 1.5] * 2, rel=1e-6)
    mixed = Network([Link("10 Mb/s", 0.01)], [Flow([0], packet_size=500), Flow([0], packet_size=S)])
    with pytest.raises(LinearizationError, match="for packets of one size, got"):
        PEDN().equilibrium(mixed)
    with pytest.raises(LinearizationError, match="^relays switch together on one link with equal RTTs only"):
        ecc.stability.relay_cycle(PEDN(), net)
    with pytest.raises(ValueError, match=r"^slots must be from 1 to 2\^20, got 0$"):
        PEDN(slots=0)


# ---- VCP and UTIL ----------------------------------------------------------------------------------------------------


def test_vcp_load_factor():
    p = VCP().namespace()

    def code(load, queue=0.0):
        return vcp.announce_law(queue, load * 0.98 * 10e6, 10e6, 0.2, p)

    assert [code(load) for load in (0.0, 0.799, 0.801, 0.999, 1.001)] == [1, 1, 2, 2, 3]
    assert code(0.9, queue=0.21 * 0.98 * 10e6 * 0.2) == 3  # half of it counts
    assert VCP.router_law(1000.0, 2000.0) == 1250.0


def test_vcp_windows():
    """MI by 6.25 % and AI by a packet in t_rho, MD by an eighth; AI in windows as the square of the RTT."""
    p = VCP().namespace()
    assert VCP.source_law(100.0, 1, 0.2, 0.2, 9.0, 1.0, p) == pytest.approx(106.25, rel=1e-14)
    assert VCP.source_law(100.0, 1, 0.1, 0.2, 9.0, 1.0, p) == pytest.approx(100.0 * np.sqrt(1.0625), rel=1e-14)
    assert VCP.source_law(100.0, 2, 0.2, 0.2, 9.0, 1.0, p) == pytest.approx(101.0, rel=1e-14)
    assert VCP.source_law(100.0, 2, 0.1, 0.2, 9.0, 1.0, p) == pytest.approx(100.25, rel=1e-14)
    assert [VCP.source_law(100.0, 3, 0.1, 0.2, since, 1.0, p) for since in (0.19, 0.21)] == [100.0, 100.25]
    assert [VCP.decrease_law(100.0, 3, 0.1, 0.2, since, 1.0, p) for since in (0.29, 0.31, np.inf)] == [
        100.0,
        87.5,
        87.5,
    ]
    assert [VCP.decrease_law(100.0, code, 0.1, 0.2, np.inf, 1.0, p) for code in (1, 2)] == [100.0, 100.0]
    assert VCP.decrease_law(1.05, 3, 0.1, 0.2, np.inf, 1.0, p) == 1.0


def test_what_windows_do_in_slow_start():
    """Twice the window, Vegas every other RTT; no more than the window where it ends."""
    assert NewReno.slow_start_law(10.0, 1.0, 1.0, NewReno().namespace()) == 20.0 and FAST.slow_start_law is None
    assert [EDN.slow_start_law(10.0, R, 1.0, 1.0, EDN().namespace()) for R in (3.0, 4.0)] == [20.0, 10.0]
    assert [UTIL.slow_start_law(10.0, code, 1.0, 1.0, UTIL().namespace()) for code in (1, 2, 3)] == [20.0, 10.0, 10.0]
    assert VCP.slow_start_law(10.0, 1, 1.0, 1.0, VCP().namespace()) == 10.0
    assert [VCP.slow_start_law(10.0, c, 1.0, 1.0, VCP(opening="slow_start").namespace()) for c in (1, 2)] == [
        20.0,
        10.0,
    ]
    found = [Vegas.slow_start_law(10.0, R, 0.1, 1.0, 1.0, Vegas().namespace()) for R in (0.009, 0.011)]
    assert found == [pytest.approx(10.0 * np.sqrt(2.0)), 8.75]


def test_vcp_acks():
    protocol = VCP()
    flow, p = record(protocol, "FlowState"), protocol.namespace()

    def window(load, **values):
        env = ack(**values)
        vcp.on_ack(flow, record(protocol, "Header", load=load), p, env)
        return env.window / S

    assert window(1) == pytest.approx(10.0 + np.sqrt(1.0625) - 1.0, rel=1e-12)
    assert window(2) == pytest.approx(10.0 + 0.25 / 10.0, rel=1e-12)
    assert window(3) == pytest.approx(8.75, rel=1e-12)  # MD
    assert window(3, now=1.19) == 10.0  # frozen for t_rho
    assert window(3, now=1.21) == pytest.approx(10.025, rel=1e-12)  # then AI for an RTT
    assert window(3, now=1.31) == pytest.approx(8.75, rel=1e-12)
    assert window(1, now=1.32) > 10.0  # another region is heard at once
    assert window(3, now=9.0, window=1.05 * S) == 1.0


def test_vcp_may_open_with_slow_start():
    protocol = VCP(opening="slow_start")
    flow, p, env = record(protocol, "FlowState"), protocol.namespace(), ack()
    for load, window in ((1, 11.0), (2, 11.0 + 0.25 / 11.0), (1, 11.0 + 0.25 / 11.0 + np.sqrt(1.0625) - 1.0)):
        vcp.on_ack(flow, record(protocol, "Header", load=load), p, env)
        assert env.window == pytest.approx(window * S, rel=1e-12)


def test_vcp_routers_tell_the_worst_region_to_packets_of_the_protocol():
    protocol = VCP()
    for load, kind, told in ((1, 0, 2), (3, 0, 3), (0, 0, 0), (1, 1, 1)):
        header = record(protocol, "Header", load=load)
        vcp.link_on_departure(record(protocol, "link", code=2), header, None, SimpleNamespace(kind=kind))
        assert header.load == told


def test_vcp_router_clock():
    """20 samples of 10 ms make an interval; a quarter of their mean queue enters the steady one."""
    protocol = VCP()
    link, p = record(protocol, "link", opened=1e-9), protocol.namespace()
    env = SimpleNamespace(packet_size=200_000, queue=4000, capacity=10e6, now=0.0)
    vcp.link_on_arrival(link, None, p, env)
    for k in range(1, 21):
        assert (link.code, link.samples) == (1, k - 1)
        env.now = 0.01 * k
        vcp.link_on_interval(link, None, p, env)
    assert link.q == pytest.approx(0.25 * 8.0 * 4000.0)
    assert link.code == 2  # (1.6e6 + 0.5 * 8000)/(0.98 * 2e6) = 0.818
    assert (link.arrived, link.samples, link.opened, env.next_interval) == (0.0, 0, 0.2, 0.01)


@pytest.mark.parametrize("protocol", [VCP(), UTIL()], ids=["VCP", "UTIL"])
def test_routers_work_out_loads_at_their_phase(protocol):
    """Not 200 ms after 0, all of them: as phases say, of which the first interval is a part."""
    net = Network.parking_lot(["10 Mb/s", "10 Mb/s"])
    twin = build_twin(prepare(Scenario(net, protocol, 1.0, phases=[0.3, 0.8])), seed=1)
    seen = []
    for now in (0.05, 0.07, 0.15, 0.17, 0.25, 0.27, 0.35, 0.37):
        twin.advance(now)
        seen.append([link.routers[0].state.opened for link in twin.links])
    assert np.array(seen) == pytest.approx(
        np.array(
            [
                [0.0, 0.0],
                [0.06, 0.0],
                [0.06, 0.0],
                [0.06, 0.16],
                [0.06, 0.16],
                [0.26, 0.16],
                [0.26, 0.16],
                [0.26, 0.36],
            ]
        )
    )


def test_util_steps_once_an_rtt():
    protocol = UTIL()
    flow, p = record(protocol, "FlowState"), protocol.namespace()
    env = ack()
    for _ in range(5):
        util.on_ack(flow, record(protocol, "Header", load=1), p, env)
    assert env.window == 15.0 * S  # slow start
    util.on_ack(flow, record(protocol, "Header", load=2), p, env)
    assert flow.ssthresh == env.window == 15.0 * S
    windows = []
    for load in (1, 1, 3, 2):
        for _ in range(10):
            util.on_ack(flow, record(protocol, "Header", load=load), p, env)
        windows.append(env.window / S)
    assert windows == [16.0, 17.0, 16.0, 16.0]


def test_vcp_and_util_fill_a_link_to_their_target():
    net = Network.dumbbell("20 Mb/s", rtts=[0.05, 0.1], packet_size=S)
    for protocol, least in ((VCP(), 0.85), (UTIL(), 0.75)):
        run = ecc.packet.simulate(Scenario(net, protocol, 240.0), sample=1.0)
        load = float(run.arrival[-20:, 0].mean()) / 20e6
        assert least < load < 1.0
        assert float(run.queue_max[-20:].max()) < 10 * S
        if isinstance(protocol, VCP):
            rates = run.rate[-60:].mean("time").to_numpy()
            assert rates[0] == pytest.approx(rates[1], rel=0.05)


@pytest.mark.parametrize("protocol", [VCP(), UTIL()], ids=["VCP", "UTIL"])
def test_no_equilibrium(protocol):
    net = Network.dumbbell("10 Mb/s", rtts=[0.05])
    name = type(protocol).__name__
    with pytest.raises(LinearizationError, match=f"^{name} has no"):
        protocol.equilibrium(net)
    with pytest.raises(ValueError, match=f"^{name} has no equilibrium to linearize at"):
        ecc.linearize(protocol, net)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: VCP(beta=1.0), "^beta must be < 1, got 1$"),
        (lambda: VCP(xi=0.0), "^xi must be > 0"),
        (lambda: VCP(opening="fast"), "^opening must be one of 'mi', 'slow_start', got 'fast'$"),
        (lambda: UTIL(gamma=0.0), "^gamma must be > 0"),
        (lambda: EDN(A=0.0), "^A must be > 0"),
        (lambda: EDN(transport="reno"), "^transport must be one of 'newreno', 'sack', 'rack', 'quic', got 'reno'$"),
        (lambda: PEDN(B=1.0), r"^B must be >= A \(2 packets\), got 1 packets$"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message):
        build()
