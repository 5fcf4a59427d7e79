"""HyStart++ against RFC 9406's rules, and under several hosts, one of a user's own."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import ecc
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.models import BIC, CUBIC, Compound, NewReno
from ecc.models.shared import hystart, windows
from ecc.scenario import Scenario

S = 1000.0  # bytes


def test_hystart_by_its_rules():
    """Rounds of 10 ACKs; RTTs of 100, then 113 ms: 12.5 ms more make it conservative; a shorter RTT resumes it."""
    flow, given = hystart.FlowState(), NewReno(slow_start="hystart++")
    on_ack, p = flow_hooks_of(given)["on_ack"], given.namespace()

    def one_round(at, rtt):
        at.rtt = rtt
        for _ in range(10):
            at.delivered += 1000
            on_ack(flow, None, p, at)

    at = SimpleNamespace(
        transport=0,
        window=10 * S,
        in_flight=10_000,
        packet_size=1000,
        acked=1000,
        rtt=0.1,
        delivered=0,
        recovering=0,
        recovered=0,
        undone=0,
        ece=0,
        limited_by=1,
    )
    one_round(at, 0.100)
    assert at.window == 20 * S and flow.css_rounds == -1
    one_round(at, 0.112)
    assert at.window == 30 * S and flow.css_rounds == -1
    one_round(at, 0.127)  # 112 + 14 ms
    assert flow.css_rounds == 0 and at.window == 38.5 * S  # eight ACKs in full, until as many samples are in
    one_round(at, 0.111)
    assert flow.css_rounds == -1 and at.window == 42.5 * S
    one_round(at, 0.130)
    for rounds in range(1, 5):
        one_round(at, 0.130)
        assert flow.css_rounds == rounds and flow.ssthresh == windows.NEVER_LEFT
    one_round(at, 0.130)
    assert flow.ssthresh < windows.NEVER_LEFT


def acks(on_ack, flow, p, at, times, rtt):
    """One ACK of a packet at each time."""
    at.rtt = rtt
    at.min_rtt = min(at.min_rtt, rtt)
    for time in times:
        at.now = time
        at.delivered += at.acked
        on_ack(flow, None, p, at)


@pytest.mark.parametrize(
    ("spacing", "rtt", "window"),
    [
        (0.001, 0.1, 70 + 51),  # a train longer than (100 + 1)/2 ms: ends at the ACK after 51 ms, before its growth
        (0.003, 0.1, None),  # no train
        (0.003, 0.112, None),  # less than an eighth later
        (0.003, 0.113, 70 + 8),  # more than an eighth later: the ninth sample ends it
    ],
)
def test_linux_hystart_by_its_rules(spacing, rtt, window):
    """A round of 10 packets at 100 ms, then one of 60 ACKs: it ends by the length of the train or by the delay."""
    flow, given = hystart.FlowState(), NewReno(slow_start="hystart")
    on_ack, p = flow_hooks_of(given)["on_ack"], given.namespace()
    at = SimpleNamespace(
        transport=0,
        window=60 * S,
        in_flight=60_000,
        packet_size=1000,
        acked=1000,
        delivered=0,
        recovering=0,
        recovered=0,
        undone=0,
        ece=0,
        limited_by=windows.BY_WINDOW,
        srtt=0.1,
        min_rtt=1.0,
    )
    acks(on_ack, flow, p, at, [1.0 + 0.003 * k for k in range(10)], 0.1)
    assert at.window == 70 * S and flow.has_ended == 0
    flow.round_end = float(at.delivered)  # the round is over
    acks(on_ack, flow, p, at, [2.0 + spacing * k for k in range(60)], rtt)
    if window is None:
        assert flow.has_ended == 0 and flow.ssthresh == windows.NEVER_LEFT
    else:
        assert flow.has_ended == 1 and flow.ssthresh == window * S


def test_linux_hystart_needs_sixteen_packets_and_restarts_after_a_timeout():
    flow, given = CUBIC.FlowState(), CUBIC(slow_start="hystart")
    on_ack, on_loss, p = *(flow_hooks_of(given)[name] for name in ("on_ack", "on_loss")), given.namespace()
    at = SimpleNamespace(
        transport=0,
        window=2 * S,
        in_flight=90_000,
        packet_size=1000,
        acked=1000,
        delivered=0,
        recovering=0,
        recovered=0,
        kind=1,
        undone=0,
        ece=0,
        limited_by=windows.BY_WINDOW,
        srtt=0.1,
        min_rtt=0.1,
    )
    acks(on_ack, flow, p, at, [1.0 + 0.002 * k for k in range(14)], 0.3)
    assert at.window == 16 * S and flow.has_ended == 0
    acks(on_ack, flow, p, at, [1.1 + 0.0001 * k for k in range(9)], 0.3)
    assert flow.has_ended == 1 and flow.ssthresh == 24 * S
    on_loss(flow, None, p, at)
    assert flow.has_ended == 0 and flow.round_end < 0.0


@dataclass
class Kept(hystart.FlowState):
    acks: int = 0


@dataclass(frozen=True)
class Own(hystart.SlowStartProtocol):
    """A user's: a packet an RTT, and three quarters of what was in flight after a loss."""

    FlowState = Kept

    def flow_hooks(self):
        return {"on_start": windows.flow_on_start, "on_ack": own_on_ack, "on_loss": own_on_loss}


