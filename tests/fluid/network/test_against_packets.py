"""Peak queues, settle times and stationary rates of fluid runs within 5 % of those of packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ecc
from ecc.models import FAST, PIQIRCP, RCP, XCP, JetMax
from ecc.network.network import Network

SETUPS = {
    "THESIS fig. 22": Network.parking_lot(["970 Mb/s", "800 Mb/s"], starts=[0.0, 15.0, 30.0]),
    "EVAL fig. 5": Network.dumbbell("1 Gb/s", [0.22, 0.03], starts=[0.0, 30.0]),
}


@pytest.mark.parametrize("protocol", [RCP(), PIQIRCP()], ids=lambda protocol: type(protocol).__name__)
def test_fluid_and_packets_agree_on_one_link(protocol):
    """A second flow with another RTT joins: peak queues, transient and final rates."""
    network = Network.dumbbell("50 Mb/s", [0.05, 0.12], starts=[0.0, 5.0], packet_size=500)
    fluid, packets = (
        engine.simulate(ecc.Scenario(network, protocol, 12.0, phases="equal"), sample=0.1)
        for engine in (ecc.fluid, ecc.packet)
    )
    peaks = [float(run.queue_max.max()) for run in (fluid, packets)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.05)
    assert np.abs(fluid.rate - packets.rate).isel(time=slice(60, None)).max() < 0.05 * 50e6
    np.testing.assert_allclose(fluid.rate[-10:].mean("time"), packets.rate[-10:].mean("time"), rtol=0.01)


@pytest.mark.slow
def test_JetMax_steps_when_its_packets_do():
    """Rates between steps are those of packets, and steps come when theirs do, but for an interval of the router."""
    found = ecc.compare(ecc.Scenario(SETUPS["EVAL fig. 5"], JetMax(), 33.0), sample=0.05, window=0.05)
    fluid, packets = (run.rate.to_numpy()[605:, 0] for run in (found.fluid, found.packet))
    levels = [580e6, 532e6, 512.8e6, 505.1e6]
    steps = [[0.05 * np.argmax(rates < 1.005 * level) for level in levels] for rates in (fluid, packets)]
    assert steps[0] == pytest.approx(steps[1], abs=0.101) and np.all(np.diff(steps) > 0.2)
    for rates in (fluid, packets):
        assert [rates[np.argmax(rates < 1.005 * level) + 1] for level in levels] == pytest.approx(levels, rel=1e-3)


@pytest.mark.slow
def test_FAST_is_stable_in_packets_and_self_clocked_and_not_over_an_integrator():
    """Queues track windows within an RTT; a queue that integrates rates less capacity lags behind them and swings."""
    network = Network.dumbbell("100 Mb/s", [0.1], starts=[0.0])
    scenario = ecc.Scenario(network, FAST(alpha=100.0, gamma=0.8), 20.0)
    runs = [ecc.fluid.simulate(scenario, clocking=clocking) for clocking in ("ack", "rate")]
    runs.append(ecc.packet.simulate(scenario))
    late = [run.queue.to_numpy()[100:, 0] for run in runs]
    for queue in (late[0], late[2]):
        assert queue == pytest.approx(np.full(100, 100e3), rel=0.05)
    assert late[1].max() > 2.0 * 100e3 and late[1].min() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "setup"),
    [
        (RCP(), "THESIS fig. 22"),
        (PIQIRCP(), "THESIS fig. 22"),
        *((p, "EVAL fig. 5") for p in (RCP(), PIQIRCP(), JetMax())),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_fluid_and_packets_agree(protocol, setup):
    found = ecc.compare(ecc.Scenario(SETUPS[setup], protocol, 60.0), sample=0.05, window=0.5)
    peaks = [run.queue_max.to_numpy().max(axis=0) for run in (found.fluid, found.packet)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.05, abs=3e3)  # three packets
    rates = found.table[found.table["series"] == "rate"]
    assert rates["fluid_end"].to_numpy() == pytest.approx(rates["packet_end"].to_numpy(), rel=0.05)
    settled = [rates[f"{run}_settled"].max() - 30.0 for run in ("fluid", "packet")]
    assert settled[0] == pytest.approx(settled[1], rel=0.05) and np.all(np.array(settled) > 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("setup", ["THESIS fig. 11", pytest.param("EVAL fig. 5", marks=pytest.mark.extensive)])
def test_XCP_agrees_where_packets_are_small(setup):
    """Paced, and with windows that open with the 2000 bytes of two packets: the first two show packet granularity."""
    if setup in SETUPS:
        network, size, joined, until = SETUPS[setup], 500, 30.0, 45.0
    else:
        network = Network.dumbbell("100 Mb/s", [0.12] * 51, delay=0.05, starts=[0.0] + [15.0] * 50)
        size, joined, until = 250, 15.0, 30.0
    network = Network(network.links, [replace(flow, packet_size=size) for flow in network.flows])
    found = []
    for seed in (1, 2, 3):
        scenario = ecc.Scenario(network, XCP(paced=True, initial=2000 / size), until, seed=seed)
        both = ecc.compare(scenario, sample=0.05, window=0.5)
        rates = both.table[both.table["series"] == "rate"]
        assert rates["fluid_end"].to_numpy() == pytest.approx(rates["packet_end"].to_numpy(), rel=0.05)
        found.append(
            [
                (float(getattr(both, run).queue_max.max()), rates[f"{run}_settled"].max() - joined)
                for run in ("fluid", "packet")
            ]
        )
    fluid, packets = np.mean(found, axis=0)
    assert fluid == pytest.approx(packets, rel=0.05) and np.all(packets > 0.0)
