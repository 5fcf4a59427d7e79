"""Hosts that are machines of states, as fluid: what their hooks are given, what they set, and BBR's versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ecc
from ecc import Network, Scenario
from ecc.contract.forms import StateMachine
from ecc.fluid import simulate
from ecc.models import BBR, BBRv1, BBRv2, NewReno
from ecc.models.shared.windows import WindowProtocol
from ecc.network.impairments import RandomLoss

C, RTT = 10e6, 0.04


@dataclass
class Heard:
    """What a machine has been told."""

    count: float = 0.0
    rtt: float = 0.0
    delivery_rate: float = 0.0
    acked: float = 0.0
    lost: float = 0.0
    share: float = 0.0
    flight: float = 0.0
    index: float = -1.0


def listen(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.count += 1.0
    flow.rtt = env.rtt
    flow.delivery_rate = env.delivery_rate
    flow.acked += env.acked
    flow.lost += env.lost
    flow.share = max(flow.share, env.loss)
    flow.flight = env.in_flight
    flow.index = env.flow
    env.rate = p.rate * (1.0 + env.flow)
    env.window = 8.0 * p.most


@dataclass(frozen=True)
class Listener(WindowProtocol):
    rate: float = 2e6
    most: float = 1e9

    fluid_form = StateMachine(listen, Heard)
    slow_start_law = None
    loss_response_law = None

    def params(self) -> dict[str, float]:
        return {"rate": self.rate, "most": self.most}


RECORD = [f"flow.{name}" for name in ("rtt", "delivery_rate", "acked", "lost", "share", "flight", "index")]


def heard(protocol, network, duration=4.0, **how):
    run = simulate(Scenario(network, protocol, duration, **how), sample=0.1, record=RECORD)
    return run, {name.removeprefix("flow."): run.data[name].to_numpy() for name in RECORD}


def test_a_machine_hears_of_the_path_what_acks_tell():
    run, found = heard(Listener(), Network.dumbbell(C, rtts=[RTT, 2 * RTT], buffer=10**9))
    assert run.rate.to_numpy()[5:] == pytest.approx(np.tile([2e6, 4e6], (35, 1)), rel=1e-6)
    assert found["index"][-1] == pytest.approx([0.0, 1.0])
    assert found["rtt"][-1] == pytest.approx([RTT, 2 * RTT], rel=1e-6)
    assert found["delivery_rate"][-1] == pytest.approx([2e6, 4e6], rel=1e-6)
    assert found["flight"][-1] == pytest.approx([2e6 * RTT, 4e6 * 2 * RTT], rel=1e-2)
    assert found["acked"][-1] == pytest.approx([2e6 * (4.0 - RTT), 4e6 * (4.0 - 2 * RTT)], rel=1e-2)
    assert (found["lost"] == 0.0).all() and (found["share"] == 0.0).all()


def test_a_queue_grows_by_what_is_too_much_and_its_drops_are_heard_of():
    """Twice 10 Mb/s over one of 10 Mb/s: the share lost is a half once the buffer is full."""
    run, found = heard(Listener(rate=20e6 / 3), Network.dumbbell(C, rtts=[RTT, RTT], buffer=125_000))
    assert float(run.queue[-1, 0]) == pytest.approx(125_000, rel=1e-6)
    assert found["share"][-1] == pytest.approx(0.5, rel=1e-3)
    assert found["rtt"][-1] == pytest.approx(RTT + 0.1, rel=1e-3)
    assert found["delivery_rate"][-1] == pytest.approx([C / 3, 2 * C / 3], rel=1e-3)
    # until a queue is full and an RTT later: (2 C - C) t = 1 Mbit
    assert found["lost"][-1].sum() == pytest.approx(C * (4.0 - 0.1 - (RTT + 0.1)), rel=0.02)


def test_a_window_bounds_what_is_in_flight():
    run, found = heard(Listener(rate=1e8, most=12_500.0), Network.dumbbell(C, rtts=[RTT], buffer=10**9))
    assert found["flight"][5:] == pytest.approx(8 * 12_500.0, rel=0.02)
    assert run.rate.to_numpy()[10:].mean() == pytest.approx(8 * 12_500.0 / RTT, rel=0.01)


def test_losses_of_chance_and_of_disciplines_are_heard_of():
    network = Network.dumbbell(C, rtts=[RTT], buffer=10**9)
    _, found = heard(Listener(), network, impairments=[RandomLoss(link=0, probability=0.1)])
    assert found["share"][-1] == pytest.approx(0.1, rel=1e-3)
    red = ecc.queues.RED(min_threshold=0.0, max_threshold=100.0, p_max=0.5, weight=1.0, packet_size=1000)
    run, found = heard({"flows": Listener(rate=1.2 * C), "links": red}, network, 20.0)
    assert found["share"][-1] == pytest.approx(1.0 / 6.0, rel=0.02)  # what is sent beyond the capacity
    assert run.drops.sum() > 0


def test_machines_run_beside_windows():
    network = Network.dumbbell(C, rtts=[RTT, RTT], buffer=100_000)
    protocol = {"flows": {0: Listener(rate=4e6), 1: NewReno(transport="sack")}}
    run = simulate(Scenario(network, protocol, 30.0), sample=1.0, record=["flow.rtt", "env.window"])
    assert run.goodput.to_numpy()[10:].mean(axis=0) == pytest.approx([4e6, 6e6], rel=0.03)
    assert np.isnan(run.data["flow.rtt"].to_numpy()[:, 1]).all()
    assert run.data["env.window"].to_numpy()[-1, 1] > 20_000


@dataclass
class Whole:
    """A field that is no float."""

    count: int = 0


@dataclass
class Taken:
    """A field whose name laws have for something else."""

    w: float = 0.0


@pytest.mark.parametrize(
    ("form", "how", "kind", "message"),
    [
        (StateMachine(listen, Whole), {}, TypeError, "Listens's Whole.count must be float for a fluid run"),
        (
            StateMachine(listen, Taken),
            {},
            ValueError,
            "Listens's Taken must not have fields with names that laws reserve, got w",
        ),
        (Listener.fluid_form, {"start": "equilibrium"}, ValueError, "start must be 'empty' for hosts that are"),
        (Listener.fluid_form, {"clocking": "rate"}, ValueError, "clocking must be 'ack' for hosts that are machines"),
        (
            Listener.fluid_form,
            {"time": "discrete"},
            ValueError,
            "time must be 'continuous' for hosts that are machines",
        ),
        (Listener.fluid_form, {"record": ["flow.x"]}, ValueError, "record must name states of this fluid .env.window"),
    ],
)
def test_what_machines_are_not_is_refused(form, how, kind, message):
    protocol = type("Listens", (Listener,), {"fluid_form": form})()
    with pytest.raises(kind, match=message):
        simulate(Scenario(Network.dumbbell(C, rtts=[RTT]), protocol, 1.0), **how)


# ---- BBR -------------------------------------------------------------------------------------------------------------


def alone(protocol, buffer=4.0, duration=9.0, record=()):
    network = Network.dumbbell(C, rtts=[RTT], buffer=int(buffer * C * RTT / 8))
    return simulate(Scenario(network, protocol, duration), sample=0.005, record=record).data


def test_version_1_probes_up_and_down_in_turn_by_its_index():
    """Flow i of N probes in RTT i mod 6 of a period of eight; each has a link for itself."""
    links = [ecc.Link(C, RTT / 2, buffer=int(4 * C * RTT / 8))] * 2
    network = Network(links, [ecc.Flow(route=[0]), ecc.Flow(route=[1])])
    run = simulate(Scenario(network, BBRv1(), 9.0), sample=0.005, record=["flow.began", "flow.bw", "flow.min_rtt"])
    late = run.data.sel(time=slice(5.0, None))
    gain = late["rate"].to_numpy() / late["flow.bw"].to_numpy()
    for flow in range(2):
        since = (late["time"].to_numpy() - late["flow.began"].to_numpy()[:, flow]) / late["flow.min_rtt"].to_numpy()[
            :, flow
        ]
        inside = np.abs(since % 1.0 - 0.5) < 0.3
        rounds = np.floor(since)
        for k, expected in ((flow, 1.25), (flow + 1, 0.75)):
            assert np.median(gain[inside & (rounds == k), flow]) == pytest.approx(expected, rel=0.03)
    assert set(np.unique(np.floor(since))) == set(range(8))


def test_version_1_alone_fills_the_link_with_little_queue():
    data = alone(BBRv1(), record=["flow.bw", "flow.min_rtt"]).sel(time=slice(3.0, None))
    assert data["flow.bw"].to_numpy() == pytest.approx(C, rel=0.02)
    assert data["flow.min_rtt"].to_numpy() == pytest.approx(RTT, rel=1e-3)
    assert float(data["goodput"].mean()) > 0.99 * C
    assert float(data["queue"].mean()) < 0.2 * C * RTT / 8


@pytest.mark.parametrize(("protocol", "gain"), [(BBRv2(), 1.2475), (BBR(), 1.4)], ids=["v2", "v3"])
def test_versions_2_and_3_bound_what_they_probe_with(protocol, gain):
    """UP ends at 5/4 of what fits, or, of version 3, where three rounds at 5/4 do not help."""
    data = alone(protocol, record=["flow.phase", "flow.state"])
    steady = data.sel(time=slice(1.0, 5.0))
    up = steady["flow.phase"].to_numpy()[:, 0] == 2.0
    assert 0.005 < up.mean() < 0.1
    most = float(steady["queue_max"].max()) / (C * RTT / 8)
    assert gain - 1.0 - 0.05 < most < gain - 1.0 + 0.7
    assert float(steady["goodput"].mean()) > 0.95 * C
    probing = data["flow.state"].to_numpy()[:, 0] == 3.0
    assert 5.0 < float(data["time"][np.argmax(probing)]) < 5.4


def test_version_1_loses_a_fifth_in_a_buffer_of_one_product_and_nothing_in_seven():
    """Scherrer et al., sec. 5: ten flows whose windows are two products each; version 2 loses a tenth of that."""
    delays = np.linspace(0.005, 0.01, 10)
    found = {}
    for buffer, protocol in ((1, BBRv1()), (7, BBRv1()), (1, BBRv2())):
        flows = [ecc.Flow(route=[0], access_delay=float(one), packet_size=1514) for one in delays]
        network = Network([ecc.Link("100 Mb/s", "10 ms", buffer=buffer * 125_000)], flows)
        data = simulate(Scenario(network, protocol, 9.0), sample=0.01).data.sel(time=slice(4.0, None))
        lost = float(data["drops"].sum()) * 1514 * 8 / (float(data["arrival"].sum()) * 0.01)
        found[buffer, type(protocol).__name__] = lost
    assert 0.15 < found[1, "BBRv1"] < 0.25
    assert found[7, "BBRv1"] == 0.0
    assert found[1, "BBRv2"] < 0.05


def test_version_2_ends_startup_at_losses_and_measures_over_an_rtt():
    """Beside Reno, which pauses after losses: neither its Startup nor these pauses are its rate for long."""
    flows = [ecc.Flow(route=[0], access_delay=float(one), packet_size=1514) for one in np.linspace(0.005, 0.01, 5)] * 2
    network = Network([ecc.Link("100 Mb/s", "10 ms", buffer=500_000)], flows)
    hosts = {"flows": {"0-4": BBRv2(), "5-9": NewReno(transport="rack", initial=10.0)}}
    run = simulate(Scenario(network, hosts, 6.0), sample=0.01, record=["flow.state", "flow.bw"])
    state, bw = (run.data[name].to_numpy()[:, :5] for name in ("flow.state", "flow.bw"))
    assert state[50:].min() > 0.0  # Startup is over in half a second
    assert bw[200:].max() < 0.3 * 100e6
    goodput = run.goodput.to_numpy()[400:]
    assert 0.3 < goodput[:, :5].sum() / goodput.sum() < 0.65


@pytest.mark.parametrize("protocol", [BBRv1(), BBRv2(), BBR()], ids=["v1", "v2", "v3"])
def test_a_least_rtt_of_ten_seconds_is_forgotten(protocol):
    """Beside Reno, whose queue is there as ProbeRTT looks: what it finds is the least RTT from then on."""
    network = Network.dumbbell(C, rtts=[RTT, RTT], buffer=int(4 * C * RTT / 8))
    hosts = {"flows": {0: protocol, 1: NewReno(transport="rack")}}
    run = simulate(Scenario(network, hosts, 13.0), sample=0.1, record=["flow.min_rtt"])
    least = run.data["flow.min_rtt"].to_numpy()[:, 0]
    assert least[5:95] == pytest.approx(RTT, rel=1e-3)
    assert least[-1] > 1.2 * RTT


@pytest.mark.parametrize("flows", [2, 4, 6])
def test_version_1_loses_what_adjacent_phases_measure(flows):
    """Flow i + 1 probes as flow i drains and measures 5/4 C/N, the first 5/4 C/(N + 1/4): docs/bbr_fluid.md."""
    network = Network.dumbbell("100 Mb/s", rtts=[RTT] * flows, buffer=int(0.5 * 100e6 * RTT / 8))
    data = simulate(Scenario(network, BBRv1(), 9.0), sample=0.05).data.sel(time=slice(4.0, None))
    lost = float(data["drops"].sum()) * 8000 / (float(data["arrival"].sum()) * 0.05)
    sent = 1.25 * (flows - 1) / flows + 1.25 / (flows + 0.25)
    assert lost == pytest.approx(1.0 - 1.0 / sent, abs=0.01)