def own_on_ack(flow, header, p, env):
    flow.acks += 1
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            env.window = windows.grown(env.window, 1.0 * env.packet_size, env.acked)


def own_on_loss(flow, header, p, env):
    if env.kind == 0:
        windows.cut(flow, 0.75 * windows.on_the_way(env), env)
    else:
        windows.time_out(flow, windows.halved(windows.on_the_way(env)), env)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [NewReno, CUBIC, BIC, Compound, Own])
def test_it_loses_less_than_slow_start(cls):
    """Over a link with a buffer of two bandwidth-delay products, which five rounds of a quarter's growth still fill."""
    network = ecc.Network.dumbbell("100 Mb/s", [0.05], packet_size=1500, buffer=1_250_000)
    runs = {
        kind: ecc.packet.simulate(Scenario(network, cls(slow_start=kind, transport="sack"), 2.5))
        for kind in ("standard", "hystart++")
    }
    drops = {kind: int(run.drops.sum()) for kind, run in runs.items()}
    assert drops["standard"] > 300 and drops["hystart++"] < 0.26 * drops["standard"]
    assert runs["hystart++"].flows["delivered"][0] > 0.9 * runs["standard"].flows["delivered"][0]


@pytest.mark.slow
@pytest.mark.parametrize("slow_start", ["hystart", "hystart++"])
def test_the_engines_agree_on_a_class_of_a_users(slow_start):
    network = ecc.Network.dumbbell("10 Mb/s", [0.05], packet_size=1500, buffer=60_000)
    given = Scenario(network, Own(slow_start=slow_start), 0.7)
    found, twin = (ecc.packet.simulate(given, engine=engine) for engine in ("c", "python"))
    assert found.stats["digest"] == twin.stats["digest"]
    assert found.stats["digest"] != ecc.packet.simulate(Scenario(network, Own(), 0.7)).stats["digest"]


@pytest.mark.parametrize("cls", [NewReno, CUBIC, BIC, Compound, Own])
def test_what_is_not_there_is_refused_in_one_line(cls):
    with pytest.raises(
        ValueError, match=r"slow_start must be one of 'standard', 'hystart', 'hystart\+\+', 'search', got 'hybrid'"
    ):
        cls(slow_start="hybrid")
    network = ecc.Network.dumbbell("10 Mb/s", [0.05])
    refusal = rf"{cls.__name__}\(slow_start='hystart\+\+'\) has no fluid model: its slow start ends by measurements at"
    if cls is not Own:
        with pytest.raises(ValueError, match=refusal):
            ecc.fluid.simulate(Scenario(network, cls(slow_start="hystart++"), 1.0))
