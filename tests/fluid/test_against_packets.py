"""Peak queues, settle times and stationary rates of fluid runs within 5 % of those of packets."""

from __future__ import annotations

import numpy as np
import pytest

import ecc
from ecc.models import PIQIRCP, RCP
from ecc.network import Network

SETUPS = {
    "THESIS fig. 22": Network.parking_lot(["970 Mb/s", "800 Mb/s"], starts=[0.0, 15.0, 30.0]),
    "EVAL fig. 5": Network.dumbbell("1 Gb/s", [0.22, 0.03], starts=[0.0, 30.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("network", SETUPS.values(), ids=SETUPS)
@pytest.mark.parametrize("protocol", [RCP(), PIQIRCP()], ids=["RCP", "PIQI-RCP"])
def test_fluid_and_packets_agree(protocol, network):
    found = ecc.compare(ecc.Scenario(network, protocol, 60.0), sample=0.05, window=0.5)
    peaks = [run.queue_max.to_numpy().max(axis=0) for run in (found.fluid, found.packet)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.05)
    rates = found.table[found.table["series"] == "rate"]
    assert rates["fluid_end"].to_numpy() == pytest.approx(rates["packet_end"].to_numpy(), rel=0.05)
    settled = [rates[f"{run}_settled"].max() - 30.0 for run in ("fluid", "packet")]
    assert settled[0] == pytest.approx(settled[1], rel=0.05) and np.all(np.array(settled) > 0.0)
