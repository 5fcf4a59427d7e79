"""The oscillation at a boundary: closed forms, periodic orbits, and runs on both sides."""

from math import pi, sqrt

import numpy as np
import pytest

from ecc.errors import LinearizationError
from ecc.laws.arguments import law_arguments
from ecc.laws.jets import taylor
from ecc.models import DCQCN, DCTCP, EMKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, PowerTCP
from ecc.network.network import Network
from ecc.stability import critical_gain, hopf

DATA_CENTER = Network.dumbbell("25 Gb/s", ["16 us", "16 us"], buffer="50 kB")


def net(*rtts):
    return Network.dumbbell("100 Mb/s", list(rtts or (0.1, 0.1)))


@pytest.mark.parametrize("rtt", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("gamma", [0.5, 0.95])
def test_hutchinson(rtt, gamma):
    """x' = -alpha x(t - 1)(1 + x): Hassard, Kazarinoff and Wan's amplitude sqrt(40 (alpha - pi/2)/(3 pi - 2))."""
    found = hopf(QIRCP(gamma=gamma), net(rtt))
    assert found.value == pytest.approx(pi / 2, rel=1e-12) and found.is_supercritical
    assert found.frequency == pytest.approx(pi / 2 / rtt, rel=1e-12)
    assert found.lyapunov * rtt == pytest.approx(pi / 80 * (2 - 3 * pi) / (1 + pi**2 / 4), rel=1e-9)
    assert found.detuning * rtt == pytest.approx(-pi / 80 * (6 + pi) / (1 + pi**2 / 4), rel=1e-9)
    assert found.speed * rtt == pytest.approx(pi / 2 / (1 + pi**2 / 4), rel=1e-9)
    assert found.turn * rtt == pytest.approx(1 / (1 + pi**2 / 4), rel=1e-9)
    assert found.amplitude(1.6) == pytest.approx(sqrt(40 * (1.6 - pi / 2) / (3 * pi - 2)), rel=1e-9)
    assert np.isnan(found.amplitude(1.5))


def test_recurrence_without_delay_in_closed_form():
    """D = 2 steps: R[n] = R[n - 1] (1 + g (1 - R[n - 2])), the delayed logistic map, turns at g = 1 by exp(j pi/3)."""
    found = hopf(QIRCP(), net(0.02), time="discrete")
    assert found.value == pytest.approx(2.0, rel=1e-9) and found.frequency == pytest.approx(pi / 3, rel=1e-9)
    assert found.is_supercritical  # Aronson, Chory, Hall and McGehee (1982)
    gain = 1.002 * found.value
    x = [1.01, 1.01]
    for _ in range(40_000):
        x.append(x[-1] * (1.0 + gain / 2.0 * (1.0 - x[-2])))
    assert np.ptp(x[-2000:]) / 2.0 == pytest.approx(found.amplitude(gain), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol, parameter, time",
    [
        (PIQIRCP(), "alpha", "continuous"),
        (PIQIRCP(), "alpha", "discrete"),
        (RCP(alpha=0.4), "beta", "continuous"),
        (RCP(alpha=0.4), "beta", "discrete"),
    ],
)
def test_scales(protocol, parameter, time):
    rtts = (0.02, 0.05)
    found = hopf(protocol, net(*rtts), parameter, time)
    assert found.value == critical_gain(protocol, net(*rtts), parameter, time).value
    many = hopf(protocol, Network.dumbbell("7 Gb/s", list(rtts) * 3), parameter, time)
    assert many.lyapunov == pytest.approx(found.lyapunov, rel=1e-6)
    assert many.speed == pytest.approx(found.speed, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: hopf(QIRCP(), net(), time="hybrid"), ValueError, "time must be 'continuous' or 'discrete'"),
        (lambda: hopf(QIRCP(), Network.T4()), ValueError, "network must have one link, got"),
        (lambda: hopf(JetMax(), net(), "tau", "discrete"), ValueError, "laws must be nonlinear; those of JetMax"),
        (lambda: hopf(XCP(), net(), "beta"), ValueError, "the router of XCP takes the rate of each flow"),
        (
            lambda: hopf(DCQCN(), DATA_CENTER),
            ValueError,
            "^the kind of loop of DCQCN must be one of explicit",
        ),
        (lambda: hopf(PowerTCP(), DATA_CENTER), ValueError, "one of explicit .*, granted windows, got paced windows$"),
        (lambda: hopf(RCP(), net(), "alpha"), ValueError, "alpha of RCP must lose stability somewhere"),
        (lambda: hopf(QIRCP(), net(0.01), time="discrete"), ValueError, "must lose stability by an oscillation"),
        (lambda: hopf(EMKC(), net(), "beta", "discrete"), ValueError, "must lose stability by an oscillation"),
        (
            lambda: hopf(EMKC(interval=0.01), net(0.02), "beta", "discrete"),
            LinearizationError,
            "the loop of EMKC has no simple root at its boundary, beta = 2",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_law_that_bends_has_no_coefficient():
    law, p = XCP(gamma=0.0).router_law, XCP(gamma=0.0).namespace()
    known = {"x": 5e7, "y": 1e8, "q": 0.0, "N_all": 2.0, "C": 1e8, "d": 0.1, "T": 0.1, "p": p}
    assert set(law_arguments(law)) == set(known)
    assert np.isnan(taylor(law, known, {"y": 1.0})[2])


def test_the_gain_is_the_main_parameter_by_default():
    class Renamed(QIRCP):
        main_parameter = "floor"

    with pytest.raises(ValueError, match="^floor of Renamed must lose stability somewhere"):
        hopf(Renamed(), net(0.1))
    with pytest.raises(ValueError, match="^DCTCP has no equilibrium to linearize at"):
        hopf(DCTCP(), net(0.1))
