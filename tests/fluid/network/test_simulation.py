"""Fluid runs of protocols: equilibria, rates of decay, conservation, symmetry and scale."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import ecc
from ecc.fluid import simulate
from ecc.loops.closed_loop import linearize
from ecc.models import BIC, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, NewReno
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network
from ecc.results.transients import decay
from ecc.scenario import Scenario
from ecc.traffic.workload import Workload

PROTOCOLS = {
    "RCP": RCP(),
    "RCP-1": RCP(queue_term=False),
    "RCP-2": RCP(rtt="max"),
    "QI-RCP": QIRCP(),
    "PIQI-RCP": PIQIRCP(),
}
NETWORKS = {
    "dumbbell": Network.dumbbell("100 Mb/s", rtts=[0.12, 0.05, 0.3]),
    "parking lot": Network.parking_lot(["970 Mb/s", "800 Mb/s"]),
    "T_u": Network.T_u(),
}
TIMES = ("continuous", "discrete")


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_the_equilibrium_is_a_fixed_point(protocol, network, time):
    run = simulate(Scenario(network, protocol, 20.0), start="equilibrium", time=time)
    point = protocol.equilibrium(network)
    assert run.stats["stopped"] == "completed"
    assert np.allclose(run.rate.to_numpy(), point.rates, rtol=1e-6)
    assert np.allclose(run.goodput.to_numpy(), point.rates, rtol=1e-6)
    assert np.all(run.bottleneck.to_numpy()[-1] == point.bottleneck)
    assert run.queue_max.to_numpy().max() < 1.0 and not run.drops.to_numpy().any()


def test_decay_on_two_links():
    # d is weighted by rates, as packets weight it
    network = Network.parking_lot(["100 Mb/s", "80 Mb/s"])
    protocol = QIRCP(alpha=1.1)
    rates = protocol.equilibrium(network).rates
    weights = network.incidence * rates[:, None]
    mean_rtt = (weights * network.rtts[:, None]).sum(axis=0) / weights.sum(axis=0)
    expected = linearize(protocol, network, mean_rtt=mean_rtt).roots(1)[0]
    run = simulate(Scenario(network, protocol, 4.0), sample=0.05, start="equilibrium", perturbation=1e-4, rtol=1e-10)
    at = run.data["time"].to_numpy()
    inside = at > 1.0
    found = decay(at[inside], run.arrival.to_numpy()[inside, 1] / (0.95 * 80e6) - 1.0)
    assert found.rate == pytest.approx(expected.real, rel=1e-2)


@pytest.mark.parametrize("time", TIMES)
def test_growth_just_beyond_the_boundary(time):
    network = Network.dumbbell("100 Mb/s", [0.1])
    boundary = {"continuous": np.pi / 2, "discrete": 20 * np.sin(np.pi / 38)}[time]
    for factor, grows in ((0.99, False), (1.01, True)):
        scenario = Scenario(network, QIRCP(alpha=factor * boundary), 20.0)
        run = simulate(scenario, sample=0.01, time=time, start="equilibrium", perturbation=1e-4, rtol=1e-9)
        deviation = np.abs(run.arrival.to_numpy()[:, 0] / 95e6 - 1.0)
        assert (deviation[-200:].max() > deviation[200:400].max()) == grows


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_max_min_from_an_empty_start(protocol, time):
    network = Network.parking_lot(["97 Mb/s", "80 Mb/s"], starts=[0.0, 5.0, 10.0])
    run = simulate(Scenario(network, protocol, 60.0), time=time)
    share = protocol.params().get("gamma", 1.0)
    assert run.rate.to_numpy()[-1] == pytest.approx(share * max_min(network), rel=2e-3)
    assert run.bottleneck.to_numpy()[-1].tolist() == [1, 0, 1]
    before = run.data["time"].to_numpy() < 5.0
    assert not run.rate.to_numpy()[before, 1:].any()
    assert np.all(run.bottleneck.to_numpy()[before, 1] == -1)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("protocol", [RCP(), PIQIRCP()], ids=["RCP", "PIQI-RCP"])
def test_nothing_is_lost_uncounted(protocol, time):
    network = Network(
        [Link("100 Mb/s", "10 ms", "200 kB"), Link("60 Mb/s", "20 ms", "100 kB")],
        [Flow([0, 1]), Flow([0], start=3.0), Flow([1], start=3.0), Flow([0], start=3.0, stop=9.0)],
    )
    run = simulate(Scenario(network, protocol, 20.0), time=time, rtol=1e-9)
    queue = run.queue.to_numpy()
    buffers = np.array([200e3, 100e3])
    assert np.all(queue >= 0.0) and np.all(queue <= buffers) and np.all(run.queue_max.to_numpy() <= buffers)
    assert run.drops.to_numpy().sum() > 0.0
    arrived = run.arrival.to_numpy() * 0.1 / 8.0
    dropped = run.drops.to_numpy() * 1000.0
    # a link passes on at most its capacity; what it passes on is what came, less drops and what waits
    passed = arrived - dropped - np.diff(queue, axis=0, prepend=0.0)
    capacity = network.capacities * 0.1 / 8.0
    assert np.all(passed <= capacity * (1.0 + 1e-6)) and np.all(passed >= -1e-3)
    # what flows sent is delivered, lost, queued or on the wire
    sent = run.rate.to_numpy().sum() * 0.1 / 8.0
    delivered, lost = run.flows["delivered"].sum(), run.flows["lost"].sum()
    assert lost == pytest.approx(dropped.sum(), rel=1e-6)
    assert 0.0 <= sent - delivered - lost - queue[-1].sum() <= 2.0 * network.rtts.max() * 160e6 / 8.0
    assert run.goodput.to_numpy().sum() * 0.1 / 8.0 == pytest.approx(delivered, rel=1e-9)


@pytest.mark.parametrize("time", TIMES)
def test_relabeling_flows_permutes_the_result(time):
    flows = [
        Flow([0, 1]),
        Flow([1], access_delay=0.03),
        Flow([0], start=2.0),
        Flow([1], access_delay=0.03),
        Flow([0], start=1.0, stop=6.0),
    ]
    links = [Link("100 Mb/s", "20 ms"), Link("50 Mb/s", "30 ms")]
    order = [3, 0, 4, 2, 1]
    runs = [
        simulate(Scenario(Network(links, chosen), PIQIRCP(), 15.0), time=time)
        for chosen in (flows, [flows[i] for i in order])
    ]
    assert np.allclose(runs[0].rate.to_numpy()[:, order], runs[1].rate.to_numpy(), rtol=1e-4)
    assert np.allclose(runs[0].queue.to_numpy(), runs[1].queue.to_numpy(), rtol=1e-4, atol=10.0)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("protocol", [RCP(), PIQIRCP()], ids=["RCP", "PIQI-RCP"])
def test_rates_scale_with_capacities(protocol, time):
    base = Network.dumbbell("10 Mb/s", rtts=[0.1, 0.2], starts=[0.0, 5.0], packet_size=1000)
    large = Network.dumbbell("2.56 Gb/s", rtts=[0.1, 0.2], starts=[0.0, 5.0], packet_size=256000)
    runs = [simulate(Scenario(network, protocol, 15.0), time=time) for network in (base, large)]
    assert np.allclose(256.0 * runs[0].rate.to_numpy(), runs[1].rate.to_numpy(), rtol=1e-9)
    assert np.allclose(256.0 * runs[0].queue.to_numpy(), runs[1].queue.to_numpy(), rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("protocol", [RCP(), QIRCP(), PIQIRCP()], ids=["RCP", "QI-RCP", "PIQI-RCP"])
def test_googol_bits_a_second(protocol, time):
    run = simulate(Scenario(Network.dumbbell(1e100, rtts=[0.1] * 3), protocol, 60.0), time=time)
    share = protocol.params().get("gamma", 1.0)
    assert run.rate.to_numpy()[-1] == pytest.approx(share * 1e100 / 3.0, rel=1e-3)


@pytest.mark.parametrize("time", TIMES)
def test_equal_flows_move_alike_whatever_their_number(time):
    many = simulate(Scenario(Network.dumbbell("100 Mb/s", rtts=[0.1] * 50), QIRCP(floor=0.0), 10.0), time=time)
    assert np.ptp(many.rate.to_numpy(), axis=1).max() == 0.0
    assert many.rate.to_numpy()[-1].sum() == pytest.approx(95e6, rel=1e-2)


@pytest.mark.parametrize("time", TIMES)
def test_a_flow_ends_when_its_size_is_sent(time):
    network = Network.dumbbell("10 Mb/s", rtts=[0.1, 0.1], sizes=["1 MB", None])
    run = simulate(Scenario(network, QIRCP(), 20.0), time=time)
    row = run.flows.iloc[0]
    assert row["delivered"] == pytest.approx(1e6, rel=1e-6)
    assert row["completion_time"] == pytest.approx(row["finish"] - row["start"])
    idle = run.data["time"].to_numpy() > row["finish"] + 0.2
    assert idle.sum() > 100 and not run.rate.to_numpy()[idle, 0].any()
    assert run.rate.to_numpy()[-1, 1] == pytest.approx(9.5e6, rel=1e-3)
    assert np.isnan(run.flows["finish"].iloc[1]) and np.isnan(run.flows["size"].iloc[1])


@pytest.mark.parametrize("time", TIMES)
def test_an_assigned_flow_heeds_its_link_only(time):
    # flow 0 takes half of link 0, though link 1 offers it less
    network = Network.parking_lot(["100 Mb/s", "80 Mb/s"])
    run = simulate(Scenario(network, QIRCP(), 30.0, assignment=[0, 0, 1]), time=time)
    assert np.all(run.bottleneck.to_numpy()[-1] == [0, 0, 1])
    assert run.rate.to_numpy()[-1] == pytest.approx([47.5e6, 47.5e6, 28.5e6], rel=1e-3)


def test_queues_keep_their_order():
    # one flow at a fixed rate over a full link: what it delivers is the capacity, what it sees is the wait
    network = Network.dumbbell("10 Mb/s", rtts=[0.1, 0.1], delay=0.02, stops=[None, 8.0])
    run = simulate(Scenario(network, RCP(alpha=0.05, beta=0.0001, initial=1.0), 30.0), rtol=1e-8)
    goodput, queue = run.goodput.to_numpy().sum(axis=1), run.queue.to_numpy()[:, 0]
    assert queue.max() > 1e4
    busy = (queue[1:] > 1e3) & (queue[:-1] > 1e3)
    assert goodput[1:][busy] == pytest.approx(10e6, rel=1e-3)
    assert goodput.max() <= 10e6 * (1.0 + 1e-3)


def test_samples_do_not_change_the_run():
    scenario = Scenario(NETWORKS["dumbbell"], RCP(), 20.0)
    fine, coarse = (simulate(scenario, sample=sample) for sample in (0.1, 1.0))
    assert fine.stats["steps"] == coarse.stats["steps"]
    averaged = fine.rate.to_numpy().reshape(20, 10, -1).mean(axis=1)
    assert np.allclose(averaged, coarse.rate.to_numpy(), rtol=1e-9)
    assert fine.queue_max.to_numpy().reshape(20, 10).max(axis=1) == pytest.approx(
        coarse.queue_max.to_numpy()[:, 0], rel=1e-3, abs=1.0
    )


def test_tolerance_decides_the_error():
    scenario = Scenario(NETWORKS["dumbbell"], PIQIRCP(), 10.0)
    exact = simulate(scenario, rtol=1e-11).rate.to_numpy()[5:]
    errors = [np.abs(simulate(scenario, rtol=rtol).rate.to_numpy()[5:] / exact - 1.0).max() for rtol in (1e-4, 1e-8)]
    assert errors[0] < 1e-2 and errors[1] < 1e-5 and errors[1] < 0.1 * errors[0]


@pytest.mark.parametrize("time", TIMES)
def test_the_result_says_where_it_comes_from(time):
    reports = []
    scenario = Scenario(NETWORKS["dumbbell"], RCP(), 5.0, seed=7)
    run = simulate(scenario, time=time, progress=reports.append)
    assert reports[-1] == 1.0
    attributes = run.data.attrs
    assert (attributes["engine"], attributes["time"], attributes["protocol"], attributes["seed"]) == (
        "fluid",
        time,
        "RCP",
        7,
    )
    assert Scenario.from_toml(attributes["scenario"]).protocol == scenario.protocol
    assert {"steps", "rejected", "cpu_seconds", "stopped"} <= set(run.stats)
    assert run.data["time"].to_numpy() == pytest.approx(0.1 * np.arange(1, 51))


@pytest.mark.parametrize("time", TIMES)
def test_an_interrupted_run_keeps_what_it_had(time):
    def stop(share):
        raise KeyboardInterrupt

    network = NETWORKS["dumbbell"]
    run = simulate(Scenario(network, RCP(), 10.0), time=time, progress=stop)
    assert run.stopped == "interrupted"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "weekly"}, "time must be one of 'continuous', 'averaged', 'discrete'"),
        ({"clocking": "sun"}, "clocking must be one of 'ack', 'rate', got 'sun'"),
        ({"clocking": "rate"}, "clocking applies to window protocols only, got 'rate'"),
        ({"start": "late"}, "start must be one of 'empty', 'equilibrium'"),
        ({"sample": 0.0}, "sample must be > 0"),
        ({"sample": 100.0}, "sample must be <= the duration .10 s., got 100 s"),
        ({"perturbation": 0.1}, "perturbation belongs to start='equilibrium'"),
        ({"perturbation": -2.0, "start": "equilibrium"}, "perturbation must be > -1"),
        ({"rtol": 0.0}, "rtol must be"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        simulate(Scenario(NETWORKS["dumbbell"], RCP(), 10.0), **change)


def test_workloads_are_refused():
    scenario = Scenario(NETWORKS["dumbbell"], RCP(), 10.0, workload=Workload([Flow([0], size=1000)]))
    with pytest.raises(ValueError, match="workload must be None"):
        simulate(scenario)
    with pytest.raises(TypeError, match="scenario must be a Scenario"):
        simulate(NETWORKS["dumbbell"])
    with pytest.raises(ValueError, match="RTTs must be > 0 s for a fluid run"):
        simulate(replace(scenario, workload=None, network=Network.dumbbell("1 Mb/s", rtts=[0.0])))


def test_states_of_laws_are_recorded():
    net = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1])
    scenario = Scenario(net, RCP(), 5.0)
    plain, found = simulate(scenario), simulate(scenario, record=["link.R"])
    assert np.array_equal(plain.rate, found.rate)
    assert float(found["link.R"][-1, 0]) == pytest.approx(5e6, rel=1e-3)  # of two flows
    windows = Scenario(net, BIC(), 5.0)
    plain = simulate(windows)
    found = simulate(windows, record=["env.window", "flow.m"])
    assert np.array_equal(plain.rate, found.rate) and np.array_equal(plain.queue, found.queue)
    assert found["env.window"].dims == ("time", "flow") and float(found["env.window"].min()) >= 1000.0
    half = simulate(windows, sample=0.05, record=["env.window"])["env.window"][1::2]
    assert abs(half.to_numpy() / found["env.window"].to_numpy() - 1.0).max() < 0.2


@pytest.mark.parametrize(
    ("protocol", "time", "share"),
    [(JetMax(), "continuous", 1.0), (MKC(), "continuous", None), (QIRCP(), "discrete", 0.95)],
)
def test_fluids_in_steps_record_the_rates_that_they_send_at(protocol, time, share):
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05, 0.05, 0.1]), protocol, 20.0)
    plain = simulate(scenario, sample=0.01, time=time)
    found = simulate(scenario, sample=0.01, time=time, record=["flow.x", "link.R"])
    assert all(np.array_equal(plain[name], found[name], equal_nan=True) for name in plain.data)
    sent, x = found.rate.to_numpy(), found["flow.x"].to_numpy()
    settled = slice(1500, None)
    assert x.shape == sent.shape
    assert x[settled] == pytest.approx(sent[settled], rel=1e-3)
    assert abs(x[20:200] / np.maximum(sent[20:200], 1.0) - 1.0).max() > 1e-3 or time == "discrete"  # states, not means
    if share is not None:  # what a router offers each of three flows
        assert float(found["link.R"][-1, 0]) == pytest.approx(x[-1, 0], rel=1e-6)
    coarse = simulate(scenario, sample=0.1, time=time, record=["flow.x", "link.R"])
    for name in ("flow.x", "link.R"):
        assert np.array_equal(coarse[name], found[name][9::10])


def test_xcp_records_windows_and_round_trips():
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1]), XCP(), 30.0)
    names = ["env.window", "env.srtt", "link.d"]
    found = simulate(scenario, record=names)
    assert np.array_equal(simulate(scenario).rate, found.rate)
    last = {name: found[name].to_numpy()[-1] for name in names}
    assert 8.0 * last["env.window"] / last["env.srtt"] == pytest.approx(found.rate.to_numpy()[-1], rel=0.02)
    assert last["env.srtt"] == pytest.approx([0.05, 0.1], rel=0.05)
    assert 0.05 < last["link.d"][0] < 0.1


@pytest.mark.parametrize(
    ("protocol", "time", "names", "message"),
    [
        (RCP(), "continuous", ["flow.x"], r"must name states of this fluid \(link.R\), got 'flow.x'"),
        (XCP(), "continuous", ["link.R"], r"\(env.window, env.srtt, link.d\), got 'link.R'"),
        (JetMax(), "continuous", ["env.window"], r"\(flow.x, link.R\), got 'env.window'"),
        (MKC(), "continuous", ["link.y"], r"\(flow.x, link.R\), got 'link.y'"),
        (JetMax(), "discrete", ["link.y"], r"\(flow.x\), got 'link.y'"),
        (NewReno(), "continuous", ["flow.m"], r"\(env.window\), got 'flow.m'"),
        (RCP(), "continuous", ["link.R", "link.R"], "record must name each state once, got link.R, link.R"),
    ],
)
def test_what_a_fluid_does_not_keep_is_not_recorded(protocol, time, names, message):
    scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1]), protocol, 5.0)
    with pytest.raises(ValueError, match=message):
        simulate(scenario, time=time, record=names)
    with pytest.raises(TypeError, match="record must be a sequence.*, got 'link.R'"):
        simulate(scenario, time=time, record="link.R")


@pytest.mark.slow
def test_progress_is_reported_while_a_large_run_goes_on(monkeypatch):
    scenario = Scenario(Network.dumbbell("100 Mb/s", rtts=np.linspace(0.05, 0.2, 60)), QIRCP(), 5.0)
    shares, whole = [], simulate(scenario)
    monkeypatch.setattr("ecc.fluid.network.result.perf_counter", count().__next__)  # every turn has taken a second
    run = simulate(scenario, progress=shares.append)
    assert len(shares) > 3 and shares == sorted(shares) and shares[-1] == 1.0
    assert np.array_equal(run.rate, whole.rate)


@pytest.mark.parametrize(("protocol", "how"), [(XCP(), {}), (RCP(), {}), (QIRCP(), {"time": "discrete"})], ids=str)
def test_a_canceled_run_holds_what_it_had(protocol, how, monkeypatch):
    monkeypatch.setattr("ecc.fluid.network.result.perf_counter", lambda: 0.0)  # turns grow as fast as they may
    scenario = Scenario(ecc.Network.dumbbell("10 Mb/s", [0.1, 0.2]), protocol, 2000.0)
    calls, whole = [], simulate(scenario.with_(duration=1.0), **how)
    run = simulate(scenario, cancel=lambda: calls.append(1) or len(calls) > 1, **how)
    assert run.stopped == "canceled" and not run.is_complete and len(calls) == 2
    assert 0 < len(run.rate) < 20000
    same = min(len(run.rate), len(whole.rate))
    np.testing.assert_allclose(run.rate[:same], whole.rate[:same], rtol=1e-6)  # the solver's tolerance
    assert simulate(scenario.with_(duration=1.0), cancel=lambda: False, **how).is_complete


def test_both_engines_take_the_same_arguments():
    given = [list(inspect.signature(one.simulate).parameters.values()) for one in (ecc.fluid, ecc.packet)]
    common = ("scenario", "sample", "start", "perturbation", "record", "progress", "cancel")
    for parameters in given:
        assert tuple(one.name for one in parameters[:7]) == common
        assert [one.kind is one.KEYWORD_ONLY for one in parameters] == [False] * 4 + [True] * (len(parameters) - 4)
    assert [one.default for one in given[0][:7]] == [one.default for one in given[1][:7]]
