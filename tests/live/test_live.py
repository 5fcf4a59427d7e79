"""Live runs: real frames between namespaces give what the packet engine does, and a run that cannot is void."""

import pytest

import ecc.live
from ecc.errors import EccError
from ecc.live.namespaces import ends_of_links
from ecc.models import QIRCP, RCP, NewReno
from ecc.network import Flow, Link, Network
from ecc.packet import simulate
from ecc.scenario import Scenario


@pytest.fixture(scope="module", autouse=True)
def allowed():
    try:
        for end in ends_of_links([(0, 1)], 1500)[0]:
            end.close()
    except EccError as error:
        pytest.skip(str(error))


def live(scenario, **options):
    """A run that is not void; a machine on which none can be had says nothing about us."""
    run = ecc.live.simulate(scenario, attempts=5, lateness=0.01, **options)
    if run.stats["void"]:
        pytest.skip(f"five runs in a row were void, the last because {run.stats['void']}")
    assert run.is_complete and run.stats["frames_refused"] == 0
    return run


@pytest.mark.parametrize("exact", [False, True])
def test_two_flows_through_a_router(exact):
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05, 0.08]), QIRCP(), duration=2.0)
    run, packets = live(scenario, exact=exact), simulate(scenario)
    assert run.data.sizes == packets.data.sizes and run.data.attrs["engine"] == "live"
    late = run.goodput[10:].mean("time")
    assert late.to_numpy() == pytest.approx(packets.goodput[10:].mean("time").to_numpy(), rel=0.02)
    assert run.stats["frames_sent"] >= 2.9 * run.stats["data_packets"]  # some are under way
    assert 0.0 < run.stats["lateness_p50"] <= run.stats["lateness_p99"] <= run.stats["lateness_p999"]
    assert run.stats["lateness_p999"] <= 1.1 * run.stats["lateness_max"]


def test_several_routers_on_a_route_and_queues_for_acks():
    links = [Link("3 Mb/s", "5 ms"), Link("2 Mb/s", "10 ms"), Link("4 Mb/s", "5 ms"), Link("1 Mb/s", "5 ms")]
    flows = [Flow([0, 1, 2], reverse=[3]), Flow([1]), Flow([0], access_delay=0.004)]
    scenario = Scenario(Network(links, flows), RCP(), duration=2.0)
    run, packets = live(scenario), simulate(scenario)
    found = [one.goodput[10:].mean("time").to_numpy() for one in (run, packets)]
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_a_run_with_late_packets_is_repeated_and_marked():
    scenario = Scenario(Network.dumbbell("1 Mb/s", rtts=[0.05]), QIRCP(), duration=0.5)
    run = ecc.live.simulate(scenario, lateness=1e-9, attempts=2)
    assert run.stats["attempts"] == 2 and run.stats["void"].startswith("one packet in a thousand was later than")
    assert run.notes[-1] == f"this live run is void: {run.stats['void']}"


def test_losses_of_the_network_are_no_losses_of_the_kernel():
    scenario = Scenario(Network.dumbbell("2 Mb/s", rtts=[0.05], buffer="10 kB"), NewReno(), duration=2.0)
    run = live(scenario)
    assert run.drops.sum() > 0 and run.stats["frames_lost"] == 0


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"slow": 0.0}, r"^slow must be > 0 and finite, got 0$"),
        ({"clock": "fast"}, r"^clock must be one of 'steady', 'real', got 'fast'$"),
        ({"lateness": 0.0}, r"^lateness must be > 0 s, got 0 s$"),
        ({"attempts": 0}, r"^attempts must be >= 1, got 0$"),
    ],
)
def test_refusals(options, refused):
    scenario = Scenario(Network.dumbbell("1 Mb/s", rtts=[0.05]), QIRCP(), duration=0.5)
    with pytest.raises(ValueError, match=refused):
        ecc.live.simulate(scenario, **options)
