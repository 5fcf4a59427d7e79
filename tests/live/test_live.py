"""Live runs: real frames between namespaces give what the packet engine does, and a run that cannot is void."""

import pytest

import ecc.live
from ecc.errors import EccError
from ecc.models import EDN, QIRCP, ConstantRate, NewReno
from ecc.network.impairments import Aggregation, DeliveryTrace, Shaper
from ecc.network.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.queues import CAKE
from ecc.scenario import Scenario

pytestmark = pytest.mark.usefixtures("namespaces")


def live(scenario, **options):
    """A run that is not void; a machine on which none can be had says nothing about us."""
    run = ecc.live.simulate(scenario, attempts=5, lateness="2 ms", **{"exact": True, **options})
    if run.stats["void"]:
        pytest.skip(f"five runs in a row were void, the last because {run.stats['void']}")
    assert run.is_complete and run.stats["frames_refused"] == 0
    return run


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.slow
def test_two_flows_through_a_router(exact):
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05, 0.08]), QIRCP(), duration=2.0)
    run, packets = live(scenario, exact=exact), simulate(scenario)
    assert run.data.sizes == packets.data.sizes and run.data.attrs["engine"] == "live"
    late = run.goodput[10:].mean("time")
    assert late.to_numpy() == pytest.approx(packets.goodput[10:].mean("time").to_numpy(), rel=0.02)
    assert run.stats["frames_sent"] >= 2.9 * run.stats["data_packets"]  # some are under way
    assert 0.0 < run.stats["lateness_p50"] <= run.stats["lateness_p99"] <= run.stats["lateness_p999"]
    assert run.stats["lateness_p999"] <= 1.1 * run.stats["lateness_max"]


@pytest.mark.slow
def test_several_routers_on_a_route_and_queues_for_acks():
    links = [Link("3 Mb/s", "5 ms"), Link("2 Mb/s", "10 ms"), Link("4 Mb/s", "5 ms"), Link("1 Mb/s", "5 ms")]
    flows = [Flow([0, 1, 2], reverse=[3]), Flow([1]), Flow([0], access_delay=0.004)]
    scenario = Scenario(Network(links, flows), QIRCP(), duration=2.0)
    run, packets = live(scenario), simulate(scenario)
    found = [one.goodput[10:].mean("time").to_numpy() for one in (run, packets)]
    assert found[0] == pytest.approx(found[1], rel=0.03)


@pytest.mark.slow
def test_cake_shapes_real_frames_as_it_shapes_packets():
    """Overload by packets that do not respond: the call in front of them is served, and the rate is the shaper's."""
    network = Network.dumbbell("4 Mb/s", rtts=[0.05, 0.05], packet_size=1000, buffer=50_000)
    hosts = {0: ConstantRate("200 kb/s"), 1: ConstantRate("6 Mb/s", ecn=True)}
    scenario = Scenario(network, {"flows": hosts, "links": {0: CAKE(rate="3 Mb/s", tins="besteffort")}}, 2.0)
    run, packets = live(scenario), simulate(scenario)
    rates = [one.goodput[10:].mean("time").to_numpy() for one in (run, packets)]
    assert rates[0] == pytest.approx(rates[1], rel=0.03) and rates[0].sum() == pytest.approx(3e6, rel=0.02)
    assert float(run.drops.sum()) == pytest.approx(float(packets.drops.sum()), rel=0.1)


@pytest.mark.slow
def test_receivers_with_hooks_are_with_their_senders():
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05, 0.08], buffer="20 kB"), EDN(), duration=2.0)
    run, packets = live(scenario), simulate(scenario)
    found = [float(one.goodput[10:].sum("flow").mean("time")) for one in (run, packets)]
    assert found[0] > 0.5 * found[1]  # a relay over few packets: 1 us of jitter takes 18 % from the simulation, too


