"""First losses of families that are not affine in the gain, proven over whole ranges of gains, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

import ecc
from ecc.linear import DelaySystem, stability_limit
from ecc.models import PIQIRCP, QIRCP
from ecc.stability import critical_gain

NOTE = "provided that between sampled values no coefficient or delay curves more than its second differences there"


def largest(system):
    """The largest modulus of a root, by numpy's eigenvalues of the companion matrix."""
    n, steps = system.size, int(system.delays.max()) + 1
    whole = np.eye(n * steps, k=-n)
    for delay, matrix in zip(system.delays.astype(int), system.matrices, strict=True):
        whole[:n, n * delay : n * (delay + 1)] += matrix
    return float(np.abs(np.linalg.eigvals(whole)).max())


@pytest.mark.slow
@pytest.mark.parametrize("protocol, kind", [(QIRCP(), "hybrid"), (PIQIRCP(), "hybrid"), (PIQIRCP(), "continuous")])
def test_critical_intervals_of_two_rtts_are_certified(protocol, kind):
    """Delays in steps change a hundred thousand times below the value, and delays that are sums pass RTTs."""
    network = ecc.Network.dumbbell("1 Gb/s", [0.1, 0.2])
    loss = critical_gain(protocol, network, "interval", time=kind, certify=True)
    low, high = loss.certified
    assert low < loss.value < high < low * (1.0 + 1e-9)
    assert len([note for note in loss.notes if note.startswith("certified for interval from ") and NOTE in note]) == 1
    for share in (0.01, 0.03, 0.1, 0.3, 0.7, 1.0 - 1e-6, 1.0 + 1e-6) if kind == "hybrid" else ():
        system = ecc.linearize(replace(protocol, interval=share * loss.value), network, kind)
        assert (largest(system) < 1.0) is (share < 1.0)


@pytest.mark.parametrize("one, two", [(0.9, 0.4), (0.7, 0.9), (0.7, -0.5)])
def test_a_delay_that_passes_another(one, two):
    """x' = -0.1 x - one x(t - g) - two x(t - 1): the first g at which some j w is a root, by a fine grid of w."""
    loss = stability_limit(lambda g: DelaySystem([-0.1, -one, -two], [0.0, g, 1.0]), certify=True, maximum=50.0)

    def size(w):
        return np.abs(1j * w + 0.1 + two * np.exp(-1j * w)) - one

    w = np.linspace(1e-9, 2.0, 200_001)
    at = np.flatnonzero(np.diff(np.sign(size(w))))
    roots = [brentq(size, w[i], w[i + 1], xtol=1e-15) for i in at]
    gains = [-np.angle(-(1j * w + 0.1 + two * np.exp(-1j * w)) / one) % (2.0 * np.pi) / w for w in roots]
    assert loss.value == pytest.approx(min(gains), rel=1e-9) and loss.value > 1.0
    assert loss.certified[0] < min(gains) < loss.certified[1]
