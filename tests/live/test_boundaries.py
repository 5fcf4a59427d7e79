"""Stability boundaries on real frames are those of the hybrid model."""

from functools import partial
from math import pi

import pytest

from ecc.errors import EccError
from ecc.models import QIRCP
from ecc.network.network import Network
from ecc.stability import critical_gain, measured_boundary, perturbed_run


@pytest.mark.slow
def test_growth_on_real_frames_changes_its_sign_at_the_hybrid_boundary():
    protocol, network = QIRCP(gamma=0.8), Network.dumbbell("50 Mb/s", rtts=[0.04, 0.04], packet_size=500)
    hybrid = critical_gain(protocol, network, "alpha", "hybrid")
    period = 2.0 * pi / hybrid.frequency * protocol.interval
    run = partial(perturbed_run, periods=24.0, engine="live", perturbation=0.04, floor=6e-3, ceiling=0.1, attempts=6)
    try:
        found = measured_boundary(
            protocol, network, "alpha", 0.97 * hybrid.value, 1.03 * hybrid.value, period, 0.5, run=run
        )
    except EccError as error:
        if not str(error).startswith("live runs "):  # which says that there are none here, or that all were void
            raise
        pytest.skip(str(error))
    assert found.value == pytest.approx(hybrid.value, rel=0.03)
