"""The engines against each other: boundaries and growth rates of runs equal those of the linear models."""

from dataclasses import replace
from functools import partial
from math import log, pi
from types import SimpleNamespace

import pytest

import ecc
from ecc.errors import ConvergenceError
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP
from ecc.network.network import Network
from ecc.stability import critical_gain, measured_boundary, perturbed_run

ROOMY = QIRCP(gamma=0.8)
FAST = Network.dumbbell("1 Gb/s", rtts=[0.04, 0.04])


def test_a_perturbed_run_of_windows_begins_with_the_queue_of_their_equilibrium():
    """Their feedback is summed along the path; the link with the highest utilization is the one observed."""
    links = [ecc.Link("40 Mb/s", "5 ms"), ecc.Link("20 Mb/s", "20 ms")]
    network = ecc.Network(links, [ecc.Flow([0, 1])] * 4)
    run = perturbed_run(ecc.models.FAST(alpha=20.0), network, 0.5, periods=6.0, perturbation=0.1)
    assert run.link == 1
    assert run.trajectory.stats["warmup_end"] == 0.0 and run.trajectory.queue[0, 1] > 60_000


@pytest.mark.slow
def test_packets_lose_stability_where_the_hybrid_model_does():
    hybrid = critical_gain(ROOMY, FAST, "alpha", "hybrid")
    period = 2 * pi / hybrid.frequency * ROOMY.interval
    found = measured_boundary(ROOMY, FAST, "alpha", 0.96 * hybrid.value, 1.04 * hybrid.value, period)
    assert found.value == pytest.approx(hybrid.value, rel=0.005)


@pytest.mark.parametrize("edge", [1.001, 1.1, 1.7, 0.93, 0.4])
def test_runs_may_be_made_elsewhere_and_a_bracket_moves_apart_to_hold_the_boundary(edge):
    made = []

    def run(protocol, network, period):
        made.append(protocol.alpha)
        return SimpleNamespace(stability=SimpleNamespace(growth_rate=3.0 * (protocol.alpha - edge), error=1e-3))

    found = measured_boundary(QIRCP(), FAST, "alpha", 0.98, 1.02, 0.2, run=run)
    assert found.value == pytest.approx(edge, rel=1e-9) and found.gains.tolist() == sorted(made)
    assert len(made) == len(set(made)) <= (4 if edge == 1.001 else 12) and made[0] == 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "rtts"),
    [
        (ROOMY, [0.12, 0.12]),
        (ROOMY, [0.06, 0.15]),
        (PIQIRCP(gamma=0.8), [0.12, 0.12]),
    ],
)
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_packets_grow_and_decay_as_fast_as_the_hybrid_model(protocol, rtts, factor):
    network = Network.dumbbell("500 Mb/s", rtts=rtts)
    hybrid = critical_gain(protocol, network, "alpha", "hybrid")
    moved = replace(protocol, alpha=factor * hybrid.value)
    run = perturbed_run(moved, network, 2 * pi / hybrid.frequency * protocol.interval, periods=60.0)
    expected = log(linearize(moved, network, "hybrid").spectral_radius) / protocol.interval
    assert run.stability.status == ("stable" if factor < 1 else "unstable")
    assert run.stability.growth_rate == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_fluid_grows_and_decays_as_fast_as_the_continuous_model(factor):
    protocol, network = QIRCP(alpha=factor * pi / 2, gamma=0.8), Network.dumbbell("1 Gb/s", rtts=[0.12, 0.12])
    run = perturbed_run(protocol, network, 0.48, engine="fluid", floor=2e-4)
    expected = linearize(protocol, network).spectral_abscissa
    assert run.stability.growth_rate == pytest.approx(expected, rel=0.05)


def test_bad_input():
    with pytest.raises(ValueError, match="engine must be one of packet, fluid, live, got 'ns-2'"):
        perturbed_run(ROOMY, FAST, 0.2, engine="ns-2")
    with pytest.raises(ValueError, match="rtol must be given to fluid runs only, got engine 'packet'"):
        perturbed_run(ROOMY, FAST, 0.2, rtol=1e-8)
    with pytest.raises(ValueError, match="slow must be given to live runs only, got engine 'fluid'"):
        perturbed_run(ROOMY, FAST, 0.2, engine="fluid", slow=2.0)
    with pytest.raises(ConvergenceError, match="no stability limit found for gamma"):
        measured_boundary(
            QIRCP(alpha=0.5), FAST, "gamma", 0.5, 0.6, 0.2, max_runs=2, run=partial(perturbed_run, periods=20.0)
        )
    with pytest.raises(ConvergenceError, match="fewer than two growth rates of alpha near its limit are fitted"):
        measured_boundary(QIRCP(gamma=0.8), FAST, "alpha", 0.5, 2.5, 0.2, 0.9, run=partial(perturbed_run, periods=20.0))
    with pytest.raises(
        ValueError, match="parameter must be one of alpha, interval, gamma, initial, floor, rtt_gain, got"
    ):
        critical_gain(ROOMY, FAST, "beta")
