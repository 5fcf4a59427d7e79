"""Cycles near a Hopf bifurcation: periodic orbits and runs against the predicted amplitude."""

from dataclasses import replace

import pytest

from ecc.claims.checks.open.hopf_bifurcation import UNEQUAL, fundamental, integral_orbit, proportional_orbit, swing
from ecc.models import PIQIRCP, QIRCP, Kelly
from ecc.network.network import Network
from ecc.stability import hopf


def net(*rtts):
    return Network.dumbbell("100 Mb/s", list(rtts or (0.1, 0.1)))


def test_orbits_come_to_the_prediction_as_the_square_root():
    """Above for QI-RCP, stable; below for PIQI-RCP, unstable."""
    for protocol, orbit, side, k in ((QIRCP(), integral_orbit, 1, 0), (PIQIRCP(), proportional_orbit, -1, 1)):
        found = hopf(protocol, net())
        assert found.is_supercritical is (side > 0)
        errors = []
        for far in (0.004, 0.001):
            gain = (1.0 + side * far) * found.value
            there = orbit(protocol, found, gain)
            assert there.is_stable is (side > 0)
            assert there.period == pytest.approx(found.period(gain), rel=0.4 * far)
            errors.append(abs(fundamental(there, k) / found.amplitude(gain) - 1.0))
        assert errors[1] < 1e-3 and 3.5 < errors[0] / errors[1] < 4.5  # of the order of the distance


@pytest.mark.slow
def test_disturbances_part_at_the_unstable_cycle():
    hard = PIQIRCP(gamma=0.5)
    found = hopf(hard, net())
    below = replace(hard, alpha=0.99 * found.value)
    assert found.amplitude(below.alpha) == pytest.approx(0.0605, abs=1e-4)
    assert swing(below, 0.03) < 0.03 and swing(below, 0.1) > 0.3


@pytest.mark.slow
def test_runs_settle_on_the_predicted_cycle():
    gentle = QIRCP(gamma=0.5, interval=0.001)
    found = hopf(gentle, net())
    assert swing(replace(gentle, alpha=1.01 * found.value), 0.05) == pytest.approx(
        found.amplitude(1.01 * found.value), rel=0.02
    )
    assert swing(replace(gentle, alpha=0.99 * found.value), 0.05) < 0.01
    for protocol, gain in ((QIRCP(gamma=0.5), "alpha"), (Kelly(steepness=4.0), "kappa")):
        found = hopf(protocol, net(), gain, "discrete")
        beyond = replace(protocol, **{gain: 1.01 * found.value})
        assert swing(beyond, 0.1, time="discrete") == pytest.approx(found.amplitude(1.01 * found.value), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol, gain",
    [
        (PIQIRCP(gamma=0.5), "alpha"),
        pytest.param(Kelly(), "kappa", marks=pytest.mark.extensive),
        (QIRCP(gamma=0.5), "alpha"),
    ],
)
def test_recurrences_of_unlike_rtts_settle_on_the_predicted_cycle(protocol, gain):
    found = hopf(protocol, net(*UNEQUAL), gain, "discrete")
    beyond = replace(protocol, **{gain: 1.003 * found.value})
    ends = swing(beyond, 0.1, rtts=UNEQUAL, duration=1500.0, time="discrete")
    assert ends == pytest.approx(found.amplitude(1.003 * found.value), rel=0.03)