@pytest.mark.slow
def test_recorded_fields_are_those_of_the_nodes():
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05]), QIRCP(), duration=1.0)
    run, packets = (one(scenario, record=["link.R", "env.rate"]) for one in (live, simulate))
    for name in ("link.R", "env.rate"):
        assert float(run[name][-1, 0]) == pytest.approx(float(packets[name][-1, 0]), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "impairments",
    [
        [Shaper(0, "1 Mb/s", "5 kB")],
        [DeliveryTrace(0, [0.003, 0.003, 0.017])],
        [Aggregation(("9 ms", "9 ms"), link=0), Aggregation(("5 ms", "5 ms"), acks_of="all")],
    ],
    ids=["shaper", "trace", "bursts"],
)
def test_links_are_served_as_in_packets(impairments):
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05]), NewReno(), 2.0, impairments=impairments)
    run, packets = live(scenario), simulate(scenario)
    found = [float(one.goodput[10:].mean()) for one in (run, packets)]
    assert found[0] == pytest.approx(found[1], rel=0.02)


@pytest.mark.slow
def test_a_run_with_late_packets_is_repeated_and_marked():
    scenario = Scenario(Network.dumbbell("1 Mb/s", rtts=[0.05]), QIRCP(), duration=0.5)
    run = ecc.live.simulate(scenario, lateness=1e-9, attempts=2)
    assert run.stats["attempts"] == 2 and run.stats["void"].startswith("one packet in a thousand was later than")
    assert run.notes[-1] == f"this live run is void: {run.stats['void']}"
    with pytest.raises(EccError, match=r"^live runs are void, 2 of 2: one packet in a thousand was later than"):
        run.raise_if_incomplete()


@pytest.mark.slow
def test_losses_of_the_network_are_no_losses_of_the_kernel():
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05], buffer="10 kB"), NewReno(), duration=2.0)
    run = live(scenario)
    assert run.drops.sum() > 0 and run.stats["frames_lost"] == 0


@pytest.mark.slow
def test_a_burst_longer_than_a_ring_loses_nothing():
    scenario = Scenario(Network.dumbbell("20 Mb/s", rtts=[0.05], packet_size=200), NewReno(initial=4000), duration=0.5)
    run = ecc.live.simulate(scenario, lateness="10 s", attempts=1)
    assert run.stats["frames_sent"] > 4000 and run.stats["frames_lost"] == 0


class FailingHook(QIRCP):
    """QI-RCP whose router fails at a tick."""

    def link_hooks(self):
        return {**super().link_hooks(), "on_interval": divides_by_zero}


def divides_by_zero(link, header, p, env):
    link.R = 1.0 / (env.now - env.now)


@pytest.mark.slow
def test_a_failing_hook_ends_the_run_with_what_it_had():
    scenario = Scenario(Network.dumbbell("1 Mb/s", rtts=[0.05]), FailingHook(), duration=0.5)
    with pytest.warns(RuntimeWarning, match="division by zero.*link 0, on_interval"):
        run = ecc.live.simulate(scenario)
    assert "division by zero" in run.stopped and not run.is_complete and run.stats["attempts"] == 1


@pytest.mark.slow
def test_the_real_clock_never_stops():
    scenario = Scenario(Network.dumbbell("200 kb/s", rtts=[0.1]), QIRCP(), duration=1.0)
    run = ecc.live.simulate(scenario, clock="real", slow=2.0, attempts=1)
    assert run.stats["frozen"] == 0.0 and run.stats["elapsed"] >= 2.0 and run.stats["clock"] == "real"


def test_a_canceled_run_is_not_repeated():
    scenario = Scenario(Network.dumbbell("200 kb/s", rtts=[0.1]), QIRCP(), duration=100.0)
    run = ecc.live.simulate(scenario, cancel=lambda: True, lateness=1e-9)
    assert run.stopped == "canceled" and run.stats["attempts"] == 1 and run.stats["now"] < 100.0


def test_a_network_of_one_node_has_no_frames():
    """The receiver has a hook, and its ACKs go back over the same link."""
    run = ecc.live.simulate(Scenario(Network([Link("1 Mb/s", "5 ms")], [Flow([0], reverse=[0])]), EDN(), duration=0.2))
    assert run.is_complete and run.stats["frames_sent"] == 0 and run.stats["void"] == ""
    assert run.stats["data_packets"] > 0
