"""Characteristic loci: the identity with the determinants, and encirclements against the certified count."""

from __future__ import annotations

import numpy as np
import pytest

from ecc import Network
from ecc.linear import DelaySystem, SampledSystem, characteristic_loci, return_ratio
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP

LOT = Network.parking_lot(["10 Mb/s", "8 Mb/s", "12 Mb/s"], delay="20 ms")


def random_loop(seed, links=3, sampled=False):
    """Integrators that all affect each other over delays, cut at their inputs."""
    rng = np.random.default_rng(seed)
    gains = rng.uniform(0.1, 1.0, (links, links)) + np.diag(rng.uniform(0.5, 1.5, links))
    scale = rng.uniform(0.2, 2.5)
    delays = rng.integers(1, 9, (links, links)) if sampled else rng.uniform(0.05, 1.0, (links, links))
    parts, taus = [np.eye(links) if sampled else np.zeros((links, links))], [0]
    for i in range(links):
        for j in range(links):
            matrix = np.zeros((links, links))
            matrix[i, j] = -gains[i, j] * scale * (0.15 if sampled else 1.0)
            parts.append(matrix)
            taus.append(delays[i, j])
    kind = SampledSystem if sampled else DelaySystem
    return kind(parts, taus, opened=kind(parts[:1], taus[:1]))


SYSTEMS = {
    "parking lot, discrete": lambda: linearize(PIQIRCP(alpha=0.8), LOT, "discrete"),
    "parking lot, continuous": lambda: linearize(PIQIRCP(alpha=2.0, tau1=0.4), LOT, "continuous"),
    "parking lot, hybrid": lambda: linearize(QIRCP(alpha=2.2), LOT, "hybrid"),
    "T_u": lambda: linearize(QIRCP(alpha=1.2), Network.T_u(), "discrete"),
    "T_u, another assignment": lambda: linearize(PIQIRCP(alpha=0.6, tau1=0.5), Network.T_u(), "continuous"),
    "random": lambda: random_loop(1),
    "random, sampled": lambda: random_loop(2, sampled=True),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_determinant_of_the_return_difference(name):
    system = SYSTEMS[name]()
    rng = np.random.default_rng(0)
    s = rng.uniform(0.05, 1.0, 20) + 1j * rng.uniform(-3.0, 3.0, 20)
    at = np.exp(s) if isinstance(system, SampledSystem) else s
    q = return_ratio(system, at)
    assert q.shape[0] == 20 and q.shape[1] == q.shape[2]
    ratio = system.characteristic(at) / system.opened.characteristic(at)
    np.testing.assert_allclose(np.linalg.det(np.eye(q.shape[1]) + q), ratio, rtol=1e-9)
    np.testing.assert_allclose(ratio - 1.0, system.open_loop(at), atol=1e-9)


def test_one_cut_a_router():
    assert return_ratio(linearize(PIQIRCP(), LOT, "discrete"), 1.1).shape == (3, 3)
    single = linearize(PIQIRCP(), Network.dumbbell("1 Gb/s", [0.1, 0.2]), "discrete")
    z = np.exp(1j * np.linspace(0.1, 3.0, 5))
    np.testing.assert_allclose(return_ratio(single, z)[:, 0, 0], single.open_loop(z), rtol=1e-10)


@pytest.mark.parametrize("name", SYSTEMS)
def test_encirclements_of_networks(name):
    system = SYSTEMS[name]()
    loci = characteristic_loci(system)
    assert loci.unstable == system.certify().unstable
    assert loci.values.shape == (len(loci.omega), return_ratio(system, 1.1).shape[0])
    q = return_ratio(system, np.exp(1j * loci.omega[-1]) if isinstance(system, SampledSystem) else 1j * loci.omega[-1])
    np.testing.assert_allclose(np.sort_complex(loci.values[-1]), np.sort_complex(np.linalg.eigvals(q)), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, True])
def test_encirclements_of_random_loops(sampled):
    counts = set()
    for seed in range(16):
        system = random_loop(seed, links=2 + seed % 3, sampled=sampled)
        truth = system.certify().unstable
        assert characteristic_loci(system).unstable == truth, seed
        counts.add(truth)
    assert 0 in counts and max(counts) >= 2


def test_open_loop_with_an_unstable_root():
    """x' = x(t) - k x(t - 0.2): one unstable root without feedback, none with enough."""
    loop = DelaySystem([1.0, -2.0], [0.0, 0.2], opened=DelaySystem([1.0], [0.0]))
    loci = characteristic_loci(loop)
    assert (loci.open_unstable, loci.encirclements, loci.unstable) == (1, -1, 0)


def test_branches_are_continuous_and_given_where_asked():
    system = SYSTEMS["random"]()
    loci = characteristic_loci(system)
    a, b = loci.values[1:], loci.values[:-1]
    assert (2 * np.abs(a - b) / np.sqrt((1 + np.abs(a) ** 2) * (1 + np.abs(b) ** 2))).max() < 0.11
    asked = np.array([0.3, 1.0, 2.5])
    given = characteristic_loci(system, asked)
    assert given.omega.tolist() == asked.tolist()
    np.testing.assert_allclose(
        np.sort_complex(given.values[1]), np.sort_complex(np.linalg.eigvals(return_ratio(system, 1.0j))), rtol=1e-10
    )


def test_bad_input_in_one_line():
    with pytest.raises(ValueError, match="built without opened="):
        characteristic_loci(DelaySystem([-1.0], [1.0]))
    with pytest.raises(ValueError, match="omega must be one-dimensional and increasing from above 0"):
        characteristic_loci(random_loop(0), [1.0, 0.5])
