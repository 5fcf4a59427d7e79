"""The measurements of the check of `open-sawtooth`, against runs whose losses are known."""

import numpy as np
import pytest

import ecc
from ecc.claims.checks.open.tcp_sawtooth import decay, differences, loss_ratio, overflows, reductions, shared
from ecc.models import NewReno


def test_the_decay_of_a_sequence_is_its_ratio():
    values = 80.0 * 0.5 ** np.arange(8) * (-1.0) ** np.arange(8)
    assert decay(values, 1, 5.0, 90.0) == pytest.approx(0.5, rel=1e-12)
    assert decay(values, 2, 5.0, 90.0) == pytest.approx(0.25, rel=1e-12)


def test_one_flow_reduces_its_window_at_each_overflow():
    net = shared(1, 60_000)
    scenario = ecc.Scenario(net, NewReno(transport="sack"), duration=60.0)
    run = ecc.packet.simulate(scenario, sample=0.02, record=["env.window"])
    at, reduced = overflows(run), reductions(run, 0, 25.0)
    assert len(reduced) == len(at[at > 25.0]) == 3
    assert np.all(np.abs(reduced - at[at > 25.0]) < 0.4)


@pytest.mark.slow
def test_differences_of_two_flows_halve_and_equal_rtts_lose_together():
    assert decay(differences(NewReno(transport="sack")), 1, 5.0, 90.0) == pytest.approx(0.5, abs=0.05)
    assert loss_ratio(1.0, 1000) == (1.0, 1.0)
    assert loss_ratio(4.0, None) == (0.5, 0.5)
