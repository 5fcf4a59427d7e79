"""HyStart++ against RFC 9406's rules, and under several hosts, one of a user's own."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import ecc
from ecc.models import BIC, CUBIC, Compound, NewReno
from ecc.models.shared import hystart, windows
from ecc.scenario import Scenario

S = 1000.0  # bytes


def test_hystart_by_its_rules():
    """Rounds of 10 ACKs; RTTs of 100, then 113 ms: 12.5 ms more make it conservative; a shorter RTT resumes it."""
    flow, given = hystart.FlowState(), NewReno(slow_start="hystart++")
    on_ack, p = given.flow_hooks()["on_ack"], given.namespace()

    def one_round(at, rtt):
        at.rtt = rtt
        for _ in range(10):
            at.delivered += 1000
            on_ack(flow, None, p, at)

    at = SimpleNamespace(
        window=10 * S, in_flight=10_000, packet_size=1000, acked=1000, rtt=0.1, delivered=0, recovering=0, recovered=0,
        undone=0, ece=0, unsent=1 << 62,
    )  # fmt: skip
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


@dataclass
class Kept(hystart.FlowState):
    acks: int = 0


@dataclass(frozen=True)
class Own(hystart.SlowStartProtocol):
    """A user's: a packet an RTT, and three quarters of what was in flight after a loss."""

    FlowState = Kept

    def flow_hooks(self):
        return self._hosts(own_on_ack, own_on_loss)


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


def test_the_engines_agree_on_a_class_of_a_users():
    network = ecc.Network.dumbbell("10 Mb/s", [0.05], packet_size=1500, buffer=60_000)
    given = Scenario(network, Own(slow_start="hystart++"), 0.7)
    found, twin = (ecc.packet.simulate(given, engine=engine) for engine in ("c", "python"))
    assert found.stats["digest"] == twin.stats["digest"]
    assert found.stats["digest"] != ecc.packet.simulate(Scenario(network, Own(), 0.7)).stats["digest"]


@pytest.mark.parametrize("cls", [NewReno, CUBIC, BIC, Compound, Own])
def test_what_is_not_there_is_refused_in_one_line(cls):
    with pytest.raises(ValueError, match=r"slow_start must be one of 'standard', 'hystart\+\+', got 'hybrid'"):
        cls(slow_start="hybrid")
    network = ecc.Network.dumbbell("10 Mb/s", [0.05])
    refusal = rf"{cls.__name__}\(slow_start='hystart\+\+'\) has no fluid model: its slow start ends by RTTs of"
    if cls is not Own:
        with pytest.raises(ValueError, match=refusal):
            ecc.fluid.simulate(Scenario(network, cls(slow_start="hystart++"), 1.0))
